//! The eager protocol: short puts as messages, which need no ready message.
//!
//! A put by rendezvous waits for its target's ready message, which costs a latency and a message. A put that fits into a message
//! goes as one instead while no ready message has come: into one of [`CREDITS`] receive buffers that every rank grants to
//! every other at start-up. A receiver that is in the call copies it to its target at once; else it is an unexpected message and
//! is kept until the call is entered. Credits are returned in portions of three quarters of all.
//!
//! Where all bytes from one rank to another in an operation fit into one message, no ready message is sent at all. A
//! sender without credit then asks for one ([`Message::ReadyRequest`]), so credits delay an operation but never hold it up:
//! also where ranks enter the operations of two communicators in different orders.

use super::core::Core;
use super::credits::{CREDITS, portion};
use super::driver::Engine;
use super::message::{EAGER_HEADER_BYTES, EagerHeader, Message};
use super::recorder::At;
use super::task::{Delivered, Task};
use crate::buffer;
use crate::error::{ErrorKind, Result};
use crate::record::EventKind;
use crate::transport::{LONG_MESSAGE_MAX, Posted};

/// Bytes of data in one eager message, at most.
const MAX_EAGER_DATA_BYTES: usize = LONG_MESSAGE_MAX - EAGER_HEADER_BYTES;
/// Bytes that one rank puts to another in an operation that go eagerly, at most: what a message of [`LONG_MESSAGE_MAX`] bytes holds,
/// rounded down.
const EAGER_LIMIT_BYTES: usize = 16_000;
const _: () = assert!(MAX_EAGER_DATA_BYTES >= EAGER_LIMIT_BYTES);

/// The longest eager put to a peer, in bytes, where a message of at most `message` bytes needs no round trip. `message` is the same at both ends, and so is this.
fn limit(message: usize) -> u64 {
    message.saturating_sub(EAGER_HEADER_BYTES).min(EAGER_LIMIT_BYTES) as u64
}

impl Core {
    /// Reserves buffers for unexpected messages of these ranks, so that no call allocates them. Pages of them
    /// that are never needed are never touched.
    pub(super) fn reserve_eager(&mut self, from: &[u32]) {
        for peer in from {
            self.credits.spent.insert(*peer, 0);
            self.credits.owed.insert(*peer, 0);
        }
        let kept = from.len() * CREDITS as usize;
        self.spare_buffers.resize_with(kept, || Vec::with_capacity(MAX_EAGER_DATA_BYTES));
        self.unexpected.reserve(kept);
    }

    /// Eager messages that `peer` and this rank may have on their way to each other: the same at both.
    fn credit_of(&self, peer: u32) -> u32 {
        if self.is_neighbour(peer) { CREDITS } else { self.credits.others }
    }

    /// Whether `peer` takes another eager message.
    pub(super) fn has_credit(&self, peer: u32) -> bool {
        self.credits.spent.get(&peer).copied().unwrap_or(0) < self.credit_of(peer)
    }

    /// An eager message of `peer` is used up, by no operation: gives credit back as [`Core::return_credit`].
    pub(super) fn return_credit_of_none(&mut self, peer: u32) {
        if let Some(messages) = self.credits.used(peer, portion(self.credit_of(peer))) {
            self.queue(peer, Message::Credit { messages });
        }
    }

    /// An eager message of `peer` is used up: gives credit back, a portion at a time, before the operation in `slot` ends.
    fn return_credit(&mut self, slot: u8, peer: u32) {
        if let Some(messages) = self.credits.used(peer, portion(self.credit_of(peer))) {
            self.queue_for(slot, peer, Message::Credit { messages });
        }
    }
}

impl Engine {
    /// Sets the eager limit of each peer of `task`.
    pub(super) fn limit_eager(&self, task: &mut Task) {
        let Some(transport) = &self.transport else { return };
        let same = (!transport.limits().shm_within_nodes).then(|| limit(transport.limits().message));
        for peer in &mut task.peers {
            peer.eager_limit = match same {
                _ if task.pairwise => 0,
                Some(limit) => limit,
                None => limit(transport.longest_message_to(peer.world_rank)),
            };
        }
    }

    /// Sends the first postable put to a peer that is not ready as a message.
    ///
    /// # Errors
    /// When a segment lies outside its region, or the transport fails.
    #[inline(never)]
    pub(super) fn post_eager(&mut self, task: &mut Task, peer: usize, index: u32) -> Result<Posted> {
        let op = task.program.ops[index as usize];
        let to = task.peers[peer].world_rank;
        let m = &task.meta;
        let head =
            EagerHeader { call: m.call, code: m.code, hash: m.hash, counter: op.bump, target: op.target };
        let buffer = &mut *self.scratch;
        head.write(self.core.setup.rank, buffer);
        let first = op.first_segment as usize;
        let mut at = EAGER_HEADER_BYTES;
        for s in &task.program.segments[first..first + op.segments as usize] {
            let len = usize::try_from(s.len).unwrap_or(usize::MAX).min(LONG_MESSAGE_MAX - at);
            buffer::read(&task.binding, s.place, &mut buffer[at..at + len])?;
            at += len;
        }
        let Some(transport) = self.transport.as_deref_mut() else { return Ok(Posted::Again) };
        let place = At { peer: to, round: op.round, block: op.bump };
        self.core.recorder.write(EventKind::Eager, &task.label, place);
        let posted = match transport.message(to, &buffer[..at]) {
            Ok(posted) => posted,
            // As in `send`: the reason may be on its way.
            Err(e) if e.kind() == ErrorKind::PeerLost => {
                crate::transport::Sink::lost(&mut self.core, Some(to), e.message());
                Posted::Again
            }
            Err(e) => return Err(e.with_peer(to as usize).in_round(op.round)),
        };
        if posted == Posted::Yes {
            self.core.recorder.commit();
            task.posted(peer, op.round, op.len);
            task.ops_left = task.ops_left.saturating_sub(1);
            self.core.credits.spend(to);
            self.core.counts.puts += 1;
            self.core.counts.put_bytes += op.len;
            task.global_bytes += self.core.crossing(to, op.len);
            self.core.counts.copied_bytes += op.len;
        }
        Ok(posted)
    }

    /// Asks peers for their ready message that send none by themselves and for which no credit is left.
    pub(super) fn request_ready(&mut self, slot: u8, task: &mut Task) -> Result<()> {
        for i in 0..task.peers.len() {
            let peer = &task.peers[i];
            if peer.ready.is_some() || peer.requested || peer.postable.is_empty() || !task.all_eager(i, true)
            {
                continue;
            }
            if self.core.has_credit(peer.world_rank) {
                continue;
            }
            let request =
                Message::ReadyRequest { call: task.meta.call, code: task.meta.code, hash: task.meta.hash };
            let to = peer.world_rank;
            task.peers[i].requested = true;
            self.send_for(slot, task, to, &request)?;
        }
        Ok(())
    }
}

impl Core {
    /// An eager message came.
    pub(super) fn eager_arrived(&mut self, from: u32, head: EagerHeader, data: &[u8]) {
        if self.slot_of(head.call).is_some() {
            return self.deliver_eager(from, head, data);
        }
        // Unexpected: kept. Buffers are reused, so that a rank that is always late allocates nothing in the end.
        let mut kept = self.spare_buffers.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(data);
        self.for_call(from, Message::Eager { head, data: kept });
    }

    /// Copies the data of an eager message of a call that we are in to its target.
    pub(super) fn deliver_eager(&mut self, from: u32, head: EagerHeader, data: &[u8]) {
        let task = self.slot_of(head.call).and_then(|s| self.take_task(s).map(|t| (s, t)));
        let Some((slot, mut task)) = task else { return };
        let (mine, hash) = (task.meta.code, task.meta.hash);
        if (mine, hash) != (head.code, head.hash) {
            self.put_task(slot, task);
            return self.mismatched(from, head.call, head.code, mine);
        }
        let awaited = task.awaits(head.counter);
        let fits = awaited.is_some_and(|i| task.peers[i].world_rank == from)
            && data.len() as u64 <= task.program.expected[head.counter as usize].len;
        let mut owed = Delivered::Astray;
        let outcome = if fits { buffer::write(&task.binding, head.target, data) } else { Ok(()) };
        if let (true, Ok(())) = (fits, &outcome) {
            self.counts.arrivals += 1;
            self.counts.copied_bytes += data.len() as u64;
            owed = task.delivered(head.counter, &mut self.recorder);
        }
        self.put_task(slot, task);
        if let Delivered::Due(_, bytes) = owed {
            self.acknowledge(slot, from, bytes);
        }
        match outcome {
            Ok(()) if fits => {}
            Ok(()) => self.inconsistent(from),
            Err(e) => self.broken = self.broken.take().or(Some(e.with_peer(from as usize))),
        }
        self.return_credit(slot, from);
    }

    /// A peer without credit asks for the ready message that it would not get.
    pub(super) fn send_ready(&mut self, from: u32, slot: u8, index: usize) {
        let Some(task) = self.task_ref(slot) else { return };
        let ready = task.ready_message(slot, index);
        self.queue_for(slot, from, ready);
    }
}

#[cfg(test)]
mod tests {
    use super::super::core::Queued;
    use super::super::credits::{Credits, SHARED_CREDITS};
    use super::super::setup::{Flow, Setup};
    use super::*;
    use crate::transport::Clock;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn credits_run_out_and_come_back() {
        let setup = |rank, neighbour| Setup {
            rank,
            size: 50,
            neighbours: vec![neighbour],
            node_groups: Arc::default(),
            flow: Flow {
                window: 1,
                acknowledged: 1,
                bandwidth_bound: u64::MAX,
                order_timeout: Duration::ZERO,
            },
            warn_after: Duration::ZERO,
            names: |_| "test",
            record_events: None,
        };
        let core = |setup| Core::new(setup, Clock::default().ticks());
        let (mut ours, mut theirs) = (core(setup(3, 7)), core(setup(7, 3)));
        let mut sent = 0;
        while ours.has_credit(7) {
            ours.credits.spend(7);
            sent += 1;
        }
        assert_eq!(sent, CREDITS);
        assert!(ours.has_credit(8) && ours.credit_of(8) < CREDITS);
        for _ in 0..sent {
            theirs.return_credit(0, 3);
        }
        while let Some(Queued { to: 3, message: Message::Credit { messages }, .. }) =
            theirs.outbox.pop_front()
        {
            ours.credits.returned(7, messages);
            sent -= messages;
        }
        assert!(sent < portion(CREDITS) && ours.has_credit(7), "{sent} of {CREDITS} do not come back");
        for credits in 0..50 {
            assert!(
                (1..=credits.max(1)).contains(&portion(credits)),
                "all of {credits} may be spent, and come back then"
            );
        }
        for size in [1, 2, 1000, 1 << 20, u32::MAX] {
            assert!(u64::from(Credits::new(size).others) * u64::from(size) <= u64::from(SHARED_CREDITS));
        }
    }
}
