//! The command line of `circulant run`: hosts, variables, folders, several programs, cores.

use crate::agents::{ECHO_RANK, on, sorted, stand_in};
use crate::job::{self, Job, scratch};

/// Names of these tests, and whether the test can run here.
pub(crate) fn tests() -> Vec<(&'static str, fn(), bool)> {
    vec![
        ("hosts_from_a_file", hosts_from_a_file, true),
        ("options_of_other_launchers", options_of_other_launchers, true),
        ("several_programs", several_programs, true),
        ("ranks_on_cores", ranks_on_cores, true),
        ("mapped_by_node", mapped_by_node, true),
        ("ranks_on_sockets_and_nodes_of_memory", ranks_on_sockets_and_nodes_of_memory, true),
        ("wrong_hosts", wrong_hosts, true),
    ]
}

fn hosts_from_a_file() {
    let file = scratch("hosts");
    std::fs::write(&file, "# two\na slots=1\n\nb:2\n").unwrap();
    let exec = stand_in("rsh-file", ":");
    let arguments = [
        "--launcher-exec",
        exec.to_str().unwrap(),
        "--hostfile",
        file.to_str().unwrap(),
        "-l",
        "sh",
        "-c",
        ECHO_RANK,
    ];
    let done = job::run(&arguments);
    let want = ["[0] 0 of 3, 0 of 1", "[1] 1 of 3, 0 of 2", "[2] 2 of 3, 1 of 2"];
    assert_eq!((done.code, sorted(&done.out)), (0, want.to_vec()), "{done:?}");
    std::fs::write(&file, "a\nb slots=many\n").unwrap();
    let done = job::run(&arguments);
    assert!(done.code == 2 && done.err.contains("line 2: host b: \"many\" is no number"), "{done:?}");
    let _ = (std::fs::remove_file(file), std::fs::remove_file(exec));
}

fn options_of_other_launchers() {
    for hosts in [&[][..], &["a,b"]] {
        let arguments = [
            "-np",
            "2",
            "-x",
            "A=1 2",
            "-x",
            "LAUNCH_TEST_B",
            "--wdir",
            "/usr",
            "sh",
            "-c",
            "echo $A,$LAUNCH_TEST_B,$(pwd),$PWD",
        ];
        let mut job = match hosts {
            [hosts] => on(hosts, &arguments),
            _ => Job::run(&arguments),
        };
        let done = job.env("LAUNCH_TEST_B", "b=c").output();
        assert_eq!((done.code, &done.out[..]), (0, &"1 2,b=c,/usr,/usr\n".repeat(2)[..]), "{done:?}");
    }
    // Behind the program they are its own.
    let done = job::run(&["-n", "1", "echo", "-np", "2", "-ppn"]);
    assert_eq!((done.code, &done.out[..]), (0, "-np 2 -ppn\n"), "{done:?}");
}

fn several_programs() {
    let show = "echo $A $PMI_RANK of $PMI_SIZE in $(pwd)";
    let arguments = [
        "-l", "-n", "1", "-x", "A=a", "--", "sh", "-c", show, ":", "-np", "2", "-x", "A=b", "--wdir", "/usr",
        "sh", "-c", show, ":", "-n", "1", "--wdir", "/", "sh", "-c", show,
    ];
    let here = std::env::current_dir().unwrap();
    let want = [
        format!("[0] a 0 of 4 in {}", here.display()),
        "[1] b 1 of 4 in /usr".to_owned(),
        "[2] b 2 of 4 in /usr".to_owned(),
        "[3] a 3 of 4 in /".to_owned(),
    ];
    for mut job in [Job::run(&arguments), on("a,b", &arguments)] {
        let done = job.output();
        assert_eq!((done.code, sorted(&done.out)), (0, want.iter().map(|s| &s[..]).collect()), "{done:?}");
    }
}

fn ranks_on_cores() {
    let script = "echo $(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status)";
    let all = job::run(&["-n", "1", "sh", "-c", script]).out;
    let done = job::run(&["-n", "1", "--bind-to", "core", "sh", "-c", script]);
    assert_eq!(done.code, 0, "{done:?}");
    // A machine of one core has nothing to show.
    let one = std::thread::available_parallelism().unwrap().get() == 1;
    assert!(
        one || done.out != all || done.err.contains("not bound") || done.out.contains([',', '-']),
        "{done:?}, all: {all}"
    );
    let done = job::run(&["-n", "1024", "--bind-to", "core", "true"]);
    assert!(done.code == 0 && done.err.contains("1024 ranks are not bound"), "{done:?}");
}

/// Which ranks share a host, told by their numbers there.
fn mapped_by_node() {
    let show = "echo $PMI_RANK:$MPI_LOCALRANKID";
    for (hosts, map, want) in [
        ("a:2,b:2", "slot", ["0:0", "1:1", "2:0", "3:1"]),
        ("a:2,b:2", "node", ["0:0", "1:0", "2:1", "3:1"]),
        ("a:3,b:1", "node", ["0:0", "1:0", "2:1", "3:2"]),
        ("a,b", "node", ["0:0", "1:0", "2:1", "3:1"]),
    ] {
        let done = on(hosts, &["-n", "4", "--map-by", map, "--", "sh", "-c", show]).output();
        assert_eq!((done.code, sorted(&done.out)), (0, want.to_vec()), "{hosts} {map}: {done:?}");
    }
    // Ranks of one host that are no neighbours find each other.
    let bench =
        ["bench", "allgatherv,allreduce", "--bytes", "1K", "--reps", "2", "--check", "--format", "json"];
    let arguments = ["-n", "4", "--map-by", "node", "--deadline", "60", "--"];
    let done = on("a:2,b:2", &[&arguments[..], &bench].concat()).output();
    assert!(done.code == 0 && done.out.contains("\"nodes\": 2"), "{done:?}");
}

/// The processors of a file of /sys, or those that we may use of /proc.
fn processors(text: &str) -> std::collections::BTreeSet<usize> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        low.parse::<usize>().unwrap()..=high.parse().unwrap()
    };
    text.trim().split(',').flat_map(range).collect()
}

fn ranks_on_sockets_and_nodes_of_memory() {
    let script = "echo $(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status)";
    let ours = processors(&job::run(&["-n", "1", "sh", "-c", script]).out);
    let first = ours.first().unwrap();
    let topology = format!("/sys/devices/system/cpu/cpu{first}/topology");
    let of_core = processors(&std::fs::read_to_string(format!("{topology}/thread_siblings_list")).unwrap());
    let of_socket = processors(&std::fs::read_to_string(format!("{topology}/core_siblings_list")).unwrap());
    let of_numa = (0..)
        .map_while(|n| std::fs::read_to_string(format!("/sys/devices/system/node/node{n}/cpulist")).ok())
        .map(|list| processors(&list))
        .find(|list| list.contains(first));
    for (arguments, object) in [
        (&["--bind-to", "socket"][..], &of_socket),
        (&["--bind-to", "package"], &of_socket),
        (&["--map-by", "socket"], &of_socket),
        (&["--map-by", "numa"], of_numa.as_ref().unwrap_or(&ours)),
        (&["--map-by", "socket", "--bind-to", "none"], &ours),
        (&["--map-by", "socket", "--bind-to", "core"], &of_core),
    ] {
        let done = job::run(&[&["-n", "1"], arguments, &["sh", "-c", script]].concat());
        let want = object.intersection(&ours).copied().collect();
        assert_eq!((done.code, processors(&done.out)), (0, want), "{arguments:?}: {done:?}");
    }
}

fn wrong_hosts() {
    for (arguments, words) in [
        (&["-H", "a:0", "-n", "1", "true"][..], "--hosts: host a: \"0\" is no number of ranks"),
        (&["--hosts=-oProxyCommand=x", "-n", "1", "true"], "is no name of a host"),
        (&["-H", "a b", "-n", "1", "true"], "is no name of a host"),
        (&["-H", "a,b", "true"], "--ranks <P>"),
        (&["--hostfile", "/no/such/file", "-n", "1", "true"], "/no/such/file: No such file"),
        (&["--launcher-exec", "x", "-n", "1", "true"], "needs hosts"),
        (&["-n", "1", "true", ":", "true"], "behind a colon"),
        (&["-n", "1", "-x", "=x", "true"], "NAME or NAME=VALUE"),
        (&["-n", "1", "-x", "NO_SUCH_VARIABLE_HERE", "true"], "there is no such variable"),
        (&["-n", "1", "--stdin", "some", "true"], "some"),
        (&["-n", "1", "--bind-to", "moon", "true"], "moon"),
        (&["-n", "1", "--map-by", "moon", "true"], "[possible values: slot, core, node, socket, numa]"),
    ] {
        let done = job::run(arguments);
        assert!(done.code == 2 && done.err.contains(words), "{arguments:?}: {done:?}");
        assert_eq!(done.err.lines().count(), 1, "{arguments:?}: {done:?}");
    }
    let mut job = Job::run(&["-n", "1", "true"]);
    let done = job.env("SLURM_JOB_ID", "1").env("SLURM_JOB_NODELIST", "n[1-").output();
    assert!(
        done.code == 2 && done.err.contains("SLURM_JOB_NODELIST") && done.err.contains("--hosts localhost"),
        "{done:?}"
    );
}
