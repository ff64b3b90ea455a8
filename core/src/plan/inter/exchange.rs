//! Allgather(v) between two groups by exchange and allgather (Kang et al. 2019, Algorithms 1 and 2): every rank
//! gets each byte of the other group once, which is the least volume there is.
//!
//! The string of a group's contributions is cut into a range for every rank of the other group. Each of
//! these gets its range from the few ranks that have it, and then they allgather among themselves, both
//! groups at once. Algorithm 1 cuts by pairs: the larger group is divided into as many subgroups as the smaller
//! one has ranks, sizes differing by at most 1, and the ranks of subgroup j exchange their whole contributions
//! for a segment of rank j's. Algorithm 2 cuts into nearly equal ranges, whatever the contributions.
//!
//! # Rounds
//!
//! A range's bytes of one contribution are a *segment*. Numbered along the string, the segments of a sender
//! are consecutive, and so are those of a receiver. So if no rank has more than D of them, segment t can go in
//! round t mod D: no two of a sender or of a receiver meet there, and fewer than D rounds are impossible.
//! (The paper lets receivers order their senders instead; one-sided puts need no such order.) The allgathers
//! take ⌈log2⌉ of the group's size more, on the circulant graph (Träff 2022, Algorithm 7).
//!
//! Everything is put to its final place and waits for itself alone: a segment's number is its counter. In the
//! allgather a rank of Algorithm 1 passes on whole contributions, as the ranges are then of unequal length
//! if the groups' sizes do not divide each other.

use super::groups::{Groups, Stream, equal};
use super::line::{ANY, as_irregular, each, fits, groups};
use crate::error::Result;
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Build, Operation};
use crate::plan::split::Split;
use crate::plan::{Place, Plan, Region, Sizes, Step, Wait};
use crate::schedule::Circulant;

pub(in crate::plan) const SEGMENTED: Algorithm = line(
    Operation::InterAllgather,
    "segmented",
    [ANY, "ceil(max(a,b)/min(a,b)) + max(q_A, q_B)", VOLUME, "Kang et al. 2019, Algorithm 1"],
    |a, _| {
        let sizes = groups(a).map_or([1, 1], Groups::sizes);
        sizes[0].max(sizes[1]).div_ceil(sizes[0].min(sizes[1])) + larger(a)
    },
    |a, _| Ok(Box::new(Exchange::segmented(groups(a)?, each(a)?)?)),
)
.only(fits)
.receives(received);

pub(in crate::plan) const BALANCED: Algorithm =
    of_segments(Operation::InterAllgather, |a, _| balanced(&as_irregular(a)?)).receives(received);

pub(in crate::plan) const BALANCED_IRREGULAR: Algorithm =
    of_segments(Operation::InterAllgatherv, |a, _| balanced(a)).receives(larger_string);

const VOLUME: &str = "max(m_A, m_B)";

const fn of_segments(operation: Operation, build: Build) -> Algorithm {
    let rounds = "D + max(q_A, q_B), D = most segments of a rank";
    let texts = [ANY, rounds, VOLUME, "Kang et al. 2019, Algorithm 2"];
    line(operation, "balanced", texts, balanced_rounds, build).only(fits)
}

fn balanced(a: &Arguments) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Exchange::balanced(groups(a)?, &a.counts, &a.displs)?))
}

/// The bytes that one group contributes, of the group that contributes more.
fn larger_string(a: &Arguments) -> u64 {
    let (first, second) = a.counts.split_at((a.first as usize).min(a.counts.len()));
    first.iter().sum::<u64>().max(second.iter().sum())
}

fn received(a: &Arguments) -> u64 {
    as_irregular(a).map_or(0, |a| larger_string(&a))
}

/// D and the allgather.
fn balanced_rounds(a: &Arguments, _: u32) -> u32 {
    // Where contributions go does not matter.
    let packed = |counts: &[u64]| -> Vec<u64> {
        let before = |at: &mut u64, count: &u64| Some(std::mem::replace(at, at.saturating_add(*count)));
        counts.iter().scan(0, before).collect()
    };
    let plan = || match a.counts.len() == a.size as usize {
        true => Exchange::balanced(groups(a)?, &a.counts, &packed(&a.counts)),
        false => as_irregular(a).and_then(|a| Exchange::balanced(groups(&a)?, &a.counts, &a.displs)),
    };
    plan().map_or(0, |plan| plan.degree()) + larger(a)
}

/// max(q_A, q_B).
fn larger(a: &Arguments) -> u32 {
    groups(a).map_or(0, Groups::q)
}

/// An allgather(v) between two groups.
#[derive(Clone, Debug)]
pub struct Exchange {
    name: &'static str,
    groups: Groups,
    /// From A to B, from B to A.
    ways: [Way; 2],
    /// The rounds of the exchange, D.
    degree: u32,
}

/// One direction.
#[derive(Clone, Debug)]
struct Way {
    stream: Stream,
    /// Of the receivers.
    graph: Circulant,
    segments: Vec<Segment>,
    /// By receiver and by sender of their groups: the first of its segments; and the end.
    received: Vec<u32>,
    sent: Vec<u32>,
}

/// The bytes of one contribution that one receiver gets from its owner.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Their numbers in their groups.
    sender: u32,
    receiver: u32,
    /// In the contribution, and in the outputs.
    source: u64,
    target: u64,
    len: u64,
}

impl Exchange {
    /// Algorithm 1: `count[0]` bytes of every rank of A, `count[1]` of every rank of B; rank j of a group's at
    /// j times that.
    ///
    /// # Errors
    /// If a group is empty, or there are too many ranks or bytes.
    pub fn segmented(groups: Groups, count: [u64; 2]) -> Result<Self> {
        let (counts, displs) = equal(groups, count)?;
        let streams = Stream::both(groups, &counts, &displs)?;
        let borders = |stream: &Stream| {
            let (from, to) = (stream.from.len() as u64, stream.to.len() as u64);
            let mut out = Vec::with_capacity(stream.to.len() + 1);
            if from > to {
                out.extend((0..=to).map(|j| stream.starts[cut(from, to, j)]));
                return out;
            }
            for (j, &start) in (0..from).zip(&stream.starts) {
                let members = cut(to, from, j + 1) - cut(to, from, j);
                let members = u32::try_from(members).unwrap_or(u32::MAX);
                let split = Split::new(stream.count(u32::try_from(j).unwrap_or(0)), members);
                out.extend((0..members).map(|i| start + split.start(i)));
            }
            out.push(stream.bytes());
            out
        };
        Self::new("segmented", groups, streams, borders)
    }

    /// Algorithm 2: `counts[r]` bytes of every rank r, which go to `displs[r]` of the outputs of the other
    /// group.
    ///
    /// # Errors
    /// If a group is empty, there are too many ranks, or counts and displacements do not fit each other.
    pub fn balanced(groups: Groups, counts: &[u64], displs: &[u64]) -> Result<Self> {
        let streams = Stream::both(groups, counts, displs)?;
        let borders = |stream: &Stream| {
            let ranks = stream.to.end - stream.to.start;
            let split = Split::new(stream.bytes(), ranks);
            (0..=ranks).map(|d| split.start(d)).collect()
        };
        Self::new("balanced", groups, streams, borders)
    }

    fn new(
        name: &'static str,
        groups: Groups,
        streams: [Stream; 2],
        borders: impl Fn(&Stream) -> Vec<u64>,
    ) -> Result<Self> {
        let ways = streams.map(|stream| {
            let borders = borders(&stream);
            Way::new(stream, &borders)
        });
        let degree = ways.iter().map(Way::degree).max().unwrap_or(0);
        Ok(Self { name, groups, ways, degree })
    }

    /// The rounds of the exchange: the most segments of a rank.
    pub fn degree(&self) -> u32 {
        self.degree
    }

    /// The direction in which `rank` sends, and that in which it receives.
    fn ways(&self, rank: u32) -> (&Way, &Way) {
        let [ab, ba] = &self.ways;
        if ab.stream.from.contains(&rank) { (ab, ba) } else { (ba, ab) }
    }

    /// The exchange as `rank` sees it.
    fn exchange(&self, rank: u32) -> Vec<Step> {
        let (out, into) = self.ways(rank);
        let me = rank - out.stream.from.start;
        let sent = out.sent[me as usize]..out.sent[me as usize + 1];
        let puts = sent.map(|t| {
            let (segment, peer) = (out.segments[t as usize], out.segments[t as usize].receiver);
            let (source, target) = segment.places();
            let peer = out.stream.to.start + peer;
            Step::put(t % self.degree, peer, source, target, segment.len, Wait::NONE, t)
        });
        let received = into.received[me as usize]..into.received[me as usize + 1];
        let expects = received.map(|t| {
            let segment = into.segments[t as usize];
            let (source, target) = segment.places();
            let peer = into.stream.from.start + segment.sender;
            Step::expect(t % self.degree, peer, source, target, segment.len, t)
        });
        let mut steps: Vec<Step> = puts.chain(expects).collect();
        steps.sort_by_key(|step| step.round);
        steps
    }

    /// Round `k` of the allgather in the group of `rank`.
    fn gather(&self, rank: u32, k: u32) -> impl Iterator<Item = Step> {
        let way = self.ways(rank).1;
        let (me, base, round) = (rank - way.stream.to.start, way.stream.to.start, self.degree + k);
        // In the allgather contributions run against the skips.
        let (to, from) = (way.graph.from(me, k), way.graph.to(me, k));
        let puts = way.window(me, k).map(move |t| {
            let (place, len) = way.segments[t as usize].place();
            Step::put(round, base + to, place, place, len, Wait::once(t), t)
        });
        let expects = way.window(from, k).map(move |t| {
            let (place, len) = way.segments[t as usize].place();
            Step::expect(round, base + from, place, place, len, t)
        });
        puts.chain(expects)
    }
}

/// Where subgroup `j` of `parts` begins among `ranks` ranks; the first ones have one rank more.
fn cut(ranks: u64, parts: u64, j: u64) -> usize {
    usize::try_from(ranks / parts * j + j.min(ranks % parts)).unwrap_or(usize::MAX)
}

impl Segment {
    /// Source and target of the exchange.
    fn places(&self) -> (Place, Place) {
        (Place::new(Region::Input, self.source), Place::new(Region::Output, self.target))
    }

    /// Where it lies afterwards.
    fn place(&self) -> (Place, u64) {
        (Place::new(Region::Output, self.target), self.len)
    }
}

impl Way {
    /// With the string cut at these borders, one range per receiver.
    fn new(stream: Stream, borders: &[u64]) -> Self {
        let ranks = stream.to.end - stream.to.start;
        let mut segments: Vec<Segment> = Vec::with_capacity(stream.from.len() + stream.to.len());
        let count = |segments: &[Segment]| u32::try_from(segments.len()).unwrap_or(u32::MAX);
        let mut received = Vec::with_capacity(stream.to.len() + 1);
        for (receiver, range) in (0..).zip(borders.windows(2)) {
            received.push(count(&segments));
            let parts = stream.parts(range[0]..range[1]);
            segments.extend(parts.map(|(sender, source, target, len)| Segment {
                sender,
                receiver,
                source,
                target,
                len,
            }));
        }
        received.push(count(&segments));
        let before = |i: u32| segments.partition_point(|segment| segment.sender < i);
        let senders = 0..=stream.from.end - stream.from.start;
        let sent = senders.map(|i| u32::try_from(before(i)).unwrap_or(u32::MAX)).collect();
        Self { stream, graph: Circulant::new(ranks), segments, received, sent }
    }

    /// The most segments of a rank.
    fn degree(&self) -> u32 {
        let most = |first: &[u32]| first.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
        most(&self.received).max(most(&self.sent))
    }

    /// The segments that receiver `me` passes on in round `k` of the allgather.
    fn window(&self, me: u32, k: u32) -> impl Iterator<Item = u32> + use<> {
        let (ranks, width) = (self.graph.p(), self.graph.skip(k + 1) - self.graph.skip(k));
        let head = width.min(ranks - me);
        let of = |first: u32, n: u32| self.received[first as usize]..self.received[(first + n) as usize];
        of(me, head).chain(of(0, width - head))
    }

    /// The rounds of the allgather.
    fn q(&self) -> u32 {
        if self.segments.is_empty() { 0 } else { self.graph.q() }
    }
}

impl Plan for Exchange {
    fn algorithm(&self) -> &'static str {
        self.name
    }

    fn size(&self) -> u32 {
        self.groups.size()
    }

    fn rounds(&self) -> u32 {
        let [ab, ba] = &self.ways;
        self.degree + ab.q().max(ba.q())
    }

    fn counters(&self, rank: u32) -> u32 {
        u32::try_from(self.ways(rank).1.segments.len()).unwrap_or(u32::MAX)
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let (out, into) = self.ways(rank);
        let input = out.stream.count(rank - out.stream.from.start);
        Sizes { input, output: into.stream.output, ..Sizes::default() }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let rounds = 0..self.ways(rank).1.q();
        Box::new(self.exchange(rank).into_iter().chain(rounds.flat_map(move |k| self.gather(rank, k))))
    }
}
