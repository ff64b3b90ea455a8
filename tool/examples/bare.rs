//! A broadcast by the n-block schedule over plain TCP sockets, with nothing else: what any implementation of it over sockets has to
//! pay. `ci/race run --figure floor-16` compares ours with it.
//!
//! Any launcher starts it. It takes the words of `circulant bench bcast` that it needs, and prints the same line of CSV:
//!
//! ```text
//! circulant run -n 4 target/release/examples/bare bcast --bytes 100000,1000000 --block 4000 --window 120000
//! ```
//!
//! Each rank has a connection to every neighbour. A block goes out when it is there and fewer than `--window` bytes are on their way
//! to all neighbours together; a receiver acknowledges blocks, as many as came at once with one byte, in the other direction.

use circulant::config::Config;
use circulant::launch::{self, Launch};
use circulant::schedule::{Circulant, block};
use circulant::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io::{ErrorKind::WouldBlock, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::time::Duration;

/// Chosen: longer than any broadcast that is measured; ends a run of which a rank has died.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a block, at most. Chosen: three frames of Ethernet.
const BLOCK: usize = 4380;
/// Bytes on their way. Chosen: what was best of 60 to 600 KB on 16 nodes of 100 Mbit/s and 1 ms.
const WINDOW: usize = 120_000;

fn failed(text: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Transport, text.to_string())
}

/// The words after the program's name.
struct Words {
    bytes: Vec<usize>,
    reps: usize,
    block: usize,
    window: usize,
}

impl Words {
    fn read() -> Result<Self> {
        let mut words = Self { bytes: vec![1_000_000], reps: 5, block: BLOCK, window: WINDOW };
        let mut given = std::env::args().skip(1);
        while let Some(name) = given.next() {
            if matches!(name.as_str(), "bcast" | "--check") {
                continue;
            }
            let value = given.next().ok_or_else(|| failed(format!("{name} needs a value")))?;
            let number =
                |text: &str| text.parse().map_err(|_| failed(format!("{name}: {text:?} is not a number")));
            match name.as_str() {
                "--bytes" => words.bytes = value.split(',').map(number).collect::<Result<_>>()?,
                "--reps" => words.reps = number(&value)?.max(1),
                "--block" => words.block = number(&value)?.max(1),
                "--window" => words.window = number(&value)?.max(1),
                "--time" | "--warm" => {}
                _ => return Err(failed(format!("there is no {name}"))),
            }
        }
        Ok(words)
    }
}

/// The address that others reach this rank at: of the interface that `FI_TCP_IFACE` names.
fn own_address() -> Result<IpAddr> {
    let Ok(name) = std::env::var("FI_TCP_IFACE") else { return Ok(IpAddr::from([127, 0, 0, 1])) };
    let found =
        if_addrs::get_if_addrs().map_err(failed)?.into_iter().find(|i| i.name == name && i.ip().is_ipv4());
    found.map(|i| i.ip()).ok_or_else(|| failed(format!("there is no interface {name}")))
}

fn now_us() -> f64 {
    let t = clock_gettime(ClockId::Monotonic); // one clock for all ranks of a machine
    t.tv_sec as f64 * 1e6 + t.tv_nsec as f64 / 1e3
}

/// A connection, with what is to go over it in this broadcast in the schedule's order.
struct Peer {
    stream: TcpStream,
    /// Rounds of the schedule and the blocks that move in them.
    blocks: Vec<(u32, u32)>,
    /// The first of `blocks` that is not done, and bytes of it that are.
    at: usize,
    part: usize,
    /// Lengths of blocks that are on their way; of an incoming connection nothing.
    sent: VecDeque<usize>,
    /// The socket took nothing at the last try.
    is_full: bool,
}

impl Peer {
    fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Self { stream, blocks: Vec::new(), at: 0, part: 0, sent: VecDeque::new(), is_full: false })
    }

    fn is_done(&self) -> bool {
        self.at == self.blocks.len()
    }

    /// The round and the block that is next to go out, if it is there.
    fn due(&self, here: &[bool]) -> Option<(u32, u32)> {
        self.blocks.get(self.at).copied().filter(|(_, b)| here[*b as usize])
    }
}

/// `Some(0)` is never given: a closed connection is an error.
fn moved(done: std::io::Result<usize>) -> Result<Option<usize>> {
    match done {
        Ok(0) => Err(failed("a neighbour closed its connection")),
        Ok(n) => Ok(Some(n)),
        Err(e) if e.kind() == WouldBlock => Ok(None),
        Err(e) => Err(failed(e)),
    }
}

/// All connections of a rank: of round k of a phase one to `to(k)`, and one from `from(k)`.
struct Net {
    graph: Circulant,
    rank: u32,
    to: Vec<Peer>,
    from: Vec<Peer>,
    window: usize,
    on_their_way: usize,
}

impl Net {
    fn connect(launch: &mut dyn Launch, window: usize) -> Result<Self> {
        let rank = u32::try_from(launch.rank()).map_err(failed)?;
        let size = u32::try_from(launch.size()).map_err(failed)?;
        let graph = Circulant::new(size);
        let listener = TcpListener::bind((own_address()?, 0)).map_err(failed)?;
        launch.put(&format!("bare-{rank}"), listener.local_addr().map_err(failed)?.to_string().as_bytes())?;
        launch.fence(PATIENCE)?;
        let mut to = Vec::new();
        for k in 0..graph.q() {
            let text = launch.get(&format!("bare-{}", graph.to(rank, k)))?;
            let at: SocketAddr = String::from_utf8_lossy(&text).parse().map_err(failed)?;
            let mut stream = TcpStream::connect_timeout(&at, PATIENCE).map_err(failed)?;
            stream.write_all(&k.to_le_bytes()).map_err(failed)?;
            to.push(Peer::new(stream)?);
        }
        let mut from: Vec<Option<Peer>> = (0..graph.q()).map(|_| None).collect();
        for _ in 0..graph.q() {
            let (mut stream, _) = listener.accept().map_err(failed)?;
            let mut k = [0; 4];
            stream.read_exact(&mut k).map_err(failed)?;
            let k = u32::from_le_bytes(k) as usize;
            *from.get_mut(k).ok_or_else(|| failed("not a rank of this job"))? = Some(Peer::new(stream)?);
        }
        let from =
            from.into_iter().collect::<Option<_>>().ok_or_else(|| failed("a neighbour connected twice"))?;
        Ok(Self { graph, rank, to, from, window, on_their_way: 0 })
    }

    fn set_blocking(&self, blocking: bool) -> Result<()> {
        let mut all = self.to.iter().chain(&self.from);
        all.try_for_each(|p| p.stream.set_nonblocking(!blocking)).map_err(failed)
    }

    /// Dissemination: after round k a rank has heard of skips\[k+1\] ranks.
    fn barrier(&mut self) -> Result<()> {
        self.set_blocking(true)?;
        for (to, from) in self.to.iter_mut().zip(&mut self.from) {
            to.stream.write_all(&[0]).map_err(failed)?;
            from.stream.read_exact(&mut [0]).map_err(failed)?;
        }
        self.set_blocking(false)
    }

    /// What goes over each connection in a broadcast of `n` blocks from rank 0.
    fn plan(&mut self, n: u32) {
        for peer in self.to.iter_mut().chain(&mut self.from) {
            (peer.at, peer.part) = (0, 0);
            peer.blocks.clear();
        }
        let (graph, r) = (self.graph, self.rank);
        let (send, recv) = (graph.send(r), graph.recv(r));
        for round in graph.rounds(n) {
            let k = round.k as usize;
            if let Some(b) = block(send[k], round.offset, n).filter(|_| graph.to(r, round.k) != 0) {
                self.to[k].blocks.push((round.index, b));
            }
            if let Some(b) = block(recv[k], round.offset, n).filter(|_| r != 0) {
                self.from[k].blocks.push((round.index, b));
            }
        }
    }

    fn broadcast(&mut self, data: &mut [u8], n: u32) -> Result<()> {
        let (length, n) = (data.len(), n as usize);
        let range = |b: u32| -> Range<usize> { length * b as usize / n..length * (b as usize + 1) / n };
        let mut here = vec![self.rank == 0; n];
        loop {
            while self.send_one(data, &here, range)? {}
            let mut came = false;
            for peer in &mut self.from {
                came |= receive(peer, data, &mut here, range)?;
            }
            if self.to.iter().chain(&self.from).all(Peer::is_done) {
                return Ok(());
            }
            if !came {
                self.wait()?;
            }
        }
    }

    /// Sends what a socket takes of the block that is first in the schedule; false where nothing can be sent.
    fn send_one(&mut self, data: &[u8], here: &[bool], range: impl Fn(u32) -> Range<usize>) -> Result<bool> {
        let free = |p: &Peer, b: u32| {
            p.part > 0 || self.on_their_way == 0 || self.on_their_way + range(b).len() <= self.window
        };
        let can = self.to.iter().enumerate().filter(|(_, p)| !p.is_full);
        let ready =
            can.filter_map(|(k, p)| p.due(here).filter(|(_, b)| free(p, *b)).map(|(round, b)| (round, b, k)));
        let Some((_, b, k)) = ready.min() else { return Ok(false) };
        let (peer, place) = (&mut self.to[k], range(b));
        let Some(sent) = moved(peer.stream.write(&data[place.start + peer.part..place.end]))? else {
            peer.is_full = true;
            return Ok(true);
        };
        if peer.part == 0 {
            self.on_their_way += place.len();
            peer.sent.push_back(place.len());
        }
        peer.part += sent;
        if peer.part == place.len() {
            (peer.at, peer.part) = (peer.at + 1, 0);
        }
        Ok(true)
    }

    /// Until a block or an acknowledgement comes, or a socket has room for what is due; takes acknowledgements.
    fn wait(&mut self) -> Result<()> {
        let room = |p: &Peer| if p.is_full { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds: Vec<PollFd<'_>> =
            self.to.iter().map(|p| PollFd::new(&p.stream, PollFlags::IN | room(p))).collect();
        let wanted = self.from.iter().filter(|p| !p.is_done());
        fds.extend(wanted.map(|p| PollFd::new(&p.stream, PollFlags::IN)));
        let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        if poll(&mut fds, Some(&limit)).map_err(failed)? == 0 {
            return Err(failed(format!("nothing came for {} s", PATIENCE.as_secs())));
        }
        let seen: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        for (peer, seen) in self.to.iter_mut().zip(seen) {
            peer.is_full &= !seen.contains(PollFlags::OUT);
            if (seen - PollFlags::OUT).is_empty() {
                continue;
            }
            let mut counts = [0; 64];
            let Some(n) = moved(peer.stream.read(&mut counts))? else { continue };
            for _ in 0..counts[..n].iter().map(|c| usize::from(*c)).sum::<usize>() {
                self.on_their_way -= peer.sent.pop_front().unwrap_or(0);
            }
        }
        Ok(())
    }

    /// Times of all ranks at rank 0, along the ring of neighbours at distance 1.
    fn gather(&mut self, mine: &[f64], size: usize) -> Result<Vec<f64>> {
        let own: Vec<u8> = mine.iter().flat_map(|t| t.to_le_bytes()).collect();
        let before = if self.rank == 0 { size - 1 } else { self.rank as usize - 1 }; // ranks 1 and up
        let mut all = vec![0; own.len() * before];
        self.set_blocking(true)?;
        if before > 0 {
            self.from[0].stream.read_exact(&mut all).map_err(failed)?;
        }
        all.extend(&own);
        if self.rank != 0 {
            self.to[0].stream.write_all(&all).map_err(failed)?;
        }
        Ok(all.chunks_exact(8).map(|w| w.try_into().map_or(0.0, f64::from_le_bytes)).collect())
    }
}

/// Takes what has come; acknowledges all whole blocks of it at once. True if anything came.
fn receive(
    peer: &mut Peer,
    data: &mut [u8],
    here: &mut [bool],
    range: impl Fn(u32) -> Range<usize>,
) -> Result<bool> {
    let (mut whole, mut came) = (0_u8, false);
    while whole < u8::MAX && !peer.is_done() {
        let (_, b) = peer.blocks[peer.at];
        let place = range(b);
        let Some(n) = moved(peer.stream.read(&mut data[place.start + peer.part..place.end]))? else { break };
        came = true;
        peer.part += n;
        if peer.part == place.len() {
            here[b as usize] = true;
            (peer.at, peer.part, whole) = (peer.at + 1, 0, whole + 1);
        }
    }
    if whole > 0 {
        peer.stream.write_all(&[whole]).map_err(failed)?;
    }
    Ok(came)
}

/// Prints what `circulant bench` does: least and median of the slowest rank's times, and the shortest span of all.
fn report(all: &[f64], bytes: usize, size: usize, reps: usize) {
    let mut slowest = vec![0.0_f64; reps];
    let mut spans = Vec::new();
    for (i, most) in slowest.iter_mut().enumerate() {
        let (mut first, mut last) = (f64::MAX, 0.0_f64);
        for rank in all.chunks_exact(2 * reps) {
            let (from, to) = (rank[2 * i], rank[2 * i + 1]);
            *most = most.max(to - from);
            (first, last) = (first.min(from), last.max(to));
        }
        spans.push(last - first);
    }
    slowest.sort_by(f64::total_cmp);
    spans.sort_by(f64::total_cmp);
    println!("bcast,-,{size},{bytes},{:.2},{:.2},{:.2},{reps}", slowest[0], slowest[reps / 2], spans[0]);
}

fn main() -> Result<()> {
    let words = Words::read()?;
    let mut launch = launch::detect(&Config::from_env())?;
    let size = launch.size();
    if size < 2 {
        return Err(failed("start at least two ranks"));
    }
    let mut net = Net::connect(&mut *launch, words.window)?;
    for &bytes in &words.bytes {
        let n = u32::try_from(bytes.div_ceil(words.block).max(1)).map_err(failed)?;
        let pattern = |i: usize| (i * 31 + bytes).to_le_bytes()[0];
        let mut data: Vec<u8> = (0..bytes).map(|i| if net.rank == 0 { pattern(i) } else { 0 }).collect();
        let mut times = Vec::new();
        for rep in 0..words.reps + 2 {
            net.plan(n);
            net.barrier()?;
            let begun = now_us();
            net.broadcast(&mut data, n)?;
            if rep >= 2 {
                times.extend([begun, now_us()]); // two runs go ahead untimed
            }
        }
        if !data.iter().enumerate().all(|(i, b)| *b == pattern(i)) {
            return Err(failed(format!("wrong bytes in a broadcast of {bytes}")));
        }
        let all = net.gather(&times, size)?;
        if net.rank == 0 {
            report(&all, bytes, size, words.reps);
        }
    }
    launch.fence(PATIENCE)?; // a connection that closes with acknowledgements unread takes the other side's data along
    launch.finalize()
}
