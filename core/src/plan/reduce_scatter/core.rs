//! The reduce-scatters of commutative operators, as parts of other plans too: rank r ends up with the
//! reduction of piece r (by halving: of another one).
//!
//! **Circulant** (the circulant allgather backwards; arXiv 2410.14234), q rounds: let block i of rank r
//! be its partial for rank r+i. For k = q−1, …, 0 rank r sends blocks skips\[k\] .. skips\[k+1\] to
//! r+skips\[k\], where they become parts of blocks 0 .. skips\[k+1\]−skips\[k\]. What was sent is never
//! touched again. The first message lands in a slot that takes in our own contribution, and then all
//! later ones: it is the accumulator, of at most p/2 pieces. (If p is odd, the last block of round
//! q−2 is not in it: no rank ever adds to it, and it is sent as it was contributed.)
//!
//! **Bine** (the butterfly of De Sensi et al., SC 2025, backwards), log2 p rounds, p a power of two: the same with the butterfly's
//! partners, each of which sends the other what that has heard of before the round.
//!
//! **Halving**, log2 p rounds, p a power of two (R. Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004): ranks whose numbers
//! differ in one bit exchange halves of what they hold, first those next to each other, last those p/2 apart. So the longest messages go to the nearest
//! ranks. Rank r ends up with the piece whose number has its bits reversed, and each message is of pieces that follow each other.
//!
//! **Ring**, p−1 rounds: the partial of piece b starts at rank b+1 and comes round to b.
//!
//! Association and order of the ranks differ from piece to piece, but there is one result: the same bits
//! for every rank that gets it, and for every run with the same p and pieces.

use crate::error::{Result, argument};
use crate::plan::partial::{Held, Pieces, Sketch, plus, slot_align};
use crate::plan::registry::Arguments;
use crate::plan::registry::cost::{Path, float};
use crate::plan::topology::{bine, dimension};
use crate::plan::{Place, Region, Side, Wait};
use crate::schedule::Circulant;

/// Sources.
pub(in crate::plan) const CIRCULANT: &str = "arXiv 2410.14234; Träff 2022, Algorithm 7 reversed";
pub(in crate::plan) const RING: &str = "ring";
pub(in crate::plan) const BINE: &str = "De Sensi et al., SC 2025, arXiv 2508.17311";
pub(in crate::plan) const HALVING: &str = "Rabenseifner 2004, recursive halving";

/// What a vector is cut into among all ranks: how many pieces have bytes, and how long the longest is.
pub(in crate::plan) fn pieces(a: &Arguments) -> (f64, f64) {
    let largest = Pieces::even(a.bytes, a.element, a.size.max(1)).largest();
    let some = a.bytes.div_ceil(largest.max(1)).min(a.size.into());
    (float(some), float(largest))
}

/// Bytes received where a piece of each other rank comes to be folded, and folded.
pub(in crate::plan) fn pieces_twice(a: &Arguments) -> u64 {
    2 * u64::from(a.size.saturating_sub(1)) * Pieces::even(a.bytes, a.element, a.size.max(1)).largest()
}

/// The circulant reduce-scatter of [`pieces`], where links take so many times as long as the bytes.
pub(in crate::plan) fn cost(a: &Arguments, turns: f64, path: &mut Path<'_>) {
    let (some, piece) = pieces(a);
    let graph = Circulant::new(a.size.max(1));
    for k in (0..graph.q()).rev() {
        let width = f64::from(graph.skip(k + 1) - graph.skip(k)).min(some);
        path.hop(graph.skip(k), 1.0, turns * width * piece);
        path.reduce(width * piece);
    }
}

/// In which rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// q rounds on the circulant graph.
    Circulant,
    /// p−1 rounds, neighbour to neighbour.
    Ring,
    /// log2 p rounds on the Bine butterfly; p is a power of two.
    Bine,
    /// log2 p rounds on the hypercube, the longest messages to neighbours; p is a power of two. Rank r has the piece whose number is r with its bits reversed.
    Halving,
}

impl Way {
    /// # Errors
    /// If it is not a way among `size` ranks.
    pub(crate) fn check(self, size: u32) -> Result<()> {
        match self {
            Self::Bine | Self::Halving => dimension(size).map(|_| ()),
            Self::Circulant | Self::Ring => Ok(()),
        }
    }

    /// # Errors
    /// If it is not a way among `size` ranks in which rank r gets piece r.
    pub(crate) fn scatters(self, size: u32) -> Result<()> {
        if self == Self::Halving {
            return Err(argument("a reduce-scatter by halving: its ranks get pieces of other ranks")
                .help("it is for an allreduce; circulant, bine and ring give each rank its own piece"));
        }
        self.check(size)
    }

    /// The name of plans that are made of it.
    pub(in crate::plan) const fn name(self) -> &'static str {
        match self {
            Self::Circulant => "circulant",
            Self::Ring => "ring",
            Self::Bine => "bine",
            Self::Halving => "halving",
        }
    }
}

/// A reduce-scatter within a plan.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub(crate) graph: Circulant,
    pub(crate) pieces: Pieces,
    pub(crate) way: Way,
}

/// Where the ranks' contributions lie, and where a rank's result shall land (`None`: anywhere in its `Land`, if it cannot be
/// where it belongs).
pub(crate) trait Buffers {
    /// Where the contribution of `rank` lies.
    fn contribution(&self, rank: u32) -> Place;
    /// Where its result shall land.
    fn result(&self, rank: u32) -> Option<Place>;
}

impl Core {
    fn p(&self) -> u32 {
        self.graph.p()
    }

    /// The piece that `rank` ends up with.
    pub(crate) fn piece(&self, rank: u32) -> u32 {
        match self.way {
            Way::Halving if self.p() > 1 => rank.reverse_bits() >> (u32::BITS - self.graph.q()),
            _ => rank,
        }
    }

    pub(crate) fn rounds(&self) -> u32 {
        match self.way {
            Way::Circulant | Way::Bine | Way::Halving => self.graph.q(),
            Way::Ring => self.p() - 1,
        }
    }

    /// Bytes of `Land` that `rank` needs, at the beginning.
    pub(crate) fn land(&self, rank: u32) -> u64 {
        match self.way {
            Way::Circulant | Way::Bine | Way::Halving => {
                (0..self.graph.q()).map(|k| self.slot_bytes(rank, k)).sum()
            }
            Way::Ring => slot_align(self.pieces.bytes()),
        }
    }

    /// The blocks that come in round `k`: whose they are, from the first one on round the end, and how many.
    pub(crate) fn window(&self, rank: u32, k: u32) -> (u32, u32) {
        match self.way {
            Way::Bine => (bine::first(self.p(), rank, k), 1 << k),
            Way::Halving => (self.piece(rank) >> k << k, 1 << k),
            _ => (rank, self.graph.skip(k + 1) - self.graph.skip(k)),
        }
    }

    /// To which rank this one puts in round `k`, and from which it gets.
    pub(crate) fn peers(&self, rank: u32, k: u32) -> (u32, u32) {
        match self.way {
            Way::Bine => (bine::partner(self.p(), rank, k), bine::partner(self.p(), rank, k)),
            Way::Halving => (rank ^ self.p() >> (k + 1), rank ^ self.p() >> (k + 1)),
            _ => (self.graph.to(rank, k), self.graph.from(rank, k)),
        }
    }

    fn slot_bytes(&self, rank: u32, k: u32) -> u64 {
        let (first, width) = self.window(rank, k);
        slot_align(self.pieces.span(first, width))
    }

    /// Where the block of `owner` lies in the accumulator of `rank`, in bytes from its start.
    fn summed(&self, rank: u32, owner: u32) -> u64 {
        let (first, _) = self.window(rank, self.graph.q() - 1);
        self.pieces.span(first, (owner + self.p() - first) % self.p())
    }

    /// Writes the steps of `rank` from round 0 on, with counters from 0 on, after `ready`; gives its
    /// piece. With one rank that is the contribution.
    pub(crate) fn write(&self, s: &mut Sketch, rank: u32, buffers: &dyn Buffers, ready: Wait) -> Held {
        let own =
            Held { place: plus(buffers.contribution(rank), self.pieces.start(self.piece(rank))), ready };
        match self.way {
            _ if self.p() == 1 => own,
            Way::Circulant | Way::Bine | Way::Halving => self.halve(s, rank, buffers, ready),
            Way::Ring => self.ring(s, rank, buffers, ready),
        }
    }

    /// The slot of round `k`.
    fn slot(&self, rank: u32, k: u32, buffers: &dyn Buffers) -> Place {
        if k == 0
            && let Some(result) = buffers.result(rank)
        {
            return result;
        }
        let before = (k + 1..self.graph.q()).map(|k| self.slot_bytes(rank, k));
        Place::new(Region::Land, before.sum())
    }

    /// The runs that `sender` puts in round `k`: (source, target, length).
    fn message(&self, sender: u32, k: u32, buffers: &dyn Buffers) -> Vec<(Place, Place, u64)> {
        let (to, top) = (self.peers(sender, k).0, self.graph.q() - 1);
        let (first, width) = self.window(to, k);
        // This many of the blocks are in the accumulator.
        let summed = match self.way {
            _ if k == top => 0,
            Way::Bine | Way::Halving => width,
            _ => (self.graph.skip(k) + width).min(self.window(to, top).1).saturating_sub(self.graph.skip(k)),
        };
        let mut target = self.slot(to, k, buffers);
        let mut out = Vec::with_capacity(3);
        let len = self.pieces.span(first, summed);
        if len > 0 {
            let source = plus(self.slot(sender, top, buffers), self.summed(sender, first));
            out.push((source, target, len));
            target = plus(target, len);
        }
        for (offset, len) in self.pieces.runs((first + summed) % self.p(), width - summed) {
            out.push((plus(buffers.contribution(sender), offset), target, len));
            target = plus(target, len);
        }
        out
    }

    fn halve(&self, s: &mut Sketch, rank: u32, buffers: &dyn Buffers, ready: Wait) -> Held {
        let top = self.graph.q() - 1;
        let sum = self.slot(rank, top, buffers);
        let contribution = buffers.contribution(rank);
        let mut done = ready;
        let mut result = sum;
        for (round, k) in (0..).zip((0..=top).rev()) {
            for (source, target, len) in self.message(rank, k, buffers) {
                s.put(round, self.peers(rank, k).0, source, target, len, &[done], round);
            }
            let from = self.peers(rank, k).1;
            let message = self.message(from, k, buffers);
            for &(source, target, len) in &message {
                s.expect(round, from, source, target, len, round);
            }
            let Ok(at_least @ 1..) = u32::try_from(message.len()) else { continue };
            let arrived = Wait { counter: round, at_least };
            let slot = self.slot(rank, k, buffers);
            let (first, width) = self.window(rank, k);
            let side = Side::SourceLeft;
            if k == top {
                let (mut target, mut parts) = (slot, Vec::with_capacity(2));
                for (offset, len) in self.pieces.runs(first, width) {
                    let source = plus(contribution, offset);
                    parts.push(s.reduce(round + 1, side, source, target, len, &[arrived, ready]));
                    target = plus(target, len);
                }
                done = s.one(round + 1, &parts);
            } else {
                let part = plus(sum, self.summed(rank, first));
                let (source, target) = match buffers.result(rank) {
                    Some(_) if k == 0 => (part, slot),
                    _ => (slot, part),
                };
                let len = self.pieces.span(first, width);
                done = s.reduce(round + 1, side, source, target, len, &[arrived, done]);
                result = target;
            }
        }
        Held { place: result, ready: done }
    }

    /// What `sender` puts in round `j` of the ring: (piece, source, target).
    fn link(&self, sender: u32, j: u32, buffers: &dyn Buffers) -> (u32, Place, Place) {
        let p = self.p();
        let piece = (sender + 2 * p - 1 - j) % p;
        let at = self.pieces.start(piece);
        let land = Place::new(Region::Land, at);
        let source = if j == 0 { plus(buffers.contribution(sender), at) } else { land };
        let result = buffers.result(piece).filter(|_| piece == (sender + 1) % p);
        (piece, source, result.unwrap_or(land))
    }

    fn ring(&self, s: &mut Sketch, rank: u32, buffers: &dyn Buffers, ready: Wait) -> Held {
        let p = self.p();
        let (to, from) = ((rank + 1) % p, (rank + p - 1) % p);
        let mut held = Held { place: Place::new(Region::Land, 0), ready };
        for j in 0..p - 1 {
            let (piece, source, target) = self.link(rank, j, buffers);
            s.put(j, to, source, target, self.pieces.len(piece), &[held.ready], j);
            let (piece, source, target) = self.link(from, j, buffers);
            let len = self.pieces.len(piece);
            s.expect(j, from, source, target, len, j);
            held = Held { place: target, ready: Wait::NONE };
            if len > 0 {
                let own = plus(buffers.contribution(rank), self.pieces.start(piece));
                let waits = [Wait::once(j), ready];
                held.ready = s.reduce(j + 1, Side::SourceRight, own, target, len, &waits);
            }
        }
        held
    }
}
