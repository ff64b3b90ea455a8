//! Ranks that no launcher started: CIRCULANT_RANK, CIRCULANT_SIZE, CIRCULANT_ROOT.

use crate::job::{self, Job};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// Names of these tests, and whether the test can run here.
pub(crate) fn tests() -> Vec<(&'static str, fn(), bool)> {
    vec![
        ("plain_variables", plain_variables, true),
        ("libfabric_finds_its_presets", libfabric_finds_its_presets, true),
        ("strangers_are_kept_out_and_told_of", strangers_are_kept_out_and_told_of, true),
    ]
}

/// Runs `size` ranks that play `role` without a launcher, with one variable more; what each printed.
pub(crate) fn without_launcher(role: &str, size: usize, variable: (&str, &str)) -> Vec<job::Done> {
    without_launcher_by(role, size, &free_port(), &[variable])
}

/// As [`without_launcher`], with rank 0 at `port` and more variables.
pub(crate) fn without_launcher_by(
    role: &str,
    size: usize,
    port: &str,
    variables: &[(&str, &str)],
) -> Vec<job::Done> {
    // rank 0 comes last
    let mut jobs: Vec<Job> = (0..size).rev().map(|rank| start(role, (rank, size), port, variables)).collect();
    jobs.iter_mut().rev().map(Job::output).collect()
}

pub(crate) fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A rank of so many, whose rank 0 is at `port`.
pub(crate) fn start(role: &str, (rank, size): (usize, usize), port: &str, variables: &[(&str, &str)]) -> Job {
    let mut job = Job::role(role);
    job.env("CIRCULANT_RANK", &rank.to_string()).env("CIRCULANT_SIZE", &size.to_string());
    job.env("CIRCULANT_ROOT", port);
    for (name, value) in variables {
        job.env(name, value);
    }
    job.start();
    job
}

/// The next line that comes; what there is of it when the connection ends.
pub(crate) fn line(stream: &mut TcpStream) -> String {
    let (mut said, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).is_ok_and(|len| len > 0) && byte != *b"\n" {
        said.push(byte[0]);
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// What the port answers a stranger, until it closes the connection; and from where the stranger came.
fn ask(port: &str, said: &[u8]) -> (String, String) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut stream = loop {
        match TcpStream::connect(port) {
            Ok(stream) => break stream,
            Err(e) => assert!(Instant::now() < until, "{e}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let from = stream.local_addr().unwrap().to_string();
    // It may be closed before all is written or read.
    let _ = stream.write_all(said);
    let (mut all, mut piece) = (Vec::new(), [0; 512]);
    while let Ok(len @ 1..) = stream.read(&mut piece) {
        all.extend_from_slice(&piece[..len]);
    }
    (String::from_utf8_lossy(&all).into_owned(), from)
}

/// A job between whose ranks strangers come to rank 0's port ends well, and its rank 0 says from where they came; a rank that has another
/// word is one of them, and is told.
fn strangers_are_kept_out_and_told_of() {
    let port = free_port();
    let word = [("CIRCULANT_JOB", "this-test")];
    let mut zero = start("values 100", (0, 2), &port, &word);
    let (told, from) = ask(&port, b"cmd=initack pmiid=1/2/this-test\n");
    assert!(told.contains("of another job") && !told.contains("set size"), "{told}");
    for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[b'x'; 1 << 20], b"\0\n"] {
        let (told, _) = ask(&port, said);
        assert!(!told.contains("rc=0"), "{told}");
    }
    let wrong = start("values 100", (1, 2), &port, &[("CIRCULANT_JOB", "another")]).output();
    assert!(wrong.code != 0 && wrong.err.contains("of another job (CIRCULANT_JOB)"), "{wrong:?}");
    let one = start("values 100", (1, 2), &port, &word).output();
    let zero = zero.output();
    assert_eq!(
        (zero.code, one.code, &zero.out[..], &one.out[..]),
        (0, 0, "ok\n", "ok\n"),
        "{zero:?} {one:?}"
    );
    let line =
        format!("circulant: warning: rank 0 has closed a connection from {from}: it keeps the addresses");
    assert!(zero.err.contains(&line), "{zero:?}");
    assert!(!zero.err.contains("this-test") && !wrong.err.contains("this-test"), "the word is not told");
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
