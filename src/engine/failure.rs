//! How errors travel, and how a rank that waits in vain finds out who is to blame.

use super::core::Suspect;
use super::message::{CallId, HELP, Mark, Message, NONE, Status, kind_code};
use super::{Engine, Waiting};
use crate::buffer::Wire;
use crate::error::{Error, ErrorKind};
use std::time::{Duration, Instant};

/// How long a rank that is about to close goes on talking, so that the others learn why.
const LINGER: Duration = Duration::from_millis(400);
/// After the last message went out, how long the provider gets to move it.
const SETTLE: Duration = Duration::from_millis(30);
/// A peer that is lost for us may only have closed because of an error elsewhere: the news of that is
/// given this long to come before we name the peer.
const SUSPICION: Duration = Duration::from_millis(600);
/// Answers to a question of this age are as good as new ones.
const FRESH: Duration = Duration::from_secs(1);
/// How many different doings a time-out tells of.
const TOLD: usize = 8;

impl Engine {
    /// Ends the world because of `error`, met here: tells everybody, then closes the endpoint. Returns the
    /// error with our whereabouts.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        let _inside = self.beat.enter();
        if self.mark.forked() {
            self.shut();
            return error;
        }
        if self.core.failure.is_some() {
            return self.fail_as_told();
        }
        let mut error = error.at_rank(self.core.setup.rank as usize);
        let now = self.core.status.entered;
        if now != self.core.status.completed {
            error = error.in_operation((self.core.setup.names)(now.code), u64::from(now.call.sequence));
        }
        if let Some(limits) = &self.limits {
            error = error.over(limits.provider.clone());
        }
        let abort = Message::Abort {
            origin: self.core.setup.rank,
            culprit: error.peer().and_then(|p| u32::try_from(p).ok()).unwrap_or(NONE),
            kind: kind_code(error.kind()),
            mark: now,
            round: error.round().unwrap_or(NONE),
            text: match error.remedy() {
                Some(help) => format!("{}{HELP}{help}", error.message()),
                None => error.message().to_owned(),
            },
        };
        self.core.failure = Some(error.clone());
        self.core.outbox.clear();
        self.core.flood(&abort, NONE);
        self.linger();
        self.shut();
        error
    }

    /// Ends the world because another rank said so: passes it on, then closes.
    pub(super) fn fail_as_told(&mut self) -> Error {
        if let Some(relay) = self.core.relay.take() {
            self.core.outbox.clear();
            self.core.flood(&relay, NONE);
            self.linger();
        }
        self.shut();
        let provider = self.limits.as_ref().map(|l| l.provider.clone());
        match (&self.core.failure, provider) {
            (Some(e), Some(provider)) => e.clone().over(provider),
            (Some(e), None) => e.clone(),
            (None, _) => Error::new(ErrorKind::Aborted, "the world ended"),
        }
    }

    /// As [`Engine::fail`], in a call that was refused before it was entered.
    pub(crate) fn fail_in(&mut self, code: u8, call: CallId, error: Error) -> Error {
        self.calls(code, call);
        self.fail(error)
    }

    /// Goes on talking for a moment; trouble is ignored, we are leaving.
    fn linger(&mut self) {
        let start = Instant::now();
        let mut empty_since = None;
        while start.elapsed() < LINGER {
            let Some(transport) = &mut self.transport else { return };
            if transport.poll(&mut self.core).is_err() {
                return;
            }
            self.core.broken = None;
            // What cannot be sent is dropped, and must not keep the rest back.
            let _ = self.flush();
            if self.core.outbox.is_empty() {
                let since = *empty_since.get_or_insert_with(Instant::now);
                if since.elapsed() > SETTLE {
                    return;
                }
            }
            if let Some(t) = &mut self.transport {
                t.idle(Duration::from_millis(1));
            }
        }
    }

    /// Is anybody gone? Launcher first, then what the transport noticed.
    pub(super) fn check_liveness(&mut self, now: Instant) -> Option<Error> {
        if let Some((rank, how)) = self.liveness.as_mut().and_then(|l| l.gone()) {
            let by_signal = how.contains("signal");
            let e = Error::new(ErrorKind::PeerLost, format!("rank {rank} is gone ({how})"))
                .with_peer(rank as usize)
                .help(format!("look for what rank {rank} printed before it ended"));
            if by_signal {
                return Some(e);
            }
            // The first that ended stays the one to blame, and the time runs on: this news comes again and again.
            let known = self.core.suspect.as_ref();
            if known.is_none_or(|s| !s.ended) {
                let since = known.map_or(now, |s| s.since);
                self.core.suspect = Some(Suspect { rank, since, why: how, ended: true });
            }
        }
        let suspect = self.core.suspect.as_ref()?;
        if now.duration_since(suspect.since) < SUSPICION {
            return None;
        }
        let Suspect { rank, why, .. } = suspect.clone();
        let e = if rank == NONE {
            Error::new(ErrorKind::PeerLost, format!("a connection broke: {why}"))
        } else {
            Error::new(ErrorKind::PeerLost, format!("rank {rank} is lost: {why}")).with_peer(rank as usize)
        };
        Some(e.help("look for what that rank printed before it ended"))
    }

    /// Asks every rank what it is doing.
    pub(super) fn ask_everybody(&mut self) {
        // Who waits, waits mostly for the same as others: one question among thousands of ranks is enough.
        if self.core.queried_at.is_none_or(|at| at.elapsed() > FRESH) {
            let (origin, round) = (self.core.setup.rank, self.core.query_round.saturating_add(1));
            self.core.gossip(origin, &Message::Query { origin, round });
        }
        self.core.asked_round = self.core.query_round;
    }

    /// The error of a wait that lasted too long: what is missing, and what every rank says to be doing.
    pub(super) fn timed_out(&self, waiting: &Waiting) -> Error {
        let core = &self.core;
        let mut text = format!("nothing more came within {} s", waiting.deadline.as_secs_f64());
        let (mut culprit, mut round) = (None, None);
        // Of several operations in flight the one that is waited for.
        let call = if waiting.what.code == 0 { core.status.entered.call } else { waiting.what.call };
        let tasks = || core.active.iter().filter_map(|s| core.task_ref(*s));
        let waited = tasks().find(|t| t.meta.call == call).or_else(|| tasks().next());
        let awaited = waiting.peer.map(|peer| (peer, 0, "it has not come to this call".to_owned()));
        let missing = awaited.or_else(|| waited.and_then(super::task::Task::missing));
        if let Some((peer, r, what)) = missing {
            text.push_str(&format!(" (waiting for rank {peer}: {what})"));
            culprit = Some(peer);
            round = Some(r);
        }
        let silent: Vec<u32> = (0..core.setup.size)
            .filter(|r| *r != core.setup.rank)
            .filter(|r| core.statuses.get(r).is_none_or(|(round, _)| *round < core.asked_round))
            .collect();
        let doing = self.doings();
        // Who says nothing is to blame; else who is behind; else who is elsewhere.
        let behind = doing.iter().find(|(s, _)| s.entered.call != call);
        if let Some(rank) = silent.first().or(behind.and_then(|(_, ranks)| ranks.first())) {
            culprit = Some(*rank);
        }
        if !silent.is_empty() {
            let verb = if silent.len() == 1 { "does" } else { "do" };
            text.push_str(&format!("; {} {verb} not answer: stopped, hung or not in a call", ranks(&silent)));
        }
        // Those furthest behind come first.
        for (status, who) in doing.iter().take(TOLD) {
            let verb = if who.len() == 1 { "is" } else { "are" };
            let completed = self.told(status.completed);
            text.push_str(&format!(
                "; {} {verb} in {} (completed {completed})",
                ranks(who),
                self.told(status.entered)
            ));
        }
        if doing.len() > TOLD {
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

    /// Who does what, ranks that do the same together; those furthest behind first.
    fn doings(&self) -> Vec<(Status, Vec<u32>)> {
        let mut list: Vec<(Status, Vec<u32>)> = Vec::new();
        let answers = self.core.statuses.iter().filter(|(_, (round, _))| *round >= self.core.asked_round);
        let mut all: Vec<(u32, Status)> = answers.map(|(r, (_, s))| (*r, *s)).collect();
        all.push((self.core.setup.rank, self.core.status));
        all.sort_by_key(|(r, s)| (s.entered.call.sequence, s.entered.code, *r));
        all.dedup_by_key(|(r, _)| *r);
        for (rank, status) in all {
            match list.iter_mut().find(|(s, _)| *s == status) {
                Some((_, who)) => who.push(rank),
                None => list.push((status, vec![rank])),
            }
        }
        list
    }

    fn told(&self, mark: Mark) -> String {
        match mark.code {
            0 => "nothing yet".to_owned(),
            code => {
                let CallId { comm, sequence } = mark.call;
                let of = match comm {
                    0 => String::new(),
                    _ => format!(" of communicator {}.{}", comm >> 32, comm & u64::from(u32::MAX)),
                };
                format!("{} #{sequence}{of}", (self.core.setup.names)(code))
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
