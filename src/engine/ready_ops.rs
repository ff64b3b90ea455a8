//! The ops of a task that may go, lowest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ops that may go, lowest first. Mostly they become so in their order: then this is a list. What comes out of order goes to a heap.
#[derive(Clone, Debug)]
pub(super) struct ReadyOps {
    /// Rising from `next` on, which is the first of them that has not gone.
    list: Vec<u32>,
    next: usize,
    heap: BinaryHeap<Reverse<u32>>,
}

impl ReadyOps {
    /// For `ops` of them, each of which is pushed once at most until they are cleared: pushing allocates nothing then.
    pub(super) fn with_capacity(ops: usize) -> Self {
        Self { list: Vec::with_capacity(ops), next: 0, heap: BinaryHeap::with_capacity(ops) }
    }

    #[inline]
    pub(super) fn push(&mut self, op: u32) {
        match self.list[self.next..].last() {
            Some(last) if *last > op => self.heap.push(Reverse(op)),
            _ => self.list.push(op),
        }
    }

    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        let listed = self.list.get(self.next).copied();
        if self.heap.is_empty() { listed } else { self.first_of_both() }
    }

    #[cold]
    fn first_of_both(&self) -> Option<u32> {
        let heaped = self.heap.peek().map(|Reverse(op)| *op);
        heaped.into_iter().chain(self.list.get(self.next).copied()).min()
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.first_is_gone();
        Some(first)
    }

    /// The first of them, which there is, has gone.
    #[inline]
    pub(super) fn first_is_gone(&mut self) {
        if self.heap.is_empty() {
            self.next += 1;
        } else {
            self.take_of_both();
        }
    }

    #[cold]
    fn take_of_both(&mut self) {
        match self.list.get(self.next) {
            Some(op) if self.first_of_both() == Some(*op) => self.next += 1,
            _ => drop(self.heap.pop()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.next = 0;
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Whatever the order in which ops become ready, the lowest goes first, and nothing is allocated.
        #[test]
        fn the_lowest_goes_first(ops in Just((0..40u32).collect::<Vec<_>>()).prop_shuffle(), pops: [bool; 40]) {
            let (mut ready, mut plain) = (ReadyOps::with_capacity(40), BTreeSet::new());
            let room = |r: &ReadyOps| (r.list.capacity(), r.heap.capacity());
            let before = room(&ready);
            for run in 0..2 {
                for (op, pop) in ops.iter().zip(pops) {
                    ready.push(*op);
                    plain.insert(*op);
                    prop_assert_eq!(ready.first(), plain.first().copied());
                    if pop {
                        prop_assert_eq!(ready.pop(), plain.pop_first());
                    }
                    prop_assert_eq!(ready.is_empty(), plain.is_empty());
                }
                while run == 0 && !plain.is_empty() {
                    prop_assert_eq!(ready.pop(), plain.pop_first());
                }
                ready.clear();
                plain.clear();
                prop_assert_eq!((ready.pop(), room(&ready)), (None, before));
            }
        }
    }
}
