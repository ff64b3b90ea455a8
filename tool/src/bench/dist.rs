//! How the bytes of an irregular operation are spread over the ranks: the distributions of the rivals'
//! benchmark, rounded in the same way (whole 4-byte ints; the last rank with a share takes what is left).

/// A named distribution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dist {
    pub(crate) name: &'static str,
    /// What it looks like, for --help.
    pub(crate) about: &'static str,
    /// Weight of rank i among p.
    weight: fn(usize, usize) -> f64,
    /// The rest goes to the last rank, though it may have no share.
    rest_to_last: bool,
}

const fn dist(name: &'static str, about: &'static str, weight: fn(usize, usize) -> f64) -> Dist {
    Dist { name, about, weight, rest_to_last: false }
}

/// All of them, in the order in which they are run.
pub(crate) const DISTS: [Dist; 7] = [
    dist("regular", "the same at each rank", |_, _| 1.0),
    dist("broadcast", "all at rank 0", |i, _| if i == 0 { 1.0 } else { 0.0 }),
    dist("spike", "half at rank 0, the rest evenly", |i, p| match (i, p) {
        (0, _) => 0.5,
        (_, p) => 0.5 / (p - 1) as f64,
    }),
    dist("half", "evenly at the even ranks", |i, _| if i % 2 == 0 { 1.0 } else { 0.0 }),
    dist("linear", "rank i in proportion to p-1-i", |i, p| (p - 1 - i) as f64),
    dist("geometric", "1, 2, 4, … ranks share equally much", |i, _| 1.0 / (1u64 << (i + 1).ilog2()) as f64),
    Dist { rest_to_last: true, ..dist("irr3", "rank i in proportion to i mod 3", |i, _| (i % 3) as f64) },
];

impl Dist {
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        DISTS.iter().find(|d| d.name == name)
    }

    /// Bytes of each of `p` ≥ 1 ranks, `bytes` in all. Divided in whole ints; what a total that is no
    /// multiple of 4 has over goes to the rank that takes the rest.
    pub(crate) fn counts(&self, bytes: u64, p: usize) -> Vec<u64> {
        let (mut counts, last) = self.divide(bytes / 4, p);
        for c in &mut counts {
            *c *= 4;
        }
        counts[last] += bytes % 4;
        counts
    }

    /// Elements of each of `p` ≥ 1 ranks, `total` in all.
    pub(crate) fn shares(&self, total: u64, p: usize) -> Vec<u64> {
        self.divide(total, p).0
    }

    /// The shares, and which rank takes the rest.
    #[allow(clippy::cast_possible_truncation)] // the rivals' benchmark cuts off the fraction
    #[allow(clippy::cast_sign_loss)] // weights are not negative
    fn divide(&self, total: u64, p: usize) -> (Vec<u64>, usize) {
        let mut weights: Vec<f64> = (0..p).map(|i| (self.weight)(i, p)).collect();
        let mut sum: f64 = weights.iter().sum();
        if sum == 0.0 {
            weights[p - 1] = 1.0;
            sum = 1.0;
        }
        let mut counts: Vec<u64> = weights.iter().map(|w| (total as f64 * (w / sum)) as u64).collect();
        let used: u64 = counts.iter().sum();
        let mut last = weights.iter().rposition(|w| *w > 0.0).unwrap_or(p - 1);
        if self.rest_to_last {
            last = p - 1;
        }
        // Rounding up can only happen far beyond any memory; even then the total is kept.
        let mut surplus = used.saturating_sub(total);
        for c in counts.iter_mut().rev() {
            let less = surplus.min(*c);
            *c -= less;
            surplus -= less;
        }
        counts[last] += total.saturating_sub(used);
        (counts, last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(name: &str, bytes: u64, p: usize) -> Vec<u64> {
        Dist::find(name).unwrap().counts(bytes, p)
    }

    /// By hand from the rivals' benchmark: n ints, n·(w/Σw) cut off, the rest to the last with a share.
    #[test]
    fn as_the_rivals_divide() {
        let ints = |name: &str, n: u64, p: usize| -> Vec<u64> {
            counts(name, 4 * n, p).iter().map(|c| c / 4).collect()
        };
        assert_eq!(ints("regular", 10, 4), [2, 2, 2, 4]);
        assert_eq!(ints("regular", 1, 3), [0, 0, 1]);
        assert_eq!(ints("broadcast", 10, 4), [10, 0, 0, 0]);
        assert_eq!(ints("spike", 100, 5), [50, 12, 12, 12, 14]);
        assert_eq!(ints("spike", 100, 1), [100]);
        assert_eq!(ints("half", 100, 5), [33, 0, 33, 0, 34]);
        assert_eq!(ints("half", 100, 6), [33, 0, 33, 0, 34, 0]);
        assert_eq!(ints("linear", 100, 5), [40, 30, 20, 10, 0]);
        assert_eq!(ints("linear", 100, 4), [50, 33, 17, 0]);
        assert_eq!(ints("linear", 7, 1), [7]);
        // Weights 1, ½ ½, ¼ ×4, ⅛ … : Σ = 3 for p = 7, 3 + 1/8 for p = 8.
        assert_eq!(ints("geometric", 120, 7), [40, 20, 20, 10, 10, 10, 10]);
        assert_eq!(ints("geometric", 25, 8), [8, 4, 4, 2, 2, 2, 2, 1]);
        assert_eq!(ints("geometric", 3, 2), [2, 1]);
        assert_eq!(ints("irr3", 100, 7), [0, 16, 33, 0, 16, 33, 2]);
        assert_eq!(ints("irr3", 100, 3), [0, 33, 67]);
        assert_eq!(ints("irr3", 5, 1), [5]);
        assert_eq!(ints("irr3", 5, 4), [0, 1, 3, 1]);
    }

    #[test]
    fn odd_sizes_give_the_remainder_to_the_same_rank() {
        assert_eq!(counts("regular", 43, 4), [8, 8, 8, 19]);
        assert_eq!(counts("broadcast", 3, 4), [3, 0, 0, 0]);
        assert_eq!(counts("linear", 7, 3), [0, 7, 0]);
        for d in DISTS {
            assert_eq!(d.counts(0, 5), [0; 5]);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(d in 0..DISTS.len(), bytes in 0u64..1 << 40, p in 1usize..700) {
            let counts = DISTS[d].counts(bytes, p);
            prop_assert_eq!(counts.len(), p);
            prop_assert_eq!(counts.iter().sum::<u64>(), bytes);
        }
    }
}
