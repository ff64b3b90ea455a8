//! What a [gather](crate::plan::gather) and a [scatter](crate::plan::scatter) have in common: the blocks of all ranks, and
//! the pieces that an edge of the tree carries.

use super::{Branch, Layout, Tree};
use crate::error::Result;
use crate::plan::{Place, Region};

/// Blocks of all ranks on their way along a tree.
#[derive(Debug)]
pub(in crate::plan) struct Blocks {
    pub(in crate::plan) tree: Box<dyn Tree>,
    pub(in crate::plan) layout: Layout,
    pub(in crate::plan) in_place: bool,
    /// Where all blocks lie at the root, and the own one elsewhere.
    all: Region,
    own: Region,
}

/// A part of a message between a rank and its parent.
pub(in crate::plan) struct Piece {
    /// Where it lies at the parent, and at the child.
    pub(in crate::plan) above: Place,
    pub(in crate::plan) below: Place,
    pub(in crate::plan) len: u64,
    /// The counter of the child that stands for it: 0 for its own block, 1+k for the subtree of its child of round k.
    pub(in crate::plan) counter: u32,
}

impl Blocks {
    pub(in crate::plan) fn equal(
        tree: Box<dyn Tree>,
        count: u64,
        in_place: bool,
        [all, own]: [Region; 2],
    ) -> Result<Self> {
        let layout = Layout::equal(&*tree, count)?;
        Ok(Self { tree, layout, in_place, all, own })
    }

    pub(in crate::plan) fn irregular(
        tree: Box<dyn Tree>,
        (counts, displs): (&[u64], &[u64]),
        in_place: bool,
        [all, own]: [Region; 2],
    ) -> Result<Self> {
        let layout = Layout::irregular(&*tree, counts, displs)?;
        Ok(Self { tree, layout, in_place, all, own })
    }

    /// Bytes of a rank's own block.
    pub(in crate::plan) fn own(&self, rank: u32) -> u64 {
        self.layout.bytes(self.tree.position(rank), 1)
    }

    /// Where the root has its own block among all; only if there is one.
    pub(in crate::plan) fn of_root(&self) -> Place {
        let position = self.tree.position(self.tree.root());
        Place::new(self.all, self.layout.parts(&*self.tree, position, 1)[0].2)
    }

    /// Where a rank that holds the blocks of `subtree` has its own one among them.
    pub(in crate::plan) fn among(&self, rank: u32, subtree: Branch) -> Place {
        let at = self.layout.start(self.tree.position(rank)) - self.layout.start(subtree.first);
        Place::new(Region::Land, at)
    }

    /// Whether a rank of this subtree has more to hold than its own block.
    pub(in crate::plan) fn staged(&self, rank: u32, subtree: Branch) -> bool {
        self.held(subtree) > self.own(rank)
    }

    /// Bytes of a subtree.
    pub(in crate::plan) fn held(&self, subtree: Branch) -> u64 {
        self.layout.bytes(subtree.first, subtree.width)
    }

    /// What moves between `child` and its parent; both sides ask this.
    pub(in crate::plan) fn pieces(&self, child: u32, up: Branch) -> Vec<Piece> {
        let own = (self.tree.position(child), 1, 0);
        let runs = self.tree.children(child).into_iter().map(|b| (b.first, b.width, 1 + b.round));
        let mut runs: Vec<(u32, u32, u32)> = runs.chain([own]).collect();
        runs.sort_unstable();
        let staged = self.staged(child, up);
        let place = |first, base| Place::new(Region::Land, self.layout.start(first) - base);
        let base = self.layout.start(up.first);
        let above = self.tree.parent(up.peer).map(|branch| self.layout.start(branch.first));
        let mut pieces = Vec::with_capacity(runs.len());
        for (first, width, counter) in runs {
            let parts = match above {
                Some(above) => vec![(first, width, place(first, above))],
                None => {
                    let parts = self.layout.parts(&*self.tree, first, width).into_iter();
                    parts.map(|(first, width, at)| (first, width, Place::new(self.all, at))).collect()
                }
            };
            for (first, width, above) in parts {
                let len = self.layout.bytes(first, width);
                let below = if staged { place(first, base) } else { Place::new(self.own, 0) };
                pieces.push(Piece { above, below, len, counter });
            }
        }
        pieces.retain(|piece| piece.len > 0);
        pieces
    }
}
