//! The simulator: what a plan costs on a wire of given latency, overhead and byte time (LogGP).
//!
//! Every rank has a link out and a link in, each serial. A put holds the link out for o + β·bytes, and
//! the link in for β·bytes, L later at the earliest: what comes while another put is coming in waits its
//! turn. A rank with a free link posts whatever is ready, lowest round first, just as the engine does;
//! nothing else is waited for. Programs are priced, not plans, so lowering is priced too.

use super::lower::{Op, OpKind, Program, WireLimits, lower};
use super::{NO_COUNTER, Plan};
use crate::error::Result;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A wire by its parameters, as `bench put` measures them; equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    /// L: nanoseconds from the end of sending a byte to its arrival.
    pub latency_ns: u64,
    /// o: nanoseconds that a put costs besides its bytes.
    pub overhead_ns: u64,
    /// β: picoseconds per byte.
    pub byte_ps: u64,
    /// γ: picoseconds per byte that is combined into another.
    pub reduce_ps: u64,
}

impl Model {
    /// The reference time of a broadcast of `bytes` bytes among `size` ranks, C = β·m + q·(L + o), in
    /// nanoseconds. Not a lower bound.
    pub fn reference_ns(&self, size: u32, bytes: u64) -> u64 {
        let q = u64::from(size.max(1).next_power_of_two().ilog2());
        self.bytes_ps(bytes) / 1000 + q * (self.latency_ns + self.overhead_ns)
    }

    fn bytes_ps(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.byte_ps)
    }
}

/// Memory copies take this many picoseconds per byte.
const COPY_PS: u64 = 100;

/// Prices `plan` after lowering it to `limits`: the time until the last rank is done, in nanoseconds.
///
/// # Errors
/// If the plan cannot be lowered.
pub fn price(plan: &dyn Plan, limits: &WireLimits, model: &Model) -> Result<u64> {
    let programs = (0..plan.size()).map(|rank| lower(plan, rank, limits)).collect::<Result<Vec<_>>>()?;
    Ok(price_programs(&programs, model))
}

/// Prices the programs of all ranks, in nanoseconds.
pub fn price_programs(programs: &[Program], model: &Model) -> u64 {
    let mut clock = Clock::new(programs, model);
    clock.run();
    clock.end / 1000
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A rank's link out is free.
    Free,
    /// The first byte of an op's put reaches the peer's link in.
    Reaches(u32),
    /// An op's put or copy is complete.
    Complete(u32),
}

struct Clock<'a> {
    programs: &'a [Program],
    model: &'a Model,
    /// What will happen: (picosecond, rank, what).
    events: BinaryHeap<Reverse<(u64, u32, What)>>,
    /// By rank: ops ready to be posted; an op's number is its order.
    ready: Vec<BinaryHeap<Reverse<u32>>>,
    sending: Vec<bool>,
    receiving_until: Vec<u64>,
    reducing_until: Vec<u64>,
    waits: Vec<Vec<u32>>,
    counts: Vec<Vec<u32>>,
    end: u64,
}

impl<'a> Clock<'a> {
    fn new(programs: &'a [Program], model: &'a Model) -> Self {
        Self {
            programs,
            model,
            events: BinaryHeap::new(),
            ready: vec![BinaryHeap::new(); programs.len()],
            sending: vec![false; programs.len()],
            receiving_until: vec![0; programs.len()],
            reducing_until: vec![0; programs.len()],
            waits: programs.iter().map(|p| p.ops.iter().map(|op| op.waits).collect()).collect(),
            counts: programs.iter().map(|p| vec![0; p.counters()]).collect(),
            end: 0,
        }
    }

    fn run(&mut self) {
        for (rank, program) in (0..).zip(self.programs) {
            for (i, _) in (0..).zip(&program.ops).filter(|(_, op)| op.waits == 0) {
                self.is_ready(0, rank, i);
            }
            self.send(0, rank);
        }
        while let Some(Reverse((now, rank, what))) = self.events.pop() {
            self.end = self.end.max(now);
            let op = |i: u32| &self.programs[rank as usize].ops[i as usize];
            match what {
                What::Free => {
                    self.sending[rank as usize] = false;
                    self.send(now, rank);
                }
                What::Reaches(i) => {
                    let to = self.peer(rank, op(i));
                    let until = &mut self.receiving_until[to as usize];
                    *until = now.max(*until) + self.model.bytes_ps(op(i).len);
                    self.events.push(Reverse((*until, rank, What::Complete(i))));
                }
                What::Complete(i) => {
                    let to = self.peer(rank, op(i));
                    self.bump(now, to, op(i).bump);
                    self.send(now, to);
                }
            }
        }
    }

    fn peer(&self, rank: u32, op: &Op) -> u32 {
        match op.kind {
            OpKind::Copy | OpKind::Reduce(_) => rank,
            _ => self.programs[rank as usize].peers[op.peer as usize].rank,
        }
    }

    /// Copies start at once; puts queue for the link, and reduces for the rank's one core.
    fn is_ready(&mut self, now: u64, rank: u32, i: u32) {
        let op = &self.programs[rank as usize].ops[i as usize];
        match op.kind {
            OpKind::Copy => self.events.push(Reverse((now + op.len * COPY_PS, rank, What::Complete(i)))),
            OpKind::Reduce(_) => {
                let until = &mut self.reducing_until[rank as usize];
                *until = now.max(*until) + op.len.saturating_mul(self.model.reduce_ps);
                self.events.push(Reverse((*until, rank, What::Complete(i))));
            }
            OpKind::Put | OpKind::Notify => self.ready[rank as usize].push(Reverse(i)),
        }
    }

    fn send(&mut self, now: u64, rank: u32) {
        if self.sending[rank as usize] {
            return;
        }
        let Some(Reverse(i)) = self.ready[rank as usize].pop() else { return };
        self.sending[rank as usize] = true;
        let overhead = self.model.overhead_ns * 1000;
        let bytes = self.model.bytes_ps(self.programs[rank as usize].ops[i as usize].len);
        self.events.push(Reverse((now + overhead + bytes, rank, What::Free)));
        self.events.push(Reverse((now + overhead + self.model.latency_ns * 1000, rank, What::Reaches(i))));
    }

    fn bump(&mut self, now: u64, rank: u32, counter: u32) {
        if counter == NO_COUNTER {
            return;
        }
        let program = &self.programs[rank as usize];
        let count = &mut self.counts[rank as usize][counter as usize];
        *count += 1;
        let count = *count;
        let range = program.waiter_start[counter as usize]..program.waiter_start[counter as usize + 1];
        for &(at, op) in &program.waiters[range.start as usize..range.end as usize] {
            if at == count {
                let left = &mut self.waits[rank as usize][op as usize];
                *left -= 1;
                if *left == 0 {
                    self.is_ready(now, rank, op);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::barrier::dissemination::Barrier;
    use crate::plan::bcast::circulant::Bcast;

    const LIMITS: WireLimits = WireLimits { max_put: u64::MAX, gather: 1, light: 0 };
    const MODEL: Model = Model { latency_ns: 1000, overhead_ns: 100, byte_ps: 500, reduce_ps: 0 };

    #[test]
    fn one_block_to_one_rank_costs_what_the_model_says() {
        let plan = Bcast::new(2, 0, 10_000, 1).unwrap();
        assert_eq!(price(&plan, &LIMITS, &MODEL).unwrap(), 1000 + 100 + 5000);
        // Two blocks: the second follows at once.
        let plan = Bcast::new(2, 1, 10_000, 2).unwrap();
        assert_eq!(price(&plan, &LIMITS, &MODEL).unwrap(), 1000 + 2 * 100 + 5000);
    }

    #[test]
    fn a_barrier_costs_q_latencies() {
        for p in [2u32, 3, 8, 9, 100] {
            let q = u64::from(p.next_power_of_two().ilog2());
            assert_eq!(price(&Barrier::new(p).unwrap(), &LIMITS, &MODEL).unwrap(), q * (1000 + 100));
        }
    }

    #[test]
    fn one_block_to_all_costs_a_put_per_round_and_a_latency_per_hop() {
        for (p, hops) in [(2u32, 1), (4, 2), (16, 4), (64, 6)] {
            let plan = Bcast::new(p, 0, 1000, 1).unwrap();
            let q = u64::from(p.next_power_of_two().ilog2());
            let want = hops * 1000 + q * (100 + 500);
            assert_eq!(price(&plan, &LIMITS, &MODEL).unwrap(), want, "p = {p}");
        }
    }
}
