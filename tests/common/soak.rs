//! Random calls for long, in several threads on many communicators: memory, descriptors and registered bytes must stay as they are.

use crate::traffic::{Traffic, memory};
use circulant::{Communicator, InPlace, Result, World, ops};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::exit;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long it is.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Between two of them nothing is in flight, and is looked at what is in use.
    pub laps: u64,
    /// Calls of each thread in a lap.
    pub calls: u64,
    pub threads: usize,
    pub seed: u64,
    /// No lap begins later.
    pub limit: Duration,
}

/// What a rank has in use between two laps, at a number of collectives of all ranks and threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub rank: usize,
    pub collectives: u64,
    /// Of these things so much each: [`WHAT`].
    pub used: [u64; WHAT.len()],
}

/// What is looked at, with how much more of it may be in use in the end than after the first fifth. Bytes of memory: what was in flight together, at
/// the most, goes on growing; a byte for ten calls would be more. Pieces on the heap: tables grow that are kept for the next call.
pub const WHAT: [(&str, u64); 5] = [
    ("resident bytes", 2 << 20),
    ("pieces on the heap", 200),
    ("open files", 0),
    ("buffers", 64),
    ("registered bytes", 0),
];

impl Sample {
    fn of(world: &World, collectives: u64) -> Self {
        let (heap, resident, buffers) = memory(world);
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let used = [resident as u64, heap as u64, files as u64, buffers, world.stats().registered_bytes];
        Self { rank: world.rank(), collectives, used }
    }

    /// As a line.
    pub fn line(&self) -> String {
        let used: Vec<String> = self.used.iter().map(u64::to_string).collect();
        format!("sample {} {} {}", self.rank, self.collectives, used.join(" "))
    }

    /// Of such a line.
    pub fn read(line: &str) -> Option<Self> {
        let numbers = line.strip_prefix("sample ")?.split(' ').map(|n| n.parse::<u64>().ok());
        let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        let (rank, collectives) = (usize::try_from(*numbers.first()?).ok()?, *numbers.get(1)?);
        Some(Self { rank, collectives, used: numbers.get(2..)?.try_into().ok()? })
    }
}

/// Makes the calls, each checked, with new communicators in each lap, and gives `show` a sample after each.
pub fn soak(world: &World, length: Length, mut show: impl FnMut(Sample)) -> Result<()> {
    let comm = world.comm();
    let own = (0..length.threads).map(|_| comm.dup()).collect::<Result<Vec<_>>>()?;
    let together = Barrier::new(length.threads);
    let (started, over) = (Instant::now(), AtomicBool::new(false));
    let lap = |comm: &Communicator, lap: u64, thread: usize| {
        let seed = length.seed.wrapping_add(lap << 8 | thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let calls = || -> Result<u64> {
            let mut traffic = Traffic::new(comm, seed)?;
            (0..length.calls).try_for_each(|_| traffic.step())?;
            traffic.rest()?;
            Ok(traffic.led)
        };
        // The other threads would wait for this one.
        match catch_unwind(AssertUnwindSafe(calls)) {
            Ok(Ok(led)) => led,
            Ok(Err(e)) => {
                eprintln!("{e} in lap {lap} of thread {thread}, rank {}", world.rank());
                exit(1)
            }
            Err(_) => exit(101),
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = own[1..]
            .iter()
            .enumerate()
            .map(|(i, comm)| {
                let (together, lap, over) = (&together, &lap, &over);
                scope.spawn(move || {
                    let mut led = 0;
                    for number in 0..length.laps {
                        led += lap(comm, number, i + 1);
                        together.wait();
                        together.wait();
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    led
                })
            })
            .collect();
        let mut led = 0;
        for number in 0..length.laps {
            led += lap(&own[0], number, 0);
            together.wait();
            let late = comm.rank() == 0 && started.elapsed() >= length.limit;
            // Threads make as many calls each, so this number is all but for chance.
            let mut all = [led * length.threads as u64, u64::from(late)];
            comm.allreduce(InPlace, &mut all, ops::Sum)?;
            show(Sample::of(world, all[0]));
            over.store(all[1] > 0, Ordering::Relaxed);
            together.wait();
            if all[1] > 0 {
                break;
            }
        }
        let mut all = [led + others.into_iter().map(|t| t.join().unwrap()).sum::<u64>()];
        comm.allreduce(InPlace, &mut all, ops::Sum)?;
        println!("rank {}: {} collectives", comm.rank(), all[0]);
        Ok(())
    })
}

/// What grows with the calls: of each rank the medians of the third after the first fifth and of the last third.
pub fn growing(samples: &[Sample], ranks: usize) -> Vec<String> {
    let mut found = Vec::new();
    for rank in 0..ranks {
        let ours: Vec<&Sample> = samples.iter().filter(|sample| sample.rank == rank).collect();
        let warm = &ours[ours.len() / 5..];
        let third = warm.len() / 3;
        for (i, (what, more)) in WHAT.into_iter().enumerate() {
            let median = |part: &[&Sample]| {
                let mut used: Vec<u64> = part.iter().map(|sample| sample.used[i]).collect();
                used.sort_unstable();
                used[used.len() / 2]
            };
            let (first, last) = (median(&warm[..=third]), median(&warm[warm.len() - third - 1..]));
            if last > first + more {
                found.push(format!("rank {rank}: {what} grow from {first} to {last}"));
            }
        }
    }
    found
}
