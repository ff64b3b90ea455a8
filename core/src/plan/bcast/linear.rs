//! The root puts to every rank by itself, one after another (folklore): p−1 rounds, m bytes to every rank, any p.
//!
//! One-ported, so the root's put to distance r is round r−1; nothing is passed on.

use super::rooted::{absolute, relative};
use super::tree::{Shape, build};
use crate::error::Result;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{by_p, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};

pub(in crate::plan) const LINE: Algorithm =
    line(Operation::Bcast, Star::NAME, ["any p, root; n = 1", "p-1", "m", "folklore"], by_p, build::<Star>)
        .costs(cost);

fn cost(a: &Arguments, path: &mut Path<'_>) {
    let others = f64::from(a.size.saturating_sub(1));
    path.fan(others, others * float(a.bytes));
}

/// The tree of height one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Star {
    size: u32,
    root: u32,
}

impl Shape for Star {
    const NAME: &'static str = "linear";

    fn new(size: u32, root: u32) -> Result<Self> {
        Ok(Self { size, root })
    }

    fn rounds(&self) -> u32 {
        self.size - 1
    }

    fn parent(&self, rank: u32) -> Option<(u32, u32)> {
        relative(rank, self.root, self.size).checked_sub(1).map(|round| (self.root, round))
    }

    fn children(&self, rank: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let last = if rank == self.root { self.size } else { 1 };
        (1..last).map(|r| (absolute(r, self.root, self.size), r - 1))
    }
}
