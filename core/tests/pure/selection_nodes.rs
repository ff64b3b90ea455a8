//! How good the selection is where ranks share nodes: the simulated time of the algorithm that the prices choose beside
//! that of the best of all, with one slow link per node and cheap puts within. The last node may be short of ranks.

use circulant_core::machine::{LogGp, Machine};
use circulant_core::plan::lower::{WireLimits, light_bytes};
use circulant_core::plan::price::{Clock, Tape};
use circulant_core::plan::registry::{Algorithm, Arguments, Operation, algorithms};
use circulant_core::select::{Selection, Settings};

const NEAR: LogGp = LogGp { latency_ns: 300, overhead_ns: 100, byte_ps: 50, reduce_ps: 100 };
const WIRES: [(&str, LogGp); 3] = [
    ("tcp", LogGp { latency_ns: 50_000, overhead_ns: 5_000, byte_ps: 800, reduce_ps: 100 }),
    ("lan", LogGp { latency_ns: 1_000_000, overhead_ns: 20_000, byte_ps: 8_000, reduce_ps: 100 }),
    ("rdma", LogGp { latency_ns: 1_500, overhead_ns: 200, byte_ps: 80, reduce_ps: 100 }),
];
/// Ranks, and those per node: full nodes, and such that the last is short.
const SHAPES: [(u32, u32); 5] = [(32, 4), (30, 4), (16, 8), (12, 2), (100, 16)];
const BYTES: [u64; 5] = [8, 1 << 10, 16 << 10, 256 << 10, 2 << 20];
const OPERATIONS: [Operation; 13] = [
    Operation::Bcast,
    Operation::Allgather,
    Operation::Allgatherv,
    Operation::Barrier,
    Operation::Reduce,
    Operation::Allreduce,
    Operation::ReduceScatter,
    Operation::ReduceScatterBlock,
    Operation::Scatter,
    Operation::Scatterv,
    Operation::Alltoall,
    Operation::Scan,
    Operation::Exscan,
];

/// `bytes` are those of the vector, or of all ranks together.
fn arguments(operation: Operation, (p, per_node): (u32, u32), bytes: u64) -> Arguments {
    let nodes = (0..p).map(|rank| rank / per_node).collect();
    let all = Arguments {
        size: p,
        bytes,
        element: 8,
        commutative: true,
        exact: true,
        nodes,
        ..Arguments::default()
    };
    let each = bytes / u64::from(p) / 8 * 8 + 8;
    match operation {
        Operation::Allgather | Operation::ReduceScatterBlock | Operation::Scatter | Operation::Alltoall => {
            Arguments { bytes: each, ..all }
        }
        Operation::Allgatherv | Operation::ReduceScatter | Operation::Scatterv => {
            let counts: Vec<u64> = (0..u64::from(p)).map(|j| each * (j % 3)).collect();
            let displs =
                counts.iter().scan(0, |at, count| Some(std::mem::replace(at, *at + count))).collect();
            Arguments { counts, displs, ..all }
        }
        Operation::Barrier => Arguments { bytes: 0, ..all },
        _ => all,
    }
}

fn simulated(line: &Algorithm, a: &Arguments, machine: &Machine) -> u64 {
    let wire = &machine.wire;
    let limits = WireLimits::new(1 << 40, 4, light_bytes(wire), wire);
    let plan = (line.build)(a, wire).unwrap();
    let mut clock = Clock::new(Tape::record(&*plan, &limits, |_, _| Ok(())).unwrap(), *machine);
    while clock.run(u64::MAX) {}
    assert!(clock.finished());
    clock.time_ns()
}

#[test]
fn the_choice_is_near_the_best_where_ranks_share_nodes() {
    let (mut cases, mut good, mut taken, mut worst) = (0u32, 0u32, 0u32, (1.0, String::new()));
    for operation in OPERATIONS {
        for shape in SHAPES {
            for (name, wire) in WIRES {
                let machine = Machine::shared(wire, NEAR, shape.1);
                let selection = Selection::of(&Settings::default(), machine).unwrap();
                let lengths = if operation == Operation::Barrier { &BYTES[..1] } else { &BYTES[..] };
                for &bytes in lengths {
                    let a = arguments(operation, shape, bytes);
                    let chosen = selection.choose(operation, &a, None, false).unwrap();
                    // What has no price here is for other wires.
                    let priced = |line: &Algorithm| line.cost(&a, selection.machine()).ns.is_finite();
                    let fits = |line: &&Algorithm| (line.fits)(&a).is_ok() && priced(line);
                    let times = algorithms(operation).filter(fits);
                    let times: Vec<_> =
                        times.map(|line| (line.name, simulated(line, &a, &machine))).collect();
                    let time = times.iter().find(|time| time.0 == chosen.name).unwrap().1;
                    let best = times.iter().min_by_key(|time| time.1).unwrap();
                    let ratio = time as f64 / best.1 as f64;
                    cases += 1;
                    good += u32::from(ratio <= 1.1);
                    taken += u32::from(chosen.restrictions.contains("several nodes"));
                    let at = format!(
                        "{operation} {shape:?} {bytes} bytes, {name}: {} for {}, x{ratio:.2}",
                        chosen.name, best.0
                    );
                    if ratio > 1.1 {
                        println!("{at}");
                    }
                    if ratio > worst.0 {
                        worst = (ratio, at);
                    }
                }
            }
        }
    }
    let share = 100 * good / cases;
    println!("{share} % of {cases} within a tenth; {taken} of algorithms that know nodes; worst {}", worst.1);
    assert!(share >= 85 && worst.0 < 1.5, "{share} %, {}", worst.1);
    // Full nodes take them mostly.
    assert!(taken > cases / 2, "{taken} of {cases}");
}
