//! Rooted calls in a row: the root, or the others, run ahead of a rank that is late, as far as there are slots.

use crate::calls::{self, Case};
use crate::{all, print_if_failing, seed};
use circulant::Result;
use circulant_tests::collective::cover::Random;
use std::time::Duration;

/// In elements of 8 bytes: none, one, the most that a short slot holds where ranks share cores and one more, more than a slot holds where they do not, and the most of any.
const LENGTHS: [usize; 7] = [0, 1, 44, 45, 511, 1501, 2048];
/// Longest run of calls of the same root: more than there are slots.
const MAX_RUN: usize = 150;

#[test]
fn what_ranks_post_far_ahead_is_there_when_a_late_one_reads_it() {
    let seed = seed();
    let rooted: Vec<_> = calls::ALL
        .iter()
        .filter(|(name, _)| ["bcast", "reduce", "gather", "scatter"].contains(name))
        .collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for p in [2, 3, (cores + 1).clamp(4, 16)] {
        all(p, |_, comm| {
            let mut random = Random(seed ^ p as u64);
            let mut call = 0;
            for _ in 0..40 {
                // The same at all ranks.
                let [root, late] = [random.below(p), random.below(p)];
                let (name, operation) = rooted[random.below(rooted.len())];
                // Only short posts, or of all lengths.
                let most = if random.below(2) == 0 { 3 } else { LENGTHS.len() };
                for i in 0..1 + random.below(MAX_RUN) {
                    let case =
                        Case { call, len: LENGTHS[random.below(most)], root, in_place: random.below(2) == 0 };
                    if i % 70 == 3 && comm.rank() == late {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    print_if_failing(&format!("{name} at {} of {p}: {case:?}", comm.rank()), || {
                        operation(comm, case)
                    })?;
                    call += 1;
                }
            }
            Result::Ok(())
        });
    }
}
