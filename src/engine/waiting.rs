//! Waits: progress until a condition holds, and what is checked and reported meanwhile.
//!
//! Silence is not death. A wait lasts until what it waits for comes, a rank is known to be gone, the world ends, or a deadline
//! passes where one is set. Meanwhile it tells the rank that it waits for, queries the status of all ranks (which also finds calls
//! that do not match), and warns on stderr for which ranks it waits.

use super::core::Core;
use super::driver::Engine;
use super::gone::AgreementId;
use super::message::{AGREE, CallId, FINALIZE, Mark, Message, Status};
use super::task::{Meta, Missing, Task};
use super::time::{Alarms, query_after};
use crate::config::FOR_EVER;
use crate::error::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// While polls make progress, one of this many reads the clock. Chosen: a deadline is noticed that many polls late at
/// most, which each moved something on.
const POLLS_PER_CLOCK: u32 = 256;
/// How often the slow checks (processes, launcher) are made while waiting. Chosen: they are system calls, a hundred
/// times a second.
const LIVENESS_EVERY: Duration = Duration::from_millis(10);
/// Naps are not shorter, as falling asleep and waking up take 50 µs and more: waits below 50 ms have none.
const SHORTEST_NAP: Duration = Duration::from_micros(500);
/// Nor longer, where a core has few ranks. Chosen, as [`SHORT_REST`]; `long_waits_nap` shows it.
pub(super) const LONGEST_NAP: Duration = Duration::from_millis(1);
/// Ranks of a core that look so often, at most: of more each naps the longer. Chosen: a look takes some 10 µs, so these take a sixth of the
/// core. With 512 ranks to a core two that measured the wire had no turn for minutes.
const RANKS_PER_CORE: u32 = 16;
/// So many times as long, at most. Chosen: a thirtieth of a second.
const MAX_CROWD: u32 = 32;
/// Sleeping in the transport takes no longer, where an event ends it. Chosen: it bounds how late a deadline or a check
/// is; `long_waits_nap` shows it.
pub(super) const LONG_REST: Duration = Duration::from_millis(4);
/// The same where not only an event of the transport can be waited for. Chosen: it bounds how late that is seen.
pub(super) const SHORT_REST: Duration = Duration::from_millis(1);
/// No rest is longer where the program's hook is called in between: an MPI moves a message of 8 MiB in parts of 64 KiB or so, and
/// 128 rests of 4 ms would take half a second. Falling asleep and waking up take half of this.
pub(super) const HOOKED_REST: Duration = Duration::from_micros(100);
/// Different states of ranks that an error or a warning lists, at most. Chosen, so that it can be read.
pub(super) const MAX_STATES_LISTED: usize = 8;

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// An operation, or what other ranks do in it.
    Call,
    Agreement(AgreementId),
    /// All that is under way here.
    Requests,
    /// Goodbyes of the neighbours, and that ours have left.
    Goodbye,
    /// What a rank does for the measuring of the wire.
    Wire(u32),
}

/// One wait: for what, how long, since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(super) what: Meta,
    pub(super) goal: Goal,
    deadline: Duration,
    /// The one rank that it is for, if it is for one.
    pub(super) peer: Option<u32>,
    polls: u32,
    /// How much had moved in operations when it last began.
    moves: u64,
    /// Made when nothing moved for the first time: a call that need not wait needs no clock.
    looks: Option<Looks>,
}

/// When a wait next looks at what is due.
#[derive(Clone, Copy, Debug)]
struct Looks {
    check_at: Instant,
    alarms: Alarms,
}

/// Nothing moved, for as long as `quiet` says. The wait may rest, but not longer than `longest`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) longest: Duration,
    pub(super) quiet: Duration,
}

impl Waiting {
    /// A wait for the operation `what`.
    pub(crate) fn new(what: Meta, deadline: Duration) -> Self {
        Self::of(Goal::Call, what, deadline)
    }

    fn of(goal: Goal, what: Meta, deadline: Duration) -> Self {
        let deadline = deadline.min(FOR_EVER);
        Self { what, goal, deadline, peer: None, polls: 0, moves: 0, looks: None }
    }

    /// A wait for an agreement, which errors and warnings call `name`.
    pub(crate) fn for_agreement(name: &'static str, id: AgreementId, deadline: Duration) -> Self {
        Self::of(Goal::Agreement(id), Meta { name, ..Meta::default() }, deadline)
    }

    /// A wait of `finalize` for requests that were forgotten.
    pub(crate) fn for_requests(deadline: Duration) -> Self {
        Self::of(Goal::Requests, Meta { name: "finalize", ..Meta::default() }, deadline)
    }

    /// A wait of `finalize` for the neighbours' goodbyes.
    pub(crate) fn for_goodbyes(deadline: Duration) -> Self {
        Self::of(Goal::Goodbye, Meta { name: "finalize", ..Meta::default() }, deadline)
    }

    /// A wait for `peer` while the wire to it is measured.
    pub(super) fn for_wire(peer: u32, deadline: Duration) -> Self {
        Self::of(Goal::Wire(peer), Meta::default(), deadline)
    }

    /// The call or agreement that it is for, as statuses tell it.
    pub(super) fn mark(&self) -> Mark {
        match self.goal {
            Goal::Agreement((comm, sequence)) => Mark { code: AGREE, call: CallId { comm, sequence } },
            _ => Mark { code: self.what.code, call: self.what.call },
        }
    }

    /// The call that waits and the one rank that it waits for, where it is for one.
    pub(super) fn awaited(&self) -> Option<(Mark, u32)> {
        Some((self.mark(), self.peer?))
    }

    /// The communicator of the call that it is for.
    pub(super) fn comm(&self) -> u64 {
        self.what.call.comm
    }

    /// How often it was looked at.
    pub(crate) fn turns(&self) -> u32 {
        self.polls
    }

    /// The deadline starts again if operations have made progress since the last call, or more ranks are gone (`moves` counts either): messages about waiting
    /// are no progress.
    pub(super) fn begin_anew_if(&mut self, moves: u64) {
        if moves != self.moves {
            self.moves = moves;
            self.looks = None;
        }
    }

    fn named(&self, e: Error) -> Error {
        if self.what.name.is_empty() {
            return e;
        }
        e.in_operation(self.what.name, u64::from(self.what.call.sequence))
    }
}

/// The longest nap of one of so many ranks that share so many cores; 0 cores: that is not known.
pub(crate) fn longest_nap(ranks: usize, cores: u32) -> Duration {
    let ranks = u32::try_from(ranks).unwrap_or(u32::MAX);
    let crowd = ranks.checked_div(RANKS_PER_CORE.saturating_mul(cores)).unwrap_or(1);
    LONGEST_NAP * crowd.clamp(1, MAX_CROWD)
}

impl Engine {
    /// Progresses once and, when nothing moved, looks whether to go on waiting; says how to rest then.
    pub(super) fn step(&mut self, waiting: &mut Waiting) -> Result<Option<Rest>> {
        let _inside = self.heartbeat.enter();
        let moved = match self.progress() {
            Ok(moved) => moved > 0,
            Err(e) => return Err(self.fail(waiting.named(e))),
        };
        if self.core.failure.is_some() {
            return Err(self.fail_as_reported());
        }
        if moved || waiting.polls == 0 {
            self.quiet = None;
        }
        waiting.polls = waiting.polls.wrapping_add(1);
        // A stream of events must not outrun the deadline, but each need not cost a look at the clock.
        if moved && !waiting.polls.is_multiple_of(POLLS_PER_CLOCK) {
            return Ok(None);
        }
        let now = self.clock.now();
        let next = self.look(waiting, now)?;
        if moved {
            return Ok(None);
        }
        if waiting.what.code != 0 {
            self.core.recorder.idle(waiting.what.code, &waiting.what.call);
        }
        let quiet = now.duration_since(*self.quiet.get_or_insert(now));
        Ok(Some(Rest { longest: next.duration_since(now), quiet }))
    }

    /// Does what is due by now. Returns when to look again, at the latest.
    fn look(&mut self, waiting: &mut Waiting, now: Instant) -> Result<Instant> {
        let (deadline, warn_after) = (waiting.deadline, self.core.setup.warn_after);
        let ask_after = query_after(self.core.setup.size);
        let begin = || Looks {
            check_at: now + LIVENESS_EVERY,
            alarms: Alarms::new(now, (deadline, warn_after), ask_after),
        };
        let looks = waiting.looks.get_or_insert_with(begin);
        if now < looks.check_at && now < looks.alarms.next() {
            return Ok(looks.alarms.next());
        }
        looks.check_at = now + LIVENESS_EVERY;
        if let Some(since) = &mut self.core.queried {
            // Also where other ranks query: from here on the answers age.
            since.lasts(now);
        }
        let (due, next) = (looks.alarms.due(now), looks.alarms.next());
        self.record_if_asked(Some(waiting));
        if let Some(e) = self.check_liveness(now) {
            return Err(self.fail(waiting.named(e)));
        }
        if due.tell || due.ask || due.warn.is_some() {
            self.core.status.waits = waiting.mark();
        }
        if due.tell {
            self.tell_awaited(waiting);
            self.core.remind();
        }
        if due.ask {
            self.query_all(now);
        }
        if due.give_up {
            let e = self.timed_out(waiting);
            return Err(self.fail(waiting.named(e)));
        }
        if let Some(since) = due.warn {
            self.warn(waiting, since);
        }
        Ok(next)
    }

    /// Nothing moved: lets other processes run. After a while it sleeps, a hundredth of what was waited already, unless the transport sleeps until
    /// something comes.
    pub(super) fn rest(&mut self, Rest { longest, quiet }: Rest) {
        let nap = (quiet / 100).min(self.longest_nap);
        // What a transport has refused, or other threads wait for, is no event to wake up for.
        let pending = self.crowded || self.core.refused || !self.core.outbox.is_empty();
        let only_events = !self.hooked && !pending && longest > SHORT_REST;
        let wakes = only_events && self.limits.as_ref().is_some_and(|limits| limits.wakes);
        if self.lazy {
            self.clock.sleep(self.longest_nap.max(LONGEST_NAP));
        } else if nap >= SHORTEST_NAP && !wakes {
            self.clock.sleep(if self.hooked { HOOKED_REST } else { nap });
        } else {
            self.idle(longest.min(match (self.hooked, pending) {
                (true, _) => HOOKED_REST,
                (false, true) => SHORT_REST,
                (false, false) => LONG_REST,
            }));
        }
    }

    /// From now on rests are brief, as the program's hook is called between them.
    pub(crate) fn rest_briefly(&mut self) {
        self.hooked = true;
    }

    /// Gives the processor away, for at most `longest`.
    pub(super) fn idle(&mut self, longest: Duration) {
        if self.clock.is_virtual() {
            self.clock.sleep(longest);
        } else if let Some(t) = &mut self.transport {
            t.idle(longest);
        }
    }

    /// Makes progress once unless `done` says that it need not, and says whether it does now. `rests`: gives the processor away when
    /// nothing moved.
    ///
    /// # Errors
    /// As [`Engine::turn`].
    pub(super) fn once(
        &mut self,
        waiting: &mut Waiting,
        rests: bool,
        done: impl Fn(&Core) -> bool,
    ) -> Result<bool> {
        if done(&self.core) {
            return Ok(true);
        }
        self.healthy()?;
        if let Some(rest) = self.step(waiting)?
            && rests
            && !done(&self.core)
        {
            self.rest(rest);
        }
        Ok(done(&self.core))
    }

    /// Progresses until `done` says so.
    ///
    /// # Errors
    /// As [`Engine::turn`].
    pub(super) fn wait_for(
        &mut self,
        waiting: &mut Waiting,
        done: &mut dyn FnMut(&Core) -> bool,
    ) -> Result<()> {
        let gone = self.core.gone_count();
        while !done(&self.core) {
            if let Some(rest) = self.step(waiting)?
                && !done(&self.core)
            {
                self.rest(rest);
            }
            if self.core.gone_count() > gone {
                let e = Error::new(ErrorKind::PeerLost, "a rank is gone while the wire is measured");
                return Err(self.fail(e));
            }
        }
        Ok(())
    }

    /// Tells the rank that we wait for in which call: it may be in another call of that number, or in one before that we have
    /// left, and would not notice.
    fn tell_awaited(&mut self, waiting: &Waiting) {
        let m = &waiting.what;
        let peer = waiting.peer.or_else(|| Some(self.awaited(m.call)?.missing()?.0));
        if let (Some(peer), 1..) = (peer, m.code) {
            self.core.queue(peer, Message::Awaited { call: m.call, code: m.code, hash: m.hash });
        }
    }

    /// The task of a call that we are in.
    fn awaited(&self, call: CallId) -> Option<&Task> {
        self.core.task_ref(self.core.slot_of(call)?)
    }

    /// The error of a wait that lasted too long: what is missing, and the status of every rank.
    pub(super) fn timed_out(&self, waiting: &Waiting) -> Error {
        let core = &self.core;
        let mut text = format!("it has not ended within {} s", waiting.deadline.as_secs_f64());
        let (mut culprit, mut round) = (None, None);
        // Of several operations in flight the one that is waited for.
        let call = if waiting.what.code == 0 { core.status.entered.call } else { waiting.what.call };
        let waited = self.awaited(call).or_else(|| core.task_ref(core.active.first()?));
        let first = match waiting.goal {
            Goal::Call => waiting.peer,
            _ => self.awaited_ranks(waiting).first().copied(),
        };
        let missing = first.map(|peer| (peer, 0, Missing::Call)).or_else(|| waited.and_then(Task::missing));
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
        // A member that is in another call may wait there for a rank that is no member.
        let outside = if behind.is_some() { self.silent_outside(call) } else { Vec::new() };
        if !outside.is_empty() {
            let verb = if outside.len() == 1 { "does" } else { "do" };
            let who = ranks(&outside);
            text.push_str(&format!("; of the ranks outside this communicator {who} {verb} not answer"));
        }
        // Those furthest behind come first.
        for (status, list) in states.iter().take(MAX_STATES_LISTED) {
            text.push_str(&format!("; {}", self.state_of(list, status)));
        }
        if states.len() > MAX_STATES_LISTED {
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

    /// The other members of the call's communicator that have not answered the last question.
    pub(super) fn silent(&self, call: CallId) -> Vec<u32> {
        let mut all = self.members(call);
        all.retain(|r| self.is_silent(*r));
        all
    }

    /// The same of ranks that are no members.
    fn silent_outside(&self, call: CallId) -> Vec<u32> {
        let members = self.members(call);
        let outside = |r: &u32| members.binary_search(r).is_err() && !self.core.is_gone(*r);
        (0..self.core.setup.size).filter(outside).filter(|r| self.is_silent(*r)).collect()
    }

    pub(super) fn is_silent(&self, rank: u32) -> bool {
        let core = &self.core;
        let status = core.statuses.get(&rank);
        rank != core.setup.rank && status.is_none_or(|(round, _)| *round < core.asked_round)
    }

    /// The world ranks of the call's communicator; of all where it is not known.
    pub(super) fn members(&self, call: CallId) -> Vec<u32> {
        let group = self.core.groups.get(&call.comm).and_then(std::sync::Weak::upgrade);
        let mut all = group.map_or_else(|| (0..self.core.setup.size).collect(), |group| group.world_ranks());
        all.retain(|rank| !self.core.is_gone(*rank));
        all.sort_unstable();
        all
    }

    /// The state of each member of the call's communicator, with the ranks that are in it; those furthest behind first.
    pub(super) fn states(&self, call: CallId) -> Vec<(Status, Vec<u32>)> {
        self.states_of(&self.members(call))
    }

    /// The status of this rank or of another one that has answered the last question.
    pub(super) fn status_of(&self, rank: u32) -> Option<Status> {
        let core = &self.core;
        match core.statuses.get(&rank) {
            _ if rank == core.setup.rank => Some(core.status),
            Some((round, status)) if *round >= core.asked_round => Some(*status),
            _ => None,
        }
    }

    /// The same of these ranks.
    pub(super) fn states_of(&self, these: &[u32]) -> Vec<(Status, Vec<u32>)> {
        let mut list: Vec<(Status, Vec<u32>)> = Vec::new();
        // What they wait in is not listed, and does not part those that are listed alike.
        let status = |rank: &u32| Some((*rank, Status { waits: Mark::default(), ..self.status_of(*rank)? }));
        let mut all: Vec<(u32, Status)> = these.iter().filter_map(status).collect();
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
    pub(super) fn state_of(&self, list: &[u32], status: &Status) -> String {
        let verb = if list.len() == 1 { "is" } else { "are" };
        let (entered, completed) = (self.name_of_call(status.entered), self.name_of_call(status.completed));
        match status.entered == status.completed {
            true => format!("{} {verb} behind {completed}", ranks(list)),
            false => format!("{} {verb} in {entered} (completed {completed})", ranks(list)),
        }
    }

    pub(super) fn name_of_call(&self, mark: Mark) -> String {
        match mark.code {
            0 => "nothing yet".to_owned(),
            FINALIZE => "finalize".to_owned(),
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
pub(super) fn ranks(list: &[u32]) -> String {
    match list {
        [one] => format!("rank {one}"),
        _ => {
            let shown: Vec<String> = list.iter().take(8).map(u32::to_string).collect();
            let more = if list.len() > 8 { format!(", … ({} in all)", list.len()) } else { String::new() };
            format!("ranks {}{more}", shown.join(", "))
        }
    }
}
