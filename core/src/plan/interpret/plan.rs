//! The proof of a plan, round by round.

use super::cover::Cover;
use super::{Goal, Scratch, Violation, violated};
use crate::plan::{Kind, NO_COUNTER, Place, Plan, Region, Sizes, Step, Wait};
use std::collections::HashMap;
use std::iter::Peekable;

/// What a proof saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Steps of all ranks.
    pub steps: u64,
    /// Puts of all ranks.
    pub puts: u64,
    /// Bytes put, all ranks.
    pub bytes: u64,
    /// Rounds in which something was sent.
    pub rounds: u32,
    /// Bytes put to the rank that gets most.
    pub most: u64,
}

/// Proves that `plan` reaches `goal` under any order of deliveries.
///
/// # Errors
/// The first law that it breaks.
pub fn prove(plan: &dyn Plan, goal: &Goal) -> Result<Report, Violation> {
    let p = plan.size();
    let mut ranks = (0..p).map(|rank| Rank::new(plan, goal, rank)).collect::<Result<Vec<_>, _>>()?;
    let mut proof = Proof {
        plan,
        goal,
        scratch: Scratch::default(),
        report: Report::default(),
        last: None,
        outgoing: Vec::new(),
    };
    while let Some(round) = ranks.iter_mut().filter_map(|r| r.steps.peek().map(|s| s.round)).min() {
        proof.round(&mut ranks, round)?;
    }
    for (rank, state) in (0..p).zip(&mut ranks) {
        let total = state.output.total();
        if total != Some(goal.bytes(rank)) {
            let wrong =
                total.map_or("some byte twice".into(), |n| format!("{n} of {} bytes", goal.bytes(rank)));
            return violated(format!("rank {rank}'s output gets {wrong}"));
        }
        if state.work.total().is_none() || state.land.total().is_none() {
            return violated(format!("rank {rank}'s scratch is written twice"));
        }
    }
    Ok(proof.report)
}

struct Rank<'a> {
    steps: Peekable<Box<dyn Iterator<Item = Step> + 'a>>,
    sizes: Sizes,
    output: Cover,
    work: Cover,
    land: Cover,
    counters: Vec<Counter>,
    /// What a counter stands for beyond its first range.
    more: HashMap<u32, Vec<(Place, u64)>>,
    /// What the local steps that bump a counter waited for.
    local: HashMap<u32, Vec<Wait>>,
    /// This round's expects, and how many have met their put.
    inbox: Vec<Step>,
    met: usize,
    /// Bytes that came.
    came: u64,
}

/// What is known of a counter so far.
#[derive(Clone, Copy)]
struct Counter {
    bumps: u32,
    /// The rank that bumps it.
    by: u32,
    /// A step waited for all its bumps: there may be no more.
    closed: bool,
    place: Place,
    len: u64,
}

impl<'a> Rank<'a> {
    fn new(plan: &'a dyn Plan, goal: &Goal, rank: u32) -> Result<Self, Violation> {
        let sizes = plan.sizes(rank);
        let nothing =
            Counter { bumps: 0, by: NO_COUNTER, closed: false, place: Place::new(Region::Work, 0), len: 0 };
        let mut output = Cover::new(sizes.output);
        for (offset, len) in goal.initial(rank) {
            if !output.write(offset, len) {
                return violated(format!("rank {rank}'s output is too small"));
            }
        }
        Ok(Self {
            steps: plan.steps(rank).peekable(),
            sizes,
            output,
            work: Cover::new(sizes.work),
            land: Cover::new(sizes.land),
            counters: vec![nothing; plan.counters(rank) as usize],
            more: HashMap::new(),
            local: HashMap::new(),
            inbox: Vec::new(),
            met: 0,
            came: 0,
        })
    }

    /// Notes that `len` bytes were written at `place`.
    fn write(&mut self, place: Place, len: u64) -> Result<(), Violation> {
        let fits = match place.region {
            Region::Input => len == 0,
            Region::Output => self.output.write(place.offset, len),
            Region::Work => self.work.write(place.offset, len),
            Region::Land => self.land.write(place.offset, len),
        };
        if fits { Ok(()) } else { violated(format!("{place:?} + {len} is out of bounds or written twice")) }
    }

    fn bump(&mut self, by: u32, counter: u32, place: Place, len: u64) -> Result<(), Violation> {
        let Some(c) = self.counters.get_mut(counter as usize) else {
            return violated(format!("counter {counter} is beyond the last"));
        };
        if c.closed {
            return violated(format!("counter {counter} is bumped after a step took it for complete"));
        }
        if c.bumps > 0 && c.by != by {
            return violated(format!("counter {counter} is bumped by {} and {by}", c.by));
        }
        c.bumps += 1;
        c.by = by;
        if c.bumps == 1 {
            (c.place, c.len) = (place, len);
        } else {
            self.more.entry(counter).or_default().push((place, len));
        }
        Ok(())
    }

    /// Takes the counter of a wait for complete: it has the awaited count, and will get no more.
    fn close(&mut self, wait: Wait) -> Result<(), Violation> {
        let Some(c) = self.counters.get_mut(wait.counter as usize) else {
            return violated(format!("a wait for counter {}, beyond the last", wait.counter));
        };
        if c.bumps != wait.at_least {
            return violated(format!(
                "counter {} is at {} when {} are waited for",
                wait.counter, c.bumps, wait.at_least
            ));
        }
        c.closed = true;
        Ok(())
    }

    /// Whether the bytes that `step` reads are there, by what it waits for.
    fn covered(&mut self, goal: &Goal, rank: u32, step: &Step) -> Result<(), Violation> {
        let waits = step.waits.iter().filter(|w| w.counter != NO_COUNTER);
        for &wait in waits.clone() {
            self.close(wait)?;
        }
        let (begin, end) = (step.source.offset, step.source.offset.saturating_add(step.len));
        let size = match step.source.region {
            Region::Input => self.sizes.input,
            Region::Output => self.sizes.output,
            Region::Work => self.sizes.work,
            Region::Land => self.sizes.land,
        };
        if end > size {
            return violated(format!("rank {rank} reads beyond its {:?}: {step:?}", step.source.region));
        }
        let holds = |place: Place, len: u64| {
            place.region == step.source.region && place.offset <= begin && end <= place.offset + len
        };
        if let [Wait { counter: first, .. }, Wait::NONE] = step.waits
            && let Some(c) = self.counters.get(first as usize)
            && holds(c.place, c.len)
        {
            return Ok(());
        }
        if step.len == 0 || goal.is_initial(rank, step.source, step.len) {
            return Ok(());
        }
        let mut ranges = self.behind(waits.copied().collect());
        ranges.retain(|(place, _)| place.region == step.source.region);
        let mut ranges: Vec<(u64, u64)> = ranges.iter().map(|(p, len)| (p.offset, p.offset + len)).collect();
        if step.source.region == Region::Output {
            ranges.extend(goal.initial(rank).map(|(offset, len)| (offset, offset + len)));
        }
        ranges.sort_unstable();
        let reached = ranges.iter().fold(begin, |at, r| if r.0 <= at { at.max(r.1) } else { at });
        if reached < end {
            return violated(format!("rank {rank} reads what it does not wait for: {step:?}"));
        }
        Ok(())
    }

    /// All that was written when these waits are over, also by way of local steps.
    fn behind(&self, mut waits: Vec<Wait>) -> Vec<(Place, u64)> {
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        while let Some(wait) = waits.pop() {
            if wait.counter == NO_COUNTER || seen.contains(&wait.counter) {
                continue;
            }
            seen.push(wait.counter);
            let c = &self.counters[wait.counter as usize];
            out.push((c.place, c.len));
            out.extend(self.more.get(&wait.counter).into_iter().flatten());
            waits.extend(self.local.get(&wait.counter).into_iter().flatten());
        }
        out
    }
}

struct Proof<'a> {
    plan: &'a dyn Plan,
    goal: &'a Goal,
    scratch: Scratch,
    report: Report,
    last: Option<u32>,
    /// This round's puts and notifies, with their ranks.
    outgoing: Vec<(u32, Step)>,
}

impl Proof<'_> {
    fn round(&mut self, ranks: &mut [Rank<'_>], round: u32) -> Result<(), Violation> {
        let after = self.last.replace(round);
        self.outgoing.clear();
        for (rank, state) in (0..).zip(ranks.iter_mut()) {
            self.collect(rank, state, round)?;
        }
        // After the last round there are only copies.
        let rounds = self.plan.rounds() + u32::from(self.outgoing.is_empty());
        if round >= rounds || after.is_some_and(|after| round <= after) {
            return violated(format!("a step of round {round} after {after:?}, of {}", self.plan.rounds()));
        }
        self.report.rounds += u32::from(!self.outgoing.is_empty());
        for &(rank, step) in &self.outgoing {
            let to = &mut ranks[step.peer as usize];
            let mirror = to.inbox.get(to.met).copied();
            let kind = if step.kind == Kind::Put { Kind::Expect } else { Kind::ExpectNotify };
            let wanted = Step { kind, peer: rank, waits: [Wait::NONE; 2], ..step };
            if mirror != Some(wanted) {
                return violated(format!(
                    "rank {}: {mirror:?} is not the mirror of {rank}'s {step:?}",
                    step.peer
                ));
            }
            to.met += 1;
            if kind == Kind::Expect {
                self.scratch.transfer(self.goal, (rank, step.source), (step.peer, step.target), step.len)?;
                to.write(step.target, step.len)?;
                self.report.puts += 1;
                self.report.bytes += step.len;
                to.came += step.len;
                self.report.most = self.report.most.max(to.came);
            }
        }
        for (rank, state) in (0..).zip(ranks) {
            let (inbox, met) = (std::mem::take(&mut state.inbox), std::mem::take(&mut state.met));
            if let Some(step) = inbox.get(met) {
                return violated(format!("no rank sends what rank {rank} expects: {step:?}"));
            }
            for step in &inbox {
                state.bump(step.peer, step.bump, step.target, step.len)?;
            }
            state.inbox = inbox;
            state.inbox.clear();
        }
        Ok(())
    }

    /// Takes in one rank's steps of the round.
    fn collect(&mut self, rank: u32, state: &mut Rank<'_>, round: u32) -> Result<(), Violation> {
        let (mut to, mut from) = (None, None);
        while let Some(step) = state.steps.next_if(|step| step.round == round) {
            self.report.steps += 1;
            if matches!(step.kind, Kind::Reduce(_)) {
                return violated("a plan that reduces is proved by prove_fold".into());
            }
            if step.kind == Kind::Copy {
                state.covered(self.goal, rank, &step)?;
                self.scratch.transfer(self.goal, (rank, step.source), (rank, step.target), step.len)?;
                state.write(step.target, step.len)?;
                if step.bump != NO_COUNTER {
                    state.bump(rank, step.bump, step.target, step.len)?;
                    state.local.entry(step.bump).or_default().extend(step.waits);
                }
                continue;
            }
            let sends = matches!(step.kind, Kind::Put | Kind::Notify);
            let port = if sends { &mut to } else { &mut from };
            if step.peer == rank
                || step.peer >= self.plan.size()
                || *port.get_or_insert(step.peer) != step.peer
            {
                return violated(format!("rank {rank} has two peers in a round, or none: {step:?}"));
            }
            if step.bump == NO_COUNTER
                || (step.len == 0) != matches!(step.kind, Kind::Notify | Kind::ExpectNotify)
            {
                return violated(format!("rank {rank}: no counter, or no bytes: {step:?}"));
            }
            if sends {
                state.covered(self.goal, rank, &step)?;
                self.outgoing.push((rank, step));
            } else {
                state.inbox.push(step);
            }
        }
        Ok(())
    }
}
