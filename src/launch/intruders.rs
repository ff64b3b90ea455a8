//! Strangers at rank 0's port, on real sockets: whatever they try, the job begins and ends, and they are told of. And one on the way to it,
//! who hears and changes what is said.

use super::introduction::{Introduction, challenge};
use super::root::Root;
use super::stream::connect_to;
use super::wire::{LINE_MAX, Line, Lines};
use super::{Launch, environment};
use crate::config::Logging;
use crate::error::Result;
use crate::secret::Secret;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Only stops what hangs.
const LONG: Duration = Duration::from_secs(60);

/// A rank 0 that serves `size` ranks, and where.
fn root(size: usize) -> (Box<dyn Launch>, String) {
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    (Box::new(join(0, size, &at)), at)
}

fn join(rank: usize, size: usize, root: &str) -> super::pmi1::Pmi1 {
    try_join(rank, size, root, LONG).unwrap()
}

fn try_join(rank: usize, size: usize, root: &str, timeout: Duration) -> Result<super::pmi1::Pmi1> {
    let values = [rank.to_string(), size.to_string(), root.to_owned(), "mine".to_owned()];
    let variable = |name: &str| {
        let at = environment::VARIABLES.iter().position(|v| *v == name)?;
        values.get(at).cloned()
    };
    let assignment = environment::Assignment::of(&variable).unwrap().unwrap();
    environment::join(&assignment, timeout)
}

/// A job of three in whose start `attempt` falls, and again when rank 1 is in: the ranks trade values all the same.
fn a_job_under(attempt: impl Fn(&str)) {
    let (zero, at) = root(3);
    attempt(&at);
    let one = Box::new(join(1, 3, &at));
    attempt(&at);
    let two = Box::new(join(2, 3, &at));
    let life = |(rank, mut me): (usize, Box<dyn Launch>)| {
        me.put(&format!("k-{rank}"), &[7; 3000]).unwrap();
        me.fence(LONG).unwrap();
        assert_eq!(me.get(&format!("k-{}", (rank + 1) % 3)).unwrap(), [7; 3000]);
        assert_eq!(me.gone(), None);
        me.finalize().unwrap();
    };
    std::thread::scope(|scope| {
        for rank in [zero, one, two].into_iter().enumerate() {
            scope.spawn(|| life(rank));
        }
    });
}

fn connect(at: &str) -> TcpStream {
    let stream = connect_to(at, LONG).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// The next line that comes, and whether the connection ends instead.
fn line(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut lines, mut byte) = (Lines::default(), [0]);
    loop {
        match stream.read(&mut byte) {
            Ok(1) => lines.push(&byte),
            _ => return None,
        }
        if let Some(line) = lines.pop().unwrap() {
            return Some(line);
        }
    }
}

/// What the port answers to `said`, behind its challenge, until it closes.
fn answer(at: &str, said: &[u8]) -> String {
    let mut stream = connect(at);
    assert!(line(&mut stream).unwrap().starts_with(b"cmd=challenge nonce="));
    // The port may close before all is written.
    let _ = stream.write_all(said);
    let (mut all, mut piece) = (Vec::new(), [0; 512]);
    while let Ok(len @ 1..) = stream.read(&mut piece) {
        all.extend_from_slice(&piece[..len]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn introduction(word: &str, rank: usize) -> Introduction {
    Introduction { rank, size: 3, secret: Secret::of_word(word), munge: None }
}

#[test]
fn garbage_is_refused() {
    a_job_under(|at| {
        for said in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"\n",
            b"cmd=\n",
            b"cmd=put key=a value=b\n",
            &[0xFF; 100],
            b"\0\n",
        ] {
            // What ends in no line is closed in the end; that is awaited in another test.
            if said.ends_with(b"\n") {
                let told = answer(at, said);
                assert!(told.starts_with("cmd=refused ") && !told.contains("rc=0"), "{said:?}: {told}");
            } else {
                connect(at).write_all(said).unwrap();
            }
        }
    });
}

#[test]
fn messages_without_end_are_refused_when_they_are_too_long() {
    a_job_under(|at| {
        for len in [1000, LINE_MAX, 4 << 20] {
            let told = answer(at, &vec![b'x'; len]);
            // The connection may be reset with the refusal under way.
            assert!(told.is_empty() || told.starts_with("cmd=refused value=a line is too long"), "{told}");
        }
    });
}

/// Each refused before anything of the job is told.
#[test]
fn who_does_not_know_the_secret_learns_nothing() {
    a_job_under(|at| {
        let mut stream = connect(at);
        let challenge = line(&mut stream).unwrap();
        let wrong = introduction("guess", 1).answer(&challenge).unwrap().unwrap();
        stream.write_all(wrong.line.as_bytes()).unwrap();
        let told = String::from_utf8(line(&mut stream).unwrap()).unwrap();
        assert_eq!(told, "cmd=refused value=it keeps the addresses of another job (CIRCULANT_JOB)");
        assert_eq!(line(&mut stream), None);
        for said in
            ["cmd=initack pmiid=1/3/mine\n", "cmd=initack pmiid=1/3 nonce=00 proof=00\n", "cmd=initack\n"]
        {
            assert!(answer(at, said.as_bytes()).contains("of another job"), "{said}");
        }
    });
}

/// What was heard of a rank's introduction is of no use on another connection, nor is what the port says.
#[test]
fn a_replayed_introduction_is_refused() {
    a_job_under(|at| {
        // The right one, as it would be heard on the wire, which never reached the port.
        let mut heard = connect(at);
        let right = introduction("mine", 2).answer(&line(&mut heard).unwrap()).unwrap().unwrap();
        drop(heard);
        assert!(answer(at, right.line.as_bytes()).contains("of another job"));
    });
}

/// A rank tells nothing but a proof to what has taken the port, and does not take it for rank 0.
#[test]
fn a_false_port_is_found_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let port = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        writeln!(stream, "{}", challenge(&[7; 32])).unwrap();
        let said = line(&mut stream).unwrap();
        writeln!(stream, "cmd=initack rc=0 proof={}\ncmd=set size=3", "0".repeat(64)).unwrap();
        said
    });
    let us = introduction("mine", 1);
    let stream = connect_to(&at, LONG).unwrap();
    let e = super::pmi1::Pmi1::to_rank_0("env", Box::new(stream), &us, LONG).map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("does not know the job's word"), "{e}");
    let said = port.join().unwrap();
    assert!(!said.windows(4).any(|w| w == b"mine"), "{}", said.escape_ascii());
}

/// Connections that say nothing, or half a line, or are closed at once; more of them than are let in.
#[test]
fn a_flood_of_connections_keeps_no_rank_out() {
    let held = Mutex::new(Vec::new());
    a_job_under(|at| {
        for i in 0..300 {
            let mut stream = connect(at);
            match i % 3 {
                0 => stream.write_all(b"cmd=init").unwrap(),
                1 => drop(stream.shutdown(Shutdown::Write)),
                _ => {}
            }
            if i % 5 > 0 {
                held.lock().unwrap().push(stream);
            }
        }
    });
}

/// One that sends byte after byte is silent, too: it is closed in time, and the port goes on.
#[test]
fn half_open_connections_are_closed() {
    let (zero, at) = root(2);
    let start = Instant::now();
    let slow = connect(&at);
    let mut silent = connect(&at);
    while slow.try_clone().unwrap().write_all(b"c").is_ok() && start.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(line(&mut silent).is_some() && line(&mut silent).is_none(), "closed after its challenge");
    assert!(start.elapsed() < LONG);
    drop(zero);
}

/// The port's memory for strangers is bounded: what one sends unasked stays in its socket.
#[test]
fn a_stranger_is_read_no_further_than_an_introduction() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let (_ours, theirs) = UnixStream::pair().unwrap();
    let root = Root::new(listener, theirs, &introduction("mine", 0), Logging::default()).unwrap();
    std::thread::spawn(move || root.serve());
    let two = format!("cmd=initack pmiid=1/3 nonce=00 proof=00 {}\n", "x".repeat(1 << 20));
    assert!(!answer(&at, two.as_bytes()).contains("rc=0"));
    let raw = answer(&at, b"cmd=initack pmiid=1/3\ncmd=put key=a value=b\ncmd=get key=a\n");
    assert_eq!(raw.lines().count(), 1, "one refusal, and the rest is not looked at: {raw}");
    assert!(Line::parse(raw.as_bytes()).is_some_and(|l| l.command() == b"refused"));
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Rank,
    Port,
}

/// One on the way to the port at `to`: of each line, by its speaker and its number, it passes on what `instead` says. Where it listens, and
/// all that it has heard.
fn on_the_way(
    to: &str,
    instead: impl Fn(From, usize, &[u8]) -> Vec<Vec<u8>> + Clone + Send + 'static,
) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let (heard, to) = (Arc::new(Mutex::new(Vec::new())), to.to_owned());
    let copy = heard.clone();
    std::thread::spawn(move || {
        while let Ok((rank, _)) = listener.accept() {
            let port = connect(&to);
            let ways = [
                (From::Rank, rank.try_clone().unwrap(), port.try_clone().unwrap()),
                (From::Port, port, rank),
            ];
            for (from, mut source, mut sink) in ways {
                let (instead, heard) = (instead.clone(), copy.clone());
                std::thread::spawn(move || {
                    for number in 0.. {
                        let Some(said) = line(&mut source) else { break };
                        heard.lock().unwrap().extend([&said[..], b"\n"].concat());
                        for told in instead(from, number, &said) {
                            // Either end may have closed.
                            let _ = sink.write_all(&[&told[..], b"\n"].concat());
                        }
                    }
                    let _ = sink.shutdown(Shutdown::Write);
                });
            }
        }
    });
    (at, heard)
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|w| w == word)
}

#[test]
fn a_listener_hears_none_of_the_keys_and_values() {
    let (mut zero, at) = root(2);
    let (at, heard) = on_the_way(&at, |_, _, line| vec![line.to_vec()]);
    let mut one: Box<dyn Launch> = Box::new(join(1, 2, &at));
    std::thread::scope(|scope| {
        for (rank, me) in [&mut zero, &mut one].into_iter().enumerate() {
            scope.spawn(move || {
                me.put(&format!("an-address-{rank}"), &[7; 3000]).unwrap();
                me.fence(LONG).unwrap();
                assert_eq!(me.get(&format!("an-address-{}", 1 - rank)).unwrap(), [7; 3000]);
                me.finalize().unwrap();
            });
        }
    });
    let heard = heard.lock().unwrap();
    assert!(
        contains(&heard, b"cmd=challenge ") && contains(&heard, b"cmd=initack rc=0 "),
        "it has heard all"
    );
    assert!(heard.len() > 2 * 3000, "it has heard both values");
    let value = super::value::encode(&[7; 30]);
    for word in [&b"cmd=put"[..], b"an-address", b"value=", value.as_bytes(), &[7; 30]] {
        assert!(!contains(&heard, word), "{}", word.escape_ascii());
    }
}

/// A line that is changed, said again, left out or put in is noticed by the end that hears it, which says so; the ranks learn who is gone.
#[test]
fn what_is_changed_on_the_way_is_noticed() {
    type Change = fn(&[u8]) -> Vec<Vec<u8>>;
    let changes: [(&str, Change); 4] = [
        ("changed", |line| vec![line.iter().enumerate().map(|(i, b)| b ^ u8::from(i == 3)).collect()]),
        ("again", |line| vec![line.to_vec(), line.to_vec()]),
        ("left out", |_| vec![]),
        ("put in", |line| vec![b"cmd=put key=a value=b".to_vec(), line.to_vec()]),
    ];
    // Lines behind the introduction: the answers to it, the first request, a put or what answers it.
    for (from, number) in
        [(From::Rank, 1), (From::Rank, 5), (From::Port, 2), (From::Port, 5), (From::Port, 9)]
    {
        for (name, change) in changes {
            let (mut zero, port) = root(2);
            let (at, _) = on_the_way(&port, move |who, n, line| match (who, n) == (from, number) {
                true => change(line),
                false => vec![line.to_vec()],
            });
            // Without a second line from the rank nothing comes in place of the one that was left out.
            let short = if name == "left out" { Duration::from_millis(300) } else { LONG };
            let one = try_join(1, 2, &at, short).and_then(|mut one| {
                for key in ["a-1", "b-1", "c-1"] {
                    one.put(key, b"x")?;
                }
                Ok(())
            });
            let e = one.expect_err(&format!("{name}: line {number} of {from:?}")).to_string();
            let said = match (name, from) {
                ("left out", _) if e.contains("in time") => continue,
                (_, From::Rank) => "rank 0 refuses us: what it said was changed on its way",
                (_, From::Port) => "what rank 0 said was changed on its way",
            };
            assert!(e.contains(said), "{name}, line {number} of {from:?}: {e}");
            let gone = zero.fence(LONG).unwrap_err();
            assert_eq!(gone.peer(), Some(1), "{gone}");
            if from == From::Rank {
                assert!(gone.to_string().contains("changed on its way"), "{gone}");
            }
        }
    }
}

/// Also where a rank waits for no answer: what seems to say that a rank is gone is not believed.
#[test]
fn a_line_that_is_put_in_is_noticed_by_an_idle_rank() {
    let (_zero, port) = root(2);
    // Behind the last answer of the start.
    let (at, _) = on_the_way(&port, |who, number, line| match (who, number) {
        (From::Port, 8) => vec![line.to_vec(), b"cmd=gone rank=0 value=killed".to_vec()],
        _ => vec![line.to_vec()],
    });
    let mut one = join(1, 2, &at);
    let start = Instant::now();
    let gone = loop {
        assert!(start.elapsed() < LONG);
        if let Some(gone) = one.gone() {
            break gone;
        }
    };
    assert_eq!((gone.rank, &gone.how[..]), (0, "said what was changed on its way"));
}
