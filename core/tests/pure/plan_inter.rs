//! The registry's lines of the operations between two groups, proved for all pairs of group sizes up to 12 and some
//! larger: every byte of the other group exactly once and none of the own, in the promised rounds and volume;
//! and again lowered to wires of random limits, run in random order. `PLAN_PROOF=full`: all pairs up to 64.
//! A failing case prints its seed; `PLAN_PROOF_SEED` repeats it.

use crate::proof;

use circulant_core::machine::LogGp;
use circulant_core::plan::inter::{Groups, exchange::Exchange, root_gathering::RootGathering};
use circulant_core::plan::interpret::{Goal, check, prove, run_without};
use circulant_core::plan::lower::WireLimits;
use circulant_core::plan::price::price;
use circulant_core::plan::registry::{Algorithm, Arguments, Operation, algorithms, all};
use circulant_core::plan::{Kind, Plan};
use proof::{MODEL, Random, every_p, full, programs, q};

/// Group sizes beyond those of which all pairs are proved.
const BEYOND: [(u32, u32); 10] =
    [(1, 200), (129, 1), (50, 14), (32, 32), (25, 39), (64, 64), (100, 28), (127, 2), (200, 55), (500, 500)];

/// A random case of an operation between groups, its goal, and whether no block of it is empty.
fn case(operation: Operation, (first, second): (u32, u32), random: &mut Random) -> (Arguments, Goal, bool) {
    let size = first + second;
    let a = Arguments { size, first, ..Arguments::default() };
    let n = random.one_of(&[1, 2, 3, 5, 8]);
    // The rule's n for gigabytes of a thousand ranks: minutes, as every step is written down.
    let blocks = (size > 256 || !random.yes(4)).then_some(n);
    match operation {
        Operation::InterBarrier => (a, Goal::default(), true),
        Operation::InterBcast => {
            let bytes = random.one_of(&[0, 1, n.into(), 1000, 1 << 33]);
            let root = random.rank(size);
            let goal = Goal::inter_bcast(size, first, root, bytes);
            (Arguments { root, bytes, blocks, ..a }, goal, bytes >= n.into())
        }
        Operation::InterAllgather => {
            let some = [0, 1, 7, 1000, 1 << 33];
            let (one, two) = (random.one_of(&some), random.one_of(&some));
            // The same in both groups can be said by `bytes` alone.
            let counts = if one == two { Vec::new() } else { vec![one, two] };
            let all: Vec<u64> = (0..size).map(|r| if r < first { one } else { two }).collect();
            let displs: Vec<u64> = (0..size)
                .map(|r| if r < first { one * u64::from(r) } else { two * u64::from(r - first) })
                .collect();
            let goal = Goal::inter_allgatherv(first, &all, &displs);
            let full = one.min(two) >= u64::from(size.max(n));
            (Arguments { bytes: one, counts, blocks, ..a }, goal, full)
        }
        _ => {
            let around = random.one_of(&[1, 40, 3000]);
            let mut counts = random.counts(first, around);
            counts.extend(random.counts(second, around));
            let mut displs = random.displs(&counts[..first as usize]);
            displs.extend(random.displs(&counts[first as usize..]));
            let goal = Goal::inter_allgatherv(first, &counts, &displs);
            let full = counts.iter().all(|&count| count >= size.max(n).into());
            (Arguments { counts, displs, blocks, ..a }, goal, full)
        }
    }
}

/// The most ranges of a rank in Algorithm 2, one border at a time.
fn degree(a: &Arguments, counts: &[u64]) -> u32 {
    let (first, second) = counts.split_at(a.first as usize);
    let way = |from: &[u64], to: usize| {
        let total: u64 = from.iter().sum();
        let split = circulant_core::plan::split::Split::new(total, to as u32);
        let (mut got, mut at, mut most) = (vec![0u32; to], 0, 0);
        for &count in from {
            let mut sent = 0;
            for (d, got) in (0..).zip(&mut got) {
                let (begin, len) = split.block(d);
                if begin.max(at) < (begin + len).min(at + count) {
                    (*got, sent) = (*got + 1, sent + 1);
                }
            }
            (at, most) = (at + count, most.max(sent));
        }
        most.max(got.into_iter().max().unwrap_or(0))
    };
    way(first, second.len()).max(way(second, first.len()))
}

fn keeps_its_promises(line: &Algorithm, sizes: (u32, u32), random: &mut Random) {
    let (a, goal, filled) = case(line.operation, sizes, random);
    let name = || format!("{} {} {a:?}", line.operation, line.name);
    let plan = (line.build)(&a, &MODEL).unwrap_or_else(|e| panic!("{}: {e}", name()));
    let plan = &*plan;
    let report = prove(plan, &goal).unwrap_or_else(|v| panic!("{}: {v}", name()));
    assert_eq!((plan.algorithm(), plan.size()), (line.name, sizes.0 + sizes.1), "{}", name());
    assert_eq!(report.most, line.volume_of(&a), "{}", name());
    if let Some(n) = a.blocks {
        let promised = (line.rounds_of)(&a, n);
        assert!(plan.rounds() <= promised, "{}: {} rounds for {promised}", name(), plan.rounds());
        if filled {
            assert_eq!((plan.rounds(), report.rounds), (promised, promised), "{}", name());
        }
    }
    if line.name == "balanced" && !a.displs.is_empty() {
        let groups = sizes.0.max(sizes.1);
        assert_eq!((line.rounds_of)(&a, 1), degree(&a, &a.counts) + q(groups), "{}", name());
    }
    if plan.size() > 16 && !full() && !random.yes(4) {
        return;
    }
    let block = report.bytes / report.puts.max(1);
    let limits = random.limits(block.max(report.most / 200));
    check(plan, &programs(plan, &limits), &goal, random.below(1 << 60))
        .unwrap_or_else(|v| panic!("{} {limits:?}: {v}", name()));
}

#[test]
fn every_line_keeps_its_promises() {
    let lines: Vec<_> = proof::all().filter(|line| line.operation.is_between_groups()).collect();
    let most = if full() { 64 } else { 12 };
    every_p("every_line_keeps_its_promises", 1..=most, |first, random| {
        for second in 1..=most {
            for line in &lines {
                for _ in 0..if first + second <= 16 { 3 } else { 1 } {
                    keeps_its_promises(line, (first, second), random);
                }
            }
        }
    });
    every_p("… and beyond", 0..BEYOND.len() as u32, |i, random| {
        for line in &lines {
            keeps_its_promises(line, BEYOND[i as usize], random);
        }
    });
}

/// All roots of both groups.
#[test]
fn inter_bcast_from_every_root() {
    for (first, second) in [(1, 1), (1, 7), (8, 1), (5, 9), (16, 3)] {
        for root in 0..first + second {
            for line in algorithms(Operation::InterBcast) {
                let size = first + second;
                let a = Arguments { size, first, root, bytes: 999, blocks: Some(4), ..Arguments::default() };
                let plan = (line.build)(&a, &MODEL).unwrap();
                let report = prove(&*plan, &Goal::inter_bcast(size, first, root, 999)).unwrap();
                let others = if root < first { second } else { first };
                assert_eq!(report.bytes, u64::from(others) * 999);
                let n = if line.name == "circulant" { 4 } else { 1 };
                assert_eq!(report.rounds, n - 1 + q(others + 1));
                // Ranks of the root's own group have nothing to do.
                let own = if root < first { 0..first } else { first..size };
                assert!(own.filter(|&r| r != root).all(|r| plan.steps(r).next().is_none()));
            }
        }
    }
}

#[test]
fn no_rank_leaves_the_barrier_before_all_of_both_groups_are_in() {
    let limits = WireLimits { max_put: 1, gather: 1, light: 0, ..WireLimits::PLAIN };
    for (first, second) in [(1, 1), (3, 6), (16, 4), (7, 26)] {
        for line in algorithms(Operation::InterBarrier) {
            let a = Arguments { size: first + second, first, ..Arguments::default() };
            let programs = programs(&*(line.build)(&a, &MODEL).unwrap(), &limits);
            for absent in 0..a.size {
                assert!(run_without(&programs, absent, absent.into()).unwrap().is_empty());
            }
        }
    }
}

/// Figures 1 and 2 of the paper: which rank exchanges with which in Algorithm 1.
#[test]
fn segments_are_exchanged_in_pairs() {
    let partners = |first, second, rank: u32| {
        let plan = Exchange::segmented(Groups::new(first, first + second).unwrap(), [60, 60]).unwrap();
        let steps: Vec<_> = plan.steps(rank).filter(|s| s.round < plan.degree()).collect();
        let of = |kind| steps.iter().filter(|s| s.kind == kind).map(|s| (s.round, s.peer, s.len)).collect();
        (of(Kind::Put), of(Kind::Expect))
    };
    // p = 6, q = 2: b_1 sends thirds to a_3, a_4, a_5 and gets theirs whole.
    let thirds: Vec<(u32, u32, u64)> = vec![(0, 3, 20), (1, 4, 20), (2, 5, 20)];
    assert_eq!(partners(6, 2, 7), (thirds, vec![(0, 3, 60), (1, 4, 60), (2, 5, 60)]));
    // p = 8, q = 3: subgroups {0, 1, 2}, {3, 4, 5}, {6, 7}.
    assert_eq!(partners(8, 3, 5).0, [(2, 9, 60)]);
    assert_eq!(partners(8, 3, 10), (vec![(0, 6, 30), (1, 7, 30)], vec![(0, 6, 60), (1, 7, 60)]));
    // The smaller group first.
    assert_eq!(partners(2, 6, 1).0, [(0, 5, 20), (1, 6, 20), (2, 7, 20)]);
}

/// Equation (5): root gathering as libraries do it takes (m + 3m_A + 3m_B)/m times as long, for long
/// messages and large groups; the concurrent version 3 times (equation (1)).
#[test]
fn the_gain_over_root_gathering_is_what_the_paper_predicts() {
    let model = LogGp { latency_ns: 1, overhead_ns: 1, byte_ps: 1000, reduce_ps: 0 };
    let limits = WireLimits { max_put: 1 << 40, gather: 1, light: 0, ..WireLimits::PLAIN };
    let rising = |a: u32, b: u32| (0..a).chain(0..b).map(|i| u64::from(i + 1) * 10_000).collect();
    let equal = |a: u32, b: u32, [k, l]: [u64; 2]| -> Vec<u64> {
        (0..a + b).map(|r| if r < a { k } else { l } * 10_000).collect()
    };
    let settings: [(u32, u32, Vec<u64>); 6] = [
        (64, 64, equal(64, 64, [16, 16])),
        (100, 28, equal(100, 28, [16, 16])),
        (100, 28, equal(100, 28, [32, 16])),
        (100, 28, equal(100, 28, [16, 32])),
        (64, 64, rising(64, 64)),
        (100, 28, rising(100, 28)),
    ];
    for (first, second, counts) in settings {
        let groups = Groups::new(first, first + second).unwrap();
        let displs: Vec<u64> = [&counts[..first as usize], &counts[first as usize..]]
            .iter()
            .flat_map(|group| group.iter().scan(0, |at, c| Some(std::mem::replace(at, *at + c))))
            .collect();
        let time = |plan: &dyn Plan| price(plan, &limits, &model).unwrap() as f64;
        let new = time(&Exchange::balanced(groups, &counts, &displs).unwrap());
        let old = time(&RootGathering::sequential(groups, &counts, &displs).unwrap());
        let best = time(&RootGathering::concurrent(groups, &counts, &displs, |_, _| 200).unwrap());
        let (a, b) = counts.split_at(first as usize);
        let (a, b) = (a.iter().sum::<u64>() as f64, b.iter().sum::<u64>() as f64);
        let least = a.max(b);
        let (predicted, gain) = ((least + 3.0 * a + 3.0 * b) / least, old / new);
        println!(
            "{first}:{second}: {:.3} of the least time; gain {gain:.2}, predicted {predicted:.2}; best root gathering {:.2}",
            new / least,
            best / new
        );
        // Theorem 3: no longer than the least plus the longest contribution.
        let longest = *counts.iter().max().unwrap() as f64;
        assert!(new >= 0.95 * least && new <= 1.01 * (least + longest), "{new} for {least}");
        assert!((gain / predicted - 1.0).abs() < 0.12, "{gain} for {predicted}");
        assert!(best / new < 4.0 && best / new > 2.0, "{best} for {new}");
    }
}

#[test]
fn bad_arguments_are_errors() {
    for line in all().filter(|line| line.operation.is_between_groups()) {
        for (first, size) in [(0, 0), (0, 4), (4, 4), (5, 4), (1, u32::MAX)] {
            let a = Arguments { size, first, bytes: 8, ..Arguments::default() };
            assert!((line.fits)(&a).is_err() && (line.build)(&a, &MODEL).is_err(), "{line:?}");
        }
        let a = Arguments {
            size: 4,
            first: 2,
            bytes: u64::MAX,
            counts: vec![1; 3],
            root: 7,
            ..Arguments::default()
        };
        assert!((line.build)(&a, &MODEL).is_err() || line.operation == Operation::InterBarrier, "{line:?}");
    }
    let groups = Groups::new(2, 4).unwrap();
    Exchange::balanced(groups, &[5, 3, 5, 3], &[0, 5, 0, 5]).unwrap();
    // Contributions may overlap those of the other group, which go elsewhere, but not those of their own.
    let overlap = Exchange::balanced(groups, &[5, 3, 5, 3], &[0, 4, 0, 5]).unwrap_err();
    assert!(overlap.to_string().contains("overlap"), "{overlap}");
    Exchange::balanced(groups, &[5, 3, 5], &[0, 5, 0]).unwrap_err();
    Exchange::segmented(groups, [u64::MAX, 1]).unwrap_err();
    RootGathering::concurrent(groups, &[1; 4], &[0, 1, 0, 1], |_, _| 0).unwrap_err();
    RootGathering::concurrent(groups, &[1; 4], &[0, 1, 0, 1], |_, _| u32::MAX).unwrap_err();
}
