//! Sleeping where many ranks share a core, until another rank of the node has something for this one.

use super::Shm;
use crate::transport::Posted;
use crate::transport::shm::doorbell::{self, For};
use crate::transport::shm::segment;
use std::time::Duration;

/// Ranks to a core from which on those that wait sleep. Chosen, as many as the engine's naps are counted by (`engine/waiting.rs`): fewer find something
/// when they have yielded once or twice.
const CROWD: usize = 16;
/// Waits in vain before a rank sleeps, in a row. Chosen: each is a yield, in which all other ranks of its core that do not sleep have a turn.
const WAITS_BEFORE_SLEEP: u32 = 2;
/// A rank that may not rest for so long waits for something that would not wake it up, too. Chosen: the engine's rests are 1 ms then, else
/// 4.
const SHORTEST_SLEEP: Duration = Duration::from_millis(2);
/// The longest sleep, for each rank of the core: a deadline, or a rank that is gone, is noticed later by as much. Chosen: to wake up, look and fall asleep
/// takes some 10 µs, so looks in vain are a tenth of what the core does.
const LONGEST_SLEEP_PER_RANK: Duration = Duration::from_micros(100);

impl Shm {
    /// Lets ranks sleep from now on if enough of them share a core. `cores`: how many the ranks of this node may use together, the same number at each
    /// of them, so that all or none sleep and are woken.
    pub(super) fn may_sleep_from_now_on(&mut self, cores: u32) {
        let ranks = self.locals.len();
        let crowd = ranks.checked_div(cores as usize).unwrap_or(0);
        if segment::is_paged(ranks) && crowd >= CROWD {
            let crowd = u32::try_from(crowd).unwrap_or(u32::MAX);
            self.longest_sleep = LONGEST_SLEEP_PER_RANK.saturating_mul(crowd);
            self.limits.wakes = self.may_sleep;
        }
    }

    /// Wakes the rank at `local` up if it sleeps and waits for `what`, which was done before.
    #[inline]
    pub(super) fn wake(&self, local: usize, what: For) {
        if !self.longest_sleep.is_zero()
            && let Some(peer) = &self.peers[local]
        {
            doorbell::ring(peer.segment.doorbell(), what);
        }
    }

    /// Wakes the rank at `local` up for a record that was written to its ring, or that has no room there: the rest of the ring may have become void,
    /// and room comes when the reader has passed it.
    #[inline]
    pub(super) fn after_push(&self, local: usize, pushed: bool) -> Posted {
        self.wake(local, For::Records);
        if pushed { Posted::Yes } else { Posted::Again }
    }

    /// Says that this rank is awake: something has come.
    #[inline]
    pub(super) fn wake_up(&mut self) {
        if self.armed.take().is_some() {
            doorbell::disarm(self.segment.doorbell());
        }
    }

    /// Sleeps, if it is time to, until another rank of the node has something for us. The first time it only says that it does: a poll must
    /// come between, as what came before wakes no rank up.
    pub(super) fn sleeps(&mut self, longest: Duration) -> bool {
        let vain = self.idles >= WAITS_BEFORE_SLEEP && self.deferred == 0;
        if !self.limits.wakes || longest < SHORTEST_SLEEP || !vain {
            return false;
        }
        let reads = self.posted > 0 || !self.streams.queue.is_empty();
        let what = if reads { For::Reads } else { For::Records };
        let word = self.segment.doorbell();
        if self.armed == Some(what) {
            doorbell::sleep(word, self.longest_sleep.max(longest));
            // Woken up, it has to say so again before it sleeps again; after the longest sleep the word still says it.
            self.armed = self.armed.filter(|_| doorbell::is_armed(word));
            // The next poll looks for peers that have closed.
            self.empties = super::CLOSED_CHECK_POLLS - 1;
        } else {
            doorbell::arm(word, what);
            self.armed = Some(what);
        }
        true
    }
}
