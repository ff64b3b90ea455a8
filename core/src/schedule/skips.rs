//! The circulant graph: Algorithm 1 of the 2022 paper.

use std::fmt;
use std::ops::Deref;

/// Room for this many rounds of a phase; no p up to [`MAX_P`] needs more than 31.
pub const MAX_Q: usize = 32;

/// The largest number of ranks: sums of two ranks fit 32 bits, and so do MPI's ranks.
pub const MAX_P: u32 = i32::MAX as u32;

/// The circulant graph on p ranks, and with it all their schedules.
///
/// Ranks are relative to the root, which is rank 0 here. In round k of a phase rank r sends to
/// `(r + skip(k)) mod p` and receives from `(r - skip(k)) mod p`.
///
/// ```
/// let c = circulant_core::schedule::Circulant::new(20);
/// assert_eq!(c.skips(), [1, 2, 3, 5, 10, 20]);
/// assert_eq!((c.base(8), &c.recv(8)[..]), (2, &[-4, -5, -2, 2, -1][..]));
/// assert_eq!(c.send(8)[..], [-3, -3, -4, -2, 2]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Circulant {
    p: u32,
    q: u32,
    skips: [u32; MAX_Q + 1],
}

impl Circulant {
    /// The graph on `p` ranks (Algorithm 1: the skips by halving p, rounding up).
    ///
    /// # Panics
    /// If `p` is 0 or above [`MAX_P`].
    pub const fn new(p: u32) -> Self {
        assert!(p >= 1 && p <= MAX_P, "the number of ranks must be 1 to 2^31-1");
        let q = u32::BITS - (p - 1).leading_zeros();
        let mut skips = [0; MAX_Q + 1];
        let mut k = q as usize;
        skips[k] = p;
        while k > 0 {
            k -= 1;
            skips[k] = skips[k + 1].div_ceil(2);
        }
        Self { p, q, skips }
    }

    /// The number of ranks.
    pub const fn p(&self) -> u32 {
        self.p
    }

    /// The rounds of a phase, ⌈log2 p⌉.
    pub const fn q(&self) -> u32 {
        self.q
    }

    /// All q+1 skips, ascending; the last is p.
    pub fn skips(&self) -> &[u32] {
        &self.skips[..=self.q as usize]
    }

    /// Skip `k`, the distance of the partners in round k.
    ///
    /// # Panics
    /// If `k` > q.
    pub fn skip(&self, k: u32) -> u32 {
        self.skips()[k as usize]
    }

    /// The rank that `r` sends to in round `k` of a phase.
    ///
    /// # Panics
    /// If `r` ≥ p or `k` > q.
    pub fn to(&self, r: u32, k: u32) -> u32 {
        self.must_be_rank(r);
        let to = r + self.skip(k);
        if to < self.p { to } else { to - self.p }
    }

    /// The rank that `r` receives from in round `k` of a phase.
    ///
    /// # Panics
    /// If `r` ≥ p or `k` > q.
    pub fn from(&self, r: u32, k: u32) -> u32 {
        self.must_be_rank(r);
        let skip = self.skip(k);
        if r >= skip { r - skip } else { r + self.p - skip }
    }

    /// Skip `k` ≤ q, unchecked beyond the array's bounds.
    pub(super) fn at(&self, k: u32) -> u32 {
        self.skips[k as usize]
    }

    /// How many skips are ≤ `x` < p, without a search: skip e lies above 2^(e−1) and at most at 2^e, so the
    /// bits of `x` decide all but one.
    pub(super) fn reach(&self, x: u32) -> u32 {
        let bits = u32::BITS - x.leading_zeros();
        bits + u32::from(self.skips[bits as usize] <= x)
    }

    pub(super) fn must_be_rank(&self, r: u32) {
        assert!(r < self.p, "rank {r} of {} ranks", self.p);
    }
}

impl fmt::Debug for Circulant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Circulant")
            .field("p", &self.p)
            .field("q", &self.q)
            .field("skips", &self.skips())
            .finish()
    }
}

/// One rank's schedule for a phase: a block for each of its q rounds, relative to the phase.
///
/// Entries ≥ 0 are first sent by the root in this phase, −q..−1 in the one before.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entries {
    q: u8,
    entries: [i8; MAX_Q],
}

impl Entries {
    /// q zeros, to be filled in.
    #[allow(clippy::cast_possible_truncation)] // q ≤ 31
    pub(super) fn zeroed(c: &Circulant) -> Self {
        Self { q: c.q as u8, entries: [0; MAX_Q] }
    }

    pub(super) fn set(&mut self, k: u32, entry: i8) {
        self.entries[k as usize] = entry;
    }
}

impl Deref for Entries {
    type Target = [i8];
    fn deref(&self) -> &[i8] {
        &self.entries[..usize::from(self.q)]
    }
}

impl AsRef<[i8]> for Entries {
    fn as_ref(&self) -> &[i8] {
        self
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Block `k` of this phase as a schedule entry.
#[allow(clippy::cast_possible_truncation)] // k ≤ q ≤ 31
pub(super) fn this_phase(k: u32) -> i8 {
    k as i8
}

/// Block `k` of the phase before as a schedule entry, k − q.
pub(super) fn last_phase(k: u32, q: u32) -> i8 {
    this_phase(k) - this_phase(q)
}
