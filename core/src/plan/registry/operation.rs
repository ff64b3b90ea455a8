//! The operations and their arguments.

use super::{inter, moves, reductions};
use crate::error::{Result, argument};
use crate::plan::alltoall::{Row, neighbors::Graph};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

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
    /// The fold of all ranks' bytes at the root.
    Reduce,
    /// The fold of all ranks' bytes at all.
    Allreduce,
    /// The fold of all ranks' bytes, to every rank its piece.
    ReduceScatter,
    /// The same, with pieces of the same length.
    ReduceScatterBlock,
    /// To every rank the fold of those up to itself.
    Scan,
    /// To every rank the fold of those before it.
    Exscan,
    /// Between two groups: the same number of bytes of every rank of a group to all of the other.
    InterAllgather,
    /// Between two groups: any number of bytes of every rank to all of the other group.
    InterAllgatherv,
    /// Between two groups: the root's bytes to all of the other group.
    InterBcast,
    /// Between two groups: nobody leaves before everybody of both has entered.
    InterBarrier,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 20] = [
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
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatter,
        Self::ReduceScatterBlock,
        Self::Scan,
        Self::Exscan,
        Self::InterAllgather,
        Self::InterAllgatherv,
        Self::InterBcast,
        Self::InterBarrier,
    ];

    /// Whether it takes an operator.
    pub const fn reduces(self) -> bool {
        matches!(
            self,
            Self::Reduce
                | Self::Allreduce
                | Self::ReduceScatter
                | Self::ReduceScatterBlock
                | Self::Scan
                | Self::Exscan
        )
    }

    /// Whether it is between two groups.
    pub const fn is_between_groups(self) -> bool {
        matches!(self, Self::InterAllgather | Self::InterAllgatherv | Self::InterBcast | Self::InterBarrier)
    }

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
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::ReduceScatterBlock => "reduce_scatter_block",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
            Self::InterAllgather => "inter_allgather",
            Self::InterAllgatherv => "inter_allgatherv",
            Self::InterBcast => "inter_bcast",
            Self::InterBarrier => "inter_barrier",
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
    /// The number of ranks; between two groups, of both.
    pub size: u32,
    /// Between two groups (`inter_…`): the number of ranks of the first, A. They are ranks 0 .. first, those of
    /// the other group, B, are first .. size. 0: there is one group only.
    pub first: u32,
    /// The root (bcast, gather(v), scatter(v), reduce; inter_bcast: of either group, to all of the other).
    pub root: u32,
    /// Bytes: of the message (bcast), of each rank (allgather, gather, scatter, reduce_scatter_block), of a
    /// block (alltoall), or of each rank's vector (reduce, allreduce, scan, exscan).
    pub bytes: u64,
    /// Bytes of each rank (allgatherv, gatherv, scatterv, reduce_scatter). inter_allgather: nothing, or, where
    /// the groups' ranks do not have `bytes` each, those of a rank of A and of a rank of B.
    pub counts: Vec<u64>,
    /// Where each rank's bytes go in the output (allgatherv, gatherv at the root; inter_allgatherv: in the
    /// outputs of the other group) or lie in the root's input (scatterv).
    pub displs: Vec<u64>,
    /// By rank: what it sends and receives (alltoallv). A rank needs no row but its own.
    pub rows: BTreeMap<u32, Row>,
    /// In place of `rows`, an alltoallv between neighbours: their edges. A rank needs none but its own.
    pub graph: Graph,
    /// The contribution lies in the output already (gather(v), reduce: the root's; scatter(v): the root's block
    /// stays in its input).
    pub in_place: bool,
    /// Bytes of an element, which is never cut (operations that reduce; 0 is 1).
    pub element: u64,
    /// The operator commutes (operations that reduce).
    pub commutative: bool,
    /// The operator is associative to the bit: any order gives the same bits (operations that reduce).
    pub exact: bool,
    /// The number of blocks; `None`: by rule from the model.
    pub blocks: Option<u32>,
    /// The node of each rank, by any number, for algorithms that know nodes; nothing: every rank is alone on its.
    pub nodes: Arc<[u32]>,
}

impl Arguments {
    /// The m of the formulas: the message or the vector (bcast, reduce, allreduce, scans), or all blocks of the
    /// result or of what a rank sends together. Of an alltoallv nobody knows it, and it is 0.
    pub fn total(&self, operation: Operation) -> u64 {
        use Operation::{Allgather, Allgatherv, Alltoall, Alltoallv, Barrier, Gather, Gatherv};
        use Operation::{ReduceScatter, ReduceScatterBlock, Scatter, Scatterv};
        match operation {
            Barrier | Alltoallv => 0,
            Allgatherv | Gatherv | Scatterv | ReduceScatter => {
                self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
            }
            Allgather | Gather | Scatter | Alltoall | ReduceScatterBlock => {
                self.bytes.saturating_mul(self.size.into())
            }
            _ => self.bytes,
        }
    }

    /// Bytes that a rank has to receive, at the rank that receives most.
    pub(super) fn volume(&self, operation: Operation) -> u64 {
        match operation {
            Operation::Bcast => self.bytes,
            Operation::Allgather => self.bytes * u64::from(self.size.saturating_sub(1)),
            Operation::Allgatherv => {
                self.counts.iter().sum::<u64>() - self.counts.iter().min().copied().unwrap_or(0)
            }
            Operation::Barrier => 0,
            operation if operation.reduces() => reductions::least(operation, self),
            operation if operation.is_between_groups() => inter::least(operation, self),
            operation => moves::least(operation, self),
        }
    }
}
