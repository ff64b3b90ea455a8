//! The end of a world: goodbye to the neighbours, and closing the endpoint.

use super::core::{Core, Queued};
use super::driver::Engine;
use super::message::Message;
use super::time::SETTLE;
use super::waiting::Waiting;
use crate::buffer::Wire;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Borrow, Transport};
use std::io::Write;
use std::time::{Duration, Instant};

/// How often the provider is polled at first while the last goodbyes leave. Chosen: a small part of `SETTLE` (30 ms), which ends
/// it where there is no fence.
const GOODBYE_POLL_INTERVAL: Duration = Duration::from_micros(200);
/// The same in a long wait. With 1024 ranks on two cores that went on at the shorter interval those that others waited for hardly ran: finalize took 13 s
/// in place of 2.
const LONGEST_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Engine {
    /// Whether nothing is under way here, also of requests that were forgotten, whose puts may still be on their way: makes progress
    /// once; `rests`: for a wait.
    ///
    /// # Errors
    /// As [`Engine::turn`].
    pub(crate) fn has_ended_all(&mut self, waiting: &mut Waiting, rests: bool) -> Result<bool> {
        self.healthy()?;
        self.once(waiting, rests, Core::idle)
    }

    /// Says goodbye to all neighbours.
    pub(crate) fn say_goodbye(&mut self) {
        for i in 0..self.core.setup.neighbours.len() {
            self.core.queue(self.core.setup.neighbours[i], Message::Bye);
        }
    }

    /// Whether all neighbours have said goodbye, and ours have left: no data is left in sockets then. Makes progress once.
    ///
    /// # Errors
    /// After the deadline of `waiting`, naming a rank that did not come.
    pub(crate) fn has_parted(&mut self, waiting: &mut Waiting, rests: bool) -> Result<bool> {
        self.healthy()?;
        // What is left for one that has said goodbye, such as news of the gone, may be for one that has closed.
        let spare = |core: &Core, queued: &Queued| {
            core.byes.contains(&queued.to) && !matches!(queued.message, Message::Bye)
        };
        self.once(waiting, rests, |core| {
            core.has_parted() && core.outbox.iter().all(|queued| spare(core, queued))
        })
    }

    /// Moves on what the provider still has, and ignores errors: all ranks have said goodbye. `rests`: in a wait since then, which becomes longer by a
    /// quarter at most.
    pub(crate) fn keep_going(&mut self, rests: Option<Instant>) {
        if let Some(t) = &mut self.transport {
            let _ = t.poll(&mut self.core);
        }
        if let Some(since) = rests {
            let waited = self.clock.now().duration_since(since);
            self.clock.sleep((waited / 4).clamp(GOODBYE_POLL_INTERVAL, LONGEST_POLL_INTERVAL));
        }
    }

    /// Whether the last messages, posted by `since`, have had their time to be delivered.
    pub(crate) fn has_settled(&self, since: Instant) -> bool {
        self.clock.now().duration_since(since) >= SETTLE
    }

    /// The time that this engine goes by.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Closes the endpoint after an orderly end.
    ///
    /// # Errors
    /// When the provider cannot promise that no peer accesses our memory any more.
    pub(crate) fn close(&mut self) -> Result<()> {
        let _inside = self.heartbeat.enter();
        self.core.end(|| Error::new(ErrorKind::Aborted, "the world was finalized"));
        let Some(mut t) = self.transport.take() else { return Ok(()) };
        let closed = t.close();
        self.unclosed = closed.is_err();
        closed
    }

    /// Ends the world without a message, unless [`Engine::close`] has tried to.
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

    fn borrow_mode(&self, len: usize) -> Borrow {
        match &self.limits {
            None => Borrow::Direct,
            Some(limits) if len < limits.copied_below => Borrow::Staged,
            Some(limits) => limits.borrow,
        }
    }

    fn fail(&mut self, error: Error) -> Error {
        Engine::fail(self, error)
    }

    fn shut(&mut self) {
        let _inside = self.heartbeat.enter();
        self.core.end(|| Error::new(ErrorKind::Aborted, "the world was shut"));
        if self.mark.forked() {
            // Closing would end the parent's connections, which are the same ones.
            std::mem::forget(self.transport.take());
        }
        // Peers did not agree to this end, as they do to that by `close`.
        let error = self.transport.take().and_then(|mut t| t.abort().err());
        let error = error
            .map(|e| e.to_string())
            .or_else(|| self.unclosed.then(|| "the endpoint could not be closed by finalize".to_owned()));
        if let Some(e) = error {
            // Returning would hand memory back that a peer can still reach.
            let rank = self.core.setup.rank;
            // (`eprintln` panics where nothing reads standard error: that would return, too.)
            let _ = writeln!(
                std::io::stderr(),
                "circulant: rank {rank}: {e}; aborting to protect borrowed memory"
            );
            std::process::abort();
        }
    }

    fn copied(&mut self, bytes: usize) {
        self.core.counts.copied_bytes += bytes as u64;
    }

    fn goes_on(&self) -> bool {
        self.core.survives() && self.limits.is_some()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Before any memory that peers know is unmapped.
        self.vanish();
    }
}
