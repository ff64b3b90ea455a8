//! What reduces, through carriers: a reduce or an allreduce among the nodes, made one among all ranks. For commutative
//! operators.
//!
//! The vector is cut into the pieces of the plan among nodes (if it is short, it is one). First the ranks of a node add up: each piece at its
//! *handler*, where those of the others land and are combined with its own, in the order of their distance. A
//! lane's handler is its carrier; for leaders the node's ranks take turns, piece by piece, and put what is complete
//! to the leader. So nobody combines much more than a vector. What is complete is the contribution of the node in the
//! plan among nodes, piece by piece; and of an allreduce every carrier passes on what it gets, as in
//! [`spread`](super::spread). Of a reduce in lanes the carriers on the root's node put their shares to the root.
//!
//! # Memory
//!
//! `Land` of a rank holds, one after the other: the node's partial; slots for all but one of the others' pieces; for
//! a reduce in lanes, the carrier's share of the result; and what the plan among nodes needs.
//!
//! In place the contributions lie in the output, to which results come: each depends on what was read there. A rank
//! that is alone on its node copies its contribution to `Work` first.
//!
//! # Rounds
//!
//! S−1 for contributions, S−1 for partials to leaders, then as [`spread`](super::spread) S for a round among nodes, and
//! S−1 for shares to the root. Counters: below M, the ranks of the largest node, that of the position of a sender to
//! whom nobody waits; those of contributions, by distance and piece; of partials; of shares; of the plan among nodes.

use super::{Nodes, count};
use crate::error::{Result, argument};
use crate::plan::allreduce::{doubling::Doubling, scattered::Scattered};
use crate::plan::partial::{Pieces, Sketch, check, plus, slot_align};
use crate::plan::reduce::circulant::Reduce;
use crate::plan::reduce_scatter::core::Way;
use crate::plan::{Kind, MAX_COUNTERS, NO_COUNTER, Place, Plan, Region, Side, Sizes, Step, Wait};
use std::collections::BTreeMap;

/// A reduce or an allreduce through carriers.
#[derive(Debug)]
pub struct Fold {
    name: &'static str,
    nodes: Nodes,
    lanes: Vec<Lane>,
    /// Of a reduce.
    root: Option<u32>,
    bytes: u64,
    in_place: bool,
    /// The ranks of a node take turns as handlers.
    in_turn: bool,
    /// The result of the plan among nodes is there in the end, not piece by piece.
    late: bool,
    rounds: u32,
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
}

/// What a carrier passes on within its node: the round of the plan among nodes, a range of the share, what to wait for.
struct Fan {
    round: u32,
    range: (u64, u64),
    wait: Wait,
}

impl Fold {
    /// Reduces `bytes` bytes of elements of `element` bytes to `root` through leaders, in `blocks` blocks.
    ///
    /// # Errors
    /// If there is no such root, or number of blocks, or there are no whole elements.
    pub fn reduce(
        nodes: Nodes,
        root: u32,
        (bytes, element): (u64, u64),
        blocks: u32,
        in_place: bool,
    ) -> Result<Self> {
        rooted(&nodes, root)?;
        let carriers = nodes.leaders(Some(root));
        let plan = Reduce::new(nodes.count(), nodes.of(root), bytes, element, blocks, false)?;
        let pieces = turns(&nodes, bytes, element, blocks);
        let lane = Lane { carriers, plan: Box::new(plan), begin: 0, pieces };
        Self::new("node_circulant", nodes, vec![lane], Some(root), (bytes, element), in_place)
    }

    /// The same in lanes.
    ///
    /// # Errors
    /// As [`Fold::reduce`]; or if the nodes have unequal numbers of ranks.
    pub fn reduce_lanes(
        nodes: Nodes,
        root: u32,
        (bytes, element): (u64, u64),
        blocks: u32,
        in_place: bool,
    ) -> Result<Self> {
        rooted(&nodes, root)?;
        let home = nodes.of(root);
        let lanes = Lane::all(&nodes, (bytes, element), |bytes| {
            let plan = Reduce::new(nodes.count(), home, bytes, element, blocks, false)?;
            Ok((Box::new(plan), Pieces::even(bytes, element, blocks)))
        })?;
        Self::new("lanes", nodes, lanes, Some(root), (bytes, element), in_place)
    }

    /// Reduces `bytes` bytes of elements of `element` bytes to all ranks through leaders.
    ///
    /// # Errors
    /// If there are no whole elements.
    pub fn allreduce(nodes: Nodes, (bytes, element): (u64, u64), in_place: bool) -> Result<Self> {
        let carriers = nodes.leaders(None);
        let plan = Scattered::apart(nodes.count(), bytes, element, Way::Circulant)?;
        let pieces = turns(&nodes, bytes, element, nodes.count());
        let lane = Lane { carriers, plan: Box::new(plan), begin: 0, pieces };
        Self::new("node_circulant", nodes, vec![lane], None, (bytes, element), in_place)
    }

    /// The same by recursive doubling among the leaders, for short vectors.
    ///
    /// # Errors
    /// If there are no whole elements.
    pub fn doubling(nodes: Nodes, (bytes, element): (u64, u64), in_place: bool) -> Result<Self> {
        let carriers = nodes.leaders(None);
        let plan = Doubling::apart(nodes.count(), bytes, element)?;
        let pieces = turns(&nodes, bytes, element, 1);
        let lane = Lane { carriers, plan: Box::new(plan), begin: 0, pieces };
        let fold = Self::new("node_doubling", nodes, vec![lane], None, (bytes, element), in_place)?;
        Ok(Self { late: true, ..fold })
    }

    /// The same in lanes.
    ///
    /// # Errors
    /// If there are no whole elements, or the nodes have unequal numbers of ranks.
    pub fn allreduce_lanes(nodes: Nodes, (bytes, element): (u64, u64), in_place: bool) -> Result<Self> {
        let lanes = Lane::all(&nodes, (bytes, element), |bytes| {
            let plan = Scattered::apart(nodes.count(), bytes, element, Way::Circulant)?;
            Ok((Box::new(plan), Pieces::even(bytes, element, nodes.count())))
        })?;
        Self::new("lanes", nodes, lanes, None, (bytes, element), in_place)
    }

    fn new(
        name: &'static str,
        nodes: Nodes,
        lanes: Vec<Lane>,
        root: Option<u32>,
        (bytes, element): (u64, u64),
        in_place: bool,
    ) -> Result<Self> {
        check("reduction", nodes.size(), bytes, element)?;
        let in_turn = lanes.len() == 1;
        let mut fold = Self { name, nodes, lanes, root, bytes, in_place, in_turn, late: false, rounds: 0 };
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

    /// Who adds up a piece on a node.
    fn handler(&self, lane: &Lane, node: u32, piece: u32) -> u32 {
        match self.in_turn {
            true => self.nodes.neighbour(lane.carriers[node as usize], piece % self.ranks(node)),
            false => lane.carriers[node as usize],
        }
    }

    /// The bytes that a rank copies to `Work` first: in place its contribution, if it is alone on its node.
    fn copied(&self, rank: u32) -> u64 {
        let in_place = self.in_place && self.root.is_none_or(|root| root == rank);
        if in_place && self.ranks(self.nodes.of(rank)) == 1 { self.bytes } else { 0 }
    }

    /// Where the contribution of `rank` to a range of the lane's share lies.
    fn contribution(&self, lane: &Lane, rank: u32, at: u64) -> Place {
        let in_place = self.in_place && self.root.is_none_or(|root| root == rank);
        let region = match in_place {
            true if self.copied(rank) > 0 => Region::Work,
            true => Region::Output,
            false => Region::Input,
        };
        Place::new(region, lane.begin + at)
    }

    /// Where a node's partial of a range lies: at its carrier, or at its handler.
    fn partial(&self, lane: &Lane, node: u32, at: u64) -> Place {
        match self.ranks(node) {
            1 => self.contribution(lane, lane.carriers[node as usize], at),
            _ => Place::new(Region::Land, at),
        }
    }

    /// Where a piece from `distance` behind its handler lands.
    fn slot(&self, lane: &Lane, node: u32, piece: u32, distance: u32) -> Place {
        let Some(slot) = distance.checked_sub(2) else {
            return self.partial(lane, node, lane.pieces.start(piece));
        };
        let at = match self.in_turn {
            true => u64::from(piece / self.ranks(node)) * slot_align(lane.pieces.largest()),
            false => lane.pieces.start(piece),
        };
        let begin = slot_align(lane.pieces.bytes()) + u64::from(slot) * self.slot_bytes(lane, node);
        Place::new(Region::Land, begin + at)
    }

    fn slot_bytes(&self, lane: &Lane, node: u32) -> u64 {
        let turns = lane.pieces.parts().div_ceil(self.ranks(node));
        match self.in_turn {
            true => u64::from(turns) * slot_align(lane.pieces.largest()),
            false => slot_align(lane.pieces.bytes()),
        }
    }

    /// The end of the slots in `Land`: there a carrier's share of the result lies, where it has one to put on.
    fn shares(&self, lane: &Lane, node: u32) -> u64 {
        match self.ranks(node) {
            1 => 0,
            ranks => slot_align(lane.pieces.bytes()) + u64::from(ranks - 2) * self.slot_bytes(lane, node),
        }
    }

    /// Whether the carrier on a node has a share of the result for the root.
    fn has_share(&self, lane: &Lane, node: u32) -> bool {
        self.root.is_some_and(|root| self.nodes.of(root) == node && lane.carriers[node as usize] != root)
    }

    /// Where a place of the plan among nodes is at the carrier.
    fn place(&self, lane: &Lane, node: u32, place: Place) -> Place {
        let (shares, len) = (self.shares(lane, node), slot_align(lane.pieces.bytes()));
        let share = if self.has_share(lane, node) { len } else { 0 };
        match place.region {
            Region::Input => self.partial(lane, node, place.offset),
            Region::Output if share > 0 => plus(Place::new(Region::Land, shares), place.offset),
            Region::Output => plus(place, lane.begin),
            Region::Work => plus(place, self.copied(lane.carriers[node as usize])),
            Region::Land => plus(place, shares + share),
        }
    }

    /// Counters of a piece from `distance` behind its handler, of a partial, of a share, and of the plan among nodes.
    fn arrival(&self, lane: &Lane, piece: u32, distance: u32) -> u32 {
        self.nodes.most() + (distance - 1) * lane.pieces.parts() + piece
    }

    fn partial_arrival(&self, lane: &Lane, piece: u32) -> u32 {
        self.arrival(lane, piece, self.nodes.most())
    }

    fn base(&self, lane: &Lane) -> u32 {
        self.partial_arrival(lane, 0) + if self.in_turn { lane.pieces.parts() } else { 0 }
    }

    /// The pieces with bytes that `handler` adds up.
    fn handled(&self, lane: &Lane, handler: u32) -> Vec<u32> {
        let node = self.nodes.of(handler);
        let its = |&piece: &u32| lane.pieces.len(piece) > 0 && self.handler(lane, node, piece) == handler;
        (0..lane.pieces.parts()).filter(its).collect()
    }

    /// Contributions go to handlers, who add up; gives what to wait for, by piece.
    fn gather(&self, lane: &Lane, rank: u32, s: &mut Sketch) -> BTreeMap<u32, Wait> {
        let node = self.nodes.of(rank);
        let carrier = lane.carriers[node as usize];
        // A handler hears of all others; in lanes all others put to it only.
        let distances = match self.in_turn || rank == carrier {
            true => 1..self.ranks(node),
            false => self.nodes.distance(carrier, rank)..self.nodes.distance(carrier, rank) + 1,
        };
        for distance in distances {
            // Handlers count the others from behind themselves: who puts to the rank that far before it.
            let to = self.nodes.neighbour(rank, self.ranks(node) - distance);
            let put = |rank: u32, piece: u32| {
                let at = lane.pieces.start(piece);
                let source = self.contribution(lane, rank, at);
                (source, self.slot(lane, node, piece, distance), lane.pieces.len(piece))
            };
            for piece in self.handled(lane, to) {
                let (source, target, len) = put(rank, piece);
                s.put(distance - 1, to, source, target, len, &[], self.arrival(lane, piece, distance));
            }
            let from = self.nodes.neighbour(rank, distance);
            for piece in self.handled(lane, rank) {
                let (source, target, len) = put(from, piece);
                s.expect(distance - 1, from, source, target, len, self.arrival(lane, piece, distance));
            }
        }
        let mut ready = BTreeMap::new();
        for piece in self.handled(lane, rank) {
            let (at, len) = (lane.pieces.start(piece), lane.pieces.len(piece));
            let (own, partial) = (self.contribution(lane, rank, at), self.partial(lane, node, at));
            let mut done = Wait::NONE;
            for distance in 1..self.ranks(node) {
                let arrived = Wait::once(self.arrival(lane, piece, distance));
                let source = match distance {
                    1 => own,
                    _ => self.slot(lane, node, piece, distance),
                };
                let waits = [arrived, done];
                done = s.reduce(self.stride() - 1, Side::SourceLeft, source, partial, len, &waits);
            }
            ready.insert(piece, done);
        }
        ready
    }

    /// Handlers put what is complete to their leader.
    fn lead(&self, lane: &Lane, rank: u32, ready: &mut BTreeMap<u32, Wait>, s: &mut Sketch) {
        let node = self.nodes.of(rank);
        let carrier = lane.carriers[node as usize];
        for distance in 1..self.ranks(node) {
            let handler = self.nodes.neighbour(carrier, distance);
            let round = self.stride() + distance - 2;
            for piece in
                self.handled(lane, handler).into_iter().filter(|_| [carrier, handler].contains(&rank))
            {
                let place = self.partial(lane, node, lane.pieces.start(piece));
                let (len, counter) = (lane.pieces.len(piece), self.partial_arrival(lane, piece));
                if rank == handler {
                    let waits = [ready.get(&piece).copied().unwrap_or(Wait::NONE)];
                    s.put(round, carrier, place, place, len, &waits, counter);
                } else {
                    s.expect(round, handler, place, place, len, counter);
                    ready.insert(piece, Wait::once(counter));
                }
            }
        }
    }

    /// The steps of a carrier among carriers, with what it waits for of its node's partial; gives what it has of the
    /// result for others: of an allreduce as it comes, where it can, and else in the end.
    fn carry(&self, lane: &Lane, node: u32, ready: &BTreeMap<u32, Wait>, s: &mut Sketch) -> Vec<Fan> {
        let base = self.base(lane);
        let mut bumps = vec![0u32; lane.plan.counters(node) as usize];
        let (mut fans, mut met) = (Vec::new(), Vec::new());
        let mut last = BTreeMap::new();
        let ready: Vec<(u64, u64, Wait)> = ready
            .iter()
            .map(|(&piece, &wait)| (lane.pieces.start(piece), lane.pieces.start(piece + 1), wait))
            .collect();
        for step in lane.plan.steps(node) {
            let round = self.first() + step.round * self.stride();
            let mut waits: Vec<Wait> = step.waits.map(|wait| shifted(wait, base)).to_vec();
            let (from, to) = (step.source.offset, step.source.offset + step.len);
            let arrives = step.kind == Kind::Expect;
            if step.source.region == Region::Input && !arrives {
                let first = ready.partition_point(|piece| piece.1 <= from);
                waits.extend(ready[first..].iter().take_while(|piece| piece.0 < to).map(|piece| piece.2));
            }
            let (sender, receiver) = match step.kind {
                Kind::Put => (node, step.peer),
                Kind::Expect => (step.peer, node),
                _ => (node, node),
            };
            let peer = if step.kind.is_local() { 0 } else { lane.carriers[step.peer as usize] };
            let source = self.place(lane, sender, step.source);
            let target = self.place(lane, receiver, step.target);
            let bump = if step.bump == NO_COUNTER { NO_COUNTER } else { base + step.bump };
            let waits = s.both(round, &waits);
            s.steps.push(Step { peer, source, target, round, waits, bump, ..step });
            if !matches!(step.kind, Kind::Put | Kind::Notify) && step.bump != NO_COUNTER {
                bumps[step.bump as usize] += 1;
            }
            let moves = matches!(step.kind, Kind::Put | Kind::Expect);
            let place = if step.kind == Kind::Put { step.source } else { step.target };
            if place.region == Region::Output && step.len > 0 {
                let range = (place.offset, place.offset + step.len);
                if moves && self.root.is_none() && !self.late {
                    // What is put and did not come is the carrier's own piece.
                    let wait = if arrives { Wait::once(bump) } else { s.one(round, &waits) };
                    let new = unmet(&mut met, range).into_iter();
                    fans.extend(new.map(|range| Fan { round: step.round, range, wait }));
                } else if !moves || arrives && self.late {
                    last.insert(range, Wait::once(bump));
                }
            }
        }
        for wait in fans.iter_mut().map(|fan| &mut fan.wait).filter(|wait| wait.counter != NO_COUNTER) {
            if let Some(&n) = wait.counter.checked_sub(base).and_then(|c| bumps.get(c as usize)) {
                wait.at_least = n;
            }
        }
        if self.late || self.has_share(lane, node) {
            let round = lane.plan.rounds();
            fans.extend(last.into_iter().map(|(range, wait)| Fan { round, range, wait }));
        }
        fans
    }

    /// What a carrier puts to others of its node: (round, to, source, range).
    fn passed(&self, lane: &Lane, node: u32, fan: &Fan) -> Vec<(u32, u32, Place, (u64, u64))> {
        let carrier = lane.carriers[node as usize];
        let round = self.first() + (fan.round + 1) * self.stride();
        let source = self.place(lane, node, Place::new(Region::Output, fan.range.0));
        let to = |distance| self.nodes.neighbour(carrier, distance);
        (1..self.ranks(node))
            .filter(|&distance| self.root.is_none_or(|root| root == to(distance)))
            .map(|distance| (round + distance, to(distance), source, fan.range))
            .collect()
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let node = self.nodes.of(rank);
        let carried = self.lanes.iter().find(|lane| lane.carriers[node as usize] == rank);
        let own = carried.or(self.lanes.first());
        let mut s = Sketch::new(own.map_or(0, |lane| {
            self.base(lane) + if carried.is_some() { lane.plan.counters(node) } else { 0 }
        }));
        if self.bytes == 0 {
            return s;
        }
        let mut alone = Wait::NONE;
        if self.copied(rank) > 0 {
            let [from, to] = [Region::Output, Region::Work].map(|region| Place::new(region, 0));
            alone = s.copy(0, from, to, self.bytes, &[]);
        }
        for lane in &self.lanes {
            let carrier = lane.carriers[node as usize];
            let mut ready = self.gather(lane, rank, &mut s);
            if self.in_turn {
                self.lead(lane, rank, &mut ready, &mut s);
            }
            if alone != Wait::NONE {
                ready.values_mut().for_each(|wait| *wait = alone);
            }
            if carrier == rank {
                for fan in self.carry(lane, node, &ready, &mut s) {
                    for (round, to, source, (begin, end)) in self.passed(lane, node, &fan) {
                        let target = Place::new(Region::Output, lane.begin + begin);
                        let bump = self.nodes.position(rank);
                        s.put(round, to, source, target, end - begin, &[fan.wait], bump);
                    }
                }
            } else if self.root.is_none_or(|root| root == rank) {
                for fan in self.carry(lane, node, &BTreeMap::new(), &mut Sketch::new(0)) {
                    let all = self.passed(lane, node, &fan);
                    for (round, _, source, (begin, end)) in all.into_iter().filter(|pass| pass.1 == rank) {
                        let target = Place::new(Region::Output, lane.begin + begin);
                        s.expect(round, carrier, source, target, end - begin, self.nodes.position(carrier));
                    }
                }
            }
        }
        s.by_rounds();
        s
    }
}

/// Below this many bytes the leader adds up all by itself.
pub(crate) const ALONE: u64 = 16 << 10;

/// The pieces of which a node's ranks take turns: as the plan among nodes has them, and at least one for each rank.
fn turns(nodes: &Nodes, bytes: u64, element: u64, blocks: u32) -> Pieces {
    let parts = if bytes < ALONE { 1 } else { blocks.max(nodes.most()) };
    Pieces::even(bytes, element, parts)
}

fn shifted(wait: Wait, base: u32) -> Wait {
    match wait.counter {
        NO_COUNTER => Wait::NONE,
        counter => Wait { counter: base + counter, ..wait },
    }
}

/// The parts of a range that were not met before; they are from now on.
fn unmet(met: &mut Vec<(u64, u64)>, (mut at, end): (u64, u64)) -> Vec<(u64, u64)> {
    let mut new = Vec::new();
    let start = at;
    for &(begin, till) in met.iter().filter(|m| m.1 > start && m.0 < end) {
        if begin > at {
            new.push((at, begin));
        }
        at = at.max(till);
    }
    if at < end {
        new.push((at, end));
    }
    met.extend(&new);
    met.sort_unstable();
    new
}

fn rooted(nodes: &Nodes, root: u32) -> Result<()> {
    match root < nodes.size() {
        true => Ok(()),
        false => Err(argument(format!("reduce to rank {root} of {}", nodes.size()))),
    }
}

impl Lane {
    /// A lane for every position on the nodes.
    fn all(
        nodes: &Nodes,
        (bytes, element): (u64, u64),
        plan: impl Fn(u64) -> Result<(Box<dyn Plan>, Pieces)>,
    ) -> Result<Vec<Self>> {
        check("reduction", nodes.size(), bytes, element)?;
        let shares = Pieces::even(bytes, element, nodes.each()?);
        let lane = |position| {
            let (plan, pieces) = plan(shares.len(position))?;
            Ok(Self { carriers: nodes.lane(position), plan, begin: shares.start(position), pieces })
        };
        (0..shares.parts()).map(lane).collect()
    }
}

impl Plan for Fold {
    fn algorithm(&self) -> &'static str {
        self.name
    }

    fn size(&self) -> u32 {
        self.nodes.size()
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let node = self.nodes.of(rank);
        let gets = self.root.is_none_or(|root| root == rank);
        let mut sizes = Sizes {
            input: if self.in_place && gets { 0 } else { self.bytes },
            output: if gets { self.bytes } else { 0 },
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

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
