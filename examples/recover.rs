//! Loses ranks in the middle of short allreduces and shrinks the communicator: each rank that is left says when the barrier on the new one has
//! ended, each that dies when it died. Run it with `circulant run -n 16 --on-failure continue target/release/examples/recover 3`.
//!
//! `ci/ulfm.c` does the same by MPI's calls.

use circulant::{Error, ErrorKind, Result, World, ops};
use rustix::process::{Signal, getpid, kill_process};
use std::time::SystemTime;

/// Calls before ranks die.
const CALLS_BEFORE: u64 = 200;

/// Nanoseconds since 1970: ranks of one host have the same clock.
fn now_ns() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}

fn main() -> Result<(), Error> {
    let lost: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let world = World::init()?;
    let comm = world.comm().dup()?;
    let (rank, size) = (comm.rank(), comm.size());
    if lost == 0 || size < 2 * lost {
        let what = format!("{lost} of {size} ranks cannot be lost here: one at least, half of them at most");
        return Err(Error::new(ErrorKind::Argument, what));
    }
    // Ranks 1, 1 + size/lost, …
    let every = size / lost;
    let dies = rank % every == 1 && rank / every < lost;
    let mut call = 0;
    let error = loop {
        let failed =
            if dies && call == CALLS_BEFORE { None } else { comm.allreduce_one(1u64, ops::Sum).err() };
        // Also one that hears of another's death before.
        if dies && (call == CALLS_BEFORE || failed.is_some()) {
            println!("died {}", now_ns());
            _ = kill_process(getpid(), Signal::KILL);
        }
        if let Some(e) = failed {
            break e;
        }
        call += 1;
    };
    if !error.is_survived() {
        return Err(error);
    }
    let failed = now_ns();
    comm.revoke()?;
    let mut left = comm.shrink()?;
    // One more may be gone that was not known then.
    while left.barrier().is_err() {
        left.revoke()?;
        left = left.shrink()?;
    }
    println!("failed {failed} works {} among {}", now_ns(), left.size());
    world.finalize()
}
