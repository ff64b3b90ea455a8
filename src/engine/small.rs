//! Calls that need no task: their data goes by a board, in the call itself. The engine keeps the books of them, so that
//! ranks that are in other calls find that out, and looks after everything else while such a call waits.

use super::dispute::Description;
use super::message::{CallId, Mark, Message};
use super::{Counts, Engine, Meta, Waiting};
use crate::config::FOR_EVER;
use crate::error::{Error, ErrorKind, Result};
use crate::ops::Element;

/// How many such calls are remembered, to compare with what others do instead.
const REMEMBERED: usize = 64;

/// The arguments of a short call, without lists.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brief {
    pub(crate) element: Element,
    /// Bytes of each rank; `None` where ranks have counts.
    pub(crate) bytes: Option<usize>,
    pub(crate) root: Option<usize>,
}

impl Brief {
    /// The lines of it: see [`Description`].
    pub(crate) fn describe(&self) -> Description {
        let mut text = Description::new(self.element);
        if let Some(root) = self.root {
            text.line("root", root);
        }
        if let Some(bytes) = self.bytes {
            text.line("length", bytes / self.element.size().max(1));
        }
        text
    }
}

/// One short call.
#[derive(Clone, Copy, Debug, Default)]
struct Small {
    call: CallId,
    code: u8,
    hash: u64,
    brief: Brief,
}

/// The last calls of this kind, begun or completed.
#[derive(Debug)]
pub(super) struct Smalls {
    list: [Small; REMEMBERED],
    begun: usize,
}

impl Default for Smalls {
    fn default() -> Self {
        Self { list: [Small::default(); REMEMBERED], begun: 0 }
    }
}

impl Smalls {
    /// Operation and hash of a call, if it was one of ours.
    pub(super) fn find(&self, call: CallId) -> Option<(u8, u64)> {
        self.known(call).map(|small| (small.code, small.hash))
    }

    fn known(&self, call: CallId) -> Option<&Small> {
        self.list.iter().find(|small| small.call == call && small.code != 0)
    }

    /// The arguments of a call in words, as far as they are kept.
    pub(super) fn description(&self, call: CallId) -> Option<String> {
        Some(self.known(call)?.brief.describe().done())
    }

    /// Whether it is the last of ours.
    pub(super) fn is_current(&self, call: CallId) -> bool {
        let last = self.list[self.begun.wrapping_sub(1) % REMEMBERED];
        last.code != 0 && last.call == call
    }
}

impl Engine {
    /// We are in this call from now on. Now and then, and while other operations are under way, everything is
    /// moved on: a call that need not wait must not keep the world waiting.
    ///
    /// # Errors
    /// When the world has ended.
    #[inline]
    pub(crate) fn enter_small(&mut self, meta: &Meta, brief: Brief) -> Result<()> {
        let status = &mut self.core.status;
        status.entered = Mark { code: meta.code, call: meta.call };
        status.hash = meta.hash;
        let smalls = &mut self.core.smalls;
        let Meta { call, code, hash, .. } = *meta;
        smalls.list[smalls.begun % REMEMBERED] = Small { call, code, hash, brief };
        smalls.begun = smalls.begun.wrapping_add(1);
        if smalls.begun.is_multiple_of(REMEMBERED) || self.is_busy() {
            self.step(&mut Waiting::new(*meta, FOR_EVER))?;
        }
        Ok(())
    }

    /// Whether anything else is under way.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        !self.core.active.is_empty() || !self.core.outbox.is_empty()
    }

    /// The call is completed; this is what it did.
    #[inline]
    pub(crate) fn leave_small(&mut self, meta: &Meta, done: &Counts) {
        self.core.status.completed = Mark { code: meta.code, call: meta.call };
        let counts = &mut self.core.counts;
        counts.puts += done.puts;
        counts.put_bytes += done.put_bytes;
        counts.arrivals += done.arrivals;
        counts.copied_bytes += done.copied_bytes;
        counts.reduced_bytes += done.reduced_bytes;
        counts.rounds += u64::from(meta.rounds);
        counts.operations += 1;
    }

    /// Waits for `peer` to come to the call of `waiting`: once round, as [`Engine::turn`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn await_peer(&mut self, waiting: &mut Waiting, peer: u32) -> Result<()> {
        self.healthy()?;
        waiting.peer = Some(peer);
        if let Some(rest) = self.step(waiting)? {
            self.rest(rest);
        }
        Ok(())
    }

    /// `from` did something else in `call` than we: operation `theirs`, if that is known; ours is `mine`. The error comes out of
    /// what waits.
    pub(crate) fn differs(&mut self, from: u32, call: CallId, theirs: Option<u8>, mine: u8) {
        self.core.disagree(from, call, theirs.unwrap_or(mine), mine);
    }

    /// Whether this short call is asked for its arguments, by [`Engine::answer`].
    #[inline]
    pub(crate) fn is_asked(&self, call: CallId) -> bool {
        self.core.is_asked(call)
    }

    /// What a short call says of itself when it is asked.
    pub(crate) fn answer(&mut self, arguments: String) {
        self.core.answer(arguments);
    }
}

impl super::core::Core {
    /// `from` waits for us in `call`.
    pub(super) fn late(&mut self, from: u32, call: CallId, code: u8, hash: u64) {
        if let Some((c, h)) = self.known(call) {
            if (c, h) != (code, hash) {
                self.disagree(from, call, code, c);
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
            let answer = Message::Late { call: ours, code, hash: self.status.hash };
            self.queue(from, answer);
        }
    }
}

impl super::core::Core {
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
