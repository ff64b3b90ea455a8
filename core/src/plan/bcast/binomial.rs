//! The binomial tree, far children first (folklore; recursive doubling in Grama et al., Introduction to
//! Parallel Computing, chapter 4): q rounds, m bytes to every rank, any p.
//!
//! The rank at distance r from the root with lowest set bit 2^k is the root of the subtree of distances r ..
//! min(r+2^k, p); it gets the message from distance r−2^k in round q−1−k.

use super::rooted::{absolute, relative};
use super::tree::{Shape, build};
use crate::error::Result;
use crate::plan::registry::cost::{Path, float, floor_log, powers};
use crate::plan::registry::line::{by_q, line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::topology::log2_ceil;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Bcast,
    Binomial::NAME,
    ["any p, root; n = 1", "q", "m", "folklore"],
    by_q,
    build::<Binomial>,
)
.costs(cost);

/// q puts to the last, and as many hops as a number below p has bits.
pub(super) fn cost(a: &Arguments, path: &mut Path<'_>) {
    let rounds = f64::from(q(a.size));
    path.alone(|path| path.over(&powers(a.size), floor_log(a.size).into(), rounds, rounds * float(a.bytes)));
}

/// The binomial tree over `size` positions in a line or ring, from position `root`.
#[derive(Clone, Copy, Debug)]
pub struct Binomial {
    pub(super) size: u32,
    pub(super) root: u32,
}

impl Binomial {
    /// The length of the subtree at distance `r`, were there ranks enough, as a power of two.
    fn height(&self, r: u32) -> u32 {
        if r == 0 { log2_ceil(self.size) } else { r.trailing_zeros() }
    }

    /// How many distances the subtree at distance `r` has: r .. r+extent.
    pub(super) fn extent(&self, r: u32) -> u32 {
        if r == 0 { self.size } else { (1 << self.height(r)).min(self.size - r) }
    }
}

impl Shape for Binomial {
    const NAME: &'static str = "binomial";

    fn new(size: u32, root: u32) -> Result<Self> {
        Ok(Self { size, root })
    }

    fn rounds(&self) -> u32 {
        log2_ceil(self.size)
    }

    fn parent(&self, rank: u32) -> Option<(u32, u32)> {
        let r = relative(rank, self.root, self.size);
        let k = self.height(r);
        (r > 0).then(|| (absolute(r - (1 << k), self.root, self.size), self.rounds() - 1 - k))
    }

    fn children(&self, rank: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let r = relative(rank, self.root, self.size);
        let child = move |k: u32| {
            let child = r + (1 << k);
            (child < self.size).then(|| (absolute(child, self.root, self.size), self.rounds() - 1 - k))
        };
        (0..self.height(r)).rev().filter_map(child)
    }
}
