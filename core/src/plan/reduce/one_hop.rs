//! Whole contributions to all ranks that need them, in one hop (folklore): a rank folds what it gets in the order of ranks, from the left.
//! So any associative operator will do, and all ranks that fold the same contributions get the same bits.
//!
//! p−1 puts and (p−1)m bytes to a rank: of short vectors on a wire of long latency the fastest, as nothing is waited for twice.
//! One-ported: what goes i ranks further on goes in round i−1.

use crate::error::{Result, argument};
use crate::plan::partial::{Sketch, check, slot_align};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{by_p, line};
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::topology::{ahead, behind};
use crate::plan::{Place, Plan, Region, Side, Sizes, Step, Wait};

pub(in crate::plan) const REDUCE: Algorithm = of(Operation::Reduce).costs(reduce_cost);
pub(in crate::plan) const ALLREDUCE: Algorithm = of(Operation::Allreduce).costs(allreduce_cost).meets_all();
pub(in crate::plan) const SCAN: Algorithm = of(Operation::Scan).costs(cost).meets_all();
pub(in crate::plan) const EXSCAN: Algorithm = of(Operation::Exscan).costs(cost).meets_all();

const fn of(operation: Operation) -> Algorithm {
    let texts = ["any p; keeps the order of ranks", "p-1", "(p-1)*m", "folklore"];
    let line = match operation {
        Operation::Reduce => line(operation, NAME, texts, by_p, |a, _| build(a, Takers::Root(a.root))),
        Operation::Allreduce => line(operation, NAME, texts, by_p, |a, _| build(a, Takers::All)),
        Operation::Scan => line(operation, NAME, texts, by_p, |a, _| build(a, Takers::FromItself)),
        _ => line(operation, NAME, texts, by_p, |a, _| build(a, Takers::Behind)),
    };
    line.receives(|a| u64::from(a.size.saturating_sub(1)).saturating_mul(a.bytes)).ordered(order::LEFT)
}

const NAME: &str = "one-hop";

fn build(a: &Arguments, takers: Takers) -> Result<Box<dyn Plan>> {
    Ok(Box::new(OneHop::new(a.size, a.bytes, a.element, a.in_place, takers)?))
}

fn cost(a: &Arguments, path: &mut Path<'_>) {
    let (others, bytes) = (a.others(), a.others() * float(a.bytes));
    path.with_all(others.min(1.0), others, bytes);
    path.reduce(bytes);
}

/// All sums stay where they are made.
fn allreduce_cost(a: &Arguments, path: &mut Path<'_>) {
    let (others, bytes) = (a.others(), float(a.bytes));
    path.with_all(others.min(1.0), others, others * bytes);
    path.keep(others, bytes);
}

/// The root gets from all at the same time, and folds one after the other.
fn reduce_cost(a: &Arguments, path: &mut Path<'_>) {
    path.fan_in_folded(a.others(), a.others() * float(a.bytes));
}

/// Which ranks take the contribution of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takers {
    /// This one (reduce).
    Root(u32),
    /// All (allreduce).
    All,
    /// It and those behind it (scan).
    FromItself,
    /// Those behind it (exscan).
    Behind,
}

/// A reduction or scan in which nothing is passed on.
#[derive(Clone, Copy, Debug)]
pub struct OneHop {
    size: u32,
    bytes: u64,
    in_place: bool,
    takers: Takers,
}

impl OneHop {
    /// Folds `bytes` bytes of elements of `element` bytes. `in_place` concerns the root of a reduce, and all ranks of an allreduce.
    ///
    /// # Errors
    /// If there are no or too many ranks, no such root, no whole elements, or more than 2^64 bytes of memory would be needed.
    pub fn new(size: u32, bytes: u64, element: u64, in_place: bool, takers: Takers) -> Result<Self> {
        check("a reduction", size, bytes, element)?;
        if matches!(takers, Takers::Root(root) if root >= size) {
            return Err(argument(format!("reduce to a rank beyond {size}")));
        }
        if slot_align(bytes).checked_mul(u64::from(size) + 1).is_none() {
            return Err(argument(format!(
                "{bytes} bytes of each of {size} ranks are beyond 2^64 bytes of memory"
            )));
        }
        Ok(Self { size, bytes, in_place, takers })
    }

    fn takes(&self, rank: u32, contribution: u32) -> bool {
        match self.takers {
            Takers::Root(root) => rank == root,
            Takers::All => true,
            Takers::FromItself => contribution <= rank,
            Takers::Behind => contribution < rank,
        }
    }

    /// Whether the contribution of `rank` lies in its output.
    fn in_output(&self, rank: u32) -> bool {
        self.in_place
            && match self.takers {
                Takers::Root(root) => rank == root,
                Takers::All => true,
                Takers::FromItself | Takers::Behind => false,
            }
    }

    /// Where lands at `rank` what comes from `from`. The first in the order of ranks lands where the result shall be, if nothing lies there.
    fn slot(&self, rank: u32, from: u32) -> Place {
        let first = u32::from(rank == 0 && self.takers != Takers::Behind);
        if from == first && !self.in_output(rank) {
            return Place::new(Region::Output, 0);
        }
        Place::new(Region::Land, u64::from(from) * slot_align(self.bytes))
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        if self.bytes == 0 {
            return s;
        }
        let own = s.own(self.bytes, self.in_output(rank));
        for distance in 1..self.size {
            let (to, from) = (ahead(self.size, rank, distance), behind(self.size, rank, distance));
            let round = distance - 1;
            if self.takes(to, rank) {
                s.put(round, to, own.place, self.slot(to, rank), self.bytes, &[own.ready], round);
            }
            if self.takes(rank, from) {
                // Only the root of a reduce has what lies in its output; all others send from their input.
                let source =
                    if self.takers == Takers::All && self.in_place { Region::Work } else { Region::Input };
                s.expect(round, from, Place::new(source, 0), self.slot(rank, from), self.bytes, round);
            }
        }
        let mut sum: Option<(Place, Wait)> = None;
        for from in (0..self.size).filter(|from| self.takes(rank, *from)) {
            let arrival = behind(self.size, rank, from);
            let next = match from == rank {
                true => (own.place, own.ready),
                false => (self.slot(rank, from), Wait::once(arrival - 1)),
            };
            sum = Some(match sum {
                None => next,
                Some((left, done)) if left == own.place => {
                    let done =
                        s.reduce(self.rounds(), Side::SourceLeft, left, next.0, self.bytes, &[done, next.1]);
                    (next.0, done)
                }
                Some((left, done)) => {
                    let done =
                        s.reduce(self.rounds(), Side::SourceRight, next.0, left, self.bytes, &[done, next.1]);
                    (left, done)
                }
            });
        }
        let output = Place::new(Region::Output, 0);
        if let Some((place, done)) = sum.filter(|(place, _)| *place != output) {
            s.copy(self.rounds(), place, output, self.bytes, &[done, own.ready]);
        }
        s
    }
}

impl Plan for OneHop {
    fn algorithm(&self) -> &'static str {
        NAME
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        self.size - 1
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let takes = (0..self.size).any(|from| self.takes(rank, from));
        let (input, work) = if self.in_output(rank) { (0, self.bytes) } else { (self.bytes, 0) };
        let output = if takes { self.bytes } else { 0 };
        let last = (0..self.size).rev().find(|from| *from != rank && self.takes(rank, *from));
        let land = last.map_or(0, |last| u64::from(last + 1) * slot_align(self.bytes));
        Sizes { input, output, work, land }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
