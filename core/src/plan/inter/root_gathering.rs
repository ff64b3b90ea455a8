//! Allgather(v) between two groups by their first ranks (Kang et al. 2019, section 3.1): each group gathers at
//! its root, the roots swap the two strings, and each broadcasts what it got in its own group. What MPI
//! libraries do, and what [`exchange`](super::exchange) is compared with.
//!
//! - [`RootGathering::sequential`] as the libraries do it: A's string goes to B's root and is broadcast there,
//!   by a binomial scatter and a ring, before B's goes to A's root. With m_A and m_B bytes in the groups and
//!   m = max(m_A, m_B) equation (2) says a time of β(m + 3m_A + 3m_B): 7 times the least if m_A = m_B.
//! - [`RootGathering::concurrent`], the paper's best version: the roots swap at once and broadcast on the
//!   circulant graph in blocks; equation (1), 3βm.
//!
//! The gather goes up a binomial tree, one message per edge, through [`Region::Land`]: a string in the order
//! of ranks. From the roots' puts on everything is in its final place.

use super::groups::{Groups, Stream};
use super::line::{ANY, as_irregular, fits, groups};
use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::bcast::circulant::Bcast;
use crate::plan::partial::{Sketch, plus};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Build, Operation};
use crate::plan::rules;
use crate::plan::split::Split;
use crate::plan::tree::{Branch, Tree, binomial::Binomial};
use crate::plan::{Kind, MAX_COUNTERS, Place, Plan, Region, Sizes, Step, Wait};
use std::ops::Range;

const VOLUME: &str = "m_A + m_B - the smaller root's";

pub(in crate::plan) const SEQUENTIAL: Algorithm =
    one_by_one(Operation::InterAllgather, |a, _| sequential(&as_irregular(a)?)).receives(received);

pub(in crate::plan) const SEQUENTIAL_IRREGULAR: Algorithm =
    one_by_one(Operation::InterAllgatherv, |a, _| sequential(a)).receives(received_by_root);

pub(in crate::plan) const CONCURRENT: Algorithm =
    at_once(Operation::InterAllgather, |a, model| concurrent(&as_irregular(a)?, model)).receives(received);

pub(in crate::plan) const CONCURRENT_IRREGULAR: Algorithm =
    at_once(Operation::InterAllgatherv, concurrent).receives(received_by_root);

const fn one_by_one(operation: Operation, build: Build) -> Algorithm {
    let rounds = "max(q_A, q_B) + 2 + q_A + a-1 + q_B + b-1";
    let texts = [ANY, rounds, VOLUME, "Kang et al. 2019, equation (2)"];
    let rounds: fn(&Arguments, u32) -> u32 =
        |a, _| groups(a).map_or(0, |groups| RootGathering::rounds_of(groups, None));
    line(operation, "root_gathering", texts, rounds, build).only(fits)
}

const fn at_once(operation: Operation, build: Build) -> Algorithm {
    let rounds = "2 max(q_A, q_B) + n; larger group 1: 1";
    let texts = ["any two groups, n", rounds, VOLUME, "Kang et al. 2019, equation (1)"];
    let rounds: fn(&Arguments, u32) -> u32 =
        |a, n| groups(a).map_or(0, |groups| RootGathering::rounds_of(groups, Some(n)));
    line(operation, "root_gathering_concurrent", texts, rounds, build).only(fits)
}

fn sequential(a: &Arguments) -> Result<Box<dyn Plan>> {
    Ok(Box::new(RootGathering::sequential(groups(a)?, &a.counts, &a.displs)?))
}

fn concurrent(a: &Arguments, model: &LogGp) -> Result<Box<dyn Plan>> {
    let blocks = |size, bytes| a.blocks.unwrap_or_else(|| rules::bcast_blocks(size, bytes, model));
    Ok(Box::new(RootGathering::concurrent(groups(a)?, &a.counts, &a.displs, blocks)?))
}

/// What a root receives: all but its own.
fn received_by_root(a: &Arguments) -> u64 {
    let own = a.counts.first().min(a.counts.get(a.first as usize)).copied().unwrap_or(0);
    a.counts.iter().sum::<u64>() - own
}

fn received(a: &Arguments) -> u64 {
    as_irregular(a).map_or(0, |a| received_by_root(&a))
}

/// Counters below are arrivals of the gather, by the round of the child; there are at most 32 rounds, as ranks are
/// numbered by 32 bits. This one is the other root's string.
const SWAPPED: u32 = 32;
/// The counter of the scatter.
const SCATTERED: u32 = SWAPPED + 1;
/// The first counter of the broadcast's blocks.
const BLOCKS: u32 = SCATTERED + 1;

/// An allgather(v) between two groups by way of their roots.
#[derive(Clone, Debug)]
pub struct RootGathering {
    groups: Groups,
    /// From A to B, from B to A.
    streams: [Stream; 2],
    /// The blocks of the broadcasts in the same order; `None`: scatter and ring, one after the other.
    blocks: Option<[u32; 2]>,
}

impl RootGathering {
    /// As MPI libraries do it; arguments as of [`Exchange::balanced`](super::exchange::Exchange::balanced).
    ///
    /// # Errors
    /// If a group is empty, there are too many ranks, or counts and displacements do not fit each other.
    pub fn sequential(groups: Groups, counts: &[u64], displs: &[u64]) -> Result<Self> {
        Ok(Self { groups, streams: Stream::both(groups, counts, displs)?, blocks: None })
    }

    /// Both directions at once, and optimal broadcasts, in this many blocks as `blocks` says for the number of
    /// ranks and bytes.
    ///
    /// # Errors
    /// If a group is empty, there are too many ranks or blocks, or counts and displacements do not fit.
    pub fn concurrent(
        groups: Groups,
        counts: &[u64],
        displs: &[u64],
        blocks: impl Fn(u32, u64) -> u32,
    ) -> Result<Self> {
        let streams = Stream::both(groups, counts, displs)?;
        let mut numbers = [0; 2];
        for (n, stream) in numbers.iter_mut().zip(&streams) {
            let ranks = stream.to.end - stream.to.start;
            *n = blocks(ranks, stream.bytes());
            if *n > MAX_COUNTERS / 2 {
                return Err(argument(format!("a broadcast in {n} blocks")).help("use fewer"));
            }
            Bcast::new(ranks, 0, stream.bytes(), *n)?;
        }
        Ok(Self { groups, streams, blocks: Some(numbers) })
    }

    /// The rounds of the two versions, the second with `n` blocks.
    pub(crate) fn rounds_of(groups: Groups, n: Option<u32>) -> u32 {
        let [a, b] = groups.sizes().map(|ranks| Self::broadcast(ranks, n));
        match n {
            None => groups.q() + 1 + b + 1 + a,
            Some(_) => groups.q() + 1 + a.max(b),
        }
    }

    /// The rounds of a broadcast among this many ranks.
    fn broadcast(ranks: u32, n: Option<u32>) -> u32 {
        let q = crate::plan::topology::log2_ceil(ranks);
        match n {
            _ if ranks == 1 => 0,
            None => q + ranks - 1,
            Some(n) => n - 1 + q,
        }
    }

    /// The streams that `rank` sends and receives.
    fn ways(&self, rank: u32) -> (&Stream, &Stream) {
        let [ab, ba] = &self.streams;
        if ab.from.contains(&rank) { (ab, ba) } else { (ba, ab) }
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let (out, into) = self.ways(rank);
        let ranks = into.to.end - into.to.start;
        let blocks = self.blocks.map_or(ranks, |[a, b]| if out.from.start == 0 { b } else { a });
        let mut s = Sketch::new(BLOCKS + blocks);
        let gathered = gather(&mut s, out, rank);
        let root = rank == out.from.start;
        let swapped = arrived(SWAPPED, &into.runs(0..into.bytes()));
        let mut round = self.groups.q();
        let Some(_) = self.blocks else {
            // A's string, then B's.
            for stream in &self.streams {
                let after = if stream.from.start == 0 { Wait::NONE } else { swapped };
                if root {
                    swap(&mut s, stream, rank, round, &[gathered, after]);
                }
                if stream.to.contains(&rank) {
                    scatter_ring(&mut s, stream, rank, round + 1, swapped);
                }
                round += 1 + Self::broadcast(stream.to.end - stream.to.start, None);
            }
            return s;
        };
        if root {
            swap(&mut s, out, rank, round, &[gathered]);
            swap(&mut s, into, rank, round, &[]);
        }
        round += 1;
        circulant(&mut s, into, rank, round, blocks, swapped);
        s
    }
}

/// The wait for as many arrivals as there are runs.
fn arrived(counter: u32, runs: &[(u64, u64)]) -> Wait {
    match u32::try_from(runs.len()) {
        Ok(at_least) if at_least > 0 => Wait { counter, at_least },
        _ => Wait::NONE,
    }
}

/// The binomial tree of the first to last rank of a group, by their numbers in it.
fn tree(group: &Range<u32>) -> Option<Binomial> {
    Binomial::new(group.end - group.start, 0).ok()
}

/// Where sender `i` holds the contributions of its subtree of this many ranks.
fn held(width: u32) -> Place {
    Place::new(if width > 1 { Region::Land } else { Region::Input }, 0)
}

/// The subtree of a member of a group.
fn subtree(tree: &Binomial, member: u32) -> Branch {
    let all = Branch { peer: 0, round: 0, first: 0, width: tree.size() };
    tree.parent(member).unwrap_or(all)
}

/// The gather in a group; gives what the root waits for to have the string.
fn gather(s: &mut Sketch, stream: &Stream, rank: u32) -> Wait {
    let Some(tree) = tree(&stream.from) else { return Wait::NONE };
    let (base, me) = (stream.from.start, rank - stream.from.start);
    let start = |member: u32| stream.starts[member as usize];
    let bytes = |b: &Branch| start(b.first + b.width) - start(b.first);
    let (mine, mut waits) = (subtree(&tree, me), Vec::new());
    let own = stream.count(me);
    if mine.width > 1 && own > 0 {
        waits.push(s.copy(0, Place::new(Region::Input, 0), held(mine.width), own, &[]));
    }
    for child in tree.children(me) {
        let target = plus(held(mine.width), start(child.first) - start(me));
        let len = bytes(&child);
        s.expect(child.round, base + child.peer, held(child.width), target, len, child.round);
        if len > 0 {
            waits.push(Wait::once(child.round));
        }
    }
    let Some(up) = tree.parent(me) else {
        return s.one(tree.rounds(), &waits);
    };
    let target = plus(Place::new(Region::Land, 0), start(me) - start(up.peer));
    s.put(up.round, base + up.peer, held(mine.width), target, bytes(&up), &waits, up.round);
    Wait::NONE
}

/// The string goes from root to root; both ask this.
fn swap(s: &mut Sketch, stream: &Stream, rank: u32, round: u32, waits: &[Wait]) {
    let (from, to) = (stream.from.start, stream.to.start);
    let mut source = held(stream.from.end - stream.from.start);
    let ready = if rank == from { s.one(round, waits) } else { Wait::NONE };
    for (at, len) in stream.runs(0..stream.bytes()) {
        let target = Place::new(Region::Output, at);
        if rank == from {
            s.put(round, to, source, target, len, &[ready], SWAPPED);
        } else {
            s.expect(round, from, source, target, len, SWAPPED);
        }
        source = plus(source, len);
    }
}

/// A broadcast in the receiving group: the root scatters pieces down a binomial tree, which go round a
/// ring. The root has everything, and a rank that got a piece in the scatter isn't sent it again.
fn scatter_ring(s: &mut Sketch, stream: &Stream, rank: u32, round: u32, swapped: Wait) {
    let Some(tree) = tree(&stream.to) else { return };
    let (base, me, ranks) = (stream.to.start, rank - stream.to.start, tree.size());
    let pieces = Split::new(stream.bytes(), ranks);
    let run = |first: u32, width: u32| stream.runs(pieces.start(first)..pieces.start(first + width));
    let (mine, last) = (subtree(&tree, me), round + tree.rounds());
    let scattered = if me == 0 { swapped } else { arrived(SCATTERED, &run(mine.first, mine.width)) };
    if let Some(up) = tree.parent(me) {
        for (at, len) in run(up.first, up.width) {
            let place = Place::new(Region::Output, at);
            s.expect(last - 1 - up.round, base + up.peer, place, place, len, SCATTERED);
        }
    }
    for child in tree.children(me).into_iter().rev() {
        for (at, len) in run(child.first, child.width) {
            let place = Place::new(Region::Output, at);
            s.put(last - 1 - child.round, base + child.peer, place, place, len, &[scattered], SCATTERED);
        }
    }
    let holds = |member: u32, piece: u32| {
        let subtree = subtree(&tree, member);
        (subtree.first..subtree.first + subtree.width).contains(&piece)
    };
    let (next, before) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    for t in 0..ranks - 1 {
        let piece = (me + ranks - t) % ranks;
        for (at, len) in run(piece, 1).into_iter().filter(|_| !holds(next, piece)) {
            let place = Place::new(Region::Output, at);
            let wait = if holds(me, piece) { scattered } else { arrived(BLOCKS + piece, &run(piece, 1)) };
            s.put(last + t, base + next, place, place, len, &[wait], BLOCKS + piece);
        }
        let piece = (before + ranks - t) % ranks;
        for (at, len) in run(piece, 1).into_iter().filter(|_| !holds(me, piece)) {
            let place = Place::new(Region::Output, at);
            s.expect(last + t, base + before, place, place, len, BLOCKS + piece);
        }
    }
}

/// A broadcast in the receiving group in blocks (Träff 2022, Algorithm 6).
fn circulant(s: &mut Sketch, stream: &Stream, rank: u32, round: u32, blocks: u32, swapped: Wait) {
    let (base, ranks, bytes) = (stream.to.start, stream.to.end - stream.to.start, stream.bytes());
    let Ok(bcast) = Bcast::new(ranks, 0, bytes, blocks) else { return };
    for step in bcast.steps(rank - base) {
        let runs = stream.runs(step.source.offset..step.source.offset + step.len);
        let wait = if rank == base { swapped } else { arrived(BLOCKS + step.bump, &runs) };
        for (at, len) in runs {
            let place = Place::new(Region::Output, at);
            let (round, peer, bump) = (round + step.round, base + step.peer, BLOCKS + step.bump);
            if step.kind == Kind::Put {
                s.put(round, peer, place, place, len, &[wait], bump);
            } else {
                s.expect(round, peer, place, place, len, bump);
            }
        }
    }
}

impl Plan for RootGathering {
    fn algorithm(&self) -> &'static str {
        if self.blocks.is_some() { "root_gathering_concurrent" } else { "root_gathering" }
    }

    fn size(&self) -> u32 {
        self.groups.size()
    }

    fn rounds(&self) -> u32 {
        let Some([ab, ba]) = self.blocks else { return Self::rounds_of(self.groups, None) };
        let [a, b] = self.groups.sizes();
        self.groups.q() + 1 + Self::broadcast(b, Some(ab)).max(Self::broadcast(a, Some(ba)))
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let (out, into) = self.ways(rank);
        let me = rank - out.from.start;
        let width = tree(&out.from).map_or(1, |tree| subtree(&tree, me).width);
        let land = out.starts[(me + width) as usize] - out.starts[me as usize];
        Sizes { input: out.count(me), output: into.output, land: if width > 1 { land } else { 0 }, work: 0 }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let mut steps = self.sketch(rank).steps;
        // Both directions were written down one after the other.
        steps.sort_by_key(|step| step.round);
        Box::new(steps.into_iter())
    }
}
