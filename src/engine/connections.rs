//! Connections that do not come about. A provider may lose sight of one that it makes: libfabric 1.17's tcp stops watching a connection whose first
//! message it could not read at once, and both ends then wait for each other for ever. A rank that does not answer may be one that computes;
//! one that answers other ranks meanwhile has had its turns, so a connection that it has not made by then will not come.

use super::core::Core;
use super::driver::Engine;
use crate::transport::Posted;
use std::time::{Duration, Instant};

/// A connection that has not come about for so long is lost, if its peer answers others. Chosen: a hundred times what connections take on a busy
/// machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// When ranks are asked for their statuses meanwhile. Chosen: half of it, so that the answers have come by then.
const ASK_AFTER: Duration = Duration::from_secs(15);
/// The higher of the two ranks waits for so much longer: else both would take each other for gone. Chosen: far longer than news of it take.
const HIGHER_RANK_WAITS_LONGER: Duration = Duration::from_secs(10);

impl Engine {
    /// What became of a message to `to`.
    pub(super) fn note_connection(&mut self, to: u32, posted: Posted) {
        match posted {
            Posted::Yes if self.core.unconnected.is_empty() => {}
            Posted::Yes => _ = self.core.unconnected.remove(&to),
            Posted::Again => {
                if self.transport.as_ref().is_some_and(|t| t.connects(to)) {
                    self.core.unconnected.entry(to).or_default();
                }
            }
        }
    }

    /// Takes ranks for lost to which no connection comes about.
    pub(super) fn look_at_connections(&mut self, now: Instant) {
        if self.core.unconnected.is_empty() {
            return;
        }
        if self.core.take_unconnected(now) {
            self.query_all(now);
            let asked = self.core.asked_round;
            self.core.unconnected.values_mut().for_each(|one| _ = one.asked.get_or_insert(asked));
        }
    }
}

impl Core {
    /// Takes ranks for lost whose time is over; says whether others are to be asked.
    fn take_unconnected(&mut self, now: Instant) -> bool {
        let (me, mut ask, mut lost) = (self.setup.rank, false, Vec::new());
        for (rank, one) in &mut self.unconnected {
            let lasts = one.lasts.lasts(now);
            let patience = if me > *rank { HIGHER_RANK_WAITS_LONGER } else { Duration::ZERO };
            ask |= lasts >= ASK_AFTER && one.asked.is_none();
            let answered = |asked: u32| self.statuses.get(rank).is_some_and(|(round, _)| *round >= asked);
            if lasts >= CONNECT_TIMEOUT + patience && one.asked.is_some_and(answered) {
                lost.push((*rank, lasts.as_secs()));
            }
        }
        for (rank, seconds) in lost {
            self.unconnected.remove(&rank);
            let why =
                format!("no connection to it has come about for {seconds} s, though it answers other ranks");
            crate::transport::Sink::lost(self, Some(rank), &why);
        }
        ask
    }
}
