//! How much of a call passes while its rank computes, as the benchmarks of Ohio State University (OSU) define it.

use std::hint::black_box;
use std::time::Instant;

/// 100·(1 − (t_total − t_compute)/t_pure), from 0 to 100; none where a call takes no time. `pure`: of the call alone,
/// `total`: of the call with the computation between its start and its wait, `compute`: of the computation alone.
pub(crate) fn percent(pure: f64, total: f64, compute: f64) -> Option<f64> {
    (pure > 0.0).then(|| (100.0 * (1.0 - (total - compute) / pure)).clamp(0.0, 100.0))
}

/// A computation that takes a known time where nothing else wants the core: a number of steps, so that it takes longer
/// when something does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    steps_per_ns: f64,
}

impl Work {
    /// Steps that are timed for calibration: some tens of microseconds.
    const SAMPLE: u64 = 1 << 15;

    /// Of how many the quickest counts.
    const SAMPLES: usize = 20;

    pub(crate) fn calibrate() -> Self {
        let once = |_| {
            let start = Instant::now();
            steps(Self::SAMPLE);
            start.elapsed().as_nanos()
        };
        let least = (0..Self::SAMPLES).map(once).min().unwrap_or(0);
        Self { steps_per_ns: Self::SAMPLE as f64 / least.max(1) as f64 }
    }

    /// As many steps as take so many nanoseconds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // times are not negative; the cast saturates
    pub(crate) fn steps_in(self, ns: f64) -> u64 {
        (self.steps_per_ns * ns) as u64
    }
}

/// Computes. No step can begin before the one before it has ended.
pub(crate) fn steps(count: u64) {
    let mut x = black_box(1u64);
    for _ in 0..count {
        x = black_box(x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
    }
    black_box(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_osus() {
        assert_eq!(percent(10.0, 10.0, 10.0), Some(100.0));
        assert_eq!(percent(10.0, 15.0, 10.0), Some(50.0));
        assert_eq!(percent(10.0, 20.0, 10.0), Some(0.0));
        // What was measured a little too long or too short.
        assert_eq!((percent(10.0, 21.0, 10.0), percent(10.0, 9.0, 10.0)), (Some(0.0), Some(100.0)));
        assert_eq!(percent(0.0, 1.0, 1.0), None);
    }

    #[test]
    fn longer_times_are_more_steps() {
        let work = Work::calibrate();
        assert!(work.steps_in(1e9) > work.steps_in(1e6) && work.steps_in(0.0) == 0, "{work:?}");
    }
}
