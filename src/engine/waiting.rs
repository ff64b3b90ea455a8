//! One wait: what it looks for besides progress, what it says while it lasts, and how it ends.
//!
//! Silence is not death. A wait lasts until what it waits for comes, a rank is known to be gone, the world ends, or a deadline
//! passes where one is set. Meanwhile it tells the rank that it waits for, asks all ranks what they do (which also finds calls
//! that do not match), and says on stderr for which ranks it waits.

use super::message::{CallId, Mark, Message, Status};
use super::task::Task;
use super::{Engine, Meta, ProcessState};
use crate::config::FOR_EVER;
use crate::error::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};
use tracing::level_filters::LevelFilter;

/// How often the slow checks (processes, launcher) are made while waiting.
const LIVENESS_EVERY: Duration = Duration::from_millis(10);
/// After so long a rank that waits for another tells it so, for the first time; then at intervals. The other one compares the
/// call with its own.
const TELL_AFTER: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(5);
/// After so long all ranks are asked what they do: ranks whose calls do not match may all be waiting.
const ASK_AFTER: Duration = Duration::from_secs(10);
/// Answers get so much time before they are needed.
const ANSWERS: Duration = Duration::from_secs(1);
/// How many different states of ranks a message lists.
const STATES: usize = 8;

/// One wait: for what, how long, since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    what: Meta,
    deadline: Duration,
    /// The one rank that it is for, if it is for one.
    pub(super) peer: Option<u32>,
    polls: u32,
    /// Made when nothing moved for the first time: a call that need not wait needs no clock.
    clock: Option<Clock>,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    since: Instant,
    next_check: Instant,
    /// When to tell the rank that we wait for.
    tell_at: Instant,
    /// When to ask all.
    ask_at: Instant,
    /// When to say for which ranks we wait.
    warn_at: Instant,
    give_up: Instant,
}

impl Waiting {
    /// A wait for the operation `what` (the default: for something else).
    pub(crate) fn new(what: Meta, deadline: Duration) -> Self {
        Self { what, deadline: deadline.min(FOR_EVER), peer: None, polls: 0, clock: None }
    }

    /// How often it was looked at.
    pub(crate) fn turns(&self) -> u32 {
        self.polls
    }

    /// Something moved: the deadline begins anew.
    pub(super) fn begin_anew(&mut self) {
        self.clock = None;
    }

    fn named(&self, e: Error) -> Error {
        if self.what.name.is_empty() {
            return e;
        }
        e.in_operation(self.what.name, u64::from(self.what.call.sequence))
    }
}

impl Clock {
    fn new(now: Instant, deadline: Duration, warn_after: Duration) -> Self {
        let mut clock = Self {
            since: now,
            next_check: now + LIVENESS_EVERY,
            tell_at: now + (deadline / 8).min(TELL_AFTER),
            ask_at: now + ASK_AFTER,
            warn_at: now + warn_after,
            give_up: now + deadline,
        };
        clock.ask_at = clock.ask_at.min(clock.next_use());
        clock
    }

    /// When to ask, for answers to be there when they are next needed.
    fn next_use(&self) -> Instant {
        let before = |at: Instant| at - (at.duration_since(self.since) / 4).min(ANSWERS);
        before(self.warn_at).min(before(self.give_up))
    }

    /// All were asked now: what is said of their answers waits for these.
    fn asked(&mut self, now: Instant, deadline: Duration) {
        let soonest = now + (deadline / 4).min(ANSWERS);
        self.warn_at = self.warn_at.max(soonest);
        self.give_up = self.give_up.max(soonest);
        let used_soon = self.warn_at.min(self.give_up) <= now + 2 * ANSWERS;
        self.ask_at = if used_soon { now + FOR_EVER } else { self.next_use() };
    }

    fn warned(&mut self, now: Instant, warn_after: Duration) {
        self.warn_at = now + warn_after;
        self.ask_at = self.next_use().max(now);
    }
}

impl Engine {
    /// Progresses once and, when nothing moved, looks whether to go on waiting. Says whether anything moved.
    pub(super) fn step(&mut self, waiting: &mut Waiting) -> Result<bool> {
        let _inside = self.beat.enter();
        let moved = match self.progress() {
            Ok(moved) => moved > 0,
            Err(e) => return Err(self.fail(waiting.named(e))),
        };
        if self.core.failure.is_some() {
            return Err(self.fail_as_told());
        }
        if moved || waiting.polls == 0 {
            self.quiet = None;
        }
        waiting.polls = waiting.polls.wrapping_add(1);
        // A stream of events must not outrun the deadline, but each need not cost a look at the clock.
        if moved && !waiting.polls.is_multiple_of(256) {
            return Ok(true);
        }
        let now = Instant::now();
        if !moved {
            self.quiet.get_or_insert(now);
        }
        self.look_at_clock(waiting, now)?;
        Ok(moved)
    }

    /// Does what is due by now.
    fn look_at_clock(&mut self, waiting: &mut Waiting, now: Instant) -> Result<()> {
        let (deadline, warn_after) = (waiting.deadline, self.core.setup.warn_after);
        let mut clock = *waiting.clock.get_or_insert_with(|| Clock::new(now, deadline, warn_after));
        if now < clock.next_check {
            return Ok(());
        }
        clock.next_check = now + LIVENESS_EVERY;
        if let Some(e) = self.check_liveness(now) {
            return Err(self.fail(waiting.named(e)));
        }
        if now >= clock.tell_at {
            clock.tell_at = now + TELL_EVERY;
            self.tell_awaited(waiting);
        }
        if now >= clock.ask_at {
            self.ask_everybody();
            clock.asked(now, deadline);
        }
        if now >= clock.give_up {
            let e = self.timed_out(waiting);
            return Err(self.fail(waiting.named(e)));
        }
        if now >= clock.warn_at {
            self.warn(waiting, now.duration_since(clock.since));
            clock.warned(now, warn_after);
        }
        waiting.clock = Some(clock);
        Ok(())
    }

    /// Tells the rank that we wait for in which call: it may be in another call of that number, or in one before that we have
    /// left, and would not hear of it.
    fn tell_awaited(&mut self, waiting: &Waiting) {
        let m = &waiting.what;
        let peer = waiting.peer.or_else(|| Some(self.awaited(m.call)?.missing()?.0));
        if let (Some(peer), 1..) = (peer, m.code) {
            self.core.queue(peer, Message::Late { call: m.call, code: m.code, hash: m.hash });
        }
    }

    /// The task of a call that we are in.
    fn awaited(&self, call: CallId) -> Option<&Task> {
        self.core.task_ref(self.core.slot_of(call)?)
    }

    /// The error of a wait that lasted too long: what is missing, and what every rank says to be doing.
    pub(super) fn timed_out(&self, waiting: &Waiting) -> Error {
        let core = &self.core;
        let mut text = format!("nothing more came within {} s", waiting.deadline.as_secs_f64());
        let (mut culprit, mut round) = (None, None);
        // Of several operations in flight the one that is waited for.
        let call = if waiting.what.code == 0 { core.status.entered.call } else { waiting.what.call };
        let waited = self.awaited(call).or_else(|| core.task_ref(*core.active.first()?));
        let awaited = waiting.peer.map(|peer| (peer, 0, "it has not come to this call".to_owned()));
        let missing = awaited.or_else(|| waited.and_then(Task::missing));
        if let Some((peer, r, what)) = missing {
            text.push_str(&format!(" (waiting for rank {peer}: {what})"));
            culprit = Some(peer);
            round = Some(r);
        }
        let states = self.states(call);
        let silent = self.silent(call);
        // A rank that does not answer is to blame; else one that is behind; else one in another call.
        let behind = states.iter().find(|(s, _)| s.entered.call != call);
        if let Some(rank) = silent.first().or(behind.and_then(|(_, ranks)| ranks.first())) {
            culprit = Some(*rank);
        }
        if !silent.is_empty() {
            let verb = if silent.len() == 1 { "does" } else { "do" };
            text.push_str(&format!("; {} {verb} not answer: stopped, hung or not in a call", ranks(&silent)));
        }
        // Those furthest behind come first.
        for (status, list) in states.iter().take(STATES) {
            text.push_str(&format!("; {}", self.state_of(list, status)));
        }
        if states.len() > STATES {
            text.push_str("; the others are elsewhere");
        }
        let mut e = Error::new(ErrorKind::Timeout, text)
            .help("raise CIRCULANT_DEADLINE (--deadline) if the ranks are only slow");
        if let Some(peer) = culprit {
            e = e.with_peer(peer as usize);
        }
        if let Some(round) = round {
            e = e.in_round(round);
        }
        e
    }

    /// Says on stderr for which ranks we wait, if no lower rank says it.
    fn warn(&mut self, waiting: &Waiting, since: Duration) {
        if let Some(text) = self.warning(waiting, since) {
            crate::trace::warn(&text, LevelFilter::WARN);
        }
    }

    /// What to say of a wait that lasts; `None` where a lower rank waits in the same call, and says it.
    pub(super) fn warning(&mut self, waiting: &Waiting, since: Duration) -> Option<String> {
        let what = &waiting.what;
        if what.code == 0 {
            return None;
        }
        let rank = self.core.setup.rank;
        let states = self.states(what.call);
        let here = |s: &Status| s.entered.call == what.call && s.completed.call != what.call;
        if states.iter().any(|(s, list)| here(s) && list.iter().any(|r| *r < rank)) {
            return None;
        }
        let silent = self.silent(what.call);
        let call = self.name_of_call(Mark { code: what.code, call: what.call });
        let elsewhere: Vec<_> = states.iter().filter(|(s, _)| s.entered.call != what.call).collect();
        let late: Vec<u32> = elsewhere.iter().flat_map(|(_, list)| list).chain(&silent).copied().collect();
        let mut text = match late.len() {
            0 => format!("all ranks are in {call} for {} s", since.as_secs()),
            1 => format!("rank {} has not come to {call} for {} s", late[0], since.as_secs()),
            _ => format!("{} have not come to {call} for {} s", ranks(&late), since.as_secs()),
        };
        for (status, list) in elsewhere.iter().take(STATES) {
            text.push_str(&format!("; {}", self.state_of(list, status)));
        }
        if let Some(first) = silent.first() {
            let state = self.liveness.as_mut().and_then(|l| l.state(*first));
            let is = match (state, silent.len()) {
                (Some(ProcessState::Stopped), 1) => "it is stopped by a signal".to_owned(),
                (Some(ProcessState::Lives), 1) => "it lives, in no call".to_owned(),
                (None, 1) => "it does not answer: it computes, is stopped, or is cut off".to_owned(),
                _ => format!("{} do not answer: they compute, are stopped, or cut off", ranks(&silent)),
            };
            text.push_str(&format!("; {is}"));
        }
        Some(format!("{text} (rank {rank} waits)"))
    }

    /// The other members of the call's communicator that have not answered the last question.
    fn silent(&self, call: CallId) -> Vec<u32> {
        let core = &self.core;
        let answered = |r: &u32| core.statuses.get(r).is_some_and(|(round, _)| *round >= core.asked_round);
        let mut all = self.members(call);
        all.retain(|r| *r != core.setup.rank && !answered(r));
        all
    }

    /// The world ranks of the call's communicator; of all where it is not known.
    fn members(&self, call: CallId) -> Vec<u32> {
        let group = self.core.groups.get(&call.comm).and_then(std::sync::Weak::upgrade);
        let mut all = group.map_or_else(|| (0..self.core.setup.size).collect(), |group| group.world_ranks());
        all.sort_unstable();
        all
    }

    /// The state of each member of the call's communicator, with the ranks that are in it; those furthest behind first.
    fn states(&self, call: CallId) -> Vec<(Status, Vec<u32>)> {
        let core = &self.core;
        let mut list: Vec<(Status, Vec<u32>)> = Vec::new();
        let status = |rank: u32| match core.statuses.get(&rank) {
            _ if rank == core.setup.rank => Some((rank, core.status)),
            Some((round, status)) if *round >= core.asked_round => Some((rank, *status)),
            _ => None,
        };
        let mut all: Vec<(u32, Status)> = self.members(call).into_iter().filter_map(status).collect();
        all.sort_by_key(|(r, s)| (s.entered.call.sequence, s.entered.code, *r));
        for (rank, status) in all {
            match list.iter_mut().find(|(s, _)| *s == status) {
                Some((_, ranks)) => ranks.push(rank),
                None => list.push((status, vec![rank])),
            }
        }
        list
    }

    /// "rank 3 is in bcast #17 (completed barrier #16)".
    fn state_of(&self, list: &[u32], status: &Status) -> String {
        let verb = if list.len() == 1 { "is" } else { "are" };
        let (entered, completed) = (self.name_of_call(status.entered), self.name_of_call(status.completed));
        match status.entered == status.completed {
            true => format!("{} {verb} behind {completed}", ranks(list)),
            false => format!("{} {verb} in {entered} (completed {completed})", ranks(list)),
        }
    }

    fn name_of_call(&self, mark: Mark) -> String {
        match mark.code {
            0 => "nothing yet".to_owned(),
            super::FINALIZE => "finalize".to_owned(),
            code => {
                let CallId { comm, sequence } = mark.call;
                let of = match comm {
                    0 => String::new(),
                    _ => format!(" of communicator {}.{}", comm >> 32, comm & u64::from(u32::MAX)),
                };
                format!("{} #{sequence}{of}", self.core.name_of(code))
            }
        }
    }
}

/// "rank 3" or "ranks 3, 5, … (12 in all)".
fn ranks(list: &[u32]) -> String {
    match list {
        [one] => format!("rank {one}"),
        _ => {
            let shown: Vec<String> = list.iter().take(8).map(u32::to_string).collect();
            let more = if list.len() > 8 { format!(", … ({} in all)", list.len()) } else { String::new() };
            format!("ranks {}{more}", shown.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a wait does, by the tenth of a second: (asks, warns, gives up).
    fn schedule(deadline: Duration, warn_after: Duration, tenths: u32) -> (Vec<u32>, Vec<u32>, Option<u32>) {
        let start = Instant::now();
        let mut clock = Clock::new(start, deadline, warn_after);
        let (mut asks, mut warns) = (Vec::new(), Vec::new());
        for tenth in 0..tenths {
            let now = start + Duration::from_millis(100) * tenth;
            if now >= clock.ask_at {
                asks.push(tenth);
                clock.asked(now, deadline);
            }
            if now >= clock.give_up {
                return (asks, warns, Some(tenth));
            }
            if now >= clock.warn_at {
                warns.push(tenth);
                clock.warned(now, warn_after);
            }
        }
        (asks, warns, None)
    }

    #[test]
    fn answers_are_there_when_they_are_needed() {
        let seconds = Duration::from_secs;
        // No deadline: a question after 10 s, then one before each warning.
        assert_eq!(schedule(FOR_EVER, seconds(60), 1300), (vec![100, 590, 1190], vec![600, 1200], None));
        assert_eq!(schedule(FOR_EVER, FOR_EVER, 1300), (vec![100], vec![], None));
        assert_eq!(schedule(seconds(4), seconds(60), 1300), (vec![30], vec![], Some(40)));
        assert_eq!(schedule(seconds(1), FOR_EVER, 1300), (vec![8], vec![], Some(11)));
        assert_eq!(schedule(seconds(61), seconds(60), 1300), (vec![100, 590, 601], vec![600], Some(611)));
        let (_, warns, _) = schedule(FOR_EVER, seconds(1), 100);
        assert!(warns.len() > 4, "{warns:?}");
    }
}
