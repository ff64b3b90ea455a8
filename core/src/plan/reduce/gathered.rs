//! Reduce by circulant reduce-scatter and a gather up the binomial tree, or both on the Bine butterfly (p a power of two): 2q rounds, for long vectors of
//! commutative operators. The root gets 2(m − m/p) bytes.
//!
//! Members count from the root; a member's subtree holds the pieces of consecutive ranks.

use crate::error::{Result, argument};
use crate::plan::partial::{Pieces, Sketch, check, plus};
use crate::plan::reduce_scatter::core::{self, Buffers, Core, Way};
use crate::plan::registry::cost::{Path, floor_log, powers};
use crate::plan::registry::line::{by_2q, commutative, line, power_of_two_commutative, q};
use crate::plan::registry::{Algorithm, Arguments, Operation, order};
use crate::plan::topology::{ahead, behind, bine};
use crate::plan::{Place, Plan, Region, Sizes, Step, Wait};
use crate::schedule::Circulant;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Reduce,
    "gathered",
    ["any p; commutative", "2q", "<= 2(p-1)*ceil(m/p)", core::CIRCULANT],
    by_2q,
    |a, _| {
        commutative(a)?;
        Ok(Box::new(Gathered::new(a.size, a.root, a.bytes, a.element, a.in_place)?))
    },
)
.commutative()
.receives(core::pieces_twice)
.costs(cost)
.ordered(order::PIECEWISE);

pub(in crate::plan) const BINE: Algorithm = line(
    Operation::Reduce,
    "bine_gathered",
    ["p a power of two; commutative", "2q", "<= 2(p-1)*ceil(m/p)", core::BINE],
    by_2q,
    |a, _| {
        commutative(a)?;
        Ok(Box::new(Gathered::bine(a.size, a.root, a.bytes, a.element, a.in_place)?))
    },
)
.only(power_of_two_commutative)
.receives(core::pieces_twice)
.costs(cost)
.ordered(order::PIECEWISE);

fn cost(a: &Arguments, path: &mut Path<'_>) {
    core::cost(a, path.alike_in_turns(), path);
    let (some, piece) = core::pieces(a);
    path.alone(|path| {
        path.over(&powers(a.size), floor_log(a.size).into(), q(a.size).into(), a.others().min(some) * piece)
    });
}

/// A reduce by reduce-scatter and gather.
#[derive(Clone, Debug)]
pub struct Gathered {
    core: Core,
    root: u32,
    in_place: bool,
}

impl Gathered {
    /// Reduces `bytes` bytes of elements of `element` bytes to `root`.
    ///
    /// # Errors
    /// If there are no or too many ranks, no such root, or no whole elements.
    pub fn new(size: u32, root: u32, bytes: u64, element: u64, in_place: bool) -> Result<Self> {
        Self::by(Way::Circulant, size, root, (bytes, element), in_place)
    }

    /// The same on the Bine butterfly, and up the Bine tree.
    ///
    /// # Errors
    /// As [`Gathered::new`]; or if there is not a power of two of ranks.
    pub(crate) fn bine(size: u32, root: u32, bytes: u64, element: u64, in_place: bool) -> Result<Self> {
        Self::by(Way::Bine, size, root, (bytes, element), in_place)
    }

    fn by(way: Way, size: u32, root: u32, (bytes, element): (u64, u64), in_place: bool) -> Result<Self> {
        check("reduce", size, bytes, element)?;
        if root >= size {
            return Err(argument(format!("reduce to rank {root} of {size}")));
        }
        way.check(size)?;
        let pieces = Pieces::even(bytes, element, size);
        let core = Core { graph: Circulant::new(size), pieces, way };
        Ok(Self { core, root, in_place })
    }

    /// Where a rank gathers the vector.
    fn gathers(&self, rank: u32) -> Place {
        if rank == self.root {
            return Place::new(Region::Output, 0);
        }
        Place::new(Region::Land, self.core.land(rank))
    }

    fn rank(&self, member: u32) -> u32 {
        if self.core.way == Way::Bine {
            return bine::rank(self.size(), self.root, member);
        }
        ahead(self.size(), self.root, member)
    }

    /// What `member` sends to its parent: (source, target, length).
    fn message(&self, member: u32, k: u32) -> impl Iterator<Item = (Place, Place, u64)> {
        let (rank, parent) = (self.rank(member), self.rank(member - (1 << k)));
        let ranks = (self.size() - member).min(1 << k);
        let first = if self.core.way == Way::Bine { self.core.window(rank, k).0 } else { rank };
        let (from, to) = (self.gathers(rank), self.gathers(parent));
        self.core.pieces.runs(first, ranks).map(move |(at, len)| (plus(from, at), plus(to, at), len))
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let q = self.core.rounds();
        let mut s = Sketch::new(2 * q);
        if self.core.pieces.is_empty() {
            return s;
        }
        let own = self.core.write(&mut s, rank, self, Wait::NONE);
        let mut ready = own.ready;
        let place = plus(self.gathers(rank), self.core.pieces.start(rank));
        let len = self.core.pieces.len(rank);
        if own.place != place && len > 0 {
            ready = s.copy(q, own.place, place, len, &[ready]);
        }
        let member = match self.core.way {
            Way::Bine => bine::number(self.size(), self.root, rank),
            _ => behind(self.size(), rank, self.root),
        };
        for k in 0..q {
            if member.trailing_zeros() == k {
                let to = self.rank(member - (1 << k));
                for (source, target, len) in self.message(member, k) {
                    s.put(q + k, to, source, target, len, &[ready], q + k);
                }
                break;
            }
            if self.size() - member > 1 << k {
                let child = member + (1 << k);
                let mut runs = 0;
                for (source, target, len) in self.message(child, k) {
                    s.expect(q + k, self.rank(child), source, target, len, q + k);
                    runs += 1;
                }
                if runs > 0 && member > 0 {
                    ready = s.one(q + k + 1, &[Wait { counter: q + k, at_least: runs }, ready]);
                }
            }
        }
        s
    }
}

impl Buffers for Gathered {
    fn contribution(&self, rank: u32) -> Place {
        let in_output = self.in_place && rank == self.root;
        Place::new(if in_output { Region::Output } else { Region::Input }, 0)
    }

    fn result(&self, rank: u32) -> Option<Place> {
        let free = rank != self.root || !self.in_place;
        free.then(|| plus(self.gathers(rank), self.core.pieces.start(rank)))
    }
}

impl Plan for Gathered {
    fn algorithm(&self) -> &'static str {
        if self.core.way == Way::Bine { "bine_gathered" } else { "gathered" }
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
        let (bytes, is_root) = (self.core.pieces.bytes(), rank == self.root);
        Sizes {
            input: if is_root && self.in_place { 0 } else { bytes },
            output: if is_root { bytes } else { 0 },
            work: 0,
            land: self.core.land(rank) + if is_root { 0 } else { bytes },
        }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
