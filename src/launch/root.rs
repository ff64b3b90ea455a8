//! The key-value space of ranks that no launcher started: a thread of rank 0, to which all others connect.
//!
//! It speaks PMI-1 as a launcher does that is reached by PMI_PORT, sealed and behind an [introduction](super::introduction), with two lines
//! more: `refused value=<why>` in answer to one, and `gone rank=<r> value=<how>` to all when a rank ends without finalize.

use super::introduction::{INTRODUCTION_MAX_BYTES, Introduction, Known, Sealed, challenge};
use super::wire::{LINE_MAX, Line, Lines, quote};
use crate::config::Logging;
use crate::secret::{SECRET_BYTES, nonce};
use crate::trace::Rarely;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io::{self, ErrorKind as Io, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a connection may stay without an introduction. A rank sends it when it was challenged, and tries again when its
/// connection was closed.
const INTRODUCTION_TIME: Duration = Duration::from_secs(5);

/// How many connections may be open without an introduction. For one more the oldest is closed.
const UNIDENTIFIED_MAX: usize = 64;

/// None that is younger than this is closed for another: a round trip of any network, so its introduction may be on its way.
const ROUND_TRIP: Duration = Duration::from_millis(100);

/// How many connections may wait to be accepted, if the system allows as many (net.core.somaxconn).
const BACKLOG: i32 = 4096;

/// How long nothing is accepted after the system refused to (no descriptors, no memory).
const PAUSE: Duration = Duration::from_millis(100);

/// What is said of a line that was sealed and cannot be opened.
const CHANGED: &str = "what it said was changed on its way";

/// Bytes of keys and values that one rank may put.
const MAX_PUT_BYTES: usize = 64 << 20;

/// What a connection needs to be.
trait Link: Read + Write + AsFd + Send {}
impl Link for TcpStream {}
impl Link for UnixStream {}

struct Peer {
    link: Box<dyn Link>,
    lines: Lines,
    out: Vec<u8>,
    rank: Option<usize>,
    /// Behind its introduction.
    sealed: Option<Sealed>,
    /// What it was challenged by.
    nonce: [u8; SECRET_BYTES],
    /// Where it comes from.
    from: String,
    /// Rank 0's, from its own process.
    own: bool,
    since: Instant,
    put: usize,
    inside: bool,
    /// It is no part of a world: it called finalize, or its end is known.
    leaving: bool,
    /// It called finalize, and waits for the answer.
    waits: bool,
    /// To be closed once `out` is written.
    closing: bool,
    /// Nothing more can be read or written.
    dead: bool,
}

/// The state of the space.
pub(super) struct Root {
    listener: TcpListener,
    /// Accept nothing before.
    pause: Option<Instant>,
    us: Introduction,
    /// What is said of strangers.
    strangers: Rarely,
    peers: Vec<Peer>,
    values: HashMap<Vec<u8>, Vec<u8>>,
    /// Which ranks ever came, and how many worlds of each are over.
    came: Vec<bool>,
    worlds: Vec<u64>,
    gone: Vec<String>,
}

impl Root {
    /// Serves the ranks of our job, as we introduce ourselves, at `listener`; `own` leads to rank 0 itself.
    ///
    /// # Errors
    /// When the system refuses what it takes.
    pub(super) fn new(
        listener: TcpListener,
        own: UnixStream,
        us: &Introduction,
        log: Logging,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        // The standard library asks for room for 128.
        rustix::net::listen(&listener, BACKLOG)?;
        own.set_nonblocking(true)?;
        let mut root = Self {
            listener,
            pause: None,
            us: us.clone(),
            strangers: Rarely::new(log.level),
            peers: Vec::new(),
            values: HashMap::new(),
            came: vec![false; us.size],
            worlds: vec![0; us.size],
            gone: Vec::new(),
        };
        root.welcome(Box::new(own), "its own process".to_owned(), true)?;
        Ok(root)
    }

    /// Until all processes have ended or closed their connections, or rank 0 has.
    pub(super) fn serve(mut self) {
        while !self.over() {
            if self.wait().is_err() {
                return;
            }
            self.accept();
            for i in 0..self.peers.len() {
                self.read(i);
            }
            // Twice, as the last answer to a finalize waits until those to the others are sent. Rank 0 comes last: when its process ends, so do we.
            for _ in 0..2 {
                self.settle();
                self.peers.iter_mut().rev().for_each(Peer::write);
                for i in 0..self.peers.len() {
                    if self.peers[i].dead {
                        self.lose(i, "closed its connection to rank 0");
                    }
                }
                self.peers.retain(|p| !(p.dead || p.closing && p.out.is_empty()));
            }
        }
    }

    fn over(&self) -> bool {
        let waiting = self.peers.iter().any(|p| p.rank.is_some());
        !waiting && self.came.first() == Some(&true)
    }

    fn wait(&self) -> io::Result<()> {
        let mut ready: Vec<PollFd<'_>> = Vec::with_capacity(self.peers.len() + 1);
        let refused = self.refuses_for();
        if refused.is_zero() {
            ready.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        for peer in &self.peers {
            let out = if peer.out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            ready.push(PollFd::from_borrowed_fd(peer.link.as_fd(), PollFlags::IN | out));
        }
        // Also while nothing is accepted: connections that say nothing are to be closed in time.
        let limit = match refused.subsec_nanos() {
            0 => Timespec { tv_sec: 1, tv_nsec: 0 },
            nanos => Timespec { tv_sec: 0, tv_nsec: nanos.into() },
        };
        match poll(&mut ready, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// How long nothing can be accepted.
    fn refuses_for(&self) -> Duration {
        let unidentified = self.peers.iter().filter(|p| p.is_unidentified());
        let oldest = unidentified.clone().next().filter(|_| unidentified.count() >= UNIDENTIFIED_MAX);
        let until = oldest.map(|p| p.since + ROUND_TRIP).max(self.pause);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    fn accept(&mut self) {
        // No more in one turn: the ranks that are in wait for answers.
        for _ in 0..UNIDENTIFIED_MAX {
            if !self.refuses_for().is_zero() {
                return;
            }
            match self.listener.accept() {
                Ok((stream, from)) => {
                    if self.peers.iter().filter(|p| p.is_unidentified()).count() >= UNIDENTIFIED_MAX {
                        self.drop_oldest();
                    }
                    let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
                    // One that the system gives nothing for is closed, and tries again if it is a rank.
                    let _ = ready.and_then(|()| self.welcome(Box::new(stream), from.to_string(), false));
                }
                Err(e) if e.kind() == Io::WouldBlock => return,
                Err(e) if matches!(e.kind(), Io::Interrupted | Io::ConnectionAborted) => {}
                Err(_) => {
                    self.drop_oldest();
                    self.pause = Some(Instant::now() + PAUSE);
                }
            }
        }
    }

    /// Drops the connection that has been silent for longest.
    fn drop_oldest(&mut self) {
        if let Some(peer) = self.peers.iter_mut().find(|p| p.is_unidentified()) {
            peer.dead = true;
            let from = peer.from.clone();
            self.refused(&from, "it was silent, and others waited");
        }
    }

    /// Says that a connection from there was none of a rank.
    fn refused(&mut self, from: &str, why: &str) {
        self.strangers.warn(|| format!("rank 0 has closed a connection from {from}: {why}"));
    }

    fn welcome(&mut self, link: Box<dyn Link>, from: String, own: bool) -> io::Result<()> {
        let nonce = nonce().map_err(|e| io::Error::other(e.message().to_owned()))?;
        let mut peer = Peer {
            link,
            lines: Lines::default(),
            out: Vec::new(),
            sealed: None,
            rank: None,
            nonce,
            from,
            own,
            since: Instant::now(),
            put: 0,
            inside: false,
            leaving: false,
            waits: false,
            closing: false,
            dead: false,
        };
        peer.say(challenge(&nonce).as_bytes());
        peer.write();
        self.peers.push(peer);
        Ok(())
    }

    fn read(&mut self, i: usize) {
        self.peers[i].read();
        loop {
            let peer = &mut self.peers[i];
            let most = if peer.rank.is_some() { LINE_MAX } else { INTRODUCTION_MAX_BYTES };
            match peer.lines.pop_within(most) {
                Ok(Some(raw)) if !peer.closing => self.answer(i, &raw),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => {
                    if self.peers[i].is_unidentified() {
                        self.refuse(i, "a line is too long");
                    }
                    self.peers[i].dead = true;
                    break;
                }
            }
        }
        let peer = &mut self.peers[i];
        if peer.is_unidentified() && peer.since.elapsed() > INTRODUCTION_TIME {
            peer.dead = true;
            let (from, said) = (peer.from.clone(), peer.closing);
            if !said {
                self.refused(&from, "it was silent for too long");
            }
        }
        if self.peers[i].dead {
            self.lose(i, "closed its connection to rank 0");
        }
    }

    /// A connection is at its end; one of a rank that did not call finalize is reported to all.
    fn lose(&mut self, i: usize, how: &str) {
        let peer = &mut self.peers[i];
        peer.dead = true;
        let rank = peer.rank;
        if let Some(rank) = rank.filter(|_| !std::mem::replace(&mut peer.leaving, true)) {
            self.tell_gone(rank, how);
        }
        if let Some(rank) = rank {
            self.worlds[rank] = u64::MAX;
        }
    }

    fn tell_gone(&mut self, rank: usize, how: &str) {
        let line = format!("cmd=gone rank={rank} value={}", how.replace('\n', " "));
        for peer in self.peers.iter_mut().filter(|p| p.rank.is_some_and(|r| r != rank)) {
            peer.say(line.as_bytes());
        }
        // For those that come later.
        self.gone.push(line);
    }

    fn answer(&mut self, i: usize, raw: &[u8]) {
        let opened = self.peers[i].sealed.as_mut().map(|sealed| sealed.open(raw));
        let raw = match &opened {
            None => raw,
            Some(Some(line)) => line,
            Some(None) => {
                let from = self.peers[i].from.clone();
                self.refused(&from, CHANGED);
                return self.refuse(i, CHANGED);
            }
        };
        let Some(line) = Line::parse(raw) else {
            return self.refuse(i, &format!("{} is not PMI-1", quote(raw)));
        };
        if self.peers[i].rank.is_none() {
            return match line.command() {
                b"initack" => self.introduce(i, &line),
                _ => self.refuse(i, "introduce yourself first"),
            };
        }
        let said = match line.command() {
            b"init" => {
                // Perhaps to come back for another world.
                self.peers[i].leaving = false;
                "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1".into()
            }
            b"get_maxes" => "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024".into(),
            b"get_my_kvsname" => "cmd=my_kvsname rc=0 kvsname=env".into(),
            b"put" => self.put(i, &line),
            b"get" => match self.values.get(line.field("key").unwrap_or_default()) {
                Some(value) => [b"cmd=get_result rc=0 value=", &value[..]].concat(),
                None => "cmd=get_result rc=-1 msg=unknown".into(),
            },
            b"barrier_in" => {
                self.peers[i].inside = true;
                return;
            }
            b"late" => self.late(),
            b"finalize" => {
                let peer = &mut self.peers[i];
                peer.waits = true;
                if let Some(rank) = peer.rank.filter(|_| !std::mem::replace(&mut peer.leaving, true)) {
                    self.worlds[rank] += 1;
                }
                return;
            }
            b"abort" => return self.abort(i, &line),
            _ => return self.refuse(i, &format!("{} is not understood", quote(raw))),
        };
        self.peers[i].say(&said);
    }

    fn put(&mut self, i: usize, line: &Line<'_>) -> Vec<u8> {
        let (Some(key), Some(value)) = (line.field("key"), line.value()) else {
            return "cmd=put_result rc=-1 msg=no_key_or_value".into();
        };
        if self.values.contains_key(key) {
            return "cmd=put_result rc=-1 msg=duplicate_key".into();
        }
        let put = self.peers[i].put + key.len() + value.len();
        if put > MAX_PUT_BYTES {
            return "cmd=put_result rc=-1 msg=too_much".into();
        }
        self.peers[i].put = put;
        self.values.insert(key.to_vec(), value.to_vec());
        "cmd=put_result rc=0".into()
    }

    /// The ranks that are not in the fence.
    fn late(&self) -> Vec<u8> {
        let inside = |rank: &usize| self.peers.iter().any(|p| p.rank == Some(*rank) && p.inside);
        let late: Vec<String> =
            (0..self.us.size).filter(|rank| !inside(rank)).map(|r| r.to_string()).collect();
        format!("cmd=late_result rc=0 value={}", late.join(",")).into_bytes()
    }

    fn introduce(&mut self, i: usize, line: &Line<'_>) {
        // The secret first: a process that does not know it learns nothing.
        let Known { rank, size, proof, sealed } = match self.us.known(self.peers[i].nonce, line) {
            Ok(known) => known,
            Err(why) => return self.refuse(i, &why),
        };
        if size != self.us.size {
            return self.refuse(i, &format!("CIRCULANT_SIZE is {} there and {size} here", self.us.size));
        }
        match self.came.get_mut(rank) {
            Some(came @ false) => *came = true,
            Some(true) => return self.refuse(i, &format!("there is a rank {rank} already (CIRCULANT_RANK)")),
            None => return self.refuse(i, &format!("CIRCULANT_RANK={rank} is not below {size}")),
        }
        let peer = &mut self.peers[i];
        peer.rank = Some(rank);
        peer.say(format!("cmd=initack rc=0 proof={proof}").as_bytes());
        peer.sealed = Some(sealed);
        for (name, value) in [("size", size), ("rank", rank), ("debug", 0)] {
            peer.say(format!("cmd=set {name}={value}").as_bytes());
        }
        for line in &self.gone {
            peer.say(line.as_bytes());
        }
    }

    fn refuse(&mut self, i: usize, why: &str) {
        if self.peers[i].rank.is_none() {
            let from = self.peers[i].from.clone();
            self.refused(&from, why);
        }
        self.peers[i].say(format!("cmd=refused value={why}").as_bytes());
        self.peers[i].closing = true;
        self.lose_quietly(i, why);
    }

    /// A refused connection may have been a rank.
    fn lose_quietly(&mut self, i: usize, why: &str) {
        let peer = &mut self.peers[i];
        if let Some(rank) = peer.rank.filter(|_| !peer.leaving) {
            peer.leaving = true;
            self.worlds[rank] = u64::MAX;
            self.tell_gone(rank, &format!("was refused: {why}"));
        }
    }

    fn abort(&mut self, i: usize, line: &Line<'_>) {
        let code = line.number::<i32>("exitcode").unwrap_or(1);
        let why = line.value().map(|v| format!(": {}", String::from_utf8_lossy(v))).unwrap_or_default();
        let peer = &mut self.peers[i];
        (peer.leaving, peer.closing) = (true, true);
        if let Some(rank) = peer.rank {
            self.worlds[rank] = u64::MAX;
            self.tell_gone(rank, &format!("aborted the job with code {code}{why}"));
        }
    }

    /// Opens the fence when all are inside, and answers each finalize: rank 0's last, as this thread ends with its process.
    fn settle(&mut self) {
        if self.peers.iter().filter(|p| p.inside).count() == self.us.size {
            for peer in &mut self.peers {
                peer.inside = false;
                peer.say(b"cmd=barrier_out rc=0");
            }
        }
        // Each rank but 0 has ended as many worlds, and its finalize is on its way.
        let sent = self.peers.iter().all(|p| p.rank.unwrap_or(0) == 0 || p.out.is_empty() && !p.waits);
        let last = sent && self.worlds.iter().all(|worlds| *worlds >= self.worlds[0]);
        for peer in self.peers.iter_mut().filter(|p| p.waits) {
            if peer.rank != Some(0) || last {
                peer.say(b"cmd=finalize_ack rc=0");
                peer.waits = false;
            }
        }
    }
}

impl Peer {
    /// It has not introduced itself.
    fn is_unidentified(&self) -> bool {
        self.rank.is_none() && !self.own && !self.dead
    }

    fn say(&mut self, line: &[u8]) {
        match &mut self.sealed {
            Some(sealed) => self.out.extend(sealed.seal(line)),
            None => self.out.extend(line),
        }
        self.out.push(b'\n');
    }

    fn read(&mut self) {
        let mut buffer = [0; 16 << 10];
        // Of a stranger no more than an introduction takes, and its end.
        let (most, times) =
            if self.rank.is_some() { (buffer.len(), 16) } else { (INTRODUCTION_MAX_BYTES + 1, 1) };
        // Not for ever, however much comes: others wait.
        for _ in 0..times {
            match self.link.read(&mut buffer[..most]) {
                Ok(0) => self.dead = true,
                Ok(len) => {
                    self.lines.push(&buffer[..len]);
                    continue;
                }
                Err(e) if e.kind() == Io::Interrupted => continue,
                Err(e) if e.kind() == Io::WouldBlock => {}
                Err(_) => self.dead = true,
            }
            return;
        }
    }

    fn write(&mut self) {
        while !self.out.is_empty() && !self.dead {
            match self.link.write(&self.out) {
                Ok(0) => self.dead = true,
                Ok(len) => drop(self.out.drain(..len)),
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) if e.kind() == Io::WouldBlock => return,
                Err(_) => self.dead = true,
            }
        }
    }
}
