//! The flight record of an engine: the events of its recorder, and what its calls miss now.

use super::core::Core;
use super::driver::Engine;
use super::latencies::{Latencies, Measured};
use super::message::{CallId, Mark};
use super::recorder::Recorded;
use super::setup::Keeper;
use super::task::{Missing, Task};
use super::waiting::Waiting;
use crate::error::Error;
use crate::record::{self, NONE, Record, Why};
use std::sync::Arc;

impl Engine {
    /// Has calls timed from now on.
    pub(crate) fn time_calls(&mut self) {
        self.core.latencies = Some(Latencies::new(self.clock.ticks()));
    }

    /// What was timed, and how many nanoseconds a tick has.
    pub(crate) fn timed(&self) -> (Vec<Measured>, f64) {
        let clock = self.core.recorder.clock();
        let ticks = clock.end.ticks.saturating_sub(clock.start.ticks).max(1);
        let ns = clock.end.unix_ns.saturating_sub(clock.start.unix_ns);
        let measured = self.core.latencies.iter().flat_map(Latencies::measured).collect();
        (measured, ns as f64 / ticks as f64)
    }

    /// The name of the operation with this code.
    pub(crate) fn name_of(&self, code: u8) -> &'static str {
        self.core.name_of(code)
    }

    /// Has flight records kept from now on: on error, when the keeper is asked, and by [`Engine::record`].
    pub(crate) fn keep_records(&mut self, keeper: Box<dyn Keeper>) {
        self.keeper = Some(keeper);
    }

    /// What this rank did last and misses now.
    pub(crate) fn flight_record(&self) -> Record {
        self.core.flight_record(Why::Asked, self.core.failure.as_ref(), None)
    }

    /// Hands the record of this moment to the keeper, if there is one. `waiting`: the call that waits.
    pub(crate) fn record(&mut self, why: Why, waiting: Option<&Waiting>) {
        if let Some(keeper) = &mut self.keeper {
            let awaited = waiting.and_then(Waiting::awaited);
            keeper.keep(self.core.flight_record(why, self.core.failure.as_ref(), awaited));
        }
    }

    /// The same, if the keeper was asked for one.
    pub(crate) fn record_if_asked(&mut self, waiting: Option<&Waiting>) {
        if self.keeper.as_ref().is_some_and(|keeper| keeper.is_asked()) {
            self.record(Why::Signal, waiting);
        }
    }
}

impl Core {
    /// An operation's name, as one word.
    fn record_name(&self, code: u8) -> Arc<str> {
        self.name_of(code).replace(' ', "-").into()
    }

    fn record_call(&self, code: u8, call: CallId) -> record::Call {
        record::Call { comm: call.comm, sequence: call.sequence, operation: self.record_name(code) }
    }

    fn record_mark(&self, mark: Mark) -> Option<record::Call> {
        (mark.code != 0).then(|| self.record_call(mark.code, mark.call))
    }

    fn record_wait(&self, task: &Task) -> record::Wait {
        let call = self.record_call(task.meta.code, task.meta.call);
        let none = record::Wait {
            call,
            what: record::Missing::Nothing,
            peer: NONE,
            round: NONE,
            block: NONE,
            bytes: 0,
        };
        let Some((peer, round, what)) = task.missing() else { return none };
        let (what, bytes) = match what {
            Missing::Call => (record::Missing::Call, 0),
            Missing::Entry => (record::Missing::Entry, 0),
            Missing::Acknowledgement => (record::Missing::Acknowledgement, 0),
            Missing::Bytes { len, .. } => (record::Missing::Bytes, len),
        };
        let block = task.missing_block().filter(|_| what == record::Missing::Bytes);
        record::Wait { what, peer, round, block: block.unwrap_or(NONE), bytes, ..none }
    }

    /// What this rank did last and misses now. `awaited`: of a call without a task, the rank that it waits for.
    pub(super) fn flight_record(
        &self,
        why: Why,
        error: Option<&Error>,
        awaited: Option<(Mark, u32)>,
    ) -> Record {
        let recorder = &self.recorder;
        let mut record = Record::new(self.setup.rank, self.setup.size, why, recorder.clock());
        record.process = std::process::id();
        record.error = error.map(Error::to_string);
        record.lost = recorder.lost();
        record.entered = self.record_mark(self.status.entered);
        record.completed = self.record_mark(self.status.completed);
        let tasks = self.active.slots().filter_map(|slot| self.task_ref(slot));
        record.waits = tasks.filter(|task| !task.finished()).map(|task| self.record_wait(task)).collect();
        // After an error: the rank that is to blame.
        let blamed = error.and_then(|e| Some((self.status.entered, u32::try_from(e.peer()?).ok()?)));
        let awaited = awaited.or(blamed.filter(|(mark, _)| *mark != self.status.completed));
        if let Some((mark, peer)) = awaited.filter(|(mark, _)| self.slot_of(mark.call).is_none()) {
            let (what, none) = (record::Missing::Call, NONE);
            let call = self.record_call(mark.code, mark.call);
            record.waits.push(record::Wait { call, what, peer, round: none, block: none, bytes: 0 });
        }
        for wait in &record.waits {
            let group = self.groups.get(&wait.call.comm).and_then(std::sync::Weak::upgrade);
            if let Some(group) = group.filter(|_| wait.call.comm != 0) {
                record.members.push((wait.call.comm, group.world_ranks()));
            }
        }
        record.members.sort_unstable();
        record.members.dedup();
        // Each name once.
        let mut names: Vec<Option<Arc<str>>> = vec![None; 1 << u8::BITS];
        record.events.extend(recorder.kept().map(|&Recorded { ticks, kind, label, at }| {
            let (code, call) = (label.code(), label.call());
            let name = names[usize::from(code)].get_or_insert_with(|| self.record_name(code));
            let (comm, sequence, operation) = (call.comm, call.sequence, Arc::clone(name));
            let call = record::Call { comm, sequence, operation };
            record::Event { ticks, kind, call, peer: at.peer, round: at.round, block: at.block }
        }));
        record
    }
}
