//! The n-block broadcast in n−1+q rounds (Träff 2022, Algorithm 6), as puts into the final memory.
//!
//! Every rank but the root gets every block exactly once, so a block's number is its counter, a put
//! waits for its own block only, and after n arrivals nothing is written here again.

use crate::error::{Result, argument};
use crate::plan::registry::cost::{Path, float, skips};
use crate::plan::registry::line::{by_blocks, line};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::rules;
use crate::plan::split::Split;
use crate::plan::{MAX_COUNTERS, Place, Plan, Region, Sizes, Step, Wait};
use crate::schedule::{Circulant, MAX_P, Round, block};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Bcast,
    "circulant",
    ["any p, root, n", "n-1+q", "m", "Träff 2022, Algorithm 6"],
    by_blocks,
    |a, model| {
        let n = a.blocks.unwrap_or_else(|| rules::bcast_blocks(a.size, a.bytes, model));
        Ok(Box::new(Bcast::new(a.size, a.root, a.bytes, n)?))
    },
)
.costs(cost);

fn cost(a: &Arguments, path: &mut Path<'_>) {
    let n = a.blocks.unwrap_or_else(|| rules::bcast_blocks(a.size, a.bytes, path.model()));
    walk(a.size, n, float(a.bytes), path);
}

/// n−1+q rounds of o + βm/n and a latency per hop; one block goes down a tree of its own.
pub(in crate::plan) fn walk(size: u32, n: u32, bytes: f64, path: &mut Path<'_>) {
    path.blocks(n);
    let (hops, rounds) = shape(size, n, bytes, path);
    let (put, latency) = put_and_latency(n, bytes, path);
    let (more, late) = if n > 1 && size > 1 { (1.0, late(size, n, put, latency)) } else { (0.0, 0.0) };
    let rounds = rounds + late;
    path.piped(&skips(size), hops + more, rounds, rounds * bytes / f64::from(n));
}

/// The number of blocks at which half of the largest delay is reached, where a put takes no longer than L. Fitted to the simulator, as [`late`] says.
const HALF_LATE_BLOCKS: f64 = 20.0;
/// The time of a put, in units of L, at which that number of blocks doubles. Fitted likewise.
const LATENCIES_OF_LONG_PUTS: f64 = 4.0;

/// The delay of the last of n blocks beyond its round, in puts: a block that must be sent in the round after it arrives is late by L, and delays the blocks behind it. Fitted to the
/// simulator: for 8 to 64 ranks (q of 3 to 6), puts of 50 to 400 µs and L of 50 µs to 1 ms these are on average 1.2 to 3.7 for 32 blocks, 1.3 to 5.7 for 128, and at
/// most 0.5 for 4. Where a put takes 8 latencies they are 0.8 to 1.9 for 32 blocks, and 1.3 to 6.5 for 128.
fn late(size: u32, n: u32, put: f64, latency: f64) -> f64 {
    let (q, n) = (f64::from(Circulant::new(size).q()), f64::from(n));
    let half = HALF_LATE_BLOCKS * (1.0 + (put / latency.max(1.0) / LATENCIES_OF_LONG_PUTS).powi(2));
    q * q / 6.0 * n * n / (n * n + half * half)
}

/// What a put of one of n blocks takes, and L, in nanoseconds.
fn put_and_latency(n: u32, bytes: f64, path: &Path<'_>) -> (f64, f64) {
    let model = path.model();
    let put = float(model.overhead_ns) + bytes / f64::from(n) * float(model.byte_ps) / 1000.0;
    (put, float(model.latency_ns))
}

/// The most hops of a block, and the puts that follow each other: of one block those of the slowest rank.
pub(in crate::plan) fn shape(size: u32, n: u32, bytes: f64, path: &Path<'_>) -> (f64, f64) {
    if size <= 1 {
        return (0.0, 0.0);
    }
    let graph = Circulant::new(size);
    let (put, latency) = put_and_latency(n, bytes, path);
    let (time, hops) = rules::tree(&graph, put.max(1.0), latency);
    if n == 1 {
        return (hops, ((time - hops * latency) / put.max(1.0)).max(0.0));
    }
    // Among three ranks the only block that is passed on late is the last but one.
    (hops, f64::from(n) - 1.0 + f64::from(graph.q()) - if size == 3 { 1.0 } else { 0.0 })
}

/// A broadcast of `bytes` bytes in n blocks from one root.
#[derive(Clone, Copy, Debug)]
pub struct Bcast {
    graph: Circulant,
    root: u32,
    split: Split,
}

impl Bcast {
    /// Broadcasts `bytes` bytes from `root` to all of `size` ranks in `blocks` blocks.
    ///
    /// # Errors
    /// If there is no such root, or `blocks` is 0 or above [`MAX_COUNTERS`].
    pub fn new(size: u32, root: u32, bytes: u64, blocks: u32) -> Result<Self> {
        if size == 0 || size > MAX_P {
            return Err(argument(format!("bcast among {size} ranks")));
        }
        if root >= size {
            return Err(argument(format!("root {root} is not one of the {size} ranks")));
        }
        if blocks == 0 || blocks > MAX_COUNTERS {
            return Err(argument(format!("bcast in {blocks} blocks"))
                .help(format!("the number of blocks must be 1 to {MAX_COUNTERS}")));
        }
        Ok(Self { graph: Circulant::new(size), root, split: Split::new(bytes, blocks) })
    }

    /// The number of blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.split.blocks()
    }

    /// Block `b` as a place and a length, unless it is empty.
    fn block(&self, b: u32) -> Option<(Place, u64)> {
        let (offset, len) = self.split.block(b);
        (len > 0).then_some((Place::new(Region::Output, offset), len))
    }

    fn put(&self, rank: u32, entry: i8, round: Round) -> Option<Step> {
        let peer = self.graph.to(rank, round.k);
        if peer == self.root {
            return None;
        }
        let b = block(entry, round.offset, self.blocks())?;
        let (place, len) = self.block(b)?;
        let wait = if rank == self.root { Wait::NONE } else { Wait::once(b) };
        Some(Step::put(round.index, peer, place, place, len, wait, b))
    }

    fn expect(&self, rank: u32, entry: i8, round: Round) -> Option<Step> {
        if rank == self.root {
            return None;
        }
        let b = block(entry, round.offset, self.blocks())?;
        let (place, len) = self.block(b)?;
        Some(Step::expect(round.index, self.graph.from(rank, round.k), place, place, len, b))
    }
}

impl Plan for Bcast {
    fn algorithm(&self) -> &'static str {
        "circulant"
    }

    fn size(&self) -> u32 {
        self.graph.p()
    }

    fn rounds(&self) -> u32 {
        if self.size() == 1 { 0 } else { self.blocks() - 1 + self.graph.q() }
    }

    fn counters(&self, rank: u32) -> u32 {
        if rank == self.root { 0 } else { self.blocks() }
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        Sizes { output: self.split.bytes(), ..Sizes::default() }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let relative = if rank >= self.root { rank - self.root } else { rank + self.size() - self.root };
        let (send, recv) = (self.graph.send(relative), self.graph.recv(relative));
        Box::new(self.graph.rounds(self.blocks()).flat_map(move |round| {
            let k = round.k as usize;
            [self.put(rank, send[k], round), self.expect(rank, recv[k], round)].into_iter().flatten()
        }))
    }
}
