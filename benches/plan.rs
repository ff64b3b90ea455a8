//! What one rank's part of a call costs before it runs: choice, plan, lowering, for p = 1152. The aims: at most
//! 450 µs for an irregular allgatherv, 10 µs where counts are equal, nothing when it is kept.

use std::hint::black_box;

use circulant::config::Config;
use circulant::plan::lower::{WireLimits, lower};
use circulant::plan::price::Model;
use circulant::plan::registry::cost::Machine;
use circulant::plan::registry::{Algorithm, Arguments, Operation, algorithm};
use circulant::select::Selection;
use criterion::{Criterion, criterion_group, criterion_main};

const P: u32 = 1152;
const MODEL: Model = Model { latency_ns: 8_000, overhead_ns: 2_500, byte_ps: 350, reduce_ps: 100 };
const LIMITS: WireLimits = WireLimits { max_put: 1 << 30, gather: 4, light: 2500, ..WireLimits::PLAIN };

fn allgatherv(counts: Vec<u64>) -> Arguments {
    let displs = counts.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect();
    Arguments { size: P, counts, displs, ..Arguments::default() }
}

/// 1 MB in all.
fn calls() -> Vec<(&'static str, Operation, Arguments)> {
    let ranks = 0..u64::from(P);
    let irr3 = ranks.clone().map(|r| 4 * (r % 3) * 217).collect();
    let spike = ranks.clone().map(|r| if r == 7 { 500_000 } else { 432 }).collect();
    vec![
        ("allgatherv, equal", Operation::Allgatherv, allgatherv(vec![868; P as usize])),
        ("allgatherv, irr3", Operation::Allgatherv, allgatherv(irr3)),
        ("allgatherv, spike", Operation::Allgatherv, allgatherv(spike)),
        ("allgather", Operation::Allgather, Arguments { size: P, bytes: 868, ..Arguments::default() }),
        ("bcast", Operation::Bcast, Arguments { size: P, bytes: 1_000_000, ..Arguments::default() }),
    ]
}

fn set_up(criterion: &mut Criterion) {
    for (name, operation, arguments) in calls() {
        let Ok(line) = algorithm(operation, "circulant") else { continue };
        let build = |line: &Algorithm| (line.build)(black_box(&arguments), &MODEL);
        criterion.bench_function(&format!("{name}: plan"), |b| b.iter(|| build(line)));
        criterion.bench_function(&format!("{name}: plan and lower"), |b| {
            b.iter(|| build(line).and_then(|plan| lower(plan.as_ref(), black_box(5), &LIMITS)))
        });
        criterion.bench_function(&format!("{name}: choice"), |b| {
            b.iter(|| {
                let selection = Selection::of(&Config::defaults(), Machine::flat(MODEL));
                selection.and_then(|s| s.choose(operation, black_box(&arguments), None, false))
            })
        });
    }
}

criterion_group!(benches, set_up);
criterion_main!(benches);
