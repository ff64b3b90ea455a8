//! Every line of the registry that moves blocks (gather, scatter, alltoall and their irregular forms),
//! proved for the p that `proof` draws, on random nodes: all roots up to p = 24, a few beyond; in the promised rounds
//! and volume; and again after lowering to what wires of different limits allow, run in random order. `PLAN_PROOF=full`: all p, and alltoall among many ranks.
//! A failing case prints its seed; `PLAN_PROOF_SEED` repeats it.

use crate::proof;

use circulant_core::plan::alltoall::graph::{Destination, Edges, Graph, Source};
use circulant_core::plan::alltoall::neighbors::Neighbors;
use circulant_core::plan::alltoall::{Row, bruck, circulant as circulants, direct, exchange_targets, ring};
use circulant_core::plan::gather::Gather;
use circulant_core::plan::interpret::{Goal, check, prove};
use circulant_core::plan::lower::{MAX_RUN_BYTES, OpKind, WireLimits, lower};
use circulant_core::plan::price::price;
use circulant_core::plan::registry::{self, Algorithm, Arguments, Operation};
use circulant_core::plan::scatter::Scatter;
use circulant_core::plan::tree::{Tree, binomial::Binomial, size_aware::SizeAware};
use circulant_core::plan::{Kind, Plan, Step, Wait};
use proof::{ALL, MODEL, Random, SOME, full, programs, q, seed, too_long};
use std::collections::BTreeMap;

/// The rows of an alltoallv.
fn rows(p: u32, random: &mut Random) -> BTreeMap<u32, Row> {
    let around = random.one_of(&[1, 40, 3000]);
    let sent: Vec<Vec<u64>> = (0..p).map(|_| random.counts(p, around)).collect();
    let row = |rank: u32| {
        let recvcounts: Vec<u64> = sent.iter().map(|counts| counts[rank as usize]).collect();
        let sendcounts = sent[rank as usize].clone();
        let (sdispls, rdispls) = (random.displs(&sendcounts), random.displs(&recvcounts));
        (rank, Row { sendcounts, sdispls, recvcounts, rdispls, targets: Vec::new() })
    };
    let mut rows = (0..p).map(row).collect();
    exchange_targets(&mut rows);
    rows
}

/// Runs `body` for every p up to 128 and some more.
fn every_p(name: &str, body: impl Fn(u32, &mut Random) + Sync) {
    proof::every_p(name, (1..=ALL).chain(SOME), body);
}

fn roots(p: u32, random: &mut Random) -> Vec<u32> {
    match p {
        0..=24 => (0..p).collect(),
        25..=ALL => vec![0, p - 1, random.rank(p)],
        _ => vec![random.rank(p)],
    }
}

/// Whether the line's restrictions admit p ranks on these nodes.
fn admits(algorithm: &Algorithm, p: u32, nodes: &[u32]) -> bool {
    if algorithm.restrictions.contains("several nodes") {
        let several = nodes.iter().any(|node| *node != nodes[0]);
        return several && (1..nodes.len()).any(|i| nodes[..i].contains(&nodes[i]));
    }
    let prime = p > 1 && (2..p).all(|d| !p.is_multiple_of(d));
    (p.is_power_of_two() || !algorithm.restrictions.contains("power of two"))
        && !(prime && algorithm.restrictions.contains("not prime"))
}

/// Proves a line of the registry for these arguments, also lowered; `filled` if no block is empty.
fn proved(algorithm: &Algorithm, arguments: &Arguments, goal: &Goal, filled: bool, random: &mut Random) {
    let case = || format!("{} {} {arguments:?}", algorithm.operation, algorithm.name);
    let plan = (algorithm.build)(arguments, &MODEL).unwrap_or_else(|e| panic!("{}: {e}", case()));
    let plan = &*plan;
    if too_long(plan) {
        return;
    }
    let report = prove(plan, goal).unwrap_or_else(|v| panic!("{}: {v}", case()));
    assert_eq!(plan.algorithm(), algorithm.name);
    let blocks = arguments.blocks.unwrap_or(1);
    assert_eq!(plan.rounds(), (algorithm.rounds_of)(arguments, blocks), "{}", case());
    assert!(report.rounds <= plan.rounds(), "{}", case());
    if filled && !algorithm.rounds.starts_with("<=") {
        assert_eq!(report.rounds, plan.rounds(), "{}", case());
    }
    assert_eq!(report.most, algorithm.volume_of(arguments), "{}", case());
    if plan.size() > 40 && !full() && !random.yes(4) {
        return;
    }
    let limits = WireLimits {
        max_put: random.one_of(&[33, 1000, 20_000, 1 << 40]).max(report.most / 200),
        gather: random.one_of(&[1, 4, 8]),
        light: random.one_of(&[0, 50, 1000, 1 << 20]),
        few: random.one_of(&[2, 2, 4]),
        coalesce: random.one_of(&[1, 500, MAX_RUN_BYTES]),
    };
    checked(plan, goal, limits, random).unwrap_or_else(|v| panic!("{}, {limits:?}: {v}", case()));
}

fn checked(plan: &dyn Plan, goal: &Goal, limits: WireLimits, random: &mut Random) -> Result<(), String> {
    let found = check(plan, &programs(plan, &limits), goal, random.below(1 << 60));
    found.map(|_| ()).map_err(|v| v.to_string())
}

/// Puts of all ranks on a wire without limits that does not gather.
fn puts(plan: &dyn Plan) -> usize {
    let programs = programs(plan, &WireLimits::PLAIN);
    programs.iter().flat_map(|program| &program.ops).filter(|op| op.kind == OpKind::Put).count()
}

/// All lines of a regular operation with a root, or of its irregular form.
fn rooted(operation: Operation, goal: fn(u32, &[u64], &[u64], bool) -> Goal) {
    let irregular = operation.name().ends_with('v');
    every_p(operation.name(), |size, random| {
        for root in roots(size, random) {
            for algorithm in proof::algorithms(operation) {
                let bytes = random.one_of(&[0, 1, 8, 100, 10_000]);
                let around = random.one_of(&[1, 40, 3000]);
                let counts = if irregular { random.counts(size, around) } else { vec![bytes; size as usize] };
                let displs: Vec<u64> = match irregular {
                    true => random.displs(&counts),
                    false => (0..u64::from(size)).map(|j| j * bytes).collect(),
                };
                let (in_place, nodes) = (random.below(3) == 0, random.nodes(size));
                let goal = goal(root, &counts, &displs, in_place);
                let filled = counts.iter().all(|count| *count > 0);
                let arguments =
                    Arguments { size, root, bytes, counts, displs, in_place, nodes, ..Arguments::default() };
                if admits(algorithm, size, &arguments.nodes) {
                    proved(algorithm, &arguments, &goal, filled, random);
                } else {
                    (algorithm.build)(&arguments, &MODEL).unwrap_err();
                }
            }
        }
    });
}

#[test]
fn gather() {
    rooted(Operation::Gather, Goal::gather);
}

#[test]
fn gatherv() {
    rooted(Operation::Gatherv, Goal::gather);
}

#[test]
fn scatter() {
    rooted(Operation::Scatter, Goal::scatter);
}

#[test]
fn scatterv() {
    rooted(Operation::Scatterv, Goal::scatter);
}

/// Whether a proof takes too long: it follows p blocks of p ranks, on a ring over p/2 hops.
fn heavy(algorithm: &Algorithm, size: u32, random: &mut Random) -> bool {
    let most = if matches!(algorithm.name, "ring" | "mesh") { ALL } else { 300 };
    size > most && (most == ALL || !random.yes(6)) && !full()
}

#[test]
fn alltoall() {
    every_p("alltoall", |size, random| {
        for algorithm in proof::algorithms(Operation::Alltoall) {
            if heavy(algorithm, size, random) {
                continue;
            }
            let bytes = random.one_of(&[1, 8, 100, 10_000]);
            for bytes in [0, bytes] {
                let nodes = random.nodes(size);
                let any = 1 + random.rank(size);
                let blocks = Some(random.one_of(&[1, 2, 3, 5, any]));
                let arguments = Arguments { size, bytes, nodes, blocks, ..Arguments::default() };
                if admits(algorithm, size, &arguments.nodes) {
                    proved(algorithm, &arguments, &Goal::alltoall(size, bytes), bytes > 0, random);
                } else {
                    (algorithm.build)(&arguments, &MODEL).unwrap_err();
                }
            }
        }
    });
}

#[test]
fn alltoallv() {
    every_p("alltoallv", |size, random| {
        for algorithm in proof::algorithms(Operation::Alltoallv) {
            if heavy(algorithm, size, random) {
                continue;
            }
            for _ in 0..if size <= 40 { 3 } else { 1 } {
                let rows = rows(size, random);
                let goal = Goal::alltoallv(&rows);
                let filled = rows.values().flat_map(|row| &row.sendcounts).all(|count| *count > 0);
                let arguments = Arguments { size, rows: rows.into(), ..Arguments::default() };
                if !admits(algorithm, size, &[]) {
                    (algorithm.build)(&arguments, &MODEL).unwrap_err();
                    continue;
                }
                proved(algorithm, &arguments, &goal, filled, random);
                alone(algorithm, &arguments, random);
            }
        }
    });
}

/// A rank that knows its own row only does the same as one that knows all.
fn alone(algorithm: &Algorithm, arguments: &Arguments, random: &mut Random) {
    let all = (algorithm.build)(arguments, &MODEL).unwrap();
    let rank = random.rank(arguments.size);
    let rows = BTreeMap::from([(rank, arguments.rows[&rank].clone())]);
    let own = (algorithm.build)(&Arguments { rows: rows.into(), ..arguments.clone() }, &MODEL).unwrap();
    let limits = WireLimits {
        max_put: 1000,
        gather: random.one_of(&[1, 4]),
        light: random.one_of(&[0, 1000]),
        ..WireLimits::PLAIN
    };
    let (a, b) = (lower(&*all, rank, &limits).unwrap(), lower(&*own, rank, &limits).unwrap());
    assert_eq!(format!("{a:?}"), format!("{b:?}"), "rank {rank} of {}", arguments.size);
    assert_eq!(all.sizes(rank), own.sizes(rank));
}

/// Every put has its mirror, looked at one rank at a time: what the other tests prove of small p.
#[test]
fn very_many_ranks() {
    let seed = seed();
    println!("very_many_ranks: PLAN_PROOF_SEED={seed}");
    let mut random = Random(seed);
    for p in [1_000_000, (1 << 30) - 1, i32::MAX.cast_unsigned()] {
        let tree = Binomial::new(p, random.rank(p)).unwrap();
        let root = tree.root();
        let plans: [&dyn Plan; 2] = [
            &Gather::new(Box::new(tree), 8, false).unwrap(),
            &Scatter::new(Box::new(tree), 8, false).unwrap(),
        ];
        for plan in plans {
            for rank in (0..50).map(|_| random.rank(p)).chain([root]) {
                for step in plan.steps(rank).filter(|s| s.kind == Kind::Put) {
                    let mirror = Step { kind: Kind::Expect, peer: rank, waits: [Wait::NONE; 2], ..step };
                    assert!(plan.steps(step.peer).any(|s| s == mirror), "p = {p}, rank {rank}: {step:?}");
                }
            }
        }
    }
}

/// Light blocks go up and down a binomial tree in one put per edge, two where the run wraps at the root.
#[test]
fn one_put_per_edge() {
    for p in 1..=64 {
        for root in [0, p / 3, p - 1] {
            let tree = Binomial::new(p, root).unwrap();
            let gather = Gather::new(Box::new(tree), 8, false).unwrap();
            let scatter = Scatter::new(Box::new(tree), 8, false).unwrap();
            for plan in [&gather as &dyn Plan, &scatter] {
                let puts = puts(plan) as u32;
                assert!((p - 1..=p).contains(&puts), "p = {p}, root {root}: {puts} puts");
            }
        }
        for plan in [circulants::alltoall(p, 8).unwrap(), bruck::alltoall(p, 8, 1).unwrap()] {
            assert_eq!(puts(&plan) as u32, p * q(p), "{plan:?}");
        }
    }
}

/// The time of a gather in which a rank takes in whole messages, one after the other: one per byte.
fn gather_time(tree: &dyn Tree, counts: &[u64], rank: u32) -> u64 {
    tree.children(rank).into_iter().fold(0, |time, child| {
        let bytes: u64 =
            (child.first..child.first + child.width).map(|i| counts[tree.rank(i) as usize]).sum();
        time.max(gather_time(tree, counts, child.peer)) + bytes
    })
}

/// Träff's bound: with a fixed root at most twice as long as the root takes to receive everything. The
/// binomial tree goes beyond.
#[test]
fn the_size_aware_tree_is_within_twice_the_optimum() {
    let seed = seed();
    println!("the_size_aware_tree: PLAN_PROOF_SEED={seed}");
    let (mut random, mut worst) = (Random(seed), 0.0f64);
    for _ in 0..4000 {
        let p = 2 + random.rank(63);
        let (counts, root) = (random.counts(p, 100), random.rank(p));
        let least = counts.iter().sum::<u64>() - counts[root as usize];
        let tree = SizeAware::new(&counts, root).unwrap();
        let time = gather_time(&tree, &counts, root);
        assert!(time <= 2 * least, "{counts:?}, root {root}: {time} > 2·{least}");
        let binomial = gather_time(&Binomial::new(p, root).unwrap(), &counts, root);
        worst = worst.max(binomial as f64 / least.max(1) as f64);
    }
    println!("binomial: up to {worst:.2} times the least");
    assert!(worst > 2.0);
    // Of two ranks alone, neither of which has anything to gather, the one with less sends.
    assert_eq!(gather_time(&SizeAware::new(&[1, 92, 588], 2).unwrap(), &[1, 92, 588], 2), 94);
}

/// Blocks per rank: circulant is never worse than Bruck, and better just above powers of two.
#[test]
fn circulant_alltoall_puts_the_fewest_blocks() {
    let blocks =
        |p| (circulants::alltoall(p, 1).unwrap().blocks(), bruck::alltoall(p, 1, 1).unwrap().blocks());
    for (p, circulant, bruck) in [(9, 12, 13), (17, 30, 33), (20, 40, 40), (31, 75, 75), (32, 80, 80)] {
        assert_eq!(blocks(p), (circulant, bruck));
    }
    for (p, circulant, bruck) in [(33, 73, 81), (36, 84, 88), (64, 192, 192)] {
        assert_eq!(blocks(p), (circulant, bruck));
    }
    for p in 1..=600 {
        let (circulant, bruck) = blocks(p);
        assert!(circulant <= bruck && 2 * bruck <= u64::from(p * q(p)), "p = {p}");
    }
}

#[test]
fn beyond_four_gigabytes() {
    let mut random = Random(1);
    let limits = WireLimits { max_put: 1 << 31, gather: 1, light: 4096, ..WireLimits::PLAIN };
    let counts: Vec<u64> = (0..9).map(|j| (j % 4) << 33).collect();
    let displs: Vec<u64> = (0..9).map(|j| (8 - j) << 36).collect();
    let tree = || Box::new(SizeAware::new(&counts, 4).unwrap());
    let plan = Gather::irregular(tree(), &counts, &displs, false).unwrap();
    let goal = Goal::gather(4, &counts, &displs, false);
    prove(&plan, &goal).unwrap();
    checked(&plan, &goal, limits, &mut random).unwrap();
    let plan = Scatter::irregular(tree(), &counts, &displs, true).unwrap();
    let goal = Goal::scatter(4, &counts, &displs, true);
    prove(&plan, &goal).unwrap();
    checked(&plan, &goal, limits, &mut random).unwrap();
    for plan in [circulants::alltoall(9, 5 << 32).unwrap(), ring::alltoall(9, 5 << 32).unwrap()] {
        prove(&plan, &Goal::alltoall(9, 5 << 32)).unwrap();
        checked(&plan, &Goal::alltoall(9, 5 << 32), limits, &mut random).unwrap();
    }
}

/// A plan whose rank 0 has its first copy, or put, taken from elsewhere: the proof must see it.
#[derive(Debug)]
struct Misled<'a>(&'a dyn Plan, Kind);

impl Plan for Misled<'_> {
    fn algorithm(&self) -> &'static str {
        "misled"
    }
    fn size(&self) -> u32 {
        self.0.size()
    }
    fn rounds(&self) -> u32 {
        self.0.rounds()
    }
    fn counters(&self, rank: u32) -> u32 {
        self.0.counters(rank)
    }
    fn sizes(&self, rank: u32) -> circulant_core::plan::Sizes {
        self.0.sizes(rank)
    }
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let mut steps: Vec<Step> = self.0.steps(rank).collect();
        if let Some(step) = steps.iter_mut().find(|s| rank == 0 && s.kind == self.1) {
            let elsewhere = if step.source.offset == 0 { step.len } else { 0 };
            step.source.offset = elsewhere;
        }
        Box::new(steps.into_iter())
    }
}

#[test]
fn the_proof_sees_blocks_from_the_wrong_place() {
    let alltoall = circulants::alltoall(9, 8).unwrap();
    let (counts, displs) = (vec![8; 9], (0..9).map(|j| 8 * j).collect::<Vec<u64>>());
    let tree = Box::new(Binomial::new(9, 0).unwrap());
    let scatter = Scatter::new(tree.clone(), 8, false).unwrap();
    let gather = Gather::new(tree, 8, false).unwrap();
    for kind in [Kind::Copy, Kind::Put] {
        prove(&Misled(&alltoall, kind), &Goal::alltoall(9, 8)).unwrap_err();
        prove(&Misled(&scatter, kind), &Goal::scatter(0, &counts, &displs, false)).unwrap_err();
    }
    prove(&Misled(&gather, Kind::Expect), &Goal::gather(0, &counts, &displs, false)).unwrap_err();
    // The right bytes at the wrong rank, or in the wrong order.
    prove(&gather, &Goal::gather(1, &counts, &displs, false)).unwrap_err();
    prove(&gather, &Goal::gather(0, &counts, &displs, true)).unwrap_err();
    let backwards: Vec<u64> = displs.iter().rev().copied().collect();
    prove(&gather, &Goal::gather(0, &counts, &backwards, false)).unwrap_err();
    prove(&scatter, &Goal::scatter(0, &counts, &backwards, false)).unwrap_err();
    prove(&alltoall, &Goal::alltoall(9, 9)).unwrap_err();
}

#[test]
fn bad_arguments_are_errors() {
    Binomial::new(0, 0).unwrap_err();
    Binomial::new(4, 4).unwrap_err();
    SizeAware::new(&[], 0).unwrap_err();
    SizeAware::new(&[1, 2], 2).unwrap_err();
    SizeAware::new(&[u64::MAX, 2], 1).unwrap_err();
    let tree = || Box::new(Binomial::new(4, 1).unwrap());
    Gather::new(tree(), u64::MAX / 2, false).unwrap_err();
    Scatter::new(tree(), u64::MAX / 2, false).unwrap_err();
    Gather::irregular(tree(), &[1, 2], &[0, 1], false).unwrap_err();
    Gather::irregular(tree(), &[2; 4], &[0, 1, 4, 6], false).unwrap_err();
    Scatter::irregular(tree(), &[1; 4], &[0, 1, 2, u64::MAX], false).unwrap_err();
    for lines in [Operation::Alltoall, Operation::Alltoallv].map(registry::algorithms) {
        for line in lines {
            for (size, bytes) in [(0, 1), (u32::MAX, 1), (4, u64::MAX / 2)] {
                let rows = BTreeMap::from([(0, Row::default())]);
                (line.build)(&Arguments { size, bytes, rows: rows.into(), ..Arguments::default() }, &MODEL)
                    .unwrap_err();
            }
        }
    }
    let mut rows = rows(3, &mut Random(1));
    rows.get_mut(&1).unwrap().sendcounts[2] += 1;
    let error = direct::alltoallv(3, rows.clone()).unwrap_err().to_string();
    assert!(error.contains("rank 1 sends") && error.contains("rank 2"), "{error}");
    rows.remove(&2);
    direct::alltoallv(3, rows.clone()).unwrap();
    rows.get_mut(&1).unwrap().sendcounts[1] += 1;
    direct::alltoallv(3, rows.clone()).unwrap_err();
    assert_eq!(Operation::Alltoallv.code(), 10);
}

/// The edges of all ranks of a random graph, with several between some; in place the blocks of a rank do not overlap.
fn graph(p: u32, in_place: bool, random: &mut Random) -> Graph {
    let around = random.one_of(&[1, 40, 3000]);
    let degree = random.one_of(&[1, 3, 8]);
    let mut graph = Graph::default();
    let mut edges: BTreeMap<u32, Edges> = (0..p).map(|rank| (rank, Edges::default())).collect();
    for from in 0..p {
        let to: Vec<u32> = (0..random.below(degree + 1)).map(|_| random.rank(p)).collect();
        for (peer, len) in to.iter().zip(random.counts(to.len().max(1) as u32, around)) {
            let sources = &mut edges.get_mut(peer).unwrap().sources;
            let slot = sources.len() as u32;
            sources.push(Source { peer: from, slot: 0, len, at: 0 });
            let d = Destination { peer: *peer, slot, len, at: 0, target: 0 };
            edges.get_mut(&from).unwrap().destinations.push(d);
        }
        // The order at the sender is not that at the receiver.
        edges.get_mut(&from).unwrap().destinations.reverse();
        for (number, d) in (0..).zip(edges[&from].destinations.clone()) {
            edges.get_mut(&d.peer).unwrap().sources[d.slot as usize].slot = number;
        }
    }
    for (&rank, edges) in &mut edges {
        let received: Vec<u64> = edges.sources.iter().map(|s| s.len).collect();
        let sent: Vec<u64> = edges.destinations.iter().map(|d| d.len).collect();
        let all = [received.clone(), sent.clone()].concat();
        let (into, out) = match in_place {
            true => {
                let all = random.displs(&all);
                (all[..received.len()].to_vec(), all[received.len()..].to_vec())
            }
            false => (random.displs(&received), random.displs(&sent)),
        };
        edges.sources.iter_mut().zip(into).for_each(|(s, at)| s.at = at);
        edges.destinations.iter_mut().zip(out).for_each(|(d, at)| d.at = at);
        graph.multiplicity = graph.multiplicity.max(edges.multiplicity(rank)).max(1);
    }
    graph.edges = edges.into();
    graph.exchange_targets();
    graph
}

/// Along graphs: a rank puts to its neighbours only, has a counter for each of its sources, and needs to know its own edges only.
#[test]
fn alltoallv_along_graphs() {
    let algorithm = registry::algorithm(Operation::Alltoallv, "neighbors").unwrap();
    every_p("alltoallv_along_graphs", |size, random| {
        for in_place in [false, true] {
            let graph = graph(size, in_place, random);
            let goal = Goal::neighbors(&graph, in_place);
            let arguments = Arguments { size, graph: graph.clone(), in_place, ..Arguments::default() };
            for other in registry::algorithms(Operation::Alltoallv).filter(|a| a.name != "neighbors") {
                let e = (other.build)(&arguments, &MODEL).unwrap_err();
                assert!(e.to_string().contains("along a graph"), "{e}");
            }
            proved(algorithm, &arguments, &goal, false, random);
            let rank = random.rank(size);
            let mut own = graph.clone();
            own.edges.retain(|r, _| *r == rank);
            let own = (algorithm.build)(&Arguments { graph: own, ..arguments.clone() }, &MODEL).unwrap();
            let all = (algorithm.build)(&arguments, &MODEL).unwrap();
            assert_eq!(
                (all.counters(rank) as usize, own.sizes(rank)),
                (
                    2 * graph.edges[&rank].sources.len().max(graph.edges[&rank].destinations.len()),
                    all.sizes(rank)
                )
            );
            let limits = WireLimits { max_put: 1000, gather: random.one_of(&[1, 4]), ..WireLimits::PLAIN };
            let (a, b) = (lower(&*all, rank, &limits).unwrap(), lower(&*own, rank, &limits).unwrap());
            assert_eq!(format!("{a:?}"), format!("{b:?}"), "rank {rank} of {size}");
            assert!(a.peers.iter().all(|peer| {
                let edges = &graph.edges[&rank];
                edges.sources.iter().any(|s| s.peer == peer.rank)
                    || edges.destinations.iter().any(|d| d.peer == peer.rank)
            }));
        }
    });
}

#[test]
fn graphs_that_contradict_themselves_are_errors() {
    let source = |peer, len, at| Source { peer, slot: 0, len, at };
    let destination = |peer, len, at| Destination { peer, slot: 0, len, at, target: 0 };
    let plan = |size, in_place, edges: [(Vec<Source>, Vec<Destination>); 2]| {
        let edges = (0..).zip(edges.map(|(sources, destinations)| Edges { sources, destinations })).collect();
        Neighbors::new(size, Graph { multiplicity: 1, edges }, in_place)
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    let (to, from) = (|len| (vec![], vec![destination(1, len, 0)]), |len| (vec![source(0, len, 0)], vec![]));
    plan(2, false, [to(5), from(5)]).unwrap();
    let e = plan(2, false, [to(5), from(6)]).unwrap_err();
    assert!(e.contains("rank 0 sends 5 bytes to rank 1, which expects 6"), "{e}");
    plan(2, false, [to(5), (vec![], vec![])]).unwrap_err();
    plan(1, false, [to(5), from(5)]).unwrap_err();
    plan(2, false, [to(u64::MAX), from(u64::MAX)]).unwrap();
    let twice = (vec![source(0, 5, 0), source(1, 5, 4)], vec![]);
    assert!(plan(2, false, [to(5), twice]).unwrap_err().contains("overlap"));
    let both = |at| (vec![source(1, 5, 0)], vec![destination(1, 5, at)]);
    let answer = || (vec![source(0, 5, 0)], vec![destination(0, 5, 9)]);
    plan(2, true, [both(5), answer()]).unwrap();
    plan(2, false, [both(4), answer()]).unwrap();
    assert!(plan(2, true, [both(4), answer()]).unwrap_err().contains("in place"));
    let two = (vec![source(0, 5, 0), source(0, 5, 5)], vec![]);
    assert!(plan(2, false, [to(5), two]).unwrap_err().contains("2 edges"));
}

/// The outline of an alltoall has its puts, after the same rounds, and copies as many bytes.
#[test]
fn an_outline_puts_the_same_and_copies_as_much() {
    let mut outlined = 0;
    for p in [64, 100, 200, 256, 300] {
        for line in registry::algorithms(Operation::Alltoall) {
            let arguments = Arguments { size: p, bytes: 8, ..Arguments::default() };
            let Ok(plan) = (line.build)(&arguments, &MODEL) else { continue };
            let Some(outline) = plan.outline() else { continue };
            outlined += 1;
            let of = |plan: &dyn Plan, rank: u32, kind: Kind| -> Vec<(u32, u32, u64, u32)> {
                let steps = plan.steps(rank).filter(|step| step.kind == kind);
                steps.map(|step| (step.round, step.peer, step.len, step.bump)).collect()
            };
            let copied = |plan: &dyn Plan| -> u64 {
                plan.steps(p / 3).filter(|step| step.kind == Kind::Copy).map(|step| step.len).sum()
            };
            for rank in [0, 1, p / 3, p - 1] {
                for kind in [Kind::Put, Kind::Expect] {
                    assert_eq!(of(&*plan, rank, kind), of(&*outline, rank, kind), "{} among {p}", line.name);
                }
            }
            assert_eq!(copied(&*plan), copied(&*outline), "{} among {p}", line.name);
            assert!(outline.steps(p / 3).count() < plan.steps(p / 3).count());
            let limits = WireLimits { gather: 4, ..WireLimits::PLAIN };
            let [exact, rough] = [&*plan, &*outline].map(|plan| price(plan, &limits, &MODEL).unwrap());
            // Copies of the plan run side by side on the clock, those of the outline one after the other.
            let copies_ns = copied(&*plan) / 10;
            let most = exact + copies_ns;
            assert!(
                (exact..=most).contains(&rough),
                "{} among {p}: {rough}, exact {exact}, {most}",
                line.name
            );
        }
    }
    assert!(outlined >= 10, "{outlined}");
}
