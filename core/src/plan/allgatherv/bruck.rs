//! The dissemination allgather (Bruck et al., IEEE TPDS 8(11), 1997, with n ports): m−m_r bytes to rank r, any p.
//!
//! Before hop k rank r holds the contributions of r .. r+R, R = (n+1)^k; it puts the first min(R, p−dR) of them to r−dR, for every d from 1
//! to n. These messages wait for nothing of each other, so on a wire of long latency more of them cost less than more hops; with n = 1
//! there are q rounds. The original collects in a rotated buffer and turns it at the end; one-sided puts go where they belong at once.

use super::contributions::Contributions;
use super::window::{self, Message, Pattern, Windows};
use crate::error::Result;
use crate::machine::{LogGp, Machine};
use crate::plan::Plan;
use crate::plan::hops::{self, hops, puts};
use crate::plan::registry::cost::{Path, powers};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::topology::{ahead, behind};

const ROUNDS: &str = "<= n*ceil(log(p)/log(n+1))";

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allgather,
    Bruck::NAME,
    ["any p, n", ROUNDS, "m - m/p", "Bruck et al. 1997, without the rotation"],
    |a, n| puts(a.size, n),
    |a, model| build(a, model, Contributions::equal(a.size, a.bytes, a.in_place)?),
)
.costs(cost)
.in_messages(FEWEST_HOPS, messages);

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    Bruck::NAME,
    ["any p, n", ROUNDS, "m - min m_i", "Bruck et al. 1997, without the rotation"],
    |a, n| puts(a.size, n),
    |a, model| build(a, model, Contributions::new(&a.counts, &a.displs, a.in_place)?),
)
.costs(cost)
.in_messages(FEWEST_HOPS, messages);

fn build(a: &Arguments, model: &LogGp, data: Contributions) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Windows::of(Bruck::of(a.size, messages(a, &Machine::flat(*model))), data)))
}

/// With one, nothing is passed on: all put to all.
const FEWEST_HOPS: u32 = 2;

/// Bytes are as many, whatever n is.
fn messages(a: &Arguments, machine: &Machine) -> u32 {
    hops::messages(a, machine, FEWEST_HOPS, |n, path| hops::alone(a, n, path))
}

fn cost(a: &Arguments, path: &mut Path<'_>) {
    let n = messages(a, path.machine());
    path.blocks(n);
    if n == 1 { by_twos(a, path) } else { window::by_hops(a, hops(a.size, n), path) }
}

/// One message in each of q rounds.
pub(super) fn by_twos(a: &Arguments, path: &mut Path<'_>) {
    window::cost(a, powers(a.size).into_iter().map(|d| (d, d.min(a.size - d))).collect(), path);
}

/// Distances of one digit to base n + 1.
#[derive(Clone, Debug)]
pub(crate) struct Bruck {
    size: u32,
    /// By round: how far its message goes, and how many contributions a rank has before it.
    messages: Vec<(u32, u32)>,
}

impl Bruck {
    fn of(size: u32, n: u32) -> Self {
        let messages = hops(size, n).flat_map(|hop| hop.distances().map(move |far| (far, hop.reach)));
        Self { size, messages: messages.collect() }
    }
}

impl Pattern for Bruck {
    const NAME: &'static str = "bruck";

    fn new(size: u32) -> Result<Self> {
        Ok(Self::of(size, 1))
    }

    fn rounds(&self) -> u32 {
        u32::try_from(self.messages.len()).unwrap_or(u32::MAX)
    }

    fn message(&self, sender: u32, round: u32) -> Message {
        let (distance, reach) = self.messages[round as usize];
        Message {
            to: behind(self.size, sender, distance),
            first: sender,
            owners: reach.min(self.size - distance),
        }
    }

    fn from(&self, receiver: u32, round: u32) -> u32 {
        ahead(self.size, receiver, self.messages[round as usize].0)
    }
}
