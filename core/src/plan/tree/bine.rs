//! The Bine tree (De Sensi et al., SC 2025, arXiv 2508.17311), for a power of two of ranks and any root.
//!
//! What a rank has heard of before round k of the butterfly is a run of ranks, and so is a subtree. Positions count from the first
//! rank of the root's whole run, so that none goes round the end. log2 p rounds; the root gets every block once.

use super::cost::{down, up};
use super::{Branch, Tree, binomial, rooted};
use crate::error::Result;
use crate::plan::gather::plan as gather;
use crate::plan::reduce_scatter::core::BINE;
use crate::plan::registry::line::{by_q, line, power_of_two};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::scatter::plan as scatter;
use crate::plan::topology::{ahead, behind, bine, dimension};

const NAME: &str = "bine";
const CUBE: &str = "p a power of two; any root";
const COUNTS: &str = "p a power of two; any root, counts; all ranks know all counts";

pub(in crate::plan) const GATHER: Algorithm =
    line(Operation::Gather, NAME, [CUBE, "q", "m - m/p", BINE], by_q, |a, _| gather::regular(a, tree(a)?))
        .only(power_of_two)
        .costs(binomial::gather_cost);

pub(in crate::plan) const GATHERV: Algorithm =
    line(Operation::Gatherv, NAME, [COUNTS, "q", "m - m_root", BINE], by_q, |a, _| {
        gather::irregular(a, tree(a)?)
    })
    .only(power_of_two)
    .costs(|a, path| {
        if let Ok(tree) = binomial::tree(a) {
            up(a, &*tree, path)
        }
    });

pub(in crate::plan) const SCATTER: Algorithm =
    line(Operation::Scatter, NAME, [CUBE, "q", "largest subtree", BINE], by_q, |a, _| {
        scatter::regular(a, tree(a)?)
    })
    .only(power_of_two)
    .receives(|a| tree(a).map_or(0, |tree| scatter::largest_subtree(&*tree, |_| a.bytes)))
    .costs(binomial::scatter_cost);

pub(in crate::plan) const SCATTERV: Algorithm =
    line(Operation::Scatterv, NAME, [COUNTS, "q", "largest subtree", BINE], by_q, |a, _| {
        scatter::irregular(a, tree(a)?)
    })
    .only(power_of_two)
    .receives(|a| tree(a).map_or(0, |tree| scatter::largest_subtree(&*tree, |rank| a.counts[rank as usize])))
    .costs(|a, path| {
        if let Ok(tree) = binomial::tree(a) {
            down(a, &*tree, path)
        }
    });

fn tree(a: &Arguments) -> Result<Box<dyn Tree>> {
    Ok(Box::new(Bine::new(a.size, a.root)?))
}

/// A Bine tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bine {
    size: u32,
    root: u32,
    /// The rank at position 0.
    origin: u32,
}

impl Bine {
    /// The tree of `size` ranks with this root.
    ///
    /// # Errors
    /// If there is no such root, or `size` is not a power of two.
    pub(crate) fn new(size: u32, root: u32) -> Result<Self> {
        rooted("Bine tree", size, root)?;
        dimension(size)?;
        Ok(Self { size, root, origin: bine::first(size, root, size.ilog2()) })
    }

    fn numbered(&self, number: u32) -> u32 {
        bine::rank(self.size, self.root, number)
    }

    /// The edge of round `k` to `peer`, with the subtree of `child` below it.
    fn branch(&self, peer: u32, k: u32, child: u32) -> Branch {
        Branch { peer, round: k, first: self.position(bine::first(self.size, child, k)), width: 1 << k }
    }
}

impl Tree for Bine {
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
        self.size.ilog2()
    }

    fn rank(&self, position: u32) -> u32 {
        ahead(self.size, self.origin, position)
    }

    fn position(&self, rank: u32) -> u32 {
        behind(self.size, rank, self.origin)
    }

    fn parent(&self, rank: u32) -> Option<Branch> {
        let at = bine::number(self.size, self.root, rank);
        let k = at.trailing_zeros();
        (at > 0).then(|| self.branch(self.numbered(at - (1 << k)), k, rank))
    }

    fn children(&self, rank: u32) -> Vec<Branch> {
        let at = bine::number(self.size, self.root, rank);
        let most = if at == 0 { self.rounds() } else { at.trailing_zeros() };
        let child = |k: u32| {
            let child = self.numbered(at + (1u32 << k));
            self.branch(child, k, child)
        };
        (0..most).map(child).collect()
    }
}
