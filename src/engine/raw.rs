//! The raw wire between two ranks: puts without schedule, ready messages or flow control. What `bench put`
//! measures, and the reference that every collective is held against.

use super::core::TOKEN_RAW;
use super::driver::Engine;
use super::message::{Message, WORD_RAW};
use super::waiting::Waiting;
use crate::buffer::{Arena, Binding, Destination, Grant, put};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::lower::Segment;
use crate::plan::{Place, Region};
use crate::transport::Posted;
use std::time::Duration;

/// Two ranks that measure, as one of them sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// The other one's world rank.
    pub(crate) peer: u32,
    /// We begin, and take the times that count.
    pub(crate) leads: bool,
}

/// Times of one window of puts, since its first put was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// When the last put was posted.
    pub(crate) posted: Duration,
    /// When the answer came: all puts have arrived.
    pub(crate) answered: Duration,
}

/// Bytes of the put that answers a window.
const ANSWER_BYTES: usize = 8;
/// Windows of which [`Engine::post_cost`] takes the best. Chosen: one that no other process disturbed is among them on
/// a machine that is not full.
const POST_COST_WINDOWS: usize = 8;

impl Engine {
    /// Half round trips of a put of `bytes` between the two of a pair (both call this, no other rank).
    ///
    /// # Errors
    /// After `deadline`, or when the wire fails.
    pub(crate) fn ping_pong(
        &mut self,
        arena: &Arena,
        pair: Pair,
        bytes: usize,
        reps: usize,
        deadline: Duration,
    ) -> Result<Vec<Duration>> {
        let (peer, grant, binding, block) = self.raw_open(arena, pair, bytes, deadline)?;
        let mut times = Vec::with_capacity(reps);
        for _ in 0..reps {
            let start = self.clock.now();
            if pair.leads {
                self.raw_put(peer, grant, &binding, bytes, deadline)?;
                self.raw_wait(peer, bytes, deadline)?;
            } else {
                self.raw_wait(peer, bytes, deadline)?;
                self.raw_put(peer, grant, &binding, bytes, deadline)?;
            }
            times.push(self.clock.now().duration_since(start) / 2);
        }
        self.raw_drain(peer, deadline)?;
        drop(block);
        Ok(times)
    }

    /// Time per put that the sender is busy: `count` small puts posted back to back by the leader, the best of several times.
    ///
    /// # Errors
    /// As [`Engine::ping_pong`].
    pub(crate) fn post_cost(
        &mut self,
        arena: &Arena,
        pair: Pair,
        count: u32,
        deadline: Duration,
    ) -> Result<Duration> {
        let windows = self.windows(arena, pair, ANSWER_BYTES, count, POST_COST_WINDOWS, deadline)?;
        Ok(windows.iter().map(|w| w.posted / count.max(1)).min().unwrap_or_default())
    }

    /// Windows of `count` puts of `bytes` by the leader of a pair, `reps` of them. The other rank answers each by one short put
    /// when all have arrived, and the next begins with the answer, as in osu_mbw_mr. Times count at the leader.
    ///
    /// # Errors
    /// As [`Engine::ping_pong`].
    pub(crate) fn windows(
        &mut self,
        arena: &Arena,
        pair: Pair,
        bytes: usize,
        count: u32,
        reps: usize,
        deadline: Duration,
    ) -> Result<Vec<Window>> {
        let (peer, grant, binding, block) = self.raw_open(arena, pair, bytes.max(ANSWER_BYTES), deadline)?;
        let mut times = Vec::with_capacity(reps);
        for _ in 0..reps {
            let start = self.clock.now();
            let mut posted = start;
            if pair.leads {
                for _ in 0..count {
                    self.raw_put(peer, grant, &binding, bytes, deadline)?;
                }
                posted = self.clock.now();
                self.raw_wait(peer, ANSWER_BYTES, deadline)?;
            } else {
                for _ in 0..count {
                    self.raw_wait(peer, bytes, deadline)?;
                }
                self.raw_put(peer, grant, &binding, ANSWER_BYTES, deadline)?;
            }
            let answered = self.clock.now();
            times.push(Window { posted: posted - start, answered: answered - start });
        }
        self.raw_drain(peer, deadline)?;
        drop(block);
        Ok(times)
    }

    fn raw_open(
        &mut self,
        arena: &Arena,
        pair: Pair,
        bytes: usize,
        deadline: Duration,
    ) -> Result<(u32, Grant, Binding, crate::buffer::Block)> {
        let peer = pair.peer;
        if self.core.is_gone(peer) {
            let e = Error::new(
                ErrorKind::PeerLost,
                format!("rank {peer}, to which the wire is to be measured, is gone"),
            );
            return Err(self.fail(e.with_peer(peer as usize)));
        }
        self.reach_rank(peer)?;
        let transport = self
            .transport
            .as_deref_mut()
            .ok_or_else(|| Error::new(ErrorKind::Argument, "one rank has no wire"))?;
        let half = bytes.max(1).next_multiple_of(4096);
        let block = arena.alloc(2 * half, Some(transport))?;
        let whole = block.bound(2 * half);
        let grant = Grant { address: whole.grant().address + half as u64, key: whole.grant().key };
        self.send(peer, &Message::Raw { grant })?;
        self.wait_for(&mut Waiting::for_wire(peer, deadline), &mut |core| core.raw_grant.is_some())?;
        let theirs = self.core.raw_grant.take().unwrap_or_default();
        Ok((peer, theirs, Binding::of_output(whole), block))
    }

    /// How many puts a message of `bytes` is on this wire.
    fn raw_pieces(&self, bytes: usize) -> u64 {
        let max = self.limits.as_ref().map_or(u64::MAX, |l| l.max_put);
        (bytes as u64).div_ceil(max).max(1)
    }

    fn raw_put(
        &mut self,
        peer: u32,
        grant: Grant,
        binding: &Binding,
        bytes: usize,
        deadline: Duration,
    ) -> Result<()> {
        let pieces = self.raw_pieces(bytes);
        let step = (bytes as u64).div_ceil(pieces);
        let mut waiting = Waiting::for_wire(peer, deadline);
        for i in 0..pieces {
            let offset = i * step;
            let len = step.min(bytes as u64 - offset);
            let segments = [Segment { place: Place::new(Region::Output, offset), len }];
            let to = Destination { peer, address: grant.address + offset, key: grant.key, word: WORD_RAW };
            loop {
                let Some(transport) = self.transport.as_deref_mut() else {
                    return Err(Error::new(ErrorKind::Aborted, "the wire is closed"));
                };
                if put(transport, binding, &segments, to, TOKEN_RAW)? == Posted::Yes {
                    self.core.raw_posted += 1;
                    break;
                }
                // It reads no clock while something moves.
                self.step(&mut waiting)?;
            }
        }
        Ok(())
    }

    fn raw_wait(&mut self, peer: u32, bytes: usize, deadline: Duration) -> Result<()> {
        let pieces = self.raw_pieces(bytes);
        self.wait_for(&mut Waiting::for_wire(peer, deadline), &mut |core| core.raw_arrivals >= pieces)?;
        self.core.raw_arrivals -= pieces;
        Ok(())
    }

    /// Waits until no put of ours needs its source any more.
    fn raw_drain(&mut self, peer: u32, deadline: Duration) -> Result<()> {
        self.wait_for(&mut Waiting::for_wire(peer, deadline), &mut |core| core.raw_done >= core.raw_posted)?;
        self.core.raw_done = 0;
        self.core.raw_posted = 0;
        Ok(())
    }
}
