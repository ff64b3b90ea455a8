//! Trees for [`gather`](super::gather) and [`scatter`](super::scatter): every subtree is a run of
//! consecutive *positions*, so that what a rank holds for others is one range of memory.
//!
//! The rounds are those of a gather: a rank's children first, lower rounds first, and then its parent. A
//! scatter walks them backwards.

pub(crate) mod bine;
pub mod binomial;
pub(super) mod blocks;
mod cost;
pub mod size_aware;
pub(crate) mod star;

use crate::error::{Result, argument};
use crate::plan::allgatherv::extent;
use crate::schedule::MAX_P;

/// An edge of a tree, seen from either end, with the subtree below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The rank at the other end.
    pub peer: u32,
    /// The round of a gather in which it is used.
    pub round: u32,
    /// The first position of the subtree.
    pub first: u32,
    /// How many positions the subtree has.
    pub width: u32,
}

/// A tree over all ranks.
pub trait Tree: Send + Sync + std::fmt::Debug {
    /// The registry's name.
    fn name(&self) -> &'static str;
    /// The number of ranks.
    fn size(&self) -> u32;
    /// The root.
    fn root(&self) -> u32;
    /// The number of rounds.
    fn rounds(&self) -> u32;
    /// The rank at a position.
    fn rank(&self, position: u32) -> u32;
    /// The position of a rank.
    fn position(&self, rank: u32) -> u32;
    /// The edge to the parent, with the subtree of `rank` itself; none at the root.
    fn parent(&self, rank: u32) -> Option<Branch>;
    /// The edges to the children, rounds ascending, at most one in a round.
    fn children(&self, rank: u32) -> Vec<Branch>;
    /// How many of `most` ≥ 1 positions from `first` on have ranks that follow each other. In most trees positions are
    /// ranks, counted from some rank on round the end.
    fn consecutive(&self, first: u32, most: u32) -> u32 {
        most.min(self.size() - self.rank(first))
    }
}

/// Checks the number of ranks and the root of `operation`.
pub(super) fn rooted(operation: &str, size: u32, root: u32) -> Result<()> {
    if size == 0 || size > MAX_P {
        return Err(argument(format!("{operation} among {size} ranks")));
    }
    if root >= size {
        return Err(argument(format!("root {root} is not one of the {size} ranks")));
    }
    Ok(())
}

/// How many bytes each position has, and where they lie in the root's buffer.
#[derive(Clone, Debug)]
pub(super) enum Layout {
    /// The same of all, in rank order.
    Equal(u64),
    /// By position.
    Irregular {
        /// Bytes before each position, and in the end of all.
        starts: Vec<u64>,
        /// Where they lie.
        displs: Vec<u64>,
        /// The length of the root's buffer.
        extent: u64,
    },
}

impl Layout {
    pub(super) fn equal(tree: &dyn Tree, count: u64) -> Result<Self> {
        let size = tree.size();
        match count.checked_mul(size.into()) {
            Some(_) => Ok(Self::Equal(count)),
            None => Err(argument(format!("{size} blocks of {count} bytes are beyond 2^64 bytes"))),
        }
    }

    pub(super) fn irregular(tree: &dyn Tree, counts: &[u64], displs: &[u64]) -> Result<Self> {
        let extent = extent(counts, displs)?;
        if counts.len() != tree.size() as usize {
            return Err(argument(format!("{} counts for {} ranks", counts.len(), tree.size())));
        }
        let ranks = || (0..tree.size()).map(|position| tree.rank(position) as usize);
        let mut at = 0;
        // No sum overflows: the ranges do not overlap and end below 2^64.
        let starts = ranks().map(|rank| {
            at += counts[rank];
            at
        });
        let starts = std::iter::once(0).chain(starts).collect();
        Ok(Self::Irregular { starts, displs: ranks().map(|rank| displs[rank]).collect(), extent })
    }

    /// Bytes before a position.
    pub(super) fn start(&self, position: u32) -> u64 {
        match self {
            Self::Equal(count) => count * u64::from(position),
            Self::Irregular { starts, .. } => starts[position as usize],
        }
    }

    /// Bytes of a run of positions.
    pub(super) fn bytes(&self, first: u32, width: u32) -> u64 {
        self.start(first + width) - self.start(first)
    }

    /// The length of the root's buffer.
    pub(super) fn extent(&self, size: u32) -> u64 {
        match self {
            Self::Equal(count) => count * u64::from(size),
            Self::Irregular { extent, .. } => *extent,
        }
    }

    /// A run of positions as (first, width, offset in the root's buffer), each contiguous there: as many as there are
    /// [runs of ranks](Tree::consecutive) if the blocks are equal, else one per position.
    pub(super) fn parts(&self, tree: &dyn Tree, first: u32, width: u32) -> Vec<(u32, u32, u64)> {
        match self {
            Self::Equal(count) => {
                let (mut parts, mut at, end) = (Vec::with_capacity(2), first, first + width);
                while at < end {
                    let ranks = tree.consecutive(at, end - at);
                    parts.push((at, ranks, u64::from(tree.rank(at)) * count));
                    at += ranks;
                }
                parts
            }
            Self::Irregular { displs, .. } => {
                (first..first + width).map(|i| (i, 1, displs[i as usize])).collect()
            }
        }
    }
}
