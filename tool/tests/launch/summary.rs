//! What `circulant run` says at the end of a job that failed, and what it leaves out before.

use crate::agents;
use crate::job::{self, Job};

/// Names of these tests, and whether the test can run here.
pub(crate) fn tests() -> Vec<(&'static str, fn(), bool)> {
    vec![("one_summary_says_why_the_job_failed", one_summary_says_why_the_job_failed, true)]
}

fn one_summary_says_why_the_job_failed() {
    let me = std::env::current_exe().unwrap();
    let play = |how: &str, mut job: Job| {
        job.arguments(&["--", me.to_str().unwrap()]);
        job.env("LAUNCH_TEST_ROLE", &format!("report {how}")).output()
    };
    let summary = |done: &job::Done| {
        let lines = done.err.lines().skip_while(|l| !l.starts_with("circulant run: the job failed"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let count = |done: &job::Done, word: &str| done.err.matches(word).count();
    let error = "rank 2: bcast #1: root 9 is out of range\n  help: take another\n";
    for (hosts, option, lines) in [("", "", 1), ("a:2,b:2", "", 1), ("", "-l", 4), ("", "--all-errors", 4)] {
        let mut job = if hosts.is_empty() { Job::run(&["-n", "4"]) } else { agents::on(hosts, &[]) };
        let options = (hosts, option);
        job.arguments(Some(option).filter(|o| !o.is_empty()).as_slice());
        let done = play("error", job);
        assert_eq!((done.code, count(&done, "a word of rank ")), (1, 8), "{options:?}: {done:?}");
        assert_eq!(count(&done, "Error: rank "), lines, "{options:?}: {done:?}");
        assert!(option == "-l" || done.err.contains(&format!("Error: {error}")), "{done:?}");
        let want = [
            "circulant run: the job failed (exit code 1)",
            "  error: bcast #1: root 9 is out of range",
            "  help: take another",
            "  met by: rank 2",
        ];
        let told = if lines == 1 {
            "  told to: ranks 0-1, 3 (--all-errors prints their lines)"
        } else {
            "  told to: ranks 0-1, 3"
        };
        assert_eq!(
            summary(&done),
            [&want[..], &[told, "  ends: ranks 0-3 exited with code 1"]].concat(),
            "{done:?}"
        );
    }
    let done = play("gone", Job::run(&["-n", "4"]));
    assert_eq!(
        (done.code, count(&done, "Error: rank "), count(&done, "a word of rank ")),
        (137, 0, 6),
        "{done:?}"
    );
    let want = [
        "circulant run: the job failed (exit code 137)",
        "  error: rank 2 is gone (killed by signal 9 (SIGKILL)) (peer 2)",
        "  told to: ranks 0-1, 3 (--all-errors prints their lines)",
        "  ends: rank 2 was killed by signal 9 (SIGKILL); ranks 0-1, 3 exited with code 1",
    ];
    assert_eq!(summary(&done), want, "{done:?}");
}
