//! Counting heap allocations, so that "allocates nothing" can be shown instead of believed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);
static MOST_BYTES: AtomicI64 = AtomicI64::new(0);

/// Adds to the bytes in use; a negative number takes away.
fn count_bytes(more: i64) {
    let bytes = BYTES.fetch_add(more, Ordering::Relaxed) + more;
    if more > 0 {
        MOST_BYTES.fetch_max(bytes, Ordering::Relaxed);
    }
}

/// The bytes of an allocation: no layout has more than fit.
fn bytes_of(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

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

/// What `body` returns, and by how many bytes the heap of this process had grown when it was largest meanwhile, and has grown at its end; 0 without
/// [`CountingAllocator`]. What other threads allocate meanwhile counts, too.
pub fn heap_growth<R>(body: impl FnOnce() -> R) -> (R, [i64; 2]) {
    let before = BYTES.load(Ordering::Relaxed);
    MOST_BYTES.store(before, Ordering::Relaxed);
    let done = body();
    let grown = [&MOST_BYTES, &BYTES].map(|bytes| bytes.load(Ordering::Relaxed) - before);
    (done, grown)
}

// SAFETY: every call is handed to the system allocator unchanged; counting touches no memory of its own
// but atomics.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(1, Ordering::Relaxed);
        count_bytes(bytes_of(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        count_bytes(-bytes_of(layout.size()));
        // SAFETY: the caller's promises are passed on; `ptr` came from `System` by the methods here.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(1, Ordering::Relaxed);
        count_bytes(bytes_of(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        count_bytes(bytes_of(new_size) - bytes_of(layout.size()));
        // SAFETY: the caller's promises are passed on; `ptr` came from `System` by the methods here.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}
