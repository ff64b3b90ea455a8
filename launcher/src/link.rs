//! A connection between launcher and agent: the two ends of what the starter (ssh) passes on. Never waits.

use super::message::Frames;
use super::poll::{Interest, Poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// One end of it.
#[derive(Debug)]
pub(super) struct Link {
    input: File,
    output: Option<File>,
    pub(super) frames: Frames,
    waiting: Vec<u8>,
    /// How much of `waiting` is sent.
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
            waiting: Vec::new(),
            sent: 0,
            writing: false,
            token,
        })
    }

    /// Sends a frame, or keeps it until there is room.
    pub(super) fn send(&mut self, poll: &Poll, frame: &[u8]) {
        if self.output.is_some() {
            self.waiting.extend_from_slice(frame);
            self.flush(poll);
        }
    }

    /// Sends what there is room for.
    pub(super) fn flush(&mut self, poll: &Poll) {
        let Some(output) = &mut self.output else { return };
        let mut broken = false;
        while self.sent < self.waiting.len() {
            match output.write(&self.waiting[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // It is gone; its other end will tell.
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        if broken || self.sent == self.waiting.len() {
            self.waiting.clear();
            self.sent = 0;
        } else if self.sent > 1 << 20 {
            self.waiting.drain(..self.sent);
            self.sent = 0;
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
