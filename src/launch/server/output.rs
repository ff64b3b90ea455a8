//! Copies what the ranks print, line by line. One thread for standard output and one for standard error:
//! a reader that stops reading ours holds up the ranks that print, and nothing else.

use super::poll::{Poll, Want};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A line that is longer is passed on in pieces.
const HELD_MAX: usize = 64 * 1024;

/// The token of the socket that ends the thread.
const STOP: u64 = u64::MAX;

/// A thread that copies.
#[derive(Debug)]
pub(super) struct Pump {
    done: Arc<AtomicBool>,
    /// Shut down to make the thread take what is there and end.
    stop: UnixStream,
}

/// Where lines go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sink {
    Output,
    Error,
}

impl Pump {
    /// Starts copying from `pipes` (rank, descriptor). After the end of each pipe `open[rank]` is counted
    /// down and a byte is sent to `wake`. Lines stay whole unless there is just one rank and no label.
    pub(super) fn start(
        pipes: Vec<(usize, OwnedFd)>,
        sink: Sink,
        label: bool,
        open: Arc<[AtomicUsize]>,
        wake: UnixStream,
    ) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let poll = Poll::new()?;
        poll.add(&stopped, STOP, Want::Read)?;
        let mut sources = BTreeMap::new();
        for (rank, fd) in pipes {
            rustix::io::ioctl_fionbio(&fd, true)?;
            poll.add(&fd, rank as u64, Want::Read)?;
            sources.insert(rank, Source { pipe: fd.into(), held: Vec::new() });
        }
        wake.set_nonblocking(true)?;
        let writer = Writer { sink, label, hold: label || sources.len() > 1, inside: None };
        let done = Arc::new(AtomicBool::new(false));
        let copier = Copier { poll, sources, writer, open, wake, done: Arc::clone(&done) };
        std::thread::Builder::new().name("output".to_owned()).spawn(move || {
            copier.run();
            drop(stopped);
        })?;
        Ok(Self { done, stop })
    }

    /// Whether everything is copied and all pipes are closed.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Copies what is in the pipes now, then ends even if somebody holds them open.
    pub(super) fn ask_to_stop(&self) {
        let _ = self.stop.shutdown(std::net::Shutdown::Both);
    }
}

struct Source {
    pipe: std::fs::File,
    /// The beginning of a line whose end did not come yet.
    held: Vec<u8>,
}

struct Copier {
    poll: Poll,
    sources: BTreeMap<usize, Source>,
    writer: Writer,
    open: Arc<[AtomicUsize]>,
    wake: UnixStream,
    done: Arc<AtomicBool>,
}

impl Copier {
    fn run(mut self) {
        let mut buffer = vec![0; 64 * 1024];
        let mut stopping = false;
        while !self.sources.is_empty() && !stopping {
            let Ok(ready) = self.poll.wait(None) else { break };
            stopping = ready.contains(&STOP);
            let ranks: Vec<usize> = match stopping {
                true => self.sources.keys().copied().collect(),
                false => ready.iter().filter_map(|&t| usize::try_from(t).ok()).collect(),
            };
            for rank in ranks {
                if self.copy(rank, &mut buffer, stopping).is_err() {
                    // Nobody reads us. Closing the pipes tells the ranks when they next print.
                    stopping = true;
                    break;
                }
            }
        }
        for rank in self.sources.keys().copied().collect::<Vec<_>>() {
            let _ = self.close(rank);
        }
        self.done.store(true, Ordering::Release);
        let _ = (&self.wake).write_all(b"e");
    }

    /// Copies from one rank: one buffer, or all there is. An error is the sink's.
    fn copy(&mut self, rank: usize, buffer: &mut [u8], all: bool) -> io::Result<()> {
        loop {
            let Some(source) = self.sources.get_mut(&rank) else { return Ok(()) };
            match source.pipe.read(buffer) {
                Ok(len) if len > 0 => self.writer.take(rank, &mut source.held, &buffer[..len])?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                _ => return self.close(rank),
            }
            if !all {
                return Ok(());
            }
        }
    }

    fn close(&mut self, rank: usize) -> io::Result<()> {
        let Some(source) = self.sources.remove(&rank) else { return Ok(()) };
        let _ = self.poll.remove(&source.pipe);
        let written = self.writer.flush(rank, &source.held);
        self.open[rank].fetch_sub(1, Ordering::Release);
        let _ = (&self.wake).write_all(b"e");
        written
    }
}

struct Writer {
    sink: Sink,
    label: bool,
    hold: bool,
    /// The rank whose line was begun and not ended.
    inside: Option<usize>,
}

impl Writer {
    /// Passes on the lines that `new` completes and holds the rest.
    fn take(&mut self, rank: usize, held: &mut Vec<u8>, new: &[u8]) -> io::Result<()> {
        if !self.hold {
            return self.flush(rank, new);
        }
        let whole = new.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        if whole > 0 {
            held.extend_from_slice(&new[..whole]);
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
                write_all(self.sink, &text)
            }
            false => write_all(self.sink, bytes),
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
            // Somebody made it non-blocking: wait until it takes more.
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
        let mut writer = Writer { sink: Sink::Output, label: true, hold: true, inside: None };
        assert_eq!(writer.labelled(3, b"a\n\nb\n"), b"[3] a\n[3] \n[3] b\n");
        assert_eq!(writer.labelled(3, b"long"), b"[3] long");
        assert_eq!(writer.labelled(3, b" line"), b" line");
        assert_eq!(writer.labelled(1, b"\xff\0\n"), b"\n[1] \xff\0\n");
        assert_eq!(writer.labelled(3, b"x\ny"), b"[3] x\n[3] y");
    }
}
