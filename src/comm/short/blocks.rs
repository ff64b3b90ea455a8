//! Where the blocks of ranks stand in a buffer of a short call.

use crate::hash::Fnv;
use std::ops::Range;

/// Where ranks' blocks stand, in units of this many bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blocks<'a> {
    Equal(usize),
    /// `displs` are this rank's own; all ranks agree on `agreed`.
    Ragged {
        unit: usize,
        counts: &'a [usize],
        displs: &'a [usize],
        agreed: &'a [usize],
    },
}

impl<'a> Blocks<'a> {
    /// The bytes of a rank's block.
    pub(super) fn of(&self, rank: usize) -> Range<usize> {
        match *self {
            Self::Equal(len) => rank * len..(rank + 1) * len,
            Self::Ragged { unit, counts, displs, .. } => place(unit, counts, displs, rank),
        }
    }

    /// Bytes of the blocks of all `ranks` together.
    pub(super) fn total(&self, ranks: usize) -> usize {
        match *self {
            Self::Equal(len) => len * ranks,
            Self::Ragged { unit, counts, .. } => counts.iter().sum::<usize>() * unit,
        }
    }

    /// Counts and displacements that all ranks agree on.
    pub(super) fn lists(&self) -> Option<(&'a [usize], &'a [usize])> {
        match *self {
            Self::Equal(_) => None,
            Self::Ragged { counts, agreed, .. } => Some((counts, agreed)),
        }
    }

    /// Bytes of each block, where all are equally long.
    pub(super) fn each(&self) -> Option<usize> {
        match self {
            Self::Equal(len) => Some(*len),
            Self::Ragged { .. } => None,
        }
    }

    /// Of what all ranks must agree on.
    pub(super) fn hash(&self, h: &mut Fnv) {
        match self {
            Self::Equal(len) => h.word(*len as u64),
            Self::Ragged { unit, counts, agreed, .. } => {
                counts.iter().for_each(|n| h.word((n * unit) as u64));
                counts
                    .iter()
                    .zip(*agreed)
                    .for_each(|(n, d)| h.word(if *n == 0 { 0 } else { (d * unit) as u64 }));
            }
        }
    }
}

/// The bytes of a rank's block among those of these counts and displacements.
pub(super) fn place(unit: usize, counts: &[usize], displs: &[usize], rank: usize) -> Range<usize> {
    let start = if counts[rank] == 0 { 0 } else { displs[rank] * unit };
    start..start + counts[rank] * unit
}

/// How blocks lie in a buffer that has room for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// Each behind the one before.
    Ascending,
    /// In another order, or over each other.
    Otherwise,
}

/// How the blocks of these counts and displacements lie, if a buffer of `room` bytes (`None`: one that is not here) has room for all, and if
/// there are as many as `ranks`.
pub(super) fn lie(
    (unit, ranks): (usize, usize),
    counts: &[usize],
    displs: &[usize],
    room: Option<usize>,
) -> Option<Lie> {
    if counts.len() != ranks || displs.len() != ranks {
        return None;
    }
    let (room, mut end, mut found) = (room.unwrap_or(isize::MAX.cast_unsigned()), 0, Lie::Ascending);
    for (count, displ) in counts.iter().zip(displs).filter(|(count, _)| **count > 0) {
        let behind = displ.checked_add(*count)?;
        if behind.checked_mul(unit)? > room {
            return None;
        }
        if *displ < end {
            found = Lie::Otherwise;
        }
        end = behind;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_must_fit_and_may_lie_in_any_order() {
        let of = |counts: &[usize], displs: &[usize], room| lie((4, 3), counts, displs, room);
        assert_eq!(of(&[1, 0, 2], &[0, 99, 3], Some(20)), Some(Lie::Ascending));
        assert_eq!(of(&[1, 0, 2], &[0, 99, 3], Some(19)), None, "the last one ends behind the buffer");
        assert_eq!(of(&[1, 1, 2], &[3, 2, 0], Some(16)), Some(Lie::Otherwise));
        assert_eq!(of(&[2, 1, 0], &[0, 1, 0], Some(16)), Some(Lie::Otherwise), "over each other");
        assert_eq!(of(&[1, 1], &[0, 1], None), None, "not one of each rank");
        assert_eq!(of(&[1, 1, 1], &[0, 1, usize::MAX], None), None);
        assert_eq!(of(&[1, 1, 1], &[0, 1, usize::MAX / 2], None), None);
    }
}
