//! The registry: every algorithm as data. A new one is a file of its own, with its line, and a word in its operation's list;
//! [`all`] goes through the lists. (Broadcasts, allgathers, alltoalls and
//! barriers are written so; the lines of the others still stand in `registry/`.)

pub mod cost;
mod moves;
mod operation;
mod order;
mod reductions;

mod cube;
mod direct;
mod inter;
pub(in crate::plan) mod line;
mod nodes;
mod reversed;

use super::{Plan, allgather, allgatherv, alltoall, barrier, bcast};
use crate::error::{Result, argument};
use crate::machine::{LogGp, Machine};

pub use operation::{Arguments, Operation};
pub use order::Order;

use cost::{Cost, Formula, Path};
use line::{any, by_blocks, power_of_two, q};

/// Builds a plan for all ranks; the same at every rank from the same arguments and model.
pub type Build = fn(&Arguments, &LogGp) -> Result<Box<dyn Plan>>;

/// One line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// What it does.
    pub operation: Operation,
    /// Its name; unique within the operation. Of equally cheap ones the first of an operation is taken.
    pub name: &'static str,
    /// When it can be used, for people.
    pub restrictions: &'static str,
    /// Communication rounds, as a formula in p, n and q = ⌈log2 p⌉.
    pub rounds: &'static str,
    /// Bytes that a rank receives, as a formula.
    pub volume: &'static str,
    /// The source.
    pub source: &'static str,
    /// Whether it can do this: what [`Algorithm::restrictions`] says, for machines.
    pub fits: fn(&Arguments) -> Result<()>,
    /// The number of rounds with `n` blocks (of the longest contribution): a bound; exact if no block is empty, unless
    /// [`Algorithm::rounds`] begins with `<=`.
    pub rounds_of: fn(&Arguments, n: u32) -> u32,
    /// The constructor.
    pub build: Build,
    /// What it costs; without one it is priced by its rounds and its volume.
    pub cost: Option<Formula>,
    /// Bytes that the rank which receives most receives, at most; without one it is the least that the operation needs.
    pub received: Option<fn(&Arguments) -> u64>,
    /// In what order it folds (operations that reduce).
    pub order: Option<Order>,
}

impl Algorithm {
    /// Bytes that the rank which receives most receives (at most, where the formula says ≤).
    pub fn volume_of(&self, arguments: &Arguments) -> u64 {
        let special = self.received.map(|received| received(arguments));
        let special = special.or_else(|| nodes::volume(self, arguments));
        let special = special.or_else(|| moves::relayed(self, arguments));
        let special = special.or_else(|| inter::rooted(self, arguments));
        special.unwrap_or_else(|| arguments.volume(self.operation))
    }

    /// Its critical path, without making a plan.
    pub fn cost(&self, arguments: &Arguments, machine: &Machine) -> Cost {
        let mut path = Path::new(machine, arguments.size);
        match self.cost {
            Some(formula) => formula(arguments, &mut path),
            None => path.by_rounds(self, arguments),
        }
        path.cost()
    }

    /// The time of its critical path in nanoseconds.
    pub fn time(&self, arguments: &Arguments, model: &LogGp) -> u64 {
        self.cost(arguments, &Machine::flat(*model)).nanoseconds()
    }
}

/// The lists. An operation's lines need not stand together; the first of them is its default.
const LISTS: &[&[Algorithm]] = &[
    bcast::ALGORITHMS,
    allgather::ALGORITHMS,
    allgatherv::ALGORITHMS,
    barrier::ALGORITHMS,
    moves::GATHER,
    moves::GATHERV,
    moves::SCATTER,
    moves::SCATTERV,
    alltoall::ALGORITHMS,
    reductions::LINES,
    reversed::LINES,
    cube::LINES,
    inter::LINES,
    nodes::LINES,
    direct::LINES,
];

/// All algorithms.
pub fn all() -> impl Iterator<Item = &'static Algorithm> {
    LISTS.iter().copied().flatten()
}

/// The algorithms of an operation; the default one first.
pub fn algorithms(operation: Operation) -> impl Iterator<Item = &'static Algorithm> {
    all().filter(move |algorithm| algorithm.operation == operation)
}

/// The algorithm called `name` of an operation; `auto` is its default.
///
/// # Errors
/// If there is none; the message names those there are.
pub fn algorithm(operation: Operation, name: &str) -> Result<&'static Algorithm> {
    algorithms(operation).find(|a| a.name == name || name == "auto").ok_or_else(|| {
        let names: Vec<_> = algorithms(operation).map(|a| a.name).collect();
        argument(format!("{operation} has no algorithm {name:?}"))
            .help(format!("one of auto, {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::interpret::{Goal, prove};

    #[test]
    fn every_algorithm_keeps_its_promises() {
        let model = LogGp { latency_ns: 1500, overhead_ns: 200, byte_ps: 80, reduce_ps: 100 };
        // Those that reduce: core/tests/pure/plan_reduce.rs; between groups: core/tests/pure/plan_inter.rs.
        for algorithm in all().filter(|a| !a.operation.reduces() && !a.operation.is_between_groups()) {
            for size in [1u32, 2, 9, 33] {
                let counts = vec![640; size as usize];
                let displs: Vec<u64> = (0..u64::from(size)).map(|j| j * 640).collect();
                let goal = match algorithm.operation {
                    // core/tests/pure/plan_moves.rs
                    Operation::Gather
                    | Operation::Gatherv
                    | Operation::Scatter
                    | Operation::Scatterv
                    | Operation::Alltoall
                    | Operation::Alltoallv => continue,
                    Operation::Bcast => Goal::bcast(0, 640),
                    Operation::Barrier => Goal::default(),
                    _ => Goal::allgatherv(&counts, &displs, false),
                };
                let arguments =
                    Arguments { size, bytes: 640, counts, displs, blocks: Some(5), ..Arguments::default() };
                if (algorithm.fits)(&arguments).is_err() {
                    assert!((algorithm.build)(&arguments, &model).is_err(), "{algorithm:?}");
                    continue;
                }
                let plan = (algorithm.build)(&arguments, &model).unwrap();
                let report = prove(&*plan, &goal).unwrap();
                assert_eq!(plan.rounds(), (algorithm.rounds_of)(&arguments, 5), "{algorithm:?}");
                let bound = algorithm.rounds.starts_with("<=");
                assert!(report.rounds == plan.rounds() || bound, "{algorithm:?}");
                assert!(report.rounds <= plan.rounds(), "{algorithm:?}");
                let receivers = if algorithm.operation == Operation::Bcast { size - 1 } else { size };
                assert_eq!(
                    report.bytes,
                    u64::from(receivers) * algorithm.volume_of(&arguments),
                    "{algorithm:?}"
                );
            }
        }
    }

    #[test]
    fn names_are_unique_and_found() {
        for a in all() {
            assert_eq!(algorithms(a.operation).filter(|b| b.name == a.name).count(), 1, "{a:?}");
            assert_eq!(algorithm(a.operation, a.name).unwrap().name, a.name);
            assert_eq!(a.operation.name().parse::<Operation>().unwrap(), a.operation);
        }
        assert!(algorithm(Operation::Bcast, "rng").unwrap_err().to_string().contains("circulant"));
        assert!("bcats".parse::<Operation>().unwrap_err().to_string().contains("allgatherv"));
    }
}
