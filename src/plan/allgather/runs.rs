//! The allgather by [p broadcasts](crate::plan::allgatherv::circulant) of one block each (Träff 2022, Algorithm 9), of
//! equal contributions: in runs of neighbours of as many bytes as the wire wants. That is what lowering makes of single
//! pieces, but there is no step for each: O(q + p/c) steps, with c contributions in a run.
//!
//! *Distances* count backwards from a rank: it is 0 itself, its predecessor 1. In round k a rank puts what it has at
//! distances 0 .. skips\[k+1\]−skips\[k\] to the rank skips\[k\] further on, for which these are skips\[k\] .. skips\[k+1\]. A
//! message is cut every c distances; and after its first, the sender's own, if that is not in the output. A run that
//! passes the end of the output is in two *parts*. Each waits for the runs that brought it, no matter in which round.
//!
//! Part s of run i of round k bumps counter first(k) + 2i + s; joins come after these.

use crate::error::{Result, argument};
use crate::plan::{MAX_COUNTERS, NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use crate::schedule::Circulant;
use std::ops::Range;

/// An allgather of the same number of bytes of every rank, one block each.
#[derive(Clone, Debug)]
pub struct Allgather {
    graph: Circulant,
    count: u64,
    in_place: bool,
    /// Contributions in a run.
    each: u32,
    /// By round: its first counter; then how many there are.
    first: Vec<u32>,
}

/// A part of a run.
struct Part {
    /// As the sender has them.
    distances: Range<u32>,
    /// The first of its owners, which are consecutive.
    owner: u32,
    counter: u32,
}

impl Allgather {
    /// Gathers `count` bytes of each of `size` ranks, rank j's at j·`count` of everyone's output, in runs of at most `run`
    /// bytes (at least one contribution), see [`WireLimits::coalesce`](crate::plan::lower::WireLimits::coalesce).
    ///
    /// # Errors
    /// If there are 0 or more than [`MAX_P`](crate::schedule::MAX_P) ranks, more than [`MAX_COUNTERS`] runs, or an output beyond 2^64 bytes.
    pub fn new(size: u32, count: u64, run: u64, in_place: bool) -> Result<Self> {
        super::check(size, count)?;
        let graph = Circulant::new(size);
        let each = u32::try_from(run / count.max(1)).unwrap_or(u32::MAX).clamp(1, size);
        let mut this = Self { graph, count, in_place, each, first: Vec::new() };
        let mut next = 0u64;
        for k in 0..this.graph.q() {
            this.first.push(u32::try_from(next).unwrap_or(u32::MAX));
            next += 2 * u64::from(this.runs(k));
        }
        // Joins have counters, too, but fewer; lowering counts them all.
        if next > u64::from(MAX_COUNTERS) / 4 {
            return Err(
                argument(format!("an allgather of {next} runs")).help("choose the circulant algorithm")
            );
        }
        this.first.push(u32::try_from(next).unwrap_or(u32::MAX));
        Ok(this)
    }

    fn width(&self, k: u32) -> u32 {
        self.graph.skip(k + 1) - self.graph.skip(k)
    }

    /// The distances that make a run of their own before the others: that of the contribution in the input.
    fn head(&self) -> u32 {
        u32::from(!self.in_place)
    }

    /// How many runs a message of round `k` has.
    fn runs(&self, k: u32) -> u32 {
        self.head() + (self.width(k) - self.head()).div_ceil(self.each)
    }

    /// The run that a distance is in.
    fn run_of(&self, distance: u32) -> u32 {
        if distance < self.head() { 0 } else { self.head() + (distance - self.head()) / self.each }
    }

    /// The distances of a run, of a message of so many.
    fn run(&self, i: u32, width: u32) -> Range<u32> {
        if i < self.head() {
            return 0..1;
        }
        let begin = self.head() + (i - self.head()) * self.each;
        begin..width.min(begin + self.each)
    }

    /// The parts of run `i` of what `sender` puts in round `k`.
    fn parts(&self, sender: u32, k: u32, i: u32) -> impl Iterator<Item = Part> {
        let run = self.run(i, self.width(k));
        let counter = self.first[k as usize] + 2 * i;
        // The owner at the first distance, from which they go down, past 0 to the last rank.
        let top = if sender >= run.start { sender - run.start } else { sender + (self.size() - run.start) };
        let low = (run.end - run.start).min(top + 1);
        let cut = run.start + low;
        let part = |distances: Range<u32>, owner, counter| Part { distances, owner, counter };
        let near = part(run.start..cut, top + 1 - low, counter);
        let far = part(cut..run.end, self.size() - (run.end - cut), counter + 1);
        [near, far].into_iter().filter(|part| !part.distances.is_empty())
    }

    /// All that `sender` puts in round `k`.
    fn message(&self, sender: u32, k: u32) -> impl Iterator<Item = Part> + '_ {
        (0..self.runs(k)).flat_map(move |i| self.parts(sender, k, i))
    }

    /// Source, target and length of a part.
    fn places(&self, part: &Part) -> (Place, Place, u64) {
        let target = Place::new(Region::Output, u64::from(part.owner) * self.count);
        let own = part.distances.start == 0 && !self.in_place;
        let source = if own { Place::new(Region::Input, 0) } else { target };
        (source, target, u64::from(part.distances.end - part.distances.start) * self.count)
    }

    /// What brought these distances to `rank`.
    fn brought(&self, rank: u32, distances: &Range<u32>) -> Vec<Wait> {
        let mut out = Vec::new();
        for k in 0..self.graph.q() {
            let skip = self.graph.skip(k);
            let (begin, end) = (distances.start.max(skip), distances.end.min(self.graph.skip(k + 1)));
            if begin >= end {
                continue;
            }
            let (begin, end) = (begin - skip, end - skip);
            for i in self.run_of(begin)..=self.run_of(end - 1) {
                let parts = self.parts(self.graph.from(rank, k), k, i);
                let those = parts.filter(|p| p.distances.start < end && begin < p.distances.end);
                out.extend(those.map(|part| Wait::once(part.counter)));
            }
        }
        out
    }

    /// Two waits that stand for all of these, by joins in round `k`.
    fn joined(&self, k: u32, mut waits: Vec<Wait>, next: &mut u32, out: &mut Vec<Step>) -> [Wait; 2] {
        while waits.len() > 2 {
            let pairs = std::mem::take(&mut waits);
            for pair in pairs.chunks(2) {
                match *pair {
                    [a, b] => {
                        out.push(Step::join(k, [a, b], *next));
                        waits.push(Wait::once(*next));
                        *next += 1;
                    }
                    _ => waits.extend(pair),
                }
            }
        }
        [0, 1].map(|i| waits.get(i).copied().unwrap_or(Wait::NONE))
    }

    /// What is put to `rank` in round `k`.
    fn arrivals(&self, rank: u32, k: u32) -> impl Iterator<Item = Step> + '_ {
        let from = self.graph.from(rank, k);
        self.message(from, k).map(move |part| {
            let (source, target, len) = self.places(&part);
            Step::expect(k, from, source, target, len, part.counter)
        })
    }

    fn walk(&self, rank: u32) -> Vec<Step> {
        let q = self.graph.q();
        let (mut out, mut next) = (Vec::new(), self.first[q as usize]);
        if self.count == 0 {
            return out;
        }
        for k in 0..q {
            let to = self.graph.to(rank, k);
            // Lowering posts a message at its first put: what any of it waits for comes before.
            let mut puts = Vec::with_capacity(2 * self.runs(k) as usize);
            for part in self.message(rank, k) {
                let waits = self.brought(rank, &part.distances);
                let waits = self.joined(k, waits, &mut next, &mut out);
                let (source, target, len) = self.places(&part);
                let put = Step::put(k, to, source, target, len, Wait::NONE, part.counter);
                puts.push(Step { waits, ..put });
            }
            out.extend(puts);
            out.extend(self.arrivals(rank, k));
        }
        if !self.in_place {
            // With the last round's priority: puts go first.
            let to = Place::new(Region::Output, u64::from(rank) * self.count);
            let own = Place::new(Region::Input, 0);
            out.push(Step::copy(q.saturating_sub(1), own, to, self.count, [Wait::NONE; 2], NO_COUNTER));
        }
        out
    }
}

impl Plan for Allgather {
    fn algorithm(&self) -> &'static str {
        "circulant"
    }

    fn size(&self) -> u32 {
        self.graph.p()
    }

    fn rounds(&self) -> u32 {
        self.graph.q()
    }

    fn counters(&self, rank: u32) -> u32 {
        let q = self.graph.q();
        let parts = (0..q).flat_map(|k| self.message(rank, k));
        // Each join makes one of two.
        let joins =
            parts.map(|part| self.brought(rank, &part.distances).len().saturating_sub(2)).sum::<usize>();
        self.first[q as usize] + u32::try_from(joins).unwrap_or(MAX_COUNTERS)
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        let input = if self.in_place { 0 } else { self.count };
        Sizes { input, output: self.count * u64::from(self.size()), ..Sizes::default() }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.walk(rank).into_iter())
    }

    fn expects(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let rounds = if self.count == 0 { 0 } else { self.graph.q() };
        Box::new((0..rounds).flat_map(move |k| self.arrivals(rank, k)))
    }
}
