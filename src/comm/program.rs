//! Lowered programs, kept by what was asked for the next call like it.

use super::calling::Called;
use super::collective::Collective;
use crate::buffer::{Block, Bound};
use crate::engine::{Describe, Description, Meta, Task};
use crate::hash::{Fnv, digest};
use crate::ops::{Element, Reducer};
use crate::plan::lower::Segment;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::select::Way;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a call asks for, without its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    pub(super) comm: u64,
    pub(super) call: Collective,
    pub(super) element: Element,
    pub(super) algorithm: &'static Algorithm,
}

impl PartialEq for Asking {
    fn eq(&self, other: &Self) -> bool {
        let Self { comm, call, element, algorithm } = *self;
        (comm, call, element) == (other.comm, other.call, other.element)
            && std::ptr::eq(algorithm, other.algorithm)
    }
}

/// What a call asks for: calls that ask for the same run the same program.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) asking: Asking,
    pub(super) arguments: Arguments,
    /// See [`Spec`](super::call::Spec). No other rank knows of it.
    pub(super) gathered: Option<Arc<[Segment]>>,
}

impl Asked {
    /// FNV-1a over everything that ranks must agree on.
    pub(super) fn hash(&self, rounds: u32) -> u64 {
        let (a, asking) = (&self.arguments, &self.asking);
        let mut h = Fnv::new();
        h.word(u64::from(asking.call.code()));
        h.word(asking.element.code());
        h.word(digest(asking.algorithm.name.as_bytes()));
        let in_place = u64::from(a.in_place && asking.call.operation().is_in_place_everywhere());
        for word in [u64::from(rounds), u64::from(a.root), u64::from(a.first), a.bytes, in_place] {
            h.word(word);
        }
        // Elsewhere rounds tell the number of blocks.
        let messages = a.blocks.filter(|_| asking.algorithm.messages.is_some());
        h.word(messages.unwrap_or(0).into());
        a.counts.iter().chain(&a.displs).for_each(|w| h.word(*w));
        a.nodes.iter().chain(a.groups.iter()).for_each(|w| h.word(u64::from(*w)));
        h.0
    }

    /// What only two ranks need to agree on, from one to the other: bytes, of all edges together.
    fn pairs(&self) -> BTreeMap<(u32, u32), u64> {
        let mut pairs = BTreeMap::new();
        for (&rank, row) in &self.arguments.rows {
            let sent = (0..).zip(&row.sendcounts).map(|(to, n): (u32, _)| ((rank, to), *n));
            let received = (0..).zip(&row.recvcounts).map(|(from, n): (u32, _)| ((from, rank), *n));
            pairs.extend(sent.chain(received));
        }
        for (&rank, edges) in &self.arguments.graph.edges {
            let sent = edges.destinations.iter().map(|d| ((rank, d.peer), d.len));
            for (pair, len) in sent.chain(edges.sources.iter().map(|s| ((s.peer, rank), s.len))) {
                *pairs.entry(pair).or_default() += len;
            }
        }
        pairs
    }
}

impl Describe for Asked {
    fn describe(&self, reducer: Option<&Reducer>) -> String {
        use Operation::{Bcast, Gather, Gatherv, InterBcast, Reduce, Scatter, Scatterv};
        let (a, Asking { call, element, algorithm, .. }) = (&self.arguments, self.asking);
        let size = element.size().max(1) as u64;
        let mut text = Description::new(element);
        if matches!(call.operation(), Bcast | Gather | Gatherv | InterBcast | Reduce | Scatter | Scatterv) {
            text.line("root", a.root);
        }
        if a.first > 0 {
            text.line("size of the first group", a.first);
        }
        if a.counts.is_empty() && a.rows.is_empty() && a.graph.multiplicity == 0 {
            text.line("length", a.bytes / size);
        }
        text.list("count", a.counts.iter().map(|n| n / size));
        text.list("displacement", a.displs.iter().map(|n| n / size));
        for ((from, to), bytes) in self.pairs() {
            if !text.room() {
                break;
            }
            text.line(&format!("elements from rank {from} to rank {to}:"), bytes / size);
        }
        if let Some(reducer) = reducer {
            text.line("operator", reducer.name());
        }
        if call.operation().is_in_place_everywhere() {
            text.line("in place", if a.in_place { "yes" } else { "no" });
        }
        text.line("blocks", a.blocks.map_or("auto".to_owned(), |n| n.to_string()));
        text.line("algorithm", algorithm.name);
        text.done()
    }
}

/// A request lowered for this rank, ready to run.
pub(super) struct Prepared {
    asked: Arc<Asked>,
    /// Away while it runs.
    pub(super) task: Option<Box<Task>>,
    pub(super) meta: Meta,
    /// The blocking call that it ran for last, where one can be like it.
    pub(super) called: Option<Called>,
    /// Landing and scratch memory of the program; none while it is kept without.
    memory: [Option<Block>; 2],
    /// Bytes of both.
    bytes: usize,
    /// The cache's clock when it last ran.
    used: u64,
}

impl Prepared {
    pub(super) fn new(asked: Asked, mut task: Box<Task>, meta: Meta, memory: [Option<Block>; 2]) -> Self {
        let asked = Arc::new(asked);
        task.arguments = Some(Arc::clone(&asked) as _);
        let bytes = held(&memory);
        Self { asked, task: Some(task), meta, called: None, memory, bytes, used: 0 }
    }

    /// The bytes of landing and scratch memory that it needs before it runs, if it was kept without.
    pub(super) fn lacks(&self) -> Option<[u64; 2]> {
        let program = &self.task.as_ref().filter(|_| held(&self.memory) < self.bytes)?.program;
        Some([program.land, program.work])
    }

    /// Gives it what it [lacks](Self::lacks).
    pub(super) fn give(&mut self, memory: [Option<Block>; 2]) {
        self.memory = memory;
    }

    /// The arguments of the call, as ranks compare them.
    pub(super) fn describe(&self, reducer: Option<&Reducer>) -> String {
        self.asked.describe(reducer)
    }

    /// The arguments of the call, and the way that it goes.
    pub(super) fn asked(&self) -> (&Arguments, Way) {
        (
            &self.asked.arguments,
            Way { algorithm: self.asked.asking.algorithm, blocks: self.asked.arguments.blocks },
        )
    }

    /// The same call in another way.
    pub(super) fn asked_in(&self, way: &Way) -> Asked {
        let asked = &*self.asked;
        let arguments = Arguments { blocks: way.blocks, ..asked.arguments.clone() };
        let asking = Asking { algorithm: way.algorithm, ..asked.asking };
        Asked { asking, arguments, gathered: asked.gathered.clone() }
    }

    /// Memory that peers put into.
    pub(super) fn land(&self) -> Bound {
        whole(self.memory[0].as_ref())
    }

    /// Scratch memory.
    pub(super) fn work(&self) -> Bound {
        whole(self.memory[1].as_ref())
    }
}

/// How many programs are kept. Chosen, as many as choices are remembered (`core/src/select/choice.rs`): a call that is
/// planned anew takes what `cargo bench -p circulant-benches --bench plan` shows.
const MAX_CACHED_PROGRAMS: usize = 32;

/// Bytes of landing and scratch memory with which the programs of all ranks of a node are kept, at most. Chosen: of 1024 ranks each has 2 MiB, of
/// 64 ranks 32 MiB.
const MAX_KEPT_BYTES: usize = 2 << 30;

/// A program, and the communicator and call that it is for. They stand here so that a search does not read programs of other calls, each of which may be a cache miss.
struct Entry {
    of: (u64, Collective),
    prepared: Box<Prepared>,
}

/// Lowered programs by what was asked; the least recently used goes first. Those in use are out.
pub(super) struct Cache {
    entries: Vec<Entry>,
    /// Calls so far.
    clock: u64,
    /// Bytes of landing and scratch memory with which they are kept, and at most: what goes beyond is kept without.
    bytes: usize,
    most: usize,
}

impl Cache {
    /// That of a rank whose node has `ranks` ranks.
    pub(super) fn of_one_of(ranks: usize) -> Self {
        Self { entries: Vec::new(), clock: 0, bytes: 0, most: MAX_KEPT_BYTES / ranks.max(1) }
    }

    /// Keeps none of them any longer.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// The program for such a call, if it is there: those that ran last are looked at first.
    pub(super) fn take(
        &mut self,
        asking: &Asking,
        arguments: &Arguments,
        gathered: Option<&Arc<[Segment]>>,
    ) -> Option<Box<Prepared>> {
        self.clock += 1;
        let is_asked = |Asked { asking: of, arguments: with, gathered: from }: &Asked| {
            of == asking && with == arguments && from.as_ref() == gathered
        };
        let of = (asking.comm, asking.call);
        let i = self.entries.iter().rposition(|e| e.of == of && is_asked(&e.prepared.asked))?;
        Some(self.remove(i))
    }

    /// The program of such a call that ran before for one of which `is_alike` says so.
    pub(super) fn take_again(
        &mut self,
        comm: u64,
        call: Collective,
        is_alike: impl Fn(&Called) -> bool,
    ) -> Option<Box<Prepared>> {
        let is_again = |kept: &Prepared| kept.called.as_ref().is_some_and(&is_alike);
        let is_there =
            |e: &Entry| e.of == (comm, call) && is_again(&e.prepared) && e.prepared.lacks().is_none();
        let i = self.entries.iter().rposition(is_there)?;
        self.clock += 1;
        Some(self.remove(i))
    }

    /// Keeps a program that has run.
    pub(super) fn keep(&mut self, mut prepared: Box<Prepared>) {
        prepared.used = self.clock;
        if self.entries.len() >= MAX_CACHED_PROGRAMS
            && let Some(oldest) = (0..self.entries.len()).min_by_key(|i| self.entries[*i].prepared.used)
        {
            self.remove(oldest);
        }
        self.bytes += held(&prepared.memory);
        let asking = &prepared.asked.asking;
        self.entries.push(Entry { of: (asking.comm, asking.call), prepared });
        while self.bytes > self.most {
            let programs = self.entries.iter_mut().map(|e| &mut e.prepared);
            let with_memory = programs.filter(|p| held(&p.memory) > 0);
            let Some(oldest) = with_memory.min_by_key(|p| p.used) else { break };
            self.bytes -= held(&oldest.memory);
            oldest.memory = [None, None];
        }
    }

    fn remove(&mut self, i: usize) -> Box<Prepared> {
        let Entry { prepared, .. } = self.entries.swap_remove(i);
        self.bytes -= held(&prepared.memory);
        prepared
    }
}

/// Bytes of all blocks.
fn held(memory: &[Option<Block>; 2]) -> usize {
    memory.iter().flatten().map(Block::len).sum()
}

fn whole(block: Option<&Block>) -> Bound {
    block.map_or(Bound::NONE, |b| b.bound(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Arena;
    use crate::comm::calling::Calling;
    use crate::comm::options::Options;
    use crate::machine::LogGp;
    use crate::plan::lower::{WireLimits, lower};
    use crate::plan::registry::algorithm;

    /// An alltoall among `size` ranks in blocks of a page, as rank 0 has it.
    fn prepared(size: u32, arena: &Arena) -> (Asked, Box<Prepared>) {
        let arguments = Arguments { size, bytes: 4096, ..Arguments::default() };
        let algorithm = algorithm(Operation::Alltoall, "bruck").unwrap();
        let model = LogGp { latency_ns: 1, overhead_ns: 1, byte_ps: 1, reduce_ps: 1 };
        let plan = (algorithm.build)(&arguments, &model).unwrap();
        let program = lower(&*plan, 0, &WireLimits::new(u64::MAX, 1, 0, &model)).unwrap();
        let block = |n: u64| Some(arena.scratch(usize::try_from(n).unwrap(), None).unwrap());
        let memory = [block(program.land), block(program.work)];
        let call = Collective::Registered(Operation::Alltoall);
        let asking = Asking { comm: 0, call, element: Element::default(), algorithm };
        let asked = Asked { asking, arguments, gathered: None };
        let task = Task::new(Arc::new(program), |rank| rank);
        (asked.clone(), Box::new(Prepared::new(asked, task, Meta::default(), memory)))
    }

    /// Calls in 6 and in 7 messages a hop have as many rounds among 36 ranks, but another hash.
    #[test]
    fn numbers_of_messages_are_agreed() {
        let (asked, _) = prepared(36, &Arena::default());
        let hash = |n: u32| {
            let arguments = Arguments { blocks: Some(n), ..asked.arguments.clone() };
            let rounds = (asked.asking.algorithm.rounds_of)(&arguments, n);
            (rounds, Asked { arguments, ..asked.clone() }.hash(rounds))
        };
        let ((few, a), (more, b)) = (hash(6), hash(7));
        assert!(few == more && a != b, "{few} and {more} rounds");
    }

    /// Calls that ask for something else do not run the same program.
    #[test]
    fn a_program_is_for_what_was_asked() {
        let arena = Arena::default();
        let (asked, first) = prepared(5, &arena);
        let mut cache = Cache::of_one_of(1);
        cache.keep(first);
        let changes: [fn(&mut Asked); 6] = [
            |a| a.asking.comm += 1,
            |a| a.asking.call = Collective::Check,
            |a| a.asking.element = Element::of::<f64>(),
            |a| a.asking.algorithm = algorithm(Operation::Alltoall, "direct").unwrap(),
            |a| a.arguments.bytes += 1,
            |a| a.gathered = Some([].into()),
        ];
        for (i, change) in changes.iter().enumerate() {
            let mut other = asked.clone();
            change(&mut other);
            let taken = cache.take(&other.asking, &other.arguments, other.gathered.as_ref());
            assert!(taken.is_none(), "change {i}");
        }
        assert!(cache.take(&asked.asking, &asked.arguments, None).is_some());
    }

    /// Whatever it was called with.
    #[test]
    fn a_program_that_runs_again_is_of_this_communicator_and_call() {
        let mut cache = Cache::of_one_of(1);
        let (_, mut kept) = prepared(5, &Arena::default());
        let (calling, way) = (Calling::of::<u8>(Operation::Alltoall), kept.asked().1);
        kept.called = Called::of(&calling, [None; 2], &Options::new(), (None, false), (way, None));
        cache.keep(kept);
        let call = Collective::Registered(Operation::Alltoall);
        for (comm, call) in [(1, call), (0, Collective::Check)] {
            assert!(cache.take_again(comm, call, |_| true).is_none(), "{comm}, {call:?}");
        }
        assert!(cache.take_again(0, call, |_| false).is_none());
        assert!(cache.take_again(0, call, |_| true).is_some());
    }

    /// What is kept has no more memory than it may have, the program used last first; what has lost its own says how much it needs.
    #[test]
    fn programs_are_kept_with_bounded_memory() {
        let arena = Arena::default();
        let mut cache = Cache::of_one_of(1);
        let take =
            |cache: &mut Cache, of: &Asked| cache.take(&of.asking, &of.arguments, of.gathered.as_ref());
        let all: Vec<(Asked, Box<Prepared>)> = (5..15).map(|size| prepared(size, &arena)).collect();
        let [a, b] = [&all[8], &all[9]].map(|(_, p)| held(&p.memory));
        cache.most = a + b;
        let asked: Vec<Asked> = all.iter().map(|(asked, _)| asked.clone()).collect();
        for (asked, prepared) in all {
            assert!(take(&mut cache, &asked).is_none());
            cache.keep(prepared);
            assert!(cache.bytes <= cache.most);
            assert_eq!(cache.bytes, cache.entries.iter().map(|e| held(&e.prepared.memory)).sum::<usize>());
        }
        assert_eq!(
            (arena.live(), cache.entries.len()),
            (4, 10),
            "landing and scratch memory of two programs"
        );
        let mut first = take(&mut cache, &asked[0]).unwrap();
        let [land, work] = first.lacks().unwrap();
        assert!(land > 0 && work > 0 && held(&first.memory) == 0);
        first.give([land, work].map(|n| Some(arena.scratch(usize::try_from(n).unwrap(), None).unwrap())));
        assert_eq!((first.lacks(), first.bytes), (None, held(&first.memory)));
        assert_eq!(take(&mut cache, &asked[9]).unwrap().lacks(), None);
        // One that has more than all may have is kept without.
        cache.most = 0;
        cache.keep(first);
        assert_eq!((cache.bytes, take(&mut cache, &asked[0]).unwrap().lacks()), (0, Some([land, work])));
    }
}
