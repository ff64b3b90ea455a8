//! Alltoall through lanes: the ranks of a node first give each other what they have for other nodes, so that one of them
//! puts all that the node has for a rank elsewhere, in one message and right to its place.
//!
//! (Full-lane decomposition; Träff and Hunold 2020, arXiv 1910.13373.) For a rank at position k of its node the *handler* on
//! another node of s ranks is the one at position k mod s; so nodes may have any number of ranks, and where all have as
//! many it is the rank at the same position. Between nodes a rank starts about as many puts as there are other nodes,
//! in place of one for every rank there, and no byte more crosses. Within a node every block moves once more. For light
//! blocks; heavy ones are better put one by one.
//!
//! Rounds, with S the ranks of the largest node: S−1 within nodes, one position further in each. Then W = ⌈S/s⌉, s those
//! of the smallest, for each node further on: what a handler puts there to more than one.
//!
//! `Land` of a rank holds, for each rank that it handles, in the order of nodes and positions, the blocks of its node's
//! ranks in their order. Counters: i for the arrivals from i+1 positions further on, then one per node for those from
//! it; that of the own node for the copies of own blocks.

use super::line::{LEADERS, leaders, nodes, others};
use super::{Nodes, count, sketched};
use crate::error::{Result, argument};
use crate::plan::partial::Sketch;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::{MAX_COUNTERS, NO_COUNTER, Place, Region, Sizes, Step, Wait};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Alltoall,
    "lanes",
    [
        LEADERS,
        "<= S-1 + (N-1)*ceil(S/s), s ranks on the smallest node",
        "s(p-1), and s(S-1) for each rank that one handles",
        "Träff and Hunold 2020, arXiv 1910.13373",
    ],
    |a, _| nodes(a).map_or(0, |nodes| Lanes::rounds_of(&nodes)),
    |a, _| Ok(Box::new(Lanes::new(nodes(a)?, a.bytes)?)),
)
.only(leaders)
.receives(|a| nodes(a).map_or(0, |nodes| Lanes::most(&nodes) * a.bytes))
.costs(cost);

/// Within nodes all that a rank handles; then bundles of a node's blocks, of which a rank starts one while those of others
/// are on the link.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = nodes(a) else { return };
    let (bytes, most) = (float(a.bytes), f64::from(nodes.most()));
    let away = f64::from(a.size - nodes.most());
    let handled = away / most;
    let pieces = if path.shared(1.0 + handled, bytes) { 1.0 } else { 1.0 + handled };
    path.near(1.0, others(&nodes) * pieces, others(&nodes) * (1.0 + handled) * bytes);
    path.copy(bytes);
    let wire = path.machine().wire;
    let puts = handled.ceil();
    path.among(nodes.count(), wire, |path| {
        path.longer(
            |path| path.over(&[1], 1.0, puts, puts * most * bytes),
            |path| path.over(&[1], 1.0, 1.0, most * away * bytes),
        );
    });
}

/// An alltoall through lanes.
#[derive(Debug)]
pub(crate) struct Lanes {
    nodes: Nodes,
    bytes: u64,
    /// W.
    width: u32,
    name: &'static str,
    rounds: u32,
}

impl Lanes {
    /// Blocks of `bytes` bytes.
    ///
    /// # Errors
    /// If the blocks of a rank, or of all that it handles, are beyond 2^64 bytes, or there are too many ranks.
    pub(crate) fn new(nodes: Nodes, bytes: u64) -> Result<Self> {
        let size = u64::from(nodes.size());
        if bytes.checked_mul(size).and_then(|all| all.checked_mul(nodes.most().into())).is_none() {
            return Err(argument(format!("blocks of {bytes} bytes for {size} ranks are beyond 2^64 bytes")));
        }
        if nodes.size() > MAX_COUNTERS / 2 {
            return Err(argument(format!("alltoall through nodes among {size} ranks")));
        }
        let (width, rounds) = (Self::width(&nodes), Self::rounds_of(&nodes));
        Ok(Self { nodes, bytes, width, name: "lanes", rounds })
    }

    /// W, the most puts of a rank to one other node.
    fn width(nodes: &Nodes) -> u32 {
        nodes.most().div_ceil(nodes.least())
    }

    /// S−1 + (N−1)·W.
    pub(crate) fn rounds_of(nodes: &Nodes) -> u32 {
        nodes.most() - 1 + (nodes.count() - 1) * Self::width(nodes)
    }

    /// The blocks that the rank which receives most receives.
    pub(crate) fn most(nodes: &Nodes) -> u64 {
        let of = |rank: u32| {
            let locals = nodes.members(nodes.of(rank)).len() as u64 - 1;
            let handled = handled(nodes, rank).count() as u64;
            locals * (1 + handled) + u64::from(nodes.size()) - 1 - locals
        };
        (0..nodes.size()).map(of).max().unwrap_or(0)
    }

    fn block(&self, region: Region, index: u64) -> Place {
        Place::new(region, index * self.bytes)
    }

    /// What `from` puts to another rank of its node: the blocks for those that it handles, and for itself.
    fn within(&self, from: u32, to: u32) -> Vec<(Place, Place)> {
        let ranks = self.nodes.members(self.nodes.of(from)).len() as u64;
        let at = |i: u64| i * ranks + u64::from(self.nodes.position(from));
        let passed = (0..)
            .zip(handled(&self.nodes, to))
            .map(|(i, last)| (self.block(Region::Input, last.into()), self.block(Region::Land, at(i))));
        let own = (self.block(Region::Input, to.into()), self.block(Region::Output, from.into()));
        passed.chain([own]).collect()
    }

    /// What the ranks of a node have for `to`, the i-th that its handler handles: (source, target, blocks).
    fn bundle(&self, node: u32, i: u64, to: u32) -> Vec<(Place, Place, u64)> {
        let members = self.nodes.members(node);
        if let [only] = *members {
            return vec![(self.block(Region::Input, to.into()), self.block(Region::Output, only.into()), 1)];
        }
        let runs = members.chunk_by(|a, b| a + 1 == *b);
        let piece = |at: &mut u64, run: &[u32]| {
            let (first, blocks) = (*at, run.len() as u64);
            *at += blocks;
            let target = self.block(Region::Output, run[0].into());
            Some((self.block(Region::Land, first), target, blocks))
        };
        runs.scan(i * members.len() as u64, piece).collect()
    }

    /// The round in which what `node` has for `to` crosses.
    fn round(&self, node: u32, to: u32) -> u32 {
        let nodes = self.nodes.count();
        let further = (self.nodes.of(to) + nodes - node) % nodes;
        let turn = self.nodes.position(to) / count(self.nodes.members(node).len());
        self.nodes.most() - 1 + (further - 1) * self.width + turn
    }

    /// The counter of what comes from a node.
    fn arrival(&self, node: u32) -> u32 {
        self.nodes.most() - 1 + node
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.arrival(self.nodes.count()));
        if self.bytes == 0 {
            return s;
        }
        let node = self.nodes.of(rank);
        let members = self.nodes.members(node);
        let mut ready = Vec::with_capacity(members.len());
        for further in 1..count(members.len()) {
            let to = self.nodes.neighbour(rank, count(members.len()) - further);
            for (source, target) in self.within(rank, to) {
                s.put(further - 1, to, source, target, self.bytes, &[], further - 1);
            }
            let from = self.nodes.neighbour(rank, further);
            let came = self.within(from, rank);
            for &(source, target) in &came {
                s.expect(further - 1, from, source, target, self.bytes, further - 1);
            }
            ready.push(Wait { counter: further - 1, at_least: count(came.len()) });
        }
        self.across(&mut s, rank, &mut ready);
        let (from, to) = (self.block(Region::Input, rank.into()), self.block(Region::Output, rank.into()));
        s.steps.push(Step::copy(self.rounds - 1, from, to, self.bytes, [Wait::NONE; 2], NO_COUNTER));
        s.by_rounds();
        s
    }

    /// What crosses, when what this rank handles is `ready`.
    fn across(&self, s: &mut Sketch, rank: u32, ready: &mut Vec<Wait>) {
        let (node, first) = (self.nodes.of(rank), self.nodes.most() - 1);
        let (ranks, own) = (self.nodes.members(node).len() as u64, u64::from(self.nodes.position(rank)));
        let copied = self.arrival(node);
        if ranks > 1 {
            let mut copies = 0;
            for (i, to) in (0..).zip(handled(&self.nodes, rank)) {
                let (from, to) =
                    (self.block(Region::Input, to.into()), self.block(Region::Land, i * ranks + own));
                s.steps.push(Step::copy(0, from, to, self.bytes, [Wait::NONE; 2], copied));
                copies += 1;
            }
            ready.push(Wait { counter: copied, at_least: copies });
        }
        let ready = s.one(first, ready);
        for (i, to) in (0..).zip(handled(&self.nodes, rank)) {
            for (source, target, blocks) in self.bundle(node, i, to) {
                let (round, bump) = (self.round(node, to), self.arrival(node));
                s.put(round, to, source, target, blocks * self.bytes, &[ready], bump);
            }
        }
        for other in (0..self.nodes.count()).filter(|&other| other != node) {
            let members = self.nodes.members(other);
            let handler = members[self.nodes.position(rank) as usize % members.len()];
            let i = handled(&self.nodes, handler).position(|to| to == rank).unwrap_or(0) as u64;
            for (source, target, blocks) in self.bundle(other, i, rank) {
                let (round, bump) = (self.round(other, rank), self.arrival(other));
                s.expect(round, handler, source, target, blocks * self.bytes, bump);
            }
        }
    }
}

/// The ranks of other nodes that `rank` handles, by nodes and positions.
fn handled(nodes: &Nodes, rank: u32) -> impl Iterator<Item = u32> + '_ {
    let (own, position) = (nodes.of(rank), nodes.position(rank) as usize);
    let step = nodes.members(own).len();
    let others = (0..nodes.count()).filter(move |&node| node != own);
    others.flat_map(move |node| nodes.members(node).iter().copied().skip(position).step_by(step))
}

impl Lanes {
    fn memory(&self, rank: u32) -> Sizes {
        let ranks = self.nodes.members(self.nodes.of(rank)).len() as u64;
        let handled = if ranks > 1 { handled(&self.nodes, rank).count() as u64 } else { 0 };
        let all = u64::from(self.nodes.size()) * self.bytes;
        Sizes { input: all, output: all, work: 0, land: handled * ranks * self.bytes }
    }
}

sketched!(Lanes);
