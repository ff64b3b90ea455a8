//! The receive schedule in O(log p): a depth-first search for sums of distinct skips.
//!
//! A block reaches rank r along a path of edges, so the ranks r can hear of are r minus sums of
//! distinct skips. The search walks upwards from the root, largest skips first, one turn of the circle
//! ahead (to T = p + r, so that no position is negative), and takes for rounds 0, 1, … the highest
//! positions that still fit under T − skips\[k\]; the last index of the path names the block. Every index
//! is used once, so every block arrives once. The path is a set of falling indices, hence a mask, and the
//! search needs no stack. The idea is that of the O(log p) constructions which
//! followed the 2022 paper (arXiv 2312.11236, 2407.18004).

use super::Circulant;
use super::skips::{Entries, last_phase, this_phase};

impl Circulant {
    /// The receive schedule of rank `r`: entry k is the block that arrives in round k of a phase.
    ///
    /// The root's row is computed like any other; no rank ever sends to it. O(q), no allocation.
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
        let (base, q, turn) = (self.base(r), self.q(), u64::from(self.p() + r));
        let skip = |k| u64::from(self.at(k));
        let mut found = Entries::zeroed(self);
        // Bit e of a mask: index e. Index q, a skip of p, is "from the root in this very phase".
        let mut left = ((2u64 << q) - 1) & !(1 << base);
        // The path: its indices fall, its skips add up to `position`; `below`: what may extend it.
        let (mut path, mut position, mut below) = (0u64, 0, u64::MAX);
        // For round k: the highest position allowed (positions fall from round to round), and the one
        // below which a path may be extended, as some higher position may still fit.
        let mut k = 0;
        let (mut highest, mut extend) = (turn - skip(0), turn - skip(u32::min(1, q)));
        while k < rounds {
            let candidates = left & below;
            let (e, next);
            if candidates != 0 {
                e = candidates.ilog2();
                next = position + skip(e);
                below = (1 << e) - 1;
                if next > highest {
                    continue;
                }
                if next <= extend {
                    path |= 1 << e;
                    position = next;
                    continue;
                }
            } else {
                // Back by one index, whose position is then itself the one to take.
                if path == 0 {
                    break;
                }
                e = path.trailing_zeros();
                next = position;
                path ^= 1 << e;
                position -= skip(e);
                below = (1 << e) - 1;
            }
            if position > extend {
                below = 0; // the shorter path's own position now fits round k: back to it
                continue;
            }
            found.set(k, if e == q { this_phase(base) } else { last_phase(e, q) });
            left &= !(1 << e);
            k += 1;
            highest = u64::min(turn - skip(k), next - 1);
            extend = turn - skip(u32::min(k + 1, q));
        }
        found
    }
}
