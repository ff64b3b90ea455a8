//! Reduce-scatter of commutative operators: [`super::core`] and nothing else.

use super::core::{self, Buffers, Core, Way};
use crate::error::Result;
use crate::plan::partial::{Pieces, Sketch, check};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{by_p, by_q, commutative, line, power_of_two_commutative};
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::{Place, Plan, Region, Sizes, Step, Wait};
use crate::schedule::Circulant;

const ANY: &str = "any p; commutative";

pub(in crate::plan) const CIRCULANT: Algorithm =
    line(Operation::ReduceScatter, "circulant", [ANY, "q", "<= q*m", core::CIRCULANT], by_q, |a, _| {
        irregular(a, Way::Circulant)
    })
    .commutative()
    .costs(by_rounds)
    .ordered(order::PIECEWISE);

pub(in crate::plan) const RING: Algorithm =
    line(Operation::ReduceScatter, "ring", [ANY, "p-1", "m - min m_r", core::RING], by_p, |a, _| {
        irregular(a, Way::Ring)
    })
    .commutative()
    .receives(|a| a.counts.iter().sum::<u64>() - a.counts.iter().min().copied().unwrap_or(0))
    .costs(ring_cost)
    .ordered(order::ROUND);

pub(in crate::plan) const BLOCK_CIRCULANT: Algorithm =
    line(Operation::ReduceScatterBlock, "circulant", [ANY, "q", "m - m/p", core::CIRCULANT], by_q, |a, _| {
        regular(a, Way::Circulant)
    })
    .commutative()
    .receives(pieces_once)
    .costs(by_rounds)
    .ordered(order::PIECEWISE);

pub(in crate::plan) const BLOCK_RING: Algorithm =
    line(Operation::ReduceScatterBlock, "ring", [ANY, "p-1", "m - m/p", core::RING], by_p, |a, _| {
        regular(a, Way::Ring)
    })
    .commutative()
    .receives(pieces_once)
    .costs(ring_cost)
    .ordered(order::ROUND);

const CUBE: &str = "p a power of two; commutative";

pub(in crate::plan) const BINE: Algorithm =
    line(Operation::ReduceScatter, "bine", [CUBE, "q", "<= q*m", core::BINE], by_q, |a, _| {
        irregular(a, Way::Bine)
    })
    .only(power_of_two_commutative)
    .costs(by_rounds)
    .ordered(order::PIECEWISE);

pub(in crate::plan) const BLOCK_BINE: Algorithm =
    line(Operation::ReduceScatterBlock, "bine", [CUBE, "q", "m - m/p", core::BINE], by_q, |a, _| {
        regular(a, Way::Bine)
    })
    .only(power_of_two_commutative)
    .receives(pieces_once)
    .costs(by_rounds)
    .ordered(order::PIECEWISE);

fn irregular(a: &Arguments, way: Way) -> Result<Box<dyn Plan>> {
    commutative(a)?;
    Ok(Box::new(ReduceScatter::new(&a.counts, a.element, way)?))
}

fn regular(a: &Arguments, way: Way) -> Result<Box<dyn Plan>> {
    commutative(a)?;
    Ok(Box::new(ReduceScatter::block(a.size, a.bytes, a.element, way)?))
}

/// A piece of each other rank.
pub(super) fn pieces_once(a: &Arguments) -> u64 {
    u64::from(a.size.saturating_sub(1)) * a.bytes
}

/// On links that carry messages in turns.
fn by_rounds(a: &Arguments, path: &mut Path<'_>) {
    let turns = if a.has_equal_counts() { path.alike_in_turns() } else { path.in_turns() };
    cost(a, turns, path);
}

/// In each round the heaviest message of all, where links take so many times as long as the bytes.
pub(in crate::plan) fn cost(a: &Arguments, turns: f64, path: &mut Path<'_>) {
    let graph = Circulant::new(a.size.max(1));
    for k in (0..graph.q()).rev() {
        let width = graph.skip(k + 1) - graph.skip(k);
        let bytes = float(a.heaviest(width));
        path.hop(graph.skip(k), 1.0, turns * bytes);
        path.reduce(bytes);
    }
}

fn ring_cost(a: &Arguments, path: &mut Path<'_>) {
    let (hops, bytes) = (a.others(), float(a.largest()));
    path.ring(hops, 1.0, bytes);
    path.reduce(hops * bytes);
}

/// A reduce-scatter, regular or not.
#[derive(Clone, Debug)]
pub struct ReduceScatter {
    core: Core,
}

impl ReduceScatter {
    /// Rank j gets `counts[j]` bytes.
    ///
    /// # Errors
    /// If there are no or too many ranks for this way, or no whole elements. [`Way::Halving`] is always an error: it leaves ranks with the pieces of others.
    pub fn new(counts: &[u64], element: u64, way: Way) -> Result<Self> {
        let size = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        way.scatters(size)?;
        let pieces = Pieces::given(counts)?;
        for &count in counts {
            check("reduce_scatter", size, count, element)?;
        }
        check("reduce_scatter", size, pieces.bytes(), element)?;
        Ok(Self { core: Core { graph: Circulant::new(size), pieces, way } })
    }

    /// Every rank gets `count` bytes.
    ///
    /// # Errors
    /// As [`ReduceScatter::new`].
    pub fn block(size: u32, count: u64, element: u64, way: Way) -> Result<Self> {
        check("reduce_scatter_block", size, count, element)?;
        way.scatters(size)?;
        let bytes = count.saturating_mul(size.into());
        check("reduce_scatter_block", size, bytes, 1)?;
        let pieces = Pieces::Equal { count, parts: size };
        Ok(Self { core: Core { graph: Circulant::new(size), pieces, way } })
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        let bytes = self.core.pieces.bytes();
        if bytes == 0 {
            return s;
        }
        let held = self.core.write(&mut s, rank, self, Wait::NONE);
        let (len, output) = (self.core.pieces.len(rank), Place::new(Region::Output, 0));
        if held.place != output && len > 0 {
            s.copy(self.rounds(), held.place, output, len, &[held.ready]);
        }
        s
    }
}

impl Buffers for ReduceScatter {
    fn contribution(&self, _rank: u32) -> Place {
        Place::new(Region::Input, 0)
    }

    fn result(&self, _rank: u32) -> Option<Place> {
        Some(Place::new(Region::Output, 0))
    }
}

impl Plan for ReduceScatter {
    fn algorithm(&self) -> &'static str {
        self.core.way.name()
    }

    fn size(&self) -> u32 {
        self.core.graph.p()
    }

    fn rounds(&self) -> u32 {
        self.core.rounds()
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let (bytes, land) = (self.core.pieces.bytes(), self.core.land(rank));
        Sizes { input: bytes, output: self.core.pieces.len(rank), work: 0, land }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
