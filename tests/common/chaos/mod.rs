//! Random programs of ranks with random faults, on the simulated wire in turns or as processes: a program is data, and one that fails is
//! shrunk to its shortest. In turns it runs the same each time.

pub mod judge;
pub mod processes;
pub mod program;
pub mod run;
pub mod shrink;
pub mod walk;

use judge::{Limits, Verdict, judge};
use program::{Program, Wire};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A program that takes longer, in real time, hangs: a thousand times what one takes. Counted in small parts: what stops the whole process counts as one.
const HANG: Duration = Duration::from_secs(60);
const HANG_PART: Duration = Duration::from_millis(500);

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

/// Runs `program` on the simulated wire and judges it; aborts the process if it hangs in real time.
pub fn verdict(program: &Program) -> Verdict {
    let (done, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let parts = HANG.as_millis() / HANG_PART.as_millis();
            let waits = |_| ended.recv_timeout(HANG_PART) == Err(RecvTimeoutError::Timeout);
            if (0..parts).all(waits) {
                eprintln!("hangs: {}", program.reproduce());
                std::process::abort();
            }
        });
        let limits = Limits { deadline: run::deadline(program), slack: run::SLACK };
        let verdict = judge(program, &run::run(program).ends, limits);
        drop(done);
        verdict
    })
}

/// Programs of the seeds from `first` on, so many `at_once`. The text of the first that fails, shrunk, is the error.
pub fn many(
    wire: Wire,
    (first, count): (u64, u64),
    at_once: usize,
    verdict: impl Fn(&Program) -> Verdict + Sync,
) -> Result<Tally, String> {
    let (next, tally) = (AtomicU64::new(first), Mutex::new(Tally::default()));
    let failed = Mutex::new(Vec::new());
    let start = Instant::now();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count || lock(&failed).len() >= FAILURES {
                return;
            }
            let program = Program::draw(seed, wire);
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
    std::thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((program, wrong)) = failed.first() {
        let line = |(p, w): &(Program, judge::Wrong)| format!("seed {}: {}: {}\n", p.seed, w.class, w.text);
        let all: String = failed.iter().map(line).collect();
        return Err(all + &report(program, wrong, verdict));
    }
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    let per_minute = tally.programs as f64 * 60.0 / start.elapsed().as_secs_f64();
    let wire = wire.name();
    println!("{wire}: {} programs from seed {first} on, {per_minute:.0} a minute", tally.programs);
    println!("latest end after deadline and last fault: {:.3} s", tally.latest.as_secs_f64());
    for (what, count) in &tally.counts {
        println!("{count:8} {what}");
    }
    Ok(tally)
}

/// What is wrong with `program`, and with the shortest that fails as it does.
fn report(program: &Program, wrong: &judge::Wrong, verdict: impl Fn(&Program) -> Verdict) -> String {
    let (short, last) = shrink::shrink(program, wrong, |program| verdict(program).wrong);
    let mut text = format!("{}: {}\n", wrong.class, wrong.text);
    let _ =
        writeln!(text, "shortest ({} of {} items): {}", short.items.len(), program.items.len(), last.text);
    let _ = writeln!(text, "again: {}", short.reproduce());
    let _ = writeln!(text, "{short:#?}");
    text
}

/// The seeds and items that the environment names.
#[derive(Debug, Default)]
pub struct Chosen {
    /// CHAOS_SEED: this one alone, with the items of CHAOS_KEEP.
    pub seed: Option<u64>,
    /// CHAOS_FIRST.
    pub first: Option<u64>,
    /// CHAOS_SEEDS: so many.
    pub count: Option<u64>,
}

impl Chosen {
    pub fn from_env() -> Self {
        let number = |name| std::env::var(name).ok().and_then(|n| n.parse().ok());
        Self { seed: number("CHAOS_SEED"), first: number("CHAOS_FIRST"), count: number("CHAOS_SEEDS") }
    }

    /// The one program.
    pub fn program(&self, wire: Wire) -> Option<Program> {
        let program = Program::draw(self.seed?, wire);
        let Ok(kept) = std::env::var("CHAOS_KEEP") else { return Some(program) };
        let kept: Vec<usize> = kept.split(',').filter_map(|n| n.parse().ok()).collect();
        Some(program.keep(&kept))
    }
}
