//! Elements of every type: what ranks contribute, and when a result is right.

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};
use circulant::ops::{self, Complex, IntoReducer, OnBytes, Op, Reducer, Side, Type, bf16, f16};
use circulant::ops::{DoubleInt, F32Index, F64Index, FloatInt, I32Index, I64Index, LongInt, ShortInt};
use circulant::ops::{TwoDouble, TwoInt, TwoReal, U32Index, U64Index};
use std::alloc::Layout;
use std::fmt::Debug;

/// Which values ranks contribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Floats with which every order of a reduction is exact.
    Exact,
    /// Floats with which rounding depends on the order.
    Real,
    /// NaN with payloads, signed zeros, infinities.
    Special,
}

/// An element type with what the driver needs.
pub trait Element: Pod + Debug + Send + Sync {
    /// A built-in type; else a user's, with an operator of ours.
    const KIND: Option<Type>;
    /// What calls on slices of it take for a reducer.
    type By: IntoReducer<Self>;

    fn by(reducer: Reducer) -> Self::By;

    /// What rank `who` contributes; `bits` are random.
    fn make(fill: Fill, op: Op, who: usize, bits: u64) -> Self;

    /// The user's operator.
    fn user(_commutative: bool) -> Reducer {
        unreachable!("a built-in type")
    }

    /// Whether `self` may be what a reduction of `operands` gives that depends on its order.
    fn near(self, _operands: &[Self], _op: Op) -> bool {
        false
    }
}

/// Of elements that are the reducer's.
macro_rules! by_type {
    () => {
        type By = Reducer;

        fn by(reducer: Reducer) -> Reducer {
            reducer
        }
    };
}

/// Of bytes of the reducer's elements.
macro_rules! by_bytes {
    () => {
        type By = OnBytes;

        fn by(reducer: Reducer) -> OnBytes {
            reducer.on_bytes()
        }
    };
}

/// `operands[0] ⊕ operands[1] ⊕ …`, vectors of equal length, from the left.
pub fn fold<T: Element>(reducer: &Reducer, operands: &[Vec<T>]) -> Vec<T> {
    let mut sum = operands[0].clone();
    for next in &operands[1..] {
        let target = bytemuck::cast_slice_mut(&mut sum);
        reducer.reduce(target, bytemuck::cast_slice(next), Side::SourceRight).unwrap();
    }
    sum
}

/// Whether the order of a reduction may show in its result.
pub fn order_shows<T: Element>(fill: Fill, op: Op) -> bool {
    use Type as K;
    let real = matches!(T::KIND, Some(K::F16 | K::Bf16 | K::F32 | K::F64));
    let complex = matches!(T::KIND, Some(K::ComplexF32 | K::ComplexF64));
    match op {
        Op::Sum => (real || complex) && fill == Fill::Real,
        Op::Prod => (real && fill == Fill::Real) || complex,
        _ => false,
    }
}

macro_rules! integers {
    ($by:ident: $($kind:ident $t:ident)*) => {$(
        impl Element for $t {
            const KIND: Option<Type> = Some(Type::$kind);
            $by!();

            fn make(fill: Fill, op: Op, _: usize, bits: u64) -> Self {
                match (fill, op) {
                    (Fill::Special, _) => [0, 1, $t::MAX, $t::MIN, 0][(bits % 5) as usize],
                    // Few factors of two, so that products do not all wrap to 0.
                    (_, Op::Prod) => (bits as $t) | 1,
                    _ => bits as $t,
                }
            }
        }
    )*};
}

integers!(by_type: I8 i8 I16 i16 I32 i32 I64 i64 I128 i128 U16 u16 U32 u32 U64 u64 U128 u128);
integers!(by_bytes: U8 u8);

/// Half of the distance from 1 to the next number is its unit roundoff u; n−1 roundings are within
/// (n−1)u / (1 − (n−1)u) of the exact result, relative to the sum of the absolute values.
fn bound(operands: usize, digits: i32) -> f64 {
    let all = (operands as f64 - 1.0) * (-f64::from(digits)).exp2();
    all / (1.0 - all)
}

/// A sum of multiples of 2^-53, exact: as the integer that they are multiples by.
fn exact_sum(operands: impl Iterator<Item = f64>) -> i128 {
    operands.map(|x| (x * 53f64.exp2()) as i128).sum()
}

fn near_sum(result: f64, operands: &[f64], digits: i32) -> bool {
    let of = |x: i128| x as f64 * (-53f64).exp2();
    let sum = exact_sum(operands.iter().copied());
    let scale = exact_sum(operands.iter().map(|x| x.abs()));
    // The result is such a multiple, too: a sum of numbers has no bit below theirs.
    of((exact_sum([result].into_iter()) - sum).abs()) <= bound(operands.len(), digits) * of(scale)
}

fn near_product(result: f64, operands: &[f64], digits: i32) -> bool {
    let product: f64 = operands.iter().product();
    // Twice, as this product is rounded itself.
    (result - product).abs() <= 2.0 * bound(operands.len(), digits) * product.abs()
}

/// $of makes one of a f64, $to a f64 of one; the significand has $digits bits.
macro_rules! floats {
    ($($kind:ident $t:ident $digits:literal $of:expr, $to:expr;)*) => {$(
        impl Element for $t {
            const KIND: Option<Type> = Some(Type::$kind);
            by_type!();

            fn make(fill: Fill, op: Op, who: usize, bits: u64) -> Self {
                let of: fn(f64) -> $t = $of;
                let unit = (bits >> 11) as f64 * (-53f64).exp2();
                match (fill, op) {
                    (Fill::Special, _) => match bits % 64 {
                        0 => $t::NAN,
                        1 => -$t::from_bits($t::NAN.to_bits() | 5),
                        2 | 3 => $t::INFINITY,
                        4 | 5 => -$t::INFINITY,
                        k => of([0.0, -0.0, 1.0, -1.0][(k % 4) as usize]),
                    },
                    (Fill::Real, Op::Prod) => of(0.75 + unit / 2.0),
                    (Fill::Real, _) => of(2.0 * unit - 1.0),
                    // Powers of two; the product of 17 is in the range of half precision.
                    (Fill::Exact, Op::Prod) if who < 12 => of([1.0, -1.0, 2.0, -0.5][(bits % 4) as usize]),
                    (Fill::Exact, Op::Prod) => of([1.0, -1.0][(bits % 2) as usize]),
                    (Fill::Exact, _) => of((bits % 15) as f64 - 7.0),
                }
            }

            fn near(self, operands: &[Self], op: Op) -> bool {
                let to: fn($t) -> f64 = $to;
                let wide: Vec<f64> = operands.iter().map(|x| to(*x)).collect();
                match op {
                    Op::Sum => near_sum(to(self), &wide, $digits),
                    _ => near_product(to(self), &wide, $digits),
                }
            }
        }
    )*};
}

floats! {
    F16 f16 11 f16::from_f64, f16::to_f64;
    Bf16 bf16 8 bf16::from_f64, bf16::to_f64;
    F32 f32 24 |x| x as f32, f64::from;
    F64 f64 53 |x| x, |x| x;
}

macro_rules! complex {
    ($($kind:ident $t:ident $digits:literal;)*) => {$(
        impl Element for Complex<$t> {
            const KIND: Option<Type> = Some(Type::$kind);
            by_type!();

            fn make(fill: Fill, op: Op, who: usize, bits: u64) -> Self {
                if op == Op::Prod {
                    let (re, im) = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)][(bits % 4) as usize];
                    return Complex::new(re, im);
                }
                Complex::new($t::make(fill, op, who, bits), $t::make(fill, op, who, bits.rotate_left(31)))
            }

            fn near(self, operands: &[Self], op: Op) -> bool {
                if op == Op::Prod {
                    // Powers of i: exact, but for the signs of zeros.
                    return self == operands.iter().fold(Complex::new(1.0, 0.0), |a, b| a * b);
                }
                let part = |of: fn(&Self) -> $t| operands.iter().map(|x| f64::from(of(x))).collect::<Vec<_>>();
                near_sum(f64::from(self.re), &part(|x| x.re), $digits)
                    && near_sum(f64::from(self.im), &part(|x| x.im), $digits)
            }
        }
    )*};
}

complex! { ComplexF32 f32 24; ComplexF64 f64 53; }

macro_rules! located {
    ($($t:ident $value:ident $index:ident)*) => {$(
        impl Element for $t {
            const KIND: Option<Type> = Some(Type::$t);
            by_type!();

            fn make(fill: Fill, op: Op, who: usize, bits: u64) -> Self {
                // Few values, so that there are ties.
                let bits = if fill == Fill::Real { bits } else { bits % 3 << 40 | bits % 63 };
                $t::new($value::make(fill, op, who, bits), who as $index)
            }
        }
    )*};
}

located!(I32Index i32 u32 U32Index u32 u32 F32Index f32 u32 I64Index i64 u64 U64Index u64 u64 F64Index f64 u64);
located!(ShortInt i16 i32 TwoInt i32 i32 LongInt i64 i32 FloatInt f32 i32 DoubleInt f64 i32 TwoReal f32 f32 TwoDouble f64 f64);

/// Functions x ↦ ax + b over the integers modulo 2^64, composed: associative and not commutative, and the result says
/// in which order which operands were taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Affine {
    a: u64,
    b: u64,
}

impl Element for Affine {
    const KIND: Option<Type> = None;
    by_type!();

    fn make(_: Fill, _: Op, _: usize, bits: u64) -> Self {
        Self { a: bits | 1, b: bits.rotate_left(17) }
    }

    fn user(commutative: bool) -> Reducer {
        if commutative {
            let add = |f: Self, g: Self| Self { a: f.a.wrapping_add(g.a), b: f.b.wrapping_add(g.b) };
            return Reducer::new::<Self, _>(ops::user("add", true, add));
        }
        let compose =
            |f: Self, g: Self| Self { a: f.a.wrapping_mul(g.a), b: f.b.wrapping_mul(g.a).wrapping_add(g.b) };
        Reducer::new::<Self, _>(ops::user("compose", false, compose))
    }
}

/// The same modulo 2^8, and the last rank's mark: three bytes, which are aligned nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Odd([u8; 3]);

impl Element for Odd {
    const KIND: Option<Type> = None;
    by_type!();

    fn make(_: Fill, _: Op, who: usize, bits: u64) -> Self {
        Self([bits as u8 | 1, (bits >> 8) as u8, who as u8])
    }

    fn user(commutative: bool) -> Reducer {
        assert!(!commutative);
        let compose = |f: Self, g: Self| {
            let ([a, b, _], [c, d, mark]) = (f.0, g.0);
            Self([a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d), mark])
        };
        Reducer::new::<Self, _>(ops::user("odd", false, compose))
    }
}

/// The same modulo 2^32, with another word behind: 12 bytes whose type only this operator knows.
pub fn raw() -> Reducer {
    let compose = |left: &[u8], right: &mut [u8]| {
        // Slices that are not aligned would make this panic.
        let (left, right): (&[[u32; 3]], &mut [[u32; 3]]) = (cast_slice(left), cast_slice_mut(right));
        for (f, g) in left.iter().zip(right) {
            *g = [f[0].wrapping_mul(g[0]), f[1].wrapping_mul(g[0]).wrapping_add(g[1]), g[2]];
        }
    };
    Reducer::raw("raw", Layout::new::<[u32; 3]>(), false, compose).unwrap()
}
