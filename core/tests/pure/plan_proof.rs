//! The default plans, proved for the p that `proof` draws, with more block numbers than `plan_registry` tries: each byte exactly once, one-ported, in the promised rounds, and right under any
//! legal order of deliveries; and again after lowering to what wires of different limits allow, run in random
//! order. `PLAN_PROOF=full`: every p up to 300 (minutes). A failing case prints its seed;
//! `PLAN_PROOF_SEED` repeats it.

use crate::proof;

use circulant_core::plan::allgather::circulant::Allgather;
use circulant_core::plan::allgather::runs::Allgather as Runs;
use circulant_core::plan::allgatherv::circulant::{Allgatherv, Blocks};
use circulant_core::plan::barrier::dissemination::Barrier;
use circulant_core::plan::bcast::circulant::Bcast;
use circulant_core::plan::interpret::{Goal, Report, check, prove, run_without};
use circulant_core::plan::lower::{WireLimits, lower};
use circulant_core::plan::split::ALIGN;
use circulant_core::plan::{Kind, Plan, Step, Wait};
use proof::{ALL, Random, full, programs, q, seed};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs `body` for p up to 128 and some more.
fn every_p(name: &str, body: impl Fn(u32, &mut Random) -> Report + Sync) {
    let (steps, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let sizes: Vec<u32> =
        if full() { (1..=300).collect() } else { (1..=ALL).chain([129, 255, 256, 257, 300]).collect() };
    proof::every_p(name, sizes, |p, random| {
        let report = body(p, random);
        steps.fetch_add(report.steps, Ordering::Relaxed);
        bytes.fetch_add(report.bytes, Ordering::Relaxed);
    });
    println!("{name}: {} steps, {} bytes put", steps.into_inner(), bytes.into_inner());
}

fn add(total: &mut Report, one: Report) {
    total.steps += one.steps;
    total.bytes += one.bytes;
}

/// Proves a plan; a plan whose blocks are all there needs exactly the rounds that it promises.
fn proved(plan: &dyn Plan, goal: &Goal, filled: bool, case: &dyn std::fmt::Debug) -> Report {
    let report = prove(plan, goal).unwrap_or_else(|v| panic!("p = {}, {case:?}: {v}", plan.size()));
    if filled && plan.size() > 1 {
        assert_eq!(report.rounds, plan.rounds(), "p = {}, {case:?}", plan.size());
    }
    report
}

/// Checks the plan's programs on a wire of random limits; its largest blocks have `block` bytes.
fn checked(
    plan: &dyn Plan,
    goal: &Goal,
    block: u64,
    random: &mut Random,
    case: &dyn std::fmt::Debug,
) -> Report {
    let limits = random.limits(block);
    check(plan, &programs(plan, &limits), goal, random.below(1 << 60))
        .unwrap_or_else(|v| panic!("p = {}, {case:?}, {limits:?}: {v}", plan.size()))
}

/// n to test: all up to 3q+3, or those around the phase borders.
fn block_numbers(p: u32, all: bool) -> Vec<u32> {
    let q = q(p);
    if all {
        return (1..=3 * q + 3).collect();
    }
    let mut list = vec![1, 2, q - 1, q, q + 1, 2 * q + 1, 3 * q + 3];
    list.sort_unstable();
    list.dedup();
    list
}

#[test]
fn bcast() {
    every_p("bcast", |p, random| {
        let mut total = Report::default();
        let some = [0, 1 % p, p - 1, u32::try_from(random.below(p.into())).unwrap()];
        let roots = if p <= 40 { (0..p).collect() } else { some.to_vec() };
        for root in roots {
            for n in block_numbers(p, true) {
                let blocks = u64::from(n);
                let short = random.one_of(&[0, 1, blocks / 2, blocks, 3 * blocks + 1]);
                let shorts = u32::from(p <= 40 || random.below(4) == 0);
                let long = blocks * ALIGN + random.below(1000);
                for bytes in [long].into_iter().chain((0..shorts).map(|_| short)) {
                    let plan = Bcast::new(p, root, bytes, n).unwrap();
                    let case = (root, bytes, n);
                    add(&mut total, proved(&plan, &Goal::bcast(root, bytes), bytes >= blocks, &case));
                    if random.below(20) == 0 || n > 2 * q(p) && random.below(5) == 0 {
                        add(
                            &mut total,
                            checked(&plan, &Goal::bcast(root, bytes), bytes / blocks, random, &case),
                        );
                    }
                }
            }
        }
        total
    });
}

/// Counts of about as many bytes as `n` blocks have, and displacements.
fn irregular(p: u32, n: u32, random: &mut Random) -> (Vec<u64>, Vec<u64>) {
    let n = u64::from(n);
    let size = random.one_of(&[1, n, 20 * n, ALIGN * n]);
    let counts = random.counts(p, size);
    let displs = random.displs(&counts);
    (counts, displs)
}

/// The same number of blocks for all owners, or for each in proportion to its bytes.
fn cut(counts: &[u64], n: u32, random: &mut Random) -> Blocks {
    if random.below(2) == 0 {
        return Blocks::Equal(n);
    }
    let most = counts.iter().copied().max().unwrap().max(1);
    let share = |&count: &u64| u32::try_from((u64::from(n) * count).div_ceil(most)).unwrap().max(1);
    Blocks::PerOwner(counts.iter().map(share).collect())
}

#[test]
fn allgatherv() {
    every_p("allgatherv", |p, random| {
        let mut total = Report::default();
        for n in block_numbers(p.max(3), p <= 64) {
            for _ in 0..if p > 64 {
                1
            } else if full() {
                4
            } else {
                2
            } {
                let (counts, displs) = irregular(p, n, random);
                let (blocks, in_place) = (cut(&counts, n, random), random.below(2) == 0);
                let plan = Allgatherv::new(&counts, &displs, &blocks, in_place).unwrap();
                let goal = Goal::allgatherv(&counts, &displs, in_place);
                let case = (&counts, &displs, &blocks, in_place);
                let largest = counts.iter().copied().max().unwrap();
                let filled = largest >= n.into();
                add(&mut total, proved(&plan, &goal, filled && plan.blocks() == n, &case));
                if p <= 40 || u64::from(n) * u64::from(p).pow(2) < 200_000 && random.below(2) == 0 {
                    add(&mut total, checked(&plan, &goal, largest / u64::from(n), random, &case));
                }
            }
        }
        total
    });
}

#[test]
fn allgather() {
    every_p("allgather", |p, random| {
        let mut total = Report::default();
        for in_place in [false, true] {
            let count = random.one_of(&[0, 1, 8, 100, 1000]);
            let plan = Allgather::new(p, count, in_place).unwrap();
            let counts = vec![count; p as usize];
            let displs: Vec<u64> = (0..u64::from(p)).map(|j| j * count).collect();
            let goal = Goal::allgatherv(&counts, &displs, in_place);
            let report = proved(&plan, &goal, count > 0, &(count, in_place));
            assert!(report.puts <= 2 * u64::from(p * q(p)));
            assert_eq!(report.bytes, u64::from(p) * u64::from(p - 1) * count);
            add(&mut total, report);
            add(&mut total, checked(&plan, &goal, count * u64::from(p) / 8, random, &(count, in_place)));
        }
        total
    });
}

/// The same of contributions that have a length each, some of them none.
#[test]
fn allgather_in_windows() {
    every_p("allgather in windows", |p, random| {
        let mut total = Report::default();
        for in_place in [false, true] {
            let around = random.one_of(&[1, 40, 3000]);
            let counts = random.counts(p, around);
            let displs: Vec<u64> =
                counts.iter().scan(0, |end, n| Some(std::mem::replace(end, *end + n))).collect();
            let plan = Allgather::irregular(&counts, in_place).unwrap();
            let goal = Goal::allgatherv(&counts, &displs, in_place);
            let report = proved(&plan, &goal, counts.iter().all(|n| *n > 0), &(&counts, in_place));
            assert!(report.puts <= 2 * u64::from(p * q(p)));
            assert_eq!(report.bytes, u64::from(p - 1) * counts.iter().sum::<u64>());
            add(&mut total, report);
            add(&mut total, checked(&plan, &goal, around * u64::from(p) / 8, random, &(&counts, in_place)));
        }
        total
    });
}

/// Very many ranks with a length each: a rank's steps are few, and one among more takes windows by itself.
#[test]
fn irregular_contributions_of_many_ranks_take_few_steps() {
    use circulant_core::plan::registry::{Arguments, Operation, algorithm};
    let line = algorithm(Operation::Allgatherv, "circulant").unwrap();
    for (p, gap, few) in [(100_000u32, 0, true), (17_000, 0, true), (17_000, 8, false), (1000, 0, false)] {
        let counts: Vec<u64> = (0..u64::from(p)).map(|j| 8 * (j % 3)).collect();
        let place = |end: &mut u64, n: &u64| Some(std::mem::replace(end, *end + n + gap));
        let displs = counts.iter().scan(0, place).collect();
        let arguments = Arguments { size: p, counts, displs, ..Arguments::default() };
        let plan = (line.build)(&arguments, &proof::MODEL).unwrap();
        let steps = plan.steps(p / 3).count();
        let most = if few { 5 * q(p) as usize + 1 } else { usize::MAX };
        assert!(steps <= most && (few || steps > p as usize), "p = {p}: {steps} steps");
    }
}

/// The same in runs of neighbours, and of contributions cut into pieces.
#[test]
fn allgather_in_runs() {
    every_p("allgather in runs", |p, random| {
        let mut total = Report::default();
        for (in_place, cut) in [(false, 1), (true, 1), (false, random.one_of(&[2, 3, 4])), (true, 4)] {
            let count = random.one_of(&[0, 1, 3, 8, 101, 1000]);
            let run = random.one_of(&[0, 1, 50, 500, 5000]);
            let plan = Runs::new(p, count, run, cut, in_place).unwrap();
            let counts = vec![count; p as usize];
            let displs: Vec<u64> = (0..u64::from(p)).map(|j| j * count).collect();
            let goal = Goal::allgatherv(&counts, &displs, in_place);
            let case = (count, run, cut, in_place);
            let report = proved(&plan, &goal, false, &case);
            assert_eq!(report.bytes, u64::from(p) * u64::from(p - 1) * count, "p = {p}, {case:?}");
            add(&mut total, report);
            if p <= 40 || random.below(4) == 0 {
                add(&mut total, checked(&plan, &goal, count, random, &case));
            }
        }
        total
    });
}

#[test]
fn barrier() {
    every_p("barrier", |p, random| {
        let plan = Barrier::new(p).unwrap();
        let report = proved(&plan, &Goal::default(), true, &"");
        let limits = WireLimits { max_put: 1, gather: 1, light: 0, ..WireLimits::PLAIN };
        let programs = programs(&plan, &limits);
        check(&plan, &programs, &Goal::default(), random.below(1 << 60)).unwrap();
        // A rank that stays away keeps all from leaving.
        let some = (0..20).map(|_| u32::try_from(random.below(p.into())).unwrap()).collect();
        let late: Vec<u32> = if p <= 100 { (0..p).collect() } else { some };
        for absent in late.into_iter().filter(|_| p > 1) {
            let left = run_without(&programs, absent, random.below(1 << 60)).unwrap();
            assert!(left.is_empty(), "p = {p}: {left:?} leave though {absent} has not entered");
        }
        report
    });
}

/// Lazy plans of very many ranks: what a few random ranks do is what their peers expect.
#[test]
fn a_billion_ranks() {
    let seed = seed();
    println!("a_billion_ranks: PLAN_PROOF_SEED={seed}");
    let mut random = Random(seed);
    for p in [1_000_000, (1 << 20) + 1, (1 << 30) - 1, 1 << 30, i32::MAX.cast_unsigned()] {
        let root = u32::try_from(random.below(p.into())).unwrap();
        let plans: [&dyn Plan; 3] = [
            &Bcast::new(p, root, 1 << 40, 45).unwrap(),
            &Allgather::new(p, 8, false).unwrap(),
            &Barrier::new(p).unwrap(),
        ];
        for plan in plans {
            for _ in 0..if full() { 50 } else { 15 } {
                let rank = u32::try_from(random.below(p.into())).unwrap();
                for step in plan.steps(rank) {
                    let kind = match step.kind {
                        Kind::Put => Kind::Expect,
                        Kind::Notify => Kind::ExpectNotify,
                        _ => continue,
                    };
                    let mirror = Step { kind, peer: rank, waits: [Wait::NONE; 2], ..step };
                    assert!(plan.steps(step.peer).any(|s| s == mirror), "p = {p}, rank {rank}: {step:?}");
                }
                let program = lower(
                    plan,
                    rank,
                    &WireLimits { max_put: 8 << 20, gather: 1, light: 0, ..WireLimits::PLAIN },
                );
                assert!(program.unwrap().arrivals > 0 || rank == root);
            }
        }
    }
}

#[test]
fn beyond_four_gigabytes() {
    let bytes = (10 << 32) + 77;
    for p in [2, 9, 33] {
        let plan = Bcast::new(p, 1, bytes, 13).unwrap();
        let goal = Goal::bcast(1, bytes);
        proved(&plan, &goal, true, &bytes);
        checked(&plan, &goal, bytes / 13, &mut Random(1), &bytes);
        let counts: Vec<u64> = (0..p).map(|j| u64::from(j % 3) << 33).collect();
        let displs: Vec<u64> = (0..p).map(|j| u64::from(j) << 35).collect();
        let plan = Allgatherv::new(&counts, &displs, &Blocks::Equal(5), false).unwrap();
        let goal = Goal::allgatherv(&counts, &displs, false);
        proved(&plan, &goal, true, &counts);
        checked(&plan, &goal, 1 << 32, &mut Random(1), &counts);
    }
}

#[test]
fn bad_arguments_are_errors() {
    Bcast::new(0, 0, 1, 1).unwrap_err();
    Bcast::new(4, 4, 1, 1).unwrap_err();
    Bcast::new(4, 0, 1, 0).unwrap_err();
    Bcast::new(4, 0, 1, u32::MAX).unwrap_err();
    Barrier::new(0).unwrap_err();
    Allgather::new(u32::MAX, 1, false).unwrap_err();
    Allgather::new(4, u64::MAX / 2, false).unwrap_err();
    let gather = |counts: &[u64], displs: &[u64], blocks| Allgatherv::new(counts, displs, &blocks, false);
    gather(&[], &[], Blocks::Equal(1)).unwrap_err();
    gather(&[1, 2], &[0], Blocks::Equal(1)).unwrap_err();
    gather(&[1, 2], &[0, 1], Blocks::Equal(0)).unwrap_err();
    gather(&[1, 2], &[0, 1], Blocks::PerOwner(vec![1])).unwrap_err();
    gather(&[1, 2], &[0, 1], Blocks::Equal(1 << 24)).unwrap_err();
    gather(&[1, 2], &[0, u64::MAX], Blocks::Equal(1)).unwrap_err();
    let overlap = gather(&[5, 0, 3], &[2, 3, 6], Blocks::Equal(1)).unwrap_err();
    assert!(overlap.to_string().contains("ranks 0 and 2 overlap"), "{overlap}");
}
