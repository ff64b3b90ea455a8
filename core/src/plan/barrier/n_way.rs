//! The n-way dissemination barrier (Hoefler, Mehlan, Mietke and Rehm, "Fast Barrier Synchronization for InfiniBand", IPDPS 2006):
//! in each stage a rank notifies n others, so ⌈log_(n+1) p⌉ stages are enough. On a wire of long latency n − 1 puts more cost less than
//! a stage more; with n = p − 1 there is one. One-ported, each notify of a stage is a round.
//!
//! After stage k a rank has heard of the (n+1)^(k+1) ranks up to itself, as all that it got a notify from have of theirs. So a notify must tell
//! of *all* earlier stages, and waits for all of their arrivals.

use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::partial::Sketch;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::topology::{ahead, behind};
use crate::plan::{Plan, Sizes, Step, Wait};
use crate::schedule::MAX_P;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Barrier,
    "n-way",
    ["any p, n", "<= n*ceil(log(p)/log(n+1))", "0", "Hoefler et al. 2006"],
    |a, n| stages(a.size, n).map(|(_, puts)| puts).sum(),
    |a, model| Ok(Box::new(Ways::new(a.size, ways(a, model))?)),
)
.costs(cost);

fn cost(a: &Arguments, path: &mut Path<'_>) {
    let n = ways(a, path.model());
    path.blocks(n);
    for (reach, puts) in stages(a.size, n) {
        let distances: Vec<u32> = (1..=puts.min(MOST_DISTANCES)).map(|j| j * reach).collect();
        path.over(&distances, 1.0, f64::from(puts), 0.0);
    }
}

/// Of this many distances the mean is taken for that of all of a stage. Chosen, so that a price takes no longer where n is large.
const MOST_DISTANCES: u32 = 64;

/// The stages: how many ranks a rank has heard of ahead of each, and how many it notifies in it.
fn stages(size: u32, n: u32) -> impl Iterator<Item = (u32, u32)> {
    let n = n.max(1);
    let reaches =
        std::iter::successors(Some(1u32), move |reach| Some(reach.saturating_mul(n.saturating_add(1))));
    reaches.take_while(move |reach| *reach < size).map(move |reach| (reach, n.min((size - 1) / reach)))
}

/// The number that is given, or the least by which there are as many stages as cost least.
fn ways(a: &Arguments, model: &LogGp) -> u32 {
    if let Some(n) = a.blocks {
        return n.min(a.size.saturating_sub(1)).max(1);
    }
    let price = |n: u32| {
        let all = stages(a.size, n);
        let (hops, puts) = all.fold((0.0, 0.0), |(hops, sum), (_, puts)| (hops + 1.0, sum + f64::from(puts)));
        hops * float(model.latency_ns) + puts * float(model.overhead_ns)
    };
    let least = |stages: u32| (1..a.size).find(|n| power(n + 1, stages) >= u64::from(a.size)).unwrap_or(1);
    // From most stages on: of equal prices that of fewest puts.
    (1..=q(a.size)).rev().map(least).min_by(|a, b| price(*a).total_cmp(&price(*b))).unwrap_or(1)
}

fn power(base: u32, exponent: u32) -> u64 {
    u64::from(base).saturating_pow(exponent)
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
        (0..)
            .zip(stages(self.size, self.n))
            .flat_map(|(k, (reach, puts))| (1..=puts).map(move |j| (k, j * reach)))
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
        stages(self.size, self.n).map(|(_, puts)| puts).sum()
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

    /// One round where a latency costs more than a put to every rank, and as few puts as can be where it costs nothing.
    #[test]
    fn ways_follow_latency_and_overhead() {
        for size in 2..200 {
            let of = |latency_ns, overhead_ns| {
                let model = LogGp { latency_ns, overhead_ns, byte_ps: 1, reduce_ps: 1 };
                ways(&Arguments { size, ..Arguments::default() }, &model)
            };
            let far = of(1_000_000, 1000);
            assert_eq!((far, stages(size, far).count()), (size - 1, 1), "{size}");
            let near = of(0, 1000);
            let puts = |n: u32| stages(size, n).map(|(_, puts)| puts).sum::<u32>();
            assert!((1..size).all(|n| puts(near) <= puts(n)), "{size}: {near}");
        }
    }
}
