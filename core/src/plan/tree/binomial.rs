//! The binomial tree (Grama et al., Introduction to Parallel Computing, section 4.4), for any p and root.
//!
//! Positions count from the root. Position i > 0 with lowest set bit k stands for the run i .. i+2^k (or
//! the end) and hands it to i−2^k in round k. q rounds, and the root gets every block once: both optimal.
//! A block takes at most as many hops as its position has bits. O(log p) state.

use super::{Branch, Tree, rooted};
use crate::error::Result;

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
        "binomial"
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
        let left = self.size - self.root;
        if position < left { position + self.root } else { position - left }
    }

    fn position(&self, rank: u32) -> u32 {
        if rank >= self.root { rank - self.root } else { rank + (self.size - self.root) }
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
