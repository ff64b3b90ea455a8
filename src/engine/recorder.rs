//! The flight recorder: a ring of the last events, for which all memory is there from the start.
//!
//! An event takes 19 instructions and no system call: an arrival over shared memory is 93 (`ci/cost puts`), and 74 in a build whose
//! recorder does nothing. The time is the processor's own counter where the kernel trusts that.

use super::credits::CREDITS;
use super::message::CallId;
use crate::record::{EventKind, NONE, Reading};
use crate::transport::Ticks;
use std::ops::Range;

/// What one message means to a rank, at most: its put, its arrival, a ready message, and an idle time.
const EVENTS_PER_MESSAGE: usize = 4;
/// By default so many times what the neighbours may send on credit fits in.
const CREDITS_KEPT: usize = 4;
/// Where an event has the operation's code, beside the sequence number.
const CODE_AT: u32 = u32::BITS;

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

/// A call and its operation's code, in two words: an event copies it as one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Label([u64; 2]);

impl Label {
    #[inline]
    pub(super) fn new(code: u8, call: &CallId) -> Self {
        Self([call.comm, u64::from(code) << CODE_AT | u64::from(call.sequence)])
    }

    pub(super) fn call(self) -> CallId {
        let sequence = self.0[1] & u64::from(u32::MAX);
        // It has 32 bits, and the code 8: both fit.
        CallId { comm: self.0[0], sequence: u32::try_from(sequence).unwrap_or(0) }
    }

    pub(super) fn code(self) -> u8 {
        u8::try_from(self.0[1] >> CODE_AT).unwrap_or(0)
    }
}

/// One event, of 40 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recorded {
    pub(super) label: Label,
    pub(super) ticks: u64,
    pub(super) at: At,
    pub(super) kind: EventKind,
}

/// The ring.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Where ticks are counts of the processor; else none, so that one look tells that and whether the recorder is on. A power of
    /// two, of which the next to be written is no event.
    slots: Box<[Recorded]>,
    /// The same where ticks are those of a clock.
    clocked: Box<[Recorded]>,
    mask: usize,
    /// Events so far.
    count: usize,
    ticks: Ticks,
    start: Reading,
}

/// How many events a rank among `size` keeps by default: of 2q neighbours, each with its credits.
fn default_events(size: u32) -> usize {
    let q = (u32::BITS - (size.max(2) - 1).leading_zeros()) as usize;
    2 * q * CREDITS as usize * EVENTS_PER_MESSAGE * CREDITS_KEPT
}

impl Recorder {
    /// With room for `events` at least (0: recording is off), by default for what [`default_events`] says of `size` ranks.
    pub(super) fn new(events: Option<u32>, size: u32, ticks: Ticks) -> Self {
        let events = events.map_or_else(|| default_events(size), |n| n as usize);
        let slots = if events == 0 { 0 } else { (events + 1).next_power_of_two() };
        let (counted, clocked) = if ticks.is_counter() { (slots, 0) } else { (0, slots) };
        let start = ticks.reading();
        let ring = |slots| vec![Recorded::default(); slots].into_boxed_slice();
        let (slots, clocked, mask) = (ring(counted), ring(clocked), slots.saturating_sub(1));
        Self { slots, clocked, mask, count: 0, ticks, start }
    }

    /// Writes an event of now, which [`Recorder::commit`] records: what is sent has the time before it is handed to the transport,
    /// which may refuse it.
    #[inline(always)]
    pub(super) fn write(&mut self, kind: EventKind, label: &Label, at: At) {
        match self.slots.get_mut(self.count & self.mask) {
            Some(slot) => *slot = Recorded { label: *label, ticks: Ticks::counter(), at, kind },
            None => self.write_by_clock(kind, label, at.peer, at.round, at.block),
        }
    }

    /// The same where the processor's count is not used. (What [`At`] has comes one by one: as one it would take memory in
    /// [`Recorder::write`].)
    #[cold]
    #[inline(never)]
    fn write_by_clock(&mut self, kind: EventKind, label: &Label, peer: u32, round: u32, block: u32) {
        if let Some(slot) = self.clocked.get_mut(self.count & self.mask) {
            let at = At { peer, round, block };
            *slot = Recorded { label: *label, ticks: self.ticks.now(), at, kind };
        }
    }

    /// Records what was written last.
    #[inline(always)]
    pub(super) fn commit(&mut self) {
        self.count = self.count.wrapping_add(1);
    }

    /// Records an event of now.
    #[inline(always)]
    pub(super) fn add(&mut self, kind: EventKind, label: &Label, at: At) {
        self.write(kind, label, at);
        self.commit();
    }

    /// Records two events of now, without peer, round or block, with one reading of the clock.
    #[inline(always)]
    pub(super) fn add_both(&mut self, [first, second]: [EventKind; 2], label: &Label) {
        let (ring, ticks) = match self.slots.is_empty() {
            false => (&mut self.slots, Ticks::counter()),
            true if self.clocked.is_empty() => return,
            true => (&mut self.clocked, self.ticks.now()),
        };
        for kind in [first, second] {
            if let Some(slot) = ring.get_mut(self.count & self.mask) {
                *slot = Recorded { label: *label, ticks, at: At::NOWHERE, kind };
            }
            self.count = self.count.wrapping_add(1);
        }
    }

    /// Nothing moves, in this call.
    #[inline]
    pub(super) fn idle(&mut self, code: u8, call: &CallId) {
        if self.kept().next_back().is_none_or(|last| last.kind != EventKind::Idle) {
            self.add(EventKind::Idle, &Label::new(code, call), At::NOWHERE);
        }
    }

    fn ring(&self) -> &[Recorded] {
        if self.slots.is_empty() { &self.clocked } else { &self.slots }
    }

    /// The number of the first event that is kept.
    fn first(&self) -> usize {
        self.count.saturating_sub(self.mask)
    }

    /// The events that are kept, in order.
    pub(super) fn kept(&self) -> impl DoubleEndedIterator<Item = &Recorded> {
        let ring = self.ring();
        (self.first()..self.count).filter_map(|i| ring.get(i & self.mask))
    }

    /// How many were overwritten.
    pub(super) fn lost(&self) -> u64 {
        if self.mask == 0 { 0 } else { self.first() as u64 }
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
            let label = Label::new(200, &CallId { comm: 9, sequence });
            ring.add(EventKind::Put, &label, At { peer: 1, round: sequence, block: LAST_BLOCK });
        }
        let kept: Vec<&Recorded> = ring.kept().collect();
        let numbers: Vec<_> =
            kept.iter().map(|e| (e.label.call().sequence, e.at.round, e.at.block)).collect();
        assert_eq!(numbers, [8, 9, 10].map(|n| (n, n, LAST_BLOCK)));
        let what = |e: &&Recorded| (e.kind, e.label.code(), e.at.peer, e.label.call().comm);
        assert!(kept.iter().all(|e| what(e) == (EventKind::Put, 200, 1, 9)));
        assert!(kept.is_sorted_by_key(|e| e.ticks) && ring.lost() == 8);
    }

    /// What was refused leaves no event, and what is kept stays as it is.
    #[test]
    fn what_is_not_sent_is_no_event() {
        for clock in [Clock::default(), Clock::group(1).remove(0)] {
            let mut ring = Recorder::new(Some(3), 2, clock.ticks());
            let at = |round| At { peer: 1, round, block: 0 };
            (0..9).for_each(|round| ring.add(EventKind::Put, &Label::default(), at(round)));
            (9..12).for_each(|round| ring.write(EventKind::Put, &Label::default(), at(round)));
            assert_eq!(ring.kept().map(|e| e.at.round).collect::<Vec<_>>(), [6, 7, 8]);
            ring.commit();
            assert_eq!(ring.kept().map(|e| e.at.round).collect::<Vec<_>>(), [7, 8, 11]);
        }
    }

    #[test]
    fn two_events_of_one_time_stand_one_behind_the_other() {
        for clock in [Clock::default(), Clock::group(1).remove(0)] {
            let mut ring = Recorder::new(Some(3), 2, clock.ticks());
            for sequence in 0..5 {
                let label = Label::new(1, &CallId { comm: 9, sequence });
                ring.add_both([EventKind::Enter, EventKind::Leave], &label);
            }
            let kept: Vec<_> = ring.kept().map(|e| (e.kind, e.label.call().sequence)).collect();
            assert_eq!(kept, [(EventKind::Leave, 3), (EventKind::Enter, 4), (EventKind::Leave, 4)]);
            let times: Vec<_> = ring.kept().map(|e| e.ticks).collect();
            assert_eq!((times[1], ring.lost()), (times[2], 7));
        }
    }

    #[test]
    fn without_room_nothing_is_recorded() {
        let mut ring = recorder(0);
        ring.add(EventKind::Put, &Label::default(), At::NOWHERE);
        ring.add_both([EventKind::Enter, EventKind::Leave], &Label::default());
        assert_eq!((ring.kept().count(), ring.lost()), (0, 0));
    }

    #[test]
    fn idling_is_recorded_once() {
        let mut ring = recorder(8);
        let call = CallId::default();
        (0..5).for_each(|_| ring.idle(1, &call));
        ring.add(EventKind::Arrive, &Label::new(1, &call), At::NOWHERE);
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
