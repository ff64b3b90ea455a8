//! The alltoallv of a graph: each rank puts to its destinations only, straight into their final memory.
//!
//! Time and memory follow a rank's own edges, not p. Edges between the same two ranks (a periodic grid of two) are told apart
//! by their order at the receiver, and land in [`Region::Land`], from where they are copied: an operation's ready-to-receive message says only
//! one place. An edge of a rank to itself is a copy.
//!
//! Rank r puts to r+d in the rounds from (d−1)·m on, where m is the most edges between two ranks: both sides know d, so
//! a rank needs to know no edges but its own. An edge with number i among the sources of its receiver and j among
//! the destinations of its sender has counter 2i there and 2j+1 here. Along an edge of a graph without bytes both notify each
//! other, so that ranks which disagree on that, too, learn it, and none gets ahead. Without a graph, and with rows of p counts, it is [`direct`].

use super::direct;
use super::graph::{Among, Edges, Graph};
use super::matrix::{Matrix, Row, check_size};
use crate::error::{Result, argument};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Operation};
use crate::plan::{Kind, NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use std::collections::BTreeMap;
use std::ops::Range;

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Alltoallv,
    "neighbors",
    [
        "any p, counts; any graph, m edges between two ranks",
        "p-1 (a graph: (p-1)m)",
        "m_r",
        "one put per block",
    ],
    |a, _| Neighbors::rounds_of(a.size, a.graph.multiplicity),
    |a, _| match a.graph.multiplicity {
        0 => Ok(Box::new(Neighbors::of_rows(a.size, &a.rows)?)),
        _ => Ok(Box::new(Neighbors::new(a.size, a.graph.clone(), a.in_place)?)),
    },
)
.costs(direct::irregular_cost);

/// The alltoallv of a graph.
#[derive(Clone, Debug)]
pub struct Neighbors {
    size: u32,
    in_place: bool,
    graph: Graph,
    /// Edges without bytes are notified of.
    notified: bool,
}

impl Neighbors {
    /// Blocks along the edges of `graph`; in place they are sent from the output.
    ///
    /// # Errors
    /// If a rank is out of range, more edges go from a rank to another than the graph says, blocks overlap or end beyond 2^64
    /// bytes, or known edges contradict each other.
    pub fn new(size: u32, graph: Graph, in_place: bool) -> Result<Self> {
        check_size(size)?;
        if u64::from(size) * u64::from(graph.multiplicity.max(1)) >= u64::from(u32::MAX) {
            return Err(argument(format!("{} edges between two of {size} ranks", graph.multiplicity)));
        }
        for (&rank, edges) in &graph.edges {
            check(size, rank, edges, in_place)?;
            if edges.multiplicity(rank) > graph.multiplicity {
                return Err(argument(format!(
                    "rank {rank} has {} edges with one other, the graph at most {}",
                    edges.multiplicity(rank),
                    graph.multiplicity
                )));
            }
            for d in &edges.destinations {
                let Some(peer) = graph.edges.get(&d.peer) else { continue };
                match peer.sources.get(d.slot as usize) {
                    Some(s) if (s.peer, s.len) == (rank, d.len) => {}
                    other => {
                        return Err(argument(format!(
                            "rank {rank} sends {} bytes to rank {}, which expects {} there",
                            d.len,
                            d.peer,
                            other.filter(|s| s.peer == rank).map_or(0, |s| s.len)
                        )));
                    }
                }
            }
        }
        Ok(Self { size, in_place, graph, notified: true })
    }

    /// Without a graph: as these rows say.
    ///
    /// # Errors
    /// As [`Matrix::irregular`].
    pub(crate) fn of_rows(size: u32, rows: &BTreeMap<u32, Row>) -> Result<Self> {
        Matrix::irregular(size, rows.clone())?;
        let edges = rows.iter().map(|(&rank, row)| (rank, Edges::of_row(rank, row))).collect();
        Ok(Self { notified: false, ..Self::new(size, Graph { multiplicity: 1, edges }, false)? })
    }

    /// The rounds of the algorithm among `size` ranks.
    pub(crate) fn rounds_of(size: u32, multiplicity: u32) -> u32 {
        size.saturating_sub(1).saturating_mul(multiplicity.max(1))
    }

    fn given(&self) -> Region {
        if self.in_place { Region::Output } else { Region::Input }
    }

    /// The round of an edge from a rank to another.
    fn round(&self, from: u32, to: u32, among: Among) -> u32 {
        let distance = if to > from { to - from } else { self.size - from + to };
        (distance - 1) * self.graph.multiplicity.max(1) + among.before
    }

    fn puts<'a>(&'a self, rank: u32, edges: &'a Edges) -> impl Iterator<Item = Step> + 'a {
        let own = edges.destinations.iter().zip(edges.outgoing()).filter(|(d, _)| d.len > 0);
        own.map(move |(d, among)| {
            let source = Place::new(self.given(), d.at);
            if d.peer == rank {
                let at = edges.sources.get(d.slot as usize).map_or(0, |s| s.at);
                let (round, target) = (self.rounds().saturating_sub(1), Place::new(Region::Output, at));
                return Step::copy(round, source, target, d.len, [Wait::NONE; 2], NO_COUNTER);
            }
            let (region, target) = match among.all {
                1 => (Region::Output, d.target),
                _ => (Region::Land, d.target + among.bytes),
            };
            let (round, target) = (self.round(rank, d.peer, among), Place::new(region, target));
            Step::put(round, d.peer, source, target, d.len, Wait::NONE, 2 * d.slot)
        })
    }

    fn arrivals<'a>(&'a self, rank: u32, edges: &'a Edges) -> impl Iterator<Item = Step> + 'a {
        let (begins, _) = edges.landing(rank);
        let own = (0..).zip(edges.sources.iter().zip(edges.incoming()));
        own.filter(move |(_, (s, _))| s.len > 0 && s.peer != rank).flat_map(move |(slot, (s, among))| {
            let from = self.graph.edges.get(&s.peer).and_then(|peer| {
                peer.destinations.iter().find(|d| (d.peer, d.slot) == (rank, slot)).map(|d| d.at)
            });
            let (round, output) = (self.round(s.peer, rank, among), Place::new(Region::Output, s.at));
            // Where the sender's edges are not known a block is still a message of its own, so nothing is derived from its place.
            let source = Place::new(self.given(), from.unwrap_or(0));
            let landed = (among.all > 1)
                .then(|| Place::new(Region::Land, begins.get(&s.peer).map_or(0, |b| b + among.bytes)));
            let expect = Step::expect(round, s.peer, source, landed.unwrap_or(output), s.len, 2 * slot);
            let wait = [Wait::once(2 * slot), Wait::NONE];
            let copy = landed.map(|land| Step::copy(round + 1, land, output, s.len, wait, NO_COUNTER));
            [Some(expect), copy].into_iter().flatten()
        })
    }

    /// Both ways, of edges without bytes.
    fn notifies(&self, rank: u32, edges: &Edges) -> Vec<Step> {
        let mut steps = Vec::new();
        let empty = |peer: u32, len: u64| self.notified && len == 0 && peer != rank;
        let mut both = |peer: u32, own: Among, theirs: u32, ours: u32| {
            steps.push(Step::notify(self.round(rank, peer, own), peer, [Wait::NONE; 2], theirs));
            steps.push(Step::expect_notify(self.round(peer, rank, own), peer, ours));
        };
        for (j, (d, own)) in (0..).zip(edges.destinations.iter().zip(edges.outgoing())) {
            if empty(d.peer, d.len) {
                both(d.peer, own, 2 * d.slot, 2 * j + 1);
            }
        }
        for (i, (s, own)) in (0..).zip(edges.sources.iter().zip(edges.incoming())) {
            if empty(s.peer, s.len) {
                both(s.peer, own, 2 * s.slot + 1, 2 * i);
            }
        }
        steps
    }
}

impl Plan for Neighbors {
    fn algorithm(&self) -> &'static str {
        "neighbors"
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn rounds(&self) -> u32 {
        Self::rounds_of(self.size, self.graph.multiplicity)
    }

    fn counters(&self, rank: u32) -> u32 {
        let edges = |e: &Edges| u32::try_from(e.sources.len().max(e.destinations.len())).unwrap_or(u32::MAX);
        self.graph.edges.get(&rank).map_or(0, |e| edges(e).saturating_mul(2))
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let Some(edges) = self.graph.edges.get(&rank) else { return Sizes::default() };
        let end = |blocks: Vec<Range<u64>>| blocks.into_iter().map(|b| b.end).max().unwrap_or(0);
        let (sent, received) = (end(sent(edges)), end(received(edges)));
        let land = edges.landing(rank).1;
        match self.in_place {
            true => Sizes { output: sent.max(received), land, ..Sizes::default() },
            false => Sizes { input: sent, output: received, land, ..Sizes::default() },
        }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let Some(edges) = self.graph.edges.get(&rank) else { return Box::new(std::iter::empty()) };
        let mut steps: Vec<Step> = self.puts(rank, edges).chain(self.arrivals(rank, edges)).collect();
        steps.extend(self.notifies(rank, edges));
        // Both ends have what is notified in one round in one order, that of the counters.
        let last = |step: &Step| matches!(step.kind, Kind::Notify | Kind::ExpectNotify).then_some(step.bump);
        steps.sort_by_key(|step| (step.round, last(step)));
        Box::new(steps.into_iter())
    }
}

fn sent(edges: &Edges) -> Vec<Range<u64>> {
    edges.destinations.iter().filter(|d| d.len > 0).map(|d| d.at..d.at.saturating_add(d.len)).collect()
}

fn received(edges: &Edges) -> Vec<Range<u64>> {
    edges.sources.iter().filter(|s| s.len > 0).map(|s| s.at..s.at.saturating_add(s.len)).collect()
}

fn check(size: u32, rank: u32, edges: &Edges, in_place: bool) -> Result<()> {
    let peers = edges.sources.iter().map(|s| s.peer).chain(edges.destinations.iter().map(|d| d.peer));
    if let Some(peer) = peers.chain([rank]).find(|peer| *peer >= size) {
        return Err(argument(format!("rank {peer} is a neighbour of rank {rank}, among {size} ranks")));
    }
    let ends = edges.sources.iter().map(|s| (s.at, s.len));
    let ends = ends.chain(edges.destinations.iter().flat_map(|d| [(d.at, d.len), (d.target, d.len)]));
    let total = edges.sources.iter().try_fold(0u64, |sum, s| sum.checked_add(s.len));
    if total.is_none() || ends.into_iter().any(|(at, len)| at.checked_add(len).is_none()) {
        return Err(argument(format!("blocks of rank {rank} end beyond 2^64 bytes")));
    }
    let mut received = received(edges);
    received.sort_unstable_by_key(|block| block.start);
    if let Some([a, b]) = received.windows(2).find(|pair| pair[1].start < pair[0].end) {
        return Err(argument(format!(
            "rank {rank} receives two blocks at bytes {}..{} and {}..{}, which overlap",
            a.start, a.end, b.start, b.end
        )));
    }
    for block in sent(edges).into_iter().filter(|_| in_place) {
        let next = received.partition_point(|r| r.end <= block.start);
        if received.get(next).is_some_and(|r| r.start < block.end) {
            return Err(argument(format!(
                "in place, rank {rank} sends bytes {}..{} and receives others there",
                block.start, block.end
            )));
        }
    }
    Ok(())
}
