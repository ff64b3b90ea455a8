//! `circulant run` and the launch clients, with real processes. This binary is also the program that the
//! ranks run: `LAUNCH_TEST_ROLE` says which part it plays.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

// A test may panic; clippy knows them only by `#[test]`.

#[path = "launch/again.rs"]
mod again;
#[path = "launch/agents.rs"]
mod agents;
#[path = "launch/alone.rs"]
mod alone;
#[path = "launch/job.rs"]
#[allow(dead_code, reason = "shared with the tests of the wire, which use other parts of it")]
mod job;
#[path = "launch/munge.rs"]
mod munge;
#[path = "launch/options.rs"]
mod options;
#[path = "launch/record.rs"]
mod record;
#[path = "launch/role.rs"]
mod role;
#[path = "launch/summary.rs"]
mod summary;

use job::{Job, have, none_left, run, run_role};
use libtest_mimic::{Arguments, Trial};
use rustix::process::Signal;
use std::io::Write;
use std::time::{Duration, Instant};

fn main() {
    if let Some(role) = std::env::var_os("LAUNCH_TEST_ROLE") {
        role::play(&role.to_string_lossy());
        return;
    }
    let hydra = have("mpiexec.hydra");
    let mpicc = job::compiles_mpich();
    let tests: &[(&str, fn(), bool)] = &[
        ("environment_of_the_ranks", environment_of_the_ranks, true),
        ("descriptors_do_not_leak", descriptors_do_not_leak, true),
        ("lines_stay_whole_and_are_labelled", lines_stay_whole_and_are_labelled, true),
        ("output_is_binary_safe", output_is_binary_safe, true),
        ("standard_input_goes_to_rank_0", standard_input_goes_to_rank_0, true),
        ("exit_codes", exit_codes, true),
        ("abort_ends_the_job", abort_ends_the_job, true),
        ("wrong_command_lines", wrong_command_lines, true),
        ("own_subcommands", own_subcommands, true),
        ("signals_are_passed_on", signals_are_passed_on, true),
        ("a_second_interrupt_kills", a_second_interrupt_kills, true),
        ("an_ignored_hangup_stays_ignored", an_ignored_hangup_stays_ignored, true),
        ("a_killed_launcher_leaves_nothing", a_killed_launcher_leaves_nothing, true),
        ("children_of_ranks_end_with_them", children_of_ranks_end_with_them, true),
        ("a_daemon_does_not_hold_up_the_end", a_daemon_does_not_hold_up_the_end, true),
        ("no_zombies_meanwhile", no_zombies_meanwhile, true),
        ("no_busy_waiting", no_busy_waiting, true),
        ("limits_of_open_files", limits_of_open_files, true),
        ("a_reader_that_leaves_ends_the_job", a_reader_that_leaves_ends_the_job, true),
        ("the_others_are_told_which_rank_died", the_others_are_told_which_rank_died, true),
        ("a_fence_ends_when_a_rank_died", a_fence_ends_when_a_rank_died, true),
        ("grace_then_term_then_kill", grace_then_term_then_kill, true),
        ("the_job_has_a_time_limit", the_job_has_a_time_limit, true),
        ("values_of_all_sizes", values_of_all_sizes, true),
        ("values_of_many_ranks", values_of_many_ranks, true),
        ("a_fence_has_a_deadline", a_fence_has_a_deadline, true),
        ("a_silent_launcher_is_an_error", a_silent_launcher_is_an_error, true),
        ("a_rank_that_talks_nonsense", a_rank_that_talks_nonsense, true),
        ("detection", detection, true),
        ("inside_another_launcher", inside_another_launcher, true),
        ("mpirun_by_pmix", mpirun_by_pmix, have("mpirun.openmpi")),
        ("hydra_over_a_descriptor", hydra_over_a_descriptor, hydra),
        ("hydra_over_a_port", hydra_over_a_port, hydra),
        ("hydra_abort", hydra_abort, hydra),
        ("an_mpich_program", an_mpich_program, mpicc),
    ];
    let trial = |&(name, test, there): &(&str, fn(), bool)| {
        let run = move || {
            test();
            Ok(())
        };
        // What is not installed counts as ignored.
        Trial::test(name, run).with_ignored_flag(!there)
    };
    let others = [
        again::tests(),
        agents::tests(),
        options::tests(),
        alone::tests(),
        munge::tests(),
        record::tests(),
        summary::tests(),
    ]
    .concat();
    let trials = tests.iter().chain(&others).map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn environment_of_the_ranks() {
    let script = "echo $PMI_RANK $PMI_SIZE $MPI_LOCALRANKID $MPI_LOCALNRANKS $CIRCULANT_DEADLINE $CIRCULANT_PROVIDER $PMI_ID";
    let mut job = Job::run(&["-n", "3", "--deadline", "7.5", "--provider", "tcp", "--", "sh", "-c", script]);
    let done = job.env("PMI_ID", "stale").output();
    assert_eq!(done.code, 0, "{done:?}");
    let mut lines: Vec<&str> = done.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 3 0 3 7.5 tcp", "1 3 1 3 7.5 tcp", "2 3 2 3 7.5 tcp"]);
}

fn descriptors_do_not_leak() {
    let count = "ls -l /proc/self/fd | grep -c socket:";
    let done = run(&["-n", "5", "sh", "-c", count]);
    assert_eq!(done.out, "2\n2\n2\n2\n2\n", "{done:?}");
    // And what a rank starts after it joined has none.
    let done = run_role("children-sockets", &["-n", "3"]);
    assert_eq!(done.out, "0\n0\n0\n", "{done:?}");
}

fn lines_stay_whole_and_are_labelled() {
    let script = "i=0; while [ $i -lt 400 ]; do printf \"$i $PMI_RANK \"; printf '%0*d\\n' $((i * 7 % 5000 + 1)) 0; i=$((i+1)); done";
    for label in [true, false] {
        let mut arguments = vec!["-n", "4", "sh", "-c", script];
        if label {
            arguments.insert(0, "-l");
        }
        let done = run(&arguments);
        assert_eq!(done.code, 0, "{:?}", done.err);
        let mut next = [0usize; 4];
        for line in done.out.lines() {
            let rest = match label {
                true => line.split_once("] ").unwrap().1,
                false => line,
            };
            let words: Vec<&str> = rest.split(' ').collect();
            let rank: usize = words[1].parse().unwrap();
            assert_eq!(words[0], next[rank].to_string(), "rank {rank} out of order");
            assert_eq!(words[2].len(), next[rank] * 7 % 5000 + 1);
            assert!(!label || line.starts_with(&format!("[{rank}] ")));
            next[rank] += 1;
        }
        assert_eq!(next, [400; 4]);
    }
}

fn output_is_binary_safe() {
    // 3 MB of every byte value, few newlines, none at the end.
    let bytes: Vec<u8> = (0..3_000_001u32).map(|i| (i / 7 + i % 251).to_le_bytes()[0]).collect();
    let file = job::scratch("bytes");
    std::fs::write(&file, &bytes).unwrap();
    let script = format!("[ $PMI_RANK = 0 ] && cat {} || true", file.display());
    for ranks in ["1", "2"] {
        let done = run(&["-n", ranks, "sh", "-c", &script]);
        assert!(done.raw == bytes, "{} of {} bytes came", done.raw.len(), bytes.len());
    }
    let done = run(&["-n", "2", "-l", "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"]);
    assert_eq!(done.out.bytes().filter(|&b| b == b'x').count(), 600_000);
    for line in done.out.lines() {
        assert!(line.starts_with("[0] x") || line.starts_with("[1] x"), "{:.20}", line);
    }
    std::fs::remove_file(file).unwrap();
}

fn standard_input_goes_to_rank_0() {
    let mut job = Job::run(&["-n", "3", "-l", "sh", "-c", "cat; echo end"]);
    job.input(b"a\nb\n");
    let done = job.output();
    let mut lines: Vec<&str> = done.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] a", "[0] b", "[0] end", "[1] end", "[2] end"]);
}

fn exit_codes() {
    let long = "; else sleep 100; fi";
    for (script, code, words) in [
        ("exit 0", 0, ""),
        ("if [ $PMI_RANK = 2 ]; then exit 3", 3, "rank 2 (pid "),
        ("if [ $PMI_RANK = 1 ]; then kill -9 $$", 137, "killed by signal 9 (SIGKILL)"),
        ("if [ $PMI_RANK = 0 ]; then kill -SEGV $$", 139, "SIGSEGV"),
        ("if [ $PMI_RANK = 0 ]; then exit 255", 255, "exited with code 255"),
    ] {
        let script = if code == 0 { script.to_owned() } else { format!("{script}{long}") };
        let done = run(&["-n", "3", "--grace", "0.1", "sh", "-c", &script]);
        assert_eq!(done.code, code, "{script}: {done:?}");
        assert!(done.err.contains(words), "{script}: {done:?}");
        let reports = done.err.lines().filter(|l| l.contains("pid ")).count();
        assert_eq!(reports, usize::from(code != 0), "one line says what failed first: {done:?}");
    }
    // The first that fails counts, not the highest or the last.
    let done = run(&["-n", "3", "sh", "-c", "sleep 0.$((PMI_RANK * 4)); exit $((9 - PMI_RANK))"]);
    assert_eq!(done.code, 9, "{done:?}");
}

fn abort_ends_the_job() {
    let done = run_role("abort", &["-n", "3"]);
    assert_eq!(done.code, 7, "{done:?}");
    assert!(done.err.contains("rank 1 (pid ") && done.err.contains("code 7: no more of this"), "{done:?}");
}

fn wrong_command_lines() {
    let plain = job::scratch("plain");
    std::fs::write(&plain, "x").unwrap();
    let plain = plain.to_str().unwrap();
    for (arguments, code, words) in [
        (&["-n", "0", "true"][..], 2, "at least one rank"),
        (&["-n", "-3", "true"], 2, "whole number"),
        (&["-n", "4000000", "true"], 2, "at most"),
        (&["-n", "99999999999999999999999", "true"], 2, "at most"),
        (&["-n", "2"], 2, "PROGRAM"),
        (&["true"], 2, "--ranks <P>"),
        (&["-n", "2", "--timeout", "0", "true"], 2, "above 0"),
        (&["-n", "2", "--grace", "x", "true"], 2, "seconds"),
        (&["-n", "2", "--deadline", "never", "true"], 2, "CIRCULANT_DEADLINE"),
        (&["-n", "2", "--blocks", "few", "true"], 2, "CIRCULANT_BLOCKS"),
        (&["-n", "2", "--no-such-flag", "true"], 2, "--no-such-flag"),
        (&["-n", "2", "no-such-program"], 127, "there is no program no-such-program"),
        (&["-n", "2", "./no-such-program"], 127, "no such program"),
        (&["-n", "2", "/"], 126, "not a file"),
        (&["-n", "2", ""], 127, "empty"),
        (&["-n", "2", plain], 126, "cannot be run"),
    ] {
        let done = run(arguments);
        assert_eq!(done.code, code, "{arguments:?}: {done:?}");
        assert!(done.err.contains(words), "{arguments:?}: {done:?}");
    }
    std::fs::remove_file(plain).unwrap();
}

fn own_subcommands() {
    let done = run(&["-n", "2", "schedule", "--no-such-flag"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("unexpected argument '--no-such-flag'"), "{done:?}");
}

fn signals_are_passed_on() {
    for (signal, name) in
        [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1")]
    {
        let script = format!("trap 'echo got; exit 0' {name}; echo ready; while :; do sleep 0.05; done");
        let mut job = Job::run(&["-n", "3", "sh", "-c", &script]);
        job.start();
        job.wait_for("ready", 3);
        job.kill(signal);
        let done = job.output();
        assert_eq!((done.out.matches("got").count(), done.code), (3, 0), "{name}: {done:?}");
    }
    // Ranks that do not catch it die of it.
    let mut job = Job::run(&["-n", "2", "sh", "-c", "echo ready; exec sleep 100"]);
    job.start();
    job.wait_for("ready", 2);
    job.kill(Signal::TERM);
    assert_eq!(job.output().code, 143);
}

fn a_second_interrupt_kills() {
    let mut job =
        Job::run(&["-n", "2", "sh", "-c", "trap '' INT TERM; echo ready; while :; do sleep 0.05; done"]);
    job.start();
    job.wait_for("ready", 2);
    job.kill(Signal::INT);
    job.wait_for_error("passed on", 1);
    assert!(job.is_running());
    job.kill(Signal::INT);
    let done = job.output();
    assert_eq!(done.code, 130, "{done:?}");
    none_left(&job.mark);
}

fn an_ignored_hangup_stays_ignored() {
    let mut job = Job::of("nohup");
    job.arguments(&[job::TOOL, "run", "-n", "1", "sh", "-c", "echo ready; sleep 0.5; echo end"]);
    job.start();
    job.wait_for("ready", 1);
    job.kill(Signal::HUP);
    let done = job.output();
    assert_eq!((done.code, done.out.contains("end")), (0, true), "{done:?}");
}

fn a_killed_launcher_leaves_nothing() {
    // Each rank has a child and a grandchild, one of which ignores all that can be ignored.
    let script = "trap '' TERM INT HUP; sh -c 'sleep 300 & wait' & echo ready; sleep 300; wait";
    let mut job = Job::run(&["-n", "3", "sh", "-c", script]);
    job.start();
    job.wait_for("ready", 3);
    assert!(job::alive(&job.mark).len() >= 3 * 3);
    job.kill(Signal::KILL);
    let done = job.output();
    assert_eq!(done.code, 137);
    none_left(&job.mark);
    // The ranks themselves also when the watchdog is killed first, which the job survives.
    let mut job = Job::run(&["-n", "3", "sh", "-c", "echo ready; exec sleep 300"]);
    job.start();
    job.wait_for("ready", 3);
    job.kill_child("__watch");
    job.kill(Signal::USR1);
    assert_eq!(job.output().code, 128 + 10);
    let mut job = Job::run(&["-n", "3", "sh", "-c", "echo ready; exec sleep 300"]);
    job.start();
    job.wait_for("ready", 3);
    job.kill_child("__watch");
    job.kill(Signal::KILL);
    assert_eq!(job.output().code, 137);
    none_left(&job.mark);
}

fn children_of_ranks_end_with_them() {
    let mut job = Job::run(&["-n", "3", "sh", "-c", "sleep 300 & exit 0"]);
    let done = job.output();
    assert_eq!(done.code, 0, "{done:?}");
    none_left(&job.mark);
    // But what still prints may finish.
    let done = run(&["-n", "1", "bash", "-c", "exec > >(sleep 0.1; cat); echo late"]);
    assert_eq!(done.out, "late\n", "{done:?}");
}

fn a_daemon_does_not_hold_up_the_end() {
    let done = run(&["-n", "2", "sh", "-c", "setsid sleep 5 & echo here; sleep 0.2"]);
    assert_eq!((done.code, &done.out[..]), (0, "here\nhere\n"), "{done:?}");
    assert!(done.took < Duration::from_secs(5), "waited for a process that is none of ours");
}

fn no_zombies_meanwhile() {
    let mut job = Job::run(&["-n", "4", "sh", "-c", "[ $PMI_RANK = 0 ] && exec sleep 30; exit 0"]);
    job.start();
    let until = Instant::now() + Duration::from_secs(10);
    // The watchdog and rank 0 stay.
    while job.children() != ["S".to_owned(), "S".to_owned()] {
        assert!(Instant::now() < until, "{:?}", job.children());
        std::thread::sleep(Duration::from_millis(20));
    }
    job.kill(Signal::TERM);
    assert_eq!(job.output().code, 143);
}

fn no_busy_waiting() {
    // Also when the ranks have closed all that we listen to.
    for close in ["", "exec >&- 2>&- <&-; eval \"exec $PMI_FD>&-\";"] {
        let script = format!("echo ready; {close} exec sleep 1.5");
        let mut job = Job::run(&["-n", "4", "bash", "-c", &script]);
        job.start();
        job.wait_for("ready", 4);
        let before = job.cpu_ticks();
        std::thread::sleep(Duration::from_secs(1));
        let used = job.cpu_ticks() - before;
        assert!(used <= 5, "{used} ticks of CPU time in a second of doing nothing");
        assert_eq!(job.output().code, 0);
    }
}

fn limits_of_open_files() {
    let tool = job::TOOL;
    let script = format!("ulimit -Sn 50; {tool} run -n 20 sh -c 'ulimit -Sn'");
    let done = Job::of("bash").arguments(&["-c", &script]).output();
    assert_eq!((done.code, done.out.matches("50\n").count()), (0, 20), "{done:?}");
    let script = format!("ulimit -n 50; exec {tool} run -n 20 true");
    let done = Job::of("bash").arguments(&["-c", &script]).output();
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("need 184 open files, but the limit is 50"), "{done:?}");
}

fn a_reader_that_leaves_ends_the_job() {
    let mut job = Job::of("sh");
    let script = format!("{} run -n 2 --grace 1 yes | head -n 3; exit 0", job::TOOL);
    let done = job.arguments(&["-c", &script]).output();
    assert_eq!(done.out, "y\ny\ny\n");
    assert!(done.err.contains("SIGPIPE"), "{done:?}");
    none_left(&job.mark);
}

fn the_others_are_told_which_rank_died() {
    for (how, code, words) in [
        ("kill", 137, "gone 1: killed by signal 9 (SIGKILL)"),
        ("exit 3", 3, "gone 1: exited with code 3"),
        ("panic", 101, "gone 1: exited with code 101"),
        ("exit 0", 9, "gone 1: left with code 0"),
    ] {
        let done = run_role(&format!("die {how}"), &["-n", "4", "--grace", "60"]);
        assert_eq!(done.code, code, "{how}: {done:?}");
        assert_eq!(done.out.matches(words).count(), 3, "{how}: {done:?}");
        assert!(done.err.contains("rank 1 (pid"), "{how}: {done:?}");
        assert!(done.took < Duration::from_secs(30), "the grace is for those that do not end by themselves");
    }
    // Also a rank that joins only after that.
    let done = run_role("late-join", &["-n", "2"]);
    assert_eq!((done.code, &done.out[..]), (0, "gone 1: exited with code 0\n"), "{done:?}");
    // Leaving early with code 0 is no failure when all do.
    let done = run_role("leave", &["-n", "4"]);
    assert_eq!((done.code, &done.err[..]), (0, ""), "{done:?}");
}

fn a_fence_ends_when_a_rank_died() {
    let done = run_role("die-in-fence", &["-n", "3", "--grace", "60"]);
    assert_eq!(done.code, 137, "{done:?}");
    let told = done.out.matches("PeerLost Some(1) rank 1 is gone (killed by signal 9 (SIGKILL))").count();
    assert_eq!(told, 2, "{done:?}");
    assert!(done.took < Duration::from_secs(30), "the fence's own deadline is 40 s");
}

fn grace_then_term_then_kill() {
    let script = "[ $PMI_RANK = 1 ] && exit 4; trap 'echo term' TERM; [ $PMI_RANK = 2 ] && exec sleep 100; while :; do sleep 0.05; done";
    let mut job = Job::run(&["-n", "3", "--grace", "0.3", "sh", "-c", script]);
    let done = job.output();
    assert_eq!(done.code, 4, "{done:?}");
    assert_eq!(done.out, "term\n", "{done:?}");
    assert!(done.err.contains("ranks 0, 2 are still running"), "{done:?}");
    assert!(done.took > Duration::from_secs(2), "KILL comes 2 s after TERM");
    none_left(&job.mark);
}

fn the_job_has_a_time_limit() {
    let mut job =
        Job::run(&["-n", "4", "--timeout", "0.5", "sh", "-c", "[ $PMI_RANK = 1 ] && exit 0; exec sleep 100"]);
    let done = job.output();
    assert_eq!(done.code, 124, "{done:?}");
    assert!(done.err.contains("still running: ranks 0, 2-3"), "{done:?}");
    none_left(&job.mark);
}

fn values_of_all_sizes() {
    let done = run_role("values 100000", &["-n", "3"]);
    assert_eq!((done.code, &done.out[..]), (0, "ok\nok\nok\n"), "{done:?}");
}

fn values_of_many_ranks() {
    let done = run_role("values 600", &["-n", "33"]);
    assert_eq!((done.code, done.out.matches("ok\n").count()), (0, 33), "{done:?}");
}

fn a_fence_has_a_deadline() {
    let done = run_role("late-fence", &["-n", "2"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("Timeout"), "{done:?}");
}

/// A peer that takes the connection and never answers.
fn a_silent_launcher_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().to_string();
    let mut job = Job::role("detect");
    job.env("PMI_PORT", &port).env("PMI_ID", "0").env("CIRCULANT_START_DEADLINE", "0.3");
    let done = job.output();
    assert!(done.out.contains("did not answer \"initack\" in time"), "{done:?}");
    // And one that answers what it should not.
    let mut job = Job::role("detect");
    job.env("PMI_PORT", &port).env("PMI_ID", "0");
    job.start();
    // The first connection in the queue is the one above. One that is closed with a request unread is reset.
    let mut answered = Vec::new();
    for _ in 0..2 {
        let mut stream = listener.accept().unwrap().0;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        answered.push(stream);
    }
    let done = job.output();
    drop(answered);
    assert!(done.out.contains("the launcher answered \"HTTP/1.1 400 Bad Request\\r\""), "{done:?}");
    drop(listener);
    let mut job = Job::role("detect");
    let done = job.env("PMI_PORT", &port).env("PMI_ID", "0").output();
    assert!(done.out.contains("cannot be reached"), "{done:?}");
}

fn a_rank_that_talks_nonsense() {
    for nonsense in ["hello\\n", "\\377\\0\\n", "cmd=\\n"] {
        let script = format!("[ $PMI_RANK = 0 ] && printf '{nonsense}' >&$PMI_FD; exec sleep 100");
        let mut job = Job::run(&["-n", "2", "bash", "-c", &script]);
        let done = job.output();
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.err.contains("rank 0 (pid ") && done.err.contains("not PMI-1"), "{done:?}");
        none_left(&job.mark);
    }
    let done = run(&["-n", "1", "bash", "-c", "head -c 200000 /dev/zero >&$PMI_FD; exec sleep 100"]);
    assert!(done.code == 1 && done.err.contains("a line without end"), "{done:?}");
}

fn detection() {
    for (variables, words) in [
        (&[][..], "single 0 of 1"),
        (&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "2")], "srun --mpi=pmi2"),
        (&[("SLURM_NTASKS", "1"), ("SLURM_PROCID", "0")], "single 0 of 1"),
        (&[("PMI_FD", "77"), ("PMI_RANK", "0"), ("PMI_SIZE", "4")], "PMI_FD=77 is not an open socket"),
        (&[("PMI_FD", "0"), ("PMI_RANK", "0"), ("PMI_SIZE", "4")], "PMI_FD=0 is not an open socket"),
        (&[("OMPI_COMM_WORLD_SIZE", "2"), ("PMIX_RANK", "0")], "OMPI_COMM_WORLD_SIZE=2"),
        (&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "2"), ("CIRCULANT_LAUNCHER", "single")], "single 0 of 1"),
        (&[("CIRCULANT_LAUNCHER", "pmi1")], "neither PMI_FD, PMI_PORT nor PMIX_RANK"),
        (&[("CIRCULANT_LAUNCHER", "pmix")], "CIRCULANT_LAUNCHER=pmix, but"),
        (&[("CIRCULANT_LAUNCHER", "env")], "CIRCULANT_RANK is not set"),
        (&[("CIRCULANT_LAUNCHER", "libpmi"), ("CIRCULANT_LIBPMI", "libnone.so")], "libnone.so"),
        (&[("CIRCULANT_RANK", "0"), ("CIRCULANT_SIZE", "1")], "single 0 of 1"),
        (&[("CIRCULANT_RANK", "0")], "CIRCULANT_SIZE is not set"),
        (&[("PALS_RANKID", "0"), ("CIRCULANT_LIBPMI", "libnone.so")], "cray-pmi"),
        (
            &[
                ("PMIX_RANK", "0"),
                ("PMIX_NAMESPACE", "a"),
                ("PMIX_SERVER_URI4", "b"),
                ("CIRCULANT_LIBPMIX", "libnone.so"),
            ],
            "install libpmix",
        ),
        (&[("CIRCULANT_LAUNCHER", "mpd")], "auto, pmi1, pmix, env, libpmi or single"),
        (&[("PMI_PORT", "localhost:1"), ("PMI_SIZE", "2")], "not PMI_ID"),
    ] {
        let mut job = Job::role("detect");
        for (name, value) in variables {
            job.env(name, value);
        }
        let done = job.output();
        assert!(done.out.contains(words), "{variables:?}: {done:?}");
    }
    let done = run_role("detect", &["-n", "2"]);
    assert_eq!(done.out.matches("pmi1 (PMI_FD)").count(), 2, "{done:?}");
    assert_eq!(done.out.matches("has a World of its job already").count(), 2, "{done:?}");
}

fn inside_another_launcher() {
    let me = std::env::current_exe().unwrap();
    let inner = [job::TOOL, "run", "-n", "3", me.to_str().unwrap()];
    let mut job = Job::run(&[&["-n", "2"][..], &inner].concat());
    let done = job.env("LAUNCH_TEST_ROLE", "values 100").output();
    assert_eq!((done.code, done.out.matches("ok").count()), (0, 6), "{done:?}");
}

fn mpirun_by_pmix() {
    let mpirun = |role: &str| {
        let me = std::env::current_exe().unwrap();
        let mut job = Job::of("mpirun.openmpi");
        job.arguments(&["--allow-run-as-root", "--oversubscribe", "-n", "4", me.to_str().unwrap()]);
        job.env("LAUNCH_TEST_ROLE", role).output()
    };
    let done = mpirun("values 100000");
    assert_eq!((done.code, done.out.matches("ok\n").count()), (0, 4), "{done:?}");
    let done = mpirun("detect");
    assert_eq!(done.out.matches("pmix (").count(), 4, "{done:?}");
    assert_eq!(mpirun("abort").code, 7);
    let done = mpirun("presets");
    assert_eq!((done.code, done.out.matches("=true").count()), (0, 4 * 4), "{done:?}");
}

fn hydra(extra: &[&str], role: &str, ranks: &str) -> job::Done {
    let me = std::env::current_exe().unwrap();
    let mut job = Job::of("mpiexec.hydra");
    job.arguments(extra).arguments(&["-n", ranks, me.to_str().unwrap()]);
    job.env("LAUNCH_TEST_ROLE", role).output()
}

fn hydra_over_a_descriptor() {
    for ranks in ["1", "4", "9"] {
        let done = hydra(&[], "values 5000", ranks);
        let count = done.out.matches("ok\n").count().to_string();
        assert_eq!((done.code, &count[..]), (0, ranks), "{done:?}");
    }
    let done = hydra(&[], "detect", "2");
    assert_eq!(done.out.matches("pmi1 (PMI_FD)").count(), 2, "{done:?}");
}

fn hydra_over_a_port() {
    let done = hydra(&["-pmi-port"], "values 5000", "4");
    assert_eq!((done.code, done.out.matches("ok\n").count()), (0, 4), "{done:?}");
    let done = hydra(&["-pmi-port"], "detect", "2");
    assert_eq!(done.out.matches("pmi1 (PMI_PORT)").count(), 2, "{done:?}");
}

fn hydra_abort() {
    assert_eq!(hydra(&[], "abort", "3").code, 7);
}

fn an_mpich_program() {
    let source = "#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v) { int r, n, s; MPI_Init(&c, &v); \
        MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &n); \
        MPI_Allreduce(&r, &s, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); printf(\"%d of %d sum %d\\n\", r, n, s); \
        fflush(stdout); if (c > 1 && r == 2) MPI_Abort(MPI_COMM_WORLD, 6); \
        MPI_Barrier(MPI_COMM_WORLD); MPI_Finalize(); return 0; }";
    let (file, program) = (job::scratch("hello.c"), job::scratch("hello"));
    std::fs::write(&file, source).unwrap();
    let compiled =
        Job::of("mpicc.mpich").arguments(&[file.to_str().unwrap(), "-o", program.to_str().unwrap()]).output();
    assert_eq!(compiled.code, 0, "{compiled:?}");
    let done = run(&["-n", "4", program.to_str().unwrap()]);
    assert_eq!((done.code, done.out.matches("of 4 sum 6\n").count()), (0, 4), "{done:?}");
    let done = run(&["-n", "4", program.to_str().unwrap(), "abort"]);
    assert_eq!(done.code, 6, "{done:?}");
    let _ = (std::fs::remove_file(file), std::fs::remove_file(program));
}
