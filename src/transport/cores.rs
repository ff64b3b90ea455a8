//! Ranks that have come together on one core although there is one for each. Each gives the core away to the other,
//! so the scheduler sees no reason to move one, and they stay there for seconds, at many times the latency.

use rustix::time::{ClockId, clock_gettime};

/// A rank does not move again for this many milliseconds. Chosen: twice [`FRESH_MS`], so that no mark from before the
/// move counts.
const SETTLED_MS: u64 = 20;

/// When we moved last.
#[derive(Debug, Default)]
pub(super) struct Cores {
    moved: Option<u64>,
}

/// Where a rank was and when, for others to see: a core, and milliseconds on the clock that all share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    core: u16,
    at: u64,
}

/// A rank whose mark is older, in milliseconds, may be on another core by now. Chosen: a few time slices of the
/// kernel's scheduler.
const FRESH_MS: u64 = 10;

impl Mark {
    /// Of this thread, now.
    pub(super) fn new() -> Option<Self> {
        if cfg!(miri) {
            return None;
        }
        // SAFETY: takes nothing and touches nothing.
        let core = u16::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        let now = clock_gettime(ClockId::Monotonic);
        let at = u64::try_from(now.tv_sec * 1000 + now.tv_nsec / 1_000_000).ok()?;
        Some(Self { core, at })
    }

    /// As a number, never 0.
    pub(super) fn word(self) -> u64 {
        (self.at + 1) << 16 | u64::from(self.core)
    }

    /// Whether the rank with the mark `word` was on `core` at nearly the same time.
    fn shares(self, word: u64, core: usize) -> bool {
        let [a, b, ..] = word.to_le_bytes();
        (word >> 16).abs_diff(self.at + 1) <= FRESH_MS && usize::from(u16::from_le_bytes([a, b])) == core
    }
}

impl Cores {
    /// Moves to another core that we may use and no rank of `all` is on, if one of the first `before` of them is on ours. Where we
    /// may run stays as it was.
    pub(super) fn separate(&mut self, mine: Mark, before: usize, all: impl Iterator<Item = u64> + Clone) {
        let on = |core| move |word| mine.shares(word, core);
        let shared = all.clone().take(before).any(on(usize::from(mine.core)));
        if !shared || self.moved.is_some_and(|at| mine.at < at + SETTLED_MS) {
            return;
        }
        self.moved = Some(mine.at);
        // SAFETY: of plain integers.
        let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: the set is ours, and as long as we say. 0 is the thread that calls.
        if unsafe { libc::sched_getaffinity(0, size, &raw mut allowed) } != 0 {
            return;
        }
        // SAFETY: the number is one that the set has.
        let may = |core: usize| unsafe { libc::CPU_ISSET(core, &allowed) };
        let most = usize::try_from(libc::CPU_SETSIZE).unwrap_or(0);
        let Some(core) = (0..most).find(|core| may(*core) && !all.clone().any(on(*core))) else { return };
        // SAFETY: of plain integers.
        let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::CPU_SET(core, &mut one) };
        for set in [&one, &allowed] {
            // SAFETY: as above; the sets are read only. A refusal leaves us where we are.
            let _ = unsafe { libc::sched_setaffinity(0, size, std::ptr::from_ref(set)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "moves between cores, by system calls")]
    fn one_of_two_moves_and_may_go_everywhere_as_before() {
        let cores = || std::thread::available_parallelism().unwrap().get();
        let (mut us, before) = (Cores::default(), cores());
        let mine = Mark::new().unwrap();
        let on = |core: u16, at: u64| Mark { core, at }.word();
        // Others elsewhere, or here long ago.
        us.separate(
            mine,
            3,
            [on(mine.core + 1, mine.at), on(mine.core, mine.at - 2 * FRESH_MS), 0].into_iter(),
        );
        assert_eq!(us.moved, None);
        us.separate(mine, 0, [on(mine.core, mine.at)].into_iter());
        assert_eq!(us.moved, None);
        us.separate(mine, 1, [on(mine.core, mine.at + 1)].into_iter());
        assert_eq!((us.moved, cores()), (Some(mine.at), before));
        // It stays for a while.
        let later = |ms| Mark { at: mine.at + ms, ..mine };
        us.separate(later(SETTLED_MS - 1), 2, [later(0).word(), later(SETTLED_MS).word()].into_iter());
        assert_eq!(us.moved, Some(mine.at));
        // Nowhere to go.
        us.separate(later(SETTLED_MS), usize::MAX, (0..u16::MAX).map(|core| on(core, mine.at + SETTLED_MS)));
        assert_eq!((us.moved, cores()), (Some(mine.at + SETTLED_MS), before));
    }
}
