//! What lowering takes of memory. One test, as all threads of a process share its heap.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "../src/memory.rs"]
#[allow(dead_code, reason = "its table is xtask's")]
mod memory;

use circulant::diagnostics::CountingAllocator;
use circulant_core::plan::registry::{Arguments, Operation};
use memory::{Taken, contributions, taken};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Bytes of a step, at most: while it is lowered, and of the program.
const MOST_BYTES: [i64; 2] = [200, 64];

#[test]
fn a_step_takes_bounded_memory_and_named_blocks_take_bounded_steps() {
    let broadcast = Arguments { size: 1000, bytes: 4 << 30, blocks: Some(1_000_000), ..Arguments::default() };
    for (operation, arguments, most_steps) in [
        (Operation::Bcast, broadcast, 2 << 16),
        (Operation::Allgatherv, contributions(10_000, false), 20_000),
        (Operation::Allgatherv, Arguments { blocks: Some(100), ..contributions(10_000, false) }, 2 << 16),
    ] {
        let Taken { steps, bytes } = taken(operation, "circulant", &arguments).unwrap();
        assert!((most_steps / 2..=most_steps).contains(&steps), "{operation}: {steps} steps");
        let each = bytes.map(|bytes| bytes / i64::try_from(steps).unwrap());
        assert!(each[0] <= MOST_BYTES[0] && each[1] <= MOST_BYTES[1], "{operation}: {each:?} bytes a step");
        assert!(each[1] > 0, "nothing is counted");
    }
}
