//! A map by rank that costs nothing while it is empty.

use std::collections::{BTreeMap, btree_map};
use std::ops::{Deref, DerefMut};

/// A map by rank that has no memory until it is written to. Each call makes and drops two of them, mostly empty, and dropping an empty `BTreeMap` takes 100 instructions
/// (x86-64, counted by valgrind).
#[allow(clippy::box_collection, reason = "one word while it is empty")]
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

impl<T> From<ByRank<T>> for BTreeMap<u32, T> {
    fn from(map: ByRank<T>) -> Self {
        map.0.map_or_else(Self::new, |map| *map)
    }
}

impl<'a, T> IntoIterator for &'a ByRank<T> {
    type Item = (&'a u32, &'a T);
    type IntoIter = btree_map::Iter<'a, u32, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut ByRank<T> {
    type Item = (&'a u32, &'a mut T);
    type IntoIter = btree_map::IterMut<'a, u32, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
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
    fn maps_are_equal_that_have_the_same() {
        let mut emptied = ByRank::from([(3, 'a')]);
        assert_ne!(emptied, ByRank::default());
        assert_eq!((emptied.get(&3), emptied.len()), (Some(&'a'), 1));
        emptied.clear();
        assert_eq!(emptied, ByRank::default());
        assert!(ByRank::from(BTreeMap::<u32, char>::new()).0.is_none());
        let [of_three, of_five] = [3, 5].map(|rank| ByRank::from([(rank, 'a')]));
        assert_ne!(of_three, of_five);
        assert_ne!(of_three, ByRank::from([(3, 'b')]));
        emptied.insert(5, 'b');
        assert_eq!(emptied, ByRank::from([(5, 'b')]));
    }
}
