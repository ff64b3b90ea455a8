//! The dissemination barrier in q rounds, on the circulant skips instead of powers of two, so that it
//! needs no neighbours but those of the other collectives.
//!
//! After round k a rank has heard of the skips[k+1] ranks up to itself. For that a notify must tell of
//! *all* earlier rounds: counter k counts the arrival of round k, and the join q+k says that rounds
//! 0..=k have all arrived.

use crate::error::{Result, argument};
use crate::plan::registry::cost::{Path, skips};
use crate::plan::registry::line::{by_q, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::{Plan, Sizes, Step, Wait};
use crate::schedule::{Circulant, MAX_P};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Barrier,
    "dissemination",
    ["any p", "q", "0", "dissemination on circulant skips"],
    by_q,
    |a, _| Ok(Box::new(Barrier::new(a.size)?)),
)
.costs(cost);

pub(in crate::plan) fn cost(a: &Arguments, path: &mut Path<'_>) {
    for skip in skips(a.size) {
        path.hop(skip, 1.0, 0.0);
    }
}

/// A barrier among all ranks.
#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    graph: Circulant,
}

impl Barrier {
    /// A barrier among `size` ranks.
    ///
    /// # Errors
    /// If `size` is 0 or above [`MAX_P`].
    pub fn new(size: u32) -> Result<Self> {
        if size == 0 || size > MAX_P {
            return Err(argument(format!("barrier among {size} ranks")));
        }
        Ok(Self { graph: Circulant::new(size) })
    }
}

impl Plan for Barrier {
    fn algorithm(&self) -> &'static str {
        "dissemination"
    }

    fn size(&self) -> u32 {
        self.graph.p()
    }

    fn rounds(&self) -> u32 {
        self.graph.q()
    }

    fn counters(&self, _rank: u32) -> u32 {
        2 * self.graph.q()
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        Sizes::default()
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let q = self.graph.q();
        Box::new((0..q).flat_map(move |k| {
            // What must have arrived before round k: round k-1, and all the rounds before that.
            let arrived = if k > 0 { Wait::once(k - 1) } else { Wait::NONE };
            let before = if k > 1 { Wait::once(q + k - 2) } else { Wait::NONE };
            let join = (k > 0).then(|| Step::join(k, [arrived, before], q + k - 1));
            let notify = Step::notify(k, self.graph.to(rank, k), [arrived, before], k);
            let expect = Step::expect_notify(k, self.graph.from(rank, k), k);
            [Some(notify), join, Some(expect)].into_iter().flatten()
        }))
    }
}
