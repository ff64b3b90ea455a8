//! Scatter: the root's blocks, one to every rank, all of the same length or (scatterv) each of its own.
//!
//! [`Region::Input`] is the root's buffer, nothing elsewhere; [`Region::Output`] is where a rank's block
//! goes (in place: the root's own stays where it is).
//!
//! One plan for every [`Tree`], the mirror image of [`gather`](super::gather): a rank gets the blocks of
//! its subtree in `Land`, in the order of positions, in pieces: its own block and each child's run, and
//! hands each run on as soon as it is there. Lowering joins light neighbours to one put. Leaves get their
//! block right where it belongs.
//!
//! Counter 0 counts our own block's arrival, 1+k that of the run for the child of round k.

use super::tree::{Branch, Layout, Tree};
use super::{NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use crate::error::Result;

/// A scatter along a tree.
#[derive(Debug)]
pub struct Scatter {
    tree: Box<dyn Tree>,
    layout: Layout,
    in_place: bool,
}

/// A part of a message from a rank to its child.
struct Piece {
    source: Place,
    target: Place,
    len: u64,
    /// The counter that it bumps.
    counter: u32,
}

impl Scatter {
    /// Scatters `count` bytes to every rank, rank j's from j·`count` of the root's input. `in_place` says
    /// that the root's own stay there; it matters at the root only.
    ///
    /// # Errors
    /// If the input is beyond 2^64 bytes.
    pub fn new(tree: Box<dyn Tree>, count: u64, in_place: bool) -> Result<Self> {
        let layout = Layout::equal(&*tree, count)?;
        Ok(Self { tree, layout, in_place })
    }

    /// Scatters `counts[j]` bytes from `displs[j]` of the root's input to every rank j.
    ///
    /// # Errors
    /// If counts and displacements do not fit the tree or [each other](super::allgatherv::extent).
    pub fn irregular(tree: Box<dyn Tree>, counts: &[u64], displs: &[u64], in_place: bool) -> Result<Self> {
        let layout = Layout::irregular(&*tree, counts, displs)?;
        Ok(Self { tree, layout, in_place })
    }

    fn own(&self, rank: u32) -> u64 {
        self.layout.bytes(self.tree.position(rank), 1)
    }

    /// Whether a rank of this subtree gets more than its own block.
    fn staged(&self, rank: u32, subtree: Branch) -> bool {
        self.layout.bytes(subtree.first, subtree.width) > self.own(rank)
    }

    /// When the edge is used: the rounds of a gather, backwards.
    fn round(&self, edge: Branch) -> u32 {
        self.rounds() - 1 - edge.round
    }

    /// What `child` gets from its parent; both sides ask this.
    fn pieces(&self, child: u32, up: Branch) -> Vec<Piece> {
        let own = (self.tree.position(child), 1, 0);
        let runs = self.tree.children(child).into_iter().map(|b| (b.first, b.width, 1 + b.round));
        let mut runs: Vec<(u32, u32, u32)> = runs.chain([own]).collect();
        runs.sort_unstable();
        let staged = self.staged(child, up);
        let place = |region, first, base| Place::new(region, self.layout.start(first) - base);
        let base = self.layout.start(up.first);
        let above = self.tree.parent(up.peer).map(|branch| self.layout.start(branch.first));
        let mut pieces = Vec::with_capacity(runs.len());
        for (first, width, counter) in runs {
            let parts = match above {
                Some(above) => vec![(first, width, place(Region::Land, first, above))],
                None => {
                    let parts = self.layout.parts(&*self.tree, first, width).into_iter();
                    parts.map(|(first, width, at)| (first, width, Place::new(Region::Input, at))).collect()
                }
            };
            for (first, width, source) in parts {
                let len = self.layout.bytes(first, width);
                let target =
                    if staged { place(Region::Land, first, base) } else { Place::new(Region::Output, 0) };
                pieces.push(Piece { source, target, len, counter });
            }
        }
        pieces.retain(|piece| piece.len > 0);
        pieces
    }
}

impl Plan for Scatter {
    fn algorithm(&self) -> &'static str {
        self.tree.name()
    }

    fn size(&self) -> u32 {
        self.tree.size()
    }

    fn rounds(&self) -> u32 {
        self.tree.rounds()
    }

    fn counters(&self, rank: u32) -> u32 {
        let children = self.tree.children(rank);
        if rank == self.tree.root() { 0 } else { children.last().map_or(1, |child| child.round + 2) }
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let own = self.own(rank);
        match self.tree.parent(rank) {
            None => {
                let output = if self.in_place { 0 } else { own };
                Sizes { input: self.layout.extent(self.size()), output, ..Sizes::default() }
            }
            Some(up) if self.staged(rank, up) => {
                Sizes { output: own, land: self.layout.bytes(up.first, up.width), ..Sizes::default() }
            }
            Some(_) => Sizes { output: own, ..Sizes::default() },
        }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let (own, position, output) =
            (self.own(rank), self.tree.position(rank), Place::new(Region::Output, 0));
        let up = self.tree.parent(rank);
        let came: Vec<Piece> = up.map_or_else(Vec::new, |up| self.pieces(rank, up));
        let wait = |came: &[Piece], counter| {
            let at_least = came.iter().filter(|piece| piece.counter == counter).count();
            let at_least = u32::try_from(at_least).unwrap_or(u32::MAX);
            if at_least == 0 { Wait::NONE } else { Wait { counter, at_least } }
        };
        let last = self.rounds().saturating_sub(1);
        let keep = match up {
            _ if own == 0 => None,
            None => {
                let at = self.layout.parts(&*self.tree, position, 1)[0].2;
                (!self.in_place).then_some((Place::new(Region::Input, at), Wait::NONE))
            }
            Some(up) => self.staged(rank, up).then(|| {
                let at = self.layout.start(position) - self.layout.start(up.first);
                (Place::new(Region::Land, at), wait(&came, 0))
            }),
        };
        let keep =
            keep.map(|(source, wait)| Step::copy(last, source, output, own, [wait, Wait::NONE], NO_COUNTER));
        let children: Vec<(Branch, Wait)> =
            self.tree.children(rank).into_iter().map(|c| (c, wait(&came, 1 + c.round))).collect();
        let expects = came.into_iter().zip(std::iter::repeat(up)).filter_map(move |(p, up)| {
            let up = up?;
            Some(Step::expect(self.round(up), up.peer, p.source, p.target, p.len, p.counter))
        });
        let puts = children.into_iter().rev().flat_map(move |(child, wait)| {
            let pieces = self.pieces(child.peer, Branch { peer: rank, ..child });
            pieces.into_iter().map(move |p| {
                Step::put(self.round(child), child.peer, p.source, p.target, p.len, wait, p.counter)
            })
        });
        Box::new(expects.chain(puts).chain(keep))
    }
}
