//! What memory does: sums, copies, packing. The least of several times each, at one rank.

use crate::outcome::Failure;
use circulant::machine::LogGp;
use circulant::ops::{Op, Reducer, Side, Type, reducer};
use circulant::select::Tuning;
use std::hint::black_box;
use std::time::Instant;

/// Two of these fit into the caches next to a core.
const CACHED: usize = 64 << 10;
/// Longer than most caches that cores share; two of them are used.
const COLD: usize = 64 << 20;
/// A light piece, and how far apart such pieces lie.
const PIECE: usize = 64;
const STRIDE: usize = 4096;
/// No piece above this ever shares a put: what is packed and unpacked delays the rank that waits for it.
const LIGHT_MAX: f64 = 4096.0;

/// Measures, and derives which pieces are light on `wire`.
pub(super) fn measure(wire: Option<&LogGp>, tuning: &mut Tuning) -> Result<(), Failure> {
    // Not zeroed by the allocator: then all of it would be one page of zeros.
    let (mut a, b) = (vec![1u128; COLD / 16], vec![2u128; COLD / 16]);
    let (a, b): (&mut [u8], &[u8]) = (bytemuck::cast_slice_mut(&mut a), bytemuck::cast_slice(&b));
    let sum = |kind| reducer(kind, Op::Sum);
    let (mut cached, mut cold) = (0f64, 0f64);
    for sum in [sum(Type::F32)?, sum(Type::F64)?] {
        cached = cached.max(fold(&sum, &mut a[..CACHED], &b[..CACHED], 30)?);
        cold = cold.max(fold(&sum, a, b, 3)?);
    }
    tuning.set("memory.reduce-cached-ps", whole(1e3 * cached));
    tuning.set("memory.reduce-ps", whole(1e3 * cold));
    let cached = best(30, CACHED, || copy(&mut a[..CACHED], &b[..CACHED]));
    let cold = best(3, COLD, || copy(a, b));
    tuning.set("memory.copy-cached-ps", whole(1e3 * cached));
    tuning.set("memory.copy-cold-ps", whole(1e3 * cold));
    let pieces = COLD / STRIDE / 16;
    let packed = best(5, pieces, || {
        for (to, from) in a.chunks_exact_mut(PIECE).zip(b.chunks(STRIDE)).take(pieces) {
            to.copy_from_slice(&from[..PIECE]);
        }
        black_box(&a);
    });
    let packing = (packed - PIECE as f64 * cached).max(0.0);
    tuning.set("memory.pack-ns", whole(packing));
    if let Some(wire) = wire {
        tuning.set("memory.light-bytes", light(wire, packing, cold));
    }
    Ok(())
}

/// The length of a piece that goes as well alone as with others in one put: that saves o, and costs packing and
/// unpacking it, two copies of its bytes, and the time until the others' bytes have come with it.
fn light(wire: &LogGp, packing: f64, copy: f64) -> u64 {
    let saved = wire.overhead_ns as f64 - 2.0 * packing;
    let per_byte = 2.0 * copy + wire.byte_ps as f64 / 1e3;
    whole((saved / per_byte.max(1e-3)).clamp(0.0, LIGHT_MAX))
}

fn fold(sum: &Reducer, a: &mut [u8], b: &[u8], times: usize) -> Result<f64, Failure> {
    // Once before, so that the times have no errors to tell.
    sum.reduce(a, b, Side::SourceRight)?;
    Ok(best(times, a.len(), || drop(sum.reduce(black_box(a), b, Side::SourceRight))))
}

fn copy(a: &mut [u8], b: &[u8]) {
    black_box(a).copy_from_slice(black_box(b));
}

/// Nanoseconds per one of `parts`.
fn best(times: usize, parts: usize, mut run: impl FnMut()) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..times {
        let start = Instant::now();
        run();
        least = least.min(start.elapsed().as_nanos() as f64 / parts.max(1) as f64);
    }
    least
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
pub(super) fn whole(x: f64) -> u64 {
    x.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_light_follows_from_the_wire() {
        let wire = |overhead_ns, byte_ps| LogGp { latency_ns: 1, overhead_ns, byte_ps, reduce_ps: 0 };
        assert_eq!(light(&wire(300, 100), 50.0, 0.05), 1000);
        assert_eq!(light(&wire(20, 100), 50.0, 0.05), 0);
        assert_eq!(light(&wire(1 << 40, 0), 0.0, 0.0), 4096);
    }
}
