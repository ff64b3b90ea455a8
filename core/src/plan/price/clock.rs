//! The virtual clock: runs a [`Tape`] on links that carry one put at a time.

use super::queue::Queue;
use super::tape::{Does, Tape};
use crate::machine::{LogGp, Machine};
use crate::plan::NO_COUNTER;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Memory copies take this many picoseconds per byte.
const COPY_PS: u64 = 100;

/// One put as it happened, in picoseconds from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Who put it.
    pub from: u32,
    /// To whom.
    pub to: u32,
    /// In which round of the plan.
    pub round: u32,
    /// Its bytes; 0 for a notify.
    pub len: u64,
    /// Its first and its last byte leave.
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
    counts: Vec<u32>,
    done: u64,
    end: u64,
    crossing: u64,
    transfers: Option<Vec<Transfer>>,
}

impl Clock {
    /// At time 0: all ranks enter.
    pub fn new(tape: Tape, machine: Machine) -> Self {
        let size = tape.size();
        let ranks = size as usize;
        let links = ranks + machine.node_of(size.saturating_sub(1)) as usize + 1;
        let counters = tape.waiting.len() - 1;
        let mut clock = Self {
            tape,
            machine,
            events: Queue::new(),
            ready: vec![BinaryHeap::new(); ranks],
            sending: vec![false; ranks],
            out_until: vec![0; links],
            in_until: vec![0; links],
            core_until: vec![0; ranks],
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
        let (rank, what, entry) = ((what >> 34) as u32, what >> 32 & 3, what as u32);
        match what {
            FREE => {
                self.sending[rank as usize] = false;
                self.send(now, rank);
            }
            REACHES => self.reaches(now, rank, entry),
            _ => {
                self.done += 1;
                let op = &self.tape.entries[entry as usize];
                let (to, bump) = (op.to, op.bump);
                self.bump(now, to, bump);
                self.send(now, to);
            }
        }
    }

    fn event(&mut self, at: u64, rank: u32, what: u64, entry: u32) {
        self.events.push(at, u64::from(rank) << 34 | what << 32 | u64::from(entry));
    }

    /// Copies start at once; puts queue for the link, and reduces for the rank's one core.
    fn is_ready(&mut self, now: u64, rank: u32, entry: u32) {
        let op = &self.tape.entries[entry as usize];
        match op.does() {
            Does::Put => self.ready[rank as usize].push(Reverse(entry)),
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

    /// A rank whose last put has left posts the next one that is ready.
    fn send(&mut self, now: u64, rank: u32) {
        if self.sending[rank as usize] {
            return;
        }
        let Some(Reverse(entry)) = self.ready[rank as usize].pop() else { return };
        self.sending[rank as usize] = true;
        let op = &self.tape.entries[entry as usize];
        let link = self.link(rank, op.to, rank);
        let wire = self.wire(link);
        let posted = now.saturating_add(wire.overhead_ns * 1000);
        let leaves = posted.max(self.out_until[link]);
        let reader_copies = self.machine.readers && self.is_within(link);
        let takes = if reader_copies { 0 } else { op.len.saturating_mul(wire.byte_ps) };
        let (left, latency) = (leaves.saturating_add(takes), wire.latency_ns * 1000);
        self.out_until[link] = left;
        self.event(left, rank, FREE, 0);
        self.event(leaves.saturating_add(latency), rank, REACHES, entry);
    }

    fn reaches(&mut self, now: u64, rank: u32, entry: u32) {
        let op = self.tape.entries[entry as usize];
        let link = self.link(rank, op.to, op.to);
        let wire = self.wire(link);
        let takes = op.len.saturating_mul(wire.byte_ps);
        let first = now.max(self.in_until[link]);
        let last = first.saturating_add(takes);
        self.in_until[link] = last;
        self.event(last, rank, COMPLETE, entry);
        if self.machine.node_of(rank) != self.machine.node_of(op.to) {
            self.crossing += op.len;
        }
        let left = now - wire.latency_ns * 1000;
        if let Some(transfers) = &mut self.transfers {
            transfers.push(Transfer {
                from: rank,
                to: op.to,
                round: op.round,
                len: op.len,
                leaves: (left, left.saturating_add(takes)),
                arrives: (first, last),
            });
        }
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
