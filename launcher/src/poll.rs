//! Waiting for many descriptors at once: epoll with our tokens.

use rustix::event::{Timespec, epoll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    Read,
    Write,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        match self {
            Self::Read => epoll::EventFlags::IN,
            Self::Write => epoll::EventFlags::OUT,
        }
    }
}

/// A set of descriptors with tokens.
#[derive(Debug)]
pub(super) struct Poll(OwnedFd);

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    pub(super) fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(token), interest.flags())?)
    }

    pub(super) fn change(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.0, fd, epoll::EventData::new_u64(token), interest.flags())?)
    }

    pub(super) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.0, fd)?)
    }

    /// The tokens of descriptors that are ready, at least one unless `limit` passed or a signal came.
    pub(super) fn wait(&self, limit: Option<Duration>) -> io::Result<Vec<u64>> {
        let mut events = Vec::with_capacity(64);
        // A wait that is cut short is harmless: the caller looks at the clock itself.
        let limit = limit.map(|l| Timespec {
            tv_sec: i64::try_from(l.as_secs()).unwrap_or(i64::MAX / 2).min(1 << 30),
            tv_nsec: l.subsec_nanos().into(),
        });
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), limit.as_ref()) {
            Ok(_) => Ok(events.iter().map(|e| e.data.u64()).collect()),
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(e) => Err(e.into()),
        }
    }
}
