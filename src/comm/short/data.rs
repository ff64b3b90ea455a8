//! Short calls that move blocks whose lengths all ranks know.

use super::blocks::{Blocks, Lie, lie};
use super::cross_memory::Kind;
use super::levels::At;
use super::pieces::{MAX_BCAST_BYTES, longest_block_post, longest_piece, most_block_bytes};
use super::run::{Readers, Run, Shape};
use crate::comm::Communicator;
use crate::comm::partition::{Places, overlap};
use crate::error::Result;
use crate::memory::copy_slice;
use crate::ops::Element;
use crate::plan::registry::Operation;
use crate::transport::call_slots::MAX_WIDE_POST_BYTES;
use std::ops::Range;

/// Of an operation on elements: no root, nothing that ranks agree on.
fn shape(operation: Operation, element: Element, longest: usize) -> Shape<'static> {
    Shape {
        call: operation.into(),
        element,
        longest,
        each: None,
        root: None,
        total: 0,
        lists: None,
        by: None,
    }
}

/// Of an operation on these blocks of all ranks.
fn shape_of<'a>(
    operation: Operation,
    (element, longest): (Element, usize),
    root: Option<usize>,
    (blocks, size): (&Blocks<'a>, usize),
) -> Shape<'a> {
    let (each, lists) = (blocks.each(), blocks.lists());
    Shape { each, root, total: blocks.total(size), lists, ..shape(operation, element, longest) }
}

impl Communicator {
    /// A barrier as a short call; `None`: it is none.
    #[inline]
    pub(in crate::comm) fn short_barrier(&self) -> Option<Result<()>> {
        self.short(
            shape(Operation::Barrier, Element::default(), 0),
            |_| {},
            |run| {
                run.post_pieces(std::iter::empty())?;
                run.all(|_| 0..0, |_, _| Ok(()))
            },
        )
    }

    /// As [`Communicator::short_barrier`], a broadcast.
    #[inline]
    pub(in crate::comm) fn short_bcast(
        &self,
        element: Element,
        data: &mut [u8],
        root: usize,
    ) -> Option<Result<()>> {
        let len = data.len();
        if root >= self.size() {
            return None;
        }
        self.short(
            Shape {
                each: Some(len),
                root: Some(root),
                total: len,
                ..shape(Operation::Bcast, element, longest_piece(self.size(), len, MAX_BCAST_BYTES))
            },
            |h| [root, len].iter().for_each(|w| h.word(*w as u64)),
            |run| {
                run.reserve_pieces(len);
                if run.size() == 2 {
                    run.may_attach(1 - root, Kind::ToOne, len)?;
                }
                if root == run.rank() {
                    return run.lend_pieces(data);
                }
                run.post_nothing()?;
                run.read_pieces(root, data)?;
                run.attach_ended()
            },
        )
    }

    /// As [`Communicator::short_barrier`], an allgather.
    #[inline]
    pub(in crate::comm) fn short_allgather(
        &self,
        element: Element,
        send: Option<&[u8]>,
        recv: &mut [u8],
    ) -> Option<Result<()>> {
        let len = self.equal(element, recv.len())?;
        if send.is_some_and(|s| s.len() != len) {
            return None;
        }
        let blocks = Blocks::Equal(len);
        self.gathered(Operation::Allgather, (element, len), send, recv, blocks)
    }

    /// As [`Communicator::short_barrier`], an allgatherv.
    pub(in crate::comm) fn short_allgatherv(
        &self,
        element: Element,
        send: Option<&[u8]>,
        recv: &mut [u8],
        places: &Places<'_>,
    ) -> Option<Result<()>> {
        self.has_short_calls()?;
        let (unit, counts, displs) = (element.size(), places.counts, places.here());
        let longest = longest(unit, counts, most_block_bytes((self.size(), self.shares_cores())))?;
        let lie = lie((unit, self.size()), counts, displs, Some(recv.len()))?;
        if send.is_some_and(|s| s.len() != counts[self.rank()] * unit) {
            return None;
        }
        // Of displacements of our own the others know nothing, so that only errors may go by plan.
        let ranges = || displs.iter().copied().zip(counts.iter().copied());
        if lie == Lie::Otherwise && (places.own.is_none() || overlap(ranges()).is_some()) {
            return None;
        }
        let blocks = Blocks::Ragged { unit, counts, displs, agreed: &places.displs };
        self.gathered(Operation::Allgatherv, (element, longest), send, recv, blocks)
    }

    /// An allgather of blocks that fit the buffers.
    #[inline]
    fn gathered(
        &self,
        operation: Operation,
        (element, longest): (Element, usize),
        send: Option<&[u8]>,
        recv: &mut [u8],
        blocks: Blocks<'_>,
    ) -> Option<Result<()>> {
        let post = longest_block_post((self.size(), self.shares_cores()), longest);
        self.short(
            shape_of(operation, (element, post), None, (&blocks, self.size())),
            |h| {
                h.word(u64::from(send.is_none()));
                blocks.hash(h);
            },
            |run| {
                let ours = blocks.of(run.rank());
                if run.size() == 2 {
                    let measuring = usize::from(blocks.of(0).len() == longest);
                    run.may_attach(measuring, Kind::ToBoth, longest)?;
                }
                if post < longest {
                    run.exchange(send, recv, (&blocks, longest))?;
                    return run.attach_ended();
                }
                let posted = send.unwrap_or_else(|| &recv[ours.clone()]);
                run.lend(posted, Readers::All)?;
                keep(run, send, &mut recv[ours]);
                run.receive_all(At::same(0), recv, |member| blocks.of(member))?;
                run.attach_ended()
            },
        )
    }

    /// As [`Communicator::short_barrier`], a gather.
    #[inline]
    pub(in crate::comm) fn short_gather(
        &self,
        element: Element,
        send: Option<&[u8]>,
        recv: &mut [u8],
        root: usize,
    ) -> Option<Result<()>> {
        let len = match (send, root == self.rank()) {
            (Some(send), false) => send.len(),
            (None, false) => return None,
            (send, true) => self.equal(element, recv.len()).filter(|n| send.is_none_or(|s| s.len() == *n))?,
        };
        self.gathered_at(Operation::Gather, (element, len), send, recv, (root, Blocks::Equal(len)))
    }

    /// As [`Communicator::short_barrier`], a gatherv with counts that all ranks know.
    pub(in crate::comm) fn short_gatherv(
        &self,
        element: Element,
        send: Option<&[u8]>,
        recv: &mut [u8],
        (counts, displs): (&[usize], &[usize]),
        root: usize,
    ) -> Option<Result<()>> {
        self.has_short_calls()?;
        let (unit, at_root) = (element.size(), root == self.rank());
        let longest = longest(unit, counts, MAX_WIDE_POST_BYTES)?;
        let room = at_root.then_some(recv.len());
        if lie((unit, self.size()), counts, displs, room)? == Lie::Otherwise {
            return None;
        }
        if send.map_or(!at_root, |send| send.len() != counts[self.rank()] * unit) {
            return None;
        }
        let blocks = Blocks::Ragged { unit, counts, displs, agreed: displs };
        self.gathered_at(Operation::Gatherv, (element, longest), send, recv, (root, blocks))
    }

    /// A gather of blocks that fit the buffers.
    #[inline]
    fn gathered_at(
        &self,
        operation: Operation,
        (element, longest): (Element, usize),
        send: Option<&[u8]>,
        recv: &mut [u8],
        (root, blocks): (usize, Blocks<'_>),
    ) -> Option<Result<()>> {
        if root >= self.size() {
            return None;
        }
        self.short(
            shape_of(operation, (element, longest), Some(root), (&blocks, self.size())),
            |h| {
                h.word(root as u64);
                blocks.hash(h);
            },
            |run| {
                if root != run.rank() {
                    return run.lend(send.unwrap_or_default(), Readers::One(root));
                }
                run.post_nothing()?;
                keep(run, send, &mut recv[blocks.of(root)]);
                run.receive_all(At::same(0), recv, |member| blocks.of(member))
            },
        )
    }

    /// As [`Communicator::short_barrier`], a scatter.
    #[inline]
    pub(in crate::comm) fn short_scatter(
        &self,
        element: Element,
        send: &[u8],
        recv: Option<&mut [u8]>,
        root: usize,
    ) -> Option<Result<()>> {
        let len = match (&recv, root == self.rank()) {
            (Some(recv), false) => recv.len(),
            (None, false) => return None,
            (recv, true) => {
                self.equal(element, send.len()).filter(|n| recv.as_ref().is_none_or(|r| r.len() == *n))?
            }
        };
        let all = len.checked_mul(self.size())?;
        let blocks = Blocks::Equal(len);
        self.scattered(Operation::Scatter, (element, all), send, recv, (root, blocks))
    }

    /// As [`Communicator::short_barrier`], a scatterv with counts that all ranks know.
    pub(in crate::comm) fn short_scatterv(
        &self,
        element: Element,
        send: &[u8],
        (counts, displs): (&[usize], &[usize]),
        recv: Option<&mut [u8]>,
        root: usize,
    ) -> Option<Result<()>> {
        self.has_short_calls()?;
        let (unit, at_root) = (element.size(), root == self.rank());
        longest(unit, counts, MAX_WIDE_POST_BYTES)?;
        let room = at_root.then_some(send.len());
        if lie((unit, self.size()), counts, displs, room)? == Lie::Otherwise {
            return None;
        }
        if recv.as_ref().map_or(!at_root, |recv| recv.len() != counts[self.rank()] * unit) {
            return None;
        }
        let blocks = Blocks::Ragged { unit, counts, displs, agreed: displs };
        let all = blocks.total(self.size());
        self.scattered(Operation::Scatterv, (element, all), send, recv, (root, blocks))
    }

    /// A scatter of blocks that fit the buffers, of `all` bytes.
    #[inline]
    fn scattered(
        &self,
        operation: Operation,
        (element, all): (Element, usize),
        send: &[u8],
        recv: Option<&mut [u8]>,
        (root, blocks): (usize, Blocks<'_>),
    ) -> Option<Result<()>> {
        let size = self.size();
        if root >= size {
            return None;
        }
        self.short(
            shape_of(operation, (element, all), Some(root), (&blocks, size)),
            |h| {
                h.word(root as u64);
                blocks.hash(h);
            },
            |run| {
                let mine = run.rank();
                let others = |ranks: Range<usize>| ranks.filter(|member| *member != root);
                if size == 2
                    && let Some(len) = blocks.each()
                {
                    run.may_attach(1 - root, Kind::ToOne, len)?;
                }
                if root == mine {
                    match blocks.each() {
                        Some(_) => run.lend_blocks(send, blocks.of(mine))?,
                        None => run.post_pieces(others(0..size).map(|member| &send[blocks.of(member)]))?,
                    }
                    if let Some(recv) = recv {
                        keep(run, Some(&send[blocks.of(mine)]), recv);
                    }
                    return Ok(());
                }
                run.post_nothing()?;
                let at = match blocks.each() {
                    Some(len) => At::block(mine, len),
                    // They are posted one behind the other.
                    None => At::same(others(0..mine).map(|member| blocks.of(member).len()).sum()),
                };
                run.receive(root, at, recv.unwrap_or_default())?;
                run.attach_ended()
            },
        )
    }

    /// As [`Communicator::short_barrier`], an alltoall.
    #[inline]
    pub(in crate::comm) fn short_alltoall(
        &self,
        element: Element,
        send: Option<&[u8]>,
        recv: &mut [u8],
    ) -> Option<Result<()>> {
        let (all, len) = (recv.len(), self.equal(element, recv.len())?);
        if send.is_some_and(|s| s.len() != all) {
            return None;
        }
        self.short(
            Shape { each: Some(len), total: all, ..shape(Operation::Alltoall, element, all) },
            |h| h.word(len as u64),
            |run| {
                let (mine, blocks) = (run.rank(), Blocks::Equal(len));
                let ours = blocks.of(mine);
                if run.size() == 2 {
                    run.may_attach(1, Kind::ToBoth, len)?;
                }
                match send {
                    Some(send) => run.lend_blocks(send, ours.clone())?,
                    None => run.post_blocks(recv, ours.clone())?,
                }
                keep(run, send.map(|send| &send[ours.clone()]), &mut recv[ours]);
                run.receive_all(At::block(mine, len), recv, |member| blocks.of(member))?;
                run.attach_ended()
            },
        )
    }

    /// The bytes of an equal block of each rank, in a buffer of `all` bytes that has whole blocks of whole elements.
    #[inline]
    fn equal(&self, element: Element, all: usize) -> Option<usize> {
        let len = all / self.size();
        let whole = len * self.size() == all && len.is_multiple_of(element.size().max(1));
        whole.then_some(len)
    }
}

/// The longest of these blocks in bytes, if a post may be as long. Long contributions, and counts that may be wrong, go by plan, which
/// checks them.
fn longest(unit: usize, counts: &[usize], most: usize) -> Option<usize> {
    let longest = *counts.iter().max()?;
    (longest <= most && unit <= most).then(|| longest * unit)
}

/// Copies what this rank contributes to its own result, unless it stands there.
#[inline]
pub(super) fn keep(run: &mut Run<'_, '_>, send: Option<&[u8]>, recv: &mut [u8]) {
    if let Some(send) = send {
        copy_slice(send, recv);
        run.counts().copied_bytes += send.len() as u64;
    }
}
