//! Allreduce by reduce-scatter and allgather: 2q rounds on the circulant graph or, where p is a power of two, by halving, or 2(p−1) on the ring, and
//! 2(m − m/p) bytes. The vector is cut into p pieces of whole elements.
//!
//! Every piece is reduced at one rank and passed on: the same bits everywhere. In place nothing is
//! copied, though peers put results where contributions lay: the result of a piece depends on our
//! contribution to it, so it comes after we have read that. Only our own piece needs a copy, as its
//! partials land elsewhere.

use crate::error::Result;
use crate::plan::partial::{Held, Pieces, Sketch, check};
use crate::plan::reduce_scatter::core::{self, Buffers, Core, Way};
use crate::plan::registry::cost::{Path, skips};
use crate::plan::registry::line::{by_2q, by_p, commutative, line, power_of_two_commutative, q};
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::{Place, Plan, Region, Sizes, Step, Wait};
use crate::schedule::Circulant;

const ANY: &str = "any p; commutative";
const VOLUME: &str = "<= 2(p-1)*ceil(m/p)";

pub(in crate::plan) const CIRCULANT: Algorithm =
    line(Operation::Allreduce, "circulant", [ANY, "2q", VOLUME, core::CIRCULANT], by_2q, |a, _| {
        build(a, Way::Circulant)
    })
    .commutative()
    .receives(core::pieces_twice)
    .costs(|a, path| circulant_cost(a, path.alike_in_turns(), path))
    .ordered(order::PIECEWISE);

pub(in crate::plan) const RING: Algorithm = line(
    Operation::Allreduce,
    "ring",
    [ANY, "2(p-1)", VOLUME, core::RING],
    |a, n| 2 * by_p(a, n),
    |a, _| build(a, Way::Ring),
)
.commutative()
.receives(core::pieces_twice)
.costs(ring_cost)
.ordered(order::ROUND);

pub(in crate::plan) const HALVING: Algorithm = line(
    Operation::Allreduce,
    "halving",
    ["p a power of two; commutative", "2q", VOLUME, core::HALVING],
    by_2q,
    |a, _| build(a, Way::Halving),
)
.only(power_of_two_commutative)
.receives(core::pieces_twice)
.costs(halving_cost)
.ordered(order::PIECEWISE);

fn build(a: &Arguments, way: Way) -> Result<Box<dyn Plan>> {
    commutative(a)?;
    Ok(Box::new(Scattered::new(a.size, a.bytes, a.element, a.in_place, way)?))
}

/// The two halves; the first takes links `turns` times as long as its bytes.
pub(in crate::plan) fn circulant_cost(a: &Arguments, turns: f64, path: &mut Path<'_>) {
    core::cost(a, turns, path);
    let (some, piece) = core::pieces(a);
    let rounds = f64::from(q(a.size));
    path.over(&skips(a.size), rounds, rounds, a.others().min(some) * piece);
}

/// A half each way over each dimension of the hypercube, the shortest message over the longest distance.
fn halving_cost(a: &Arguments, path: &mut Path<'_>) {
    let (some, piece) = core::pieces(a);
    let machine = path.machine();
    let in_order = in_blocks(&a.nodes, machine.per_node) && in_blocks(&a.groups, machine.group_ranks());
    for k in (0..q(a.size)).rev() {
        let (distance, bytes) = (a.size >> (k + 1), f64::from(1 << k).min(some) * piece);
        path.exchange(distance, in_order, bytes);
        path.reduce(bytes);
        path.exchange(distance, in_order, bytes);
    }
}

/// Whether ranks of a node or group follow each other, that many of each; so it is where nothing is known of them.
fn in_blocks(of: &[u32], ranks: u32) -> bool {
    ranks < 2 || of.chunks(ranks as usize).all(|block| block.iter().all(|at| *at == block[0]))
}

fn ring_cost(a: &Arguments, path: &mut Path<'_>) {
    let (hops, piece) = (a.others(), core::pieces(a).1);
    path.ring(2.0 * hops, 1.0, piece);
    path.reduce(hops * piece);
}

/// An allreduce of a commutative operator.
#[derive(Clone, Debug)]
pub struct Scattered {
    core: Core,
    in_place: bool,
    /// Partials stay out of the output.
    apart: bool,
}

impl Scattered {
    /// Reduces `bytes` bytes of elements of `element` bytes.
    ///
    /// # Errors
    /// If there are no or too many ranks, or no whole elements.
    pub fn new(size: u32, bytes: u64, element: u64, in_place: bool, way: Way) -> Result<Self> {
        check("allreduce", size, bytes, element)?;
        way.check(size)?;
        let pieces = Pieces::even(bytes, element, size);
        Ok(Self { core: Core { graph: Circulant::new(size), pieces, way }, in_place, apart: in_place })
    }

    /// The same, of contributions in the input, but the output is written only with results: a caller that has something else
    /// in it that all results depend on may rely on that.
    ///
    /// # Errors
    /// As [`Scattered::new`].
    pub(crate) fn apart(size: u32, bytes: u64, element: u64, way: Way) -> Result<Self> {
        Ok(Self { apart: true, ..Self::new(size, bytes, element, false, way)? })
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let half = self.core.rounds();
        let mut s = Sketch::new(2 * half);
        if self.core.pieces.is_empty() {
            return s;
        }
        let mut own = self.core.write(&mut s, rank, self, Wait::NONE);
        let piece = self.core.piece(rank);
        let place = Place::new(Region::Output, self.core.pieces.start(piece));
        let len = self.core.pieces.len(piece);
        if own.place != place && len > 0 {
            own.ready = s.copy(half, own.place, place, len, &[own.ready]);
        }
        match self.core.way {
            Way::Circulant | Way::Bine | Way::Halving => self.double(&mut s, rank, own),
            Way::Ring => self.ring(&mut s, rank, own),
        }
        s
    }

    /// Round k of the allgather: the pieces that came in the round k of the reduce-scatter go back to where they came from.
    fn double(&self, s: &mut Sketch, rank: u32, own: Held) {
        let (q, pieces) = (self.core.graph.q(), &self.core.pieces);
        let mut held = own.ready;
        for k in 0..q {
            let (from, to) = self.core.peers(rank, k);
            let (first, width) = self.core.window(rank, k);
            for (at, len) in pieces.runs(first, width) {
                let place = Place::new(Region::Output, at);
                s.put(q + k, to, place, place, len, &[held], q + k);
            }
            let mut runs = 0;
            let (first, width) = self.core.window(from, k);
            for (at, len) in pieces.runs(first, width) {
                let place = Place::new(Region::Output, at);
                s.expect(q + k, from, place, place, len, q + k);
                runs += 1;
            }
            if runs > 0 && k + 1 < q {
                held = s.one(q + k + 1, &[Wait { counter: q + k, at_least: runs }, held]);
            }
        }
    }

    fn ring(&self, s: &mut Sketch, rank: u32, own: Held) {
        let (p, pieces, half) = (self.size(), &self.core.pieces, self.core.rounds());
        let (to, from) = ((rank + 1) % p, (rank + p - 1) % p);
        let mut ready = own.ready;
        for j in 0..p - 1 {
            let round = half + j;
            let piece = (rank + p - j) % p;
            let place = Place::new(Region::Output, pieces.start(piece));
            s.put(round, to, place, place, pieces.len(piece), &[ready], round);
            let piece = (from + p - j) % p;
            let place = Place::new(Region::Output, pieces.start(piece));
            s.expect(round, from, place, place, pieces.len(piece), round);
            ready = Wait::once(round);
        }
    }
}

impl Buffers for Scattered {
    fn contribution(&self, _rank: u32) -> Place {
        Place::new(if self.in_place { Region::Output } else { Region::Input }, 0)
    }

    fn result(&self, rank: u32) -> Option<Place> {
        let start = self.core.pieces.start(self.core.piece(rank));
        (!self.apart).then(|| Place::new(Region::Output, start))
    }
}

impl Plan for Scattered {
    fn algorithm(&self) -> &'static str {
        self.core.way.name()
    }

    fn size(&self) -> u32 {
        self.core.graph.p()
    }

    fn rounds(&self) -> u32 {
        2 * self.core.rounds()
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let bytes = self.core.pieces.bytes();
        let input = if self.in_place { 0 } else { bytes };
        Sizes { input, output: bytes, work: 0, land: self.core.land(rank) }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
