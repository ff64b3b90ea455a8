//! Short calls that fold.

use super::cross_memory::Kind;
use super::data::keep;
use super::halving::MAX_HALVED_BYTES;
use super::levels::{At, Fold, Levels};
use super::pieces::{MAX_ALLREDUCE_BYTES, PIECE_BYTES, longest_part, longest_piece};
use super::run::{Readers, Run, Shape};
use super::state::partials_bytes;
use crate::comm::Communicator;
use crate::error::Result;
use crate::memory::copy_slice;
use crate::ops::{Reducer, Side};
use crate::plan::registry::Operation;
use crate::transport::call_slots::{MAX_POST_BYTES, MAX_SHORT_BYTES, MAX_WIDE_POST_BYTES};
use std::cmp::Ordering;

/// Bytes that are folded in one go: what was read is in the core's own cache when it is folded. Chosen: as long as the parts in which another rank
/// writes a post, and as partial results can be.
const FOLD_PIECE_BYTES: usize = MAX_POST_BYTES;
/// The same of what the other of two ranks has posted by address, as each piece takes a system call. Chosen: as long as pieces of long posts.
const LONG_FOLD_PIECE_BYTES: usize = PIECE_BYTES;
/// What another rank has posted, of at most this many bytes, is copied as soon as it is there: to the stack, by one of two ranks that is in place, and in a scan by more. Chosen: such posts mostly lie in slots, and few
/// bytes of the stack are quickly cleared.
pub(super) const MAX_FEW_BYTES: usize = 256;
/// From this many bytes of all ranks on, each folds a part for all of them, instead of everything for itself (8 ranks on 2
/// cores fold 16 KB in 24 us so). Not so two ranks: half of a short fold less is not worth another wait.
const SPLIT_FOLD_BYTES: usize = 16 << 10;
/// Folds of larger elements are not split: a part, rounded up to whole elements, may be longer than half a post by 128 bytes at most
/// (`MAX_PART_BYTES` of `transport/call_slots/layout.rs`).
const MAX_SPLIT_ELEMENT_BYTES: usize = 64;

/// What a rank folds, in the order of ranks, and in which tree: of each operation the one that `reproducible` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// All contributions: those of 2^k ranks from a multiple of 2^k on are a partial result, taken together when there are two next to each
    /// other, at last from the right. (The tree of `ordered`.)
    All,
    /// Those of the ranks up to ours, by doubled distances. (The tree of a scan by `doubling`.)
    UpTo,
    /// Those of the ranks before ours, by skips. (The tree of an exscan by `circulant`.)
    Before,
}

/// Few bytes that another rank contributes, aligned for any built-in element.
#[repr(align(64))]
pub(super) struct Few([u8; MAX_FEW_BYTES]);

impl Few {
    pub(super) fn new() -> Self {
        Self([0; MAX_FEW_BYTES])
    }

    /// The first `len` of them.
    pub(super) fn first(&mut self, len: usize) -> &mut [u8] {
        &mut self.0[..len]
    }
}

/// Where our own contribution to a fold is.
#[derive(Debug)]
pub(super) enum Own<'a> {
    /// In our post.
    Posted,
    At(&'a [u8]),
    /// Where the result comes: each piece is copied to this memory first.
    InPlace(&'a mut Vec<u8>),
}

impl Communicator {
    /// As [`Communicator::short_barrier`], a reduction of slices of `T` to `root`, or to all.
    #[inline]
    pub(in crate::comm) fn short_fold<T>(
        &self,
        root: Option<usize>,
        send: Option<&[u8]>,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Option<Result<()>> {
        let len = send.map_or(recv.len(), <[u8]>::len);
        let gets = root.is_none_or(|root| root == self.rank());
        let wrong = root.is_some_and(|root| root >= self.size()) || gets && len != recv.len();
        if wrong || send.is_none() && !gets {
            return None;
        }
        let operation = if root.is_some() { Operation::Reduce } else { Operation::Allreduce };
        let longest = match root {
            _ if self.size() > 2 => longest_part(len, (self.size(), self.shares_cores()), root.is_none()),
            Some(_) => len,
            None => longest_piece(self.size(), len, MAX_ALLREDUCE_BYTES),
        };
        self.short(
            Shape { root, longest, ..folding::<T>(operation, len, by)? },
            |h| {
                h.word(root.map_or(u64::MAX, |r| r as u64));
                h.word(len as u64);
                // Of one root's own buffer the others know nothing.
                h.word(u64::from(send.is_none() && root.is_none()));
                h.word(by.hash());
            },
            |run| {
                if run.size() == 2 && root.is_none() {
                    return run.fold_for_both(send, recv, by);
                }
                match (send, root) {
                    _ if run.size() > 2 && len > MAX_POST_BYTES => {
                        return run.fold_long(root, send, recv, by);
                    }
                    (send, Some(root)) if !gets => {
                        return run.lend(send.unwrap_or_default(), Readers::One(root));
                    }
                    (_, Some(_)) if run.size() == 2 => run.post_nothing()?,
                    _ => run.post(send.unwrap_or(recv))?,
                }
                if run.is_alone() {
                    keep(run, send, recv);
                    return Ok(());
                }
                // Where ranks share cores each folds a short vector for itself.
                let split = run.size() > 2
                    && recv.len() * run.size() > SPLIT_FOLD_BYTES
                    && (recv.len() > MAX_SHORT_BYTES || !self.shares_cores());
                if run.size() == 2 {
                    run.fold_other(At::same(0), send, recv, by)?;
                } else if root.is_none() && split && by.element() <= MAX_SPLIT_ELEMENT_BYTES {
                    run.fold_parts(recv, by)?;
                } else {
                    run.fold(Order::All, (None, At::same(0)), recv, by)?;
                }
                run.met();
                Ok(())
            },
        )
    }

    /// As [`Communicator::short_barrier`], a reduce-scatter of slices of `T` with equal parts.
    pub(in crate::comm) fn short_reduce_scatter_block<T>(
        &self,
        send: Option<&[u8]>,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Option<Result<()>> {
        let (size, all) = (self.size(), send.map_or(recv.len(), <[u8]>::len));
        let len = all / size;
        let part = if send.is_some() { recv.len() } else { len };
        if len * size != all || part != len || !len.is_multiple_of(by.element()) {
            return None;
        }
        self.short(
            Shape { each: Some(len), ..folding::<T>(Operation::ReduceScatterBlock, all, by)? },
            |h| {
                h.word(len as u64);
                h.word(by.hash());
            },
            |run| run.fold_part((send, recv), run.rank() * len..(run.rank() + 1) * len, by),
        )
    }

    /// As [`Communicator::short_barrier`], a reduce-scatter of slices of `T` with these parts one behind the other.
    pub(in crate::comm) fn short_reduce_scatter<T>(
        &self,
        send: Option<&[u8]>,
        recv: &mut [u8],
        (counts, displs): (&[usize], Option<&[usize]>),
        by: &Reducer,
    ) -> Option<Result<()>> {
        self.has_short_calls()?;
        let (unit, all, mine) = (size_of::<T>(), send.map_or(recv.len(), <[u8]>::len), self.rank());
        if counts.len() != self.size() || displs.is_some_and(|displs| displs.len() != counts.len()) {
            return None;
        }
        let (mut end, mut at) = (0usize, 0);
        for (rank, count) in counts.iter().enumerate() {
            if *count > 0 && displs.is_some_and(|displs| displs[rank] != end) {
                return None;
            }
            if rank == mine {
                at = end;
            }
            end = end.checked_add(*count).filter(|end| *end <= MAX_WIDE_POST_BYTES)?;
        }
        let part = at * unit..(at + counts[mine]) * unit;
        let cut = counts.iter().any(|count| !(count * unit).is_multiple_of(by.element()));
        if end * unit != all || cut || send.is_some() && recv.len() != part.len() {
            return None;
        }
        let shape = folding::<T>(Operation::ReduceScatter, all, by)?;
        self.short(
            Shape { each: None, lists: Some((counts, &[])), ..shape },
            |h| {
                counts.iter().for_each(|count| h.word((count * unit) as u64));
                h.word(by.hash());
            },
            |run| run.fold_part((send, recv), part, by),
        )
    }
}

/// Of a fold of `len` bytes of each rank; nothing where these are no whole elements of the operator.
#[inline]
pub(super) fn folding<T>(operation: Operation, len: usize, by: &Reducer) -> Option<Shape<'_>> {
    let element = by.element_type();
    // Of the reducer's own type every length is whole.
    if element.size() != size_of::<T>() && !len.is_multiple_of(element.size()) {
        return None;
    }
    // Partial results hold an element at least.
    if len > MAX_POST_BYTES && by.element() > MAX_POST_BYTES {
        return None;
    }
    let (call, each) = (operation.into(), Some(len));
    Some(Shape { call, element, longest: len, each, root: None, total: len, lists: None, by: Some(by) })
}

impl Fold<'_> {
    /// Takes in the contribution of `member`, as a partial result of its own.
    #[inline]
    pub(super) fn push(&mut self, run: &mut Run<'_, '_>, member: usize) -> Result<()> {
        let to = self.levels.at(self.top);
        match self.own {
            Some(own) if member == run.rank() => copy_slice(own, to),
            // A copy: operators never see memory that others could write.
            _ => run.receive(member, self.at, to)?,
        }
        self.top += 1;
        Ok(())
    }

    /// Takes the last two partial results together.
    #[inline]
    pub(super) fn join(&mut self, run: &mut Run<'_, '_>) -> Result<()> {
        self.top -= 1;
        run.counts().reduced_bytes += self.levels.len() as u64;
        self.levels.join(self.top, self.by)
    }

    fn all(&mut self, run: &mut Run<'_, '_>) -> Result<()> {
        let (size, part) = (run.size(), self.at.posted..self.at.posted + self.levels.len());
        for member in 0..size {
            run.prefetch(member, size, |member| (member, part.clone()))?;
            self.push(run, member)?;
            for _ in 0..member.trailing_ones() {
                self.join(run)?;
            }
        }
        while self.top > 1 {
            self.join(run)?;
        }
        Ok(())
    }
}

impl Run<'_, '_> {
    /// A reduce-scatter of which these bytes are ours; without `send` all contributions stand in `recv`.
    fn fold_part(
        &mut self,
        (send, recv): (Option<&[u8]>, &mut [u8]),
        part: std::ops::Range<usize>,
        by: &Reducer,
    ) -> Result<()> {
        if self.is_alone() {
            keep(self, send, recv);
            return Ok(());
        }
        if self.size() == 2 {
            return self.fold_half(send, part, recv, by);
        }
        match send {
            Some(send) => self.lend(send, Readers::All)?,
            None => self.post(recv)?,
        }
        let own = send.map_or(Own::Posted, |send| Own::At(&send[part.clone()]));
        self.fold_pieces(own, At::same(part.start), &mut recv[..part.len()], by)?;
        self.met();
        Ok(())
    }

    /// As [`Run::fold_part`] of two ranks. Where they cannot lend their vectors, each posts the part of the other.
    fn fold_half(
        &mut self,
        send: Option<&[u8]>,
        part: std::ops::Range<usize>,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Result<()> {
        let other = 1 - self.rank();
        let theirs = if self.rank() == 0 { part.end..send.unwrap_or(recv).len() } else { 0..part.start };
        let measuring = match part.len().cmp(&theirs.len()) {
            Ordering::Less => other,
            Ordering::Equal => 1,
            Ordering::Greater => self.rank(),
        };
        self.may_attach(measuring, Kind::ReduceScatter, part.len().max(theirs.len()))?;
        match send {
            Some(send) => {
                self.lend_or_post(send, [&send[theirs]])?;
            }
            None => {
                self.post(&recv[theirs])?;
                recv.copy_within(part.clone(), 0);
            }
        }
        let at = At { posted: 0, lent: part.start, left_out: 0 };
        self.fold_other(at, send.map(|send| &send[part.clone()]), &mut recv[..part.len()], by)?;
        self.attach_ended()?;
        self.met();
        Ok(())
    }

    /// Waits for the other of two ranks, and folds its contribution with ours: as [`Run::fold_two`].
    pub(super) fn fold_other(
        &mut self,
        at: At,
        send: Option<&[u8]>,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Result<()> {
        let (other, len) = (1 - self.rank(), recv.len());
        if len > MAX_FEW_BYTES {
            let at = if self.await_lent(other)? { at.lent } else { at.posted };
            return self.fold_two(at, send, recv, by);
        }
        let (ours, theirs) = self.sides();
        self.counts().reduced_bytes += len as u64;
        if let Some(send) = send {
            self.receive(other, at, recv)?;
            return by.reduce(recv, send, ours);
        }
        let mut few = Few::new();
        let came = few.first(len);
        self.receive(other, at, came)?;
        by.reduce(recv, came, theirs)
    }

    /// Of two ranks: on which side our contribution is when it is taken into the other's, and on which the other's when it is taken into ours.
    fn sides(&self) -> (Side, Side) {
        match self.rank() {
            0 => (Side::SourceLeft, Side::SourceRight),
            _ => (Side::SourceRight, Side::SourceLeft),
        }
    }

    /// Folds the contributions of two ranks: what the other has posted, from byte `at` on, with ours where that lies, in `send` or else in
    /// `recv`. So nothing is copied but what the other has posted, as operators never see memory that others could write.
    pub(super) fn fold_two(
        &mut self,
        at: usize,
        send: Option<&[u8]>,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Result<()> {
        let (ours, theirs) = self.sides();
        let other = 1 - self.rank();
        self.counts().reduced_bytes += recv.len() as u64;
        let element = by.element().max(1);
        let most = if self.has_posted_by_address(other)? { LONG_FOLD_PIECE_BYTES } else { FOLD_PIECE_BYTES };
        let piece = most.max(element) / element * element;
        let places = (at..).step_by(piece);
        if let Some(send) = send {
            return recv.chunks_mut(piece).zip(send.chunks(piece)).zip(places).try_for_each(
                |((out, send), at)| {
                    self.read(other, at, out)?;
                    by.reduce(out, send, ours)
                },
            );
        }
        let mut partials = self.take_partials();
        if partials.len() < piece.min(recv.len()) {
            partials.resize(piece.min(recv.len()), 0);
        }
        let done = recv.chunks_mut(piece).zip(places).try_for_each(|(out, at)| {
            let came = &mut partials[..out.len()];
            self.read(other, at, came)?;
            by.reduce(out, came, theirs)
        });
        self.held.short_calls.partials = partials;
        done
    }

    /// Memory for partial results. Taken while we wait, as other threads may need it: each call has its own then.
    pub(super) fn take_partials(&mut self) -> Vec<u8> {
        let mut partials = std::mem::take(&mut self.held.short_calls.partials);
        let needed = partials_bytes(self.size());
        if partials.len() < needed {
            partials.resize(needed, 0);
        }
        partials
    }

    /// Folds all contributions, from byte `at` on, in pieces that partial results hold. All others have posted then, also where there is nothing to fold.
    pub(super) fn fold_pieces(
        &mut self,
        mut own: Own<'_>,
        at: At,
        recv: &mut [u8],
        by: &Reducer,
    ) -> Result<()> {
        let (element, len) = (by.element().max(1), recv.len());
        let piece = FOLD_PIECE_BYTES.max(element) / element * element;
        (0..len.div_ceil(piece).max(1)).try_for_each(|i| {
            let range = i * piece..len.min((i + 1) * piece);
            let into = &mut recv[range.clone()];
            let own = match &mut own {
                Own::Posted => None,
                Own::At(own) => Some(&own[range.clone()]),
                Own::InPlace(copy) => {
                    copy.clear();
                    copy.extend_from_slice(into);
                    Some(&copy[..])
                }
            };
            self.fold(Order::All, (own, at.behind(range.start)), into, by)
        })
    }

    /// Folds contributions, from byte `at` on. Without `own` ours is read from our post. The first partial result stands in `recv`.
    pub(super) fn fold(
        &mut self,
        order: Order,
        (own, at): (Option<&[u8]>, At),
        recv: &mut [u8],
        by: &Reducer,
    ) -> Result<()> {
        let mut partials = self.take_partials();
        let mut fold = Fold { levels: Levels { first: recv, others: &mut partials }, top: 0, by, own, at };
        let done = match order {
            Order::All if self.size() * fold.levels.len() <= MAX_HALVED_BYTES => fold.halved(self),
            Order::All => fold.all(self),
            Order::UpTo => fold.up_to(self),
            Order::Before => fold.before(self),
        };
        self.held.short_calls.partials = partials;
        done
    }
}
