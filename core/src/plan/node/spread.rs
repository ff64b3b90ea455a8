//! What spreads bytes and adds nothing, through carriers: any broadcast or allgatherv among the nodes, made one among
//! all ranks.
//!
//! A lane is a plan among nodes and a *string* of bytes, in which everything that its carriers move lies in the order
//! of nodes. The plan moves ranges of the string in place, from rank to rank; here they are moved between carriers as
//! the *pieces* that they consist of, each straight between its places in the outputs. So a node's contribution is
//! that of its ranks wherever they lie, and nothing is packed.
//!
//! # Rounds
//!
//! First a rank puts its contribution to the others of its node, one position further in each round; the root of a broadcast puts a block
//! S rounds later for each round of the plan before the one that uses it first. To the carrier it
//! goes in pieces cut where the plan cuts its blocks, each a counter; others need nothing but the bytes. Round i of
//! the plan then is round A + iS, S the ranks of the largest node, and what a carrier first gets or has there
//! (it arrives, or is of its own node and is put) goes to the x-th rank behind the carrier in round A + (i+1)S + x:
//! after what is passed on to other nodes in the plan's next round.
//!
//! A plan that others wait for piece by piece (`Spread::among`) has a counter for each piece that is passed on, too, behind all others.
//!
//! Counters: below M, the ranks of the largest node, that of the position of a sender of the node that no rank waits for;
//! then those of the pieces that come to a carrier, then those of its plan among nodes.

use super::{Nodes, count, sketched};
use crate::error::{Result, argument};
use crate::plan::allgatherv::circulant::{Allgatherv, Blocks};
use crate::plan::allgatherv::extent;
use crate::plan::bcast::circulant::Bcast;
use crate::plan::partial::Sketch;
use crate::plan::split::Split;
use crate::plan::{Kind, MAX_COUNTERS, NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use std::collections::HashMap;

/// Makes the plan of a lane among nodes, of the counts and displacements of its ranks.
type GatherAmong<'a> = dyn Fn(&[u64], &[u64]) -> Result<Among> + 'a;

/// A broadcast or an allgather(v) through carriers.
#[derive(Debug)]
pub(crate) struct Spread {
    name: &'static str,
    nodes: Nodes,
    lanes: Vec<Lane>,
    /// Contributions lie in the output.
    in_place: bool,
    /// Which rank puts a contribution to the others of its node: its owner, or the carriers.
    by_owner: bool,
    /// By rank: the bytes it contributes, and where they go; nothing for a broadcast.
    own: Vec<(u64, u64)>,
    output: u64,
    /// The rounds before the first of the plans among nodes; and all.
    first: u32,
    rounds: u32,
    /// By node, by lane: how many pieces the lanes before it pass on; and all. Nothing: no rank waits for these.
    counted: Option<Vec<Vec<u32>>>,
}

/// A plan among nodes that moves bytes of a string in their place, and where it cuts that.
pub(crate) struct Among {
    plan: Box<dyn Plan>,
    cuts: Vec<u64>,
}

impl Among {
    /// A broadcast on the circulant graph.
    pub(crate) fn bcast(nodes: u32, root: u32, bytes: u64, blocks: u32) -> Result<Self> {
        let plan = Bcast::new(nodes, root, bytes, blocks)?;
        let split = Split::new(bytes, plan.blocks());
        let cuts = (0..plan.blocks()).map(|b| split.start(b)).collect();
        Ok(Self { plan: Box::new(plan), cuts })
    }

    /// An allgatherv on the circulant graph.
    pub(crate) fn allgatherv(counts: &[u64], displs: &[u64], blocks: &Blocks) -> Result<Self> {
        let plan = Allgatherv::new(counts, displs, blocks, true)?;
        let cuts = plan.cuts();
        Ok(Self { plan: Box::new(plan), cuts })
    }
}

/// A plan among carriers.
#[derive(Debug)]
struct Lane {
    /// By node.
    carriers: Vec<u32>,
    plan: Box<dyn Plan>,
    string: Vec<Part>,
    /// By node: the first of its parts; and the number of parts.
    parts: Vec<usize>,
    /// By node: in how many pieces its parts come to the carrier.
    pieces: Vec<u32>,
    /// Where the plan cuts the string, ascending.
    cuts: Vec<u64>,
}

/// What one rank contributes to a string; or a piece of that.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Where it begins in the string.
    start: u64,
    len: u64,
    owner: u32,
    /// Where it begins in the owner's contribution, and in the outputs.
    input: u64,
    output: u64,
}

impl Part {
    /// The part of it in a range of the string.
    fn within(&self, begin: u64, end: u64) -> Option<Self> {
        let (from, to) = (begin.max(self.start), end.min(self.start + self.len));
        let further = from.checked_sub(self.start)?;
        let len = to.checked_sub(from).filter(|&len| len > 0)?;
        Some(Self { start: from, len, input: self.input + further, output: self.output + further, ..*self })
    }
}

impl Lane {
    /// `string` is in the order of the nodes of its owners, without gaps.
    fn new(nodes: &Nodes, carriers: Vec<u32>, among: Among, string: Vec<Part>) -> Self {
        let Among { plan, cuts } = among;
        let parts =
            (0..=nodes.count()).map(|node| string.partition_point(|part| nodes.of(part.owner) < node));
        let parts = parts.collect();
        let mut lane = Self { carriers, plan, string, parts, pieces: Vec::new(), cuts };
        lane.pieces = (0..nodes.count()).map(|node| count(lane.home(node).count())).collect();
        lane
    }

    /// The pieces of a range of the string.
    fn range(&self, begin: u64, end: u64) -> impl Iterator<Item = Part> + '_ {
        let first = self.string.partition_point(|part| part.start + part.len <= begin);
        let parts = self.string[first..].iter().take_while(move |part| part.start < end);
        parts.filter_map(move |part| part.within(begin, end))
    }

    /// The parts of a node's ranks.
    fn parts(&self, node: u32) -> &[Part] {
        &self.string[self.parts[node as usize]..self.parts[node as usize + 1]]
    }

    /// The same, cut where the plan cuts the string.
    fn home(&self, node: u32) -> impl Iterator<Item = Part> + '_ {
        self.parts(node).iter().flat_map(|part| {
            let first = self.cuts.partition_point(|&cut| cut <= part.start);
            let inner = self.cuts[first..].iter().take_while(|&&cut| cut < part.start + part.len);
            let begins = std::iter::once(part.start).chain(inner.clone().copied());
            let ends = inner.copied().chain(std::iter::once(part.start + part.len));
            begins.zip(ends).filter_map(|(begin, end)| part.within(begin, end))
        })
    }
}

/// What a carrier passes on within its node.
struct Fan {
    /// The round of the plan among nodes in which it is first used.
    round: u32,
    piece: Part,
    wait: Wait,
}

impl Spread {
    /// A broadcast of `bytes` bytes from `root` through leaders, in `blocks` blocks on the circulant graph.
    ///
    /// # Errors
    /// If there is no such root, or number of blocks.
    pub(crate) fn bcast(nodes: Nodes, root: u32, bytes: u64, blocks: u32) -> Result<Self> {
        rooted(&nodes, root)?;
        let among = Among::bcast(nodes.count(), nodes.of(root), bytes, blocks)?;
        let carriers = nodes.leaders(Some(root));
        let lane = Lane::of_root(&nodes, carriers, root, (0, bytes), among);
        Self::new("node_circulant", nodes, vec![lane], true, false, Vec::new(), bytes)
    }

    /// The same in lanes, as many as the smallest node has carriers, each a contiguous share of the message by a broadcast `among` nodes
    /// of this number, root and length. `carries`: the root is a carrier like others; else it gives all to those of its node, if it has any.
    ///
    /// # Errors
    /// If there is no such root, or broadcast.
    pub(crate) fn bcast_lanes(
        name: &'static str,
        nodes: Nodes,
        (root, carries): (u32, bool),
        bytes: u64,
        among: &dyn Fn(u32, u32, u64) -> Result<Among>,
    ) -> Result<Self> {
        rooted(&nodes, root)?;
        let carriers = nodes.lanes((!carries).then_some(root));
        let shares = Split::new(bytes, count(carriers.len()));
        let mut lanes = Vec::with_capacity(shares.blocks() as usize);
        for (share, carriers) in (0..shares.blocks()).map(|position| shares.block(position)).zip(carriers) {
            let among = among(nodes.count(), nodes.of(root), share.1)?;
            lanes.push(Lane::of_root(&nodes, carriers, root, share, among));
        }
        Self::new(name, nodes, lanes, true, false, Vec::new(), bytes)
    }

    /// An allgatherv through leaders: irregular among nodes, `blocks` says in how many blocks a node's bytes.
    ///
    /// # Errors
    /// If counts and displacements do not fit each other or the nodes, or there are too many blocks.
    pub(crate) fn allgatherv(
        nodes: Nodes,
        counts: &[u64],
        displs: &[u64],
        blocks: &Blocks,
        in_place: bool,
    ) -> Result<Self> {
        let (own, output) = contributions(&nodes, counts, displs)?;
        let among = |counts: &[u64], displs: &[u64]| Among::allgatherv(counts, displs, blocks);
        let lane = Lane::of_all(&nodes, nodes.leaders(None), &own, &among, |_| true)?;
        Self::new("node_circulant", nodes, vec![lane], in_place, true, own, output)
    }

    /// The same in lanes, as many as the smallest node has ranks: every rank's contribution goes to the ranks at its position on the
    /// other nodes, by an allgatherv `among` these of such counts and displacements. Where nodes have more ranks some share a lane.
    ///
    /// # Errors
    /// As [`Spread::allgatherv`].
    pub(crate) fn allgatherv_lanes(
        name: &'static str,
        nodes: Nodes,
        counts: &[u64],
        displs: &[u64],
        among: &GatherAmong<'_>,
        in_place: bool,
    ) -> Result<Self> {
        let (own, output) = contributions(&nodes, counts, displs)?;
        let mut lanes = Vec::new();
        for position in 0..nodes.least() {
            let here = |rank| nodes.position(rank) % nodes.least() == position;
            lanes.push(Lane::of_all(&nodes, nodes.lane(position), &own, among, here)?);
        }
        Self::new(name, nodes, lanes, in_place, true, own, output)
    }

    fn new(
        name: &'static str,
        nodes: Nodes,
        lanes: Vec<Lane>,
        in_place: bool,
        by_owner: bool,
        own: Vec<(u64, u64)>,
        output: u64,
    ) -> Result<Self> {
        let mut plan =
            Self { name, nodes, lanes, in_place, by_owner, own, output, first: 0, rounds: 0, counted: None };
        let comes_home = |lane: &Lane| {
            let carried = |part: &Part| lane.carriers[plan.nodes.of(part.owner) as usize] == part.owner;
            !lane.string.iter().all(carried)
        };
        if plan.lanes.iter().any(comes_home) {
            plan.first = plan.stride() - 1;
        }
        let most = plan.lanes.iter().map(|lane| lane.plan.rounds()).max().unwrap_or(0);
        let rounds = most.checked_add(1).and_then(|rounds| rounds.checked_mul(plan.stride()));
        let rounds = rounds.and_then(|rounds| rounds.checked_add(plan.first));
        plan.rounds = rounds.ok_or_else(|| argument("more than 2^32 rounds").help("use fewer blocks"))?;
        for lane in &plan.lanes {
            for node in 0..plan.nodes.count() {
                let counters = u64::from(plan.base(lane, node)) + u64::from(lane.plan.counters(node));
                if counters > u64::from(MAX_COUNTERS / 2) {
                    return Err(argument(format!("{counters} blocks in all")).help("use fewer blocks"));
                }
            }
        }
        Ok(plan)
    }

    /// For use among the nodes that are its ranks: it is in place, and what is passed on is counted.
    pub(crate) fn among(mut self) -> Among {
        let starts = |lane: &Lane, node| lane.home(node).map(|piece| piece.output).collect::<Vec<_>>();
        let nodes = || 0..self.nodes.count();
        let mut cuts: Vec<u64> =
            self.lanes.iter().flat_map(|lane| nodes().flat_map(|node| starts(lane, node))).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let of_node = |node| {
            let mut end = 0;
            let fans = |lane| {
                end += count(self.carry(lane, node, &mut Sketch::new(0)).len());
                end
            };
            std::iter::once(0).chain(self.lanes.iter().map(fans)).collect()
        };
        self.counted = Some(nodes().map(of_node).collect());
        Among { plan: Box::new(self), cuts }
    }

    /// The counters of a rank but for those of what is passed on to it.
    fn counters_of(&self, rank: u32) -> u32 {
        let node = self.nodes.of(rank);
        let carried = self.lanes.iter().find(|lane| lane.carriers[node as usize] == rank);
        carried.map_or(self.nodes.most(), |lane| self.base(lane, node) + lane.plan.counters(node))
    }

    /// The counter at `to` of what the carrier of a lane passes on.
    fn passes(&self, lane: usize, carrier: u32, to: u32, fan: usize) -> u32 {
        match &self.counted {
            None => self.nodes.position(carrier),
            Some(before) => self.counters_of(to) + before[self.nodes.of(to) as usize][lane] + count(fan),
        }
    }

    /// S, the rounds for one of the plans among nodes.
    fn stride(&self) -> u32 {
        self.nodes.most()
    }

    /// The first counter of the plan among nodes.
    fn base(&self, lane: &Lane, node: u32) -> u32 {
        self.nodes.most() + lane.pieces[node as usize]
    }

    /// Where `rank` has a piece.
    fn source(&self, rank: u32, piece: &Part) -> Place {
        match piece.owner == rank && !self.in_place {
            true => Place::new(Region::Input, piece.input),
            false => target(piece),
        }
    }

    /// What `owner` puts to `to` of its node at first, with counters.
    fn home(&self, lane: &Lane, owner: u32, to: u32) -> Vec<(Part, u32)> {
        let node = self.nodes.of(owner);
        let carrier = lane.carriers[node as usize];
        let whole = || lane.parts(node).iter().map(|part| (*part, self.nodes.position(owner)));
        let all: Vec<(Part, u32)> = match () {
            () if owner == carrier => Vec::new(),
            () if to == carrier => lane.home(node).zip(self.nodes.most()..).collect(),
            () if self.by_owner => whole().collect(),
            () => Vec::new(),
        };
        all.into_iter().filter(|(part, _)| part.owner == owner).collect()
    }

    /// The steps of a carrier among carriers, and what it passes on.
    fn carry(&self, lane: &Lane, node: u32, s: &mut Sketch) -> Vec<Fan> {
        let (me, base) = (lane.carriers[node as usize], self.base(lane, node));
        // The node's own pieces, what to wait for, and whether they were seen.
        let arrived = |(piece, counter): (Part, u32)| match piece.owner == me {
            true => (piece, Wait::NONE, false),
            false => (piece, Wait::once(counter), false),
        };
        let mut own: Vec<_> = lane.home(node).zip(self.nodes.most()..).map(arrived).collect();
        let mut bumps = vec![0u32; lane.plan.counters(node) as usize];
        let mut fans = Vec::new();
        for step in lane.plan.steps(node) {
            let round = self.first + step.round * self.stride();
            let waits = step.waits.map(|wait| match bumps.get(wait.counter as usize) {
                Some(&at_least) if wait.counter != NO_COUNTER => {
                    Wait { counter: base + wait.counter, at_least }
                }
                _ => Wait::NONE,
            });
            let pieces = lane.range(step.source.offset, step.source.offset + step.len);
            match step.kind {
                Kind::Put => {
                    let peer = lane.carriers[step.peer as usize];
                    let bump = self.base(lane, step.peer) + step.bump;
                    for piece in pieces {
                        let end = piece.start + piece.len;
                        let first = own.partition_point(|(own, ..)| own.start + own.len <= piece.start);
                        let mut waits = waits.to_vec();
                        for (own, wait, seen) in own[first..].iter_mut().take_while(|own| own.0.start < end) {
                            waits.push(*wait);
                            if !std::mem::replace(seen, true) {
                                fans.push(Fan { round: step.round, piece: *own, wait: *wait });
                            }
                        }
                        let source = self.source(me, &piece);
                        s.put(round, peer, source, target(&piece), piece.len, &waits, bump);
                    }
                }
                Kind::Expect => {
                    let peer = lane.carriers[step.peer as usize];
                    for piece in pieces {
                        let source = self.source(peer, &piece);
                        s.expect(round, peer, source, target(&piece), piece.len, base + step.bump);
                        bumps[step.bump as usize] += 1;
                        let wait = Wait { counter: base + step.bump, at_least: 0 };
                        fans.push(Fan { round: step.round, piece, wait });
                    }
                }
                // Joins; nothing else is in plans that move what lies in its place.
                _ => {
                    s.steps.push(Step::join(round, waits, base + step.bump));
                    bumps[step.bump as usize] += 1;
                }
            }
        }
        let last = lane.plan.rounds().saturating_sub(1);
        let rest = own.into_iter().filter(|own| !own.2);
        fans.extend(rest.map(|(piece, wait, _)| Fan { round: last, piece, wait }));
        for wait in fans.iter_mut().map(|fan| &mut fan.wait).filter(|wait| wait.counter != NO_COUNTER) {
            let bumps = wait.counter.checked_sub(base).and_then(|c| bumps.get(c as usize));
            wait.at_least = bumps.copied().unwrap_or(1);
        }
        fans
    }

    /// Whether `to` gets a piece from the carrier of its node.
    fn is_passed(&self, carrier: u32, piece: &Part, to: u32) -> bool {
        let at_home = self.nodes.of(piece.owner) == self.nodes.of(carrier);
        to != piece.owner && !(at_home && self.by_owner && piece.owner != carrier)
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let node = self.nodes.of(rank);
        let passed = self.counted.as_ref().and_then(|before| before[node as usize].last());
        let mut s = Sketch::new(self.counters_of(rank) + passed.copied().unwrap_or(0));
        let comes_home = |lane: &&Lane| {
            let carrier = lane.carriers[node as usize];
            lane.parts(node).iter().any(|part| part.owner != carrier)
        };
        for lane in self.lanes.iter().filter(comes_home) {
            let wave = self.waves(lane, node);
            for further in 1..count(self.nodes.members(node).len()) {
                let to = self.nodes.neighbour(rank, further);
                for (part, bump) in self.home(lane, rank, to) {
                    let source = self.source(rank, &part);
                    s.put(wave(&part) + further - 1, to, source, target(&part), part.len, &[], bump);
                }
                let round = self.nodes.distance(to, rank) - 1;
                for (part, bump) in self.home(lane, to, rank) {
                    s.expect(wave(&part) + round, to, self.source(to, &part), target(&part), part.len, bump);
                }
            }
        }
        for (number, lane) in self.lanes.iter().enumerate() {
            let carrier = lane.carriers[node as usize];
            if carrier == rank {
                let fans = self.carry(lane, node, &mut s);
                self.fan(&mut s, number, rank, &fans);
            } else {
                self.receive(&mut s, number, rank, carrier);
            }
        }
        if let Some(&(len @ 1.., displ)) = self.own.get(rank as usize).filter(|_| !self.in_place) {
            let (from, to) = (Place::new(Region::Input, 0), Place::new(Region::Output, displ));
            s.steps.push(Step::copy(self.rounds - 1, from, to, len, [Wait::NONE; 2], NO_COUNTER));
        }
        s.by_rounds();
        s
    }

    /// How much later than in the first rounds a piece goes to its carrier: of a broadcast the root puts to all carriers what they use first,
    /// then what they use next.
    fn waves(&self, lane: &Lane, node: u32) -> impl Fn(&Part) -> u32 + use<> {
        let used = match self.by_owner {
            true => Vec::new(),
            false => self.carry(lane, node, &mut Sketch::new(0)),
        };
        let at_home = |fan: &Fan| self.nodes.of(fan.piece.owner) == node;
        let rounds = used.iter().filter(|fan| at_home(fan));
        let rounds: HashMap<u64, u32> =
            rounds.map(|fan| (fan.piece.start, fan.round * self.stride())).collect();
        move |part| rounds.get(&part.start).copied().unwrap_or(0)
    }

    /// The puts of a carrier within its node.
    fn fan(&self, s: &mut Sketch, lane: usize, carrier: u32, fans: &[Fan]) {
        for (number, fan) in fans.iter().enumerate() {
            let round = self.first + (fan.round + 1) * self.stride();
            for further in 1..count(self.nodes.members(self.nodes.of(carrier)).len()) {
                let to = self.nodes.neighbour(carrier, further);
                if self.is_passed(carrier, &fan.piece, to) {
                    let (source, target) = (self.source(carrier, &fan.piece), target(&fan.piece));
                    let bump = self.passes(lane, carrier, to, number);
                    s.put(round + further, to, source, target, fan.piece.len, &[fan.wait], bump);
                }
            }
        }
    }

    /// Their mirror at `rank`.
    fn receive(&self, s: &mut Sketch, lane: usize, rank: u32, carrier: u32) {
        let fans = self.carry(&self.lanes[lane], self.nodes.of(rank), &mut Sketch::new(0));
        let further = self.nodes.distance(carrier, rank);
        for (number, fan) in fans.iter().enumerate() {
            if !self.is_passed(carrier, &fan.piece, rank) {
                continue;
            }
            let round = self.first + (fan.round + 1) * self.stride() + further;
            let (source, target) = (self.source(carrier, &fan.piece), target(&fan.piece));
            let bump = self.passes(lane, carrier, rank, number);
            s.expect(round, carrier, source, target, fan.piece.len, bump);
        }
    }
}

/// Where a piece goes, at every rank.
fn target(piece: &Part) -> Place {
    Place::new(Region::Output, piece.output)
}

fn rooted(nodes: &Nodes, root: u32) -> Result<()> {
    match root < nodes.size() {
        true => Ok(()),
        false => Err(argument(format!("root {root} is not one of the {} ranks", nodes.size()))),
    }
}

/// By rank: its bytes and where they go; and the length of the output.
fn contributions(nodes: &Nodes, counts: &[u64], displs: &[u64]) -> Result<(Vec<(u64, u64)>, u64)> {
    let output = extent(counts, displs)?;
    if counts.len() != nodes.size() as usize {
        return Err(argument(format!("the nodes of {} ranks, of {}", nodes.size(), counts.len())));
    }
    Ok((counts.iter().copied().zip(displs.iter().copied()).collect(), output))
}

impl Lane {
    /// A lane of a share (offset, length) of the root's message.
    fn of_root(
        nodes: &Nodes,
        carriers: Vec<u32>,
        root: u32,
        (output, len): (u64, u64),
        among: Among,
    ) -> Self {
        let string = vec![Part { start: 0, len, owner: root, input: 0, output }];
        Self::new(nodes, carriers, among, string)
    }

    /// A lane of contributions (length, place) of the ranks that are `here`.
    fn of_all(
        nodes: &Nodes,
        carriers: Vec<u32>,
        own: &[(u64, u64)],
        among: &GatherAmong<'_>,
        here: impl Fn(u32) -> bool,
    ) -> Result<Self> {
        let (mut string, mut start) = (Vec::new(), 0);
        let (mut counts, mut displs) = (Vec::new(), Vec::new());
        for node in 0..nodes.count() {
            displs.push(start);
            for &owner in nodes.members(node).iter().filter(|&&rank| here(rank)) {
                let (len, output) = own[owner as usize];
                if len > 0 {
                    string.push(Part { start, len, owner, input: 0, output });
                }
                // The contributions do not overlap in an output of less than 2^64 bytes.
                start += len;
            }
            counts.push(start - displs[node as usize]);
        }
        Ok(Self::new(nodes, carriers, among(&counts, &displs)?, string))
    }
}

impl Spread {
    fn memory(&self, rank: u32) -> Sizes {
        let own = self.own.get(rank as usize).filter(|_| !self.in_place);
        Sizes { input: own.map_or(0, |own| own.0), output: self.output, ..Sizes::default() }
    }
}

sketched!(Spread);
