//! The proof of lowered programs, and their run in a random order.

use super::cover::Cover;
use super::{Goal, Report, Scratch, Violation, violated};
use crate::plan::lower::{Op, OpKind, Program};
use crate::plan::{NO_COUNTER, Place, Plan, Region};
use std::collections::{BTreeMap, HashMap};

/// Proves that the programs of all ranks together reach `goal` under any order of deliveries, and runs
/// them in the random order of `seed`.
///
/// # Errors
/// The first law that they break.
pub fn check(plan: &dyn Plan, programs: &[Program], goal: &Goal, seed: u64) -> Result<Report, Violation> {
    if programs.iter().flat_map(|p| &p.ops).any(|op| matches!(op.kind, OpKind::Reduce(_))) {
        return violated("programs that reduce are checked by check_fold".into());
    }
    let writes = writes(plan, programs, goal)?;
    for (rank, program) in (0..).zip(programs) {
        let to = program.peers.iter().filter(|peer| peer.we_put).count();
        if let Some(most) = program.fan_out.filter(|most| to > *most as usize) {
            return violated(format!(
                "rank {rank} puts to {to} ranks, and the plan says that each puts to {most} at most"
            ));
        }
        let mut waited = vec![NO_COUNTER; program.counters()];
        let waits = waits_by_op(program)?;
        keeps_in_step(rank, program)?;
        let mut local: HashMap<u32, Vec<usize>> = HashMap::new();
        for (i, op) in program.ops.iter().enumerate().filter(|(_, op)| op.kind == OpKind::Copy) {
            local.entry(op.bump).or_default().push(i);
        }
        let reader =
            Reader { rank, program, goal, writes: &writes[rank as usize], waits: &waits, local: &local };
        for (i, op) in program.ops.iter().enumerate() {
            reader.covered(i, op, &mut waited)?;
        }
    }
    let mut run = Run::new(programs, goal, seed);
    run.go(None)?;
    let finished = run.finished();
    if finished.len() != programs.len() {
        return violated(format!("{} of {} ranks finish", finished.len(), programs.len()));
    }
    Ok(run.report)
}

/// Runs the programs without any rank `absent` ever entering, as far as they go: the ranks that finish.
///
/// # Errors
/// The first law that the programs break.
pub fn run_without(programs: &[Program], absent: u32, seed: u64) -> Result<Vec<u32>, Violation> {
    let goal = Goal::default();
    let mut run = Run::new(programs, &goal, seed);
    run.go(Some(absent))?;
    Ok(run.finished())
}

/// A range that is written once, and the counter that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    region: Region,
    begin: u64,
    end: u64,
    counter: u32,
}

/// What is written in every rank's memory, sorted: nothing twice, and in the end all of the goal.
fn writes(plan: &dyn Plan, programs: &[Program], goal: &Goal) -> Result<Vec<Vec<Write>>, Violation> {
    let mut writes: Vec<Vec<Write>> = vec![Vec::new(); programs.len()];
    let mut came: Vec<Vec<(u32, u64)>> = programs.iter().map(|p| vec![(0, 0); p.counters()]).collect();
    for (rank, program) in (0..).zip(programs) {
        let mut out = vec![0; program.peers.len()];
        for op in &program.ops {
            if op.kind == OpKind::Copy {
                if op.len > 0 {
                    let Place { region, offset } = op.target;
                    let write = Write { region, begin: offset, end: offset + op.len, counter: op.bump };
                    writes[rank as usize].push(write);
                }
                continue;
            }
            let to = program.peers[op.peer as usize].rank as usize;
            out[op.peer as usize] += op.len;
            if op.kind == OpKind::Put {
                let Place { region, offset } = op.target;
                writes[to].push(Write { region, begin: offset, end: offset + op.len, counter: op.bump });
            }
            let by = programs[to]
                .expected
                .get(op.bump as usize)
                .and_then(|e| programs[to].peers.get(e.peer as usize));
            if by.is_none_or(|by| by.rank != rank) {
                return violated(format!("rank {to} does not expect counter {} from {rank}", op.bump));
            }
            let entry = &mut came[to][op.bump as usize];
            *entry = (entry.0 + 1, entry.1 + op.len);
        }
        for (peer, out) in program.peers.iter().zip(out) {
            let mirror = programs[peer.rank as usize].peers.iter().find(|q| q.rank == rank);
            let agreed = mirror.is_some_and(|q| q.bytes_in == out && q.puts_to_us == peer.we_put);
            if peer.bytes_out != out || !agreed {
                return violated(format!("rank {rank} puts {out} bytes to {peer:?}, which has {mirror:?}"));
            }
        }
    }
    for (rank, program) in (0..).zip(programs) {
        let expected = program.expected.iter().map(|e| (e.arrivals, e.len));
        if !expected.eq(came[rank as usize].iter().copied()) {
            return violated(format!("rank {rank} does not get what it expects"));
        }
        if program.arrivals != program.expected.iter().map(|e| u64::from(e.arrivals)).sum::<u64>() {
            return violated(format!("rank {rank} counts its arrivals wrong"));
        }
        let list = &mut writes[rank as usize];
        list.sort_unstable();
        let sizes = plan.sizes(rank);
        let mut covers =
            [Cover::new(0), Cover::new(sizes.output), Cover::new(program.work), Cover::new(program.land)];
        let initial = goal.initial(rank).all(|(offset, len)| covers[1].write(offset, len));
        let once = list.iter().all(|w| covers[w.region as usize].write(w.begin, w.end - w.begin));
        let totals = covers.map(|mut cover| cover.total());
        if !initial || !once || totals.contains(&None) || totals[1] != Some(goal.bytes(rank)) {
            return violated(format!(
                "rank {rank}: bytes are written twice, out of bounds or not at all: {totals:?}"
            ));
        }
    }
    Ok(writes)
}

/// What [`Plan::in_step`] says.
pub(super) fn keeps_in_step(rank: u32, program: &Program) -> Result<(), Violation> {
    if !program.in_step {
        return Ok(());
    }
    let puts = program.ops.iter().filter(|op| op.kind == OpKind::Put).map(|op| (op.round, op.peer));
    let expected = program.expected.iter().filter(|e| e.peer != NO_COUNTER).map(|e| (e.round, e.peer));
    let mut peers = BTreeMap::new();
    for (gets, (round, peer)) in puts.map(|put| (false, put)).chain(expected.map(|due| (true, due))) {
        if *peers.entry((gets, round)).or_insert(peer) != peer {
            let what = if gets { "gets from" } else { "puts to" };
            return violated(format!("rank {rank} keeps in step, and {what} two ranks in round {round}"));
        }
    }
    Ok(())
}

/// By op: its waits.
fn waits_by_op(program: &Program) -> Result<Vec<Vec<(u32, u32)>>, Violation> {
    let mut waits = vec![Vec::new(); program.ops.len()];
    for (counter, range) in (0..).zip(program.waiter_start.windows(2)) {
        for &(count, op) in &program.waiters[range[0] as usize..range[1] as usize] {
            waits[op as usize].push((counter, count));
        }
    }
    for (op, waits) in program.ops.iter().zip(&waits) {
        if op.waits as usize != waits.len() {
            return violated(format!("{op:?} has waits {waits:?}"));
        }
    }
    Ok(waits)
}

struct Reader<'a> {
    rank: u32,
    program: &'a Program,
    goal: &'a Goal,
    writes: &'a [Write],
    waits: &'a [Vec<(u32, u32)>],
    /// The copies that bump a counter.
    local: &'a HashMap<u32, Vec<usize>>,
}

impl Reader<'_> {
    /// Whether what `op` reads is there when its waits are over. `waited` is room for the counters that
    /// are complete by then, marked with the op's number.
    fn covered(&self, number: usize, op: &Op, waited: &mut [u32]) -> Result<(), Violation> {
        let mark = u32::try_from(number).unwrap_or(NO_COUNTER);
        let mut open: Vec<usize> = vec![number];
        while let Some(i) = open.pop() {
            for &(counter, count) in &self.waits[i] {
                let expected = &self.program.expected[counter as usize];
                let local = self.local.get(&counter).map_or(&[][..], Vec::as_slice);
                let bumps = expected.arrivals as usize + local.len();
                if bumps == count as usize && waited[counter as usize] != mark {
                    waited[counter as usize] = mark;
                    open.extend(local);
                }
            }
        }
        let first = op.first_segment as usize;
        for segment in &self.program.segments[first..first + op.segments as usize] {
            let Place { region, offset } = segment.place;
            let end = offset + segment.len;
            let mut at = offset;
            let from = self.writes.partition_point(|w| (w.region, w.end) <= (region, offset));
            for w in self.writes[from..].iter().take_while(|w| w.region == region && w.begin < end) {
                self.initial(region, at, w.begin)?;
                if w.counter == NO_COUNTER || waited[w.counter as usize] != mark {
                    return violated(format!(
                        "rank {} reads {w:?} without waiting for it: {op:?}",
                        self.rank
                    ));
                }
                at = w.end;
            }
            self.initial(region, at, end)?;
        }
        Ok(())
    }

    fn initial(&self, region: Region, begin: u64, end: u64) -> Result<(), Violation> {
        if begin >= end || self.goal.is_initial(self.rank, Place::new(region, begin), end - begin) {
            return Ok(());
        }
        violated(format!("rank {} reads {region:?} {begin}..{end}, where nothing ever is", self.rank))
    }
}

/// Something that may happen next.
#[derive(Clone, Copy)]
enum Event {
    /// This op of this rank may go.
    Ready(u32, u32),
    /// This op of this rank arrives.
    Arrival(u32, u32),
}

struct Run<'a> {
    programs: &'a [Program],
    goal: &'a Goal,
    waits: Vec<Vec<u32>>,
    counts: Vec<Vec<u32>>,
    /// Ops and arrivals that have not happened yet.
    left: Vec<u64>,
    events: Vec<Event>,
    scratch: Scratch,
    random: u64,
    report: Report,
}

impl<'a> Run<'a> {
    fn new(programs: &'a [Program], goal: &'a Goal, seed: u64) -> Self {
        Self {
            programs,
            goal,
            waits: programs.iter().map(|p| p.ops.iter().map(|op| op.waits).collect()).collect(),
            counts: programs.iter().map(|p| vec![0; p.counters()]).collect(),
            left: programs.iter().map(|p| p.ops.len() as u64 + p.arrivals).collect(),
            events: Vec::new(),
            scratch: Scratch::default(),
            random: seed,
            report: Report::default(),
        }
    }

    fn go(&mut self, absent: Option<u32>) -> Result<(), Violation> {
        for (rank, program) in (0..).zip(self.programs) {
            if Some(rank) != absent {
                let ready = (0..).zip(&program.ops).filter(|(_, op)| op.waits == 0);
                self.events.extend(ready.map(|(i, _)| Event::Ready(rank, i)));
            }
        }
        while !self.events.is_empty() {
            let at = self.below(self.events.len());
            match self.events.swap_remove(at) {
                Event::Ready(rank, i) => self.post(rank, i)?,
                Event::Arrival(rank, i) => {
                    let op = &self.programs[rank as usize].ops[i as usize];
                    let to = self.programs[rank as usize].peers[op.peer as usize].rank;
                    self.left[to as usize] -= 1;
                    if Some(to) != absent {
                        self.bump(to, op.bump);
                    }
                }
            }
        }
        Ok(())
    }

    fn post(&mut self, rank: u32, i: u32) -> Result<(), Violation> {
        let program = &self.programs[rank as usize];
        let op = &program.ops[i as usize];
        let to = if op.kind == OpKind::Copy { rank } else { program.peers[op.peer as usize].rank };
        let first = op.first_segment as usize;
        let mut target = op.target;
        for segment in &program.segments[first..first + op.segments as usize] {
            self.scratch.transfer(self.goal, (rank, segment.place), (to, target), segment.len)?;
            target.offset += segment.len;
        }
        self.report.steps += 1;
        self.left[rank as usize] -= 1;
        if op.kind == OpKind::Copy {
            if op.bump != NO_COUNTER {
                self.bump(rank, op.bump);
            }
        } else {
            self.report.puts += u64::from(op.kind == OpKind::Put);
            self.report.bytes += op.len;
            self.report.rounds = self.report.rounds.max(op.round + 1);
            self.events.push(Event::Arrival(rank, i));
        }
        Ok(())
    }

    fn bump(&mut self, rank: u32, counter: u32) {
        let program = &self.programs[rank as usize];
        let count = &mut self.counts[rank as usize][counter as usize];
        *count += 1;
        let range = program.waiter_start[counter as usize]..program.waiter_start[counter as usize + 1];
        for &(at, op) in &program.waiters[range.start as usize..range.end as usize] {
            if at == *count {
                let left = &mut self.waits[rank as usize][op as usize];
                *left -= 1;
                if *left == 0 {
                    self.events.push(Event::Ready(rank, op));
                }
            }
        }
    }

    fn finished(&self) -> Vec<u32> {
        (0..).zip(&self.left).filter(|(_, left)| **left == 0).map(|(rank, _)| rank).collect()
    }

    /// A random number below `n` (splitmix64).
    fn below(&mut self, n: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n.max(1) as u64).unwrap_or(0)
    }
}
