//! Moving more than fits into memory: two buffers, of which one is on the wire while a second thread empties
//! and fills the other. Local trouble is agreed upon every few steps, so that no rank streams in vain.

use crate::agree::agree;
use crate::outcome::Failure;
use circulant::Communicator;
use circulant::comm::Buf;

/// Steps between two agreements; each costs two rounds of small messages.
const STEPS_PER_AGREEMENT: u64 = 8;

/// The local side of a transfer. After its first failure nothing more is asked of it.
pub(crate) trait Local: Send {
    /// Puts what this rank contributes to `step` into the buffer.
    fn fill(&mut self, step: u64, buffer: &mut [u8]) -> Result<(), Failure>;
    /// Takes what all contributed to `step` out of it.
    fn empty(&mut self, step: u64, buffer: &[u8]) -> Result<(), Failure>;
}

/// Two buffers of `len` bytes each. Collective: fails everywhere when one rank has not enough memory.
pub(crate) fn buffers(comm: &Communicator, len: usize) -> Result<[Buf<u8>; 2], Failure> {
    let mine = comm.alloc(len).and_then(|a| Ok([a, comm.alloc(len)?]));
    agree(comm, mine.map_err(|e| Failure::new(1, e.to_string())))
}

/// Runs `steps` steps of `exchange`, which moves one buffer between the ranks. Collective.
pub(crate) fn run(
    comm: &Communicator,
    steps: u64,
    mut buffers: [Buf<u8>; 2],
    local: &mut impl Local,
    mut exchange: impl FnMut(u64, &mut [u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut health = Ok(());
    if steps > 0 {
        health = local.fill(0, &mut buffers[0]);
    }
    for step in 0..steps {
        let [on_the_wire, other] = &mut buffers;
        let at_hand: &mut [u8] = other;
        let (moved, after) = std::thread::scope(|scope| {
            let before = std::mem::replace(&mut health, Ok(()));
            let side = scope.spawn(|| before.and_then(|()| turn(local, step, steps, at_hand)));
            let moved = exchange(step, on_the_wire);
            let after = side
                .join()
                .unwrap_or_else(|_| Err(Failure::new(1, "the thread that reads and writes files failed")));
            (moved, after)
        });
        health = after;
        // A local failure is nearer to the cause than what the wire makes of it, but only the wire's can
        // be reported when the world is broken.
        moved?;
        if step % STEPS_PER_AGREEMENT == STEPS_PER_AGREEMENT - 1 {
            agree(comm, health.clone())?;
        }
        buffers.swap(0, 1);
    }
    if steps > 0 {
        // The last step's data.
        health = health.and_then(|()| local.empty(steps - 1, &buffers[1]));
    }
    agree(comm, health)
}

/// What the second thread does while `step` is on the wire.
fn turn(local: &mut impl Local, step: u64, steps: u64, buffer: &mut [u8]) -> Result<(), Failure> {
    if step > 0 {
        local.empty(step - 1, buffer)?;
    }
    if step + 1 < steps {
        local.fill(step + 1, buffer)?;
    }
    Ok(())
}

/// The part `[from, to)` of `total` bytes that belongs to `step` of `steps`, evenly.
pub(crate) fn part(total: u64, step: u64, steps: u64) -> (u64, u64) {
    let at = |i: u64| {
        let place = u128::from(total) * u128::from(i) / u128::from(steps.max(1));
        u64::try_from(place).unwrap_or(u64::MAX)
    };
    (at(step), at(step + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use circulant::World;
    use proptest::prelude::*;

    /// Contributes its step's number, remembers what it is given.
    struct Log {
        seen: Vec<(u64, u8)>,
        fails_at: u64,
    }

    impl Local for Log {
        fn fill(&mut self, step: u64, buffer: &mut [u8]) -> Result<(), Failure> {
            buffer.fill(u8::try_from(step).unwrap());
            Ok(())
        }

        fn empty(&mut self, step: u64, buffer: &[u8]) -> Result<(), Failure> {
            if step == self.fails_at {
                return Err(Failure::new(1, format!("step {step}")));
            }
            self.seen.push((step, buffer[0]));
            Ok(())
        }
    }

    fn steps(n: u64, fails_at: u64) -> (Result<(), Failure>, Vec<(u64, u8)>, u64) {
        let world = World::init().unwrap();
        let comm = world.comm();
        let mut log = Log { seen: Vec::new(), fails_at };
        let mut exchanged = 0;
        let done = run(&comm, n, buffers(&comm, 8).unwrap(), &mut log, |step, buffer| {
            assert!(u64::from(buffer[0]) == step || step > fails_at, "step {step} holds {}", buffer[0]);
            exchanged += 1;
            Ok(())
        });
        (done, log.seen, exchanged)
    }

    #[test]
    fn every_step_is_filled_exchanged_and_emptied_in_order() {
        for n in [0, 1, 2, 3, 20] {
            let (done, seen, exchanged) = steps(n, u64::MAX);
            assert_eq!(done, Ok(()));
            assert_eq!(exchanged, n);
            assert_eq!(seen, (0..n).map(|i| (i, u8::try_from(i).unwrap())).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_local_failure_ends_it_soon_and_for_good() {
        let (done, seen, exchanged) = steps(100, 3);
        assert_eq!(done, Err(Failure::new(1, "step 3").everywhere()));
        assert_eq!((seen.len(), exchanged), (3, 8));
        let (done, seen, _) = steps(5, 4);
        assert_eq!((done, seen.len()), (Err(Failure::new(1, "step 4").everywhere()), 4));
    }

    proptest! {
        #[test]
        fn parts_are_even_and_complete(total in 0u64..=u64::MAX, steps in 1u64..1000) {
            let mut end = 0;
            for step in 0..steps {
                let (from, to) = part(total, step, steps);
                prop_assert_eq!(from, end);
                prop_assert!(to - from <= total / steps + 1);
                end = to;
            }
            prop_assert_eq!(end, total);
        }
    }
}
