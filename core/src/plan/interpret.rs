//! The interpreter: runs all ranks of a plan in one thread, and proves it right.
//!
//! [`prove`] walks a [`Plan`](super::Plan) round by round without holding more than a round of it;
//! [`check`] takes all ranks' [`Program`](super::lower::Program)s, proves the same of them, and runs them
//! in a random order besides. Both show, for the [`Goal`] of the operation:
//!
//! - every put has its mirror, and every byte is written exactly once, with the right content;
//! - the bytes that a step reads were there at the start, or came with arrivals and copies that the step
//!   *waits for*. As nothing is written twice, they stay. So every order of deliveries that the waits
//!   allow gives the same result: that is a proof for all orders, not a sample of them;
//! - (round, order of the plan) is one such order, so nothing waits for ever;
//! - in a round a rank sends to one peer and receives from one peer at most.
//!
//! Plans that reduce write bytes more than once. [`prove_fold`] and [`check_fold`] show for their goal, a
//! [`Fold`], that of two steps that touch the same byte, one of them writing, one always waits for the
//! other; so all legal orders give what one of them gives, and that one is run, with symbols for
//! contributions.
//!
//! That no byte is ever written twice lets content be checked on the way: what lies in the output is
//! right or not yet there, so a put from the output to the same place elsewhere is right by induction.

mod cover;
mod events;
mod fold;
mod plan;
mod program;
#[cfg(test)]
mod tests;

pub use fold::{Fold, check_fold, prove_fold};
pub use plan::{Report, prove};
pub use program::{check, run_without};

use super::alltoall::Row;
use super::alltoall::graph::{Edges, Graph};
use super::{Place, Region};
use std::collections::BTreeMap;
use std::fmt;

/// A law that a plan breaks: which, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

pub(super) fn violated<T>(what: String) -> Result<T, Violation> {
    Err(Violation(what))
}

/// A range of the output and where its content comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Byte offset in the output.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The rank whose memory holds the content at the start.
    pub origin: u32,
    /// Where it lies there. What lies in the output at `offset` is done at its origin.
    pub source: Place,
}

/// What must lie in the output in the end: the parts, and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    /// By rank; a single list is for all ranks.
    parts: Vec<Vec<Part>>,
    /// By rank: the ranges of the output that are right there from the start.
    initial: BTreeMap<u32, Vec<(u64, u64)>>,
}

/// Some content by where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fragment {
    origin: u32,
    source: Place,
    len: u64,
}

impl Goal {
    /// A goal of these parts at every rank; they must not overlap.
    pub fn new(parts: Vec<Part>) -> Self {
        Self::by_rank(vec![parts])
    }

    /// A goal of these parts at each rank; those of a rank must not overlap.
    fn by_rank(mut parts: Vec<Vec<Part>>) -> Self {
        let mut initial = BTreeMap::<u32, Vec<(u64, u64)>>::new();
        let one_for_all = parts.len() == 1;
        for (rank, parts) in (0..).zip(&mut parts) {
            parts.retain(|part| part.len > 0);
            parts.sort_by_key(|part| part.offset);
            let there = |part: &&Part| {
                part.source == Place::new(Region::Output, part.offset) && (one_for_all || part.origin == rank)
            };
            for part in parts.iter().filter(there) {
                initial.entry(part.origin).or_default().push((part.offset, part.len));
            }
        }
        Self { parts, initial }
    }

    /// A broadcast of `bytes` bytes.
    pub fn bcast(root: u32, bytes: u64) -> Self {
        let source = Place::new(Region::Output, 0);
        Self::new(vec![Part { offset: 0, len: bytes, origin: root, source }])
    }

    /// An allgatherv, of which an allgather is one.
    pub fn allgatherv(counts: &[u64], displs: &[u64], in_place: bool) -> Self {
        let part = |(origin, (&len, &offset)): (u32, (&u64, &u64))| {
            let source =
                if in_place { Place::new(Region::Output, offset) } else { Place::new(Region::Input, 0) };
            Part { offset, len, origin, source }
        };
        Self::new((0..).zip(counts.iter().zip(displs)).map(part).collect())
    }

    /// A gatherv, of which a gather is one.
    pub fn gather(root: u32, counts: &[u64], displs: &[u64], in_place: bool) -> Self {
        let part = |(origin, (&len, &offset)): (u32, (&u64, &u64))| {
            let there = in_place && origin == root;
            let source =
                if there { Place::new(Region::Output, offset) } else { Place::new(Region::Input, 0) };
            Part { offset, len, origin, source }
        };
        let all: Vec<Part> = (0..).zip(counts.iter().zip(displs)).map(part).collect();
        let at = |rank| if rank == root { all.clone() } else { Vec::new() };
        Self::by_rank((0..).zip(counts).map(|(rank, _)| at(rank)).collect())
    }

    /// A scatterv, of which a scatter is one.
    pub fn scatter(root: u32, counts: &[u64], displs: &[u64], in_place: bool) -> Self {
        let part = |(rank, (&len, &offset)): (u32, (&u64, &u64))| {
            let source = Place::new(Region::Input, offset);
            let stays = in_place && rank == root;
            if stays { Vec::new() } else { vec![Part { offset: 0, len, origin: root, source }] }
        };
        Self::by_rank((0..).zip(counts.iter().zip(displs)).map(part).collect())
    }

    /// An alltoall of blocks of `count` bytes.
    pub fn alltoall(size: u32, count: u64) -> Self {
        let part = |rank: u32, origin: u32| {
            let (offset, source) =
                (u64::from(origin) * count, Place::new(Region::Input, u64::from(rank) * count));
            Part { offset, len: count, origin, source }
        };
        Self::by_rank((0..size).map(|rank| (0..size).map(|origin| part(rank, origin)).collect()).collect())
    }

    /// An alltoallv; the rows of all ranks.
    pub fn alltoallv(rows: &BTreeMap<u32, Row>) -> Self {
        let part = |rank: u32, row: &Row, (&origin, sender): (&u32, &Row)| {
            let source = Place::new(Region::Input, sender.sdispls[rank as usize]);
            let (offset, len) = (row.rdispls[origin as usize], row.recvcounts[origin as usize]);
            Part { offset, len, origin, source }
        };
        let at = |(&rank, row)| rows.iter().map(|sender| part(rank, row, sender)).collect();
        Self::by_rank(rows.iter().map(at).collect())
    }

    /// An alltoallv along a graph; the edges of all ranks. In place, blocks are sent from the output, and stay there.
    pub fn neighbors(graph: &Graph, in_place: bool) -> Self {
        let region = if in_place { Region::Output } else { Region::Input };
        let at = |(&rank, edges): (&u32, &Edges)| {
            let came = (0..).zip(&edges.sources).map(|(slot, s): (u32, _)| {
                let sender = graph.edges[&s.peer].destinations.iter();
                let at = sender.clone().find(|d| (d.peer, d.slot) == (rank, slot)).map_or(0, |d| d.at);
                Part { offset: s.at, len: s.len, origin: s.peer, source: Place::new(region, at) }
            });
            let kept = edges.destinations.iter().filter(|_| in_place).map(|d| Part {
                offset: d.at,
                len: d.len,
                origin: rank,
                source: Place::new(region, d.at),
            });
            came.chain(kept).collect()
        };
        Self::by_rank(graph.edges.iter().map(at).collect())
    }

    /// An allgatherv between two groups, the first of `first` ranks.
    pub fn inter_allgatherv(first: u32, counts: &[u64], displs: &[u64]) -> Self {
        let part = |(origin, (&len, &offset)): (u32, (&u64, &u64))| Part {
            offset,
            len,
            origin,
            source: Place::new(Region::Input, 0),
        };
        let all: Vec<Part> = (0..).zip(counts.iter().zip(displs)).map(part).collect();
        let (a, b) = all.split_at(first as usize);
        let at = |rank| if rank < first { b.to_vec() } else { a.to_vec() };
        Self::by_rank((0..).zip(counts).map(|(rank, _)| at(rank)).collect())
    }

    /// A broadcast of `bytes` bytes between two groups, the first of `first` of `size` ranks.
    pub fn inter_bcast(size: u32, first: u32, root: u32, bytes: u64) -> Self {
        let part = Part { offset: 0, len: bytes, origin: root, source: Place::new(Region::Output, 0) };
        let takes = |rank| rank == root || (rank < first) != (root < first);
        Self::by_rank((0..size).map(|rank| if takes(rank) { vec![part] } else { Vec::new() }).collect())
    }

    /// What must lie in the output of `rank`.
    fn parts(&self, rank: u32) -> &[Part] {
        let list = if self.parts.len() == 1 { self.parts.first() } else { self.parts.get(rank as usize) };
        list.map_or(&[], Vec::as_slice)
    }

    fn bytes(&self, rank: u32) -> u64 {
        self.parts(rank).iter().map(|part| part.len).sum()
    }

    /// The parts that overlap a range of the output of `rank`, cut to it: (offset, fragment).
    fn within(&self, rank: u32, offset: u64, len: u64) -> impl Iterator<Item = (u64, Fragment)> + '_ {
        let parts = self.parts(rank);
        let first = parts.partition_point(|part| part.offset + part.len <= offset);
        let end = offset + len;
        parts[first..].iter().take_while(move |part| part.offset < end).map(move |part| {
            let from = part.offset.max(offset);
            let to = (part.offset + part.len).min(end);
            let source = Place::new(part.source.region, part.source.offset + (from - part.offset));
            (from, Fragment { origin: part.origin, source, len: to - from })
        })
    }

    /// The ranges of the output that are right at `rank` from the start.
    fn initial(&self, rank: u32) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.initial.get(&rank).into_iter().flatten().copied()
    }

    /// Whether a range is right at `rank` from the start.
    fn is_initial(&self, rank: u32, place: Place, len: u64) -> bool {
        match place.region {
            Region::Input => true,
            Region::Output => {
                let own = |(at, f): &(u64, Fragment)| {
                    f.origin == rank && f.source == Place::new(Region::Output, *at)
                };
                self.within(rank, place.offset, len).filter(own).map(|(_, f)| f.len).sum::<u64>() == len
            }
            _ => false,
        }
    }
}

/// What lies in the scratch regions of all ranks, by origin.
#[derive(Debug, Default)]
struct Scratch {
    written: BTreeMap<(u32, Region, u64), Fragment>,
}

impl Scratch {
    /// The content of `len` bytes at `place` of `rank`; stops short where there is none.
    fn content(&self, goal: &Goal, rank: u32, place: Place, len: u64) -> Vec<Fragment> {
        match place.region {
            Region::Input => vec![Fragment { origin: rank, source: place, len }],
            Region::Output => goal.within(rank, place.offset, len).map(|(_, f)| f).collect(),
            region => {
                let end = place.offset + len;
                let before = self.written.range(..(rank, region, place.offset + 1)).next_back();
                let from =
                    before.filter(|(key, _)| key.0 == rank && key.1 == region).map_or(0, |(key, _)| key.2);
                let range = self.written.range((rank, region, from)..(rank, region, end));
                range
                    .filter(|(key, f)| key.2 + f.len > place.offset)
                    .map(|(key, f)| {
                        let (a, b) = (key.2.max(place.offset), (key.2 + f.len).min(end));
                        let source = Place::new(f.source.region, f.source.offset + (a - key.2));
                        Fragment { origin: f.origin, source, len: b - a }
                    })
                    .collect()
            }
        }
    }

    /// Moves `len` bytes: what comes to the output must be right, what comes to scratch is remembered.
    fn transfer(
        &mut self,
        goal: &Goal,
        (from, source): (u32, Place),
        (to, target): (u32, Place),
        len: u64,
    ) -> Result<(), Violation> {
        if source == target && source.region == Region::Output && goal.parts.len() == 1 {
            return Ok(());
        }
        let content = self.content(goal, from, source, len);
        if content.iter().map(|f| f.len).sum::<u64>() != len {
            return violated(format!("rank {from} reads {len} bytes at {source:?} that hold nothing"));
        }
        match target.region {
            Region::Input => violated(format!("rank {to}'s input is written")),
            Region::Output => {
                let wanted: Vec<Fragment> = goal.within(to, target.offset, len).map(|(_, f)| f).collect();
                if same(&content, &wanted) {
                    return Ok(());
                }
                violated(format!("{len} bytes from rank {from} {source:?} are wrong at rank {to} {target:?}"))
            }
            region => {
                let mut at = target.offset;
                for fragment in content {
                    self.written.insert((to, region, at), fragment);
                    at += fragment.len;
                }
                Ok(())
            }
        }
    }
}

/// Whether two lists of fragments are the same bytes, however cut.
fn same(a: &[Fragment], b: &[Fragment]) -> bool {
    joined(a) == joined(b)
}

fn joined(list: &[Fragment]) -> Vec<Fragment> {
    let mut out: Vec<Fragment> = Vec::with_capacity(list.len());
    for &f in list {
        match out.last_mut() {
            Some(last)
                if last.origin == f.origin
                    && last.source.region == f.source.region
                    && last.source.offset + last.len == f.source.offset =>
            {
                last.len += f.len;
            }
            _ => out.push(f),
        }
    }
    out
}
