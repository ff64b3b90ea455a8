//! The n-way dissemination barrier (Hoefler, Mehlan, Mietke and Rehm, "Fast Barrier Synchronization for InfiniBand", IPDPS 2006):
//! in each stage a rank notifies n others, so ⌈log_(n+1) p⌉ stages are enough. On a wire of long latency n − 1 puts more cost less than
//! a stage more; with n = p − 1 there is one. One-ported, each notify of a stage is a round.
//!
//! After stage k a rank has heard of the (n+1)^(k+1) ranks up to itself, as all that it got a notify from have of theirs. So a notify must tell
//! of *all* earlier stages, and waits for all of their arrivals.

use crate::error::{Result, argument};
use crate::machine::Machine;
use crate::plan::hops::{self, hops, puts};
use crate::plan::partial::Sketch;
use crate::plan::registry::cost::Path;
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::topology::{ahead, behind};
use crate::plan::{Plan, Sizes, Step, Wait};
use crate::schedule::MAX_P;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Barrier,
    "n-way",
    ["any p, n", "<= n*ceil(log(p)/log(n+1))", "0", "Hoefler et al. 2006"],
    |a, n| puts(a.size, n),
    |a, model| Ok(Box::new(Ways::new(a.size, messages(a, &Machine::flat(*model)))?)),
)
.costs(cost)
.in_messages(FEWEST_HOPS, messages);

/// All may notify all.
const FEWEST_HOPS: u32 = 1;

fn cost(a: &Arguments, path: &mut Path<'_>) {
    let n = messages(a, path.machine());
    path.blocks(n);
    hops::alone(a, n, path);
}

fn messages(a: &Arguments, machine: &Machine) -> u32 {
    hops::messages(a, machine, FEWEST_HOPS, |n, path| hops::alone(a, n, path))
}

/// A barrier in which each rank notifies up to `n` others per stage.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    size: u32,
    n: u32,
}

impl Ways {
    /// A barrier among `size` ranks.
    ///
    /// # Errors
    /// If `size` is 0 or above [`MAX_P`], or `n` is 0.
    pub fn new(size: u32, n: u32) -> Result<Self> {
        if size == 0 || size > MAX_P || n == 0 {
            return Err(argument(format!("barrier among {size} ranks, {n} ways")));
        }
        Ok(Self { size, n })
    }

    /// The notifies of one rank, in order: their stage, and how far they go.
    fn notifies(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(hops(self.size, self.n)).flat_map(|(k, hop)| hop.distances().map(move |d| (k, d)))
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        let (mut stage, mut before, mut heard) = (0, Wait::NONE, Vec::new());
        for (round, (of, distance)) in (0..).zip(self.notifies()) {
            if of > stage {
                heard.push(before);
                before = s.one(round, &heard);
                (stage, heard) = (of, Vec::new());
            }
            s.notify(round, ahead(self.size, rank, distance), &[before], round);
            s.steps.push(Step::expect_notify(round, behind(self.size, rank, distance), round));
            heard.push(Wait::once(round));
        }
        s
    }
}

impl Plan for Ways {
    fn algorithm(&self) -> &'static str {
        "n-way"
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        puts(self.size, self.n)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::LogGp;

    /// One round where a latency costs more than a put to every rank, and as few puts as can be where it costs nothing.
    #[test]
    fn ways_follow_latency_and_overhead() {
        for size in 2..200 {
            let of = |latency_ns, overhead_ns| {
                let model = LogGp { latency_ns, overhead_ns, byte_ps: 1, reduce_ps: 1 };
                messages(&Arguments { size, ..Arguments::default() }, &Machine::flat(model))
            };
            let far = of(1_000_000, 1000);
            assert_eq!((far, hops(size, far).count()), (size - 1, 1), "{size}");
            let near = of(0, 1000);
            assert!((1..size).all(|n| puts(size, near) <= puts(size, n)), "{size}: {near}");
        }
    }
}
