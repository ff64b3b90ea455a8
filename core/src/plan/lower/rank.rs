//! The lowering of one rank's steps: first what arrives and what stands for it, then what to post.

use super::drafts::{Draft, gather, work};
use super::folds::folds;
use super::limits::WireLimits;
use super::parcels::{Parcel, Slots, align, counting_step, length, parcels, pieces, same_message};
use super::program::{Expected, Op, OpKind, Peer, Program, Segment, broken, index};
use crate::error::Result;
use crate::plan::{Kind, MAX_COUNTERS, NO_COUNTER, Place, Plan, Region, Step, Wait};
use std::collections::{BTreeMap, HashMap};
use std::iter::Peekable;
use std::ops::Range;

/// A join of more waits than this stays an op of its own, so that chains of joins cost no p² waits. Chosen; above the
/// 2⌈log₂ p⌉ peers that most joins wait for.
const MAX_JOIN_WAITS: usize = 64;

pub(super) fn lower(plan: &dyn Plan, rank: u32, limits: WireLimits) -> Result<Program> {
    let mut steps = Vec::new();
    plan.append(rank, &mut steps);
    let mut lowering = Lowering::new(plan, rank, limits)?;
    lowering.receive(&steps)?;
    // What is behind is given back: of many steps each has more bytes than what it becomes.
    steps.retain(|step| !matches!(step.kind, Kind::Expect | Kind::ExpectNotify));
    steps.shrink_to_fit();
    lowering.post(&steps)?;
    drop(steps);
    lowering.unpack()?;
    lowering.finish()
}

/// The messages of steps of one kind, one after the other: each in the list that the one before it was in.
struct Messages<I: Iterator> {
    steps: Peekable<I>,
    message: Vec<Step>,
}

fn messages(steps: &[Step], kind: Kind) -> Messages<impl Iterator<Item = &Step>> {
    Messages { steps: steps.iter().filter(move |step| step.kind == kind).peekable(), message: Vec::new() }
}

impl<'a, I: Iterator<Item = &'a Step>> Messages<I> {
    fn next(&mut self) -> Option<&[Step]> {
        let first = *self.steps.next()?;
        self.message.clear();
        self.message.push(first);
        while let Some(step) = self.steps.next_if(|step| same_message(&first, step)) {
            self.message.push(*step);
        }
        Some(&self.message)
    }
}

/// A landing slot of ours.
struct Slot {
    arrival: u32,
    round: u32,
    /// What to copy where, once it is here.
    runs: Vec<(Place, Place, u64)>,
    /// The counter that says it is unpacked, if any step asked.
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

/// Where a counter's entries are in a list sorted by counter. Asked for at every wait, so not searched for.
#[derive(Default)]
struct Starts(Vec<u32>);

impl Starts {
    fn of<T>(list: &[T], counters: usize, key: impl Fn(&T) -> u32) -> Self {
        if list.is_empty() {
            return Self::default();
        }
        let mut starts = vec![0; counters + 1];
        list.iter().filter_map(|entry| usize::try_from(key(entry)).ok()).for_each(|c| {
            starts.get_mut(c + 1).into_iter().for_each(|n| *n += 1);
        });
        for c in 1..starts.len() {
            starts[c] += starts[c - 1];
        }
        Self(starts)
    }

    /// Sorts the list: by counter, and each counter's entries in their own order. No comparisons but among the latter.
    fn sort<T: Copy + Ord>(&self, list: &mut [T], key: impl Fn(&T) -> u32) {
        if list.is_sorted() {
            return;
        }
        if list.iter().any(|entry| key(entry) as usize + 1 >= self.0.len()) {
            return list.sort_unstable();
        }
        let (mut next, unsorted) = (self.0.clone(), list.to_vec());
        for entry in unsorted {
            let at = &mut next[key(&entry) as usize];
            list[*at as usize] = entry;
            *at += 1;
        }
        for bounds in self.0.windows(2).filter(|b| b[1] - b[0] > 1) {
            list[bounds[0] as usize..bounds[1] as usize].sort_unstable();
        }
    }

    fn entries(&self, counter: u32) -> Range<usize> {
        match self.0.get(counter as usize..) {
            Some([begin, end, ..]) => *begin as usize..*end as usize,
            _ => 0..0,
        }
    }
}

struct Lowering<'a> {
    plan: &'a dyn Plan,
    rank: u32,
    limits: WireLimits,
    peers: BTreeMap<u32, Peer>,
    /// By counter; `peer` is still a rank.
    expected: Vec<Expected>,
    /// By counter: where the one put lands that bumps it, and its length; no length: it is not one put.
    landing: Vec<(Place, u64)>,
    /// By counter of the plan: how often its steps bump it.
    bumps: Vec<u32>,
    /// (counter of the plan, counter that is bumped for it), sorted.
    stands: Vec<(u32, u32)>,
    stands_of: Starts,
    slots: Vec<Slot>,
    /// What lands in slots, sorted by counter.
    landed: Vec<Landed>,
    landed_of: Starts,
    /// By counter of a dissolved join: its waits.
    joins: HashMap<u32, Vec<(u32, u32)>>,
    drafts: Vec<Draft>,
    slots_at: HashMap<u32, Slots<'a>>,
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
            landing: vec![(Place::new(Region::Land, 0), 0); counters as usize],
            bumps: vec![0; counters as usize],
            stands: Vec::new(),
            stands_of: Starts::default(),
            slots: Vec::new(),
            landed: Vec::new(),
            landed_of: Starts::default(),
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
                && (step.kind.is_local() || matches!(step.kind, Kind::Expect | Kind::ExpectNotify));
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
        let mut messages = messages(steps, Kind::Expect);
        while let Some(message) = messages.next() {
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
                        self.landing[run[0].bump as usize] = (run[0].target, len);
                        self.stands.extend(run.iter().map(|s| (s.bump, run[0].bump)));
                    }
                    Parcel::Slot(runs) => self.land(message, &runs)?,
                }
            }
        }
        self.stands_of = Starts::of(&self.stands, self.bumps.len(), |&(plan, _)| plan);
        self.stands_of.sort(&mut self.stands, |&(plan, _)| plan);
        self.landed.sort_by_key(|landed| landed.counter);
        self.landed_of = Starts::of(&self.landed, self.bumps.len(), |landed| landed.counter);
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
        let counting = counting_step(message, runs);
        let mut slot =
            Slot { arrival: counting.bump, round: counting.round, runs: Vec::new(), unpacked: None };
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
        self.expect(counting, 1, at - begin)?;
        for step in runs.iter().flat_map(|run| &message[run.clone()]) {
            self.stands.push((step.bump, counting.bump));
        }
        self.land += align(at - begin);
        self.slots.push(slot);
        Ok(())
    }

    fn post(&mut self, steps: &[Step]) -> Result<()> {
        let mut messages = messages(steps, Kind::Put);
        let (mut seen, mut posted) = (0, 0);
        for step in steps {
            match step.kind {
                Kind::Expect | Kind::ExpectNotify => {}
                Kind::Copy => self.copy(step)?,
                Kind::Reduce(side) => {
                    let waits = self.waits(std::slice::from_ref(step))?;
                    let segments = vec![Segment { place: step.source, len: step.len }];
                    self.draft(OpKind::Reduce(side), step, segments, step.target, step.bump, waits);
                }
                Kind::Notify => {
                    self.peer(step.peer)?;
                    let waits = self.waits(std::slice::from_ref(step))?;
                    self.draft(OpKind::Notify, step, Vec::new(), step.target, step.bump, waits);
                }
                Kind::Put => {
                    // A message is posted at its first step.
                    if seen == posted
                        && let Some(message) = messages.next()
                    {
                        posted += message.len();
                        self.put(message)?;
                    }
                    seen += 1;
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
            && waits.len() <= MAX_JOIN_WAITS
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

    /// Puts a run from where it is, in as many puts as it needs: one that gathers its pieces, or several of
    /// one piece that is too long.
    fn run(&mut self, run: &[Step]) -> Result<()> {
        let (len, target) = (length(run), run[0].target);
        let mut segments = Vec::with_capacity(1);
        let waits = self.gather(run, &mut segments)?;
        if len <= self.limits.max_put {
            self.draft(OpKind::Put, &run[0], segments, target, run[0].bump, waits);
            return Ok(());
        }
        let [Segment { place: source, .. }] = segments[..] else {
            return Err(broken("pieces joined beyond the longest put"));
        };
        let mut at = 0;
        while at < len {
            let part = (len - at).min(self.limits.max_put);
            let place = Place::new(source.region, source.offset + at);
            let segments = vec![Segment { place, len: part }];
            let target = Place::new(target.region, target.offset + at);
            self.draft(OpKind::Put, &run[0], segments, target, run[0].bump, waits.clone());
            at += part;
        }
        Ok(())
    }

    /// Adds the pieces of a run to a gather list; what they wait for, all together.
    fn gather(&mut self, run: &[Step], list: &mut Vec<Segment>) -> Result<Vec<(u32, u32)>> {
        let mut waits = Vec::new();
        for piece in pieces(run) {
            let (place, after) = self.source(piece)?;
            list.push(Segment { place, len: length(piece) });
            waits.extend(after);
        }
        Ok(waits)
    }

    /// Gathers light runs into one put to the peer's landing slot.
    fn share(&mut self, message: &[Step], runs: &[Range<usize>]) -> Result<()> {
        let first = message[runs[0].start];
        let (plan, rank, limits) = (self.plan, self.rank, self.limits);
        let slots = self.slots_at.entry(first.peer).or_insert_with(|| Slots::new(plan, first.peer, rank));
        let slot =
            slots.next(&limits).ok_or_else(|| broken("the peer does not expect what this rank puts"))?;
        let target = Place::new(Region::Land, slot);
        let (mut segments, mut waits) = (Vec::with_capacity(runs.len()), Vec::new());
        if limits.gather > 1 {
            for run in runs {
                waits.extend(self.gather(&message[run.clone()], &mut segments)?);
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
        self.draft(OpKind::Put, &first, segments, target, counting_step(message, runs).bump, waits);
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
            && let [landed] = &self.landed[self.landed_of.entries(wait.counter)]
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
        let mut out = Vec::with_capacity(1);
        for wait in steps.iter().flat_map(|s| s.waits).filter(|w| w.counter != NO_COUNTER && w.at_least > 0) {
            let c = wait.counter;
            if !self.joins.is_empty()
                && let Some(join) = self.joins.get(&c)
            {
                out.extend(join);
                continue;
            }
            let bumps =
                *self.bumps.get(c as usize).ok_or_else(|| broken("a wait for a counter beyond the last"))?;
            if wait.at_least > bumps {
                return Err(broken(&format!("a wait for counter {c} that is never over")));
            }
            for landed in self.landed_of.entries(c) {
                let unpacked = self.unpacked(self.landed[landed].slot)?;
                out.push(unpacked);
            }
            let stands = &self.stands[self.stands_of.entries(c)];
            for &(_, counter) in stands {
                let arrivals = self.expected[counter as usize].arrivals;
                if wait.at_least < bumps && (counter != c || arrivals != bumps) {
                    return Err(broken(&format!(
                        "a wait for only a part of counter {c}, which is split or merged"
                    )));
                }
                let wait = (counter, if wait.at_least < bumps { wait.at_least } else { arrivals });
                // The pieces of a run mostly came in one, too.
                if out.last() != Some(&wait) {
                    out.push(wait);
                }
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

    /// The copies out of the landing slots: last of all, but where a step waits for them.
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
        if gather(&mut self.drafts, self.limits.gather) {
            self.work = work(&self.drafts);
        }
        let peers: Vec<Peer> = self.peers.into_values().collect();
        let at = |rank: u32| index(peers.partition_point(|p| p.rank < rank));
        for entry in self.expected.iter_mut().filter(|e| e.peer != NO_COUNTER) {
            entry.peer = at(entry.peer)?;
        }
        // What counts from here on is in the drafts, and in what is expected.
        (self.bumps, self.stands, self.stands_of) = Default::default();
        self.drafts.sort_by_key(|d| d.round);
        let lists = |of: fn(&Draft) -> usize| self.drafts.iter().map(of).sum();
        let mut waiters = Vec::with_capacity(lists(|draft| draft.waits.len()));
        let mut segments = Vec::with_capacity(lists(|draft| draft.segments.len()));
        let mut ops: Vec<Op> = Vec::with_capacity(self.drafts.len());
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
                peer: if draft.kind.is_local() { 0 } else { at(draft.peer)? },
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
        let starts = Starts::of(&waiters, self.expected.len(), |&(counter, ..)| counter);
        starts.sort(&mut waiters, |&(counter, ..)| counter);
        // Counters that nothing bumps or waits for (dissolved joins) are cut off at the end.
        let bumped = ops.iter().filter(|op| op.kind.is_local() && op.bump != NO_COUNTER);
        let used = bumped.map(|op| op.bump as usize + 1).max().unwrap_or(0);
        let heard = self.expected.iter().rposition(|e| e.arrivals > 0).map_or(0, |c| c + 1);
        self.expected.truncate(used.max(heard));
        if waiters.last().is_some_and(|&(counter, ..)| counter as usize >= self.expected.len()) {
            return Err(broken("a wait that is never over"));
        }
        let mut waiter_start = starts.0;
        waiter_start.resize(self.expected.len() + 1, 0);
        Ok(Program {
            folds: folds(&ops, &segments, &self.expected, &waiters, &self.landing),
            ops,
            segments,
            peers,
            arrivals: self.expected.iter().map(|e| u64::from(e.arrivals)).sum(),
            expected: self.expected,
            waiter_start,
            waiters: waiters.into_iter().map(|(_, count, op)| (count, op)).collect(),
            work: self.work,
            land: self.land,
            fan_out: self.plan.fan_out(),
            in_step: self.plan.in_step(),
        })
    }
}
