//! The points at which the choice of an algorithm is judged: operations, ranks, nodes, cores, bytes and wires; and how: the
//! simulated time of what is chosen by that of the best candidate. `xtask choices` prints it.

use circulant_core::machine::{Cores, LogGp, Machine};
use circulant_core::plan::lower::{WireLimits, light_bytes};
use circulant_core::plan::price::{Clock, Tape};
use circulant_core::plan::registry::{Algorithm, Arguments, Operation, algorithms};
use circulant_core::select::{Selection, Settings};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// TCP, a slow network of long latency, and RDMA.
pub(crate) const WIRES: [(&str, LogGp); 3] = [
    ("tcp", LogGp { latency_ns: 50_000, overhead_ns: 5_000, byte_ps: 800, reduce_ps: 100 }),
    ("lan", LogGp { latency_ns: 1_000_000, overhead_ns: 20_000, byte_ps: 8_000, reduce_ps: 100 }),
    ("rdma", LogGp { latency_ns: 1_500, overhead_ns: 200, byte_ps: 80, reduce_ps: 100 }),
];
/// Within a node whose ranks share memory, beside those wires.
const NEAR: LogGp = LogGp { latency_ns: 300, overhead_ns: 100, byte_ps: 50, reduce_ps: 100 };
/// Our own shared memory, as the built-in table has it.
const SHM: LogGp = LogGp { latency_ns: 350, overhead_ns: 75, byte_ps: 24, reduce_ps: 100 };

pub(crate) const RANKS: [u32; 20] = [2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 36, 48, 63, 64];
pub(crate) const BYTES: [u64; 10] =
    [8, 64, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20];
/// Ranks, and those per node: full nodes, and such that the last is short.
const SHAPES: [(u32, u32); 5] = [(32, 4), (30, 4), (16, 8), (12, 2), (100, 16)];
/// Ranks of one node, and its cores.
const CROWDS: [(u32, u32); 4] = [(4, 2), (8, 2), (16, 2), (8, 4)];
/// Of the vector, or of all ranks together, where ranks share nodes; without the first one also where they share cores.
const SHARED_BYTES: [u64; 5] = [8, 1 << 10, 16 << 10, 256 << 10, 2 << 20];

/// A call on a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) operation: Operation,
    /// How the bytes lie over the ranks; `-`: the operation has no counts.
    pub(crate) distribution: &'static str,
    pub(crate) size: u32,
    /// Ranks per node, which share memory; 0: each has a node to itself.
    pub(crate) per_node: u32,
    /// Cores of a node for all of its ranks; 0: one for each.
    pub(crate) cores: u32,
    /// Of the vector, of a block, or on average of each rank's contribution.
    pub(crate) bytes: u64,
    pub(crate) wire: &'static str,
}

/// A rank per node; all operations but alltoallv, whose bytes no rank knows, and those between groups.
pub(crate) fn flat(ranks: &[u32], lengths: &[u64]) -> Vec<Point> {
    let mut points = Vec::new();
    let known = |op: &Operation| *op != Operation::Alltoallv && !op.is_between_groups();
    for operation in Operation::ALL.into_iter().filter(known) {
        for distribution in distributions(operation) {
            for (&size, &bytes) in ranks.iter().flat_map(|size| lengths.iter().map(move |b| (size, b))) {
                points.extend(WIRES.map(|(wire, _)| Point {
                    operation,
                    distribution,
                    size,
                    per_node: 0,
                    cores: 0,
                    bytes,
                    wire,
                }));
            }
        }
    }
    points
}

/// Ranks that share nodes: operations whose algorithms know nodes.
pub(crate) fn nodes() -> Vec<Point> {
    let mut points = Vec::new();
    for operation in Operation::ALL.into_iter().filter(|op| knows_nodes(*op)) {
        for (size, per_node) in SHAPES {
            for (wire, _) in WIRES {
                points.extend(shared_bytes(operation, size, &SHARED_BYTES).map(|(distribution, bytes)| {
                    Point { operation, distribution, size, per_node, cores: 0, bytes, wire }
                }));
            }
        }
    }
    points
}

/// Ranks of one node that share its memory and cores.
pub(crate) fn cores() -> Vec<Point> {
    let mut points = Vec::new();
    let also = |op: &Operation| knows_nodes(*op) || matches!(op, Operation::Gather | Operation::Gatherv);
    for operation in Operation::ALL.into_iter().filter(also) {
        for (size, cores) in CROWDS {
            points.extend(shared_bytes(operation, size, &SHARED_BYTES[1..]).map(|(distribution, bytes)| {
                Point { operation, distribution, size, per_node: size, cores, bytes, wire: "shm" }
            }));
        }
    }
    points
}

/// Whether the operation has an algorithm for several nodes with several ranks.
fn knows_nodes(operation: Operation) -> bool {
    algorithms(operation).any(|line| line.restrictions.contains("several nodes"))
}

/// The distribution, and each rank's bytes for those of all.
fn shared_bytes(
    operation: Operation,
    size: u32,
    lengths: &'static [u64],
) -> impl Iterator<Item = (&'static str, u64)> {
    use Operation::{Allreduce, Barrier, Bcast, Exscan, Reduce, Scan};
    let of_all = matches!(operation, Bcast | Reduce | Allreduce | Scan | Exscan);
    let distribution = if has_counts(operation) { "thirds" } else { "-" };
    let lengths = if operation == Barrier { &lengths[..1] } else { lengths };
    let each = move |bytes: &u64| if of_all { *bytes } else { bytes / u64::from(size) / 8 * 8 + 8 };
    lengths.iter().map(move |bytes| (distribution, each(bytes)))
}

fn has_counts(operation: Operation) -> bool {
    use Operation::{Allgatherv, Gatherv, ReduceScatter, Scatterv};
    matches!(operation, Allgatherv | Gatherv | ReduceScatter | Scatterv)
}

pub(crate) fn distributions(operation: Operation) -> &'static [&'static str] {
    if has_counts(operation) { &["regular", "spike", "half", "linear"] } else { &["-"] }
}

fn counts(distribution: &str, p: u32, bytes: u64) -> Vec<u64> {
    match distribution {
        "regular" => return vec![bytes; p as usize],
        "thirds" => return (0..u64::from(p)).map(|j| bytes * (j % 3)).collect(),
        _ => {}
    }
    let weight = |j: u32| match distribution {
        "spike" => f64::from(if j == p / 2 { p } else { 1 }),
        "half" => f64::from(u8::from(j < p.div_ceil(2))),
        _ => f64::from(p - j),
    };
    let sum: f64 = (0..p).map(weight).sum();
    (0..p).map(|j| (weight(j) / sum * (bytes * u64::from(p)) as f64) as u64 / 8 * 8).collect()
}

impl Point {
    pub(crate) fn arguments(&self) -> Arguments {
        let (size, bytes, per_node) = (self.size, self.bytes, self.per_node);
        let nodes = (0..if per_node > 0 { size } else { 0 }).map(|rank| rank / per_node).collect();
        let a = Arguments {
            size,
            bytes,
            element: 8,
            commutative: true,
            exact: true,
            nodes,
            ..Arguments::default()
        };
        if !has_counts(self.operation) {
            return a;
        }
        let counts = counts(self.distribution, size, bytes);
        let displs = counts.iter().scan(0, |at, count| Some(std::mem::replace(at, *at + count))).collect();
        Arguments { counts, displs, ..a }
    }

    /// Links carry puts in turns, as those that the library runs on, but between nodes with several ranks.
    pub(crate) fn machine(&self) -> Machine {
        let wire = WIRES.iter().find(|wire| wire.0 == self.wire).map_or(SHM, |wire| wire.1);
        match (self.per_node, self.cores) {
            (0, _) => Machine::flat(wire).in_turns(),
            (per_node, 0) => Machine::shared(wire, NEAR, per_node),
            (per_node, cores) => {
                Machine { cores: Cores::shared(cores), ..Machine::shared(wire, wire, per_node).in_turns() }
            }
        }
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { operation, distribution, size, per_node, cores, bytes, wire } = self;
        write!(f, "{operation},{distribution},{size},{per_node},{cores},{bytes},{wire}")
    }
}

/// An algorithm that could be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) line: &'static Algorithm,
    /// Nanoseconds by its formula, and on the simulator's clock.
    pub(crate) price: f64,
    pub(crate) simulated: u64,
}

/// A point, what is chosen there, and all that could be.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) point: Point,
    pub(crate) chosen: &'static str,
    pub(crate) candidates: Vec<Candidate>,
}

impl Judged {
    pub(crate) fn new(point: Point) -> Self {
        let (a, machine) = (point.arguments(), point.machine());
        let selection = Selection::of(&Settings::default(), machine).unwrap();
        let chosen = selection.choose(point.operation, &a, None, false).unwrap().way.algorithm.name;
        // O(p²) steps on each of p ranks.
        let out_of_reach = |line: &Algorithm| {
            line.operation == Operation::Alltoall && line.name == "ring" && point.size > 36
        };
        let candidate = |line: &'static Algorithm| {
            // What has no price here is for other machines.
            let price = line.cost(&a, &machine).ns;
            // Bine's have the prices of their binomial relatives, later in the registry: never chosen where there are no groups.
            let rival = line.name.starts_with("bine");
            let fits = (line.fits)(&a).is_ok() && price.is_finite() && !out_of_reach(line) && !rival;
            fits.then(|| Candidate { line, price, simulated: simulated(line, &a, &machine) })
        };
        Self { point, chosen, candidates: algorithms(point.operation).filter_map(candidate).collect() }
    }

    pub(crate) fn best(&self) -> &Candidate {
        self.candidates.iter().min_by_key(|c| c.simulated).unwrap()
    }

    /// The simulated time of an algorithm by that of the best.
    pub(crate) fn ratio_of(&self, name: &str) -> f64 {
        let time = self.candidates.iter().find(|c| c.line.name == name).unwrap().simulated;
        time.max(1) as f64 / self.best().simulated.max(1) as f64
    }

    pub(crate) fn ratio(&self) -> f64 {
        self.ratio_of(self.chosen)
    }
}

/// The time of an algorithm on the simulator's clock; lowered as the engine lowers.
pub(crate) fn simulated(line: &Algorithm, a: &Arguments, machine: &Machine) -> u64 {
    let a = &Arguments { blocks: line.blocks_on(a, machine), ..a.clone() };
    let plan = (line.build)(a, &machine.wire).unwrap();
    let limits = WireLimits::new(1 << 40, 4, light_bytes(&machine.wire), &machine.wire);
    let tape = Tape::record(&*plan, &limits, |_, _| Ok(())).unwrap();
    let mut clock = Clock::new(tape, *machine);
    while clock.run(u64::MAX) {}
    assert!(clock.finished());
    clock.time_ns()
}

/// All points, in their order, on all cores.
pub(crate) fn judge(points: &[Point]) -> Vec<Judged> {
    let (next, judged) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&point) = points.get(at) else { return };
            let new = Judged::new(point);
            judged.lock().unwrap().push((at, new));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let mut judged = judged.into_inner().unwrap();
    judged.sort_by_key(|(at, _)| *at);
    judged.into_iter().map(|(_, judged)| judged).collect()
}

/// How many of some points were chosen within a tenth of the best; the worst.
#[derive(Clone, Debug, Default)]
pub(crate) struct Score {
    pub(crate) points: usize,
    pub(crate) good: usize,
    pub(crate) worst: f64,
    pub(crate) at: String,
}

impl Score {
    /// Adds a point at which `name` is chosen.
    pub(crate) fn add(&mut self, judged: &Judged, name: &str) {
        let ratio = judged.ratio_of(name);
        self.points += 1;
        self.good += usize::from(ratio <= 1.1);
        if ratio > self.worst {
            self.worst = ratio;
            self.at = format!("{}: {name} for {}, x{ratio:.2}", judged.point, judged.best().line.name);
        }
    }

    /// Percent.
    pub(crate) fn share(&self) -> f64 {
        100.0 * self.good as f64 / self.points.max(1) as f64
    }
}
