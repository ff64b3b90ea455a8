//! The linear ring (folklore; Grama et al., Introduction to Parallel Computing, chapter 4,
//! `ALL_TO_ALL_BC_RING`): p−1 rounds, m−m_r bytes to rank r, any p.
//!
//! In round t rank r passes the contribution of owner r−t on to r+1. With unequal contributions a round lasts
//! as long as its largest; [`pipelined_ring`](super::pipelined_ring) mends that.

use super::window::{self, Message, Pattern};
use crate::error::Result;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{by_p, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allgather,
    Ring::NAME,
    ["any p; n = 1", "p-1", "m - m/p", "folklore; Grama et al., chapter 4, ALL_TO_ALL_BC_RING"],
    by_p,
    window::regular::<Ring>,
)
.costs(cost);

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    Ring::NAME,
    ["any p; n = 1", "p-1", "m - min m_i", "folklore; Grama et al., chapter 4, ALL_TO_ALL_BC_RING"],
    by_p,
    window::irregular::<Ring>,
)
.costs(cost);

/// The largest contribution is waited for in every round.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    path.ring(a.others(), 1.0, float(a.largest()));
}

/// The ring of all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    /// How many ranks it has.
    pub(super) size: u32,
}

impl Pattern for Ring {
    const NAME: &'static str = "ring";
    const FAN_OUT: Option<u32> = Some(1);

    fn new(size: u32) -> Result<Self> {
        Ok(Self { size })
    }

    fn rounds(&self) -> u32 {
        self.size - 1
    }

    fn message(&self, sender: u32, round: u32) -> Message {
        let p = self.size;
        Message { to: (sender + 1) % p, first: (sender + p - round) % p, owners: 1 }
    }

    fn from(&self, receiver: u32, _round: u32) -> u32 {
        (receiver + self.size - 1) % self.size
    }
}
