//! What the moments cost that waits are made of, in nanoseconds: the constants of waiting come from them. To be pinned to one core, as
//! `ci/cost waits` does: other processes of this program share it, as ranks do.

use std::hint::{black_box, spin_loop};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

/// Batches of which the shortest counts: other work on the machine only adds to it.
const BATCHES: u32 = 200;

fn main() -> Result<(), std::io::Error> {
    if std::env::args().nth(1).is_some() {
        // Another rank, which has nothing to do: until its parent ends it.
        loop {
            yield_now();
        }
    }
    let (flag, lock) = (AtomicU64::new(0), Mutex::new(0));
    let look = || {
        black_box(flag.load(Ordering::Acquire));
        spin_loop();
    };
    row("a look at a flag in the cache, and a pause", shortest(1000, look));
    row(
        "the clock",
        shortest(1000, || {
            black_box(Instant::now());
        }),
    );
    row(
        "a lock that is free",
        shortest(1000, || {
            black_box(lock.lock().is_ok());
        }),
    );
    row("a nap of 1 us", shortest(5, || sleep(Duration::from_micros(1))));
    row("a yield, alone on the core", shortest(1000, yield_now));
    for others in [1, 3, 7] {
        let ranks = Ranks::start(others)?;
        let each = shortest(50, yield_now) / f64::from(others + 1);
        row(&format!("a yield, beside {others} on the core, for each of them"), each);
        drop(ranks);
    }
    Ok(())
}

fn row(what: &str, ns: f64) {
    println!("{what:<55}{ns:>9.1}");
}

/// Nanoseconds of one of `count` in a row, in the shortest batch.
fn shortest(count: u32, mut what: impl FnMut()) -> f64 {
    let batch = |_| {
        let start = Instant::now();
        for _ in 0..count {
            what();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    };
    (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}

/// Processes that share the core.
struct Ranks(Vec<Child>);

impl Ranks {
    fn start(count: u32) -> Result<Self, std::io::Error> {
        let mut ranks = Self(Vec::new());
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            ranks.0.push(command.arg("rank").stdin(Stdio::null()).spawn()?);
        }
        sleep(Duration::from_millis(100));
        Ok(ranks)
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.0 {
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}
