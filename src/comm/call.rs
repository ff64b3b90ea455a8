//! One call: what was asked, its lowered program (kept for the next time), its memory, its run.

use super::communicator::{Communicator, Options};
use super::context::Context;
use super::lock::Held;
use super::world::Shared;
use crate::buffer::{Binding, Block, Bound, Loan, MAX_GATHER, Wire, lend};
use crate::engine::{CallId, Describe, Description, Meta, Task, Waiting};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::ops::{Element, Reducer};
use crate::plan::lower::{WireLimits, lower};
use crate::plan::registry::{Algorithm, Arguments, Operation};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A call's arguments, checked as far as one rank can.
#[derive(Debug, Default)]
pub(super) struct Spec {
    /// Without what the communicator knows itself.
    pub(super) arguments: Arguments,
    pub(super) reducer: Option<Reducer>,
    /// The elements; of none where nothing is moved.
    pub(super) element: Element,
    /// What is in the output before matters: a staged copy must know it.
    pub(super) fill: bool,
}

impl Spec {
    /// Of elements of type `T`, and nothing more.
    pub(super) fn of<T: 'static>() -> Self {
        Self { element: Element::of::<T>(), ..Self::default() }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    comm: u64,
    operation: Operation,
    element: Element,
    algorithm: &'static Algorithm,
    arguments: Arguments,
}

impl PartialEq for Asked {
    fn eq(&self, other: &Self) -> bool {
        self.comm == other.comm
            && self.operation == other.operation
            && self.element == other.element
            && std::ptr::eq(self.algorithm, other.algorithm)
            && self.arguments == other.arguments
    }
}

/// A request lowered for this rank, ready to run.
pub(super) struct Prepared {
    asked: Arc<Asked>,
    /// Away while it runs.
    pub(super) task: Option<Box<Task>>,
    pub(super) meta: Meta,
    /// Landing and scratch memory of the program.
    memory: [Option<Block>; 2],
    used: u64,
}

/// Lowered programs by what was asked; the least recently used goes first. Those in use are out.
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
        use Operation::{Alltoallv, Gather, Gatherv, Reduce, Scatter, Scatterv};
        let a = &self.arguments;
        let mut h = Fnv::new();
        h.word(u64::from(self.operation.code()));
        h.word(self.element.code());
        h.word(digest(self.algorithm.name.as_bytes()));
        // Of one root's own buffer the others know nothing.
        let rooted = matches!(self.operation, Gather | Gatherv | Scatter | Scatterv | Reduce | Alltoallv);
        let in_place = u64::from(a.in_place && !rooted);
        for word in [u64::from(rounds), u64::from(a.root), u64::from(a.first), a.bytes, in_place] {
            h.word(word);
        }
        a.counts.iter().chain(&a.displs).for_each(|w| h.word(*w));
        a.nodes.iter().for_each(|w| h.word(u64::from(*w)));
        h.0
    }
}

impl Asked {
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
        let (a, size) = (&self.arguments, self.element.size().max(1) as u64);
        let mut text = Description::new(self.element);
        if matches!(self.operation, Bcast | Gather | Gatherv | InterBcast | Reduce | Scatter | Scatterv) {
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
        if !matches!(self.operation, Gather | Gatherv | Scatter | Scatterv | Reduce) {
            text.line("in place", if a.in_place { "yes" } else { "no" });
        }
        text.line("blocks", a.blocks.map_or("auto".to_owned(), |n| n.to_string()));
        text.line("algorithm", self.algorithm.name);
        text.done()
    }
}

/// FNV-1a by words.
pub(super) struct Fnv(pub(super) u64);

impl Fnv {
    pub(super) fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
    pub(super) fn word(&mut self, w: u64) {
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
    /// The lowered program of a call, from the cache or made now.
    pub(super) fn prepare(
        &mut self,
        context: &Context,
        operation: Operation,
        (arguments, element): (Arguments, Element),
        options: &Options,
    ) -> Result<Prepared> {
        let arguments = self.completed(context, operation, arguments, options);
        if arguments.blocks == Some(0) {
            return Err(argument("0 blocks"));
        }
        let name = options.algorithm.as_deref();
        let algorithm = self.selection.choose(operation, &arguments, name, options.reproducible)?;
        self.tell_of_plan(operation, algorithm, &arguments);
        let asked = Asked { comm: context.id, operation, element, algorithm, arguments };
        self.cache.clock += 1;
        match self.cache.entries.iter().position(|e| *e.asked == asked) {
            Some(i) => Ok(self.cache.entries.swap_remove(i)),
            None => self.make(context, asked),
        }
    }

    /// Arguments with what the communicator knows itself.
    pub(super) fn completed(
        &self,
        context: &Context,
        operation: Operation,
        mut arguments: Arguments,
        options: &Options,
    ) -> Arguments {
        arguments.size = context.size;
        arguments.first = context.first;
        if !operation.is_between_groups() {
            arguments.nodes = context.nodes(|| self.nodes_of(context));
        }
        arguments.blocks = options.blocks.or(self.blocks);
        arguments
    }

    /// The node of each rank, if that says anything: not where all are on one, or each is on its own.
    fn nodes_of(&self, context: &Context) -> Arc<[u32]> {
        if self.selection.machine().per_node < 2 {
            return Arc::default();
        }
        let node = |rank| self.nodes.get(context.members.world_rank(rank) as usize).copied().unwrap_or(0);
        let nodes: Arc<[u32]> = (0..context.size).map(node).collect();
        if nodes.iter().all(|n| *n == nodes[0]) { Arc::default() } else { nodes }
    }

    /// Keeps a program that has run for the next call like it.
    pub(super) fn keep(&mut self, mut prepared: Prepared) {
        prepared.used = self.cache.clock;
        let entries = &mut self.cache.entries;
        if entries.len() >= CACHED
            && let Some(oldest) = (0..entries.len()).min_by_key(|i| entries[*i].used)
        {
            entries.swap_remove(oldest);
        }
        entries.push(prepared);
    }

    /// Plans and lowers what is asked.
    fn make(&mut self, context: &Context, asked: Asked) -> Result<Prepared> {
        let plan = (asked.algorithm.build)(&asked.arguments, self.figures.wire())?;
        let (max_put, gather) = self.engine.limits().map_or((u64::MAX, 1), |l| (l.max_put, l.gather));
        let wire = self.figures.wire();
        let limits = WireLimits::new(max_put, gather.min(MAX_GATHER), self.figures.light(), wire);
        let program = Arc::new(lower(plan.as_ref(), context.rank, &limits)?);
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
        let mut task = Task::new(program, |r| context.members.world_rank(r));
        if let Some(row) = asked.arguments.rows.get(&context.rank) {
            // Nobody else knows it: the open words tell each peer where to put, and how much.
            task.pairwise(|peer| {
                let peer = peer as usize;
                ([row.rdispls[peer], 0], row.recvcounts[peer], row.sendcounts[peer])
            });
        }
        if let Some(edges) = asked.arguments.graph.edges.get(&context.rank) {
            task.pairwise(|peer| {
                let (output, land, received) = edges.expected(context.rank, peer);
                ([output, land], received, edges.sent(peer))
            });
        }
        let asked = Arc::new(asked);
        task.arguments = Some(Arc::clone(&asked) as _);
        Ok(Prepared { asked, task: Some(task), meta, memory, used: 0 })
    }

    /// Refuses a call before any data moves: the others learn it too, instead of waiting for us.
    pub(super) fn refuse(&mut self, operation: Operation, call: CallId, e: Error) -> Error {
        self.engine.fail_in(operation.code(), call, e)
    }
}

/// A call that has begun: it has its number, and its program.
pub(super) struct Begun {
    pub(super) prepared: Prepared,
    pub(super) meta: Meta,
    pub(super) reducer: Option<Reducer>,
    pub(super) fill: bool,
    pub(super) deadline: Duration,
}

impl Communicator {
    /// Gives the call its number and plans it. Errors of the arguments are told to all.
    pub(super) fn begin(
        &self,
        held: &mut Held<'_>,
        operation: Operation,
        spec: Result<Spec>,
    ) -> Result<Begun> {
        held.engine.healthy()?;
        let context = &*self.context;
        let call = context.next_call();
        held.engine.calls(operation.code(), call);
        let prepared = spec.and_then(|spec| {
            let asked = (spec.arguments, spec.element);
            let prepared = held.prepare(context, operation, asked, &self.options)?;
            Ok((prepared, spec.reducer, spec.fill))
        });
        let (prepared, reducer, fill) = prepared.map_err(|e| held.refuse(operation, call, e))?;
        let mut meta = Meta { call, ..prepared.meta };
        if let Some(reducer) = &reducer {
            meta.hash ^= reducer.hash();
        }
        let deadline = self.options.deadline.unwrap_or(held.deadline);
        Ok(Begun { prepared, meta, reducer, fill, deadline })
    }

    /// Runs a call on lent memory to its end.
    pub(super) fn run(
        &self,
        operation: Operation,
        spec: Result<Spec>,
        input: Option<&[u8]>,
        output: Option<&mut [u8]>,
    ) -> Result<()> {
        let mut held = self.hold()?;
        let Begun { mut prepared, meta, reducer, fill, deadline } = self.begin(&mut held, operation, spec)?;
        let at = |e: Error| e.in_operation(operation.name(), u64::from(meta.call.sequence));
        let Some(mut task) = prepared.task.take() else {
            return Err(at(Error::new(ErrorKind::Argument, "the program is in use")));
        };
        task.reducer = reducer;
        let (land, work) = (prepared.land(), prepared.work());
        let arena = held.arena.clone();
        let body = |held: &mut Held<'_>, input: Bound, output: Bound| {
            let slot = held.engine.start(task, meta, Binding { input, output, work, land })?;
            let mut waiting = Waiting::new(meta, deadline);
            while !held.engine.turn(slot, &mut waiting)? {
                held.breathe();
            }
            held.engine.leave(slot)
        };
        let input = Loan::Shared(input.unwrap_or_default());
        let output = match output {
            Some(bytes) => Loan::Unique { bytes, fill },
            None => Loan::Shared(&[]),
        };
        let done = lend(&mut held, &arena, input, |held, input| {
            lend(held, &arena, output, |held, output| body(held, input, output))
        });
        match done {
            Ok(task) => {
                prepared.task = Some(task);
                held.keep(prepared);
                Ok(())
            }
            Err(e) => Err(held.fail(at(e))),
        }
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
