//! What pacing rests on (`src/engine/pace.rs`): a rank may hold puts of far rounds back until earlier rounds have come, since no put waits for
//! what comes in its own round or later.

use crate::proof::{MODEL, Random, all, programs, seed};
use circulant_core::plan::NO_COUNTER;
use circulant_core::plan::interpret::{Goal, check};
use circulant_core::plan::lower::{OpKind, Program, WireLimits};
use circulant_core::plan::registry::{Arguments, Operation, algorithm};
use std::sync::Arc;

const ELEMENT: u64 = 8;
/// For each line and number of ranks.
const CASES: u32 = 60;

/// By put: its round, and the last round of which it waits for something from a peer, by way of what this rank copies and combines.
/// A counter of which a part is waited for tells no round.
fn rounds(program: &Program) -> Vec<(u32, u32)> {
    let mut waits = vec![Vec::new(); program.ops.len()];
    for counter in 0..program.counters() {
        let [from, to] = [program.waiter_start[counter], program.waiter_start[counter + 1]];
        for (at, op) in &program.waiters[from as usize..to as usize] {
            waits[*op as usize].push((counter, *at));
        }
    }
    let mut last = vec![0; program.ops.len()];
    let mut bumped = vec![0; program.counters()];
    loop {
        let before = last.clone();
        for (op, waits) in waits.iter().enumerate() {
            for &(counter, at) in waits {
                let expected = &program.expected[counter];
                let came = expected.peer != NO_COUNTER && at >= expected.arrivals;
                // Rounds from 1 on, as 0 is for what waits for nothing.
                let round = if came { expected.round + 1 } else { 0 };
                last[op] = last[op].max(round).max(bumped[counter]);
            }
            let bump = program.ops[op].bump;
            if program.ops[op].kind != OpKind::Put && bump != NO_COUNTER {
                bumped[bump as usize] = last[op].max(bumped[bump as usize]);
            }
        }
        if last == before {
            break;
        }
    }
    let puts = program.ops.iter().zip(last).filter(|(op, _)| op.kind == OpKind::Put);
    puts.map(|(op, last)| (op.round, last)).collect()
}

/// At random, or round-robin with two or three ranks on most: two nodes are a group.
fn nodes(size: u32, random: &mut Random) -> Arc<[u32]> {
    let count = (size / 3).max(2);
    if random.yes(2) { random.nodes(size) } else { (0..size).map(|rank| rank % count).collect() }
}

#[test]
fn no_put_that_is_paced_waits_for_its_own_round_or_a_later_one() {
    let seed = seed();
    println!("PLAN_PROOF_SEED={seed}");
    let mut random = Random(seed);
    let mut in_step = 0;
    for line in all().filter(|line| line.operation.reduces() || line.operation == Operation::Alltoall) {
        for size in (2..=9).chain([12, 16, 17]) {
            for _ in 0..CASES {
                let bytes = ELEMENT * (1 + random.below(500));
                let nodes = nodes(size, &mut random);
                let a = Arguments {
                    size,
                    root: random.rank(size),
                    bytes,
                    counts: (0..size).map(|_| ELEMENT * random.below(bytes)).collect(),
                    element: ELEMENT,
                    commutative: true,
                    in_place: random.yes(2),
                    blocks: random.one_of(&[None, Some(1), Some(3), Some(8)]),
                    groups: nodes.iter().map(|node| node / 2).collect(),
                    nodes,
                    ..Arguments::default()
                };
                if (line.fits)(&a).is_err() {
                    continue;
                }
                let limits = WireLimits { light: random.one_of(&[0, bytes]), ..random.limits(bytes) };
                let plan = (line.build)(&a, &MODEL).unwrap();
                if !line.operation.reduces() && !plan.in_step() {
                    continue;
                }
                in_step += u32::from(plan.in_step());
                for (rank, program) in programs(&*plan, &limits).iter().enumerate() {
                    for (round, last) in rounds(program) {
                        assert!(
                            last <= round,
                            "{} {}: a put of rank {rank} in round {round} waits for round {}; {a:?}, {limits:?}",
                            line.operation,
                            line.name,
                            last - 1
                        );
                    }
                }
            }
        }
    }
    assert!(in_step > CASES, "{in_step} plans keep in step");
}

/// What a plan says of its puts is held against them.
#[test]
fn a_plan_that_puts_to_two_ranks_in_a_round_does_not_keep_in_step() {
    let a = Arguments { size: 5, bytes: 16, element: ELEMENT, ..Arguments::default() };
    let goal = Goal::alltoall(5, 16);
    let line = algorithm(Operation::Alltoall, "direct").unwrap();
    let plan = (line.build)(&a, &MODEL).unwrap();
    let mut told = programs(&*plan, &WireLimits::PLAIN);
    assert!(check(&*plan, &told, &goal, 1).is_ok() && told[0].in_step);
    told.iter_mut().flat_map(|program| &mut program.ops).for_each(|op| op.round = 0);
    let violation = check(&*plan, &told, &goal, 1).unwrap_err();
    assert!(violation.to_string().contains("keeps in step, and puts to two ranks in round 0"), "{violation}");
}
