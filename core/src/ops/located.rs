//! Pairs of a value and where it was found, for [`Minloc`](super::Minloc) and [`Maxloc`](super::Maxloc). Where the index is
//! narrower than the value, or begins behind a gap, padding is a field of bytes, which results have zeroed: none leaks, and
//! none differs.

use super::float;
use bytemuck::{Pod, Zeroable};
use std::fmt;

/// What is compared: values, and indices of equal values.
trait Ordered: Copy {
    /// An integer that is ordered as the numbers are, −0 before +0.
    type Key: Ord;
    /// The lowest key. No float that is a number has it.
    const LOWEST: Self::Key;
    /// The highest key, likewise.
    const HIGHEST: Self::Key;

    /// Its key; `nan` for a NaN.
    fn key(self, nan: Self::Key) -> Self::Key;

    /// Itself, or the one NaN.
    fn canonical(self) -> Self;
}

/// Integers are their own key and have no NaN.
macro_rules! ordered_integers {
    ($($t:ident)*) => {$(
        impl Ordered for $t {
            type Key = Self;
            const LOWEST: Self = Self::MIN;
            const HIGHEST: Self = Self::MAX;

            #[inline(always)]
            fn key(self, _nan: Self) -> Self {
                self
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                self
            }
        }
    )*};
}

ordered_integers!(i16 i32 i64 u32 u64);

macro_rules! ordered_floats {
    ($($t:ident $key:ident)*) => {$(
        impl Ordered for $t {
            type Key = $key;
            const LOWEST: $key = $key::MIN;
            const HIGHEST: $key = $key::MAX;

            #[inline(always)]
            fn key(self, nan: $key) -> $key {
                float::$t::key(self, nan)
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                float::$t::canonical(self)
            }
        }
    )*};
}

ordered_floats!(f32 i32 f64 i64);

/// A pair's name, the types of value and index, and bytes of padding between and behind them.
macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident($value:ident $(+ $gap:literal)?, $index:ident $(+ $tail:literal)?);)*) => {$(
        #[doc = concat!("A value of type `", stringify!($value), "` and the index where it was found.")]
        $(#[$doc])*
        #[derive(Clone, Copy, Default, Pod, Zeroable)]
        #[repr(C)]
        pub struct $name {
            /// What is compared.
            pub value: $value,
            $(gap: [u8; $gap],)?
            /// Where it is, as the caller counts; the lower one wins a tie.
            pub index: $index,
            $(tail: [u8; $tail],)?
        }

        impl $name {
            /// `value`, found at `index`. Padding is zero.
            pub const fn new(value: $value, index: $index) -> Self {
                Self { value, $(gap: [0; $gap],)? index, $(tail: [0; $tail],)? }
            }

            /// Of two pairs the one that comes before or, where their values are equal, that with the lower index.
            #[inline(always)]
            fn first(self, before: bool, equal: bool, other: Self) -> Self {
                let lower = self.index.key($index::HIGHEST) < other.index.key($index::HIGHEST);
                let won = if before | (equal & lower) { self } else { other };
                Self::new(won.value.canonical(), won.index.canonical())
            }

            #[inline(always)]
            pub(super) fn minloc(a: Self, b: Self) -> Self {
                let (x, y) = (a.value.key($value::LOWEST), b.value.key($value::LOWEST));
                a.first(x < y, x == y, b)
            }

            #[inline(always)]
            pub(super) fn maxloc(a: Self, b: Self) -> Self {
                let (x, y) = (a.value.key($value::HIGHEST), b.value.key($value::HIGHEST));
                a.first(x > y, x == y, b)
            }
        }

        /// Padding does not count.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.value == other.value && self.index == other.index
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut text = f.debug_struct(stringify!($name));
                text.field("value", &self.value).field("index", &self.index).finish()
            }
        }
    )*};
}

pairs! {
    I32Index(i32, u32);
    U32Index(u32, u32);
    F32Index(f32, u32);
    I64Index(i64, u64);
    U64Index(u64, u64);
    F64Index(f64, u64);
    /// `MPI_SHORT_INT`: 8 bytes.
    ShortInt(i16 + 2, i32);
    /// `MPI_2INT`, and Fortran's `MPI_2INTEGER`: 8 bytes.
    TwoInt(i32, i32);
    /// `MPI_LONG_INT` where a `long` has 64 bits: 16 bytes.
    LongInt(i64, i32 + 4);
    /// `MPI_FLOAT_INT`: 8 bytes.
    FloatInt(f32, i32);
    /// `MPI_DOUBLE_INT`: 16 bytes.
    DoubleInt(f64, i32 + 4);
    /// Fortran's `MPI_2REAL`: 8 bytes. The index is a number of the value's type; a NaN is the highest.
    TwoReal(f32, f32);
    /// Fortran's `MPI_2DOUBLE_PRECISION`: 16 bytes. The index is a number of the value's type; a NaN is the highest.
    TwoDouble(f64, f64);
}
