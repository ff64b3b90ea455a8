//! One job from start to end, as seen by one process: the launcher or an agent. Both run the ranks of their own
//! host and start agents on others; what happens goes up to the launcher, which decides, and what it decides
//! comes down. The loop over everything that can happen is here.

mod branch;
mod control;
mod decide;
mod plan;
mod rank;
mod ranks;
mod state;
mod summary;
mod tree;

pub(super) use state::UP;

use crate::bind;
use crate::input;
use crate::link::Link;
use crate::message::{Down, Sink, Up};
use crate::options::Options;
use crate::output::{Forwarder, Manner, Pipe, say};
use crate::poll::{Interest, Poll};
use crate::report::Reports;
use crate::setup::{Bind, Input, Setup, Site};
use crate::spawn::{self, Start};
use branch::Branch;
use circulant::error::{Error, ErrorKind, Result};
use control::Control;
use rank::{Rank, State};
use rustix::process::{Signal, kill_process_group};
use state::{FIRST_BRANCH, FIRST_END, FIRST_RANK, Head, Job, LINGER, WAKE};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs a job until all its ranks have ended; gives the exit code for it: 0, the first failing rank's
/// (128 + signal), that of an abort, or [`crate::EXIT_TIMEOUT`]. Says on standard error what failed first.
///
/// To be called on the main thread: the ranks are killed when the calling thread ends.
///
/// # Errors
/// When the ranks cannot be started. None is left then.
pub fn run(options: &Options) -> Result<u8> {
    let (setup, remote) = plan::plan(options)?;
    let poll = Poll::new()?;
    let control = Box::new(Control::new(options, &setup, &remote));
    let mut job = Job::new(setup, Head::Root(control), poll)?;
    job.start(&remote)?;
    job.serve()?;
    job.sum_up();
    Ok(job.exit_code())
}

/// An agent's part of a job, of which `up` leads to its parent, which started it.
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

impl Job {
    /// Starts agents for `others`, and the ranks of this host.
    fn start(&mut self, others: &[Site]) -> Result<()> {
        let here = self.setup.sites[0].ranks.clone();
        let branches = self.setup.fanout.min(others.len());
        let files = spawn::raise_files(here.len() as u64 * 6 + branches as u64 * 4 + 64)?;
        self.branch_out(others)?;
        let processors = self.processors(here.len());
        let (mut outputs, mut errors, mut stdins) = (Vec::new(), Vec::new(), Vec::new());
        for (at, &rank) in here.iter().enumerate() {
            let start = Start { setup: &self.setup, files, root: self.is_root(), processors: &processors };
            let started = match start.rank(at) {
                Ok(started) => started,
                Err(e) => return Err(self.abandon(rank, &e)),
            };
            self.watchdog.guard(started.pid, rank);
            let added = self.poll.add(&started.pmi, FIRST_RANK + at as u64, Interest::Read);
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
        self.forward_output(outputs, errors, stdins).map_err(|e| self.abandon(self.setup.size - 1, &e))
    }

    /// The processors of each rank here; nothing where they are not bound.
    fn processors(&self, ranks: usize) -> Vec<Vec<usize>> {
        let (bind, name) = (self.setup.bind, &self.setup.sites[0].name);
        if bind == Bind::None || ranks == 0 {
            return Vec::new();
        }
        let cores = bind::cores();
        if bind == Bind::Core && cores.len() < ranks {
            say(&format!("{name}: {ranks} ranks are not bound, as it has {} cores", cores.len()));
            return Vec::new();
        }
        bind::processors(&cores, self.setup.map, bind, ranks)
    }

    fn forward_output(
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
            self.forwarders.push(Forwarder::start(
                pipes,
                sink,
                manner,
                open,
                reports,
                self.wake.1.try_clone()?,
            )?);
        }
        if !stdins.is_empty() {
            self.feeder = Some(input::Feeder::start(stdins, self.wake.1.try_clone()?)?);
        }
        // Where rank 0 is ours and alone reads, it has the descriptor itself.
        let elsewhere = match self.setup.input {
            Input::None => false,
            Input::All => true,
            Input::First => !self.setup.sites[0].ranks.contains(&0),
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
        self.forwarders.iter().for_each(Forwarder::no_more);
        if !self.forwarders.iter().all(Forwarder::is_done) {
            return false;
        }
        match &mut self.head {
            Head::Root(_) => true,
            Head::Agent(up) => {
                if !std::mem::replace(&mut self.done, true) {
                    up.send(&self.poll, Up::Done.encode());
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
            Head::Agent(up) => up.send(&self.poll, event.encode()),
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
            Down::Values(pairs) => self.take_in(pairs),
            Down::Fence(pairs) => self.release(pairs),
            Down::Input(piece) => self.feed(piece),
            Down::Credit(host, sink, len) if host == self.setup.sites[0].index => {
                if let Some(forwarder) = self.forwarders.get(sink.index()) {
                    forwarder.credit(len);
                }
            }
            Down::Credit(..) => {}
            Down::Shut(sink) => {
                if let Some(forwarder) = self.forwarders.get(sink.index()).filter(|_| !self.is_root()) {
                    forwarder.close_pipes();
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
            // An agent does what the launcher says; a signal to it is one to its ranks.
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
            let leaving = self.forwarders.get(sink.index()).map(Forwarder::take_leaving).unwrap_or_default();
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
            // A process outside the process groups holds the pipes.
            self.forwarders.iter().for_each(Forwarder::close_pipes);
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
