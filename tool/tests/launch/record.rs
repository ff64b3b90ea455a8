//! Flight records of jobs of processes, and what `circulant trace` makes of them.

use crate::job::{self, Job};
use circulant::World;
use circulant::record::{Record, Why};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names of these tests, and whether the test can run here.
pub(crate) fn tests() -> Vec<(&'static str, fn(), bool)> {
    vec![("a_signal_has_a_waiting_job_recorded", a_signal_has_a_waiting_job_recorded, true)]
}

/// Only stops what hangs.
const LONG: Duration = Duration::from_secs(50);

/// Rank 2 comes to the barrier when the file `go` exists.
pub(crate) fn play(go: &str) {
    let world = World::init().unwrap();
    let comm = world.comm();
    comm.barrier().unwrap();
    println!("ready");
    if comm.rank() == 2 {
        let until = Instant::now() + LONG;
        while !Path::new(go).exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    comm.barrier().unwrap();
    world.finalize().unwrap();
    println!("done");
}

fn records(folder: &Path, why: Why) -> Vec<Record> {
    let until = Instant::now() + LONG;
    loop {
        let read = |rank: u32| {
            let bytes = std::fs::read(folder.join(format!("rank-{rank}.record"))).ok()?;
            Some(Record::read(&bytes).unwrap())
        };
        let all: Vec<Record> = (0..3).filter_map(read).filter(|r| r.why == why).collect();
        if all.len() == 3 {
            return all;
        }
        assert!(Instant::now() < until, "{} records came", all.len());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A job whose rank 2 does not come to a barrier; its folder, and the file for which that rank waits.
fn stuck(provider: &str) -> (Job, PathBuf, PathBuf) {
    let (folder, me) = (job::scratch("records"), std::env::current_exe().unwrap());
    let go = folder.join("go");
    let mut job = Job::run(&["-n", "3", "--provider", provider, "--record", folder.to_str().unwrap()]);
    job.arguments(&["--", me.to_str().unwrap()]);
    job.env("LAUNCH_TEST_ROLE", &format!("record {}", go.display()));
    job.start();
    job.wait_for("ready", 3);
    (job, folder, go)
}

fn trace(words: &[&str]) -> job::Done {
    let mut trace = Job::of(job::TOOL);
    trace.arguments(&["trace"]).arguments(words);
    trace.output()
}

/// `circulant trace` names the call, and the rank that never entered it; also without that rank's record.
fn says_who_is_missing(folder: &Path, call: u32) {
    let shown = folder.to_str().unwrap();
    let done = trace(&[shown]);
    let has = |words: &str| assert!(done.out.contains(words), "no {words:?}: {done:?}");
    assert_eq!(done.code, 0, "{done:?}");
    has("3 of 3 ranks on 1 node");
    has(&format!(" in barrier #{call}"));
    has(&format!("; rank 2 never entered #{call}: it left barrier #{}", call - 1));
    has("all wait for rank 2 in the end");
    let [one, two] = [0, 1].map(|rank| format!("{shown}/rank-{rank}.record"));
    let done = trace(&[&one, &two]);
    assert!(
        done.out.contains("no record: rank 2") && done.out.contains("; rank 2 left no record"),
        "{done:?}"
    );
}

/// Also the rank that is in no call writes one, and the job goes on.
fn a_signal_has_a_waiting_job_recorded() {
    for provider in ["shm", "tcp"] {
        let (mut job, folder, go) = stuck(provider);
        // Before they wait for rank 2 there is nothing to be seen.
        let until = Instant::now() + LONG;
        loop {
            job.kill(Signal::USR1);
            let all = records(&folder, Why::Signal);
            let entered = |r: &Record| r.entered.as_ref().map(|c| c.sequence);
            let behind = all.iter().all(|r| (entered(r) < entered(&all[0])) == (r.rank == 2));
            let waits = |r: &Record| r.waits.iter().any(|w| w.peer == 2 && &*w.call.operation == "barrier");
            if behind && all[..2].iter().any(waits) {
                assert!(all[2].waits.is_empty(), "{all:?}");
                says_who_is_missing(&folder, all[0].entered.as_ref().unwrap().sequence);
                break;
            }
            assert!(Instant::now() < until, "{all:?}");
            (0..3).for_each(|r| _ = std::fs::remove_file(folder.join(format!("rank-{r}.record"))));
        }
        assert!(job.is_running());
        std::fs::write(go, "").unwrap();
        let done = job.output();
        assert_eq!((done.code, done.out.matches("done").count()), (0, 3), "{provider}: {done:?}");
        assert!(records(&folder, Why::End).iter().all(|r| r.waits.is_empty() && r.error.is_none()));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
