//! The star: every rank deals with the root directly, one per round, in the order after the root.
//!
//! p−1 rounds, each byte moves once and right between the users' buffers: no staging memory and nothing
//! is forwarded. The root's link is the bottleneck of any tree; this one wastes none of it when blocks
//! are heavy against the overhead of a put.

use super::cost::foreign;
use super::{Branch, Tree, rooted};
use crate::error::Result;
use crate::plan::gather::plan as gather;
use crate::plan::registry::cost::Path;
use crate::plan::registry::line::{by_p, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::scatter::plan as scatter;
use crate::plan::topology::{ahead, behind};

const NAME: &str = "direct";
const SOURCE: &str = "one put per block";
const ANY: &str = "any p, root";
const COUNTS: &str = "any p, root, counts; all ranks know all counts";

pub(in crate::plan) const GATHER: Algorithm =
    line(Operation::Gather, NAME, [ANY, "p-1", "m - m/p", SOURCE], by_p, |a, _| gather::regular(a, tree(a)?))
        .costs(gather_cost);

pub(in crate::plan) const GATHERV: Algorithm =
    line(Operation::Gatherv, NAME, [COUNTS, "p-1", "m - m_root", SOURCE], by_p, |a, _| {
        gather::irregular(a, tree(a)?)
    })
    .costs(gather_cost);

pub(in crate::plan) const SCATTER: Algorithm =
    line(Operation::Scatter, NAME, [ANY, "p-1", "m/p", SOURCE], by_p, |a, _| scatter::regular(a, tree(a)?))
        .costs(scatter_cost);

pub(in crate::plan) const SCATTERV: Algorithm =
    line(Operation::Scatterv, NAME, [COUNTS, "p-1", "m_r", SOURCE], by_p, |a, _| {
        scatter::irregular(a, tree(a)?)
    })
    .costs(scatter_cost);

/// The star of these arguments.
pub(in crate::plan) fn tree(a: &Arguments) -> Result<Box<dyn Tree>> {
    Ok(Box::new(Star::new(a.size, a.root)?))
}

fn gather_cost(a: &Arguments, path: &mut Path<'_>) {
    let (n, bytes) = foreign(a);
    path.fan_in(n, bytes);
}

/// The root puts to all, one after the other.
pub(in crate::plan) fn scatter_cost(a: &Arguments, path: &mut Path<'_>) {
    let (n, bytes) = foreign(a);
    path.fan(n, bytes);
}

/// All ranks around one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Star {
    size: u32,
    root: u32,
}

impl Star {
    /// The star of `size` ranks around `root`.
    ///
    /// # Errors
    /// If there is no such root, or 0 or more than [`MAX_P`](crate::schedule::MAX_P) ranks.
    pub(crate) fn new(size: u32, root: u32) -> Result<Self> {
        rooted("star", size, root)?;
        Ok(Self { size, root })
    }
}

impl Tree for Star {
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
        self.size - 1
    }

    fn rank(&self, position: u32) -> u32 {
        ahead(self.size, self.root, position)
    }

    fn position(&self, rank: u32) -> u32 {
        behind(self.size, rank, self.root)
    }

    fn parent(&self, rank: u32) -> Option<Branch> {
        let at = self.position(rank);
        (at > 0).then(|| Branch { peer: self.root, round: at - 1, first: at, width: 1 })
    }

    fn children(&self, rank: u32) -> Vec<Branch> {
        let all = if rank == self.root { 1..self.size } else { 0..0 };
        all.map(|at| Branch { peer: self.rank(at), round: at - 1, first: at, width: 1 }).collect()
    }
}
