//! The broadcast down a Bine tree (De Sensi et al., SC 2025, arXiv 2508.17311), far children first: q rounds, m bytes to every
//! rank, any p.
//!
//! The binomial tree on the numbers of the Bine tree instead of the distances from the root, so that every put goes along an edge of the
//! butterfly: two thirds as far. Where p is no power of two some ranks get the message last from their neighbour.

use super::binomial::{self, Binomial};
use super::tree::{Shape, build};
use crate::error::Result;
use crate::plan::reduce_scatter::core::BINE;
use crate::plan::registry::line::{by_q, line};
use crate::plan::registry::{Algorithm, Operation};
use crate::plan::topology::bine::Numbers;

pub(in crate::plan) const LINE: Algorithm =
    line(Operation::Bcast, Bine::NAME, ["any p, root; n = 1", "q", "m", BINE], by_q, build::<Bine>)
        .costs(binomial::cost);

/// A Bine tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bine {
    numbers: Numbers,
    /// Of the numbers, of which some may have no rank.
    tree: Binomial,
}

impl Shape for Bine {
    const NAME: &'static str = "bine";

    fn new(size: u32, root: u32) -> Result<Self> {
        let numbers = Numbers::new(size, root);
        Ok(Self { numbers, tree: Binomial::new(size.next_power_of_two(), 0)? })
    }

    fn rounds(&self) -> u32 {
        self.tree.rounds()
    }

    fn parent(&self, rank: u32) -> Option<(u32, u32)> {
        let (parent, round) = self.tree.parent(self.numbers.number(rank))?;
        Some((self.numbers.rank(parent)?, round))
    }

    fn children(&self, rank: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let children = self.tree.children(self.numbers.number(rank));
        children.filter_map(|(child, round)| Some((self.numbers.rank(child)?, round)))
    }
}
