//! Error propagation, and how a rank learns that another one is gone.

use super::core::Suspect;
use super::driver::Engine;
use super::message::{CallId, HELP, Message, NONE, kind_code};
use super::time::{Linger, Watched, many};
use super::waiting::LONGEST_NAP;
use crate::buffer::Wire;
use crate::error::{Error, ErrorKind};
use crate::record::Why;
use crate::transport::{Limits, Sink};
use std::time::{Duration, Instant};

/// A peer that is lost for us may only have closed because of an error elsewhere: that error
/// is given this long to come before the peer is named, while this rank looks ([`Watched`]). Longer than a rank lingers after an error (`LINGER`, 0.4 s).
const SUSPICION: Duration = Duration::from_millis(600);
/// A status query is not repeated within this time of the last one, of any rank. Chosen: of p ranks that wait together
/// one query a second goes to all, not p. The interval grows with the number of ranks above 256, and of ranks per core above 16.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);

impl Engine {
    /// Ends the world because of `error`, met here: propagates it, then closes the endpoint. Returns the
    /// error with rank, operation and provider. Where the world goes on after `error`, only that.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        let _inside = self.heartbeat.enter();
        if self.mark.forked() {
            self.shut();
            return error;
        }
        if self.core.failure.is_some() {
            return self.fail_as_reported();
        }
        if self.core.goes_on_after(&error) {
            // The call is over.
            self.core.status.completed = self.core.status.entered;
            return self
                .limits
                .as_ref()
                .map_or_else(|| error.clone(), |limits| error.clone().over(limits.wire()));
        }
        let mut error = error.at_rank(self.core.setup.rank as usize);
        let now = self.core.status.entered;
        if now != self.core.status.completed {
            error = error.in_operation(self.core.name_of(now.code), u64::from(now.call.sequence));
        }
        if let Some(limits) = &self.limits {
            error = error.over(limits.wire());
        }
        let culprit = error.peer().and_then(|p| u32::try_from(p).ok()).unwrap_or(NONE);
        let ended = self.liveness.as_mut().and_then(|l| l.gone()).is_some_and(|(rank, _)| rank == culprit);
        // Where a message to a rank that has just ended because of this may not come back, or crashes (psm3).
        let known = ended
            && self.liveness.as_ref().is_some_and(|l| l.is_told_to_all())
            && self.limits.as_ref().is_some_and(|l| l.may_hang);
        let abort = Message::Abort {
            origin: self.core.setup.rank,
            culprit,
            ended,
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
        // The others go on without this rank: its end is none of theirs, also of those that have not heard that they do.
        if !known && !self.core.survivors.cut_off {
            // Nothing reads it there, and some providers do not come back from a message to a process that is gone.
            self.core.propagate(&abort, if ended { culprit } else { NONE });
        }
        self.heartbeat.fails(&error);
        if let Some(liveness) = &mut self.liveness {
            liveness.report(&error);
        }
        self.linger();
        self.record(Why::Error, None);
        self.shut();
        error
    }

    /// Ends the world because of an error that another rank reports: propagates it, then closes.
    pub(super) fn fail_as_reported(&mut self) -> Error {
        if let Some(relay) = self.core.relay.take() {
            self.core.outbox.clear();
            let ended = match relay {
                Message::Abort { ended: true, culprit, .. } => culprit,
                _ => NONE,
            };
            self.core.propagate(&relay, ended);
            if let Some(error) = &self.core.failure {
                self.heartbeat.fails(error);
            }
            self.linger();
            self.record(Why::Error, None);
        }
        self.shut();
        let provider = self.limits.as_ref().map(Limits::wire);
        let error = match (&self.core.failure, provider) {
            (Some(e), Some(provider)) => e.clone().over(provider),
            (Some(e), None) => e.clone(),
            (None, _) => Error::new(ErrorKind::Aborted, "the world ended"),
        };
        if let Some(liveness) = &mut self.liveness {
            liveness.report(&error);
        }
        error
    }

    /// As [`Engine::fail`], in a call that was refused before it was entered.
    pub(crate) fn fail_in(&mut self, code: u8, call: CallId, error: Error) -> Error {
        self.calls(code, call);
        self.fail(error)
    }

    /// Goes on sending for a moment; errors are ignored, as the world ends.
    fn linger(&mut self) {
        let mut linger = Linger::new(self.clock.now());
        loop {
            let Some(transport) = &mut self.transport else { return };
            if transport.poll(&mut self.core).is_err() {
                return;
            }
            self.core.broken = None;
            // What cannot be sent is dropped, and must not keep the rest back.
            let _ = self.flush();
            if linger.is_over(self.clock.now(), !self.core.outbox.is_empty()) {
                return;
            }
            self.idle(Duration::from_millis(1));
        }
    }

    /// Whether a rank is gone. Launcher first, then what the transport noticed.
    pub(super) fn check_liveness(&mut self, now: Instant) -> Option<Error> {
        self.look_at_connections(now);
        if self.core.survives()
            && let Some(e) = self.look_for_gone(now, SUSPICION)
        {
            return Some(e);
        }
        if self.core.survives() && self.core.suspect.is_none() {
            return None;
        }
        if let Some((rank, how)) = self.liveness.as_mut().and_then(|l| l.gone()) {
            let by_signal = how.contains("signal");
            let e = Error::new(ErrorKind::PeerLost, format!("rank {rank} is gone ({how})"))
                .with_peer(rank as usize)
                .help(format!("look for what rank {rank} printed before it ended"));
            if by_signal {
                return Some(e);
            }
            // The first that ended stays the one to blame, and the time runs on: the launcher reports each end again and again.
            let known = self.core.suspect.as_ref();
            if known.is_none_or(|s| !s.ended) {
                let since = known.map_or(Watched::default(), |s| s.since);
                self.core.suspect = Some(Suspect { rank, since, why: how, ended: true });
            }
        }
        let suspect = self.core.suspect.as_mut()?;
        if suspect.since.lasts(now) < SUSPICION {
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

    /// Why a rank cannot be reached that has ended: it may have ended because of an error elsewhere, which is given its time to come. That one is kept,
    /// and [`Engine::fail`] returns it; `error` is what is known without it.
    pub(super) fn reason_of(&mut self, error: Error) -> Error {
        let peer = error.peer().and_then(|peer| u32::try_from(peer).ok());
        if error.kind() != ErrorKind::PeerLost || peer.is_none() || self.core.survives() {
            return error;
        }
        self.core.lost(peer, error.message());
        while self.core.failure.is_none() {
            let now = self.clock.now();
            if let Some(e) = self.core.broken.take().or_else(|| self.check_liveness(now)) {
                return e;
            }
            let Some(transport) = &mut self.transport else { return error };
            if let Err(e) = transport.poll(&mut self.core) {
                return e;
            }
            self.idle(Duration::from_millis(1));
        }
        error
    }

    /// Asks every rank for its status.
    pub(super) fn query_all(&mut self, now: Instant) {
        // On a machine of two cores 1024 ranks took half a minute for their answers.
        let crowd = self.longest_nap.div_duration_f32(LONGEST_NAP).max(1.0);
        let interval = (QUERY_INTERVAL * many(self.core.setup.size)).mul_f32(crowd);
        // Ranks mostly wait for the same: one query among thousands of ranks is enough.
        if self.core.queried.as_mut().is_none_or(|since| since.lasts(now) > interval) {
            let (origin, round) = (self.core.setup.rank, self.core.query_round.saturating_add(1));
            self.core.propagate_status(origin, &Message::Query { origin, round });
        }
        self.core.asked_round = self.core.query_round;
    }
}
