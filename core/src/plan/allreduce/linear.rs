//! All contributions to rank 0, which folds them in the order of ranks, from the left, and puts the result to each rank (folklore): two hops, and
//! with 2(p−1) puts in all fewer than any allreduce in which all ranks do alike.
//!
//! What counts is the processor time of all ranks together, where many of them share a core. One-ported: rank r puts in round r−1, and gets the
//! result in round p−1+r−1. Any associative operator will do, and all ranks get the same bits.

use crate::error::{Result, argument};
use crate::plan::partial::{Sketch, check, slot_align};
use crate::plan::registry::cost::Path;
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::reduce::one_hop;
use crate::plan::{Place, Plan, Region, Side, Sizes, Step, Wait, bcast};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allreduce,
    NAME,
    ["any p; keeps the order of ranks", "2(p-1)", "(p-1)*m", "folklore"],
    |a, _| 2 * a.size.saturating_sub(1),
    |a, _| Ok(Box::new(Linear::new(a.size, a.bytes, a.element, a.in_place)?)),
)
.costs(cost)
.receives(|a| u64::from(a.size.saturating_sub(1)).saturating_mul(a.bytes))
.ordered(order::LEFT);

const NAME: &str = "linear";

fn cost(a: &Arguments, path: &mut Path<'_>) {
    one_hop::reduce_cost(a, path);
    bcast::linear::cost(a, path);
}

/// An allreduce by way of rank 0.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    size: u32,
    bytes: u64,
    in_place: bool,
}

impl Linear {
    /// Reduces `bytes` bytes of elements of `element` bytes.
    ///
    /// # Errors
    /// If there are no or too many ranks, no whole elements, or more than 2^64 bytes of memory would be needed.
    pub fn new(size: u32, bytes: u64, element: u64, in_place: bool) -> Result<Self> {
        check("allreduce", size, bytes, element)?;
        if slot_align(bytes).checked_mul(u64::from(size)).is_none() {
            return Err(argument(format!(
                "{bytes} bytes of each of {size} ranks are beyond 2^64 bytes of memory"
            )));
        }
        Ok(Self { size, bytes, in_place })
    }

    fn contribution(&self) -> Place {
        Place::new(if self.in_place { Region::Output } else { Region::Input }, 0)
    }

    /// Where lands at rank 0 what comes from `rank`; the first where the result shall be, if nothing lies there.
    fn slot(&self, rank: u32) -> Place {
        if rank == 1 && !self.in_place {
            return OUTPUT;
        }
        Place::new(Region::Land, u64::from(rank - 1) * slot_align(self.bytes))
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        if self.bytes == 0 {
            return s;
        }
        let (bytes, others) = (self.bytes, self.size - 1);
        if rank > 0 {
            s.put(rank - 1, 0, self.contribution(), self.slot(rank), bytes, &[], rank - 1);
            s.expect(others + rank - 1, 0, OUTPUT, OUTPUT, bytes, others + rank - 1);
            return s;
        }
        for from in 1..self.size {
            s.expect(from - 1, from, self.contribution(), self.slot(from), bytes, from - 1);
        }
        let (mut sum, mut ready) = (self.contribution(), Wait::NONE);
        for from in 1..self.size {
            let (slot, waits) = (self.slot(from), [Wait::once(from - 1), ready]);
            // Into the first slot, as a contribution is not written to; after that all into this one.
            let (side, source, target) =
                if from == 1 { (Side::SourceLeft, sum, slot) } else { (Side::SourceRight, slot, sum) };
            ready = s.reduce(others, side, source, target, bytes, &waits);
            sum = target;
        }
        if sum != OUTPUT {
            ready = s.copy(others, sum, OUTPUT, bytes, &[ready]);
        }
        for to in 1..self.size {
            s.put(others + to - 1, to, OUTPUT, OUTPUT, bytes, &[ready], others + to - 1);
        }
        s
    }
}

const OUTPUT: Place = Place::new(Region::Output, 0);

impl Plan for Linear {
    fn algorithm(&self) -> &'static str {
        NAME
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        2 * (self.size - 1)
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let input = if self.in_place { 0 } else { self.bytes };
        let land = if rank == 0 { u64::from(self.size - 1) * slot_align(self.bytes) } else { 0 };
        Sizes { input, output: self.bytes, work: 0, land }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
