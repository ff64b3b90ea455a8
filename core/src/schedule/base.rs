//! The base block: the first block that a rank ever gets.

use super::Circulant;

impl Circulant {
    /// The base block of rank `r`: the smallest index in the greedy sum of distinct skips that makes r.
    ///
    /// The root's is q by convention (Algorithm 2 of the paper leaves it undefined). O(q).
    ///
    /// # Panics
    /// If `r` ≥ p.
    pub fn base(&self, r: u32) -> u32 {
        self.must_be_rank(r);
        let mut rest = r;
        let mut k = self.q();
        while rest > 0 {
            k = self.reach(rest) - 1;
            rest -= self.at(k);
        }
        k
    }

    /// The round of a phase in which rank `r` > 0 gets its base block: the K with
    /// skips\[K] ≤ r < skips\[K+1], its home range.
    pub(super) fn home(&self, r: u32) -> u32 {
        self.reach(r) - 1
    }
}
