//! The work requests to one peer: a list that is posted with one doorbell, and what is under way of those posted.
//!
//! Requests complete in order, and only the last of a list says so (is *signalled*), as its completion ends all before it. A
//! list of which nothing waits for its completion says nothing: then one in a quarter of the queue does, so that its
//! places are used again.

use super::device::MAX_GATHER;
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

/// Room for the pieces of a request.
pub(super) type Pieces = [ib::ibv_sge; MAX_GATHER as usize];

/// One place of the list: a request, and the pieces that it gathers. A message is one piece; behind that is room for its bytes.
struct Entry {
    request: ib::ibv_send_wr,
    pieces: Pieces,
}

/// The list and the ring of one queue pair; nothing is allocated after it was made.
pub(super) struct SendQueue {
    list: Box<[Entry]>,
    /// Requests in the list.
    listed: usize,
    /// A power of two of places, at least as many as `depth`.
    ring: Box<[What]>,
    mask: u32,
    /// Requests that may be under way.
    depth: u32,
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
    /// For at most `depth` requests under way (at most [`MAX_DEPTH`](super::MAX_DEPTH)).
    pub(super) fn new(depth: u32) -> Self {
        let ring = depth.next_power_of_two();
        let entry = || {
            // SAFETY: all-zero requests and pieces are valid (numbers, null pointers, unions of these).
            unsafe { Entry { request: zeroed(), pieces: zeroed() } }
        };
        Self {
            list: (0..LIST.min(depth as usize)).map(|_| entry()).collect(),
            listed: 0,
            ring: vec![What::Nothing; ring as usize].into(),
            mask: ring - 1,
            depth,
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
        self.listed == self.list.len() || self.tail.wrapping_sub(self.head) == self.depth
    }

    /// It takes no more before it is posted.
    #[inline]
    pub(super) fn list_is_full(&self) -> bool {
        self.listed == self.list.len()
    }

    pub(super) fn listed(&self) -> usize {
        self.listed
    }

    /// The next request of the list and its pieces, to be filled in; `None` when it is [full](Self::full). It joins the
    /// list with [`SendQueue::add`].
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(&mut ib::ibv_send_wr, &mut Pieces)> {
        if self.tail.wrapping_sub(self.head) == self.depth {
            return None;
        }
        let entry = self.list.get_mut(self.listed)?;
        Some((&mut entry.request, &mut entry.pieces))
    }

    /// Keeps the bytes of a message with the next request until that is posted: where they are; `None` if they are too many for that, or
    /// the list is full.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Option<*const u8> {
        let (_, room) = self.list.get_mut(self.listed)?.pieces.split_first_mut()?;
        if size_of_val(room) < bytes.len() {
            return None;
        }
        let kept = room.as_mut_ptr().cast::<u8>();
        // SAFETY: there is room, which `bytes`, a reference, does not overlap; any bytes are valid pieces, as these are numbers.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), kept, bytes.len()) };
        Some(kept.cast_const())
    }

    /// The request that [`SendQueue::next`] gave is whole.
    #[inline(always)]
    pub(super) fn add(&mut self, what: What) {
        if let Some(place) = self.ring.get_mut((self.tail & self.mask) as usize) {
            *place = what;
        }
        self.tail = self.tail.wrapping_add(1);
        self.listed += 1;
        self.waits |= !matches!(what, What::Nothing);
    }

    /// Links the list, decides about its completion, and empties it. `None` if it is empty. `mark` goes into the upper half of
    /// each request's number.
    pub(super) fn take_list(&mut self, mark: u64) -> Option<*mut ib::ibv_send_wr> {
        let n = std::mem::take(&mut self.listed);
        let last = n.checked_sub(1)?;
        // At most LIST.
        let count = u32::try_from(n).unwrap_or(0);
        let list = self.list.as_mut_ptr();
        let first = self.tail.wrapping_sub(count);
        self.silent += count;
        let says = std::mem::take(&mut self.waits) || self.silent * 4 >= self.depth;
        for (i, number) in (0..count).enumerate() {
            // SAFETY: i < count, which is at most the length of the list; the pointers are to places of the list, which stays
            // where it is.
            unsafe {
                let entry = list.add(i);
                let request = &raw mut (*entry).request;
                (*request).wr_id = mark | u64::from(first.wrapping_add(number));
                (*request).sg_list = (&raw mut (*entry).pieces).cast();
                (*request).next =
                    if i == last { std::ptr::null_mut() } else { &raw mut (*list.add(i + 1)).request };
                (*request).send_flags &= ib::IBV_SEND_INLINE;
                if i == last && says {
                    (*request).send_flags |= ib::IBV_SEND_SIGNALED;
                }
            }
        }
        if says {
            self.silent = 0;
        }
        // SAFETY: the list is not empty.
        Some(unsafe { &raw mut (*list).request })
    }

    /// Some requests posted may never say that they are complete.
    pub(super) fn silent(&self) -> bool {
        self.silent > 0
    }

    /// The request of this number is complete, and so are those before it: says which number each has and what ended; returns how many.
    #[inline]
    pub(super) fn complete(&mut self, number: u32, mut ended: impl FnMut(u32, What)) -> usize {
        // Those posted are at most so far apart; a number that was completed already is behind.
        let count = number.wrapping_sub(self.head).wrapping_add(1);
        if count as usize > self.under_way() {
            return 0;
        }
        for _ in 0..count {
            let next = self.head;
            self.head = next.wrapping_add(1);
            if let Some(what) = self.ring.get((next & self.mask) as usize) {
                ended(next, *what);
            }
        }
        count as usize
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

    fn completed(q: &mut SendQueue, number: u32) -> Vec<(u32, What)> {
        let before = q.under_way();
        let mut ended = Vec::new();
        let count = q.complete(number, |number, what| ended.push((number, what)));
        assert_eq!((count, before - q.under_way()), (ended.len(), ended.len()));
        ended
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
        let mut q = SendQueue::new(128);
        assert!(q.take_list(0).is_none());
        for token in 0..3 {
            add(&mut q, What::Put(token), token == 1);
        }
        let mark = 5 << 32;
        let list = walk(q.take_list(mark).unwrap());
        let (inline, says) = (ib::IBV_SEND_INLINE, ib::IBV_SEND_SIGNALED);
        assert_eq!(list, [(mark, 0), (mark | 1, inline), (mark | 2, says)]);
        assert_eq!(completed(&mut q, 2), [0, 1, 2].map(|n| (n, What::Put(n.into()))));
        assert_eq!((q.under_way(), completed(&mut q, 2), completed(&mut q, 7)), (0, vec![], vec![]));
    }

    #[test]
    fn what_needs_no_completion_says_it_once_in_a_quarter_of_the_queue() {
        let mut q = SendQueue::new(16);
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
        let mut q = SendQueue::new(40);
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
        assert_eq!(completed(&mut q, 0), [(0, What::Message(0))]);
        assert!(!q.full());
    }

    proptest! {
        /// Against a plain queue: each comes back once, in order, however lists and completions are cut, also where numbers
        /// go round.
        #[test]
        fn tokens_come_back_in_order(depth in 1u32..20, start in any::<u32>(), moves in prop::collection::vec(0u8..4, 0..200)) {
            let mut q = SendQueue::new(depth);
            (q.head, q.tail) = (start, start);
            let (mut model, mut posted, mut token) = (VecDeque::new(), 0usize, 0u64);
            for m in moves {
                match m {
                    0 | 1 => {
                        let room = q.next().is_some();
                        let depth = depth as usize;
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
                        let done: Vec<_> = completed(&mut q, last).into_iter().map(|(_, what)| what).collect();
                        prop_assert_eq!(done, expected);
                    }
                    _ => {}
                }
            }
        }
    }
}
