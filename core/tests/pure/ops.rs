//! Every built-in operator on every type against scalar code that was written another way, and what the room
//! promises about bits, alignment, panics and names.

use bytemuck::{Pod, Zeroable, bytes_of, cast_slice, pod_read_unaligned};
use circulant_core::ErrorKind;
use circulant_core::ops::*;
use std::collections::HashMap;
use std::fmt::Debug;
use std::str::FromStr;

const SEED: u64 = 0x5eed_0005;

struct Random(u64);

impl Random {
    /// Prints the seed, which the test harness shows of a failed test.
    fn new(seed: u64) -> Self {
        println!("seed {seed:#x}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % n
    }

    /// Half edges, half random bits.
    fn element<T: Naive>(&mut self) -> T {
        if self.next() & 1 << 40 == 0 {
            let edges = T::edges();
            return edges[self.below(edges.len())];
        }
        let bytes: Vec<u8> = (0..size_of::<T>()).map(|_| (self.next() >> 32) as u8).collect();
        pod_read_unaligned(&bytes)
    }

    fn elements<T: Naive>(&mut self, n: usize) -> Vec<T> {
        (0..n).map(|_| self.element()).collect()
    }
}

/// A type with a reference of its operators.
trait Naive: Pod + Debug {
    fn edges() -> Vec<Self>;
    fn naive(op: Op, a: Self, b: Self) -> Self;
}

/// The built-in types that are given as a macro's list, at run time.
macro_rules! dispatch {
    ($kind:expr, $function:ident($($argument:expr),*)) => {
        match $kind {
            Type::I8 => $function::<i8>($($argument),*),
            Type::I16 => $function::<i16>($($argument),*),
            Type::I32 => $function::<i32>($($argument),*),
            Type::I64 => $function::<i64>($($argument),*),
            Type::I128 => $function::<i128>($($argument),*),
            Type::U8 => $function::<u8>($($argument),*),
            Type::U16 => $function::<u16>($($argument),*),
            Type::U32 => $function::<u32>($($argument),*),
            Type::U64 => $function::<u64>($($argument),*),
            Type::U128 => $function::<u128>($($argument),*),
            Type::F16 => $function::<f16>($($argument),*),
            Type::Bf16 => $function::<bf16>($($argument),*),
            Type::F32 => $function::<f32>($($argument),*),
            Type::F64 => $function::<f64>($($argument),*),
            Type::ComplexF32 => $function::<Complex<f32>>($($argument),*),
            Type::ComplexF64 => $function::<Complex<f64>>($($argument),*),
            Type::I32Index => $function::<I32Index>($($argument),*),
            Type::I64Index => $function::<I64Index>($($argument),*),
            Type::U32Index => $function::<U32Index>($($argument),*),
            Type::U64Index => $function::<U64Index>($($argument),*),
            Type::F32Index => $function::<F32Index>($($argument),*),
            Type::F64Index => $function::<F64Index>($($argument),*),
            Type::ShortInt => $function::<ShortInt>($($argument),*),
            Type::TwoInt => $function::<TwoInt>($($argument),*),
            Type::LongInt => $function::<LongInt>($($argument),*),
            Type::FloatInt => $function::<FloatInt>($($argument),*),
            Type::DoubleInt => $function::<DoubleInt>($($argument),*),
            Type::TwoReal => $function::<TwoReal>($($argument),*),
            Type::TwoDouble => $function::<TwoDouble>($($argument),*),
            other => panic!("{other} has no reference: add it to this table"),
        }
    };
}

macro_rules! integers {
    ($($t:ident)*) => {$(
        impl Naive for $t {
            fn edges() -> Vec<Self> {
                vec![0, 1, !0, 2, $t::MIN, $t::MAX, $t::MAX - 1, 1 << ($t::BITS - 1), 1 << ($t::BITS / 2)]
            }

            fn naive(op: Op, a: Self, b: Self) -> Self {
                let bits = |f: fn(bool, bool) -> bool| {
                    (0..$t::BITS).fold(0, |r, i| r | ($t::from(f(a >> i & 1 != 0, b >> i & 1 != 0)) << i))
                };
                match op {
                    Op::Sum => a.overflowing_add(b).0,
                    // long multiplication: shift and add
                    Op::Prod => (0..$t::BITS).filter(|i| b >> i & 1 != 0).fold(0, |r: $t, i| r.wrapping_add(a << i)),
                    Op::Min => if b < a { b } else { a },
                    Op::Max => if b > a { b } else { a },
                    Op::Land => if a == 0 || b == 0 { 0 } else { 1 },
                    Op::Lor => if a == 0 && b == 0 { 0 } else { 1 },
                    Op::Lxor => if (a == 0) == (b == 0) { 0 } else { 1 },
                    Op::Band => bits(|x, y| x && y),
                    Op::Bor => bits(|x, y| x || y),
                    Op::Bxor => bits(|x, y| x != y),
                    _ => panic!("{op} on an integer"),
                }
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128);

fn float_edges<T>(from_bits: impl Fn(u64) -> T, exponent: u32, fraction: u32) -> Vec<T> {
    let infinity = ((1_u64 << exponent) - 1) << fraction;
    let one = ((1_u64 << (exponent - 1)) - 1) << fraction;
    let quiet = 1 << (fraction - 1);
    let nan = [infinity | quiet, infinity | 1, infinity | quiet | 5];
    let numbers = [0, 1, (1 << fraction) - 1, 1 << fraction, one, one + 1, infinity - 1, infinity];
    let sign = 1 << (exponent + fraction);
    nan.into_iter().chain(numbers).flat_map(|x| [x, x | sign]).map(from_bits).collect()
}

/// $exact computes in a wider type, or the same, and rounds: it gets the f64 operation where that is exact.
macro_rules! floats {
    ($($t:ident $bits:ident $exponent:literal $fraction:literal $nan:literal: $sum:expr, $prod:expr;)*) => {$(
        impl Naive for $t {
            fn edges() -> Vec<Self> {
                float_edges(|x| $t::from_bits($bits::try_from(x).unwrap()), $exponent, $fraction)
            }

            fn naive(op: Op, a: Self, b: Self) -> Self {
                let nan = $t::from_bits($nan);
                let result = match op {
                    _ if a.is_nan() || b.is_nan() => nan,
                    Op::Sum => $sum(a, b),
                    Op::Prod => $prod(a, b),
                    Op::Min => if a.total_cmp(&b).is_lt() { a } else { b },
                    Op::Max => if a.total_cmp(&b).is_gt() { a } else { b },
                    _ => panic!("{op} on a float"),
                };
                if result.is_nan() { nan } else { result }
            }
        }
    )*};
}

fn narrow(x: f64) -> f32 {
    x as f32
}

floats! {
    f16 u16 5 10 0x7e00:
        |a: f16, b: f16| f16::from_f64(a.to_f64() + b.to_f64()), |a: f16, b: f16| f16::from_f64(a.to_f64() * b.to_f64());
    // the range is that of f32, so numbers below it are rounded twice, by definition
    bf16 u16 8 7 0x7fc0:
        |a: bf16, b: bf16| bf16::from_f32(narrow(a.to_f64() + b.to_f64())),
        |a: bf16, b: bf16| bf16::from_f32(narrow(a.to_f64() * b.to_f64()));
    f32 u32 8 23 0x7fc0_0000:
        |a, b| narrow(f64::from(a) + f64::from(b)), |a, b| narrow(f64::from(a) * f64::from(b));
    f64 u64 11 52 0x7ff8_0000_0000_0000: |a, b| a + b, |a, b| a * b;
}

macro_rules! complex {
    ($($t:ident)*) => {$(
        impl Naive for Complex<$t> {
            fn edges() -> Vec<Self> {
                let parts = $t::edges();
                parts.iter().flat_map(|re| parts.iter().map(|im| Complex::new(*re, *im))).collect()
            }

            fn naive(op: Op, a: Self, b: Self) -> Self {
                let canonical = |x: $t| if x != x { $t::naive(Op::Sum, x, x) } else { x };
                let (re, im) = match op {
                    Op::Sum => (a.re + b.re, a.im + b.im),
                    Op::Prod => (a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re),
                    _ => panic!("{op} on a complex number"),
                };
                Complex::new(canonical(re), canonical(im))
            }
        }
    )*};
}

complex!(f32 f64);

/// The lower one of two indices; of floats a NaN is the highest.
trait Index: Copy {
    fn lower(self, other: Self) -> Self;
}

macro_rules! indices {
    ($($t:ident)*: $nan:literal) => {$(
        impl Index for $t {
            fn lower(self, other: Self) -> Self {
                match (self.is_nan(), other.is_nan()) {
                    (true, true) => $t::from_bits($nan),
                    (true, false) => other,
                    (false, true) => self,
                    _ => if self.total_cmp(&other).is_lt() { self } else { other },
                }
            }
        }
    )*};
    ($($t:ident)*) => {$(
        impl Index for $t {
            fn lower(self, other: Self) -> Self {
                self.min(other)
            }
        }
    )*};
}

indices!(i32 u32 u64);
indices!(f32: 0x7fc0_0000);
indices!(f64: 0x7ff8_0000_0000_0000);

/// $indices: those of edges.
macro_rules! located {
    ($($name:ident $value:ident $indices:expr;)*) => {$(
        impl Naive for $name {
            fn edges() -> Vec<Self> {
                let values = $value::edges();
                values.iter().flat_map(|v| $indices.map(|i| $name::new(*v, i))).collect()
            }

            /// The winner's value is that of min or max, its index the least among those of ranks that have that.
            fn naive(op: Op, a: Self, b: Self) -> Self {
                let by = match op {
                    Op::Minloc => Op::Min,
                    Op::Maxloc => Op::Max,
                    _ => panic!("{op} on a pair"),
                };
                let value = $value::naive(by, a.value, b.value);
                let same = |x: $value| bytes_of(&$value::naive(by, x, x)) == bytes_of(&value);
                let index = match (same(a.value), same(b.value)) {
                    (true, false) => a.index.lower(a.index),
                    (false, true) => b.index.lower(b.index),
                    _ => a.index.lower(b.index),
                };
                $name::new(value, index)
            }
        }
    )*};
}

located! {
    I32Index i32 [0, 1, 7, !0];
    U32Index u32 [0, 1, 7, !0];
    F32Index f32 [0, 1, 7, !0];
    I64Index i64 [0, 1, 7, !0];
    U64Index u64 [0, 1, 7, !0];
    F64Index f64 [0, 1, 7, !0];
    ShortInt i16 [0, 7, -1, i32::MIN];
    TwoInt i32 [0, 7, -1, i32::MIN];
    LongInt i64 [0, 7, -1, i32::MIN];
    FloatInt f32 [0, 7, -1, i32::MIN];
    DoubleInt f64 [0, 7, -1, i32::MIN];
    TwoReal f32 [0.0, 7.0, -0.0, f32::NEG_INFINITY, -f32::NAN];
    TwoDouble f64 [0.0, 7.0, -0.0, f64::NEG_INFINITY, -f64::NAN];
}

/// `content` at `offset` bytes after an address that is a multiple of 16, in memory of its own.
fn at(offset: usize, content: &[u8]) -> (Vec<u128>, std::ops::Range<usize>) {
    let mut memory = vec![0_u128; (offset + content.len()).div_ceil(16)];
    let range = offset..offset + content.len();
    bytemuck::cast_slice_mut::<_, u8>(&mut memory)[range.clone()].copy_from_slice(content);
    (memory, range)
}

/// target ⊕ source by the reducer, from memory at the given offsets.
fn run<T: Pod>(r: &Reducer, target: &[T], source: &[T], side: Side, offsets: (usize, usize)) -> Vec<T> {
    let (mut t, in_t) = at(offsets.0, cast_slice(target));
    let (s, in_s) = at(offsets.1, cast_slice(source));
    let target = &mut bytemuck::cast_slice_mut::<_, u8>(&mut t)[in_t];
    r.reduce(target, &cast_slice(&s)[in_s], side).unwrap();
    target.chunks_exact(size_of::<T>()).map(pod_read_unaligned).collect()
}

#[track_caller]
fn same<T: Pod + Debug>(what: &str, found: &[T], wanted: &[T], a: &[T], b: &[T]) {
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        let (fb, wb) = (bytes_of(f), bytes_of(w));
        assert!(
            fb == wb,
            "{what}, element {i}: {:?} and {:?} give {f:?} {fb:x?}, not {w:?} {wb:x?}",
            a[i],
            b[i]
        );
    }
    assert_eq!(found.len(), wanted.len());
}

fn against_reference<T: Naive>(kind: Type, op: Op, random: &mut Random) {
    let r = reducer(kind, op).unwrap();
    assert_eq!((r.element(), r.type_name(), r.name()), (size_of::<T>(), kind.name(), op.name()));
    assert_eq!(kind.size(), size_of::<T>());
    assert!(r.commutative());
    let odd = [(0, 0), (1, 0), (0, 3), (5, 5), (size_of::<T>(), 2), (15, 8)];
    for n in [0, 1, 2, 3, 7, 16, 33, 127, 128, 129, 255, 300, 1031] {
        let (a, b) = (random.elements::<T>(n), random.elements::<T>(n));
        let wanted: Vec<T> = a.iter().zip(&b).map(|(a, b)| T::naive(op, *a, *b)).collect();
        for offsets in odd {
            for side in [Side::SourceLeft, Side::SourceRight] {
                let what = format!("{op} on {n} {kind}, {side:?}, at {offsets:?}");
                same(&what, &run(&r, &a, &b, side, offsets), &wanted, &a, &b);
            }
        }
    }
}

#[test]
fn every_pair_agrees_with_the_reference_at_any_alignment() {
    let mut random = Random::new(SEED);
    let mut n = 0;
    for (kind, op) in pairs() {
        dispatch!(kind, against_reference(kind, op, &mut random));
        n += 1;
    }
    // 10 integers of 10, 4 floats of 4, 2 complex of 2, 13 pairs of 2
    assert_eq!(n, 146);
}

fn laws<T: Naive>(kind: Type, op: Op, random: &mut Random) {
    let r = reducer(kind, op).unwrap();
    let f = |a: &[T], b: &[T]| run(&r, a, b, Side::SourceRight, (0, 0));
    let n = 20_000;
    let (a, b, c) = (random.elements::<T>(n), random.elements::<T>(n), random.elements::<T>(n));
    same(&format!("commuted {op} on {kind}"), &f(&a, &b), &f(&b, &a), &a, &b);
    let short = Type::ALL.iter().position(|t| *t == Type::F16).unwrap();
    let rounds = matches!(op, Op::Sum | Op::Prod) && Type::ALL[short..].contains(&kind);
    if !rounds {
        let (left, right) = (f(&f(&a, &b), &c), f(&a, &f(&b, &c)));
        same(&format!("{op} on {kind}, (a⊕b)⊕c"), &left, &right, &a, &c);
    }
}

#[test]
fn all_commute_to_the_bit_and_all_but_sums_and_products_of_floats_associate_so() {
    let mut random = Random::new(SEED + 1);
    pairs().for_each(|(kind, op)| dispatch!(kind, laws(kind, op, &mut random)));
}

/// e ⊕ x is x, but for what the operator normalises: NaN and truth.
fn identity_of<T: Naive>(op: Op, o: &impl Operator<T>, random: &mut Random) {
    let e = o.identity().unwrap_or_else(|| panic!("{op} has none"));
    for x in T::edges().into_iter().chain(random.elements(1000)) {
        let found = o.combine(e, x);
        // once more changes nothing, and only NaN and truth may have changed at all
        assert_eq!(bytes_of(&o.combine(found, e)), bytes_of(&found), "{op}: {x:?}");
        let normalised = match op {
            Op::Land | Op::Lor | Op::Lxor => T::naive(Op::Lor, x, Zeroable::zeroed()),
            Op::Minloc => T::naive(Op::Minloc, x, x),
            Op::Maxloc => T::naive(Op::Maxloc, x, x),
            _ if format!("{x:?}").contains("NaN") => T::naive(op, x, e),
            _ => x,
        };
        assert_eq!(bytes_of(&found), bytes_of(&normalised), "{op}: {x:?}");
    }
}

#[test]
fn identities_change_nothing() {
    let mut random = Random::new(SEED + 2);
    macro_rules! of {
        ($($t:ty)*: $ops:tt) => { $(of!(@ $t: $ops);)* };
        (@ $t:ty: [$($op:ident)*]) => { $(identity_of::<$t>(Op::$op, &$op, &mut random);)* };
    }
    of!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128: [Sum Prod Min Max Land Lor Lxor Band Bor Bxor]);
    of!(f16 bf16 f32 f64: [Sum Prod Min Max]);
    of!(Complex<f32> Complex<f64>: [Sum]);
    of!(I32Index U32Index F32Index I64Index U64Index F64Index: [Minloc Maxloc]);
    of!(ShortInt TwoInt LongInt FloatInt DoubleInt TwoReal TwoDouble: [Minloc Maxloc]);
    assert!(Operator::<Complex<f64>>::identity(&Prod).is_none());
}

#[test]
fn what_the_documents_say_of_nan_and_zeros() {
    let least = |a, b| Operator::<f64>::combine(&Min, a, b).to_bits();
    assert_eq!((least(0.0, -0.0), least(-0.0, 0.0)), ((-0.0_f64).to_bits(), (-0.0_f64).to_bits()));
    let payload = f64::from_bits(0xfff8_0000_0000_0123);
    assert_eq!(least(payload, 1.0), 0x7ff8_0000_0000_0000);
    assert_eq!(
        Operator::<f64>::combine(&Sum, f64::INFINITY, f64::NEG_INFINITY).to_bits(),
        0x7ff8_0000_0000_0000
    );
    assert_eq!(Operator::<i8>::combine(&Sum, 127, 1), -128);
    assert_eq!(Operator::<u32>::combine(&Land, 8, 1), 1);
    // Whatever a compiler makes of a true LOGICAL.
    let truth = |o: &dyn Operator<i32>| [(-1, 1), (-1, 0), (0, 0)].map(|(a, b)| o.combine(a, b));
    assert_eq!([truth(&Land), truth(&Lor), truth(&Lxor)], [[1, 0, 0], [1, 1, 0], [0, 1, 0]]);
    let where_is =
        |o: &dyn Operator<F64Index>, a, b| o.combine(F64Index::new(a, 9), F64Index::new(b, 4)).index;
    assert_eq!(
        (where_is(&Minloc, 1.0, 1.0), where_is(&Minloc, -0.0, 0.0), where_is(&Maxloc, -0.0, 0.0)),
        (4, 9, 4)
    );
    assert_eq!((where_is(&Minloc, f64::NAN, -1.0), where_is(&Maxloc, f64::NAN, f64::NAN)), (9, 4));
    // Below 0 is lower: what an unsigned index would not say.
    assert_eq!(Minloc.combine(TwoInt::new(5, -1), TwoInt::new(5, 0)).index, -1);
    assert_eq!(Maxloc.combine(TwoReal::new(5.0, 3.0), TwoReal::new(5.0, 2.0)).index, 2.0);
}

/// MPI's pairs as C and Fortran lay them out, and padding that callers left undefined.
#[test]
fn pairs_have_the_layout_of_mpi_and_results_have_zeroed_padding() {
    let sizes = [Type::ShortInt, Type::TwoInt, Type::LongInt, Type::FloatInt, Type::DoubleInt];
    assert_eq!(sizes.map(Type::size), [8, 8, 16, 8, 16]);
    assert_eq!([Type::TwoReal, Type::TwoDouble].map(Type::size), [8, 16]);
    let mut long = [0xff_u8; 16];
    long[..8].copy_from_slice(&7_i64.to_ne_bytes());
    long[8..12].copy_from_slice(&3_i32.to_ne_bytes());
    let mut short = [0xff_u8; 8];
    short[..2].copy_from_slice(&7_i16.to_ne_bytes());
    short[4..].copy_from_slice(&3_i32.to_ne_bytes());
    let (l, s): (LongInt, ShortInt) = (pod_read_unaligned(&long), pod_read_unaligned(&short));
    assert_eq!((l, s), (LongInt::new(7, 3), ShortInt::new(7, 3)), "padding does not count");
    assert_eq!(format!("{l:?}"), "LongInt { value: 7, index: 3 }");
    assert_eq!(bytes_of(&Minloc.combine(l, l)), bytes_of(&LongInt::new(7, 3)));
    assert_eq!(bytes_of(&Maxloc.combine(s, s)), bytes_of(&ShortInt::new(7, 3)));
    assert_eq!(bytes_of(&DoubleInt::new(1.0, -1))[12..], [0; 4]);
}

// --- user operators -----------------------------------------------------------------------------------------

/// 2 × 2 matrices: associative, exactly, and not commutative. 20 bytes with the tag, no padding.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Matrix {
    m: [u32; 4],
    tag: u32,
}

fn multiply(a: Matrix, b: Matrix) -> Matrix {
    let at = |i: usize, j: usize| {
        a.m[2 * i].wrapping_mul(b.m[j]).wrapping_add(a.m[2 * i + 1].wrapping_mul(b.m[2 + j]))
    };
    Matrix { m: [at(0, 0), at(0, 1), at(1, 0), at(1, 1)], tag: a.tag }
}

fn random_bytes<T: Pod>(random: &mut Random, n: usize) -> Vec<T> {
    let byte = |random: &mut Random| (random.next() >> 32) as u8;
    (0..n)
        .map(|_| pod_read_unaligned(&(0..size_of::<T>()).map(|_| byte(random)).collect::<Vec<_>>()))
        .collect()
}

#[test]
fn a_user_operator_keeps_its_sides_on_any_struct() {
    let mut random = Random::new(SEED + 3);
    let r = Reducer::new(user("multiply", false, multiply));
    assert_eq!((r.element(), r.commutative(), r.name()), (20, false, "multiply"));
    // larger than what is staged in numbers, of odd size, and of no size
    let long = Reducer::new(user("first", false, |a: [u16; 64], _: [u16; 64]| a));
    let odd = Reducer::new(user("first", false, |a: [u8; 3], _: [u8; 3]| a));
    for offsets in [(0, 0), (1, 2), (4, 3)] {
        let (a, b) = (random_bytes::<Matrix>(&mut random, 301), random_bytes::<Matrix>(&mut random, 301));
        let wanted = |f: fn(Matrix, Matrix) -> Matrix| -> Vec<_> {
            a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect()
        };
        same("target first", &run(&r, &a, &b, Side::SourceRight, offsets), &wanted(multiply), &a, &b);
        same(
            "source first",
            &run(&r, &a, &b, Side::SourceLeft, offsets),
            &wanted(|a, b| multiply(b, a)),
            &a,
            &b,
        );

        let (a, b) = (random_bytes::<[u16; 64]>(&mut random, 5), random_bytes::<[u16; 64]>(&mut random, 5));
        same("long", &run(&long, &a, &b, Side::SourceLeft, offsets), &b, &a, &b);
        let (a, b) = (random_bytes::<[u8; 3]>(&mut random, 500), random_bytes::<[u8; 3]>(&mut random, 500));
        same("odd", &run(&odd, &a, &b, Side::SourceRight, offsets), &a, &a, &b);
    }
    let nothing = Reducer::new(user("nothing", true, |(), ()| ()));
    assert!(nothing.reduce(&mut [], &[], Side::SourceLeft).is_ok());
    assert_eq!(nothing.reduce(&mut [1], &[1], Side::SourceLeft).unwrap_err().kind(), ErrorKind::Argument);
}

/// A payload whose destructor panics, too.
struct Nasty;

impl Drop for Nasty {
    fn drop(&mut self) {
        panic!("again");
    }
}

#[test]
fn a_panic_becomes_an_error_that_names_the_operator() {
    let text = |f: fn(u32, u32) -> u32| {
        let r = Reducer::new(user("brittle", true, f));
        let (mut a, b) = ([0_u32; 3], [0, 1, 0]);
        let e = r.reduce(bytemuck::cast_slice_mut(&mut a), cast_slice(&b), Side::SourceRight).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Argument);
        // it goes on living
        assert!(r.reduce(&mut [0; 4], &[0; 4], Side::SourceRight).is_ok());
        e.to_string()
    };
    let said = text(|a, b| if b == 1 { panic!("no ones") } else { a });
    assert!(said.starts_with("the operator brittle panicked: no ones; "), "{said}");
    let said = text(|a, b| if b == 1 { panic!("not {b}") } else { a });
    assert!(said.starts_with("the operator brittle panicked: not 1; "), "{said}");
    let said = text(|a, b| if b == 1 { std::panic::panic_any(Nasty) } else { a });
    assert!(said.starts_with("the operator brittle panicked; "), "{said}");
}

// --- lengths, names, fingerprints ---------------------------------------------------------------------------

#[test]
fn wrong_lengths_are_refused_and_change_nothing() {
    let r = reducer(Type::F64, Op::Sum).unwrap();
    for (target, source, says) in [(8, 16, "8 and 16 bytes"), (16, 0, "16 and 0 bytes"), (12, 12, "12 bytes")]
    {
        let mut memory = vec![7; target];
        let e = r.reduce(&mut memory, &vec![7; source], Side::SourceLeft).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Argument);
        assert!(e.to_string().contains(says), "{e}");
        assert_eq!(memory, vec![7; target]);
    }
}

#[test]
fn names_lead_back_and_wrong_ones_are_answered_with_the_right() {
    for kind in Type::ALL {
        assert_eq!(Type::from_str(kind.name()).unwrap(), *kind);
    }
    for op in Op::ALL {
        assert_eq!(Op::from_str(&op.to_string()).unwrap(), *op);
    }
    let e = Type::from_str("double").unwrap_err().to_string();
    assert!(e.starts_with("there is no type \"double\"; one of i8, i16,") && e.contains(" f64, "), "{e}");
    let e = Op::from_str("avg").unwrap_err().to_string();
    assert!(e.starts_with("there is no operator \"avg\"; one of sum, prod,"), "{e}");
    let e = reducer(Type::ComplexF64, Op::Min).unwrap_err().to_string();
    let says = "min is not defined on complex-f64; complex-f64 has sum, prod; min works on i8, ";
    assert!(e.starts_with(says), "{e}");
}

#[test]
fn fingerprints_differ_where_type_or_operator_do() {
    let built_in = pairs().map(|(t, o)| reducer(t, o).unwrap());
    let users = [
        Reducer::new::<f64, _>(user("sum", true, |a: f64, b| a + b)),
        Reducer::new::<f64, _>(user("sum", false, |a: f64, b| a + b)),
        Reducer::new::<f64, _>(user("max", true, |a: f64, b| a.max(b))),
        Reducer::new::<[f64; 1], _>(user("sum", true, |a: [f64; 1], b: [f64; 1]| [a[0] + b[0]])),
        Reducer::new::<[f64; 2], _>(user("sum", true, |a: [f64; 2], _| a)),
        Reducer::new::<usize, _>(Sum),
        Reducer::new::<isize, _>(Sum),
    ];
    let mut seen = HashMap::new();
    for r in built_in.chain(users) {
        if let Some(other) = seen.insert(r.hash(), r.clone()) {
            panic!("{r:?} and {other:?} have one fingerprint");
        }
    }
    assert_eq!(seen.len(), 153);
    let again = Reducer::new::<f64, _>(user("max", true, |a: f64, b| if a > b { a } else { b }));
    assert!(seen.contains_key(&again.hash()), "the same name, type and flag: the same operator");
}
