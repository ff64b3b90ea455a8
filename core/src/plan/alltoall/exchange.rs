//! Alltoall by one put per block, right between the users' buffers, with one partner per round: what
//! [`direct`](super::direct) and `pairwise` share. Counter i−1 is that of round i.

use super::matrix::Matrix;
use crate::error::{Result, argument};
use crate::plan::registry::Arguments;
use crate::plan::topology::{ahead, behind};
use crate::plan::{NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};

/// Blocks from any rank to any, not along a graph.
pub(super) fn complete(a: &Arguments) -> Result<()> {
    match a.graph.multiplicity {
        0 => Ok(()),
        _ => Err(argument("this alltoallv goes along a graph").help("only `neighbors` knows graphs")),
    }
}

/// Which ranks exchange in round i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// r puts to r+i.
    Shift,
    /// r and r⊕i exchange; p must be a power of two.
    Xor,
}

/// An alltoall of p−1 rounds.
#[derive(Clone, Debug)]
pub struct Exchange {
    matrix: Matrix,
    order: Order,
}

impl Exchange {
    pub(super) fn new(matrix: Matrix, order: Order) -> Self {
        Self { matrix, order }
    }

    /// The ranks that `rank` puts to and gets from in round `i` ≥ 1.
    fn partners(&self, rank: u32, i: u32) -> (u32, u32) {
        match self.order {
            Order::Xor => (rank ^ i, rank ^ i),
            Order::Shift => (ahead(self.size(), rank, i), behind(self.size(), rank, i)),
        }
    }

    fn round(&self, rank: u32, i: u32) -> impl Iterator<Item = Step> {
        let (to, from) = self.partners(rank, i);
        let place = |region, offset| Place::new(region, offset);
        let put = self.matrix.block(rank, to).map(|b| {
            let (source, target) = (place(Region::Input, b.source), place(Region::Output, b.target));
            Step::put(i - 1, to, source, target, b.len, Wait::NONE, i - 1)
        });
        let expect = self.matrix.block(from, rank).map(|b| {
            let (source, target) = (place(Region::Input, b.source), place(Region::Output, b.target));
            Step::expect(i - 1, from, source, target, b.len, i - 1)
        });
        [put, expect].into_iter().flatten()
    }
}

impl Plan for Exchange {
    fn algorithm(&self) -> &'static str {
        match self.order {
            Order::Shift => "direct",
            Order::Xor => "pairwise",
        }
    }

    fn size(&self) -> u32 {
        self.matrix.size()
    }

    fn rounds(&self) -> u32 {
        self.size() - 1
    }

    fn counters(&self, _rank: u32) -> u32 {
        self.size() - 1
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let (input, output) = self.matrix.extents(rank);
        Sizes { input, output, ..Sizes::default() }
    }

    fn in_step(&self) -> bool {
        matches!(self.matrix, Matrix::Equal { .. })
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        if let Matrix::Irregular { rows, .. } = &self.matrix
            && !rows.contains_key(&rank)
        {
            return Box::new(std::iter::empty());
        }
        let own = self.matrix.block(rank, rank).map(|b| {
            let (from, to) = (Place::new(Region::Input, b.source), Place::new(Region::Output, b.target));
            Step::copy(self.rounds().saturating_sub(1), from, to, b.len, [Wait::NONE; 2], NO_COUNTER)
        });
        Box::new((1..self.size()).flat_map(move |i| self.round(rank, i)).chain(own))
    }
}
