//! What the ranks do in these tests.

use circulant::config::Config;
use circulant::launch::{Launch, detect};
use circulant::{Error, ErrorKind, World};
use circulant_launcher::message::{Down, Ended, Frames, Up, greeting};
use rustix::process::{Signal, getpid, kill_process};
use std::io::{Read, Write, stdin, stdout};
use std::process::{Command, exit};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(40);

pub(crate) fn play(role: &str) {
    let (name, rest) = role.split_once(' ').unwrap_or((role, ""));
    match name {
        "detect" => find(),
        "values" => values(rest.parse().unwrap()),
        "late-fence" => late_fence(),
        "late-join" => late_join(),
        "abort" => abort(),
        "die" => die(rest),
        "leave" => drop(join()),
        "agent-of-many" => agent_of_many(),
        "die-in-fence" => die_in_fence(),
        "presets" => presets(),
        "report" => report(rest),
        "record" => crate::record::play(rest),
        "worlds" => crate::again::play(rest),
        "children-sockets" => {
            let _me = join();
            Command::new("sh").args(["-c", "ls -l /proc/self/fd | grep -c socket:"]).status().unwrap();
            exit(0);
        }
        _ => panic!("there is no role {role}"),
    }
}

/// An agent that stands for its ranks: each puts a value before the first of two barriers.
fn agent_of_many() {
    let (mut frames, mut input, mut output) = (Frames::default(), stdin().lock(), stdout().lock());
    let mut next = || {
        let mut buffer = [0; 65536];
        loop {
            if let Some((kind, payload)) = frames.pop().unwrap() {
                return Down::decode(kind, &payload).unwrap();
            }
            let len = input.read(&mut buffer).unwrap();
            assert!(len > 0, "the launcher hung up");
            frames.push(&buffer[..len]);
        }
    };
    let Down::Setup(setup) = next() else { panic!("no setup") };
    output.write_all(greeting(&setup.secret).as_bytes()).unwrap();
    let ranks = &setup.sites[0].ranks;
    for round in 0..2 {
        let put = |rank: &usize| (format!("circulant-address-{rank}").into_bytes(), vec![b'x'; 300]);
        let pairs: Vec<_> = if round == 0 { ranks.iter().map(put).collect() } else { Vec::new() };
        output.write_all(&Up::Fence(pairs).encode()).unwrap();
        output.flush().unwrap();
        // One message for all of it; what else comes (the end of the input) is none of ours.
        let all = loop {
            if let Down::Fence(all) = next() {
                break all;
            }
        };
        assert_eq!(all.len(), if round == 0 { setup.size } else { 0 });
    }
    for &rank in ranks {
        let ended = Ended { rank, pid: 1, how: (0, false), inside: false, finalized: true };
        output.write_all(&Up::Ended(ended).encode()).unwrap();
    }
    output.write_all(&Up::Done.encode()).unwrap();
    output.flush().unwrap();
}

fn join() -> Box<dyn Launch> {
    let mut me = detect(&Config::from_env()).unwrap();
    me.fence(LONG).unwrap();
    me
}

/// A world over libfabric, and what libfabric found in its environment.
fn presets() {
    let world = World::builder().provider("tcp").init().unwrap();
    let told: Vec<_> = circulant::transport::fabric::presets(world.size())
        .map(|(name, value)| format!("{name}={}", std::env::var(name).is_ok_and(|found| found == value)))
        .collect();
    println!("rank {}: {}", world.rank(), told.join(" "));
    world.finalize().unwrap();
}

fn find() {
    let config = Config::from_env();
    match detect(&config) {
        Ok(mut me) => {
            println!("{} {} of {}", me.name(), me.rank(), me.size());
            if me.size() > 1 {
                println!("{}", detect(&config).unwrap_err());
            }
            me.finalize().unwrap();
        }
        Err(error) => println!("{error}"),
    }
}

/// Values of sizes up to `most`, different for each rank, round a ring; with a keyed value after a second fence.
fn values(most: usize) {
    let mut me = join();
    let (rank, size) = (me.rank(), me.size());
    if let Some(nodes) = me.nodes() {
        let told = std::env::var("LAUNCH_TEST_NODES").ok();
        let want = told.map_or(vec![0; size], |t| t.split(',').map(|n| n.parse().unwrap()).collect());
        assert_eq!(nodes, want);
    }
    let value = |rank: usize, len: usize| {
        (0..len).map(|i| (i * 31 + rank * 7 + len).to_le_bytes()[0]).collect::<Vec<u8>>()
    };
    let sizes = [0, 1, 2, 3, 100, 377, 378, 379, 512, 1023, 5000, 65_537, 100_000];
    for len in sizes.into_iter().filter(|&len| len <= most) {
        me.put(&format!("v-{len}-{rank}"), &value(rank, len)).unwrap();
    }
    me.fence(LONG).unwrap();
    let peer = (rank + 1) % size;
    for len in sizes.into_iter().filter(|&len| len <= most) {
        assert_eq!(me.get(&format!("v-{len}-{peer}")).unwrap(), value(peer, len));
    }
    me.put(&format!("again-{rank}"), b"x").unwrap();
    me.fence(LONG).unwrap();
    assert_eq!(me.get(&format!("again-{peer}")).unwrap(), b"x");
    assert!(me.gone().is_none());
    me.finalize().unwrap();
    assert!(me.fence(LONG).is_err(), "after the goodbye");
    println!("ok");
}

fn late_fence() {
    let mut me = join();
    if me.rank() == 0 {
        let error = me.fence(Duration::from_millis(200)).unwrap_err();
        println!("{:?} {error}", error.kind());
        assert!(me.put("a", b"").is_err(), "out of step");
        // Not to be taken for one that died: rank 1 waits for this.
        exit(0);
    }
    let until = Instant::now() + LONG;
    while me.gone().is_none() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(10));
    }
    me.finalize().unwrap();
}

fn late_join() {
    if std::env::var("PMI_RANK").unwrap() == "1" {
        return;
    }
    // Rank 1 is gone by now; were it not, the news would only come on another way.
    std::thread::sleep(Duration::from_millis(500));
    let mut me = detect(&Config::from_env()).unwrap();
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        if let Some(gone) = me.gone() {
            println!("gone {}: {}", gone.rank, gone.how);
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    me.finalize().unwrap();
}

fn abort() {
    let mut me = join();
    if me.rank() == 1 {
        me.abort(7, "no more\nof this");
    }
    std::thread::sleep(LONG);
}

fn die(how: &str) {
    let mut me = join();
    if me.rank() == 1 {
        match how {
            "kill" => kill_process(getpid(), Signal::KILL).unwrap(),
            "panic" => panic!("as told"),
            how => exit(how.strip_prefix("exit ").unwrap().parse().unwrap()),
        }
    }
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        if let Some(gone) = me.gone() {
            println!("gone {}: {}", gone.rank, gone.how);
            exit(9);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Rank 2 meets an error and tells it to all; or it dies, which the launcher tells to all.
fn report(how: &str) {
    let mut me = join();
    let rank = me.rank();
    let error = match how {
        "error" => {
            let e =
                Error::new(ErrorKind::Argument, "root 9 is out of range").at_rank(rank).help("take another");
            if rank == 2 { e.in_operation("bcast", 1) } else { e.in_operation("bcast", 1).reported_by(2) }
        }
        _ => {
            if rank == 2 {
                kill_process(getpid(), Signal::KILL).unwrap();
            }
            let until = Instant::now() + LONG;
            let gone = loop {
                assert!(Instant::now() < until);
                match me.gone() {
                    Some(gone) => break gone,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            let text = format!("rank {} is gone ({})", gone.rank, gone.how);
            Error::new(ErrorKind::PeerLost, text).at_rank(rank).with_peer(gone.rank)
        }
    };
    me.report(&error);
    // As main prints an error that it returns.
    eprintln!("a word of rank {rank} before\nError: {error:?}\na word of rank {rank} after");
    exit(1);
}

fn die_in_fence() {
    let mut me = join();
    if me.rank() == 1 {
        kill_process(getpid(), Signal::KILL).unwrap();
    }
    let error = me.fence(LONG).unwrap_err();
    println!("{:?} {:?} {}", error.kind(), error.peer(), error.message().split_once(": ").unwrap().1);
    assert_eq!(me.gone().unwrap().rank, 1, "it is still to be had");
    exit(9);
}
