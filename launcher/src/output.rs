//! Copies what the ranks print, line by line. One thread for standard output and one for standard error:
//! a reader that stops reading ours holds up the ranks that print, and nothing else. An agent's threads hand
//! what they read to its main thread, which sends it to the launcher; the launcher gives credit for what it
//! wrote, so that no more than [`WINDOW`] per agent is ever on its way.

use super::message::Sink;
use super::poll::{Interest, Poll};
use super::report::{Fold, Reports};
use circulant::launch::side::Report;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A line that is longer is passed on in pieces.
const HELD_MAX: usize = 64 * 1024;

/// How much of an agent's output the launcher may owe to the reader, per stream.
const WINDOW: usize = 1 << 20;

/// The token of what wakes the thread.
const WAKE: u64 = u64::MAX;

/// What a rank printed.
pub(super) type Piece = (usize, Vec<u8>);

/// A thread that copies.
#[derive(Debug)]
pub(super) struct Forwarder {
    shared: Arc<Shared>,
    /// A byte makes the thread look at what is shared.
    waker: UnixStream,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// From agents, to be written.
    arrived: VecDeque<Piece>,
    /// Nothing will arrive any more.
    no_more: bool,
    /// What was written of that: rank and length.
    written: Vec<(usize, usize)>,
    /// To be sent to the launcher.
    leaving: VecDeque<Piece>,
    /// How much has left that was not written yet.
    owed: usize,
    /// Take what is in the pipes now, then close them.
    close: bool,
    /// No process reads what we write.
    broken: bool,
    /// The thread has ended.
    done: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How output is forwarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Lines begin with the rank.
    pub(super) label: bool,
    /// Lines stay whole.
    pub(super) lines: bool,
    /// Pieces arrive from agents.
    pub(super) arrivals: bool,
    /// Pieces go to the launcher rather than to our own descriptors.
    pub(super) up: bool,
}

/// The pipe of a rank: its place among those of this process, and its number in the job.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) at: usize,
    pub(super) rank: usize,
    pub(super) fd: OwnedFd,
}

impl Forwarder {
    /// Starts copying from `pipes`. After the end of each `open[at]` is counted down and a byte is sent to
    /// `wake`, as it is whenever there is something for the main thread. The errors that ranks were told, by `reports`,
    /// are left out.
    pub(super) fn start(
        pipes: Vec<Pipe>,
        sink: Sink,
        manner: Manner,
        open: Arc<[AtomicUsize]>,
        reports: Option<Arc<Reports>>,
        wake: UnixStream,
    ) -> io::Result<Self> {
        let (waker, wakes) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        wakes.set_nonblocking(true)?;
        let poll = Poll::new()?;
        poll.add(&wakes, WAKE, Interest::Read)?;
        let mut sources = BTreeMap::new();
        for pipe in pipes {
            rustix::io::ioctl_fionbio(&pipe.fd, true)?;
            poll.add(&pipe.fd, pipe.at as u64, Interest::Read)?;
            let (held, fold) = (Vec::new(), Fold::default());
            sources.insert(pipe.at, Source { rank: pipe.rank, pipe: pipe.fd.into(), held, fold });
        }
        wake.set_nonblocking(true)?;
        let shared = Arc::new(Shared::default());
        shared.lock().no_more = !manner.arrivals;
        let way = if manner.up { Way::Up(Arc::clone(&shared), wake.try_clone()?) } else { Way::Own(sink) };
        let writer = Writer { way, label: manner.label, hold: manner.lines, inside: None };
        let copier =
            Copier { poll, wakes, sources, writer, reports, open, wake, shared: Arc::clone(&shared) };
        std::thread::Builder::new().name("output".to_owned()).spawn(move || copier.run())?;
        Ok(Self { shared, waker })
    }

    /// Whether everything is copied and all pipes are closed.
    pub(super) fn is_done(&self) -> bool {
        let state = self.shared.lock();
        state.done && state.leaving.is_empty()
    }

    /// Copies what is in the pipes now, then closes them even if another process holds them open.
    pub(super) fn close_pipes(&self) {
        self.shared.lock().close = true;
        self.ring();
    }

    /// Nothing will arrive from agents any more.
    pub(super) fn no_more(&self) {
        self.shared.lock().no_more = true;
        self.ring();
    }

    /// A piece from an agent. False when it is not taken any more.
    pub(super) fn arrive(&self, piece: Piece) -> bool {
        let mut state = self.shared.lock();
        if state.done || state.broken {
            return false;
        }
        state.arrived.push_back(piece);
        drop(state);
        self.ring();
        true
    }

    /// What was written of arrived pieces since the last call.
    pub(super) fn take_written(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.shared.lock().written)
    }

    /// What is to be sent to the launcher.
    pub(super) fn take_leaving(&self) -> VecDeque<Piece> {
        std::mem::take(&mut self.shared.lock().leaving)
    }

    /// The launcher wrote so much of it.
    pub(super) fn credit(&self, len: usize) {
        let mut state = self.shared.lock();
        state.owed = state.owed.saturating_sub(len);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Whether the reader of our output left.
    pub(super) fn is_broken(&self) -> bool {
        self.shared.lock().broken
    }

    /// Whether pieces that arrived wait for the reader of our output.
    pub(super) fn is_behind(&self) -> bool {
        !self.shared.lock().arrived.is_empty()
    }

    fn ring(&self) {
        self.shared.changed.notify_all();
        // One that is full wakes already.
        let _ = (&self.waker).write(b"w");
    }
}

struct Source {
    rank: usize,
    pipe: std::fs::File,
    /// The beginning of a line whose end did not come yet.
    held: Vec<u8>,
    fold: Fold,
}

struct Copier {
    poll: Poll,
    wakes: UnixStream,
    sources: BTreeMap<usize, Source>,
    writer: Writer,
    reports: Option<Arc<Reports>>,
    open: Arc<[AtomicUsize]>,
    wake: UnixStream,
    shared: Arc<Shared>,
}

impl Copier {
    fn run(mut self) {
        if self.work().is_err() {
            // No process reads what we write. Closing the pipes tells the ranks when they next print.
            self.shared.lock().broken = true;
        }
        for at in self.sources.keys().copied().collect::<Vec<_>>() {
            let _ = self.close(at);
        }
        self.shared.lock().done = true;
        let _ = (&self.wake).write(b"e");
    }

    fn work(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let closing = {
                let state = self.shared.lock();
                if self.sources.is_empty() && state.no_more && state.arrived.is_empty() {
                    return Ok(());
                }
                state.close
            };
            if closing {
                for at in self.sources.keys().copied().collect::<Vec<_>>() {
                    self.copy(at, &mut buffer, true)?;
                    self.close(at)?;
                }
            }
            self.write_arrived()?;
            if self.is_idle() {
                for token in self.poll.wait(None)? {
                    match usize::try_from(token) {
                        Ok(at) if token != WAKE => self.copy(at, &mut buffer, false)?,
                        // The main thread has gone on without us.
                        _ if matches!(self.wakes.read(&mut buffer), Ok(0)) => return Ok(()),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Whether there is nothing to do but wait for the next event.
    fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        let over = self.sources.is_empty() && state.no_more;
        state.arrived.is_empty() && !over && (!state.close || self.sources.is_empty())
    }

    fn write_arrived(&mut self) -> io::Result<()> {
        loop {
            let Some((rank, bytes)) = self.shared.lock().arrived.pop_front() else { return Ok(()) };
            self.writer.flush(rank, &bytes)?;
            self.shared.lock().written.push((rank, bytes.len()));
            let _ = (&self.wake).write(b"w");
        }
    }

    /// Copies from one rank: one buffer, or all there is. An error is the sink's.
    fn copy(&mut self, at: usize, buffer: &mut [u8], all: bool) -> io::Result<()> {
        loop {
            let Some(source) = self.sources.get_mut(&at) else { return Ok(()) };
            match source.pipe.read(buffer) {
                Ok(len) if len > 0 => {
                    // A rank reports its error before it can print it.
                    let report = self.reports.as_ref().and_then(|r| r.of(at)).filter(Report::is_told);
                    let fold = report.as_ref().map(|report| (&mut source.fold, report));
                    self.writer.take(source.rank, &mut source.held, &buffer[..len], fold)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                _ => return self.close(at),
            }
            if !all {
                return Ok(());
            }
        }
    }

    fn close(&mut self, at: usize) -> io::Result<()> {
        let Some(source) = self.sources.remove(&at) else { return Ok(()) };
        let _ = self.poll.remove(&source.pipe);
        let written = self.writer.flush(source.rank, &source.held);
        self.open[at].fetch_sub(1, Ordering::Release);
        let _ = (&self.wake).write(b"e");
        written
    }
}

/// Where a forwarder's pieces go.
enum Way {
    Own(Sink),
    Up(Arc<Shared>, UnixStream),
}

impl Way {
    fn write(&self, rank: usize, bytes: &[u8]) -> io::Result<()> {
        let (shared, wake) = match self {
            Self::Own(sink) => return write_all(*sink, bytes),
            Self::Up(shared, wake) => (shared, wake),
        };
        let mut state = shared.lock();
        // When the pipes are to be closed no more than what is in them can come: that need not wait.
        while state.owed >= WINDOW && !state.close {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.owed += bytes.len();
        state.leaving.push_back((rank, bytes.to_vec()));
        drop(state);
        let mut wake = wake;
        let _ = wake.write(b"l");
        Ok(())
    }
}

struct Writer {
    way: Way,
    label: bool,
    hold: bool,
    /// The rank whose line was begun and not ended.
    inside: Option<usize>,
}

impl Writer {
    /// Passes on the lines that `new` completes, less those that are folded, and holds the rest.
    fn take(
        &mut self,
        rank: usize,
        held: &mut Vec<u8>,
        new: &[u8],
        fold: Option<(&mut Fold, &Report)>,
    ) -> io::Result<()> {
        if !self.hold {
            return self.flush(rank, new);
        }
        let whole = new.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        if whole > 0 {
            held.extend_from_slice(&new[..whole]);
            if let Some((fold, report)) = fold {
                *held = fold.rest(report, held);
            }
            self.flush(rank, held)?;
            held.clear();
        }
        held.extend_from_slice(&new[whole..]);
        if held.len() > HELD_MAX {
            self.flush(rank, held)?;
            held.clear();
        }
        Ok(())
    }

    fn flush(&mut self, rank: usize, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        match self.label {
            true => {
                let text = self.labelled(rank, bytes);
                self.way.write(rank, &text)
            }
            false => self.way.write(rank, bytes),
        }
    }

    fn labelled(&mut self, rank: usize, bytes: &[u8]) -> Vec<u8> {
        let label = format!("[{rank}] ");
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 8 + 16);
        let mut fresh = self.inside != Some(rank);
        if fresh && self.inside.is_some() {
            out.push(b'\n');
        }
        for line in bytes.split_inclusive(|&b| b == b'\n') {
            if fresh {
                out.extend_from_slice(label.as_bytes());
            }
            out.extend_from_slice(line);
            fresh = line.ends_with(b"\n");
        }
        self.inside = (!fresh).then_some(rank);
        out
    }
}

/// Writes to one of our own descriptors, past std's buffers and locks.
fn write_all(sink: Sink, mut bytes: &[u8]) -> io::Result<()> {
    let fd = match sink {
        Sink::Output => rustix::stdio::stdout(),
        Sink::Error => rustix::stdio::stderr(),
    };
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(rustix::io::Errno::INTR) => {}
            // Another process made it non-blocking: wait until it takes more.
            Err(rustix::io::Errno::AGAIN) => {
                let fd = fd.as_fd();
                let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::OUT)];
                let _ = rustix::event::poll(&mut fds, None);
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// A line of the launcher itself, in one write.
pub(super) fn say(text: &str) {
    let _ = write_all(Sink::Error, format!("circulant run: {text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stand_at_the_beginning_of_lines() {
        let mut writer = Writer { way: Way::Own(Sink::Output), label: true, hold: true, inside: None };
        assert_eq!(writer.labelled(3, b"a\n\nb\n"), b"[3] a\n[3] \n[3] b\n");
        assert_eq!(writer.labelled(3, b"long"), b"[3] long");
        assert_eq!(writer.labelled(3, b" line"), b" line");
        assert_eq!(writer.labelled(1, b"\xff\0\n"), b"\n[1] \xff\0\n");
        assert_eq!(writer.labelled(3, b"x\ny"), b"[3] x\n[3] y");
    }
}
