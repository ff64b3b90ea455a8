//! The types and operators by name.

use super::builtin::{Band, Bor, Bxor, Land, Lor, Lxor, Max, Maxloc, Min, Minloc, Prod, Sum};
use super::located::{DoubleInt, F32Index, F64Index, FloatInt, I32Index, I64Index, LongInt, ShortInt};
use super::located::{TwoDouble, TwoInt, TwoReal, U32Index, U64Index};
use crate::error::{Error, Result, argument};
use half::{bf16, f16};
use num_complex::Complex;
use std::any::TypeId;
use std::fmt;
use std::str::FromStr;

/// An enum whose variants have names, and all of them as a list.
macro_rules! named {
    ($(#[$doc:meta])* $enum:ident $what:literal: $($variant:ident $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $enum {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl $enum {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As the tool knows it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $enum {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::ALL.iter().find(|v| v.name() == text).copied().ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|v| v.name()).collect();
                    argument(format!("there is no {} {text:?}", $what)).help(format!("one of {}", names.join(", ")))
                })
            }
        }
    };
}

named! {
    /// A built-in operator. What each does with NaN, zeros, overflow: see the type of its name.
    Op "operator":
    Sum "sum", Prod "prod", Min "min", Max "max",
    Land "land", Lor "lor", Lxor "lxor", Band "band", Bor "bor", Bxor "bxor",
    Minloc "minloc", Maxloc "maxloc",
}

/// The enum of types, and what goes from a type to its line.
macro_rules! types {
    ($($variant:ident $name:literal $t:ty: $group:ident,)*) => {
        named! {
            /// An element type that has built-in operators.
            Type "type": $($variant $name,)*
        }

        impl Type {
            /// Bytes of one element.
            pub const fn size(self) -> usize {
                match self { $(Self::$variant => size_of::<$t>(),)* }
            }
        }

        /// The place of a type in the table; pointer-sized integers are those of their size. Folds to a constant.
        #[inline]
        fn place<T: 'static>() -> Option<Type> {
            let this = TypeId::of::<T>();
            $(if this == TypeId::of::<$t>() { return Some(Type::$variant); })*
            if this == TypeId::of::<usize>() { return Type::unsigned(size_of::<usize>()); }
            if this == TypeId::of::<isize>() { return Type::signed(size_of::<isize>()); }
            None
        }

        /// The table's name of a type, else Rust's.
        pub(super) fn type_name<T: 'static>() -> &'static str {
            let known = [$((TypeId::of::<$t>(), $name)),*];
            let found = known.iter().find(|(id, _)| *id == TypeId::of::<T>());
            found.map_or_else(std::any::type_name::<T>, |(_, name)| name)
        }
    };
}

/// Gives a macro the list of types: variant, name, Rust's type, and the group of operators that it has.
macro_rules! for_types {
    ($macro:ident) => {
        $macro! {
            I8 "i8" i8: integer, I16 "i16" i16: integer, I32 "i32" i32: integer, I64 "i64" i64: integer,
            I128 "i128" i128: integer,
            U8 "u8" u8: integer, U16 "u16" u16: integer, U32 "u32" u32: integer, U64 "u64" u64: integer,
            U128 "u128" u128: integer,
            F16 "f16" f16: real, Bf16 "bf16" bf16: real, F32 "f32" f32: real, F64 "f64" f64: real,
            ComplexF32 "complex-f32" Complex<f32>: complex, ComplexF64 "complex-f64" Complex<f64>: complex,
            I32Index "i32-index" I32Index: located, I64Index "i64-index" I64Index: located,
            U32Index "u32-index" U32Index: located, U64Index "u64-index" U64Index: located,
            F32Index "f32-index" F32Index: located, F64Index "f64-index" F64Index: located,
            ShortInt "short-int" ShortInt: located, TwoInt "2int" TwoInt: located,
            LongInt "long-int" LongInt: located, FloatInt "float-int" FloatInt: located,
            DoubleInt "double-int" DoubleInt: located,
            TwoReal "2real" TwoReal: located, TwoDouble "2double" TwoDouble: located,
        }
    };
}
pub(super) use for_types;

for_types!(types);

impl Type {
    fn unsigned(size: usize) -> Option<Self> {
        [Self::U16, Self::U32, Self::U64].into_iter().find(|t| t.size() == size)
    }

    fn signed(size: usize) -> Option<Self> {
        [Self::I16, Self::I32, Self::I64].into_iter().find(|t| t.size() == size)
    }
}

/// The type of an element as ranks compare it: a type of the table, or the size in bytes of any other type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element {
    kind: Option<Type>,
    size: usize,
}

impl Element {
    /// That of `T`.
    #[inline]
    pub fn of<T: 'static>() -> Self {
        Self { kind: place::<T>(), size: size_of::<T>() }
    }

    /// An element of `size` bytes whose type is not in the table.
    pub(super) const fn of_size(size: usize) -> Self {
        Self { kind: None, size }
    }

    /// Whether its type is in the table.
    pub(super) const fn is_in_table(self) -> bool {
        self.kind.is_some()
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        self.size
    }

    /// A number that differs from that of any other element type.
    #[inline]
    pub const fn code(self) -> u64 {
        let kind = match self.kind {
            Some(kind) => kind as u64 + 1,
            None => 0,
        };
        (self.size as u64) << 8 | kind
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => f.pad(kind.name()),
            None => write!(f, "of {} bytes", self.size),
        }
    }
}

/// Whether `O` is one of the built-in operators: a user's may have the same name.
pub(super) fn is_built_in<O: 'static>() -> bool {
    macro_rules! any {
        ($($op:ident)*) => { [$(TypeId::of::<$op>()),*].contains(&TypeId::of::<O>()) };
    }
    any!(Sum Prod Min Max Land Lor Lxor Band Bor Bxor Minloc Maxloc)
}
