//! The programs of all ranks in one place, small enough for a hundred thousand ranks: about 40 bytes per put.

use crate::error::{Error, ErrorKind, Result};
use crate::plan::lower::{OpKind, Program, WireLimits, lower};
use crate::plan::{NO_COUNTER, Plan};

/// What an [`Entry`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Put,
    Copy,
    Reduce,
    /// A put of what came from others.
    Relay,
}

/// An op without its memory: where the bytes lie makes no difference to the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) len: u64,
    /// The rank whose counter is bumped.
    pub(super) to: u32,
    /// Which of all ranks' counters, or [`NO_COUNTER`].
    pub(super) bump: u32,
    pub(super) round: u32,
    /// How many waits, and in the two lowest bits what it does.
    packed: u32,
}

impl Entry {
    pub(super) fn waits(&self) -> u32 {
        self.packed >> 2
    }

    pub(super) fn one_wait_less(&mut self) -> bool {
        self.packed -= 4;
        self.packed < 4
    }

    pub(super) fn does(&self) -> Does {
        match self.packed & 3 {
            0 => Does::Put,
            1 => Does::Copy,
            2 => Does::Reduce,
            _ => Does::Relay,
        }
    }
}

/// The lowered programs of all ranks, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    pub(super) entries: Vec<Entry>,
    /// By rank: where its entries begin; and the end of all.
    pub(super) starts: Vec<u32>,
    /// By rank: where its counters begin; and the end of all.
    counters: Vec<u32>,
    /// By counter: where its waiters begin; and the end of all.
    pub(super) waiting: Vec<u32>,
    /// (count, entry) pairs: when the counter reaches the count, one of the entry's waits is over.
    pub(super) waiters: Vec<(u32, u32)>,
    puts: u64,
    bytes: u64,
}

impl Tape {
    /// The programs of all ranks of `plan`, lowered to `limits`. `each` is told the number of every rank that
    /// is done, and may stop it.
    ///
    /// # Errors
    /// If the plan cannot be lowered, is too large (2^32 ops or counters), or `each` returns an error.
    pub fn record(
        plan: &dyn Plan,
        limits: &WireLimits,
        mut each: impl FnMut(u32, &Self) -> Result<()>,
    ) -> Result<Self> {
        let mut tape = Self::default();
        for rank in 0..plan.size() {
            tape.push(&lower(plan, rank, limits)?)?;
            each(rank, &tape)?;
        }
        tape.link();
        Ok(tape)
    }

    /// The same from programs.
    ///
    /// # Errors
    /// If they are too large.
    pub fn of(programs: &[Program]) -> Result<Self> {
        let mut tape = Self::default();
        programs.iter().try_for_each(|program| tape.push(program))?;
        tape.link();
        Ok(tape)
    }

    fn push(&mut self, program: &Program) -> Result<()> {
        let (first, counter) = (index(self.entries.len())?, index(self.waiting.len())?);
        index(self.entries.len() + program.ops.len())?;
        index(self.waiting.len() + program.counters() + 1)?;
        let before = index(self.waiters.len())?;
        index(self.waiters.len() + program.waiters.len())?;
        let rank = index(self.starts.len())?;
        self.starts.push(first);
        self.counters.push(counter);
        for op in &program.ops {
            let (does, to) = match op.kind {
                OpKind::Put | OpKind::Notify => {
                    (if op.waits == 0 { 0 } else { 3 }, program.peers[op.peer as usize].rank)
                }
                OpKind::Copy => (1, rank),
                OpKind::Reduce(_) => (2, rank),
            };
            if !op.kind.is_local() {
                self.puts += 1;
                self.bytes += op.len;
            }
            let packed = op.waits << 2 | does;
            self.entries.push(Entry { len: op.len, to, bump: op.bump, round: op.round, packed });
        }
        let starts = program.waiter_start.iter().take(program.counters());
        self.waiting.extend(starts.map(|start| before + start));
        self.waiters.extend(program.waiters.iter().map(|&(count, op)| (count, first + op)));
        Ok(())
    }

    /// Once all ranks are known: from every rank's own numbers of counters to numbers among all.
    fn link(&mut self) {
        // Both fit: `push` has seen to it.
        self.starts.push(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
        self.waiting.push(u32::try_from(self.waiters.len()).unwrap_or(u32::MAX));
        for entry in &mut self.entries {
            if entry.bump != NO_COUNTER {
                entry.bump += self.counters[entry.to as usize];
            }
        }
        self.counters = Vec::new();
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        u32::try_from(self.starts.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Ops in all, local ones too.
    pub fn ops(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Puts and notifies in all.
    pub fn puts(&self) -> u64 {
        self.puts
    }

    /// Bytes in all puts.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The rank whose program has this entry.
    pub(super) fn rank_of(&self, entry: u32) -> u32 {
        u32::try_from(self.starts.partition_point(|start| *start <= entry) - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn ops_of(&self, rank: u32) -> std::ops::Range<u32> {
        self.starts[rank as usize]..self.starts[rank as usize + 1]
    }
}

fn index(n: usize) -> Result<u32> {
    // The highest number means "no counter".
    u32::try_from(n).ok().filter(|n| *n < NO_COUNTER).ok_or_else(|| {
        Error::new(ErrorKind::Argument, "the plan is too large to be simulated: more than 2^32 operations")
    })
}
