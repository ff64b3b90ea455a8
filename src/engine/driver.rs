//! The driver: it owns the transport and the clock, sends what the protocol state has queued, and makes progress.

use super::core::{Core, Queued};
use super::counts::Counts;
use super::heartbeat::Heartbeat;
use super::message::{CallId, Mark, Message, NONE};
use super::setup::{Directory, Flow, Group, Keeper, Liveness, Setup};
use super::task::Task;
use crate::buffer::ForkMark;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::NumberSet;
use crate::transport::{Clock, HardwareCounts, LONG_MESSAGE_MAX, Limits, Posted, Sink, Transport};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The engine of one world.
pub(crate) struct Engine {
    pub(super) transport: Option<Box<dyn Transport>>,
    pub(super) limits: Option<Limits>,
    pub(super) liveness: Option<Box<dyn Liveness>>,
    pub(super) directory: Option<Box<dyn Directory>>,
    /// Keeps flight records, where they are wanted.
    pub(super) keeper: Option<Box<dyn Keeper>>,
    /// World ranks that the transport can reach: the neighbours, and others since they were needed.
    pub(super) connected: NumberSet<u32>,
    pub(super) heartbeat: Arc<Heartbeat>,
    pub(super) core: Core,
    pub(super) mark: ForkMark,
    /// Wait by sleeping: for ranks that must not disturb a measurement on shared cores.
    pub(crate) lazy: bool,
    /// Where messages are written.
    pub(super) scratch: Box<[u8; LONG_MESSAGE_MAX]>,
    /// In long waits; zero where a rank is to poll.
    pub(crate) longest_nap: Duration,
    /// The only source of time, and of sleep, in the engine.
    pub(super) clock: Clock,
    /// Since when nothing has moved.
    pub(super) quiet: Option<Instant>,
    /// Several threads use this engine.
    pub(crate) crowded: bool,
    /// Between its turns a wait calls the program's hook.
    pub(super) hooked: bool,
    /// Something was given to the transport that it may still collect.
    pub(super) collected: bool,
    /// The endpoint could not be closed: peers may still reach memory of ours.
    pub(super) unclosed: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("limits", &self.limits)
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

/// Queued messages that one round of progress tries to send. Chosen, to bound a round among thousands of ranks;
/// `many_targets_on_a_narrow_window_do_not_starve` shows that the rest follows.
const FLUSH_MESSAGES: usize = 64;

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
            keeper: None,
            connected: NumberSet::default(),
            heartbeat: Arc::default(),
            core: Core::new(setup, clock.ticks()),
            mark: ForkMark::new(),
            lazy: false,
            scratch: Box::new([0; LONG_MESSAGE_MAX]),
            longest_nap: Duration::ZERO,
            clock,
            quiet: None,
            crowded: false,
            hooked: false,
            collected: false,
            unclosed: false,
        }
    }

    /// Watches ranks from outside the wire from now on.
    pub(crate) fn watch(&mut self, liveness: Box<dyn Liveness>) {
        self.liveness = Some(liveness);
    }

    /// The engine's heartbeat, for a watchdog.
    pub(crate) fn heartbeat(&self) -> Arc<Heartbeat> {
        Arc::clone(&self.heartbeat)
    }

    /// Where to look up ranks that are no neighbours.
    pub(crate) fn look_up_in(&mut self, directory: Box<dyn Directory>) {
        self.directory = Some(directory);
    }

    pub(super) fn reach_rank(&mut self, rank: u32) -> Result<()> {
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

    /// What RDMA hardware did so far.
    pub(crate) fn hardware(&self) -> HardwareCounts {
        self.transport.as_ref().map(|t| t.hardware()).unwrap_or_default()
    }

    /// Knows the communicator `comm` from now on, as long as it lives.
    pub(crate) fn register(&mut self, comm: u64, group: Weak<dyn Group>) {
        self.core.register(comm, group);
    }

    /// No call begins any more: a rank that waits for us in one that we have not begun waits in vain.
    pub(crate) fn finalizing(&mut self) {
        self.core.finalizing = true;
    }

    /// Enters a call: its number and operation, for status queries.
    pub(crate) fn calls(&mut self, code: u8, call: CallId) {
        self.core.status.entered = Mark { code, call };
        self.core.status.hash = 0;
    }

    /// Refuses work in a world that has ended. A rank that learns of the end here propagates it first.
    #[inline]
    pub(crate) fn healthy(&mut self) -> Result<()> {
        if self.mark.forked() {
            return Err(ForkMark::refusal());
        }
        if self.core.relay.is_some() {
            return Err(self.fail_as_reported());
        }
        self.core.healthy()
    }

    /// Moves everything on that can move; returns how much did. Local completions of puts do not count: a wait
    /// looks for these by itself, and can rest at once.
    ///
    /// # Errors
    /// When the transport fails, or a peer sends what is no message.
    pub(crate) fn progress(&mut self) -> Result<usize> {
        let Some(transport) = &mut self.transport else {
            return self.post_ready();
        };
        self.heartbeat.towards(NONE);
        let events = transport.poll(&mut self.core)?;
        let events = events - std::mem::take(&mut self.core.puts_left).min(events);
        if self.is_to_cut() {
            self.cut_off();
        }
        if self.core.mismatch.is_some() {
            self.core.raise_mismatch(self.clock.now());
        }
        if let Some(e) = self.core.broken.take() {
            return Err(e);
        }
        // Messages before data: an acknowledgement behind data on the same link comes when all of that has.
        let sent = self.flush()?;
        Ok(events + sent + self.post_ready()?)
    }

    /// Sends queued messages, as far as the transport takes them.
    pub(super) fn flush(&mut self) -> Result<usize> {
        let mut sent = 0;
        // Each message is tried once a round: one that a dead or slow peer blocks does not block the others.
        // At most FLUSH_MESSAGES of them: status messages among thousands of ranks that one peer does not take would cost as
        // much each time.
        for _ in 0..self.core.outbox.len().min(FLUSH_MESSAGES) {
            let Some(Queued { to, slot, message }) = self.core.outbox.pop_front() else { break };
            if self.core.is_gone(to) {
                self.core.left(slot);
                continue;
            }
            // A short call needs no connection, nor do those that agree.
            let distant = matches!(message, Message::Awaited { .. }) || self.core.survives();
            if distant && let Err(e) = self.reach_rank(to) {
                if self.core.survives() {
                    self.core.suspect(to, e.message());
                }
                continue;
            }
            let posted = self.try_send(to, &message)?;
            self.note_connection(to, posted);
            match posted {
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
    /// error whose report is still on its way, so a lost peer is no error yet.
    pub(super) fn try_send(&mut self, to: u32, message: &Message) -> Result<Posted> {
        let Some(transport) = &mut self.transport else { return Ok(Posted::Yes) };
        let n = message.encode(self.core.setup.rank, &mut self.scratch);
        self.heartbeat.towards(to);
        match transport.message(to, &self.scratch[..n]) {
            Ok(posted) => {
                self.core.counts.messages += u64::from(posted == Posted::Yes);
                self.collected = true;
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
    pub(super) fn send(&mut self, to: u32, message: &Message) -> Result<()> {
        if self.try_send(to, message)? == Posted::Again {
            self.core.queue(to, message.clone());
        }
        Ok(())
    }

    /// Sends now or queues a message of `task`, whose slot is `slot`: it does not end before the message has left.
    pub(super) fn send_for(&mut self, slot: u8, task: &mut Task, to: u32, message: &Message) -> Result<()> {
        if self.try_send(to, message)? == Posted::Again {
            task.unsent += 1;
            let message = message.clone();
            self.core.outbox.push_back(Queued { to, slot: Some(slot), message });
        }
        Ok(())
    }
}
