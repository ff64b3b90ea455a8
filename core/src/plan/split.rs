//! Cutting a message into blocks: nearly equal, and on cache-line borders where that costs no balance.

/// Blocks begin at multiples of this many bytes, unless they would be smaller than it: a cache line of x86-64 and
/// aarch64.
pub const ALIGN: u64 = 64;

/// A message of `bytes` bytes in `blocks` blocks.
///
/// In units of u bytes ([`ALIGN`], or 1 for blocks shorter than that) block i of a message of w units is
/// \[⌊i·w/n⌋, ⌊(i+1)·w/n⌋): the sizes differ by at most one unit, and the longer blocks are spread
/// evenly. With fewer bytes than blocks, some blocks are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Split {
    bytes: u64,
    blocks: u32,
}

impl Split {
    /// Cuts `bytes` bytes into `blocks` blocks (0 counts as 1).
    pub const fn new(bytes: u64, blocks: u32) -> Self {
        Self { bytes, blocks: if blocks == 0 { 1 } else { blocks } }
    }

    /// The length of the message.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of blocks, at least 1.
    pub(crate) const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Where block `i` begins; `i` = n gives the end of the message.
    ///
    /// # Panics
    /// If `i` > n.
    #[allow(clippy::cast_possible_truncation)] // at most `bytes`
    pub(crate) fn start(&self, i: u32) -> u64 {
        assert!(i <= self.blocks, "block {i} of {}", self.blocks);
        let (i, n) = (u64::from(i), u64::from(self.blocks));
        let unit = if self.bytes / n >= ALIGN { ALIGN } else { 1 };
        let units = self.bytes.div_ceil(unit);
        // Division of 128 bits takes ten times as long as this.
        let first = match i.checked_mul(units) {
            Some(product) => product / n,
            None => (u128::from(i) * u128::from(units) / u128::from(n)) as u64,
        };
        first.saturating_mul(unit).min(self.bytes)
    }

    /// Block `i` as (offset, length).
    ///
    /// # Panics
    /// If `i` ≥ n.
    pub fn block(&self, i: u32) -> (u64, u64) {
        if self.blocks == 1 && i == 0 {
            return (0, self.bytes);
        }
        let start = self.start(i);
        (start, self.start(i + 1) - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: u64, n: u32) {
        let split = Split::new(bytes, n);
        let (mut at, mut least, mut most) = (0, u64::MAX, 0);
        for i in 0..n {
            let (offset, len) = split.block(i);
            assert_eq!(offset, at, "{bytes} bytes, block {i} of {n}");
            if bytes / u64::from(n) >= ALIGN {
                assert_eq!(offset % ALIGN, 0);
            }
            (at, least, most) = (at + len, least.min(len), most.max(len));
        }
        assert_eq!(at, bytes);
        let unit = if bytes / u64::from(n) >= ALIGN { ALIGN } else { 1 };
        assert!(most - least <= unit, "{bytes} bytes in {n}: {least} to {most}");
    }

    #[test]
    fn blocks_tile_the_message_evenly() {
        for bytes in (0..700).chain([4095, 4096, 4097, 65_535, 1_000_003, (1 << 32) + 5, u64::MAX]) {
            for n in (1..70).chain([1000]) {
                check(bytes, n);
            }
        }
    }

    #[test]
    fn beyond_four_gigabytes() {
        let split = Split::new(10 << 32, 3);
        assert_eq!(split.start(3), 10 << 32);
        assert!(split.block(2).0 > 6 << 32);
        assert_eq!(Split::new(u64::MAX, 1 << 24).start(1 << 24), u64::MAX);
    }
}
