//! A rank of this host.

use circulant::launch::wire::Lines;
use rustix::process::Pid;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug)]
pub(super) enum State {
    Running,
    /// Ended, but not reaped: its process group may still hold something until then.
    Ended(Instant),
    Reaped,
}

/// A rank of this host.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) child: Child,
    pub(super) pid: Pid,
    pub(super) state: State,
    pub(super) pmi: Option<UnixStream>,
    pub(super) side: Arc<UnixStream>,
    pub(super) input: Lines,
    pub(super) output: Vec<u8>,
    /// Whether we wait for room to write rather than for a line.
    pub(super) writing: bool,
    /// The process, which the poll looks at until it ends. Without (an old kernel) the signal of its end has to do.
    pub(super) process: Option<OwnedFd>,
}

impl Rank {
    pub(super) fn new(child: Child, pid: Pid, pmi: UnixStream, side: Arc<UnixStream>) -> Self {
        Self {
            child,
            pid,
            state: State::Running,
            pmi: Some(pmi),
            side,
            input: Lines::default(),
            output: Vec::new(),
            writing: false,
            process: None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }
}
