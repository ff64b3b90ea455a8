//! From phases to rounds: n blocks in n−1+q rounds (Algorithm 6 of the 2022 paper).

use super::Circulant;

/// One round of an n-block broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Which round, 0 .. n−1+q.
    pub index: u32,
    /// Which round of its phase, 0 .. q: the partners are skip(k) away.
    pub k: u32,
    /// What to add to a schedule's entry k to get a block number; see [`block`].
    pub offset: i64,
}

/// The block that schedule entry `entry` stands for in a round with this `offset`, of `n` blocks.
///
/// `None`: nothing moves (a block of a virtual round). Numbers past the end mean the last block, which
/// happens in the last phase only.
pub fn block(entry: i8, offset: i64, n: u32) -> Option<u32> {
    let number = u64::try_from(offset + i64::from(entry)).ok()?;
    let last = n.checked_sub(1)?;
    Some(u32::try_from(number).map_or(last, |number| number.min(last)))
}

impl Circulant {
    /// The rounds that broadcast `n` blocks: n−1+q of them, none if `n` is 0 or p is 1.
    ///
    /// The phases are counted so that the last one ends with the last round; x = −(n−1) mod q virtual
    /// rounds, in which nothing moves, are taken as done before the first.
    ///
    /// ```
    /// use circulant_core::schedule::{Circulant, block};
    ///
    /// let (c, n) = (Circulant::new(9), 5);
    /// let recv = c.recv(7);
    /// let got = c.rounds(n).map(|round| block(recv[round.k as usize], round.offset, n));
    /// assert_eq!(got.flatten().collect::<std::collections::BTreeSet<_>>().len(), 5);
    /// assert_eq!(c.rounds(n).len(), 5 - 1 + 4);
    /// ```
    ///
    /// # Panics
    /// If n−1+q exceeds `u32::MAX`.
    pub fn rounds(&self, n: u32) -> Rounds {
        let q = self.q();
        if q == 0 || n == 0 {
            return Rounds { q: 1, x: 0, next: 0, end: 0 };
        }
        let end = (n - 1).checked_add(q);
        assert!(end.is_some(), "{n} blocks are too many to count the rounds");
        Rounds { q, x: (q - (n - 1) % q) % q, next: 0, end: end.unwrap_or(0) }
    }
}

/// The rounds of a broadcast, in order; from [`Circulant::rounds`].
#[derive(Clone, Debug)]
pub struct Rounds {
    q: u32,
    /// The virtual rounds before the first.
    x: u32,
    next: u32,
    end: u32,
}

impl Iterator for Rounds {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        let index = self.next;
        if index >= self.end {
            return None;
        }
        self.next += 1;
        // Counted with the virtual rounds, round number i = index + x is round k = i mod q of its phase,
        // and the phase adds i − k to the schedule's blocks, less the x blocks that never were.
        let k = (index % self.q + self.x) % self.q;
        Some(Round { index, k, offset: i64::from(index) - i64::from(k) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Rounds {}
