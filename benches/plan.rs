//! What one rank's part of a call costs before it runs: choice, plan, lowering, for p = 1152. The aims: at most
//! 450 µs for an irregular allgatherv, 10 µs where counts are equal, nothing when it is kept.

#[path = "common/calls.rs"]
mod calls;

use std::hint::black_box;

use calls::{LIMITS, MODEL, calls};
use circulant::machine::Machine;
use circulant::plan::lower::lower;
use circulant::plan::registry::{Algorithm, algorithm};
use circulant::select::{Selection, Settings};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

const P: u32 = 1152;

fn set_up(criterion: &mut Criterion) {
    for (name, operation, arguments) in calls(P) {
        let Ok(line) = algorithm(operation, "circulant") else { continue };
        let build = |line: &Algorithm| (line.build)(black_box(&arguments), &MODEL);
        criterion.bench_function(&format!("{name}: plan"), |b| b.iter(|| build(line)));
        criterion.bench_function(&format!("{name}: plan and lower"), |b| {
            b.iter(|| build(line).and_then(|plan| lower(plan.as_ref(), black_box(5), &LIMITS)))
        });
        // A selection that has decided nothing yet.
        let fresh = || Selection::of(&Settings::default(), Machine::flat(MODEL));
        criterion.bench_function(&format!("{name}: choice"), |b| {
            b.iter_batched(
                fresh,
                |selection| {
                    let chosen =
                        selection.as_ref().map(|s| s.choose(operation, black_box(&arguments), None, false));
                    black_box(chosen.is_ok_and(|chosen| chosen.is_ok()));
                    selection
                },
                BatchSize::SmallInput,
            )
        });
    }
}

criterion_group!(benches, set_up);
criterion_main!(benches);
