//! What the ranks contribute, where it goes, and in how many blocks.

use crate::error::{Result, argument};
use crate::plan::partial::plus;
use crate::plan::{MAX_COUNTERS, NO_COUNTER, Place, Region, Sizes, Step, Wait};
use std::ops::Range;

/// How much each rank contributes, and where it goes.
#[derive(Clone, Debug)]
pub struct Contributions {
    counts: Vec<u64>,
    displs: Vec<u64>,
    output: u64,
    in_place: bool,
}

impl Contributions {
    /// `counts[j]` bytes of every rank j, which go to `displs[j]` of every rank's output.
    ///
    /// # Errors
    /// If they do not fit each other (see [`extent`]), or there are more than [`MAX_COUNTERS`] ranks.
    pub fn new(counts: &[u64], displs: &[u64], in_place: bool) -> Result<Self> {
        let output = extent(counts, displs)?;
        if counts.len() > MAX_COUNTERS as usize {
            return Err(argument(format!("a counter for each of {} ranks, of {MAX_COUNTERS}", counts.len()))
                .help("choose the circulant algorithm"));
        }
        Ok(Self { counts: counts.to_vec(), displs: displs.to_vec(), output, in_place })
    }

    /// `count` bytes of each of `size` ranks, rank j's at j·`count`.
    ///
    /// # Errors
    /// As [`Contributions::new`].
    pub fn equal(size: u32, count: u64, in_place: bool) -> Result<Self> {
        if count.checked_mul(u64::from(size)).is_none() {
            return Err(argument(format!("{size} contributions of {count} bytes are beyond 2^64 bytes")));
        }
        let displs: Vec<u64> = (0..u64::from(size)).map(|j| j * count).collect();
        Self::new(&vec![count; size as usize], &displs, in_place)
    }

    /// The number of ranks.
    #[allow(clippy::cast_possible_truncation)] // at most MAX_COUNTERS
    pub(crate) fn size(&self) -> u32 {
        self.counts.len() as u32
    }

    /// The bytes of a rank.
    pub(crate) fn count(&self, rank: u32) -> u64 {
        self.counts[rank as usize]
    }

    /// Where the contribution of a rank belongs.
    pub(super) fn target(&self, rank: u32) -> Place {
        Place::new(Region::Output, self.displs[rank as usize])
    }

    /// Source at `sender`, target and length of a range of `owner`'s contribution, as far as it goes; `None`
    /// if that is nowhere.
    pub(super) fn piece(&self, sender: u32, owner: u32, range: Range<u64>) -> Option<(Place, Place, u64)> {
        let len = range.end.min(self.count(owner)).checked_sub(range.start).filter(|&len| len > 0)?;
        let target = plus(self.target(owner), range.start);
        let own = owner == sender && !self.in_place;
        Some((if own { Place::new(Region::Input, range.start) } else { target }, target, len))
    }

    /// The copy of a rank's own contribution, in the last of this many rounds: puts go first.
    pub(super) fn own(&self, rank: u32, rounds: u32) -> Option<Step> {
        let (source, target, len) = self.piece(rank, rank, 0..u64::MAX).filter(|_| !self.in_place)?;
        Some(Step::copy(rounds.saturating_sub(1), source, target, len, [Wait::NONE; 2], NO_COUNTER))
    }

    pub(super) fn sizes(&self, rank: u32) -> Sizes {
        let input = if self.in_place { 0 } else { self.count(rank) };
        Sizes { input, output: self.output, ..Sizes::default() }
    }
}

/// Checks that there is one displacement per count and that no two contributions overlap; gives the
/// length that the output must have.
///
/// # Errors
/// If the lists differ in length, are empty, or describe overlapping or impossibly long ranges.
pub fn extent(counts: &[u64], displs: &[u64]) -> Result<u64> {
    if counts.len() != displs.len() || counts.is_empty() {
        return Err(argument(format!("{} counts and {} displacements", counts.len(), displs.len()))
            .help("give one of each per rank"));
    }
    let mut used: Vec<_> = (0..counts.len()).filter(|&i| counts[i] > 0).collect();
    used.sort_by_key(|&i| displs[i]);
    let mut end = 0;
    for (nth, &i) in used.iter().enumerate() {
        if nth > 0 && displs[i] < end {
            return Err(argument(format!(
                "the contributions of ranks {} and {i} overlap in the output",
                used[nth - 1]
            )));
        }
        end = displs[i]
            .checked_add(counts[i])
            .ok_or_else(|| argument(format!("the contribution of rank {i} ends beyond 2^64 bytes")))?;
    }
    Ok(end)
}

/// How many blocks each owner's contribution is cut into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// The same number for all.
    Equal(u32),
    /// A number for each owner.
    PerOwner(Vec<u32>),
}
