//! Whole vectors up a binomial tree in q rounds, and what follows it: nothing, a hop to another root, a
//! broadcast or a scatter down the same tree.
//!
//! In round k the members v with k+1 low bits 0 take in the partial of v+2^k, on the right of their own.
//! So with members in the order of ranks the order of ranks is kept, and any associative operator
//! will do: the [`Kind::Ordered`] reduce, the [`Kind::All`] allreduce and the [`Kind::Scatter`]
//! reduce-scatter, which add up in the same tree for the same p: same bits on all ranks, and in all
//! three. The [`Kind::Binomial`] reduce counts members from the root instead and saves the hop; the [`Kind::Bine`] reduce
//! counts them by the edges of the Bine tree, so that most puts go less far.

use crate::error::{Result, argument};
use crate::plan::partial::{Held, Pieces, Sketch, check, plus};
use crate::plan::registry::cost::{NOT_HIDDEN, Path, float, floor_log, powers};
use crate::plan::registry::line::{by_2q, by_q, commutative, line, q};
use crate::plan::registry::{Algorithm, Arguments, Build, Operation, order};
use crate::plan::topology::bine::Numbers;
use crate::plan::topology::{ahead, behind};
use crate::plan::{Place, Plan, Region, Side, Sizes, Step, Wait};

pub(in crate::plan) const BINOMIAL: Algorithm =
    line(Operation::Reduce, "binomial", ["any p; commutative", "q", "q*m", SOURCE], by_q, |a, _| {
        commutative(a)?;
        build(a, Kind::Binomial(a.root))
    })
    .commutative()
    .costs(|a, path| up(a.size, float(a.bytes), path))
    .ordered(order::FROM_ROOT);

pub(in crate::plan) const BINE: Algorithm =
    line(Operation::Reduce, "bine", ["any p; commutative", "q", "<= q*m", BINE_SOURCE], by_q, |a, _| {
        commutative(a)?;
        build(a, Kind::Bine(a.root))
    })
    .commutative()
    .costs(|a, path| up(a.size, float(a.bytes), path))
    .ordered(order::BINE_FROM_ROOT);

pub(in crate::plan) const ORDERED: Algorithm = ordered(
    Operation::Reduce,
    "q+1 (root 0: q)",
    |a, _| q(a.size) + 1,
    |a, _| build(a, Kind::Ordered(a.root)),
)
.costs(reduce_cost);

pub(in crate::plan) const ALLREDUCE: Algorithm =
    ordered(Operation::Allreduce, "2q", by_2q, |a, _| build(a, Kind::All)).costs(allreduce_cost);

pub(in crate::plan) const REDUCE_SCATTER: Algorithm =
    ordered(Operation::ReduceScatter, "2q", by_2q, |a, _| {
        let pieces = Pieces::given(&a.counts)?;
        let a = Arguments { size: pieces.parts(), bytes: pieces.bytes(), ..a.clone() };
        build(&a, Kind::Scatter(pieces))
    })
    .costs(scatter_cost);

pub(in crate::plan) const REDUCE_SCATTER_BLOCK: Algorithm =
    ordered(Operation::ReduceScatterBlock, "2q", by_2q, |a, _| {
        let bytes = a.bytes.checked_mul(a.size.into()).ok_or_else(|| argument("beyond 2^64 bytes"))?;
        let pieces = Pieces::Equal { count: a.bytes, parts: a.size };
        build(&Arguments { bytes, ..a.clone() }, Kind::Scatter(pieces))
    })
    .costs(scatter_cost);

const SOURCE: &str = "binomial tree";
const BINE_SOURCE: &str = crate::plan::reduce_scatter::core::BINE;

/// A line of what keeps the order of ranks.
const fn ordered(
    operation: Operation,
    rounds: &'static str,
    rounds_of: fn(&Arguments, u32) -> u32,
    build: Build,
) -> Algorithm {
    let texts = ["any p; keeps the order of ranks", rounds, "q*m", SOURCE];
    line(operation, "ordered", texts, rounds_of, build).ordered(order::CANONICAL)
}

fn build(a: &Arguments, kind: Kind) -> Result<Box<dyn Plan>> {
    let in_place = a.in_place && !matches!(kind, Kind::Scatter(_));
    Ok(Box::new(Tree::new(a.size, a.bytes, a.element, in_place, kind)?))
}

/// Whole vectors up the tree, each combined before it goes on.
fn up(size: u32, bytes: f64, path: &mut Path<'_>) {
    let hops = f64::from(floor_log(size));
    // Just above a power of two the root's last message comes early, but takes its time.
    let more = if size.is_power_of_two() { 0.0 } else { NOT_HIDDEN };
    path.alone(|path| path.over(&powers(size), hops, hops + more, (hops + more) * bytes));
    path.reduce((hops + more) * bytes);
}

fn reduce_cost(a: &Arguments, path: &mut Path<'_>) {
    up(a.size, float(a.bytes), path);
    if a.root > 0 {
        path.hop(a.root, 1.0, float(a.bytes));
    }
}

fn allreduce_cost(a: &Arguments, path: &mut Path<'_>) {
    let (rounds, bytes) = (f64::from(q(a.size)), float(a.bytes));
    up(a.size, bytes, path);
    path.alone(|path| path.over(&powers(a.size), floor_log(a.size).into(), rounds, rounds * bytes));
}

fn scatter_cost(a: &Arguments, path: &mut Path<'_>) {
    let (total, own) = match a.counts.first() {
        Some(first) => (float(a.counts.iter().sum()), float(*first)),
        None => (float(a.bytes) * f64::from(a.size), float(a.bytes)),
    };
    up(a.size, total, path);
    path.alone(|path| path.over(&powers(a.size), floor_log(a.size).into(), q(a.size).into(), total - own));
}

/// What the tree is for.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Reduce to this root, for commutative operators.
    Binomial(u32),
    /// The same up the Bine tree.
    Bine(u32),
    /// Reduce to this root in the order of ranks: to rank 0, and from there.
    Ordered(u32),
    /// Allreduce in the order of ranks.
    All,
    /// Reduce-scatter in the order of ranks; the pieces are the ranks'.
    Scatter(Pieces),
}

/// A reduction up a binomial tree.
#[derive(Clone, Debug)]
pub struct Tree {
    size: u32,
    bytes: u64,
    in_place: bool,
    kind: Kind,
}

impl Tree {
    /// Reduces `bytes` bytes of elements of `element` bytes. `in_place` concerns the root of a reduce, and
    /// all ranks of an allreduce.
    ///
    /// # Errors
    /// If there are no or too many ranks, no such root, no whole elements, pieces of something else, or a reduce-scatter in
    /// place.
    pub fn new(size: u32, bytes: u64, element: u64, in_place: bool, kind: Kind) -> Result<Self> {
        check("a reduction", size, bytes, element)?;
        match &kind {
            Kind::Binomial(root) | Kind::Bine(root) | Kind::Ordered(root) if *root >= size => {
                Err(argument(format!("reduce to rank {root} of {size}")))
            }
            Kind::Scatter(pieces) if pieces.bytes() != bytes || pieces.parts() != size => {
                Err(argument(format!("{bytes} bytes for {size} ranks in other pieces")))
            }
            Kind::Scatter(_) if in_place => Err(argument("a reduce-scatter in place")),
            _ => Ok(Self { size, bytes, in_place, kind }),
        }
    }

    fn q(&self) -> u32 {
        self.size.next_power_of_two().ilog2()
    }

    /// The rank that is member 0.
    fn base(&self) -> u32 {
        if let Kind::Binomial(root) = self.kind { root } else { 0 }
    }

    fn member(&self, rank: u32) -> u32 {
        if let Kind::Bine(root) = self.kind {
            return Numbers::new(self.size, root).number(rank);
        }
        behind(self.size, rank, self.base())
    }

    fn rank(&self, member: u32) -> u32 {
        if let Kind::Bine(root) = self.kind {
            // There is one: `has_child` says so of all that it is asked of.
            return Numbers::new(self.size, root).rank(member).unwrap_or(root);
        }
        ahead(self.size, self.base(), member)
    }

    /// Whether the contribution of `rank` lies in its output.
    fn in_output(&self, rank: u32) -> bool {
        self.in_place
            && match self.kind {
                Kind::Binomial(root) | Kind::Bine(root) | Kind::Ordered(root) => rank == root,
                Kind::All => true,
                Kind::Scatter(_) => false,
            }
    }

    fn contribution(&self, member: u32) -> Place {
        let in_output = self.in_output(self.rank(member));
        Place::new(if in_output { Region::Output } else { Region::Input }, 0)
    }

    /// Where lands what a member gets in round `k`; the last for member 0 where it belongs, if it can.
    fn slot(&self, member: u32, k: u32) -> Place {
        let here = match self.kind {
            Kind::Binomial(_) | Kind::Bine(_) | Kind::All => true,
            Kind::Ordered(root) => root == 0,
            Kind::Scatter(_) => false,
        };
        if member == 0 && k + 1 == self.q() && here && !self.in_place {
            return Place::new(Region::Output, 0);
        }
        Place::new(Region::Land, u64::from(k) * self.bytes)
    }

    /// Where the partial of a member lies before round `k`.
    fn partial(&self, member: u32, k: u32) -> Place {
        let has = |&j: &u32| self.has_child(member, j);
        (0..k).rev().find(has).map_or_else(|| self.contribution(member), |j| self.slot(member, j))
    }

    fn has_child(&self, member: u32, k: u32) -> bool {
        let child = || match self.kind {
            Kind::Bine(root) => Numbers::new(self.size, root).rank(member + (1 << k)).is_some(),
            _ => self.size - member > 1 << k,
        };
        member.trailing_zeros() > k && child()
    }

    /// Up the tree: the reduction at member 0, nothing to be held at others.
    fn up(&self, s: &mut Sketch, member: u32) -> Option<Held> {
        let mut held = Held { place: self.contribution(member), ready: Wait::NONE };
        for k in 0..self.q() {
            if member.trailing_zeros() == k {
                let parent = member - (1 << k);
                let to = self.rank(parent);
                s.put(k, to, held.place, self.slot(parent, k), self.bytes, &[held.ready], k);
                return None;
            }
            if self.has_child(member, k) {
                let child = member + (1 << k);
                let slot = self.slot(member, k);
                s.expect(k, self.rank(child), self.partial(child, k), slot, self.bytes, k);
                let waits = [Wait::once(k), held.ready];
                let ready = s.reduce(k + 1, Side::SourceLeft, held.place, slot, self.bytes, &waits);
                held = Held { place: slot, ready };
            }
        }
        Some(held)
    }

    /// Down the tree again, what `part` names of each subtree: (source at the parent, target, length).
    fn down(
        &self,
        s: &mut Sketch,
        member: u32,
        mut ready: Wait,
        part: impl Fn(u32, u32) -> (Place, Place, u64),
    ) -> Wait {
        let q = self.q();
        for k in (0..q).rev() {
            let round = 2 * q - 1 - k;
            if member > 0 && member.trailing_zeros() == k {
                let (source, target, len) = part(member, k);
                s.expect(round, self.rank(member - (1 << k)), source, target, len, round);
                ready = Wait::once(round);
            } else if self.has_child(member, k) {
                let child = member + (1 << k);
                let (source, target, len) = part(child, k);
                s.put(round, self.rank(child), source, target, len, &[ready], round);
            }
        }
        ready
    }

    /// Where a member keeps the pieces of its subtree, as the offset of the first piece of all.
    fn window(&self, member: u32) -> Place {
        if member > 0 {
            return Place::new(Region::Land, u64::from(self.q()) * self.bytes);
        }
        self.partial(0, self.q())
    }

    fn scatter(&self, s: &mut Sketch, member: u32, ready: Wait, pieces: &Pieces) {
        let output = Place::new(Region::Output, 0);
        // A leaf's piece lands where it belongs.
        let is_leaf = |member: u32| member % 2 == 1 || member + 1 == self.size;
        let ready = self.down(s, member, ready, |child, k| {
            let at = pieces.start(child);
            let end = pieces.start(self.size.min(child.saturating_add(1 << k)));
            let source = plus(self.window(child - (1 << k)), at);
            let target = if is_leaf(child) { output } else { plus(self.window(child), at) };
            (source, target, end - at)
        });
        let len = pieces.len(member);
        if len > 0 && (member == 0 || !is_leaf(member)) {
            let source = plus(self.window(member), pieces.start(member));
            s.copy(2 * self.q(), source, output, len, &[ready]);
        }
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        if self.bytes == 0 {
            return s;
        }
        let (q, member, output) = (self.q(), self.member(rank), Place::new(Region::Output, 0));
        let mut held = self.up(&mut s, member);
        let stays = !matches!(self.kind, Kind::Scatter(_)) && !matches!(self.kind, Kind::Ordered(1..));
        if let Some(held) = held.as_mut().filter(|held| stays && held.place != output) {
            held.ready = s.copy(q, held.place, output, self.bytes, &[held.ready]);
        }
        let ready = held.map_or(Wait::NONE, |held| held.ready);
        match &self.kind {
            Kind::Binomial(_) | Kind::Bine(_) | Kind::Ordered(0) => {}
            Kind::Ordered(root) => {
                if let Some(held) = held {
                    s.put(q, *root, held.place, output, self.bytes, &[ready], q);
                } else if rank == *root {
                    s.expect(q, 0, self.partial(0, q), output, self.bytes, q);
                }
            }
            Kind::All => {
                self.down(&mut s, member, ready, |_, _| (output, output, self.bytes));
            }
            Kind::Scatter(pieces) => self.scatter(&mut s, member, ready, pieces),
        }
        s
    }
}

impl Plan for Tree {
    fn algorithm(&self) -> &'static str {
        match self.kind {
            Kind::Binomial(_) => "binomial",
            Kind::Bine(_) => "bine",
            _ => "ordered",
        }
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        match self.kind {
            Kind::Binomial(_) | Kind::Bine(_) => self.q(),
            Kind::Ordered(root) => self.q() + u32::from(root > 0),
            Kind::All | Kind::Scatter(_) => 2 * self.q(),
        }
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let output = match &self.kind {
            Kind::Binomial(root) | Kind::Bine(root) | Kind::Ordered(root) if rank != *root => 0,
            Kind::Scatter(pieces) => pieces.len(rank),
            _ => self.bytes,
        };
        let slots = self.q() + u32::from(matches!(self.kind, Kind::Scatter(_)));
        Sizes {
            input: if self.in_output(rank) { 0 } else { self.bytes },
            output,
            work: 0,
            land: u64::from(slots) * self.bytes,
        }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
