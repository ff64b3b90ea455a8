//! Gather: every rank's block at the root, all of the same length or (gatherv) each of its own.
//!
//! [`Region::Input`] is a rank's block (in place: the root's lies in its `Output` already);
//! [`Region::Output`] is the root's buffer, nothing elsewhere.
//!
//! One plan for every [`Tree`]: a rank collects its subtree in `Land`, in the order of positions, and
//! puts it to its parent piece by piece: its own block and each child's run, each as soon as it is
//! there. Lowering joins light neighbours to one put. Leaves put right from their input; to the root
//! everything goes right to its place: a run in at most two pieces if blocks are equal (it may wrap), else
//! one piece per block.
//!
//! Counter 0 counts our own block's copy to `Land`, 1+k what comes from the child of round k.

use super::tree::{Branch, Layout, Tree};
use super::{NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use crate::error::Result;

/// A gather along a tree.
#[derive(Debug)]
pub struct Gather {
    tree: Box<dyn Tree>,
    layout: Layout,
    in_place: bool,
}

/// A part of a message from a rank to its parent.
struct Piece {
    source: Place,
    target: Place,
    len: u64,
    /// The counter at the sender that says it is there.
    counter: u32,
}

impl Gather {
    /// Gathers `count` bytes of every rank, rank j's at j·`count` of the root's output. `in_place` says
    /// that the root's own are there already; it matters at the root only.
    ///
    /// # Errors
    /// If the output is beyond 2^64 bytes.
    pub fn new(tree: Box<dyn Tree>, count: u64, in_place: bool) -> Result<Self> {
        let layout = Layout::equal(&*tree, count)?;
        Ok(Self { tree, layout, in_place })
    }

    /// Gathers `counts[j]` bytes of every rank j at `displs[j]` of the root's output.
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

    /// Whether a rank of this subtree has more to hold than its own block.
    fn staged(&self, rank: u32, subtree: Branch) -> bool {
        self.layout.bytes(subtree.first, subtree.width) > self.own(rank)
    }

    /// What `child` puts to its parent; both sides ask this.
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
                    parts.map(|(first, width, at)| (first, width, Place::new(Region::Output, at))).collect()
                }
            };
            for (first, width, target) in parts {
                let len = self.layout.bytes(first, width);
                let source =
                    if staged { place(Region::Land, first, base) } else { Place::new(Region::Input, 0) };
                pieces.push(Piece { source, target, len, counter });
            }
        }
        pieces.retain(|piece| piece.len > 0);
        pieces
    }

    /// What a rank hands to its parent.
    fn up(&self, rank: u32, up: Branch) -> impl Iterator<Item = Step> {
        let staged = self.staged(rank, up);
        // By counter: how many pieces came with it.
        let mut came = vec![(0, u32::from(staged))];
        for child in self.tree.children(rank) {
            let n = self.pieces(child.peer, Branch { peer: rank, ..child }).len();
            came.push((1 + child.round, u32::try_from(n).unwrap_or(u32::MAX)));
        }
        self.pieces(rank, up).into_iter().map(move |piece| {
            let at = came.binary_search_by_key(&piece.counter, |entry| entry.0);
            let at_least = at.map_or(0, |i| came[i].1);
            let wait = if at_least == 0 { Wait::NONE } else { Wait { counter: piece.counter, at_least } };
            Step::put(up.round, up.peer, piece.source, piece.target, piece.len, wait, 1 + up.round)
        })
    }
}

impl Plan for Gather {
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
        self.tree.children(rank).last().map_or(0, |child| child.round + 2)
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let own = self.own(rank);
        match self.tree.parent(rank) {
            None => {
                let input = if self.in_place { 0 } else { own };
                Sizes { input, output: self.layout.extent(self.size()), ..Sizes::default() }
            }
            Some(up) if self.staged(rank, up) => {
                Sizes { input: own, land: self.layout.bytes(up.first, up.width), ..Sizes::default() }
            }
            Some(_) => Sizes { input: own, ..Sizes::default() },
        }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let (own, position, input) = (self.own(rank), self.tree.position(rank), Place::new(Region::Input, 0));
        let up = self.tree.parent(rank);
        // Ours comes to the others that we hold before the first of them, or (root) after the last.
        let stage = up.filter(|&up| own > 0 && self.staged(rank, up)).map(|up| {
            let at = self.layout.start(position) - self.layout.start(up.first);
            Step::copy(0, input, Place::new(Region::Land, at), own, [Wait::NONE; 2], 0)
        });
        let keep = (up.is_none() && own > 0 && !self.in_place).then(|| {
            let at = self.layout.parts(&*self.tree, position, 1)[0].2;
            let last = self.rounds().saturating_sub(1);
            Step::copy(last, input, Place::new(Region::Output, at), own, [Wait::NONE; 2], NO_COUNTER)
        });
        let children = self.tree.children(rank).into_iter().flat_map(move |child| {
            let pieces = self.pieces(child.peer, Branch { peer: rank, ..child });
            let expect = move |p: Piece| {
                Step::expect(child.round, child.peer, p.source, p.target, p.len, 1 + child.round)
            };
            pieces.into_iter().map(expect)
        });
        let puts = up.into_iter().flat_map(move |up| self.up(rank, up));
        Box::new(stage.into_iter().chain(children).chain(puts).chain(keep))
    }
}
