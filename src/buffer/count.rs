//! Counting heap allocations, so that "allocates nothing" can be shown instead of believed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);

/// The system allocator with a counter; a program makes it its `#[global_allocator]` (the tool does).
#[derive(Debug, Default)]
pub struct CountingAllocator;

/// Heap allocations of this process so far; 0 for ever without [`CountingAllocator`].
pub fn allocations() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Heap allocations of this process that were not given back yet; 0 for ever without [`CountingAllocator`].
pub fn live_allocations() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

// SAFETY: every call is handed to the system allocator unchanged; counting touches no memory of its own
// but two atomics.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on; `ptr` came from `System` by the methods here.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on; `ptr` came from `System` by the methods here.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}
