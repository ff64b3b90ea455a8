//! The registry: every algorithm as data. A new one is a file of its own, with its line, and a word in its operation's list.

mod algorithm;
mod arguments;
pub mod cost;
pub(in crate::plan) mod line;
mod operation;
pub(in crate::plan) mod order;

pub use algorithm::{Algorithm, Build};
pub use arguments::Arguments;
pub use operation::Operation;
pub use order::Order;

use super::{allgather, allgatherv, allreduce, alltoall, barrier, bcast, gather, inter};
use super::{reduce, reduce_scatter, scan, scatter};
use crate::error::{Result, argument};

/// The lists. The first algorithm of an operation is its default.
const LISTS: &[&[Algorithm]] = &[
    bcast::ALGORITHMS,
    allgather::ALGORITHMS,
    allgatherv::ALGORITHMS,
    barrier::ALGORITHMS,
    gather::ALGORITHMS,
    scatter::ALGORITHMS,
    alltoall::ALGORITHMS,
    reduce::ALGORITHMS,
    allreduce::ALGORITHMS,
    reduce_scatter::ALGORITHMS,
    scan::ALGORITHMS,
    inter::ALGORITHMS,
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
    use crate::machine::LogGp;
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
