//! The send schedule in O(log p): what the receiver expects, by a closed rule for most rounds.

use super::Circulant;
use super::skips::{Entries, last_phase, this_phase};

impl Circulant {
    /// The send schedule of rank `r`: entry k is the block that it sends in round k of a phase.
    ///
    /// It is what the receiver expects, `recv((r + skip(k)) mod p)[k]`, found by a rule that needs
    /// few receivers' schedules: about one on average, never more than 5 as far as has been counted. O(q),
    /// no allocation. A caller that has the whole [`recv_table`](Self::recv_table) reads the sends from it.
    ///
    /// # Panics
    /// If `r` ≥ p.
    pub fn send(&self, r: u32) -> Entries {
        self.must_be_rank(r);
        let q = self.q();
        let mut sends = Entries::zeroed(self);
        if r == 0 {
            (0..q).for_each(|k| sends.set(k, this_phase(k)));
            return sends;
        }
        let base = self.base(r);
        sends.set(0, last_phase(base, q));
        let mut block = this_phase(base);
        // Ranks skip.. of a segment [0, end) repeat those below skip: rank skips[k] plays the root there,
        // its base block k of the phase before the new block. So fold r into ever smaller segments; in
        // round k it sends the block of the copy it is in, and only near a segment's end, where the
        // receiver may find a better block, must the receiver be asked (never in round 1, above base 0).
        let (mut position, mut end) = (r, self.p());
        for k in (1..q).rev() {
            let skip = self.at(k);
            let plain;
            if position < skip {
                plain = position + skip < end || (k == 1 && base > 0);
                end = end.min(skip);
            } else {
                block = last_phase(k, q);
                plain = position > skip || k == 1;
                end -= skip;
                position -= skip;
            }
            if plain {
                sends.set(k, block);
            } else {
                sends.set(k, self.recv_until(self.to(r, k), k + 1)[k as usize]);
            }
        }
        sends
    }
}
