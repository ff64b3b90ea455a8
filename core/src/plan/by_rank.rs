//! What is known of some ranks.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// A map by rank that is mostly empty, and then has no memory: each call makes and drops two of them, and dropping an empty `BTreeMap` takes 130 instructions.
#[derive(Clone, Debug)]
pub struct ByRank<T>(Option<Box<BTreeMap<u32, T>>>);

impl<T> Default for ByRank<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> PartialEq for ByRank<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.0.is_none() && other.0.is_none()) || **self == **other
    }
}

impl<T: Eq> Eq for ByRank<T> {}

impl<T> From<BTreeMap<u32, T>> for ByRank<T> {
    fn from(map: BTreeMap<u32, T>) -> Self {
        Self((!map.is_empty()).then(|| Box::new(map)))
    }
}

impl<T> FromIterator<(u32, T)> for ByRank<T> {
    fn from_iter<I: IntoIterator<Item = (u32, T)>>(pairs: I) -> Self {
        BTreeMap::from_iter(pairs).into()
    }
}

impl<T, const N: usize> From<[(u32, T); N]> for ByRank<T> {
    fn from(pairs: [(u32, T); N]) -> Self {
        BTreeMap::from(pairs).into()
    }
}

impl<T> Deref for ByRank<T> {
    type Target = BTreeMap<u32, T>;

    fn deref(&self) -> &BTreeMap<u32, T> {
        self.0.as_deref().unwrap_or(const { &BTreeMap::new() })
    }
}

impl<T> DerefMut for ByRank<T> {
    fn deref_mut(&mut self) -> &mut BTreeMap<u32, T> {
        self.0.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_nothing_equals_any_other() {
        let mut emptied = ByRank::from([(3, 'a')]);
        assert_ne!(emptied, ByRank::default());
        assert_eq!((emptied.get(&3), emptied.len()), (Some(&'a'), 1));
        emptied.clear();
        assert_eq!(emptied, ByRank::default());
        assert!(ByRank::from(BTreeMap::<u32, char>::new()).0.is_none());
        emptied.insert(5, 'b');
        assert_eq!(emptied, ByRank::from([(5, 'b')]));
    }
}
