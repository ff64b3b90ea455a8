//! The binomial tree (Grama et al., Introduction to Parallel Computing, section 4.4), for any p and root.
//!
//! Positions count from the root. Position i > 0 with lowest set bit k stands for the run i .. i+2^k (or
//! the end) and hands it to i−2^k in round k. q rounds, and the root gets every block once: both optimal.
//! A block takes at most as many hops as its position has bits. O(log p) state.

use super::cost::{down, up};
use super::{Branch, Tree, rooted};
use crate::error::Result;
use crate::plan::gather::plan as gather;
use crate::plan::registry::cost::{Path, float, floor_log, powers};
use crate::plan::registry::line::{by_q, line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::scatter::plan as scatter;
use crate::plan::topology::{ahead, behind};

const NAME: &str = "binomial";
const SOURCE: &str = "Grama et al., section 4.4";
const ANY: &str = "any p, root";
const COUNTS: &str = "any p, root, counts; all ranks know all counts";

pub(in crate::plan) const GATHER: Algorithm =
    line(Operation::Gather, NAME, [ANY, "q", "m - m/p", SOURCE], by_q, |a, _| gather::regular(a, tree(a)?))
        .costs(gather_cost);

pub(in crate::plan) const GATHERV: Algorithm =
    line(Operation::Gatherv, NAME, [COUNTS, "q", "m - m_root", SOURCE], by_q, |a, _| {
        gather::irregular(a, tree(a)?)
    })
    .costs(|a, path| {
        if let Ok(tree) = tree(a) {
            up(a, &*tree, path)
        }
    });

pub(in crate::plan) const SCATTER: Algorithm =
    line(Operation::Scatter, NAME, [ANY, "q", "largest subtree", SOURCE], by_q, |a, _| {
        scatter::regular(a, tree(a)?)
    })
    .receives(|a| tree(a).map_or(0, |tree| scatter::largest_subtree(&*tree, |_| a.bytes)))
    .costs(scatter_cost);

pub(in crate::plan) const SCATTERV: Algorithm =
    line(Operation::Scatterv, NAME, [COUNTS, "q", "largest subtree", SOURCE], by_q, |a, _| {
        scatter::irregular(a, tree(a)?)
    })
    .receives(|a| tree(a).map_or(0, |tree| scatter::largest_subtree(&*tree, |rank| a.counts[rank as usize])))
    .costs(|a, path| {
        if let Ok(tree) = tree(a) {
            down(a, &*tree, path)
        }
    });

/// The tree of these arguments.
pub(in crate::plan) fn tree(a: &Arguments) -> Result<Box<dyn Tree>> {
    Ok(Box::new(Binomial::new(a.size, a.root)?))
}

/// A run goes on when it is here: a round waits for the last half of its message.
pub(super) fn gather_cost(a: &Arguments, path: &mut Path<'_>) {
    let (bytes, one) = (float(a.bytes), a.others().min(1.0));
    let by_rounds = |path: &mut Path<'_>| {
        for d in powers(a.size).into_iter().take(floor_log(a.size).max(1) as usize) {
            path.hop(d, 1.0, f64::from((d / 2).max(1)) * bytes);
        }
        path.over(&[1], 0.0, 0.0, one * bytes);
    };
    path.relayed(q(a.size).into());
    path.alone(|path| {
        path.longer(by_rounds, |path| path.over(&powers(a.size), one, one, a.others() * bytes))
    });
}

/// Halves, quarters, …: all but one block in the end, by q hops.
pub(in crate::plan) fn scatter_cost(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (f64::from(q(a.size)), float(a.bytes));
    // Heavy runs of a message are puts of their own.
    let runs = if path.shared(rounds, bytes) { 0.0 } else { rounds * (rounds - 1.0) / 2.0 };
    let joined = path.runs(a.others(), bytes);
    let turns = path.in_turns();
    path.alone(|path| {
        let puts = rounds + runs.min(joined);
        path.over(&powers(a.size), floor_log(a.size).into(), puts, turns * a.others() * bytes)
    });
}

/// A binomial tree.
#[derive(Clone, Copy, Debug)]
pub struct Binomial {
    size: u32,
    root: u32,
}

impl Binomial {
    /// The tree of `size` ranks with this root.
    ///
    /// # Errors
    /// If there is no such root, or 0 or more than [`MAX_P`](crate::schedule::MAX_P) ranks.
    pub fn new(size: u32, root: u32) -> Result<Self> {
        rooted("binomial tree", size, root)?;
        Ok(Self { size, root })
    }

    /// The subtree below the edge of round `k` above `position`.
    fn branch(&self, peer: u32, k: u32, position: u32) -> Branch {
        let width = (1 << k).min(self.size - position);
        Branch { peer: self.rank(peer), round: k, first: position, width }
    }
}

impl Tree for Binomial {
    fn name(&self) -> &'static str {
        NAME
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn root(&self) -> u32 {
        self.root
    }

    fn rounds(&self) -> u32 {
        self.size.next_power_of_two().ilog2()
    }

    fn rank(&self, position: u32) -> u32 {
        ahead(self.size, self.root, position)
    }

    fn position(&self, rank: u32) -> u32 {
        behind(self.size, rank, self.root)
    }

    fn parent(&self, rank: u32) -> Option<Branch> {
        let at = self.position(rank);
        let k = at.trailing_zeros();
        (at > 0).then(|| self.branch(at - (1 << k), k, at))
    }

    fn children(&self, rank: u32) -> Vec<Branch> {
        let at = self.position(rank);
        let most = if at == 0 { self.rounds() } else { at.trailing_zeros() };
        let inside = |k: &u32| (1 << k) < self.size - at;
        (0..most).take_while(inside).map(|k| self.branch(at + (1 << k), k, at + (1 << k))).collect()
    }
}
