//! Plans that know groups of nodes, beside Bine's and those that know nothing, on the simulator: over the links between groups they put
//! no more bytes, and where the taper binds they are ahead. `LEVELS_TABLE=1` prints the table of docs/scale.md.

use crate::proof::MODEL;

use circulant_core::machine::{LogGp, Machine};
use circulant_core::plan::Kind;
use circulant_core::plan::lower::{WireLimits, light_bytes};
use circulant_core::plan::price::{Clock, Tape};
use circulant_core::plan::registry::{Algorithm, Arguments, Operation, algorithm, algorithms};

/// A fabric at 100 Gbit/s, as `circulant sim` takes it.
const WIRE: LogGp = LogGp { latency_ns: 1500, overhead_ns: 300, ..MODEL };

/// What is compared: the operation, those that know nothing, and those that put less far: Bine's, or an allreduce by halving.
const RIVALS: [(Operation, &[&str], &[&str]); 5] = [
    (Operation::Bcast, &["circulant", "scatter_allgather", "two_tree"], &["bine"]),
    (Operation::Allgather, &["circulant", "pieces"], &["bine"]),
    (Operation::ReduceScatterBlock, &["circulant"], &["bine"]),
    (Operation::Allreduce, &["circulant"], &["halving"]),
    (Operation::Reduce, &["circulant", "gathered"], &["bine", "bine_gathered"]),
];

/// Nodes of one rank each, in groups.
#[derive(Clone, Copy, Debug)]
struct Point {
    nodes: u32,
    group: u32,
    taper: u32,
    bytes: u64,
    /// Nanoseconds by which L is longer between groups.
    latency_ns: u64,
}

impl Point {
    fn arguments(&self, operation: Operation) -> Arguments {
        let Self { nodes, group, bytes, .. } = *self;
        let each =
            matches!(operation, Operation::Allgather | Operation::ReduceScatterBlock | Operation::Alltoall);
        Arguments {
            size: nodes,
            bytes: if each { (bytes / u64::from(nodes)).next_multiple_of(8) } else { bytes },
            element: 8,
            commutative: true,
            groups: (0..nodes).map(|node| node / group).collect(),
            ..Arguments::default()
        }
    }

    fn machine(&self) -> Machine {
        let mut machine = Machine::flat(WIRE).in_groups(self.group, self.taper);
        machine.groups.latency_ns = self.latency_ns;
        machine
    }
}

/// The programs of an algorithm; they are the same for any taper.
fn tape(operation: Operation, name: &str, a: &Arguments) -> Tape {
    let limits = WireLimits::new(u64::MAX, 4, light_bytes(&WIRE), &WIRE);
    let plan = (algorithm(operation, name).unwrap().build)(a, &WIRE).unwrap();
    Tape::record(&*plan, &limits, |_, _| Ok(())).unwrap()
}

/// The time in nanoseconds and the bytes between groups.
fn time(tape: Tape, point: Point) -> (u64, u64) {
    let mut clock = Clock::new(tape, point.machine());
    while clock.run(u64::MAX) {}
    assert!(clock.finished(), "{point:?}");
    (clock.time_ns(), clock.global())
}

/// The same at the best of these algorithms in each.
fn best(operation: Operation, names: &[&str], point: Point) -> (u64, u64) {
    let a = point.arguments(operation);
    let all: Vec<_> = names.iter().map(|name| time(tape(operation, name, &a), point)).collect();
    (all.iter().map(|run| run.0).min().unwrap(), all.iter().map(|run| run.1).min().unwrap())
}

/// Bytes between groups of a Bine reduce-scatter or allgather whose distances shrink as its messages grow: the paper's other order, which is
/// not built. In round k partners d_k = (1 − (−2)^(k+1)) / 3 apart exchange a 2^(k+1)-th of the vector.
fn other_bine(point: Point) -> u64 {
    let Point { nodes, group, bytes, .. } = point;
    let crosses = |rank: u32, k: u32| {
        let distance = (1 - (-2i64).pow(k + 1)) / 3 * if rank.is_multiple_of(2) { 1 } else { -1 };
        let partner = (i64::from(rank) + distance).rem_euclid(nodes.into());
        i64::from(rank / group) != partner / i64::from(group)
    };
    let of = |rank| (0..nodes.ilog2()).filter(|k| crosses(rank, *k)).map(|k| bytes >> (k + 1)).sum::<u64>();
    (0..nodes).map(of).sum()
}

/// No more bytes than Bine's over the links between groups, and no fewer than each group needs; ahead in time where the taper binds.
#[test]
fn levels_spare_the_links_between_groups() {
    for (operation, flat, bine) in RIVALS {
        for (nodes, group) in [(32, 16), (64, 16), (128, 32)] {
            for taper in [1, 4] {
                let point = Point { nodes, group, taper, bytes: 8 << 20, latency_ns: 0 };
                let levels = best(operation, &["levels"], point);
                // Trees on ranks in order cross few borders, so that no taper to 1:4 binds them.
                let flat: Vec<&str> = flat.iter().copied().filter(|name| *name != "two_tree").collect();
                let (flat, bine) = (best(operation, &flat, point), best(operation, bine, point));
                let name = format!("{operation} {point:?}: {levels:?}, flat {flat:?}, Bine {bine:?}");
                assert!(levels.1 <= bine.1 && levels.1 <= flat.1, "{name}");
                // The other order: of a reduction or a gathering alone.
                assert!(operation == Operation::Bcast || levels.1 <= 2 * other_bine(point), "{name}");
                assert!(operation == Operation::Allreduce || levels.1 <= other_bine(point), "{name}");
                let others = u64::from(nodes / group - 1);
                let needed = others * point.bytes * if operation == Operation::Allreduce { 2 } else { 1 };
                assert_eq!(levels.1, needed, "{name}");
                // Halving knows nothing of groups, and puts no more.
                assert!(operation != Operation::Allreduce || bine.1 == needed, "{name}");
                // A reduce is ahead without a taper, too; for what else goes over the flat graph as fast as a node's link carries it the taper must bind.
                if taper == 4 || operation == Operation::Reduce {
                    assert!(levels.0 < bine.0 && levels.0 < flat.0, "{name}");
                }
            }
        }
    }
}

/// With 8 KiB of each of many nodes, too, where lanes would make a put of overhead for each group and node of their own. Without a taper as well.
#[test]
fn an_allgather_of_many_nodes_is_ahead() {
    let names = [&["circulant", "pieces"][..], &["bine"], &["levels"]];
    for taper in [1, 2, 4] {
        let point = Point { nodes: 1024, group: 32, taper, bytes: 8 << 20, latency_ns: 0 };
        let [flat, bine, levels] = names.map(|names| best(Operation::Allgather, names, point));
        assert_eq!(levels.1, 31 * point.bytes, "{point:?}");
        assert!(
            levels.0 < flat.0 && levels.0 < bine.0,
            "{point:?}: {levels:?}, flat {flat:?}, Bine {bine:?}"
        );
    }
}

/// The puts of a rank in an allgather(v) by `levels`.
fn puts(operation: Operation, a: &Arguments, rank: u32) -> usize {
    let plan = (algorithm(operation, "levels").unwrap().build)(a, &WIRE).unwrap();
    plan.steps(rank).filter(|step| step.kind == Kind::Put).count()
}

/// Where each rank has a node to itself, and contributions lie in order; else lanes carry them.
#[test]
fn blocks_of_groups_go_whole_where_they_can() {
    let point = Point { nodes: 256, group: 16, taper: 1, bytes: 256 << 10, latency_ns: 0 };
    let a = point.arguments(Operation::Allgather);
    let puts_of = |a: &Arguments| puts(Operation::Allgather, a, 100);
    // 15 of the block of the group, 15 of windows and what is split, two between groups, in a stretch; in lanes 15 for each of 16 groups.
    let (whole, lanes) = (40, 240);
    assert!(puts_of(&Arguments { blocks: Some(1), ..a.clone() }) < whole);
    let two_a_node = Arguments { nodes: (0..256).map(|rank| rank / 2).collect(), ..a.clone() };
    let mixed = Arguments { groups: (0..256).map(|node| node % 16).collect(), ..a.clone() };
    for a in [two_a_node, mixed] {
        assert!(puts_of(&Arguments { blocks: Some(1), ..a }) > 100);
    }
    let counts = vec![a.bytes; 256];
    let in_order: Vec<u64> = (0..256).map(|rank| rank * a.bytes).collect();
    let reversed = in_order.iter().rev().copied().collect();
    let of = |displs| Arguments { counts: counts.clone(), displs, blocks: Some(1), ..a.clone() };
    assert!(puts(Operation::Allgatherv, &of(in_order), 100) < whole);
    assert!(puts(Operation::Allgatherv, &of(reversed), 100) >= lanes);
}

/// The table of docs/scale.md.
#[test]
fn table() {
    if std::env::var("LEVELS_TABLE").is_err() {
        return;
    }
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let bytes = number("LEVELS_BYTES", 8 << 20);
    let (least, most) = (number("LEVELS_FROM", 0), number("LEVELS_NODES", 4096));
    let latency_ns = number("LEVELS_LATENCY", 0);
    let only = std::env::var("LEVELS_OPERATION");
    for (operation, flat, bine) in RIVALS {
        if only.as_ref().is_ok_and(|only| *only != operation.to_string()) {
            continue;
        }
        println!("{operation}, {bytes} bytes");
        for (nodes, group) in [(32, 16), (128, 32), (256, 16), (1024, 32), (4096, 64)] {
            if (least..=most).contains(&nodes.into()) {
                rows(
                    operation,
                    [flat, bine, &["levels"]],
                    Point { nodes, group, taper: 1, bytes, latency_ns },
                );
            }
        }
    }
}

/// The rows of a table for a number of nodes: a taper each.
fn rows(operation: Operation, names: [&[&str]; 3], point: Point) {
    let (mut times, mut volumes) = (vec![[u64::MAX; 3]; 3], [u64::MAX; 3]);
    let (tapers, a) = ([1, 2, 4], point.arguments(operation));
    for (i, names) in names.into_iter().enumerate() {
        for name in names {
            let tape = tape(operation, name, &a);
            for (times, taper) in times.iter_mut().zip(tapers) {
                let run = time(tape.clone(), Point { taper, ..point });
                times[i] = times[i].min(run.0);
                volumes[i] = volumes[i].min(run.1);
            }
        }
    }
    let other = match operation {
        Operation::Bcast | Operation::Reduce => "-".to_owned(),
        Operation::Allreduce => mb(2 * other_bine(point)),
        _ => mb(other_bine(point)),
    };
    for (times, taper) in times.iter().zip(tapers) {
        let times = times.map(|ns| format!("{:.2}", ns as f64 / 1e6)).join(" | ");
        let volumes = volumes.map(mb).join(" | ");
        let Point { nodes, group, .. } = point;
        println!("| {operation} | {nodes} | {group} | 1:{taper} | {times} | {volumes} | {other} |");
    }
}

/// Megabytes.
fn mb(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / 1e6)
}

/// A network of long latency, as between emulated nodes.
const LAN: LogGp = LogGp { latency_ns: 1_000_000, overhead_ns: 20_000, byte_ps: 80_000, reduce_ps: 100 };

/// The price of a pairwise alltoall is near its time on the simulator, whatever part of the ranks a group has.
#[test]
fn pairwise_alltoalls_have_the_price_of_their_time() {
    let a = |point: Point| point.arguments(Operation::Alltoall);
    let line = algorithm(Operation::Alltoall, "pairwise").unwrap();
    for (nodes, group) in [(16, 8), (16, 4), (32, 16), (64, 16), (64, 8)] {
        for taper in [1, 2, 4] {
            let point = Point { nodes, group, taper, bytes: 8 << 20, latency_ns: 0 };
            let (took, _) = time(tape(Operation::Alltoall, "pairwise", &a(point)), point);
            let ratio = line.cost(&a(point), &point.machine()).ns / took as f64;
            assert!((0.9..1.1).contains(&ratio), "{point:?}: {ratio:.3}");
        }
    }
}

/// The price of an allreduce by halving is near its time on the simulator, whatever part of the ranks a group has; it is higher where ranks of a group do
/// not follow each other.
#[test]
fn allreduces_by_halving_have_the_price_of_their_time() {
    let line = algorithm(Operation::Allreduce, "halving").unwrap();
    for (nodes, group) in [(16, 8), (16, 2), (16, 16), (64, 16), (64, 8)] {
        for (taper, bytes) in [(1, 64 << 10), (1, 8 << 20), (4, 64 << 10), (4, 8 << 20)] {
            let point = Point { nodes, group, taper, bytes, latency_ns: 0 };
            let (a, machine) = (point.arguments(Operation::Allreduce), point.machine().in_turns());
            let mut clock = Clock::new(tape(Operation::Allreduce, "halving", &a), machine);
            while clock.run(u64::MAX) {}
            let price = line.cost(&a, &machine).ns;
            let ratio = price / clock.time_ns() as f64;
            assert!((0.9..1.2).contains(&ratio), "{point:?}: {ratio:.3}");
            let groups = nodes / group;
            let cyclic = Arguments { groups: (0..nodes).map(|node| node % groups).collect(), ..a };
            // Long messages then cross, too.
            let least = if bytes > 1 << 20 { 1.5 } else { 1.05 };
            let dear = line.cost(&cyclic, &machine).ns / price;
            assert!(taper == 1 || groups == 1 || dear > least, "{point:?}: {dear:.3}");
        }
    }
}

/// Where groups are known what the price chooses takes nearly the time of the fastest of all on the simulator.
#[test]
fn prices_know_where_groups_pay() {
    let mut ratios = Vec::new();
    let calls = || [1, 2, 4].into_iter().flat_map(|t| [64 << 10, 1 << 20, 8 << 20].map(|b| (t, b)));
    let operations = RIVALS.iter().map(|(operation, ..)| *operation).chain([Operation::Alltoall]);
    for operation in operations {
        for (nodes, group) in [(16, 8), (32, 16), (64, 16)] {
            for ((taper, bytes), wire) in calls().flat_map(|call| [(call, WIRE), (call, LAN)]) {
                let point = Point { nodes, group, taper, bytes, latency_ns: 0 };
                ratios.push(chosen_by_best(operation, point, wire));
            }
        }
    }
    ratios.sort_by(f64::total_cmp);
    let (good, all) = (ratios.iter().filter(|ratio| **ratio <= 1.05).count(), ratios.len());
    println!("{good} of {all} within 5 %, worst {:.2}", ratios[all - 1]);
    assert!(good * 100 >= all * 92 && ratios[all - 1] < 1.4, "{good} of {all}, {:.2}", ratios[all - 1]);
}

/// The simulated time of what the price chooses by that of the fastest, on links that carry puts in turns.
fn chosen_by_best(operation: Operation, point: Point, wire: LogGp) -> f64 {
    let (a, machine) =
        (point.arguments(operation), Machine { wire, near: wire, ..point.machine() }.in_turns());
    let price = |line: &&Algorithm| line.cost(&a, &machine).ns;
    let run = |line: &&'static Algorithm| {
        let limits = WireLimits::new(u64::MAX, 4, light_bytes(&wire), &wire);
        let plan = (line.build)(&a, &wire).unwrap();
        let mut clock = Clock::new(Tape::record(&*plan, &limits, |_, _| Ok(())).unwrap(), machine);
        while clock.run(u64::MAX) {}
        (clock.time_ns(), price(line), line.name)
    };
    let fits = |line: &&'static Algorithm| (line.fits)(&a).is_ok() && price(line).is_finite();
    let runs: Vec<_> = algorithms(operation).filter(fits).map(|line| run(&line)).collect();
    let chosen = runs.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let best = runs.iter().min_by_key(|run| run.0).unwrap();
    let ratio = chosen.0 as f64 / best.0 as f64;
    if ratio > 1.05 || std::env::var("LEVELS_TABLE").is_ok() {
        println!("{ratio:.2} {operation} {point:?}: {chosen:?} for {best:?}, L = {} ns", wire.latency_ns);
    }
    ratio
}
