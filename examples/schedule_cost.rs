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
    // A step near the golden ratio visits ranks all over the range.
    let stride = u64::from(p) * 618 / 1000 | 1;
    let mut r = 0;
    for _ in 0..repetitions {
        r = (r + stride) % u64::from(p);
        let rank = u32::try_from(r).unwrap_or(0);
        black_box(c.recv(black_box(rank)));
        black_box(c.send(black_box(rank)));
    }
}
