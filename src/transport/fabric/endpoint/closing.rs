//! Closing the endpoint: when it is done no peer reaches our memory.

use super::Fabric;
use crate::error::{Error, Result};
use std::mem::ManuallyDrop;

impl Fabric {
    /// Closes it after an orderly end.
    pub(super) fn shut(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        let mut outcome = Ok(());
        if self.quirk.quiet_close && !self.slots.idle() {
            return self.abandon();
        }
        if self.registrations.endpoint_bound() || self.quirk.quiet_close {
            // Bound to the endpoint, which then cannot go first; or so that peers' puts stop completing here.
            outcome = self.registrations.close(self.lib);
        }
        if self.quirk.quiet_close {
            self.objects.drain();
        }
        outcome = outcome
            .and(self.objects.close_endpoint(self.lib))
            .and_then(|()| self.registrations.close(self.lib));
        match outcome {
            Ok(()) => {
                self.closed = true;
                // No peer can reach memory through what remains; an error of it is only logged.
                if let Err(e) = self.objects.close_rest(self.lib) {
                    tracing::debug!("{e}");
                }
                if self.quirk.leaves_file {
                    self.peers.unlink_own();
                }
                Ok(())
            }
            Err(e) => Err(self.still_open(e)),
        }
    }

    /// Ends registrations and leaves the rest open: without them no peer reaches our memory. To read completions now would have
    /// the provider go on with puts from registrations that have ended, and it crashes in closing an endpoint where a peer's
    /// put is arriving.
    pub(super) fn abandon(&mut self) -> Result<()> {
        let outcome = self.registrations.close(self.lib);
        self.closed = outcome.is_ok();
        self.abandoned = true;
        outcome.map_err(|e| self.still_open(e))
    }

    fn still_open(&self, e: Error) -> Error {
        e.over(self.limits.provider.as_str())
            .help("peers may still reach memory of this process: do not free what was registered")
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        if let Err(e) = self.shut() {
            tracing::error!("{e}");
            return; // what the provider may still write to is leaked
        }
        if self.abandoned {
            return;
        }
        // SAFETY: dropped only here, once; the endpoint is closed, so the provider uses neither.
        unsafe {
            ManuallyDrop::drop(&mut self.slots);
            ManuallyDrop::drop(&mut self.buffers);
        }
    }
}
