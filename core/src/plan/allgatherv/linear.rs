//! All contributions to rank 0, which puts the whole of them to each rank (folklore): two hops, and with 2(p−1) puts in all fewer than any allgather
//! in which all ranks do alike.
//!
//! What counts is the processor time of all ranks together, where many of them share a core. One-ported: rank r puts in round r−1, and gets the
//! whole, but for its own contribution, in round p−1+r−1. These are two puts at most: where there are gaps between contributions in the output, they
//! land side by side, and are copied from there.

use super::contributions::Contributions;
use crate::plan::partial::{Sketch, plus};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::{Place, Plan, Region, Sizes, Step, Wait};

pub(in crate::plan) const LINE: Algorithm =
    line(Operation::Allgather, NAME, [ANY, ROUNDS, "m - m/p", "folklore"], rounds, |a, _| {
        Ok(Box::new(Linear::new(Contributions::equal(a.size, a.bytes, a.in_place)?)))
    })
    .costs(|a, path| cost(a, a.total(Operation::Allgather), path));

pub(in crate::plan) const IRREGULAR: Algorithm =
    line(Operation::Allgatherv, NAME, [ANY, ROUNDS, "m - m_r", "folklore"], rounds, |a, _| {
        Ok(Box::new(Linear::new(Contributions::new(&a.counts, &a.displs, a.in_place)?)))
    })
    .costs(|a, path| cost(a, a.total(Operation::Allgatherv), path));

const NAME: &str = "linear";
const ANY: &str = "any p; n = 1";
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
    /// Where all contributions come to lie side by side, in the order of their displacements.
    whole: Place,
    /// By rank, where its contribution begins in the whole; and how long that is.
    starts: Vec<u64>,
    len: u64,
}

impl Linear {
    /// Gathers all contributions at every rank.
    pub(crate) fn new(data: Contributions) -> Self {
        let mut ranks: Vec<u32> = (0..data.size()).filter(|rank| data.count(*rank) > 0).collect();
        ranks.sort_unstable_by_key(|rank| data.target(*rank).offset);
        let (mut starts, mut len) = (vec![0; data.size() as usize], 0);
        for &rank in &ranks {
            (starts[rank as usize], len) = (len, len + data.count(rank));
        }
        let first = ranks.first().map_or(Place::new(Region::Output, 0), |rank| data.target(*rank));
        let has_gaps = ranks.iter().any(|rank| plus(first, starts[*rank as usize]) != data.target(*rank));
        let whole = if has_gaps { Place::new(Region::Land, 0) } else { first };
        Self { data, whole, starts, len }
    }

    /// Source at a rank, target and length of its contribution on the way to rank 0.
    fn gives(&self, rank: u32) -> Option<(Place, Place, u64)> {
        let (source, _, len) = self.data.piece(rank, rank, 0..u64::MAX)?;
        Some((source, plus(self.whole, self.starts[rank as usize]), len))
    }

    /// What `rank` gets: what lies before its own contribution and behind it.
    fn foreign(&self, rank: u32) -> [(Place, u64); 2] {
        let (start, own) = (self.starts[rank as usize], self.data.count(rank));
        [(self.whole, start), (plus(self.whole, start + own), self.len - start - own)]
    }

    /// The copies to where contributions of others belong, where there are gaps; `arrival` says what to wait for by their ranks.
    fn spread(&self, s: &mut Sketch, rank: u32, arrival: impl Fn(u32) -> Wait) {
        if self.whole.region == Region::Output {
            return;
        }
        for from in (0..self.size()).filter(|from| *from != rank && self.data.count(*from) > 0) {
            let source = plus(self.whole, self.starts[from as usize]);
            s.copy(self.rounds(), source, self.data.target(from), self.data.count(from), &[arrival(from)]);
        }
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        if rank == 0 {
            self.serve(&mut s);
            return s;
        }
        if let Some((source, target, len)) = self.gives(rank) {
            s.put(rank - 1, 0, source, target, len, &[], rank - 1);
        }
        let round = self.size() - 1 + rank - 1;
        let (mut bumps, mut arrived) = (0, Wait::once(round));
        for (place, len) in self.foreign(rank).into_iter().filter(|(_, len)| *len > 0) {
            s.expect(round, 0, place, place, len, round);
            bumps += 1;
        }
        arrived.at_least = bumps;
        s.steps.extend(self.data.own(rank, self.rounds()));
        self.spread(&mut s, rank, |_| arrived);
        s
    }

    /// The steps of rank 0.
    fn serve(&self, s: &mut Sketch) {
        let others = self.size() - 1;
        let mut arrivals = Vec::new();
        for from in 1..=others {
            if let Some((source, target, len)) = self.gives(from) {
                s.expect(from - 1, from, source, target, len, from - 1);
                arrivals.push(Wait::once(from - 1));
            }
        }
        if let Some((source, target, len)) = self.gives(0).filter(|own| own.0 != own.1) {
            arrivals.push(s.copy(others, source, target, len, &[]));
        }
        let all = s.one(others, &arrivals);
        for to in 1..=others {
            let round = others + to - 1;
            for (place, len) in self.foreign(to) {
                s.put(round, to, place, place, len, &[all], round);
            }
        }
        if self.whole.region != Region::Output {
            s.steps.extend(self.data.own(0, self.rounds()));
        }
        self.spread(s, 0, |from| Wait::once(from - 1));
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
        let land = if self.whole.region == Region::Land { self.len } else { 0 };
        Sizes { land, ..self.data.sizes(rank) }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
