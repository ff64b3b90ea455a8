//! Ways of calls by measuring, where the setting `adapt` says so: a communicator's blocking calls that are chosen by price are
//! [tried](crate::select::Trial) in some ways, a few at a time, and the one in which the slowest rank is fastest is kept.
//!
//! All ranks count the same calls, as the calls of a communicator have one order. Their times go to each other by an allreduce of a few bytes that is
//! under way beside the next calls; no call waits for it but the one behind these, if it is not over by then. That wait is part of a
//! blocking call, which may wait for all ranks anyhow; starting a request or a persistent operation never waits. A request takes what blocking
//! calls before it have found.

use super::agreeing::Agreeing;
use super::call::Begun;
use super::collective::Collective;
use super::communicator::Communicator;
use super::context::Context;
use super::latency::replace;
use super::lock::Held;
use super::options::Options;
use super::run::Running;
use super::shared::Shared;
use super::trials::{Form, Learned, Tried};
use super::world::World;
use crate::buffer::{Bound, Buf, Wire};
use crate::error::Result;
use crate::ops::{IntoReducer, Max};
use crate::plan::registry::{Arguments, Operation};
use crate::select::{Adapt, Choice, Class, Due, MAX_WAYS, TRIAL_CALLS, Times, Trial, Way};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::level_filters::LevelFilter;

/// Classes of calls that are tried on a communicator, at most. Chosen, to bound its memory; further ones go by price.
const MAX_CLASSES: usize = 64;
/// Results of trials that are kept, at most: one for each class and number of ranks. Chosen, to bound the memory of a world that makes ever new
/// communicators.
const MAX_LEARNED: usize = 1024;
/// Calls of a class before its first trial, where the setting is `auto`. Chosen: as many as a trial takes, so a program that makes few calls has none, and of no program
/// more than half of the calls are in trials.
#[allow(clippy::cast_possible_truncation)] // a few dozen
const AUTO_BEGIN_AFTER: u32 = TRIAL_CALLS as u32;

impl Shared {
    /// The way of a call: the one that was chosen, or that of its trial.
    pub(super) fn way(
        &self,
        context: &Context,
        (call, form): (Collective, Form),
        arguments: &Arguments,
        (choice, options): (Choice, &Options),
    ) -> (Way, Option<Tried>) {
        let mut trials = context.trials();
        // A request asks for no more than what is kept.
        let can_be_other = choice.is_priced && (form == Form::Blocking || !trials.0.is_empty());
        let Some(operation) = can_be_other.then(|| self.tries(context, call, arguments, options)).flatten()
        else {
            return (choice.way, None);
        };
        let class = Class::of(operation, arguments);
        let at = trials.0.iter().position(|(known, _)| *known == class);
        if form == Form::Other {
            let kept = at.and_then(|at| trials.0[at].1.kept());
            let kept = kept.filter(|way| self.selection.can(way, arguments));
            return (kept.unwrap_or(choice.way), None);
        }
        let at = match at {
            Some(at) => at,
            None if trials.0.len() < MAX_CLASSES => {
                trials.0.push((class, self.trial(operation, arguments)));
                trials.0.len() - 1
            }
            None => return (choice.way, None),
        };
        let Some(turn) = trials.0[at].1.turn() else { return (choice.way, None) };
        let is_able = self.selection.can(&turn.way, arguments);
        (if is_able { turn.way } else { choice.way }, Some(Tried { class: at, turn, is_able }))
    }

    fn trial(&self, operation: Operation, arguments: &Arguments) -> Trial {
        let begin_after = if self.adapt == Adapt::On { 0 } else { AUTO_BEGIN_AFTER };
        Trial::new(self.selection.ways(operation, arguments), begin_after)
    }

    /// The trial of a persistent operation that goes the way `taken`, if it is chosen by price.
    pub(super) fn trial_of(
        &self,
        context: &Context,
        (call, arguments): (Collective, &Arguments),
        taken: &Way,
        options: &Options,
    ) -> Option<(Class, Trial)> {
        // Not those of its way.
        let arguments = &Arguments { blocks: options.blocks.or(self.blocks), ..arguments.clone() };
        let operation = self.tries(context, call, arguments, options)?;
        let name = options.algorithm.as_deref();
        let choice = self.selection.choose(operation, arguments, name, false).ok()?;
        // Else blocking calls have found it.
        let trial = (choice.is_priced && choice.way == *taken).then(|| self.trial(operation, arguments))?;
        (trial.ways().len() > 1).then(|| (Class::of(operation, arguments), trial))
    }

    /// The operation of a call that may be tried: what all ranks know of it tells its class.
    fn tries(
        &self,
        context: &Context,
        call: Collective,
        arguments: &Arguments,
        options: &Options,
    ) -> Option<Operation> {
        let Collective::Registered(operation) = call else { return None };
        let is_fixed = options.reproducible || self.selection.is_reproducible() || arguments.blocks.is_some();
        let is_known = arguments.rows.is_empty() && arguments.graph.multiplicity == 0 && context.first == 0;
        // By default the same call gives the same bits each time.
        let keeps_bits = !operation.reduces() || arguments.exact || self.adapt == Adapt::On;
        let tries = self.adapt != Adapt::Off && !is_fixed && is_known && keeps_bits && context.size > 1;
        tries.then_some(operation)
    }
}

impl Communicator {
    /// Does what is due before a blocking call of this communicator begins: some are collective here.
    ///
    /// # Errors
    /// As those of a call.
    pub(super) fn settle(&self, held: &mut Held<'_>, call: Collective, arguments: &Arguments) -> Result<()> {
        if self.context.trials().0.iter().all(|(_, trial)| trial.due() == Due::Nothing) {
            return Ok(());
        }
        let operation = call.operation();
        let mut arguments = arguments.clone();
        held.complete(&self.context, operation, &mut arguments, &self.options);
        let Some(operation) = held.tries(&self.context, call, &arguments, &self.options) else {
            return Ok(());
        };
        let class = Class::of(operation, &arguments);
        let Some(at) = self.context.trials().0.iter().position(|(known, _)| *known == class) else {
            return Ok(());
        };
        loop {
            let due = self.context.trials().0[at].1.due();
            match due {
                Due::Nothing => return Ok(()),
                Due::Tell(times) => {
                    self.context.trials().0[at].1.told();
                    let agreeing = self.send_times(held, &times)?;
                    held.agreeing.push((Some(at), agreeing));
                }
                Due::Hear => self.hear(held, at)?,
            }
        }
    }

    /// A call that was tried has ended.
    pub(super) fn tried(&self, tried: &Tried, begun: Option<Instant>) {
        let Some(begun) = begun else { return };
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if let Some((_, trial)) = self.context.trials().0.get_mut(tried.class) {
            trial.ended(&tried.turn, ns);
        }
    }

    /// Waits for the times of all ranks, which have had some calls for their way.
    fn hear(&self, held: &mut Held<'_>, class: usize) -> Result<()> {
        let Some((_, mut agreeing)) = held.take_agreeing(|(of, a)| *of == Some(class) && self.is_of(a))
        else {
            // Another thread waits for them.
            held.engine.usable(self.context.id)?;
            held.yield_lock();
            return Ok(());
        };
        agreeing.wait(self, held)?;
        let slowest = agreeing.take(held);
        let mut trials = self.context.trials();
        if let (Some((class, trial)), Some(slowest)) = (trials.0.get_mut(class), slowest)
            && trial.hear(slowest)
        {
            held.learn(*class, self.size(), trial);
        }
        Ok(())
    }

    fn is_of(&self, agreeing: &Agreeing) -> bool {
        Arc::ptr_eq(&agreeing.context, &self.context)
    }

    /// Sends this rank's times on their way, without waiting.
    ///
    /// # Errors
    /// As those of a request that begins.
    pub(super) fn send_times(&self, held: &mut Held<'_>, times: &Times) -> Result<Agreeing> {
        held.sweep_agreeing();
        let shared = &mut **held;
        let block = shared.arena.alloc(size_of_val(times), shared.engine.transport());
        // The others wait for this rank's.
        let mut buf = Buf::new(block.map_err(|e| held.fail(e))?, MAX_WAYS);
        buf.copy_from_slice(times);
        let bound = buf.bound(&held.arena)?;
        let plain = self.with(Options::new().deadline(self.options.deadline));
        let spec = self.allreduce_spec::<u64>(None, MAX_WAYS, IntoReducer::<u64>::into_reducer(Max));
        let begun: Begun = plain.begin(held, Collective::Times, spec)?;
        let mut run = Running::new(Collective::Times, begun, [Bound::NONE, bound]);
        run.start(self, held, false)?;
        Ok(Agreeing { context: Arc::clone(&self.context), times: Some(buf), run, has_ended: false })
    }
}

impl Agreeing {
    /// Whether they have come; moves everything on, once.
    pub(super) fn test(&mut self, held: &mut Held<'_>) -> Result<bool> {
        if !self.has_ended {
            self.has_ended = self.run.test(held).inspect_err(|_| self.set_aside())?;
        }
        Ok(self.has_ended)
    }

    /// Waits for them.
    pub(super) fn wait(&mut self, comm: &Communicator, held: &mut Held<'_>) -> Result<()> {
        if !self.has_ended {
            self.run.wait(comm, held).inspect_err(|_| self.set_aside())?;
            self.has_ended = true;
        }
        Ok(())
    }

    /// The greatest of all ranks, once they have come.
    pub(super) fn take(mut self, held: &mut Held<'_>) -> Option<Times> {
        let times = self.times.take().filter(|_| self.has_ended)?;
        self.run.retire(held);
        times[..].try_into().ok()
    }
}

impl Held<'_> {
    fn take_agreeing(
        &mut self,
        which: impl Fn(&(Option<usize>, Agreeing)) -> bool,
    ) -> Option<(Option<usize>, Agreeing)> {
        let at = self.agreeing.iter().position(which)?;
        Some(self.agreeing.swap_remove(at))
    }

    /// Those that have ended no longer take a slot; those that no call asks for any more, no memory.
    fn sweep_agreeing(&mut self) {
        let mut all = std::mem::take(&mut self.agreeing);
        all.retain_mut(|(of, agreeing)| {
            // An error is said by the communicator's next call.
            let has_failed = agreeing.test(self).is_err();
            let is_wanted = of.is_some() && Arc::strong_count(&agreeing.context) > 1;
            !has_failed && (is_wanted || !agreeing.has_ended)
        });
        self.agreeing = all;
    }
}

impl World {
    /// What trials have found on the communicators that this rank is in, where the setting `adapt` does not say `off`: of each class of calls and
    /// number of ranks the last. The same at all ranks of a communicator.
    ///
    /// # Errors
    /// Inside an operator.
    pub fn learned(&self) -> Result<Vec<Learned>> {
        Ok(self.comm.hold()?.learned.clone())
    }

    /// Rank 0 puts what it has learned into the file of the setting `learn`, in place of what the file says of the same calls. What cannot be written is a warning: the job has ended well.
    pub(super) fn keep_learned(&self, held: &Held<'_>) {
        let Some(file) = self.config.learn.as_ref().filter(|_| self.rank() == 0) else { return };
        let rules: Vec<String> = held.learned.iter().filter_map(Learned::rule).collect();
        let calls = |rule: &str| rule.split("->").next().map(|calls| calls.trim().to_owned());
        let written = || -> std::io::Result<()> {
            let before = match std::fs::read_to_string(file) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
                read => read?,
            };
            let is_new = |line: &&str| !rules.iter().any(|rule| calls(rule) == calls(line));
            let lines = rules.iter().map(String::as_str).chain(before.lines().filter(is_new));
            replace(Path::new(file), &lines.map(|line| format!("{line}\n")).collect::<String>())
        };
        if let Err(e) = written() {
            crate::trace::warn(&format!("rank 0: CIRCULANT_LEARN: {file}: {e}"), LevelFilter::WARN);
        }
    }
}

impl Shared {
    /// Keeps what a trial has found, and says it.
    pub(super) fn learn(&mut self, class: Class, size: usize, trial: &Trial) {
        let (Some(found), Some(kept)) = (trial.found(), trial.kept()) else { return };
        let tried = found.map(|(way, ns)| (way, ns.map(Duration::from_nanos))).collect();
        let per_node = self.selection.machine().per_node;
        let learned = Learned { class, size, per_node, tried, kept };
        self.log.info(|| format!("learned: {}", learned.line()));
        let known = self.learned.iter_mut().find(|l| l.class == class && l.size == size);
        match known {
            Some(known) => *known = learned,
            None => {
                self.learned.truncate(MAX_LEARNED - 1);
                self.learned.push(learned);
            }
        }
    }
}
