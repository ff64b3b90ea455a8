//! Short calls: their data goes through slots of shared memory, in the call itself, so they need no task. The engine records
//! them, so that ranks in other calls detect the mismatch, and progresses everything else while such a call waits.

use super::core::Core;
use super::counts::Counts;
use super::driver::Engine;
use super::message::{CallId, Mark, Message};
use super::recorder::{At, Label};
use super::short_log::{REMEMBERED_CALLS, ShortArguments};
use super::task::Meta;
use super::waiting::{Rest, SHORT_REST, Waiting};
use crate::config::FOR_EVER;
use crate::error::{Error, ErrorKind, Result};
use crate::record::EventKind;

impl Engine {
    /// Enters a short call. Every 64 calls, and while other operations are under way, everything is
    /// moved on: a rank that never waits must not hold up the others.
    ///
    /// Returns when it began, for [`Engine::leave_short`].
    ///
    /// # Errors
    /// When the world has ended.
    #[inline]
    pub(crate) fn enter_short(&mut self, meta: &Meta, arguments: ShortArguments) -> Result<u64> {
        let began_at = self.core.begin();
        let status = &mut self.core.status;
        status.entered = Mark { code: meta.code, call: meta.call };
        status.hash = meta.hash;
        self.core.recorder.add(EventKind::Enter, &Label::new(meta.code, &meta.call), At::NOWHERE);
        let is_turn = self.core.short_log.next_is_multiple_of(REMEMBERED_CALLS);
        self.core.short_log.add(meta.call, meta.code, meta.hash, arguments);
        if is_turn || self.is_busy() {
            self.step(&mut Waiting::new(*meta, FOR_EVER))?;
        }
        Ok(began_at)
    }

    /// The counts, to which a short call adds what it does.
    #[inline]
    pub(crate) fn counts_mut(&mut self) -> &mut Counts {
        &mut self.core.counts
    }

    /// Whether anything else is under way.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.core.active.first().is_some() || !self.core.outbox.is_empty()
    }

    /// The call that began then is completed.
    #[inline]
    pub(crate) fn leave_short(&mut self, meta: &Meta, begun: u64) {
        if let Some(latencies) = &mut self.core.latencies {
            latencies.end(meta.code, [meta.bytes, 0], begun);
        }
        self.core.status.completed = Mark { code: meta.code, call: meta.call };
        self.core.recorder.add(EventKind::Leave, &Label::new(meta.code, &meta.call), At::NOWHERE);
        self.core.counts.completes(meta.rounds);
    }

    /// Enters and leaves a short call that is completed, with one reading of the clock: as [`Engine::enter_short`] and [`Engine::leave_short`].
    ///
    /// # Errors
    /// When the world has ended.
    #[inline]
    pub(crate) fn pass_short(&mut self, meta: &Meta, arguments: ShortArguments) -> Result<()> {
        if self.core.short_log.next_is_multiple_of(REMEMBERED_CALLS) || self.is_busy() {
            let began = self.enter_short(meta, arguments)?;
            self.leave_short(meta, began);
            return Ok(());
        }
        let core = &mut self.core;
        let mark = Mark { code: meta.code, call: meta.call };
        (core.status.entered, core.status.completed, core.status.hash) = (mark, mark, meta.hash);
        core.recorder.add_both([EventKind::Enter, EventKind::Leave], &Label::new(meta.code, &meta.call));
        core.counts.completes(meta.rounds);
        core.short_log.add(meta.call, meta.code, meta.hash, arguments);
        Ok(())
    }

    /// Whether calls are timed, or records of when they begin and end are kept for the user.
    #[inline]
    pub(crate) fn times_calls(&self) -> bool {
        self.core.latencies.is_some() || self.keeper.is_some()
    }

    /// Waits for `peer` to come to the call of `waiting`: once round, as [`Engine::turn`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn await_peer(&mut self, waiting: &mut Waiting, peer: u32) -> Result<()> {
        self.healthy()?;
        self.core.usable(waiting.comm())?;
        waiting.peer = Some(peer);
        if let Some(rest) = self.step(waiting)? {
            // What a rank posts in its slots is no event of the transport.
            self.rest(Rest { longest: rest.longest.min(SHORT_REST), ..rest });
        }
        Ok(())
    }

    /// `from` did something else in `call` than we: operation `theirs`, if that is known; ours is `mine`. The error comes out of
    /// what waits.
    pub(crate) fn mismatched(&mut self, from: u32, call: CallId, theirs: Option<u8>, mine: u8) {
        self.core.mismatched(from, call, theirs.unwrap_or(mine), mine);
    }

    /// The error of ranks that disagree in `call`, of operation `code`, where both sides of it are known: `how`.
    pub(crate) fn mismatch(&self, from: u32, call: CallId, code: u8, how: &str) -> Error {
        self.core.mismatch_error(from, call, (code, code), how)
    }

    /// Whether the arguments of this short call are requested, for [`Engine::send_arguments`].
    #[inline]
    pub(crate) fn arguments_requested(&self, call: CallId) -> bool {
        self.core.arguments_requested(call)
    }

    /// The arguments of a short call, in answer to a request.
    pub(crate) fn send_arguments(&mut self, arguments: String) {
        self.core.send_arguments(arguments);
    }
}

impl Core {
    /// `from` waits for us in `call`.
    pub(super) fn awaited_in(&mut self, from: u32, call: CallId, code: u8, hash: u64) {
        if self.has_ended(call.comm) {
            return self.comes_too_late(from, call.comm, None);
        }
        if let Some((c, h)) = self.known(call) {
            if (c, h) != (code, hash) {
                self.mismatched(from, call, code, c);
            }
            return;
        }
        if self.finalizing && self.is_to_come(call) {
            return self.never_comes(from, call, code);
        }
        // We are not there yet. What we do meanwhile may be what it did otherwise.
        let Mark { code, call: ours } = self.status.entered;
        let behind = ours.sequence.wrapping_sub(call.sequence) > u32::MAX / 2;
        if ours.comm == call.comm && code != 0 && behind && self.status.hash != 0 {
            let answer = Message::Awaited { call: ours, code, hash: self.status.hash };
            self.queue(from, answer);
        }
    }

    /// Whether `call`, of a communicator of ours, has not begun here.
    fn is_to_come(&self, call: CallId) -> bool {
        let group = self.groups.get(&call.comm).and_then(std::sync::Weak::upgrade);
        group.is_some_and(|group| call.sequence.wrapping_sub(group.next_call()) < u32::MAX / 2)
    }

    /// `from` waits for us in a call, and we make no more calls.
    fn never_comes(&mut self, from: u32, call: CallId, code: u8) {
        let (me, name, n) = (self.setup.rank, self.name_of(code), call.sequence);
        let what =
            format!("rank {me} is in finalize and does not come to {name} #{n}, in which rank {from} waits");
        let e = Error::new(ErrorKind::Mismatch, what).with_peer(me as usize).in_operation(name, u64::from(n));
        self.broken.get_or_insert(e.help("all ranks must make the same calls before finalize"));
    }
}
