//! The virtual clock: runs a [`Tape`] on links that carry one put at a time.

use super::cores::Cores;
use super::global::Global;
use super::queue::Queue;
use super::tape::{Does, Tape};
use super::turns::{Stage, Turn, Turns};
use crate::error::Result;
use crate::machine::{COPY_PS, LogGp, Machine};
use crate::plan::NO_COUNTER;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// One put as it happened, in picoseconds from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The rank that put it.
    pub from: u32,
    /// To whom.
    pub to: u32,
    /// In which round of the plan.
    pub round: u32,
    /// Its bytes; 0 for a notify.
    pub len: u64,
    /// Its first and its last byte leave; between groups, as if it came without waiting for their links.
    pub leaves: (u64, u64),
    /// Its first and its last byte arrive.
    pub arrives: (u64, u64),
}

/// A rank may post its next put.
const FREE: u64 = 0;
/// The first byte of a put reaches the link in.
const REACHES: u64 = 1;
/// A put, copy or reduce is complete.
const COMPLETE: u64 = 2;
/// A core that ranks share has done something for one.
const WORKED: u64 = 3;
/// The first byte of a put reaches its group's link up.
const UP: u64 = 4;
/// It reaches the link down of the group that it goes to.
const DOWN: u64 = 5;

/// Runs the programs of a [`Tape`].
#[derive(Debug)]
pub struct Clock {
    tape: Tape,
    machine: Machine,
    /// By picosecond, then by rank, what and entry, packed.
    events: Queue,
    /// By rank: what is ready to be posted; an entry's number is its order.
    ready: Vec<BinaryHeap<Reverse<u32>>>,
    /// By rank: a put of its is on its way out.
    sending: Vec<bool>,
    /// By rank (puts within the node), then by node: when the link out and the link in are free again.
    out_until: Vec<u64>,
    in_until: Vec<u64>,
    /// By rank: when its core is free to reduce.
    core_until: Vec<u64>,
    /// Where links carry puts in turns.
    turns: Option<Turns>,
    /// Where nodes are in groups.
    global: Option<Global>,
    /// Where ranks share cores; and by rank what it is to do when it has one, besides putting.
    cores: Option<Cores>,
    todo: Vec<VecDeque<u32>>,
    counts: Vec<u32>,
    done: u64,
    end: u64,
    crossing: u64,
    transfers: Option<Vec<Transfer>>,
}

impl Clock {
    /// At time 0: all ranks enter.
    pub fn new(tape: Tape, machine: Machine) -> Self {
        let global = Global::regular(&machine, tape.size());
        Self::with(tape, machine, global)
    }

    /// The same with groups of any sizes: `groups[i]` is that of node i, by any number; their taper is the machine's.
    ///
    /// # Errors
    /// If there is not one group for each node.
    pub fn in_groups(tape: Tape, machine: Machine, groups: &[u32]) -> Result<Self> {
        let global = Global::given(&machine, tape.size(), groups)?;
        Ok(Self::with(tape, machine, Some(global)))
    }

    fn with(tape: Tape, machine: Machine, global: Option<Global>) -> Self {
        let size = tape.size();
        let ranks = size as usize;
        let links = ranks + machine.node_of(size.saturating_sub(1)) as usize + 1;
        let counters = tape.waiting.len() - 1;
        let cores = Cores::new(&machine, size);
        // Where ranks share cores, these are what delays puts.
        let turns = if cores.is_none() { Turns::new(&machine, &tape, global.is_some()) } else { None };
        let mut clock = Self {
            tape,
            machine,
            events: Queue::new(),
            ready: vec![BinaryHeap::new(); ranks],
            sending: vec![false; ranks],
            out_until: vec![0; links],
            in_until: vec![0; links],
            core_until: vec![0; ranks],
            turns,
            global,
            todo: vec![VecDeque::new(); if cores.is_some() { ranks } else { 0 }],
            cores,
            counts: vec![0; counters],
            done: 0,
            end: 0,
            crossing: 0,
            transfers: None,
        };
        for rank in 0..size {
            for entry in clock.tape.ops_of(rank) {
                if clock.tape.entries[entry as usize].waits() == 0 {
                    clock.is_ready(0, rank, entry);
                }
            }
            clock.send(0, rank);
        }
        clock
    }

    /// From now on remembers every put, for [`Clock::transfers`].
    pub fn remember(&mut self) {
        self.transfers = Some(Vec::new());
    }

    /// Runs up to `events` events; false when there are no more.
    pub fn run(&mut self, events: u64) -> bool {
        for _ in 0..events {
            let Some((now, what)) = self.events.pop() else { return false };
            self.happens(now, what);
        }
        true
    }

    /// Ops that are done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Whether all ops are done; never, after the last event, for a plan that keeps its laws.
    pub fn finished(&self) -> bool {
        self.done == self.tape.ops()
    }

    /// When the last thing happened, in nanoseconds.
    pub fn time_ns(&self) -> u64 {
        self.end / 1000
    }

    /// Bytes that went from node to node so far.
    pub fn crossing(&self) -> u64 {
        self.crossing
    }

    /// Bytes that went from group to group so far.
    pub fn global(&self) -> u64 {
        self.global.as_ref().map_or(0, Global::bytes)
    }

    /// The puts so far, in the order of their arrival; nothing unless [`Clock::remember`] was called.
    pub fn transfers(&self) -> &[Transfer] {
        self.transfers.as_deref().unwrap_or_default()
    }

    /// The same without the clock.
    pub fn into_transfers(self) -> Vec<Transfer> {
        self.transfers.unwrap_or_default()
    }

    /// The programs that run.
    pub fn tape(&self) -> &Tape {
        &self.tape
    }

    #[allow(clippy::cast_possible_truncation)] // packed by `event`
    fn happens(&mut self, now: u64, what: u64) {
        self.end = self.end.max(now);
        let (rank, what, entry) = ((what >> 35) as u32, what >> 32 & 7, what as u32);
        match what {
            FREE => {
                self.sending[rank as usize] = false;
                self.send(now, rank);
            }
            REACHES => self.reaches(now, rank, entry),
            COMPLETE => self.complete(now, entry),
            UP | DOWN => self.passes(now, rank, entry, what),
            _ => self.worked(now, rank, entry),
        }
    }

    fn complete(&mut self, now: u64, entry: u32) {
        self.done += 1;
        let op = &self.tape.entries[entry as usize];
        let (to, bump) = (op.to, op.bump);
        self.bump(now, to, bump);
        self.send(now, to);
    }

    fn event(&mut self, at: u64, rank: u32, what: u64, entry: u32) {
        self.events.push(at, u64::from(rank) << 35 | what << 32 | u64::from(entry));
    }

    /// Copies start at once; puts queue for the link, and reduces for the rank's one core.
    fn is_ready(&mut self, now: u64, rank: u32, entry: u32) {
        let op = &self.tape.entries[entry as usize];
        match op.does() {
            Does::Put | Does::Relay => match &mut self.turns {
                Some(turns) => turns.is_ready(rank, op.to, entry),
                None => self.ready[rank as usize].push(Reverse(entry)),
            },
            Does::Copy | Does::Reduce if self.cores.is_some() => self.todo[rank as usize].push_back(entry),
            Does::Copy => {
                let until = now.saturating_add(op.len.saturating_mul(COPY_PS));
                self.event(until, rank, COMPLETE, entry);
            }
            Does::Reduce => {
                let takes = op.len.saturating_mul(self.machine.wire.reduce_ps);
                let until = &mut self.core_until[rank as usize];
                *until = now.max(*until).saturating_add(takes);
                let until = *until;
                self.event(until, rank, COMPLETE, entry);
            }
        }
    }

    /// A rank whose last put has left posts the next one that is ready. Where ranks share cores it waits for its own.
    fn send(&mut self, now: u64, rank: u32) {
        if let Some(cores) = &mut self.cores {
            if is_work(&self.ready, &self.todo, rank)
                && let Some(at) = cores.claim(now, rank)
            {
                self.work(at, rank);
            }
            return;
        }
        if self.sending[rank as usize] {
            return;
        }
        let Some(Turn { entry, bytes, is_first }) = self.next_put(rank) else { return };
        self.sending[rank as usize] = true;
        let link = self.link(rank, self.tape.entries[entry as usize].to, rank);
        let overhead_ns = if is_first { self.wire(link).overhead_ns } else { 0 };
        let left = self.leaves(now.saturating_add(overhead_ns * 1000), rank, entry, bytes);
        self.event(left, rank, FREE, 0);
    }

    /// Bytes of a put go to the link out; when they have left.
    fn leaves(&mut self, posted: u64, rank: u32, entry: u32, bytes: u64) -> u64 {
        let link = self.link(rank, self.tape.entries[entry as usize].to, rank);
        let wire = self.wire(link);
        let leaves = posted.max(self.out_until[link]);
        let takes = if self.reader_copies(link) { 0 } else { bytes.saturating_mul(wire.byte_ps) };
        let left = leaves.saturating_add(takes);
        self.out_until[link] = left;
        match self.is_global(rank, entry) {
            true => self.event(leaves, rank, UP, entry),
            false => self.event(leaves.saturating_add(wire.latency_ns * 1000), rank, REACHES, entry),
        }
        left
    }

    /// Whether a put goes from group to group.
    fn is_global(&self, rank: u32, entry: u32) -> bool {
        let node = |rank| self.machine.node_of(rank);
        let to = self.tape.entries[entry as usize].to;
        self.global.as_ref().is_some_and(|global| global.crosses(node(rank), node(to)))
    }

    /// Bytes of a put are at the link up or down of a group: they wait for their turn there.
    fn passes(&mut self, now: u64, rank: u32, entry: u32, what: u64) {
        let stage = if what == UP { Stage::Up } else { Stage::Down };
        let (bytes, _) = self.comes(entry, stage);
        let to = self.tape.entries[entry as usize].to;
        let node = self.machine.node_of(if what == UP { rank } else { to });
        let Some(global) = &mut self.global else { return };
        let at = global.pass(stage, now, node, bytes);
        match what {
            UP => {
                let latency_ns = self.machine.wire.latency_ns + self.machine.groups.latency_ns;
                self.event(at.saturating_add(latency_ns * 1000), rank, DOWN, entry);
            }
            _ => self.event(at, rank, REACHES, entry),
        }
    }

    /// The bytes of a put that come to a link together, and whether they are its last.
    fn comes(&mut self, entry: u32, stage: Stage) -> (u64, bool) {
        match &mut self.turns {
            Some(turns) => turns.come(entry, stage),
            None => (self.tape.entries[entry as usize].len, true),
        }
    }

    /// What a rank puts next.
    fn next_put(&mut self, rank: u32) -> Option<Turn> {
        match &mut self.turns {
            Some(turns) => turns.next(rank),
            None => {
                let Reverse(entry) = self.ready[rank as usize].pop()?;
                Some(Turn { entry, bytes: self.tape.entries[entry as usize].len, is_first: true })
            }
        }
    }

    /// Bytes of a put are at the link in; or, where its reader copies and has a core to share, known to it.
    fn reaches(&mut self, now: u64, rank: u32, entry: u32) {
        let op = self.tape.entries[entry as usize];
        let link = self.link(rank, op.to, op.to);
        if self.cores.is_some() && self.reader_copies(link) {
            self.todo[op.to as usize].push_back(entry);
            return self.send(now, op.to);
        }
        let (bytes, is_last) = self.comes(entry, Stage::In);
        let wire = self.wire(link);
        let (mut takes, mut latency_ns) = (bytes.saturating_mul(wire.byte_ps), wire.latency_ns);
        if self.is_global(rank, entry)
            && let Some(global) = &mut self.global
        {
            latency_ns += self.machine.groups.latency_ns;
            let nodes = (self.machine.node_of(rank), self.machine.node_of(op.to));
            takes = takes.max(global.arrived(nodes, bytes));
        }
        let first = now.max(self.in_until[link]);
        let last = first.saturating_add(takes);
        self.in_until[link] = last;
        if is_last {
            self.event(last, rank, COMPLETE, entry);
        }
        let left = now - latency_ns * 1000;
        self.moved(rank, entry, bytes, (left, left.saturating_add(takes)), (first, last));
    }

    fn moved(&mut self, rank: u32, entry: u32, len: u64, leaves: (u64, u64), arrives: (u64, u64)) {
        let op = &self.tape.entries[entry as usize];
        if self.machine.node_of(rank) != self.machine.node_of(op.to) {
            self.crossing += len;
        }
        if let Some(transfers) = &mut self.transfers {
            transfers.push(Transfer { from: rank, to: op.to, round: op.round, len, leaves, arrives });
        }
    }

    /// The core of `rank` begins what that has to do next, or passes to another rank. Puts come first.
    fn work(&mut self, mut now: u64, mut rank: u32) {
        loop {
            let put = self.ready[rank as usize].pop().map(|Reverse(entry)| entry);
            if let Some(entry) = put.or_else(|| self.todo[rank as usize].pop_front()) {
                let takes = self.work_ps(rank, entry);
                return self.event(now.saturating_add(takes), rank, WORKED, entry);
            }
            let Some(cores) = &mut self.cores else { return };
            let next = cores.pass(now, rank, |rank| is_work(&self.ready, &self.todo, rank));
            let Some(next) = next else { return };
            (rank, now) = next;
        }
    }

    /// How long an entry takes the core of `rank`: a put of its own, or one to it that it copies; a copy, a reduction.
    fn work_ps(&self, rank: u32, entry: u32) -> u64 {
        let op = &self.tape.entries[entry as usize];
        let (wire, costs) = (self.machine.near, &self.machine.cores);
        match op.does() {
            Does::Copy => op.len.saturating_mul(wire.byte_ps),
            Does::Reduce => op.len.saturating_mul(self.machine.wire.reduce_ps),
            _ if op.to != rank => {
                let more = if self.cores.as_ref().is_some_and(|cores| cores.has_others(rank)) {
                    costs.put_ns
                } else {
                    0
                };
                (self.wire(self.link(rank, op.to, rank)).overhead_ns + more) * 1000
            }
            Does::Put => op.len.saturating_mul(wire.byte_ps),
            Does::Relay => op.len.saturating_mul(wire.byte_ps) / 100 * (100 + costs.relay_percent),
        }
    }

    fn worked(&mut self, now: u64, rank: u32, entry: u32) {
        let op = self.tape.entries[entry as usize];
        if op.to != rank {
            self.leaves(now, rank, entry, op.len);
        } else {
            if matches!(op.does(), Does::Put | Does::Relay) {
                let (from, took) = (self.tape.rank_of(entry), (now - self.work_ps(rank, entry), now));
                self.moved(from, entry, op.len, took, took);
            }
            self.complete(now, entry);
        }
        self.work(now, rank);
    }

    /// The link at `end` of a put from `from` to `to`: its own within the node, else the node's.
    fn link(&self, from: u32, to: u32, end: u32) -> usize {
        match self.machine.node_of(from) == self.machine.node_of(to) {
            true => end as usize,
            false => self.ready.len() + self.machine.node_of(end) as usize,
        }
    }

    fn is_within(&self, link: usize) -> bool {
        link < self.ready.len()
    }

    fn reader_copies(&self, link: usize) -> bool {
        self.machine.readers && self.is_within(link)
    }

    fn wire(&self, link: usize) -> LogGp {
        if self.is_within(link) { self.machine.near } else { self.machine.wire }
    }

    fn bump(&mut self, now: u64, rank: u32, counter: u32) {
        if counter == NO_COUNTER {
            return;
        }
        let counter = counter as usize;
        self.counts[counter] += 1;
        let count = self.counts[counter];
        for i in self.tape.waiting[counter]..self.tape.waiting[counter + 1] {
            let (at, entry) = self.tape.waiters[i as usize];
            if at == count && self.tape.entries[entry as usize].one_wait_less() {
                self.is_ready(now, rank, entry);
            }
        }
    }
}

/// Whether a rank that shares its core has anything to do.
fn is_work(ready: &[BinaryHeap<Reverse<u32>>], todo: &[VecDeque<u32>], rank: u32) -> bool {
    !ready[rank as usize].is_empty() || !todo[rank as usize].is_empty()
}
