//! All ranks notify rank 0, which then notifies each of them (folklore): two hops, and with 2(p−1) puts in all fewer than any barrier
//! in which all ranks do alike.
//!
//! What counts is the processor time of all ranks together, where many of them share a core. One-ported: rank r notifies in round r−1, and is
//! notified in round p−1+r−1.

use crate::error::{Result, argument};
use crate::plan::partial::Sketch;
use crate::plan::registry::cost::Path;
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::{Plan, Sizes, Step, Wait};
use crate::schedule::MAX_P;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Barrier,
    NAME,
    ["any p", "2(p-1)", "0", "folklore"],
    |a, _| 2 * a.size.saturating_sub(1),
    |a, _| Ok(Box::new(Linear::new(a.size)?)),
)
.costs(cost);

const NAME: &str = "linear";

fn cost(a: &Arguments, path: &mut Path<'_>) {
    path.fan_in(a.others(), 0.0);
    path.fan(a.others(), 0.0);
}

/// A barrier by way of rank 0.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    size: u32,
}

impl Linear {
    /// A barrier among `size` ranks.
    ///
    /// # Errors
    /// If `size` is 0 or above [`MAX_P`].
    pub fn new(size: u32) -> Result<Self> {
        if size == 0 || size > MAX_P {
            return Err(argument(format!("barrier among {size} ranks")));
        }
        Ok(Self { size })
    }

    fn sketch(self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        let others = self.size - 1;
        if rank > 0 {
            s.notify(rank - 1, 0, &[], rank - 1);
            s.steps.push(Step::expect_notify(others + rank - 1, 0, others + rank - 1));
            return s;
        }
        s.steps.extend((0..others).map(|round| Step::expect_notify(round, round + 1, round)));
        let arrivals: Vec<Wait> = (0..others).map(Wait::once).collect();
        let all = s.one(others, &arrivals);
        for round in 0..others {
            s.notify(others + round, round + 1, &[all], others + round);
        }
        s
    }
}

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

    fn sizes(&self, _rank: u32) -> Sizes {
        Sizes::default()
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
