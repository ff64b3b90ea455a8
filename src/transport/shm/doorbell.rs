//! A word in a rank's memory by which it sleeps until a rank of its node has something for it.
//!
//! With many ranks to a core each look of a rank that waits costs the others a turn of that core. So it says that it
//! sleeps, looks once more, and sleeps in the kernel while the word says so. A rank that writes to its ring, or reads a put of it,
//! looks at the word afterwards and wakes it up. Both write first and look then, with a fence in between: one of the two
//! sees what the other wrote (Dekker's order; `models.rs` walks through all of them).

use crate::memory::words::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use rustix::thread::futex;
#[cfg(not(loom))]
use std::time::Duration;

/// What a rank that sleeps is to be woken for, as the word says it: 0 of one that is awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(super) enum For {
    /// What is written to its rings.
    Records = 1,
    /// That, and when its puts have been read.
    Reads = 2,
}

/// The word of a rank that is awake: as memory is at first.
const AWAKE: u32 = 0;

/// Says that the rank sleeps from now on. What it looks at after this is there, or its writer sees the word.
pub(super) fn arm(word: &AtomicU32, what: For) {
    word.store(what as u32, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// It is awake.
pub(super) fn disarm(word: &AtomicU32) {
    word.store(AWAKE, Ordering::Relaxed);
}

/// Whether it has not been woken up since it was armed.
pub(super) fn is_armed(word: &AtomicU32) -> bool {
    word.load(Ordering::Relaxed) != AWAKE
}

/// Whether the rank is to be woken up for `what`, which was done before: it sleeps, and no other rank wakes it.
pub(super) fn claim(word: &AtomicU32, what: For) -> bool {
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) >= what as u32 && word.swap(AWAKE, Ordering::Relaxed) != AWAKE
}

/// Wakes the rank up if it sleeps and waits for `what`, which was done before.
#[cfg(not(loom))]
#[inline]
pub(super) fn ring(word: &AtomicU32, what: For) {
    if claim(word, what) {
        // A rank that is gone has none to wake up; one that sleeps wakes up by itself after a while.
        let _ = futex::wake(word, futex::Flags::empty(), 1);
    }
}

/// Sleeps until the rank is woken up, for at most `longest`.
#[cfg(not(loom))]
pub(super) fn sleep(word: &AtomicU32, longest: Duration) {
    let seen = word.load(Ordering::Relaxed);
    let longest = rustix::time::Timespec::try_from(longest).ok();
    if seen == AWAKE {
        return;
    }
    use rustix::io::Errno;
    match futex::wait(word, futex::Flags::empty(), seen, longest.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        // The kernel has no futex, or forbids it.
        Err(_) => std::thread::yield_now(),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_woken_for_what_it_waits_for_and_once() {
        let word = AtomicU32::new(0);
        assert!(!claim(&word, For::Records), "it is awake");
        arm(&word, For::Records);
        assert!(!claim(&word, For::Reads) && is_armed(&word), "reads are nothing to it");
        assert!(claim(&word, For::Records) && !claim(&word, For::Records) && !is_armed(&word));
        arm(&word, For::Reads);
        assert!(claim(&word, For::Reads) && !claim(&word, For::Records));
        arm(&word, For::Reads);
        assert!(claim(&word, For::Records));
        arm(&word, For::Records);
        disarm(&word);
        assert!(!claim(&word, For::Records));
    }

    /// Of a word that says nothing it does not wait; else until it is woken up, or as long as it may.
    #[test]
    #[cfg_attr(miri, ignore = "Miri knows the time of no other process")]
    fn it_sleeps_until_it_is_woken_up() {
        let word = AtomicU32::new(0);
        sleep(&word, Duration::MAX);
        arm(&word, For::Records);
        sleep(&word, Duration::from_millis(1));
        assert!(is_armed(&word), "it woke up by itself");
        std::thread::scope(|scope| {
            scope.spawn(|| ring(&word, For::Records));
            while is_armed(&word) {
                sleep(&word, Duration::from_secs(3600));
            }
        });
    }
}

#[cfg(loom)]
pub(super) fn ring(_word: &AtomicU32, _what: For) {}

#[cfg(loom)]
pub(super) fn sleep(_word: &AtomicU32, _longest: std::time::Duration) {}
