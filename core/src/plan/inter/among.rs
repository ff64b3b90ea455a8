//! A plan among some of the ranks; the others have nothing to do.
//!
//! The broadcast between groups is one among the root and the whole other group. No other rank could help:
//! of n blocks the last leaves the root in round n−1 at the earliest, and the number of ranks that have it at most doubles from
//! round to round, so s ranks have it after n−1+⌈log2(s+1)⌉ rounds at the earliest. That is what the circulant
//! broadcast (Träff 2022, Algorithm 6) takes among s+1 ranks.

use super::groups::Groups;
use super::line::{ANY, fits, groups};
use crate::error::{Result, argument};
use crate::plan::barrier::dissemination::Barrier;
use crate::plan::bcast::circulant::Bcast;
use crate::plan::bcast::{binomial, tree::Tree};
use crate::plan::registry::line::{by_q, line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::rules;
use crate::plan::{Plan, Sizes, Step};
use std::ops::Range;

pub(in crate::plan) const CIRCULANT: Algorithm = line(
    Operation::InterBcast,
    "circulant",
    [
        "any two groups, root, n",
        "n-1+ceil(log2(s+1)), s ranks in the other group",
        "m",
        "Träff 2022, Algorithm 6, among the root and the other group",
    ],
    |a, n| n - 1 + q(receivers(a) + 1),
    |a, model| {
        let n = a.blocks.unwrap_or_else(|| rules::bcast_blocks(receivers(a) + 1, a.bytes, model));
        let bcast = |size| -> Result<Box<dyn Plan>> { Ok(Box::new(Bcast::new(size, 0, a.bytes, n)?)) };
        Ok(Box::new(Among::other_group(groups(a)?, a.root, bcast)?))
    },
)
.only(fits);

pub(in crate::plan) const BINOMIAL: Algorithm = line(
    Operation::InterBcast,
    "binomial",
    ["any two groups, root; n = 1", "ceil(log2(s+1)), s ranks in the other group", "m", "folklore"],
    |a, _| q(receivers(a) + 1),
    |a, _| {
        let bcast = |size| -> Result<Box<dyn Plan>> {
            Ok(Box::new(Tree::<binomial::Binomial>::new(size, 0, a.bytes)?))
        };
        Ok(Box::new(Among::other_group(groups(a)?, a.root, bcast)?))
    },
)
.only(fits);

/// The barrier among both groups.
pub(in crate::plan) const BARRIER: Algorithm = line(
    Operation::InterBarrier,
    "dissemination",
    [ANY, "q", "0", "dissemination on circulant skips, among both groups"],
    by_q,
    |a, _| Ok(Box::new(Barrier::new(groups(a)?.size())?)),
)
.only(fits);

/// How many ranks an inter_bcast is for.
fn receivers(a: &Arguments) -> u32 {
    groups(a).map_or(0, |groups| groups.other(a.root).end - groups.other(a.root).start)
}

/// A plan of which rank 0 is `root` and the others are a range of ranks.
#[derive(Debug)]
pub(crate) struct Among {
    size: u32,
    root: u32,
    others: Range<u32>,
    plan: Box<dyn Plan>,
}

impl Among {
    /// A plan among `root` and the other group, made by `plan` for this many ranks, its rank 0 the root.
    ///
    /// # Errors
    /// If there is no such root or plan.
    pub(crate) fn other_group(
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
