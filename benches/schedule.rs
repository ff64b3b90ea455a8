//! What the schedules cost. The aims: both schedules of one rank under 0.5 µs at p = 1152 and under 5 µs at
//! p = 2^30, all receive schedules of p = 1152 under 0.3 ms. The 2022 construction runs for comparison.

use std::hint::black_box;

use circulant::schedule::{Circulant, classic};
use criterion::{Criterion, criterion_group, criterion_main};

/// Ranks in random order (xorshift, always the same), as a short cycle of them would be learnt by the
/// branch predictor and look several times as fast.
fn ranks(p: u32) -> impl FnMut() -> u32 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u32::try_from(((state >> 32) * u64::from(p)) >> 32).unwrap_or(0)
    }
}

fn one_rank(criterion: &mut Criterion) {
    for (name, p) in [("1152", 1152), ("2^30", 1 << 30), ("2^30+1", (1 << 30) + 1)] {
        let (c, mut rank) = (Circulant::new(p), ranks(p));
        criterion.bench_function(&format!("both schedules of one rank, p = {name}"), |b| {
            b.iter(|| {
                let r = rank();
                (c.recv(black_box(r)), c.send(black_box(r)))
            });
        });
    }
    let (c, mut rank) = (Circulant::new(1152), ranks(1152));
    criterion.bench_function("both schedules of one rank, p = 1152, 2022 construction", |b| {
        b.iter(|| {
            let r = rank();
            (classic::recv(&c, black_box(r)), classic::send(&c, black_box(r)))
        });
    });
}

fn whole_table(criterion: &mut Criterion) {
    let c = Circulant::new(1152);
    let mut table = vec![0; 1152 * c.q() as usize];
    criterion.bench_function("receive table, p = 1152", |b| {
        b.iter(|| {
            black_box(&c).recv_table(&mut table);
            black_box(&table);
        });
    });
}

criterion_group!(benches, one_rank, whole_table);
criterion_main!(benches);
