//! Blocking calls that are called as one before: neither checked, nor chosen, nor planned again.
//!
//! What the program passes is compared with what it passed then, which is all that its checks, its choice and its plan follow from. So such a call
//! takes its program from the cache at once, unless a trial measures it or is due, or something is to be said or compared ahead of it.

use super::call::Begun;
use super::collective::Collective;
use super::communicator::{Communicator, Options};
use super::lock::Held;
use crate::error::Result;
use crate::ops::{Element, Reducer};
use crate::plan::Region;
use crate::plan::registry::Operation;
use crate::select::{Due, Trial, Way};
use bytemuck::Pod;

/// A call as the program makes it: all that its [`Spec`](super::call::Spec) follows from, beside the lengths of its buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calling<'a> {
    pub(super) call: Collective,
    /// `None`: more than this tells it from others, so that it is planned each time.
    passed: Option<Passed<'a>>,
}

/// What is passed beside buffers.
#[derive(Clone, Copy, Debug)]
struct Passed<'a> {
    element: Element,
    root: usize,
    /// Counts, and displacements where there are any.
    parts: (&'a [usize], Option<&'a [usize]>),
    /// What is known of an operator before it folds: its elements, and whether it commutes and is exact.
    by: Option<(Element, bool, bool)>,
}

impl<C: Into<Collective>> From<C> for Calling<'_> {
    /// A call that is planned each time.
    fn from(call: C) -> Self {
        Self { call: call.into(), passed: None }
    }
}

impl<'a> Calling<'a> {
    /// A call on elements of type `T`, with nothing else than its buffers.
    pub(super) fn of<T: Pod>(call: Operation) -> Self {
        let passed = Passed { element: Element::of::<T>(), root: 0, parts: (&[], None), by: None };
        Self { call: call.into(), passed: Some(passed) }
    }

    /// The same with this root.
    pub(super) fn at(self, root: usize) -> Self {
        self.with(|passed| Passed { root, ..passed })
    }

    /// The same with these counts and displacements.
    pub(super) fn of_parts(self, counts: &'a [usize], displs: Option<&'a [usize]>) -> Self {
        self.with(|passed| Passed { parts: (counts, displs), ..passed })
    }

    /// The same with this operator. One that is refused is refused each time.
    pub(super) fn by(self, by: &Result<Reducer>) -> Self {
        let Ok(by) = by else { return Self { passed: None, ..self } };
        let by = Some((by.element_type(), by.commutative(), by.exact()));
        self.with(|passed| Passed { by, ..passed })
    }

    fn with(self, change: impl FnOnce(Passed<'a>) -> Passed<'a>) -> Self {
        Self { passed: self.passed.map(change), ..self }
    }
}

/// What a program was called with, and how it went.
#[derive(Debug)]
pub(super) struct Called {
    element: Element,
    root: usize,
    counts: Vec<usize>,
    displs: Option<Vec<usize>>,
    by: Option<(Element, bool, bool)>,
    /// Of input and output.
    lengths: [Option<usize>; 2],
    options: Options,
    unused: Option<Region>,
    fill: bool,
    way: Way,
    /// The place of its class among the communicator's trials, if it is tried.
    class: Option<usize>,
}

impl Called {
    /// Whether a call is the same but for its number and the contents of its buffers.
    fn is(&self, passed: &Passed<'_>, lengths: [Option<usize>; 2], options: &Options) -> bool {
        let Passed { element, root, parts: (counts, displs), by } = *passed;
        (self.element, self.root, self.by, self.lengths) == (element, root, by, lengths)
            && (self.options.blocks, self.options.reproducible) == (options.blocks, options.reproducible)
            && self.options.algorithm == options.algorithm
            && alike(&self.counts, counts)
            && match (&self.displs, displs) {
                (None, None) => true,
                (Some(before), Some(displs)) => alike(before, displs),
                _ => false,
            }
    }
}

/// Whether lists are equal. Those of nothing are not compared byte by byte: see `Arguments::eq`.
fn alike(before: &[usize], now: &[usize]) -> bool {
    before.len() == now.len() && (now.is_empty() || before == now)
}

impl Begun {
    /// Remembers what was called.
    pub(super) fn remember(
        &mut self,
        calling: &Calling<'_>,
        lengths: [Option<usize>; 2],
        options: &Options,
        unused: Option<Region>,
    ) {
        let Some(Passed { element, root, parts: (counts, displs), by }) = calling.passed else { return };
        // Calls that differ only in what does not matter here take turns in one program: the lists' memory is used again.
        let (mut kept, mut kept_displs) = match self.prepared.called.take() {
            Some(called) => (called.counts, called.displs.unwrap_or_default()),
            None => (Vec::new(), Vec::new()),
        };
        kept.clear();
        kept.extend_from_slice(counts);
        let displs = displs.map(|displs| {
            kept_displs.clear();
            kept_displs.extend_from_slice(displs);
            kept_displs
        });
        self.prepared.called = Some(Called {
            element,
            root,
            counts: kept,
            displs,
            by,
            lengths,
            options: options.clone(),
            unused,
            fill: self.fill,
            way: self.way,
            class: self.class(),
        });
    }
}

impl Communicator {
    /// Runs a call that is called as one before to its end; `None`: it is none, and nothing has been done.
    pub(super) fn again<T: Pod>(
        &self,
        calling: &Calling<'_>,
        input: Option<&[T]>,
        output: Option<&mut [T]>,
    ) -> Option<Result<()>> {
        let output = output.map(bytemuck::cast_slice_mut);
        self.again_on_bytes(calling, None, input.map(bytemuck::cast_slice), output)
    }

    /// As [`Communicator::again`] of a call with this operator.
    pub(super) fn fold_again<T: Pod>(
        &self,
        calling: &Calling<'_>,
        by: &Result<Reducer>,
        input: Option<&[T]>,
        output: Option<&mut [T]>,
    ) -> Option<Result<()>> {
        let by = by.as_ref().ok()?;
        let output = output.map(bytemuck::cast_slice_mut);
        self.again_on_bytes(calling, Some(by), input.map(bytemuck::cast_slice), output)
    }

    fn again_on_bytes(
        &self,
        calling: &Calling<'_>,
        by: Option<&Reducer>,
        input: Option<&[u8]>,
        output: Option<&mut [u8]>,
    ) -> Option<Result<()>> {
        let passed = calling.passed.as_ref()?;
        // What is refused is refused by the call that is planned.
        let mut held = self.hold().ok()?;
        let lengths = [input.map(<[u8]>::len), output.as_deref().map(<[u8]>::len)];
        let begun = self.begin_again(&mut held, calling.call, (passed, lengths), by)?;
        let (input, output) = match begun.prepared.called.as_ref().and_then(|called| called.unused) {
            Some(Region::Input) => (None, output),
            Some(Region::Output) => (input, None),
            _ => (input, output),
        };
        Some(self.run_begun(&mut held, calling.call, begun, input, output))
    }

    /// The call, with its number, if it is one as before and goes in the same way.
    fn begin_again(
        &self,
        held: &mut Held<'_>,
        call: Collective,
        (passed, lengths): (&Passed<'_>, [Option<usize>; 2]),
        by: Option<&Reducer>,
    ) -> Option<Begun> {
        if held.check || held.log.tells_of_calls() || held.engine.usable(self.context.id).is_err() {
            return None;
        }
        let mut trials = self.context.trials();
        if trials.0.iter().any(|(_, trial)| trial.due() != Due::Nothing) {
            return None;
        }
        let prepared = held.cache.take_again(self.context.id, call, |called| {
            let rests = |trial: &Trial| trial.rests_on(&called.way);
            called.is(passed, lengths, &self.options)
                && called.class.is_none_or(|at| trials.0.get(at).is_some_and(|(_, trial)| rests(trial)))
        })?;
        let (fill, way, class) = prepared.called.as_ref().map(|c| (c.fill, c.way, c.class))?;
        if let Some((_, trial)) = class.and_then(|at| trials.0.get_mut(at)) {
            // Counted, as at all ranks.
            let _untimed = trial.turn();
        }
        drop(trials);
        let number = self.context.next_call();
        held.engine.calls(call.code(), number);
        Some(self.begun(held, number, (prepared, way, None), (by.cloned(), fill)))
    }
}
