//! How a rank waits for node-local ranks: it pauses, yields its core, and naps where that is in vain.

use super::cores::UsableCores;
use crate::config::Wait;
use std::time::{Duration, Instant};

/// Pauses before a rank yields its core, where no other thread wants it: 2.5 us (a look takes 25 ns by `ci/cost waits`), more than a put
/// of a neighbour on the node takes.
const IDLE_SPINS: u32 = 100;
/// A yield that takes longer than this let another thread run: one that did not takes 520 to 570 ns (`ci/cost waits`).
const CONTENDED: Duration = Duration::from_micros(1);
/// A yield that takes as long let a thread run that was not waiting for us: the kernel's scheduler gives slices of 0.7 ms and more to threads that
/// compute, and a neighbour yields as soon as it waits.
const SLICE: Duration = Duration::from_micros(500);
/// No wait pauses for longer because of the last yield. Chosen: as long as some slices.
const LONGEST_PATIENCE: Duration = Duration::from_millis(10);
/// Yields in vain before a nap, where ranks share cores: 55 us, about as long as the nap takes (550 ns and 59 to 65 us by `ci/cost waits`).
const VAIN_YIELDS: u32 = 100;
/// Asked of the kernel, which adds its timer slack of 50 us.
const NAP: Duration = Duration::from_micros(1);

/// How one endpoint, or one communicator's slots, wait.
///
/// Where there are more ranks than cores a yield is to let another rank run. A scheduler that also serves other groups of
/// processes (cgroups, autogroups) lets a thread yield to its own group only, and gives the other groups' slices of some milliseconds when
/// its group's has been used up, also by yields. So a waiting rank sleeps when its yields have let nothing run for a while: what is left of the slice goes
/// to ranks that work. 8 ranks on 2 cores beside a compiler: an allreduce of 64 bytes in 2.5 ms instead of 5.3.
///
/// Where there is a core for each rank and other programs compute on it, a yield is a gift of a whole slice, and what the rank waits for may come a
/// moment later. So it pauses for as long as the last yield took before the next one: at most twice as long as if it had known when to yield (Karlin,
/// Manasse, McGeoch, Owicki, "Competitive randomized algorithms for nonuniform problems", 1994), and the scheduler shares the core by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    /// No setting says how to wait.
    free: bool,
    /// There is a core for each rank of the node.
    pub(super) spins: bool,
    /// There is not.
    naps: bool,
    /// There is not, whatever a setting asks for, and all ranks of the node have [agreed](Self::settle) on it: where their posts lie depends on it.
    pub(super) crowded: bool,
    /// Pauses before the core is yielded: none while another thread wants it, perhaps the rank that we wait for.
    pub(super) idle_spins: u32,
    /// For how long a rank pauses before it yields once more: for as long as its last yield took, where that was a slice of another program.
    patience: Duration,
    /// The end of that time, once it has begun.
    until: Option<Instant>,
    /// Yields in a row that let nothing run.
    vain: u32,
}

impl Pauses {
    /// `spins`: pauses first; `naps`: naps in the end.
    pub(super) fn new(spins: bool, naps: bool) -> Self {
        Self {
            free: false,
            spins,
            naps,
            crowded: false,
            idle_spins: IDLE_SPINS,
            patience: Duration::ZERO,
            until: None,
            vain: 0,
        }
    }

    /// As a setting asks for, or as so many `ranks` of a node can that may all use the cores that this thread may use.
    pub(super) fn of(wait: Option<Wait>, ranks: usize) -> Self {
        let mut this = Self::new(wait == Some(Wait::Spin), false);
        this.free = wait.is_none();
        this.wait_as(ranks, UsableCores::new().count.into());
        this
    }

    /// The `ranks` of the node may use so many `cores` together: what a setting asks for stays.
    pub(super) fn settle(&mut self, ranks: usize, cores: usize) {
        self.crowded = ranks > cores;
        self.wait_as(ranks, cores);
    }

    fn wait_as(&mut self, ranks: usize, cores: usize) {
        if self.free {
            (self.spins, self.naps) = (ranks <= cores, ranks > cores);
        }
    }

    /// Waits a moment, for the `turn`-th time in a row: from 0 on in each wait. Whether another thread ran meanwhile.
    #[inline]
    pub(super) fn next(&mut self, turn: u32) -> bool {
        if turn == 0 {
            (self.vain, self.until) = (0, None);
        }
        if self.spins && (turn < self.idle_spins || self.is_patient()) {
            std::hint::spin_loop();
            return false;
        }
        let start = Instant::now();
        std::thread::yield_now();
        let took = start.elapsed();
        let ran = took > CONTENDED;
        self.yielded(took);
        if self.naps && self.is_in_vain(ran) {
            std::thread::sleep(NAP);
        }
        ran
    }

    /// Whether less time has passed since the last yield, or in this wait, than the last yield took.
    fn is_patient(&mut self) -> bool {
        if self.patience.is_zero() {
            return false;
        }
        let now = Instant::now();
        now < *self.until.get_or_insert(now + self.patience)
    }

    /// The last yield took so long.
    fn yielded(&mut self, took: Duration) {
        let slice = took >= SLICE;
        self.idle_spins = if took > CONTENDED && !slice { 0 } else { IDLE_SPINS };
        self.patience = if slice { took.min(LONGEST_PATIENCE) } else { Duration::ZERO };
        self.until = None;
    }

    /// Whether a nap follows this yield.
    fn is_in_vain(&mut self, ran: bool) -> bool {
        self.vain = if ran { 0 } else { self.vain + 1 };
        if self.vain < VAIN_YIELDS {
            return false;
        }
        self.vain = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nap_follows_yields_that_all_let_nothing_run() {
        let mut pauses = Pauses::new(false, true);
        let mut naps = |yields: u32, ran| (0..yields).filter(|_| pauses.is_in_vain(ran)).count();
        assert_eq!(naps(VAIN_YIELDS - 1, false), 0);
        assert_eq!(naps(1, true), 0, "another thread ran");
        assert_eq!(naps(VAIN_YIELDS - 1, false), 0, "so it is counted anew");
        assert_eq!(naps(1, false), 1);
        assert_eq!(naps(3 * VAIN_YIELDS, false), 3, "and again");
        assert_eq!(naps(3 * VAIN_YIELDS, true), 0);
    }

    /// What a wait begins with is no nap, whatever the waits before it came to.
    #[test]
    fn each_wait_counts_for_itself() {
        let mut pauses = Pauses::new(false, true);
        for _ in 0..3 {
            pauses.vain = VAIN_YIELDS - 1;
            pauses.next(0);
            assert!(pauses.vain <= 1, "{pauses:?}");
        }
        assert!(!Pauses::new(true, false).next(0), "it pauses");
    }

    /// What a rank waits for may come while it pauses.
    #[test]
    fn a_yield_that_gave_a_slice_away_is_not_repeated_at_once() {
        let mut pauses = Pauses::new(true, false);
        pauses.yielded(2 * LONGEST_PATIENCE);
        assert_eq!((pauses.idle_spins, pauses.patience), (IDLE_SPINS, LONGEST_PATIENCE));
        assert!(!pauses.next(0) && pauses.until.is_none(), "a few pauses come first in any wait");
        assert!(!pauses.next(IDLE_SPINS) && pauses.until.is_some(), "and then as long as that yield took");
        assert!(!pauses.next(0) && pauses.until.is_none(), "in each wait");
        pauses.yielded(SLICE - CONTENDED);
        assert_eq!((pauses.idle_spins, pauses.patience), (0, Duration::ZERO), "a rank of ours ran");
        pauses.yielded(CONTENDED);
        assert_eq!((pauses.idle_spins, pauses.patience), (IDLE_SPINS, Duration::ZERO), "none ran");
    }

    /// Ranks that may use different cores would find different numbers by themselves.
    #[test]
    fn ranks_are_taken_to_share_cores_only_where_they_have_agreed_on_it() {
        let mut pauses = Pauses::of(None, usize::MAX);
        assert!(!pauses.crowded && pauses.naps);
        pauses.settle(3, 2);
        assert!(pauses.crowded);
        pauses.settle(3, 3);
        assert!(!pauses.crowded);
    }

    #[test]
    fn ranks_pause_where_there_is_a_core_for_each() {
        let how = |wait, ranks, cores| {
            let mut pauses = Pauses::of(wait, ranks);
            pauses.settle(ranks, cores);
            (pauses.spins, pauses.naps)
        };
        assert_eq!((how(None, 2, 2), how(None, 3, 2)), ((true, false), (false, true)));
        assert_eq!(
            (how(Some(Wait::Spin), 3, 2), how(Some(Wait::Yield), 2, 2)),
            ((true, false), (false, false))
        );
    }
}
