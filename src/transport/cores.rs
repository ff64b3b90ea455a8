//! The cores of a node: which ones a rank may use, and ranks that have come together on one although there is one for each. Such two give the
//! core away to each other, so the scheduler sees no reason to move one, and they stay there for seconds, at many times the latency.

use crate::hash::Fnv;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// The cores that a rank may use. A launcher may have bound each rank to cores of its own, or all of a node to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UsableCores {
    /// Stands for the set: ranks of one node that may use the same cores have the same number.
    pub(crate) set: u32,
    /// How many; fewer than the set has where a quota (cgroup) says so.
    pub(crate) count: u16,
}

impl UsableCores {
    /// Of this thread, now.
    pub(crate) fn new() -> Self {
        let mut hash = Fnv::new();
        if let Some(set) = allowed() {
            (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).for_each(|core| hash.word(core as u64));
        }
        let [a, b, c, d, ..] = hash.0.to_le_bytes();
        let count = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self { set: u32::from_le_bytes([a, b, c, d]), count: u16::try_from(count).unwrap_or(u16::MAX) }
    }

    /// How many cores the ranks of a node may use together. Two that may not use the same cores are taken to share none.
    pub(crate) fn together(ranks: impl Iterator<Item = Self>) -> u32 {
        let mut sets: Vec<Self> = ranks.collect();
        sets.sort_unstable();
        sets.dedup_by_key(|cores| cores.set);
        sets.iter().map(|cores| u32::from(cores.count)).sum()
    }
}

/// The cores that this thread may use.
fn allowed() -> Option<CpuSet> {
    if cfg!(miri) { None } else { sched_getaffinity(None).ok() }
}

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
        let core = u16::try_from(sched_getcpu()).ok()?;
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
        let Some(allowed) = allowed() else { return };
        let may = |core: &usize| allowed.is_set(*core) && !all.clone().any(on(*core));
        let Some(core) = (0..CpuSet::MAX_CPU).find(may) else { return };
        let mut one = CpuSet::new();
        one.set(core);
        for set in [&one, &allowed] {
            // A refusal leaves us where we are.
            let _ = sched_setaffinity(None, set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_with_cores_of_their_own_have_them_together() {
        let bound = |set, count| UsableCores { set, count };
        let together = |ranks: &[UsableCores]| UsableCores::together(ranks.iter().copied());
        assert_eq!(together(&[bound(7, 1), bound(3, 1), bound(9, 1)]), 3, "each bound to a core");
        assert_eq!(together(&[bound(7, 16), bound(3, 16), bound(7, 16)]), 32, "each bound to a socket");
        assert_eq!(together(&[bound(7, 2); 5]), 2, "not bound");
        assert_eq!(together(&[]), 0);
        let count = UsableCores::new().count;
        assert_eq!(
            together(&[UsableCores::new(); 3]),
            u32::from(count),
            "the same set is known for the same"
        );
    }

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
