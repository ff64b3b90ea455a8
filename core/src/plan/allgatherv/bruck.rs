//! The dissemination allgather (Bruck et al., IEEE TPDS 8(11), 1997): q rounds, m−m_r bytes to rank r, any p.
//!
//! Before round k rank r holds the contributions of r .. r+2^k; it puts the first min(2^k, p−2^k) of them
//! to r−2^k. The original collects in a rotated buffer and turns it at the end; one-sided puts go where
//! they belong at once.

use super::window::{self, Message, Pattern};
use crate::error::Result;
use crate::plan::registry::cost::{Path, powers};
use crate::plan::registry::line::{by_q, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::topology::log2_ceil;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allgather,
    Bruck::NAME,
    ["any p; n = 1", "q", "m - m/p", "Bruck et al. 1997, without the rotation"],
    by_q,
    window::regular::<Bruck>,
)
.costs(cost);

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    Bruck::NAME,
    ["any p; n = 1", "q", "m - min m_i", "Bruck et al. 1997, without the rotation"],
    by_q,
    window::irregular::<Bruck>,
)
.costs(cost);

pub(super) fn cost(a: &Arguments, path: &mut Path<'_>) {
    window::cost(a, powers(a.size).into_iter().map(|d| (d, d.min(a.size - d))).collect(), path);
}

/// Distances of powers of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bruck {
    size: u32,
}

impl Pattern for Bruck {
    const NAME: &'static str = "bruck";

    fn new(size: u32) -> Result<Self> {
        Ok(Self { size })
    }

    fn rounds(&self) -> u32 {
        log2_ceil(self.size)
    }

    fn message(&self, sender: u32, round: u32) -> Message {
        let (p, distance) = (self.size, 1 << round);
        Message { to: (sender + p - distance) % p, first: sender, owners: distance.min(p - distance) }
    }

    fn from(&self, receiver: u32, round: u32) -> u32 {
        (receiver + (1 << round)) % self.size
    }
}
