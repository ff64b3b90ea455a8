//! The gather along a tree.
//!
//! One plan for every [`Tree`]: a rank collects its subtree in `Land`, in the order of positions, and
//! puts it to its parent piece by piece: its own block and each child's run, each as soon as it is
//! there. Lowering joins light neighbours to one put. Leaves put right from their input; to the root
//! everything goes right to its place: a run in at most two pieces if blocks are equal (it may wrap), else
//! one piece per block.
//!
//! Counter 0 counts our own block's copy to `Land`, 1+k what comes from the child of round k.

use crate::error::Result;
use crate::plan::registry::Arguments;
use crate::plan::tree::blocks::{Blocks, Piece};
use crate::plan::tree::{Branch, Tree};
use crate::plan::{NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};

/// What the line of a gather builds along a tree.
pub(in crate::plan) fn regular(a: &Arguments, tree: Box<dyn Tree>) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Gather::new(tree, a.bytes, a.in_place)?))
}

/// What the line of a gatherv builds along a tree.
pub(in crate::plan) fn irregular(a: &Arguments, tree: Box<dyn Tree>) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Gather::irregular(tree, &a.counts, &a.displs, a.in_place)?))
}

/// A gather along a tree.
#[derive(Debug)]
pub struct Gather(Blocks);

/// Where all blocks lie at the root, and a rank's own.
const REGIONS: [Region; 2] = [Region::Output, Region::Input];

impl Gather {
    /// Gathers `count` bytes of every rank, rank j's at j·`count` of the root's output. `in_place` says
    /// that the root's own are there already; it matters at the root only.
    ///
    /// # Errors
    /// If the output is beyond 2^64 bytes.
    pub fn new(tree: Box<dyn Tree>, count: u64, in_place: bool) -> Result<Self> {
        Ok(Self(Blocks::equal(tree, count, in_place, REGIONS)?))
    }

    /// Gathers `counts[j]` bytes of every rank j at `displs[j]` of the root's output.
    ///
    /// # Errors
    /// If counts and displacements do not fit the tree or [each other](crate::plan::allgatherv::extent).
    pub fn irregular(tree: Box<dyn Tree>, counts: &[u64], displs: &[u64], in_place: bool) -> Result<Self> {
        Ok(Self(Blocks::irregular(tree, (counts, displs), in_place, REGIONS)?))
    }

    /// What a rank hands to its parent.
    fn up(&self, rank: u32, up: Branch) -> impl Iterator<Item = Step> {
        let staged = self.0.staged(rank, up);
        // By counter: how many pieces came with it.
        let mut came = vec![(0, u32::from(staged))];
        for child in self.0.tree.children(rank) {
            let n = self.0.pieces(child.peer, Branch { peer: rank, ..child }).len();
            came.push((1 + child.round, u32::try_from(n).unwrap_or(u32::MAX)));
        }
        self.0.pieces(rank, up).into_iter().map(move |piece| {
            let at = came.binary_search_by_key(&piece.counter, |entry| entry.0);
            let at_least = at.map_or(0, |i| came[i].1);
            let wait = if at_least == 0 { Wait::NONE } else { Wait { counter: piece.counter, at_least } };
            Step::put(up.round, up.peer, piece.below, piece.above, piece.len, wait, 1 + up.round)
        })
    }
}

impl Plan for Gather {
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
        self.0.tree.children(rank).last().map_or(0, |child| child.round + 2)
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let own = self.0.own(rank);
        match self.0.tree.parent(rank) {
            None => {
                let input = if self.0.in_place { 0 } else { own };
                Sizes { input, output: self.0.layout.extent(self.size()), ..Sizes::default() }
            }
            Some(up) if self.0.staged(rank, up) => {
                Sizes { input: own, land: self.0.held(up), ..Sizes::default() }
            }
            Some(_) => Sizes { input: own, ..Sizes::default() },
        }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let (own, input) = (self.0.own(rank), Place::new(Region::Input, 0));
        let up = self.0.tree.parent(rank);
        // Ours comes to the others that we hold before the first of them, or (root) after the last.
        let stage = up
            .filter(|&up| own > 0 && self.0.staged(rank, up))
            .map(|up| Step::copy(0, input, self.0.among(rank, up), own, [Wait::NONE; 2], 0));
        let keep = (up.is_none() && own > 0 && !self.0.in_place).then(|| {
            let last = self.rounds().saturating_sub(1);
            Step::copy(last, input, self.0.of_root(), own, [Wait::NONE; 2], NO_COUNTER)
        });
        let children = self.0.tree.children(rank).into_iter().flat_map(move |child| {
            let pieces = self.0.pieces(child.peer, Branch { peer: rank, ..child });
            let expect = move |p: Piece| {
                Step::expect(child.round, child.peer, p.below, p.above, p.len, 1 + child.round)
            };
            pieces.into_iter().map(expect)
        });
        let puts = up.into_iter().flat_map(move |up| self.up(rank, up));
        Box::new(stage.into_iter().chain(children).chain(puts).chain(keep))
    }
}
