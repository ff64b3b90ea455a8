//! Random programs of ranks with random faults, on the simulated wire in turns: a program is data, runs the same each time, and one
//! that fails is shrunk to its shortest.

pub mod judge;
pub mod program;
pub mod run;
pub mod shrink;

use judge::{Verdict, judge};
use program::Program;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A program that takes longer, in real time, hangs: a thousand times what one takes.
const HANG: Duration = Duration::from_secs(60);

/// After so many that fail no more are run.
const FAILURES: usize = 10;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What many programs came to.
#[derive(Debug, Default)]
pub struct Tally {
    /// How often each outcome was there.
    pub counts: std::collections::BTreeMap<String, u64>,
    pub programs: u64,
    /// The longest time between the last fault and the end of a rank, beyond the deadline.
    pub latest: Duration,
}

/// Runs `program` and judges it; aborts the process if it hangs in real time.
pub fn verdict(program: &Program) -> Verdict {
    let (done, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
                eprintln!("hangs: {}", program.reproduce());
                std::process::abort();
            }
        });
        let verdict = judge(program, &run::run(program));
        drop(done);
        verdict
    })
}

/// Programs of the seeds from `first` on. The text of the first that fails, shrunk, is the error.
pub fn many(first: u64, count: u64) -> Result<Tally, String> {
    let (next, tally) = (AtomicU64::new(first), Mutex::new(Tally::default()));
    let failed = Mutex::new(Vec::new());
    let start = Instant::now();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count || lock(&failed).len() >= FAILURES {
                return;
            }
            let program = Program::draw(seed);
            let verdict = verdict(&program);
            let mut tally = lock(&tally);
            tally.programs += 1;
            tally.latest = tally.latest.max(verdict.late);
            for note in verdict.notes {
                *tally.counts.entry(note).or_default() += 1;
            }
            drop(tally);
            if let Some(wrong) = verdict.wrong {
                lock(&failed).push((program, wrong));
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((program, wrong)) = failed.first() {
        let line = |(p, w): &(Program, judge::Wrong)| format!("seed {}: {}: {}\n", p.seed, w.class, w.text);
        let all: String = failed.iter().map(line).collect();
        return Err(all + &report(program, wrong));
    }
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    let per_minute = tally.programs as f64 * 60.0 / start.elapsed().as_secs_f64();
    println!("{} programs from seed {first} on, {per_minute:.0} a minute", tally.programs);
    println!("latest end after deadline and last fault: {:.3} s", tally.latest.as_secs_f64());
    for (what, count) in &tally.counts {
        println!("{count:8} {what}");
    }
    Ok(tally)
}

/// What is wrong with `program`, and with the shortest that fails as it does.
fn report(program: &Program, wrong: &judge::Wrong) -> String {
    let (short, last) = shrink::shrink(program, wrong, |program| verdict(program).wrong);
    let mut text = format!("{}: {}\n", wrong.class, wrong.text);
    let _ =
        writeln!(text, "shortest ({} of {} items): {}", short.items.len(), program.items.len(), last.text);
    let _ = writeln!(text, "again: {}", short.reproduce());
    let _ = writeln!(text, "{short:#?}");
    text
}
