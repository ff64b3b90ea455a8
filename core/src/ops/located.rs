//! Pairs of a value and where it was found, for [`Minloc`](super::Minloc) and [`Maxloc`](super::Maxloc). The index
//! is as wide as the value, so there is no padding to leak or to differ.

use super::float;
use bytemuck::{Pod, Zeroable};

/// $key gives an integer that is ordered as the values are; its second argument is what a NaN counts as.
macro_rules! pairs {
    ($($name:ident($value:ident, $index:ident), $key:expr => $integer:ident, $canonical:expr;)*) => {$(
        #[doc = concat!("A value of type `", stringify!($value), "` and the index where it was found.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
        #[repr(C)]
        pub struct $name {
            /// What is compared.
            pub value: $value,
            /// Where it is, as the caller counts; the lower one wins a tie.
            pub index: $index,
        }

        impl $name {
            /// `value`, found at `index`.
            pub const fn new(value: $value, index: $index) -> Self {
                Self { value, index }
            }

            #[inline(always)]
            fn first(self, before: bool, equal: bool, other: Self) -> Self {
                let won = if before | (equal & (self.index < other.index)) { self } else { other };
                Self { value: $canonical(won.value), index: won.index }
            }

            #[inline(always)]
            pub(super) fn minloc(a: Self, b: Self) -> Self {
                let (x, y) = ($key(a.value, $integer::MIN), $key(b.value, $integer::MIN));
                a.first(x < y, x == y, b)
            }

            #[inline(always)]
            pub(super) fn maxloc(a: Self, b: Self) -> Self {
                let (x, y) = ($key(a.value, $integer::MAX), $key(b.value, $integer::MAX));
                a.first(x > y, x == y, b)
            }
        }
    )*};
}

/// Integers are their own key and have no NaN.
#[inline(always)]
fn own<T>(value: T, _nan: T) -> T {
    value
}

pairs! {
    I32Index(i32, u32), own => i32, std::convert::identity;
    U32Index(u32, u32), own => u32, std::convert::identity;
    F32Index(f32, u32), float::f32::key => i32, float::f32::canonical;
    I64Index(i64, u64), own => i64, std::convert::identity;
    U64Index(u64, u64), own => u64, std::convert::identity;
    F64Index(f64, u64), float::f64::key => i64, float::f64::canonical;
}
