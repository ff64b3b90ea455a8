//! Words and bytes that processes share, and in which order they see them. Under loom cells stand for the memory: each a
//! word that is an atomic, and eight bytes whose every access loom checks.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
use super::mapping::Mapping;
#[cfg(not(loom))]
use super::way::Stores;
#[cfg(not(loom))]
use std::sync::Arc;

/// Sets the flag of a process that changes its memory from now on.
pub(crate) fn close(flag: &AtomicU32) {
    flag.store(1, Ordering::SeqCst);
    // What this process does to its memory after we return comes after the flag, for every reader.
    fence(Ordering::SeqCst);
}

/// Whether what was read before this call is as it was before the [close].
pub(crate) fn was_open(flag: &AtomicU32) -> bool {
    // All reads above come before the look at the flag. The owner sets it, and orders that, before it changes memory: a
    // reader of changed bytes sees the flag.
    fence(Ordering::SeqCst);
    flag.load(Ordering::Relaxed) == 0
}

/// A part of a mapping.
#[cfg(not(loom))]
pub(crate) struct Area {
    map: Arc<Mapping>,
    at: usize,
}

#[cfg(not(loom))]
impl Area {
    /// `len` bytes of the mapping from `at` on, which begin at a multiple of 8.
    pub(crate) fn new(map: &Arc<Mapping>, at: usize, len: usize) -> Option<Self> {
        let inside = at.is_multiple_of(8) && at.checked_add(len).is_some_and(|end| end <= map.len());
        inside.then(|| Self { map: Arc::clone(map), at })
    }

    /// The word at `at`.
    ///
    /// # Safety
    /// It lies inside, `at` is a multiple of 8, and no process touches it otherwise than as an atomic meanwhile.
    pub(crate) unsafe fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: inside the mapping (`new`, the caller's promise), which begins at a page and lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(self.at + at).cast()) }
    }

    /// Copies `len` bytes at `at` to `to`.
    ///
    /// # Safety
    /// They lie inside, no process writes them meanwhile, and `to` is good for as many.
    pub(crate) unsafe fn read(&self, at: usize, to: *mut u8, len: usize) {
        // SAFETY: passed on.
        unsafe { self.read_by(Stores::Microcode, at, to, len) };
    }

    /// As [`Area::read`], by these stores.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn read_by(&self, stores: Stores, at: usize, to: *mut u8, len: usize) {
        // SAFETY: inside the mapping (`new`, the caller's promise).
        unsafe { stores.copy(self.map.as_mut_ptr().add(self.at + at), to, len) };
    }

    /// Copies `len` bytes at `from` to `at`.
    ///
    /// # Safety
    /// They lie inside, no process touches them meanwhile, and `from` is good for as many.
    pub(crate) unsafe fn write(&self, at: usize, from: *const u8, len: usize) {
        // SAFETY: passed on.
        unsafe { self.write_by(Stores::Microcode, at, from, len) };
    }

    /// As [`Area::write`], by these stores.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn write_by(&self, stores: Stores, at: usize, from: *const u8, len: usize) {
        // SAFETY: inside the mapping (`new`, the caller's promise).
        unsafe { stores.copy(from, self.map.as_mut_ptr().add(self.at + at), len) };
    }

    /// Prefetches the cache lines of `len` bytes from `at` on.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize, len: usize) {
        for line in (at & !63..at + len).step_by(64) {
            super::prefetch(self.map.as_mut_ptr().wrapping_add(self.at + line));
        }
    }

    /// Makes the pages of `len` bytes from `at` present, as advice.
    pub(crate) fn populate(&self, at: usize, len: usize) {
        self.map.populate_range((self.at + at) & !4095, len);
    }
}

#[cfg(loom)]
pub(crate) use super::cells::Area;
