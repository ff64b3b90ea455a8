//! Bine butterflies and trees (De Sensi et al., Bine Trees: Enhancing Collective Operations by Optimizing Communication
//! Locality, SC 2025, arXiv 2508.17311), among p ranks, p a power of two; trees among any.
//!
//! In round k of the butterfly an even rank exchanges with the one d_k = 1 − 2 + 4 − … ± 2^k further on (1, −1, 3, −5, 11, …), an
//! odd one with the one d_k before it: numbers to base −2 as a hypercube's are to base 2, and two thirds of its distances. After k rounds a rank has
//! heard of 2^k ranks that follow each other round the ring, itself among them.
//!
//! The tree of a root is the way to it by ascending rounds. With its edges of rounds k as bits, 2^k for the edge of round k, a rank
//! has a *number* by which the tree is the binomial tree on the root.
//!
//! Among other numbers of ranks ([`Numbers`]) the tree is that of the power of two below, and of the first ranks from the root on two make one place in
//! it: the second one is a leaf of the first, by the edge of the lowest bit. So there are q = ⌈log2 p⌉ rounds, and no edge is over one rank longer than among 2^q ranks.
//! (The authors' broadcast, github.com/HLC-Lab/bine-trees, takes powers of two only.) A butterfly of places with two ranks would put what
//! the second one gets, a whole vector of an allgather or allreduce, in a round more: as long as all others together.

use super::{ahead, behind};

/// The partner of `rank` in round `k` of the butterfly.
pub(in crate::plan) fn partner(size: u32, rank: u32, k: u32) -> u32 {
    // |d_k|, and whether even ranks go forward by it.
    let (distance, forward) = (((1u64 << (k + 1)) + 1) / 3, k.is_multiple_of(2));
    let distance = match (distance, forward == rank.is_multiple_of(2)) {
        (distance, true) => distance,
        (distance, false) => u64::from(size) - distance % u64::from(size),
    };
    around(size, u64::from(rank) + distance)
}

/// The first of the 2^k ranks, round the end, that `rank` has heard of before round `k`.
pub(in crate::plan) fn first(size: u32, rank: u32, k: u32) -> u32 {
    let all = (1u64 << k) - 1;
    // Every second bit: how far the ranks before an even rank reach; those behind an odd one as far.
    let before = match rank.is_multiple_of(2) {
        true => all & 0xAAAA_AAAA,
        false => all & 0x5555_5555,
    };
    around(size, u64::from(rank) + u64::from(size) - before % u64::from(size))
}

/// The number of `rank` in the tree of `root`.
pub(in crate::plan) fn number(size: u32, root: u32, rank: u32) -> u32 {
    let (mut at, mut number) = (root, 0);
    for k in (0..size.ilog2()).rev() {
        let behind = around(size, u64::from(rank) + u64::from(size) - u64::from(first(size, at, k)));
        if behind >= 1 << k {
            number |= 1 << k;
            at = partner(size, at, k);
        }
    }
    number
}

/// The rank of this number in the tree of `root`.
pub(in crate::plan) fn rank(size: u32, root: u32, number: u32) -> u32 {
    let edges = (0..size.ilog2()).rev().filter(|k| number >> k & 1 == 1);
    edges.fold(root, |at, k| partner(size, at, k))
}

/// The tree of a root among any number of ranks, as numbers below 2^q.
#[derive(Clone, Copy, Debug)]
pub(in crate::plan) struct Numbers {
    size: u32,
    root: u32,
    /// The places of the tree, a power of two.
    places: u32,
    /// How many places, from the first on, have two ranks each. If there are any, numbers are twice those of places.
    pairs: u32,
}

impl Numbers {
    /// Of `size` ranks, at least one, with this root.
    pub(in crate::plan) fn new(size: u32, root: u32) -> Self {
        let places = 1 << size.max(1).ilog2();
        Self { size, root, places, pairs: size - places }
    }

    /// The number of a rank.
    pub(in crate::plan) fn number(&self, rank: u32) -> u32 {
        if self.pairs == 0 {
            return number(self.size, self.root, rank);
        }
        let further = behind(self.size, rank, self.root);
        let (place, second) = match further < 2 * self.pairs {
            true => (further / 2, further % 2),
            false => (further - self.pairs, 0),
        };
        2 * number(self.places, 0, place) + second
    }

    /// The rank of a number, if there is one.
    pub(in crate::plan) fn rank(&self, number: u32) -> Option<u32> {
        if self.pairs == 0 {
            return (number < self.size).then(|| rank(self.size, self.root, number));
        }
        let (at, second) = (number / 2, number % 2);
        let place = (at < self.places).then(|| rank(self.places, 0, at))?;
        let further = match place < self.pairs {
            true => 2 * place + second,
            false if second == 0 => place + self.pairs,
            false => return None,
        };
        Some(ahead(self.size, self.root, further))
    }
}

#[allow(clippy::cast_possible_truncation)] // below `size`
fn around(size: u32, rank: u64) -> u32 {
    (rank % u64::from(size)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distances of the paper; partners are mutual; each round joins two runs of ranks to one; numbers are one-to-one, and the edge
    /// of the lowest bit leads to the parent.
    #[test]
    fn butterflies_and_trees() {
        let distances: Vec<u32> = (0..6).map(|k| partner(64, 0, k)).collect();
        assert_eq!(distances, [1, 63, 3, 59, 11, 43]);
        for size in [1u32, 2, 4, 8, 32, 128, 1024] {
            for rank in 0..size {
                assert_eq!(first(size, rank, 0), rank);
                for k in 0..size.ilog2() {
                    let other = partner(size, rank, k);
                    assert_eq!(partner(size, other, k), rank);
                    let mut firsts = [rank, other].map(|rank| first(size, rank, k));
                    if (firsts[0] + (1 << k)) % size != firsts[1] {
                        firsts.reverse();
                    }
                    assert_eq!((firsts[0] + (1 << k)) % size, firsts[1], "{size} {rank} {k}");
                    if k + 1 < size.ilog2() {
                        assert_eq!(first(size, rank, k + 1), firsts[0]);
                    }
                }
            }
            for root in [0, size / 3, size - 1] {
                let mut ranks: Vec<u32> = (0..size).map(|number| super::rank(size, root, number)).collect();
                assert!((0..size).all(|n| number(size, root, ranks[n as usize]) == n), "{size} {root}");
                ranks.sort_unstable();
                assert!((0..size).eq(ranks));
            }
        }
    }
    /// Of any number of ranks each has one number below 2^q, the root 0; all parents are there, and no edge is over one rank longer than
    /// among 2^q ranks.
    #[test]
    fn trees_of_any_number_of_ranks() {
        for size in (1..200u32).chain([1000, 1023, 1025]) {
            let q = crate::plan::topology::log2_ceil(size);
            for root in [0, size / 3, size - 1] {
                let numbers = Numbers::new(size, root);
                assert_eq!(numbers.number(root), 0);
                for rank in 0..size {
                    let number = numbers.number(rank);
                    assert!(number >> q == 0 && numbers.rank(number) == Some(rank), "{size} {root} {rank}");
                    let k = number.trailing_zeros();
                    if number > 0 {
                        let parent = numbers.rank(number - (1 << k)).unwrap();
                        let apart = rank.abs_diff(parent).min(size - rank.abs_diff(parent));
                        assert!(apart <= ((2 << k) + 1) / 3 + 1, "{size} {root} {rank}");
                    }
                }
                let some = (0..1 << q).filter(|number| numbers.rank(*number).is_some());
                assert_eq!(some.count(), size as usize);
            }
        }
    }
}
