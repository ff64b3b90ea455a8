//! How bytes are written that another core reads next: by vectors, by the processor's microcode, or round the cache, whichever lately took
//! least.
//!
//! Where both cores share a cache, what is written through it is fastest, by two times; `rep movsb` is up to a third faster than vectors there,
//! as it does not first fetch what it overwrites. Where they share none, a line that the other core holds is slow to write by vectors, and round the cache is up to
//! eight times as fast (docs/design.md, "Lines that another core has read"). No system says which it is: in a virtual machine it changes
//! while a process runs. So the writer looks at the clock around a few parts, and tries another way now and then. What one rank finds
//! concerns itself alone.

use super::{Trial, copy, copy_around_cache, copy_by_vectors};
use std::time::Instant;

/// Shorter parts, in bytes, go through the cache. Chosen: a look at the clock (25 ns) is a small part of what longer ones take.
const MIN_WEIGHED_BYTES: usize = 16 << 10;
/// Parts that are timed before a trial. Chosen: the least of some tells what a part takes when the thread is not interrupted.
const TIMED_PARTS: u32 = 8;
/// Parts of a trial. Chosen: few.
const TRIAL_PARTS: u32 = 4;
/// What the writer's time counts for where it goes round the cache, as its reader then fetches from memory. Chosen: through a common cache
/// the writer took up to 2.3 times as long as round it, where several write at once, and all together less; without one 3 to 12 times.
const AROUND_WEIGHT: u64 = 3;
/// Most parts between two trials. Chosen: trials of a way that takes eight times as long then add 3 %.
const MAX_REST_PARTS: u32 = 1024;

/// A way to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// Through the cache, by `rep movsb` where the system's copy is that.
    Microcode,
    /// Through the cache.
    Vectors,
    AroundCache,
}

use Stores::{AroundCache, Microcode, Vectors};

impl Stores {
    /// Copies so.
    ///
    /// # Safety
    /// As [`std::ptr::copy_nonoverlapping`].
    pub(crate) unsafe fn copy(self, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: passed on.
        unsafe {
            match self {
                Microcode => copy(from, to, len),
                Vectors => copy_by_vectors(from, to, len),
                AroundCache => copy_around_cache(from, to, len),
            }
        }
    }

    /// The two others, one after the other.
    fn other(self, second: bool) -> Self {
        match (self, second) {
            (Microcode, false) | (AroundCache, true) => Vectors,
            (Vectors, false) | (Microcode, true) => AroundCache,
            (AroundCache, false) | (Vectors, true) => Microcode,
        }
    }
}

/// The way taken, and what is known of it and of the one that is tried next.
#[derive(Debug)]
pub(crate) struct Way {
    stores: Stores,
    /// The last way through the cache, for short parts.
    through: Stores,
    /// The first of the two others was tried in vain: the second is tried next.
    second: bool,
    /// By the time of a byte, in picoseconds, weighed.
    trial: Trial,
}

impl Default for Way {
    fn default() -> Self {
        Self {
            stores: Microcode,
            through: Microcode,
            second: false,
            trial: Trial::new(TIMED_PARTS, TRIAL_PARTS),
        }
    }
}

impl Way {
    /// Has `write` write a part of `len` bytes; it is told how.
    pub(crate) fn pass(&mut self, len: usize, write: impl FnOnce(Stores)) {
        if len < MIN_WEIGHED_BYTES {
            return write(self.through);
        }
        let (stores, timed) = self.next();
        if !timed {
            return write(stores);
        }
        let begun = Instant::now();
        write(stores);
        let picoseconds = begun.elapsed().as_nanos().saturating_mul(1000) / len as u128;
        self.timed(u64::try_from(picoseconds).unwrap_or(u64::MAX));
    }

    /// How the next part is written, and whether it is to be [timed](Way::timed).
    fn next(&mut self) -> (Stores, bool) {
        let timed = self.trial.next();
        (self.now(), timed)
    }

    fn now(&self) -> Stores {
        if self.trial.is_on() { self.stores.other(self.second) } else { self.stores }
    }

    /// A byte of this part took so long to write. Trials become rarer when both other ways were tried in vain.
    fn timed(&mut self, picoseconds: u64) {
        let weight = if self.now() == AroundCache { AROUND_WEIGHT } else { 1 };
        match self.trial.timed(picoseconds.saturating_mul(weight)) {
            None => {}
            Some(true) => {
                self.stores = self.stores.other(self.second);
                (self.second, *self.trial.rest()) = (false, 2 * TIMED_PARTS);
                if self.stores != AroundCache {
                    self.through = self.stores;
                }
            }
            Some(false) => {
                let rest = self.trial.rest();
                if self.second {
                    *rest = (2 * *rest).min(MAX_REST_PARTS);
                }
                self.second = !self.second;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Stores; 3] = [Microcode, Vectors, AroundCache];

    /// The best way where a byte takes the writer so long in each of [`ALL`].
    fn best(costs: [u64; 3]) -> Stores {
        let weighed = [costs[0], costs[1], AROUND_WEIGHT * costs[2]];
        *(0..3).min_by_key(|i| weighed[*i]).map(|i| &ALL[i]).unwrap()
    }

    /// Parts that went another way than the best one, of `parts`.
    fn wrong(way: &mut Way, costs: [u64; 3], parts: u32) -> u32 {
        let best = best(costs);
        let one = |way: &mut Way| {
            let (stores, timed) = way.next();
            if timed {
                way.timed(costs[ALL.iter().position(|w| *w == stores).unwrap()]);
            }
            u32::from(stores != best)
        };
        (0..parts).map(|_| one(way)).sum()
    }

    #[test]
    fn each_way_tries_the_two_others() {
        for stores in ALL {
            let [a, b] = [stores.other(false), stores.other(true)];
            assert!(a != b && a != stores && b != stores, "{stores:?}: {a:?}, {b:?}");
        }
    }

    #[test]
    fn the_fastest_way_is_taken_and_found_again_when_it_changes() {
        let mut way = Way::default();
        for costs in [[17, 25, 36], [500, 400, 60], [50, 90, 40], [90, 30, 40], [500, 400, 60], [17, 25, 36]]
        {
            // A change is seen at one of the next two trials, which may have been put off.
            wrong(&mut way, costs, 3 * MAX_REST_PARTS);
            assert_eq!(way.stores, best(costs), "{costs:?}");
            let parts = 20 * MAX_REST_PARTS;
            let most = parts / (MAX_REST_PARTS / TRIAL_PARTS);
            assert!(wrong(&mut way, costs, parts) <= most, "trials are few");
        }
        let mut way = Way::default();
        wrong(&mut way, [500, 400, 60], 3 * (2 * TIMED_PARTS + TRIAL_PARTS));
        assert!(way.stores == AroundCache, "the first trials come at once");
        wrong(&mut way, [90, 90, 31], 5 * MAX_REST_PARTS);
        assert!(way.stores == AroundCache, "what is about even stays");
    }

    #[test]
    fn short_parts_go_through_the_cache_and_all_parts_are_written_once() {
        let (mut way, mut written) = (Way::default(), 0);
        way.stores = AroundCache;
        for i in 0..3 * MAX_REST_PARTS {
            let (len, mut seen) = (MIN_WEIGHED_BYTES - (i % 2) as usize, None);
            way.pass(len, |stores| seen = Some(stores));
            assert!(len == MIN_WEIGHED_BYTES || seen.is_some_and(|stores| stores != AroundCache));
            written += u32::from(seen.is_some());
        }
        assert_eq!(written, 3 * MAX_REST_PARTS);
    }
}
