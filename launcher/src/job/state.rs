//! What a process of a job knows: the launcher, or an agent.

use super::branch::Branch;
use super::control::Control;
use super::rank::Rank;
use crate::input;
use crate::link::Link;
use crate::message::Pair;
use crate::output::Forwarder;
use crate::pmi::Pmi;
use crate::poll::{Interest, Poll};
use crate::report::Reports;
use crate::setup::Setup;
use crate::signals::{self, Signals};
use crate::spawn::Watchdog;
use circulant::error::Result;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// After KILL: what is still there then is stuck in the kernel.
pub(super) const KILL_TIME: Duration = Duration::from_secs(10);

/// How long what a rank left behind in its process group may go on printing.
pub(super) const LINGER: Duration = Duration::from_millis(500);

/// Tokens: signals, the threads, the launcher's link (two), ranks, their ends, agents (two each).
pub(super) const WAKE: u64 = signals::TOKENS;
pub(crate) const UP: u64 = WAKE + 1;
pub(super) const FIRST_RANK: u64 = 16;
pub(super) const FIRST_END: u64 = 1 << 31;
pub(super) const FIRST_BRANCH: u64 = 1 << 32;

/// The process that decides.
#[derive(Debug)]
pub(super) enum Head {
    /// We.
    Root(Box<Control>),
    /// The process at the other end.
    Agent(Link),
}

#[derive(Debug)]
pub(super) struct Job {
    /// What all know, with one site: ours.
    pub(super) setup: Setup,
    pub(super) head: Head,
    pub(super) poll: Poll,
    pub(super) signals: Signals,
    pub(super) watchdog: Watchdog,
    pub(super) pmi: Pmi,
    pub(super) ranks: Vec<Rank>,
    pub(super) reports: Arc<Reports>,
    pub(super) branches: Vec<Branch>,
    /// Pipes per rank that are still open.
    pub(super) open: Arc<[AtomicUsize]>,
    /// Threads write to the second when something changed; we read the first.
    pub(super) wake: (UnixStream, UnixStream),
    /// Of standard output and standard error.
    pub(super) forwarders: Vec<Forwarder>,
    /// The barrier's answer, when all ranks here are in it.
    pub(super) barrier: Option<Vec<u8>>,
    /// What agents below put before it.
    pub(super) gathered: Vec<Pair>,
    pub(super) feeder: Option<input::Feeder>,
    /// Whether our feeder has a piece that it did not take yet.
    pub(super) feeding: bool,
    /// Whether a piece of standard input came that is not taken yet everywhere.
    pub(super) fed: bool,
    pub(super) reader: Option<input::Reader>,
    pub(super) children_changed: bool,
    /// Ranks here whose processes said themselves that they ended.
    pub(super) ended: Vec<usize>,
    /// Ranks here that ended and are not reaped.
    pub(super) ending: Vec<usize>,
    /// What the side channel told so far.
    pub(super) news: String,
    /// How many ranks here are not reaped.
    pub(super) unreaped: usize,
    /// Whether the end of some rank here is told by the signal only.
    pub(super) unwatched: bool,
    /// When the last rank here was reaped.
    pub(super) reaped: Option<Instant>,
    /// Whether the pipes of ranks that left something behind were closed.
    pub(super) closed: bool,
    /// Told the launcher that all is done.
    pub(super) done: bool,
    /// Do not wait for anything any more.
    pub(super) give_up: bool,
}

impl Job {
    pub(super) fn new(setup: Setup, head: Head, poll: Poll) -> Result<Self> {
        let signals = Signals::listen(&poll)?;
        let wake = UnixStream::pair()?;
        wake.0.set_nonblocking(true)?;
        wake.1.set_nonblocking(true)?;
        poll.add(&wake.0, WAKE, Interest::Read)?;
        let here = &setup.sites[0].ranks;
        let apps: Vec<usize> = here.iter().map(|&r| setup.app_of(r)).collect();
        Ok(Self {
            watchdog: Watchdog::start(&setup.name)?,
            pmi: Pmi::of_node(&setup.name, setup.size, &apps, &setup.mapping),
            open: here.iter().map(|_| AtomicUsize::new(2)).collect(),
            setup,
            head,
            poll,
            signals,
            ranks: Vec::new(),
            reports: Arc::default(),
            branches: Vec::new(),
            wake,
            forwarders: Vec::new(),
            barrier: None,
            gathered: Vec::new(),
            feeder: None,
            feeding: false,
            fed: false,
            reader: None,
            children_changed: false,
            ended: Vec::new(),
            ending: Vec::new(),
            news: String::new(),
            unreaped: 0,
            unwatched: false,
            reaped: None,
            closed: false,
            done: false,
            give_up: false,
        })
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.head, Head::Root(_))
    }
}
