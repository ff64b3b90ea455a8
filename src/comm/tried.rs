//! An operation that is started often, and may run in several ways: a persistent one is tried as blocking calls are ([`adapt`](super::adapt)). Of
//! a request there is one way.
//!
//! Starts have one order at all ranks, and ends have not: so a rank's times leave at a start, and are waited for at the end of a later run,
//! which may wait for all ranks.

use super::agreeing::Agreeing;
use super::call::Begun;
use super::collective::Collective;
use super::communicator::Communicator;
use super::lock::Held;
use super::run::Running;
use crate::buffer::Bound;
use crate::engine::Task;
use crate::error::Result;
use crate::ops::Reducer;
use crate::select::{Class, Due, Trial, Turn};
use std::time::Instant;

/// The ways of an operation, of which one runs at a time.
pub(super) struct TriedRun {
    /// The way by price.
    first: Running,
    regions: [Bound; 2],
    trial: Option<Box<RunTrial>>,
}

/// The trial of a persistent operation.
struct RunTrial {
    class: Class,
    reducer: Option<Reducer>,
    trial: Trial,
    /// The other ways, as far as they were made.
    others: Vec<Option<Running>>,
    /// The way of the last start; 0: the first.
    current: usize,
    /// What the run that is under way does.
    turn: Option<Turn>,
    /// Nanoseconds of this run that were spent in its calls.
    spent_ns: u64,
    agreeing: Option<Agreeing>,
    /// The run has ended; the times are waited for.
    hears: bool,
}

impl TriedRun {
    pub(super) fn new(operation: Collective, begun: Begun, regions: [Bound; 2]) -> Self {
        Self { first: Running::new(operation, begun, regions), regions, trial: None }
    }

    fn current(&self) -> &Running {
        let trial = self.trial.as_deref();
        trial.and_then(|t| t.others.get(t.current.checked_sub(1)?)?.as_ref()).unwrap_or(&self.first)
    }

    fn current_mut(&mut self) -> &mut Running {
        let trial = self.trial.as_deref_mut();
        trial.and_then(|t| t.others.get_mut(t.current.checked_sub(1)?)?.as_mut()).unwrap_or(&mut self.first)
    }

    pub(super) fn operation(&self) -> Collective {
        self.first.operation()
    }

    /// Whether a run is under way.
    pub(super) fn is_running(&self) -> bool {
        self.current().is_running() || self.trial.as_ref().is_some_and(|t| t.hears)
    }

    /// See [`Running::has_failed_alone`].
    pub(super) fn has_failed_alone(&self) -> bool {
        self.current().has_failed_alone()
    }

    /// See [`Running::ended`].
    pub(super) fn ended(&self) -> Result<()> {
        self.current().ended()
    }

    /// See [`Running::program`].
    pub(super) fn program(&self) -> Option<(&Task, u32)> {
        self.current().program()
    }

    /// Tells the peers where its memory is, once for all starts of the first way. From now on it may be tried.
    pub(super) fn bind(&mut self, comm: &Communicator, held: &mut Held<'_>) -> Result<()> {
        self.first.bind(held)?;
        let asked = self.first.asked();
        let trial = asked.and_then(|(asked, way)| {
            held.trial_of(&comm.context, (self.operation(), asked), &way, &comm.options)
        });
        self.trial = trial.map(|(class, trial)| {
            let others = (1..trial.ways().len()).map(|_| None).collect();
            Box::new(RunTrial {
                class,
                reducer: self.first.program().and_then(|(task, _)| task.reducer.clone()),
                trial,
                others,
                current: 0,
                turn: None,
                spent_ns: 0,
                agreeing: None,
                hears: false,
            })
        });
        Ok(())
    }

    /// Starts a run; all but the first take a number of their own (`again`).
    pub(super) fn start(&mut self, comm: &Communicator, held: &mut Held<'_>, again: bool) -> Result<()> {
        let is_running = self.is_running();
        let Some(trial) = self.trial.as_deref_mut().filter(|_| !is_running) else {
            return self.current_mut().start(comm, held, again);
        };
        if let Due::Tell(times) = trial.trial.due() {
            trial.agreeing = Some(comm.send_times(held, &times)?);
            trial.trial.told();
        }
        trial.turn = trial.trial.turn();
        let Some(turn) = trial.turn else { return self.first.start(comm, held, again) };
        let start = turn.is_timed().then(Instant::now);
        trial.current = turn.at;
        match turn.at.checked_sub(1).and_then(|at| trial.others.get_mut(at)) {
            None => self.first.start(comm, held, again)?,
            Some(Some(other)) => other.start(comm, held, again)?,
            Some(none) => {
                let like = (self.first.operation(), self.first.prepared());
                let begun = comm.begin_in(held, like, &turn.way, trial.reducer.clone())?;
                let other = none.insert(Running::new(self.first.operation(), begun, self.regions));
                other.start(comm, held, false)?;
            }
        }
        trial.spent_ns = 0;
        trial.spend(start);
        Ok(())
    }

    /// Whether nothing is under way; moves everything on, once.
    pub(super) fn test(&mut self, comm: &Communicator, held: &mut Held<'_>) -> Result<bool> {
        if !self.trial.as_ref().is_some_and(|t| t.hears) {
            let start = self.times();
            if !self.current_mut().test(held)? {
                self.spend(start);
                return Ok(false);
            }
            self.has_run(start);
        }
        let Some(trial) = self.trial.as_deref_mut().filter(|t| t.hears) else { return Ok(true) };
        let has_come = trial.agreeing.as_mut().map_or(Ok(true), |agreeing| agreeing.test(held));
        if !matches!(has_come, Ok(false)) {
            trial.hear(comm, held);
        }
        has_come
    }

    /// Waits until nothing is under way.
    pub(super) fn wait(&mut self, comm: &Communicator, held: &mut Held<'_>) -> Result<()> {
        if !self.trial.as_ref().is_some_and(|t| t.hears) {
            let start = self.times();
            self.current_mut().wait(comm, held)?;
            self.has_run(start);
        }
        let Some(trial) = self.trial.as_deref_mut().filter(|t| t.hears) else { return Ok(()) };
        let have_come = trial.agreeing.as_mut().map_or(Ok(()), |agreeing| agreeing.wait(comm, held));
        trial.hear(comm, held);
        have_come
    }

    /// Now, if the time of the run that is under way is wanted.
    fn times(&self) -> Option<Instant> {
        let turn = self.trial.as_ref().and_then(|t| t.turn);
        turn.is_some_and(|turn| turn.is_timed()).then(Instant::now)
    }

    fn spend(&mut self, start: Option<Instant>) {
        if let Some(trial) = &mut self.trial {
            trial.spend(start);
        }
    }

    /// The run that was under way, if one was, has ended.
    fn has_run(&mut self, start: Option<Instant>) {
        self.spend(start);
        let Some(trial) = self.trial.as_deref_mut() else { return };
        let Some(turn) = trial.turn.take() else { return };
        if turn.is_timed() {
            trial.trial.ended(&turn, trial.spent_ns);
        }
        trial.hears = trial.trial.due() == Due::Hear;
    }

    /// Gives the programs back, for others to use.
    pub(super) fn retire(&mut self, held: &mut Held<'_>) {
        self.first.retire(held);
        if let Some(mut trial) = self.trial.take() {
            trial.others.iter_mut().flatten().for_each(|other| other.retire(held));
            held.agreeing.extend(trial.agreeing.take().map(|agreeing| (None, agreeing)));
        }
    }

    /// The programs and their memory, which a run that cannot be ended goes on using.
    pub(super) fn leak(&mut self) {
        self.first.leak();
        let trial = self.trial.iter_mut();
        trial.flat_map(|t| t.others.iter_mut().flatten()).for_each(Running::leak);
    }
}

impl RunTrial {
    fn spend(&mut self, start: Option<Instant>) {
        let ns = start.map_or(0, |start| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.spent_ns = self.spent_ns.saturating_add(ns);
    }

    /// The times have come, or never will. Ways that are not kept go.
    fn hear(&mut self, comm: &Communicator, held: &mut Held<'_>) {
        self.hears = false;
        let Some(slowest) = self.agreeing.take().and_then(|agreeing| agreeing.take(held)) else { return };
        if !self.trial.hear(slowest) {
            return;
        }
        held.learn(self.class, comm.size(), &self.trial);
        let kept = self.trial.kept();
        let others = self.trial.ways().iter().skip(1).zip(&mut self.others);
        for (_, other) in others.filter(|(way, _)| kept != Some(**way)) {
            if let Some(mut other) = other.take() {
                other.retire(held);
            }
        }
        // What ran last may be gone.
        self.current = 0;
    }
}
