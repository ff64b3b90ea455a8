//! Calls of which it is known for good that they go to the MPI: what is looked at before anything else of a call.
//!
//! The same operation with the same arguments on the same communicator goes the same way, once that is decided. Each thread keeps some
//! such calls, until any communicator or datatype is freed, as handles are used again.

use crate::report::{Operation, Reason};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Arguments that, with operation and communicator, decide where a call goes: two counts, each with its datatype, and the root. What an
/// operation does not have is 0.
pub(crate) type Arguments = [u64; 5];

/// The arguments of an operation with these elements sent and received, and this root.
#[inline]
pub(crate) fn arguments([sent, received]: [(i64, usize); 2], root: c_int) -> Arguments {
    let root = u64::from(root.cast_unsigned());
    [sent.0.cast_unsigned(), sent.1 as u64, received.0.cast_unsigned(), received.1 as u64, root]
}

/// A call, as far as it decides where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) operation: Operation,
    pub(crate) blocks: bool,
    /// As the program passes it.
    pub(crate) comm: usize,
    pub(crate) arguments: Arguments,
}

/// A call that goes to the MPI.
#[derive(Clone, Copy, Debug)]
struct Line {
    key: Key,
    /// [`FREED`] when it was looked at.
    freed: u64,
    reason: Reason,
}

/// The calls that a thread keeps. Two whose hashes are equal take each other's place.
const LINES: usize = 32;

/// How often a communicator or datatype was freed that calls have used.
static FREED: AtomicU64 = AtomicU64::new(0);
/// A thread keeps a call.
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    static KEPT: [Cell<Option<Line>>; LINES] = const { [const { Cell::new(None) }; LINES] };
    /// The communicator of which the last call was kept, [`FREED`] then, and its ranks.
    static RANKS: Cell<(usize, u64, usize)> = const { Cell::new((0, 0, 0)) };
}

/// What [`Key::keep`] needs: how often something was freed, before the call looked at its handles.
pub(crate) fn freed() -> u64 {
    FREED.load(Ordering::Acquire)
}

/// A communicator or datatype was freed.
pub(crate) fn forget() {
    FREED.fetch_add(1, Ordering::Release);
}

impl Key {
    /// Where it is kept: products mix upwards, so the upper bits choose.
    #[inline]
    fn place(&self) -> usize {
        // The odd numbers next to 2^64 times the fractional parts of the square roots of 2, 3, 5, 7, 11, 13 and 17 (as in SHA-512).
        const FACTORS: [u64; 7] = [
            0x6a09_e667_f3bc_c909,
            0xbb67_ae85_84ca_a73b,
            0x3c6e_f372_fe94_f82b,
            0xa54f_f53a_5f1d_36f1,
            0x510e_527f_ade6_82d1,
            0x9b05_688c_2b3e_6c1f,
            0x1f83_d9ab_fb41_bd6b,
        ];
        let [a, b, c, d, e] = self.arguments;
        let first = self.operation as u64 * 2 + u64::from(self.blocks);
        let words = [first, self.comm as u64, a, b, c, d, e];
        let hash =
            words.iter().zip(FACTORS).fold(0u64, |h, (word, by)| h.wrapping_add(word.wrapping_mul(by)));
        let mixed = (hash ^ hash >> 32).wrapping_mul(FACTORS[0]);
        usize::try_from(mixed >> (u64::BITS - LINES.ilog2())).unwrap_or(0)
    }

    /// Why the call goes to the MPI, if that is known.
    #[inline]
    pub(crate) fn reason(&self) -> Option<Reason> {
        if !ANY.load(Ordering::Relaxed) {
            return None;
        }
        let line = KEPT.with(|kept| kept[self.place()].get())?;
        (line.key == *self && line.freed == freed()).then_some(line.reason)
    }

    /// Keeps that the call goes to the MPI. `freed` is what [`freed`] said before the call looked at its handles; `ranks` is the
    /// communicator's size, if it is one of ours.
    pub(crate) fn keep(self, freed: u64, reason: Reason, ranks: Option<usize>) {
        KEPT.with(|kept| kept[self.place()].set(Some(Line { key: self, freed, reason })));
        if let Some(ranks) = ranks {
            RANKS.set((self.comm, freed, ranks));
        }
        ANY.store(true, Ordering::Relaxed);
    }
}

/// The ranks of the communicator, if a call on it was the last that was kept: for operations whose size is a sum.
pub(crate) fn ranks(comm: usize) -> Option<usize> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let (last, then, ranks) = RANKS.get();
    (last == comm && then == freed() && ranks > 0).then_some(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { operation: Operation::Bcast, blocks: true, comm: 7, arguments: [1, 2, 3, 4, 5] };

    /// One test, as what is freed is counted once for the process.
    #[test]
    fn a_call_is_known_until_something_is_freed() {
        assert_eq!((KEY.reason(), ranks(7)), (None, None));
        KEY.keep(freed(), Reason::Slower, Some(3));
        assert_eq!((KEY.reason(), ranks(7), ranks(8)), (Some(Reason::Slower), Some(3), None));
        let others = [
            Key { operation: Operation::Reduce, ..KEY },
            Key { blocks: false, ..KEY },
            Key { comm: 8, ..KEY },
            Key { arguments: [1, 2, 3, 4, 6], ..KEY },
            Key { arguments: [2, 1, 3, 4, 5], ..KEY },
        ];
        for other in others {
            assert_eq!(other.reason(), None, "{other:?}");
        }
        std::thread::scope(|s| s.spawn(|| assert_eq!(KEY.reason(), None, "another thread")).join().is_ok());
        forget();
        assert_eq!((KEY.reason(), ranks(7)), (None, None), "the handles may be others by now");
        let before = freed();
        forget();
        KEY.keep(before, Reason::Slower, Some(3));
        assert_eq!((KEY.reason(), ranks(7)), (None, None), "freed while the call looked");
    }

    #[test]
    fn calls_that_differ_in_one_argument_have_places_of_their_own() {
        for field in 0..5 {
            let mut places: Vec<usize> = (0..LINES)
                .map(|i| {
                    let mut key = KEY;
                    key.arguments[field] = i as u64 * 8;
                    key.place()
                })
                .collect();
            places.sort_unstable();
            places.dedup();
            assert!(places.len() > LINES / 2, "{} places of argument {field}", places.len());
        }
    }
}
