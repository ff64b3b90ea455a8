//! What reduces, through carriers: a reduce, an allreduce or a reduce-scatter among the nodes, made one among all ranks.
//! For commutative operators.
//!
//! The vector is cut into the pieces of the plan among nodes (if it is short, it is one). First the ranks of a node add up: each piece at its
//! *handler*, where those of the others land and are combined with its own, in the order of their distance. A
//! lane's handler is its carrier; for leaders the node's ranks take turns, piece by piece, and put what is complete
//! to the leader. So no rank combines much more than a vector. What is complete is the contribution of the node in the
//! plan among nodes, piece by piece; and of an allreduce every carrier passes on what it gets, as in
//! [`spread`](super::spread). Of a reduce in lanes the carriers on the root's node put their shares to the root.
//! The share of a lane of a reduce-scatter is the pieces of its ranks, wherever they lie in the vector: there the carrier
//! gets its own piece from the plan among nodes, and puts others to those of its node that have no lane.
//!
//! # Memory
//!
//! `Land` of a rank holds, one after the other: the node's partial; slots for all but one of the others' pieces; for
//! a reduce in lanes or a reduce-scatter, the carrier's share of the result, if it has one for others; and what the plan
//! among nodes needs.
//!
//! In place the contributions lie in the output, to which results come: each depends on what was read there. A rank
//! that is alone on its node copies its contribution to `Work` first, as all ranks do for a reduce-scatter.
//!
//! # Rounds
//!
//! S−1 for contributions, S−1 for partials to leaders, then as [`spread`](super::spread) S for a round among nodes, and
//! S−1 for shares to the root. Of a reduce in lanes a piece goes to its carrier S rounds later for each round of the plan among nodes before that which
//! reads it first, and from the plan's last round that writes it to the root: while one piece is put others are combined, and others are among nodes.
//! Counters: below M, the ranks of the largest node, that of the position of a sender that
//! no rank waits for; those of contributions, by distance and piece; of partials; of shares; of the plan among nodes.

mod carry;
mod home;
mod pass;

use super::{Nodes, count, sketched};
use crate::error::{Result, argument};
use crate::plan::allreduce::{doubling::Doubling, scattered::Scattered};
use crate::plan::partial::{Pieces, Sketch, check};
use crate::plan::reduce::circulant::Reduce;
use crate::plan::reduce_scatter::{core::Way, plain::ReduceScatter};
use crate::plan::{MAX_COUNTERS, Place, Plan, Region, Sizes, Wait};
use pass::Pass;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Makes the plan of a lane among nodes, of the elements of each piece.
type PlanAmong<'a> = dyn Fn(&[u64]) -> Result<Box<dyn Plan>> + 'a;

/// A reduce, an allreduce or a reduce-scatter through carriers.
#[derive(Debug)]
pub(crate) struct Fold {
    name: &'static str,
    nodes: Nodes,
    lanes: Vec<Lane>,
    goal: Goal,
    bytes: u64,
    in_place: bool,
    /// The ranks of a node take turns as handlers.
    in_turn: bool,
    rounds: u32,
    /// By node, by lane: how often the lanes before it pass something on; and all. Nothing: no rank waits for that.
    counted: Option<Vec<Vec<u32>>>,
}

/// A plan among nodes for a lane, and the pieces that it takes contributions in.
pub(crate) type Among = (Box<dyn Plan>, Pieces);

/// A reduce on the circulant graph.
pub(crate) fn reduce(nodes: u32, root: u32, bytes: u64, element: u64, blocks: u32) -> Result<Among> {
    let plan = Reduce::new(nodes, root, bytes, element, blocks, false)?;
    Ok((Box::new(plan), Pieces::even(bytes, element, blocks)))
}

/// An allreduce on the circulant graph.
pub(crate) fn allreduce(nodes: u32, bytes: u64, element: u64) -> Result<Among> {
    let plan = Scattered::apart(nodes, bytes, element, Way::Circulant)?;
    Ok((Box::new(plan), Pieces::even(bytes, element, nodes)))
}

/// A reduce-scatter on the circulant graph.
pub(crate) fn reduce_scatter(counts: &[u64], element: u64) -> Result<Box<dyn Plan>> {
    Ok(Box::new(ReduceScatter::new(counts, element, Way::Circulant)?))
}

/// A plan among carriers for a share of the vector.
#[derive(Debug)]
struct Lane {
    /// By node.
    carriers: Vec<u32>,
    plan: Box<dyn Plan>,
    /// Where the share begins, and its pieces.
    begin: u64,
    pieces: Pieces,
    /// By piece: where it begins in the vector. Nothing: they follow each other.
    places: Option<Vec<u64>>,
    /// By node: the ranks that get a part of the share, and how much.
    ends: Vec<Vec<(u32, u64)>>,
    /// By node: when pieces go to their handlers, from when that is asked for.
    waves: Vec<OnceLock<Vec<u32>>>,
}

impl Lane {
    /// A lane of a range of the vector, for all ranks that get the result.
    fn range(carriers: Vec<u32>, plan: Box<dyn Plan>, begin: u64, pieces: Pieces) -> Self {
        let waves = carriers.iter().map(|_| OnceLock::new()).collect();
        Self { carriers, plan, begin, pieces, places: None, ends: Vec::new(), waves }
    }

    /// Where a piece begins in the vector.
    fn at(&self, piece: u32) -> u64 {
        match &self.places {
            Some(places) => places[piece as usize],
            None => self.begin + self.pieces.start(piece),
        }
    }

    fn ends(&self, node: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.ends.get(node as usize).into_iter().flatten().copied()
    }
}

/// Which ranks get what of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// One rank all.
    Root(u32),
    /// All ranks all, piece by piece.
    All,
    /// The same, but the plan among nodes has its result in the end only.
    Late,
    /// Every rank its piece.
    Pieces,
}

impl Fold {
    /// Reduces `bytes` bytes of elements of `element` bytes to `root` through leaders, in `blocks` blocks.
    ///
    /// # Errors
    /// If there is no such root, or number of blocks, or there are no whole elements.
    pub(crate) fn reduce(
        nodes: Nodes,
        root: u32,
        (bytes, element): (u64, u64),
        blocks: u32,
        in_place: bool,
    ) -> Result<Self> {
        rooted(&nodes, root)?;
        let carriers = nodes.leaders(Some(root));
        let (plan, _) = self::reduce(nodes.count(), nodes.of(root), bytes, element, blocks)?;
        let pieces = turns(&nodes, bytes, element, blocks);
        let lane = Lane::range(carriers, plan, 0, pieces);
        Self::new("node_circulant", nodes, vec![lane], Goal::Root(root), (bytes, element), in_place)
    }

    /// The same in lanes, as many as the smallest node has carriers, by a reduce `among` nodes of this number, root and length.
    /// `carries`: the root is a carrier like others; else those of its node give it all, if there are any.
    ///
    /// # Errors
    /// As [`Fold::reduce`].
    pub(crate) fn reduce_lanes(
        name: &'static str,
        nodes: Nodes,
        (root, carries): (u32, bool),
        (bytes, element): (u64, u64),
        in_place: bool,
        among: &dyn Fn(u32, u32, u64) -> Result<Among>,
    ) -> Result<Self> {
        rooted(&nodes, root)?;
        let (all, home) = (nodes.count(), nodes.of(root));
        let carriers = nodes.lanes((!carries).then_some(root));
        let lanes = Lane::all(carriers, nodes.size(), (bytes, element), |bytes| among(all, home, bytes))?;
        Self::new(name, nodes, lanes, Goal::Root(root), (bytes, element), in_place)
    }

    /// Reduces `bytes` bytes of elements of `element` bytes to all ranks through leaders.
    ///
    /// # Errors
    /// If there are no whole elements.
    pub(crate) fn allreduce(nodes: Nodes, (bytes, element): (u64, u64), in_place: bool) -> Result<Self> {
        let carriers = nodes.leaders(None);
        let (plan, _) = self::allreduce(nodes.count(), bytes, element)?;
        let pieces = turns(&nodes, bytes, element, nodes.count());
        let lane = Lane::range(carriers, plan, 0, pieces);
        Self::new("node_circulant", nodes, vec![lane], Goal::All, (bytes, element), in_place)
    }

    /// The same by recursive doubling among the leaders, for short vectors.
    ///
    /// # Errors
    /// If there are no whole elements.
    pub(crate) fn doubling(nodes: Nodes, (bytes, element): (u64, u64), in_place: bool) -> Result<Self> {
        let carriers = nodes.leaders(None);
        let plan = Doubling::apart(nodes.count(), bytes, element)?;
        let pieces = turns(&nodes, bytes, element, 1);
        let lane = Lane::range(carriers, Box::new(plan), 0, pieces);
        Self::new("node_doubling", nodes, vec![lane], Goal::Late, (bytes, element), in_place)
    }

    /// The same in lanes, as many as the smallest node has ranks, by an allreduce `among` nodes of this number and length.
    ///
    /// # Errors
    /// If there are no whole elements.
    pub(crate) fn allreduce_lanes(
        name: &'static str,
        nodes: Nodes,
        (bytes, element): (u64, u64),
        in_place: bool,
        among: &dyn Fn(u32, u64) -> Result<Among>,
    ) -> Result<Self> {
        let among = |bytes| among(nodes.count(), bytes);
        let lanes = Lane::all(nodes.lanes(None), nodes.size(), (bytes, element), among)?;
        Self::new(name, nodes, lanes, Goal::All, (bytes, element), in_place)
    }

    /// Reduces the pieces of all ranks, `counts[j]` bytes for rank j, in lanes: as many as the smallest node has ranks.
    /// A rank's piece is its lane's, the one of its position; where nodes have more ranks some share one. A lane is a reduce-scatter
    /// `among` nodes of such counts.
    ///
    /// # Errors
    /// If there is not one count per rank, or there are no whole elements.
    pub(crate) fn reduce_scatter(
        name: &'static str,
        nodes: Nodes,
        counts: &[u64],
        element: u64,
        among: &PlanAmong<'_>,
    ) -> Result<Self> {
        let pieces = Pieces::given(counts)?;
        if pieces.parts() != nodes.size() {
            return Err(argument(format!("{} pieces for {} ranks", counts.len(), nodes.size())));
        }
        for &count in counts {
            check("reduce_scatter", nodes.size(), count, element)?;
        }
        check("reduce_scatter", nodes.size(), pieces.bytes(), element)?;
        let lanes = nodes.least();
        let lane = |first| Lane::pieces(&nodes, first, lanes, &pieces, among);
        let lanes = (0..lanes).map(lane).collect::<Result<_>>()?;
        Self::new(name, nodes, lanes, Goal::Pieces, (pieces.bytes(), element), false)
    }

    fn new(
        name: &'static str,
        nodes: Nodes,
        lanes: Vec<Lane>,
        goal: Goal,
        (bytes, element): (u64, u64),
        in_place: bool,
    ) -> Result<Self> {
        check("reduction", nodes.size(), bytes, element)?;
        let in_turn = name.starts_with("node_");
        let mut fold = Self { name, nodes, lanes, goal, bytes, in_place, in_turn, rounds: 0, counted: None };
        let most = fold.lanes.iter().map(|lane| lane.plan.rounds()).max().unwrap_or(0);
        let rounds = most.checked_add(1).and_then(|rounds| rounds.checked_mul(fold.stride()));
        let rounds = rounds.and_then(|rounds| rounds.checked_add(fold.first() + fold.stride()));
        fold.rounds = rounds.ok_or_else(|| argument("more than 2^32 rounds").help("use fewer blocks"))?;
        let wide = |lane: &Lane| {
            let arrivals = u64::from(fold.nodes.most() + 1) * u64::from(lane.pieces.parts());
            arrivals + u64::from(lane.plan.counters(0)) > u64::from(MAX_COUNTERS / 4)
        };
        if fold.lanes.iter().any(wide) {
            return Err(
                argument("too many blocks for this number of ranks per node").help("use fewer blocks")
            );
        }
        Ok(fold)
    }

    /// Whether a rank gets anything of the result.
    fn gets(&self, rank: u32) -> bool {
        !matches!(self.goal, Goal::Root(root) if root != rank)
    }

    /// Whether contributions go to carriers piece by piece, as the plan among nodes takes them, so that it begins with the first.
    /// A reduce alone: what else there is cuts vectors by ranks, and short pieces would not share puts any more.
    fn in_waves(&self) -> bool {
        !self.in_turn && matches!(self.goal, Goal::Root(_))
    }

    /// S, the rounds for one of the plans among nodes.
    fn stride(&self) -> u32 {
        self.nodes.most()
    }

    /// The rounds before the first of the plans among nodes.
    fn first(&self) -> u32 {
        (self.stride() - 1) * if self.in_turn { 2 } else { 1 }
    }

    fn ranks(&self, node: u32) -> u32 {
        count(self.nodes.members(node).len())
    }

    /// For use among the nodes that are its ranks: what is passed on is counted.
    pub(crate) fn among(mut self) -> Box<dyn Plan> {
        let of_node = |node| {
            let mut end = 0;
            let fans = |lane| {
                end += count(self.carry(lane, node, &BTreeMap::new(), &mut Sketch::new(0)).len());
                end
            };
            std::iter::once(0).chain(self.lanes.iter().map(fans)).collect()
        };
        self.counted = Some((0..self.nodes.count()).map(of_node).collect());
        Box::new(self)
    }

    /// The counters of a rank but for those of what is passed on to it.
    fn counters_of(&self, rank: u32) -> u32 {
        let node = self.nodes.of(rank);
        let carried = self.lanes.iter().find(|lane| lane.carriers[node as usize] == rank);
        carried
            .or(self.lanes.first())
            .map_or(0, |lane| self.base(lane) + if carried.is_some() { lane.plan.counters(node) } else { 0 })
    }

    /// The counter at `to` of what the carrier of a lane passes on.
    fn passes(&self, lane: usize, carrier: u32, to: u32, fan: usize) -> u32 {
        match &self.counted {
            None => self.nodes.position(carrier),
            Some(before) => self.counters_of(to) + before[self.nodes.of(to) as usize][lane] + count(fan),
        }
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let node = self.nodes.of(rank);
        let passed = self.counted.as_ref().and_then(|before| before[node as usize].last());
        let mut s = Sketch::new(self.counters_of(rank) + passed.copied().unwrap_or(0));
        if self.bytes == 0 {
            return s;
        }
        let mut there = Wait::NONE;
        if self.copied(rank) > 0 {
            let [from, to] = [Region::Output, Region::Work].map(|region| Place::new(region, 0));
            there = s.copy(0, from, to, self.bytes, &[]);
        }
        for (number, lane) in self.lanes.iter().enumerate() {
            let carrier = lane.carriers[node as usize];
            let mut ready = self.gather(lane, rank, there, &mut s);
            if self.in_turn {
                self.lead(lane, rank, &mut ready, &mut s);
            }
            if carrier == rank {
                for (i, fan) in self.carry(lane, node, &ready, &mut s).into_iter().enumerate() {
                    for Pass { round, to, source, target, len } in self.passed(lane, node, &fan) {
                        match to == rank {
                            true => _ = s.copy(round, source, target, len, &[fan.wait]),
                            false => {
                                let bump = self.passes(number, rank, to, i);
                                s.put(round, to, source, target, len, &[fan.wait], bump);
                            }
                        }
                    }
                }
            } else if self.gets(rank) {
                let fans = self.carry(lane, node, &BTreeMap::new(), &mut Sketch::new(0));
                for (i, fan) in fans.into_iter().enumerate() {
                    let passed = self.passed(lane, node, &fan).into_iter().filter(|pass| pass.to == rank);
                    for Pass { round, source, target, len, .. } in passed {
                        s.expect(round, carrier, source, target, len, self.passes(number, carrier, rank, i));
                    }
                }
            }
        }
        s.by_rounds();
        s
    }
}

/// Below this many bytes the leader adds up all by itself. Chosen: 16 KiB are added up in 1.6 µs (100 ps a byte),
/// little beside the messages by which ranks take turns. `core/tests/pure/selection.rs` holds the prices on both sides
/// of it to the simulator.
pub(crate) const MIN_SHARED_FOLD_BYTES: u64 = 16 << 10;

/// The pieces of which a node's ranks take turns: as the plan among nodes has them, and at least one for each rank.
fn turns(nodes: &Nodes, bytes: u64, element: u64, blocks: u32) -> Pieces {
    let parts = if bytes < MIN_SHARED_FOLD_BYTES { 1 } else { blocks.max(nodes.most()) };
    Pieces::even(bytes, element, parts)
}

fn rooted(nodes: &Nodes, root: u32) -> Result<()> {
    match root < nodes.size() {
        true => Ok(()),
        false => Err(argument(format!("reduce to rank {root} of {}", nodes.size()))),
    }
}

impl Lane {
    /// A lane for these carriers each.
    fn all(
        carriers: Vec<Vec<u32>>,
        size: u32,
        (bytes, element): (u64, u64),
        plan: impl Fn(u64) -> Result<Among>,
    ) -> Result<Vec<Self>> {
        check("reduction", size, bytes, element)?;
        let shares = Pieces::even(bytes, element, count(carriers.len()));
        let lane = |(share, carriers)| {
            let (plan, pieces) = plan(shares.len(share))?;
            Ok(Self::range(carriers, plan, shares.start(share), pieces))
        };
        (0..).zip(carriers).map(lane).collect()
    }

    /// The lane of the `lanes`-th ranks of all nodes from the `first` one on, each with its piece of the vector.
    fn pieces(nodes: &Nodes, first: u32, lanes: u32, all: &Pieces, among: &PlanAmong) -> Result<Self> {
        let (mut ends, mut counts) = (Vec::new(), Vec::new());
        let (mut lens, mut places) = (Vec::<u64>::new(), Vec::<u64>::new());
        for node in 0..nodes.count() {
            let ranks = nodes.members(node).iter().skip(first as usize).step_by(lanes as usize);
            let here: Vec<(u32, u64)> = ranks.map(|&rank| (rank, all.len(rank))).collect();
            for &(rank, len) in here.iter().filter(|end| end.1 > 0) {
                match (lens.last_mut(), places.last()) {
                    (Some(last), Some(at)) if *at + *last == all.start(rank) => *last += len,
                    _ => {
                        lens.push(len);
                        places.push(all.start(rank));
                    }
                }
            }
            counts.push(here.iter().map(|end| end.1).sum());
            ends.push(here);
        }
        let lane = Self::range(nodes.lane(first), among(&counts)?, 0, Pieces::given(&lens)?);
        Ok(Self { places: Some(places), ends, ..lane })
    }
}

impl Fold {
    fn memory(&self, rank: u32) -> Sizes {
        let node = self.nodes.of(rank);
        let own = || self.lanes.iter().flat_map(|lane| lane.ends(node)).find(|end| end.0 == rank);
        let mut sizes = Sizes {
            input: if self.in_place && self.gets(rank) { 0 } else { self.bytes },
            output: match self.goal {
                Goal::Pieces => own().map_or(0, |end| end.1),
                _ if self.gets(rank) => self.bytes,
                _ => 0,
            },
            work: self.copied(rank),
            land: 0,
        };
        for lane in &self.lanes {
            let carries = lane.carriers[node as usize] == rank;
            if carries || self.in_turn {
                let own = if carries { lane.plan.sizes(node) } else { Sizes::default() };
                let land = self.place(lane, node, Place::new(Region::Land, own.land));
                sizes.land = sizes.land.max(land.offset);
                sizes.work += own.work;
            }
        }
        sizes
    }
}

sketched!(Fold);
