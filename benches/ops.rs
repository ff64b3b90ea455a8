//! Reductions against a plain read-add-write loop on typed slices, with both operands in the first cache, in the
//! second, and in memory. The aim: memory speed, a ratio of 1 out of the caches.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use circulant::ops::{Op, Side, Type, bf16, f16, pairs, reducer};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::{Duration, Instant};

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
    let ops = [Op::Sum, Op::Min, Op::Max];
    against_plain(criterion, Type::F32, &ops, 1.0_f32, |a, b| *a += b);
    against_plain(criterion, Type::F64, &ops, 1.0_f64, |a, b| *a += b);
    against_plain(criterion, Type::I32, &ops, 1_i32, |a, b| *a = a.wrapping_add(*b));
    // Beside the additions of integers as wide: what the memory allows.
    let integers = |a: u16, b: u16| a.wrapping_add(b);
    against_plain(criterion, Type::F16, &ops, f16::ONE, |a, b| {
        *a = f16::from_bits(integers(a.to_bits(), b.to_bits()))
    });
    against_plain(criterion, Type::Bf16, &ops, bf16::ONE, |a, b| {
        *a = bf16::from_bits(integers(a.to_bits(), b.to_bits()))
    });
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

/// Whether single benchmarks were named on the command line, and not the table.
fn is_unwanted() -> bool {
    let mut names = std::env::args().skip(1).filter(|a| !a.starts_with('-')).peekable();
    names.peek().is_some() && names.all(|name| name != "table")
}

/// The table of docs/design.md: how fast, as a part of the plain loop's speed. The least of many runs, taken in turns,
/// as other work on the machine comes and goes.
fn table(_: &mut Criterion) {
    if is_unwanted() {
        return;
    }
    println!("| | L1 | L2 | memory |\n|---|---|---|---|");
    line(Type::I32, 1_i32, |a, b| *a = a.wrapping_add(*b));
    line(Type::F32, 1_f32, |a, b| *a += b);
    line(Type::F64, 1_f64, |a, b| *a += b);
    let integers = |a: u16, b: u16| a.wrapping_add(b);
    line(Type::F16, f16::ONE, |a, b| *a = f16::from_bits(integers(a.to_bits(), b.to_bits())));
    line(Type::Bf16, bf16::ONE, |a, b| *a = bf16::from_bits(integers(a.to_bits(), b.to_bits())));
}

fn line<T: Pod>(kind: Type, one: T, plain: impl Fn(&mut T, &T)) {
    for op in [Op::Sum, Op::Min, Op::Max] {
        let Ok(r) = reducer(kind, op) else { continue };
        let ratios = SIZES.map(|(_, bytes)| {
            let (mut a, b) = (vec![one; bytes / size_of::<T>()], vec![one; bytes / size_of::<T>()]);
            let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
            for _ in 0..(200 << 20) / bytes.min(50 << 20) {
                let start = Instant::now();
                black_box(&mut a[..]).iter_mut().zip(black_box(&b[..])).for_each(|(a, b)| plain(a, b));
                theirs = theirs.min(start.elapsed());
                a.fill(one);
                let start = Instant::now();
                let (target, source) = (cast_slice_mut(black_box(&mut a[..])), cast_slice(black_box(&b[..])));
                r.reduce(target, source, Side::SourceLeft).unwrap();
                ours = ours.min(start.elapsed());
                a.fill(one);
            }
            format!("{:.2}", theirs.as_secs_f64() / ours.as_secs_f64())
        });
        println!("| {op} of {kind} | {} |", ratios.join(" | "));
    }
}

criterion_group!(benches, table, ratios, all);
criterion_main!(benches);
