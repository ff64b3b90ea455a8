//! Lowering: one rank's steps as posted work, within the limits of a wire.
//!
//! A *message* is what one rank puts to one peer in one round. Lowering has three answers for its
//! pieces, taken in this order:
//!
//! 1. **Coalesce.** Pieces that follow each other, in the source and in the target, become one run of
//!    at most [`COALESCE`] bytes, which waits for all that its pieces wait for. At n = 1 a window of
//!    owners is at most two runs.
//! 2. **Share.** Runs lighter than [`WireLimits::light`], if the message has at least two, are gathered
//!    (at most [`WireLimits::gather`] to a put; with a gather limit of 1 they are packed first) into one
//!    put to a landing slot at the receiver, which unpacks them. A rank that forwards such a piece
//!    takes it from the slot, so that unpacking delays nobody.
//! 3. **Single.** Every other run is a put of its own, or several if it is longer than
//!    [`WireLimits::max_put`].
//!
//! Sender and receiver decide alike, each from its own side: a message's [`Kind::Put`]s and
//! [`Kind::Expect`]s mirror each other in order, source, target and length. What travels as one put
//! bumps one counter, that of its first piece, as often as there are puts; waits for any of its
//! pieces become waits for that.
//!
//! Joins (copies of no bytes) are dissolved: whoever waits for one waits for what it waits for.

use super::{Kind, MAX_COUNTERS, NO_COUNTER, Place, Plan, Region, Step, Wait};
use crate::error::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

/// What the wire allows and what pieces are worth; equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireLimits {
    /// The longest single put in bytes (≥ 1).
    pub max_put: u64,
    /// Local segments per put (≥ 1).
    pub gather: usize,
    /// Pieces of fewer bytes than this, of one round and to one peer, share a put to a landing slot
    /// when there are at least two; 0 puts every piece by itself.
    pub light: u64,
}

/// A contiguous run of local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where.
    pub place: Place,
    /// How many bytes.
    pub len: u64,
}

/// What the engine does for one operation of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Gather `segments` into one put to `target` at the peer.
    Put,
    /// Bump the peer's counter.
    Notify,
    /// Move the one segment to `target` here.
    Copy,
}

/// One posted piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// What.
    pub kind: OpKind,
    /// Index into [`Program::peers`] (0 and unused for copies).
    pub peer: u32,
    /// First of its segments in [`Program::segments`].
    pub first_segment: u32,
    /// How many segments it has.
    pub segments: u32,
    /// Where it goes.
    pub target: Place,
    /// Bytes in all its segments.
    pub len: u64,
    /// Its round: lower ones go first.
    pub round: u32,
    /// How many entries of the waiter table must fire before it may go.
    pub waits: u32,
    /// The counter that it bumps (at the peer, or here for copies), or [`NO_COUNTER`].
    pub bump: u32,
}

/// What is known of a counter that a peer bumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Index into [`Program::peers`], or [`NO_COUNTER`] when the counter is bumped locally only.
    pub peer: u32,
    /// How many times the peer bumps it (puts after splitting).
    pub arrivals: u32,
    /// Bytes that arrive with it, all together.
    pub len: u64,
    /// The round in which they come.
    pub round: u32,
}

/// A rank that this rank puts to, notifies, or expects something from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its rank in the communicator.
    pub rank: u32,
    /// Whether it puts data into our memory: it needs our open word.
    pub puts_to_us: bool,
    /// Whether we put data into its memory: we need its open word.
    pub we_put: bool,
    /// Bytes that it puts to us, all together.
    pub bytes_in: u64,
    /// Bytes that we put to it, all together.
    pub bytes_out: u64,
}

/// One rank's part of a plan, ready to run: everything the engine needs and nothing it must compute.
///
/// Ops are sorted by (round, order of the plan). Waiters of counter c are
/// `waiters[waiter_start[c]..waiter_start[c + 1]]`: pairs (count, op): when c reaches `count`, one of the
/// waits of `op` is over.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The ops.
    pub ops: Vec<Op>,
    /// Gather lists of the ops.
    pub segments: Vec<Segment>,
    /// The peers, each once, sorted by rank.
    pub peers: Vec<Peer>,
    /// By counter: what bumps it.
    pub expected: Vec<Expected>,
    /// Offsets into `waiters`; one more entry than there are counters.
    pub waiter_start: Vec<u32>,
    /// (count, op) pairs.
    pub waiters: Vec<(u32, u32)>,
    /// Arrivals (puts and notifies) in all: the receiving side is finished when it counted these.
    pub arrivals: u64,
    /// Memory that the program needs beyond the caller's, after lowering.
    pub work: u64,
    /// Landing memory, likewise.
    pub land: u64,
}

impl Program {
    /// How many counters there are.
    pub fn counters(&self) -> usize {
        self.expected.len()
    }
}

/// Neighbouring pieces are made one put up to this many bytes. Per-put overhead is lost in the byte time
/// of such a put on any wire, and a longer one would only hold back what has arrived.
pub const COALESCE: u64 = 64 << 10;

/// A join of more waits than this stays an op of its own, so that chains of joins cost no p² waits.
const JOIN_MAX: usize = 64;

/// Landing slots and packed pieces begin at multiples of this many bytes.
const SLOT_ALIGN: u64 = 64;

/// What `rank` has to do for `plan` on a wire with these limits.
///
/// # Errors
/// If the limits are impossible, or the plan breaks its own laws (see [`super`]) or is too large.
pub fn lower(plan: &dyn Plan, rank: u32, limits: &WireLimits) -> Result<Program> {
    if limits.max_put == 0 || limits.gather == 0 {
        return Err(broken("puts of at most 0 bytes or 0 segments"));
    }
    if rank >= plan.size() {
        return Err(broken(&format!("there is no rank {rank} of {}", plan.size())));
    }
    let steps: Vec<Step> = plan.steps(rank).collect();
    let mut lowering = Lowering::new(plan, rank, *limits)?;
    lowering.receive(&steps)?;
    lowering.post(&steps)?;
    lowering.unpack()?;
    lowering.finish()
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Argument, format!("cannot lower the plan: {what}"))
}

fn index(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| broken("more than 2^32 operations"))
}

/// A part of a message that becomes puts of its own.
enum Parcel {
    /// Adjacent steps, contiguous on both sides.
    Run(Range<usize>),
    /// Light runs that share one put to a landing slot.
    Slot(Vec<Range<usize>>),
}

fn length(steps: &[Step]) -> u64 {
    steps.iter().map(|s| s.len).sum()
}

/// How a message travels; the same from its puts and from its expects.
fn parcels(message: &[Step], limits: &WireLimits) -> Vec<Parcel> {
    let most = limits.max_put.min(COALESCE);
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut len = 0;
    for (i, step) in message.iter().enumerate() {
        let follows = i > 0 && {
            let last = &message[i - 1];
            last.source.region == step.source.region
                && last.target.region == step.target.region
                && last.source.offset + last.len == step.source.offset
                && last.target.offset + last.len == step.target.offset
        };
        match runs.last_mut() {
            Some(run) if follows && step.len <= most && len + step.len <= most => {
                run.end = i + 1;
                len += step.len;
            }
            _ => {
                runs.push(i..i + 1);
                len = step.len;
            }
        }
    }
    let is_light = |run: &Range<usize>| length(&message[run.clone()]) < limits.light.min(limits.max_put);
    if runs.iter().filter(|run| is_light(run)).count() < 2 {
        return runs.into_iter().map(Parcel::Run).collect();
    }
    let segments = if limits.gather == 1 { usize::MAX } else { limits.gather };
    let (mut out, mut slot, mut filled) = (Vec::new(), Vec::new(), 0);
    for run in runs {
        let len = length(&message[run.clone()]);
        if !is_light(&run) {
            out.push(Parcel::Run(run));
            continue;
        }
        if slot.len() == segments || filled + len > limits.max_put {
            out.push(Parcel::share(std::mem::take(&mut slot)));
            filled = 0;
        }
        filled += len;
        slot.push(run);
    }
    if !slot.is_empty() {
        out.push(Parcel::share(slot));
    }
    out
}

impl Parcel {
    fn share(mut runs: Vec<Range<usize>>) -> Self {
        match runs.pop() {
            Some(only) if runs.is_empty() => Self::Run(only),
            last => {
                runs.extend(last);
                Self::Slot(runs)
            }
        }
    }
}

/// Within a round, the steps of a message follow each other.
fn same_message(a: &Step, b: &Step) -> bool {
    a.round == b.round && a.peer == b.peer
}

fn align(n: u64) -> u64 {
    n.next_multiple_of(SLOT_ALIGN)
}

/// Where the slots that `sender` puts to lie in `receiver`'s landing memory, in the order of the puts.
fn slots_at(plan: &dyn Plan, receiver: u32, sender: u32, limits: &WireLimits) -> VecDeque<u64> {
    let mut at = align(plan.sizes(receiver).land);
    let mut out = VecDeque::new();
    let expects: Vec<Step> = plan.steps(receiver).filter(|s| s.kind == Kind::Expect).collect();
    for message in expects.chunk_by(same_message) {
        for parcel in parcels(message, limits) {
            if let Parcel::Slot(runs) = parcel {
                if message[0].peer == sender {
                    out.push_back(at);
                }
                let len: u64 = runs.into_iter().map(|run| length(&message[run])).sum();
                at += align(len);
            }
        }
    }
    out
}

/// A landing slot of ours.
struct Slot {
    arrival: u32,
    round: u32,
    /// What to copy where, once it is here.
    runs: Vec<(Place, Place, u64)>,
    /// The counter that says it is unpacked, if anyone asked.
    unpacked: Option<u32>,
}

/// A piece that lands in a slot.
struct Landed {
    /// Its counter in the plan.
    counter: u32,
    slot: usize,
    target: Place,
    len: u64,
    /// Where in the slot.
    place: Place,
}

/// The entries of a list sorted by counter that belong to `counter`.
fn of_counter<T>(list: &[T], counter: u32, key: impl Fn(&T) -> u32) -> &[T] {
    let begin = list.partition_point(|entry| key(entry) < counter);
    let len = list[begin..].partition_point(|entry| key(entry) == counter);
    &list[begin..begin + len]
}

/// An op with its segments and waits still at its side.
struct Draft {
    kind: OpKind,
    peer: u32,
    segments: Vec<Segment>,
    target: Place,
    round: u32,
    bump: u32,
    waits: Vec<(u32, u32)>,
}

struct Lowering<'a> {
    plan: &'a dyn Plan,
    rank: u32,
    limits: WireLimits,
    peers: BTreeMap<u32, Peer>,
    /// By counter; `peer` is still a rank.
    expected: Vec<Expected>,
    /// By counter of the plan: how often its steps bump it.
    bumps: Vec<u32>,
    /// (counter of the plan, counter that is bumped for it), sorted.
    stands: Vec<(u32, u32)>,
    slots: Vec<Slot>,
    /// What lands in slots, sorted by counter.
    landed: Vec<Landed>,
    /// By counter of a dissolved join: its waits.
    joins: HashMap<u32, Vec<(u32, u32)>>,
    drafts: Vec<Draft>,
    slots_at: HashMap<u32, VecDeque<u64>>,
    work: u64,
    land: u64,
}

impl<'a> Lowering<'a> {
    fn new(plan: &'a dyn Plan, rank: u32, limits: WireLimits) -> Result<Self> {
        let counters = plan.counters(rank);
        if counters > MAX_COUNTERS {
            return Err(broken("too many counters"));
        }
        let nothing = Expected { peer: NO_COUNTER, arrivals: 0, len: 0, round: 0 };
        let sizes = plan.sizes(rank);
        Ok(Self {
            plan,
            rank,
            limits,
            peers: BTreeMap::new(),
            expected: vec![nothing; counters as usize],
            bumps: vec![0; counters as usize],
            stands: Vec::new(),
            slots: Vec::new(),
            landed: Vec::new(),
            joins: HashMap::new(),
            drafts: Vec::new(),
            slots_at: HashMap::new(),
            work: sizes.work,
            land: align(sizes.land),
        })
    }

    fn peer(&mut self, rank: u32) -> Result<&mut Peer> {
        if rank >= self.plan.size() || rank == self.rank {
            return Err(broken(&format!("rank {} has rank {rank} for a peer", self.rank)));
        }
        let new = Peer { rank, puts_to_us: false, we_put: false, bytes_in: 0, bytes_out: 0 };
        Ok(self.peers.entry(rank).or_insert(new))
    }

    /// What arrives: which counters, how often, in which slots.
    fn receive(&mut self, steps: &[Step]) -> Result<()> {
        for step in steps {
            let bumped = step.bump != NO_COUNTER
                && matches!(step.kind, Kind::Expect | Kind::ExpectNotify | Kind::Copy);
            if bumped {
                *self
                    .bumps
                    .get_mut(step.bump as usize)
                    .ok_or_else(|| broken("a counter beyond the last"))? += 1;
            }
            if step.kind == Kind::ExpectNotify {
                self.peer(step.peer)?;
                self.expect(step, 1, 0)?;
            }
        }
        let expects: Vec<Step> = steps.iter().copied().filter(|s| s.kind == Kind::Expect).collect();
        for message in expects.chunk_by(same_message) {
            let peer = self.peer(message[0].peer)?;
            peer.puts_to_us = true;
            peer.bytes_in += length(message);
            for parcel in parcels(message, &self.limits) {
                match parcel {
                    Parcel::Run(run) => {
                        let run = &message[run];
                        let len = length(run);
                        let puts = u32::try_from(len.div_ceil(self.limits.max_put).max(1));
                        self.expect(
                            &run[0],
                            puts.map_err(|_| broken("more than 2^32 puts for a piece"))?,
                            len,
                        )?;
                        self.stands.extend(run.iter().map(|s| (s.bump, run[0].bump)));
                    }
                    Parcel::Slot(runs) => self.land(message, &runs)?,
                }
            }
        }
        self.stands.sort_unstable();
        self.stands.dedup();
        self.landed.sort_by_key(|landed| landed.counter);
        Ok(())
    }

    fn expect(&mut self, step: &Step, arrivals: u32, len: u64) -> Result<()> {
        let entry = self
            .expected
            .get_mut(step.bump as usize)
            .ok_or_else(|| broken("an arrival without a counter"))?;
        if entry.peer != NO_COUNTER && entry.peer != step.peer {
            return Err(broken(&format!("counter {} is bumped by two peers", step.bump)));
        }
        entry.peer = step.peer;
        entry.arrivals += arrivals;
        entry.len += len;
        entry.round = entry.round.max(step.round);
        Ok(())
    }

    fn land(&mut self, message: &[Step], runs: &[Range<usize>]) -> Result<()> {
        let first = &message[runs[0].start];
        let mut slot = Slot { arrival: first.bump, round: first.round, runs: Vec::new(), unpacked: None };
        let begin = self.land;
        let mut at = begin;
        for run in runs {
            let run = &message[run.clone()];
            slot.runs.push((Place::new(Region::Land, at), run[0].target, length(run)));
            for step in run {
                let place = Place::new(Region::Land, at);
                let (slot, target, len) = (self.slots.len(), step.target, step.len);
                self.landed.push(Landed { counter: step.bump, slot, target, len, place });
                at += len;
            }
        }
        self.expect(first, 1, at - begin)?;
        for step in runs.iter().flat_map(|run| &message[run.clone()]) {
            self.stands.push((step.bump, first.bump));
        }
        self.land += align(at - begin);
        self.slots.push(slot);
        Ok(())
    }

    fn post(&mut self, steps: &[Step]) -> Result<()> {
        let puts: Vec<(usize, Step)> =
            steps.iter().copied().enumerate().filter(|(_, s)| s.kind == Kind::Put).collect();
        let mut puts = puts.chunk_by(|(_, a), (_, b)| same_message(a, b)).peekable();
        for (i, step) in steps.iter().enumerate() {
            match step.kind {
                Kind::Expect | Kind::ExpectNotify => {}
                Kind::Copy => self.copy(step)?,
                Kind::Notify => {
                    self.peer(step.peer)?;
                    let waits = self.waits(std::slice::from_ref(step))?;
                    self.draft(OpKind::Notify, step, Vec::new(), step.target, step.bump, waits);
                }
                Kind::Put => {
                    // A message is posted at its first step.
                    if let Some(message) = puts.next_if(|message| message[0].0 == i) {
                        let message: Vec<Step> = message.iter().map(|&(_, step)| step).collect();
                        self.put(&message)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn draft(
        &mut self,
        kind: OpKind,
        step: &Step,
        segments: Vec<Segment>,
        target: Place,
        bump: u32,
        waits: Vec<(u32, u32)>,
    ) {
        self.drafts.push(Draft { kind, peer: step.peer, segments, target, round: step.round, bump, waits });
    }

    fn copy(&mut self, step: &Step) -> Result<()> {
        let waits = self.waits(std::slice::from_ref(step))?;
        if step.len == 0
            && waits.len() <= JOIN_MAX
            && step.bump != NO_COUNTER
            && self.bumps[step.bump as usize] == 1
        {
            self.joins.insert(step.bump, waits);
            return Ok(());
        }
        let segments =
            if step.len == 0 { Vec::new() } else { vec![Segment { place: step.source, len: step.len }] };
        self.draft(OpKind::Copy, step, segments, step.target, step.bump, waits);
        Ok(())
    }

    fn put(&mut self, message: &[Step]) -> Result<()> {
        let to = message[0].peer;
        let peer = self.peer(to)?;
        peer.we_put = true;
        peer.bytes_out += length(message);
        for parcel in parcels(message, &self.limits) {
            match parcel {
                Parcel::Run(run) => self.run(&message[run])?,
                Parcel::Slot(runs) => self.share(message, &runs)?,
            }
        }
        Ok(())
    }

    /// Puts a run from where it is, in as many puts as it needs.
    fn run(&mut self, run: &[Step]) -> Result<()> {
        let (source, waits) = self.source(run)?;
        let (len, target) = (length(run), run[0].target);
        let mut at = 0;
        loop {
            let part = (len - at).min(self.limits.max_put);
            let place = Place::new(source.region, source.offset + at);
            let segments = vec![Segment { place, len: part }];
            let target = Place::new(target.region, target.offset + at);
            self.draft(OpKind::Put, &run[0], segments, target, run[0].bump, waits.clone());
            at += part;
            if at == len {
                return Ok(());
            }
        }
    }

    /// Gathers light runs into one put to the peer's landing slot.
    fn share(&mut self, message: &[Step], runs: &[Range<usize>]) -> Result<()> {
        let first = message[runs[0].start];
        let (plan, rank, limits) = (self.plan, self.rank, self.limits);
        let slots =
            self.slots_at.entry(first.peer).or_insert_with(|| slots_at(plan, first.peer, rank, &limits));
        let slot = slots.pop_front().ok_or_else(|| broken("the peer does not expect what this rank puts"))?;
        let target = Place::new(Region::Land, slot);
        let (mut segments, mut waits) = (Vec::with_capacity(runs.len()), Vec::new());
        if limits.gather > 1 {
            for run in runs {
                let run = &message[run.clone()];
                let (place, after) = self.source(run)?;
                segments.push(Segment { place, len: length(run) });
                waits.extend(after);
            }
        } else {
            let packed = self.counter()?;
            let begin = align(self.work);
            let mut at = begin;
            for run in runs {
                let run = &message[run.clone()];
                let (place, after) = self.source(run)?;
                let len = length(run);
                self.draft(
                    OpKind::Copy,
                    &first,
                    vec![Segment { place, len }],
                    Place::new(Region::Work, at),
                    packed,
                    after,
                );
                at += len;
            }
            self.work = at;
            segments.push(Segment { place: Place::new(Region::Work, begin), len: at - begin });
            waits.push((packed, index(runs.len())?));
        }
        self.draft(OpKind::Put, &first, segments, target, first.bump, waits);
        Ok(())
    }

    /// A new counter, which only we bump.
    fn counter(&mut self) -> Result<u32> {
        let counter = index(self.expected.len())?;
        self.expected.push(Expected { peer: NO_COUNTER, arrivals: 0, len: 0, round: 0 });
        Ok(counter)
    }

    /// Where a run can be read from, and after what: a single piece right from the slot it landed in.
    fn source(&mut self, run: &[Step]) -> Result<(Place, Vec<(u32, u32)>)> {
        if let [step] = run
            && let [wait, Wait::NONE] = step.waits
            && let [landed] = of_counter(&self.landed, wait.counter, |l| l.counter)
            && landed.target == step.source
            && landed.len == step.len
        {
            let arrival = self.slots[landed.slot].arrival;
            return Ok((landed.place, vec![(arrival, self.expected[arrival as usize].arrivals)]));
        }
        Ok((run[0].source, self.waits(run)?))
    }

    /// All that these steps wait for, as counts of arrivals and local bumps.
    fn waits(&mut self, steps: &[Step]) -> Result<Vec<(u32, u32)>> {
        let mut out = Vec::new();
        for wait in steps.iter().flat_map(|s| s.waits).filter(|w| w.counter != NO_COUNTER && w.at_least > 0) {
            let c = wait.counter;
            if let Some(join) = self.joins.get(&c) {
                out.extend(join);
                continue;
            }
            let bumps =
                *self.bumps.get(c as usize).ok_or_else(|| broken("a wait for a counter beyond the last"))?;
            if wait.at_least > bumps {
                return Err(broken(&format!("a wait for counter {c} that is never over")));
            }
            let slots = of_counter(&self.landed, c, |l| l.counter);
            let slots: Vec<usize> = slots.iter().map(|landed| landed.slot).collect();
            for slot in slots {
                out.push(self.unpacked(slot)?);
            }
            let stands = of_counter(&self.stands, c, |&(plan, _)| plan);
            for &(_, counter) in stands {
                let arrivals = self.expected[counter as usize].arrivals;
                if wait.at_least < bumps && (counter != c || arrivals != bumps) {
                    return Err(broken(&format!(
                        "a wait for only a part of counter {c}, which is split or merged"
                    )));
                }
                out.push((counter, if wait.at_least < bumps { wait.at_least } else { arrivals }));
            }
            if stands.is_empty() {
                out.push((c, wait.at_least));
            }
        }
        Ok(out)
    }

    /// The wait for everything in a slot to be where it belongs.
    fn unpacked(&mut self, slot: usize) -> Result<(u32, u32)> {
        let counter = match self.slots[slot].unpacked {
            Some(counter) => counter,
            None => {
                let counter = self.counter()?;
                self.slots[slot].unpacked = Some(counter);
                counter
            }
        };
        Ok((counter, index(self.slots[slot].runs.len())?))
    }

    /// The copies out of the landing slots: last of all, but where someone waits for them.
    fn unpack(&mut self) -> Result<()> {
        let last = self.plan.rounds();
        for slot in std::mem::take(&mut self.slots) {
            let arrivals = self.expected[slot.arrival as usize].arrivals;
            let round = if slot.unpacked.is_some() { slot.round } else { last };
            for (place, target, len) in slot.runs {
                self.drafts.push(Draft {
                    kind: OpKind::Copy,
                    peer: 0,
                    segments: vec![Segment { place, len }],
                    target,
                    round,
                    bump: slot.unpacked.unwrap_or(NO_COUNTER),
                    waits: vec![(slot.arrival, arrivals)],
                });
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Program> {
        let peers: Vec<Peer> = self.peers.into_values().collect();
        let at = |rank: u32| index(peers.partition_point(|p| p.rank < rank));
        for entry in self.expected.iter_mut().filter(|e| e.peer != NO_COUNTER) {
            entry.peer = at(entry.peer)?;
        }
        self.drafts.sort_by_key(|d| d.round);
        let mut waiters = Vec::new();
        let (mut ops, mut segments): (Vec<Op>, _) = (Vec::with_capacity(self.drafts.len()), Vec::new());
        for mut draft in self.drafts {
            // Of two waits for one counter the higher count stands.
            draft.waits.sort_unstable();
            let op = index(ops.len())?;
            let before = waiters.len();
            for (i, &(counter, count)) in draft.waits.iter().enumerate() {
                if draft.waits.get(i + 1).is_none_or(|next| next.0 != counter) {
                    waiters.push((counter, count, op));
                }
            }
            ops.push(Op {
                kind: draft.kind,
                peer: if draft.kind == OpKind::Copy { 0 } else { at(draft.peer)? },
                first_segment: index(segments.len())?,
                segments: index(draft.segments.len())?,
                target: draft.target,
                len: draft.segments.iter().map(|s| s.len).sum(),
                round: draft.round,
                waits: index(waiters.len() - before)?,
                bump: draft.bump,
            });
            segments.extend(draft.segments);
        }
        waiters.sort_unstable();
        // Counters that nobody bumps or waits for (dissolved joins) are cut off at the end.
        let bumped = ops.iter().filter(|op| op.kind == OpKind::Copy && op.bump != NO_COUNTER);
        let used = bumped.map(|op| op.bump as usize + 1).max().unwrap_or(0);
        let heard = self.expected.iter().rposition(|e| e.arrivals > 0).map_or(0, |c| c + 1);
        self.expected.truncate(used.max(heard));
        let mut waiter_start = vec![0; self.expected.len() + 1];
        for &(counter, ..) in &waiters {
            *waiter_start
                .get_mut(counter as usize + 1)
                .ok_or_else(|| broken("a wait that is never over"))? += 1;
        }
        for c in 1..waiter_start.len() {
            waiter_start[c] += waiter_start[c - 1];
        }
        Ok(Program {
            ops,
            segments,
            peers,
            arrivals: self.expected.iter().map(|e| u64::from(e.arrivals)).sum(),
            expected: self.expected,
            waiter_start,
            waiters: waiters.into_iter().map(|(_, count, op)| (count, op)).collect(),
            work: self.work,
            land: self.land,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::allgather::circulant::Allgather;
    use crate::plan::allgatherv::circulant::{Allgatherv, Blocks};
    use crate::plan::barrier::dissemination::Barrier;
    use crate::plan::bcast::circulant::Bcast;

    const PLAIN: WireLimits = WireLimits { max_put: u64::MAX, gather: 1, light: 0 };

    #[test]
    fn a_barrier_is_q_notifies_and_nothing_else() {
        let plan = Barrier::new(20).unwrap();
        let program = lower(&plan, 7, &PLAIN).unwrap();
        assert!(program.ops.iter().all(|op| op.kind == OpKind::Notify));
        assert_eq!(program.ops.iter().map(|op| op.waits).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!((program.counters(), program.arrivals), (5, 5));
    }

    #[test]
    fn a_split_block_counts_its_parts() {
        let plan = Bcast::new(3, 1, 1000, 2).unwrap();
        let limits = WireLimits { max_put: 200, ..PLAIN };
        let program = lower(&plan, 2, &limits).unwrap();
        assert_eq!(
            program.expected.iter().map(|e| (e.arrivals, e.len)).collect::<Vec<_>>(),
            [(3, 512), (3, 488)]
        );
        assert!(program.waiters.iter().all(|&(count, _)| count == 3));
        assert_eq!(program.peers.iter().map(|p| p.bytes_in).sum::<u64>(), 1000);
    }

    #[test]
    fn one_block_per_owner_goes_in_two_runs_a_round() {
        for p in 2..70_u64 {
            let displs: Vec<u64> = (0..p).map(|j| 100 * j).collect();
            let counts = vec![100; displs.len()];
            let v = Allgatherv::new(&counts, &displs, &Blocks::Equal(1), true).unwrap();
            let a = Allgather::new(u32::try_from(p).unwrap(), 100, false).unwrap();
            for plan in [&v as &dyn Plan, &a] {
                let program = lower(plan, 1, &PLAIN).unwrap();
                for round in 0..plan.rounds() {
                    let puts = program.ops.iter().filter(|op| op.kind == OpKind::Put && op.round == round);
                    assert!((1..=2).contains(&puts.count()), "p = {p}, round {round}");
                }
            }
        }
    }

    #[test]
    fn light_pieces_share_puts() {
        let p = 16;
        let displs: Vec<u64> = (0..p).map(|j| 200 * j).collect();
        let counts = vec![100; displs.len()];
        let plan = Allgatherv::new(&counts, &displs, &Blocks::Equal(1), false).unwrap();
        let puts = |limits: &WireLimits| {
            let program = lower(&plan, 5, limits).unwrap();
            program.ops.iter().filter(|op| op.kind == OpKind::Put).count()
        };
        assert_eq!(puts(&PLAIN), 15);
        assert_eq!(puts(&WireLimits { light: 1000, ..PLAIN }), 4);
        assert_eq!(puts(&WireLimits { light: 1000, gather: 4, ..PLAIN }), 1 + 1 + 1 + 2);
        assert_eq!(puts(&WireLimits { light: 1000, gather: 8, ..PLAIN }), 4);
    }
}
