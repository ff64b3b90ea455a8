//! A connection between launcher and agent: the two ends of what the starter (ssh) passes on. Never waits.

use super::message::Frames;
use super::poll::{Interest, Poll};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One end of it.
#[derive(Debug)]
pub(super) struct Link {
    input: File,
    output: Option<File>,
    pub(super) frames: Frames,
    /// Frames that are not sent yet. Connections that one frame leaves by share its memory.
    waiting: VecDeque<Arc<[u8]>>,
    /// How much of the first of them is sent.
    sent: usize,
    /// Whether the poll looks for room to write.
    writing: bool,
    /// Tokens of input (this) and output (the next).
    token: u64,
}

impl Link {
    /// Connects these two, with the tokens `token` and the next one.
    pub(super) fn new(input: OwnedFd, output: OwnedFd, poll: &Poll, token: u64) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&input, true)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        poll.add(&input, token, Interest::Read)?;
        Ok(Self {
            input: input.into(),
            output: Some(output.into()),
            frames: Frames::default(),
            waiting: VecDeque::new(),
            sent: 0,
            writing: false,
            token,
        })
    }

    /// Sends a frame, or keeps it until there is room.
    pub(super) fn send(&mut self, poll: &Poll, frame: impl Into<Arc<[u8]>>) {
        if self.output.is_some() {
            self.waiting.push_back(frame.into());
            self.flush(poll);
        }
    }

    /// Sends what there is room for.
    pub(super) fn flush(&mut self, poll: &Poll) {
        let Some(output) = &mut self.output else { return };
        let mut broken = false;
        while let Some(frame) = self.waiting.front() {
            match output.write(&frame[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // It is gone; its other end will tell.
                Err(_) => {
                    broken = true;
                    self.waiting.clear();
                    break;
                }
            }
            if self.sent == frame.len() {
                self.waiting.pop_front();
                self.sent = 0;
            }
        }
        let writing = !self.waiting.is_empty();
        if writing && !self.writing {
            self.writing = poll.add(&*output, self.token + 1, Interest::Write).is_ok();
        } else if self.writing && !writing {
            let _ = poll.remove(&*output);
            self.writing = false;
        }
        if broken {
            self.output = None;
        }
    }

    /// Whether everything is sent.
    pub(super) fn is_flushed(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Reads what came, a bounded amount; whether the other end is still there.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0; 64 * 1024];
        for _ in 0..16 {
            match self.input.read(&mut buffer) {
                Ok(len) if len > 0 => self.frames.push(&buffer[..len]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                _ => return false,
            }
        }
        true
    }

    /// To be called before it is dropped.
    pub(super) fn close(&mut self, poll: &Poll) {
        let _ = poll.remove(&self.input);
        if let Some(output) = self.output.take().filter(|_| self.writing) {
            let _ = poll.remove(&output);
        }
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_frame_that_leaves_by_several_is_there_once() {
        let poll = Poll::new().unwrap();
        let frames: [Arc<[u8]>; 3] =
            [5, 300_000, 1].map(|len: u32| (0..len).map(|i| (i % 251) as u8).collect());
        let sent = frames.concat();
        let mut links = Vec::new();
        let readers: Vec<_> = (0..2)
            .map(|at| {
                let ((input, _), (mut reader, output)) = (io::pipe().unwrap(), io::pipe().unwrap());
                let mut link = Link::new(input.into(), output.into(), &poll, 2 * at).unwrap();
                for frame in &frames {
                    link.send(&poll, Arc::clone(frame));
                }
                links.push(link);
                thread::spawn(move || {
                    let mut all = Vec::new();
                    reader.read_to_end(&mut all).unwrap();
                    all
                })
            })
            .collect();
        // A pipe has no room for the second; the first is sent.
        assert_eq!(frames.each_ref().map(Arc::strong_count), [1, 3, 3]);
        while !links.iter().all(Link::is_flushed) {
            links.iter_mut().for_each(|link| link.flush(&poll));
            thread::yield_now();
        }
        assert_eq!(frames.each_ref().map(Arc::strong_count), [1; 3]);
        links.iter_mut().for_each(|link| link.close(&poll));
        drop(links);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), sent);
        }
    }
}
