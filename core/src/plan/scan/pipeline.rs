//! Scans along the ranks, block by block: p−2+n rounds, every byte received once. For long vectors on
//! few ranks.
//!
//! Rank r gets block b in round r−1+b, counter b, and sends it with its own part in round r+b. Counter n+b
//! says that the block to send is ready, 2n+b that our part of it is copied.

use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::partial::{Pieces, check, plus};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Build, Operation, order};
use crate::plan::{MAX_COUNTERS, NO_COUNTER, Place, Plan, Region, Side, Sizes, Step, Wait};

pub(in crate::plan) const SCAN: Algorithm = of(Operation::Scan, |a, model| build(a, model, true));
pub(in crate::plan) const EXSCAN: Algorithm = of(Operation::Exscan, |a, model| build(a, model, false));

const fn of(operation: Operation, build: Build) -> Algorithm {
    let texts = ["any p; keeps the order of ranks", "p-2+n", "m", "linear pipeline"];
    line(operation, "pipeline", texts, |a, n| Pipeline::rounds_of(a.size, n), build)
        .receives(|a| if a.size > 1 { a.bytes } else { 0 })
        .costs(cost)
        .ordered(order::LEFT)
}

fn build(a: &Arguments, model: &LogGp, inclusive: bool) -> Result<Box<dyn Plan>> {
    let n = blocks(a, model);
    Ok(Box::new(Pipeline::new(a.size, a.bytes, a.element, n, inclusive)?))
}

/// Bytes of a block at least, where the number of blocks is not given: a cache line of x86-64 and aarch64.
const MIN_BLOCK_BYTES: u64 = 64;
/// Blocks at most, where their number is not given. Chosen: each takes three counters, of 2^24 ([`MAX_COUNTERS`]).
const MAX_BLOCKS: u64 = 1 << 16;

/// n minimises (p−2+n)·(o + βm/n).
fn blocks(a: &Arguments, model: &LogGp) -> u32 {
    let by_rule = || {
        let wire = u128::from(a.bytes) * u128::from(model.byte_ps) / 1000;
        let n = (u128::from(a.size.saturating_sub(2)) * wire / u128::from(model.overhead_ns.max(1))).isqrt();
        let most = (a.bytes / MIN_BLOCK_BYTES).clamp(1, MAX_BLOCKS);
        u64::try_from(n).map_or(most, |n| n.clamp(1, most))
    };
    a.blocks.unwrap_or_else(|| u32::try_from(by_rule()).unwrap_or(1))
}

/// Down the line, block by block.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let (hops, n) = (a.others(), blocks(a, path.model()));
    if a.size < 2 {
        return;
    }
    path.blocks(n);
    let (block, rest) = (float(a.bytes) / f64::from(n), f64::from(n) - 1.0);
    // Of a node's ranks only the last puts to another.
    let per_node = path.machine().per_node;
    let shared = per_node > 1 && a.size > per_node;
    let far = if shared { hops / f64::from(per_node) } else { hops };
    path.over(&[1], far, far, far * block);
    path.near(hops - far, hops - far, (hops - far) * block);
    path.reduce(hops * block);
    path.longer(|path| path.over(&[1], 0.0, rest, rest * block), |path| path.reduce(rest * block));
}

/// A pipelined scan or exscan.
#[derive(Clone, Debug)]
pub struct Pipeline {
    size: u32,
    pieces: Pieces,
    inclusive: bool,
}

impl Pipeline {
    /// Scans `bytes` bytes of elements of `element` bytes in `blocks` blocks; inclusive: rank r's
    /// contribution is in its result.
    ///
    /// # Errors
    /// If there are no or too many ranks or blocks, or no whole elements.
    pub fn new(size: u32, bytes: u64, element: u64, blocks: u32, inclusive: bool) -> Result<Self> {
        check("scan", size, bytes, element)?;
        if blocks == 0 || blocks > MAX_COUNTERS / 4 {
            return Err(argument(format!("a scan in {blocks} blocks")).help("use 1 to 4194304"));
        }
        Ok(Self { size, pieces: Pieces::even(bytes, element, blocks), inclusive })
    }

    /// p−2+n, or none.
    pub(crate) fn rounds_of(size: u32, blocks: u32) -> u32 {
        if size <= 1 { 0 } else { size - 2 + blocks }
    }

    fn blocks(&self) -> u32 {
        self.pieces.parts()
    }

    fn place(&self, region: Region, b: u32) -> Place {
        plus(Place::new(region, 0), self.pieces.start(b))
    }

    fn own(&self, b: u32) -> Place {
        self.place(Region::Input, b)
    }

    fn slot(&self, b: u32) -> Place {
        self.place(Region::Output, b)
    }

    /// Where `rank` sends block b from.
    fn sent(&self, rank: u32, b: u32) -> Place {
        match rank {
            0 => self.own(b),
            _ if self.inclusive => self.place(Region::Output, b),
            _ => self.place(Region::Work, b),
        }
    }

    /// What `rank` does with block b when it is here, in `round`.
    fn combine(&self, rank: u32, b: u32, round: u32, out: &mut Vec<Step>) {
        let (n, len, arrived) = (self.blocks(), self.pieces.len(b), Wait::once(b));
        let (own, slot, output) = (self.own(b), self.slot(b), self.place(Region::Output, b));
        let (none, done, copied) = ([Wait::NONE; 2], n + b, 2 * n + b);
        let last = rank + 1 == self.size;
        match (rank, self.inclusive) {
            (0, true) => out.push(Step::copy(round, own, output, len, none, NO_COUNTER)),
            (0, false) => {}
            (_, true) => {
                let waits = [arrived, Wait::NONE];
                out.push(Step::reduce(round, Side::SourceRight, own, output, len, waits, done));
            }
            (_, false) => {
                if !last {
                    let work = self.place(Region::Work, b);
                    out.push(Step::copy(round, own, work, len, none, copied));
                    let waits = [arrived, Wait::once(copied)];
                    out.push(Step::reduce(round, Side::SourceLeft, slot, work, len, waits, done));
                }
            }
        }
    }

    fn round(&self, rank: u32, i: u32) -> Vec<Step> {
        let mut out = Vec::with_capacity(5);
        let some = |b: &u32| *b < self.blocks() && self.pieces.len(*b) > 0;
        if let Some(b) = i.checked_sub(rank).filter(some) {
            self.combine(rank, b, i, &mut out);
            if rank + 1 < self.size {
                let wait = if rank == 0 { Wait::NONE } else { Wait::once(self.blocks() + b) };
                let (from, to) = (self.sent(rank, b), self.slot(b));
                out.push(Step::put(i, rank + 1, from, to, self.pieces.len(b), wait, b));
            }
        }
        if rank > 0
            && let Some(b) = (i + 1).checked_sub(rank).filter(some)
        {
            let (from, to) = (self.sent(rank - 1, b), self.slot(b));
            out.push(Step::expect(i, rank - 1, from, to, self.pieces.len(b), b));
        }
        out
    }
}

impl Plan for Pipeline {
    fn algorithm(&self) -> &'static str {
        "pipeline"
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        Self::rounds_of(self.size, self.blocks())
    }

    fn counters(&self, _rank: u32) -> u32 {
        3 * self.blocks()
    }

    fn sizes(&self, _rank: u32) -> Sizes {
        let bytes = self.pieces.bytes();
        Sizes { input: bytes, output: bytes, work: if self.inclusive { 0 } else { bytes }, land: 0 }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        if self.size == 1 {
            let all = Pieces::even(self.pieces.bytes(), 1, 1);
            let whole = Self { pieces: all, ..self.clone() };
            return Box::new(whole.round(0, 0).into_iter());
        }
        Box::new((rank.saturating_sub(1)..rank + self.blocks()).flat_map(move |i| self.round(rank, i)))
    }
}
