//! Irregular allgather in n−1+q rounds (Träff 2022, Algorithm 9): p broadcasts, one from every owner, in
//! the same rounds, as puts into the final memory.
//!
//! Every piece is a put of its own and waits for its own block only. Block b of owner j bumps counter
//! first(j) + b.
//!
//! Owners may have different numbers of blocks: owner j's broadcast takes n_j−1+q rounds, fewer than the
//! longest one's. Its round i must be round k = i mod q of the graph like those of all, and all
//! broadcasts end with a phase; so they end together, and owner j begins n−n_j rounds late: its block
//! number in a round is that of the n-block schedule less n−n_j, and negative ones are not sent. (Late
//! is right also as a priority: long broadcasts need the early rounds, short ones fill the gaps.)

pub use super::contributions::Blocks;
use super::contributions::extent;
use super::window::{self, as_allgather, circulant_widths};
use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::allgather::circulant::Allgather as Windows;
use crate::plan::allgather::runs::{Allgather as Runs, cut};
use crate::plan::bcast::circulant::walk;
use crate::plan::lower::coalesce;
use crate::plan::registry::cost::{Path, float, skips};
use crate::plan::registry::line::{by_blocks, line, of_all};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::rules;
use crate::plan::split::Split;
use crate::plan::{MAX_COUNTERS, Place, Plan, Region, Sizes, Step, Wait};
use crate::schedule::{Circulant, Entries, MAX_P, Round, block};
use std::ops::Range;
use std::rc::Rc;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Allgather,
    "pieces",
    ["any p, n", "n-1+q", "m - m/p", "Träff 2022, Algorithm 9, with equal counts"],
    by_blocks,
    regular,
)
.costs(regular_cost)
.puts_blocks(of_all);

pub(in crate::plan) const IRREGULAR: Algorithm = line(
    Operation::Allgatherv,
    "circulant",
    ["any p, n, counts; all ranks know all counts", "n-1+q", "m - m_r", "Träff 2022, Algorithm 9"],
    by_blocks,
    build,
)
.costs(cost)
.puts_blocks(of_all);

/// Of equal contributions, in one block each by steps for runs instead of pieces.
fn regular(a: &Arguments, model: &LogGp) -> Result<Box<dyn Plan>> {
    if a.blocks.unwrap_or(1) == 1 {
        let (run, cut) = (coalesce(model), cut(model, a.bytes));
        return Ok(Box::new(Runs::new(a.size, a.bytes, run, cut, a.in_place)?));
    }
    let end = a.bytes.checked_mul(a.size.into()).ok_or_else(|| argument("beyond 2^64 bytes"))?;
    let displs = (0..u64::from(a.size)).map(|j| j * (end / u64::from(a.size))).collect();
    let counts = vec![a.bytes; a.size as usize];
    irregular(&Arguments { counts, displs, ..a.clone() }, model)
}

/// Equal counts, one after the other, are those of an allgather.
fn build(a: &Arguments, model: &LogGp) -> Result<Box<dyn Plan>> {
    match as_allgather(a).filter(|_| in_order(a)) {
        Some(equal) => regular(&Arguments { in_place: a.in_place, ..equal }, model),
        None => irregular(a, model),
    }
}

/// Whether the contributions lie one after the other from the start of the output.
pub(in crate::plan) fn in_order(a: &Arguments) -> bool {
    let mut end = Some(0u64);
    a.counts.len() == a.size as usize
        && a.displs.len() == a.counts.len()
        && a.counts.iter().zip(&a.displs).all(|(count, displ)| {
            let place = end;
            end = place.and_then(|at| at.checked_add(*count));
            place == Some(*displ)
        })
}

/// Among more ranks than this, contributions that lie one after the other go in whole windows, unless a number of blocks is named: two steps of a
/// round in place of one for each contribution. Chosen: a plan of pieces takes 3 MB at every rank then. In the simulator (1500 ranks, irr3 and linear, 8 bytes to
/// 10 KB a rank) windows take 0.7 to 1.6 times as long as pieces, as a window waits for the whole one before it.
const MAX_RANKS_IN_PIECES: u32 = 1 << 14;

/// In blocks, of any counts.
fn irregular(a: &Arguments, model: &LogGp) -> Result<Box<dyn Plan>> {
    if a.size > MAX_RANKS_IN_PIECES && a.blocks.unwrap_or(1) == 1 && in_order(a) {
        return Ok(Box::new(Windows::irregular(&a.counts, a.in_place)?));
    }
    let blocks = a.blocks.map_or_else(|| rules::allgatherv_blocks(&a.counts, model), Blocks::Equal);
    Ok(Box::new(Allgatherv::new(&a.counts, &a.displs, &blocks, a.in_place)?))
}

/// As an allgatherv of one block each. What cutting long contributions costs is not counted: nor is what it saves, as
/// links of the model do not carry the puts to several peers in turns.
fn regular_cost(a: &Arguments, path: &mut Path<'_>) {
    let n = a.blocks.unwrap_or(1);
    path.blocks(n);
    window::cost(a, circulant_widths(a.size), path);
    if n > 1 {
        path.piped(&skips(a.size), 0.0, f64::from(n - 1) * a.others(), 0.0);
    }
}

/// One block: as the windows say. More: what the rule for n counts, see [`rules::allgatherv_blocks`].
pub(in crate::plan) fn cost(a: &Arguments, path: &mut Path<'_>) {
    if a.counts.len() < 2 {
        return;
    }
    if a.has_equal_counts() {
        return regular_cost(a, path);
    }
    let n = a.blocks.unwrap_or_else(|| rules::allgatherv_n(&a.counts, path.model()));
    if a.counts.iter().filter(|count| **count > 0).count() == 1 {
        return walk(a.size, n, float(a.largest()), path);
    }
    path.blocks(n);
    if n == 1 {
        return window::cost(a, circulant_widths(a.size), path);
    }
    let rule = rules::Irregular::new(&a.counts);
    let puts = rule.puts(n, path.model()).unwrap_or(f64::from(n) * f64::from(a.size));
    let parts = rule.way_and_work(n, puts);
    let walk = |path: &mut Path<'_>, part: f64, [hops, puts, bytes]: [f64; 3]| {
        path.piped(&skips(a.size), part * hops, part * puts, part * bytes * path.at_once());
    };
    path.longer(
        |path| {
            walk(path, 1.0, parts[0]);
            walk(path, rules::OF_THE_SHORTER, parts[1]);
        },
        |path| {
            walk(path, rules::OF_THE_SHORTER, parts[0]);
            walk(path, 1.0, parts[1]);
        },
    );
}

/// Where more than one of this many owners has several blocks, a table of all schedules is made: a rank and its peers
/// would ask for that many. Chosen by a count: a rank has up to 2⌈log₂ p⌉ peers, and asks each schedule for itself and
/// for them; `cargo bench -p circulant-benches --bench plan` shows what making a plan takes.
const TABLE_OWNERS: usize = 8;

/// An allgatherv by p simultaneous n-block broadcasts.
#[derive(Clone, Debug)]
pub struct Allgatherv {
    graph: Circulant,
    owners: Vec<Owner>,
    /// The largest number of blocks.
    blocks: u32,
    counters: u32,
    output: u64,
    in_place: bool,
    /// Owners of more than one block: the only ones that move before the last phase.
    long: Vec<u32>,
    /// Receive schedules by column: entry k of relative rank r at k·p + r. None where few owners have several blocks:
    /// then a rank finds the schedules that it needs.
    columns: Vec<i8>,
}

/// A rank's schedules in the broadcasts of the owners of several blocks, in their order.
#[derive(Debug, Default)]
struct Schedules {
    send: Vec<Entries>,
    recv: Vec<Entries>,
}

/// Whose part of a transfer is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Sender,
    Receiver,
}

#[derive(Clone, Copy, Debug)]
struct Owner {
    split: Split,
    displ: u64,
    first: u32,
}

impl Allgatherv {
    /// Gathers `counts[j]` bytes of every rank j at `displs[j]` of every rank's output.
    ///
    /// # Errors
    /// If counts and displacements do not fit each other (see [`extent`]), a number of blocks is 0 or
    /// missing, or there are more than [`MAX_COUNTERS`] blocks in all.
    pub fn new(counts: &[u64], displs: &[u64], blocks: &Blocks, in_place: bool) -> Result<Self> {
        let output = extent(counts, displs)?;
        let size = u32::try_from(counts.len()).ok().filter(|&p| p <= MAX_P);
        let size = size.ok_or_else(|| argument(format!("allgatherv among {} ranks", counts.len())))?;
        if matches!(blocks, Blocks::PerOwner(list) if list.len() != counts.len()) {
            return Err(argument("not one number of blocks per rank"));
        }
        let (mut owners, mut long) = (Vec::with_capacity(counts.len()), Vec::new());
        let (mut counters, mut most) = (0u32, 1);
        for (j, (&count, &displ)) in counts.iter().zip(displs).enumerate() {
            let n = match blocks {
                Blocks::Equal(n) => *n,
                Blocks::PerOwner(list) => list[j],
            };
            if n == 0 {
                return Err(argument(format!("rank {j}'s contribution in 0 blocks")));
            }
            // Nothing needs no counters; empty blocks of a short message still have theirs.
            let n = if count == 0 { 1 } else { n };
            owners.push(Owner { split: Split::new(count, n), displ, first: counters });
            counters = counters.checked_add(n).filter(|&c| c <= MAX_COUNTERS).ok_or_else(|| {
                argument(format!("allgatherv with more than {MAX_COUNTERS} blocks in all"))
                    .help("use fewer blocks")
            })?;
            most = most.max(n);
            if n > 1 {
                long.push(u32::try_from(j).unwrap_or(MAX_P));
            }
        }
        let graph = Circulant::new(size);
        let columns = if long.len() <= counts.len() / TABLE_OWNERS { Vec::new() } else { columns(&graph) };
        Ok(Self { graph, owners, blocks: most, counters, output, in_place, long, columns })
    }

    /// The largest number of blocks of an owner.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Where the blocks of all owners begin in the output, ascending if the displacements are.
    pub(crate) fn cuts(&self) -> Vec<u64> {
        let blocks = |owner: &Owner| {
            let (split, displ) = (owner.split, owner.displ);
            (0..split.blocks()).map(move |b| displ + split.start(b))
        };
        self.owners.iter().flat_map(blocks).collect()
    }

    /// What `rank` has to know of others' broadcasts, as receiver only or also as sender.
    fn schedules(&self, rank: u32, end: End) -> Rc<Schedules> {
        if !self.columns.is_empty() {
            return Rc::default();
        }
        let relative = |j: &u32| if rank >= *j { rank - j } else { rank + (self.size() - j) };
        let of = |find: fn(&Circulant, u32) -> Entries| {
            self.long.iter().map(|j| find(&self.graph, relative(j))).collect()
        };
        let send = if end == End::Sender { of(Circulant::send) } else { Vec::new() };
        Rc::new(Schedules { send, recv: of(Circulant::recv) })
    }

    /// The pieces that `receiver` gets in `round`, as (owner, block) in an order that both ends know; `known` is of the
    /// rank at this end.
    fn pieces(
        &self,
        receiver: u32,
        round: Round,
        known: Rc<Schedules>,
        end: End,
    ) -> impl Iterator<Item = (u32, u32)> + '_ {
        let last_phase = round.index + self.graph.q() >= self.rounds();
        let [low, high] = if last_phase { self.window(receiver, round.k) } else { [0..0, 0..0] };
        let single = |j: &u32| self.owners[*j as usize].split.blocks() == 1;
        let scheduled = move |(i, &j): (usize, &u32)| {
            let entry = || match end {
                _ if !self.columns.is_empty() => self.column(receiver, j, round.k),
                End::Sender => known.send[i][round.k as usize],
                End::Receiver => known.recv[i][round.k as usize],
            };
            (j != receiver).then(|| self.block(j, entry(), round)).flatten().map(|b| (j, b))
        };
        let singles = low.chain(high).filter(single).map(|j| (j, 0));
        singles.chain(self.long.iter().enumerate().filter_map(scheduled))
    }

    /// The owners whose only block `receiver` gets in round `k`, ascending in two ranges. A rank's base block comes in
    /// the round of its home range, and there is no other: no schedule is needed.
    fn window(&self, receiver: u32, k: u32) -> [Range<u32>; 2] {
        let (p, near, far) = (self.size(), self.graph.skip(k), self.graph.skip(k + 1));
        // Those from `near` to `far` − 1 behind the receiver, around the circle.
        let begin = (receiver + p - (far - 1)) % p;
        let end = begin + (far - near);
        if end <= p { [begin..end, 0..0] } else { [0..end - p, begin..p] }
    }

    /// Entry `k` of the receive schedule of `receiver` for the blocks of `j`, from the table.
    fn column(&self, receiver: u32, j: u32, k: u32) -> i8 {
        let p = self.size();
        let relative = if receiver >= j { receiver - j } else { receiver + (p - j) };
        self.columns[k as usize * p as usize + relative as usize]
    }

    /// The block of owner `j` that this entry of its schedule means in `round`.
    fn block(&self, j: u32, entry: i8, round: Round) -> Option<u32> {
        let n = self.owners[j as usize].split.blocks();
        block(entry, round.offset - i64::from(self.blocks - n), n)
    }

    /// Source at `sender`, target, length, and counter of a piece, unless it is empty.
    fn piece(&self, sender: u32, (j, b): (u32, u32)) -> Option<(Place, Place, u64, u32)> {
        let owner = &self.owners[j as usize];
        let (offset, len) = owner.split.block(b);
        if len == 0 {
            return None;
        }
        let target = Place::new(Region::Output, owner.displ + offset);
        let source = if j == sender && !self.in_place { Place::new(Region::Input, offset) } else { target };
        Some((source, target, len, owner.first + b))
    }

    fn round(&self, rank: u32, round: Round, known: Rc<Schedules>) -> impl Iterator<Item = Step> + '_ {
        let to = self.graph.to(rank, round.k);
        let puts = self.pieces(to, round, Rc::clone(&known), End::Sender).filter_map(move |(j, b)| {
            let (source, target, len, counter) = self.piece(rank, (j, b))?;
            let wait = if j == rank { Wait::NONE } else { Wait::once(counter) };
            Some(Step::put(round.index, to, source, target, len, wait, counter))
        });
        puts.chain(self.arrivals(rank, round, known))
    }

    /// What is put to `rank` in a round.
    fn arrivals(&self, rank: u32, round: Round, known: Rc<Schedules>) -> impl Iterator<Item = Step> + '_ {
        let from = self.graph.from(rank, round.k);
        self.pieces(rank, round, known, End::Receiver).filter_map(move |(j, b)| {
            let (source, target, len, counter) = self.piece(from, (j, b))?;
            Some(Step::expect(round.index, from, source, target, len, counter))
        })
    }
}

/// The receive schedules of all ranks, column by column.
pub(in crate::plan) fn columns(graph: &Circulant) -> Vec<i8> {
    let (p, q) = (graph.p() as usize, graph.q() as usize);
    let mut out = vec![0; p * q];
    for r in 0..graph.p() {
        for (k, &entry) in graph.recv(r).iter().enumerate() {
            out[k * p + r as usize] = entry;
        }
    }
    out
}

impl Plan for Allgatherv {
    fn algorithm(&self) -> &'static str {
        "circulant"
    }

    fn size(&self) -> u32 {
        self.graph.p()
    }

    fn rounds(&self) -> u32 {
        if self.size() == 1 { 0 } else { self.blocks - 1 + self.graph.q() }
    }

    fn counters(&self, _rank: u32) -> u32 {
        self.counters
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let input = if self.in_place { 0 } else { self.owners[rank as usize].split.bytes() };
        Sizes { input, output: self.output, ..Sizes::default() }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.list(rank))
    }

    fn append(&self, rank: u32, out: &mut Vec<Step>) {
        out.reserve(2 * self.counters as usize);
        self.list(rank).for_each(|step| out.push(step));
    }

    fn expects(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let known = self.schedules(rank, End::Receiver);
        Box::new(
            self.graph
                .rounds(self.blocks)
                .flat_map(move |round| self.arrivals(rank, round, Rc::clone(&known))),
        )
    }
}

impl Allgatherv {
    fn list(&self, rank: u32) -> impl Iterator<Item = Step> + '_ {
        // The own contribution is copied with the last round's priority: puts go first.
        let owner = &self.owners[rank as usize];
        let (from, to) = (Place::new(Region::Input, 0), Place::new(Region::Output, owner.displ));
        let last = self.rounds().saturating_sub(1);
        let len = owner.split.bytes();
        let own = Step::copy(last, from, to, len, [Wait::NONE; 2], crate::plan::NO_COUNTER);
        let own = (len > 0 && !self.in_place).then_some(own);
        let (rounds, known) = (self.graph.rounds(self.blocks), self.schedules(rank, End::Sender));
        rounds.flat_map(move |round| self.round(rank, round, Rc::clone(&known))).chain(own)
    }
}
