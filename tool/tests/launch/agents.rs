//! Jobs over several hosts: this machine under several names, by a stand-in for ssh.

use crate::job::{self, Done, Job, alive, compiles_mpich, named, none_left, scratch};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// Names of these tests, and whether the test can run here.
pub(crate) fn tests() -> Vec<(&'static str, fn(), bool)> {
    vec![
        ("hosts_share_the_ranks", hosts_share_the_ranks, true),
        ("values_over_hosts", values_over_hosts, true),
        ("values_over_a_tree_of_hosts", values_over_a_tree_of_hosts, true),
        ("exit_codes_over_hosts", exit_codes_over_hosts, true),
        ("others_on_other_hosts_are_told", others_on_other_hosts_are_told, true),
        ("signals_reach_other_hosts", signals_reach_other_hosts, true),
        ("a_job_over_hosts_listens_nowhere", a_job_over_hosts_listens_nowhere, true),
        ("no_orphans_on_other_hosts", no_orphans_on_other_hosts, true),
        ("a_host_that_cannot_be_reached", a_host_that_cannot_be_reached, true),
        ("agents_that_say_something_else", agents_that_say_something_else, true),
        ("time_limits_over_hosts", time_limits_over_hosts, true),
        ("input_over_hosts", input_over_hosts, true),
        ("output_over_hosts", output_over_hosts, true),
        ("a_reader_that_leaves_ends_all_hosts", a_reader_that_leaves_ends_all_hosts, true),
        ("agents_do_not_wait_busily", agents_do_not_wait_busily, true),
        ("two_jobs_and_names_with_spaces", two_jobs_and_names_with_spaces, true),
        ("many_ranks_over_hosts", many_ranks_over_hosts, true),
        ("ranks_of_many_read_by_node", ranks_of_many_read_by_node, true),
        ("a_thousand_ranks_start_in_few_messages", a_thousand_ranks_start_in_few_messages, true),
        ("an_mpich_program_over_hosts", an_mpich_program_over_hosts, compiles_mpich()),
    ]
}

/// A stand-in for ssh that does this first, with the host in `$1`.
pub(crate) fn stand_in(name: &str, first: &str) -> PathBuf {
    let file = scratch(name);
    // The shell stays between, as ssh does.
    let text = format!("#!/bin/sh\n{first}\nshift\nsh -c \"$*\"\nexit $?\n");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// A job on these hosts.
pub(crate) fn on(hosts: &str, arguments: &[&str]) -> Job {
    let exec = stand_in(&format!("rsh {}", job::unique()), ":");
    let mut job = Job::run(&["--launcher-exec", exec.to_str().unwrap(), "--hosts", hosts]);
    job.arguments(arguments);
    job.files.push(exec);
    job
}

/// The same of this binary in a role.
fn role_on(hosts: &str, role: &str, arguments: &[&str]) -> Job {
    let me = std::env::current_exe().unwrap();
    let mut job = on(hosts, arguments);
    job.arguments(&["--", me.to_str().unwrap()]).env("LAUNCH_TEST_ROLE", role);
    job
}

pub(crate) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

pub(crate) const ECHO_RANK: &str = "echo $PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS";

fn hosts_share_the_ranks() {
    let done = on("a:2,b", &["-n", "3", "-l", "sh", "-c", ECHO_RANK]).output();
    let want = ["[0] 0 of 3, 0 of 2", "[1] 1 of 3, 1 of 2", "[2] 2 of 3, 0 of 1"];
    assert_eq!((done.code, sorted(&done.out)), (0, want.to_vec()), "{done:?}");
    // As many as there are places, where no number is given.
    for (hosts, more, count) in
        [("a:2,b:3", &[][..], 5), ("a,b", &["--ppn", "3"], 6), ("a,b", &["-ppn", "1"], 2)]
    {
        let done = on(hosts, &[more, &["echo", "x"]].concat()).output();
        assert_eq!((done.code, done.out.matches("x\n").count()), (0, count), "{hosts} {more:?}: {done:?}");
    }
    // Evenly without numbers; this machine's own name needs no ssh.
    let done = on("a,b,c", &["-n", "4", "sh", "-c", "echo $MPI_LOCALNRANKS"]).output();
    assert_eq!(sorted(&done.out), ["1", "1", "2", "2"], "{done:?}");
    let done = job::run(&["--hosts", "localhost", "-n", "2", "echo", "here"]);
    assert_eq!((done.code, &done.out[..]), (0, "here\nhere\n"), "{done:?}");
}

fn values_over_hosts() {
    let mut job = role_on("a:2,b:1,c:2", "values 100000", &["-n", "5"]);
    let done = job.env("LAUNCH_TEST_NODES", "0,0,1,2,2").output();
    assert_eq!((done.code, done.out.matches("ok\n").count()), (0, 5), "{done:?}");
}

fn values_over_a_tree_of_hosts() {
    for fanout in ["1", "2", "3"] {
        let mut job = role_on("a,b,c,d,e,f,g", "values 600", &["-n", "8", "--fanout", fanout]);
        let done = job.env("LAUNCH_TEST_NODES", "0,0,1,2,3,4,5,6").output();
        assert_eq!((done.code, done.out.matches("ok\n").count()), (0, 8), "{done:?}");
    }
    // An end far down comes up, and so does a host that cannot be reached from there.
    let done = on(
        "a,b,c,d,e",
        &["-n", "5", "--fanout", "1", "--grace", "0.1", "sh", "-c", "[ $PMI_RANK = 4 ] && exit 3; sleep 100"],
    )
    .output();
    assert!(done.code == 3 && done.err.contains(" on e) exited with code 3"), "{done:?}");
    let exec = stand_in("rsh-far", "[ $1 = c ] && { echo there is no such host >&2; exit 255; }");
    let mut job = Job::run(&[
        "--launcher-exec",
        exec.to_str().unwrap(),
        "-H",
        "a,b,c,d",
        "-n",
        "4",
        "--fanout",
        "1",
        "sleep",
        "100",
    ]);
    let done = job.output();
    let words = format!(
        "host c cannot be reached: {} exited with code 255",
        exec.file_name().unwrap().to_str().unwrap()
    );
    assert!(done.code == 1 && done.err.contains(&words), "{done:?}");
    none_left(&job.mark);
    std::fs::remove_file(exec).unwrap();
}

fn exit_codes_over_hosts() {
    for (script, code, words) in [
        ("exit 0", 0, ""),
        ("if [ $PMI_RANK = 2 ]; then exit 3; fi; sleep 100", 3, " on b) exited with code 3"),
        (
            "if [ $PMI_RANK = 3 ]; then kill -9 $$; fi; sleep 100",
            137,
            " on b) was killed by signal 9 (SIGKILL)",
        ),
        ("if [ $PMI_RANK = 0 ]; then kill -SEGV $$; fi; sleep 100", 139, "SIGSEGV"),
    ] {
        let mut job = on("a:2,b:2", &["--grace", "0.1", "sh", "-c", script]);
        let done = job.output();
        assert_eq!(done.code, code, "{script}: {done:?}");
        assert!(done.err.contains(words), "{script}: {done:?}");
        let reports = done.err.lines().filter(|l| l.contains("(pid ")).count();
        assert_eq!(reports, usize::from(code != 0), "one line says what failed first: {done:?}");
        none_left(&job.mark);
    }
    let mut job = role_on("a,b,c", "abort", &["-n", "3"]);
    let done = job.output();
    assert!(
        done.code == 7 && done.err.contains(" on b) aborted the job with code 7: no more of this"),
        "{done:?}"
    );
    none_left(&job.mark);
    let done = on("a", &["-n", "1", "no-such-program"]).output();
    assert!(done.code == 127 && done.err.contains("no-such-program cannot be started"), "{done:?}");
    let done = on("a,b", &["-n", "2", "--wdir", "/no/such/folder", "true"]).output();
    assert!(done.code == 1 && done.err.contains("there is no folder /no/such/folder on "), "{done:?}");
}

fn others_on_other_hosts_are_told() {
    let done = role_on("a,b,c", "die kill", &["-n", "3"]).output();
    assert_eq!(done.code, 137, "{done:?}");
    assert_eq!(done.out.matches("gone 1: killed by signal 9 (SIGKILL)").count(), 2, "{done:?}");
    let done = role_on("a,b,c", "die-in-fence", &["-n", "3", "--grace", "60"]).output();
    let told = done.out.matches("PeerLost Some(1) rank 1 is gone (killed by signal 9 (SIGKILL))").count();
    assert_eq!((done.code, told), (137, 2), "{done:?}");
}

fn signals_reach_other_hosts() {
    let script = "trap 'echo got; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let mut job = on("a,b", &["-n", "3", "sh", "-c", script]);
    job.start();
    job.wait_for("ready", 3);
    job.kill(Signal::TERM);
    let done = job.output();
    assert_eq!((done.out.matches("got").count(), done.code), (3, 0), "{done:?}");
    let mut job =
        on("a,b", &["-n", "3", "sh", "-c", "trap '' INT TERM; echo ready; while :; do sleep 0.05; done"]);
    job.start();
    job.wait_for("ready", 3);
    job.kill(Signal::INT);
    job.wait_for_error("passed on", 1);
    job.kill(Signal::INT);
    assert_eq!(job.output().code, 130);
    none_left(&job.mark);
    let mut job = on(
        "a,b",
        &[
            "-n",
            "2",
            "--grace",
            "0.3",
            "sh",
            "-c",
            "[ $PMI_RANK = 1 ] && exit 4; trap 'echo term' TERM; while :; do sleep 0.05; done",
        ],
    );
    let done = job.output();
    assert_eq!((done.code, &done.out[..]), (4, "term\n"), "{done:?}");
    assert!(done.took > Duration::from_secs(2), "KILL comes 2 s after TERM");
    none_left(&job.mark);
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

/// The lines of the kernel's lists of sockets that are of this process and to which others can connect.
fn listening(pid: u32) -> Vec<String> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let names = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    let ours: Vec<String> = names
        .filter_map(|name| Some(name.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    // In each list: where the number of the socket stands, and what shows that it listens.
    let lists = [("tcp", 9, 3, "0A"), ("tcp6", 9, 3, "0A"), ("unix", 6, 3, "00010000")];
    let mut found = Vec::new();
    for (list, number, state, listens) in lists {
        for line in std::fs::read_to_string(format!("/proc/{pid}/net/{list}")).unwrap_or_default().lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_ours = fields.get(number).is_some_and(|n| ours.iter().any(|o| o == n));
            if is_ours && fields.get(state) == Some(&listens) {
                found.push(line.to_owned());
            }
        }
    }
    found
}

/// Launcher, agents and ranks have no socket to which a stranger could connect.
fn a_job_over_hosts_listens_nowhere() {
    let control = scratch("listener");
    let _tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _unix = std::os::unix::net::UnixListener::bind(&control).unwrap();
    assert!(listening(std::process::id()).len() >= 2, "listeners of this process are found");
    std::fs::remove_file(control).unwrap();
    let mut job = on("a:2,b:2", &["-n", "4", "sh", "-c", "echo there; sleep 60"]);
    job.start();
    job.wait_for("there", 4);
    let all = alive(&job.mark);
    // The launcher, two agents, four ranks, and what is between.
    assert!(all.len() >= 7, "{all:?}");
    for pid in all {
        assert_eq!(listening(pid), Vec::<String>::new(), "process {pid}");
    }
    job.kill(Signal::TERM);
    job.output();
}

fn no_orphans_on_other_hosts() {
    // Each rank has children, in its process group and in a session of their own.
    let script =
        "trap '' TERM INT HUP; sh -c 'sleep 300 & wait' & setsid sleep 300 & echo ready; sleep 300; wait";
    let begin = |fanout: &str| {
        let mut job = on("a,b,c", &["-n", "4", "--grace", "0.1", "--fanout", fanout, "sh", "-c", script]);
        job.start();
        job.wait_for("ready", 4);
        job
    };
    for fanout in ["32", "1"] {
        let mut job = begin(fanout);
        assert!(alive(&job.mark).len() >= 4 * 4 + 3);
        job.kill(Signal::KILL);
        assert_eq!(job.output().code, 137);
        none_left(&job.mark);
    }
    let ours = |done: &Done, what: &str| {
        assert!(
            done.code == 1 && done.err.contains("host ") && done.err.contains(" is lost with rank"),
            "{what}: {done:?}"
        );
    };
    for (what, fanout) in [("__agent", "32"), ("rsh", "32"), ("__agent", "1")] {
        let mut job = begin(fanout);
        // Of the stand-ins only those that are shells.
        let found: Vec<u32> = match what {
            "rsh" => named(&job.mark, "rsh ")
                .into_iter()
                .filter(|p| !named(&job.mark, "\0run\0").contains(p))
                .collect(),
            word => {
                named(&job.mark, word).into_iter().filter(|p| !named(&job.mark, "sh\0").contains(p)).collect()
            }
        };
        assert!(!found.is_empty(), "{what}");
        kill(found[0]);
        let done = job.output();
        ours(&done, what);
        // What a rank of a job that ends in order has put into a session of its own is left alone.
        let left = alive(&job.mark);
        for pid in left.iter().filter(|&&p| named(&job.mark, "sleep\x00300").contains(&p)) {
            let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
        }
        none_left(&job.mark);
    }
}

fn a_host_that_cannot_be_reached() {
    let exec = stand_in("rsh-bad", "[ $1 = b ] && { echo there is no such host >&2; exit 255; }");
    let exec = exec.to_str().unwrap();
    let mut job = Job::run(&["--launcher-exec", exec, "-H", "a,b", "-n", "2", "sleep", "100"]);
    let done = job.output();
    assert!(done.code == 1 && done.err.contains("there is no such host"), "{done:?}");
    assert!(
        done.err.contains("host b cannot be reached: ") && done.err.contains("exited with code 255"),
        "{done:?}"
    );
    none_left(&job.mark);
    std::fs::remove_file(exec).unwrap();
    // One that never answers.
    let exec = stand_in("rsh-slow", "[ $1 = b ] && sleep 100");
    let exec = exec.to_str().unwrap();
    let mut job =
        Job::run(&["--launcher-exec", exec, "-H", "a,b", "-n", "2", "--start-deadline", "4", "sleep", "100"]);
    let done = job.output();
    assert!(
        done.code == 1 && done.err.contains("host b cannot be reached: its agent did not come up within 4s"),
        "{done:?}"
    );
    none_left(&job.mark);
    std::fs::remove_file(exec).unwrap();
    let done = Job::run(&["--launcher-exec", "/no/such/rsh", "-H", "a", "-n", "1", "true"]).output();
    assert!(done.code == 1 && done.err.contains("rsh cannot be started: No such file"), "{done:?}");
}

fn agents_that_say_something_else() {
    for (first, words) in [
        (
            "[ $1 = b ] && { echo circulant-agent 00; exec sleep 100; }",
            "host b cannot be reached: its agent does not know the job's secret",
        ),
        (
            "[ $1 = b ] && { head -c 100000 /dev/zero; exec sleep 100; }",
            "it says something else than an agent would",
        ),
        ("[ $1 = b ] && { cat >/dev/null; exit 0; }", "did not come up"),
    ] {
        let exec = stand_in("rsh-liar", first);
        let exec = exec.to_str().unwrap();
        let mut job = Job::run(&[
            "--launcher-exec",
            exec,
            "-H",
            "a,b",
            "-n",
            "2",
            "--start-deadline",
            "3",
            "sleep",
            "100",
        ]);
        let done = job.output();
        assert!(done.code == 1 && done.err.contains(words), "{first}: {done:?}");
        none_left(&job.mark);
        std::fs::remove_file(exec).unwrap();
    }
    // What shells print at a login is no harm.
    let exec = stand_in("rsh-noise", "echo Welcome to $1; echo");
    let done =
        Job::run(&["--launcher-exec", exec.to_str().unwrap(), "-H", "a,b", "-n", "2", "echo", "x"]).output();
    assert_eq!((done.code, &done.out[..]), (0, "x\nx\n"), "{done:?}");
    assert!(done.err.contains("b says \"Welcome to b\""), "{done:?}");
    std::fs::remove_file(exec).unwrap();
    // Nor does the secret stand where others may read it.
    let done = on("a", &["-n", "1", "sh", "-c", "tr '\\0' ' ' </proc/$PPID/cmdline"]).output();
    assert!(done.code == 0 && done.out.ends_with(" __agent "), "{done:?}");
}

fn time_limits_over_hosts() {
    let mut job =
        on("a,b", &["-n", "4", "--timeout", "4", "sh", "-c", "[ $PMI_RANK = 1 ] && exit 0; exec sleep 100"]);
    let done = job.output();
    assert!(done.code == 124 && done.err.contains("still running: ranks 0, 2-3"), "{done:?}");
    none_left(&job.mark);
}

fn input_over_hosts() {
    let bytes: Vec<u8> = (0..1_000_000u32).map(|i| (i / 3 + i % 251).to_le_bytes()[0]).collect();
    for (hosts, who, counts) in [
        ("a,b", "0", ["1000000", "0", "0"]),
        ("a,b", "all", ["1000000"; 3]),
        ("a,b", "none", ["0"; 3]),
        ("", "all", ["1000000"; 3]),
        ("", "none", ["0"; 3]),
    ] {
        let arguments = ["-n", "3", "--stdin", who, "-l", "sh", "-c", "wc -c"];
        let mut job = if hosts.is_empty() { Job::run(&arguments) } else { on(hosts, &arguments) };
        job.input(&bytes);
        let done = job.output();
        let want: Vec<String> = (0..3).map(|r| format!("[{r}] {}", counts[r])).collect();
        assert_eq!(
            (done.code, sorted(&done.out)),
            (0, want.iter().map(|s| &s[..]).collect()),
            "{hosts} {who}: {done:?}"
        );
    }
    // A rank that does not read it holds up no other.
    let mut job = on("a,b", &["-n", "3", "--stdin", "all", "sh", "-c", "[ $PMI_RANK = 1 ] && exit 0; wc -c"]);
    job.input(&bytes);
    let done = job.output();
    assert_eq!((done.code, &done.out[..]), (0, "1000000\n1000000\n"), "{done:?}");
}

fn output_over_hosts() {
    let bytes: Vec<u8> = (0..5_000_001u32).map(|i| (i / 7 + i % 251).to_le_bytes()[0]).collect();
    let file = scratch("bytes-far");
    std::fs::write(&file, &bytes).unwrap();
    let script = format!("[ $PMI_RANK = 0 ] && cat {} || true", file.display());
    for fanout in ["32", "1"] {
        let done = on("a,b", &["-n", "2", "--fanout", fanout, "sh", "-c", &script]).output();
        assert!(done.raw == bytes, "{} of {} bytes came", done.raw.len(), bytes.len());
    }
    std::fs::remove_file(file).unwrap();
    let script =
        "i=0; while [ $i -lt 300 ]; do echo $i $PMI_RANK; echo e $i >&2; i=$((i+1)); done; printf end";
    let done = on("a:2,b:2", &["-l", "sh", "-c", script]).output();
    assert_eq!(
        (done.code, done.out.lines().count(), done.err.lines().count()),
        (0, 4 * 301, 4 * 300),
        "{done:?}"
    );
    let mut next = [0; 4];
    for line in done.out.lines().filter(|l| !l.ends_with("end")) {
        let words: Vec<&str> = line.split(' ').collect();
        let rank: usize = words[2].parse().unwrap();
        assert_eq!((words[0], words[1]), (&format!("[{rank}]")[..], &next[rank].to_string()[..]));
        next[rank] += 1;
    }
}

fn a_reader_that_leaves_ends_all_hosts() {
    let exec = stand_in("rsh-pipe", ":");
    let script = format!(
        "{} run --launcher-exec {} -H a,b -n 2 yes | head -n 3; echo ${{PIPESTATUS[0]}}",
        job::TOOL,
        exec.display()
    );
    let mut job = Job::of("bash");
    let done = job.arguments(&["-c", &script]).output();
    assert_eq!(done.out, "y\ny\ny\n141\n", "{done:?}");
    none_left(&job.mark);
    std::fs::remove_file(exec).unwrap();
}

fn agents_do_not_wait_busily() {
    let mut job = on("a,b", &["-n", "2", "sh", "-c", "echo ready; exec sleep 2"]);
    job.start();
    job.wait_for("ready", 2);
    let used = |job: &Job| named(&job.mark, "circulant").iter().map(|&p| job::ticks(p)).sum::<u64>();
    let before = used(&job);
    std::thread::sleep(Duration::from_secs(1));
    let used = used(&job) - before;
    assert!(used <= 10, "{used} ticks of CPU time in a second of doing nothing");
    assert_eq!(job.output().code, 0);
}

fn two_jobs_and_names_with_spaces() {
    // The tool, the stand-in, the program and the folder all have spaces in their names.
    let folder = scratch("a folder's name");
    std::fs::create_dir_all(&folder).unwrap();
    let (tool, program) = (folder.join("the tool"), folder.join("my job"));
    std::fs::copy(job::TOOL, &tool).unwrap();
    std::fs::write(&program, "#!/bin/sh\nsleep 0.3\necho \"$1 $(pwd)\"\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let exec = stand_in("rsh spaces", ":");
    let mut jobs: Vec<Job> = (0..2)
        .map(|i| {
            let mut job = Job::of(tool.to_str().unwrap());
            job.arguments(&[
                "run",
                "--launcher-exec",
                exec.to_str().unwrap(),
                "-H",
                "a,b",
                "-n",
                "2",
                "--wdir",
            ]);
            job.arguments(&[folder.to_str().unwrap(), "./my job", &format!("job  {i}")]);
            job.start();
            job
        })
        .collect();
    for (i, job) in jobs.iter_mut().enumerate() {
        let done = job.output();
        let line = format!("job  {i} {}\n", folder.display());
        assert_eq!((done.code, &done.out[..]), (0, &line.repeat(2)[..]), "{done:?}");
        none_left(&job.mark);
    }
    let _ = (std::fs::remove_dir_all(folder), std::fs::remove_file(exec));
}

fn many_ranks_over_hosts() {
    let mut job = role_on("a:16,b:16", "values 600", &[]);
    let nodes: Vec<&str> = (0..32).map(|r| if r < 16 { "0" } else { "1" }).collect();
    let done = job.env("LAUNCH_TEST_NODES", &nodes.join(",")).output();
    assert_eq!((done.code, done.out.matches("ok\n").count()), (0, 32), "{done:?}");
}

/// From 64 ranks on rank 0 reads a value of each node at start-up.
fn ranks_of_many_read_by_node() {
    let bench = ["bench", "allreduce", "--bytes", "8", "--reps", "2", "--check", "--format", "json"];
    let done = on("a:33,b:31", &bench).output();
    assert!(done.code == 0 && done.out.contains("\"nodes\": 2"), "{done:?}");
}

/// The launcher's part of the start of 1024 ranks; the agents are played.
fn a_thousand_ranks_start_in_few_messages() {
    let me = std::env::current_exe().unwrap();
    let exec = scratch("rsh-many");
    std::fs::write(&exec, format!("#!/bin/sh\nLAUNCH_TEST_ROLE=agent-of-many exec '{}'\n", me.display()))
        .unwrap();
    std::fs::set_permissions(&exec, std::fs::Permissions::from_mode(0o755)).unwrap();
    let hosts: Vec<String> = (0..32).map(|i| format!("h{i}:32")).collect();
    let mut job = Job::run(&["--launcher-exec", exec.to_str().unwrap(), "-H", &hosts.join(","), "true"]);
    let done = job.output();
    assert_eq!((done.code, &done.err[..]), (0, ""), "{done:?}");
    println!("1024 ranks on 32 hosts: {:?}", done.took);
    std::fs::remove_file(exec).unwrap();
}

fn an_mpich_program_over_hosts() {
    let source = "#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v) { int r, n, s, *app, found; MPI_Init(&c, &v); \
        MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &n); \
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &found); \
        MPI_Allreduce(&r, &s, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); printf(\"%d of %d sum %d app %d\\n\", r, n, s, found ? *app : -1); \
        fflush(stdout); if (c > 1 && r == 2) MPI_Abort(MPI_COMM_WORLD, 6); \
        MPI_Barrier(MPI_COMM_WORLD); MPI_Finalize(); return 0; }";
    let (file, program) = (scratch("far.c"), scratch("far"));
    std::fs::write(&file, source).unwrap();
    let compiled =
        Job::of("mpicc.mpich").arguments(&[file.to_str().unwrap(), "-o", program.to_str().unwrap()]).output();
    assert_eq!(compiled.code, 0, "{compiled:?}");
    let path = program.to_str().unwrap();
    let done = on("a:2,b:1,c:1", &[path]).output();
    assert_eq!((done.code, done.out.matches("of 4 sum 6 app 0\n").count()), (0, 4), "{done:?}");
    let done = on("a:2,b:2", &["-n", "1", path, ":", "-n", "3", path]).output();
    assert_eq!((done.code, done.out.matches("of 4 sum 6 app 1\n").count()), (0, 3), "{done:?}");
    let mut job = on("a:2,b:2", &[path, "abort"]);
    let done = job.output();
    assert_eq!(done.code, 6, "{done:?}");
    none_left(&job.mark);
    let _ = (std::fs::remove_file(file), std::fs::remove_file(program));
}
