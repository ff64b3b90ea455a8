//! Both schedules of REPS ranks of P and nothing else: the work that `ci/instructions` counts.
//!
//! `schedule_cost P REPS`; with REPS = 0 what remains is the program's start.

use std::hint::black_box;

use circulant::schedule::Circulant;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>());
    let (Some(Ok(p @ 1..)), Some(Ok(repetitions))) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: schedule_cost P REPS");
        std::process::exit(2);
    };
    let c = Circulant::new(p);
    // Random ranks, the same ones in every run (xorshift).
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..repetitions {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let rank = u32::try_from(((state >> 32) * u64::from(p)) >> 32).unwrap_or(0);
        black_box(c.recv(black_box(rank)));
        black_box(c.send(black_box(rank)));
    }
}
