//! The operations in flight, in order of entering, each with its call. To enter, to leave, and to find the slot of a call take as long
//! among many as alone.

use super::message::{CallId, SLOTS};
use std::collections::VecDeque;

/// No slot, in a link.
const END: u8 = u8::MAX;
/// Lists of calls of one digest: some more than slots, so that each has one call, mostly. A digest is a byte.
const LISTS: usize = 256;

/// Slots in use and free ones. Allocates nothing after it was made.
#[derive(Debug)]
pub(super) struct Active {
    places: Box<[Place; SLOTS]>,
    /// The slots that entered first and last.
    first: u8,
    last: u8,
    /// By digest of the call, the slot that entered last.
    lists: Box<[u8; LISTS]>,
    /// Those longest unused first, so that a slot rests before it is used again.
    free: VecDeque<u8>,
}

/// What is known of one slot in use.
#[derive(Clone, Copy, Debug)]
struct Place {
    call: CallId,
    /// In order of entering.
    before: u8,
    behind: u8,
    /// Of the same digest.
    alike: u8,
}

impl Active {
    pub(super) fn new() -> Self {
        let unused = Place { call: CallId::default(), before: END, behind: END, alike: END };
        // Slots are numbered below 255.
        let free = (0..END).take(SLOTS).collect();
        Self { places: Box::new([unused; SLOTS]), first: END, last: END, lists: Box::new([END; LISTS]), free }
    }

    /// The slot of the next call that enters, if one is free that will do.
    #[inline]
    pub(super) fn free(&mut self, will_do: impl Fn(u8) -> bool) -> Option<u8> {
        let first = *self.free.front()?;
        if will_do(first) {
            return Some(first);
        }
        let at = self.free.iter().position(|slot| will_do(*slot))?;
        self.free.swap(0, at);
        self.free.front().copied()
    }

    /// `call` is in flight in the slot that [`Active::free`] has named.
    pub(super) fn enter(&mut self, call: CallId) {
        let Some(slot) = self.free.pop_front() else { return };
        let list = &mut self.lists[digest(call)];
        let place = Place { call, before: self.last, behind: END, alike: std::mem::replace(list, slot) };
        match self.places.get_mut(usize::from(self.last)) {
            Some(last) => last.behind = slot,
            None => self.first = slot,
        }
        self.last = slot;
        self.places[usize::from(slot)] = place;
    }

    /// The call in `slot`, which is in use, is in flight no more.
    pub(super) fn leave(&mut self, slot: u8) {
        self.retire(slot);
        self.free.push_back(slot);
    }

    /// A slot that was retired can be taken again.
    pub(super) fn give_back(&mut self, slot: u8) {
        self.free.push_back(slot);
    }

    /// As [`Active::leave`], and no other call takes the slot until it is [given back](Active::give_back).
    pub(super) fn retire(&mut self, slot: u8) {
        let Place { call, before, behind, alike } = self.places[usize::from(slot)];
        match self.places.get_mut(usize::from(before)) {
            Some(place) => place.behind = behind,
            None => self.first = behind,
        }
        match self.places.get_mut(usize::from(behind)) {
            Some(place) => place.before = before,
            None => self.last = before,
        }
        let mut link = &mut self.lists[digest(call)];
        while *link != slot && *link != END {
            link = &mut self.places[usize::from(*link)].alike;
        }
        *link = alike;
    }

    /// The slot of a call in flight.
    #[inline]
    pub(super) fn slot_of(&self, call: CallId) -> Option<u8> {
        let mut slot = self.lists[digest(call)];
        loop {
            let place = self.places.get(usize::from(slot))?;
            if place.call == call {
                return Some(slot);
            }
            slot = place.alike;
        }
    }

    /// The slot that entered first of all in use.
    #[inline]
    pub(super) fn first(&self) -> Option<u8> {
        (self.first != END).then_some(self.first)
    }

    /// The slot in use that entered after this one, which is in use.
    #[inline]
    pub(super) fn behind(&self, slot: u8) -> Option<u8> {
        let behind = self.places[usize::from(slot)].behind;
        (behind != END).then_some(behind)
    }

    /// All slots in use, in order of entering.
    pub(super) fn slots(&self) -> impl Iterator<Item = u8> {
        std::iter::successors(self.first(), |slot| self.behind(*slot))
    }
}

/// Calls of one communicator that follow each other have different ones.
#[inline]
fn digest(call: CallId) -> usize {
    // 2^64 divided by the golden ratio: numbers of communicators differ in their lowest bits, and in those from 32 on.
    let comm = call.comm.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
    (comm as usize + call.sequence as usize) % LISTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As a plain list, whatever enters and leaves, in calls of equal digests, too.
        #[test]
        fn calls_are_found_and_stay_in_order(
            steps in proptest::collection::vec((0..3u8, 0..1u64 << 33, 0..40u32, any::<proptest::sample::Index>()), 1..300),
        ) {
            let (mut active, mut plain) = (Active::new(), Vec::<(u8, CallId)>::new());
            for (kind, comm, sequence, which) in steps {
                let call = CallId { comm: comm % 2, sequence: sequence * 128 };
                if kind > 0 && plain.iter().all(|(_, known)| *known != call) {
                    prop_assert_eq!(active.free(|_| true).is_none(), plain.len() == SLOTS);
                    if let Some(slot) = active.free(|_| true) {
                        prop_assert!(plain.iter().all(|(used, _)| *used != slot));
                        active.enter(call);
                        plain.push((slot, call));
                    }
                } else if !plain.is_empty() {
                    let (slot, _) = plain.remove(which.index(plain.len()));
                    active.leave(slot);
                    prop_assert_eq!(active.slot_of(call), plain.iter().find(|(_, c)| *c == call).map(|(s, _)| *s));
                }
                prop_assert!(active.slots().eq(plain.iter().map(|(slot, _)| *slot)));
                for (slot, call) in &plain {
                    prop_assert_eq!(active.slot_of(*call), Some(*slot));
                }
            }
        }
    }

    #[test]
    fn a_communicators_calls_in_flight_have_lists_of_their_own() {
        for comm in [0, 1, 7 << 32 | 3] {
            let of = |sequence: u32| digest(CallId { comm, sequence: sequence.wrapping_add(u32::MAX - 100) });
            let mut digests: Vec<usize> = (0..).take(LISTS).map(of).collect();
            digests.sort_unstable();
            digests.dedup();
            assert_eq!(digests.len(), LISTS);
        }
    }
}
