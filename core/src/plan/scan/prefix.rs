//! Scans and the census allreduce in q rounds of whole vectors: in every round with its distance d rank
//! r sends a partial to r+d and takes in one from r−d.
//!
//! W is what a rank has of the ranks before it. In some rounds it sends W, in others W ⊕ x with its own
//! contribution x; either way the receiver's becomes W = received ⊕ W, in the slot where it landed.
//! So every partial is made once and never changed (law 2a without credits): slot j for round j, and
//! the output for the last (not in place).
//!
//! - [`Prefix::doubling`]: the inclusive scan, W begins as x, distances 1, 2, 4, …
//! - [`Prefix::circulant`]: the exclusive scan in q rounds for every p: distance skips\[k\] with W ⊕ x, or
//!   skips\[k\]−1 with W if 2·skips\[k\] > skips\[k+1\] (after Träff 2022, Algorithm 8, made acyclic).
//! - [`Prefix::one_two_three`]: the exclusive scan by distances 1, 2, 3, 6, 12, … (arXiv 2507.04785):
//!   fewer operations, at times one round more.
//! - [`Prefix::census`]: the circulant rounds with ranks modulo p, then W ⊕ x, is an allreduce
//!   (Algorithm 8). Every rank adds up in another order: the operator must commute, and floating-point
//!   results may differ in their last bits from rank to rank.

use crate::error::Result;
use crate::plan::partial::{Held, Sketch, check};
use crate::plan::registry::cost::{NOT_HIDDEN, Path, float, powers};
use crate::plan::registry::line::{by_q, commutative, line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::{Place, Plan, Region, Side, Sizes, Step, Wait};
use crate::schedule::Circulant;

const ANY: &str = "any p; keeps the order of ranks";

pub(in crate::plan) const CENSUS: Algorithm = line(
    Operation::Allreduce,
    "census",
    ["any p; commutative", "q", "q*m", "Träff 2022, Algorithm 8"],
    by_q,
    |a, _| {
        commutative(a)?;
        Ok(Box::new(Prefix::census(a.size, a.bytes, a.element, a.in_place)?))
    },
)
.commutative()
.costs(|a, path| circulant_cost(a, true, path))
.ordered(order::CYCLIC);

pub(in crate::plan) const DOUBLING: Algorithm =
    line(Operation::Scan, "doubling", [ANY, "q", "q*m", "Hillis and Steele 1986"], by_q, |a, _| {
        Ok(Box::new(Prefix::doubling(a.size, a.bytes, a.element)?))
    })
    .costs(doubling_cost)
    .ordered(order::SCAN);

pub(in crate::plan) const CIRCULANT: Algorithm = line(
    Operation::Exscan,
    "circulant",
    [ANY, "q", "<= q*m", "Träff 2022, Algorithm 8, made acyclic"],
    by_q,
    |a, _| Ok(Box::new(Prefix::circulant(a.size, a.bytes, a.element)?)),
)
.costs(exscan_cost)
.ordered(order::EXSCAN);

pub(in crate::plan) const ONE_TWO_THREE: Algorithm = line(
    Operation::Exscan,
    "one-two-three",
    [ANY, "ceil(log2(p-1) + log2(4/3))", "<= rounds*m", "arXiv 2507.04785"],
    |a, _| Prefix::one_two_three_rounds(a.size),
    |a, _| Ok(Box::new(Prefix::one_two_three(a.size, a.bytes, a.element)?)),
)
.receives(|a| u64::from(Prefix::one_two_three_rounds(a.size)) * a.bytes)
.costs(one_two_three_cost)
.ordered(order::THREES);

pub(in crate::plan) fn exscan_cost(a: &Arguments, path: &mut Path<'_>) {
    circulant_cost(a, false, path);
}

/// q rounds of whole vectors, combined with what came and, in some, with our own before they are sent.
fn circulant_cost(a: &Arguments, cyclic: bool, path: &mut Path<'_>) {
    let graph = Circulant::new(a.size.max(1));
    let bytes = float(a.bytes);
    let mut folds = 0.0;
    for k in 0..graph.q() {
        let (skip, next) = (graph.skip(k), graph.skip(k + 1));
        path.hop(skip, 1.0, bytes);
        let with = 2 * skip <= next;
        folds += if k > 0 { 1.0 + f64::from(u8::from(with)) } else { 0.0 };
    }
    if !cyclic {
        path.over(&powers(a.size), 0.0, 0.0, path.held_up(graph.q().into(), bytes));
    }
    path.reduce(folds * bytes);
    if cyclic && a.size > 1 {
        path.keep(1.0, bytes);
    }
}

/// The last round's senders are the ranks that were ready early.
fn doubling_cost(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (q(a.size), float(a.bytes));
    if rounds == 0 {
        return;
    }
    let last = 1 + q(a.size - (1 << (rounds - 1)));
    let hops = f64::from(last.max(rounds - 1));
    let busy = if hops < f64::from(rounds) { hops + NOT_HIDDEN } else { hops };
    path.over(&powers(a.size), hops, hops, busy * bytes + path.held_up(hops, bytes));
    path.reduce(busy * bytes);
}

fn one_two_three_cost(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (f64::from(Prefix::one_two_three_rounds(a.size)), float(a.bytes));
    let more = if rounds > 2.0 { NOT_HIDDEN } else { 0.0 };
    let sent = (rounds + more) * bytes + path.held_up(rounds, bytes);
    path.over(&powers(a.size), (rounds - 1.0).max(rounds.min(1.0)), rounds, sent);
    path.reduce((rounds + more) * bytes);
}

/// A scan, exscan or census.
#[derive(Clone, Debug)]
pub struct Prefix {
    name: &'static str,
    size: u32,
    bytes: u64,
    in_place: bool,
    /// W begins as the own contribution.
    inclusive: bool,
    /// Ranks modulo p.
    cyclic: bool,
    /// By round: the distance, and whether the own contribution is sent with W.
    rounds: Vec<(u32, bool)>,
}

/// Round `k` of the exclusive scan on the circulant graph: the distance, and whether a rank sends its own contribution with what it has of
/// the ranks before it.
///
/// # Panics
/// If the graph has no round `k`.
pub fn exscan_round(graph: &Circulant, k: u32) -> (u32, bool) {
    let (skip, next) = (graph.skip(k), graph.skip(k + 1));
    if 2 * skip > next { (skip - 1, false) } else { (skip, true) }
}

fn circulant(size: u32) -> Vec<(u32, bool)> {
    let graph = Circulant::new(size);
    (0..graph.q()).map(|k| exscan_round(&graph, k)).collect()
}

impl Prefix {
    fn new(name: &'static str, size: u32, bytes: u64, element: u64, in_place: bool) -> Result<Self> {
        check(name, size, bytes, element)?;
        Ok(Self { name, size, bytes, in_place, inclusive: false, cyclic: false, rounds: Vec::new() })
    }

    /// The inclusive scan by doubling.
    ///
    /// # Errors
    /// If there are no or too many ranks, or no whole elements.
    pub fn doubling(size: u32, bytes: u64, element: u64) -> Result<Self> {
        let scan = Self::new("doubling", size, bytes, element, false)?;
        let rounds = (0..31).map(|k| 1 << k).take_while(|&d| d < size).map(|d| (d, false)).collect();
        Ok(Self { inclusive: true, rounds, ..scan })
    }

    /// The exclusive scan in q rounds on the circulant graph.
    ///
    /// # Errors
    /// If there are no or too many ranks, or no whole elements.
    pub fn circulant(size: u32, bytes: u64, element: u64) -> Result<Self> {
        let scan = Self::new("circulant", size, bytes, element, false)?;
        Ok(Self { rounds: circulant(size), ..scan })
    }

    /// The exclusive scan by distances 1, 2, 3, 6, 12, …
    ///
    /// # Errors
    /// If there are no or too many ranks, or no whole elements.
    pub fn one_two_three(size: u32, bytes: u64, element: u64) -> Result<Self> {
        let scan = Self::new("one-two-three", size, bytes, element, false)?;
        let mut rounds = Vec::new();
        // What of the ranks before it the last rank has.
        let mut has = 0;
        while has + 1 < size {
            rounds.push(match has {
                0 => (1, true),
                1 => (2, true),
                distance => (distance, false),
            });
            has = match has {
                0 => 1,
                1 => 3,
                more => 2 * more,
            };
        }
        Ok(Self { rounds, ..scan })
    }

    /// The allreduce in q rounds of whole vectors.
    ///
    /// # Errors
    /// If there are no or too many ranks, or no whole elements.
    pub fn census(size: u32, bytes: u64, element: u64, in_place: bool) -> Result<Self> {
        let scan = Self::new("census", size, bytes, element, in_place)?;
        Ok(Self { cyclic: true, rounds: circulant(size), ..scan })
    }

    /// How many rounds [`Prefix::one_two_three`] takes.
    pub fn one_two_three_rounds(size: u32) -> u32 {
        let (mut rounds, mut has) = (0, 0);
        while has + 1 < size {
            (rounds, has) = (rounds + 1, [1, 3].get(rounds as usize).copied().unwrap_or(2 * has));
        }
        rounds
    }

    /// The rank that `rank` sends to in round `j`.
    fn to(&self, rank: u32, j: u32) -> Option<u32> {
        let to = u64::from(rank) + u64::from(self.rounds[j as usize].0);
        let p = u64::from(self.size);
        let to = if self.cyclic { to % p } else { to };
        let sends = self.sent(rank, j).is_some();
        u32::try_from(to).ok().filter(|&to| sends && to < self.size)
    }

    /// The rank that `rank` receives from in round `j`.
    fn from(&self, rank: u32, j: u32) -> Option<u32> {
        let distance = self.rounds[j as usize].0;
        let from =
            if self.cyclic { (rank + self.size - distance) % self.size } else { rank.checked_sub(distance)? };
        self.sent(from, j).map(|_| from)
    }

    /// Whether `rank` has anything of others before round `j`.
    fn has(&self, rank: u32, j: u32) -> bool {
        j > 0 && (self.cyclic || rank > 0)
    }

    /// Whether `rank` receives in round `j`; without recursion into what its senders have.
    fn receives(&self, rank: u32, j: u32) -> bool {
        let (distance, with) = self.rounds[j as usize];
        let something = |from: u32| with || self.inclusive || self.has(from, j);
        if self.cyclic {
            return something((rank + self.size - distance) % self.size);
        }
        rank.checked_sub(distance).is_some_and(something)
    }

    fn contribution(&self) -> Place {
        Place::new(if self.in_place { Region::Work } else { Region::Input }, 0)
    }

    /// Where `rank` finds W before round `j`.
    fn w(&self, rank: u32, j: u32) -> Option<Place> {
        let last = (0..j).rev().find(|&j| self.receives(rank, j));
        last.map(|j| self.slot(rank, j)).or_else(|| self.inclusive.then(|| self.contribution()))
    }

    /// Where what `rank` gets in round `j` lands.
    fn slot(&self, rank: u32, j: u32) -> Place {
        let rounds = u32::try_from(self.rounds.len()).unwrap_or(0);
        if !self.in_place && (j + 1..rounds).all(|j| !self.receives(rank, j)) {
            return Place::new(Region::Output, 0);
        }
        Place::new(Region::Land, u64::from(j) * self.bytes)
    }

    /// Where what `rank` would send in round `j` lies, if it has something.
    fn sent(&self, rank: u32, j: u32) -> Option<Place> {
        match (self.w(rank, j), self.rounds[j as usize].1) {
            (Some(_), true) => Some(Place::new(Region::Work, u64::from(j + 1) * self.bytes)),
            (Some(w), false) => Some(w),
            (None, with) => with.then(|| self.contribution()),
        }
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let rounds = self.rounds();
        let mut s = Sketch::new(rounds);
        let bytes = self.bytes;
        if bytes == 0 {
            return s;
        }
        let own = s.own(bytes, self.in_place);
        let mut w = self.inclusive.then_some(own);
        for (j, &(_, with)) in (0..).zip(&self.rounds) {
            if let (Some(to), Some(place)) = (self.to(rank, j), self.sent(rank, j)) {
                let ready = match w {
                    Some(w) if with => {
                        let copied = s.copy(j, own.place, place, bytes, &[own.ready]);
                        s.reduce(j, Side::SourceLeft, w.place, place, bytes, &[w.ready, copied])
                    }
                    Some(w) => w.ready,
                    None => own.ready,
                };
                s.put(j, to, place, self.slot(to, j), bytes, &[ready], j);
            }
            if let Some(from) = self.from(rank, j) {
                let slot = self.slot(rank, j);
                let source = self.sent(from, j).unwrap_or(slot);
                s.expect(j, from, source, slot, bytes, j);
                let ready = match w {
                    None => Wait::once(j),
                    Some(w) => {
                        let waits = [Wait::once(j), w.ready];
                        s.reduce(j + 1, Side::SourceRight, w.place, slot, bytes, &waits)
                    }
                };
                w = Some(Held { place: slot, ready });
            }
        }
        self.end(&mut s, own, w);
        s
    }

    /// The result to the output.
    fn end(&self, s: &mut Sketch, own: Held, w: Option<Held>) {
        let (last, output) = (self.rounds(), Place::new(Region::Output, 0));
        let Some(mut w) = w.or(self.cyclic.then_some(own)) else { return };
        if self.cyclic && self.size > 1 {
            w.ready = s.reduce(last, Side::SourceLeft, own.place, w.place, self.bytes, &[own.ready, w.ready]);
        }
        if w.place.region != Region::Output && !(self.in_place && w.place == own.place) {
            s.copy(last, w.place, output, self.bytes, &[w.ready, own.ready]);
        }
    }
}

impl Plan for Prefix {
    fn algorithm(&self) -> &'static str {
        self.name
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        u32::try_from(self.rounds.len()).unwrap_or(0)
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        let rounds = u64::from(self.rounds());
        Sizes {
            input: if self.in_place { 0 } else { self.bytes },
            output: self.bytes,
            work: (rounds + 1) * self.bytes,
            land: rounds * self.bytes,
        }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
