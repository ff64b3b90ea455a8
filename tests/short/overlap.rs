//! Calls of several threads on one communicator at the same time, in an order on which the ranks agree.

use crate::run;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// At rank 0 a thread begins an allgather while another waits in one that came before it. Both go in more pieces than there are slots, and out of as much memory as posts
/// can have: what the second posts must leave room for what the first has yet to post.
#[test]
fn a_later_call_leaves_room_for_the_pieces_of_an_earlier_one() {
    /// Elements of a block of 4 MiB: pieces of 128 or 256 KiB.
    const LEN: usize = 4 << 17;
    for (p, len) in [(2, LEN), (3, LEN), (2, 8000), (3, 60_000)] {
        let begun = AtomicBool::new(false);
        let results = run(vec![0; p], &[], |world, comm| {
            let r = comm.rank();
            let gathers = |call: u64| {
                let send = vec![call << 8 | r as u64; len];
                let mut all = vec![0; p * len];
                comm.allgather(&send, &mut all)?;
                for (from, block) in all.chunks(len).enumerate() {
                    assert!(
                        block.iter().all(|x| *x == (call << 8 | from as u64)),
                        "call {call}, {from} at {r}"
                    );
                }
                Ok(())
            };
            if r > 0 {
                while !begun.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::thread::sleep(Duration::from_millis(20));
                return gathers(1).and_then(|()| gathers(2));
            }
            let looks = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&looks);
            world.while_waiting(move || _ = counted.fetch_add(1, Ordering::Release));
            std::thread::scope(|scope| {
                let first = scope.spawn(|| gathers(1));
                while looks.load(Ordering::Acquire) == 0 && !first.is_finished() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                begun.store(true, Ordering::Release);
                gathers(2).and(first.join().unwrap())
            })
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}
