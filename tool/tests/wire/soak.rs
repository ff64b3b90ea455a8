//! Random calls for long between processes, with checks, in two threads on many communicators: what is in use must stay as it is.

use crate::job;
use circulant::{Result, World};
use circulant_tests::soak::{Length, Sample, WHAT, growing, soak};
use std::fmt::Write;
use std::time::Duration;

/// Ranks, in a number that two cores run well and where communicators of two of three are made.
const RANKS: usize = 3;
/// What hangs is stopped so long after the last lap may have begun.
const LAST_LAP: Duration = Duration::from_secs(3600);
/// By default no lap begins after these seconds: they are more than `ci/soak` takes on a busy machine.
const SECONDS: u64 = 3600;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// A rank.
pub(crate) fn play() -> Result<()> {
    let world = World::init()?;
    let length = Length {
        laps: number("SOAK_LAPS", 0),
        calls: number("SOAK_CALLS", 0),
        threads: 2,
        seed: number("SOAK_SEED", 0),
        limit: Duration::from_secs(number("SOAK_SECONDS", 0)),
    };
    soak(&world, length, |sample| println!("{}", sample.line()))?;
    world.finalize()
}

/// SOAK_LAPS laps of SOAK_CALLS calls of each of two threads, of which none begins after SOAK_SECONDS; with SOAK_CSV the samples are written to that file.
pub(crate) fn test(provider: &str) {
    let ranks = number("SOAK_RANKS", RANKS as u64) as usize;
    let (laps, calls, seed) = (number("SOAK_LAPS", 10), number("SOAK_CALLS", 100), number("SOAK_SEED", 1));
    let seconds = number("SOAK_SECONDS", SECONDS);
    println!("SOAK_SEED={seed} SOAK_LAPS={laps} SOAK_CALLS={calls}");
    let mut job = job(ranks, "soak", &["--provider", provider, "--wait", "yield"]);
    let settings =
        [("SOAK_LAPS", laps), ("SOAK_CALLS", calls), ("SOAK_SEED", seed), ("SOAK_SECONDS", seconds)];
    for (name, value) in settings {
        job.env(name, &value.to_string());
    }
    job.limit = Duration::from_secs(seconds) + LAST_LAP;
    let done = job.output();
    let samples: Vec<Sample> = done.out.lines().filter_map(Sample::read).collect();
    if let Ok(path) = std::env::var("SOAK_CSV") {
        std::fs::write(path, csv(&samples)).unwrap();
    }
    let last = done.out.lines().filter(|line| line.ends_with(" collectives")).max();
    println!("{provider}: {} in {:?}", last.unwrap_or("none"), done.took);
    assert_eq!((done.code, samples.len() % ranks), (0, 0), "{done:?}");
    assert!(samples.len() >= 10 * ranks, "too few laps: {}", samples.len());
    let growing = growing(&samples, ranks);
    assert!(growing.is_empty(), "{growing:#?}");
}

/// The most that a rank had, as `circulant plot` reads it.
fn csv(samples: &[Sample]) -> String {
    let mut text = "line,calls,value\n".to_owned();
    for (i, (what, _)) in WHAT.into_iter().enumerate() {
        let mut most = std::collections::BTreeMap::new();
        for sample in samples {
            let known = most.entry(sample.collectives).or_insert(0);
            *known = sample.used[i].max(*known);
        }
        most.iter().for_each(|(calls, value)| _ = writeln!(text, "{what},{calls},{value}"));
    }
    text
}
