//! The operations.

use crate::error::{Result, argument};
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
    /// No rank leaves before all ranks have entered.
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
    /// Between two groups: no rank leaves before all ranks of both have entered.
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

    /// Whether all ranks are in place or none is. Of the others one rank may be in place, or each as it likes, and no other rank
    /// knows.
    pub const fn is_in_place_everywhere(self) -> bool {
        matches!(self, Self::Allgather | Self::Allgatherv | Self::Allreduce)
    }

    /// Whether ranks have counts of their own, and all ranks know all of them.
    pub const fn has_counts(self) -> bool {
        matches!(
            self,
            Self::Allgatherv
                | Self::Gatherv
                | Self::Scatterv
                | Self::ReduceScatter
                | Self::InterAllgather
                | Self::InterAllgatherv
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
    pub const fn code(self) -> u8 {
        // Its place in `ALL`, as a test says.
        self as u8 + 1
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_place_among_all() {
        for (place, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(operation.code()), place + 1, "{operation}");
            assert_eq!(Operation::name_of(operation.code()), operation.name());
        }
    }
}
