//! The broadcast on a hypercube (Grama et al., Introduction to Parallel Computing, chapter 4,
//! `GENERAL_ONE_TO_ALL_BC`): log2 p rounds, m bytes to every rank; p a power of two.
//!
//! The binomial tree on rank XOR root instead of rank − root, so that every put goes along an edge of the
//! cube, highest dimension first.

use super::binomial::{self, Binomial};
use super::tree::{Shape, build};
use crate::error::Result;
use crate::plan::registry::line::{by_q, line, power_of_two};
use crate::plan::registry::{Algorithm, Operation};
use crate::plan::topology::dimension;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Bcast,
    Hypercube::NAME,
    ["p a power of two; any root; n = 1", "q", "m", "Grama et al., chapter 4, GENERAL_ONE_TO_ALL_BC"],
    by_q,
    build::<Hypercube>,
)
.only(power_of_two)
.costs(binomial::cost);

/// The spanning tree of a hypercube.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hypercube {
    root: u32,
    tree: Binomial,
}

impl Shape for Hypercube {
    const NAME: &'static str = "hypercube";

    fn new(size: u32, root: u32) -> Result<Self> {
        dimension(size)?;
        Ok(Self { root, tree: Binomial::new(size, 0)? })
    }

    fn rounds(&self) -> u32 {
        self.tree.rounds()
    }

    fn parent(&self, rank: u32) -> Option<(u32, u32)> {
        self.tree.parent(rank ^ self.root).map(|(r, round)| (r ^ self.root, round))
    }

    fn children(&self, rank: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.tree.children(rank ^ self.root).map(|(r, round)| (r ^ self.root, round))
    }
}
