//! How a buffer is divided among ranks or neighbours: counts and displacements.

use crate::error::{Result, argument};
use std::borrow::Cow;
use std::ops::Range;

mod sealed {
    pub trait Sealed {}
    impl<C: AsRef<[usize]> + ?Sized> Sealed for &C {}
    impl<C: ?Sized, D: ?Sized> Sealed for (&C, &D) {}
    impl Sealed for &super::Partition {}
}

/// The parts of a buffer, one of each rank (or neighbour): how many elements it has, and where it begins. Calls take it by
/// reference, so that one which is kept costs nothing.
///
/// ```
/// use circulant::comm::Partition;
///
/// // Rank r has r + 1 elements.
/// let parts = Partition::contiguous([1, 2, 3])?;
/// assert_eq!((parts.displs(), parts.range(2), parts.extent()), (&[0, 1, 3][..], 3..6, 6));
/// assert_eq!(Partition::equal(3, 4)?.displs(), [0, 4, 8]);
/// // An element that is in no part before each of them.
/// assert_eq!(Partition::with_displs([1, 2, 3], [1, 3, 6])?.extent(), 9);
/// # Ok::<(), circulant::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Partition {
    counts: Vec<usize>,
    displs: Vec<usize>,
    extent: usize,
}

impl Partition {
    /// Parts of this many elements, one behind the other.
    ///
    /// # Errors
    /// When they are more than a `usize` can count.
    pub fn contiguous(counts: impl Into<Vec<usize>>) -> Result<Self> {
        let counts = counts.into();
        let displs = behind(&counts);
        Self::with_displs(counts, displs)
    }

    /// `parts` parts of `count` elements each, one behind the other.
    ///
    /// # Errors
    /// When they are more than a `usize` can count.
    pub fn equal(parts: usize, count: usize) -> Result<Self> {
        Self::contiguous(vec![count; parts])
    }

    /// Parts of `counts[i]` elements from element `displs[i]` on. Parts that are received must not overlap, which the call
    /// checks; where nothing is, the displacement does not matter.
    ///
    /// # Errors
    /// When the lists differ in length, or a part ends behind what a `usize` can count.
    pub fn with_displs(counts: impl Into<Vec<usize>>, displs: impl Into<Vec<usize>>) -> Result<Self> {
        let (counts, displs) = (counts.into(), displs.into());
        if counts.len() != displs.len() {
            return Err(argument(format!("{} counts and {} displacements", counts.len(), displs.len())));
        }
        let mut extent = 0;
        for (i, (count, displ)) in counts.iter().zip(&displs).enumerate().filter(|(_, (n, _))| **n > 0) {
            let end = displ.checked_add(*count);
            let far =
                || argument(format!("the {count} elements of part {i} at {displ} are more than memory"));
            extent = extent.max(end.ok_or_else(far)?);
        }
        Ok(Self { counts, displs, extent })
    }

    /// How many elements each part has.
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Where each part begins.
    pub fn displs(&self) -> &[usize] {
        &self.displs
    }

    /// The elements of a part, to index a buffer with.
    ///
    /// # Panics
    /// When there is no such part.
    pub fn range(&self, part: usize) -> Range<usize> {
        let start = if self.counts[part] == 0 { 0 } else { self.displs[part] };
        start..start + self.counts[part]
    }

    /// Where the last part ends: a buffer must have at least this many elements.
    pub fn extent(&self) -> usize {
        self.extent
    }
}

/// What calls take for a [`Partition`]: `&Partition`; `&counts` alone (a slice, an array or a `Vec`), of parts one behind the
/// other; or `(&counts, &displs)`. Of counts alone each call computes the displacements. Sealed: there are no others.
///
/// ```compile_fail,E0277
/// struct Mine;
/// impl circulant::comm::Parts for Mine {
///     fn counts(&self) -> &[usize] {
///         &[]
///     }
///     fn displs(&self) -> Option<&[usize]> {
///         None
///     }
/// }
/// ```
pub trait Parts: sealed::Sealed {
    /// How many elements each part has.
    fn counts(&self) -> &[usize];
    /// Where each part begins; `None`: one behind the other.
    fn displs(&self) -> Option<&[usize]>;
}

impl<C: AsRef<[usize]> + ?Sized> Parts for &C {
    fn counts(&self) -> &[usize] {
        (**self).as_ref()
    }
    fn displs(&self) -> Option<&[usize]> {
        None
    }
}

impl<C: AsRef<[usize]> + ?Sized, D: AsRef<[usize]> + ?Sized> Parts for (&C, &D) {
    fn counts(&self) -> &[usize] {
        self.0.as_ref()
    }
    fn displs(&self) -> Option<&[usize]> {
        Some(self.1.as_ref())
    }
}

impl Parts for &Partition {
    fn counts(&self) -> &[usize] {
        &self.counts
    }
    fn displs(&self) -> Option<&[usize]> {
        Some(&self.displs)
    }
}

/// Counts and displacements.
pub(super) fn lists(parts: &impl Parts) -> (&[usize], Cow<'_, [usize]>) {
    let counts = parts.counts();
    (counts, parts.displs().map_or_else(|| Cow::Owned(behind(counts)), Cow::Borrowed))
}

/// Where parts of this many elements begin that stand one behind the other. A sum that overflows stays at the largest number, where no
/// element fits.
fn behind(counts: &[usize]) -> Vec<usize> {
    let next = |end: &mut usize, n: &usize| Some(std::mem::replace(end, end.saturating_add(*n)));
    counts.iter().scan(0, next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_checked_when_it_is_made() {
        let parts = Partition::with_displs([2, 0, 1], [1, usize::MAX, 4]).unwrap();
        assert_eq!((parts.extent(), parts.range(0), parts.range(1), parts.range(2)), (5, 1..3, 0..0, 4..5));
        assert_eq!(Partition::contiguous([]).unwrap().extent(), 0);
        Partition::with_displs([1], []).unwrap_err();
        Partition::with_displs([1], [usize::MAX]).unwrap_err();
        Partition::contiguous([usize::MAX, 1, 1]).unwrap_err();
        Partition::equal(3, usize::MAX / 2).unwrap_err();
        assert_eq!(Partition::with_displs([2, 3], [0, 2]).unwrap(), Partition::contiguous([2, 3]).unwrap());
    }

    #[test]
    fn lists_are_taken_as_they_are() {
        let (counts, displs) = (vec![3, 1], [1, 0]);
        assert_eq!(lists(&&counts), (&[3, 1][..], Cow::Borrowed(&[0, 3][..])));
        let kept = Partition::with_displs(counts.clone(), displs).unwrap();
        for (is, borrowed) in [lists(&(&counts, &displs)), lists(&&kept)]
            .map(|(_, d)| (d.to_vec(), matches!(d, Cow::Borrowed(_))))
        {
            assert_eq!((is, borrowed), (vec![1, 0], true));
        }
        assert_eq!(lists(&&[usize::MAX, 2, 5]).1, vec![0, usize::MAX, usize::MAX]);
    }
}
