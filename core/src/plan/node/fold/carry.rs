//! Among nodes: the steps of the carriers, and what they pass on.

use super::pass::{Fan, Pass};
use super::{Fold, Goal, Lane};
use crate::plan::partial::{Sketch, plus};
use crate::plan::{Kind, NO_COUNTER, Place, Region, Step, Wait};
use std::collections::BTreeMap;

impl Fold {
    /// The steps of a carrier among carriers, with what it waits for of its node's partial; gives what it has of the
    /// result for others: of an allreduce as it comes, where it can, and else each range when it is complete.
    pub(super) fn carry(
        &self,
        lane: &Lane,
        node: u32,
        ready: &BTreeMap<u32, Wait>,
        s: &mut Sketch,
    ) -> Vec<Fan> {
        let base = self.base(lane);
        let mut bumps = vec![0u32; lane.plan.counters(node) as usize];
        let (mut fans, mut seen) = (Vec::new(), Vec::new());
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
                if moves && self.goal == Goal::All {
                    // What is put and did not come is the carrier's own piece.
                    let wait = if arrives { Wait::once(bump) } else { s.one(round, &waits) };
                    let new = unseen(&mut seen, range).into_iter();
                    fans.extend(new.map(|range| Fan { round: step.round, range, wait }));
                } else if step.kind != Kind::Put {
                    // What is written last counts: partials may have come there before.
                    last.retain(|&(begin, end): &(u64, u64), _| end <= range.0 || begin >= range.1);
                    last.insert(range, (step.round, Wait::once(bump)));
                }
            }
        }
        if self.goal == Goal::Late || self.share(lane, node).is_some() {
            fans.extend(last.into_iter().map(|(range, (round, wait))| Fan { round, range, wait }));
        }
        for wait in fans.iter_mut().map(|fan| &mut fan.wait).filter(|wait| wait.counter != NO_COUNTER) {
            if let Some(&n) = wait.counter.checked_sub(base).and_then(|c| bumps.get(c as usize)) {
                wait.at_least = n;
            }
        }
        fans
    }

    /// What a carrier passes on within its node; to itself, if its own piece is among others.
    pub(super) fn passed(&self, lane: &Lane, node: u32, fan: &Fan) -> Vec<Pass> {
        let carrier = lane.carriers[node as usize];
        let round = self.first() + (fan.round + 1) * self.stride();
        let source = self.place(lane, node, Place::new(Region::Output, 0));
        // In a round a rank puts to one other: here to that to which its contribution would go in it.
        let further = |to| match self.in_waves() {
            true => self.nodes.distance(to, carrier),
            false => self.nodes.distance(carrier, to),
        };
        let pass = |to, (begin, end): (u64, u64), at| Pass {
            round: round + further(to),
            to,
            source: plus(source, begin),
            target: Place::new(Region::Output, at),
            len: end - begin,
        };
        let whole = |to| pass(to, fan.range, lane.begin + fan.range.0);
        match self.goal {
            Goal::Root(root) => vec![whole(root)],
            Goal::All | Goal::Late => {
                (1..self.ranks(node)).map(|distance| whole(self.nodes.neighbour(carrier, distance))).collect()
            }
            Goal::Pieces => {
                let mut start = 0;
                let piece = |(to, len): (u32, u64)| {
                    let begin = start;
                    start += len;
                    let range = (begin.max(fan.range.0), (begin + len).min(fan.range.1));
                    (range.0 < range.1).then(|| pass(to, range, range.0 - begin))
                };
                lane.ends(node).filter_map(piece).collect()
            }
        }
    }
}

fn shifted(wait: Wait, base: u32) -> Wait {
    match wait.counter {
        NO_COUNTER => Wait::NONE,
        counter => Wait { counter: base + counter, ..wait },
    }
}

/// The parts of a range that were not seen before; they are from now on.
fn unseen(seen: &mut Vec<(u64, u64)>, (mut at, end): (u64, u64)) -> Vec<(u64, u64)> {
    let mut new = Vec::new();
    let start = at;
    for &(begin, till) in seen.iter().filter(|m| m.1 > start && m.0 < end) {
        if begin > at {
            new.push((at, begin));
        }
        at = at.max(till);
    }
    if at < end {
        new.push((at, end));
    }
    seen.extend(&new);
    seen.sort_unstable();
    new
}
