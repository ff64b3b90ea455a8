//! Every line of the registry that gathers at all or broadcasts, proved within its restrictions for p ≤ 128
//! and some larger: from random roots, with random counts (zeros and giants too); each byte exactly once, in the
//! rounds and with the volume that the line promises; and again lowered to wires of random limits, run in random
//! order. `PLAN_PROOF=full`: more cases. A failing case prints its seed; `PLAN_PROOF_SEED` repeats it.

use crate::proof;

use circulant_core::machine::LogGp;
use circulant_core::plan::allgatherv::Contributions;
use circulant_core::plan::allgatherv::pipelined_ring::{Allgatherv, by_node, spread};
use circulant_core::plan::interpret::{Goal, check, prove, run_without};
use circulant_core::plan::lower::WireLimits;
use circulant_core::plan::price::price;
use circulant_core::plan::registry::{Algorithm, Arguments, Operation, algorithm};
use circulant_core::plan::rules::MAX_BLOCK_PUTS;
use circulant_core::plan::{Kind, Plan, Step, Wait};
use proof::{ALL, MODEL, Random, SOME, full, programs, seed};
use std::sync::atomic::{AtomicU32, Ordering};

/// The operations that [`case`] knows.
const OPERATIONS: [Operation; 4] =
    [Operation::Bcast, Operation::Allgather, Operation::Allgatherv, Operation::Barrier];

fn lines() -> impl Iterator<Item = &'static Algorithm> {
    proof::all().filter(|line| OPERATIONS.contains(&line.operation))
}

/// Runs `body` for every p up to 128 and some more.
fn every_p(name: &str, body: impl Fn(u32, &mut Random) + Sync) {
    proof::every_p(name, (1..=ALL).chain(SOME), body);
}

/// Counts of about as many bytes as `n` blocks have.
fn counts(p: u32, n: u32, random: &mut Random) -> Vec<u64> {
    let n = u64::from(n);
    let size = random.one_of(&[1, n, 20 * n, 64 * n]);
    random.counts(p, size)
}

/// A random case of an operation, its goal, and whether none of its blocks is empty.
fn case(operation: Operation, size: u32, random: &mut Random) -> (Arguments, Goal, bool) {
    let n = if size > ALL { random.one_of(&[1, 2, 3]) } else { random.one_of(&[1, 1, 2, 3, 5, 8, 13]) };
    let blocks = if random.below(4) == 0 && size <= ALL { None } else { Some(n) };
    let root = u32::try_from(random.below(size.into())).unwrap();
    let root = random.one_of(&[0, size - 1, root]);
    let least = u64::from(n + size);
    let bytes = random.one_of(&[0, 1, u64::from(n), least, 3 * least + 1, 64 * least, 1 << 33]);
    let in_place = operation != Operation::Bcast && random.below(2) == 0;
    let counts = match operation {
        Operation::Allgather => vec![bytes; size as usize],
        Operation::Allgatherv => counts(size, n, random),
        _ => Vec::new(),
    };
    let displs = match operation {
        Operation::Allgather => (0..u64::from(size)).map(|j| j * bytes).collect(),
        _ => random.displs(&counts),
    };
    let goal = match operation {
        Operation::Bcast => Goal::bcast(root, bytes),
        Operation::Barrier => Goal::default(),
        Operation::Allgather | Operation::Allgatherv => Goal::allgatherv(&counts, &displs, in_place),
        other => panic!("{other} is not among OPERATIONS"),
    };
    let filled = match operation {
        Operation::Bcast => bytes >= least,
        Operation::Barrier => true,
        _ => counts.iter().all(|&count| count >= n.into()),
    };
    let nodes = random.nodes(size);
    let groups = random.groups(size, &nodes);
    let a = Arguments {
        size,
        root,
        bytes,
        counts,
        displs,
        in_place,
        blocks,
        nodes,
        groups,
        ..Arguments::default()
    };
    (a, goal, filled)
}

/// The ranks that get bytes: all the receivers of an operation get as many in all.
fn received(algorithm: &Algorithm, a: &Arguments) -> u64 {
    let others = u64::from(a.size) - 1;
    match algorithm.operation {
        Operation::Allgatherv => others * a.counts.iter().sum::<u64>(),
        Operation::Allgather => u64::from(a.size) * algorithm.volume_of(a),
        _ => others * algorithm.volume_of(a),
    }
}

/// Whether there was something to promise.
fn keeps_its_promises(algorithm: &Algorithm, size: u32, random: &mut Random) -> bool {
    let (a, goal, filled) = case(algorithm.operation, size, random);
    let name = format!("{} {} {a:?}", algorithm.operation, algorithm.name);
    if let Err(restricted) = (algorithm.fits)(&a) {
        let refused = (algorithm.build)(&a, &MODEL).unwrap_err();
        assert_eq!(refused.to_string(), restricted.to_string(), "{name}");
        return false;
    }
    let plan = (algorithm.build)(&a, &MODEL).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(plan.size(), size, "{name}");
    let report = prove(&*plan, &goal).unwrap_or_else(|v| panic!("{name}: {v}"));
    assert_eq!(report.bytes, received(algorithm, &a), "{name}");
    if let Some(n) = a.blocks {
        let promised = (algorithm.rounds_of)(&a, n);
        assert!(plan.rounds() <= promised, "{name}: {} rounds for {promised}", plan.rounds());
        if filled && !algorithm.rounds.starts_with("<=") {
            assert_eq!((plan.rounds(), report.rounds), (promised, promised), "{name}");
        }
    }
    assert!(report.rounds <= plan.rounds(), "{name}: {report:?}");
    if !full() && (size > ALL || size > 24 && !random.yes(4)) {
        return true;
    }
    let longest = a.counts.iter().copied().max().unwrap_or(a.bytes);
    let block = longest / u64::from(a.blocks.unwrap_or(1));
    let limits = random.limits(block);
    let programs = programs(&*plan, &limits);
    check(&*plan, &programs, &goal, random.below(1 << 60))
        .unwrap_or_else(|v| panic!("{name} {limits:?}: {v}"));
    true
}

fn all_to_all(operation: Operation) -> bool {
    matches!(operation, Operation::Allgather | Operation::Allgatherv)
}

#[test]
fn every_line_keeps_its_promises() {
    let proofs: Vec<AtomicU32> = lines().map(|_| AtomicU32::new(0)).collect();
    every_p("every_line_keeps_its_promises", |p, random| {
        for (algorithm, proofs) in lines().zip(&proofs) {
            let times = match p {
                0..=16 => 12,
                17..=64 => 2,
                65..=300 => 1,
                // A proof of p contributions at p ranks follows p² puts.
                _ => u32::from(
                    all_to_all(algorithm.operation) && random.yes(4) || !all_to_all(algorithm.operation),
                ),
            };
            for _ in 0..if full() { 2 * times.max(1) } else { times } {
                proofs.fetch_add(keeps_its_promises(algorithm, p, random).into(), Ordering::Relaxed);
            }
        }
    });
    for (algorithm, proofs) in lines().zip(&proofs) {
        let proofs = proofs.load(Ordering::Relaxed);
        println!("{} {}: {proofs} cases", algorithm.operation, algorithm.name);
        assert!(proofs >= 12 * 5, "{algorithm:?}: {proofs} cases only");
    }
}

/// With the ranks' nodes the pipelined ring goes from node to node: one rank of each puts to another.
#[test]
fn the_pipelined_ring_leaves_every_node_once() {
    let ring = algorithm(Operation::Allgather, "pipelined_ring").unwrap();
    let crossings = |nodes: &[u32]| {
        let a = Arguments { size: 24, bytes: 10, nodes: nodes.into(), ..Arguments::default() };
        let plan = (ring.build)(&a, &MODEL).unwrap();
        let next = |rank| plan.steps(rank).find(|s| s.kind == Kind::Put).unwrap().peer;
        (0..24u32).filter(|&rank| rank % 4 != next(rank) % 4).count()
    };
    // Round-robin placement on four nodes.
    let nodes: Vec<u32> = (0..24).map(|rank| rank % 4).collect();
    assert_eq!((crossings(&[]), crossings(&nodes)), (24, 4));
}

/// What a restriction says is what the machine checks.
#[test]
fn restrictions_are_those_of_the_text() {
    for algorithm in lines() {
        for size in 1..=ALL {
            let composite = (2..size).any(|a| size.is_multiple_of(a)) || size == 1;
            // Pairs of ranks, the last of them alone where p is odd.
            let pairs = size > 2;
            let wanted = match algorithm.restrictions {
                text if text.contains("same number of ranks") => pairs && size.is_multiple_of(2),
                // Fours of ranks.
                text if text.contains("several groups") => size > 4,
                text if text.contains("several nodes") => pairs,
                text if text.contains("a power of two") => size.is_power_of_two(),
                text if text.contains("p = a*b") => composite,
                text => text.starts_with("any p"),
            };
            let nodes = (0..size).map(|rank| rank / 2).collect();
            let groups = (0..size).map(|rank| rank / 4).collect();
            let a = Arguments { size, nodes, groups, ..Arguments::default() };
            assert_eq!((algorithm.fits)(&a).is_ok(), wanted, "p = {size}: {algorithm:?}");
        }
    }
}

fn around(counts: &[u64], block: u64, ring: Vec<u32>) -> Allgatherv {
    let displs: Vec<u64> = counts.iter().scan(0, |at, c| Some(std::mem::replace(at, *at + c))).collect();
    let plan = Allgatherv::new(Contributions::new(counts, &displs, false).unwrap(), block, ring).unwrap();
    let report = prove(&plan, &Goal::allgatherv(counts, &displs, false)).unwrap();
    // Its rounds are exact, whichever rank has no data: something is sent in each.
    assert_eq!(report.rounds, plan.rounds(), "{counts:?} in blocks of {block}");
    plan
}

/// Figure 3 of the paper: ranks without data, contiguous and spread.
#[test]
fn spreading_the_ranks_without_data_saves_rounds() {
    let spaced = |counts: &[u64]| around(counts, 1, spread(counts)).rounds();
    // Two contributions of 4 and 4 blocks and six without: 8 - 1 + 6/2 rounds at best.
    let contiguous = [4, 4, 0, 0, 0, 0, 0, 0];
    assert_eq!(spaced(&contiguous), 8 - 1 + 3);
    assert_eq!(around(&contiguous, 1, (0..8).collect()).rounds(), 8 - 1 + 6);
    // A single contribution is a broadcast in a chain.
    assert_eq!(spaced(&[0, 0, 7, 0, 0]), 7 + 5 - 2);
    assert_eq!(spaced(&[0, 0, 0]), 0);
    every_p("spreading_the_ranks_without_data_saves_rounds", |p, random| {
        for _ in 0..if p <= ALL { 10 } else { 1 } {
            let n = u32::try_from(random.below(9) + 1).unwrap();
            let counts = counts(p, n, random);
            let block = counts.iter().max().unwrap().div_ceil(n.into()).max(1);
            let spaced = around(&counts, block, spread(&counts)).rounds();
            // Side by side they cost most: a round each, but for one.
            let mut contiguous: Vec<u32> = (0..p).collect();
            contiguous.sort_by_key(|&rank| counts[rank as usize] == 0);
            let contiguous = around(&counts, block, contiguous);
            let empty = u32::try_from(counts.iter().filter(|&&count| count == 0).count()).unwrap();
            if empty > 0 && empty + 1 < p {
                assert_eq!(contiguous.rounds(), contiguous.blocks() + empty - 1);
            }
            assert!(spaced <= contiguous.rounds(), "{counts:?} in blocks of {block}");
            // Any ring gathers everything; and that of the nodes keeps them together.
            let nodes: Vec<u32> = (0..p).map(|_| u32::try_from(random.below(5)).unwrap()).collect();
            let ring = by_node(&counts, &nodes);
            assert!(ring.windows(2).all(|w| nodes[w[0] as usize] <= nodes[w[1] as usize]));
            around(&counts, block, ring);
        }
    });
}

/// What the rules choose is near the best of all n on the wire of the model.
#[test]
fn block_numbers_by_rule_are_near_the_best() {
    let limits = WireLimits { max_put: 1 << 40, gather: 1, light: 0, ..WireLimits::PLAIN };
    for model in [MODEL, LogGp { latency_ns: 100_000, overhead_ns: 5_000, byte_ps: 1000, reduce_ps: 100 }] {
        for (name, size, bytes) in [
            ("chain", 9, 1 << 20),
            ("chain", 33, 1 << 16),
            ("round_robin", 8, 1 << 22),
            ("round_robin", 13, 1 << 20),
            ("wide_trees", 16, 100_000),
            ("wide_trees", 36, 1 << 20),
        ] {
            let bcast = algorithm(Operation::Bcast, name).unwrap();
            let time = |blocks| {
                let a = Arguments { size, bytes, blocks, ..Arguments::default() };
                price(&*(bcast.build)(&a, &model).unwrap(), &limits, &model).unwrap()
            };
            let best = (0..9).map(|k| time(Some(1 << k))).min().unwrap();
            let by_rule = time(None);
            assert!(by_rule <= best + best / 5, "{name}, p = {size}: {by_rule} ns, best {best} ns");
        }
        // The spike of the paper: half of the bytes at rank 0.
        let counts: Vec<u64> = (0..16).map(|j| if j == 0 { 1 << 20 } else { (1 << 20) / 15 }).collect();
        let displs: Vec<u64> = counts.iter().scan(0, |at, c| Some(std::mem::replace(at, *at + c))).collect();
        let ring = algorithm(Operation::Allgatherv, "pipelined_ring").unwrap();
        let time = |blocks| {
            let (counts, displs) = (counts.clone(), displs.clone());
            let a = Arguments { size: 16, counts, displs, blocks, ..Arguments::default() };
            price(&*(ring.build)(&a, &model).unwrap(), &limits, &model).unwrap()
        };
        let best = (0..9).map(|k| time(Some(1 << k))).min().unwrap();
        assert!(time(None) <= best + best / 5, "{} ns, best {best} ns", time(None));
        assert!(time(None) < time(Some(1)), "{} ns, unpipelined {} ns", time(None), time(Some(1)));
    }
}

#[test]
fn bad_arguments_are_errors() {
    let ring = algorithm(Operation::Allgather, "pipelined_ring").unwrap();
    let a = Arguments { size: 4, bytes: 1, nodes: [0; 3].into(), ..Arguments::default() };
    assert!((ring.build)(&a, &MODEL).unwrap_err().to_string().contains("nodes"));
    for algorithm in lines() {
        for bad in [
            Arguments::default(),
            Arguments { size: 4, root: 4, bytes: 1, ..Arguments::default() },
            Arguments { size: 4, bytes: u64::MAX / 2, ..Arguments::default() },
            Arguments { size: 4, bytes: 100, blocks: Some(0), ..Arguments::default() },
            Arguments { size: 4, bytes: 100, blocks: Some(u32::MAX), ..Arguments::default() },
        ] {
            // No panic; and what is taken is a plan of all ranks.
            if let Ok(plan) = (algorithm.build)(&bad, &MODEL) {
                assert_eq!(plan.size(), 4, "{algorithm:?}");
            }
        }
        let none = Arguments { counts: vec![1], displs: Vec::new(), ..Arguments::default() };
        assert!((algorithm.build)(&none, &MODEL).is_err(), "{algorithm:?}");
    }
    let data = || Contributions::new(&[3, 0, 5], &[0, 3, 3], false).unwrap();
    Allgatherv::new(data(), 0, vec![0, 1, 2]).unwrap_err();
    Allgatherv::new(data(), 2, vec![0, 1]).unwrap_err();
    Allgatherv::new(data(), 2, vec![0, 1, 1]).unwrap_err();
    Allgatherv::new(data(), 2, vec![0, 1, 7]).unwrap_err();
    Allgatherv::new(data(), 2, vec![2, 1, 0]).unwrap();
    let huge = Contributions::new(&[1 << 40, 1], &[0, 1 << 40], false).unwrap();
    Allgatherv::new(huge, 1, vec![0, 1]).unwrap_err();
    Contributions::equal(0, 1, false).unwrap_err();
}

/// Lazy broadcasts among very many ranks: what random ranks do is what their peers expect.
#[test]
fn a_billion_ranks() {
    let seed = seed();
    println!("a_billion_ranks: PLAN_PROOF_SEED={seed}");
    let mut random = Random(seed);
    for size in [1_000_000, 1 << 30, i32::MAX.cast_unsigned()] {
        for name in ["binomial", "scatter_allgather", "hypercube", "mesh", "chain"] {
            let line = algorithm(Operation::Bcast, name).unwrap();
            let root = u32::try_from(random.below(size.into())).unwrap();
            let a = Arguments { size, root, bytes: 1 << 40, blocks: Some(3), ..Arguments::default() };
            if (line.fits)(&a).is_err() {
                continue;
            }
            let plan = (line.build)(&a, &MODEL).unwrap();
            for _ in 0..50 {
                let rank = u32::try_from(random.below(size.into())).unwrap();
                for step in plan.steps(rank) {
                    let (kind, mirror) = match step.kind {
                        Kind::Put => (Kind::Expect, step.peer),
                        Kind::Expect => (Kind::Put, step.peer),
                        _ => continue,
                    };
                    let waits = [Wait::NONE; 2];
                    let wanted = Step { kind, peer: rank, waits, ..step };
                    let found = plan.steps(mirror).any(|s| Step { waits, ..s } == wanted);
                    assert!(found && step.round < plan.rounds(), "{name}, p = {size}, rank {rank}: {step:?}");
                }
            }
        }
    }
}

/// A rank that stays away keeps all others from leaving, whatever the barrier, and however many ranks each notifies at a time.
#[test]
fn every_line_of_the_barrier_waits_for_every_rank() {
    let limits = WireLimits { max_put: 1, gather: 1, light: 0, ..WireLimits::PLAIN };
    let barriers = lines().filter(|line| line.operation == Operation::Barrier);
    for (line, blocks) in
        barriers.flat_map(|line| [None, Some(1), Some(2), Some(3), Some(5)].map(|n| (line, n)))
    {
        for size in 2..=30 {
            let nodes = (0..size).map(|rank| rank / 3 * 3).collect::<Vec<_>>();
            let a = Arguments { size, blocks, nodes: nodes[..].into(), ..Arguments::default() };
            if (line.fits)(&a).is_err() {
                continue;
            }
            let programs = programs(&*(line.build)(&a, &MODEL).unwrap(), &limits);
            for absent in 0..size {
                let left = run_without(&programs, absent, absent.into()).unwrap();
                assert!(
                    left.is_empty(),
                    "{} of {size}, {blocks:?}: {left:?} leave without {absent}",
                    line.name
                );
            }
        }
    }
}

/// Steps that any line takes for a put of a block, at most: an expect, a put, a credit and two reduces.
const MOST_STEPS: u64 = 5;

/// Whatever number of blocks is named, no line has more steps than [`MAX_BLOCK_PUTS`] allows; and what that bounds is what grows with the blocks.
#[test]
fn named_blocks_take_bounded_puts() {
    for (size, per_node, per_group) in [(16, 4, 2), (24, 1, 8), (36, 12, 1), (40, 1, 1)] {
        let all = 0..size;
        // No blocks of an alltoallv are named.
        let lines = proof::all().filter(|line| line.operation != Operation::Alltoallv);
        for line in lines {
            let counts = match line.operation {
                Operation::Allgatherv
                | Operation::InterAllgatherv
                | Operation::Gatherv
                | Operation::Scatterv
                | Operation::ReduceScatter => {
                    vec![1 << 20; size as usize]
                }
                _ => Vec::new(),
            };
            let named = |n: u32| Arguments {
                size,
                bytes: 1 << 20,
                displs: (0..u64::from(size)).map(|j| j << 20).collect(),
                counts: counts.clone(),
                element: 4,
                commutative: true,
                exact: true,
                first: if line.operation.is_between_groups() { size / 4 } else { 0 },
                blocks: Some(n),
                nodes: all.clone().map(|rank| rank / per_node).collect(),
                groups: all.clone().map(|rank| rank / per_node / per_group).collect(),
                ..Arguments::default()
            };
            let few = named(8);
            if (line.fits)(&few).is_err() {
                continue;
            }
            let puts = (line.puts_per_block)(&few);
            let most = (MAX_BLOCK_PUTS / puts).max(1);
            assert_eq!(line.blocks(&few), Some(8));
            assert_eq!(line.blocks(&named(u32::MAX)), Some(most), "{} {}", line.operation, line.name);
            let steps = |n, rank| (line.build)(&named(n), &MODEL).unwrap().steps(rank).count() as u64;
            for rank in all.clone() {
                if line.messages.is_some() {
                    // A message for each of the others is the most that it makes.
                    let most = MOST_STEPS * u64::from(size);
                    assert!(steps(u32::MAX, rank) <= most, "{} {}", line.operation, line.name);
                    continue;
                }
                let more = steps(16, rank) - steps(8, rank);
                assert!(
                    more <= 8 * MOST_STEPS * u64::from(puts),
                    "{} {}: {more} steps at rank {rank} for 8 blocks of {puts} puts each",
                    line.operation,
                    line.name
                );
            }
        }
    }
}

/// Of more blocks than are made, the price is that of those that are.
#[test]
fn a_price_is_of_the_blocks_that_are_made() {
    let machine = circulant_core::machine::Machine::flat(MODEL);
    let line = algorithm(Operation::Bcast, "circulant").unwrap();
    let cost = |n| {
        let a = Arguments { size: 1000, bytes: 1 << 30, blocks: Some(n), ..Arguments::default() };
        line.cost(&a, &machine)
    };
    assert_eq!(cost(MAX_BLOCK_PUTS).blocks, MAX_BLOCK_PUTS);
    assert_eq!(cost(1_000_000), cost(MAX_BLOCK_PUTS));
    assert_ne!(cost(1000), cost(MAX_BLOCK_PUTS));
}
