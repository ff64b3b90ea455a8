//! One call: its arguments checked, its program taken from the cache or made, its run.

use super::calling::{Called, Calling};
use super::collective::Collective;
use super::communicator::Communicator;
use super::context::Context;
use super::lock::Held;
use super::options::Options;
use super::places::Places;
use super::program::{Asked, Asking, Prepared};
use super::shadow::{Copies, Shadow};
use super::shared::Shared;
use super::trials::{Form, Tried};
use crate::buffer::{Binding, Block, Bound, Loan, MAX_GATHER, Wire, lend};
use crate::engine::{CallId, Meta, Task, Waiting};
use crate::error::{Error, ErrorKind, Result, argument};
use crate::ops::{Element, Reducer};
use crate::plan::Region;
use crate::plan::lower::{Segment, WireLimits, lower};
use crate::plan::registry::{Arguments, Operation};
use crate::select::Way;
use bytemuck::Pod;
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
    /// The buffer that has no part in the operation at this rank, whatever was passed.
    pub(super) unused: Option<Region>,
    /// What is copied before and after a run, of calls that do not work on the caller's buffers themselves.
    pub(super) copies: Option<Box<Copies>>,
    /// Where what is sent lies, if in pieces, in the order that the arguments say: gathered by its puts.
    pub(super) gathered: Option<Arc<[Segment]>>,
}

impl Spec {
    /// Of elements of type `T`, and nothing more.
    pub(super) fn of<T: 'static>() -> Self {
        Self { element: Element::of::<T>(), ..Self::default() }
    }

    /// Makes a call in place one from a copy, so that ranks need not agree on whether it is in place. The contribution is all of
    /// the receive buffer, `bytes`.
    pub(super) fn sent_from_copy(mut self, bytes: usize) -> Self {
        if std::mem::take(&mut self.arguments.in_place) {
            self.copies = Some(Copies::of_sent(bytes));
        }
        self
    }
}

/// The memory for what a call copies, if it does. A call for which there is none is refused.
pub(super) fn shadowed(comm: &Communicator, spec: Result<Spec>) -> (Result<Spec>, Option<Shadow>) {
    let made = spec.and_then(|mut spec| {
        let copies = spec.copies.take();
        let shadow = copies.map(|copies| Shadow::new(comm, *copies)).transpose()?;
        Ok((spec, shadow))
    });
    match made {
        Ok((spec, shadow)) => (Ok(spec), shadow),
        Err(e) => (Err(e), None),
    }
}

/// The one algorithm that knows graphs.
const GRAPH_ALGORITHM: &str = "neighbors";

impl Shared {
    /// The lowered program of a call, from the cache or made now.
    fn prepare(
        &mut self,
        context: &Context,
        (call, form): (Collective, Form),
        spec: &mut Spec,
        options: &Options,
    ) -> Result<(Box<Prepared>, Way, Option<Tried>)> {
        let operation = call.operation();
        self.complete(context, operation, &mut spec.arguments, options);
        let arguments = &mut spec.arguments;
        if arguments.blocks == Some(0) {
            return Err(argument("0 blocks: a message has one at least"));
        }
        let name = match arguments.graph.multiplicity {
            0 => options.algorithm.as_deref(),
            _ => Some(GRAPH_ALGORITHM),
        };
        let choice = self.selection.choose(operation, arguments, name, options.reproducible)?;
        let (way, tried) = self.way(context, (call, form), arguments, (choice, options));
        arguments.blocks = arguments.blocks.or(way.blocks);
        let algorithm = way.algorithm;
        self.log_plan(call, algorithm, arguments);
        let asking = Asking { comm: context.id, call, element: spec.element, algorithm };
        Ok((self.program(context, asking, arguments, &mut spec.gathered)?, way, tried))
    }

    /// The lowered program of what is asked, from the cache; or made now, of the arguments and pieces that are taken then.
    fn program(
        &mut self,
        context: &Context,
        asking: Asking,
        arguments: &mut Arguments,
        gathered: &mut Option<Arc<[Segment]>>,
    ) -> Result<Box<Prepared>> {
        arguments.blocks = asking.algorithm.blocks(arguments);
        let Some(mut prepared) = self.cache.take(&asking, arguments, gathered.as_ref()) else {
            let arguments = std::mem::take(arguments);
            return self.make(context, Asked { asking, arguments, gathered: gathered.take() });
        };
        if let Some([land, work]) = prepared.lacks() {
            prepared.give([self.scratch(land)?, self.scratch(work)?]);
        }
        Ok(prepared)
    }

    /// Memory for landing or packing; none of no bytes.
    fn scratch(&mut self, bytes: u64) -> Result<Option<Block>> {
        let bytes =
            usize::try_from(bytes).map_err(|_| Error::new(ErrorKind::System, "more memory than there is"))?;
        if bytes == 0 { Ok(None) } else { self.arena.scratch(bytes, self.engine.transport()).map(Some) }
    }

    /// Gives the arguments what the communicator knows itself.
    pub(super) fn complete(
        &self,
        context: &Context,
        operation: Operation,
        arguments: &mut Arguments,
        options: &Options,
    ) {
        arguments.size = context.size;
        arguments.first = context.first;
        if !operation.is_between_groups() {
            let places = context.places(|| self.places_of(context));
            (arguments.nodes, arguments.groups) = (Arc::clone(&places.nodes), Arc::clone(&places.groups));
        }
        arguments.blocks = options.blocks.or(self.blocks);
    }

    fn places_of(&self, context: &Context) -> Places {
        self.places.of(&context.members, self.selection.machine().per_node > 1)
    }

    /// Plans and lowers what is asked.
    fn make(&mut self, context: &Context, asked: Asked) -> Result<Box<Prepared>> {
        let call = asked.asking.call;
        let plan = (asked.asking.algorithm.build)(&asked.arguments, self.figures.wire())?;
        let (max_put, gather) = self.engine.limits().map_or((u64::MAX, 1), |l| (l.max_put, l.gather));
        let wire = self.figures.wire();
        let limits = WireLimits::new(max_put, gather.min(MAX_GATHER), self.figures.light(), wire);
        let program = lower(plan.as_ref(), context.rank, &limits)?;
        let program = Arc::new(match &asked.gathered {
            Some(pieces) => program.with_input(pieces, limits.gather)?,
            None => program,
        });
        let memory = [self.scratch(program.land)?, self.scratch(program.work)?];
        let meta = Meta {
            name: call.name(),
            code: call.code(),
            call: CallId::default(),
            hash: asked.hash(plan.rounds()),
            rounds: plan.rounds(),
            bytes: asked.arguments.total(call.operation()),
        };
        let mut task = Task::new(program, |r| context.members.world_rank(r));
        if let Some(row) = asked.arguments.rows.get(&context.rank) {
            // No other rank knows it: ready-to-receive messages tell each peer where to put, and how much.
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
        Ok(Box::new(Prepared::new(asked, task, meta, memory)))
    }

    /// Refuses a call before any data moves. The error is propagated to the other ranks, which would wait for us.
    pub(super) fn refuse(&mut self, operation: Collective, call: CallId, e: Error) -> Error {
        self.engine.fail_in(operation.code(), call, e)
    }
}

/// A call that has begun: it has its number, and its program.
pub(super) struct Begun {
    pub(super) prepared: Box<Prepared>,
    pub(super) meta: Meta,
    pub(super) reducer: Option<Reducer>,
    pub(super) fill: bool,
    pub(super) deadline: Duration,
    way: Way,
    /// Its part in a trial.
    tried: Option<Tried>,
}

impl Communicator {
    /// Gives the call its number and plans it. Errors of the arguments are propagated to all ranks.
    pub(super) fn begin(
        &self,
        held: &mut Held<'_>,
        operation: Collective,
        spec: Result<Spec>,
    ) -> Result<Begun> {
        let call = self.number(held)?;
        match spec {
            Ok(mut spec) => self.begin_numbered(held, (operation, Form::Other, call), &mut spec),
            Err(e) => Err(held.refuse(operation, call, e)),
        }
    }

    /// The number of the next call.
    ///
    /// # Errors
    /// When there can be none: see [`Engine::usable`](crate::engine::Engine).
    fn number(&self, held: &mut Held<'_>) -> Result<CallId> {
        held.engine.usable(self.context.id)?;
        Ok(self.context.next_call())
    }

    /// Begins a call that has its number.
    fn begin_numbered(
        &self,
        held: &mut Held<'_>,
        (operation, form, call): (Collective, Form, CallId),
        spec: &mut Spec,
    ) -> Result<Begun> {
        held.engine.calls(operation.code(), call);
        let prepared = held.prepare(&self.context, (operation, form), spec, &self.options);
        let made = prepared.map_err(|e| held.refuse(operation, call, e))?;
        Ok(self.begun(held, call, made, (spec.reducer.take(), spec.fill)))
    }

    /// A call as it has begun: its number, its program, and what it was called with.
    pub(super) fn begun(
        &self,
        held: &Held<'_>,
        call: CallId,
        (prepared, way, tried): (Box<Prepared>, Way, Option<Tried>),
        (reducer, fill): (Option<Reducer>, bool),
    ) -> Begun {
        let mut meta = Meta { call, ..prepared.meta };
        if let Some(reducer) = &reducer {
            meta.hash ^= reducer.hash();
        }
        let deadline = self.options.deadline.unwrap_or(held.deadline);
        Begun { prepared, meta, reducer, fill, deadline, way, tried }
    }

    /// Gives the call of `like`, a persistent operation, a further number, and plans it in another way.
    pub(super) fn begin_in(
        &self,
        held: &mut Held<'_>,
        (operation, like): (Collective, Option<&Prepared>),
        way: &Way,
        reducer: Option<Reducer>,
    ) -> Result<Begun> {
        let call = self.number(held)?;
        let Some(Asked { asking, mut arguments, mut gathered }) = like.map(|prepared| prepared.asked_in(way))
        else {
            return Err(Error::new(ErrorKind::Argument, "the program is in use"));
        };
        held.engine.calls(operation.code(), call);
        let prepared = held.program(&self.context, asking, &mut arguments, &mut gathered);
        let prepared = prepared.map_err(|e| held.refuse(operation, call, e))?;
        Ok(self.begun(held, call, (prepared, *way, None), (reducer, false)))
    }

    /// Runs a call on lent slices to its end; one that its spec says is unused is left alone.
    pub(super) fn run<'a, T: Pod>(
        &self,
        calling: impl Into<Calling<'a>>,
        spec: Result<Spec>,
        input: Option<&[T]>,
        output: Option<&mut [T]>,
    ) -> Result<()> {
        let output = output.map(bytemuck::cast_slice_mut);
        self.run_on_bytes(calling.into(), spec, input.map(bytemuck::cast_slice), output)
    }

    /// As [`Communicator::run`] of a call that may copy.
    pub(super) fn run_with_copies<'a, T: Pod>(
        &self,
        calling: impl Into<Calling<'a>>,
        spec: Result<Spec>,
        input: Option<&[T]>,
        output: &mut [T],
    ) -> Result<()> {
        if !spec.as_ref().is_ok_and(|spec| spec.copies.is_some()) {
            return self.run(calling, spec, input, Some(output));
        }
        let (spec, mut shadow) = shadowed(self, spec);
        let (input, output): (_, &mut [u8]) =
            (input.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(output));
        let (mut sent, mut received) = (None, None);
        if let Some(shadow) = &mut shadow {
            shadow.before(input, output);
            self.hold()?.copied(shadow.bytes());
            (sent, received) = shadow.buffers();
        }
        let calling = Calling::from(calling.into().call);
        self.run_on_bytes(calling, spec, sent.or(input), Some(received.unwrap_or(&mut *output)))?;
        if let Some(shadow) = &shadow {
            shadow.after(output);
        }
        Ok(())
    }

    fn run_on_bytes(
        &self,
        calling: Calling<'_>,
        mut spec: Result<Spec>,
        input: Option<&[u8]>,
        output: Option<&mut [u8]>,
    ) -> Result<()> {
        let mut held = self.hold()?;
        let operation = calling.call;
        let spec = match &mut spec {
            Ok(spec) => spec,
            Err(e) => return self.run_refused(&mut held, operation, e.clone()),
        };
        let lengths = [input.map(<[u8]>::len), output.as_deref().map(<[u8]>::len)];
        let (input, output) = match spec.unused {
            Some(Region::Input) => (None, output),
            Some(Region::Output) => (input, None),
            _ => (input, output),
        };
        // First, as the check and its call have numbers that follow each other.
        held.engine.usable(self.context.id)?;
        self.settle(&mut held, operation, &spec.arguments)?;
        let check = self.begin_check(&mut held, operation)?;
        let call = self.number(&mut held)?;
        let mut begun = self.begin_numbered(&mut held, (operation, Form::Blocking, call), spec)?;
        if let Some(check) = check {
            self.check(&mut held, check, operation, &begun)?;
        } else {
            let went = (begun.way, begun.tried.map(|tried| tried.class));
            let called = Called::of(&calling, lengths, &self.options, (spec.unused, begun.fill), went);
            begun.prepared.called = called.or_else(|| begun.prepared.called.take());
        }
        let Some(tried) = begun.tried else {
            return self.run_begun(&mut held, operation, begun, input, output);
        };
        let start = tried.begins();
        self.run_begun(&mut held, operation, begun, input, output)?;
        self.tried(&tried, start);
        Ok(())
    }

    /// Refuses a blocking call: its number is the one behind that of its check, if there is one.
    #[cold]
    fn run_refused(&self, held: &mut Held<'_>, operation: Collective, e: Error) -> Result<()> {
        let _check = self.begin_check(held, operation)?;
        let call = self.number(held)?;
        Err(held.refuse(operation, call, e))
    }

    /// As [`Communicator::run`] of a call that has its number: what of it a short call has left.
    pub(super) fn run_numbered(
        &self,
        call: (Collective, CallId),
        mut spec: Spec,
        input: Option<&[u8]>,
        output: Option<&mut [u8]>,
    ) -> Result<()> {
        let mut held = self.hold()?;
        let (operation, number) = call;
        held.engine.usable(self.context.id)?;
        let begun = self.begin_numbered(&mut held, (operation, Form::Other, number), &mut spec)?;
        self.run_begun(&mut held, operation, begun, input, output)
    }

    /// Runs a call that has begun to its end.
    pub(super) fn run_begun(
        &self,
        held: &mut Held<'_>,
        operation: Collective,
        begun: Begun,
        input: Option<&[u8]>,
        output: Option<&mut [u8]>,
    ) -> Result<()> {
        let Begun { mut prepared, meta, reducer, fill, deadline, .. } = begun;
        let at = |e: Error| e.in_operation(operation.name(), u64::from(meta.call.sequence));
        let Some(mut task) = prepared.task.take() else {
            return Err(at(Error::new(ErrorKind::Argument, "the program is in use")));
        };
        task.reducer = reducer;
        if held.engine.passes(&mut task, meta) {
            prepared.task = Some(task);
            held.cache.keep(prepared);
            return Ok(());
        }
        let (land, work) = (prepared.land(), prepared.work());
        let arena = held.arena.clone();
        let body = |held: &mut Held<'_>, input: Bound, output: Bound| {
            let slot = held.engine.start(task, meta, Binding::new([input, output], [work, land]))?;
            let mut waiting = Waiting::new(meta, deadline);
            while !held.engine.turn(slot, &mut waiting)? {
                held.yield_lock();
            }
            held.engine.leave(slot)
        };
        let input = Loan::Shared(input.unwrap_or_default());
        let output = match output {
            Some(bytes) => Loan::Unique { bytes, fill },
            None => Loan::Shared(&[]),
        };
        let done = lend(held, &arena, input, |held, input| {
            lend(held, &arena, output, |held, output| body(held, input, output))
        });
        match done {
            Ok(task) => {
                prepared.task = Some(task);
                held.cache.keep(prepared);
                Ok(())
            }
            Err(e) => {
                let e = held.fail(at(e));
                if held.engine.goes_on_after(&e) {
                    // Puts may still come to its memory.
                    std::mem::forget(prepared);
                }
                Err(e)
            }
        }
    }
}
