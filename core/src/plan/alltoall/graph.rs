//! A graph of the ranks, for an alltoallv between neighbours: as much of it as is known.

use super::matrix::Row;
use crate::plan::by_rank::ByRank;
use std::collections::BTreeMap;

/// An edge into a rank. Its number is its place in the rank's list of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The rank that it comes from.
    pub peer: u32,
    /// Its number among the destinations of that rank.
    pub slot: u32,
    /// Bytes of its block.
    pub len: u64,
    /// Where the block goes in the output.
    pub at: u64,
}

/// An edge out of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    /// The rank that it goes to.
    pub peer: u32,
    /// Its number among the sources of that rank.
    pub slot: u32,
    /// Bytes of its block.
    pub len: u64,
    /// Where the block lies in the input; in place, in the output.
    pub at: u64,
    /// Where the peer takes in what we send, in its output, or, with several edges to it, in its landing memory: see [`Graph::exchange_targets`].
    /// 0 where the ready-to-receive message says it.
    pub target: u64,
}

/// The edges of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Into it.
    pub sources: Vec<Source>,
    /// Out of it.
    pub destinations: Vec<Destination>,
}

/// A graph on the ranks, as far as it is known: a rank needs no edges but its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The most edges between one rank and another, the same at all ranks; 0: there is no graph.
    pub multiplicity: u32,
    /// The edges, by rank.
    pub edges: ByRank<Edges>,
}

/// Where an edge is among those with the same peer: how many are before it, with how many bytes; and of how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Among {
    pub(super) before: u32,
    pub(super) bytes: u64,
    pub(super) all: u32,
}

/// Of edges given as (peer, number at the receiver, length): where each is among those with its peer, in the order given.
fn among(edges: &[(u32, u32, u64)]) -> Vec<Among> {
    let mut order: Vec<usize> = (0..edges.len()).collect();
    order.sort_unstable_by_key(|&i| (edges[i].0, edges[i].1));
    let mut out = vec![Among { before: 0, bytes: 0, all: 1 }; edges.len()];
    for group in order.chunk_by(|&i, &j| edges[i].0 == edges[j].0) {
        let (mut bytes, all) = (0u64, u32::try_from(group.len()).unwrap_or(u32::MAX));
        for (before, &i) in (0..).zip(group) {
            out[i] = Among { before, bytes, all };
            bytes = bytes.saturating_add(edges[i].2);
        }
    }
    out
}

impl Edges {
    /// Those of a row of an alltoallv of `size` ranks, as rank `rank`'s.
    pub(super) fn of_row(rank: u32, row: &Row) -> Self {
        let received = row.recvcounts.iter().zip(&row.rdispls);
        let sent = row.sendcounts.iter().zip(row.sdispls.iter().zip(&row.targets));
        Self {
            sources: (0..)
                .zip(received)
                .map(|(peer, (&len, &at))| Source { peer, slot: rank, len, at })
                .collect(),
            destinations: (0..)
                .zip(sent)
                .map(|(peer, (&len, (&at, &target)))| Destination { peer, slot: rank, len, at, target })
                .collect(),
        }
    }

    pub(super) fn incoming(&self) -> Vec<Among> {
        among(&(0..).zip(&self.sources).map(|(i, s)| (s.peer, i, s.len)).collect::<Vec<_>>())
    }

    pub(super) fn outgoing(&self) -> Vec<Among> {
        among(&self.destinations.iter().map(|d| (d.peer, d.slot, d.len)).collect::<Vec<_>>())
    }

    /// The most edges with one other rank of `rank`, whose edges these are.
    pub fn multiplicity(&self, rank: u32) -> u32 {
        let into = self.sources.iter().map(|s| s.peer).zip(self.incoming());
        let out = self.destinations.iter().map(|d| d.peer).zip(self.outgoing());
        let others = into.chain(out).filter(|(peer, _)| *peer != rank);
        others.map(|(_, among)| among.all).max().unwrap_or(0)
    }

    /// By peer with several edges to this rank: where their blocks begin in the landing memory of `rank`, one after the other; and
    /// how long that is.
    pub(super) fn landing(&self, rank: u32) -> (BTreeMap<u32, u64>, u64) {
        let (mut begins, mut end) = (BTreeMap::new(), 0);
        let mut several: BTreeMap<u32, u64> = BTreeMap::new();
        for (source, among) in self.sources.iter().zip(self.incoming()) {
            if among.all > 1 && source.peer != rank {
                *several.entry(source.peer).or_default() += source.len;
            }
        }
        for (peer, bytes) in several {
            begins.insert(peer, end);
            end += bytes;
        }
        (begins, end)
    }

    /// What only the two know of the edges from `peer` to `rank`, whose edges these are: where they land in the output (one edge) or
    /// in the landing memory (several), and a digest of their lengths (of one: its length).
    pub fn expected(&self, rank: u32, peer: u32) -> (u64, u64, u64) {
        let mut from = self.sources.iter().filter(|s| s.peer == peer);
        let lengths = digest(from.clone().map(|s| s.len));
        match (from.next(), from.next()) {
            (Some(one), None) => (one.at, 0, lengths),
            _ => (0, self.landing(rank).0.get(&peer).copied().unwrap_or(0), lengths),
        }
    }

    /// The digest of the lengths that `peer` gets.
    pub fn sent(&self, peer: u32) -> u64 {
        let mut to: Vec<&Destination> = self.destinations.iter().filter(|d| d.peer == peer).collect();
        to.sort_unstable_by_key(|d| d.slot);
        digest(to.into_iter().map(|d| d.len))
    }
}

/// Tells lists of lengths apart; of one it is the length.
pub(crate) fn digest(lengths: impl Iterator<Item = u64>) -> u64 {
    lengths.fold(0, |h: u64, len| h.rotate_left(23).wrapping_mul(0x0000_0100_0000_01B3).wrapping_add(len))
}

impl Graph {
    /// Tells every rank where its peers take in what it sends, where the edges of all ranks are at hand (proofs, simulation).
    pub fn exchange_targets(&mut self) {
        let all = self.edges.clone();
        for (&rank, edges) in &mut self.edges {
            for d in &mut edges.destinations {
                let Some(peer) = all.get(&d.peer) else { continue };
                let several = peer.landing(d.peer).0;
                let one = peer.sources.get(d.slot as usize).map_or(0, |s| s.at);
                d.target = several.get(&rank).copied().unwrap_or(one);
            }
        }
    }
}
