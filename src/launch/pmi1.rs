//! The PMI-1 wire, from a rank's side: over the socket that `PMI_FD` names, or a connection to `PMI_PORT`.
//! One request at a time; only the commands that every launcher answers (an unknown one ends the job under
//! some); every wait has a deadline.

use super::introduction::{Introduction, Sealed};
use super::session::Client;
use super::side::Side;
use super::stream::{Stream, connect_to};
use super::wire::{LOCAL_SCOPE, Line, Lines, SCOPE, quote};
use super::{Gone, Launch, mapping, value};
use crate::error::{Error, ErrorKind, Result, argument};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::ErrorKind as Io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a read sleeps before it looks at the side channel.
const SLICE: Duration = Duration::from_millis(100);

/// More ranks than any machine has: the launcher is broken.
const SIZE_MAX: usize = 1 << 24;

/// A rank of a job whose launcher speaks PMI-1.
#[derive(Debug)]
pub struct Pmi1 {
    name: &'static str,
    stream: Box<dyn Stream>,
    lines: Lines,
    /// Between us and rank 0, behind the introduction.
    sealed: Option<Sealed>,
    side: Option<Side>,
    /// Ranks that are gone, where the connection itself says so (`environment`).
    told: Option<VecDeque<Gone>>,
    rank: usize,
    size: usize,
    kvsname: String,
    nodes: Option<Vec<u32>>,
    /// How long the launcher may take to answer.
    timeout: Duration,
    /// A fence was begun whose end was not seen yet.
    in_fence: bool,
    /// Its end came while something else was asked.
    fence_over: bool,
    /// Why the connection can no longer be used.
    broken: Option<String>,
}

impl Pmi1 {
    /// Joins over the socket of `PMI_FD`, as `rank` of `size`. `side` is the value of the side channel's
    /// variable; each answer must come within `timeout`.
    ///
    /// # Errors
    /// When the launcher does not answer as it should.
    pub fn over_socket(
        stream: UnixStream,
        rank: usize,
        size: usize,
        side: Option<&str>,
        timeout: Duration,
    ) -> Result<Self> {
        let mut pmi = Self::new("pmi1 (PMI_FD)", Box::new(stream), timeout);
        (pmi.rank, pmi.size) = (rank, size);
        pmi.join(side)?;
        Ok(pmi)
    }

    /// Joins by connecting to `address` (`PMI_PORT`) and naming our rank (`PMI_ID`); the launcher then
    /// tells rank and size.
    ///
    /// # Errors
    /// When the address cannot be reached, or the launcher does not answer as it should.
    pub fn over_port(address: &str, id: &str, timeout: Duration) -> Result<Self> {
        let stream = connect(address, timeout)?;
        Self::new("pmi1 (PMI_PORT)", Box::new(stream), timeout).introduce(id)
    }

    /// Joins over a connection to rank 0, which takes the launcher's part: each shows the other first that it knows the job's secret.
    pub(super) fn to_rank_0(
        name: &'static str,
        stream: Box<dyn Stream>,
        us: &Introduction,
        timeout: Duration,
    ) -> Result<Self> {
        let mut pmi = Self::new(name, stream, timeout);
        pmi.told = Some(VecDeque::new());
        let deadline = Instant::now() + timeout;
        let challenge = pmi.receive("challenge", deadline, "a connection")?;
        let Some(introduced) = us.answer(&challenge)? else {
            return Err(pmi.fail(format!("rank 0 began by {}", quote(&challenge))));
        };
        pmi.send(&introduced.line, deadline)?;
        let answer = pmi.receive("initack", deadline, "initack")?;
        pmi.sealed = introduced.is_answered(&answer);
        if pmi.sealed.is_none() {
            let munge = us.munge.as_ref().map_or("", |_| ", or is another user's (CIRCULANT_MUNGE)");
            let what = "what answers at CIRCULANT_ROOT does not know the job's word (CIRCULANT_JOB)";
            return Err(pmi.fail(format!("{what}{munge}")));
        }
        pmi.introduced(deadline)
    }

    fn introduce(self, id: &str) -> Result<Self> {
        let mut pmi = self;
        let deadline = Instant::now() + pmi.timeout;
        pmi.send(&format!("cmd=initack pmiid={id}\n"), deadline)?;
        pmi.receive("initack", deadline, "initack")?;
        pmi.introduced(deadline)
    }

    /// Rank and size, as the launcher tells them behind its answer to an introduction; then as every launcher's client.
    fn introduced(self, deadline: Instant) -> Result<Self> {
        let mut pmi = self;
        let number = |pmi: &mut Self, name: &str| {
            let raw = pmi.receive("set", deadline, "initack")?;
            let number = Line::parse(&raw).and_then(|l| l.number::<usize>(name));
            number
                .ok_or_else(|| pmi.fail(format!("the launcher did not tell our {name} but {}", quote(&raw))))
        };
        pmi.size = number(&mut pmi, "size")?;
        pmi.rank = number(&mut pmi, "rank")?;
        number(&mut pmi, "debug")?;
        pmi.join(None)?;
        Ok(pmi)
    }

    fn new(name: &'static str, stream: Box<dyn Stream>, timeout: Duration) -> Self {
        Self {
            name,
            stream,
            lines: Lines::default(),
            sealed: None,
            side: None,
            told: None,
            rank: 0,
            size: 0,
            kvsname: String::new(),
            nodes: None,
            timeout,
            in_fence: false,
            fence_over: false,
            broken: None,
        }
    }

    fn join(&mut self, side: Option<&str>) -> Result<()> {
        if self.rank >= self.size || self.size > SIZE_MAX {
            let message = format!("the launcher says we are rank {} of {}", self.rank, self.size);
            return Err(Error::new(ErrorKind::Launch, message));
        }
        self.hello()?;
        // Our values fit any limits; the question is asked because some launchers expect it.
        self.ask("cmd=get_maxes\n", "maxes")?;
        let raw = self.ask("cmd=get_my_kvsname\n", "my_kvsname")?;
        let name = Line::parse(&raw).and_then(|l| l.text("kvsname"));
        self.kvsname = match name {
            Some(name) if !name.is_empty() && name.len() <= 256 => name.to_owned(),
            _ => return Err(self.fail(format!("no name of the key-value space in {}", quote(&raw)))),
        };
        self.side = side.and_then(|v| Side::of(v, &self.kvsname));
        // Some launchers have no mapping, some cut a long one: then the ranks find out for themselves.
        self.nodes = self
            .fetch("PMI_process_mapping")?
            .ok()
            .and_then(|text| mapping::parse(&String::from_utf8_lossy(&text), self.size).ok());
        Ok(())
    }

    fn hello(&mut self) -> Result<()> {
        let raw = self.ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init")?;
        match Line::parse(&raw).and_then(|l| l.rc()) {
            Some(0) | None => Ok(()),
            Some(_) => Err(self.fail(format!("the launcher does not speak PMI-1: {}", quote(&raw)))),
        }
    }

    /// Whether the launcher is `circulant run`, or rank 0 takes its part.
    fn is_ours(&self) -> bool {
        self.side.is_some() || self.told.is_some()
    }

    /// Sends a request and waits for the line that answers it.
    fn ask(&mut self, request: &str, answer: &str) -> Result<Vec<u8>> {
        let deadline = Instant::now() + self.timeout;
        self.send(request, deadline)?;
        self.receive(answer, deadline, request.trim_end())
    }

    /// Whether the connection can be used.
    fn usable(&self) -> Result<()> {
        self.broken.as_ref().map_or(Ok(()), |why| Err(self.error(ErrorKind::Launch, why.clone())))
    }

    fn send(&mut self, request: &str, deadline: Instant) -> Result<()> {
        self.usable()?;
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let said = self.said(request);
        let sent = self.stream.limit(left).and_then(|()| self.stream.write_all(&said));
        sent.map_err(|e| self.hung_up(&format!("is gone: {e}")))
    }

    /// A request of one line as it goes over the connection.
    fn said(&mut self, request: &str) -> Vec<u8> {
        match &mut self.sealed {
            None => request.as_bytes().to_vec(),
            Some(sealed) => [&sealed.seal(request.trim_end_matches('\n').as_bytes())[..], b"\n"].concat(),
        }
    }

    /// The next of the lines that were read, as it was said.
    fn heard(&mut self) -> Result<Option<Vec<u8>>> {
        let Ok(line) = self.lines.pop() else {
            return Err(self.fail("the launcher sent a line without end".to_owned()));
        };
        match (line, &mut self.sealed) {
            (Some(raw), Some(sealed)) => match sealed.open(&raw) {
                None => Err(self.fail("what rank 0 said was changed on its way".to_owned())),
                line => Ok(line),
            },
            (line, _) => Ok(line),
        }
    }

    /// The next line, which must be an `answer`. After a failure the connection is out of step: no further use.
    fn receive(&mut self, answer: &str, deadline: Instant, request: &str) -> Result<Vec<u8>> {
        loop {
            if let Some(raw) = self.received(answer, request)? {
                return Ok(raw);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = format!("the launcher did not answer {} in time", quote(request.as_bytes()));
                self.broken = Some(message.clone());
                return Err(self.error(ErrorKind::Timeout, message));
            }
            self.read(left, answer == "barrier_out")?;
        }
    }

    /// The next line of those that were read, as [`Pmi1::receive`].
    fn received(&mut self, answer: &str, request: &str) -> Result<Option<Vec<u8>>> {
        loop {
            if answer == "barrier_out"
                && let Some(gone) = self.told.as_ref().and_then(VecDeque::front).cloned()
            {
                return Err(self.lost(&gone));
            }
            let Some(raw) = self.heard()? else { return Ok(None) };
            return match Line::parse(&raw) {
                Some(line) if self.told.is_some() && line.command() == b"gone" => {
                    self.hear(&line);
                    continue;
                }
                Some(line) if self.told.is_some() && line.command() == b"refused" => {
                    let why = String::from_utf8_lossy(line.value().unwrap_or_default()).into_owned();
                    Err(self.fail(format!("rank 0 refuses us: {why}")))
                }
                Some(line) if line.command() == answer.as_bytes() => Ok(Some(raw)),
                // Of a fence that was lost, or while its late ranks are asked for.
                Some(line) if self.in_fence && line.command() == b"barrier_out" => {
                    (self.in_fence, self.fence_over) = (false, true);
                    continue;
                }
                _ => {
                    let (said, to) = (quote(&raw), quote(request.as_bytes()));
                    Err(self.fail(format!("the launcher answered {said} to {to}")))
                }
            };
        }
    }

    /// Reads what is there. Waiting for other ranks (`watch`), it looks now and then whether one is gone.
    fn read(&mut self, left: Duration, watch: bool) -> Result<()> {
        let slice = if watch && self.side.is_some() { left.min(SLICE) } else { left };
        let mut buffer = [0; 4096];
        let got = self.stream.limit(slice).and_then(|()| self.stream.read(&mut buffer));
        match got {
            Ok(0) => Err(self.hung_up("closed the connection")),
            Ok(len) => {
                self.lines.push(&buffer[..len]);
                Ok(())
            }
            Err(e) if matches!(e.kind(), Io::WouldBlock | Io::TimedOut) => {
                let gone = self.side.as_mut().filter(|_| watch).and_then(Side::peek).cloned();
                match gone.filter(|_| !self.has_input()) {
                    Some(gone) => Err(self.lost(&gone)),
                    None => Ok(()),
                }
            }
            Err(e) if e.kind() == Io::Interrupted => Ok(()),
            Err(e) => Err(self.hung_up(&format!("is gone: {e}"))),
        }
    }

    /// The error of a connection that the other end has left, and the end of it.
    fn hung_up(&mut self, how: &str) -> Error {
        if self.told.is_none() {
            return self.fail(format!("the launcher {how}"));
        }
        let why = format!("rank 0, which keeps the addresses, {how}");
        self.broken = Some(why.clone());
        self.error(ErrorKind::PeerLost, why).with_peer(0)
    }

    fn lost(&mut self, gone: &Gone) -> Error {
        let message = format!("rank {} is gone ({}) while we waited for it", gone.rank, gone.how);
        self.broken = Some(message.clone());
        self.error(ErrorKind::PeerLost, message).with_peer(gone.rank)
    }

    fn hear(&mut self, line: &Line<'_>) {
        let how = String::from_utf8_lossy(line.value().unwrap_or_default()).into_owned();
        if let (Some(told), Some(rank)) = (&mut self.told, line.number("rank")) {
            told.push_back(Gone { rank, how });
        }
    }

    /// Takes in what was said without being asked.
    fn overhear(&mut self) -> Option<Gone> {
        // What comes in a fence is its.
        let told = self.told.as_ref().filter(|_| !self.in_fence || self.broken.is_some())?;
        if told.is_empty() && self.broken.is_none() {
            // What comes, or came right behind the last answer, cannot be but such lines: nothing was asked.
            let read = if self.has_input() { self.read(Duration::from_millis(1), false).err() } else { None };
            let mut ended = read.map(|_| "closed its connection to us");
            loop {
                match self.heard() {
                    Ok(Some(raw)) => {
                        if let Some(line) = Line::parse(&raw).filter(|l| l.command() == b"gone") {
                            self.hear(&line);
                        }
                    }
                    Ok(None) => break,
                    Err(_) => {
                        ended = Some("said what was changed on its way");
                        break;
                    }
                }
            }
            if let Some(how) = ended.filter(|_| self.rank != 0) {
                self.told.as_mut()?.push_back(Gone { rank: 0, how: how.to_owned() });
            }
        }
        self.told.as_mut()?.pop_front()
    }

    fn has_input(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut ready = [PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::IN)];
        poll(&mut ready, Some(&now)).is_ok_and(|n| n > 0)
    }

    /// The value under a key as it is in the launcher; the inner error is the raw answer.
    fn fetch(&mut self, key: &str) -> Result<Result<Vec<u8>, Vec<u8>>> {
        let request = format!("cmd=get kvsname={} key={key}\n", self.kvsname);
        let raw = self.ask(&request, "get_result")?;
        let line = Line::parse(&raw);
        Ok(match line.and_then(|l| Some((l.rc(), l.value()?))) {
            Some((Some(0) | None, value)) => Ok(value.to_vec()),
            _ => Err(raw),
        })
    }

    fn piece(&mut self, key: &str, index: usize) -> Result<Vec<u8>> {
        let key = value::key(key, index);
        self.fetch(&key)?.map_err(|raw| {
            let message = format!("the launcher has nothing under the key {key}: {}", quote(&raw));
            self.error(ErrorKind::Launch, message)
        })
    }

    /// Puts a value by its pieces; `scope`: a field of each request, with a space behind it.
    fn put_pieces(&mut self, key: &str, bytes: &[u8], scope: &str) -> Result<()> {
        super::check_key(key)?;
        for (i, piece) in value::pieces(bytes).iter().enumerate() {
            let key = value::key(key, i);
            let request = format!("cmd=put kvsname={} key={key} {scope}value={piece}\n", self.kvsname);
            let raw = self.ask(&request, "put_result")?;
            if Line::parse(&raw).and_then(|l| l.rc()).is_some_and(|rc| rc != 0) {
                let message = format!("the launcher refused the key {key}: {}", quote(&raw));
                return Err(self.error(ErrorKind::Launch, message));
            }
        }
        Ok(())
    }

    /// Whether the launcher has put all these ranks on our node, as far as it tells.
    fn are_on_our_node(&self, ranks: &[u32]) -> bool {
        let Some(nodes) = &self.nodes else { return false };
        let ours = nodes.get(self.rank);
        ours.is_some() && ranks.iter().all(|rank| nodes.get(*rank as usize) == ours)
    }

    fn error(&self, kind: ErrorKind, message: String) -> Error {
        Error::new(kind, format!("{}: {message}", self.name)).at_rank(self.rank)
    }

    /// The error, and the end of this connection.
    fn fail(&mut self, message: String) -> Error {
        self.broken = Some(message.clone());
        self.error(ErrorKind::Launch, message)
    }
}

impl Launch for Pmi1 {
    fn name(&self) -> &str {
        self.name
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<()> {
        self.put_pieces(key, bytes, "")
    }

    fn put_for(&mut self, key: &str, bytes: &[u8], readers: &[u32]) -> Result<()> {
        // To other launchers the field would be unknown. An older `circulant run` takes no notice of it, and the value to all nodes.
        let stays = self.side.is_some() && self.are_on_our_node(readers);
        let scope = if stays { format!("{SCOPE}={LOCAL_SCOPE} ") } else { String::new() };
        self.put_pieces(key, bytes, &scope)
    }

    fn fence(&mut self, deadline: Duration) -> Result<()> {
        let end = Instant::now() + deadline;
        self.start_fence()?;
        self.receive("barrier_out", end, "cmd=barrier_in")?;
        self.in_fence = false;
        Ok(())
    }

    fn start_fence(&mut self) -> Result<bool> {
        self.send("cmd=barrier_in\n", Instant::now() + self.timeout)?;
        (self.in_fence, self.fence_over) = (true, false);
        Ok(true)
    }

    fn test_fence(&mut self) -> Result<bool> {
        self.usable()?;
        if std::mem::take(&mut self.fence_over) {
            return Ok(true);
        }
        if !self.in_fence {
            return Err(argument("no fence was begun"));
        }
        while self.received("barrier_out", "cmd=barrier_in")?.is_none() {
            // Looked at first: a rank may have passed the fence and gone, and then the end of the fence is in the connection by now.
            let gone = self.side.as_mut().and_then(Side::peek).cloned();
            if self.has_input() {
                self.read(Duration::from_millis(1), false)?;
                continue;
            }
            return match gone {
                Some(gone) => Err(self.lost(&gone)),
                None => Ok(false),
            };
        }
        self.in_fence = false;
        Ok(true)
    }

    fn late(&mut self) -> Option<Vec<usize>> {
        // Other launchers do not know the question.
        if !self.is_ours() || !self.in_fence || self.broken.is_some() {
            return None;
        }
        let raw = self.ask("cmd=late\n", "late_result").ok()?;
        let line = Line::parse(&raw).filter(|line| line.rc() == Some(0))?;
        let list = std::str::from_utf8(line.value()?).ok()?;
        list.split(',').filter(|rank| !rank.is_empty()).map(|rank| rank.parse().ok()).collect()
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        super::check_key(key)?;
        let joined = value::join(|i| self.piece(key, i))?;
        joined.map_err(|why| self.error(ErrorKind::Launch, format!("the value under the key {key} {why}")))
    }

    fn nodes(&self) -> Option<Vec<u32>> {
        self.nodes.clone()
    }

    fn gone(&mut self) -> Option<Gone> {
        match &mut self.side {
            Some(side) => side.take(),
            None => self.overhear(),
        }
    }

    fn report(&mut self, error: &Error) {
        if let Some(side) = &mut self.side {
            side.report(error);
        }
    }

    fn abort(&mut self, code: i32, message: &str) {
        // Only our own launchers are told why; to others the field would be unknown.
        let why = match (self.is_ours(), message.replace('\n', " ")) {
            (true, why) if !why.is_empty() => format!(" value={why}"),
            _ => String::new(),
        };
        if self.side.is_none() && !message.is_empty() {
            eprintln!("circulant: rank {} aborts the job: {message}", self.rank);
        }
        // The connection may be out of step, but the launcher reads it all the same.
        let said = self.said(&format!("cmd=abort exitcode={code}{why}\n"));
        let _ = self.stream.limit(Duration::from_secs(1));
        let _ = self.stream.write_all(&said);
        if self.told.is_some() {
            // The connection is closed when all others know; rank 0 must not leave before.
            let _ = std::io::copy(&mut self.stream, &mut std::io::sink());
        }
        self.broken.get_or_insert_with(|| "the job was aborted".to_owned());
    }

    fn finalize(&mut self) -> Result<()> {
        // After a fence that was lost, as a rank is gone, the connection is still of this use.
        if self.in_fence {
            self.broken = None;
        }
        self.ask("cmd=finalize\n", "finalize_ack")?;
        self.broken = Some("already finalized".to_owned());
        Ok(())
    }
}

impl Client for Pmi1 {
    fn leave(&mut self) -> Result<bool> {
        // Other launchers close the connection after a finalize.
        if self.is_ours() {
            return self.finalize().map(|()| true);
        }
        match &self.broken {
            Some(why) => Err(self.error(ErrorKind::Launch, why.clone())),
            None => Ok(false),
        }
    }

    fn rejoin(&mut self) -> Result<()> {
        self.broken = None;
        self.hello()
    }
}

fn connect(address: &str, timeout: Duration) -> Result<TcpStream> {
    connect_to(address, timeout)
        .map_err(|e| Error::new(ErrorKind::Launch, format!("PMI_PORT={address} cannot be reached: {e}")))
}

#[cfg(test)]
mod tests;
