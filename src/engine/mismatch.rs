//! Mismatch: ranks that call with different arguments, and how they find out which argument differs.
//!
//! Calls are compared by a hash. Where the hashes differ, the rank that noticed sends its arguments as text to the other one,
//! which compares them with its own and ends the world with an error that names the argument and both values. If no answer
//! comes within a second (the other rank has left the call, and has forgotten it), the error does without.

use super::core::{ArgumentsRequest, Core, Mismatch};
use super::description::differences;
use super::message::{CallId, Message};
use super::time::Since;
use crate::error::{Error, ErrorKind};
use std::time::{Duration, Instant};

/// The other rank has this long to compare its arguments; then the error is raised without them. Chosen: far longer
/// than a message takes to a rank that makes progress; `a_disagreement_is_raised_without_an_answer` shows the end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

impl Core {
    /// `from` called with other arguments than we in `call`: operation `theirs`, ours is `mine`.
    pub(super) fn mismatched(&mut self, from: u32, call: CallId, theirs: u8, mine: u8) {
        if self.broken.is_some() || self.mismatch.is_some() {
            return;
        }
        let error = self.mismatch_error(from, call, (theirs, mine), "");
        if theirs != mine {
            self.broken = Some(error);
            return;
        }
        self.mismatch = Some(Mismatch { since: Since::default(), error });
        match self.description(call) {
            Some(text) if !self.in_short_call(call) => {
                self.queue(from, Message::Mismatch { call, code: mine, text })
            }
            _ => self.arguments_request = Some(ArgumentsRequest { from, call, code: mine, theirs: None }),
        }
    }

    /// Whether we are in this short call: it can tell more of its arguments than is kept.
    fn in_short_call(&self, call: CallId) -> bool {
        self.short_log.is_current(call) && self.status.completed.call != call
    }

    pub(super) fn mismatch_error(
        &self,
        from: u32,
        call: CallId,
        (theirs, mine): (u8, u8),
        how: &str,
    ) -> Error {
        let (n, me) = (call.sequence, self.setup.rank);
        let (theirs_name, name) = (self.name_of(theirs), self.name_of(mine));
        let what = match (theirs == mine, how) {
            (false, _) => format!("rank {from} called {theirs_name} #{n}, rank {me} called {name} #{n}"),
            (true, "") => format!("rank {from} called {name} #{n} with other arguments than rank {me}"),
            (true, how) => {
                format!("rank {from} called {name} #{n} with other arguments than rank {me}: {how}")
            }
        };
        Error::new(ErrorKind::Mismatch, what).with_peer(from as usize).in_operation(name, u64::from(n)).help(
            "all ranks must call the same operations in the same order with the same root, counts and type",
        )
    }

    /// What we called, if that is known here.
    fn description(&self, call: CallId) -> Option<String> {
        let running = self.slot_of(call).and_then(|slot| self.task_ref(slot));
        match running {
            Some(task) => Some(task.arguments.as_ref()?.describe(task.reducer.as_ref())),
            None => self.history.description(call).or_else(|| self.short_log.description(call)),
        }
    }

    /// `from` found that its call does not match ours, and sends its arguments.
    pub(super) fn compare_arguments(&mut self, from: u32, call: CallId, code: u8, text: String) {
        match self.description(call) {
            _ if self.in_short_call(call) => {
                self.arguments_request = Some(ArgumentsRequest { from, call, code, theirs: Some(text) })
            }
            Some(ours) => self.compare_descriptions(from, call, code, &text, &ours),
            None => {}
        }
    }

    fn compare_descriptions(&mut self, from: u32, call: CallId, code: u8, theirs: &str, ours: &str) {
        let how = differences(theirs, ours);
        let error = self.mismatch_error(from, call, (code, code), &how);
        self.broken.get_or_insert(error);
    }

    /// Whether the arguments of this short call are requested.
    pub(super) fn arguments_requested(&self, call: CallId) -> bool {
        self.arguments_request.as_ref().is_some_and(|q| q.call == call)
    }

    /// The arguments of the short call, in answer to the request.
    pub(super) fn send_arguments(&mut self, ours: String) {
        let Some(ArgumentsRequest { from, call, code, theirs }) = self.arguments_request.take() else {
            return;
        };
        match theirs {
            Some(theirs) => self.compare_descriptions(from, call, code, &theirs, &ours),
            None => self.queue(from, Message::Mismatch { call, code, text: ours }),
        }
    }

    /// Raises a mismatch that the other rank has not explained in time.
    pub(super) fn raise_mismatch(&mut self, now: Instant) {
        if self.mismatch.as_mut().is_some_and(|d| d.since.lasts(now) > ANSWER_TIMEOUT) {
            self.broken = self.broken.take().or(self.mismatch.take().map(|d| d.error));
        }
    }
}
