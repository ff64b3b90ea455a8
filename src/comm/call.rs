//! One call: what was asked, its lowered program (kept for the next time), its memory, its run.

use super::world::Shared;
use crate::buffer::{Binding, Block, Bound, GATHER_MAX, Loan, Wire, lend};
use crate::engine::{CallId, Meta, Task};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::lower::{WireLimits, lower};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use std::sync::Arc;
use std::time::Duration;

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) algorithm: &'static Algorithm,
    pub(super) arguments: Arguments,
}

impl PartialEq for Asked {
    fn eq(&self, other: &Self) -> bool {
        self.operation == other.operation
            && std::ptr::eq(self.algorithm, other.algorithm)
            && self.arguments == other.arguments
    }
}

/// A request lowered for this rank, ready to run.
pub(super) struct Prepared {
    asked: Asked,
    /// Away while it runs.
    pub(super) task: Option<Box<Task>>,
    pub(super) meta: Meta,
    /// Landing and scratch memory of the program.
    memory: [Option<Block>; 2],
    used: u64,
}

/// Lowered programs by what was asked; the least recently used goes first.
#[derive(Default)]
pub(super) struct Cache {
    entries: Vec<Prepared>,
    clock: u64,
}

/// How many programs are kept.
const CACHED: usize = 32;

impl Asked {
    /// FNV-1a over everything that ranks must agree on.
    fn hash(&self, rounds: u32) -> u64 {
        let a = &self.arguments;
        let mut h = Fnv::new();
        h.word(u64::from(self.operation.code()));
        h.word(digest(self.algorithm.name.as_bytes()));
        for word in [u64::from(rounds), u64::from(a.root), a.bytes, u64::from(a.in_place)] {
            h.word(word);
        }
        a.counts.iter().chain(&a.displs).for_each(|w| h.word(*w));
        h.0
    }
}

struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
    fn word(&mut self, w: u64) {
        // Whole words instead of bytes, with a rotation to spread them.
        self.0 = (self.0 ^ w).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
    }
}

/// A 64-bit digest of bytes.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let mut h = Fnv::new();
    bytes.iter().for_each(|b| h.word(u64::from(*b)));
    h.0
}

impl Shared {
    /// The lowered program for what is asked, from the cache or made now.
    fn prepare(&mut self, rank: u32, asked: &Asked) -> Result<usize> {
        self.cache.clock += 1;
        let clock = self.cache.clock;
        if let Some(i) = self.cache.entries.iter().position(|e| e.asked == *asked && e.task.is_some()) {
            self.cache.entries[i].used = clock;
            return Ok(i);
        }
        let mut made = self.make(rank, asked.clone())?;
        made.used = clock;
        let entries = &mut self.cache.entries;
        if entries.len() == CACHED
            && let Some(oldest) = (0..CACHED).min_by_key(|i| entries[*i].used)
        {
            entries.swap_remove(oldest);
        }
        entries.push(made);
        Ok(entries.len() - 1)
    }

    /// Plans and lowers what is asked.
    pub(super) fn make(&mut self, rank: u32, asked: Asked) -> Result<Prepared> {
        let plan = (asked.algorithm.build)(&asked.arguments, self.model.wire())?;
        let (max_put, gather) = self.engine.limits().map_or((u64::MAX, 1), |l| (l.max_put, l.gather));
        let limits = WireLimits { max_put, gather: gather.min(GATHER_MAX), light: self.model.light() };
        let program = Arc::new(lower(plan.as_ref(), rank, &limits)?);
        let (land, work) = (program.land, program.work);
        let block = |s: &mut Self, n: u64| -> Result<Option<Block>> {
            let n =
                usize::try_from(n).map_err(|_| Error::new(ErrorKind::System, "more memory than there is"))?;
            if n == 0 { Ok(None) } else { s.arena.alloc(n, s.engine.transport()).map(Some) }
        };
        let memory = [block(self, land)?, block(self, work)?];
        let meta = Meta {
            name: asked.operation.name(),
            code: asked.operation.code(),
            call: CallId::default(),
            hash: asked.hash(plan.rounds()),
            rounds: plan.rounds(),
        };
        Ok(Prepared { asked, task: Some(Task::new(program, |r| r)), meta, memory, used: 0 })
    }

    /// Runs a call to its end.
    pub(super) fn run(
        &mut self,
        rank: u32,
        asked: &Asked,
        input: Option<Loan<'_>>,
        output: Option<Loan<'_>>,
        deadline: Option<Duration>,
    ) -> Result<()> {
        self.engine.healthy()?;
        let sequence = self.next_call();
        self.engine.calls(asked.operation.code(), CallId { comm: 0, sequence });
        let deadline = deadline.unwrap_or(self.deadline);
        let name = asked.operation.name();
        let at = |e: Error| e.in_operation(name, u64::from(sequence));
        let index = match self.prepare(rank, asked) {
            Ok(i) => i,
            Err(e) => return Err(self.refuse_call(asked.operation, sequence, e)),
        };
        let Some(task) = self.cache.entries[index].task.take() else {
            return Err(at(Error::new(ErrorKind::Argument, "the program is in use")));
        };
        let entry = &self.cache.entries[index];
        let meta = Meta { call: CallId { comm: 0, sequence }, ..entry.meta };
        let (land, work) = (entry.land(), entry.work());
        let arena = self.arena.clone();
        let body = |engine: &mut crate::engine::Engine, input: Bound, output: Bound| {
            let slot = engine.start(task, meta, Binding { input, output, work, land })?;
            engine.wait(slot, deadline)
        };
        let input = input.unwrap_or(Loan::Shared(&[]));
        let output = output.unwrap_or(Loan::Shared(&[]));
        let done = lend(&mut self.engine, &arena, input, |engine, input| {
            lend(engine, &arena, output, |engine, output| body(engine, input, output))
        });
        match done {
            Ok(task) => {
                self.cache.entries[index].task = Some(task);
                Ok(())
            }
            Err(e) => Err(self.engine.fail(at(e))),
        }
    }

    /// The number of the call that begins now.
    pub(super) fn next_call(&mut self) -> u32 {
        let n = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
        n
    }

    /// Refuses a call before any data moves: the others learn it too, instead of waiting for us.
    pub(super) fn refuse(&mut self, operation: Operation, e: Error) -> Error {
        if let Err(earlier) = self.engine.healthy() {
            return earlier;
        }
        let sequence = self.next_call();
        self.refuse_call(operation, sequence, e)
    }

    /// As [`Shared::refuse`], for a call that has its number already.
    pub(super) fn refuse_call(&mut self, operation: Operation, sequence: u32, e: Error) -> Error {
        self.engine.fail_in(operation.code(), CallId { comm: 0, sequence }, e)
    }
}

impl Prepared {
    pub(super) fn land(&self) -> Bound {
        whole(self.memory[0].as_ref())
    }

    pub(super) fn work(&self) -> Bound {
        whole(self.memory[1].as_ref())
    }
}

fn whole(block: Option<&Block>) -> Bound {
    block.map_or(Bound::NONE, |b| b.bound(usize::MAX))
}
