//! The command line of `circulant run`: hosts, variables, folders, several programs, cores.

use crate::agents::{WHO, on, sorted, stand_in};
use crate::job::{self, Job, scratch};

/// Names of these tests, and whether the test can run here.
pub(crate) fn tests() -> Vec<(&'static str, fn(), bool)> {
    vec![
        ("hosts_from_a_file", hosts_from_a_file, true),
        ("options_of_other_launchers", options_of_other_launchers, true),
        ("several_programs", several_programs, true),
        ("ranks_on_cores", ranks_on_cores, true),
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
        WHO,
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
