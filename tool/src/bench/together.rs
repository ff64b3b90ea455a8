//! How ranks come to begin a repetition at the same time: from a barrier, or at a time of the clock (Hunold and Carpen-Amarie, Reproducible MPI Benchmarking Is Still Not
//! as Easy as You Think, IEEE TPDS 2016).

use circulant::comm::Options;
use circulant::measure::Wire;
use circulant::{Communicator, Result};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The barrier in which all other ranks notify rank 0, and it then notifies them.
const BY_RANK_0: &str = "linear";
/// The broadcast of a time: of an algorithm that is named, so that it is in no trial of what is measured.
const OF_THE_TIME: &str = "binomial";

/// The barrier ahead of each repetition. In `linear` the first rank is notified a latency after rank 0's first put, while rank 0 returns when it has put to all. So where the
/// latency is longer, rank 0 sleeps for the difference. Elsewhere, and on one node, the barrier is chosen as for any call.
#[derive(Debug)]
pub(crate) struct Together {
    comm: Communicator,
    /// For how long this rank sleeps after the barrier: 0 but at rank 0.
    wait: Duration,
    /// How long each rest ahead of a repetition is.
    rest: Duration,
    /// Whether repetitions begin at a time of the clock.
    by_clock: bool,
    /// By which rank 0 tells it.
    telling: Communicator,
}

impl Together {
    /// For the ranks of `comm`. `wire` was measured between its ranks 0 and 1, and `nodes` has the node of each rank. Both must be the same at all ranks.
    pub(crate) fn new(comm: &Communicator, options: Options, wire: &Wire, nodes: &[u32]) -> Self {
        let wait = latency_above_puts(wire, nodes);
        let telling = comm.with(options.clone().algorithm(OF_THE_TIME));
        let options = if wait.is_some() { options.algorithm(BY_RANK_0) } else { options };
        let wait = wait.filter(|_| comm.rank() == 0).unwrap_or_default();
        Self { comm: comm.with(options), wait, rest: Duration::ZERO, by_clock: false, telling }
    }

    /// With a rest ahead of each repetition and, if that is wanted, a second one that all ranks end at one time of their clock.
    pub(crate) fn after(self, rest: Duration, by_clock: bool) -> Self {
        Self { rest, by_clock, ..self }
    }

    pub(crate) fn rest(&self) -> Duration {
        self.rest
    }

    pub(crate) fn is_by_clock(&self) -> bool {
        self.by_clock
    }

    /// What is ahead of a repetition: a rest and a barrier, and a second rest that ends at one time, if that is wanted. The first is there so that a rank that is done does not take
    /// the processor from those that are still in the call. (By clocks that differ, of several machines, each rank sleeps for the second rest at most.) Collective.
    ///
    /// # Errors
    /// As [`Communicator::barrier`].
    pub(crate) fn begin(&self) -> Result<()> {
        std::thread::sleep(self.rest);
        if !self.by_clock {
            return self.barrier();
        }
        self.comm.barrier()?;
        let mut at = [now().saturating_add(u64::try_from(self.rest.as_nanos()).unwrap_or(u64::MAX))];
        self.telling.bcast(&mut at, 0)?;
        std::thread::sleep(Duration::from_nanos(at[0].saturating_sub(now())).min(self.rest));
        Ok(())
    }

    /// Returns at all ranks at about the same time. Collective.
    ///
    /// # Errors
    /// As [`Communicator::barrier`].
    pub(crate) fn barrier(&self) -> Result<()> {
        self.comm.barrier()?;
        std::thread::sleep(self.wait);
        Ok(())
    }
}

/// Nanoseconds on CLOCK_MONOTONIC, which the processes of a machine share.
#[allow(clippy::cast_sign_loss)] // that clock never shows a negative time
pub(crate) fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The latency between ranks 0 and 1 less what puts to all other ranks take, if that is more than nothing and the two are on different nodes. Through shared memory ranks
/// leave a barrier together anyhow.
fn latency_above_puts(wire: &Wire, nodes: &[u32]) -> Option<Duration> {
    let between = nodes.get(1).is_some_and(|node| *node != nodes[0]);
    let longer_ns = wire.latency_ns - wire.overhead_ns * (nodes.len() - 1) as f64;
    let longer = Duration::try_from_secs_f64(longer_ns * 1e-9).ok()?;
    (between && !longer.is_zero()).then_some(longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_0_waits_where_the_latency_is_longer_than_all_puts() {
        let wire = |latency_ns, overhead_ns| Wire { latency_ns, overhead_ns, byte_ns: 80.0 };
        let nodes: Vec<u32> = (0..16).collect();
        assert_eq!(latency_above_puts(&wire(1e6, 5e3), &nodes), Some(Duration::from_micros(925)));
        for (wire, nodes) in [
            (wire(2e3, 5e3), &nodes[..]),
            (Wire::default(), &nodes),
            (wire(1e6, 5e3), &[3; 16]),
            (wire(1e6, 5e3), &[0]),
            (wire(f64::INFINITY, 5e3), &nodes),
            (wire(f64::NAN, 5e3), &nodes),
        ] {
            assert_eq!(latency_above_puts(&wire, nodes), None);
        }
    }
}
