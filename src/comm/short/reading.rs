//! Reading what other members have posted: at once where it is there and lies in its slot, else wherever it lies, when it comes.

use super::levels::At;
use super::run::Run;
use crate::buffer::Wire;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::Lent;
use crate::transport::call_slots::{CallSlots, Place};
use std::ops::Range;

/// Posts that are prefetched while one is read. Chosen: with 2 and with 16, calls of 12 and 16 ranks with a core each took up to 1.1 times as long.
const READ_AHEAD: usize = 4;
/// Turns of the engine, at most, until the error of a rank that has closed its endpoint is known here. Chosen: the transport looks for closed endpoints once in 64
/// polls that found nothing.
const CLOSING_TURNS: u32 = 1000;

impl Run<'_, '_> {
    /// Each of the others, from the next rank on so that not all read the same one, when it has posted. Then all have met. `part` tells what is read
    /// of a member's post.
    #[inline]
    pub(super) fn all(
        &mut self,
        part: impl Fn(usize) -> Range<usize>,
        mut body: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        self.others(part, |run, member| {
            run.await_post(member)?;
            body(run, member)
        })
    }

    /// As [`Run::all`], of posts that are read from `at` on, to these places of `recv`.
    #[inline]
    pub(super) fn receive_all(
        &mut self,
        at: At,
        recv: &mut [u8],
        place: impl Fn(usize) -> Range<usize>,
    ) -> Result<()> {
        let mine = self.rank();
        let part = |member| {
            let first = at.in_post(member, mine);
            first..first + place(member).len()
        };
        self.others(part, |run, member| run.receive(member, at, &mut recv[place(member)]))
    }

    /// As [`Run::all`], of what `body` waits for.
    #[inline]
    fn others(
        &mut self,
        part: impl Fn(usize) -> Range<usize>,
        mut body: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        let (mine, size) = (self.rank(), self.size());
        if size == 2 {
            body(self, 1 - mine)?;
        } else {
            let member = |i: usize| (mine + 1 + i) % size;
            (0..size - 1).try_for_each(|i| {
                self.prefetch(i, size - 1, |i| (member(i), part(member(i))))?;
                body(self, member(i))
            })?;
        }
        self.met();
        Ok(())
    }

    /// The `i`-th of `count` posts is about to be read: prefetches the next ones. `read` tells the member and the part of each.
    #[inline]
    pub(super) fn prefetch(
        &mut self,
        i: usize,
        count: usize,
        read: impl Fn(usize) -> (usize, Range<usize>),
    ) -> Result<()> {
        let (number, mine) = (self.number, self.rank());
        let first = if i == 0 { 1 } else { i + READ_AHEAD };
        for (member, part) in (first..count.min(i + READ_AHEAD + 1)).map(read) {
            if member != mine {
                self.slots()?.prefetch(member, number, part);
            }
        }
        Ok(())
    }

    /// Reads what `member` has posted, from byte `at` on.
    #[inline]
    pub(super) fn read(&mut self, member: usize, at: usize, out: &mut [u8]) -> Result<()> {
        self.read_part_of(0, member, at, out)
    }

    /// As [`Run::read`], of a part of a result of `footprint` bytes.
    #[inline]
    pub(super) fn read_part_of(
        &mut self,
        footprint: usize,
        member: usize,
        at: usize,
        out: &mut [u8],
    ) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let (number, end) = (self.number, at + out.len());
        self.counts().copied_bytes += out.len() as u64;
        match self.slots()?.place(member, number) {
            Place::Area(ready) if end <= ready => {
                let has_read = self.slots()?.read(member, number, at, out, footprint);
                if has_read { Ok(()) } else { Err(self.nothing_there(member, at, out.len())) }
            }
            Place::Area(_) => self.read_parts(footprint, member, at, out),
            Place::Lent(lent) => self.fetch(member, lent, at, (out, footprint as u64)),
        }
    }

    /// Waits until `member` has posted in this call, compares, and reads. (The usual case first: a post that is there and lies in its slot.)
    #[inline(always)]
    pub(super) fn receive(&mut self, member: usize, at: At, out: &mut [u8]) -> Result<()> {
        let mine = self.rank();
        let posted = at.in_post(member, mine);
        if self.take_post(member, posted, out)? {
            self.counts().arrivals += u64::from(member != mine);
            return Ok(());
        }
        if member != mine {
            self.await_post(member)?;
            if self.take_post(member, posted, out)? {
                return Ok(());
            }
            self.attach_began(member)?;
        }
        let lent = at.lent != posted && self.has_lent(member)?;
        self.read(member, if lent { at.lent } else { posted }, out)
    }

    /// Reads what `member` has posted, from byte `at` on, if that is there, is of this call, and lies in its slot. Nothing where cross-memory attach
    /// is tried, whose timing begins when both ranks are in the call.
    #[inline(always)]
    fn take_post(&mut self, member: usize, at: usize, out: &mut [u8]) -> Result<bool> {
        let (number, ours) = (self.number, self.ours);
        let taken = self.attach.is_none() && self.slots()?.take(member, number, ours, at, out);
        if taken {
            self.counts().copied_bytes += out.len() as u64;
        }
        Ok(taken)
    }

    /// As [`Run::read`], of what `member` is still writing.
    fn read_parts(&mut self, footprint: usize, member: usize, at: usize, out: &mut [u8]) -> Result<()> {
        let (number, mut done) = (self.number, 0);
        let ready = |slots: &CallSlots| match slots.place(member, number) {
            Place::Area(ready) => ready.saturating_sub(at),
            Place::Lent(_) => 0,
        };
        while done < out.len() {
            let slots = self.slots()?;
            let most = ready(slots).min(out.len());
            if most > done {
                if !slots.read(member, number, at + done, &mut out[done..most], footprint) {
                    return Err(self.nothing_there(member, at + done, most - done));
                }
                done = most;
            } else {
                self.turn(member, |slots| ready(slots) > done)?;
            }
        }
        Ok(())
    }

    /// What a member shows cannot be its post of this call, which is longer.
    #[cold]
    fn nothing_there(&self, member: usize, at: usize, len: usize) -> Error {
        let what = format!("rank {member} has posted no {len} bytes at {at} in this call");
        Error::new(ErrorKind::Transport, what).with_peer(self.world_rank(member) as usize)
    }

    /// As [`Run::read`], of bytes that `member` lends.
    fn fetch(&mut self, member: usize, lent: Lent, at: usize, out: (&mut [u8], u64)) -> Result<()> {
        let peer = self.world_rank(member);
        let Some(transport) = self.held.engine.transport() else {
            return Err(Error::new(ErrorKind::Aborted, "the endpoint is closed"));
        };
        let Err(error) = transport.fetch(peer, lent, at, out) else { return Ok(()) };
        if error.kind() == ErrorKind::PeerLost {
            // What it sent before it closed says why.
            (0..CLOSING_TURNS).try_for_each(|_| self.progress(peer))?;
        }
        Err(error)
    }

    /// Reads the part of the result that `member` shares, which has posted `posted` bytes, if that is there and both are of this call.
    #[inline]
    pub(super) fn take_part(&mut self, member: usize, posted: usize, out: &mut [u8]) -> Result<bool> {
        let (number, ours) = (self.number, self.ours);
        let slots = self.slots()?;
        let is_there = slots.has_shared(member, number) && slots.has_posted(member, number, ours);
        if is_there {
            slots.read_part(member, number, posted, out);
            let counts = self.counts();
            counts.arrivals += 1;
            counts.copied_bytes += out.len() as u64;
        }
        Ok(is_there)
    }

    /// Reads the part that `member`, which has posted `posted` bytes, shares, when it is there.
    pub(super) fn read_part(&mut self, member: usize, posted: usize, out: &mut [u8]) -> Result<()> {
        let number = self.number;
        while !self.slots()?.has_shared(member, number) {
            self.turn(member, |slots| slots.has_shared(member, number))?;
        }
        self.counts().copied_bytes += out.len() as u64;
        self.slots()?.read_part(member, number, posted, out);
        Ok(())
    }
}
