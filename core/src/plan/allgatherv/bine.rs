//! The allgather on a Bine butterfly (De Sensi et al., SC 2025, arXiv 2508.17311): log2 p rounds, m−m_r bytes to rank r; p a power
//! of two.
//!
//! In round k partners exchange all that they hold: 2^k contributions of ranks that follow each other.

use super::bruck;
use super::window::{self, Message, Pattern};
use crate::error::Result;
use crate::plan::reduce_scatter::core::BINE;
use crate::plan::registry::line::{by_q, line, power_of_two};
use crate::plan::registry::{Algorithm, Operation};
use crate::plan::topology::{bine, dimension};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allgather,
    Bine::NAME,
    ["p a power of two; n = 1", "q", "m - m/p", BINE],
    by_q,
    window::regular::<Bine>,
)
.only(power_of_two)
.costs(bruck::by_twos);

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    Bine::NAME,
    ["p a power of two; n = 1", "q", "m - min m_i", BINE],
    by_q,
    window::irregular::<Bine>,
)
.only(power_of_two)
.costs(bruck::by_twos);

/// The butterfly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bine {
    size: u32,
}

impl Pattern for Bine {
    const NAME: &'static str = "bine";

    fn new(size: u32) -> Result<Self> {
        dimension(size)?;
        Ok(Self { size })
    }

    fn rounds(&self) -> u32 {
        self.size.ilog2()
    }

    fn message(&self, sender: u32, round: u32) -> Message {
        let to = bine::partner(self.size, sender, round);
        Message { to, first: bine::first(self.size, sender, round), owners: 1 << round }
    }

    fn from(&self, receiver: u32, round: u32) -> u32 {
        bine::partner(self.size, receiver, round)
    }
}
