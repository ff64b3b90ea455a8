//! What to do when nothing has come: poll on, give the core away, or sleep.

use super::Wait;
use std::time::{Duration, Instant};

/// Polls that may find nothing before a wait sleeps that was told to.
const EMPTY: u32 = 2;
/// By itself a wait sleeps after so long; waking up costs about a tenth of it.
const SPIN: Duration = Duration::from_micros(50);
/// When giving the core away takes this long, others have work for it.
const CONTENDED: Duration = Duration::from_micros(5);
/// So many sleeps long a core is taken for contended.
const MEMORY: u32 = 64;

/// What a poll in vain is followed by.
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
            Some(Wait::Block) if self.empty > EMPTY => Next::Sleep,
            Some(Wait::Block) => Next::Yield,
            None if self.contended > 0 => {
                self.contended -= 1;
                Next::Sleep
            }
            None if self.since.is_some_and(|s| s.elapsed() >= SPIN) => Next::Sleep,
            None => Next::Yield,
        }
    }

    /// Gives the core away, and sees how long it was gone.
    pub(super) fn give_way(&mut self) {
        if self.wait.is_some() {
            return std::thread::yield_now();
        }
        let before = Instant::now();
        self.since.get_or_insert(before);
        std::thread::yield_now();
        if before.elapsed() >= CONTENDED {
            self.contended = MEMORY;
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
    fn who_cannot_sleep_does_not() {
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
        assert_eq!(empty_polls(&mut block, EMPTY), Next::Yield);
        assert_eq!(empty_polls(&mut block, 1), Next::Sleep);
        block.polled(3);
        assert_eq!(block.next(), Next::Yield);
    }

    #[test]
    fn by_itself_it_sleeps_after_a_while_and_soon_on_a_contended_core() {
        let mut p = IdlePolicy::new(None, true);
        assert_eq!(empty_polls(&mut p, 100), Next::Yield);
        p.since = Instant::now().checked_sub(SPIN);
        assert_eq!(p.next(), Next::Sleep);
        p.polled(1);
        assert_eq!(p.next(), Next::Yield);
        p.contended = 1;
        assert_eq!(empty_polls(&mut p, 1), Next::Sleep);
        assert_eq!(p.next(), Next::Yield, "asks again in the end");
    }
}
