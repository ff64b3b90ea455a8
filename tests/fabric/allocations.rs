//! That the hot path allocates nothing.

use crate::node::{TIMEOUT, nodes};
use circulant::transport::{Posted, Sink};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Counts the allocations of this process's Rust code.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Default)]
struct Counts([usize; 3]);

impl Sink for Counts {
    fn arrival(&mut self, _: u32) {
        self.0[0] += 1;
    }
    fn done(&mut self, _: u64) {
        self.0[1] += 1;
    }
    fn message(&mut self, _: &[u8]) {
        self.0[2] += 1;
    }
    fn lost(&mut self, _: Option<u32>, why: &str) {
        panic!("{why}");
    }
}

pub(crate) fn nothing_is_allocated(provider: &str) {
    let mut nodes = nodes(provider, 2);
    let sources = [8, 300, 9000].map(|len| [nodes[0].source(0, len), nodes[0].source(10_000, len)]);
    let remote = nodes[1].remote;
    let mut counts = [Counts::default(), Counts::default()];
    let start = Instant::now();
    let mut round = |i: usize| {
        let one = &sources[i % 3][..1 + i / 3 % nodes[0].wire.limits().gather.min(2)];
        // SAFETY: the sources lie in the arena and are not written in this test.
        while unsafe { nodes[0].wire.put(1, one, remote.base, remote.key, 7, 7) }.unwrap() == Posted::Again {
            nodes.iter_mut().zip(&mut counts).for_each(|(n, c)| _ = n.wire.poll(c).unwrap());
        }
        while nodes[0].wire.message(1, &[0; 200]).unwrap() == Posted::Again {
            nodes.iter_mut().zip(&mut counts).for_each(|(n, c)| _ = n.wire.poll(c).unwrap());
        }
        while counts[1].0[0] <= i || counts[0].0[1] <= i || counts[1].0[2] <= i {
            nodes.iter_mut().zip(&mut counts).for_each(|(n, c)| _ = n.wire.poll(c).unwrap());
            assert!(start.elapsed() < TIMEOUT, "nothing more happens");
        }
    };
    (0..100).for_each(&mut round);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (100..2000).for_each(&mut round);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "allocations on the hot path");
}
