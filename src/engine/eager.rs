//! Eager data: short puts as messages, which need no open word.
//!
//! A put waits for its target's open word, which costs a latency and a message. What fits into a message goes as one
//! instead, while no open word has come: into one of [`CREDITS`] receive buffers that every rank grants to every
//! other at start-up. A receiver that is in the call copies it to its place at once; else it is kept until the call is
//! entered. Credits come back by the half dozen.
//!
//! Where all bytes from one rank to another in an operation fit into one message, no open word is sent at all. A
//! sender without credit then asks for it ([`Message::Want`]), so credits delay an operation but never hold it up:
//! also where ranks enter the operations of two communicators in different orders.

use super::Engine;
use super::core::Core;
use super::message::{CallId, Message, Reader, Writer};
use super::task::Task;
use crate::buffer::{self, Grant};
use crate::error::{ErrorKind, Result};
use crate::plan::{Place, Region};
use crate::transport::{Limits, MESSAGE_MAX, Posted};
use std::collections::HashMap;

/// Eager messages that one rank may have on their way to, or kept at, a neighbour of the circulant graph.
pub(super) const CREDITS: u32 = super::bound(12, 4);
/// Credits at one rank that all ranks share which are no neighbours, each at most [`CREDITS`]. This bounds the memory for messages
/// whose call is not entered yet to 128 MiB (at [`MESSAGE_MAX`] bytes each) for any number of ranks. With more than 16 384 ranks
/// only neighbours send eagerly; the others ask for the open word first.
const SHARED: u32 = super::bound(1 << 14, 64);
/// The first byte of eager data; the codes of [`Message`] are others.
const CODE: u8 = 64;
/// Bytes before the data.
const HEAD: usize = 39;
/// The most data in one message.
const MOST: usize = MESSAGE_MAX - HEAD;
/// The most data that goes this way where messages are as long as they can be.
const EAGER: usize = 8000;
/// Of a put to a rank that will open: the longer ones wait for that.
const SHORT: u64 = 4096;
const _: () = assert!(MOST >= EAGER);

/// What stands before the data: which bytes of which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub call: CallId,
    pub code: u8,
    pub hash: u64,
    pub counter: u32,
    /// In the receiver's memory.
    pub target: Place,
}

/// The most bytes that go eagerly on a wire; the same on all ranks, as the limits are.
pub(super) fn most(limits: Option<&Limits>) -> u64 {
    limits.map_or(0, |l| l.message.saturating_sub(HEAD).min(EAGER) as u64)
}

/// Who may send how much more.
#[derive(Debug)]
pub(super) struct Credits {
    /// What a rank that is no neighbour may send.
    others: u32,
    /// By rank: messages of ours that it has not given back.
    spent: HashMap<u32, u32>,
    /// By rank: messages of its that we have not given back.
    owed: HashMap<u32, u32>,
}

impl Core {
    /// Room for what these ranks may send before we enter their calls, so that no call allocates it. Pages of it
    /// that are never needed are never touched.
    pub(super) fn expect_early(&mut self, from: &[u32]) {
        for peer in from {
            self.credits.spent.insert(*peer, 0);
            self.credits.owed.insert(*peer, 0);
        }
        let kept = from.len() * CREDITS as usize;
        self.spare.resize_with(kept, || Vec::with_capacity(MOST));
        self.bank.reserve(kept);
    }

    /// Eager messages that `peer` and this rank may have on their way to each other: the same at both.
    fn credit_of(&self, peer: u32) -> u32 {
        if self.is_neighbour(peer) { CREDITS } else { self.credits.others }
    }

    /// Whether `peer` takes another eager message.
    pub(super) fn has_credit(&self, peer: u32) -> bool {
        self.credits.spent.get(&peer).copied().unwrap_or(0) < self.credit_of(peer)
    }

    /// An eager message of `peer` is used up: gives credit back, in portions of half of all, before the operation in `slot` ends.
    fn give_back(&mut self, slot: u8, peer: u32) {
        let portion = (self.credit_of(peer) / 2).max(1);
        if let Some(messages) = self.credits.used(peer, portion) {
            self.queue_for(slot, peer, Message::Credit { messages });
        }
    }
}

impl Credits {
    /// Of a world of `size` ranks.
    pub(super) fn new(size: u32) -> Self {
        let others = (SHARED / size.max(1)).min(CREDITS);
        Self { others, spent: HashMap::new(), owed: HashMap::new() }
    }

    fn spend(&mut self, peer: u32) {
        *self.spent.entry(peer).or_default() += 1;
    }

    /// `peer` gave `n` back.
    pub(super) fn back(&mut self, peer: u32, n: u32) {
        if let Some(spent) = self.spent.get_mut(&peer) {
            *spent = spent.saturating_sub(n);
        }
    }

    /// A message of `peer` is used up; says how many to give back now, in portions of `portion`.
    fn used(&mut self, peer: u32, portion: u32) -> Option<u32> {
        let owed = self.owed.entry(peer).or_default();
        *owed += 1;
        (*owed >= portion).then(|| std::mem::take(owed))
    }
}

impl Head {
    fn write(&self, from: u32, out: &mut [u8; MESSAGE_MAX]) {
        let mut w = Writer { out, at: 0 };
        w.u8(CODE);
        w.u32(from);
        w.call(self.call);
        w.u8(self.code);
        w.u64(self.hash);
        w.u32(self.counter);
        w.u8(match self.target.region {
            Region::Land => 1,
            _ => 0,
        });
        w.u64(self.target.offset);
        debug_assert_eq!(w.at, HEAD);
    }

    /// Sender, head and data, if this is eager data at all.
    pub(super) fn read(bytes: &[u8]) -> Option<(u32, Self, &[u8])> {
        let mut r = Reader(bytes);
        if r.u8()? != CODE {
            return None;
        }
        let from = r.u32()?;
        let (call, code, hash, counter) = (r.call()?, r.u8()?, r.u64()?, r.u32()?);
        let region = match r.u8()? {
            0 => Region::Output,
            1 => Region::Land,
            _ => return None,
        };
        let target = Place::new(region, r.u64()?);
        Some((from, Self { call, code, hash, counter, target }, r.0))
    }
}

impl Task {
    /// Whether all bytes to (`out`) or from peer `index` go eagerly, so that no open word is sent.
    pub(super) fn unopened(&self, index: usize, out: bool) -> bool {
        let peer = &self.program.peers[index];
        (if out { peer.bytes_out } else { peer.bytes_in }) <= self.eager
    }

    /// Whether an open word of peer `index` will come that none of our puts has waited for.
    pub(super) fn opens_late(&self, index: usize) -> bool {
        self.program.peers[index].we_put && self.peers[index].open.is_none() && !self.unopened(index, true)
    }

    /// The longest put that goes to peer `index` before that has opened.
    pub(super) fn early(&self, index: usize) -> u64 {
        if self.unopened(index, true) { self.eager } else { self.eager.min(SHORT) }
    }
}

impl Engine {
    /// Sends the first ready put to a peer that has not opened as a message.
    ///
    /// # Errors
    /// When a segment lies outside its region, or the transport fails.
    pub(super) fn post_early(&mut self, task: &mut Task, peer: usize, index: u32) -> Result<Posted> {
        let op = task.program.ops[index as usize];
        let to = task.peers[peer].world_rank;
        let m = &task.meta;
        let head = Head { call: m.call, code: m.code, hash: m.hash, counter: op.bump, target: op.target };
        let buffer = &mut *self.scratch;
        head.write(self.core.setup.rank, buffer);
        let first = op.first_segment as usize;
        let mut at = HEAD;
        for s in &task.program.segments[first..first + op.segments as usize] {
            let len = usize::try_from(s.len).unwrap_or(usize::MAX).min(MESSAGE_MAX - at);
            buffer::read(&task.binding, s.place, &mut buffer[at..at + len])?;
            at += len;
        }
        let Some(transport) = self.transport.as_deref_mut() else { return Ok(Posted::Again) };
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
            task.went(peer, op.len);
            task.ops_left = task.ops_left.saturating_sub(1);
            self.core.credits.spend(to);
            self.core.counts.puts += 1;
            self.core.counts.put_bytes += op.len;
            self.core.counts.copied_bytes += op.len;
        }
        Ok(posted)
    }

    /// Asks those for their open word that send none by themselves, and to whom we have no credit left.
    pub(super) fn want(&mut self, slot: u8, task: &mut Task) -> Result<()> {
        for i in 0..task.peers.len() {
            let peer = &task.peers[i];
            if peer.open.is_some() || peer.wanted || peer.ready.is_empty() || !task.unopened(i, true) {
                continue;
            }
            if self.core.has_credit(peer.world_rank) {
                continue;
            }
            let want = Message::Want { call: task.meta.call, code: task.meta.code, hash: task.meta.hash };
            let to = peer.world_rank;
            task.peers[i].wanted = true;
            self.send_for(slot, task, to, &want)?;
        }
        Ok(())
    }
}

impl Core {
    /// Eager data came.
    pub(super) fn eager(&mut self, from: u32, head: Head, data: &[u8]) {
        if self.slot_of(head.call).is_some() {
            return self.place(from, head, data);
        }
        // Kept; what is there is reused, so that a rank that is always late allocates nothing in the end.
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(data);
        self.for_call(from, Message::Data { head, data: kept });
    }

    /// Puts eager data of a call that we are in where it belongs.
    pub(super) fn place(&mut self, from: u32, head: Head, data: &[u8]) {
        let task = self.slot_of(head.call).and_then(|s| self.take_task(s).map(|t| (s, t)));
        let Some((slot, mut task)) = task else { return };
        let (mine, hash) = (task.meta.code, task.meta.hash);
        if (mine, hash) != (head.code, head.hash) {
            self.put_task(slot, task);
            return self.disagree(from, head.call, head.code, mine);
        }
        let awaited = task.awaits(head.counter);
        let fits = awaited.is_some_and(|i| task.peers[i].world_rank == from)
            && data.len() as u64 <= task.program.expected[head.counter as usize].len;
        let mut owed = None;
        let outcome = if fits { buffer::write(&task.binding, head.target, data) } else { Ok(()) };
        if let (Some(i), true, Ok(())) = (awaited, fits, &outcome) {
            self.counts.arrivals += 1;
            self.counts.copied_bytes += data.len() as u64;
            owed = task.came(head.counter, i, self.setup.acknowledge_at(&task));
        }
        self.put_task(slot, task);
        if let Some(bytes) = owed {
            self.queue_for(slot, from, Message::Ack { call: head.call, bytes });
        }
        match outcome {
            Ok(()) if fits => {}
            Ok(()) => self.strange(from),
            Err(e) => self.broken = self.broken.take().or(Some(e.with_peer(from as usize))),
        }
        self.give_back(slot, from);
    }

    /// A peer without credit wants the open word that it would not get.
    pub(super) fn open_to(&mut self, from: u32, slot: u8, index: usize) {
        let Some(task) = self.task_ref(slot) else { return };
        let open = open_word(task, slot, index);
        self.queue_for(slot, from, open);
    }
}

/// The open word of the operation in `slot` for peer `index`.
pub(super) fn open_word(task: &Task, slot: u8, index: usize) -> Message {
    let (call, code, peer) = (task.meta.call, task.meta.code, &task.peers[index]);
    let hash = super::core::salted(task.meta.hash, peer.received);
    if task.persistent {
        return Message::Start { call, slot, code, hash };
    }
    let from = |grant: Grant, at: u64| Grant { address: grant.address.wrapping_add(at), ..grant };
    let [output, land] = peer.landing;
    let output = from(task.binding.output.grant(), output);
    let land = from(task.binding.land.grant(), land);
    Message::Open { call, slot, code, hash, output, land }
}

#[cfg(test)]
mod tests {
    use super::super::core::Queued;
    use super::super::{Flow, Setup};
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn heads_come_back() {
        for region in [Region::Output, Region::Land] {
            let call = CallId { comm: 9 << 33, sequence: 8 };
            let target = Place::new(region, 1 << 40);
            let head = Head { call, code: 3, hash: 77, counter: 12, target };
            let mut buffer = [0; MESSAGE_MAX];
            head.write(5, &mut buffer);
            buffer[HEAD..HEAD + 3].copy_from_slice(b"abc");
            assert_eq!(Head::read(&buffer[..HEAD + 3]), Some((5, head, &b"abc"[..])));
            assert_eq!(Head::read(&buffer[..HEAD - 1]), None);
        }
    }

    #[test]
    fn credits_run_out_and_come_back() {
        let setup = |rank, neighbour| Setup {
            rank,
            size: 50,
            neighbours: vec![neighbour],
            flow: Flow { window: 1, patience: Duration::ZERO },
            warn_after: Duration::ZERO,
            names: |_| "test",
        };
        let (mut ours, mut theirs) = (Core::new(setup(3, 7)), Core::new(setup(7, 3)));
        let mut sent = 0;
        while ours.has_credit(7) {
            ours.credits.spend(7);
            sent += 1;
        }
        assert_eq!(sent, CREDITS);
        assert!(ours.has_credit(8) && ours.credit_of(8) < CREDITS);
        for _ in 0..sent {
            theirs.give_back(0, 3);
        }
        while let Some(Queued { to: 3, message: Message::Credit { messages }, .. }) =
            theirs.outbox.pop_front()
        {
            ours.credits.back(7, messages);
            sent -= messages;
        }
        assert!(sent == 0 && ours.has_credit(7));
        for size in [1, 2, 1000, 1 << 20, u32::MAX] {
            assert!(u64::from(Credits::new(size).others) * u64::from(size) <= u64::from(SHARED));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Head::read(&bytes);
        }
    }
}
