//! Which rank sends which block to which rank in which round: the round-optimal n-block broadcast schedules on
//! circulant graphs, each rank's share found in O(log p) time and space without communication.
//!
//! Source: Träff, "(Poly)Logarithmic Time Construction of Round-optimal n-Block Broadcast Schedules for
//! Broadcast and irregular Allgather in MPI" (2022, arXiv 2205.10072), and the O(log p) schedules that
//! followed (arXiv 2312.11236, 2407.18004). `docs/schedule.md` maps the paper to functions and tests.
//!
//! # Legend
//! | symbol | meaning | here |
//! |---|---|---|
//! | p | number of ranks | [`Circulant::p`] |
//! | r | a rank, 0 ≤ r < p, counted from the root: (rank − root) mod p | |
//! | q | rounds of a phase, ⌈log2 p⌉ | [`Circulant::q`] |
//! | n | number of blocks | [`Circulant::rounds`] |
//! | k | round of a phase, 0 ≤ k < q | [`Round::k`] |
//! | x | virtual rounds, so that the last phase is a whole one: −(n−1) mod q | in [`Round::offset`] |
//! | skips | skips\[q\] = p, skips\[k\] = ⌈skips\[k+1\]/2⌉; partners in round k are that far apart | [`Circulant::skips`] |
//! | home range | of r > 0: the K with skips\[K\] ≤ r < skips\[K+1\] | |
//! | baseblock | b(r), the first block that r gets, in round K; b(0) = q | [`Circulant::base`] |
//! | recvsched | the block that r gets from (r − skips\[k\]) mod p in round k | [`Circulant::recv`] |
//! | sendsched | the block that r sends to (r + skips\[k\]) mod p in round k | [`Circulant::send`] |
//!
//! Schedule entries count from the phase: 0..q are blocks that the root first sends in this phase, −q..0
//! those of the phase before; each phase adds q. The schedule for p = 9 (skips 1 2 3 5 9, bars where home
//! ranges begin; `circulant schedule -p 9`):
//!
//! ```text
//! rank      0|  1|  2|  3   4|  5   6   7   8
//! base      4|  0|  1|  2   0|  3   0   1   2
//! recv 0   -2|  0| -4| -3  -2| -4  -1  -4  -3
//! recv 1   -3| -2|  1| -4  -3| -2  -2  -1  -4
//! recv 2   -1| -3| -2|  2   0| -3  -3  -2  -1
//! recv 3   -4| -1| -1| -1  -1|  3   0   1   2
//! send 0    0| -4| -3| -2  -4| -1  -4  -3  -2
//! send 1    1| -4| -3| -2  -2| -1  -4  -3  -2
//! send 2    2|  0| -3| -3  -2| -1  -1  -3  -2
//! send 3    3|  0|  1|  2  -4| -1  -1  -1  -1
//! ```
//!
//! # When a schedule is correct
//! Schedules are not unique (p = 17 has hundreds), so [`check()`] judges by conditions, not by tables:
//!
//! 1. (i) What r sends is what its partner expects: send\[r\]\[k\] = recv\[(r + skips\[k\]) mod p\]\[k\].
//! 2. (ii) A rank r > 0 gets its base block b in round K of its home range, and in the other rounds each of
//!    −q..0 but b − q once. The root's row is a permutation of −q..0 (no rank ever sends to the root).
//! 3. (iii) A rank r > 0 sends only what it has: b − q, or what came in an earlier round of this phase. The
//!    root sends block k in round k.
//!
//! For at the start of a phase r has every block older than the phase before, and of that phase exactly
//! its base block. So n blocks reach all ranks in n−1+q rounds, each block each rank exactly once, for
//! every n: fewer are impossible.
//!
//! Nothing here allocates, does I/O or knows a collective.
#![forbid(unsafe_code)]

mod base;
mod check;
pub mod classic;
mod recv;
mod rounds;
mod send;
mod skips;

pub use check::{Violation, check, check_rank};
pub use rounds::{Round, Rounds, block};
pub use skips::{Circulant, Entries, MAX_P, MAX_Q};
