//! The direct allgather: in round t rank r puts its contribution to r+t+1, right to its place.
//!
//! p−1 rounds, m−m_r bytes to rank r, any p; nothing is passed on. Where readers copy, as in shared memory, a rank waits
//! for none but the owners of what it reads. That every rank begins with another one keeps two from reading
//! one at the same time.

use super::window::{self, Message, Pattern};
use crate::error::Result;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{by_p, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::topology::{ahead, behind};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allgather,
    "direct",
    ["any p; n = 1", "p-1", "m - m/p", "folklore"],
    by_p,
    window::regular::<Direct>,
)
.costs(cost)
.meets_all();

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    "direct",
    ["any p; n = 1", "p-1", "m - m_r", "folklore"],
    by_p,
    window::irregular::<Direct>,
)
.costs(cost)
.meets_all();

/// One hop; every rank gets all but its own, and the rank that has most puts it to all.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let others = a.others();
    let times = path.at_once();
    path.all_to_all(
        others.min(1.0),
        others,
        times * others * float(a.largest()),
        times * float(a.of_others()),
    );
}

/// Each to all others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    size: u32,
}

impl Pattern for Direct {
    const NAME: &'static str = "direct";

    fn new(size: u32) -> Result<Self> {
        Ok(Self { size })
    }

    fn rounds(&self) -> u32 {
        self.size - 1
    }

    fn message(&self, sender: u32, round: u32) -> Message {
        Message { to: ahead(self.size, sender, round + 1), first: sender, owners: 1 }
    }

    fn from(&self, receiver: u32, round: u32) -> u32 {
        behind(self.size, receiver, round + 1)
    }
}
