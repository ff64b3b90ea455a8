//! The send schedule in O(log p): what the receiver expects, by a closed rule for most rounds.

use super::Circulant;
use super::skips::{Entries, last_phase, this_phase};

impl Circulant {
    /// The send schedule of rank `r`: entry k is the block that it sends in round k of a phase.
    ///
    /// It is what the receiver expects, `recv((r + skip(k)) mod p)[k]`, found with at most a handful of
    /// receivers' schedules (5 was the most ever seen). O(q), no allocation. Whoever has the whole
    /// [`recv_table`](Self::recv_table) reads the sends from it.
    ///
    /// # Panics
    /// If `r` ≥ p.
    pub fn send(&self, r: u32) -> Entries {
        self.send_counted(r).0
    }

    /// The send schedule, and for how many rounds a receiver's schedule was needed.
    pub(super) fn send_counted(&self, r: u32) -> (Entries, u32) {
        let q = self.q();
        let mut sends = Entries::zeroed(self);
        let mut lookups = 0;
        if r == 0 {
            (0..q).for_each(|k| sends.set(k, this_phase(k)));
            return (sends, lookups);
        }
        let mut block = last_phase(self.base(r), q);
        sends.set(0, block);
        block = this_phase(self.base(r));
        // r folded into the segment [0, end) of the ranks that it lies in at level k: all of them get
        // the same block there, unless the receiver falls out of the segment.
        let (mut position, mut end) = (r, self.p());
        for k in (1..q).rev() {
            let skip = self.skip(k);
            let plain;
            if position < skip {
                plain = position + skip < end;
                end = end.min(skip);
            } else {
                block = last_phase(k, q);
                plain = position > skip;
                end -= skip;
                position -= skip;
            }
            if plain {
                sends.set(k, block);
            } else {
                lookups += 1;
                sends.set(k, self.recv_until(self.to(r, k), k + 1)[k as usize]);
            }
        }
        (sends, lookups)
    }
}
