//! The 64-bit hash by which ranks compare calls, settings and places. It is the same in every build. And a quick one for maps within a
//! process.

#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers of ranks or calls.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<Numbers>>;
/// A set of numbers of ranks.
pub(crate) type NumberSet<K> = HashSet<K, BuildHasherDefault<Numbers>>;

/// Hashes numbers by one multiplication each, where the standard library's hash takes some 80 instructions. It is not for numbers that an
/// adversary chooses; ranks are none (SECURITY.md).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers(u64);

impl Hasher for Numbers {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        // 2^64 divided by the golden ratio.
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// With the upper bits, which depend on all of the number, below, too: maps look at both ends.
    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// FNV-1a by words.
pub(crate) struct Fnv(pub(crate) u64);

impl Fnv {
    pub(crate) fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
    pub(crate) fn word(&mut self, w: u64) {
        // Whole words instead of bytes, with a rotation to spread them.
        self.0 = (self.0 ^ w).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
    }
}

/// A 64-bit digest of bytes.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut h = Fnv::new();
    bytes.iter().for_each(|b| h.word(u64::from(*b)));
    h.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    /// Ranks that follow each other, and those of one node of many, have places of their own in a small table, mostly.
    #[test]
    fn numbers_are_spread() {
        for step in [1, 2, 64, 1 << 16, 1 << 32, (1 << 32) + 1] {
            for shift in [0, 57] {
                let hash = BuildHasherDefault::<Numbers>::default();
                let places: HashSet<u64> =
                    (0..64u64).map(|i| hash.hash_one(i * step) >> shift & 127).collect();
                assert!(places.len() > 32, "step {step}, shift {shift}: {}", places.len());
            }
        }
    }
}
