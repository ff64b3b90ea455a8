//! A plan among some of the ranks; the others have nothing to do.
//!
//! The broadcast between groups is one among the root and the whole other group. Nobody else could help:
//! of n blocks the last leaves the root in round n−1 at the earliest, and who has it at most doubles from
//! round to round, so s ranks have it after n−1+⌈log2(s+1)⌉ rounds at the earliest. That is what the circulant
//! broadcast (Träff 2022, Algorithm 6) takes among s+1 ranks.

use super::Groups;
use crate::error::{Result, argument};
use crate::plan::{Plan, Sizes, Step};
use std::ops::Range;

/// A plan of which rank 0 is `root` and the others are a range of ranks.
#[derive(Debug)]
pub struct Among {
    size: u32,
    root: u32,
    others: Range<u32>,
    plan: Box<dyn Plan>,
}

impl Among {
    /// A plan among `root` and the other group, made by `plan` for so many ranks, its rank 0 the root.
    ///
    /// # Errors
    /// If there is no such root or plan.
    pub fn other_group(
        groups: Groups,
        root: u32,
        plan: impl FnOnce(u32) -> Result<Box<dyn Plan>>,
    ) -> Result<Self> {
        if root >= groups.size() {
            return Err(argument(format!("root {root} is not one of the {} ranks", groups.size())));
        }
        let others = groups.other(root);
        let plan = plan(others.end - others.start + 1)?;
        Ok(Self { size: groups.size(), root, others, plan })
    }

    /// The number of a rank in the plan.
    fn inner(&self, rank: u32) -> Option<u32> {
        match rank {
            rank if rank == self.root => Some(0),
            rank => self.others.contains(&rank).then(|| rank - self.others.start + 1),
        }
    }

    fn outer(&self, inner: u32) -> u32 {
        inner.checked_sub(1).map_or(self.root, |i| self.others.start + i)
    }
}

impl Plan for Among {
    fn algorithm(&self) -> &'static str {
        self.plan.algorithm()
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        self.plan.rounds()
    }

    fn counters(&self, rank: u32) -> u32 {
        self.inner(rank).map_or(0, |inner| self.plan.counters(inner))
    }

    fn sizes(&self, rank: u32) -> Sizes {
        self.inner(rank).map_or(Sizes::default(), |inner| self.plan.sizes(inner))
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        match self.inner(rank) {
            None => Box::new(std::iter::empty()),
            Some(inner) => Box::new(self.plan.steps(inner).map(|step| match step.kind.is_local() {
                true => step,
                false => Step { peer: self.outer(step.peer), ..step },
            })),
        }
    }
}
