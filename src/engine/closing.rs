//! The end of a world: goodbye to the neighbours, and closing the endpoint.

use super::core::Core;
use super::driver::Engine;
use super::message::{Message, NONE};
use super::task::Meta;
use super::waiting::Waiting;
use crate::buffer::Wire;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Borrow, Transport};
use std::io::Write;
use std::time::Duration;

/// How often the provider is polled while the last goodbyes leave.
const GOODBYE_POLL_INTERVAL: Duration = Duration::from_micros(200);

impl Engine {
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
        self.core.propagate(&Message::Bye, NONE);
        self.wait_for(&mut Waiting::new(what, deadline), &mut |core| {
            core.byes.len() >= core.setup.neighbours.len() && core.outbox.is_empty()
        })
    }

    /// Moves on what the provider still has, and ignores errors: all ranks have said goodbye.
    pub(crate) fn keep_going(&mut self) {
        if let Some(t) = &mut self.transport {
            let _ = t.poll(&mut self.core);
        }
        self.clock.sleep(GOODBYE_POLL_INTERVAL);
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

    fn borrow_mode(&self) -> Borrow {
        self.limits.as_ref().map_or(Borrow::Direct, |l| l.borrow)
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
        let error = self.transport.take().and_then(|mut t| t.close().err());
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
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Before any memory that peers know is unmapped.
        self.vanish();
    }
}
