//! Reduce in n−1+q rounds: the circulant n-block broadcast (Träff 2022, Algorithm 6) backwards.
//!
//! The paths of a block in the broadcast are a spanning tree; backwards every rank sends its partial of
//! the block to its parent after all its children's have come in. Every rank but the root sends every
//! block exactly once. The order of ranks is that of the trees: for commutative operators.
//!
//! What comes in round i lands in slot i, counter i. Of the partials of a block the first slot takes
//! in our contribution and then the later slots, and is sent on; the root adds up in its output. Counter
//! R+i says that what came in round i is added, of R rounds.

use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::bcast::circulant::shape;
use crate::plan::partial::{Pieces, check, slot_align};
use crate::plan::registry::cost::{Path, float, skips};
use crate::plan::registry::line::{by_blocks, commutative, line, q};
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::rules;
use crate::plan::topology::{ahead, behind};
use crate::plan::{MAX_COUNTERS, NO_COUNTER, Place, Plan, Region, Side, Sizes, Step, Wait};
use crate::schedule::{Circulant, Entries, block};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Reduce,
    "circulant",
    ["any p; commutative", "n-1+q", "<= (n-1+q)*ceil(m/n)", "Träff 2022, Algorithm 6 reversed"],
    by_blocks,
    |a, model| {
        commutative(a)?;
        Ok(Box::new(Reduce::new(a.size, a.root, a.bytes, a.element, blocks(a, model), a.in_place)?))
    },
)
.commutative()
.receives(received)
.costs(cost)
.ordered(order::BLOCKWISE);

/// The number of blocks: as for a broadcast on a wire on which a byte also takes its combination.
pub(in crate::plan) fn blocks(a: &Arguments, model: &LogGp) -> u32 {
    let model = LogGp { byte_ps: model.byte_ps.saturating_add(model.reduce_ps), ..*model };
    a.blocks.unwrap_or_else(|| rules::bcast_blocks(a.size, a.bytes, &model).min(MAX_COUNTERS / 4))
}

/// All blocks once, and q−1 of them again.
fn received(a: &Arguments) -> u64 {
    let n = a.blocks.unwrap_or(1);
    let block = Pieces::even(a.bytes, a.element, n).largest();
    if a.size == 1 { 0 } else { (u64::from(n) - 1 + u64::from(q(a.size))) * block }
}

/// The share of the shorter of putting and combining that the longer does not hide. Simulated reduces of 1 and 8 MiB among 16 to 128 ranks, where
/// combining takes 1.25 times as long as putting (β = 0.08 ns/B, γ = 0.1), take 1.26 to 1.32 times what the longer alone would: so 0.3 to 0.4.
const NOT_BESIDE: f64 = 0.35;

/// The broadcast backwards: the pace is that of the slower of putting and combining, and a block is combined at
/// every hop.
pub(in crate::plan) fn cost(a: &Arguments, path: &mut Path<'_>) {
    let (n, bytes) = (blocks(a, path.model()), float(a.bytes));
    path.blocks(n);
    let (hops, rounds) = shape(a.size, n, bytes, path);
    let block = bytes / f64::from(n);
    let more = if n > 1 && a.size > 1 { 1.0 } else { 0.0 };
    path.over(&skips(a.size), hops + more, 0.0, 0.0);
    path.reduce(if n > 1 { hops } else { rounds.min(hops + 1.0) } * block);
    let put = |path: &mut Path<'_>, part: f64| {
        path.piped(&skips(a.size), 0.0, part * rounds, part * rounds * block);
    };
    match n {
        1 => put(path, 1.0),
        _ => {
            let reduce = |path: &mut Path<'_>, part: f64| path.reduce(part * rounds * block);
            path.longer(
                |path| {
                    put(path, 1.0);
                    reduce(path, NOT_BESIDE);
                },
                |path| {
                    put(path, NOT_BESIDE);
                    reduce(path, 1.0);
                },
            );
        }
    }
}

/// A reduce of n blocks of a commutative operator.
#[derive(Clone, Debug)]
pub struct Reduce {
    graph: Circulant,
    root: u32,
    pieces: Pieces,
    in_place: bool,
    /// Virtual rounds before the broadcast's first, −(n−1) mod q.
    x: u32,
}

impl Reduce {
    /// Reduces `bytes` bytes of elements of `element` bytes to `root`, in `blocks` blocks.
    ///
    /// # Errors
    /// If there are no or too many ranks or blocks, no such root, or no whole elements.
    pub fn new(size: u32, root: u32, bytes: u64, element: u64, blocks: u32, in_place: bool) -> Result<Self> {
        check("reduce", size, bytes, element)?;
        if root >= size {
            return Err(argument(format!("reduce to rank {root} of {size}")));
        }
        if blocks == 0 || blocks > MAX_COUNTERS / 4 {
            return Err(argument(format!("reduce in {blocks} blocks")).help("use 1 to 4194304"));
        }
        let graph = Circulant::new(size);
        let q = graph.q().max(1);
        let x = (q - (blocks - 1) % q) % q;
        Ok(Self { graph, root, pieces: Pieces::even(bytes, element, blocks), in_place, x })
    }

    fn blocks(&self) -> u32 {
        self.pieces.parts()
    }

    fn slot_bytes(&self) -> u64 {
        slot_align(self.pieces.largest())
    }

    fn rank(&self, relative: u32) -> u32 {
        ahead(self.size(), self.root, relative)
    }

    /// Round `i` of this plan as a round of the broadcast: which k, and what to add to entries.
    fn round(&self, i: u32) -> (u32, i64) {
        let (f, q) = (self.rounds() - 1 - i, self.graph.q());
        let k = (f % q + self.x) % q;
        (k, i64::from(f) - i64::from(k))
    }

    /// The block that a rank with these entries moves in round `i`, if it is not empty.
    fn block(&self, entries: &Entries, i: u32) -> Option<u32> {
        let (k, offset) = self.round(i);
        block(entries[k as usize], offset, self.blocks()).filter(|&b| self.pieces.len(b) > 0)
    }

    /// In which rounds `relative` gets partials of block `b`, ascending.
    fn children(&self, relative: u32, b: u32) -> Vec<u32> {
        let (q, rounds) = (self.graph.q(), i64::from(self.rounds()));
        let entries = self.graph.send(relative);
        let mut out = Vec::with_capacity(q as usize);
        for k in (0..q).filter(|&k| self.graph.to(relative, k) != 0) {
            // The round of the broadcast with this k that sends b: one of its own, or, as the last block, in
            // the last phase.
            let exact = i64::from(b) - i64::from(entries[k as usize]) + i64::from(k);
            let last = rounds - 1 - i64::from((q - 1 - k) % q);
            for f in [exact, last] {
                let Ok(i) = u32::try_from(rounds - 1 - f) else { continue };
                if (0..rounds).contains(&f)
                    && self.round(i).0 == k
                    && self.block(&entries, i) == Some(b)
                    && !out.contains(&i)
                {
                    out.push(i);
                }
            }
        }
        out.sort_unstable();
        out
    }

    fn slot(&self, i: u32) -> Place {
        Place::new(Region::Land, u64::from(i) * self.slot_bytes())
    }

    fn contribution(&self, relative: u32, b: u32) -> Place {
        let region = if relative == 0 && self.in_place { Region::Output } else { Region::Input };
        Place::new(region, self.pieces.start(b))
    }

    /// Where the partial of a block lies that gets partials in these rounds, and when it is complete.
    fn partial(&self, relative: u32, b: u32, children: &[u32]) -> (Place, Wait) {
        match (children.first(), children.last()) {
            (Some(&first), Some(&last)) => (self.slot(first), Wait::once(self.rounds() + last)),
            _ => (self.contribution(relative, b), Wait::NONE),
        }
    }

    /// What is done about what came in round `i`, in the next.
    fn add(&self, relative: u32, i: u32, out: &mut Vec<Step>) {
        let (k, rounds) = (self.round(i).0, self.rounds());
        if self.graph.to(relative, k) == 0 {
            return;
        }
        let Some(b) = self.block(&self.graph.send(relative), i) else { return };
        let (len, arrived, side) = (self.pieces.len(b), Wait::once(i), Side::SourceLeft);
        let children = self.children(relative, b);
        let before = children.iter().rev().find(|&&c| c < i).map(|&c| Wait::once(rounds + c));
        let own = self.contribution(relative, b);
        let output = Place::new(Region::Output, self.pieces.start(b));
        let (source, target, wait) = match before {
            None if relative == 0 && !self.in_place => {
                let copied = 2 * rounds + b;
                out.push(Step::copy(i + 1, own, output, len, [Wait::NONE; 2], copied));
                (self.slot(i), output, Wait::once(copied))
            }
            None if relative == 0 => (self.slot(i), output, Wait::NONE),
            None => (own, self.slot(i), Wait::NONE),
            Some(wait) if relative == 0 => (self.slot(i), output, wait),
            Some(wait) => (self.slot(i), self.slot(children[0]), wait),
        };
        out.push(Step::reduce(i + 1, side, source, target, len, [arrived, wait], rounds + i));
    }

    fn steps_of(&self, relative: u32, i: u32) -> Vec<Step> {
        let mut out = Vec::with_capacity(4);
        if i > 0 {
            self.add(relative, i - 1, &mut out);
        }
        if i == self.rounds() {
            return out;
        }
        let k = self.round(i).0;
        let put = |from: u32, b: u32| {
            let (place, wait) = self.partial(from, b, &self.children(from, b));
            (place, wait, self.pieces.len(b))
        };
        if relative != 0
            && let Some(b) = self.block(&self.graph.recv(relative), i)
        {
            let (place, wait, len) = put(relative, b);
            let to = self.rank(self.graph.from(relative, k));
            out.push(Step::put(i, to, place, self.slot(i), len, wait, i));
        }
        let from = self.graph.to(relative, k);
        if from != 0
            && let Some(b) = self.block(&self.graph.send(relative), i)
        {
            let (place, _, len) = put(from, b);
            out.push(Step::expect(i, self.rank(from), place, self.slot(i), len, i));
        }
        out
    }
}

impl Plan for Reduce {
    fn in_step(&self) -> bool {
        true
    }

    fn algorithm(&self) -> &'static str {
        "circulant"
    }

    fn size(&self) -> u32 {
        self.graph.p()
    }

    fn rounds(&self) -> u32 {
        if self.size() == 1 { 0 } else { self.blocks() - 1 + self.graph.q() }
    }

    fn counters(&self, _rank: u32) -> u32 {
        2 * self.rounds() + self.blocks()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let (bytes, is_root) = (self.pieces.bytes(), rank == self.root);
        Sizes {
            input: if is_root && self.in_place { 0 } else { bytes },
            output: if is_root { bytes } else { 0 },
            work: 0,
            land: u64::from(self.rounds()) * self.slot_bytes(),
        }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        if self.pieces.is_empty() {
            return Box::new(std::iter::empty());
        }
        if self.size() == 1 {
            let (from, to) = (Place::new(Region::Input, 0), Place::new(Region::Output, 0));
            let copy = Step::copy(0, from, to, self.pieces.bytes(), [Wait::NONE; 2], NO_COUNTER);
            return Box::new((!self.in_place).then_some(copy).into_iter());
        }
        let relative = behind(self.size(), rank, self.root);
        Box::new((0..=self.rounds()).flat_map(move |i| self.steps_of(relative, i)))
    }
}
