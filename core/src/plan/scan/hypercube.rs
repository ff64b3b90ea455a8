//! Scan and exscan on a hypercube (Grama et al., Introduction to Parallel Computing, section 4.3,
//! `PREFIX_SUMS_HCUBE`): log2 p rounds of whole vectors; p a power of two.
//!
//! Before round k rank r has the total T of the 2^k ranks that differ from it in bits below k only, a run of
//! ranks, and of these the prefix W up to itself. In round k it swaps totals with rank r XOR 2^k. If that one is
//! lower, its total comes before both ours: W = received ⊕ W, T = received ⊕ T; else T = T ⊕ received. In
//! the last round only prefixes are still missing, so only the lower rank sends.
//!
//! Every total is made once: the slot where one landed takes in ours and is the next (law 2a without credits).

use crate::error::Result;
use crate::plan::partial::{Held, Sketch, check};
use crate::plan::registry::line::{by_q, line, power_of_two};
use crate::plan::registry::{Algorithm, Arguments, Build, Operation, order};
use crate::plan::topology::dimension;
use crate::plan::{Place, Plan, Region, Side, Sizes, Step, Wait};

pub(in crate::plan) const SCAN: Algorithm = of(Operation::Scan, |a, _| build(a, true));
pub(in crate::plan) const EXSCAN: Algorithm = of(Operation::Exscan, |a, _| build(a, false));

const fn of(operation: Operation, build: Build) -> Algorithm {
    let source = "Grama et al., section 4.3, PREFIX_SUMS_HCUBE";
    let texts = ["p a power of two; keeps the order of ranks", "q", "q*m", source];
    line(operation, "hypercube", texts, by_q, build).only(power_of_two).ordered(order::PAIRS)
}

fn build(a: &Arguments, inclusive: bool) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Hypercube::new(a.size, a.bytes, a.element, inclusive)?))
}

/// A scan or exscan on a hypercube.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hypercube {
    dimension: u32,
    bytes: u64,
    inclusive: bool,
}

impl Hypercube {
    /// Of `bytes` bytes of elements of `element` bytes; with (scan) or without (exscan) a rank's own.
    ///
    /// # Errors
    /// If the number of ranks is not a power of two, or there are no whole elements.
    pub(crate) fn new(size: u32, bytes: u64, element: u64, inclusive: bool) -> Result<Self> {
        check(if inclusive { "scan" } else { "exscan" }, size, bytes, element)?;
        Ok(Self { dimension: dimension(size)?, bytes, inclusive })
    }

    fn slot(&self, k: u32) -> Place {
        Place::new(Region::Land, u64::from(k) * self.bytes)
    }

    /// Where a rank's total lies before round `k`.
    fn total(&self, k: u32) -> Place {
        k.checked_sub(1).map_or(Place::new(Region::Input, 0), |k| self.slot(k))
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let (mut s, bytes) = (Sketch::new(self.dimension), self.bytes);
        if bytes == 0 {
            return s;
        }
        let output = Place::new(Region::Output, 0);
        let mut total = Held { place: self.total(0), ready: Wait::NONE };
        let mut prefix = self.inclusive.then(|| s.copy(0, total.place, output, bytes, &[]));
        for k in 0..self.dimension {
            let (peer, slot, last) = (rank ^ (1 << k), self.slot(k), k + 1 == self.dimension);
            if !last || rank < peer {
                s.put(k, peer, self.total(k), slot, bytes, &[total.ready], k);
            }
            if last && rank < peer {
                continue;
            }
            s.expect(k, peer, self.total(k), slot, bytes, k);
            let arrived = Wait::once(k);
            let mut read = Wait::NONE;
            if peer < rank {
                read = match prefix {
                    Some(ready) => s.reduce(k + 1, Side::SourceLeft, slot, output, bytes, &[arrived, ready]),
                    None => s.copy(k + 1, slot, output, bytes, &[arrived]),
                };
                prefix = Some(read);
            }
            if !last {
                let side = if peer < rank { Side::SourceRight } else { Side::SourceLeft };
                let ready = s.reduce(k + 1, side, total.place, slot, bytes, &[arrived, total.ready, read]);
                total = Held { place: slot, ready };
            }
        }
        s
    }
}

impl Plan for Hypercube {
    fn algorithm(&self) -> &'static str {
        "hypercube"
    }

    fn size(&self) -> u32 {
        1 << self.dimension
    }

    fn rounds(&self) -> u32 {
        self.dimension
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        let (bytes, land) = (self.bytes, u64::from(self.dimension) * self.bytes);
        Sizes { input: bytes, output: bytes, work: 0, land }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
