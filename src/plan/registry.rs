//! The registry: every algorithm as data. A new one is a file of its own and a line in [`ALGORITHMS`].

mod moves;

use super::allgather::circulant::Allgather;
use super::allgatherv::circulant::{Allgatherv, Blocks};
use super::alltoall::Row;
use super::barrier::dissemination::Barrier;
use super::bcast::circulant::Bcast;
use super::{Plan, rules};
use crate::error::{Result, argument};
use crate::plan::price::Model;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The operations, by their MPI names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// The root's bytes to all.
    Bcast,
    /// The same number of bytes of every rank to all.
    Allgather,
    /// Any number of bytes of every rank to all.
    Allgatherv,
    /// Nobody leaves before everybody has entered.
    Barrier,
    /// The same number of bytes of every rank to the root.
    Gather,
    /// Any number of bytes of every rank to the root.
    Gatherv,
    /// The same number of the root's bytes to every rank.
    Scatter,
    /// Any number of the root's bytes to every rank.
    Scatterv,
    /// The same number of bytes from every rank to every rank.
    Alltoall,
    /// Any number of bytes from every rank to every rank.
    Alltoallv,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Bcast,
        Self::Allgather,
        Self::Allgatherv,
        Self::Barrier,
        Self::Gather,
        Self::Gatherv,
        Self::Scatter,
        Self::Scatterv,
        Self::Alltoall,
        Self::Alltoallv,
    ];

    /// The name, as in MPI without its prefix, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bcast => "bcast",
            Self::Allgather => "allgather",
            Self::Allgatherv => "allgatherv",
            Self::Barrier => "barrier",
            Self::Gather => "gather",
            Self::Gatherv => "gatherv",
            Self::Scatter => "scatter",
            Self::Scatterv => "scatterv",
            Self::Alltoall => "alltoall",
            Self::Alltoallv => "alltoallv",
        }
    }

    /// A number for the wire; 0 is no operation.
    pub fn code(self) -> u8 {
        let at = Self::ALL.iter().position(|op| *op == self).unwrap_or(0);
        u8::try_from(at + 1).unwrap_or(u8::MAX)
    }

    /// The name of the operation with this code, for messages about other ranks.
    pub fn name_of(code: u8) -> &'static str {
        let at = usize::from(code).checked_sub(1);
        at.and_then(|i| Self::ALL.get(i)).map_or("no operation", |op| op.name())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Operation {
    type Err = crate::error::Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|op| op.name()).collect();
            argument(format!("there is no operation {name:?}")).help(format!("one of {}", names.join(", ")))
        })
    }
}

/// The arguments of an operation on p ranks; what an operation does not have is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The number of ranks.
    pub size: u32,
    /// The root (bcast, gather(v), scatter(v)).
    pub root: u32,
    /// Bytes: of the message (bcast), of each rank (allgather, gather, scatter), or of a block (alltoall).
    pub bytes: u64,
    /// Bytes of each rank (allgatherv, gatherv, scatterv).
    pub counts: Vec<u64>,
    /// Where each rank's bytes go in the output (allgatherv, gatherv at the root) or lie in the root's
    /// input (scatterv).
    pub displs: Vec<u64>,
    /// By rank: what it sends and receives (alltoallv). A rank needs no row but its own.
    pub rows: BTreeMap<u32, Row>,
    /// The contribution lies in the output already (gather(v): the root's; scatter(v): the root's block stays
    /// in its input).
    pub in_place: bool,
    /// The number of blocks; `None`: by rule from the model.
    pub blocks: Option<u32>,
}

impl Arguments {
    /// Bytes that a rank has to receive, at the rank that receives most.
    fn volume(&self, operation: Operation) -> u64 {
        match operation {
            Operation::Bcast => self.bytes,
            Operation::Allgather => self.bytes * u64::from(self.size.saturating_sub(1)),
            Operation::Allgatherv => {
                self.counts.iter().sum::<u64>() - self.counts.iter().min().copied().unwrap_or(0)
            }
            Operation::Barrier => 0,
            operation => moves::least(operation, self),
        }
    }
}

/// Builds a plan for all ranks; the same at every rank from the same arguments and model.
pub type Build = fn(&Arguments, &Model) -> Result<Box<dyn Plan>>;

/// One line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// What it does.
    pub operation: Operation,
    /// Its name; unique within the operation. The first of an operation is its default.
    pub name: &'static str,
    /// When it can be used, for people.
    pub restrictions: &'static str,
    /// Communication rounds, as a formula in p, n and q = ⌈log2 p⌉.
    pub rounds: &'static str,
    /// Bytes that a rank receives, as a formula.
    pub volume: &'static str,
    /// The source.
    pub source: &'static str,
    /// The number of rounds with `n` blocks.
    pub rounds_of: fn(size: u32, n: u32) -> u32,
    /// The constructor.
    pub build: Build,
}

impl Algorithm {
    /// Bytes that the rank which receives most receives: the least possible, unless it forwards blocks.
    pub fn volume_of(&self, arguments: &Arguments) -> u64 {
        moves::relayed(self, arguments).unwrap_or_else(|| arguments.volume(self.operation))
    }
}

fn q(size: u32) -> u32 {
    size.max(1).next_power_of_two().ilog2()
}

fn by_blocks(size: u32, n: u32) -> u32 {
    if size <= 1 { 0 } else { n - 1 + q(size) }
}

/// The algorithms.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        operation: Operation::Bcast,
        name: "circulant",
        restrictions: "any p, root, n",
        rounds: "n-1+q",
        volume: "m",
        source: "Träff 2022, Algorithm 6",
        rounds_of: by_blocks,
        build: |a, model| {
            let n = a.blocks.unwrap_or_else(|| rules::bcast_blocks(a.size, a.bytes, model));
            Ok(Box::new(Bcast::new(a.size, a.root, a.bytes, n)?))
        },
    },
    Algorithm {
        operation: Operation::Allgather,
        name: "circulant",
        restrictions: "any p; n = 1",
        rounds: "q",
        volume: "m - m/p",
        source: "Träff 2022, Algorithm 7",
        rounds_of: |size, _| q(size),
        build: |a, _| Ok(Box::new(Allgather::new(a.size, a.bytes, a.in_place)?)),
    },
    Algorithm {
        operation: Operation::Allgather,
        name: "pieces",
        restrictions: "any p, n",
        rounds: "n-1+q",
        volume: "m - m/p",
        source: "Träff 2022, Algorithm 9, with equal counts",
        rounds_of: by_blocks,
        build: |a, model| {
            let end = a.bytes.checked_mul(a.size.into()).ok_or_else(|| argument("beyond 2^64 bytes"))?;
            let displs = (0..u64::from(a.size)).map(|j| j * (end / u64::from(a.size))).collect();
            let counts = vec![a.bytes; a.size as usize];
            allgatherv(&Arguments { counts, displs, ..a.clone() }, model)
        },
    },
    Algorithm {
        operation: Operation::Allgatherv,
        name: "circulant",
        restrictions: "any p, n, counts; all ranks know all counts",
        rounds: "n-1+q",
        volume: "m - m_r",
        source: "Träff 2022, Algorithm 9",
        rounds_of: by_blocks,
        build: allgatherv,
    },
    Algorithm {
        operation: Operation::Barrier,
        name: "dissemination",
        restrictions: "any p",
        rounds: "q",
        volume: "0",
        source: "dissemination on circulant skips",
        rounds_of: |size, _| q(size),
        build: |a, _| Ok(Box::new(Barrier::new(a.size)?)),
    },
    // Blocks that move: registry/moves.rs.
    moves::GATHER[0],
    moves::GATHER[1],
    moves::GATHERV[0],
    moves::GATHERV[1],
    moves::GATHERV[2],
    moves::SCATTER[0],
    moves::SCATTER[1],
    moves::SCATTERV[0],
    moves::SCATTERV[1],
    moves::SCATTERV[2],
    moves::ALLTOALL[0],
    moves::ALLTOALL[1],
    moves::ALLTOALL[2],
    moves::ALLTOALL[3],
    moves::ALLTOALL[4],
    moves::ALLTOALL[5],
    moves::ALLTOALL[6],
    moves::ALLTOALLV[0],
    moves::ALLTOALLV[1],
];

fn allgatherv(a: &Arguments, model: &Model) -> Result<Box<dyn Plan>> {
    let blocks = a.blocks.map_or_else(|| rules::allgatherv_blocks(&a.counts, model), Blocks::Equal);
    Ok(Box::new(Allgatherv::new(&a.counts, &a.displs, &blocks, a.in_place)?))
}

/// The algorithms of an operation; the default one first.
pub fn algorithms(operation: Operation) -> impl Iterator<Item = &'static Algorithm> {
    ALGORITHMS.iter().filter(move |algorithm| algorithm.operation == operation)
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
        let model = Model { latency_ns: 1500, overhead_ns: 200, byte_ps: 80 };
        for algorithm in ALGORITHMS {
            for size in [1u32, 2, 9, 33] {
                let counts = vec![640; size as usize];
                let displs: Vec<u64> = (0..u64::from(size)).map(|j| j * 640).collect();
                let goal = match algorithm.operation {
                    // tests/plan_moves.rs
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
                let plan = (algorithm.build)(&arguments, &model).unwrap();
                let report = prove(&*plan, &goal).unwrap();
                assert_eq!(plan.rounds(), (algorithm.rounds_of)(size, 5), "{algorithm:?}");
                assert_eq!(report.rounds, plan.rounds(), "{algorithm:?}");
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
        for (i, a) in ALGORITHMS.iter().enumerate() {
            assert!(ALGORITHMS[..i].iter().all(|b| (a.operation, a.name) != (b.operation, b.name)));
            assert_eq!(algorithm(a.operation, a.name).unwrap().name, a.name);
            assert_eq!(a.operation.name().parse::<Operation>().unwrap(), a.operation);
        }
        assert!(algorithm(Operation::Bcast, "ring").unwrap_err().to_string().contains("circulant"));
        assert!("bcats".parse::<Operation>().unwrap_err().to_string().contains("allgatherv"));
    }
}
