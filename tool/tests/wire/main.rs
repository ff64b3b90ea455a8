//! The library on real wires, with real processes: collectives checked byte by byte, costs counted, ranks
//! killed and stopped. This binary is also the program that the ranks run: `WIRE_TEST_ROLE` says which part.
//!
//! `CIRCULANT_LIBFABRIC` and `FI_PROVIDER_PATH` in the environment choose the libfabric under test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

mod chaos;
mod cluster;
#[path = "../launch/job.rs"]
#[allow(dead_code, reason = "shared with the launcher's tests, which use more of it")]
mod job;
mod role;
mod soak;

use circulant::diagnostics::CountingAllocator;
use circulant_tests::survivors::parse_seeds;
use circulant_tests::{exercise, huge, survivors, traffic};
use job::{Done, Job, none_left};
use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The wires that every software installation has; `WIRE_TEST_PROVIDERS` names others (verbs, in a machine
/// that has it).
const PROVIDERS: &str = "tcp,rxm,fi_shm,shm";

fn main() {
    if let Some(role) = std::env::var_os("WIRE_TEST_ROLE") {
        role::play(&role.to_string_lossy());
        return;
    }
    let mut trials = vec![
        Trial::test("one_rank_needs_nothing", test(one_rank)),
        Trial::test("a_mute_launcher_is_an_error", test(singletons)),
        Trial::test("settings_must_agree", test(settings)),
        Trial::test("finalize_takes_a_thread_where_it_must", test(|| finalize_without_a_thread("shm"))),
        Trial::test("an_unknown_provider_is_an_error", test(unknown_provider)),
        Trial::test("who_cannot_start_is_named_everywhere", test(one_cannot_start)),
        Trial::test("the_library_is_missing", test(no_library)),
        Trial::test("the_wire_follows_from_the_nodes", test(nodes)),
        Trial::test("a_node_that_cannot_share_uses_libfabric", test(no_sharing)),
    ];
    let providers = std::env::var("WIRE_TEST_PROVIDERS").unwrap_or_else(|_| PROVIDERS.to_owned());
    for provider in providers.split(',').map(|p| &*p.to_owned().leak()) {
        let on = |name: &str, body: fn(&str)| {
            Trial::test(format!("{provider}::{name}"), test(move || body(provider)))
        };
        trials.extend([
            on("collectives", collectives),
            on("matrix", matrix),
            on("mixed_traffic", mixed_traffic),
            on("costs_are_those_of_the_plan", costs),
            on("disagreement", disagreement),
            on("bad_arguments", bad_arguments),
            on("a_killed_rank_is_named", killed),
            on("a_rank_that_quits_is_named", quit),
            on("a_forked_child_is_refused", forked),
            on("a_stopped_rank_is_named", stopped),
            on("borrowed_memory_is_safe_after_an_error", mprotect),
            on("a_slow_rank_is_waited_for", a_slow_rank_is_waited_for),
        ]);
    }
    for provider in ["shm", "tcp"] {
        let on = |name: &str, body: fn(&str)| {
            Trial::test(format!("{provider}::{name}"), test(move || body(provider)))
        };
        trials.push(on("waits_beside_calls_say_for_which_rank", waits_beside_calls_say_for_which_rank));
        trials.push(on("nothing_grows_with_the_calls", soak::test));
        trials.push(on("programs_end_right_or_by_name_and_in_time", chaos::programs));
    }
    trials.push(Trial::test("shm::who_ended_for_another_is_not_blamed", test(chaos::ended_for_another)));
    // Namespaces want root, verbs a device: `ci/chaos` looks first.
    let chosen = std::env::var(circulant_tests::chaos::processes::WIRE).unwrap_or_default();
    for provider in ["shm", "tcp", "tcp+shm", "ibverbs", "ibverbs+shm"] {
        if !provider.starts_with("ibverbs") || chosen == "ibverbs" {
            let on = |name: &str, body: fn(&str)| {
                Trial::test(format!("{provider}::{name}"), test(move || body(provider)))
            };
            trials.push(on("survivors_of_killed_ranks_go_on", survivors));
            trials.push(on("borrowed_memory_is_safe_when_others_go_on", mprotect_survivors));
        }
    }
    for wire in ["nodes", "ibverbs"].into_iter().filter(|wire| chosen == *wire) {
        let name = format!("{wire}::programs_end_right_or_by_name_and_in_time");
        trials.push(Trial::test(name, test(move || chaos::programs(wire))));
    }
    trials.push(Trial::test("ranks_cannot_go_on_over_every_wire", test(going_on_is_refused)));
    if whole() {
        trials.push(Trial::test("tcp::over_4_gib_in_one_call", test(|| over_4_gib("tcp"))));
        trials.push(Trial::test("shm::over_4_gib_in_one_call", test(|| over_4_gib("shm"))));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn test(
    body: impl Fn() + Send + 'static,
) -> impl FnOnce() -> Result<(), libtest_mimic::Failed> + Send + 'static {
    move || {
        body();
        Ok(())
    }
}

/// A job of `n` ranks that play `role`, not started.
fn job(n: usize, role: &str, options: &[&str]) -> Job {
    let n = n.to_string();
    let mut arguments = vec!["-n", &n, "--grace", "5"];
    arguments.extend(options);
    let me = std::env::current_exe().unwrap();
    let mut job = Job::run(&arguments);
    job.arguments(&["--", me.to_str().unwrap()]).env("WIRE_TEST_ROLE", role);
    for name in ["CIRCULANT_LIBFABRIC", "FI_PROVIDER_PATH"] {
        if let Ok(value) = std::env::var(name) {
            job.env(name, &value);
        }
    }
    job
}

fn play(n: usize, role: &str, options: &[&str]) -> Done {
    job(n, role, options).output()
}

fn collectives(provider: &str) {
    for n in [2, 3, 5, 8] {
        let done = play(n, "exercise", &["--provider", provider]);
        assert_eq!(done.code, 0, "{n} ranks: {done:?}");
        assert_eq!(done.out.matches("all right").count(), n, "{done:?}");
    }
}

/// Whether to run what takes minutes: see `ci/collectives`.
fn whole() -> bool {
    std::env::var("COLLECTIVES").is_ok_and(|v| v == "full")
}

fn matrix(provider: &str) {
    // Each number of ranks runs other cases, and they take seconds of all cores.
    let sizes: &[usize] = if whole() { &[2, 3, 5, 8] } else { &[2, 5] };
    for &n in sizes {
        let done = play(n, "matrix", &["--provider", provider]);
        assert_eq!((done.code, done.out.matches("all right").count()), (0, n), "{n} ranks: {done:?}");
    }
}

fn mixed_traffic(provider: &str) {
    // (ranks, calls): 10 000 in all.
    let jobs: &[(usize, &str)] =
        if whole() { &[(5, "6000"), (2, "2000"), (8, "2000")] } else { &[(5, "2000"), (2, "500")] };
    for (n, calls) in jobs {
        let mut job = job(*n, "traffic", &["--provider", provider]);
        job.limit = Duration::from_secs(if whole() { 600 } else { 60 });
        let done = job.env("WIRE_TEST_CALLS", calls).output();
        assert_eq!((done.code, done.out.matches("all right").count()), (0, *n), "{n} ranks: {done:?}");
        println!("{n} ranks, {calls} calls: {:?}", done.took);
    }
}

fn over_4_gib(provider: &str) {
    let mut job = job(2, "huge", &["--provider", provider, "--deadline", "60"]);
    job.limit = Duration::from_secs(300);
    let done = job.output();
    assert_eq!((done.code, done.out.matches("all right").count()), (0, 2), "{done:?}");
    println!("{:?}", done.took);
}

fn costs(provider: &str) {
    let done = play(4, "costs", &["--provider", provider]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.out.matches("as planned").count(), 4, "{done:?}");
}

/// Each of `n` ranks printed an error with all of `words`; the job failed.
fn all_say(done: &Done, n: usize, words: &[&str]) {
    assert_ne!(done.code, 0, "{done:?}");
    let errors: Vec<&str> = done.out.lines().filter(|l| l.starts_with("error: ")).collect();
    // A rank that is hurt while it holds a lock of the provider stops the others inside it: their watchdogs speak.
    let stuck =
        done.err.lines().filter(|l| l.contains("does not come back from a call") && l.contains(words[0]));
    assert_eq!(errors.len() + stuck.count(), n, "{done:?}");
    for error in errors {
        for word in words {
            assert!(error.contains(word), "{word:?} is missing in {error:?}");
        }
    }
}

fn disagreement(provider: &str) {
    let done = play(4, "disagree", &["--provider", provider]);
    all_say(&done, 4, &["Mismatch", "called bcast #1 with other arguments", "rank 2"]);
    assert!(done.took < Duration::from_secs(30), "{done:?}");
}

fn bad_arguments(provider: &str) {
    let done = play(4, "bad-root", &["--provider", provider]);
    all_say(&done, 4, &["Argument", "root 9 is out of range", "bcast #1"]);
    // Standard error has it once more, and which ranks were told.
    let lines = done.err.lines().filter(|l| l.starts_with("rank ")).count();
    assert!(lines == 1 && done.err.contains("  met by: rank 2\n  told to: ranks 0-1, 3 ("), "{done:?}");
    let done = play(3, "overlap", &["--provider", provider]);
    all_say(&done, 3, &["Argument", "overlap", "allgatherv #1"]);
}

/// The process of a rank, from the line `pid RANK PID` that it printed.
fn pid_of(out: &str, rank: usize) -> Pid {
    let start = format!("pid {rank} ");
    let line = out.lines().find_map(|l| l.strip_prefix(&start)).unwrap();
    Pid::from_raw(line.trim().parse().unwrap()).unwrap()
}

/// Runs broadcasts for ever among 4 ranks, long ones or short ones of all kinds, does `signal` to rank 2, and collects what
/// the others say.
fn hurt(provider: &str, role: &str, signal: Signal) -> Done {
    let mut job = job(4, role, &["--provider", provider, "--deadline", "4"]);
    job.start();
    job.wait_for("pid ", 4);
    std::thread::sleep(Duration::from_millis(300));
    let mark = job.mark.clone();
    kill_process(pid_of(&job.so_far(), 2), signal).unwrap();
    let done = job.output();
    none_left(&mark);
    let left: Vec<_> = std::fs::read_dir("/dev/shm").unwrap().map(|e| e.unwrap().file_name()).collect();
    let of_ours = |name: &std::ffi::OsString| {
        (0..4).any(|r| {
            name.to_string_lossy().starts_with(&format!("{}:", pid_of(&done.out, r).as_raw_nonzero()))
        })
    };
    assert!(!left.iter().any(of_ours), "left in /dev/shm: {left:?}");
    done
}

fn killed(provider: &str) {
    for (role, words) in [("forever", ["rank 2", "bcast #"]), ("short", ["rank 2", "#"])] {
        let done = hurt(provider, role, Signal::KILL);
        all_say(&done, 3, &words);
        assert_eq!(done.code, 137, "{done:?}");
    }
}

/// A job of `n` ranks that go on without those that are gone; where the wire knows nodes they are on four that are none.
fn going_on(n: usize, role: &str, provider: &str) -> Job {
    let mut job = job(n, role, &["--provider", provider, "--on-failure", "continue"]);
    if provider.ends_with("+shm") {
        let nodes: String = (0..n).map(|rank| char::from(b'0' + (rank * 4 / n) as u8)).collect();
        job.env("WIRE_TEST_NODES", &nodes).env("FI_NET_IFACE", "lo").env("FI_TCP_IFACE", "lo");
    }
    job
}

/// Ranks are killed at random moments; the others end well, and so does the job. `SURVIVE_SEEDS=0-19`: these seeds, of 16 ranks each.
fn survivors(provider: &str) {
    let seeds = std::env::var("SURVIVE_SEEDS").ok().and_then(|seeds| parse_seeds(&seeds));
    let jobs = match (provider, &seeds) {
        // Under emulation.
        ("ibverbs" | "ibverbs+shm", _) => [(3, 1), (4, 1), (5, 3)],
        (_, Some(_)) => [(16, 1), (16, 3), (16, 7)],
        _ => [(4, 1), (6, 3), (16, 7)],
    };
    for (p, lost) in jobs {
        for seed in seeds.clone().unwrap_or(0..=0) {
            println!("seed {seed} of {p} ranks that lose {lost}");
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (lost as u64) << 60 | 1;
            let mut below = |n: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % n
            };
            let mut job = going_on(p, "survive", provider);
            job.env("WIRE_TEST_SEED", &seed.to_string()).env("WIRE_TEST_LOST", &lost.to_string());
            job.limit = Duration::from_secs(120);
            job.start();
            job.wait_for("pid ", p);
            let mark = job.mark.clone();
            let mut victims = Vec::new();
            while victims.len() < lost {
                let victim = below(p as u64) as usize;
                if !victims.contains(&victim) {
                    std::thread::sleep(Duration::from_millis(below(150)));
                    kill_process(pid_of(&job.so_far(), victim), Signal::KILL).unwrap();
                    victims.push(victim);
                }
            }
            let done = job.output();
            none_left(&mark);
            let left = format!("left among {}", p - lost);
            assert_eq!((done.code, done.out.matches(&left).count()), (0, p - lost), "{victims:?}: {done:?}");
        }
    }
}

fn going_on_is_refused() {
    let done = play(2, "exercise", &["--provider", "rxm", "--on-failure", "continue"]);
    assert_ne!(done.code, 0, "{done:?}");
    assert_eq!(done.out.matches("the ranks cannot go on without one").count(), 2, "{done:?}");
}

fn quit(provider: &str) {
    let done = play(4, "quit", &["--provider", provider, "--deadline", "30"]);
    all_say(&done, 3, &["rank 2", "bcast #"]);
    // Before the launcher's own timeout, and long before the deadline.
    assert!(done.took < Duration::from_secs(15), "{done:?}");
    assert_eq!(done.code, 7, "{done:?}");
}

fn forked(provider: &str) {
    // With threads of the library's own there is something that the child does not have.
    for progress in ["calls", "thread"] {
        let done = play(3, "fork", &["--provider", provider, "--deadline", "10", "--progress", progress]);
        assert_eq!((done.code, done.out.matches("child refused").count()), (0, 3), "{done:?}");
    }
}

fn stopped(provider: &str) {
    let done = hurt(provider, "forever", Signal::STOP);
    all_say(&done, 3, &["rank 2", "bcast #", "not answer"]);
    if provider == "shm" {
        let done = hurt(provider, "short", Signal::STOP);
        all_say(&done, 3, &["rank 2", "#", "not answer"]);
    }
}

fn mprotect(provider: &str) {
    for role in ["mprotect", "mprotect-scope"] {
        let done = play(4, role, &["--provider", provider, "--deadline", "2"]);
        assert_eq!(done.out.matches("unharmed").count(), 3, "{role}: {done:?}");
    }
}

fn mprotect_survivors(provider: &str) {
    for role in ["mprotect-survive", "mprotect-survive-scope"] {
        let done = going_on(4, role, provider).output();
        assert_eq!((done.code, done.out.matches("unharmed").count()), (0, 3), "{role}: {done:?}");
    }
}

fn one_rank() {
    let mut job = Job::of(std::env::current_exe().unwrap().to_str().unwrap());
    let done = job.env("WIRE_TEST_ROLE", "exercise").env("CIRCULANT_LIBFABRIC", "/nowhere").output();
    assert_eq!((done.code, done.out.matches("all right").count()), (0, 1), "{done:?}");
}

fn singletons() {
    let mut job = Job::of(std::env::current_exe().unwrap().to_str().unwrap());
    let job = job.env("WIRE_TEST_ROLE", "exercise").env("SLURM_NTASKS", "4").env("SLURM_PROCID", "0");
    let done = job.output();
    assert_ne!(done.code, 0, "{done:?}");
    assert!(done.err.contains("--mpi=pmi2"), "{done:?}");
}

fn settings() {
    let done = play(3, "other-settings", &["--provider", "tcp"]);
    assert_ne!(done.code, 0, "{done:?}");
    assert!(done.err.contains("CIRCULANT_BLOCKS"), "{done:?}");
}

fn unknown_provider() {
    let done = play(2, "exercise", &["--provider", "carrier-pigeon"]);
    assert_ne!(done.code, 0, "{done:?}");
    assert!(done.err.contains("carrier-pigeon") && done.err.contains("tcp"), "{done:?}");
}

fn one_cannot_start() {
    // Nine, so that some are no neighbours of rank 2.
    let done = play(9, "other-wait", &["--provider", "tcp"]);
    all_say(&done, 9, &["CIRCULANT_WAIT: \"bogus\" is not spin"]);
    assert_eq!(done.out.matches("rank 2 could not start").count(), 8, "{done:?}");
}

/// The others wait, and the lowest of them says for which rank.
fn a_slow_rank_is_waited_for(provider: &str) {
    let done = play(4, "slow", &["--provider", provider, "--warn-after", "1"]);
    assert_eq!(done.code, 0, "{done:?}");
    let warnings: Vec<&str> = done.err.lines().filter(|l| l.contains("has not come to")).collect();
    let said = |rank: usize| {
        let (start, end) = (
            "circulant: warning: rank 0 has not come to allreduce #",
            format!("it lives, in no call (rank {rank} waits)"),
        );
        warnings.iter().filter(|line| line.starts_with(start) && line.ends_with(&end)).count()
    };
    let said = [1, 2, 3].map(said);
    assert_eq!(said.iter().sum::<usize>(), warnings.len(), "{done:?}");
    // Rank 1 speaks for all that wait, but where it has come to the call later than another that has waited for a second.
    assert!(said[0] > 0 && said[1] <= 1 && said[2] <= 1, "{done:?}");
}

/// Waits that are no call say for which rank, too: in agree, in finalize, and in a fence of start-up.
fn waits_beside_calls_say_for_which_rank(provider: &str) {
    let done = going_on(4, "slow-agree", provider).env("CIRCULANT_WARN_AFTER", "1").output();
    assert_eq!(done.code, 0, "{done:?}");
    for warning in ["agree #1 waits for rank 0 for 1 s; ", "finalize waits for rank 2 for 1 s; "] {
        assert_eq!(done.err.matches(warning).count(), 1, "{warning}: {done:?}");
    }
    let lines = done.err.lines().filter(|line| line.contains(" waits for ") && line.contains("for 1 s"));
    assert_eq!(lines.count(), 2, "the others are silent: {done:?}");
    let done = play(3, "slow-start", &["--provider", provider, "--warn-after", "1"]);
    assert_eq!(done.code, 0, "{done:?}");
    let warning = "start-up waits in a fence of the launcher for 1 s, for rank 1 (rank 0 waits)";
    assert_eq!(done.err.matches(warning).count(), 1, "{done:?}");
}

/// Where the launcher's fence can be asked no thread is needed, and else its lack is an error.
fn finalize_without_a_thread(provider: &str) {
    let done = play(2, "threadless", &["--provider", provider]);
    assert_eq!(done.code, 0, "{done:?}");
    let done = play(2, "threadless-fence", &["--provider", provider]);
    all_say(&done, 2, &["System", "finalize needs a thread and cannot start one"]);
}

/// A job on nodes that are not, over the loopback interface.
fn on_nodes(nodes: &str, n: usize, options: &[&str]) -> Done {
    let mut job = job(n, "nodes", options);
    for variable in ["FI_NET_IFACE", "FI_TCP_IFACE"] {
        job.env(variable, "lo");
    }
    job.env("WIRE_TEST_NODES", nodes).output()
}

fn nodes() {
    // (nodes, provider, what is taken)
    let cases = [
        ("00000", "auto", " over shm,"),
        ("unknown", "auto", " over shm,"),
        ("00110", "tcp+shm", "+shm,"),
        ("01201", "tcp+shm", "+shm,"),
        ("00000", "tcp+shm", "+shm,"),
        ("01234", "tcp", " nodes [0, 1, 2, 3, 4]"),
    ];
    for (nodes, provider, want) in cases {
        let done = on_nodes(nodes, nodes.len().min(5), &["--provider", provider]);
        let right = done.out.lines().filter(|l| l.contains("all right") && l.contains(want));
        assert_eq!((done.code, right.count()), (0, 5), "{nodes} {provider}: {done:?}");
    }
    let done = on_nodes("00110", 5, &["--provider", "shm"]);
    all_say(&done, 5, &["shm carries only ranks of one node"]);
}

/// Where the memory of one cannot be mapped, its whole node takes another wire.
fn no_sharing() {
    for (nodes, provider) in [("00000", "auto"), ("00110", "tcp+shm"), ("00000", "shm")] {
        let mut job = job(5, "nodes", &["--provider", provider]);
        for variable in ["FI_NET_IFACE", "FI_TCP_IFACE"] {
            job.env(variable, "lo");
        }
        let done = job.env("WIRE_TEST_NODES", nodes).env("WIRE_TEST_UNSEEN", "2").output();
        if provider == "shm" {
            all_say(&done, 5, &["cannot map each other's memory"]);
        } else {
            assert_eq!((done.code, done.out.matches("all right").count()), (0, 5), "{nodes}: {done:?}");
            assert!(!done.out.contains(" over shm,"), "{done:?}");
        }
    }
}

fn no_library() {
    // On one node nothing needs it.
    let done = play(2, "exercise", &["--libfabric", "/nowhere/libfabric.so.1"]);
    assert_eq!((done.code, done.out.matches("all right").count()), (0, 2), "{done:?}");
    let done = play(2, "exercise", &["--provider", "tcp", "--libfabric", "/nowhere/libfabric.so.1"]);
    assert_ne!(done.code, 0, "{done:?}");
    assert!(done.err.contains("/nowhere/libfabric.so.1") && done.err.contains("libfabric1"), "{done:?}");
}
