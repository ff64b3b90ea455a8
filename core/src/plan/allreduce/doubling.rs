//! Allreduce by recursive doubling: in round k partners 2^k apart exchange partials of whole vectors,
//! and combine them, the lower ranks' on the left. So the order of ranks is kept, and all ranks compute
//! the same tree: the same bits everywhere.
//!
//! If p is not a power of two, p − 2^⌊log2 p⌋ pairs of neighbours first fold into their even rank, and
//! get the result back in a last round. Partials are made once, in the slots where they land.

use crate::error::Result;
use crate::plan::partial::{Held, Sketch, check};
use crate::plan::registry::cost::{NOT_HIDDEN, Path, float, floor_log, powers};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::{Place, Plan, Region, Side, Sizes, Step, Wait};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allreduce,
    "doubling",
    [
        "any p; keeps the order of ranks",
        "floor(log2 p), +2 if p is no power of 2",
        "(rounds, -1 if +2)*m",
        "recursive doubling",
    ],
    |a, _| Doubling::rounds_of(a.size),
    |a, _| Ok(Box::new(Doubling::new(a.size, a.bytes, a.element, a.in_place)?)),
)
.receives(|a| {
    let rounds = u64::from(Doubling::rounds_of(a.size));
    (rounds - u64::from(!a.size.is_power_of_two())) * a.bytes
})
.costs(cost)
.ordered(order::PAIRS);

/// Partners exchange whole vectors; with a fold before and a hop after if p is not a power of two.
pub(in crate::plan) fn cost(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (f64::from(floor_log(a.size)), float(a.bytes));
    let (more, last) = if a.size.is_power_of_two() { (0.0, 0.0) } else { (1.0, NOT_HIDDEN) };
    path.over(&powers(a.size), rounds + more, rounds + more + last, (rounds + more + last) * bytes);
    if a.size.is_power_of_two() && a.size > 1 {
        path.reduce((rounds - 1.0) * bytes);
        path.keep(1.0, bytes);
    } else {
        path.reduce((rounds + more) * bytes);
    }
}

/// An allreduce of any associative operator.
#[derive(Clone, Copy, Debug)]
pub struct Doubling {
    size: u32,
    bytes: u64,
    in_place: bool,
    /// Partials stay out of the output.
    apart: bool,
}

impl Doubling {
    /// Reduces `bytes` bytes of elements of `element` bytes.
    ///
    /// # Errors
    /// If there are no or too many ranks, or no whole elements.
    pub fn new(size: u32, bytes: u64, element: u64, in_place: bool) -> Result<Self> {
        check("allreduce", size, bytes, element)?;
        Ok(Self { size, bytes, in_place, apart: in_place })
    }

    /// The same, of contributions in the input, but only the result is written to the output.
    ///
    /// # Errors
    /// As [`Doubling::new`].
    pub(crate) fn apart(size: u32, bytes: u64, element: u64) -> Result<Self> {
        Ok(Self { apart: true, ..Self::new(size, bytes, element, false)? })
    }

    /// How many rounds it takes: log2 p, or ⌊log2 p⌋ + 2.
    pub(crate) fn rounds_of(size: u32) -> u32 {
        let log = size.max(1).ilog2();
        if size.is_power_of_two() || size == 0 { log } else { log + 2 }
    }

    /// How many pairs fold.
    fn pairs(&self) -> u32 {
        self.size - (1 << self.size.ilog2())
    }

    fn folds(&self) -> u32 {
        u32::from(self.pairs() > 0)
    }

    /// The number of `rank` among those that double, unless it was folded into another.
    fn number(&self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.pairs() {
            return Some(rank - self.pairs());
        }
        rank.is_multiple_of(2).then_some(rank / 2)
    }

    fn rank(&self, number: u32) -> u32 {
        if number < self.pairs() { 2 * number } else { number + self.pairs() }
    }

    /// Where lands what comes in `round`.
    fn slot(&self, round: u32) -> Place {
        if !self.apart && round + 1 == self.folds() + self.size.ilog2() {
            return Place::new(Region::Output, 0);
        }
        Place::new(Region::Land, u64::from(round) * self.bytes)
    }

    /// Where the partial of `rank` lies before `round`.
    fn partial(&self, rank: u32, round: u32) -> Place {
        if round == 0 || round == self.folds() && rank >= 2 * self.pairs() {
            return Place::new(if self.in_place { Region::Work } else { Region::Input }, 0);
        }
        self.slot(round - 1)
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        if self.bytes == 0 {
            return s;
        }
        let own = s.own(self.bytes, self.in_place);
        let (output, last) = (Place::new(Region::Output, 0), self.rounds().saturating_sub(1));
        let Some(number) = self.number(rank) else {
            s.put(0, rank - 1, own.place, self.slot(0), self.bytes, &[own.ready], 0);
            s.expect(last, rank - 1, self.result(), output, self.bytes, last);
            return s;
        };
        let mut w = own;
        if number < self.pairs() {
            w = self.exchange(&mut s, 0, rank + 1, w, false);
        }
        for k in 0..self.size.ilog2() {
            let peer = self.rank(number ^ (1 << k));
            w = self.exchange(&mut s, k + self.folds(), peer, w, number & (1 << k) != 0);
        }
        if number < self.pairs() {
            s.put(last, rank + 1, w.place, output, self.bytes, &[w.ready], last);
        }
        if w.place != output && !(self.in_place && self.size == 1) {
            s.copy(self.rounds(), w.place, output, self.bytes, &[w.ready, own.ready]);
        }
        s
    }

    /// Where the result is at a rank that doubles, before it is copied.
    fn result(&self) -> Place {
        self.slot(self.folds() + self.size.ilog2() - 1)
    }

    /// Sends `w` to `peer` (but when folding) and combines it with what comes.
    fn exchange(&self, s: &mut Sketch, round: u32, peer: u32, w: Held, peer_is_lower: bool) -> Held {
        let (slot, bytes) = (self.slot(round), self.bytes);
        if round >= self.folds() {
            s.put(round, peer, w.place, slot, bytes, &[w.ready], round);
        }
        s.expect(round, peer, self.partial(peer, round), slot, bytes, round);
        let side = if peer_is_lower { Side::SourceRight } else { Side::SourceLeft };
        let ready = s.reduce(round + 1, side, w.place, slot, bytes, &[Wait::once(round), w.ready]);
        Held { place: slot, ready }
    }
}

impl Plan for Doubling {
    fn algorithm(&self) -> &'static str {
        "doubling"
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        Self::rounds_of(self.size)
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        let (input, work) = if self.in_place { (0, self.bytes) } else { (self.bytes, 0) };
        Sizes { input, output: self.bytes, work, land: u64::from(self.rounds()) * self.bytes }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
