//! The short calls of a world's communicators: their slots, and what was done in them (numbers of calls, hashes, the last
//! calls).

use super::cross_memory::Choices;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Fnv;
use crate::plan::registry::Operation;
use crate::transport::Lent;
use crate::transport::call_slots::{CallSlots, LONG_SLOTS, Look, MAX_POST_BYTES, Post, SHORT_SLOTS};
use std::sync::{Arc, Weak};

/// In the code of a post: another thread of that rank is in an earlier short call of this communicator, and may still read
/// that call's slots. Codes of operations are below.
pub(super) const EARLIER: u8 = 0x80;

/// Bytes of the partial results of a fold over `ranks` ranks. A scan has one for each of its rounds, one for the contribution that it takes
/// in, and its result. (The tree of `ordered` has one for each bit of the number of ranks.)
pub(super) fn partials_bytes(ranks: usize) -> usize {
    MAX_POST_BYTES * (ranks.ilog2() as usize + 3)
}

/// The short calls of a world's communicators.
#[derive(Debug, Default)]
pub(in crate::comm) struct ShortCalls {
    /// Nothing: the communicator is gone, or its call [has taken](ShortCalls::take) the state out; none is added meanwhile.
    list: Vec<Option<Box<ShortState>>>,
    /// For folds: see [`partials_bytes`].
    pub(super) partials: Vec<u8>,
    /// The part of a long reduction that a rank folds for the root, or a piece of what it contributes to its own part in place.
    pub(super) part: Vec<u8>,
}

/// One communicator's slots, and what was done in them.
#[derive(Debug)]
pub(super) struct ShortState {
    pub(super) slots: CallSlots,
    /// The operations that take this way, as a set of their codes.
    operations: u32,
    calls: Calls,
    /// Which long posts of two ranks are posted by address, where that is tried.
    pub(super) choices: Option<Choices>,
    owner: Weak<()>,
}

/// The short calls of one communicator.
#[derive(Debug)]
struct Calls {
    /// Hash of all calls so far.
    past: u64,
    /// The last ones: number, operation, hash.
    log: [(u64, u8, u64); SHORT_SLOTS],
    /// Number of the next call, with more bits than a call's own.
    next: u64,
    /// Calls that threads of ours are in.
    inside: Vec<u64>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            past: 0,
            log: [(u64::MAX, 0, 0); SHORT_SLOTS],
            next: 0,
            inside: Vec::with_capacity(LONG_SLOTS),
        }
    }
}

impl Calls {
    /// A call begins: gives it a number that never comes again, and the hash of all calls before it. All ranks see the same calls in
    /// the same order, so they give the same. Threads may post in another order than their calls began.
    #[inline]
    fn enter(&mut self, sequence: u32, code: u8, hash: u64) -> (u64, u64) {
        let low = u32::try_from(self.next & u64::from(u32::MAX)).unwrap_or(0);
        let ahead = sequence.wrapping_sub(low);
        debug_assert!(ahead < u32::MAX / 2, "call {sequence} has a number that a step of another took");
        let number = self.next + u64::from(ahead);
        self.next = number + 1;
        self.inside.push(number);
        let past = self.past;
        self.log[usize::from(number.to_le_bytes()[0]) % SHORT_SLOTS] = (number, code, hash);
        let mut h = Fnv(past);
        h.word(number);
        h.word(hash);
        self.past = h.0;
        (number, past)
    }

    /// A call goes on under the next number, which no other call has; returns the lowest that a thread of ours may still be in.
    fn step(&mut self, number: u64) -> u64 {
        self.next = self.next.max(number + 2);
        self.inside.iter_mut().filter(|n| **n == number).for_each(|n| *n = number + 1);
        self.inside.iter().min().copied().unwrap_or(self.next)
    }

    /// A call ends; returns the lowest that a thread of ours may still be in.
    #[inline]
    fn leave(&mut self, number: u64) -> u64 {
        if let [_] = self.inside[..] {
            self.inside.clear();
            return self.next;
        }
        self.inside.retain(|n| *n != number);
        self.inside.iter().min().copied().unwrap_or(self.next)
    }
}

/// How a communicator finds its state among [`ShortCalls`].
#[derive(Debug)]
pub(in crate::comm) struct ShortHandle {
    pub(super) index: usize,
    /// The ranks of the node share cores.
    pub(super) crowded: bool,
    _owner: Arc<()>,
}

impl ShortCalls {
    /// Frees the slots of communicators that are gone.
    pub(super) fn tidy(&mut self) {
        for state in &mut self.list {
            if state.as_ref().is_some_and(|s| s.owner.strong_count() == 0 && s.slots.is_quiet()) {
                *state = None;
            }
        }
    }

    /// Takes in a communicator's slots, for `operations` (a set of codes).
    pub(super) fn add(&mut self, slots: CallSlots, operations: u32, choices: Option<Choices>) -> ShortHandle {
        let needed = partials_bytes(slots.size());
        if self.partials.len() < needed {
            self.partials.resize(needed, 0);
        }
        let (owner, crowded) = (Arc::new(()), slots.is_crowded());
        let (calls, alive) = (Calls::default(), Arc::downgrade(&owner));
        let state = Box::new(ShortState { slots, operations, calls, choices, owner: alive });
        let index = match self.list.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.list.push(None);
                self.list.len() - 1
            }
        };
        self.list[index] = Some(state);
        ShortHandle { index, crowded, _owner: owner }
    }

    pub(super) fn get(&mut self, index: usize) -> Option<&mut ShortState> {
        self.list.get_mut(index)?.as_deref_mut()
    }

    /// Takes a communicator's out, for a call, which [puts it back](ShortCalls::put_back) before other threads have the lock.
    ///
    /// # Errors
    /// When it is gone.
    #[inline]
    pub(super) fn take(&mut self, index: usize) -> Result<Box<ShortState>> {
        self.list.get_mut(index).and_then(Option::take).ok_or_else(gone)
    }

    #[inline]
    pub(super) fn put_back(&mut self, index: usize, state: Box<ShortState>) {
        match self.list.get_mut(index) {
            Some(place @ None) => *place = Some(state),
            _ => debug_assert!(false, "another state at {index}"),
        }
    }
}

/// A communicator has no slots any more.
#[cold]
pub(super) fn gone() -> Error {
    Error::new(ErrorKind::Aborted, "the communicator's slots are gone")
}

impl ShortState {
    /// Whether calls of this operation may take this way, with posts of `longest` bytes.
    pub(super) fn takes(&self, operation: Operation, longest: usize) -> bool {
        let most = match operation {
            // Scans fold whole posts, and a partial result holds no more.
            Operation::Scan | Operation::Exscan => MAX_POST_BYTES,
            _ => self.slots.longest(),
        };
        self.operations >> operation.code() & 1 != 0 && longest <= most
    }

    /// As [`Calls::enter`].
    #[inline]
    pub(super) fn enter(&mut self, sequence: u32, code: u8, hash: u64) -> (u64, u64) {
        self.calls.enter(sequence, code, hash)
    }

    /// As [`ShortState::post`], of what lies in the call's own slot, if that can be written and no other thread of ours is in a call. Returns whether it has posted.
    #[inline]
    pub(super) fn try_post<'p>(
        &mut self,
        number: u64,
        post: Post,
        pieces: impl Iterator<Item = &'p [u8]> + Clone,
        read: bool,
    ) -> bool {
        self.calls.inside.len() <= 1 && self.slots.try_post(number, post, pieces, read)
    }

    /// Shows `post` and these pieces, one behind the other, in call `number`; `read`: others are to look.
    pub(super) fn post<'p>(
        &mut self,
        number: u64,
        post: Post,
        pieces: impl Iterator<Item = &'p [u8]> + Clone,
        read: bool,
    ) {
        let post = self.mark(number, post);
        self.slots.post(number, post, pieces, read);
    }

    /// As [`ShortState::post`], of bytes that are lent.
    pub(super) fn lend(&mut self, number: u64, post: Post, lent: Lent) {
        let post = self.mark(number, post);
        self.slots.lend(number, post, lent);
    }

    /// Says in a post whether another thread of ours is in an earlier call.
    #[inline]
    fn mark(&self, number: u64, post: Post) -> Post {
        let earlier = self.calls.inside.iter().any(|n| *n < number);
        let code = if earlier { post.code | EARLIER } else { post.code };
        Post { code, ..post }
    }

    /// Whether call `number` may post `len` bytes. What calls of ours that began before it, in other threads, have yet to post has lower numbers: it must find slots, and wide memory.
    #[inline]
    pub(super) fn has_turn(&self, number: u64, len: usize) -> bool {
        match self.calls.inside[..] {
            [] | [_] => true,
            _ => {
                let lowest = self.calls.inside.iter().min().copied().unwrap_or(number);
                lowest >= number || !self.slots.is_wide(len) && number - lowest < LONG_SLOTS as u64
            }
        }
    }

    #[inline]
    pub(super) fn leave(&mut self, number: u64) {
        self.slots.ended(number);
        let next = self.calls.leave(number);
        self.slots.pass(next);
    }

    /// As [`Calls::step`]: the number.
    pub(super) fn step(&mut self, number: u64) -> u64 {
        self.slots.ended(number);
        let lowest = self.calls.step(number);
        self.slots.pass(lowest);
        number + 1
    }

    /// The first call known in which `member`, whose post in call `number` is not like ours, did something else: by how
    /// much it was before `number`, our operation there, and its own where that is known.
    pub(super) fn differs(
        &self,
        member: usize,
        number: u64,
        ours: Post,
        theirs: Post,
    ) -> (u64, u8, Option<u8>) {
        if theirs.past != ours.past {
            let mut calls: Vec<_> = self.calls.log.iter().filter(|(n, _, _)| *n < number).collect();
            calls.sort_unstable();
            for (n, code, hash) in calls {
                match self.slots.look(member, *n) {
                    Look::Posted(p) if (p.code & !EARLIER, p.hash) == (*code, *hash) => {}
                    Look::Posted(p) => return (number - n, *code, Some(p.code & !EARLIER)),
                    // Nothing at all: it did not come here with it.
                    Look::Nothing => return (number - n, *code, None),
                    Look::Later => {}
                }
            }
        }
        (0, ours.code, Some(theirs.code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_leave_room_for_the_flag() {
        assert!(Operation::ALL.iter().all(|op| op.code() < EARLIER));
    }

    /// The chain of calls is that of their numbers: a thread that is overtaken on the way to its post changes nothing.
    #[test]
    fn calls_are_chained_in_the_order_of_their_numbers() {
        let (mut one, mut two) = (Calls::default(), Calls::default());
        // One thread of this rank makes all calls; at the other rank two threads are in the first two at the same time, and the
        // second one leaves first.
        let mut first = Vec::new();
        for (sequence, hash) in [(0, 70), (1, 80), (2, 90)] {
            let (number, past) = one.enter(sequence, 1, hash);
            assert_eq!(one.leave(number), number + 1);
            first.push(past);
        }
        let (early, late) = (two.enter(0, 1, 70), two.enter(1, 1, 80));
        assert_eq!(two.leave(late.0), early.0, "what stands in the first call may still be read");
        let third = two.enter(2, 1, 90);
        assert_eq!(first, [early.1, late.1, third.1]);
        assert_eq!((two.leave(early.0), two.leave(third.0)), (2, 3));
    }

    /// The numbers of its steps are no other call's: those of all ranks go on alike, also of one whose call had fewer steps than were reserved.
    #[test]
    fn steps_of_a_call_have_numbers_of_their_own() {
        let (mut one, mut two) = (Calls::default(), Calls::default());
        // Three sequence numbers are reserved.
        let (first, other) = (one.enter(4, 1, 70).0, two.enter(4, 1, 70).0);
        assert_eq!((first, other), (4, 4));
        assert_eq!(one.step(first), first + 1, "what was posted in the first step is not read again");
        assert_eq!(one.step(first + 1), first + 2);
        assert_eq!(one.leave(first + 2), first + 3);
        // At the other rank another thread is in the next call meanwhile.
        let next = two.enter(7, 1, 80);
        assert_eq!(two.step(other), other + 1, "the lowest that is read");
        assert_eq!(two.leave(next.0), other + 1);
        assert_eq!(two.leave(other + 1), first + 4);
        assert_eq!(one.enter(7, 1, 80), next);
    }

    #[test]
    fn numbers_outlast_those_of_calls() {
        let mut calls = Calls { next: u64::from(u32::MAX), ..Calls::default() };
        assert_eq!(calls.enter(u32::MAX, 1, 0).0, u64::from(u32::MAX));
        assert_eq!(calls.enter(0, 1, 0).0, 1 << 32);
        // Calls that went by plan in between.
        assert_eq!(calls.enter(7, 1, 0).0, (1 << 32) + 7);
    }
}
