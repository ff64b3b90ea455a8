//! The pipelined chain (folklore): n+p−2 rounds, m bytes to every rank, any p.
//!
//! The rank at distance r from the root passes block b on to distance r+1 in round r+b. A block's number is
//! its counter.

use super::rooted::{absolute, check, check_blocks, relative};
use crate::error::Result;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::rules;
use crate::plan::split::Split;
use crate::plan::{Place, Plan, Region, Sizes, Step, Wait};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Bcast,
    "chain",
    ["any p, root, n", "n+p-2", "m", "folklore"],
    |a, n| if a.size <= 1 { 0 } else { n + a.size - 2 },
    |a, model| {
        let n = a.blocks.unwrap_or_else(|| rules::chain_blocks(a.size, a.bytes, model));
        Ok(Box::new(Bcast::new(a.size, a.root, a.bytes, n)?))
    },
)
.costs(cost);

/// n blocks, and p−2 hops until they come to the last.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let n = a.blocks.unwrap_or_else(|| rules::chain_blocks(a.size, a.bytes, path.model()));
    let (hops, block) = (a.others(), float(a.bytes) / f64::from(n));
    if a.size > 1 {
        path.blocks(n);
        let puts = hops + f64::from(n) - 1.0;
        path.over(&[1], hops, puts, puts * block);
    }
}

/// A broadcast down a chain in n blocks.
#[derive(Clone, Copy, Debug)]
pub struct Bcast {
    size: u32,
    root: u32,
    split: Split,
}

impl Bcast {
    /// Broadcasts `bytes` bytes from `root` to all of `size` ranks in `blocks` blocks.
    ///
    /// # Errors
    /// If there is no such root, or `blocks` is 0 or above [`MAX_COUNTERS`](crate::plan::MAX_COUNTERS).
    pub fn new(size: u32, root: u32, bytes: u64, blocks: u32) -> Result<Self> {
        check(size, root)?;
        check_blocks(blocks)?;
        Ok(Self { size, root, split: Split::new(bytes, blocks) })
    }

    /// What distance `r` puts to distance r+1 in `round`: block, place and length.
    fn link(&self, r: u32, round: u32) -> Option<(u32, Place, u64)> {
        let b = round.checked_sub(r).filter(|&b| b < self.split.blocks() && r + 1 < self.size)?;
        let (offset, len) = self.split.block(b);
        (len > 0).then_some((b, Place::new(Region::Output, offset), len))
    }
}

impl Plan for Bcast {
    fn algorithm(&self) -> &'static str {
        "chain"
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn fan_out(&self) -> Option<u32> {
        Some(1)
    }

    fn rounds(&self) -> u32 {
        if self.size == 1 { 0 } else { self.split.blocks() + self.size - 2 }
    }

    fn counters(&self, rank: u32) -> u32 {
        if rank == self.root { 0 } else { self.split.blocks() }
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        Sizes { output: self.split.bytes(), ..Sizes::default() }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let r = relative(rank, self.root, self.size);
        let to = absolute((r + 1) % self.size, self.root, self.size);
        let from = absolute((r + self.size - 1) % self.size, self.root, self.size);
        let rounds = r.saturating_sub(1)..(r + self.split.blocks()).min(self.rounds());
        Box::new(rounds.flat_map(move |round| {
            let put = self.link(r, round).map(|(b, place, len)| {
                let wait = if r == 0 { Wait::NONE } else { Wait::once(b) };
                Step::put(round, to, place, place, len, wait, b)
            });
            let incoming = r.checked_sub(1).and_then(|before| self.link(before, round));
            let expect = incoming.map(|(b, place, len)| Step::expect(round, from, place, place, len, b));
            [put, expect].into_iter().flatten()
        }))
    }
}
