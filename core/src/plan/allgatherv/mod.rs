//! Irregular allgather: every rank's contribution, each of its own length, at every rank.
//!
//! [`Region::Input`] is a rank's contribution (in place: it lies in `Output`
//! already), [`Region::Output`] is where all contributions go, each at its
//! owner's displacement, the same at every rank.

pub mod bruck;
pub mod circulant;
pub mod direct;
pub mod hypercube;
pub mod mesh;
pub mod pipelined_ring;
pub mod ring;
pub mod window;

use super::{MAX_COUNTERS, NO_COUNTER, Place, Region, Sizes, Step, Wait};
use crate::error::{Result, argument};
use crate::plan::registry::Algorithm;
use std::ops::Range;

/// The algorithms; the first is the default, and of equally cheap ones the first is taken.
pub(in crate::plan) const ALGORITHMS: &[Algorithm] = &[
    circulant::LINE,
    ring::IRREGULAR,
    pipelined_ring::IRREGULAR,
    bruck::IRREGULAR,
    mesh::IRREGULAR,
    hypercube::IRREGULAR,
];

/// Who contributes how much, and where it goes.
#[derive(Clone, Debug)]
pub struct Contributions {
    counts: Vec<u64>,
    displs: Vec<u64>,
    output: u64,
    in_place: bool,
}

impl Contributions {
    /// `counts[j]` bytes of every rank j, which go to `displs[j]` of everyone's output.
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
    pub fn size(&self) -> u32 {
        self.counts.len() as u32
    }

    /// The bytes of a rank.
    pub fn count(&self, rank: u32) -> u64 {
        self.counts[rank as usize]
    }

    /// Source at `sender`, target and length of a range of `owner`'s contribution, as far as it goes; `None`
    /// if that is nowhere.
    fn piece(&self, sender: u32, owner: u32, range: Range<u64>) -> Option<(Place, Place, u64)> {
        let len = range.end.min(self.count(owner)).checked_sub(range.start).filter(|&len| len > 0)?;
        let target = Place::new(Region::Output, self.displs[owner as usize] + range.start);
        let own = owner == sender && !self.in_place;
        Some((if own { Place::new(Region::Input, range.start) } else { target }, target, len))
    }

    /// The copy of a rank's own contribution, in the last of so many rounds: puts go first.
    fn own(&self, rank: u32, rounds: u32) -> Option<Step> {
        let (source, target, len) = self.piece(rank, rank, 0..u64::MAX).filter(|_| !self.in_place)?;
        Some(Step::copy(rounds.saturating_sub(1), source, target, len, [Wait::NONE; 2], NO_COUNTER))
    }

    fn sizes(&self, rank: u32) -> Sizes {
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
