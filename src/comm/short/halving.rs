//! Reductions of short vectors: all contributions are copied to one buffer first. Those of 2^k ranks are then reduced in k steps; each step combines the second half of the
//! buffer with the first half by one call of the operator. So 2^k ranks need k calls in place of 2^k − 1, and 63 ranks,
//! whose number has the most blocks, need 20. The reduction tree is that of `ordered`.

use super::levels::Fold;
use super::run::Run;
use crate::error::Result;
use crate::memory::copy_slice;
use crate::ops::Side;
use crate::transport::call_slots::MAX_POST_BYTES;

/// The most bytes of all contributions together that are reduced this way (16 KiB). Chosen: they stay in the L1 cache of a core (32 KiB or more), and the buffer of partial
/// results holds them.
pub(super) const MAX_HALVED_BYTES: usize = MAX_POST_BYTES;

/// The index in the buffer of the contribution of rank `i` of `count`. The ranks are divided into blocks of 2^k, the longest first. Within a block the order is bit-reversed, so
/// that each step of the tree combines the second half of a block with the first half.
fn place(i: usize, count: usize) -> usize {
    // The highest bit in which they differ is the one by which i's block is long.
    let bits = (i ^ count).ilog2();
    let first = count >> bits >> 1 << 1 << bits;
    first + (i - first).reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(0)
}

impl Fold<'_> {
    /// As [`Fold::all`], in the same tree.
    pub(super) fn halved(&mut self, run: &mut Run<'_, '_>) -> Result<()> {
        let (len, count) = (self.levels.len(), run.size());
        self.receive(run)?;
        let all = &mut self.levels.others[..count * len];
        let mut first = 0;
        while first < count {
            let ranks = 1 << (count - first).ilog2();
            let mut width = ranks;
            while width > 1 {
                let (target, source) = all[first * len..][..width * len].split_at_mut(width / 2 * len);
                width /= 2;
                if self.by.is_raw() {
                    // Its function is called for one contribution at a time.
                    let mut pairs = target.chunks_mut(len.max(1)).zip(source.chunks(len.max(1)));
                    pairs
                        .try_for_each(|(target, source)| self.by.reduce(target, source, Side::SourceRight))?;
                } else {
                    self.by.reduce(target, source, Side::SourceRight)?;
                }
            }
            first += ranks;
        }
        // Each block's result stands at its beginning; they are taken together from the right.
        let mut last = count & (count - 1);
        while last > 0 {
            let before = last & (last - 1);
            let (target, source) = all.split_at_mut(last * len);
            self.by.reduce(&mut target[before * len..][..len], &source[..len], Side::SourceRight)?;
            last = before;
        }
        run.counts().reduced_bytes += ((count - 1) * len) as u64;
        copy_slice(&all[..len], self.levels.first);
        Ok(())
    }

    /// Reads the contributions of all ranks, each to its [`place`]: from the next rank on, so that not all read the same post at a time.
    #[inline]
    fn receive(&mut self, run: &mut Run<'_, '_>) -> Result<()> {
        let (len, at, mine, count) = (self.levels.len(), self.at, run.rank(), run.size());
        let member = |i: usize| if i < count - 1 - mine { mine + 1 + i } else { mine + 1 + i - count };
        for i in 0..count {
            run.prefetch(i, count, |i| (member(i), at.posted..at.posted + len))?;
            let to = &mut self.levels.others[place(member(i), count) * len..][..len];
            match self.own {
                Some(own) if member(i) == mine => copy_slice(own, to),
                _ => run.receive(member(i), at, to)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contribution_has_a_place_and_neighbours_stand_half_a_block_apart() {
        for count in 1..=130 {
            let mut places: Vec<_> = (0..count).map(|i| place(i, count)).collect();
            let mut first = 0;
            while first < count {
                let ranks = 1usize << (count - first).ilog2();
                assert_eq!(places[first], first, "a block's result stands at its beginning, {count}");
                for distance in (0..ranks.ilog2()).map(|k| 1 << k) {
                    for i in (0..ranks).step_by(2 * distance) {
                        let apart = places[first + i + distance] - places[first + i];
                        assert_eq!(apart, ranks / 2 / distance, "{i} of {count}, {distance} apart");
                    }
                }
                first += ranks;
            }
            places.sort_unstable();
            assert!(places.iter().copied().eq(0..count));
        }
    }
}
