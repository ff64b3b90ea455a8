//! Within a node: where things lie in its ranks' memory, and how they add up.

use super::{Fold, Goal, Lane};
use crate::plan::partial::{Sketch, plus, slot_align};
use crate::plan::{Kind, Place, Region, Side, Step, Wait};
use std::collections::BTreeMap;

impl Fold {
    /// The rank that adds up a piece on a node.
    fn handler(&self, lane: &Lane, node: u32, piece: u32) -> u32 {
        match self.in_turn {
            true => self.nodes.neighbour(lane.carriers[node as usize], piece % self.ranks(node)),
            false => lane.carriers[node as usize],
        }
    }

    /// The bytes that a rank copies to `Work` first: in place its contribution, if it is alone on its node.
    pub(super) fn copied(&self, rank: u32) -> u64 {
        let in_place = self.in_place && self.gets(rank);
        if in_place && self.ranks(self.nodes.of(rank)) == 1 { self.bytes } else { 0 }
    }

    /// Where byte `at` of the contribution of `rank` lies.
    fn contribution(&self, rank: u32, at: u64) -> Place {
        let region = match self.in_place && self.gets(rank) {
            true if self.copied(rank) > 0 => Region::Work,
            true => Region::Output,
            false => Region::Input,
        };
        Place::new(region, at)
    }

    /// Whether a node has a partial apart from contributions: of several ranks, or of pieces that do not lie together.
    fn has_partial(&self, lane: &Lane, node: u32) -> bool {
        self.ranks(node) > 1 || lane.places.is_some()
    }

    /// Where a node's partial of a range lies: at its carrier, or at its handler.
    fn partial(&self, lane: &Lane, node: u32, at: u64) -> Place {
        match self.has_partial(lane, node) {
            false => self.contribution(lane.carriers[node as usize], lane.begin + at),
            true => Place::new(Region::Land, at),
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
        let slots = u64::from(self.ranks(node).saturating_sub(2));
        match self.has_partial(lane, node) {
            false => 0,
            true => slot_align(lane.pieces.bytes()) + slots * self.slot_bytes(lane, node),
        }
    }

    /// The bytes of the share of the result that the carrier on a node has for others, if it has.
    pub(super) fn share(&self, lane: &Lane, node: u32) -> Option<u64> {
        let carrier = lane.carriers[node as usize];
        match self.goal {
            Goal::Root(root) if self.nodes.of(root) == node && carrier != root => Some(lane.pieces.bytes()),
            Goal::Pieces if lane.ends(node).any(|end| end.0 != carrier) => {
                Some(lane.ends(node).map(|end| end.1).sum())
            }
            _ => None,
        }
    }

    /// Where a place of the plan among nodes is at the carrier.
    pub(super) fn place(&self, lane: &Lane, node: u32, place: Place) -> Place {
        let shares = self.shares(lane, node);
        let share = slot_align(self.share(lane, node).unwrap_or(0));
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

    pub(super) fn base(&self, lane: &Lane) -> u32 {
        self.partial_arrival(lane, 0) + if self.in_turn { lane.pieces.parts() } else { 0 }
    }

    /// The pieces with bytes that `handler` adds up.
    fn handled(&self, lane: &Lane, handler: u32) -> Vec<u32> {
        let node = self.nodes.of(handler);
        let its = |&piece: &u32| lane.pieces.len(piece) > 0 && self.handler(lane, node, piece) == handler;
        (0..lane.pieces.parts()).filter(its).collect()
    }

    /// By piece: the round of the plan among nodes that reads it first on this node, where pieces go to their handlers one after the other.
    fn waves<'a>(&self, lane: &'a Lane, node: u32) -> &'a [u32] {
        lane.waves[node as usize].get_or_init(|| {
            let ends: Vec<u64> = (0..lane.pieces.parts()).map(|piece| lane.pieces.start(piece + 1)).collect();
            let mut waves = vec![None; ends.len()];
            let reads = |step: &Step| step.source.region == Region::Input && step.kind != Kind::Expect;
            let steps = self.in_waves().then(|| lane.plan.steps(node)).into_iter().flatten();
            for step in steps.filter(reads) {
                let (from, to) = (step.source.offset, step.source.offset + step.len);
                let first = ends.partition_point(|end| *end <= from);
                let last = ends.partition_point(|end| *end < to);
                for wave in waves.iter_mut().take(last + 1).skip(first) {
                    wave.get_or_insert(step.round);
                }
            }
            waves.into_iter().map(|wave| wave.unwrap_or(0)).collect()
        })
    }

    /// Contributions go to handlers, which add up, when this rank's is `there`; gives what to wait for, by piece.
    pub(super) fn gather(&self, lane: &Lane, rank: u32, there: Wait, s: &mut Sketch) -> BTreeMap<u32, Wait> {
        let node = self.nodes.of(rank);
        let carrier = lane.carriers[node as usize];
        // A handler hears of all others; in lanes all others put to it only.
        let distances = match self.in_turn || rank == carrier {
            true => 1..self.ranks(node),
            false => self.nodes.distance(carrier, rank)..self.nodes.distance(carrier, rank) + 1,
        };
        let waves = self.waves(lane, node);
        let wave = |piece: u32| waves[piece as usize] * self.stride();
        for distance in distances {
            // Handlers count the others from behind themselves: each puts to the rank that far before it.
            let to = self.nodes.neighbour(rank, self.ranks(node) - distance);
            let put = |rank: u32, piece: u32| {
                let source = self.contribution(rank, lane.at(piece));
                (source, self.slot(lane, node, piece, distance), lane.pieces.len(piece))
            };
            for piece in self.handled(lane, to) {
                let (source, target, len) = put(rank, piece);
                let (round, bump) = (wave(piece) + distance - 1, self.arrival(lane, piece, distance));
                s.put(round, to, source, target, len, &[there], bump);
            }
            let from = self.nodes.neighbour(rank, distance);
            for piece in self.handled(lane, rank) {
                let (source, target, len) = put(from, piece);
                let (round, bump) = (wave(piece) + distance - 1, self.arrival(lane, piece, distance));
                s.expect(round, from, source, target, len, bump);
            }
        }
        let mut ready = BTreeMap::new();
        for piece in self.handled(lane, rank) {
            let (at, len) = (lane.pieces.start(piece), lane.pieces.len(piece));
            let (own, partial) = (self.contribution(rank, lane.at(piece)), self.partial(lane, node, at));
            let mut done = there;
            if self.ranks(node) == 1 && self.has_partial(lane, node) {
                done = s.copy(0, own, partial, len, &[there]);
            }
            for distance in 1..self.ranks(node) {
                let arrived = Wait::once(self.arrival(lane, piece, distance));
                let source = match distance {
                    1 => own,
                    _ => self.slot(lane, node, piece, distance),
                };
                let (round, waits) = (wave(piece) + self.stride() - 1, [arrived, done]);
                done = s.reduce(round, Side::SourceLeft, source, partial, len, &waits);
            }
            ready.insert(piece, done);
        }
        ready
    }

    /// Handlers put what is complete to their leader.
    pub(super) fn lead(&self, lane: &Lane, rank: u32, ready: &mut BTreeMap<u32, Wait>, s: &mut Sketch) {
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
}
