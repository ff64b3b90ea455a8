//! How bytes are written that another core reads next: through the cache or round it, whichever lately took less.
//!
//! Through the cache is faster where both cores share one, by two times. Where they do not, a line that the other core holds is slow
//! to write, and round the cache is up to eight times as fast (docs/design.md, "Lines that another core has read"). No system says
//! which it is: in a virtual machine it changes while a process runs. So the writer looks at the clock around a few parts, and tries
//! the other way now and then. What one rank finds concerns itself alone.

use std::time::Instant;

/// Shorter parts, in bytes, go through the cache. Chosen: a look at the clock (25 ns) is a small part of what longer ones take.
const MIN_WEIGHED_BYTES: usize = 16 << 10;
/// Parts that are timed before a trial. Chosen: the least of some tells what a part takes when the thread is not interrupted.
const TIMED_PARTS: u32 = 8;
/// Parts of a trial. The first one meets what the other way has left in the caches, and does not count. Chosen: few.
const TRIAL_PARTS: u32 = 4;
/// What the writer's time counts for where it goes round the cache, as its reader then fetches from memory. Chosen: through a common cache
/// the writer took up to 2.3 times as long as round it, where several write at once, and all together less; without one 3 to 12 times.
const AROUND_WEIGHT: u64 = 3;
/// Most parts between two trials. Chosen: trials of a way that takes eight times as long then add 3 %.
const MAX_REST_PARTS: u32 = 1024;

/// The way taken, and what is known of both.
#[derive(Debug)]
pub(super) struct Way {
    /// Round the cache.
    around: bool,
    /// Parts since the last trial, and how many there are to be before the next.
    parts: u32,
    rest: u32,
    /// The least time of a byte, in picoseconds, weighed: of the parts before a trial, and of those in it.
    usual: u64,
    tried: u64,
}

impl Default for Way {
    fn default() -> Self {
        Self { around: false, parts: 0, rest: TIMED_PARTS, usual: u64::MAX, tried: u64::MAX }
    }
}

impl Way {
    /// Has `write` write a part of `len` bytes; it is told whether round the cache.
    pub(super) fn pass(&mut self, len: usize, write: impl FnOnce(bool)) {
        if len < MIN_WEIGHED_BYTES {
            return write(false);
        }
        let (around, timed) = self.next();
        if !timed {
            return write(around);
        }
        let begun = Instant::now();
        write(around);
        let picoseconds = begun.elapsed().as_nanos().saturating_mul(1000) / len as u128;
        self.timed(u64::try_from(picoseconds).unwrap_or(u64::MAX));
    }

    /// Whether the next part goes round the cache, and whether it is to be [timed](Way::timed).
    fn next(&mut self) -> (bool, bool) {
        let around = self.around ^ self.is_trial();
        let timed = self.parts + TIMED_PARTS >= self.rest;
        self.parts += u32::from(!timed);
        (around, timed)
    }

    fn is_trial(&self) -> bool {
        self.parts >= self.rest
    }

    /// A byte of this part took so long to write.
    fn timed(&mut self, picoseconds: u64) {
        let weight = if self.around ^ self.is_trial() { AROUND_WEIGHT } else { 1 };
        let picoseconds = picoseconds.saturating_mul(weight);
        if !self.is_trial() {
            self.usual = self.usual.min(picoseconds);
        } else if self.parts > self.rest {
            self.tried = self.tried.min(picoseconds);
        }
        self.parts += 1;
        if self.parts < self.rest + TRIAL_PARTS {
            return;
        }
        // An eighth less: what is about even stays as it is.
        let better = self.tried < self.usual - self.usual / 8;
        self.around ^= better;
        self.rest = if better { 2 * TIMED_PARTS } else { (2 * self.rest).min(MAX_REST_PARTS) };
        (self.parts, self.usual, self.tried) = (0, u64::MAX, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether round the cache is the better way, where a byte takes the writer so long through it and round it.
    fn best(costs: [u64; 2]) -> bool {
        AROUND_WEIGHT * costs[1] < costs[0]
    }

    /// Parts that went the other way than the better one, of `parts`.
    fn wrong(way: &mut Way, costs: [u64; 2], parts: u32) -> u32 {
        let best = best(costs);
        let one = |way: &mut Way| {
            let (around, timed) = way.next();
            if timed {
                way.timed(costs[usize::from(around)]);
            }
            u32::from(around != best)
        };
        (0..parts).map(|_| one(way)).sum()
    }

    #[test]
    fn the_faster_way_is_taken_and_found_again_when_it_changes() {
        let mut way = Way::default();
        for costs in [[25, 36], [400, 60], [80, 36], [400, 60]] {
            // A change is seen at the next trial, which may have been put off.
            wrong(&mut way, costs, 2 * MAX_REST_PARTS);
            assert_eq!(way.around, best(costs));
            let parts = 20 * MAX_REST_PARTS;
            let most = parts / (MAX_REST_PARTS / TRIAL_PARTS);
            assert!(wrong(&mut way, costs, parts) <= most, "trials are few");
        }
        let mut way = Way::default();
        wrong(&mut way, [400, 60], TIMED_PARTS + TRIAL_PARTS);
        assert!(way.around, "the first trial comes at once");
        wrong(&mut way, [90, 31], 3 * MAX_REST_PARTS);
        assert!(way.around, "what is about even stays");
    }

    #[test]
    fn short_parts_go_through_the_cache_and_all_parts_are_written_once() {
        let (mut way, mut written) = (Way::default(), 0);
        way.around = true;
        for i in 0..3 * MAX_REST_PARTS {
            let (len, mut seen) = (MIN_WEIGHED_BYTES - (i % 2) as usize, None);
            way.pass(len, |around| seen = Some(around));
            assert!(len == MIN_WEIGHED_BYTES || seen == Some(false));
            written += u32::from(seen.is_some());
        }
        assert_eq!(written, 3 * MAX_REST_PARTS);
    }
}
