//! The puts that a peer has yet to read: a queue of fixed length, in place of one that looks at each push whether it must grow.

/// In the order in which they were put.
#[derive(Debug)]
pub(super) struct Posted {
    /// Where a put's record ends in the ring, and its token. Empty until the first put where memory is made then.
    slots: Box<[(u64, u64)]>,
    /// A power of two.
    most: usize,
    /// Puts so far, and how many of them were read.
    put: usize,
    read: usize,
}

impl Posted {
    /// With room for `most` entries at least.
    pub(super) fn new(most: usize) -> Self {
        let mut this = Self::unused(most);
        this.allocate();
        this
    }

    /// The same, which has its memory from the first put on.
    pub(super) fn unused(most: usize) -> Self {
        Self { slots: Box::default(), most: most.next_power_of_two(), put: 0, read: 0 }
    }

    #[cold]
    fn allocate(&mut self) {
        self.slots = vec![(0, 0); self.most].into_boxed_slice();
    }

    pub(super) fn len(&self) -> usize {
        self.put.wrapping_sub(self.read)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.put == self.read
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == self.most
    }

    /// Adds one whose record ends there, where there is room.
    pub(super) fn push(&mut self, end: u64, token: u64) {
        let at = self.put & (self.most - 1);
        if at >= self.slots.len() {
            self.allocate();
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = (end, token);
            self.put = self.put.wrapping_add(1);
        }
    }

    /// Takes the first one out if its record ends at `tail` or before; gives its token.
    pub(super) fn pop(&mut self, tail: u64) -> Option<u64> {
        let (end, token) = *self.slots.get(self.read & (self.most - 1))?;
        if self.is_empty() || end > tail {
            return None;
        }
        self.read = self.read.wrapping_add(1);
        Some(token)
    }

    pub(super) fn clear(&mut self) {
        self.read = self.put;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// As a deque that does not grow.
        #[test]
        fn it_is_a_queue(steps: Vec<Option<u8>>, unused: bool) {
            let posted = if unused { Posted::unused(5) } else { Posted::new(5) };
            let (mut posted, mut plain, mut end) = (posted, VecDeque::new(), 0);
            for (token, step) in (0..).zip(steps) {
                match step {
                    Some(size) if !posted.is_full() => {
                        end += u64::from(size);
                        posted.push(end, token);
                        plain.push_back((end, token));
                    }
                    Some(_) => posted.clear(),
                    None => {
                        let tail = end / 2;
                        let first = plain.front().copied().filter(|(end, _)| *end <= tail);
                        prop_assert_eq!(posted.pop(tail), first.map(|(_, token)| token));
                        plain.drain(..usize::from(first.is_some()));
                    }
                }
                if posted.is_empty() {
                    plain.clear();
                }
                prop_assert_eq!((posted.len(), posted.is_empty()), (plain.len(), plain.is_empty()));
                prop_assert!(posted.len() <= 8);
            }
        }
    }
}
