//! Broadcasts of the whole message down a tree: every rank but the root gets it in one put from its parent.
//!
//! An algorithm of this kind is a [`Shape`]; counter 0 is the message's arrival.

use super::rooted::check;
use crate::error::Result;
use crate::machine::LogGp;
use crate::plan::registry::Arguments;
use crate::plan::{Place, Plan, Region, Sizes, Step, Wait};

/// Which rank puts to which, in which round.
pub trait Shape: Send + Sync + std::fmt::Debug + Sized {
    /// The registry's name.
    const NAME: &'static str;
    /// The tree of `size` ranks with its root at `root` < `size`.
    ///
    /// # Errors
    /// If there is no such tree of `size` ranks.
    fn new(size: u32, root: u32) -> Result<Self>;
    /// The number of rounds.
    fn rounds(&self) -> u32;
    /// The (rank, round) that a rank's message comes from and in; `None` for the root.
    fn parent(&self, rank: u32) -> Option<(u32, u32)>;
    /// The mirror of [`Shape::parent`]: a rank's children and the rounds of the puts, ascending, later than
    /// the rank's own.
    fn children(&self, rank: u32) -> impl Iterator<Item = (u32, u32)> + '_;
}

/// A broadcast down a tree.
#[derive(Clone, Copy, Debug)]
pub struct Tree<S> {
    shape: S,
    size: u32,
    root: u32,
    bytes: u64,
}

impl<S: Shape> Tree<S> {
    /// Broadcasts `bytes` bytes from `root` to all of `size` ranks.
    ///
    /// # Errors
    /// If there is no such root, or no such tree of `size` ranks.
    pub fn new(size: u32, root: u32, bytes: u64) -> Result<Self> {
        check(size, root)?;
        Ok(Self { shape: S::new(size, root)?, size, root, bytes })
    }
}

/// What a line of the registry builds.
pub(super) fn build<S: Shape + 'static>(a: &Arguments, _: &LogGp) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Tree::<S>::new(a.size, a.root, a.bytes)?))
}

impl<S: Shape> Plan for Tree<S> {
    fn algorithm(&self) -> &'static str {
        S::NAME
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        self.shape.rounds()
    }

    fn counters(&self, rank: u32) -> u32 {
        u32::from(rank != self.root)
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        Sizes { output: self.bytes, ..Sizes::default() }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        if self.bytes == 0 {
            return Box::new(std::iter::empty());
        }
        let (all, len) = (Place::new(Region::Output, 0), self.bytes);
        let wait = if rank == self.root { Wait::NONE } else { Wait::once(0) };
        let expect = self.shape.parent(rank).map(|(from, round)| Step::expect(round, from, all, all, len, 0));
        let puts = self.shape.children(rank);
        let puts = puts.map(move |(to, round)| Step::put(round, to, all, all, len, wait, 0));
        Box::new(expect.into_iter().chain(puts))
    }
}
