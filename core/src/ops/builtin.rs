//! The built-in operators, each for the types where it makes sense.

use super::operator::{Operator, Side};
use super::{float, located};
use half::{bf16, f16};
use num_complex::Complex;

macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name;
    )*};
}

operators! {
    /// a + b. Integers wrap. Floats round to nearest, ties to even, at every step, so their sum depends on the
    /// order of the additions, but a + b and b + a agree to the bit; any NaN gives the canonical NaN. `f16`
    /// and `bf16` are added in `f32` and rounded back. Complex: by parts. Identity: 0, −0.0 for floats.
    Sum
    /// a · b. Integers wrap. Floats as for [`Sum`]. Complex: (ac − bd) + (ad + bc)i without fused operations and
    /// without C's recovery of infinities. Identity: 1; none for complex (∞ · 0 in a part is NaN).
    Prod
    /// The lesser. Floats: minimum of IEEE 754-2019: −0 < +0, any NaN gives the canonical NaN. Associative and
    /// commutative to the bit. Identity: the largest value, +∞ for floats.
    Min
    /// The greater. Floats: maximum of IEEE 754-2019: −0 < +0, any NaN gives the canonical NaN. Associative and
    /// commutative to the bit. Identity: the smallest value, −∞ for floats.
    Max
    /// Logical and: 1 if both are nonzero, else 0. Identity: 1.
    Land
    /// Logical or: 1 if one of them is nonzero, else 0. Identity: 0.
    Lor
    /// Logical exclusive or: 1 if one of them is nonzero and the other zero, else 0. Identity: 0.
    Lxor
    /// Bitwise and. Identity: all ones.
    Band
    /// Bitwise or. Identity: 0.
    Bor
    /// Bitwise exclusive or. Identity: 0.
    Bxor
    /// The pair with the lesser value, of equal values that with the lower index. Floats: −0 < +0, and NaN is
    /// below all: a NaN wins, as the canonical NaN, with the lowest index that has one. Associative and commutative
    /// to the bit. Identity: the largest value (+∞) with the largest index.
    Minloc
    /// The pair with the greater value, of equal values that with the lower index. Floats: −0 < +0, and NaN is
    /// above all: a NaN wins, as the canonical NaN, with the lowest index that has one. Associative and
    /// commutative to the bit. Identity: the smallest value (−∞) with the largest index.
    Maxloc
}

/// `Operator` of one built-in for a list of types; $T names the type in the expressions. `fold` overrides the loop.
macro_rules! implement {
    ($op:ident $name:literal for $($t:ty),*: $T:ident $combine:expr, identity $identity:expr) => {
        $(implement!(@one $op $name $t: $T $combine, $identity,);)*
    };
    ($op:ident $name:literal for $t:ty: $T:ident $combine:expr, identity $identity:expr, fold $fold:expr) => {
        implement!(@one $op $name $t: $T $combine, $identity,
            #[inline]
            fn fold(&self, target: &mut [$T], source: &[$T], _side: Side) {
                $fold(target, source);
            });
    };
    (@one $op:ident $name:literal $t:ty: $T:ident $combine:expr, $identity:expr, $($fold:item)?) => {
        const _: () = {
            type $T = $t;
            impl Operator<$T> for $op {
                #[inline]
                fn combine(&self, left: $T, right: $T) -> $T {
                    let combine: fn($T, $T) -> $T = $combine;
                    combine(left, right)
                }

                fn commutative(&self) -> bool {
                    true
                }

                fn name(&self) -> &str {
                    $name
                }

                fn identity(&self) -> Option<$T> {
                    $identity
                }

                $($fold)?
            }
        };
    };
}

macro_rules! for_integers {
    ($($t:ty)*) => {
        implement!(Sum "sum" for $($t),*: T |a, b| a.wrapping_add(b), identity Some(0));
        implement!(Prod "prod" for $($t),*: T |a, b| a.wrapping_mul(b), identity Some(1));
        implement!(Min "min" for $($t),*: T |a, b| a.min(b), identity Some(T::MAX));
        implement!(Max "max" for $($t),*: T |a, b| a.max(b), identity Some(T::MIN));
        implement!(Land "land" for $($t),*: T |a, b| T::from((a != 0) & (b != 0)), identity Some(1));
        implement!(Lor "lor" for $($t),*: T |a, b| T::from((a | b) != 0), identity Some(0));
        implement!(Lxor "lxor" for $($t),*: T |a, b| T::from((a != 0) ^ (b != 0)), identity Some(0));
        implement!(Band "band" for $($t),*: T |a, b| a & b, identity Some(!0));
        implement!(Bor "bor" for $($t),*: T |a, b| a | b, identity Some(0));
        implement!(Bxor "bxor" for $($t),*: T |a, b| a ^ b, identity Some(0));
    };
}

for_integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

macro_rules! for_floats {
    ($($t:ident)*) => {$(
        implement!(Sum "sum" for $t: T |a, b| float::$t::canonical(a + b), identity Some(-0.0),
            fold float::$t::add);
        implement!(Prod "prod" for $t: T |a, b| float::$t::canonical(a * b), identity Some(1.0),
            fold float::$t::multiply);
        implement!(Min "min" for $t: T |a, b| float::$t::minimum(a, b), identity Some(T::INFINITY),
            fold float::$t::least);
        implement!(Max "max" for $t: T |a, b| float::$t::maximum(a, b), identity Some(T::NEG_INFINITY),
            fold float::$t::greatest);
        implement!(Sum "sum" for Complex<$t>: T |a, b| float::$t::canonical_parts(a + b),
            identity Some(T::new(-0.0, -0.0)));
        implement!(Prod "prod" for Complex<$t>: T |a, b| float::$t::canonical_parts(a * b), identity None);
    )*};
}

for_floats!(f32 f64);

macro_rules! for_short_floats {
    ($($t:ident)*) => {$(
        implement!(Sum "sum" for $t: T |a, b| float::$t::canonical(T::from_f32(a.to_f32() + b.to_f32())),
            identity Some(T::NEG_ZERO), fold float::$t::add);
        implement!(Prod "prod" for $t: T |a, b| float::$t::canonical(T::from_f32(a.to_f32() * b.to_f32())),
            identity Some(T::ONE), fold float::$t::multiply);
        implement!(Min "min" for $t: T |a, b| float::$t::minimum(a, b), identity Some(T::INFINITY));
        implement!(Max "max" for $t: T |a, b| float::$t::maximum(a, b), identity Some(T::NEG_INFINITY));
    )*};
}

for_short_floats!(f16 bf16);

/// The least and the greatest value of a pair, and its highest index.
macro_rules! for_located {
    ($($t:ident $least:expr, $greatest:expr, $last:expr;)*) => {$(
        implement!(Minloc "minloc" for located::$t: T |a, b| T::minloc(a, b),
            identity Some(T::new($greatest, $last)));
        implement!(Maxloc "maxloc" for located::$t: T |a, b| T::maxloc(a, b),
            identity Some(T::new($least, $last)));
    )*};
}

for_located! {
    I32Index i32::MIN, i32::MAX, u32::MAX;
    U32Index u32::MIN, u32::MAX, u32::MAX;
    F32Index f32::NEG_INFINITY, f32::INFINITY, u32::MAX;
    I64Index i64::MIN, i64::MAX, u64::MAX;
    U64Index u64::MIN, u64::MAX, u64::MAX;
    F64Index f64::NEG_INFINITY, f64::INFINITY, u64::MAX;
    ShortInt i16::MIN, i16::MAX, i32::MAX;
    TwoInt i32::MIN, i32::MAX, i32::MAX;
    LongInt i64::MIN, i64::MAX, i32::MAX;
    FloatInt f32::NEG_INFINITY, f32::INFINITY, i32::MAX;
    DoubleInt f64::NEG_INFINITY, f64::INFINITY, i32::MAX;
    TwoReal f32::NEG_INFINITY, f32::INFINITY, float::f32::NAN;
    TwoDouble f64::NEG_INFINITY, f64::INFINITY, float::f64::NAN;
}
