//! The allgather by [p broadcasts](crate::plan::allgatherv::circulant) of one block each (Träff 2022, Algorithm 9), of
//! equal contributions: in runs of neighbours of as many bytes as the wire wants. That is what lowering makes of single
//! pieces, but there is no step for each: O(q + p/c) steps, with c contributions in a run.
//!
//! *Distances* count backwards from a rank: it is 0 itself, its predecessor 1. In round k a rank puts what it has at
//! distances 0 .. skips\[k+1\]−skips\[k\] to the rank skips\[k\] further on, for which these are skips\[k\] .. skips\[k+1\]. A
//! message is cut every c distances; and after its first, the sender's own, if that is not in the output. A run that
//! passes the end of the output is in two *parts*. Each waits for the runs that brought it, no matter in which round.
//!
//! Long contributions are *cut* into s pieces, and then distances count pieces: s for each rank, the last piece of a
//! contribution first, so that memory still descends with the distance. A rank has something to put to all its peers from
//! the start, these puts share the link, and all of them would arrive only at the end of the last; what they bring could
//! go on no sooner, and the link would rest.
//!
//! Part s of run i of round k bumps counter first(k) + 2i + s; joins come after these.

use super::check::check;
use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::lower::coalesce;
use crate::plan::{MAX_COUNTERS, NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use crate::schedule::Circulant;
use std::ops::Range;

/// The most pieces that a contribution is cut into: with four the link rests for a latency in the whole operation, no
/// more (`cut`, below, has what was simulated).
pub(crate) const MAX_CUT: u32 = 4;

/// The number of pieces that a contribution of `bytes` bytes is cut into: each of what the link carries in a latency,
/// or a run, if that is longer. (16 ranks, 1 ms, 80 ns a byte, 62.5 KB each: 95.6 ms whole, 89 in four; C = 81.6.)
pub(in crate::plan) fn cut(wire: &LogGp, bytes: u64) -> u32 {
    let latency = wire.latency_ns.saturating_mul(1000) / wire.byte_ps.max(1);
    let pieces = bytes / coalesce(wire).max(latency).max(1);
    u32::try_from(pieces).unwrap_or(u32::MAX).clamp(1, MAX_CUT)
}

/// An allgather of the same number of bytes of every rank, one block each.
#[derive(Clone, Debug)]
pub struct Allgather {
    graph: Circulant,
    count: u64,
    in_place: bool,
    /// Pieces of a contribution.
    cut: u32,
    /// Pieces in a run.
    each: u32,
    /// By round: its first counter; then how many there are.
    first: Vec<u32>,
}

/// A part of a run.
struct Part {
    /// As the sender has them.
    distances: Range<u32>,
    /// The first of its pieces in the output, which are consecutive.
    piece: u32,
    counter: u32,
}

impl Allgather {
    /// Gathers `count` bytes of each of `size` ranks, rank j's at j·`count` of every rank's output, in runs of at most `run`
    /// bytes (at least one piece), see [`WireLimits::coalesce`](crate::plan::lower::WireLimits::coalesce). Each contribution is
    /// cut into `cut` pieces; more than 4 are 4.
    ///
    /// # Errors
    /// If there are 0 or more than [`MAX_P`](crate::schedule::MAX_P) ranks, more than [`MAX_COUNTERS`] runs, or an output beyond 2^64 bytes.
    pub fn new(size: u32, count: u64, run: u64, cut: u32, in_place: bool) -> Result<Self> {
        check(size, count)?;
        let graph = Circulant::new(size);
        // Distances are numbers of 32 bits.
        let cut = cut.min(u32::MAX / size).clamp(1, MAX_CUT);
        let piece = count.div_ceil(u64::from(cut)).max(1);
        // No piece is empty.
        let cut = u32::try_from(count.div_ceil(piece)).unwrap_or(cut).max(1);
        let each = u32::try_from(run / piece).unwrap_or(u32::MAX).clamp(1, size * cut);
        let mut this = Self { graph, count, in_place, cut, each, first: Vec::new() };
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

    /// Of a round, in pieces.
    fn skip(&self, k: u32) -> u32 {
        self.graph.skip(k) * self.cut
    }

    fn width(&self, k: u32) -> u32 {
        self.skip(k + 1) - self.skip(k)
    }

    /// The distances that make runs of their own before the others: those of the contribution in the input.
    fn head(&self) -> u32 {
        if self.in_place { 0 } else { self.cut }
    }

    /// How many runs a message of round `k` has.
    fn runs(&self, k: u32) -> u32 {
        self.head().div_ceil(self.each) + (self.width(k) - self.head()).div_ceil(self.each)
    }

    /// The run that a distance is in.
    fn run_of(&self, distance: u32) -> u32 {
        match distance.checked_sub(self.head()) {
            None => distance / self.each,
            Some(after) => self.head().div_ceil(self.each) + after / self.each,
        }
    }

    /// The distances of a run, of a message of this many.
    fn run(&self, i: u32, width: u32) -> Range<u32> {
        match i.checked_sub(self.head().div_ceil(self.each)) {
            None => i * self.each..self.head().min((i + 1).saturating_mul(self.each)),
            Some(after) => {
                let begin = self.head() + after * self.each;
                begin..width.min(begin.saturating_add(self.each))
            }
        }
    }

    /// Where a piece begins in the output.
    fn at(&self, piece: u32) -> u64 {
        let (owner, j) = (u64::from(piece / self.cut), u64::from(piece % self.cut));
        let len = self.count.div_ceil(u64::from(self.cut));
        owner * self.count + (j * len).min(self.count)
    }

    /// The parts of run `i` of what `sender` puts in round `k`.
    fn parts(&self, sender: u32, k: u32, i: u32) -> impl Iterator<Item = Part> {
        let run = self.run(i, self.width(k));
        let counter = self.first[k as usize] + 2 * i;
        let (all, last) = (self.size() * self.cut, sender * self.cut + (self.cut - 1));
        // The piece at the first distance, from which they go down, past 0 to the last one of all.
        let top = if last >= run.start { last - run.start } else { last + (all - run.start) };
        let low = (run.end - run.start).min(top + 1);
        let around = run.start + low;
        let part = |distances: Range<u32>, piece, counter| Part { distances, piece, counter };
        let near = part(run.start..around, top + 1 - low, counter);
        let far = part(around..run.end, all - (run.end - around), counter + 1);
        [near, far].into_iter().filter(|part| !part.distances.is_empty())
    }

    /// All that `sender` puts in round `k`.
    fn message(&self, sender: u32, k: u32) -> impl Iterator<Item = Part> + '_ {
        (0..self.runs(k)).flat_map(move |i| self.parts(sender, k, i))
    }

    /// Source, target and length of a part.
    fn places(&self, part: &Part) -> (Place, Place, u64) {
        let (begin, end) =
            (self.at(part.piece), self.at(part.piece + (part.distances.end - part.distances.start)));
        let target = Place::new(Region::Output, begin);
        let own = part.distances.start < self.head();
        let source = if own { Place::new(Region::Input, begin % self.count) } else { target };
        (source, target, end - begin)
    }

    /// What brought these distances to `rank`.
    fn brought(&self, rank: u32, distances: &Range<u32>) -> Vec<Wait> {
        let mut out = Vec::new();
        for k in 0..self.graph.q() {
            let skip = self.skip(k);
            let (begin, end) = (distances.start.max(skip), distances.end.min(self.skip(k + 1)));
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
