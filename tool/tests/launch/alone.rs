//! Ranks that no launcher started: CIRCULANT_RANK, CIRCULANT_SIZE, CIRCULANT_ROOT.

use crate::job::{self, Job};
use std::os::unix::fs::PermissionsExt;

/// Names of these tests, and whether the test can run here.
pub(crate) fn tests() -> Vec<(&'static str, fn(), bool)> {
    vec![
        ("plain_variables", plain_variables, true),
        ("libfabric_finds_its_presets", libfabric_finds_its_presets, true),
    ]
}

/// Runs `size` ranks that play `role` without a launcher, with one variable more; what each printed.
pub(crate) fn without_launcher(role: &str, size: usize, (name, value): (&str, &str)) -> Vec<job::Done> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let rank = |rank: usize| {
        let mut job = Job::role(role);
        job.env("CIRCULANT_RANK", &rank.to_string()).env("CIRCULANT_SIZE", &size.to_string());
        job.env("CIRCULANT_ROOT", &port).env(name, value);
        job.start();
        job
    };
    // rank 0 comes last
    let mut jobs: Vec<Job> = (0..size).rev().map(rank).collect();
    jobs.iter_mut().rev().map(Job::output).collect()
}

/// Also at rank 0 of a job without a launcher, where a thread of ours keeps the addresses.
fn libfabric_finds_its_presets() {
    for (rank, done) in without_launcher("presets", 2, ("CIRCULANT_JOB", "this-test")).iter().enumerate() {
        let told = done.out.matches("=true").count();
        assert_eq!((done.code, told, done.out.matches("=false").count()), (0, 4, 0), "rank {rank}: {done:?}");
    }
}

/// Ranks without a launcher, and one that dies.
fn plain_variables() {
    let start = |role: &str, size: usize| without_launcher(role, size, ("CIRCULANT_JOB", "this-test"));
    let word = job::scratch("word");
    std::fs::write(&word, "this-test\n").unwrap();
    std::fs::set_permissions(&word, std::fs::Permissions::from_mode(0o600)).unwrap();
    let by_file = without_launcher("values 100", 2, ("CIRCULANT_JOB_FILE", word.to_str().unwrap()));
    std::fs::remove_file(word).unwrap();
    for done in start("values 5000", 4).into_iter().chain(by_file) {
        assert_eq!((done.code, &done.out[..]), (0, "ok\n"), "{done:?}");
    }
    for (rank, done) in start("die kill", 4).iter().enumerate() {
        match rank {
            1 => assert_eq!(done.code, 137, "{done:?}"),
            _ => assert!(done.code == 9 && done.out.contains("gone 1: closed its connection"), "{done:?}"),
        }
    }
}
