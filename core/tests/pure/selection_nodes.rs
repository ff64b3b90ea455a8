//! How good the selection is where ranks share nodes: the simulated time of the algorithm that the prices choose beside
//! that of the best of all, with one slow link per node and cheap puts within; and where ranks share memory and cores. The last node may be short of ranks.

use crate::selection::simulated;
use circulant_core::machine::{Cores, LogGp, Machine};
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
        Operation::Allgather
        | Operation::ReduceScatterBlock
        | Operation::Gather
        | Operation::Scatter
        | Operation::Alltoall => Arguments { bytes: each, ..all },
        Operation::Allgatherv | Operation::ReduceScatter | Operation::Gatherv | Operation::Scatterv => {
            let counts: Vec<u64> = (0..u64::from(p)).map(|j| each * (j % 3)).collect();
            let displs =
                counts.iter().scan(0, |at, count| Some(std::mem::replace(at, *at + count))).collect();
            Arguments { counts, displs, ..all }
        }
        Operation::Barrier => Arguments { bytes: 0, ..all },
        _ => all,
    }
}

/// The simulated time of what is chosen by that of the best candidate; its algorithm and a text.
fn judge(machine: Machine, a: &Arguments, operation: Operation) -> (f64, &'static Algorithm, String) {
    let selection = Selection::of(&Settings::default(), machine).unwrap();
    let chosen = selection.choose(operation, a, None, false).unwrap();
    // What has no price here is for other machines.
    let fits = |line: &&Algorithm| (line.fits)(a).is_ok() && line.cost(a, &machine).ns.is_finite();
    let times = algorithms(operation).filter(fits);
    let times: Vec<_> = times.map(|line| (line.name, simulated(line, a, &machine))).collect();
    let time = times.iter().find(|time| time.0 == chosen.name).unwrap().1;
    let best = times.iter().min_by_key(|time| time.1).unwrap();
    let ratio = time as f64 / best.1 as f64;
    (ratio, chosen, format!("{} for {}, x{ratio:.2}", chosen.name, best.0))
}

/// How many of so many were chosen within a tenth of the best; the worst.
#[derive(Default)]
struct Score {
    cases: u32,
    good: u32,
    worst: f64,
    at: String,
}

impl Score {
    fn add(&mut self, ratio: f64, at: String) {
        self.cases += 1;
        self.good += u32::from(ratio <= 1.1);
        if ratio > 1.1 {
            println!("{at}");
        }
        if ratio > self.worst {
            (self.worst, self.at) = (ratio, at);
        }
    }

    fn share(&self) -> u32 {
        100 * self.good / self.cases
    }
}

#[test]
fn the_choice_is_near_the_best_where_ranks_share_nodes() {
    let (mut score, mut taken) = (Score::default(), 0u32);
    for operation in OPERATIONS {
        for shape in SHAPES {
            for (name, wire) in WIRES {
                let lengths = if operation == Operation::Barrier { &BYTES[..1] } else { &BYTES[..] };
                for &bytes in lengths {
                    let a = arguments(operation, shape, bytes);
                    let (ratio, chosen, text) = judge(Machine::shared(wire, NEAR, shape.1), &a, operation);
                    taken += u32::from(chosen.restrictions.contains("several nodes"));
                    score.add(ratio, format!("{operation} {shape:?} {bytes} bytes, {name}: {text}"));
                }
            }
        }
    }
    let (share, cases) = (score.share(), score.cases);
    println!(
        "{share} % of {cases} within a tenth; {taken} of algorithms that know nodes; worst {}",
        score.at
    );
    assert!(share >= 85 && score.worst < 1.5, "{share} %, {}", score.at);
    // Full nodes take them mostly.
    assert!(taken > cases / 2, "{taken} of {cases}");
}

/// Our own shared memory, as the built-in table has it.
const SHM: LogGp = LogGp { latency_ns: 350, overhead_ns: 75, byte_ps: 24, reduce_ps: 100 };

/// Ranks of one node that share memory, and its cores.
#[test]
fn the_choice_is_near_the_best_where_ranks_share_cores() {
    let mut score = Score::default();
    for operation in OPERATIONS.into_iter().chain([Operation::Gather, Operation::Gatherv]) {
        for (p, cores) in [(4, 2), (8, 2), (16, 2), (8, 4)] {
            let machine = Machine { cores: Cores::shared(cores), ..Machine::shared(SHM, SHM, p).in_turns() };
            for &bytes in &BYTES[1..] {
                let a = arguments(operation, (p, p), bytes);
                let (ratio, _, text) = judge(machine, &a, operation);
                score.add(ratio, format!("{operation}, {p} ranks on {cores} cores, {bytes} bytes: {text}"));
            }
        }
    }
    let (share, cases) = (score.share(), score.cases);
    println!("{share} % of {cases} within a tenth; worst {}", score.at);
    assert!(share >= 80 && score.worst < 2.0, "{share} %, {}", score.at);
}
