//! Reductions against a plain read-add-write loop on typed slices, with both operands in the first cache, in the
//! second, and in memory. The aim: memory speed, a ratio of 1 out of the caches.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use circulant::ops::{Op, Side, Type, pairs, reducer};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;

/// Bytes per operand.
const SIZES: [(&str, usize); 3] = [("L1", 8 << 10), ("L2", 256 << 10), ("memory", 256 << 20)];

fn against_plain<T: Pod>(
    criterion: &mut Criterion,
    kind: Type,
    ops: &[Op],
    ten: T,
    plain: impl Fn(&mut T, &T),
) {
    for (place, bytes) in SIZES {
        let mut group = criterion.benchmark_group(format!("{kind}, {place}"));
        group.throughput(Throughput::Bytes(bytes as u64)).sample_size(10);
        group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(800));
        let (mut a, b) = (vec![ten; bytes / size_of::<T>()], vec![ten; bytes / size_of::<T>()]);
        group.bench_function("plain loop", |bench| {
            bench.iter(|| {
                black_box(&mut a[..]).iter_mut().zip(black_box(&b[..])).for_each(|(a, b)| plain(a, b))
            });
        });
        for op in ops {
            let Ok(r) = reducer(kind, *op) else { continue };
            group.bench_function(op.name(), |bench| {
                bench.iter(|| {
                    let (a, b) = (cast_slice_mut(black_box(&mut a[..])), cast_slice(black_box(&b[..])));
                    r.reduce(a, b, Side::SourceLeft)
                });
            });
        }
    }
}

fn ratios(criterion: &mut Criterion) {
    let ops = [Op::Sum, Op::Min];
    against_plain(criterion, Type::F32, &ops, 1.0_f32, |a, b| *a += b);
    against_plain(criterion, Type::F64, &ops, 1.0_f64, |a, b| *a += b);
    against_plain(criterion, Type::I32, &ops, 1_i32, |a, b| *a = a.wrapping_add(*b));
}

/// Every pair in the second cache, and two that are not aligned.
fn all(criterion: &mut Criterion) {
    let bytes = SIZES[1].1;
    let mut group = criterion.benchmark_group("all, L2");
    group.throughput(Throughput::Bytes(bytes as u64)).sample_size(10);
    group.warm_up_time(Duration::from_millis(50)).measurement_time(Duration::from_millis(200));
    let (mut a, b) = (vec![0_u128; bytes / 16], vec![0_u128; bytes / 16]);
    let (a, b): (&mut [u8], &[u8]) = (cast_slice_mut(&mut a), cast_slice(&b));
    for (kind, op) in pairs() {
        let Ok(r) = reducer(kind, op) else { continue };
        group.bench_function(format!("{op} {kind}"), |bench| {
            bench.iter(|| r.reduce(black_box(a), black_box(b), Side::SourceLeft));
        });
    }
    for kind in [Type::F32, Type::F64] {
        let Ok(r) = reducer(kind, Op::Sum) else { continue };
        group.bench_function(format!("sum {kind}, unaligned"), |bench| {
            bench.iter(|| {
                r.reduce(black_box(&mut a[1..bytes - 15]), black_box(&b[3..bytes - 13]), Side::SourceLeft)
            });
        });
    }
}

criterion_group!(benches, ratios, all);
criterion_main!(benches);
