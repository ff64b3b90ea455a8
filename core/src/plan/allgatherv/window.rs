//! Allgathers in which a round's message is a window of consecutive owners' whole contributions.
//!
//! An algorithm of this kind is a `Pattern`. Every contribution is a put of its own into the final memory
//! and waits for itself alone; an owner's number is its counter. (Lowering joins small neighbours.)

use super::contributions::Contributions;
use crate::error::Result;
use crate::machine::LogGp;
use crate::plan::hops::Hop;
use crate::plan::registry::Arguments;
use crate::plan::registry::cost::{Path, float};
use crate::plan::{Plan, Sizes, Step, Wait};
use crate::schedule::Circulant;

/// What a line of an allgather builds: `bytes` bytes of each rank.
pub(in crate::plan) fn regular<P: Pattern + 'static>(a: &Arguments, _: &LogGp) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Windows::<P>::new(Contributions::equal(a.size, a.bytes, a.in_place)?)?))
}

/// What a line of an allgatherv builds.
pub(in crate::plan) fn irregular<P: Pattern + 'static>(a: &Arguments, _: &LogGp) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Windows::<P>::new(Contributions::new(&a.counts, &a.displs, a.in_place)?)?))
}

/// Which rank sends which contributions to which rank, in which round.
pub(crate) trait Pattern: Send + Sync + std::fmt::Debug + Sized {
    /// The registry's name.
    const NAME: &'static str;
    /// To how many ranks each one puts, as [`Plan::fan_out`] says it.
    const FAN_OUT: Option<u32> = None;
    /// The pattern among `size` ranks.
    ///
    /// # Errors
    /// If there is none among this many.
    fn new(size: u32) -> Result<Self>;
    /// The number of rounds.
    fn rounds(&self) -> u32;
    /// What `sender` sends in `round`.
    fn message(&self, sender: u32, round: u32) -> Message;
    /// The rank that sends to `receiver` in `round`.
    fn from(&self, receiver: u32, round: u32) -> u32;
}

/// The contributions of owners `first .. first+owners` mod p, for rank `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The receiver.
    pub to: u32,
    /// The first owner.
    pub first: u32,
    /// How many owners.
    pub owners: u32,
}

/// An allgather by a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Windows<P> {
    pattern: P,
    data: Contributions,
}

impl<P: Pattern> Windows<P> {
    /// Gathers all contributions at every rank.
    ///
    /// # Errors
    /// If the pattern does not exist for this many ranks.
    pub(crate) fn new(data: Contributions) -> Result<Self> {
        Ok(Self::of(P::new(data.size())?, data))
    }

    /// The same by this pattern.
    pub(super) fn of(pattern: P, data: Contributions) -> Self {
        Self { pattern, data }
    }

    fn owners(&self, message: Message) -> impl Iterator<Item = u32> + use<P> {
        let p = self.data.size();
        let head = message.owners.min(p - message.first);
        (message.first..message.first + head).chain(0..message.owners - head)
    }

    fn round(&self, rank: u32, round: u32) -> impl Iterator<Item = Step> + '_ {
        let out = self.pattern.message(rank, round);
        let puts = self.owners(out).filter_map(move |j| {
            let (source, target, len) = self.data.piece(rank, j, 0..u64::MAX)?;
            let wait = if j == rank { Wait::NONE } else { Wait::once(j) };
            Some(Step::put(round, out.to, source, target, len, wait, j))
        });
        let from = self.pattern.from(rank, round);
        let expects = self.owners(self.pattern.message(from, round)).filter_map(move |j| {
            let (source, target, len) = self.data.piece(from, j, 0..u64::MAX)?;
            Some(Step::expect(round, from, source, target, len, j))
        });
        puts.chain(expects)
    }
}

impl<P: Pattern> Plan for Windows<P> {
    fn algorithm(&self) -> &'static str {
        P::NAME
    }

    fn size(&self) -> u32 {
        self.data.size()
    }

    fn fan_out(&self) -> Option<u32> {
        P::FAN_OUT
    }

    fn rounds(&self) -> u32 {
        self.pattern.rounds()
    }

    fn counters(&self, _rank: u32) -> u32 {
        self.size()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        self.data.sizes(rank)
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let rounds = (0..self.rounds()).flat_map(move |round| self.round(rank, round));
        Box::new(rounds.chain(self.data.own(rank, self.rounds())))
    }
}

/// This many light pieces share a put, on average: those that are here when it goes. Fitted to the simulator's times on the grid
/// of `xtask choices allgatherv`.
const SHARED_PIECES_PER_PUT: f64 = 4.0;

/// Rounds whose pieces go on as soon as they are here: a round ends a hop after the one that brought the last of
/// what it sends, or when the link has carried all until then.
struct Rounds {
    /// By round: the distance, the owners of a message, its bytes where it has most.
    rounds: Vec<(u32, u32, f64)>,
    /// The longest contribution.
    largest: f64,
}

impl Rounds {
    fn walk(&self, path: &mut Path<'_>) {
        let (owners, total) = self.rounds.iter().fold((0.0, 0.0), |(n, b), r| (n + f64::from(r.1), b + r.2));
        let mean = total / f64::max(owners, 1.0);
        let start = path.clone();
        let (mut puts, mut bytes, mut distances) = (0.0, Vec::new(), Vec::new());
        // By round: the owners held after it, and its end.
        let (mut held, mut ends) = (1, Vec::<(u32, Path<'_>)>::new());
        for &(distance, width, most) in &self.rounds {
            let runs = path.runs(width.into(), mean);
            let runs = if path.shared(runs, mean) { (runs / SHARED_PIECES_PER_PUT).max(1.0) } else { runs };
            puts += runs;
            bytes.push((distance, most));
            distances.push(distance);
            let brought = ends.iter().find(|end| end.0 >= width).map(|end| end.1.clone());
            let mut end = brought.filter(|_| width > 1).unwrap_or_else(|| start.clone());
            let run = path.coalesce().min(most).max(self.largest.min(most));
            end.longer(
                |path| path.hop(distance, 1.0, run),
                |path| {
                    *path = start.clone();
                    path.over(&distances, 1.0, puts, 0.0);
                    bytes.iter().for_each(|(distance, most)| path.over(&[*distance], 0.0, 0.0, *most));
                },
            );
            path.longer(|_| (), |path| *path = end.clone());
            held += width;
            ends.push((held, path.clone()));
        }
        path.relayed(f64::from(u32::try_from(self.rounds.len()).unwrap_or(u32::MAX)));
    }
}

/// By round of the circulant graph: its skip and the owners of a message.
pub(in crate::plan) fn circulant_widths(size: u32) -> Vec<(u32, u32)> {
    let graph = Circulant::new(size.max(1));
    (0..graph.q()).map(|k| (graph.skip(k), graph.skip(k + 1) - graph.skip(k))).collect()
}

/// The arguments of the allgather that it is where all counts are equal: no count need be looked at then.
pub(super) fn as_allgather(a: &Arguments) -> Option<Arguments> {
    if a.counts.is_empty() {
        return None;
    }
    let bytes = a.each()?;
    Some(Arguments { size: a.size, bytes, blocks: a.blocks, ..Arguments::default() })
}

/// Rounds of these distances and owners. Of unequal contributions each waits for the heaviest message.
pub(super) fn cost(a: &Arguments, widths: Vec<(u32, u32)>, path: &mut Path<'_>) {
    if let Some(each) = a.each() {
        let times = path.at_once();
        return overlapping(a, Some(each), widths, times, path);
    }
    for (distance, width) in widths {
        path.hop(distance, 1.0, path.turns() * float(a.heaviest(width)));
    }
}

/// Hops of several messages at once: each hop waits for the last message of the one before, and its last message is the shortest.
pub(super) fn by_hops(a: &Arguments, hops: impl Iterator<Item = Hop>, path: &mut Path<'_>) {
    let each = a.each();
    let turns = if each.is_some() { path.at_once() } else { path.turns() };
    let bytes = |owners: u32| float(of_owners(a, each, owners));
    let mean = each.map_or_else(|| bytes(a.size) / f64::from(a.size.max(1)), float);
    for hop in hops {
        let others = f64::from(hop.puts - 1);
        let last = hop.reach.min(a.size - hop.furthest());
        // A message is one put where its contributions are light enough, or few.
        let puts = |owners: u32| {
            let runs = path.runs(owners.into(), mean);
            if path.shared(runs, mean) { (runs / SHARED_PIECES_PER_PUT).max(1.0) } else { runs }
        };
        let puts = others * puts(hop.reach) + puts(last);
        hop.over(path, puts, turns * (others * bytes(hop.reach) + bytes(last)));
    }
}

/// Bytes of this many neighbours: of those that have most, or of any where all have `each`. No look at the counts then.
fn of_owners(a: &Arguments, each: Option<u64>, owners: u32) -> u64 {
    each.map_or_else(|| a.heaviest(owners), |each| each.saturating_mul(owners.into()))
}

fn overlapping(a: &Arguments, each: Option<u64>, widths: Vec<(u32, u32)>, turns: f64, path: &mut Path<'_>) {
    let round = |(distance, width)| (distance, width, turns * float(of_owners(a, each, width)));
    let largest = float(each.unwrap_or_else(|| a.largest()));
    Rounds { rounds: widths.into_iter().map(round).collect(), largest }.walk(path);
}

/// The rounds of the circulant graph backwards, in one block: what comes for one round is combined before the next is sent.
pub(in crate::plan) fn backwards(a: &Arguments, path: &mut Path<'_>) {
    // The heaviest of unequal windows are more than any rank has to wait for, which is as much.
    let each = a.each();
    let turns = if each.is_some() { path.turns() } else { 1.0 };
    overlapping(a, each, circulant_widths(a.size), turns, path);
}
