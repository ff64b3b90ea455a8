//! Reductions without intermediaries: rank r takes piece r of all contributions and folds it, block by block.
//! Then, for an allreduce, every rank takes all pieces; for a reduce, the root does.
//!
//! p−1 rounds per block, and as many again for what follows; m − m/p bytes to each rank, the least possible, and
//! nothing is passed on. On a network that is an allreduce in two hops. In memory that ranks share a put is a description
//! and its reader moves the bytes, so all fold at the same time and the running sum of a block stays in a cache while all
//! contributions to it come by. A transport that can hand bytes over as they are read lands nothing on the way.
//!
//! The order is that of distances: r's own contribution with that of r+1, then r+2, … round to r−1. It is the same for
//! every block of a piece, and there is one result.

use super::core::pieces_twice;
use super::plain::pieces_once;
use crate::error::{Result, argument};
use crate::plan::partial::{Pieces, Sketch, check, plus, slot_align};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{commutative, line, of_all};
use crate::plan::registry::{Algorithm, Arguments, Build, Operation, order};
use crate::plan::topology::{ahead, behind};
use crate::plan::{MAX_COUNTERS, Place, Plan, Region, Side, Sizes, Step, Wait};

pub(in crate::plan) const ALLREDUCE: Algorithm =
    twice(Operation::Allreduce, |a, _| build(a, Results::Everywhere)).costs(allreduce_cost);

pub(in crate::plan) const REDUCE: Algorithm =
    twice(Operation::Reduce, |a, _| build(a, Results::At(a.root))).costs(reduce_cost);

pub(in crate::plan) const REDUCE_SCATTER: Algorithm = once(Operation::ReduceScatter, "(p-1)*m_r", |a, _| {
    commutative(a)?;
    Ok(Box::new(Direct::scatter(&a.counts, a.element, a.blocks)?))
})
.receives(|a| u64::from(a.size.saturating_sub(1)) * a.counts.iter().copied().max().unwrap_or(0));

pub(in crate::plan) const REDUCE_SCATTER_BLOCK: Algorithm =
    once(Operation::ReduceScatterBlock, "m - m/p", |a, _| {
        commutative(a)?;
        Ok(Box::new(Direct::scatter_block(a.size, a.bytes, a.element, a.blocks)?))
    })
    .receives(pieces_once);

/// The line of a reduce-scatter.
const fn once(operation: Operation, volume: &'static str, build: Build) -> Algorithm {
    let texts = ["any p, n; commutative", "n(p-1)", volume, "folklore"];
    line(operation, "direct", texts, rounds, build)
        .commutative()
        .costs(scatter_cost)
        .puts_blocks(of_all)
        .ordered(order::ROUND)
        .meets_all()
}

/// The line of what follows a reduce-scatter by as many puts.
const fn twice(operation: Operation, build: Build) -> Algorithm {
    let texts = ["any p, n; commutative", "2n(p-1)", "<= 2(p-1)*ceil(m/p)", "folklore"];
    line(operation, "direct", texts, |a, n| rounds(a, n).saturating_mul(2), build)
        .commutative()
        .receives(pieces_twice)
        .puts_blocks(of_all)
        .ordered(order::ROUND)
        .meets_all()
}

fn rounds(a: &Arguments, n: u32) -> u32 {
    n.saturating_mul(a.size.saturating_sub(1))
}

fn build(a: &Arguments, results: Results) -> Result<Box<dyn Plan>> {
    commutative(a)?;
    if a.size == 0 {
        return Err(argument("a reduction among no ranks"));
    }
    Ok(Box::new(Direct::new(a.size, results, a.bytes, a.element, a.blocks, a.in_place)?))
}

/// Every rank puts to as many `others`, and folds what it gets, block by block, while more comes.
fn fold(a: &Arguments, others: f64, largest: u64, path: &mut Path<'_>) -> (f64, f64) {
    let n = blocks(largest, a.blocks);
    path.blocks(n);
    let (puts, bytes) = (others * f64::from(n), a.others() * float(largest));
    path.longer(
        |path| {
            path.with_all(others.min(1.0), puts, bytes * path.at_once());
            path.reduce(float(largest) / f64::from(n));
        },
        |path| {
            path.with_all(others.min(1.0), others.min(1.0), 0.0);
            path.reduce(bytes);
        },
    );
    (puts, bytes)
}

fn allreduce_cost(a: &Arguments, path: &mut Path<'_>) {
    let (puts, bytes) = fold(a, a.others(), largest(a), path);
    path.with_all(a.others().min(1.0), puts, bytes * path.at_once());
}

/// The root gets from one after the other.
fn reduce_cost(a: &Arguments, path: &mut Path<'_>) {
    path.for_readers();
    let (puts, bytes) = fold(a, a.others(), largest(a), path);
    path.alone(|path| path.with_all(a.others().min(1.0), puts, bytes));
}

fn scatter_cost(a: &Arguments, path: &mut Path<'_>) {
    // Two ranks have no way round to save. What unequal pieces take of links that ranks share is not known here.
    if a.size == 2 || path.machine().per_node > 1 && !a.has_equal_counts() {
        path.for_readers();
    }
    let pieces = match a.counts.is_empty() {
        true => a.others(),
        false => a.others().min(float(a.counts.iter().filter(|count| **count > 0).count() as u64)),
    };
    fold(a, pieces, a.largest(), path);
}

fn largest(a: &Arguments) -> u64 {
    Pieces::even(a.bytes, a.element, a.size.max(1)).largest()
}

/// Bytes of a block, unless a number of blocks is given. Chosen: it, its sum and what is being read (384 KiB) fit into
/// a core's own cache of 512 KiB; `circulant bench reduce-scatter --blocks N` shows other numbers.
const BLOCK_BYTES: u64 = 128 << 10;

/// Which ranks get results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Results {
    /// Every rank its piece (reduce_scatter).
    Scattered,
    /// Every rank all of it (allreduce).
    Everywhere,
    /// This rank all of it (reduce).
    At(u32),
}

/// A reduction by direct exchange.
#[derive(Clone, Debug)]
pub struct Direct {
    size: u32,
    results: Results,
    pieces: Pieces,
    element: u64,
    blocks: u32,
    in_place: bool,
}

/// The number of blocks for pieces of at most `largest` bytes, unless one is given.
pub(crate) fn blocks(largest: u64, given: Option<u32>) -> u32 {
    given.unwrap_or_else(|| u32::try_from(largest.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX).max(1))
}

impl Direct {
    /// Reduces `bytes` bytes of elements of `element` bytes, cut into a piece per rank, of which each is cut into `n`
    /// blocks (if nothing is said, into blocks that fit into a cache).
    ///
    /// # Errors
    /// If there are no or too many ranks or blocks, no such root, or no whole elements.
    pub fn new(
        size: u32,
        results: Results,
        bytes: u64,
        element: u64,
        n: Option<u32>,
        in_place: bool,
    ) -> Result<Self> {
        check("a reduction", size, bytes, element)?;
        Self::of(size, results, Pieces::even(bytes, element, size), element, n, in_place)
    }

    /// A reduce-scatter in which rank j gets `counts[j]` bytes.
    ///
    /// # Errors
    /// As [`Direct::new`].
    pub fn scatter(counts: &[u64], element: u64, n: Option<u32>) -> Result<Self> {
        let size = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        for &count in counts {
            check("reduce_scatter", size, count, element)?;
        }
        let pieces = Pieces::given(counts)?;
        check("reduce_scatter", size, pieces.bytes(), element)?;
        Self::of(size, Results::Scattered, pieces, element, n, false)
    }

    /// A reduce-scatter in which every rank gets `count` bytes.
    ///
    /// # Errors
    /// As [`Direct::new`].
    pub(crate) fn scatter_block(size: u32, count: u64, element: u64, n: Option<u32>) -> Result<Self> {
        check("reduce_scatter_block", size, count, element)?;
        check("reduce_scatter_block", size, count.saturating_mul(size.into()), 1)?;
        Self::of(size, Results::Scattered, Pieces::Equal { count, parts: size }, element, n, false)
    }

    fn of(
        size: u32,
        results: Results,
        pieces: Pieces,
        element: u64,
        n: Option<u32>,
        in_place: bool,
    ) -> Result<Self> {
        if matches!(results, Results::At(root) if root >= size) {
            return Err(argument(format!("reduce to a rank beyond {size}")));
        }
        let n = blocks(pieces.largest(), n);
        let rounds = n.checked_mul(size - 1).filter(|rounds| *rounds <= MAX_COUNTERS / 8);
        if n == 0 || rounds.is_none() {
            return Err(argument(format!("a direct reduction in {n} blocks among {size} ranks"))
                .help("use fewer blocks"));
        }
        Ok(Self { size, results, pieces, element, blocks: n, in_place })
    }

    /// Block `b` of the piece of `owner`: offset in the piece, and length.
    fn block(&self, owner: u32, b: u32) -> (u64, u64) {
        let cut = Pieces::even(self.pieces.len(owner), self.element, self.blocks);
        (cut.start(b), cut.len(b))
    }

    /// The rounds of the first half.
    fn half(&self) -> u32 {
        self.blocks * (self.size - 1)
    }

    /// Where the contribution of `rank` lies.
    fn contribution(&self, rank: u32) -> Place {
        let region = match self.results {
            Results::Everywhere if self.in_place => Region::Output,
            Results::At(root) if self.in_place && rank == root => Region::Output,
            _ => Region::Input,
        };
        Place::new(region, 0)
    }

    /// Where `rank` adds up its piece.
    fn sum(&self, rank: u32) -> Place {
        match self.results {
            Results::Scattered => Place::new(Region::Output, 0),
            Results::Everywhere => Place::new(Region::Output, self.pieces.start(rank)),
            Results::At(root) if rank == root => Place::new(Region::Output, self.pieces.start(rank)),
            _ => Place::new(Region::Land, 0),
        }
    }

    /// Whether the sum begins with the contribution of `rank`, where it lies.
    fn begins(&self, rank: u32) -> bool {
        self.contribution(rank).region == Region::Output
    }

    /// Where what comes to `rank` from `i` ranks further on lands: the first right where the sum shall be.
    fn area(&self, rank: u32, i: u32) -> Place {
        if i == 1 && !self.begins(rank) {
            return self.sum(rank);
        }
        Place::new(Region::Land, u64::from(i - 1) * slot_align(self.pieces.len(rank)))
    }

    /// What `sender` puts to the rank `i` before it, of block `b`: (source, target, length).
    fn message(&self, sender: u32, b: u32, i: u32) -> (Place, Place, u64) {
        let to = behind(self.size, sender, i);
        let (offset, len) = self.block(to, b);
        let source = plus(self.contribution(sender), self.pieces.start(to) + offset);
        (source, plus(self.area(to, i), offset), len)
    }

    /// Folds block `b`; gives what to wait for.
    fn fold(&self, s: &mut Sketch, rank: u32, b: u32) -> Wait {
        let (offset, len) = self.block(rank, b);
        let mine = plus(self.contribution(rank), self.pieces.start(rank) + offset);
        let sum = plus(self.sum(rank), offset);
        let mut done = Wait::NONE;
        for i in 1..self.size {
            let round = b * (self.size - 1) + i - 1;
            let (source, target, put) = self.message(rank, b, i);
            s.put(round, behind(self.size, rank, i), source, target, put, &[], round);
            let from = ahead(self.size, rank, i);
            let (source, target, len_in) = self.message(from, b, i);
            s.expect(round, from, source, target, len_in, round);
            if len > 0 {
                let source = if target == sum { mine } else { target };
                done = s.reduce(round + 1, Side::SourceRight, source, sum, len, &[Wait::once(round), done]);
            }
        }
        done
    }

    /// Passes block `b` of all pieces on to the ranks that get them.
    fn pass(&self, s: &mut Sketch, rank: u32, b: u32, done: Wait) {
        let first = self.half() + b * (self.size - 1);
        let whole = |owner: u32| {
            let (offset, len) = self.block(owner, b);
            (
                Place::new(Region::Output, self.pieces.start(owner) + offset),
                plus(self.sum(owner), offset),
                len,
            )
        };
        for i in 1..self.size {
            let round = first + i - 1;
            let (to, from) = match self.results {
                Results::Scattered => return,
                Results::Everywhere => (Some(ahead(self.size, rank, i)), Some(behind(self.size, rank, i))),
                Results::At(root) if rank == root => (None, Some(ahead(self.size, root, i))),
                Results::At(root) => (Some(root).filter(|_| ahead(self.size, root, i) == rank), None),
            };
            if let Some(to) = to {
                let (target, source, len) = whole(rank);
                s.put(round, to, source, target, len, &[done], round);
            }
            if let Some(from) = from {
                let (target, source, len) = whole(from);
                s.expect(round, from, source, target, len, round);
            }
        }
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        if self.pieces.is_empty() {
            return s;
        }
        if self.size == 1 {
            if !self.in_place {
                let output = Place::new(Region::Output, 0);
                s.copy(0, self.contribution(rank), output, self.pieces.bytes(), &[]);
            }
            return s;
        }
        let done: Vec<Wait> = (0..self.blocks).map(|b| self.fold(&mut s, rank, b)).collect();
        for (b, done) in (0..).zip(done) {
            self.pass(&mut s, rank, b, done);
        }
        s
    }
}

impl Plan for Direct {
    fn algorithm(&self) -> &'static str {
        "direct"
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        if self.results == Results::Scattered { self.half() } else { 2 * self.half() }
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let (bytes, own) = (self.pieces.bytes(), self.pieces.len(rank));
        let land = u64::from(self.size - 1) * slot_align(own);
        let input = if self.begins(rank) { 0 } else { bytes };
        let output = match self.results {
            Results::Scattered => own,
            Results::At(root) if rank != root => 0,
            _ => bytes,
        };
        Sizes { input, output, work: 0, land }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
