//! The ranks of a program as processes, and what they tell of their ends: a line each, in words between tabs.

use super::Chosen;
use super::judge::Limits;
use super::program::{Item, ODD, Odd, Program, Wire};
use super::walk::{End, SILENCE, Strikes, Told, Walk, configured, live};
use circulant::World;
use rustix::process::{Signal, getpid, kill_process};
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Of each wait. Chosen: more than a busy machine keeps processes from running, and less than ranks stop that stop for long.
const DEADLINE: Duration = Duration::from_secs(4);
/// Between nodes: more than three times as long as a link is cut for a while, as tcp waits twice as long each time that it sends again.
const DEADLINE_OF_NODES: Duration = Duration::from_secs(10);
/// Over verbs, which run under emulation: as in ci/verbs, twice.
const DEADLINE_OF_VERBS: Duration = Duration::from_secs(12);
/// What ranks may take beyond it. Chosen: what a machine of two cores may add under load (`LATE` in ci/faults).
const SLACK: Duration = Duration::from_secs(20);
/// The same under emulation: `--slow 4` of ci/faults.
const SLACK_OF_VERBS: Duration = Duration::from_secs(80);

/// What ranks may take on this wire.
pub fn limits(wire: Wire) -> Limits {
    match wire {
        Wire::Nodes => Limits { deadline: DEADLINE_OF_NODES, slack: SLACK },
        Wire::Verbs => Limits { deadline: DEADLINE_OF_VERBS, slack: SLACK_OF_VERBS },
        _ => Limits { deadline: DEADLINE, slack: SLACK },
    }
}
/// A rank dies so long after its fault, times the square of its posts: at most 15 ms. Chosen: a few calls over tcp take so long.
const DIES_AFTER: Duration = Duration::from_micros(10);

/// What the environment of the ranks says: the wire.
pub const WIRE: &str = "CHAOS_WIRE";

struct Blows {
    rank: usize,
}

impl Strikes for Blows {
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn strike(&mut self, item: &Item) {
        println!("struck\t{}\t{}", self.rank, self.now().as_nanos());
        match *item {
            Item::Kill { posts, .. } => {
                std::thread::spawn(move || {
                    std::thread::sleep(DIES_AFTER * posts * posts);
                    kill_process(getpid(), Signal::KILL)
                });
            }
            Item::Stop { rank, milliseconds } => println!("stop\t{rank}\t{milliseconds}"),
            Item::Launcher => println!("launcher"),
            Item::Link { node, how, milliseconds, rest_milliseconds } => {
                let length = milliseconds.map_or(String::new(), |ms| ms.to_string());
                println!("link\t{node}\t{how:?}\t{length}");
                std::thread::sleep(Duration::from_millis(rest_milliseconds));
            }
            _ => {}
        }
    }
}

/// This process is a rank of the program that the environment names. Its exit code.
pub fn play() -> i32 {
    let wire = std::env::var(WIRE).unwrap_or_default();
    let wire = Wire::ALL.into_iter().find(|known| known.name() == wire).expect("CHAOS_WIRE names no wire");
    let program = Chosen::from_env().program(wire).expect("CHAOS_SEED says no program");
    // Before there is a world ranks are told apart by what their launcher says.
    let rank = std::env::var("PMI_RANK").ok().and_then(|rank| rank.parse().ok()).unwrap_or(0);
    println!("pid\t{rank}\t{}", getpid().as_raw_nonzero());
    let life = |walk: &mut Walk<'_, Blows>| {
        let world = configured(&program, World::builder(), limits(wire).deadline).init()?;
        // No signal meets a rank in start-up.
        if !program.survives {
            world.comm().barrier()?;
        }
        if walk.all(world.comm())? { world.finalize() } else { Ok(()) }
    };
    let end = live(&program, rank, Blows { rank }, life, || {});
    println!("{}", line(rank, &end));
    i32::from(end.result.is_err() || end.panic.is_some())
}

/// An end as a line of words between tabs.
fn line(rank: usize, end: &End) -> String {
    let plain = |text: &str| text.replace(['\t', '\n'], " ");
    let mut line = format!("end\t{rank}\t{}\t{}\t", end.at.as_nanos(), end.size);
    match &end.unnoticed {
        Some((odd, case)) => _ = write!(line, "{odd:?}\t{}\t", plain(case)),
        None => line.push_str("\t\t"),
    }
    match (&end.result, &end.panic) {
        (_, Some(panic)) => _ = write!(line, "panic\t\t{}", plain(panic)),
        (Ok(()), None) => line.push_str("well"),
        (Err(told), None) => {
            let peer = told.peer.map_or(String::new(), |peer| peer.to_string());
            _ = write!(line, "{}\t{peer}\t{}", told.kind, plain(&told.text));
        }
    }
    line
}

/// The lines of this kind that ranks have printed: their words.
pub fn lines<'a>(out: &'a str, kind: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    let words = |line: &'a str| line.split('\t').collect::<Vec<_>>();
    out.lines().map(words).filter(move |words| words[0] == kind).map(|words| words[1..].to_vec())
}

fn time(nanoseconds: &str) -> Duration {
    Duration::from_nanos(nanoseconds.parse().unwrap_or(0))
}

/// What became of the ranks, by what they have printed; one that has printed no end has an error without a name.
pub fn ends(program: &Program, out: &str) -> Vec<End> {
    let number = |word: &str| word.parse::<usize>().ok();
    let odd = |word: &str| ODD.into_iter().find(|odd: &Odd| format!("{odd:?}") == word);
    let of = |rank: usize| {
        let struck = lines(out, "struck").filter(|words| number(words[0]) == Some(rank));
        let fault_at = struck.map(|words| time(words[1])).max();
        let silent = || {
            let told =
                Told { kind: SILENCE.to_owned(), peer: None, text: "it has printed no end".to_owned() };
            let (at, size) = (fault_at.unwrap_or_default(), program.nodes.len());
            End { result: Err(told), panic: None, at, fault_at, unnoticed: None, size }
        };
        let end = lines(out, "end").find(|words| number(words[0]) == Some(rank) && words.len() > 5);
        let Some(words) = end else { return silent() };
        let text = || words.get(7).copied().unwrap_or_default().to_owned();
        let peer = || words.get(6).copied().and_then(number);
        let (result, panic) = match words[5] {
            "well" => (Ok(()), None),
            "panic" => (Ok(()), Some(text())),
            kind => (Err(Told { kind: kind.to_owned(), peer: peer(), text: text() }), None),
        };
        let unnoticed = odd(words[3]).map(|odd| (odd, words[4].to_owned()));
        End { result, panic, at: time(words[1]), fault_at, unnoticed, size: number(words[2]).unwrap_or(0) }
    };
    (0..program.nodes.len()).map(of).collect()
}
