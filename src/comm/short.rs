//! Short calls: blocking calls of node-local ranks through slots of shared memory. A rank posts its bytes with a flag in
//! its own slot (gather), and reads those of the other ranks that it needs (release). No plan, no message, no allocation.
//!
//! Whether a call goes this way depends on what all ranks know alike: operation, bytes, communicator, options, settings.
//! What is folded is folded in the order of ranks and in the tree of the algorithm `ordered`.
//!
//! Each post says which call it is of, with a hash of its arguments and one of all short calls of this communicator before.
//! So ranks that disagree find out when one reads the other's post: in this call, or in the next in which it does.

mod levels;
mod setup;
mod state;

pub(super) use state::{ShortCalls, ShortHandle};

use super::communicator::Communicator;
use super::context::Context;
use super::lock::Held;
use super::partition::{Places, overlap};
use crate::buffer::Wire;
use crate::engine::{CallId, Counts, Meta, ShortArguments, Waiting};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Fnv;
use crate::memory::copy_slice;
use crate::ops::{Element, Reducer};
use crate::plan::registry::Operation;
use crate::transport::call_slots::{CallSlots, Look, MAX_POST_BYTES, Post};
use levels::Levels;
use state::{EARLIER, ShortState};

/// Looks at a flag between two turns of the engine, while a wait is short: 70 us if each yields (550 ns by `ci/cost waits`), about
/// what a nap takes; 18 us where each rank has a core and pauses first.
const FLAG_SPINS: u32 = 128;
/// A wait of fewer turns of the engine is short: about a millisecond, a time slice of the kernel's scheduler.
const SHORT_WAIT_TURNS: u32 = 16;
/// From this many bytes of all ranks on, each folds a part for all of them, instead of everything for itself (8 ranks on 2
/// cores fold 16 KB in 24 us so).
const SPLIT_FOLD_BYTES: usize = 16 << 10;
/// Folds of larger elements are not split: a part, rounded up to whole elements, may be longer than half a post by 128 bytes at most
/// (`MAX_PART_BYTES` of `transport/call_slots.rs`).
const MAX_SPLIT_ELEMENT_BYTES: usize = 64;

/// A short call, with its buffers.
enum ShortCall<'a> {
    Barrier,
    Bcast {
        root: usize,
        data: &'a mut [u8],
    },
    /// Each rank's bytes to where they belong; ours are given, or there already.
    Gather {
        send: Option<&'a [u8]>,
        recv: &'a mut [u8],
        blocks: Blocks<'a>,
    },
    /// To one rank or to all.
    Fold {
        root: Option<usize>,
        send: Option<&'a [u8]>,
        recv: &'a mut [u8],
        by: &'a Reducer,
    },
}

/// Where ranks' contributions stand in a result, in units of this many bytes.
#[derive(Clone, Copy)]
enum Blocks<'a> {
    Equal(usize),
    /// `displs` are this rank's own; all ranks agree on `agreed`.
    Ragged {
        unit: usize,
        counts: &'a [usize],
        displs: &'a [usize],
        agreed: &'a [usize],
    },
}

impl Blocks<'_> {
    fn of(&self, rank: usize) -> std::ops::Range<usize> {
        match *self {
            Self::Equal(len) => rank * len..(rank + 1) * len,
            Self::Ragged { unit, counts, displs, .. } => {
                let start = if counts[rank] == 0 { 0 } else { displs[rank] * unit };
                start..start + counts[rank] * unit
            }
        }
    }

    fn hash(&self, h: &mut Fnv) {
        match self {
            Self::Equal(len) => h.word(*len as u64),
            Self::Ragged { unit, counts, agreed, .. } => {
                counts.iter().for_each(|n| h.word((n * unit) as u64));
                counts
                    .iter()
                    .zip(*agreed)
                    .for_each(|(n, d)| h.word(if *n == 0 { 0 } else { (d * unit) as u64 }));
            }
        }
    }
}

impl<'a> ShortCall<'a> {
    /// What it is, but for lists.
    fn brief(&self, element: Element) -> ShortArguments {
        let (bytes, root) = match self {
            Self::Barrier => (None, None),
            Self::Bcast { root, data } => (Some(data.len()), Some(*root)),
            Self::Gather { blocks: Blocks::Equal(len), .. } => (Some(*len), None),
            Self::Gather { .. } => (None, None),
            Self::Fold { root, send, recv, .. } => (Some(send.map_or(recv.len(), <[u8]>::len)), *root),
        };
        ShortArguments { element, bytes, root }
    }

    /// As those of a plan count ([`Arguments::total`](crate::plan::registry::Arguments::total)).
    fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Barrier => 0,
            Self::Bcast { data, .. } => data.len(),
            Self::Gather { recv, .. } => recv.len(),
            Self::Fold { send, recv, .. } => send.map_or(recv.len(), <[u8]>::len),
        };
        bytes as u64
    }

    /// Counts and displacements that all ranks agree on.
    fn lists(&self) -> Option<(&'a [usize], &'a [usize])> {
        match *self {
            Self::Gather { blocks: Blocks::Ragged { counts, agreed, .. }, .. } => Some((counts, agreed)),
            _ => None,
        }
    }

    /// Of what all ranks must agree on; `salt` is the communicator's.
    fn hash(&self, code: u8, salt: u64) -> u64 {
        let mut h = Fnv::new();
        h.word(salt ^ u64::from(code));
        match self {
            Self::Barrier => {}
            Self::Bcast { root, data } => [*root, data.len()].iter().for_each(|w| h.word(*w as u64)),
            Self::Gather { send, blocks, .. } => {
                h.word(u64::from(send.is_none()));
                blocks.hash(&mut h);
            }
            Self::Fold { root, send, recv, by } => {
                h.word(root.map_or(u64::MAX, |r| r as u64));
                h.word(send.map_or(recv.len(), <[u8]>::len) as u64);
                // Of one root's own buffer the others know nothing.
                h.word(u64::from(send.is_none() && root.is_none()));
                h.word(by.hash());
            }
        }
        h.0
    }
}

/// One call under way.
struct Run<'a, 'b> {
    held: &'a mut Held<'b>,
    context: &'a Context,
    index: usize,
    meta: Meta,
    /// The call's arguments, for ranks that made another one.
    brief: ShortArguments,
    lists: Option<(&'a [usize], &'a [usize])>,
    number: u64,
    ours: Post,
    /// Another thread of a member was in an earlier call when it posted in this one.
    threads: bool,
    waiting: Waiting,
    done: Counts,
}

impl Communicator {
    /// A barrier as a short call; `None`: it is none.
    #[inline]
    pub(super) fn short_barrier(&self) -> Option<Result<()>> {
        self.short(Operation::Barrier, Element::default(), 0, ShortCall::Barrier)
    }

    /// As [`Communicator::short_barrier`], a broadcast.
    #[inline]
    pub(super) fn short_bcast(&self, element: Element, data: &mut [u8], root: usize) -> Option<Result<()>> {
        if root >= self.size() {
            return None;
        }
        self.short(Operation::Bcast, element, data.len(), ShortCall::Bcast { root, data })
    }

    /// As [`Communicator::short_barrier`], an allgather.
    #[inline]
    pub(super) fn short_allgather(
        &self,
        element: Element,
        send: Option<&[u8]>,
        recv: &mut [u8],
    ) -> Option<Result<()>> {
        let unit = element.size();
        let len = recv.len() / self.size();
        let whole = len * self.size() == recv.len() && len.is_multiple_of(unit.max(1));
        if !whole || send.is_some_and(|s| s.len() != len) {
            return None;
        }
        self.short(
            Operation::Allgather,
            element,
            len,
            ShortCall::Gather { send, recv, blocks: Blocks::Equal(len) },
        )
    }

    /// As [`Communicator::short_barrier`], an allgatherv.
    pub(super) fn short_allgatherv(
        &self,
        element: Element,
        send: Option<&[u8]>,
        recv: &mut [u8],
        places: &Places<'_>,
    ) -> Option<Result<()>> {
        self.context.short_calls()?;
        let (unit, counts, displs) = (element.size(), places.counts, places.here());
        let longest = *counts.iter().max()?;
        // Long contributions, and arguments that may be wrong, go by plan, which checks them.
        if counts.len() != self.size()
            || displs.len() != self.size()
            || longest > MAX_POST_BYTES
            || unit > MAX_POST_BYTES
        {
            return None;
        }
        if send.is_some_and(|s| s.len() != counts[self.rank()] * unit) {
            return None;
        }
        let (mut end, mut ascending) = (0, true);
        for (count, displ) in counts.iter().zip(displs).filter(|(count, _)| **count > 0) {
            if *displ > recv.len() || (displ + count) * unit > recv.len() {
                return None;
            }
            ascending &= *displ >= end;
            end = displ + count;
        }
        // Of displacements of our own the others know nothing, so that only errors may go by plan.
        let ranges = || displs.iter().copied().zip(counts.iter().copied());
        if !ascending && (places.own.is_none() || overlap(ranges()).is_some()) {
            return None;
        }
        let blocks = Blocks::Ragged { unit, counts, displs, agreed: &places.displs };
        self.short(Operation::Allgatherv, element, longest * unit, ShortCall::Gather { send, recv, blocks })
    }

    /// As [`Communicator::short_barrier`], a reduction of slices of `T` to `root`, or to all.
    #[inline]
    pub(super) fn short_fold<T>(
        &self,
        root: Option<usize>,
        send: Option<&[u8]>,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Option<Result<()>> {
        let len = send.map_or(recv.len(), <[u8]>::len);
        let gets = root.is_none_or(|root| root == self.rank());
        let element = by.element_type();
        // Of the reducer's own type every length is whole.
        let cut = element.size() != size_of::<T>() && !len.is_multiple_of(element.size());
        let wrong = root.is_some_and(|root| root >= self.size()) || gets && len != recv.len() || cut;
        if wrong || send.is_none() && !gets {
            return None;
        }
        let operation = if root.is_some() { Operation::Reduce } else { Operation::Allreduce };
        self.short(operation, element, len, ShortCall::Fold { root, send, recv, by })
    }

    /// Runs the call, if this communicator has short calls and it is one of them. All ranks must decide alike: nothing that
    /// only one knows may count.
    fn short(
        &self,
        operation: Operation,
        element: Element,
        longest: usize,
        call: ShortCall<'_>,
    ) -> Option<Result<()>> {
        let index = self.context.short_calls()?.index;
        if longest > MAX_POST_BYTES
            || self.options.algorithm.as_deref().is_some_and(|name| name != "auto")
            || self.options.blocks.is_some()
        {
            return None;
        }
        let mut held = match self.hold() {
            Ok(held) => held,
            Err(e) => return Some(Err(e)),
        };
        if held.check || !held.short_calls.get(index)?.takes(operation) {
            return None;
        }
        held.log_short_call(operation, longest);
        Some(self.run_short(&mut held, index, (operation, element), call))
    }

    fn run_short(
        &self,
        held: &mut Held<'_>,
        index: usize,
        (operation, element): (Operation, Element),
        call: ShortCall<'_>,
    ) -> Result<()> {
        let (context, name, code) = (&*self.context, operation.name(), operation.code());
        held.engine.usable(context.id)?;
        let hash = call.hash(code, SALT ^ context.id ^ element.code().rotate_left(32));
        let brief = call.brief(element);
        let meta = Meta { name, code, call: context.next_call(), hash, rounds: 1, bytes: call.bytes() };
        let waiting = Waiting::new(meta, self.options.deadline.unwrap_or(held.deadline));
        let begun = held.engine.enter_short(&meta, brief)?;
        let state = held.short_calls.get(index).ok_or_else(gone)?;
        let (number, ours) = state.enter(meta.call.sequence, code, hash);
        let (threads, done) = (false, Counts::default());
        let lists = call.lists();
        let mut run = Run { held, context, index, meta, brief, lists, number, ours, threads, waiting, done };
        match run.call(call) {
            Ok(()) => {
                let Run { held, done, .. } = run;
                if let Some(state) = held.short_calls.get(index) {
                    state.leave(number);
                }
                held.engine.leave_short(&meta, begun, &done);
                Ok(())
            }
            Err(e) => Err(Wire::fail(held, e.in_operation(name, u64::from(meta.call.sequence)))),
        }
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Aborted, "the communicator's slots are gone")
}

/// Tells hashes of short calls from those of plans. Any number does: this is the fraction of π.
const SALT: u64 = 0x243F_6A88_85A3_08D3;

impl Run<'_, '_> {
    fn call(&mut self, call: ShortCall<'_>) -> Result<()> {
        let (mine, size) = (self.context.rank as usize, self.context.size as usize);
        match call {
            ShortCall::Barrier => {
                self.post(Some(&[]))?;
                self.all(mine, size, |_, _| Ok(()))?;
                self.met();
            }
            ShortCall::Bcast { root, data } if root == mine => self.post(Some(data))?,
            ShortCall::Bcast { root, data } => {
                self.post(None)?;
                self.await_post(root)?;
                self.read(root, data)?;
            }
            ShortCall::Gather { send, recv, blocks } => {
                let ours = blocks.of(mine);
                self.post(Some(send.unwrap_or_else(|| &recv[ours.clone()])))?;
                if let Some(send) = send {
                    copy_slice(send, &mut recv[ours]);
                    self.done.copied_bytes += send.len() as u64;
                }
                self.all(mine, size, |run, member| run.read(member, &mut recv[blocks.of(member)]))?;
                self.met();
            }
            ShortCall::Fold { root: None, send, recv, by } => {
                self.post(Some(send.unwrap_or(recv)))?;
                if recv.len() * size > SPLIT_FOLD_BYTES && by.element() <= MAX_SPLIT_ELEMENT_BYTES {
                    self.fold_parts(recv, by)?;
                } else {
                    self.fold(0, recv, by)?;
                }
                self.met();
            }
            ShortCall::Fold { root: Some(root), send, recv, by } if root == mine => {
                self.post(Some(send.unwrap_or(recv)))?;
                self.fold(0, recv, by)?;
            }
            ShortCall::Fold { send, .. } => self.post(send)?,
        }
        Ok(())
    }

    fn state(&mut self) -> Result<&mut ShortState> {
        self.held.short_calls.get(self.index).ok_or_else(gone)
    }

    fn slots(&mut self) -> Result<&mut CallSlots> {
        Ok(&mut self.state()?.slots)
    }

    /// Shows what the call is, and bytes if others are to read it.
    fn post(&mut self, bytes: Option<&[u8]>) -> Result<()> {
        let number = self.number;
        while let Err(member) = self.slots()?.room(number) {
            self.turn(member, |slots| slots.room(number).is_ok())?;
        }
        let ours = self.ours;
        self.state()?.post(number, ours, bytes);
        if let Some(bytes) = bytes {
            self.done.puts += 1;
            self.done.put_bytes += bytes.len() as u64;
        }
        Ok(())
    }

    /// All others have entered this call, so none reads slots of earlier ones, but where several threads are in calls.
    fn met(&mut self) {
        let number = self.number;
        if !self.threads
            && let Ok(slots) = self.slots()
        {
            slots.all_entered(number);
        }
    }

    /// Each of the others, in the order of ranks.
    fn all(
        &mut self,
        mine: usize,
        size: usize,
        mut body: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        (0..size).filter(|member| *member != mine).try_for_each(|member| {
            self.await_post(member)?;
            body(self, member)
        })
    }

    /// Reads what `member` has posted.
    fn read(&mut self, member: usize, out: &mut [u8]) -> Result<()> {
        let number = self.number;
        self.slots()?.read(member, number, 0, out);
        self.done.copied_bytes += out.len() as u64;
        Ok(())
    }

    /// Waits until `member` has posted in this call, and compares.
    #[inline]
    fn await_post(&mut self, member: usize) -> Result<()> {
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
        self.done.arrivals += 1;
        self.threads |= theirs.code & EARLIER != 0;
        let theirs = Post { code: theirs.code & !EARLIER, ..theirs };
        if theirs == ours { Ok(()) } else { Err(self.disagreement(member, theirs)) }
    }

    /// The arguments, in words.
    #[cold]
    fn describe(&self) -> String {
        let mut text = self.brief.describe();
        if let Some((counts, displs)) = self.lists {
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
        let CallId { comm, sequence } = self.meta.call;
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
    fn progress(&mut self, peer: u32) -> Result<()> {
        self.held.engine.await_peer(&mut self.waiting, peer)?;
        if self.held.engine.arguments_requested(self.meta.call) {
            let text = self.describe();
            self.held.engine.send_arguments(text);
        }
        self.held.yield_lock();
        Ok(())
    }

    fn world_rank(&self, member: usize) -> u32 {
        self.context.members.world_rank(u32::try_from(member).unwrap_or(u32::MAX))
    }

    /// Looks for `member` a few times, each time giving the core away; then makes progress elsewhere, once. (Out of line: `ci/instructions`
    /// counts calls without it.)
    #[inline(never)]
    fn turn(&mut self, member: usize, mut ready: impl FnMut(&mut CallSlots) -> bool) -> Result<()> {
        let engine = &self.held.engine;
        if !engine.is_busy() && !engine.lazy && self.waiting.turns() < SHORT_WAIT_TURNS {
            let before = self.waiting.turns() * FLAG_SPINS;
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

    /// A reduce-scatter and an allgather: our part of the result, then those of the others.
    fn fold_parts(&mut self, recv: &mut [u8], by: &Reducer) -> Result<()> {
        let (mine, size, number) = (self.context.rank as usize, self.context.size as usize, self.number);
        let (elements, len) = (recv.len() / by.element(), by.element());
        let part = |member: usize| elements * member / size * len..elements * (member + 1) / size * len;
        let ours = part(mine);
        self.fold(ours.start, &mut recv[ours.clone()], by)?;
        self.slots()?.share(number, &recv[ours]);
        for member in (1..size).map(|i| (mine + i) % size) {
            while !self.slots()?.has_shared(member, number) {
                self.turn(member, |slots| slots.has_shared(member, number))?;
            }
            let theirs = part(member);
            self.done.copied_bytes += theirs.len() as u64;
            self.slots()?.read_part(member, number, &mut recv[theirs]);
        }
        Ok(())
    }

    /// Folds all contributions, from byte `at` on, in the order of ranks, ours as it was posted: those of 2^k ranks from a
    /// multiple of 2^k on are a partial result, taken together when there are two next to each other, at last from the
    /// right. The first partial result stands in `recv`.
    fn fold(&mut self, at: usize, recv: &mut [u8], by: &Reducer) -> Result<()> {
        let (mine, size) = (self.context.rank as usize, self.context.size as usize);
        // Taken while we wait, as other threads may need them: each call has its own then.
        let mut partials = std::mem::take(&mut self.held.short_calls.partials);
        let needed = MAX_POST_BYTES * (size.ilog2() as usize + 1);
        if partials.len() < needed {
            partials.resize(needed, 0);
        }
        let (mut levels, mut top) = (Levels { first: recv, others: &mut partials }, 0);
        let mut all = || {
            for member in 0..size {
                if member != mine {
                    self.await_post(member)?;
                }
                let number = self.number;
                // A copy: operators never see memory that others could write.
                self.slots()?.read(member, number, at, levels.at(top));
                top += 1;
                for _ in 0..member.trailing_ones() {
                    top -= 1;
                    levels.join(top, by)?;
                }
            }
            while top > 1 {
                top -= 1;
                levels.join(top, by)?;
            }
            Ok(())
        };
        let done = all();
        self.held.short_calls.partials = partials;
        self.done.reduced_bytes += ((size - 1) * recv.len()) as u64;
        self.done.copied_bytes += (size * recv.len()) as u64;
        done
    }
}
