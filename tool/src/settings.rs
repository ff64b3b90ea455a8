//! The eight settings of Kang et al. 2019 for allgather(v) between two groups, as `bench` and `sim` have them.

/// Sizes of the groups, and what their ranks contribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// What it looks like, for --help.
    pub(crate) about: &'static str,
    /// The groups' sizes are as 25 to 7; else equal.
    uneven: bool,
    /// What a rank of A and a rank of B contributes, as parts of the largest.
    parts: [f64; 2],
    /// Rank i in proportion to i+1.
    arithmetic: bool,
}

const fn setting(
    name: &'static str,
    about: &'static str,
    uneven: bool,
    parts: [f64; 2],
    arithmetic: bool,
) -> Setting {
    Setting { name, about, uneven, parts, arithmetic }
}

/// s1 to s4 are of equal contributions within a group, s5 to s8 for allgatherv. That A sends four times as much
/// in s3, and B in s4, is not said: the expected gains follow from it.
pub(crate) const SETTINGS: [Setting; 8] = [
    setting("s1", "equal groups, equal blocks", false, [1.0, 1.0], false),
    setting("s2", "25:7 ranks, equal blocks", true, [1.0, 1.0], false),
    setting("s3", "25:7 ranks, A's blocks four times B's", true, [1.0, 0.25], false),
    setting("s4", "25:7 ranks, B's blocks four times A's", true, [0.25, 1.0], false),
    setting("s5", "equal groups, equal blocks", false, [1.0, 1.0], false),
    setting("s6", "equal groups, rank i in proportion to i+1", false, [1.0, 1.0], true),
    setting("s7", "25:7 ranks, equal blocks", true, [1.0, 1.0], false),
    setting("s8", "25:7 ranks, rank i in proportion to i+1", true, [1.0, 1.0], true),
];

impl Setting {
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|s| s.name == name)
    }

    /// Whether it is for allgatherv.
    pub(crate) fn irregular(&self) -> bool {
        self.name > "s4"
    }

    /// The ranks of group A, of `p` ≥ 2 in both.
    pub(crate) fn first(&self, p: u32) -> u32 {
        let first = if self.uneven { (p * 25 + 16) / 32 } else { p / 2 };
        first.clamp(1, p.saturating_sub(1).max(1))
    }

    /// What every rank contributes when the largest block has `bytes`: whole 4-byte units; where there are bytes, a block
    /// that does not rise has one at least.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sizes below 2^48
    pub(crate) fn counts(&self, bytes: u64, first: u32, p: u32) -> Vec<u64> {
        let least = if bytes == 0 { 0.0 } else { 1.0 };
        let largest = self.parts.map(|part| ((bytes / 4) as f64 * part).max(least) as u64);
        let count = |rank: u32| {
            let (group, i, size) = if rank < first { (0, rank, first) } else { (1, rank - first, p - first) };
            match self.arithmetic {
                true => largest[group] * u64::from(i + 1) / u64::from(size) * 4,
                false => largest[group] * 4,
            }
        };
        (0..p).map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gains that the paper prints are (M + 3K_A + 3K_B)/M of these settings.
    #[test]
    fn the_gains_follow_from_the_settings() {
        let printed = [7.0, 4.84, 4.21, 6.68, 7.0, 7.0, 4.84, 4.84];
        for (s, printed) in SETTINGS.iter().zip(printed) {
            let (p, bytes) = (6400, 1 << 20);
            let first = s.first(p);
            let counts = s.counts(bytes, first, p);
            let (a, b) = counts.split_at(first as usize);
            let (a, b): (u64, u64) = (a.iter().sum(), b.iter().sum());
            let gain = 1.0 + 3.0 * (a + b) as f64 / a.max(b) as f64;
            assert!((gain - printed).abs() < 0.006, "{}: {gain}", s.name);
        }
        let s3 = Setting::find("s3").unwrap();
        assert_eq!(s3.counts(400, 2, 3), [400, 400, 100]);
        assert_eq!((s3.counts(4, 2, 3), s3.counts(0, 2, 3)), (vec![4; 3], vec![0; 3]));
        assert_eq!(Setting::find("s2").unwrap().first(64), 50);
        assert_eq!(Setting::find("s2").unwrap().first(2), 1);
    }
}
