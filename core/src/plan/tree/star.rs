//! The star: every rank deals with the root directly, one per round, in the order after the root.
//!
//! p−1 rounds, each byte moves once and right between the users' buffers: no staging memory and nothing
//! is forwarded. The root's link is the bottleneck of any tree; this one wastes none of it when blocks
//! are heavy against the overhead of a put.

use super::{Branch, Tree, rooted};
use crate::error::Result;

/// All ranks around one.
#[derive(Clone, Copy, Debug)]
pub struct Star {
    size: u32,
    root: u32,
}

impl Star {
    /// The star of `size` ranks around `root`.
    ///
    /// # Errors
    /// If there is no such root, or 0 or more than [`MAX_P`](crate::schedule::MAX_P) ranks.
    pub fn new(size: u32, root: u32) -> Result<Self> {
        rooted("star", size, root)?;
        Ok(Self { size, root })
    }
}

impl Tree for Star {
    fn name(&self) -> &'static str {
        "direct"
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
        let left = self.size - self.root;
        if position < left { position + self.root } else { position - left }
    }

    fn position(&self, rank: u32) -> u32 {
        if rank >= self.root { rank - self.root } else { rank + (self.size - self.root) }
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
