//! What to do after a poll that found nothing: poll on, yield the core, or sleep.

use super::Wait;
use std::time::{Duration, Instant};

/// Empty polls before a wait sleeps that the settings want to ([`Wait::Block`]), or whose core others want. Chosen: the first may have found what
/// was there before, and ranks that run while the core is yielded may send what is waited for. (16 ranks on two cores with natural latency: calls of 1 KB take 0.8 of the time that they take with
/// none, with 1, 4 and 16 about as long; with 1 ms and longer ones nothing changes.)
const POLLS_BEFORE_SLEEP: u32 = 2;
/// How long a wait polls before it sleeps where the settings say nothing. Chosen: some ten times what it costs to wake
/// up.
const POLL_BEFORE_SLEEP: Duration = Duration::from_micros(50);
/// A yield that takes longer than this let another thread run: ten times one that did not (520 to 570 ns, `ci/cost
/// waits`), as here a sleep follows.
const CONTENDED: Duration = Duration::from_micros(5);
/// Sleeps for which a core that was contended is taken to be so still. Chosen;
/// `by_itself_it_sleeps_after_a_while_and_soon_on_a_contended_core` shows it.
const CONTENDED_SLEEPS: u32 = 64;

/// What follows an empty poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Pause,
    Yield,
    Sleep,
}

/// How one endpoint waits.
#[derive(Debug)]
pub(super) struct IdlePolicy {
    /// `None`: by what is seen.
    wait: Option<Wait>,
    /// Empty polls since something happened.
    empty: u32,
    /// When the first of them was followed by a pause.
    since: Option<Instant>,
    /// Sleeps to come without asking how busy the core is.
    contended: u32,
}

impl IdlePolicy {
    /// `asked`: what the user wants; `sleeps`: whether the provider can sleep and wakes up.
    pub(super) fn new(asked: Option<Wait>, sleeps: bool) -> Self {
        let wait = match asked {
            None | Some(Wait::Block) if !sleeps => Some(Wait::Yield),
            asked => asked,
        };
        Self { wait, empty: 0, since: None, contended: 0 }
    }

    /// A poll delivered so much.
    pub(super) fn polled(&mut self, happened: usize) {
        if happened > 0 {
            self.empty = 0;
            self.since = None;
        } else {
            self.empty = self.empty.saturating_add(1);
        }
    }

    /// What to do now.
    pub(super) fn next(&mut self) -> Next {
        match self.wait {
            Some(Wait::Spin) => Next::Pause,
            Some(Wait::Yield) => Next::Yield,
            Some(Wait::Block) if self.empty > POLLS_BEFORE_SLEEP => Next::Sleep,
            Some(Wait::Block) => Next::Yield,
            None if self.contended > 0 && self.empty > POLLS_BEFORE_SLEEP => {
                self.contended -= 1;
                Next::Sleep
            }
            None if self.since.is_some_and(|s| s.elapsed() >= POLL_BEFORE_SLEEP) => Next::Sleep,
            None => Next::Yield,
        }
    }

    /// Yields the core, and measures how long that took.
    pub(super) fn yield_core(&mut self) {
        if self.wait.is_some() {
            return std::thread::yield_now();
        }
        let before = Instant::now();
        self.since.get_or_insert(before);
        std::thread::yield_now();
        if before.elapsed() >= CONTENDED {
            self.contended = CONTENDED_SLEEPS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty_polls(p: &mut IdlePolicy, n: u32) -> Next {
        for _ in 0..n {
            p.polled(0);
        }
        p.next()
    }

    #[test]
    fn an_endpoint_that_cannot_sleep_does_not() {
        for asked in [None, Some(Wait::Block)] {
            let mut p = IdlePolicy::new(asked, false);
            assert_eq!(empty_polls(&mut p, 1000), Next::Yield);
        }
    }

    #[test]
    fn what_was_asked_for_is_done() {
        assert_eq!(empty_polls(&mut IdlePolicy::new(Some(Wait::Spin), true), 1000), Next::Pause);
        assert_eq!(empty_polls(&mut IdlePolicy::new(Some(Wait::Yield), true), 1000), Next::Yield);
        let mut block = IdlePolicy::new(Some(Wait::Block), true);
        assert_eq!(empty_polls(&mut block, POLLS_BEFORE_SLEEP), Next::Yield);
        assert_eq!(empty_polls(&mut block, 1), Next::Sleep);
        block.polled(3);
        assert_eq!(block.next(), Next::Yield);
    }

    #[test]
    fn by_itself_it_sleeps_after_a_while_and_soon_on_a_contended_core() {
        let mut p = IdlePolicy::new(None, true);
        assert_eq!(empty_polls(&mut p, 100), Next::Yield);
        p.since = Instant::now().checked_sub(POLL_BEFORE_SLEEP);
        assert_eq!(p.next(), Next::Sleep);
        p.polled(1);
        assert_eq!(p.next(), Next::Yield);
        p.contended = 1;
        assert_eq!(empty_polls(&mut p, POLLS_BEFORE_SLEEP), Next::Yield, "others run first");
        assert_eq!(empty_polls(&mut p, 1), Next::Sleep);
        assert_eq!(p.next(), Next::Yield, "asks again in the end");
    }
}
