//! What happens when all ranks' steps or programs run, as a graph: what waits for what.

use super::{Violation, violated};
use crate::plan::lower::{OpKind, Program};
use crate::plan::{Kind, NO_COUNTER, Place, Plan, Side, Sizes, Step};
use std::collections::HashMap;

/// One thing that happens; a put is one, from reading at the sender to its arrival.
#[derive(Debug)]
pub(super) struct Event {
    /// Where the source is.
    pub rank: u32,
    /// Where the target is.
    pub to: u32,
    pub reduce: Option<Side>,
    pub source: Vec<(Place, u64)>,
    pub target: Place,
    /// The events that this one waits for.
    pub after: Vec<u32>,
}

/// All of them, of all ranks.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub list: Vec<Event>,
    /// By rank: how much memory there is.
    pub sizes: Vec<Sizes>,
    /// Puts, bytes put, and rounds in which something is put or notified.
    pub puts: u64,
    pub bytes: u64,
    /// Of these, by rank, what it gets.
    pub came: Vec<u64>,
    pub rounds: u32,
}

/// By rank and counter: the events that bump it.
type Bumps = Vec<HashMap<u32, Vec<u32>>>;

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(NO_COUNTER)
}

impl Events {
    /// Of a plan; checks all laws but 2 and 3.
    pub(super) fn of_plan(plan: &dyn Plan) -> Result<Self, Violation> {
        let p = plan.size();
        let mut all = Self {
            sizes: (0..p).map(|rank| plan.sizes(rank)).collect(),
            came: vec![0; p as usize],
            ..Self::default()
        };
        let mut bumps: Bumps = vec![HashMap::new(); p as usize];
        let mut steps: Vec<(u32, Step)> = Vec::new();
        // What was sent, and not yet found to be expected: by (round, from, to), in order.
        let mut sent: HashMap<(u32, u32, u32), Vec<(Step, u32)>> = HashMap::new();
        let mut expected: Vec<(u32, Step)> = Vec::new();
        for rank in 0..p {
            let mut ports = HashMap::new();
            let mut last = 0;
            let counters = plan.counters(rank); // asked once: some plans write all their steps down for it
            for step in plan.steps(rank) {
                let local = step.kind.is_local();
                if step.round < last || step.round >= plan.rounds() + u32::from(local) {
                    return violated(format!("rank {rank}: not in this round: {step:?}"));
                }
                last = step.round;
                if !local && (step.peer == rank || step.peer >= p || step.bump == NO_COUNTER) {
                    return violated(format!("rank {rank}: no peer or no counter: {step:?}"));
                }
                let moves = matches!(step.kind, Kind::Put | Kind::Expect | Kind::Reduce(_));
                if (step.len == 0) == moves && step.kind != Kind::Copy {
                    return violated(format!("rank {rank}: bytes where none belong, or none: {step:?}"));
                }
                let sends = matches!(step.kind, Kind::Put | Kind::Notify);
                if matches!(step.kind, Kind::Put | Kind::Expect)
                    && *ports.entry((step.round, sends)).or_insert(step.peer) != step.peer
                {
                    return violated(format!("rank {rank} has two peers in a round: {step:?}"));
                }
                if step.bump != NO_COUNTER && !sends && step.bump >= counters {
                    return violated(format!("rank {rank}: a counter beyond the last: {step:?}"));
                }
                if !local && !sends {
                    expected.push((rank, step));
                    continue;
                }
                let event = number(all.list.len());
                if local && step.bump != NO_COUNTER {
                    bumps[rank as usize].entry(step.bump).or_default().push(event);
                } else if sends {
                    sent.entry((step.round, rank, step.peer)).or_default().push((step, event));
                    all.puts += u64::from(step.kind == Kind::Put);
                    all.bytes += step.len;
                    all.came[step.peer as usize] += step.len;
                }
                steps.push((rank, step));
                all.list.push(Event {
                    rank,
                    to: if local { rank } else { step.peer },
                    reduce: if let Kind::Reduce(side) = step.kind { Some(side) } else { None },
                    source: if step.len > 0 { vec![(step.source, step.len)] } else { Vec::new() },
                    target: step.target,
                    after: Vec::new(),
                });
            }
        }
        let mut rounds: Vec<u32> = sent.keys().map(|key| key.0).collect();
        rounds.sort_unstable();
        rounds.dedup();
        all.rounds = number(rounds.len());
        // Mirrors, in order.
        let mut met: HashMap<(u32, u32, u32), usize> = HashMap::new();
        for (rank, step) in expected {
            let key = (step.round, step.peer, rank);
            let nth = met.entry(key).or_default();
            let kind = if step.kind == Kind::Expect { Kind::Put } else { Kind::Notify };
            match sent.get(&key).and_then(|list| list.get(*nth)) {
                Some(&(put, event)) if (Step { kind, peer: rank, waits: put.waits, ..step }) == put => {
                    let list = bumps[rank as usize].entry(step.bump).or_default();
                    list.push(event);
                    *nth += 1;
                }
                other => return violated(format!("rank {rank}: {step:?} mirrors {other:?}")),
            }
        }
        for (key, list) in &sent {
            if met.get(key).copied().unwrap_or(0) != list.len() {
                return violated(format!("no rank expects {list:?}"));
            }
        }
        all.one_bumper(&bumps)?;
        for (i, (rank, step)) in steps.iter().enumerate() {
            for wait in step.waits.iter().filter(|w| w.counter != NO_COUNTER) {
                let list = bumps[*rank as usize].get(&wait.counter).map_or(&[][..], Vec::as_slice);
                if list.len() != wait.at_least as usize {
                    return violated(format!("rank {rank}: {} bumps for {step:?}", list.len()));
                }
                for &before in list {
                    let (by, earlier) = steps[before as usize];
                    let listed = by == *rank && earlier.kind.is_local() && (before as usize) < i;
                    if earlier.round >= step.round && !listed {
                        return violated(format!("rank {rank}: {step:?} waits for a later round"));
                    }
                }
                all.list[i].after.extend(list);
            }
        }
        Ok(all)
    }

    fn one_bumper(&self, bumps: &Bumps) -> Result<(), Violation> {
        for (rank, counters) in bumps.iter().enumerate() {
            for (counter, list) in counters {
                if list.iter().any(|&e| self.list[e as usize].rank != self.list[list[0] as usize].rank) {
                    return violated(format!("rank {rank}'s counter {counter} is bumped by two peers"));
                }
            }
        }
        Ok(())
    }

    /// Of the lowered programs of all ranks.
    pub(super) fn of_programs(plan: &dyn Plan, programs: &[Program]) -> Result<Self, Violation> {
        let mut all = Self { came: vec![0; programs.len()], ..Self::default() };
        let mut bumps: Bumps = vec![HashMap::new(); programs.len()];
        let mut first = Vec::with_capacity(programs.len());
        let mut came: Vec<HashMap<u32, (u32, u64)>> = vec![HashMap::new(); programs.len()];
        for (rank, program) in (0..).zip(programs) {
            let (work, land) = (program.work, program.land);
            all.sizes.push(Sizes { work, land, ..plan.sizes(rank) });
            first.push(all.list.len());
            for op in &program.ops {
                let to = if op.kind.is_local() { rank } else { program.peers[op.peer as usize].rank };
                if op.bump != NO_COUNTER {
                    bumps[to as usize].entry(op.bump).or_default().push(number(all.list.len()));
                }
                if !op.kind.is_local() {
                    let entry = came[to as usize].entry(op.bump).or_default();
                    *entry = (entry.0 + 1, entry.1 + op.len);
                    all.puts += u64::from(op.kind == OpKind::Put);
                    all.bytes += op.len;
                    all.came[to as usize] += op.len;
                    all.rounds = all.rounds.max(op.round + 1);
                }
                let segments = &program.segments[op.first_segment as usize..][..op.segments as usize];
                all.list.push(Event {
                    rank,
                    to,
                    reduce: if let OpKind::Reduce(side) = op.kind { Some(side) } else { None },
                    source: segments.iter().map(|s| (s.place, s.len)).collect(),
                    target: op.target,
                    after: Vec::new(),
                });
            }
        }
        all.one_bumper(&bumps)?;
        for (rank, program) in programs.iter().enumerate() {
            for (counter, expected) in (0..).zip(&program.expected) {
                let came = came[rank].get(&counter).copied().unwrap_or_default();
                if (expected.arrivals, expected.len) != came {
                    return violated(format!("rank {rank}: {came:?} come for {expected:?}"));
                }
            }
            let arrivals: u64 = came[rank].values().map(|c| u64::from(c.0)).sum();
            if program.arrivals != arrivals {
                return violated(format!("rank {rank} counts {} of {arrivals} arrivals", program.arrivals));
            }
            let mut waits = vec![0; program.ops.len()];
            for (counter, range) in (0..).zip(program.waiter_start.windows(2)) {
                for &(count, op) in &program.waiters[range[0] as usize..range[1] as usize] {
                    let list = bumps[rank].get(&counter).map_or(&[][..], Vec::as_slice);
                    if list.len() != count as usize {
                        return violated(format!("rank {rank}: counter {counter} waits for {count}"));
                    }
                    waits[op as usize] += 1;
                    all.list[first[rank] + op as usize].after.extend(list);
                }
            }
            if program.ops.iter().zip(waits).any(|(op, n)| op.waits != n) {
                return violated(format!("rank {rank}: waits without waiters"));
            }
        }
        Ok(all)
    }

    /// An order in which all can happen, at random by `seed` (0: first come, first served).
    pub(super) fn order(&self, mut seed: u64) -> Result<Vec<u32>, Violation> {
        let mut left: Vec<usize> = self.list.iter().map(|e| e.after.len()).collect();
        let mut then: Vec<Vec<u32>> = vec![Vec::new(); self.list.len()];
        for (i, event) in (0..).zip(&self.list) {
            event.after.iter().for_each(|&before| then[before as usize].push(i));
        }
        let mut ready: Vec<u32> =
            (0..).zip(&left).filter(|(_, n)| **n == 0).map(|(i, _): (u32, _)| i).collect();
        let mut order = Vec::with_capacity(self.list.len());
        while !ready.is_empty() {
            // xorshift64; 0 stays 0.
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let at = usize::try_from(seed % ready.len() as u64).unwrap_or(0);
            let event = ready.swap_remove(at);
            order.push(event);
            for &next in &then[event as usize] {
                left[next as usize] -= 1;
                if left[next as usize] == 0 {
                    ready.push(next);
                }
            }
        }
        if order.len() < self.list.len() {
            return violated(format!("{} steps wait for ever", self.list.len() - order.len()));
        }
        Ok(order)
    }
}
