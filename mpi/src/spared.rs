//! Lists that are used again by a thread's next call: a call that is repeated allocates nothing.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// Lists of one kind that a thread keeps, at most: two of what an alltoallv sends, two of what it receives, and the order of blocks.
const MAX_KEPT: usize = 5;

/// Lists that a thread keeps.
pub(crate) type Kept<T> = Cell<Vec<Vec<T>>>;

/// What lists are made of.
pub(crate) trait Entry: Copy + 'static {
    /// Those that this thread keeps.
    const KEPT: &'static LocalKey<Kept<Self>>;
}

thread_local! {
    static NUMBERS: Kept<usize> = const { Cell::new(Vec::new()) };
}

impl Entry for usize {
    const KEPT: &'static LocalKey<Kept<Self>> = &NUMBERS;
}

/// A list that was one of another call before, and is one of another call after.
#[derive(Debug)]
pub(crate) struct Spared<T: Entry>(Vec<T>);

impl<T: Entry> Spared<T> {
    /// An empty one.
    #[inline]
    pub(crate) fn new() -> Self {
        // A thread that ends keeps none any more.
        let kept = T::KEPT.try_with(|kept| {
            let mut lists = kept.take();
            let list = lists.pop();
            kept.set(lists);
            list
        });
        Self(kept.ok().flatten().unwrap_or_default())
    }
}

impl<T: Entry> FromIterator<T> for Spared<T> {
    fn from_iter<I: IntoIterator<Item = T>>(from: I) -> Self {
        let mut list = Self::new();
        list.extend(from);
        list
    }
}

impl<T: Entry> Drop for Spared<T> {
    #[inline]
    fn drop(&mut self) {
        let mut list = std::mem::take(&mut self.0);
        if list.capacity() == 0 {
            return;
        }
        _ = T::KEPT.try_with(|kept| {
            let mut lists = kept.take();
            if lists.len() < MAX_KEPT {
                list.clear();
                lists.push(list);
            }
            kept.set(lists);
        });
    }
}

impl<T: Entry> Deref for Spared<T> {
    type Target = Vec<T>;

    #[inline]
    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T: Entry> DerefMut for Spared<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_used_again_and_is_empty_then() {
        let at = |list: &Spared<usize>| list.as_ptr();
        let mut first = Spared::<usize>::new();
        first.extend(0..100);
        let memory = at(&first);
        drop(first);
        let (mut again, mut other) = (Spared::<usize>::new(), Spared::<usize>::new());
        assert_eq!((again.len(), at(&again)), (0, memory));
        again.extend(0..100);
        other.push(1);
        assert_ne!((at(&again), at(&other)), (memory, memory), "two at once");
        assert_eq!(at(&again), memory, "there was room");
    }

    #[test]
    fn a_thread_keeps_a_few() {
        let many: Vec<Spared<usize>> = (0..2 * MAX_KEPT)
            .map(|_| {
                let mut list = Spared::new();
                list.push(7);
                list
            })
            .collect();
        drop(many);
        let kept = NUMBERS.take();
        assert_eq!((kept.len(), kept.iter().all(Vec::is_empty)), (MAX_KEPT, true));
    }
}
