//! The receive schedule in O(log p): a depth-first search for sums of distinct skips.
//!
//! A block reaches rank r along a path of edges, so the ranks r can hear of are r minus sums of
//! distinct skips. The search walks upwards from the root, largest skips first, one turn of the circle
//! ahead (to T = p + r, so that no position is negative), and takes for rounds 0, 1, … the highest
//! positions that still fit under T − skips[k]; the last index of the path names the block. Every index
//! is used once, so every block arrives once. The idea is that of the O(log p) constructions which
//! followed the 2022 paper (arXiv 2312.11236, 2407.18004).

use super::Circulant;
use super::skips::{Entries, last_phase, this_phase};

impl Circulant {
    /// The receive schedule of rank `r`: entry k is the block that arrives in round k of a phase.
    ///
    /// The root's row is computed like any other; nobody ever sends to it. O(q), no allocation.
    ///
    /// # Panics
    /// If `r` ≥ p.
    pub fn recv(&self, r: u32) -> Entries {
        self.recv_until(r, self.q())
    }

    /// The receive schedules of all ranks, row r at `out[r * q..]`.
    ///
    /// # Panics
    /// If `out` is not p·q long.
    pub fn recv_table(&self, out: &mut [i8]) {
        let q = self.q() as usize;
        assert!(out.len() == self.p() as usize * q, "the table of {} ranks has p*q entries", self.p());
        if q > 0 {
            for (r, row) in (0..self.p()).zip(out.chunks_exact_mut(q)) {
                row.copy_from_slice(&self.recv(r));
            }
        }
    }

    /// The first `rounds` entries of the receive schedule, the rest zero.
    pub(super) fn recv_until(&self, r: u32, rounds: u32) -> Entries {
        let base = self.base(r);
        let mut search = Search {
            graph: self,
            base,
            turn: u64::from(self.p()) + u64::from(r),
            left: u32::MAX >> (u32::BITS - 1 - self.q()) & !(1 << base),
            rounds,
            k: 0,
            last: u64::MAX,
            found: Entries::zeroed(self),
        };
        search.extend(0, u32::MAX);
        search.found
    }
}

struct Search<'a> {
    graph: &'a Circulant,
    base: u32,
    /// T = p + r.
    turn: u64,
    /// Bit e: index e may still be used. Index q, a skip of p, is "from the root in this very phase".
    left: u32,
    /// Where to stop, ≤ q.
    rounds: u32,
    /// The round that is looked for.
    k: u32,
    /// The position taken for round k − 1; positions fall from round to round.
    last: u64,
    found: Entries,
}

impl Search<'_> {
    /// Extends a path that has reached `position` by indices among `below` (a mask), recursively.
    /// Depth ≤ q: each level uses a smaller index.
    fn extend(&mut self, position: u64, mut below: u32) {
        while self.k < self.rounds {
            // Re-read `left` each time: deeper levels take indices away.
            let candidates = self.left & below;
            if candidates == 0 {
                return;
            }
            let e = candidates.ilog2();
            below = (1 << e) - 1;
            let next = position + u64::from(self.graph.skip(e));
            if next > self.limit(self.k) || next >= self.last {
                continue;
            }
            if next <= self.limit(self.k + 1) {
                self.extend(next, below); // a higher position may fit round k
            }
            // What was found may leave the caller's own position as the one for the next round.
            if self.k == self.rounds || position > self.limit(self.k + 1) {
                return;
            }
            self.accept(e, next);
        }
    }

    /// The highest position from which a block can still come in round `k`.
    fn limit(&self, k: u32) -> u64 {
        self.turn - u64::from(self.graph.skip(k))
    }

    fn accept(&mut self, e: u32, position: u64) {
        let q = self.graph.q();
        let entry = if e == q { this_phase(self.base) } else { last_phase(e, q) };
        self.found.set(self.k, entry);
        self.k += 1;
        self.last = position;
        self.left &= !(1 << e);
    }
}
