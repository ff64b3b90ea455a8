//! Peers in processes of their own: this binary again, told by its environment what to do.

use crate::node::{Log, Node, Random, TIMEOUT, promises};
use circulant::ErrorKind;
use circulant::transport::fabric::{remove_shm_of, sweep_stale_shm};
use circulant::transport::{Borrow, MESSAGE_MAX, Posted, Remote, Source};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a peer prints and reads on one line: its address, and where its arena is.
fn card(node: &Node) -> String {
    let hex: String = node.wire.address().iter().map(|b| format!("{b:02x}")).collect();
    format!("{hex} {} {}", node.remote.base, node.remote.key)
}

fn parse_card(line: &str) -> (Vec<u8>, Remote) {
    let mut parts = line.split_whitespace();
    let hex = parts.next().unwrap();
    let bytes = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    let mut number = || parts.next().unwrap().parse().unwrap();
    (bytes, Remote { base: number(), key: number() })
}

/// The other process: trades puts and messages, then progresses until it is killed.
pub(crate) fn be_a_peer(provider: &str, rank: u32) {
    let task = std::env::var("TEST_TASK").unwrap();
    let mut node = if task == "knock" { Node::that_survives(provider) } else { Node::open(provider, rank) };
    println!("{}", card(&node));
    let (address, remote) = parse_card(&line());
    node.wire.connect(0, &address).unwrap();
    match task.as_str() {
        "wait" => {}
        "knock" => knock(&mut node),
        "fire" => fire(&mut node, 0, remote),
        seed => {
            trade(&mut node, 0, remote, seed.parse().unwrap(), 1);
            println!("traded");
        }
    }
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        if node.poll() == 0 {
            node.wire.idle(Duration::from_millis(1));
        }
    }
}

/// A line from the other process.
fn line() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line
}

/// Puts of all sizes, into a slot each, and messages of all lengths, both ways at once; what comes is checked
/// against the same seed.
fn trade(node: &mut Node, peer: u32, there: Remote, seed: u64, me: u64) {
    const PUTS: usize = 150;
    const SLOT: usize = 16 << 10;
    let plan = |side: u64| {
        let mut random = Random((seed + side) | 1);
        let mut pieces = Vec::new();
        for i in 0..PUTS {
            let size = if i == 0 { 1 << 20 } else { random.below(1 << (1 + i % 14)) };
            let mut bytes = vec![0; size];
            random.fill(&mut bytes);
            pieces.push(bytes);
        }
        pieces
    };
    // Targets below, sources above; the long one has the last mebibyte of each half.
    let at = |i: usize| if i == 0 { 2 << 20 } else { i % 128 * SLOT };
    let (mine, theirs) = (plan(me), plan(1 - me));
    for (i, bytes) in theirs.into_iter().enumerate() {
        // Slots used twice are only counted the first time: the second put may come first.
        if (PUTS - 128..128).contains(&i) || i == 0 {
            node.log.expected.insert(i as u32, (at(i), bytes));
        }
    }
    let start = Instant::now();
    let mut said = 0;
    for (i, bytes) in mine.iter().enumerate() {
        // A slot's earlier source must be done before it is written again.
        while i >= 128 && !node.log.done.contains(&(i as u64 - 128)) {
            node.poll();
            assert!(start.elapsed() < TIMEOUT, "put {i} waits for ever");
        }
        node.write((3 << 20) + at(i), bytes);
        let source = [node.source((3 << 20) + at(i), bytes.len())];
        // SAFETY: the source lies in the arena, and is written again only when done.
        while unsafe {
            node.wire.put(peer, &source, there.base + at(i) as u64, there.key, i as u32, i as u64)
        }
        .unwrap()
            == Posted::Again
        {
            node.poll();
            assert!(start.elapsed() < TIMEOUT, "put {i} is never taken");
        }
        while said <= i * 2
            && node.wire.message(peer, &[me as u8; MESSAGE_MAX][..said % (MESSAGE_MAX + 1)]).unwrap()
                == Posted::Yes
        {
            said += 1;
        }
    }
    while said < 2 * PUTS {
        node.poll();
        if node.wire.message(peer, &[me as u8; MESSAGE_MAX][..said % (MESSAGE_MAX + 1)]).unwrap()
            == Posted::Yes
        {
            said += 1;
        }
        assert!(start.elapsed() < TIMEOUT, "message {said} is never taken");
    }
    while node.log.arrivals.len() < PUTS || node.log.done.len() < PUTS || node.log.messages.len() < 2 * PUTS {
        if node.poll() == 0 {
            node.wire.idle(Duration::from_millis(1));
        }
        assert!(node.log.lost.is_empty(), "{:?}", node.log.lost);
        assert!(
            start.elapsed() < TIMEOUT,
            "{:?}",
            (node.log.arrivals.len(), node.log.done.len(), node.log.messages.len())
        );
    }
    assert!(node.log.expected.is_empty());
    node.log.arrivals.sort_unstable();
    assert_eq!(node.log.arrivals, (0..PUTS as u32).collect::<Vec<_>>());
    node.log.messages.sort_by_key(Vec::len);
    let mut lengths: Vec<usize> = (0..2 * PUTS).map(|i| i % (MESSAGE_MAX + 1)).collect();
    lengths.sort_unstable();
    assert!(node.log.messages.iter().map(Vec::len).eq(lengths));
    assert!(node.log.messages.iter().flatten().all(|b| *b == (1 - me) as u8));
}

pub(crate) fn two_processes_trade(provider: &str) {
    let seed = Random::new().0;
    let mut me = Node::open(provider, 0);
    let (mut other, remote) = Other::start(provider, &mut me, 1, &seed.to_string());
    trade(&mut me, 1, remote, seed, 0);
    // The last puts out may still need us.
    assert_eq!(other.read_while_polling(&mut me).trim(), "traded", "the other process failed");
    let pid = other.id();
    drop(other);
    remove_shm_of(pid);
}

/// A peer in a process of its own: killed when dropped, and waited for.
struct Other(std::process::Child, std::io::BufReader<std::process::ChildStdout>);

impl Other {
    fn start(provider: &str, to: &mut Node, rank: u32, task: &str) -> (Self, Remote) {
        use std::io::Write;
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let mut child = command
            .env("TEST_PEER", provider)
            .env("TEST_TASK", task)
            .env("TEST_RANK", rank.to_string())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{}", card(to)).unwrap();
        let out = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut this = Self(child, out);
        let (address, remote) = parse_card(&this.read());
        to.wire.connect(rank, &address).unwrap();
        (this, remote)
    }
    fn tell(&mut self, line: &str) {
        use std::io::Write;
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
    fn read(&mut self) -> String {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.1, &mut line).unwrap();
        line
    }
    fn read_while_polling(&mut self, me: &mut Node) -> String {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let line = self.read();
                stop.store(true, Ordering::Relaxed);
                line
            });
            while !stop.load(Ordering::Relaxed) {
                me.poll();
                me.wire.idle(Duration::from_millis(1));
            }
            reader.join().unwrap()
        })
    }
    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn a_killed_peer_is_no_hang(provider: &str) {
    let mut me = Node::open(provider, 0);
    let (victim, target) = Other::start(provider, &mut me, 1, "wait");
    let (survivor, theirs) = Other::start(provider, &mut me, 2, "wait");
    let pid = victim.id();
    let short = [me.source(0, 8)];
    let long = [me.source(0, 100_000)];
    let start = Instant::now();
    let reach = |me: &mut Node, peer: u32, sources: &[Source], there: Remote, token: u64| {
        // SAFETY: the sources lie in the arena and are not written in this test.
        while unsafe { me.wire.put(peer, sources, there.base, there.key, 1, token) }.unwrap() == Posted::Again
        {
            me.poll();
            assert!(start.elapsed() < TIMEOUT, "rank {peer} cannot be reached");
        }
        while !me.log.done.contains(&token) {
            me.poll();
            assert!(start.elapsed() < TIMEOUT, "a put to rank {peer} is never done");
        }
    };
    reach(&mut me, 1, &long, target, 1);
    reach(&mut me, 2, &long, theirs, 2);
    drop(victim);
    // Puts to the dead: taken, refused or failed, at once or later, but nothing hangs.
    let start = Instant::now();
    let mut told = false;
    while !told && start.elapsed() < Duration::from_secs(2) {
        for _ in 0..20 {
            // SAFETY: as above.
            match unsafe { me.wire.put(1, &long, target.base, target.key, 2, 3) } {
                Ok(Posted::Yes) => {}
                Ok(Posted::Again) => break,
                Err(e) => {
                    assert_eq!((e.peer(), e.kind()), (Some(1), ErrorKind::PeerLost), "{e}");
                    told = true;
                    break;
                }
            }
        }
        me.poll();
        if let Some((peer, why)) = me.log.lost.first() {
            assert!(peer.is_none_or(|p| p == 1) && !why.is_empty(), "{peer:?} {why}");
            told = true;
        }
    }
    println!("told {told} after {:?}: {:?}", start.elapsed(), me.log.lost.first());
    assert_eq!(told, promises(provider, &*me.wire).1, "the quirk table says otherwise");
    // The wire to the other goes on.
    reach(&mut me, 2, &short, theirs, 4);
    drop(survivor);
    me.wire.close().unwrap();
    if me.wire.limits().provider == "fi_shm" {
        assert!(remove_shm_of(pid) > 0, "a killed process leaves its file");
        sweep_stale_shm(); // the survivor's
        assert_eq!((remove_shm_of(pid), remove_shm_of(std::process::id())), (0, 0));
    }
}

/// Where an endpoint goes on without a peer: one that ends while nothing is under way shows by the next post to it, and is cut off.
pub(crate) fn an_endpoint_goes_on_without_a_peer(provider: &str) {
    let mut me = Node::open(provider, 0);
    if !me.wire.limits().survives || provider == "shm" {
        // Our own shared memory notices no death: its processes are watched.
        return me.wire.close().unwrap();
    }
    let (victim, target) = Other::start(provider, &mut me, 1, "wait");
    let (survivor, theirs) = Other::start(provider, &mut me, 2, "wait");
    let source = [me.source(0, 100_000)];
    let start = Instant::now();
    let done = |me: &mut Node, peer: u32, there: Remote, token: u64| {
        // SAFETY: the source lies in the arena and is not written in this test.
        while unsafe { me.wire.put(peer, &source, there.base, there.key, 1, token) }.unwrap() == Posted::Again
        {
            me.poll();
            assert!(start.elapsed() < TIMEOUT, "rank {peer} cannot be reached");
        }
        while !me.log.done.contains(&token) {
            me.poll();
            assert!(start.elapsed() < TIMEOUT, "a put to rank {peer} is never done");
        }
    };
    done(&mut me, 1, target, 1);
    done(&mut me, 2, theirs, 2);
    drop(victim);
    // The kernel has told of the end of the connection by then, or tells of it now.
    while me.log.lost.is_empty() {
        me.poll();
        if let Err(e) = me.wire.message(1, b"?") {
            assert_eq!((e.peer(), e.kind()), (Some(1), ErrorKind::PeerLost), "{e}");
            break;
        }
        assert!(start.elapsed() < TIMEOUT, "a peer that has ended does not show");
    }
    me.wire.cut(1);
    // SAFETY: as above.
    let put = unsafe { me.wire.put(1, &source, target.base, target.key, 1, 3) };
    for refused in [put, me.wire.message(1, b"?")] {
        assert_eq!(refused.map_err(|e| (e.kind(), e.peer())), Err((ErrorKind::PeerLost, Some(1))));
    }
    done(&mut me, 2, theirs, 4);
    drop(survivor);
    me.wire.close().unwrap();
}

/// How often a connection is begun at both ends at once. Which end's attempt counts follows from their ports, and only one of the two ways is
/// hard: one in 64 runs has none of that.
const MEETINGS: u32 = 6;
/// How long an end moves nothing while the other does what it has to. Chosen: some thousand times what that takes.
const REST: Duration = Duration::from_millis(50);

/// Both ends of a connection begin it at the same time, and one has had connections to ranks that have died: what is taken arrives.
pub(crate) fn what_is_taken_arrives_after_deaths(provider: &str) {
    if provider != "tcp" {
        return; // the only one with this trait that runs anywhere: `Quirk::reconnects`
    }
    let mut me = Node::that_survives(provider);
    for rank in 1..=MEETINGS {
        let (mut other, _) = Other::start(provider, &mut me, rank, "knock");
        other.tell("begin");
        assert_eq!(other.read().trim(), "begun");
        // Takes the other's connection, and begins one: what both ends have to say of theirs is looked at together, the other's first.
        me.poll_for(REST);
        let mut said = me.wire.message(rank, b"to you").unwrap();
        me.poll_for(REST);
        other.tell("go on");
        std::thread::sleep(REST * 2);
        let start = Instant::now();
        while said == Posted::Again || me.log.messages.is_empty() {
            me.poll();
            if said == Posted::Again {
                said = me.wire.message(rank, b"to you").unwrap();
            }
            assert!(start.elapsed() < TIMEOUT, "meeting {rank}: {said:?}, {:?}", me.log.messages);
        }
        assert_eq!(std::mem::take(&mut me.log.messages), [b"to me"]);
        assert_eq!(other.read_while_polling(&mut me).trim(), "heard", "the other process failed");
        drop(other);
        me.wire.cut(rank);
        // The connection ends, and what libfabric has kept of it is free for the next one.
        me.poll_for(REST);
        me.log.lost.clear();
    }
}

/// The other side of [`what_is_taken_arrives_after_deaths`].
fn knock(node: &mut Node) {
    line();
    let mut said = node.wire.message(0, b"to me").unwrap();
    println!("begun");
    line();
    let start = Instant::now();
    while said == Posted::Again || node.log.messages.is_empty() {
        if said == Posted::Again {
            said = node.wire.message(0, b"to me").unwrap();
        }
        node.poll();
        assert!(start.elapsed() < TIMEOUT, "{said:?}, {:?}", node.log.messages);
    }
    assert_eq!(node.log.messages, [b"to you"]);
    println!("heard");
}

/// Closed while another process goes on putting and talking: that must neither hang nor crash.
pub(crate) fn closing_under_fire(provider: &str) {
    for _ in 0..3 {
        let mut me = Node::open(provider, 0);
        let (other, _) = Other::start(provider, &mut me, 1, "fire");
        let start = Instant::now();
        while me.log.arrivals.len() < 200 || me.log.messages.len() < 20 {
            me.poll();
            assert!(start.elapsed() < TIMEOUT, "no fire");
        }
        me.wire.close().unwrap();
        // No peer writes any more, though the other still tries.
        if me.wire.limits().borrow == Borrow::Direct {
            me.write(0, &[0xee; 1 << 16]);
            std::thread::sleep(Duration::from_millis(20));
            assert!(me.read(0, 1 << 16).iter().all(|b| *b == 0xee), "written after close");
        }
        let pid = other.id();
        drop(other);
        remove_shm_of(pid);
    }
}

/// The other side of [`closing_under_fire`], until it is killed.
fn fire(node: &mut Node, peer: u32, there: Remote) {
    let source = [node.source(0, 1 << 16)];
    for i in 0.. {
        let n = if i % 3 == 0 { 0 } else { 1 };
        // SAFETY: the source lies in the arena and is not written in this test.
        let posted = unsafe { node.wire.put(peer, &source[..n], there.base, there.key, i, u64::from(i)) };
        let said = if i % 10 == 0 { node.wire.message(peer, &[1; 200]) } else { Ok(Posted::Yes) };
        if posted.is_err() || said.is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = node.wire.poll(&mut node.log);
        if i % 64 == 0 {
            node.log = Log::default();
        }
    }
}
