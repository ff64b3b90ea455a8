//! The work requests to one peer: a list that is posted with one doorbell, and what is under way of those posted.
//!
//! Requests complete in order, and only the last of a list says so (is *signalled*), as its completion ends all before it. A
//! list of which nothing waits for its completion says nothing: then one in a quarter of the queue does, so that its
//! places are used again.

use libfabric_sys::verbs as ib;
use std::mem::zeroed;

/// The longest list. Chosen: an engine rarely has more ready for one peer at once, and a longer one is posted in parts.
pub(super) const LIST: usize = 32;

/// Bit of the number of a work request that sends or puts. Of none of the three: a receive, by its number.
pub(super) const SENT: u64 = 1 << 63;
/// Bit of a receive for datagrams.
pub(super) const DATAGRAM_RECEIVED: u64 = 1 << 62;
/// Bit of a datagram that is sent.
pub(super) const DATAGRAM_SENT: u64 = 1 << 61;

/// The upper half of the numbers of the requests to the peer at `at`.
pub(super) fn mark(at: usize) -> u64 {
    SENT | (at as u64) << 32
}

/// What ends with the completion of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Nothing: its bytes were copied when it was posted.
    Nothing,
    /// A put, by its token.
    Put(u64),
    /// A message, by its buffer.
    Message(u32),
    /// That it is complete is all there is to know.
    End,
}

/// The list and the ring of one queue pair; nothing is allocated after it was made.
pub(super) struct SendQueue {
    list: Box<[ib::ibv_send_wr]>,
    pieces: Box<[ib::ibv_sge]>,
    gather: usize,
    /// Requests in the list.
    listed: usize,
    ring: Box<[What]>,
    /// Numbers of requests, which go round: of the oldest under way, and behind the youngest in the list.
    head: u32,
    tail: u32,
    /// Requests since the last that was signalled.
    silent: u32,
    /// A request in the list waits for its completion.
    waits: bool,
}

// SAFETY: the pointers in the list are to the pieces and to the list itself, set when it is posted and not used afterwards.
unsafe impl Send for SendQueue {}

impl SendQueue {
    /// For at most `depth` requests under way, each of at most `gather` pieces.
    pub(super) fn new(depth: usize, gather: usize) -> Self {
        // SAFETY: all-zero requests and pieces are valid (numbers, null pointers, unions of these).
        let (request, piece) = unsafe { (zeroed::<ib::ibv_send_wr>(), zeroed::<ib::ibv_sge>()) };
        let list = LIST.min(depth);
        Self {
            list: vec![request; list].into(),
            pieces: vec![piece; list * gather].into(),
            gather,
            listed: 0,
            ring: vec![What::Nothing; depth].into(),
            head: 0,
            tail: 0,
            silent: 0,
            waits: false,
        }
    }

    /// Requests under way, and in the list.
    #[inline]
    pub(super) fn under_way(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// All are under way that can be, or the list is full.
    #[inline]
    pub(super) fn full(&self) -> bool {
        self.listed == self.list.len() || self.under_way() == self.ring.len()
    }

    pub(super) fn listed(&self) -> usize {
        self.listed
    }

    /// The next request of the list and its pieces, to be filled in; `None` when it is [full](Self::full). It joins the
    /// list with [`SendQueue::add`].
    #[inline]
    pub(super) fn next(&mut self) -> Option<(&mut ib::ibv_send_wr, &mut [ib::ibv_sge])> {
        if self.full() {
            return None;
        }
        let at = self.listed * self.gather;
        Some((&mut self.list[self.listed], &mut self.pieces[at..at + self.gather]))
    }

    /// The request that [`SendQueue::next`] gave is whole.
    #[inline]
    pub(super) fn add(&mut self, what: What) {
        let at = self.tail as usize % self.ring.len();
        self.ring[at] = what;
        self.tail = self.tail.wrapping_add(1);
        self.listed += 1;
        self.waits |= what != What::Nothing;
    }

    /// Links the list, decides about its completion, and empties it. `None` if it is empty. `mark` goes into the upper half of
    /// each request's number.
    pub(super) fn take_list(&mut self, mark: u64) -> Option<*mut ib::ibv_send_wr> {
        let n = std::mem::take(&mut self.listed);
        let last = n.checked_sub(1)?;
        // At most LIST.
        let count = u32::try_from(n).unwrap_or(0);
        let (list, pieces) = (self.list.as_mut_ptr(), self.pieces.as_mut_ptr());
        let first = self.tail.wrapping_sub(count);
        self.silent += count;
        let says = std::mem::take(&mut self.waits) || self.silent as usize * 4 >= self.ring.len();
        for (i, number) in (0..count).enumerate() {
            // SAFETY: i < count, which is at most the length of the list, and the pieces are `gather` for each of it.
            unsafe {
                let request = &mut *list.add(i);
                request.wr_id = mark | u64::from(first.wrapping_add(number));
                request.sg_list = pieces.add(i * self.gather);
                request.next = if i == last { std::ptr::null_mut() } else { list.add(i + 1) };
                request.send_flags &= ib::IBV_SEND_INLINE;
                if i == last && says {
                    request.send_flags |= ib::IBV_SEND_SIGNALED;
                }
            }
        }
        if says {
            self.silent = 0;
        }
        Some(list)
    }

    /// Some requests posted may never say that they are complete.
    pub(super) fn silent(&self) -> bool {
        self.silent > 0
    }

    /// The request of this number is complete, and so are those before it: the number of the next of them, and what ended.
    #[inline]
    pub(super) fn complete(&mut self, number: u32) -> Option<(u32, What)> {
        // Those posted are at most so far apart; a number that was completed already is behind.
        let ahead = number.wrapping_sub(self.head);
        if ahead as usize >= self.under_way() {
            return None;
        }
        let next = self.head;
        self.head = next.wrapping_add(1);
        Some((next, self.ring[next as usize % self.ring.len()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn add(q: &mut SendQueue, what: What, inline: bool) {
        let (request, pieces) = q.next().unwrap();
        request.send_flags = if inline { ib::IBV_SEND_INLINE } else { 0 };
        request.num_sge = 1;
        pieces[0].length = 7;
        q.add(what);
    }

    /// Numbers and flags along a list as a device walks it.
    fn walk(mut at: *mut ib::ibv_send_wr) -> Vec<(u64, u32)> {
        let mut seen = Vec::new();
        while !at.is_null() {
            // SAFETY: a list that was just linked, of a queue that is alive.
            let request = unsafe { &*at };
            // SAFETY: as above; it has one piece.
            assert_eq!(unsafe { (*request.sg_list).length }, 7);
            seen.push((request.wr_id, request.send_flags));
            at = request.next;
        }
        seen
    }

    #[test]
    fn a_list_is_linked_and_its_last_request_says_when_all_are_complete() {
        let mut q = SendQueue::new(128, 4);
        assert!(q.take_list(0).is_none());
        for token in 0..3 {
            add(&mut q, What::Put(token), token == 1);
        }
        let mark = 5 << 32;
        let list = walk(q.take_list(mark).unwrap());
        let (inline, says) = (ib::IBV_SEND_INLINE, ib::IBV_SEND_SIGNALED);
        assert_eq!(list, [(mark, 0), (mark | 1, inline), (mark | 2, says)]);
        let done: Vec<_> = std::iter::from_fn(|| q.complete(2)).map(|(_, what)| what).collect();
        assert_eq!(done, [What::Put(0), What::Put(1), What::Put(2)]);
        assert_eq!((q.under_way(), q.complete(2), q.complete(7)), (0, None, None));
    }

    #[test]
    fn what_needs_no_completion_says_it_once_in_a_quarter_of_the_queue() {
        let mut q = SendQueue::new(16, 1);
        let mut says = Vec::new();
        for i in 0..8 {
            add(&mut q, What::Nothing, true);
            let list = walk(q.take_list(0).unwrap());
            if list[0].1 & ib::IBV_SEND_SIGNALED != 0 {
                says.push(i);
            }
            assert_eq!(q.silent(), says.last() != Some(&i));
        }
        assert_eq!(says, [3, 7]);
    }

    #[test]
    fn it_takes_no_more_than_fit() {
        let mut q = SendQueue::new(40, 1);
        for i in 0..LIST {
            assert!(!q.full());
            add(&mut q, What::Message(u32::try_from(i).unwrap()), false);
        }
        assert!(q.full() && q.next().is_none() && q.listed() == LIST);
        q.take_list(0);
        for _ in LIST..40 {
            add(&mut q, What::Put(1), false);
        }
        q.take_list(0);
        assert!(q.full() && q.next().is_none() && q.under_way() == 40);
        assert_eq!(q.complete(0), Some((0, What::Message(0))));
        assert!(!q.full());
    }

    proptest! {
        /// Against a plain queue: each comes back once, in order, however lists and completions are cut, also where numbers
        /// go round.
        #[test]
        fn tokens_come_back_in_order(depth in 1usize..20, start in any::<u32>(), moves in prop::collection::vec(0u8..4, 0..200)) {
            let mut q = SendQueue::new(depth, 1);
            (q.head, q.tail) = (start, start);
            let (mut model, mut posted, mut token) = (VecDeque::new(), 0usize, 0u64);
            for m in moves {
                match m {
                    0 | 1 => {
                        let room = q.next().is_some();
                        prop_assert_eq!(room, model.len() < depth && model.len() - posted < LIST.min(depth));
                        if room {
                            add(&mut q, What::Put(token), false);
                            model.push_back(token);
                            token += 1;
                        }
                    }
                    2 => {
                        let n = q.take_list(0).map_or(0, |list| walk(list).len());
                        posted += n;
                        prop_assert_eq!(posted, model.len());
                    }
                    _ if posted > 0 => {
                        let some = posted.div_ceil(2);
                        let last = q.head.wrapping_add(u32::try_from(some).unwrap() - 1);
                        let expected: Vec<_> = model.drain(..some).map(What::Put).collect();
                        posted -= some;
                        let done: Vec<_> = std::iter::from_fn(|| q.complete(last)).map(|(_, what)| what).collect();
                        prop_assert_eq!(done, expected);
                    }
                    _ => {}
                }
            }
        }
    }
}
