//! The broadcast down a Bine tree (De Sensi et al., SC 2025, arXiv 2508.17311), far children first: log2 p rounds, m bytes to every
//! rank; p a power of two.
//!
//! The binomial tree on the numbers of the Bine tree instead of the distances from the root, so that every put goes along an edge of the
//! butterfly: two thirds as far.

use super::binomial::{self, Binomial};
use super::tree::{Shape, build};
use crate::error::Result;
use crate::plan::reduce_scatter::core::BINE;
use crate::plan::registry::line::{by_q, line, power_of_two};
use crate::plan::registry::{Algorithm, Operation};
use crate::plan::topology::{bine, dimension};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Bcast,
    Bine::NAME,
    ["p a power of two; any root; n = 1", "q", "m", BINE],
    by_q,
    build::<Bine>,
)
.only(power_of_two)
.costs(binomial::cost);

/// A Bine tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bine {
    root: u32,
    tree: Binomial,
}

impl Bine {
    fn number(&self, rank: u32) -> u32 {
        bine::number(self.tree.size, self.root, rank)
    }

    fn rank(&self, number: u32) -> u32 {
        bine::rank(self.tree.size, self.root, number)
    }
}

impl Shape for Bine {
    const NAME: &'static str = "bine";

    fn new(size: u32, root: u32) -> Result<Self> {
        dimension(size)?;
        Ok(Self { root, tree: Binomial::new(size, 0)? })
    }

    fn rounds(&self) -> u32 {
        self.tree.rounds()
    }

    fn parent(&self, rank: u32) -> Option<(u32, u32)> {
        self.tree.parent(self.number(rank)).map(|(parent, round)| (self.rank(parent), round))
    }

    fn children(&self, rank: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.tree.children(self.number(rank)).map(|(child, round)| (self.rank(child), round))
    }
}
