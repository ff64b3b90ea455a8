//! The allgather on a hypercube, also known as recursive doubling (Grama et al., Introduction to Parallel
//! Computing, chapter 4, `ALL_TO_ALL_BC_HCUBE`): log2 p rounds, m−m_r bytes to rank r; p a power of two.
//!
//! In round k rank r exchanges all that it holds with rank r XOR 2^k: the contributions of the 2^k ranks that
//! differ from it in bits below k only.

use super::bruck;
use super::window::{self, Message, Pattern};
use crate::error::Result;
use crate::plan::registry::line::{by_q, line, power_of_two};
use crate::plan::registry::{Algorithm, Operation};
use crate::plan::topology::dimension;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allgather,
    Hypercube::NAME,
    ["p a power of two; n = 1", "q", "m - m/p", "Grama et al., chapter 4, ALL_TO_ALL_BC_HCUBE"],
    by_q,
    window::regular::<Hypercube>,
)
.only(power_of_two)
.costs(bruck::by_twos);

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    Hypercube::NAME,
    ["p a power of two; n = 1", "q", "m - min m_i", "Grama et al., chapter 4, ALL_TO_ALL_BC_HCUBE"],
    by_q,
    window::irregular::<Hypercube>,
)
.only(power_of_two)
.costs(bruck::by_twos);

/// The hypercube.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hypercube {
    dimension: u32,
}

impl Pattern for Hypercube {
    const NAME: &'static str = "hypercube";

    fn new(size: u32) -> Result<Self> {
        Ok(Self { dimension: dimension(size)? })
    }

    fn rounds(&self) -> u32 {
        self.dimension
    }

    fn message(&self, sender: u32, round: u32) -> Message {
        let edge = 1 << round;
        Message { to: sender ^ edge, first: sender & !(edge - 1), owners: edge }
    }

    fn from(&self, receiver: u32, round: u32) -> u32 {
        receiver ^ (1 << round)
    }
}
