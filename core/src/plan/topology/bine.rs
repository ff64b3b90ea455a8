//! Bine butterflies and trees (De Sensi et al., Bine Trees: Enhancing Collective Operations by Optimizing Communication
//! Locality, SC 2025, arXiv 2508.17311), among p ranks, p a power of two.
//!
//! In round k of the butterfly an even rank exchanges with the one d_k = 1 − 2 + 4 − … ± 2^k further on (1, −1, 3, −5, 11, …), an
//! odd one with the one d_k before it: numbers to base −2 as a hypercube's are to base 2, and two thirds of its distances. After k rounds a rank has
//! heard of 2^k ranks that follow each other round the ring, itself among them.
//!
//! The tree of a root is the way to it by ascending rounds. With its edges of rounds k as bits, 2^k for the edge of round k, a rank
//! has a *number* by which the tree is the binomial tree on the root.

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
}
