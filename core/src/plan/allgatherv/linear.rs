//! All contributions to rank 0, which puts the whole of them to each rank (folklore): two hops, and with 2(p−1) puts in all fewer than any allgather
//! in which all ranks do alike.
//!
//! What counts is the processor time of all ranks together, where many of them share a core. One-ported: rank r puts in round r−1, and gets the
//! whole, but for its own contribution, in round p−1+r−1. These are two puts at most, as contributions lie side by side in the output: with gaps there
//! would be up to p² of them.

use super::contributions::{Contributions, whole};
use crate::error::Result;
use crate::plan::partial::{Sketch, plus};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::{Place, Plan, Sizes, Step, Wait};

pub(in crate::plan) const LINE: Algorithm =
    line(Operation::Allgather, NAME, [ANY, ROUNDS, "m - m/p", "folklore"], rounds, |a, _| {
        Ok(Box::new(Linear::new(Contributions::equal(a.size, a.bytes, a.in_place)?)?))
    })
    .costs(|a, path| cost(a, a.total(Operation::Allgather), path));

pub(in crate::plan) const IRREGULAR: Algorithm =
    line(Operation::Allgatherv, NAME, [NO_GAPS, ROUNDS, "m - m_r", "folklore"], rounds, |a, _| {
        Ok(Box::new(Linear::new(Contributions::new(&a.counts, &a.displs, a.in_place)?)?))
    })
    .only(|a| whole(&a.counts, &a.displs).map(|_| ()))
    .costs(|a, path| cost(a, a.total(Operation::Allgatherv), path));

const NAME: &str = "linear";
const ANY: &str = "any p; n = 1";
const NO_GAPS: &str = "any p; n = 1; no gaps between contributions";
const ROUNDS: &str = "2(p-1)";

fn rounds(a: &Arguments, _: u32) -> u32 {
    2 * a.size.saturating_sub(1)
}

fn cost(a: &Arguments, total: u64, path: &mut Path<'_>) {
    path.fan_in(a.others(), float(total));
    path.fan(a.others(), a.others() * float(total));
}

/// An allgather by way of rank 0.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    data: Contributions,
    place: Place,
    len: u64,
}

impl Linear {
    /// Gathers all contributions at every rank.
    ///
    /// # Errors
    /// If there are gaps between them in the output.
    pub(crate) fn new(data: Contributions) -> Result<Self> {
        let (place, len) = data.whole()?;
        Ok(Self { data, place, len })
    }

    /// What `rank` gets: what lies before its own contribution and behind it.
    fn foreign(&self, rank: u32) -> [(Place, u64); 2] {
        let end = plus(self.place, self.len);
        let own = self.data.piece(rank, rank, 0..u64::MAX);
        let (from, to) = own.map_or((end, end), |(_, target, len)| (target, plus(target, len)));
        [(self.place, from.offset - self.place.offset), (to, end.offset - to.offset)]
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        let others = self.size() - 1;
        if rank > 0 {
            if let Some((source, target, own)) = self.data.piece(rank, rank, 0..u64::MAX) {
                s.put(rank - 1, 0, source, target, own, &[], rank - 1);
            }
            let round = others + rank - 1;
            for (place, len) in self.foreign(rank) {
                s.expect(round, 0, place, place, len, round);
            }
            s.steps.extend(self.data.own(rank, self.rounds()));
            return s;
        }
        let mut arrivals = Vec::new();
        for from in 1..=others {
            if let Some((source, target, len)) = self.data.piece(from, from, 0..u64::MAX) {
                s.expect(from - 1, from, source, target, len, from - 1);
                arrivals.push(Wait::once(from - 1));
            }
        }
        if let Some((source, target, len)) = self.data.piece(0, 0, 0..u64::MAX).filter(|own| own.0 != own.1) {
            arrivals.push(s.copy(others, source, target, len, &[]));
        }
        let all = s.one(others, &arrivals);
        for to in 1..=others {
            let round = others + to - 1;
            for (place, len) in self.foreign(to) {
                s.put(round, to, place, place, len, &[all], round);
            }
        }
        s
    }
}

impl Plan for Linear {
    fn algorithm(&self) -> &'static str {
        NAME
    }

    fn size(&self) -> u32 {
        self.data.size()
    }

    fn rounds(&self) -> u32 {
        2 * (self.size() - 1)
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        self.data.sizes(rank)
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
