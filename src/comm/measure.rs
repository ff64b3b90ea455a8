//! The raw wire, as measured between ranks 0 and 1.

use super::communicator::Communicator;
use crate::error::Result;
use std::time::Duration;

/// A wire's figures: a put of m bytes arrives after o + L + βm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wire {
    /// L: one-way latency of a small put beyond its overhead, in nanoseconds.
    pub latency_ns: f64,
    /// o: time per put that the sender is busy, in nanoseconds.
    pub overhead_ns: f64,
    /// β: time per byte, in nanoseconds.
    pub byte_ns: f64,
}

impl Communicator {
    /// Half round trips of a put of `bytes` between ranks 0 and 1, `reps` of them (at ranks 0 and 1; empty
    /// elsewhere). The raw wire: no schedule, no open words, no flow control. Collective; the other ranks
    /// sleep meanwhile.
    ///
    /// # Errors
    /// As [`Communicator::bcast`].
    pub fn put_times(&self, bytes: usize, reps: usize) -> Result<Vec<Duration>> {
        if self.size() < 2 {
            return Ok(Vec::new());
        }
        self.alone(|| {
            let mut guard = self.hold();
            let shared = &mut *guard;
            let deadline = self.deadline().unwrap_or(shared.deadline);
            let times = shared.engine.ping_pong(&shared.arena, bytes, reps, deadline);
            times.map_err(|e| shared.engine.fail(e))
        })
        .map(Option::unwrap_or_default)
    }

    /// Measures L, o and β between ranks 0 and 1; all ranks get the same figures. Collective. With one rank
    /// all are 0.
    ///
    /// # Errors
    /// As [`Communicator::bcast`].
    pub fn wire(&self) -> Result<Wire> {
        const LARGE: [usize; 2] = [100_000, 1_000_000];
        let mut figures = [0f64; 3];
        if self.size() > 1 {
            let best = |times: Vec<Duration>| times.iter().min().map_or(0.0, |t| t.as_nanos() as f64);
            let small = best(self.put_times(8, 200)?);
            let overhead = self.alone(|| {
                let mut guard = self.hold();
                let shared = &mut *guard;
                let deadline = self.deadline().unwrap_or(shared.deadline);
                let cost = shared.engine.post_cost(&shared.arena, 64, deadline);
                cost.map_err(|e| shared.engine.fail(e))
            })?;
            let overhead = overhead.map_or(0.0, |t| t.as_nanos() as f64).min(small);
            let near = best(self.put_times(LARGE[0], 20)?);
            let far = best(self.put_times(LARGE[1], 10)?);
            let slope = (far - near) / (LARGE[1] - LARGE[0]) as f64;
            figures = [(small - overhead).max(0.0), overhead, slope.max(0.0)];
            self.bcast(&mut figures, 0)?;
        }
        let [latency_ns, overhead_ns, byte_ns] = figures;
        Ok(Wire { latency_ns, overhead_ns, byte_ns })
    }

    /// Runs `body` at ranks 0 and 1 while the others sleep.
    fn alone<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<Option<R>> {
        self.barrier()?;
        let result = if self.rank() < 2 {
            Some(body()?)
        } else {
            self.hold().engine.lazy = true;
            None
        };
        let after = self.barrier();
        self.hold().engine.lazy = false;
        after.map(|()| result)
    }
}
