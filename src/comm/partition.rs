//! How a buffer is divided among ranks or neighbours: counts and displacements.

use super::list::List;
use crate::error::{Result, argument};
use std::ops::{Deref, Range};

mod sealed {
    pub trait Sealed {}
    impl<C: AsRef<[usize]> + ?Sized> Sealed for &C {}
    impl<C: ?Sized, D: ?Sized> Sealed for (&C, &D) {}
    impl Sealed for &super::Partition {}
    impl Sealed for super::Local<'_> {}
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
        let displs = behind(&counts).to_vec();
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

/// Parts of an allgatherv with displacements of this rank's own, as `MPI_Allgatherv` has them: counts are equal on all ranks, each
/// places the parts in its receive buffer as it likes. Ranks with `Local` and ranks with counts alone may call together, as the
/// messages are those of parts one behind the other.
///
/// A rank whose own parts stand so, in the order of ranks from the beginning of the buffer on, receives without a copy. Any other
/// receives into memory of the library first. Where all ranks have the same displacements a [`Partition`] saves that.
///
/// Other calls take it as they take `(&counts, &displs)`: an alltoallv, the calls of neighbours and of rooted counts never compare
/// displacements, and all others ask for equal ones.
///
/// ```
/// use circulant::comm::Local;
///
/// let world = circulant::World::init()?;
/// let comm = world.comm();
/// let (r, p) = (comm.rank(), comm.size());
/// // Two elements of each rank, at this one from its own on, with an element between.
/// let displs: Vec<usize> = (0..p).map(|s| (s + p - r) % p * 3).collect();
/// let mut recv = vec![0; 3 * p];
/// comm.allgatherv(&[r + 1; 2], &mut recv, Local { counts: &vec![2; p], displs: &displs })?;
/// assert_eq!(recv[..3], [r + 1, r + 1, 0]);
/// # world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local<'a> {
    /// How many elements each part has, equal on all ranks.
    pub counts: &'a [usize],
    /// Where each part begins in the receive buffer of this rank, in elements. Parts must not overlap; where nothing is, the
    /// displacement does not matter.
    pub displs: &'a [usize],
}

/// What calls take for a [`Partition`]: `&Partition`; `&counts` alone (a slice, an array or a `Vec`), of parts one behind the
/// other; `(&counts, &displs)`; or [`Local`]. Of counts alone each call computes the displacements. Sealed: there are no others.
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
    /// Whether an allgatherv takes the displacements for this rank's own: those of [`Local`].
    fn is_local(&self) -> bool {
        false
    }
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

impl Parts for Local<'_> {
    fn counts(&self) -> &[usize] {
        self.counts
    }
    fn displs(&self) -> Option<&[usize]> {
        Some(self.displs)
    }
    fn is_local(&self) -> bool {
        true
    }
}

/// Displacements: those that were passed, or made of counts.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "it is on the stack of one call, which is to allocate nothing")]
pub(super) enum Displs<'a> {
    Passed(&'a [usize]),
    Made(List<usize>),
}

impl Deref for Displs<'_> {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        match self {
            Self::Passed(displs) => displs,
            Self::Made(displs) => displs,
        }
    }
}

/// The parts of an allgatherv: those that all ranks agree on, and where they stand here.
#[derive(Clone, Debug)]
pub(super) struct Places<'a> {
    pub(super) counts: &'a [usize],
    /// Displacements, equal on all ranks.
    pub(super) displs: Displs<'a>,
    /// This rank's own displacements, where they are others.
    pub(super) own: Option<&'a [usize]>,
}

impl<'a> Places<'a> {
    pub(super) fn of(parts: &'a impl Parts) -> Self {
        if !parts.is_local() {
            let (counts, displs) = lists(parts);
            return Self { counts, displs, own: None };
        }
        let counts = parts.counts();
        let displs = behind(counts);
        let alike = |own: &[usize]| {
            own.len() == counts.len()
                && own.iter().zip(&*displs).zip(counts).all(|((own, all), count)| own == all || *count == 0)
        };
        let own = parts.displs().filter(|own| !alike(own));
        Self { counts, displs: Displs::Made(displs), own }
    }

    /// The displacements in the receive buffer of this rank.
    pub(super) fn here(&self) -> &[usize] {
        self.own.unwrap_or(&self.displs)
    }
}

/// The first two of these ranges (begin, length) that overlap.
pub(super) fn overlap(ranges: impl Iterator<Item = (usize, usize)>) -> Option<[Range<usize>; 2]> {
    let mut all: List<(usize, usize)> =
        ranges.filter(|(_, len)| *len > 0).map(|(at, len)| (at, at.saturating_add(len))).collect();
    all.sort_unstable();
    let pair = all.windows(2).find(|pair| pair[1].0 < pair[0].1)?;
    Some([pair[0].0..pair[0].1, pair[1].0..pair[1].1])
}

/// Counts and displacements.
pub(super) fn lists(parts: &impl Parts) -> (&[usize], Displs<'_>) {
    let counts = parts.counts();
    (counts, parts.displs().map_or_else(|| Displs::Made(behind(counts)), Displs::Passed))
}

/// Where parts of this many elements begin that stand one behind the other. A sum that overflows stays at the largest number, where no
/// element fits.
fn behind(counts: &[usize]) -> List<usize> {
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
        let alone = &counts;
        let (of_counts, made) = lists(&alone);
        assert_eq!((of_counts, &*made), (&[3, 1][..], &[0, 3][..]));
        let kept = Partition::with_displs(counts.clone(), displs).unwrap();
        for (is, borrowed) in [lists(&(&counts, &displs)), lists(&&kept)]
            .map(|(_, d)| (d.to_vec(), matches!(d, Displs::Passed(_))))
        {
            assert_eq!((is, borrowed), (vec![1, 0], true));
        }
        assert_eq!(*lists(&&[usize::MAX, 2, 5]).1, [0, usize::MAX, usize::MAX]);
    }

    #[test]
    fn local_displacements_are_own_unless_parts_stand_one_behind_the_other() {
        let counts = [2, 0, 3];
        for (displs, own) in [
            (&[0, 2, 2][..], false),
            // Where nothing is does not matter.
            (&[0, 99, 2], false),
            (&[1, 3, 3], true),
            (&[3, 0, 0], true),
            (&[0, 2], true),
        ] {
            let parts = Local { counts: &counts, displs };
            let places = Places::of(&parts);
            assert_eq!((&*places.displs, places.own.is_some()), (&[0, 2, 2][..], own), "{displs:?}");
            assert_eq!(places.here() == displs, own || displs[1] == 2, "{displs:?}");
        }
        let parts = (&counts, &[9, 9, 0]);
        let places = Places::of(&parts);
        assert_eq!((places.here(), places.own), (&[9, 9, 0][..], None));
    }

    #[test]
    fn ranges_that_overlap_are_found() {
        assert_eq!(overlap([(5, 2), (0, 5), (6, 0), (7, 1)].into_iter()), None);
        assert_eq!(overlap([(5, 2), (9, 1), (0, 6)].into_iter()), Some([0..6, 5..7]));
        assert_eq!(overlap([(3, 1), (3, 1)].into_iter()), Some([3..4, 3..4]));
    }
}
