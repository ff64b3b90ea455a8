//! How long calls take, by operation and size. Off, it costs a look at a flag per call; on, two readings of the tick count
//! and an entry in a histogram. The first call of an operation and size class takes memory, later ones none.

use crate::transport::Ticks;
use hdrhistogram::Histogram;

/// A class holds four times the bytes of the one below: up to 64 bytes, 256, 1024, …, and the last without a limit.
const FIRST_CLASS_BITS: u32 = 6;
/// The bits by which a class is larger than the one below.
const CLASS_BITS: u32 = 2;
/// With these the last but one ends at 16 GiB.
const CLASSES: usize = 16;
/// Codes of operations.
const CODES: usize = 1 << u8::BITS;
/// Longer calls count as this long: an hour at 3 GHz.
const MAX_TICKS: u64 = 10_000_000_000_000;
/// Times are kept to two digits, in 18 KiB for each operation and class.
const DIGITS: u8 = 2;

/// The calls of one operation and size class.
#[derive(Debug)]
struct Class {
    bytes: u64,
    global_bytes: u64,
    ticks: u64,
    histogram: Histogram<u32>,
}

/// All that was measured.
#[derive(Debug)]
pub(super) struct Latencies {
    ticks: Ticks,
    classes: Vec<Option<Box<Class>>>,
}

/// What was measured of one operation and size class, times in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) code: u8,
    /// The most bytes of a call in this class; none: without a limit.
    pub(crate) up_to_bytes: Option<u64>,
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    /// Put by this rank to nodes of other groups.
    pub(crate) global_bytes: u64,
    pub(crate) total: u64,
    pub(crate) least: u64,
    pub(crate) median: u64,
    pub(crate) p99: u64,
    pub(crate) most: u64,
}

/// The class of calls of so many bytes.
fn class_of(bytes: u64) -> usize {
    let bits = u64::BITS - bytes.saturating_sub(1).leading_zeros();
    (bits.saturating_sub(FIRST_CLASS_BITS).div_ceil(CLASS_BITS) as usize).min(CLASSES - 1)
}

/// The most bytes of a class.
fn limit_of(class: usize) -> Option<u64> {
    let class = u32::try_from(class).unwrap_or(u32::MAX);
    (class as usize + 1 < CLASSES).then(|| 1 << (FIRST_CLASS_BITS + CLASS_BITS * class))
}

impl Latencies {
    pub(super) fn new(ticks: Ticks) -> Self {
        Self { ticks, classes: (0..CODES * CLASSES).map(|_| None).collect() }
    }

    /// When a call begins; never 0.
    pub(super) fn begin(&self) -> u64 {
        self.ticks.now().max(1)
    }

    /// Counts a call that has ended: its bytes, the bytes it put to nodes of other groups, and the clock's ticks when it began.
    pub(super) fn end(&mut self, code: u8, [bytes, global_bytes]: [u64; 2], begun: u64) {
        let took = self.ticks.now().saturating_sub(begun);
        let class = &mut self.classes[usize::from(code) * CLASSES + class_of(bytes)];
        if class.is_none() {
            // The bounds are constants that the crate takes, so there is one.
            let histogram = Histogram::new_with_bounds(1, MAX_TICKS, DIGITS).ok();
            *class =
                histogram.map(|histogram| Box::new(Class { bytes: 0, global_bytes: 0, ticks: 0, histogram }));
        }
        if let Some(class) = class {
            class.bytes = class.bytes.saturating_add(bytes);
            class.global_bytes = class.global_bytes.saturating_add(global_bytes);
            class.ticks = class.ticks.saturating_add(took);
            class.histogram.saturating_record(took);
        }
    }

    /// All classes with calls in them, in order.
    pub(super) fn measured(&self) -> impl Iterator<Item = Measured> {
        self.classes.iter().enumerate().filter_map(|(i, class)| {
            let Class { bytes, global_bytes, ticks, histogram } = &**class.as_ref()?;
            Some(Measured {
                code: u8::try_from(i / CLASSES).unwrap_or(u8::MAX),
                up_to_bytes: limit_of(i % CLASSES),
                calls: histogram.len(),
                bytes: *bytes,
                global_bytes: *global_bytes,
                total: *ticks,
                least: histogram.min(),
                median: histogram.value_at_quantile(0.5),
                p99: histogram.value_at_quantile(0.99),
                most: histogram.max(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Clock;
    use std::time::Duration;

    #[test]
    fn each_class_holds_four_times_the_bytes() {
        for (bytes, limit) in [(0, 64), (64, 64), (65, 256), (256, 256), (257, 1024), (1 << 20, 1 << 20)] {
            assert_eq!(limit_of(class_of(bytes)), Some(limit), "{bytes}");
        }
        assert_eq!(limit_of(class_of(u64::MAX)), None);
        assert!((0..CLASSES - 1).all(|class| class_of(limit_of(class).unwrap()) == class));
    }

    #[test]
    fn times_are_kept_by_operation_and_class() {
        let clock = Clock::group(1).remove(0);
        let mut latencies = Latencies::new(clock.ticks());
        // A time of 0 means that a call is not timed.
        clock.sleep(Duration::from_millis(1));
        for ms in 1..=100 {
            let begun = latencies.begin();
            clock.sleep(Duration::from_millis(ms));
            latencies.end(3, [1000, 10], begun);
        }
        latencies.end(3, [8, 0], latencies.begin());
        let [short, long] = latencies.measured().collect::<Vec<_>>()[..] else { panic!("two classes") };
        assert_eq!((short.calls, short.bytes, short.up_to_bytes), (1, 8, Some(64)));
        assert_eq!((long.code, long.calls, long.bytes, long.total), (3, 100, 100_000, 5_050_000_000));
        assert_eq!((short.global_bytes, long.global_bytes), (0, 1000));
        for (found, ms) in [(long.least, 1.0), (long.median, 50.0), (long.p99, 99.0), (long.most, 100.0)] {
            assert!((found as f64 / 1e6 / ms - 1.0).abs() < 0.01, "{found} for {ms} ms");
        }
    }
}
