//! A short call under way: posting, and waiting for the other members.

use super::cross_memory::Attach;
use super::state::{EARLIER, ShortState, gone};
use crate::buffer::Wire;
use crate::comm::collective::Collective;
use crate::comm::communicator::Communicator;
use crate::comm::context::Context;
use crate::comm::lock::Held;
use crate::comm::options::Options;
use crate::engine::{CallId, Counts, Meta, ShortArguments, Waiting};
use crate::error::{Error, Result};
use crate::hash::Fnv;
use crate::ops::{Element, OperatorName, Reducer};
use crate::transport::Lent;
use crate::transport::call_slots::{CallSlots, Look, MAX_WIDE_POST_BYTES, Place, Post};
use std::ops::Range;

/// Looks at a flag between two turns of the engine, while a wait is short: 70 us if each yields (550 ns by `ci/cost waits`), about
/// what a nap takes; 18 us where each rank has a core and pauses first.
const FLAG_SPINS: u32 = 128;
/// A wait of fewer turns of the engine is short: about a millisecond, a time slice of the kernel's scheduler.
const SHORT_WAIT_TURNS: u32 = 16;
/// Tells hashes of short calls from those of plans. Any number does: this is the fraction of π.
const SALT: u64 = 0x243F_6A88_85A3_08D3;

/// A call with longer posts, in bytes, is recorded when it begins: see [`Run::note`]. Chosen: as many are copied in about 0.1 us.
const MAX_LATE_BYTES: usize = 4 << 10;

/// What a call is, but for its buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    pub(super) call: Collective,
    pub(super) element: Element,
    /// Bytes of the longest post that a rank may make in it.
    pub(super) longest: usize,
    /// Bytes of each rank; `None` where ranks have counts.
    pub(super) each: Option<usize>,
    pub(super) root: Option<usize>,
    /// Bytes as those of a plan count ([`Arguments::total`](crate::plan::registry::Arguments::total)).
    pub(super) total: usize,
    /// Counts and displacements that all ranks agree on.
    pub(super) lists: Option<(&'a [usize], &'a [usize])>,
    /// What folds, of a call that does.
    pub(super) by: Option<&'a Reducer>,
}

impl Shape<'_> {
    /// What is kept of it.
    #[inline]
    fn brief(&self) -> ShortArguments {
        let operator = self.by.map_or_else(OperatorName::default, Reducer::brief_name);
        ShortArguments { element: self.element, bytes: self.each, root: self.root, operator }
    }
}

/// Constants of an operation on one element type.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    name: &'static str,
    code: u8,
    salt: u64,
}

impl Fixed {
    #[inline(always)]
    fn of(shape: &Shape<'_>) -> Self {
        let (name, code) = (shape.call.name(), shape.call.code());
        Self { name, code, salt: SALT ^ shape.element.code().rotate_left(32) ^ u64::from(code) }
    }
}

/// Which members read what this rank lends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    All,
    One(usize),
}

/// One call under way.
pub(super) struct Run<'a, 'b> {
    pub(super) held: &'a mut Held<'b>,
    pub(super) context: &'a Context,
    /// The communicator's place among [`ShortCalls`](super::state::ShortCalls); nothing: it has one rank, and no other reads what is posted.
    index: Option<usize>,
    /// Its slots, and what was done in them: taken out while the call has the lock.
    state: Option<Box<ShortState>>,
    /// The call's arguments, for ranks that made another one.
    shape: &'a Shape<'a>,
    /// Of the operation and its element type.
    fixed: Fixed,
    pub(super) call: CallId,
    /// When it began, if the engine knows of it: see [`Run::note`].
    began: Option<u64>,
    pub(super) number: u64,
    pub(super) ours: Post,
    /// Another thread of a member was in an earlier call when it posted in this one.
    threads: bool,
    /// The members that read what this rank has lent, and the last number under which it has.
    lent_to: Option<(Readers, u64)>,
    /// What is tried in it by cross-memory attach.
    pub(super) attach: Option<Attach>,
    options: &'a Options,
    /// Made when nothing was there for the first time: mostly no call waits for long.
    waiting: Option<Waiting>,
}

impl Communicator {
    /// Goes on where calls may be short: all ranks share memory, or there is one.
    #[inline]
    pub(super) fn has_short_calls(&self) -> Option<()> {
        (self.context.short_calls().is_some() || self.context.size == 1).then_some(())
    }

    /// Whether the ranks of its node share cores, if it has short calls.
    #[inline]
    pub(super) fn shares_cores(&self) -> bool {
        self.context.short_calls().is_some_and(|handle| handle.crowded)
    }

    /// Runs the call, if this communicator has short calls and it is one of them; `None`: it is none. All ranks must decide alike: nothing that
    /// only one knows may count. `arguments` hashes what all ranks must agree on.
    #[inline]
    pub(super) fn short<R>(
        &self,
        shape: Shape<'_>,
        arguments: impl FnOnce(&mut Fnv),
        body: impl FnOnce(&mut Run<'_, '_>) -> Result<R>,
    ) -> Option<Result<R>> {
        self.has_short_calls()?;
        // Ahead of anything that borrows the shape: so they are constants of most calls.
        let (operation, fixed) = (shape.call.operation(), Fixed::of(&shape));
        let index = self.context.short_calls().map(|handle| handle.index);
        if index.is_some() && shape.longest > MAX_WIDE_POST_BYTES
            || self.options.algorithm.as_deref().is_some_and(|name| name != "auto")
            || self.options.blocks.is_some()
        {
            return None;
        }
        let mut lock = self.hold();
        // Used in place: copying the guard just after its fields were stored stalls the processor.
        let held = match lock {
            Ok(ref mut held) => held,
            Err(e) => return Some(Err(e)),
        };
        let takes = match index {
            Some(index) => held.short_calls.get(index)?.takes(operation, shape.longest),
            None => held.blocks.is_none() && !held.selection.names(operation),
        };
        if held.check || !takes {
            return None;
        }
        if held.log.tells_of_calls() {
            held.log_short_call(fixed.name, shape.total);
        }
        Some(self.run_short(held, index, (&shape, fixed), arguments, body))
    }

    fn run_short<R>(
        &self,
        held: &mut Held<'_>,
        index: Option<usize>,
        (shape, fixed): (&Shape<'_>, Fixed),
        arguments: impl FnOnce(&mut Fnv),
        body: impl FnOnce(&mut Run<'_, '_>) -> Result<R>,
    ) -> Result<R> {
        let (context, code) = (&*self.context, fixed.code);
        let shared = &mut **held;
        shared.engine.usable(context.id)?;
        let mut hash = Fnv::new();
        hash.word(fixed.salt ^ context.id);
        arguments(&mut hash);
        let hash = hash.0;
        let call = context.next_call();
        let late = shape.longest <= MAX_LATE_BYTES && !shared.engine.times_calls();
        let (mut state, mut number, mut past) = (None, 0, 0);
        if let Some(index) = index {
            let taken = shared.short_calls.take(index)?;
            (number, past) = state.insert(taken).enter(call.sequence, code, hash);
        }
        let (ours, options) = (Post { code, hash, past }, &self.options);
        let (threads, lent_to, attach, waiting) = (false, None, None, None);
        let mut run = Run {
            held,
            context,
            index,
            state,
            shape,
            fixed,
            call,
            began: None,
            number,
            ours,
            threads,
            lent_to,
            attach,
            options,
            waiting,
        };
        let noted = if late { Ok(()) } else { run.note() };
        let done = noted.and_then(|()| body(&mut run)).and_then(|result| run.leave().map(|()| result));
        done.map_err(|e| run.fail(e.in_operation(fixed.name, u64::from(call.sequence))))
    }
}

impl Run<'_, '_> {
    pub(super) fn rank(&self) -> usize {
        self.context.rank as usize
    }

    pub(super) fn size(&self) -> usize {
        self.context.size as usize
    }

    fn meta(&self) -> Meta {
        Meta {
            name: self.fixed.name,
            code: self.fixed.code,
            call: self.call,
            hash: self.ours.hash,
            rounds: u32::from(!self.is_alone()),
            bytes: self.shape.total as u64,
        }
    }

    /// Records in the engine that the call has begun: before it waits, if it does. A call that copies little and need not wait is recorded when it ends, with one reading of the clock.
    #[inline]
    pub(super) fn note(&mut self) -> Result<()> {
        if self.began.is_none() {
            let (meta, brief) = (self.meta(), self.shape.brief());
            self.began = Some(self.held.engine.enter_short(&meta, brief)?);
        }
        Ok(())
    }

    /// Whether there is no other rank.
    #[inline]
    pub(super) fn is_alone(&self) -> bool {
        self.index.is_none()
    }

    #[inline]
    pub(super) fn state(&mut self) -> Result<&mut ShortState> {
        self.state.as_deref_mut().ok_or_else(gone)
    }

    /// The engine's counts, to which the call adds what it does.
    #[inline]
    pub(super) fn counts(&mut self) -> &mut Counts {
        self.held.engine.counts_mut()
    }

    #[inline]
    pub(super) fn slots(&mut self) -> Result<&mut CallSlots> {
        Ok(&mut self.state()?.slots)
    }

    /// Shows what the call is, and these bytes to those that read them.
    #[inline]
    pub(super) fn post(&mut self, bytes: &[u8]) -> Result<()> {
        self.post_pieces(std::iter::once(bytes))
    }

    /// As [`Run::post`], of these pieces one behind the other.
    #[inline]
    pub(super) fn post_pieces<'p>(&mut self, pieces: impl Iterator<Item = &'p [u8]> + Clone) -> Result<()> {
        if self.is_alone() {
            return Ok(());
        }
        let counts = self.counts();
        counts.puts += 1;
        counts.put_bytes += pieces.clone().map(|piece| piece.len() as u64).sum::<u64>();
        self.post_if_read(pieces, true)
    }

    /// As [`Run::post`], of bytes of which those that others read stay as they are until the call ends, or until its readers have posted in a later step. Long ones in memory that these readers can map are posted by reference, and
    /// the call ends when all of them have read.
    #[inline]
    pub(super) fn lend(&mut self, bytes: &[u8], readers: Readers) -> Result<()> {
        match self.lent(bytes)? {
            None => self.post(bytes),
            Some(lent) => self.post_lent(lent, bytes.len(), readers),
        }
    }

    /// As [`Run::lend`] to all, of the blocks of all ranks; where they cannot be lent, all but `ours` are posted, which no other rank reads.
    #[inline]
    pub(super) fn lend_blocks(&mut self, bytes: &[u8], ours: Range<usize>) -> Result<()> {
        match self.lent(bytes)? {
            None => self.post_blocks(bytes, ours),
            Some(lent) => self.post_lent(lent, bytes.len(), Readers::All),
        }
    }

    /// Posts the blocks of all ranks but `ours`.
    #[inline]
    pub(super) fn post_blocks(&mut self, bytes: &[u8], ours: Range<usize>) -> Result<()> {
        match (&bytes[..ours.start], &bytes[ours.end..]) {
            ([], rest) | (rest, []) => self.post(rest),
            (before, behind) => self.post_pieces([before, behind].into_iter()),
        }
    }

    /// As [`Run::lend`] to all; where these bytes cannot be lent, these pieces of them are posted one behind the other. Returns whether they are lent.
    pub(super) fn lend_or_post<'p>(
        &mut self,
        bytes: &[u8],
        pieces: impl IntoIterator<Item = &'p [u8], IntoIter: Clone>,
    ) -> Result<bool> {
        let lent = self.lent(bytes)?;
        match lent {
            None => self.post_pieces(pieces.into_iter())?,
            Some(lent) => self.post_lent(lent, bytes.len(), Readers::All)?,
        }
        Ok(lent.is_some())
    }

    /// Whether what `member` has posted is lent.
    pub(super) fn has_lent(&mut self, member: usize) -> Result<bool> {
        let number = self.number;
        Ok(matches!(self.slots()?.place(member, number), Place::Lent(_)))
    }

    /// Takes the numbers of this many further steps. Every rank must do so before it waits for anything in the call, as another thread may begin the next call during a wait.
    pub(super) fn reserve(&self, steps: usize) {
        (0..steps).for_each(|_| {
            self.context.next_call();
        });
    }

    /// The call's next step, in which each rank may post again. We read nothing more of this one.
    pub(super) fn step(&mut self) -> Result<()> {
        let number = self.number;
        self.number = self.state()?.step(number);
        Ok(())
    }

    /// Where others find these bytes, if they are to be lent.
    #[inline]
    pub(super) fn lent(&mut self, bytes: &[u8]) -> Result<Option<Lent>> {
        if self.is_alone() || !self.slots()?.lends(bytes.len()) { Ok(None) } else { Ok(self.mapped(bytes)) }
    }

    fn mapped(&mut self, bytes: &[u8]) -> Option<Lent> {
        if Wire::goes_on(self.held) {
            return None;
        }
        let mapped = self.held.engine.transport().and_then(|transport| transport.lend(bytes));
        mapped.or_else(|| self.attach.and_then(|attach| attach.lent(bytes)))
    }

    fn post_lent(&mut self, lent: Lent, len: usize, readers: Readers) -> Result<()> {
        let counts = self.counts();
        counts.puts += 1;
        counts.put_bytes += len as u64;
        self.await_room(0)?;
        let (number, ours) = (self.number, self.ours);
        self.state()?.lend(number, ours, lent);
        self.lent_to = Some((readers, number));
        Ok(())
    }

    /// We read nothing more. Returns when all readers have read what is lent.
    #[inline]
    fn leave(&mut self) -> Result<()> {
        let number = self.number;
        if let Some(state) = &mut self.state {
            state.leave(number);
        }
        if let Some((readers, number)) = self.lent_to {
            self.take_back(readers, number)?;
        }
        let meta = self.meta();
        match self.began {
            Some(began) => self.held.engine.leave_short(&meta, began),
            None => {
                // An error is recorded once.
                self.began = Some(0);
                self.held.engine.pass_short(&meta, self.shape.brief())?;
            }
        }
        Ok(())
    }

    /// Waits until these have read what is lent to them.
    fn take_back(&mut self, readers: Readers, number: u64) -> Result<()> {
        let mine = self.rank();
        let members = match readers {
            Readers::All => 0..self.size(),
            Readers::One(member) => member..member + 1,
        };
        for member in members.filter(|member| *member != mine) {
            while !self.slots()?.watch_passed(member, number) {
                self.turn(member, |slots| slots.has_passed(member, number))?;
            }
        }
        self.lent_to = None;
        Ok(())
    }

    /// Ends the endpoint, so that no peer reads what is lent.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.lent_to = None;
        // So the flight record of the error has the call. The first error is the one to report.
        let _ = self.note();
        Wire::fail(self.held, error)
    }

    /// Shows what the call is: no other rank need look.
    #[inline]
    pub(super) fn post_nothing(&mut self) -> Result<()> {
        self.post_if_read(std::iter::empty(), false)
    }

    #[inline]
    fn post_if_read<'p>(&mut self, pieces: impl Iterator<Item = &'p [u8]> + Clone, read: bool) -> Result<()> {
        if self.is_alone() {
            return Ok(());
        }
        let (number, ours) = (self.number, self.ours);
        if self.state()?.try_post(number, ours, pieces.clone(), read) {
            return Ok(());
        }
        self.await_room(pieces.clone().map(<[u8]>::len).sum())?;
        self.state()?.post(number, ours, pieces, read);
        Ok(())
    }

    /// Waits until our slot for this call can be written, with a post of `len` bytes, and no earlier call of another thread needs the room.
    fn await_room(&mut self, len: usize) -> Result<()> {
        let number = self.number;
        while !self.state()?.has_turn(number, len) {
            self.progress(self.context.members.world_rank(self.context.rank))?;
        }
        while let Err(member) = self.slots()?.room(number, len) {
            self.turn(member, |slots| slots.room(number, len).is_ok())?;
        }
        Ok(())
    }

    /// All others have entered this call, so none reads slots of earlier ones, but where several threads are in calls.
    pub(super) fn met(&mut self) {
        let number = self.number;
        if let Some(state) = &mut self.state
            && !self.threads
        {
            state.slots.all_entered(number);
        }
    }

    /// Shows our part of a result to the others, in a step in which we have posted `posted` bytes.
    pub(super) fn share(&mut self, posted: usize, part: &[u8]) -> Result<()> {
        let number = self.number;
        self.slots()?.share(number, posted, part);
        Ok(())
    }

    /// Waits until `member` has posted in this call, and compares.
    #[inline]
    pub(super) fn await_post(&mut self, member: usize) -> Result<()> {
        let (number, ours) = (self.number, self.ours);
        if self.slots()?.has_posted(member, number, ours) {
            self.counts().arrivals += 1;
            return Ok(());
        }
        self.await_other_post(member)
    }

    /// As [`Run::await_post`], where it is not there yet, or another one.
    #[inline(never)]
    fn await_other_post(&mut self, member: usize) -> Result<()> {
        self.note()?;
        let (number, ours) = (self.number, self.ours);
        let theirs = loop {
            match self.slots()?.watch(member, number) {
                Look::Posted(theirs) => break theirs,
                // As if it had not posted in this call: no rank gets so far ahead without us.
                Look::Later => break Post { code: ours.code, hash: !ours.hash, past: ours.past },
                Look::Nothing => {}
            }
            self.turn(member, |slots| slots.look(member, number) != Look::Nothing)?;
        };
        self.counts().arrivals += 1;
        self.threads |= theirs.code & EARLIER != 0;
        let theirs = Post { code: theirs.code & !EARLIER, ..theirs };
        if theirs == ours { Ok(()) } else { Err(self.disagreement(member, theirs)) }
    }

    /// The arguments, in words.
    #[cold]
    fn describe(&self) -> String {
        let mut text = self.shape.brief().describe();
        if let Some((counts, displs)) = self.shape.lists {
            text.list("count", counts.iter().map(|n| *n as u64));
            let shown = |(displ, count): (&usize, &usize)| if *count == 0 { 0 } else { *displ as u64 };
            text.list("displacement", displs.iter().zip(counts).map(shown));
        }
        text.done()
    }

    #[cold]
    fn disagreement(&mut self, member: usize, theirs: Post) -> Error {
        let (number, ours) = (self.number, self.ours);
        let (ago, code, known) =
            self.state().map_or((0, ours.code, None), |s| s.differs(member, number, ours, theirs));
        let CallId { comm, sequence } = self.call;
        let ago = u32::try_from(ago).unwrap_or(0);
        let call = CallId { comm, sequence: sequence.wrapping_sub(ago) };
        let from = self.world_rank(member);
        self.held.engine.mismatched(from, call, known, code);
        // The error comes when it is known what differs, or after a while without.
        loop {
            if let Err(e) = self.progress(from) {
                return e;
            }
        }
    }

    /// Makes progress elsewhere, once, and answers a rank that asks what this call is.
    pub(super) fn progress(&mut self, peer: u32) -> Result<()> {
        self.note()?;
        let (meta, deadline) = (self.meta(), self.options.deadline.unwrap_or(self.held.deadline));
        let waiting = self.waiting.get_or_insert_with(|| Waiting::new(meta, deadline));
        self.held.engine.await_peer(waiting, peer)?;
        if self.held.engine.arguments_requested(self.call) {
            let text = self.describe();
            self.held.engine.send_arguments(text);
        }
        // Other threads' calls need the state while they have the lock.
        self.put_back();
        self.held.yield_lock();
        if let Some(index) = self.index {
            self.state = Some(self.held.short_calls.take(index)?);
        }
        Ok(())
    }

    #[inline]
    fn put_back(&mut self) {
        if let (Some(index), Some(state)) = (self.index, self.state.take()) {
            self.held.short_calls.put_back(index, state);
        }
    }

    pub(super) fn world_rank(&self, member: usize) -> u32 {
        self.context.members.world_rank(u32::try_from(member).unwrap_or(u32::MAX))
    }

    /// Looks for `member` a few times, each time giving the core away; then makes progress elsewhere, once. (Out of line: `ci/instructions`
    /// counts calls without it.)
    #[inline(never)]
    pub(super) fn turn(
        &mut self,
        member: usize,
        mut ready: impl FnMut(&mut CallSlots) -> bool,
    ) -> Result<()> {
        self.note()?;
        let (engine, turns) = (&self.held.engine, self.waiting.as_ref().map_or(0, Waiting::turns));
        if !engine.is_busy() && !engine.lazy && turns < SHORT_WAIT_TURNS {
            let before = turns * FLAG_SPINS;
            for i in 0..FLAG_SPINS {
                self.slots()?.idle(before.saturating_add(i));
                if ready(self.slots()?) {
                    return Ok(());
                }
            }
        }
        let peer = self.world_rank(member);
        self.progress(peer)
    }
}

impl Drop for Run<'_, '_> {
    fn drop(&mut self) {
        // A panic unwinds: the memory that is lent may be freed next, so that no peer may read it.
        if self.lent_to.is_some() {
            Wire::shut(self.held);
        }
        self.put_back();
    }
}
