//! Completions with an error: of which operation, and what follows.

use super::super::slots::Kind;
use super::{Fabric, MAX_PUTS, again};
use crate::error::Result;
use crate::transport::Sink;
use libfabric_sys as fi;

impl Fabric {
    /// Reads the error entries that the completion queue holds.
    pub(super) fn read_errors(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        let mut count = 0;
        while count < MAX_PUTS {
            // SAFETY: all-zero is a valid entry (integers and null pointers), and says that no memory for
            // the provider's error data is offered.
            let mut error: fi::fi_cq_err_entry = unsafe { std::mem::zeroed() };
            // SAFETY: the queue is open; `error` can be written.
            match unsafe { fi::fi_cq_readerr(self.objects.cq, &mut error, 0) } {
                n if n > 0 => count += 1,
                0 => break,
                c if c == again() => break,
                c => return Err(self.lib.error("fi_cq_readerr", c as i64)),
            }
            // SAFETY: the queue is open, and `error` was just read from it.
            let own = unsafe { fi::fi_cq_strerror(self.objects.cq, &error) };
            let mut why = self.lib.api.strerror(error.err.into());
            if !own.is_empty() && !own.eq_ignore_ascii_case(&why) && !own.eq_ignore_ascii_case("success") {
                why = format!("{why} ({own})");
            }
            let slot = self.slots.of_context(error.op_context);
            match slot.map(|s| (s, self.slots.kind(s))) {
                // No rank sends one that is too long, and nothing else came to harm by it.
                Some((s, Kind::Receive)) if i64::from(error.err) == i64::from(fi::FI_ETRUNC) => {
                    self.tags.stranger(error.len.saturating_add(error.olen), "it is too long");
                    self.post_receive(s)?;
                }
                Some((s, Kind::Receive)) => {
                    sink.lost(None, &format!("receiving a message: {why}"));
                    self.post_receive(s)?;
                }
                Some((s, Kind::Probe)) => self.probe_failed(s),
                Some((s, kind)) => {
                    let peer = self.slots.peer(s);
                    self.slots.give_back(s);
                    if self.peers.is_cut(peer) {
                        continue;
                    }
                    let what = if kind == Kind::Put { "a put" } else { "a message" };
                    sink.lost(Some(peer), &format!("{what} to it failed: {why}"));
                }
                None => sink.lost(None, &why),
            }
        }
        Ok(count)
    }
}
