//! The scatter along a tree.
//!
//! One plan for every [`Tree`], the mirror image of [`gather`](crate::plan::gather): a rank gets the blocks of
//! its subtree in `Land`, in the order of positions, in pieces: its own block and each child's run, and
//! hands each run on as soon as it is there. Lowering joins light neighbours to one put. Leaves get their
//! block right where it belongs.
//!
//! Counter 0 counts our own block's arrival, 1+k that of the run for the child of round k.

use crate::error::Result;
use crate::plan::registry::Arguments;
use crate::plan::tree::blocks::{Blocks, Piece};
use crate::plan::tree::{Branch, Tree};
use crate::plan::{NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};

/// What the line of a scatter builds along a tree.
pub(in crate::plan) fn regular(a: &Arguments, tree: Box<dyn Tree>) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Scatter::new(tree, a.bytes, a.in_place)?))
}

/// What the line of a scatterv builds along a tree.
pub(in crate::plan) fn irregular(a: &Arguments, tree: Box<dyn Tree>) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Scatter::irregular(tree, &a.counts, &a.displs, a.in_place)?))
}

/// The bytes of the largest subtree below the root: what the rank which receives most receives.
pub(in crate::plan) fn largest_subtree(tree: &dyn Tree, bytes: impl Fn(u32) -> u64) -> u64 {
    let subtrees = tree.children(tree.root()).into_iter();
    let bytes = |b: Branch| (b.first..b.first + b.width).map(|position| bytes(tree.rank(position))).sum();
    subtrees.map(bytes).max().unwrap_or(0)
}

/// A scatter along a tree.
#[derive(Debug)]
pub struct Scatter(Blocks);

/// Where all blocks lie at the root, and a rank's own.
const REGIONS: [Region; 2] = [Region::Input, Region::Output];

impl Scatter {
    /// Scatters `count` bytes to every rank, rank j's from j·`count` of the root's input. `in_place` says
    /// that the root's own stay there; it matters at the root only.
    ///
    /// # Errors
    /// If the input is beyond 2^64 bytes.
    pub fn new(tree: Box<dyn Tree>, count: u64, in_place: bool) -> Result<Self> {
        Ok(Self(Blocks::equal(tree, count, in_place, REGIONS)?))
    }

    /// Scatters `counts[j]` bytes from `displs[j]` of the root's input to every rank j.
    ///
    /// # Errors
    /// If counts and displacements do not fit the tree or [each other](crate::plan::allgatherv::extent).
    pub fn irregular(tree: Box<dyn Tree>, counts: &[u64], displs: &[u64], in_place: bool) -> Result<Self> {
        Ok(Self(Blocks::irregular(tree, (counts, displs), in_place, REGIONS)?))
    }

    /// When the edge is used: the rounds of a gather, backwards.
    fn round(&self, edge: Branch) -> u32 {
        self.rounds() - 1 - edge.round
    }
}

impl Plan for Scatter {
    fn algorithm(&self) -> &'static str {
        self.0.tree.name()
    }

    fn size(&self) -> u32 {
        self.0.tree.size()
    }

    fn rounds(&self) -> u32 {
        self.0.tree.rounds()
    }

    fn counters(&self, rank: u32) -> u32 {
        let children = self.0.tree.children(rank);
        if rank == self.0.tree.root() { 0 } else { children.last().map_or(1, |child| child.round + 2) }
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let own = self.0.own(rank);
        match self.0.tree.parent(rank) {
            None => {
                let output = if self.0.in_place { 0 } else { own };
                Sizes { input: self.0.layout.extent(self.size()), output, ..Sizes::default() }
            }
            Some(up) if self.0.staged(rank, up) => {
                Sizes { output: own, land: self.0.held(up), ..Sizes::default() }
            }
            Some(_) => Sizes { output: own, ..Sizes::default() },
        }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let (own, output) = (self.0.own(rank), Place::new(Region::Output, 0));
        let up = self.0.tree.parent(rank);
        let came: Vec<Piece> = up.map_or_else(Vec::new, |up| self.0.pieces(rank, up));
        let wait = |came: &[Piece], counter| {
            let at_least = came.iter().filter(|piece| piece.counter == counter).count();
            let at_least = u32::try_from(at_least).unwrap_or(u32::MAX);
            if at_least == 0 { Wait::NONE } else { Wait { counter, at_least } }
        };
        let last = self.rounds().saturating_sub(1);
        let keep = match up {
            _ if own == 0 => None,
            None => (!self.0.in_place).then(|| (self.0.of_root(), Wait::NONE)),
            Some(up) => self.0.staged(rank, up).then(|| (self.0.among(rank, up), wait(&came, 0))),
        };
        let keep =
            keep.map(|(source, wait)| Step::copy(last, source, output, own, [wait, Wait::NONE], NO_COUNTER));
        let children: Vec<(Branch, Wait)> =
            self.0.tree.children(rank).into_iter().map(|c| (c, wait(&came, 1 + c.round))).collect();
        let expects = came.into_iter().zip(std::iter::repeat(up)).filter_map(move |(p, up)| {
            let up = up?;
            Some(Step::expect(self.round(up), up.peer, p.above, p.below, p.len, p.counter))
        });
        let puts = children.into_iter().rev().flat_map(move |(child, wait)| {
            let pieces = self.0.pieces(child.peer, Branch { peer: rank, ..child });
            pieces.into_iter().map(move |p| {
                Step::put(self.round(child), child.peer, p.above, p.below, p.len, wait, p.counter)
            })
        });
        Box::new(expects.chain(puts).chain(keep))
    }
}
