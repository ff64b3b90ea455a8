//! Contributions whose combination is known to the bit: bytes that differ everywhere for what is moved, and for
//! reductions numbers whose sums and products are exact in every order.

use bytemuck::{Pod, bytes_of};
use circulant::ops::{Complex, Op, bf16, f16};
use circulant::ops::{DoubleInt, F32Index, F64Index, FloatInt, I32Index, I64Index, LongInt, ShortInt};
use circulant::ops::{TwoDouble, TwoInt, TwoReal, U32Index, U64Index};
use std::sync::LazyLock;

/// What the numbers are for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// `None`: they are moved, not combined.
    pub(crate) op: Option<Op>,
    /// Ranks that contribute.
    pub(crate) p: usize,
}

/// Writes rank `owner`'s elements from number `from` on into `out`.
pub(crate) type Sampler = fn(Use, owner: usize, from: usize, out: &mut [u8]);

/// A type that has samples.
pub(crate) trait Samples: Pod {
    /// Element `index` of rank `owner`'s contribution to a reduction.
    fn sample(what: Use, owner: usize, index: usize) -> Self;
}

/// Elements after which a contribution to a reduction repeats, so that of a thousand ranks each can compute what comes of all. A prime, as [`TAPE_BYTES`] is.
pub(crate) const PERIOD: usize = 4099;

/// See [`Sampler`].
pub(crate) fn write<T: Samples>(what: Use, owner: usize, from: usize, out: &mut [u8]) {
    if what.op.is_none() {
        return write_moved(owner, from * size_of::<T>(), out);
    }
    for (i, chunk) in out.chunks_exact_mut(size_of::<T>()).take(PERIOD).enumerate() {
        chunk.copy_from_slice(bytes_of(&T::sample(what, owner, (from + i) % PERIOD)));
    }
    repeat(out, size_of::<T>());
}

/// Fills in what comes after the first [`PERIOD`] elements of these many bytes each.
pub(crate) fn repeat(out: &mut [u8], element: usize) {
    let mut done = out.len().min(PERIOD * element);
    while done < out.len() {
        let more = done.min(out.len() - done);
        out.copy_within(..more, done);
        done += more;
    }
}

/// Length of [`TAPE`], in bytes. A prime: no multiple of a block's length is one of it, so what lands some blocks
/// further on is seen.
const TAPE_BYTES: usize = 262_139;

/// Bytes by chance, for data that is moved: each rank's begin at another place, and go round and round. They are
/// copied from here, as there are megabytes of them, and the tests' build of this tool is not optimised.
static TAPE: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..TAPE_BYTES).map(|i| word(0, i / 8).to_le_bytes()[i % 8]).collect());

/// Bytes `from..` of what rank `owner` gives to be moved.
fn write_moved(owner: usize, from: usize, mut out: &mut [u8]) {
    /// How far apart on the tape neighbouring ranks begin.
    const STRIDE_BYTES: usize = 100_003;
    let mut at = (owner % TAPE_BYTES * STRIDE_BYTES + from) % TAPE_BYTES;
    while !out.is_empty() {
        let (now, later) = out.split_at_mut(out.len().min(TAPE_BYTES - at));
        now.copy_from_slice(&TAPE[at..at + now.len()]);
        (at, out) = (0, later);
    }
}

/// Eight bytes by chance (splitmix64 of rank and place).
fn word(owner: usize, index: usize) -> u64 {
    let mut x = ((owner as u64) << 40).wrapping_add(index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Use {
    /// Whether `owner` is one of `most` ranks that count at this index; the others have the neutral number.
    fn counts(self, owner: usize, index: usize, most: usize) -> bool {
        (owner + index) % self.p.max(1) < most
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Samples for $t {
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "any bits will do")]
            #[allow(clippy::cast_lossless, reason = "not for all of the types")]
            fn sample(what: Use, owner: usize, index: usize) -> Self {
                let bits = word(owner, index);
                let wide = (bits as Self) ^ (bits.rotate_left(23) as Self).rotate_right(8);
                match what.op {
                    Some(Op::Land | Op::Lor | Op::Lxor) if bits.is_multiple_of(3) => 0,
                    _ => wide,
                }
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128);

/// `$exact`: integers up to there are exact.
macro_rules! floats {
    ($($t:ty, $exact:literal, $from:expr, $nan:expr;)*) => {$(
        impl Samples for $t {
            fn sample(what: Use, owner: usize, index: usize) -> Self {
                let bits = word(owner, index);
                let small = |modulus: u64| f32::from(u16::try_from(bits % modulus).unwrap_or(0));
                let sign = if bits & 1 << 40 == 0 { 1.0 } else { -1.0 };
                $from(match what.op {
                    Some(Op::Sum) if what.counts(owner, index, $exact / 8) => 1.0 + small(8),
                    Some(Op::Sum) => 0.0,
                    Some(Op::Prod) if what.counts(owner, index, 4) => 2.0 * sign,
                    Some(Op::Prod) => sign,
                    // Both zeros and the canonical NaN among other numbers.
                    _ => match bits % 1009 {
                        0 => return $nan,
                        n if n < 20 => 0.0 * sign,
                        _ => small(200) * sign,
                    },
                })
            }
        }
    )*};
}

floats! {
    f16, 2048, f16::from_f32, f16::from_bits(0x7e00);
    bf16, 256, bf16::from_f32, bf16::from_bits(0x7fc0);
    f32, 16_777_216, std::convert::identity, f32::from_bits(0x7fc0_0000);
    f64, 16_777_216, f64::from, f64::from_bits(0x7ff8_0000_0000_0000);
}

macro_rules! complex {
    ($($t:ty)*) => {$(
        impl Samples for Complex<$t> {
            fn sample(what: Use, owner: usize, index: usize) -> Self {
                match what.op {
                    // Powers of 1 + i up to 2i: no zero gets a sign.
                    Some(Op::Prod) if what.counts(owner, index, 2) => Self::new(1.0, 1.0),
                    Some(Op::Prod) => Self::new(1.0, 0.0),
                    _ => Self::new(
                        <$t>::sample(what, owner, 2 * index),
                        <$t>::sample(what, owner, 2 * index + 1),
                    ),
                }
            }
        }
    )*};
}

complex!(f32 f64);

/// Few values, so that there are ties.
macro_rules! located {
    ($($t:ty, $value:ty, $index:ty;)*) => {$(
        impl Samples for $t {
            #[allow(clippy::cast_possible_truncation, reason = "ranks are fewer than 2^31")]
            fn sample(_: Use, owner: usize, index: usize) -> Self {
                Self::new(u8::try_from(word(owner, index) % 16).unwrap_or(0).into(), owner as $index)
            }
        }
    )*};
}

located! {
    I32Index, i32, u32;
    U32Index, u32, u32;
    F32Index, f32, u32;
    I64Index, i64, u64;
    U64Index, u64, u64;
    F64Index, f64, u64;
    ShortInt, i16, i32;
    TwoInt, i32, i32;
    LongInt, i64, i32;
    FloatInt, f32, i32;
    DoubleInt, f64, i32;
    TwoReal, f32, f32;
    TwoDouble, f64, f64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use circulant::ops::{Side, Type, pairs, reducer};

    fn sampler(kind: Type) -> Sampler {
        match kind {
            Type::F16 => write::<f16>,
            Type::Bf16 => write::<bf16>,
            Type::F32 => write::<f32>,
            Type::ComplexF32 => write::<Complex<f32>>,
            Type::ComplexF64 => write::<Complex<f64>>,
            Type::F64 => write::<f64>,
            Type::F32Index => write::<F32Index>,
            Type::I8 => write::<i8>,
            _ => write::<u64>,
        }
    }

    /// The result does not depend on the order, so any algorithm's can be compared to the bit; and it does depend
    /// on every rank that is few enough to matter.
    #[test]
    fn combinations_are_exact_in_every_order() {
        use Type::{Bf16, ComplexF32, ComplexF64, F16, F32, F32Index, F64, I8, U64};
        let kinds = [Bf16, ComplexF32, ComplexF64, F16, F32, F32Index, F64, I8, U64];
        for (kind, op) in pairs().filter(|(kind, _)| kinds.contains(kind)) {
            let r = reducer(kind, op).unwrap();
            for p in [1usize, 2, 3, 7, 40, 700] {
                let what = Use { op: Some(op), p };
                let fold = |order: &mut dyn Iterator<Item = usize>| {
                    let mut all = vec![0u8; 16 * kind.size()];
                    sampler(kind)(what, order.next().unwrap(), 5, &mut all);
                    for owner in order {
                        let mut one = vec![0u8; all.len()];
                        sampler(kind)(what, owner, 5, &mut one);
                        r.reduce(&mut all, &one, Side::SourceRight).unwrap();
                    }
                    all
                };
                let up = fold(&mut (0..p));
                assert_eq!(up, fold(&mut (0..p).rev()), "{kind} {op} {p}");
                let halves = fold(&mut (p / 2..p).chain(0..p / 2));
                assert_eq!(up, halves, "{kind} {op} {p}");
            }
        }
    }

    #[test]
    fn bytes_differ_between_ranks_and_places() {
        let moved = |owner, from, len| {
            let mut out = vec![0u8; len];
            write::<u8>(Use { op: None, p: 3 }, owner, from, &mut out);
            out
        };
        let ranks = [0, 1, 2, 1000].map(|owner| moved(owner, 100, 4096));
        let alike = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a == b).count();
        for (i, a) in ranks.iter().enumerate() {
            ranks[..i].iter().for_each(|b| assert!(alike(a, b) < 100));
            // A block further on, of any length.
            for far in [1, 8, 512, 4096, 65_536, 262_144, 1 << 24] {
                assert!(alike(a, &moved([0, 1, 2, 1000][i], 100 + far, 4096)) < 100, "{far}");
            }
        }
        // Pieces are those of the whole, across the end of the tape, and so are wider types.
        let whole = moved(1, 0, 3 * TAPE_BYTES);
        for (from, len) in [(0, 16), (3, 37), (5, 0), (TAPE_BYTES - 7, 20), (TAPE_BYTES, 2 * TAPE_BYTES)] {
            assert!(moved(1, from, len) == whole[from..from + len], "{from} {len}");
        }
        let mut wide = vec![0u8; 80];
        write::<f64>(Use { op: None, p: 3 }, 1, 5, &mut wide);
        assert_eq!(wide, whole[40..120]);
    }
}
