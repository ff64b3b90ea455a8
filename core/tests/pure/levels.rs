//! Plans that know groups of nodes, beside Bine's and those that know nothing, on the simulator: over the links between groups they put
//! no more bytes, and where the taper binds they are ahead. `LEVELS_TABLE=1` prints the table of docs/scale.md.

use crate::proof::MODEL;

use circulant_core::machine::{LogGp, Machine};
use circulant_core::plan::lower::{WireLimits, light_bytes};
use circulant_core::plan::price::{Clock, Tape};
use circulant_core::plan::registry::{Arguments, Operation, algorithm};

/// A fabric at 100 Gbit/s, as `circulant sim` takes it.
const WIRE: LogGp = LogGp { latency_ns: 1500, overhead_ns: 300, ..MODEL };

/// What is compared: the operation, those that know nothing, Bine's.
const RIVALS: [(Operation, &[&str], &[&str]); 5] = [
    (Operation::Bcast, &["circulant", "scatter_allgather"], &["bine"]),
    (Operation::Allgather, &["circulant", "pieces"], &["bine"]),
    (Operation::ReduceScatterBlock, &["circulant"], &["bine"]),
    (Operation::Allreduce, &["circulant"], &["bine"]),
    (Operation::Reduce, &["circulant", "gathered"], &["bine", "bine_gathered"]),
];

/// Number of nodes, of one rank each; nodes in a group; taper.
#[derive(Clone, Copy, Debug)]
struct Point {
    nodes: u32,
    group: u32,
    taper: u32,
    bytes: u64,
}

/// The time in nanoseconds and the bytes between groups, at the best of these algorithms in each.
fn best(operation: Operation, names: &[&str], point: Point) -> (u64, u64) {
    let Point { nodes, group, taper, bytes } = point;
    let each = matches!(operation, Operation::Allgather | Operation::ReduceScatterBlock);
    let a = Arguments {
        size: nodes,
        bytes: if each { (bytes / u64::from(nodes)).next_multiple_of(8) } else { bytes },
        element: 8,
        commutative: true,
        groups: (0..nodes).map(|node| node / group).collect(),
        ..Arguments::default()
    };
    let machine = Machine::flat(WIRE).in_groups(group, taper);
    let limits = WireLimits::new(u64::MAX, 4, light_bytes(&WIRE), &WIRE);
    let run = |name: &&str| {
        let plan = (algorithm(operation, name).unwrap().build)(&a, &WIRE).unwrap();
        let mut clock = Clock::new(Tape::record(&*plan, &limits, |_, _| Ok(())).unwrap(), machine);
        while clock.run(u64::MAX) {}
        assert!(clock.finished(), "{operation} {name} {point:?}");
        (clock.time_ns(), clock.global())
    };
    let all: Vec<_> = names.iter().map(run).collect();
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
                let point = Point { nodes, group, taper, bytes: 8 << 20 };
                let levels = best(operation, &["levels"], point);
                let (flat, bine) = (best(operation, flat, point), best(operation, bine, point));
                let name = format!("{operation} {point:?}: {levels:?}, flat {flat:?}, Bine {bine:?}");
                assert!(levels.1 <= bine.1 && levels.1 <= flat.1, "{name}");
                // The other order: of a reduction or a gathering alone.
                assert!(operation == Operation::Bcast || levels.1 <= 2 * other_bine(point), "{name}");
                assert!(operation == Operation::Allreduce || levels.1 <= other_bine(point), "{name}");
                let others = u64::from(nodes / group - 1);
                let needed = others * point.bytes * if operation == Operation::Allreduce { 2 } else { 1 };
                assert_eq!(levels.1, needed, "{name}");
                // What has a root goes in blocks on the flat graph, nearly as fast as the root's link: the taper must bind more.
                let rooted = matches!(operation, Operation::Bcast | Operation::Reduce);
                if taper == 4 && operation == Operation::Bcast {
                    assert!(levels.0 < bine.0 && levels.0 < flat.0, "{name}");
                } else if taper == 4 && rooted {
                    assert!(levels.0 < bine.0, "{name}");
                } else if taper == 4 {
                    assert!(levels.0 < bine.0 && levels.0 < flat.0, "{name}");
                }
            }
        }
    }
}

/// The table of docs/scale.md.
#[test]
fn table() {
    if std::env::var("LEVELS_TABLE").is_err() {
        return;
    }
    let ms = |ns: u64| format!("{:.2}", ns as f64 / 1e6);
    let mb = |bytes: u64| format!("{:.0}", bytes as f64 / 1e6);
    let bytes: u64 = std::env::var("LEVELS_BYTES").map_or(8 << 20, |text| text.parse().unwrap());
    let most: u32 = std::env::var("LEVELS_NODES").map_or(4096, |text| text.parse().unwrap());
    for (operation, flat, bine) in RIVALS {
        println!("{operation}, {bytes} bytes");
        for (nodes, group) in [(32, 16), (128, 32), (256, 16), (1024, 32), (4096, 64)] {
            for taper in [1, 2, 4].into_iter().filter(|_| nodes <= most) {
                let point = Point { nodes, group, taper, bytes };
                let all = [flat, bine, &["levels"]].map(|names| best(operation, names, point));
                let times = all.map(|run| ms(run.0)).join(" | ");
                let volumes = all.map(|run| mb(run.1)).join(" | ");
                let other = match operation {
                    Operation::Bcast | Operation::Reduce => "-".to_owned(),
                    Operation::Allreduce => mb(2 * other_bine(point)),
                    _ => mb(other_bine(point)),
                };
                println!("| {operation} | {nodes} | {group} | 1:{taper} | {times} | {volumes} | {other} |");
            }
        }
    }
}
