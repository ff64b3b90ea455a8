//! Posting: any ready step may go, lowest round first.

use super::driver::Engine;
use super::flow;
use super::message::{Message, notify_hash, token};
use super::recorder::At;
use super::task::Task;
use crate::buffer::{Destination, Grant, copy, put, reduce};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Region;
use crate::plan::lower::OpKind;
use crate::record::EventKind;
use crate::transport::{Posted, Sink};

impl Engine {
    /// Starts everything that can start, in all operations; returns how much did.
    pub(super) fn post_ready(&mut self) -> Result<usize> {
        let mut moved = 0;
        self.core.refused = false;
        let mut next = self.core.active.first();
        while let Some(slot) = next {
            next = self.core.active.behind(slot);
            moved += self.post_slot(slot)?;
        }
        self.collected |= moved > 0;
        self.hand_over();
        Ok(moved)
    }

    /// Starts what can start in an operation that has just entered: others wait for what arrives, and the next progress.
    pub(super) fn post_first(&mut self, slot: u8) -> Result<()> {
        self.collected |= self.post_slot(slot)? > 0;
        self.hand_over();
        Ok(())
    }

    /// What was posted and sent goes to the device, all that is for one peer together.
    fn hand_over(&mut self) {
        if std::mem::take(&mut self.collected)
            && let Some(transport) = &mut self.transport
        {
            transport.flush();
        }
    }

    fn post_slot(&mut self, slot: u8) -> Result<usize> {
        let Some(mut task) = self.core.take_task(slot) else { return Ok(0) };
        let result = self.post_task(slot, &mut task);
        self.core.put_task(slot, task);
        result
    }

    fn post_task(&mut self, slot: u8, task: &mut Task) -> Result<usize> {
        let mut moved = 0;
        for peer in &mut task.peers {
            peer.stalled = false;
        }
        let ordered = task.keeps_order(self.core.setup.flow.order_timeout, &self.clock);
        // These make others ready; puts make none.
        while let Some(op) = task.local.pop() {
            self.run_local(slot, task, op)?;
            moved += 1;
        }
        loop {
            let Some(op) = flow::next(task, &self.core, ordered) else {
                self.request_ready(slot, task)?;
                return Ok(moved);
            };
            let peer = task.program.ops[op as usize].peer as usize;
            let posted = match task.peers[peer].ready {
                Some(ready) => self.post(slot, task, peer, op, ready)?,
                None => self.post_eager(task, peer, op)?,
            };
            match posted {
                Posted::Yes => moved += 1,
                // This peer must not hold up the others.
                Posted::Again => {
                    task.peers[peer].stalled = true;
                    self.core.refused = true;
                }
            }
        }
    }

    fn run_local(&mut self, slot: u8, task: &mut Task, index: u32) -> Result<()> {
        let op = task.program.ops[index as usize];
        if op.kind == OpKind::Notify {
            let m = &task.meta;
            let peer = &task.peers[op.peer as usize];
            let (to, hash) = (peer.world_rank, notify_hash(m.hash, peer.sent, peer.received));
            let notify = Message::Notify { call: m.call, code: m.code, hash, counter: op.bump };
            let at = At { peer: to, round: op.round, block: op.bump };
            self.core.recorder.add(EventKind::Notify, &task.label, at);
            self.send_for(slot, task, to, &notify)?;
            task.ops_left = task.ops_left.saturating_sub(1);
            return Ok(());
        }
        let segments = task.program.segments.get(op.first_segment as usize..).unwrap_or_default();
        let mut target = op.target;
        // What was combined on arrival is done.
        let left = if task.combined.get(index as usize) == Some(&true) { 0 } else { op.segments };
        for s in &segments[..left as usize] {
            match (op.kind, &task.reducer) {
                (OpKind::Reduce(side), Some(reducer)) => {
                    reduce(&task.binding, s.place, target, s.len, side, reducer)
                        .map_err(|e| e.in_round(op.round))?;
                    self.core.counts.reduced_bytes += s.len;
                }
                (OpKind::Reduce(_), None) => {
                    return Err(Error::new(ErrorKind::Argument, "this operation needs an operator"));
                }
                _ => {
                    copy(&task.binding, s.place, target, s.len)?;
                    self.core.counts.copied_bytes += s.len;
                }
            }
            target.offset += s.len;
        }
        task.ops_left = task.ops_left.saturating_sub(1);
        task.bump(op.bump);
        Ok(())
    }

    /// Posts the first put to a peer that is ready.
    fn post(
        &mut self,
        slot: u8,
        task: &mut Task,
        peer: usize,
        index: u32,
        (their_word, output, land): (u32, Grant, Grant),
    ) -> Result<Posted> {
        let Some(transport) = self.transport.as_deref_mut() else {
            return Err(Error::new(ErrorKind::Transport, "a put without a wire"));
        };
        let op = &task.program.ops[index as usize];
        let grant = match op.target.region {
            Region::Output => output,
            Region::Land => land,
            other => {
                return Err(Error::new(
                    ErrorKind::Transport,
                    format!("a put cannot target a peer's {other:?}"),
                ));
            }
        };
        let to = Destination {
            peer: task.peers[peer].world_rank,
            address: grant.address.wrapping_add(op.target.offset),
            key: grant.key,
            word: their_word.wrapping_add(op.bump),
        };
        let first = op.first_segment as usize;
        let segments = &task.program.segments[first..first + op.segments as usize];
        let token = token(slot, task.base, index);
        self.heartbeat.towards(to.peer);
        let at = At { peer: to.peer, round: op.round, block: op.bump };
        self.core.recorder.write(EventKind::Put, &task.label, at);
        let posted = match put(transport, &task.binding, segments, to, token) {
            Ok(posted) => posted,
            // As in `send`: the reason may be on its way.
            Err(e) if e.kind() == ErrorKind::PeerLost => {
                self.core.lost(Some(to.peer), e.message());
                Posted::Again
            }
            Err(e) => return Err(e.with_peer(to.peer as usize).in_round(op.round)),
        };
        if posted == Posted::Yes {
            self.core.counts.puts += 1;
            self.core.counts.put_bytes += op.len;
            self.core.recorder.commit();
            let (round, len) = (op.round, op.len);
            task.global_bytes += self.core.crossing(to.peer, len);
            task.posted(peer, round, len);
        }
        Ok(posted)
    }
}
