//! Runs any plan on any transport: data-driven, never in lock-step, every wait under a deadline.
//!
//! Entering an operation sends one *open word* to each rank that will put to us; it carries our slot, where
//! to put, and a hash of the arguments. From then on only data dependencies count: an arrival bumps a
//! counter, a counter that reaches its mark makes steps ready, and any ready step may go as soon as its
//! target has opened and the window on unacknowledged bytes allows; the lowest round goes first.
//!
//! Any error is final for the world: it is flooded along the neighbours with the culprit's name, the
//! endpoint is closed (so that nobody can touch borrowed memory any more), and every later call fails.

mod bootstrap;
mod core;
mod failure;
mod message;
mod pump;
mod raw;
mod task;

pub(crate) use bootstrap::Identity;
pub(crate) use core::Core;
pub(crate) use message::CallId;

use message::Mark;
pub(crate) use task::{Meta, Task};

use crate::buffer::{Binding, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Borrow, Limits, Transport};
use message::Message;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Tells the engine of ranks that ended, from outside the wire (launcher, process watch).
pub(crate) trait Liveness: Send + std::fmt::Debug {
    /// A rank that is gone, and how it ended. Never waits.
    fn gone(&mut self) -> Option<(u32, String)>;
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
    /// Bytes that may be unacknowledged in one operation.
    pub(crate) window: u64,
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
    core: Core,
    /// Wait by sleeping: for ranks that must not disturb a measurement on shared cores.
    pub(crate) lazy: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("limits", &self.limits)
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

/// How often the slow checks (processes, launcher) are made while waiting.
const LIVENESS_EVERY: Duration = Duration::from_millis(10);

impl Engine {
    /// An engine on `transport`; `None` for a world of one rank.
    pub(crate) fn new(setup: Setup, transport: Option<Box<dyn Transport>>) -> Self {
        let limits = transport.as_ref().map(|t| t.limits().clone());
        Self {
            transport,
            limits,
            liveness: None,
            directory: None,
            connected: HashSet::new(),
            core: Core::new(setup),
            lazy: false,
        }
    }

    /// Watches ranks from outside the wire from now on.
    pub(crate) fn watch(&mut self, liveness: Box<dyn Liveness>) {
        self.liveness = Some(liveness);
    }

    /// Where to look up ranks that are no neighbours.
    pub(crate) fn look_up_in(&mut self, directory: Box<dyn Directory>) {
        self.directory = Some(directory);
    }

    /// Makes the peers of a task reachable. Each of them does the same, for the same operation.
    fn reach(&mut self, task: &Task) -> Result<()> {
        for peer in &task.peers {
            let rank = peer.world_rank;
            if self.connected.contains(&rank) {
                continue;
            }
            let (Some(directory), Some(transport)) = (&mut self.directory, &mut self.transport) else {
                return Err(Error::new(ErrorKind::Transport, format!("rank {rank} is not connected")));
            };
            transport.connect(rank, &directory.address(rank)?)?;
            self.connected.insert(rank);
        }
        Ok(())
    }

    /// The wire's limits; `None` for a world of one rank.
    pub(crate) fn limits(&self) -> Option<&Limits> {
        self.limits.as_ref()
    }

    /// What was done so far.
    pub(crate) fn stats(&self) -> core::Counts {
        self.core.counts
    }

    /// Enters an operation: opens it to its in-neighbours and starts what can start. Returns its slot.
    ///
    /// # Errors
    /// When the world is broken or too many operations are in flight.
    pub(crate) fn start(&mut self, mut task: Box<Task>, meta: Meta, binding: Binding) -> Result<u8> {
        task.reset(meta, binding);
        self.enter(task)
    }

    fn enter(&mut self, task: Box<Task>) -> Result<u8> {
        self.core.healthy()?;
        self.reach(&task)?;
        let slot = self.core.free_slot()?;
        let Meta { call, code, hash, .. } = task.meta;
        self.core.status.entered = Mark { code, call };
        let open = if task.persistent {
            Message::Start { call, slot, code, hash }
        } else {
            let (output, land) = (task.binding.output.grant(), task.binding.land.grant());
            Message::Open { call, slot, code, hash, output, land }
        };
        for (peer, known) in task.peers.iter().zip(&task.program.peers) {
            if known.puts_to_us {
                self.send(peer.world_rank, &open)?;
            }
        }
        self.core.enter(slot, task);
        self.pump()?;
        Ok(slot)
    }

    /// Exchanges addresses and keys once, for an operation to be started many times with this binding.
    ///
    /// # Errors
    /// As [`Engine::wait`].
    pub(crate) fn bind(
        &mut self,
        mut task: Box<Task>,
        meta: Meta,
        binding: Binding,
        deadline: Duration,
    ) -> Result<Box<Task>> {
        task.rest(meta, binding);
        let slot = self.enter(task)?;
        self.wait_for(deadline, &mut |core| core.task_ref(slot).is_none_or(Task::all_open))
            .map_err(|e| e.in_operation(meta.name, u64::from(meta.call.sequence)))?;
        let mut task = self.core.leave(slot)?;
        for peer in &mut task.peers {
            peer.known = peer.open.map(|(_, output, land)| (output, land));
        }
        task.persistent = true;
        Ok(task)
    }

    /// Whether the operation in `slot` has finished here. Progresses once.
    ///
    /// # Errors
    /// Those of the world: every error is final.
    pub(crate) fn test(&mut self, slot: u8) -> Result<bool> {
        if !self.core.finished(slot) {
            self.progress()?;
        }
        self.core.healthy()?;
        Ok(self.core.finished(slot))
    }

    /// Waits until the operation in `slot` has finished here, and returns its task.
    ///
    /// # Errors
    /// After `deadline`, or when the world breaks meanwhile: the endpoint is then closed.
    pub(crate) fn wait(&mut self, slot: u8, deadline: Duration) -> Result<Box<Task>> {
        let what = self.core.meta(slot);
        let done = self.wait_for(deadline, &mut |core| core.finished(slot));
        match done {
            Ok(()) => self.core.leave(slot),
            Err(e) => Err(e.in_operation(what.name, u64::from(what.call.sequence))),
        }
    }

    /// Progresses until `done` says so.
    ///
    /// # Errors
    /// As [`Engine::wait`].
    fn wait_for(&mut self, deadline: Duration, done: &mut dyn FnMut(&Core) -> bool) -> Result<()> {
        let mut clock: Option<Waiting> = None;
        loop {
            if done(&self.core) {
                return Ok(());
            }
            let moved = match self.progress() {
                Ok(moved) => moved,
                Err(e) => return Err(self.fail(e)),
            };
            if self.core.failure.is_some() {
                return Err(self.fail_as_told());
            }
            if moved > 0 {
                continue;
            }
            let now = Instant::now();
            let waiting = clock.get_or_insert_with(|| Waiting::new(now, deadline));
            if now >= waiting.next_check {
                waiting.next_check = now + LIVENESS_EVERY;
                if let Some(e) = self.check_liveness(now) {
                    return Err(self.fail(e));
                }
            }
            if now >= waiting.ask_at && !waiting.asked {
                waiting.asked = true;
                self.ask_everybody();
            }
            if now >= waiting.give_up {
                let e = self.timed_out(deadline);
                return Err(self.fail(e));
            }
            let left = waiting.give_up.saturating_duration_since(now);
            if self.lazy {
                std::thread::sleep(left.min(Duration::from_millis(1)));
            } else if let Some(t) = &mut self.transport {
                t.idle(left.min(LIVENESS_EVERY));
            }
        }
    }

    /// Moves everything on that can move; returns how much did.
    ///
    /// # Errors
    /// When the transport fails, or a peer does not speak our language.
    pub(crate) fn progress(&mut self) -> Result<usize> {
        let Some(transport) = &mut self.transport else {
            return self.pump();
        };
        let events = transport.poll(&mut self.core)?;
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
        for _ in 0..self.core.outbox.len() {
            let Some((to, message)) = self.core.outbox.pop_front() else { break };
            sent += usize::from(self.send(to, &message)?);
        }
        Ok(sent)
    }

    /// Sends now or queues; says whether it went.
    fn send(&mut self, to: u32, message: &Message) -> Result<bool> {
        use crate::transport::{MESSAGE_MAX, Posted};
        let Some(transport) = &mut self.transport else { return Ok(true) };
        let mut buffer = [0; MESSAGE_MAX];
        let n = message.encode(self.core.setup.rank, &mut buffer);
        match transport.message(to, &buffer[..n])? {
            Posted::Yes => {
                self.core.counts.messages += 1;
                Ok(true)
            }
            Posted::Again => {
                self.core.outbox.push_back((to, message.clone()));
                Ok(false)
            }
        }
    }

    /// Says goodbye to all neighbours and waits for theirs: after this no data is left in sockets.
    ///
    /// # Errors
    /// After `deadline`, naming a rank that did not come.
    pub(crate) fn goodbye(&mut self, deadline: Duration) -> Result<()> {
        self.core.healthy()?;
        if self.transport.is_none() {
            return Ok(());
        }
        for i in 0..self.core.setup.neighbours.len() {
            let to = self.core.setup.neighbours[i];
            self.send(to, &Message::Bye)?;
        }
        self.core.leaving = true;
        self.wait_for(deadline, &mut |core| {
            core.byes >= core.setup.neighbours.len() && core.outbox.is_empty()
        })
    }

    /// Closes the endpoint in peace.
    ///
    /// # Errors
    /// When the provider cannot promise that nobody touches our memory any more.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.core.failure.get_or_insert_with(|| Error::new(ErrorKind::Aborted, "the world was finalized"));
        match self.transport.take() {
            Some(mut t) => t.close(),
            None => Ok(()),
        }
    }
}

impl Wire for Engine {
    fn transport(&mut self) -> Option<&mut (dyn Transport + 'static)> {
        self.transport.as_deref_mut()
    }

    fn borrow_mode(&self) -> Borrow {
        self.limits.as_ref().map_or(Borrow::Direct, |l| l.borrow)
    }

    fn shut(&mut self) {
        self.core
            .failure
            .get_or_insert_with(|| Error::new(ErrorKind::Aborted, "the world was shut after an error"));
        if let Some(mut t) = self.transport.take()
            && let Err(e) = t.close()
        {
            // Returning would hand memory back that a peer can still reach.
            eprintln!("circulant: rank {}: {e}; aborting to protect borrowed memory", self.core.setup.rank);
            std::process::abort();
        }
    }

    fn copied(&mut self, bytes: usize) {
        self.core.counts.copied_bytes += bytes as u64;
    }
}

/// The clock of one wait.
struct Waiting {
    next_check: Instant,
    ask_at: Instant,
    asked: bool,
    give_up: Instant,
}

impl Waiting {
    fn new(now: Instant, deadline: Duration) -> Self {
        let ask_before = (deadline / 4).min(Duration::from_secs(1));
        Self {
            next_check: now + LIVENESS_EVERY,
            ask_at: now + (deadline - ask_before),
            asked: false,
            give_up: now + deadline,
        }
    }
}
