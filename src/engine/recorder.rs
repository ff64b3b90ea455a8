//! The flight recorder: a ring of the last events, for which all memory is there from the start. An
//! arrival takes 29 instructions more than with none kept (`ci/cost puts`, beside CIRCULANT_RECORD_EVENTS=0), and no system call: the time is the processor's own counter where the kernel trusts that.

use super::credits::CREDITS;
use super::message::CallId;
use crate::record::{EventKind, NONE, Reading};
use crate::transport::Ticks;
use std::ops::Range;

/// What one message means to a rank, at most: its put, its arrival, a ready message, and an idle time.
const EVENTS_PER_MESSAGE: usize = 4;
/// By default so many times what the neighbours may send on credit fits in.
const CREDITS_KEPT: usize = 4;
/// Where something went or came from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At {
    pub(super) peer: u32,
    pub(super) round: u32,
    pub(super) block: u32,
}

impl At {
    /// Of no peer.
    pub(super) const NOWHERE: Self = Self { peer: NONE, round: NONE, block: NONE };
}

/// One event, of 40 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recorded {
    pub(super) ticks: u64,
    pub(super) call: CallId,
    pub(super) at: At,
    pub(super) kind: EventKind,
    pub(super) code: u8,
}

/// The ring.
#[derive(Debug)]
pub(super) struct Recorder {
    /// A power of two of them, or none.
    slots: Box<[Recorded]>,
    mask: usize,
    /// Events so far.
    count: usize,
    /// The last event says that nothing moves.
    idle: bool,
    ticks: Ticks,
    start: Reading,
}

/// How many events a rank among `size` keeps by default: of 2q neighbours, each with its credits.
fn default_events(size: u32) -> usize {
    let q = (u32::BITS - (size.max(2) - 1).leading_zeros()) as usize;
    2 * q * CREDITS as usize * EVENTS_PER_MESSAGE * CREDITS_KEPT
}

impl Recorder {
    /// For `events` events (rounded up to a power of two; none: it is off), by default as many as follow from `size`.
    pub(super) fn new(events: Option<u32>, size: u32, ticks: Ticks) -> Self {
        let events = events.map_or_else(|| default_events(size), |n| n as usize);
        let slots = if events == 0 { 0 } else { events.next_power_of_two() };
        let slots = vec![Recorded::default(); slots].into_boxed_slice();
        let start = ticks.reading();
        Self { mask: slots.len().saturating_sub(1), slots, count: 0, idle: false, ticks, start }
    }

    /// The time, for [`Recorder::add_sent`].
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.ticks.now()
    }

    /// Records an event of the operation with this code.
    #[inline(always)]
    pub(super) fn add(&mut self, kind: EventKind, code: u8, call: &CallId, at: At) {
        let Some(slot) = self.slots.get_mut(self.count & self.mask) else { return };
        *slot = Recorded { ticks: self.ticks.now(), call: *call, at, kind, code };
        self.count = self.count.wrapping_add(1);
        self.idle = matches!(kind, EventKind::Idle);
    }

    /// The same of something that has left meanwhile: `ticks` is the time before, as it may have arrived by now.
    #[inline(always)]
    pub(super) fn add_sent(&mut self, ticks: u64, kind: EventKind, code: u8, call: &CallId, at: At) {
        let Some(slot) = self.slots.get_mut(self.count & self.mask) else { return };
        *slot = Recorded { ticks, call: *call, at, kind, code };
        self.count = self.count.wrapping_add(1);
        self.idle = false;
    }

    /// Nothing moves, in this call.
    #[inline]
    pub(super) fn idle(&mut self, code: u8, call: &CallId) {
        if !self.idle {
            self.add(EventKind::Idle, code, call, At::NOWHERE);
        }
    }

    /// The events that are kept, in order.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Recorded> {
        let first = self.count.saturating_sub(self.slots.len());
        (first..self.count).filter_map(|i| self.slots.get(i & self.mask))
    }

    /// How many were overwritten.
    pub(super) fn lost(&self) -> u64 {
        self.count.saturating_sub(self.slots.len()) as u64
    }

    /// The clock at the start, and now.
    pub(super) fn clock(&self) -> Range<Reading> {
        self.start..self.ticks.reading()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Clock;

    fn recorder(events: u32) -> Recorder {
        Recorder::new(Some(events), 2, Clock::default().ticks())
    }

    #[test]
    fn the_last_events_are_kept() {
        const LAST_BLOCK: u32 = (1 << 24) - 1;
        let mut ring = recorder(3);
        for sequence in 0..11 {
            let call = CallId { comm: 9, sequence };
            ring.add(EventKind::Put, 200, &call, At { peer: 1, round: sequence, block: LAST_BLOCK });
        }
        let kept: Vec<&Recorded> = ring.kept().collect();
        let numbers: Vec<_> = kept.iter().map(|e| (e.call.sequence, e.at.round, e.at.block)).collect();
        assert_eq!(numbers, [7, 8, 9, 10].map(|n| (n, n, LAST_BLOCK)), "three are no power of two, so four");
        assert!(kept.iter().all(|e| (e.kind, e.code, e.at.peer, e.call.comm) == (EventKind::Put, 200, 1, 9)));
        assert!(kept.is_sorted_by_key(|e| e.ticks) && ring.lost() == 7);
    }

    #[test]
    fn without_room_nothing_is_recorded() {
        let mut ring = recorder(0);
        ring.add(EventKind::Put, 1, &CallId::default(), At::NOWHERE);
        assert_eq!((ring.kept().count(), ring.lost()), (0, 0));
    }

    #[test]
    fn idling_is_recorded_once() {
        let mut ring = recorder(8);
        let call = CallId::default();
        (0..5).for_each(|_| ring.idle(1, &call));
        ring.add(EventKind::Arrive, 1, &call, At::NOWHERE);
        (0..5).for_each(|_| ring.idle(1, &call));
        let kinds: Vec<_> = ring.kept().map(|e| e.kind).collect();
        assert_eq!(kinds, [EventKind::Idle, EventKind::Arrive, EventKind::Idle]);
        assert!(ring.kept().all(|e| [e.at.peer, e.at.round, e.at.block] == [NONE; 3]));
    }

    #[test]
    fn room_grows_with_the_neighbours() {
        assert!(default_events(1) > 0 && default_events(2) <= default_events(3));
        assert_eq!(default_events(1 << 20), 20 * default_events(2));
        assert!(default_events(u32::MAX) * size_of::<Recorded>() < 1 << 20);
    }
}
