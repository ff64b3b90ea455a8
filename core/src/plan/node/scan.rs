//! Scan and exscan through carriers, in the order of ranks, where the ranks of every node follow each other.
//!
//! Each node scans by itself. Its last rank, the carrier, then has what all of the node's ranks contribute together; the
//! carriers hold an exclusive scan of that on the circulant graph, and each puts what it gets, the fold of all nodes
//! before, to the others of its node, where every rank combines it with what it has.
//!
//! Every node but the first gets the vector ⌈log2 N⌉ times at most, whatever its number of ranks, and there are as many
//! latencies between nodes; by doubled distances it is ⌈log2 p⌉, and for each rank of the node.
//!
//! # Memory
//!
//! What the scan within a node needs lies at the beginning of `Work` and `Land`; behind that, in `Land`, what it gives
//! (on the first node: in the output) and the fold of the nodes before, and in `Work` of a carrier of an exscan the total
//! of its node; then what the plan among nodes needs. What a node's scan gives is sent on within the node, at any time: so
//! it is not combined with what was before where it lies, but in the output. Counters: those within the node, one for what
//! the carrier puts, those among nodes.

use super::line::{nodes, others};
use super::{Nodes, count, sketched};
use crate::error::{Result, argument};
use crate::plan::partial::{Sketch, plus};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{line, q};
use crate::plan::registry::{Algorithm, Arguments, Build, Operation, order};
use crate::plan::scan::prefix::{Prefix, exscan_cost};
use crate::plan::{Kind, NO_COUNTER, Place, Plan, Region, Side, Sizes, Step, Wait};
use std::collections::BTreeMap;

pub(in crate::plan) const SCAN: Algorithm =
    of(Operation::Scan, "doubling, and Träff 2022, Algorithm 8, made acyclic", |a, _| build(a, true));

pub(in crate::plan) const EXSCAN: Algorithm =
    of(Operation::Exscan, "Träff 2022, Algorithm 8, made acyclic", |a, _| build(a, false));

const fn of(operation: Operation, source: &'static str, build: Build) -> Algorithm {
    let restrictions =
        "several nodes, several ranks on some, which follow each other; keeps the order of ranks";
    let texts = [restrictions, "<= q_S + q_N + S + 1", "<= (q_S+q_N+1)m", source];
    line(operation, "node_circulant", texts, most_rounds, build)
        .only(|a| in_order(&nodes(a)?))
        .receives(|a| nodes(a).map_or(0, |nodes| u64::from(q(nodes.most()) + q(nodes.count()) + 1) * a.bytes))
        .costs(cost)
        .ordered(order::NODES_IN_ORDER)
}

fn build(a: &Arguments, inclusive: bool) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Scan::new(nodes(a)?, (a.bytes, a.element), inclusive)?))
}

fn most_rounds(a: &Arguments, _: u32) -> u32 {
    nodes(a).map_or(0, |nodes| q(nodes.most()) + q(nodes.count()) + nodes.most() + 1)
}

/// Scans within nodes, the total of a node, the exscan among carriers, and what comes of it to all ranks.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let (rounds, bytes) = (f64::from(q(nodes.most())), float(a.bytes));
    path.near(rounds, rounds, rounds * bytes);
    path.reduce((rounds + 1.0) * bytes);
    path.copy(bytes);
    let among = Arguments { size: nodes.count(), ..a.clone() };
    let wire = path.machine().wire;
    path.among(nodes.count(), wire, |path| exscan_cost(&among, path));
    path.near(1.0, others(&nodes), bytes);
}

/// A scan or exscan through carriers.
#[derive(Debug)]
pub(crate) struct Scan {
    name: &'static str,
    nodes: Nodes,
    /// By the number of ranks: the scan within a node.
    within: BTreeMap<u32, Prefix>,
    /// The exscan among carriers.
    among: Prefix,
    bytes: u64,
    inclusive: bool,
    /// The round in which the one among carriers begins; and all.
    first: u32,
    rounds: u32,
}

impl Scan {
    /// Scans `bytes` bytes of elements of `element` bytes; inclusive: rank r's contribution is in its result.
    ///
    /// # Errors
    /// If there are no whole elements, or the ranks of a node do not follow each other.
    pub(crate) fn new(nodes: Nodes, (bytes, element): (u64, u64), inclusive: bool) -> Result<Self> {
        in_order(&nodes)?;
        let among = Prefix::circulant(nodes.count(), bytes, element)?;
        let mut within = BTreeMap::new();
        for node in 0..nodes.count() {
            let ranks = count(nodes.members(node).len());
            let plan = match inclusive {
                true => Prefix::doubling(ranks, bytes, element)?,
                false => Prefix::circulant(ranks, bytes, element)?,
            };
            within.insert(ranks, plan);
        }
        let first = within.values().map(Plan::rounds).max().unwrap_or(0) + 1;
        let rounds = first + among.rounds() + nodes.most();
        Ok(Self { name: "node_circulant", nodes, within, among, bytes, inclusive, first, rounds })
    }

    fn within(&self, node: u32) -> &Prefix {
        &self.within[&count(self.nodes.members(node).len())]
    }

    fn carrier(&self, node: u32) -> u32 {
        let members = self.nodes.members(node);
        members[members.len() - 1]
    }

    /// The counter of what the carrier puts; behind it are those of the carrier among carriers.
    fn passed(&self, rank: u32) -> u32 {
        self.within(self.nodes.of(rank)).counters(self.nodes.position(rank))
    }

    /// Where a rank has what the scan within its node gives.
    fn given(&self, rank: u32) -> Place {
        let node = self.nodes.of(rank);
        match node {
            0 => Place::new(Region::Output, 0),
            _ => Place::new(Region::Land, self.within(node).sizes(self.nodes.position(rank)).land),
        }
    }

    /// Where a rank has the fold of all nodes before.
    fn before(&self, rank: u32) -> Place {
        let sizes = self.within(self.nodes.of(rank)).sizes(self.nodes.position(rank));
        Place::new(Region::Land, sizes.land + self.bytes)
    }

    /// Where the plan among carriers has its places at the carrier of a node.
    fn place(&self, node: u32, place: Place) -> Place {
        let carrier = self.carrier(node);
        let work = self.within(node).sizes(self.nodes.position(carrier)).work;
        match place.region {
            Region::Input if self.nodes.members(node).len() == 1 => Place::new(Region::Input, 0),
            Region::Input if self.inclusive => self.given(carrier),
            Region::Input => Place::new(Region::Work, work),
            Region::Output => self.before(carrier),
            Region::Work => plus(place, work + self.bytes),
            Region::Land => plus(place, self.before(carrier).offset + self.bytes),
        }
    }

    /// The scan within the node; gives what to wait for to have what it gives, if it gives anything: not to the first rank
    /// in an exscan.
    fn scan(&self, rank: u32, s: &mut Sketch) -> Option<Wait> {
        let node = self.nodes.of(rank);
        let mut given = None;
        for step in self.within(node).steps(self.nodes.position(rank)) {
            let peer = if step.kind.is_local() { 0 } else { self.nodes.members(node)[step.peer as usize] };
            let writes = step.kind == Kind::Expect || step.kind.is_local();
            if writes && step.target.region == Region::Output && step.len > 0 {
                given = Some(Wait::once(step.bump));
            }
            let [source, target] = [step.source, step.target].map(|place| match place.region {
                Region::Output => plus(self.given(rank), place.offset),
                _ => place,
            });
            s.steps.push(Step { peer, source, target, ..step });
        }
        given
    }

    /// What all ranks of the node contribute together, at its carrier.
    fn total(&self, node: u32, given: Option<Wait>, s: &mut Sketch) -> Wait {
        let (Some(ready), true) = (given, self.nodes.members(node).len() > 1) else { return Wait::NONE };
        if self.inclusive {
            return ready;
        }
        let total = self.place(node, Place::new(Region::Input, 0));
        let copied = s.copy(self.first, Place::new(Region::Input, 0), total, self.bytes, &[]);
        let given = self.given(self.carrier(node));
        s.reduce(self.first, Side::SourceLeft, given, total, self.bytes, &[ready, copied])
    }

    /// The carrier among carriers, when its `total` is there; gives what to wait for to have the fold of all nodes
    /// before.
    fn carry(&self, node: u32, total: Wait, s: &mut Sketch) -> Wait {
        let base = |node| self.passed(self.carrier(node)) + 1;
        let shifted = |wait: Wait| match wait.counter {
            NO_COUNTER => Wait::NONE,
            counter => Wait { counter: base(node) + counter, ..wait },
        };
        let mut before = Wait::NONE;
        for step in self.among.steps(node) {
            let (sender, receiver) = match step.kind {
                Kind::Put => (node, step.peer),
                Kind::Expect => (step.peer, node),
                _ => (node, node),
            };
            let mut waits = step.waits.map(shifted).to_vec();
            if step.source.region == Region::Input && sender == node && step.len > 0 {
                waits.push(total);
            }
            let round = self.first + step.round;
            let waits = s.both(round, &waits);
            let bump = if step.bump == NO_COUNTER { NO_COUNTER } else { base(receiver) + step.bump };
            if receiver == node && step.target.region == Region::Output && step.len > 0 {
                before = Wait::once(bump);
            }
            let peer = if step.kind.is_local() { 0 } else { self.carrier(step.peer) };
            let (source, target) = (self.place(sender, step.source), self.place(receiver, step.target));
            s.steps.push(Step { peer, source, target, round, waits, bump, ..step });
        }
        before
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let (node, position) = (self.nodes.of(rank), self.nodes.position(rank));
        let carrier = self.carrier(node);
        let carries = rank == carrier;
        let mut s = Sketch::new(self.passed(rank) + 1 + if carries { self.among.counters(node) } else { 0 });
        if self.bytes == 0 {
            return s;
        }
        let given = self.scan(rank, &mut s);
        let mut before = Wait::once(self.passed(rank));
        let fan = self.first + self.among.rounds();
        if carries {
            let total = self.total(node, given, &mut s);
            before = self.carry(node, total, &mut s);
        }
        if node > 0 {
            // The carrier is the last.
            if carries {
                for &to in &self.nodes.members(node)[..position as usize] {
                    let (source, target) = (self.before(rank), self.before(to));
                    let round = fan + 1 + self.nodes.position(to);
                    s.put(round, to, source, target, self.bytes, &[before], self.passed(to));
                }
            } else {
                let (source, target) = (self.before(carrier), self.before(rank));
                s.expect(fan + 1 + position, carrier, source, target, self.bytes, self.passed(rank));
            }
            let (from, output) = (self.before(rank), Place::new(Region::Output, 0));
            match given {
                Some(given) => {
                    let there = s.copy(self.first, self.given(rank), output, self.bytes, &[given]);
                    s.reduce(self.rounds, Side::SourceLeft, from, output, self.bytes, &[before, there])
                }
                None => s.copy(self.rounds, from, output, self.bytes, &[before]),
            };
        }
        s.by_rounds();
        s
    }

    fn memory(&self, rank: u32) -> Sizes {
        let node = self.nodes.of(rank);
        let mut sizes = self.within(node).sizes(self.nodes.position(rank));
        sizes.land += 2 * self.bytes;
        if rank == self.carrier(node) {
            let among = self.among.sizes(node);
            sizes.work += self.bytes + among.work;
            sizes.land += among.land;
        }
        sizes
    }
}

/// Whether the ranks of every node follow each other.
///
/// # Errors
/// If they do not.
pub(crate) fn in_order(nodes: &Nodes) -> Result<()> {
    let follow = |node| nodes.members(node).windows(2).all(|pair| pair[0] + 1 == pair[1]);
    match (0..nodes.count()).all(follow) {
        true => Ok(()),
        false => Err(argument("the ranks of a node do not follow each other")
            .help("choose an algorithm for any nodes, or place ranks node by node")),
    }
}

sketched!(Scan);
