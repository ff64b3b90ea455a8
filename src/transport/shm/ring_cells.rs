//! What stands for the memory of a ring under loom.

use crate::memory::cells::Cells;
use crate::memory::words::AtomicU64;
use loom::sync::Arc;

/// What stands for the memory of a ring.
#[derive(Clone)]
pub(super) struct RingMemory {
    cells: Arc<Cells>,
    capacity: usize,
}

impl std::fmt::Debug for RingMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingMemory").finish_non_exhaustive()
    }
}

/// Of a ring: where its bytes begin.
const DATA: usize = 256;

impl RingMemory {
    pub(super) unsafe fn new(_base: *mut u8, capacity: usize) -> Self {
        Self { cells: Cells::new(DATA + capacity), capacity }
    }

    pub(super) fn count(&self, at: usize) -> &AtomicU64 {
        self.cells.word(at)
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn offset(&self, position: u64) -> usize {
        usize::try_from(position % self.capacity as u64).unwrap_or(0)
    }

    pub(super) unsafe fn read(&self, at: usize, to: *mut u8, len: usize) {
        self.cells.read(DATA + at, to, len);
    }

    pub(super) unsafe fn write(&self, at: usize, from: *const u8, len: usize) {
        self.cells.write(DATA + at, from, len);
    }
}
