//! Runs any plan on any transport: data-driven, never in lock-step, every wait under a deadline.
//!
//! Entering an operation sends one *open word* to each rank that will put to us; it carries our slot, where
//! to put, and a hash of the arguments. From then on only data dependencies count: an arrival bumps a
//! counter, a counter that reaches its mark makes steps ready, and any ready step may go as soon as its
//! target has opened and the window on unacknowledged bytes allows; the lowest round goes first.
//!
//! Any error is final for the world: it is flooded along the neighbours with the culprit's name, the
//! endpoint is closed (so that nobody can touch borrowed memory any more), and every later call fails.

mod bank;
mod beat;
mod bootstrap;
mod core;
mod counts;
mod dispute;
mod eager;
mod failure;
mod flow;
mod history;
pub(crate) mod message;
mod pump;
mod raw;
mod small;
mod taking;
mod task;
#[cfg(test)]
mod tests;
mod time;
mod waiting;

pub(crate) use beat::Beat;
pub(crate) use bootstrap::Identity;
pub(crate) use core::Core;
use core::Queued;
pub(crate) use counts::Counts;
pub(crate) use dispute::{Describe, Description};
pub(crate) use flow::Flow;
pub(crate) use message::CallId;
pub(crate) use raw::Pair;
pub(crate) use small::Brief;

use message::Mark;
pub(crate) use task::{Meta, Task};
pub(crate) use waiting::Waiting;

use crate::buffer::{Binding, ForkMark, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Borrow, Clock, Limits, MESSAGE_MAX, Posted, Sink, Transport};
use message::{Message, NONE};
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Tells the engine of ranks that ended, from outside the wire (launcher, process watch).
pub(crate) trait Liveness: Send + std::fmt::Debug {
    /// A rank that is gone, and how it ended. Never waits.
    fn gone(&mut self) -> Option<(u32, String)>;

    /// The state of a rank's process, where that can be seen from here.
    fn state(&mut self, _rank: u32) -> Option<ProcessState> {
        None
    }

    /// This error ends our world. Never waits.
    fn report(&mut self, error: &Error) {
        let _ = error;
    }
}

/// What the system says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    /// It runs or sleeps.
    Lives,
    /// A signal or a debugger has stopped it.
    Stopped,
}

/// A communicator as the engine sees it.
pub(crate) trait Group: Send + Sync {
    /// The number of its next call here: all lower ones have begun.
    fn next_call(&self) -> u32;

    /// The world ranks of its members.
    fn world_ranks(&self) -> Vec<u32>;
}

/// Finds the address of a rank that is no neighbour, when an operation needs it.
pub(crate) trait Directory: Send + std::fmt::Debug {
    /// The transport address of `rank`.
    ///
    /// # Errors
    /// When the launcher does not know it.
    fn address(&mut self, rank: u32) -> Result<Vec<u8>>;
}

/// What the engine is told when it is made.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// World ranks of the circulant neighbours, sorted, without us.
    pub(crate) neighbours: Vec<u32>,
    pub(crate) flow: Flow,
    /// A wait that lasts longer says for whom, each time it has lasted so much longer.
    pub(crate) warn_after: Duration,
    /// Names of operations by code, for messages about other ranks.
    pub(crate) names: fn(u8) -> &'static str,
}

/// The engine of one world.
pub(crate) struct Engine {
    transport: Option<Box<dyn Transport>>,
    limits: Option<Limits>,
    liveness: Option<Box<dyn Liveness>>,
    directory: Option<Box<dyn Directory>>,
    /// World ranks that the transport can reach: the neighbours, and who was needed since.
    connected: HashSet<u32>,
    beat: Arc<Beat>,
    core: Core,
    mark: ForkMark,
    /// Wait by sleeping: for ranks that must not disturb a measurement on shared cores.
    pub(crate) lazy: bool,
    /// Where messages are written.
    scratch: Box<[u8; MESSAGE_MAX]>,
    /// Nap in long waits; not for who wants to spin.
    pub(crate) naps: bool,
    /// The time is read, and rests are taken, by this alone.
    clock: Clock,
    /// Since when nothing has moved.
    quiet: Option<Instant>,
    /// Several threads use this engine.
    pub(crate) crowded: bool,
    /// The endpoint could not be closed: peers may still reach memory of ours.
    unclosed: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("limits", &self.limits)
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

/// The code of the last call of all, which is no operation.
pub(crate) const FINALIZE: u8 = u8::MAX;

/// How many waiting messages are tried each time.
const FLUSH: usize = 64;

/// The bound of a table or a count: unit tests are compiled with tiny ones, so that they reach them.
const fn bound(usual: u32, tiny: u32) -> u32 {
    if cfg!(test) { tiny } else { usual }
}

impl Engine {
    /// An engine on `transport`; `None` for a world of one rank.
    pub(crate) fn new(setup: Setup, transport: Option<Box<dyn Transport>>) -> Self {
        let limits = transport.as_ref().map(|t| t.limits().clone());
        let clock = transport.as_ref().map_or_else(Clock::default, |t| t.clock());
        Self {
            transport,
            limits,
            liveness: None,
            directory: None,
            connected: HashSet::new(),
            beat: Arc::default(),
            core: Core::new(setup),
            mark: ForkMark::new(),
            lazy: false,
            scratch: Box::new([0; MESSAGE_MAX]),
            naps: false,
            clock,
            quiet: None,
            crowded: false,
            unclosed: false,
        }
    }

    /// Watches ranks from outside the wire from now on.
    pub(crate) fn watch(&mut self, liveness: Box<dyn Liveness>) {
        self.liveness = Some(liveness);
    }

    /// The engine's pulse, for a watchdog.
    pub(crate) fn pulse(&self) -> Arc<Beat> {
        Arc::clone(&self.beat)
    }

    /// Where to look up ranks that are no neighbours.
    pub(crate) fn look_up_in(&mut self, directory: Box<dyn Directory>) {
        self.directory = Some(directory);
    }

    /// Makes the peers of a task reachable. Each of them does the same, for the same operation.
    fn reach(&mut self, task: &Task) -> Result<()> {
        task.peers.iter().try_for_each(|peer| self.reach_rank(peer.world_rank))
    }

    fn reach_rank(&mut self, rank: u32) -> Result<()> {
        if self.connected.contains(&rank) {
            return Ok(());
        }
        let (Some(directory), Some(transport)) = (&mut self.directory, &mut self.transport) else {
            return Err(Error::new(ErrorKind::Transport, format!("rank {rank} is not connected")));
        };
        transport.connect(rank, &directory.address(rank)?)?;
        self.connected.insert(rank);
        Ok(())
    }

    /// From now on. No operation may be in flight.
    pub(crate) fn set_flow(&mut self, flow: Flow) {
        self.core.setup.flow = flow;
    }

    /// The number of ranks of the world.
    pub(crate) fn size(&self) -> u32 {
        self.core.setup.size
    }

    /// The wire's limits; `None` for a world of one rank.
    pub(crate) fn limits(&self) -> Option<&Limits> {
        self.limits.as_ref()
    }

    /// What was done so far.
    pub(crate) fn stats(&self) -> Counts {
        self.core.counts
    }

    /// Enters an operation: opens it to its in-neighbours and starts what can start. Returns its slot.
    ///
    /// # Errors
    /// When the world is broken or too many operations are in flight.
    pub(crate) fn start(&mut self, mut task: Box<Task>, meta: Meta, binding: Binding) -> Result<u8> {
        task.reset(meta, binding, &self.core.setup.flow);
        task.eager = if task.pairwise { 0 } else { eager::most(self.limits.as_ref()) };
        self.enter(task).map_err(|e| self.fail(e))
    }

    /// Knows the communicator `comm` from now on, as long as it lives.
    pub(crate) fn register(&mut self, comm: u64, group: Weak<dyn Group>) {
        self.core.register(comm, group);
    }

    /// No call begins any more: a rank that waits for us in one that we have not begun waits in vain.
    pub(crate) fn finalizing(&mut self) {
        self.core.finalizing = true;
    }

    /// From here on we are in this call, for all who ask.
    pub(crate) fn calls(&mut self, code: u8, call: CallId) {
        self.core.status.entered = Mark { code, call };
        self.core.status.hash = 0;
    }

    /// Refuses work in a world that has ended. Who hears of the end by this passes the news on.
    pub(crate) fn healthy(&mut self) -> Result<()> {
        if self.mark.forked() {
            return Err(ForkMark::refusal());
        }
        if self.core.relay.is_some() {
            return Err(self.fail_as_told());
        }
        self.core.healthy()
    }

    fn enter(&mut self, task: Box<Task>) -> Result<u8> {
        let _inside = self.beat.enter();
        self.healthy()?;
        self.reach(&task)?;
        let mut task = task;
        let slot = self.core.free_slot()?;
        let Meta { call, code, hash, .. } = task.meta;
        self.calls(code, call);
        self.core.status.hash = hash;
        for i in 0..task.peers.len() {
            if task.program.peers[i].puts_to_us && !task.unopened(i, false) {
                let (to, open) = (task.peers[i].world_rank, eager::open_word(&task, slot, i));
                self.send_for(slot, &mut task, to, &open)?;
            }
        }
        self.core.enter(slot, task);
        self.pump()?;
        Ok(slot)
    }

    /// Begins to exchange addresses and keys, once for an operation to be started many times with this binding.
    /// Returns its slot.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub(crate) fn bind(&mut self, mut task: Box<Task>, meta: Meta, binding: Binding) -> Result<u8> {
        task.rest(meta, binding);
        task.eager = 0;
        self.enter(task).map_err(|e| self.fail(e))
    }

    /// Goes on with what [`Engine::bind`] began: once round; returns the task when all peers are known. Who waits
    /// calls this again and again, and may let others use the engine in between.
    ///
    /// # Errors
    /// As [`Engine::turn`].
    pub(crate) fn bound(&mut self, slot: u8, waiting: &mut Waiting) -> Result<Option<Box<Task>>> {
        let open = |core: &Core| core.task_ref(slot).is_none_or(Task::all_open);
        if !open(&self.core) {
            self.healthy()?;
            if let Some(rest) = self.step(waiting)?
                && !open(&self.core)
            {
                self.rest(rest);
            }
            if !open(&self.core) {
                return Ok(None);
            }
        }
        let mut task = self.leave(slot)?;
        for peer in &mut task.peers {
            peer.known = peer.open.map(|(_, output, land)| (output, land));
        }
        task.persistent = true;
        Ok(Some(task))
    }

    /// Whether the operation in `slot` has finished here. Progresses once; `waiting` is kept from one
    /// question to the next, so that asking for ever has a deadline, too: it begins anew with all that moves in operations.
    ///
    /// # Errors
    /// As [`Engine::turn`].
    pub(crate) fn test(&mut self, slot: u8, waiting: &mut Waiting) -> Result<bool> {
        self.healthy()?;
        if !self.core.finished(slot) {
            waiting.begin_anew_if(self.core.counts.moves());
            self.step(waiting)?;
        }
        Ok(self.core.finished(slot))
    }

    /// Waits for the operation in `slot`: once round; says whether it has finished here. Who waits calls this
    /// again and again, and may let others use the engine in between.
    ///
    /// # Errors
    /// After the deadline, or when the world breaks meanwhile: the endpoint is then closed.
    pub(crate) fn turn(&mut self, slot: u8, waiting: &mut Waiting) -> Result<bool> {
        if self.core.finished(slot) {
            return Ok(true);
        }
        self.healthy()?;
        if let Some(rest) = self.step(waiting)?
            && !self.core.finished(slot)
        {
            self.rest(rest);
        }
        Ok(self.core.finished(slot))
    }

    /// Takes the task of an operation that has finished out of its slot.
    ///
    /// # Errors
    /// When there is none: the world has broken.
    pub(crate) fn leave(&mut self, slot: u8) -> Result<Box<Task>> {
        if self.core.task_ref(slot).is_none() {
            self.healthy()?;
        }
        self.core.leave(slot)
    }

    /// Moves on whatever is in flight, for all who wait; says whether anything is.
    ///
    /// # Errors
    /// When the world breaks.
    pub(crate) fn nudge(&mut self) -> Result<bool> {
        if self.core.failure.is_some() || self.core.idle() {
            return Ok(false);
        }
        let _inside = self.beat.enter();
        self.progress().map_err(|e| self.fail(e))?;
        Ok(true)
    }

    /// Moves everything on that can move; returns how much did. That puts of ours have left does not count: whoever waits
    /// looks for that by itself, and can rest at once.
    ///
    /// # Errors
    /// When the transport fails, or a peer does not speak our language.
    pub(crate) fn progress(&mut self) -> Result<usize> {
        let Some(transport) = &mut self.transport else {
            return self.pump();
        };
        let events = transport.poll(&mut self.core)?;
        let events = events - std::mem::take(&mut self.core.puts_left).min(events);
        if self.core.dispute.is_some() {
            self.core.raise_disputes(self.clock.now());
        }
        if let Some(e) = self.core.broken.take() {
            return Err(e);
        }
        let sent = self.flush()?;
        Ok(events + sent + self.pump()?)
    }

    /// Sends what the core wants sent, as far as the transport takes it.
    fn flush(&mut self) -> Result<usize> {
        let mut sent = 0;
        // Each message is tried once a round: one that a dead or slow peer blocks must not block the others.
        // Not more than some, lest gossip among thousands that one peer does not take costs as much each time.
        for _ in 0..self.core.outbox.len().min(FLUSH) {
            let Some(Queued { to, slot, message }) = self.core.outbox.pop_front() else { break };
            // Those in a call on a board need not be connected.
            if matches!(message, Message::Late { .. }) && self.reach_rank(to).is_err() {
                continue;
            }
            match self.try_send(to, &message)? {
                Posted::Again => self.core.outbox.push_back(Queued { to, slot, message }),
                Posted::Yes => {
                    self.core.left(slot);
                    sent += 1;
                }
            }
        }
        Ok(sent)
    }

    /// Sends now, if the transport takes it. What is for a lost peer is dropped: it may only have closed after an
    /// error of which we are about to hear, so that it is lost is no error yet.
    fn try_send(&mut self, to: u32, message: &Message) -> Result<Posted> {
        let Some(transport) = &mut self.transport else { return Ok(Posted::Yes) };
        let n = message.encode(self.core.setup.rank, &mut self.scratch);
        match transport.message(to, &self.scratch[..n]) {
            Ok(posted) => {
                self.core.counts.messages += u64::from(posted == Posted::Yes);
                Ok(posted)
            }
            Err(e) if e.kind() == ErrorKind::PeerLost => {
                self.core.lost(Some(to), e.message());
                Ok(Posted::Yes)
            }
            Err(e) => Err(e),
        }
    }

    /// Sends now or queues a message of no operation.
    fn send(&mut self, to: u32, message: &Message) -> Result<()> {
        if self.try_send(to, message)? == Posted::Again {
            self.core.queue(to, message.clone());
        }
        Ok(())
    }

    /// Sends now or queues a message of `task`, whose slot is `slot`: it does not end before the message has left.
    fn send_for(&mut self, slot: u8, task: &mut Task, to: u32, message: &Message) -> Result<()> {
        if self.try_send(to, message)? == Posted::Again {
            task.unsent += 1;
            let message = message.clone();
            self.core.outbox.push_back(Queued { to, slot: Some(slot), message });
        }
        Ok(())
    }

    /// Says goodbye to all neighbours and waits for theirs: after this no data is left in sockets.
    ///
    /// # Errors
    /// After `deadline`, naming a rank that did not come.
    pub(crate) fn goodbye(&mut self, deadline: Duration) -> Result<()> {
        self.healthy()?;
        if self.transport.is_none() {
            return Ok(());
        }
        let what = Meta { name: "finalize", ..Meta::default() };
        // Requests that were forgotten: their puts are still on their way.
        self.wait_for(&mut Waiting::new(what, deadline), &mut Core::idle)?;
        self.core.flood(&Message::Bye, NONE);
        self.wait_for(&mut Waiting::new(what, deadline), &mut |core| {
            core.byes.len() >= core.setup.neighbours.len() && core.outbox.is_empty()
        })
    }

    /// Moves on what the provider still has, without caring for trouble: everybody has said goodbye.
    pub(crate) fn keep_going(&mut self) {
        if let Some(t) = &mut self.transport {
            let _ = t.poll(&mut self.core);
        }
        self.clock.sleep(Duration::from_micros(200));
    }

    /// Closes the endpoint in peace.
    ///
    /// # Errors
    /// When the provider cannot promise that nobody touches our memory any more.
    pub(crate) fn close(&mut self) -> Result<()> {
        let _inside = self.beat.enter();
        self.core.end(|| Error::new(ErrorKind::Aborted, "the world was finalized"));
        let Some(mut t) = self.transport.take() else { return Ok(()) };
        let closed = t.close();
        self.unclosed = closed.is_err();
        closed
    }

    /// Ends the world without a word, unless [`Engine::close`] has tried to.
    pub(crate) fn vanish(&mut self) {
        if !self.unclosed {
            self.shut();
        }
    }
}

impl Wire for Engine {
    fn transport(&mut self) -> Option<&mut (dyn Transport + 'static)> {
        if self.mark.forked() {
            return None;
        }
        self.transport.as_deref_mut()
    }

    fn borrow_mode(&self) -> Borrow {
        self.limits.as_ref().map_or(Borrow::Direct, |l| l.borrow)
    }

    fn fail(&mut self, error: Error) -> Error {
        Engine::fail(self, error)
    }

    fn shut(&mut self) {
        let _inside = self.beat.enter();
        self.core.end(|| Error::new(ErrorKind::Aborted, "the world was shut"));
        if self.mark.forked() {
            // Closing would end the parent's connections, which are the same ones.
            std::mem::forget(self.transport.take());
        }
        let error = self.transport.take().and_then(|mut t| t.close().err());
        let error = error
            .map(|e| e.to_string())
            .or_else(|| self.unclosed.then(|| "the endpoint could not be closed by finalize".to_owned()));
        if let Some(e) = error {
            // Returning would hand memory back that a peer can still reach.
            eprintln!("circulant: rank {}: {e}; aborting to protect borrowed memory", self.core.setup.rank);
            std::process::abort();
        }
    }

    fn copied(&mut self, bytes: usize) {
        self.core.counts.copied_bytes += bytes as u64;
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Before any memory that peers know is unmapped.
        self.vanish();
    }
}
