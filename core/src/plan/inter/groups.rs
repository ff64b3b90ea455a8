//! Two groups of ranks, and what one contributes to the other.

use crate::error::{Result, argument};
use crate::plan::MAX_COUNTERS;
use crate::plan::allgatherv::extent;
use crate::plan::topology::log2_ceil;
use crate::schedule::MAX_P;
use std::ops::Range;

/// Two groups of ranks in one numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    first: u32,
    size: u32,
}

impl Groups {
    /// The first `first` of `size` ranks, and the others.
    ///
    /// # Errors
    /// If a group is empty, or there are too many ranks.
    pub fn new(first: u32, size: u32) -> Result<Self> {
        if first == 0 || first >= size || size > MAX_P {
            return Err(argument(format!("no two groups: {size} ranks, the first {first} of them in one"))
                .help("give each group a rank at least"));
        }
        Ok(Self { first, size })
    }

    /// The number of ranks of both.
    pub(crate) fn size(self) -> u32 {
        self.size
    }

    /// The group of a rank.
    pub(crate) fn own(self, rank: u32) -> Range<u32> {
        if rank < self.first { 0..self.first } else { self.first..self.size }
    }

    /// The other group.
    pub(crate) fn other(self, rank: u32) -> Range<u32> {
        if rank < self.first { self.first..self.size } else { 0..self.first }
    }

    /// A's size and B's.
    pub(crate) fn sizes(self) -> [u32; 2] {
        [self.first, self.size - self.first]
    }

    /// ⌈log2⌉ of the larger group's size: the rounds in which both groups can gather, each for itself.
    pub(crate) fn q(self) -> u32 {
        let [a, b] = self.sizes();
        log2_ceil(a.max(b))
    }
}

/// What one group contributes to the other: as one string of bytes, in the order of ranks.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) from: Range<u32>,
    pub(super) to: Range<u32>,
    /// Where the contributions begin in the string, and its end.
    pub(super) starts: Vec<u64>,
    /// Where they go in the outputs of the receivers.
    pub(super) displs: Vec<u64>,
    /// The length that these outputs must have.
    pub(super) output: u64,
}

impl Stream {
    /// The stream from group `from` to group `to`, of the counts and displacements of all ranks.
    fn new(from: Range<u32>, to: Range<u32>, counts: &[u64], displs: &[u64]) -> Result<Self> {
        let own = from.start as usize..from.end as usize;
        let (Some(counts), Some(displs)) = (counts.get(own.clone()), displs.get(own)) else {
            return Err(argument(format!(
                "{} counts and {} displacements for {} ranks",
                counts.len(),
                displs.len(),
                from.end.max(to.end)
            ))
            .help("give one of each per rank of both groups"));
        };
        let output = extent(counts, displs)?;
        // No sum overflows: the ranges do not overlap and end below 2^64.
        let ends = counts.iter().scan(0, |at, count| {
            *at += count;
            Some(*at)
        });
        let starts = std::iter::once(0).chain(ends).collect();
        Ok(Self { from, to, starts, displs: displs.to_vec(), output })
    }

    /// Both, from A to B and from B to A.
    pub(super) fn both(groups: Groups, counts: &[u64], displs: &[u64]) -> Result<[Self; 2]> {
        if counts.len() != groups.size() as usize || displs.len() != counts.len() {
            return Err(argument(format!(
                "{} counts and {} displacements for {} ranks",
                counts.len(),
                displs.len(),
                groups.size()
            ))
            .help("give one of each per rank of both groups"));
        }
        if groups.size() > MAX_COUNTERS / 4 {
            return Err(argument(format!("counters for each of {} ranks", groups.size()))
                .help(format!("between groups of {} ranks at most", MAX_COUNTERS / 4)));
        }
        let (a, b) = (groups.own(0), groups.other(0));
        let one = Self::new(a.clone(), b.clone(), counts, displs)?;
        Ok([one, Self::new(b, a, counts, displs)?])
    }

    /// Bytes of all contributions.
    pub(super) fn bytes(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The bytes of the contribution of sender `i` of the group.
    pub(super) fn count(&self, i: u32) -> u64 {
        self.starts[i as usize + 1] - self.starts[i as usize]
    }

    /// A range of the string, cut at the contributions' borders: (sender, offset in its contribution, place
    /// in the outputs, length), none empty.
    pub(super) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (u32, u64, u64, u64)> + '_ {
        let first = self.starts.partition_point(|&start| start <= range.start).saturating_sub(1);
        let contributions = (first..self.displs.len()).take_while(move |&i| self.starts[i] < range.end);
        contributions.filter_map(move |i| {
            let (from, to) = (self.starts[i].max(range.start), self.starts[i + 1].min(range.end));
            let offset = from.checked_sub(self.starts[i])?;
            let len = to.checked_sub(from).filter(|&len| len > 0)?;
            Some((u32::try_from(i).ok()?, offset, self.displs[i] + offset, len))
        })
    }

    /// The same as ranges of the outputs, neighbours joined: (place in the outputs, length).
    pub(super) fn runs(&self, range: Range<u64>) -> Vec<(u64, u64)> {
        let mut out: Vec<(u64, u64)> = Vec::new();
        for (_, _, at, len) in self.parts(range) {
            match out.last_mut() {
                Some(last) if last.0 + last.1 == at => last.1 += len,
                _ => out.push((at, len)),
            }
        }
        out
    }
}

/// The counts and displacements of all ranks, where each group's are equal.
pub(super) fn equal(groups: Groups, count: [u64; 2]) -> Result<(Vec<u64>, Vec<u64>)> {
    let (mut counts, mut displs) = (Vec::new(), Vec::new());
    for (count, ranks) in count.into_iter().zip(groups.sizes()) {
        if count.checked_mul(ranks.into()).is_none() {
            return Err(argument(format!("{ranks} contributions of {count} bytes are beyond 2^64 bytes")));
        }
        counts.extend((0..ranks).map(|_| count));
        displs.extend((0..u64::from(ranks)).map(|j| j * count));
    }
    Ok((counts, displs))
}
