//! All contributions to rank 0, which folds them in the order of ranks, from the left, and puts to each rank its result (folklore): two hops, and
//! with 2(p−1) puts in all fewer than any algorithm in which all ranks do alike.
//!
//! What counts is the processor time of all ranks together, where many of them share a core. One-ported: rank r puts in round r−1, and gets its
//! result r−1 rounds after the last of these. Any associative operator will do, and where ranks share a result all get the same bits.

use crate::error::{Result, argument};
use crate::plan::partial::{Held, Pieces, Sketch, check, plus, slot_align};
use crate::plan::registry::cost::{Formula, Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Build, Operation, order};
use crate::plan::{Place, Plan, Region, Side, Sizes, Step, Wait};

pub(in crate::plan) const ALLREDUCE: Algorithm =
    of(Operation::Allreduce, |a, _| build(a, a.bytes, Results::Same), |a, path| cost(a, a.bytes, path))
        .receives(|a| from_all(a, a.bytes));

pub(in crate::plan) const SCAN: Algorithm =
    of(Operation::Scan, |a, _| build(a, a.bytes, Results::Prefixes), |a, path| cost(a, a.bytes, path))
        .receives(|a| from_all(a, a.bytes));

pub(in crate::plan) const EXSCAN: Algorithm = of(
    Operation::Exscan,
    |a, _| build(a, a.bytes, Results::PrefixesBefore),
    |a, path| cost(a, a.bytes, path),
)
.receives(|a| from_all(a, a.bytes));

pub(in crate::plan) const REDUCE_SCATTER: Algorithm = of(
    Operation::ReduceScatter,
    |a, _| {
        let pieces = Pieces::given(&a.counts)?;
        build(a, pieces.bytes(), Results::Pieces(pieces))
    },
    |a, path| scatter_cost(a, a.total(Operation::ReduceScatter), path),
)
.receives(|a| from_all(a, a.total(Operation::ReduceScatter)));

pub(in crate::plan) const REDUCE_SCATTER_BLOCK: Algorithm = of(
    Operation::ReduceScatterBlock,
    |a, _| {
        let whole = a.bytes.checked_mul(a.size.into()).ok_or_else(|| argument("beyond 2^64 bytes"))?;
        build(a, whole, Results::Pieces(Pieces::Equal { count: a.bytes, parts: a.size }))
    },
    |a, path| scatter_cost(a, a.total(Operation::ReduceScatterBlock), path),
)
.receives(|a| from_all(a, a.total(Operation::ReduceScatterBlock)));

const NAME: &str = "linear";

const fn of(operation: Operation, build: Build, formula: Formula) -> Algorithm {
    // The last contribution to an exscan is in no result.
    let (rounds, volume) = match operation {
        Operation::Exscan => ("2p-3 (p = 1: 0)", "<= (p-1)*m"),
        _ => ("2(p-1)", "(p-1)*m"),
    };
    let rounds_of: fn(&Arguments, u32) -> u32 = match operation {
        Operation::Exscan => |a, _| (2 * a.size).saturating_sub(3),
        _ => |a, _| 2 * a.size.saturating_sub(1),
    };
    let texts = ["any p; keeps the order of ranks", rounds, volume, "folklore"];
    line(operation, NAME, texts, rounds_of, build).costs(formula).ordered(order::LEFT)
}

fn build(a: &Arguments, whole: u64, results: Results) -> Result<Box<dyn Plan>> {
    let in_place = a.in_place && matches!(results, Results::Same);
    Ok(Box::new(Linear::new(a.size, whole, a.element, in_place, results)?))
}

fn from_all(a: &Arguments, whole: u64) -> u64 {
    u64::from(a.size.saturating_sub(1)).saturating_mul(whole)
}

/// A result as long as a contribution to each rank.
fn cost(a: &Arguments, whole: u64, path: &mut Path<'_>) {
    let bytes = a.others() * float(whole);
    path.fan_in_folded(a.others(), bytes);
    path.fan(a.others(), bytes);
}

/// A piece to each rank.
fn scatter_cost(a: &Arguments, whole: u64, path: &mut Path<'_>) {
    path.fan_in_folded(a.others(), a.others() * float(whole));
    path.fan(a.others(), float(whole));
}

/// What each rank gets.
#[derive(Clone, Debug)]
pub enum Results {
    /// The reduction of all contributions (allreduce).
    Same,
    /// The reduction of those up to its own (scan).
    Prefixes,
    /// The reduction of those before its own (exscan).
    PrefixesBefore,
    /// Its piece of the reduction of all (reduce-scatter).
    Pieces(Pieces),
}

/// A reduction or scan by way of rank 0.
#[derive(Clone, Debug)]
pub struct Linear {
    size: u32,
    bytes: u64,
    in_place: bool,
    results: Results,
}

impl Linear {
    /// Folds `bytes` bytes of elements of `element` bytes. `in_place` concerns all ranks of an allreduce.
    ///
    /// # Errors
    /// If there are no or too many ranks, no whole elements, pieces of something else, or more than 2^64 bytes of memory would be needed; and in place,
    /// if it is no allreduce.
    pub fn new(size: u32, bytes: u64, element: u64, in_place: bool, results: Results) -> Result<Self> {
        check("a reduction", size, bytes, element)?;
        if slot_align(bytes).checked_mul(u64::from(size)).is_none() {
            return Err(argument(format!(
                "{bytes} bytes of each of {size} ranks are beyond 2^64 bytes of memory"
            )));
        }
        match &results {
            Results::Pieces(pieces) if pieces.bytes() != bytes || pieces.parts() != size => {
                Err(argument(format!("{bytes} bytes for {size} ranks in other pieces")))
            }
            results if in_place && !matches!(results, Results::Same) => {
                Err(argument("only an allreduce is in place here"))
            }
            _ => Ok(Self { size, bytes, in_place, results }),
        }
    }

    /// Where a rank's contribution lies.
    fn contribution(&self) -> Place {
        Place::new(if self.in_place { Region::Output } else { Region::Input }, 0)
    }

    /// Where lands at rank 0 what comes from `rank`; the first where the result shall be, if it is the same for all and nothing lies there.
    fn slot(&self, rank: u32) -> Place {
        if rank == 1 && !self.in_place && matches!(self.results, Results::Same) {
            return OUTPUT;
        }
        Place::new(Region::Land, u64::from(rank - 1) * slot_align(self.bytes))
    }

    /// The ranks whose contributions others need.
    fn givers(&self) -> u32 {
        self.size - u32::from(self.size > 1 && matches!(self.results, Results::PrefixesBefore))
    }

    /// Bytes of the result of `rank`.
    fn len(&self, rank: u32) -> u64 {
        match &self.results {
            Results::PrefixesBefore if rank == 0 => 0,
            Results::Pieces(pieces) => pieces.len(rank),
            _ => self.bytes,
        }
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        if self.bytes == 0 {
            return s;
        }
        if rank == 0 {
            self.fold(&mut s);
            return s;
        }
        if rank < self.givers() {
            s.put(rank - 1, 0, self.contribution(), self.slot(rank), self.bytes, &[], rank - 1);
        }
        let round = self.givers() - 1 + rank - 1;
        s.expect(round, 0, self.source(rank), OUTPUT, self.len(rank), round);
        s
    }

    /// The steps of rank 0.
    fn fold(&self, s: &mut Sketch) {
        let (bytes, arrivals) = (self.bytes, self.givers() - 1);
        for from in 1..self.givers() {
            s.expect(from - 1, from, self.contribution(), self.slot(from), bytes, from - 1);
        }
        let keeps = matches!(self.results, Results::Prefixes | Results::PrefixesBefore);
        let mut sum = Held { place: self.contribution(), ready: Wait::NONE };
        // By rank, what it gets is part of.
        let mut ready = vec![Wait::NONE];
        for from in 1..self.givers() {
            let (slot, waits) = (self.slot(from), [Wait::once(from - 1), sum.ready]);
            // A contribution of rank 0 and a prefix are not written to.
            let into_slot = from == 1 || keeps;
            let (side, source, target) = if into_slot {
                (Side::SourceLeft, sum.place, slot)
            } else {
                (Side::SourceRight, slot, sum.place)
            };
            sum = Held { place: target, ready: s.reduce(arrivals, side, source, target, bytes, &waits) };
            ready.push(sum.ready);
        }
        let own = if keeps { self.contribution() } else { sum.place };
        let waits = if keeps { Wait::NONE } else { sum.ready };
        let mut all = sum.ready;
        if self.len(0) > 0 && own != OUTPUT {
            let copied = s.copy(arrivals, own, OUTPUT, self.len(0), &[waits]);
            all = if matches!(self.results, Results::Same) { copied } else { all };
        }
        for to in 1..self.size {
            let round = arrivals + to - 1;
            let wait = match self.results {
                Results::Prefixes => ready[to as usize],
                Results::PrefixesBefore => ready[to as usize - 1],
                Results::Same | Results::Pieces(_) => all,
            };
            s.put(round, to, self.source(to), OUTPUT, self.len(to), &[wait], round);
        }
    }

    /// Where the result of `rank`, which is not 0, lies at rank 0.
    fn source(&self, rank: u32) -> Place {
        match &self.results {
            Results::Same => OUTPUT,
            Results::Prefixes => self.slot(rank),
            Results::PrefixesBefore if rank == 1 => self.contribution(),
            Results::PrefixesBefore => self.slot(rank - 1),
            Results::Pieces(pieces) => plus(self.slot(1), pieces.start(rank)),
        }
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
        self.givers() - 1 + self.size - 1
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let input = if self.in_place { 0 } else { self.bytes };
        let land = if rank == 0 { u64::from(self.size - 1) * slot_align(self.bytes) } else { 0 };
        Sizes { input, output: self.len(rank), work: 0, land }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
