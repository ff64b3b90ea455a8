//! What stands for shared memory under loom: cells, each a word that is an atomic, and eight bytes whose every access loom
//! checks.

use super::Mapping;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;

/// Words and bytes, eight to a cell.
pub(crate) struct Cells(Vec<(AtomicU64, UnsafeCell<[u8; 8]>)>);

// SAFETY: loom reports a thread that touches a cell while another writes it.
unsafe impl Send for Cells {}
// SAFETY: as above.
unsafe impl Sync for Cells {}

impl Cells {
    pub(crate) fn new(len: usize) -> Arc<Self> {
        let cell = |_| (AtomicU64::new(0), UnsafeCell::new([0; 8]));
        Arc::new(Self((0..len.div_ceil(8)).map(cell).collect()))
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.0[at / 8].0
    }

    pub(crate) fn read(&self, at: usize, to: *mut u8, len: usize) {
        for i in 0..len {
            let (cell, byte) = ((at + i) / 8, (at + i) % 8);
            // SAFETY: the callers' promise; loom finds out which other thread touches the cell.
            self.0[cell].1.with(|p| unsafe { to.add(i).write((*p)[byte]) });
        }
    }

    pub(crate) fn write(&self, at: usize, from: *const u8, len: usize) {
        for i in 0..len {
            let (cell, byte) = ((at + i) / 8, (at + i) % 8);
            // SAFETY: the callers' promise; loom finds out which other thread touches the cell.
            self.0[cell].1.with_mut(|p| unsafe { (*p)[byte] = from.add(i).read() });
        }
    }
}

/// What stands for a part of a mapping.
pub(crate) struct Area(pub(crate) Arc<Cells>);

impl Area {
    pub(crate) fn new(_map: &std::sync::Arc<Mapping>, _at: usize, _len: usize) -> Option<Self> {
        None
    }

    pub(crate) unsafe fn word(&self, at: usize) -> &AtomicU64 {
        self.0.word(at)
    }

    pub(crate) unsafe fn read(&self, at: usize, to: *mut u8, len: usize) {
        self.0.read(at, to, len);
    }

    pub(crate) unsafe fn read_by(&self, _stores: super::Stores, at: usize, to: *mut u8, len: usize) {
        self.0.read(at, to, len);
    }

    pub(crate) unsafe fn write(&self, at: usize, from: *const u8, len: usize) {
        self.0.write(at, from, len);
    }

    pub(crate) unsafe fn write_by(&self, _stores: super::Stores, at: usize, from: *const u8, len: usize) {
        self.0.write(at, from, len);
    }

    pub(crate) fn prefetch(&self, _at: usize, _len: usize) {}

    pub(crate) fn populate(&self, _at: usize, _len: usize) {}
}
