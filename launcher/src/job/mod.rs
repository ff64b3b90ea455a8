//! One job from start to end, as seen by one process: the launcher or an agent. Both run the ranks of their own
//! host and start agents on others; what happens goes up to the launcher, which decides, and what it decides
//! comes down. The loop over everything that can happen is here.

mod control;
mod ranks;
mod summary;
mod tree;

use super::message::{Down, Pair, Sink, Up};
use super::output::{Manner, Pipe, Pump, say};
use super::pmi::Pmi;
use super::poll::{Poll, Want};
use super::report::Reports;
use super::setup::Setup;
use super::signals::{self, Signals};
use super::spawn::{self, Start, Watchdog};
use super::{Options, bind, input, link::Link, setup::Bind};
use circulant::error::{Error, ErrorKind, Result};
use control::Control;
use ranks::{Rank, State};
use rustix::process::{Signal, kill_process_group};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use tree::Branch;

/// After KILL: what is still there then is stuck in the kernel.
const KILL_TIME: Duration = Duration::from_secs(10);

/// How long what a rank left behind in its process group may go on printing.
const LINGER: Duration = Duration::from_millis(500);

/// Tokens: signals, the threads, the launcher's link (two), ranks, their ends, agents (two each).
const WAKE: u64 = signals::TOKENS;
pub(super) const UP: u64 = WAKE + 1;
const FIRST_RANK: u64 = 16;
const FIRST_END: u64 = 1 << 31;
const FIRST_BRANCH: u64 = 1 << 32;

/// Runs a job until all its ranks have ended; gives the exit code for it: 0, the first failing rank's
/// (128 + signal), that of an abort, or [`super::EXIT_TIMEOUT`]. Says on standard error what failed first.
///
/// To be called on the main thread: the ranks are killed when the calling thread ends.
///
/// # Errors
/// When the ranks cannot be started. None is left then.
pub fn run(options: &Options) -> Result<u8> {
    let (setup, remote) = control::plan(options)?;
    let poll = Poll::new()?;
    let control = Box::new(Control::new(options, &setup, &remote));
    let mut job = Job::new(setup, Head::Root(control), poll)?;
    job.start(&remote)?;
    job.serve()?;
    job.sum_up();
    Ok(job.exit_code())
}

/// An agent's part of a job, of which `up` leads to whoever started it.
pub(super) fn agent(mut setup: Setup, up: Link, poll: Poll) -> Result<()> {
    let others = setup.sites.split_off(1);
    let host = setup.sites[0].index;
    let mut job = Job::new(setup, Head::Agent(up), poll)?;
    if let Err(error) = job.start(&others) {
        job.event(Up::Failed(host, error.to_string()));
        job.flush_up(Instant::now() + Duration::from_secs(5));
        return Err(error);
    }
    // What came together with the first message waits already.
    job.listen_up(UP);
    job.serve()
}

/// Who decides.
#[derive(Debug)]
enum Head {
    /// We.
    Root(Box<Control>),
    /// Whoever is at the other end.
    Agent(Link),
}

#[derive(Debug)]
struct Job {
    /// What all know, with one site: ours.
    setup: Setup,
    head: Head,
    poll: Poll,
    signals: Signals,
    watchdog: Watchdog,
    pmi: Pmi,
    ranks: Vec<Rank>,
    reports: Arc<Reports>,
    branches: Vec<Branch>,
    /// Pipes per rank that are still open.
    open: Arc<[AtomicUsize]>,
    /// Threads write to the second when something changed; we read the first.
    wake: (UnixStream, UnixStream),
    /// Of standard output and standard error.
    pumps: Vec<Pump>,
    /// The barrier's answer, when all ranks here are in it.
    barrier: Option<Vec<u8>>,
    /// What agents below put before it.
    gathered: Vec<Pair>,
    feeder: Option<input::Feeder>,
    /// Whether our feeder has a piece that it did not take yet.
    feeding: bool,
    /// Whether a piece of standard input came that is not taken yet everywhere.
    fed: bool,
    reader: Option<input::Reader>,
    children_changed: bool,
    /// Ranks here whose processes said themselves that they ended.
    ended: Vec<usize>,
    /// Ranks here that ended and are not reaped.
    ending: Vec<usize>,
    /// What the side channel told so far.
    news: String,
    /// How many ranks here are not reaped.
    unreaped: usize,
    /// Whether the end of some rank here is told by the signal only.
    unwatched: bool,
    /// When the last rank here was reaped.
    reaped: Option<Instant>,
    /// Whether the pipes of ranks that left something behind were closed.
    closed: bool,
    /// Said goodbye to the launcher.
    done: bool,
    /// Do not wait for anything any more.
    give_up: bool,
}

impl Job {
    fn new(setup: Setup, head: Head, poll: Poll) -> Result<Self> {
        let signals = Signals::listen(&poll)?;
        let wake = UnixStream::pair()?;
        wake.0.set_nonblocking(true)?;
        wake.1.set_nonblocking(true)?;
        poll.add(&wake.0, WAKE, Want::Read)?;
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
            pumps: Vec::new(),
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

    fn is_root(&self) -> bool {
        matches!(self.head, Head::Root(_))
    }

    /// Starts agents for `others`, and the ranks of this host.
    fn start(&mut self, others: &[super::setup::Site]) -> Result<()> {
        let here = self.setup.sites[0].ranks.clone();
        let branches = self.setup.fanout.min(others.len());
        let files = spawn::raise_files(here.len() as u64 * 6 + branches as u64 * 4 + 64)?;
        self.branch_out(others)?;
        let cores = self.cores(here.len());
        let (mut outputs, mut errors, mut stdins) = (Vec::new(), Vec::new(), Vec::new());
        for (at, &rank) in here.iter().enumerate() {
            let start = Start { setup: &self.setup, files, root: self.is_root(), cores: &cores };
            let started = match start.rank(at) {
                Ok(started) => started,
                Err(e) => return Err(self.abandon(rank, &e)),
            };
            self.watchdog.guard(started.pid, rank);
            let added = self.poll.add(&started.pmi, FIRST_RANK + at as u64, Want::Read);
            outputs.push(Pipe { at, rank, fd: started.output });
            errors.push(Pipe { at, rank, fd: started.error });
            stdins.extend(started.stdin);
            self.ranks.push(Rank::new(started.child, started.pid, started.pmi, Arc::new(started.side)));
            self.unreaped += 1;
            self.watch(at);
            if let Err(e) = added {
                return Err(self.abandon(rank, &e));
            }
        }
        self.reports = Arc::new(Reports::new(self.ranks.iter().map(|r| Arc::clone(&r.side))));
        self.pump(outputs, errors, stdins).map_err(|e| self.abandon(self.setup.size - 1, &e))
    }

    /// The cores to tie ranks to.
    fn cores(&self, ranks: usize) -> Vec<String> {
        if self.setup.bind == Bind::None || ranks == 0 {
            return Vec::new();
        }
        let cores = bind::cores();
        if cores.len() < ranks {
            let name = &self.setup.sites[0].name;
            let many = cores.len();
            say(&format!("{name}: {ranks} ranks are not bound, as it has {many} cores"));
            return Vec::new();
        }
        cores
    }

    fn pump(
        &mut self,
        outputs: Vec<Pipe>,
        errors: Vec<Pipe>,
        stdins: Vec<std::process::ChildStdin>,
    ) -> std::io::Result<()> {
        let label = matches!(&self.head, Head::Root(c) if c.label);
        let arrivals = self.is_root() && !self.branches.is_empty();
        let manner = Manner { label, lines: self.setup.lines, arrivals, up: !self.is_root() };
        for (pipes, sink) in [(outputs, Sink::Output), (errors, Sink::Error)] {
            let open = Arc::clone(&self.open);
            let fold = self.setup.fold && sink == Sink::Error;
            let reports = fold.then(|| Arc::clone(&self.reports));
            self.pumps.push(Pump::start(pipes, sink, manner, open, reports, self.wake.1.try_clone()?)?);
        }
        if !stdins.is_empty() {
            self.feeder = Some(input::Feeder::start(stdins, self.wake.1.try_clone()?)?);
        }
        // Where rank 0 is ours and alone reads, it has the descriptor itself.
        let elsewhere = match self.setup.input {
            super::Input::None => false,
            super::Input::All => true,
            super::Input::First => !self.setup.sites[0].ranks.contains(&0),
        };
        if self.is_root() && elsewhere {
            self.reader = Some(input::Reader::start(self.wake.1.try_clone()?)?);
        }
        Ok(())
    }

    /// Ends what was started; gives the error to report.
    fn abandon(&mut self, rank: usize, error: &std::io::Error) -> Error {
        self.signal(Signal::KILL);
        for at in 0..self.ranks.len() {
            self.reap(at);
        }
        let folder = self.setup.apps[self.setup.app_of(rank)].folder.as_ref();
        if let Some(folder) = folder.filter(|f| !f.is_dir()) {
            let message = format!("there is no folder {} on {}", folder.display(), self.setup.sites[0].name);
            return Error::new(ErrorKind::System, message).help("say another with --wdir");
        }
        let message = format!("rank {rank} of {} cannot be started: {error}", self.setup.size);
        Error::new(ErrorKind::System, message)
            .help("start fewer ranks, or raise the limit (ulimit -u, ulimit -n)")
    }

    fn serve(&mut self) -> Result<()> {
        while !self.is_over() {
            for token in self.poll.wait(self.until_next())? {
                match token {
                    WAKE => {
                        let _ = self.wake.0.read(&mut [0; 4096]);
                    }
                    token if token < WAKE => self.signalled(token),
                    UP..FIRST_RANK => self.listen_up(token),
                    token if token >= FIRST_BRANCH => self.listen_below(token - FIRST_BRANCH),
                    token if token >= FIRST_END => self.ended.extend(usize::try_from(token - FIRST_END)),
                    token => self.talk(usize::try_from(token - FIRST_RANK).unwrap_or(0)),
                }
            }
            let changed = std::mem::take(&mut self.children_changed);
            self.look_at_children(changed);
            if changed {
                self.look_at_starters();
            }
            self.look_at_threads();
            self.look_at_clock(Instant::now());
        }
        Ok(())
    }

    /// Whether there is nothing left to do.
    fn is_over(&mut self) -> bool {
        if self.give_up {
            return true;
        }
        let still = self.reaped.is_none() || self.branches.iter().any(|b| !b.is_gone());
        if still {
            return false;
        }
        self.pumps.iter().for_each(Pump::no_more);
        if !self.pumps.iter().all(Pump::is_done) {
            return false;
        }
        match &mut self.head {
            Head::Root(_) => true,
            Head::Agent(up) => {
                if !std::mem::replace(&mut self.done, true) {
                    up.send(&self.poll, &Up::Done.encode());
                }
                up.is_flushed()
            }
        }
    }

    /// How long nothing is due.
    fn until_next(&self) -> Option<Duration> {
        let ended = self.ending.iter().filter_map(|&at| match self.ranks[at].state {
            State::Ended(t) => Some(t),
            _ => None,
        });
        let branches = self.branches.iter().filter_map(Branch::due);
        let control = match &self.head {
            Head::Root(control) => control.due(),
            Head::Agent(_) => None,
        };
        let linger = self.reaped.filter(|_| !self.closed).map(|t| t + LINGER);
        let next = ended.chain(branches).chain(control).chain(linger).min()?;
        // Rounded up: epoll may wake a little early otherwise, and often.
        Some(next.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    /// Something happened: for the launcher to decide.
    fn event(&mut self, event: Up) {
        match &mut self.head {
            Head::Agent(up) => up.send(&self.poll, &event.encode()),
            Head::Root(_) => self.decide(event),
        }
    }

    /// What the launcher decided, for us and all below.
    fn down(&mut self, message: Down) {
        self.pass_down(&message);
        match message {
            // Only the first message is one, and it is not passed on.
            Down::Setup(_) => {}
            Down::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    self.signal(signal);
                }
            }
            Down::Gone(rank, how) => self.tell_ranks(rank, &how),
            Down::Fence(pairs) => self.release(pairs),
            Down::Input(piece) => self.feed(piece),
            Down::Credit(host, sink, len) if host == self.setup.sites[0].index => {
                if let Some(pump) = self.pumps.get(sink.index()) {
                    pump.credit(len);
                }
            }
            Down::Credit(..) => {}
            Down::Shut(sink) => {
                if let Some(pump) = self.pumps.get(sink.index()).filter(|_| !self.is_root()) {
                    pump.close_pipes();
                }
            }
        }
    }

    fn signalled(&mut self, token: u64) {
        let Some((signal, count)) = self.signals.take(token) else { return };
        if count == 0 {
            return;
        }
        match (signal, &self.head) {
            (Signal::CHILD, _) => self.children_changed = true,
            (_, Head::Root(_)) => self.user_signal(signal, count),
            // An agent does what the launcher says; whoever wants to end it wants to end its ranks.
            (Signal::TERM | Signal::HUP, Head::Agent(_)) => self.give_up = true,
            _ => {}
        }
    }

    fn look_at_threads(&mut self) {
        self.look_at_input();
        if self.is_root() {
            return self.account_for_output();
        }
        for sink in [Sink::Output, Sink::Error] {
            let leaving = self.pumps.get(sink.index()).map(Pump::take_leaving).unwrap_or_default();
            for (rank, bytes) in leaving {
                self.event(Up::Output(rank, sink, bytes));
            }
        }
    }

    fn look_at_clock(&mut self, now: Instant) {
        for at in std::mem::take(&mut self.ending) {
            match self.is_due(at, now) {
                true => self.reap(at),
                false => self.ending.push(at),
            }
        }
        if self.reaped.is_none() && self.unreaped == 0 {
            self.reaped = Some(now);
        }
        if let Some(reaped) = self.reaped
            && !self.closed
            && now >= reaped + LINGER
        {
            // Somebody outside the process groups holds the pipes.
            self.pumps.iter().for_each(Pump::close_pipes);
            self.closed = true;
        }
        self.look_at_branches(now);
        if self.is_root() {
            self.watch_the_clock(now);
        }
    }
}

impl Drop for Job {
    /// However we leave, nothing stays.
    fn drop(&mut self) {
        for rank in &self.ranks {
            if !matches!(rank.state, State::Reaped) {
                let _ = kill_process_group(rank.pid, Signal::KILL);
            }
        }
        for branch in &mut self.branches {
            branch.abandon(&self.poll);
        }
    }
}
