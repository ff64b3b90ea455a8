//! How a rank waits for node-local ranks: it pauses, yields its core, and naps where that is in vain.

use std::time::{Duration, Instant};

/// Pauses before a rank yields its core, where no other thread wants it: 2.5 us (a look takes 25 ns by `ci/cost waits`), more than a put
/// of a neighbour on the node takes.
const IDLE_SPINS: u32 = 100;
/// A yield that takes longer than this let another thread run: one that did not takes 520 to 570 ns (`ci/cost waits`).
const CONTENDED: Duration = Duration::from_micros(1);
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    /// There is a core for each rank of the node.
    pub(super) spins: bool,
    /// There is not.
    naps: bool,
    /// Pauses before the core is yielded: none while another thread wants it, perhaps the rank that we wait for.
    pub(super) idle_spins: u32,
    /// Yields in a row that let nothing run.
    vain: u32,
}

impl Pauses {
    /// `spins`: pauses first; `naps`: naps in the end.
    pub(super) fn new(spins: bool, naps: bool) -> Self {
        Self { spins, naps, idle_spins: IDLE_SPINS, vain: 0 }
    }

    /// Waits a moment, for the `turn`-th time in a row. Whether another thread ran meanwhile.
    #[inline]
    pub(super) fn next(&mut self, turn: u32) -> bool {
        if self.spins && turn < self.idle_spins {
            std::hint::spin_loop();
            return false;
        }
        if turn == 0 {
            self.vain = 0;
        }
        let start = Instant::now();
        std::thread::yield_now();
        let ran = start.elapsed() > CONTENDED;
        self.idle_spins = if ran { 0 } else { IDLE_SPINS };
        if self.naps && self.is_in_vain(ran) {
            std::thread::sleep(NAP);
        }
        ran
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
        let mut spins = Pauses::new(true, false);
        spins.vain = 7;
        assert!(!spins.next(0) && spins.vain == 7, "it pauses");
    }
}
