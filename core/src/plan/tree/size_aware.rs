//! The size-aware tree for irregular gathers and scatters (Träff, "On optimal trees for irregular gather
//! and scatter collectives", arXiv 1711.08731, and "Practical, linear-time, fully distributed algorithms
//! for irregular gather and scatter", 1702.05967; the join rule is re-derived).
//!
//! Round d joins neighbouring segments of 2^d ranks. A segment has a local root and a gather time t, its
//! bytes without those of its local root; the segment of smaller t (of equal t: of fewer bytes) hands all it
//! has to the other's local root. The segment of the root always receives, which costs at most a factor of 2: done within
//! q·α + 2β·(m − m_root), where the binomial tree may take q times as long as needed. Segments stay in
//! rank order, so what a rank holds is contiguous. q rounds; the root gets every byte once.
//!
//! All ranks know all counts and compute the tree on their own, in O(p).

use super::cost::{down, up};
use super::{Branch, Tree, rooted};
use crate::error::{Result, argument};
use crate::plan::gather::plan as gather;
use crate::plan::registry::cost::Path;
use crate::plan::registry::line::{by_q, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::scatter::plan as scatter;

const NAME: &str = "size-aware";
const SOURCE: &str = "Träff 2017, arXiv 1702.05967";
const COUNTS: &str = "any p, root, counts; all ranks know all counts";

pub(in crate::plan) const GATHERV: Algorithm =
    line(Operation::Gatherv, NAME, [COUNTS, "q", "m - m_root", SOURCE], by_q, |a, _| {
        gather::irregular(a, tree(a)?)
    })
    .costs(|a, path| {
        if let Ok(tree) = tree(a) {
            up(a, &*tree, path)
        }
    });

pub(in crate::plan) const SCATTERV: Algorithm =
    line(Operation::Scatterv, NAME, [COUNTS, "q", "largest subtree", SOURCE], by_q, |a, _| {
        scatter::irregular(a, tree(a)?)
    })
    .receives(|a| tree(a).map_or(0, |tree| scatter::largest_subtree(&*tree, |rank| a.counts[rank as usize])))
    .costs(scatterv_cost);

/// The tree of these arguments.
pub(in crate::plan) fn tree(a: &Arguments) -> Result<Box<dyn Tree>> {
    Ok(Box::new(SizeAware::new(&a.counts, a.root)?))
}

pub(in crate::plan) fn scatterv_cost(a: &Arguments, path: &mut Path<'_>) {
    if let Ok(tree) = tree(a) {
        down(a, &*tree, path);
    }
}

/// A tree fitted to the counts. Positions are ranks.
#[derive(Clone, Debug)]
pub struct SizeAware {
    root: u32,
    /// By level d: the local roots of the segments of 2^d ranks.
    roots: Vec<Vec<u32>>,
}

impl SizeAware {
    /// The tree for `counts[j]` bytes of every rank j.
    ///
    /// # Errors
    /// If there is no such root, no or too many ranks, or more than 2^64 bytes.
    pub fn new(counts: &[u64], root: u32) -> Result<Self> {
        let size = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        rooted("size-aware tree", size, root)?;
        if counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count)).is_none() {
            return Err(argument("the contributions are beyond 2^64 bytes"));
        }
        let mut roots = vec![(0..size).collect::<Vec<u32>>()];
        let mut bytes = counts.to_vec();
        while let Some(last) = roots.last().filter(|last| last.len() > 1) {
            let time = |i: usize| (bytes[i] - counts[last[i] as usize], bytes[i]);
            let winner = |(i, pair): (usize, &[u32])| match *pair {
                [left, right] if right == root || left != root && time(2 * i) < time(2 * i + 1) => right,
                _ => pair[0],
            };
            let next = last.chunks(2).enumerate().map(winner).collect();
            bytes = bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
            roots.push(next);
        }
        Ok(Self { root, roots })
    }

    /// The edge that joins the segment of `rank` at `level`, with the half that moves; none if there is
    /// nothing to join. (whether `rank` receives, edge)
    fn join(&self, rank: u32, level: u32) -> Option<(bool, Branch)> {
        let (own, other) = (rank >> level, (rank >> level) ^ 1);
        let peer = *self.roots[level as usize].get(other as usize)?;
        let receives = self.roots.get(level as usize + 1)?[own as usize >> 1] == rank;
        let first = if receives { other } else { own } << level;
        let width = (1 << level).min(self.size() - first);
        Some((receives, Branch { peer, round: level, first, width }))
    }
}

impl Tree for SizeAware {
    fn name(&self) -> &'static str {
        NAME
    }

    fn size(&self) -> u32 {
        u32::try_from(self.roots[0].len()).unwrap_or(u32::MAX)
    }

    fn root(&self) -> u32 {
        self.root
    }

    fn rounds(&self) -> u32 {
        u32::try_from(self.roots.len() - 1).unwrap_or(u32::MAX)
    }

    fn rank(&self, position: u32) -> u32 {
        position
    }

    fn position(&self, rank: u32) -> u32 {
        rank
    }

    fn parent(&self, rank: u32) -> Option<Branch> {
        let joins = (0..self.rounds()).filter_map(|level| self.join(rank, level));
        joins.filter(|(receives, _)| !receives).map(|(_, branch)| branch).next()
    }

    fn children(&self, rank: u32) -> Vec<Branch> {
        let joins = (0..self.rounds()).filter_map(|level| self.join(rank, level));
        joins.take_while(|(receives, _)| *receives).map(|(_, branch)| branch).collect()
    }
}
