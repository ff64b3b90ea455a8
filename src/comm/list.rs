//! A list that a call makes of its arguments.

use std::ops::{Deref, DerefMut};

/// Entries that stand in the list itself. Chosen: those of the largest communicator that has short calls, whose entries it compares
/// with this at compile time; the displacements of a call are 512 bytes of its stack then.
pub(super) const ENTRIES_IN_PLACE: usize = 64;

/// A list of one entry per rank. That of a few ranks allocates nothing.
#[derive(Clone, Debug)]
pub(super) enum List<T> {
    InPlace { entries: [T; ENTRIES_IN_PLACE], len: usize },
    Allocated(Vec<T>),
}

impl<T: Copy + Default> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(from: I) -> Self {
        let (mut entries, mut len, mut from) = ([T::default(); ENTRIES_IN_PLACE], 0, from.into_iter());
        while let Some(next) = from.next() {
            let Some(entry) = entries.get_mut(len) else {
                let rest = std::iter::once(next).chain(from);
                return Self::Allocated(entries.into_iter().chain(rest).collect());
            };
            (*entry, len) = (next, len + 1);
        }
        Self::InPlace { entries, len }
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::InPlace { entries, len } => &entries[..*len],
            Self::Allocated(entries) => entries,
        }
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::InPlace { entries, len } => &mut entries[..*len],
            Self::Allocated(entries) => entries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_as_long_as_what_it_is_made_of() {
        for len in [0, 1, ENTRIES_IN_PLACE - 1, ENTRIES_IN_PLACE, ENTRIES_IN_PLACE + 1, 1000] {
            let mut list: List<usize> = (0..len).collect();
            assert!(list.iter().copied().eq(0..len), "{len}");
            assert_eq!(matches!(list, List::InPlace { .. }), len <= ENTRIES_IN_PLACE);
            list.reverse();
            assert!(list.iter().copied().eq((0..len).rev()), "{len}");
        }
    }
}
