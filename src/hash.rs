//! The 64-bit hash by which ranks compare calls, settings and places. It is the same in every build.

#![forbid(unsafe_code)]

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
