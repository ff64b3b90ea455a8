//! Short calls in which each rank knows the lengths of its own blocks only: alltoallv, and gatherv and scatterv with counts known at the root.
//!
//! A post begins with a line for each rank that reads it: how long its block is, and where it stands behind these lines. If they are too long for
//! a post together, the lines say that they follow by plan. So each reader learns from the post what the sender has decided, and whether both
//! expect as many bytes; what follows by plan goes between ranks that both know of it, as a call with a number of its own, which all ranks draw.

use super::blocks::{Lie, lie, place};
use super::run::{Run, Shape};
use crate::comm::Communicator;
use crate::comm::call::Spec;
use crate::comm::collective::Collective;
use crate::comm::partition::{Parts, lists, overlap};
use crate::engine::CallId;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::copy_slice;
use crate::ops::Element;
use crate::plan::registry::Operation;
use crate::transport::call_slots::MAX_POST_BYTES;
use std::ops::Range;

/// Bytes of a line: length and place.
const LINE_BYTES: usize = 8;
/// In place of a place: the block follows by plan.
const BY_PLAN: u32 = u32::MAX;
/// Lines that a post has, at most: one for each member.
const MAX_LINES: usize = super::setup::MAX_MEMBERS;

/// The blocks of one side of a call.
struct Side<'a> {
    /// The ranks that have one; elsewhere nothing is.
    ranks: Range<usize>,
    of: &'a dyn Fn(usize) -> Range<usize>,
}

impl<'a> Side<'a> {
    /// Without blocks.
    const NONE: Side<'static> = Side { ranks: 0..0, of: &|_| 0..0 };

    /// The block of one rank.
    fn one(rank: usize, of: &'a dyn Fn(usize) -> Range<usize>) -> Self {
        Self { ranks: rank..rank + 1, of }
    }

    /// The bytes of a rank's block.
    fn block(&self, rank: usize) -> Range<usize> {
        if self.ranks.contains(&rank) { (self.of)(rank) } else { 0..0 }
    }

    /// The blocks of all ranks but `mine`.
    fn others(&self, mine: usize) -> impl Iterator<Item = (usize, Range<usize>)> + Clone + '_ {
        self.ranks.clone().filter(move |rank| *rank != mine).map(|rank| (rank, self.block(rank)))
    }

    /// Lengths and places by rank, of those that `chosen` says.
    fn lists(&self, ranks: usize, chosen: impl Fn(usize) -> bool) -> (Vec<u64>, Vec<u64>) {
        let block = |rank| if chosen(rank) { self.block(rank) } else { 0..0 };
        (0..ranks).map(block).map(|block| (block.len() as u64, block.start as u64)).unzip()
    }
}

/// The blocks of a call: what this rank sends, and what it receives.
struct Exchange<'a> {
    call: Collective,
    element: Element,
    root: Option<usize>,
    /// At a root that receives its own block, too: to it alone.
    sent: Side<'a>,
    received: Side<'a>,
    /// Which line of others' posts is for us.
    line: usize,
}

/// What follows by plan.
struct Rest {
    call: CallId,
    /// Of these ranks this one receives.
    from: Vec<usize>,
}

impl Communicator {
    /// As [`Communicator::short_barrier`], a gatherv with counts known at the root only.
    pub(in crate::comm) fn short_gatherv_rooted(
        &self,
        element: Element,
        send: Option<&[u8]>,
        recv: &mut [u8],
        parts: &impl Parts,
        root: usize,
    ) -> Option<Result<()>> {
        self.has_short_calls()?;
        if root >= self.size() {
            return None;
        }
        let len = send.map_or(0, <[u8]>::len);
        let own = |_| 0..len;
        let call = Exchange {
            call: Collective::GathervRooted,
            element,
            root: Some(root),
            sent: Side::one(root, &own),
            received: Side::NONE,
            line: 0,
        };
        if self.rank() != root {
            return self.told(call, (Some(send?), &mut []));
        }
        let (counts, displs) = lists(parts);
        let of = |rank| place(element.size(), counts, &displs, rank);
        self.apart(element, (counts, &displs), recv.len())?;
        self.told(Exchange { received: Side { ranks: 0..self.size(), of: &of }, ..call }, (send, recv))
    }

    /// As [`Communicator::short_barrier`], a scatterv with counts known at the root only.
    pub(in crate::comm) fn short_scatterv_rooted(
        &self,
        element: Element,
        send: &[u8],
        parts: &impl Parts,
        recv: Option<&mut [u8]>,
        root: usize,
    ) -> Option<Result<()>> {
        self.has_short_calls()?;
        if root >= self.size() {
            return None;
        }
        let (len, in_place) = (recv.as_ref().map_or(0, |recv| recv.len()), recv.is_none());
        let own = |_| 0..len;
        let call = Exchange {
            call: Collective::ScattervRooted,
            element,
            root: Some(root),
            sent: Side::NONE,
            received: if in_place { Side::NONE } else { Side::one(root, &own) },
            line: self.rank(),
        };
        if self.rank() != root {
            return self.told(call, (None, recv?));
        }
        let (counts, displs) = lists(parts);
        let of = |rank| place(element.size(), counts, &displs, rank);
        lie((element.size(), self.size()), counts, &displs, Some(send.len()))?;
        let sent = Side { ranks: 0..self.size(), of: &of };
        self.told(Exchange { sent, ..call }, (Some(send), recv.unwrap_or_default()))
    }

    /// As [`Communicator::short_barrier`], an alltoallv.
    pub(in crate::comm) fn short_alltoallv(
        &self,
        element: Element,
        (send, sent): (Option<&[u8]>, &impl Parts),
        (recv, received): (&mut [u8], &impl Parts),
    ) -> Option<Result<()>> {
        self.has_short_calls()?;
        let (ranks, unit) = (0..self.size(), element.size());
        let (counts, displs) = lists(received);
        let from = |rank| place(unit, counts, &displs, rank);
        self.apart(element, (counts, &displs), recv.len())?;
        let call = Exchange {
            call: Operation::Alltoallv.into(),
            element,
            root: None,
            sent: Side { ranks: ranks.clone(), of: &from },
            received: Side { ranks: ranks.clone(), of: &from },
            line: self.rank(),
        };
        let Some(send) = send else { return self.told(call, (None, recv)) };
        let (counts, displs) = lists(sent);
        let to = |rank| place(unit, counts, &displs, rank);
        lie((unit, self.size()), counts, &displs, Some(send.len()))?;
        self.told(Exchange { sent: Side { ranks, of: &to }, ..call }, (Some(send), recv))
    }

    /// Goes on where blocks fit a receive buffer of `room` bytes and share none of it; what is wrong goes by plan, which says so.
    fn apart(&self, element: Element, (counts, displs): (&[usize], &[usize]), room: usize) -> Option<()> {
        let ranges = || displs.iter().copied().zip(counts.iter().copied());
        match lie((element.size(), self.size()), counts, displs, Some(room))? {
            Lie::Otherwise if overlap(ranges()).is_some() => None,
            _ => Some(()),
        }
    }

    /// Runs the call. A rank that sends and has no `send` sends out of `recv`, in place: its block to itself stays where it is.
    fn told(&self, exchange: Exchange<'_>, (send, recv): (Option<&[u8]>, &mut [u8])) -> Option<Result<()>> {
        let Exchange { call, element, root, sent, received, line } = exchange;
        let (mine, size) = (self.rank(), self.size());
        let own = (sent.block(mine), received.block(mine));
        let keeps = sent.ranks.contains(&mine) && received.ranks.contains(&mine) && send.is_some();
        if keeps && own.0.len() != own.1.len() {
            return None;
        }
        let total: usize = sent.others(mine).map(|(_, block)| block.len()).sum();
        let by_plan = sent.ranks.len() * LINE_BYTES + total > MAX_POST_BYTES;
        // What comes now would overwrite what is sent later.
        let kept = (by_plan && send.is_none()).then(|| recv.to_vec());
        let shape = Shape { call, element, longest: 0, each: None, root, total, lists: None, by: None };
        let rest = self.short(
            shape,
            |h| h.word(root.map_or(u64::MAX, |root| root as u64)),
            |run| {
                let call = run.context.next_call();
                // Its shape does not say how much it copies.
                run.note()?;
                run.tell((send.unwrap_or(recv), by_plan), &sent)?;
                if let Some(send) = send
                    && !own.1.is_empty()
                {
                    copy_slice(&send[own.0], &mut recv[own.1]);
                }
                let from = run.take(recv, (&received, line), element)?;
                Ok(Rest { call, from })
            },
        )?;
        let Rest { call: number, from } = match rest {
            Ok(rest) => rest,
            Err(e) => return Some(Err(e)),
        };
        if !by_plan && from.is_empty() {
            return Some(Ok(()));
        }
        let sent = sent.lists(size, |rank| by_plan && rank != mine);
        let received = received.lists(size, |rank| from.contains(&rank));
        let spec = Spec { arguments: self.exchange(sent, received), element, fill: true, ..Spec::default() };
        Some(self.run_numbered((call, number), spec, kept.as_deref().or(send), Some(recv)))
    }
}

/// A length or a place in a line. A longer one is no less than this.
fn short(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Run<'_, '_> {
    /// Posts the blocks of `bytes` that others are sent, or, if they follow by plan, their lengths.
    fn tell(&mut self, (bytes, by_plan): (&[u8], bool), sent: &Side<'_>) -> Result<()> {
        let (mine, first) = (self.rank(), sent.ranks.start);
        if sent.others(mine).next().is_none() {
            return self.post_nothing();
        }
        let mut lines = [0; MAX_LINES * LINE_BYTES];
        let lines = &mut lines[..sent.ranks.len() * LINE_BYTES];
        let mut at = lines.len();
        for (rank, block) in sent.others(mine) {
            let place = if by_plan && !block.is_empty() { BY_PLAN } else { short(at) };
            let line = &mut lines[(rank - first) * LINE_BYTES..][..LINE_BYTES];
            line[..4].copy_from_slice(&short(block.len()).to_le_bytes());
            line[4..].copy_from_slice(&place.to_le_bytes());
            at += if by_plan { 0 } else { block.len() };
        }
        if by_plan {
            return self.post(lines);
        }
        let blocks = sent.others(mine).map(|(_, block)| &bytes[block]);
        self.post_pieces(std::iter::once(&*lines).chain(blocks))
    }

    /// Takes the blocks that others have posted; returns of whom blocks follow by plan.
    fn take(
        &mut self,
        recv: &mut [u8],
        (received, line): (&Side<'_>, usize),
        element: Element,
    ) -> Result<Vec<usize>> {
        let (mine, mut by_plan) = (self.rank(), Vec::new());
        for (member, block) in received.others(mine) {
            self.await_post(member)?;
            let mut told = [0; LINE_BYTES];
            self.read(member, line * LINE_BYTES, &mut told)?;
            let [len, at] =
                [0, 4].map(|i| u32::from_le_bytes([told[i], told[i + 1], told[i + 2], told[i + 3]]));
            if len != short(block.len()) {
                return Err(self.lengths_differ(member, element, (len as usize, block.len())));
            }
            match at as usize {
                _ if at == BY_PLAN => by_plan.push(member),
                at if at + block.len() <= MAX_POST_BYTES => self.read(member, at, &mut recv[block])?,
                at => {
                    let what = format!("rank {member} says that {len} bytes stand at {at} of its post");
                    return Err(
                        Error::new(ErrorKind::Transport, what).with_peer(self.world_rank(member) as usize)
                    );
                }
            }
        }
        if received.ranks.len() == self.size() {
            self.met();
        }
        Ok(by_plan)
    }

    #[cold]
    fn lengths_differ(&self, member: usize, element: Element, (told, expected): (usize, usize)) -> Error {
        let (mine, size) = (self.rank(), element.size().max(1));
        let how =
            format!("elements from rank {member} to rank {mine}: {} and {}", told / size, expected / size);
        self.held.engine.mismatch(self.world_rank(member), self.call, self.ours.code, &how)
    }
}
