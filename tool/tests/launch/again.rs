//! Worlds one after the other in the processes of a job.

use crate::alone::without_launcher;
use crate::job::{Done, Job, have, run_role};
use circulant::{Result, World, ops};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::time::Duration;

/// Names of these tests, and whether the test can run here.
pub(crate) fn tests() -> Vec<(&'static str, fn(), bool)> {
    let (hydra, mpirun) = (have("mpiexec.hydra"), have("mpirun.openmpi"));
    vec![
        ("worlds_under_our_launcher", worlds_under_our_launcher, true),
        ("worlds_without_a_launcher", worlds_without_a_launcher, true),
        ("worlds_by_a_word_from_a_pipe", worlds_by_a_word_from_a_pipe, true),
        ("worlds_under_hydra", worlds_under_hydra, hydra),
        ("worlds_under_mpirun", worlds_under_mpirun, mpirun),
        ("worlds_after_a_failure", worlds_after_a_failure, true),
        ("worlds_and_an_abort_between", worlds_and_an_abort_between, hydra),
        ("worlds_and_a_rank_that_leaves", worlds_and_a_rank_that_leaves, hydra && mpirun),
    ]
}

/// The settings of the worlds that follow each other.
const WORLDS: [&[(&str, &str)]; 5] = [
    &[("provider", "tcp"), ("blocks", "1")],
    &[("provider", "shm"), ("progress", "thread")],
    &[("provider", "tcp"), ("wait", "yield")],
    &[("provider", "fi_shm")],
    &[("provider", "auto")],
];

/// What a rank does here.
pub(crate) fn play(part: &str) {
    match part {
        "all" => all(),
        "fail" => fail(),
        "abort" => leave_between(|| std::process::abort()),
        "leave" => leave_between(|| exit(0)),
        other => panic!("there is no part {other}"),
    }
}

fn world(settings: &[(&str, &str)]) -> Result<World> {
    let builder = World::builder().set("deadline", "40");
    settings.iter().fold(builder, |b, (name, value)| b.set(name, value)).init()
}

/// Makes a world, checks what it computes, and ends it.
fn life(number: usize, settings: &[(&str, &str)]) -> Result<()> {
    let world = world(settings)?;
    let (rank, size) = (world.rank(), world.size());
    if settings[0].1 != "auto" && size > 1 {
        let by_shm = settings[0].1 == "shm";
        assert_eq!(world.provider() == "shm", by_shm, "world {number}: {}", world.provider());
    }
    for len in [1, 20_000] {
        let mine: Vec<u64> = (0..len).map(|i| (i + rank * number) as u64).collect();
        let mut sums = vec![0; len];
        world.comm().allreduce(&mine, &mut sums, ops::Sum)?;
        let others = number * size * (size - 1) / 2;
        assert!((0..len).all(|i| sums[i] == (i * size + others) as u64), "world {number} of rank {rank}");
    }
    world.finalize()
}

/// What this process has open: descriptors by what they lead to, threads, and shared memory of ours.
fn open() -> BTreeMap<String, usize> {
    let mut open = BTreeMap::new();
    let mut count = |what: String| *open.entry(what).or_insert(0) += 1;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        // A thread may have closed it meanwhile.
        let Ok(link) = std::fs::read_link(entry.path()) else { continue };
        let link = link.to_string_lossy();
        // Sockets and pipes have numbers of their own.
        count(link.split(":[").next().unwrap().to_owned());
    }
    for entry in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        count(format!("thread {}", name.trim()));
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|l| l.contains("memfd:")).for_each(|_| count("mapped memory".to_owned()));
    open
}

/// Descriptors that a launcher's connection has at most: the connection, the side channel; at rank 0 without a launcher
/// the other end, the listener and the connections of the others.
const OF_THE_LAUNCHER: usize = 6;

fn all() {
    let sum = |open: &BTreeMap<String, usize>| open.values().sum::<usize>();
    let before = open();
    let mut first = None;
    for (number, settings) in WORLDS.into_iter().enumerate() {
        if number == 1 {
            two_at_once();
            fork();
        }
        life(number, settings).unwrap();
        let now = open();
        let first = first.get_or_insert_with(|| now.clone());
        // Less is fine: a rank that has ended has closed its connection to rank 0.
        let left = now.iter().find(|(what, count)| *count > first.get(*what).unwrap_or(&0));
        assert_eq!(left, None, "world {number} left something behind: {first:?}, then {now:?}");
        assert!(!now.contains_key("mapped memory"), "{now:?}");
        let by_library = now.contains_key("thread launcher");
        assert!(by_library || sum(&now) <= sum(&before) + OF_THE_LAUNCHER, "{before:?}, then {now:?}");
    }
    println!("worlds ok");
}

/// While there is a world there is no other; nor is there one by another launcher. Neither does harm.
fn two_at_once() {
    let e = world(&[("launcher", "libpmi")]).expect_err("by another launcher").to_string();
    assert!(e.contains("CIRCULANT_LAUNCHER=libpmi, but this process has joined its job by "), "{e}");
    let first = world(&[("provider", "tcp")]).unwrap();
    let e = World::init().expect_err("two worlds at once").to_string();
    assert!(e.contains("this process has a World of its job") && e.contains("split"), "{e}");
    first.comm().barrier().unwrap();
    first.finalize().unwrap();
}

/// A copy of this process that ends in order, as a library may make one, is not the rank.
fn fork() {
    let mut copy = Command::new("true");
    // SAFETY: between fork and exec it only ends, and what that calls takes no lock that another thread could hold now.
    unsafe { copy.pre_exec(|| exit(0)) };
    copy.spawn().unwrap().wait().unwrap();
}

/// The second world fails.
fn fail() {
    life(0, WORLDS[0]).unwrap();
    let second = world(&[("provider", "tcp")]).unwrap();
    if second.rank() == 1 {
        exit(3);
    }
    let e = loop {
        if let Err(e) = second.comm().barrier() {
            break e;
        }
    };
    drop(second);
    println!("told {:?}", e.peer());
    println!("{}", World::init().expect_err("a world after one that failed"));
    exit(1);
}

/// Rank 1 ends between two worlds of the others, which do not begin the second.
fn leave_between(how: fn()) {
    life(0, WORLDS[0]).unwrap();
    if std::env::var("PMI_RANK").or_else(|_| std::env::var("OMPI_COMM_WORLD_RANK")).unwrap() == "1" {
        // Of any thread.
        std::thread::spawn(how).join().unwrap();
    }
    std::thread::sleep(Duration::from_secs(1));
    println!("stayed");
}

fn by(launcher: &str, arguments: &[&str], role: &str, ranks: usize) -> Done {
    let me = std::env::current_exe().unwrap();
    let mut job = Job::of(launcher);
    job.arguments(arguments).arguments(&["-n", &ranks.to_string(), me.to_str().unwrap()]);
    job.env("LAUNCH_TEST_ROLE", role).output()
}

const MPIRUN: &[&str] = &["--allow-run-as-root", "--oversubscribe"];

#[track_caller]
fn fine(done: &Done, ranks: usize) {
    assert_eq!((done.code, done.out.matches("worlds ok").count()), (0, ranks), "{done:?}");
}

fn worlds_under_our_launcher() {
    for ranks in [3, 1] {
        fine(&run_role("worlds all", &["-n", &ranks.to_string()]), ranks);
    }
}

fn worlds_without_a_launcher() {
    for done in without_launcher("worlds all", 3, ("CIRCULANT_JOB", "this-test")) {
        fine(&done, 1);
    }
}

/// What a pipe gives can be read once.
fn worlds_by_a_word_from_a_pipe() {
    let root = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let me = std::env::current_exe().unwrap();
    let script = "for r in 2 1 0; do printf word | CIRCULANT_RANK=$r \"$0\" & all=\"$all $!\"; done; \
                  for p in $all; do wait $p || exit 9; done";
    let mut job = Job::of("bash");
    job.arguments(&["-c", script, me.to_str().unwrap()]).env("LAUNCH_TEST_ROLE", "worlds all");
    job.env("CIRCULANT_SIZE", "3").env("CIRCULANT_ROOT", &root).env("CIRCULANT_JOB_FILE", "/dev/fd/0");
    fine(&job.output(), 3);
}

fn worlds_under_hydra() {
    for (arguments, ranks) in [(&[][..], 3), (&["-pmi-port"], 3), (&[], 1)] {
        fine(&by("mpiexec.hydra", arguments, "worlds all", ranks), ranks);
    }
}

fn worlds_under_mpirun() {
    for ranks in [3, 1] {
        fine(&by("mpirun.openmpi", MPIRUN, "worlds all", ranks), ranks);
    }
}

fn worlds_after_a_failure() {
    let done = run_role("worlds fail", &["-n", "3"]);
    assert_eq!((done.code, done.out.matches("told Some(1)").count()), (3, 2), "{done:?}");
    assert_eq!(done.out.matches("was not finalized").count(), 2, "{done:?}");
}

fn worlds_and_an_abort_between() {
    for done in [run_role("worlds abort", &["-n", "3"]), by("mpiexec.hydra", &[], "worlds abort", 3)] {
        assert_ne!(done.code, 0, "{done:?}");
    }
}

fn worlds_and_a_rank_that_leaves() {
    let done = [
        run_role("worlds leave", &["-n", "3"]),
        by("mpiexec.hydra", &[], "worlds leave", 3),
        by("mpirun.openmpi", MPIRUN, "worlds leave", 3),
    ];
    for done in done {
        assert_eq!((done.code, done.out.matches("stayed").count()), (0, 2), "{done:?}");
    }
}
