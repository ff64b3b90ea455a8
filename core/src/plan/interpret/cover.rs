//! Which bytes of a region were written: each at most once.

/// Regions up to this many bytes are kept as one bit per byte: 1 MiB of bits. Chosen, to bound the memory of proofs;
/// longer ones are kept as ranges.
const MAX_BITMAP_BYTES: u64 = 8 << 20;

/// The bytes written so far.
#[derive(Debug)]
pub(super) struct Cover {
    size: u64,
    total: u64,
    bits: Vec<u64>,
    /// (begin, end), for large regions; judged in the end.
    ranges: Vec<(u64, u64)>,
}

impl Cover {
    pub(super) fn new(size: u64) -> Self {
        let words = if size <= MAX_BITMAP_BYTES { size.div_ceil(64) } else { 0 };
        Self { size, total: 0, bits: vec![0; usize::try_from(words).unwrap_or(0)], ranges: Vec::new() }
    }

    /// Writes a range; false if it is out of bounds or some of it was written before.
    pub(super) fn write(&mut self, offset: u64, len: u64) -> bool {
        let Some(end) = offset.checked_add(len).filter(|&end| end <= self.size) else { return false };
        self.total += len;
        if self.size > MAX_BITMAP_BYTES {
            self.ranges.push((offset, end));
            return true;
        }
        let mut at = offset;
        while at < end {
            let (word, bit) = (at / 64, at % 64);
            let n = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - n)) << bit;
            let Some(word) = usize::try_from(word).ok().and_then(|word| self.bits.get_mut(word)) else {
                return false;
            };
            if *word & mask != 0 {
                return false;
            }
            *word |= mask;
            at += n;
        }
        true
    }

    /// How many bytes were written, or `None` if a byte was written twice.
    pub(super) fn total(&mut self) -> Option<u64> {
        self.ranges.sort_unstable();
        self.ranges.windows(2).all(|w| w[0].1 <= w[1].0).then_some(self.total)
    }
}
