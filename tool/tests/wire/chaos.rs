//! Random programs with random faults as real processes under `circulant run`: the ranks stop and go on, die, leave, or lose their launcher.
//! Each ends right, or by an error that names the culprit, in time, and leaves nothing behind.

use crate::cluster::Cluster;
use crate::job::{Job, alive};
use circulant_tests::chaos::judge::{Verdict, Wrong, judge};
use circulant_tests::chaos::processes::{self, lines};
use circulant_tests::chaos::program::{Item, Program, Wire};
use circulant_tests::chaos::walk::End;
use circulant_tests::chaos::{Chosen, many};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::read_dir;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A job that takes longer hangs: several times what the latest rank may take; under emulation start-up and ends take that time, too.
fn hang(wire: Wire) -> Duration {
    Duration::from_secs(if wire == Wire::Verbs { 240 } else { 60 })
}
/// The launcher leaves ranks so many seconds when one has ended: longer than the deadline, and what a busy machine adds.
fn grace_seconds(wire: Wire) -> &'static str {
    if wire == Wire::Verbs { "90" } else { "30" }
}
/// How often it is looked, every 10 ms, whether processes have ended after their launcher. Chosen: they are killed at once, on a busy machine.
const GONE_LOOKS: usize = 1000;
/// What one turn of the watch may take; what is longer is time in which this process could not run.
const TURN: Duration = Duration::from_millis(100);
/// A job during which this process itself could not run for so long, much of a deadline, says nothing: it is run again, so often at the most.
const STANDSTILL: Duration = Duration::from_secs(3);
const STANDSTILLS: usize = 10;
/// A program that has failed fails again by chance: it is run so often to see it.
const AGAIN: usize = 4;
/// Jobs at once, as they wait most of the time; under emulation they compute.
fn at_once(wire: Wire) -> usize {
    if wire == Wire::Verbs { 1 } else { 4 }
}

/// One program again, where CHAOS_SEED says which (CHAOS_KEEP: these items of it); else CHAOS_SEEDS of them, from CHAOS_FIRST on.
pub(crate) fn programs(wire: &str) {
    let wire = Wire::ALL.into_iter().find(|known| known.name() == wire).unwrap();
    let chosen = Chosen::from_env();
    if let Some(program) = chosen.program(wire) {
        println!("{program:#?}");
        let again = || (0..AGAIN).find_map(|_| run(&program).wrong);
        if let Some(Wrong { class, text }) = again() {
            panic!("{class}: {text}");
        }
        return;
    }
    let (first, count) = (chosen.first.unwrap_or(0), chosen.count.unwrap_or(6));
    println!("CHAOS_FIRST={first} CHAOS_SEEDS={count}");
    // One that fails once has failed; when it is shrunk it has some chances more.
    let seen = std::sync::Mutex::new(std::collections::HashSet::new());
    let verdict = |program: &Program| {
        let known = !seen.lock().unwrap().insert(program.seed);
        let tries = if known { AGAIN } else { 1 };
        let mut verdict = run(program);
        for _ in 1..tries {
            if verdict.wrong.is_some() {
                break;
            }
            verdict = run(program);
        }
        verdict
    };
    if let Err(text) = many(wire, (first, count), at_once(wire), verdict) {
        panic!("{text}");
    }
}

/// Rank 7 is killed, and the others end for that one after the other: one that comes to a call late finds processes gone that it has had nothing
/// to do with before.
pub(crate) fn ended_for_another() {
    let program = Program::draw(353, Wire::Shm).keep(&[3, 6, 7, 9]);
    for _ in 0..AGAIN {
        if let Some(Wrong { class, text }) = run(&program).wrong {
            panic!("{class}: {text}");
        }
    }
}

/// Runs it, and judges it.
fn run(program: &Program) -> Verdict {
    for _ in 0..STANDSTILLS {
        let (verdict, longest_gap) = once(program);
        if longest_gap < STANDSTILL {
            return verdict;
        }
        println!("seed {}: this process could not run for {longest_gap:?}, so once more", program.seed);
    }
    once(program).0
}

/// Signals to come, and what becomes of links.
struct Watch<'a> {
    cluster: Option<&'a Cluster>,
    /// The node of each rank.
    nodes: &'a [u32],
    /// Lines of signals that have been sent.
    served: usize,
    to_continue: Vec<(Instant, usize, Pid)>,
    links_served: usize,
    /// Links that work again at some time.
    to_repair: Vec<(Instant, u32)>,
    /// When ranks have gone on, or have their link again, by the day of the system's clock.
    continued: Vec<(usize, Duration)>,
    launcher_killed: bool,
}

impl<'a> Watch<'a> {
    fn new(program: &'a Program, cluster: Option<&'a Cluster>) -> Self {
        let (to_continue, to_repair, continued) = (Vec::new(), Vec::new(), Vec::new());
        let nodes = &program.nodes;
        Self {
            cluster,
            nodes,
            served: 0,
            to_continue,
            links_served: 0,
            to_repair,
            continued,
            launcher_killed: false,
        }
    }

    /// Sends what is due.
    fn serve(&mut self, job: &Job, out: &str) {
        let now = Instant::now();
        let pid = |rank: &str| {
            let line = lines(out, "pid").find(|words| words[0] == rank)?;
            Pid::from_raw(line[1].parse().ok()?)
        };
        for words in lines(out, "stop").skip(self.served) {
            self.served += 1;
            let (Some(pid), Ok(rank)) = (pid(words[0]), words[0].parse()) else { continue };
            // It may have ended.
            _ = kill_process(pid, Signal::STOP);
            let length = Duration::from_millis(words[1].parse().unwrap());
            self.to_continue.push((now + length, rank, pid));
        }
        let all = std::mem::take(&mut self.to_continue).into_iter();
        let (due, later): (Vec<_>, Vec<_>) = all.partition(|(at, ..)| *at <= now);
        self.to_continue = later;
        for (_, rank, pid) in due {
            _ = kill_process(pid, Signal::CONT);
            self.continued.push((rank, now_of_day()));
        }
        if let Some(cluster) = self.cluster {
            self.serve_links(cluster, now, out);
        }
        if !self.launcher_killed && out.lines().any(|line| line == "launcher") {
            self.launcher_killed = true;
            job.kill(Signal::KILL);
        }
    }

    fn serve_links(&mut self, cluster: &Cluster, now: Instant, out: &str) {
        for words in lines(out, "link").skip(self.links_served) {
            self.links_served += 1;
            let node: u32 = words[0].parse().unwrap();
            match words[1] {
                "Down" => cluster.cut(node),
                _ => cluster.slow(node),
            }
            if let Ok(milliseconds) = words[2].parse() {
                self.to_repair.push((now + Duration::from_millis(milliseconds), node));
            }
        }
        let all = std::mem::take(&mut self.to_repair).into_iter();
        let (due, later): (Vec<_>, Vec<_>) = all.partition(|(at, _)| *at <= now);
        self.to_repair = later;
        for (_, node) in due {
            cluster.repair(node);
            let ranks = (0..self.nodes.len()).filter(|&rank| self.nodes[rank] == node);
            self.continued.extend(ranks.map(|rank| (rank, now_of_day())));
        }
    }
}

fn now_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The verdict, and how long this process could not run meanwhile.
fn once(program: &Program) -> (Verdict, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let cluster = (program.wire == Wire::Nodes).then(|| Cluster::up(&program.nodes));
    let mut job = job(program, folder.path(), cluster.as_ref());
    job.start();
    let mut watch = Watch::new(program, cluster.as_ref());
    let (mut looked, mut longest_gap, mut ran) = (Instant::now(), Duration::ZERO, Duration::ZERO);
    while job.is_running() && ran < hang(program.wire) {
        watch.serve(&job, &job.so_far());
        std::thread::sleep(Duration::from_millis(2));
        let gap = looked.elapsed();
        looked += gap;
        (longest_gap, ran) = (longest_gap.max(gap), ran + gap.min(TURN));
    }
    let hangs = job.is_running();
    let out = job.so_far();
    let err = job.errors_so_far();
    if hangs {
        for (_, _, pid) in &watch.to_continue {
            _ = kill_process(*pid, Signal::CONT);
        }
        job.kill(Signal::KILL);
    }
    let left = left_behind(&job.mark);
    let done = job.output();
    let out = if hangs { out } else { done.out };
    let mut ends = processes::ends(program, &out);
    for (rank, at) in &watch.continued {
        ends[*rank].fault_at = ends[*rank].fault_at.max(Some(*at));
    }
    let mut verdict = judge(program, &ends, processes::limits(program.wire));
    let wrong = |class, text| Some(Wrong { class, text });
    let files = files_left(folder.path(), &out, cluster.as_ref());
    if hangs {
        verdict.wrong = wrong("hangs", format!("{out}\n{err}"));
    } else if !left.is_empty() {
        verdict.wrong = wrong("processes are left", format!("{left:?}"));
    } else if !files.is_empty() {
        verdict.wrong = wrong("files are left", format!("{files:?}"));
    } else if verdict.wrong.is_none() {
        verdict.wrong = wrong_code(program, &ends, done.code);
    } else if let Some(wrong) = &mut verdict.wrong {
        wrong.text.push_str(&format!("\n{out}\n{}", done.err));
    }
    (verdict, longest_gap)
}

fn job(program: &Program, folder: &std::path::Path, cluster: Option<&Cluster>) -> Job {
    let (n, me) = (program.nodes.len().to_string(), std::env::current_exe().unwrap());
    let wire = program.wire.name();
    let mut job = Job::run(&["-n", &n, "--grace", grace_seconds(program.wire)]);
    match cluster {
        Some(cluster) => cluster.reach(&mut job, &program.nodes),
        None => _ = job.arguments(&["--provider", wire]),
    }
    if program.survives {
        job.arguments(&["--on-failure", "continue"]);
    }
    let kept: Vec<String> = program.places.iter().map(usize::to_string).collect();
    job.arguments(&["--", me.to_str().unwrap()]);
    job.env("WIRE_TEST_ROLE", "chaos").env(processes::WIRE, wire);
    job.env("CHAOS_SEED", &program.seed.to_string()).env("CHAOS_KEEP", &kept.join(","));
    job.env("TMPDIR", folder.to_str().unwrap());
    job
}

/// What is wrong with the exit code of the job.
fn wrong_code(program: &Program, ends: &[End], code: i32) -> Option<Wrong> {
    let launcher = program.items.contains(&Item::Launcher);
    let well = ends.iter().all(|end| end.result.is_ok());
    let survived = program.survives && ends.iter().any(|end| end.result.is_ok());
    let fits = launcher || (code == 0) == (well || survived);
    (!fits).then(|| Wrong { class: "the exit code", text: format!("{code}, {ends:?}") })
}

/// Processes of the job that live on.
fn left_behind(mark: &str) -> Vec<u32> {
    for _ in 0..GONE_LOOKS {
        if alive(mark).is_empty() {
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    alive(mark)
}

/// Files of the job in its folder for temporary files, in /dev/shm, where names have the number of a process in them, and in that of each node.
fn files_left(folder: &std::path::Path, out: &str, cluster: Option<&Cluster>) -> Vec<std::ffi::OsString> {
    let pids: Vec<&str> = lines(out, "pid").map(|words| words[1]).collect();
    let ours = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy().into_owned();
        name.split(|c: char| !c.is_ascii_digit()).any(|number| pids.contains(&number))
    };
    let names =
        |path: &std::path::Path| read_dir(path).unwrap().filter_map(|entry| Some(entry.ok()?.file_name()));
    let shared: Vec<_> = names(std::path::Path::new("/dev/shm")).filter(ours).collect();
    let of_nodes = cluster.map_or_else(Vec::new, Cluster::shared_memory);
    let of_nodes = of_nodes.iter().flat_map(|path| names(path));
    names(folder).chain(shared).chain(of_nodes).collect()
}
