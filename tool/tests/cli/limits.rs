//! Limits of the system: what it refuses is an error that every rank reports, never a signal.

use std::process::{Command, Output};

/// A broadcast of two ranks over shared memory, each under the limit that `words` of a shell set.
fn limited(words: &str) -> Output {
    let tool = env!("CARGO_BIN_EXE_circulant");
    let rank = format!("{words}; exec {tool} bench bcast --bytes 100000 --reps 2");
    // The outer time limit stops a hang only.
    let run =
        ["300", tool, "run", "-n", "2", "--provider", "shm", "--deadline", "60", "--", "sh", "-c", &rank];
    Command::new("timeout").args(run).output().unwrap()
}

/// Exit code 1, and each rank says `want`.
#[track_caller]
fn refused(words: &str, want: &str) {
    let out = limited(words);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{words}: {said}");
    assert!(!said.contains("signal"), "{words}: {said}");
    for rank in 0..2 {
        let named = |l: &&str| l.contains(&format!("rank {rank}")) && l.contains(want);
        assert!(said.lines().find(named).is_some(), "{words}: rank {rank} does not say {want:?}: {said}");
    }
}

/// A file beyond the limit is a signal (SIGXFSZ) to the process that makes it.
#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    refused("ulimit -f 4000", "ulimit -f");
    assert_eq!(limited("ulimit -f unlimited").status.code(), Some(0));
}
