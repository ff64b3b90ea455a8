//! One job from start to end: the loop over everything that can happen to it.

use super::end::{End, code_of, ranks_text};
use super::output::{Pump, Sink, say};
use super::pmi::{Outcome, Pmi};
use super::poll::{Poll, Want};
use super::signals::{self, Signals};
use super::spawn::{self, Watchdog};
use super::{EXIT_TIMEOUT, Options};
use crate::error::{Error, ErrorKind, Result};
use crate::launch::side;
use crate::launch::wire::{Lines, quote};
use rustix::process::{Pid, Signal, kill_process_group};
use std::hash::{BuildHasher, Hasher};
use std::io::{ErrorKind as Io, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Between TERM and KILL.
const TERM_TIME: Duration = Duration::from_secs(2);

/// After KILL: what is still there then is stuck in the kernel.
const KILL_TIME: Duration = Duration::from_secs(10);

/// How long what a rank left behind in its process group may go on printing.
const LINGER: Duration = Duration::from_millis(500);

/// How often one rank's socket is read before it is another's turn.
const READS: usize = 16;

/// Token of the output threads; the sockets of PMI follow it.
const WAKE: u64 = signals::TOKENS;
const FIRST_RANK: u64 = WAKE + 1;

/// Runs a job until all its ranks have ended; gives the exit code for it: 0, the first failing rank's
/// (128 + signal), that of an abort, or [`EXIT_TIMEOUT`]. Says on standard error what failed first.
///
/// To be called on the main thread: the ranks are killed when the calling thread ends.
///
/// # Errors
/// When the ranks cannot be started. None is left then.
pub fn run(options: &Options) -> Result<u8> {
    let mut job = Job::new(options)?;
    job.start()?;
    job.serve()
}

#[derive(Debug)]
enum State {
    Running,
    /// Ended, but not reaped: its process group may still hold something until then.
    Ended(Instant),
    Reaped,
}

#[derive(Debug)]
struct Rank {
    child: Child,
    pid: Pid,
    state: State,
    pmi: Option<UnixStream>,
    side: UnixStream,
    input: Lines,
    output: Vec<u8>,
    /// Whether we wait for room to write rather than for a line.
    writing: bool,
}

/// How far the end of the job has come, and until when that stage lasts.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Running,
    Grace(Instant),
    Term(Instant),
    Kill(Instant),
}

#[derive(Debug)]
struct Job<'a> {
    options: &'a Options,
    poll: Poll,
    signals: Signals,
    watchdog: Watchdog,
    pmi: Pmi,
    ranks: Vec<Rank>,
    /// Pipes per rank that are still open.
    open: Arc<[AtomicUsize]>,
    /// The output threads write to the second when something changed; we read the first.
    wake: (UnixStream, UnixStream),
    pumps: Vec<Pump>,
    stage: Stage,
    deadline: Option<Instant>,
    exit: Option<u8>,
    /// A rank that left with code 0 but without a goodbye; no failure unless the others do not end either.
    leaver: Option<usize>,
    interrupted: bool,
    children_changed: bool,
    /// When the last rank was reaped.
    reaped: Option<Instant>,
    /// Do not wait for anything any more.
    give_up: bool,
}

impl<'a> Job<'a> {
    fn new(options: &'a Options) -> Result<Self> {
        let poll = Poll::new()?;
        let signals = Signals::listen(&poll)?;
        let random = std::hash::RandomState::new().build_hasher().finish();
        let name = format!("circulant-{}-{random:016x}", std::process::id());
        let wake = UnixStream::pair()?;
        wake.0.set_nonblocking(true)?;
        poll.add(&wake.0, WAKE, Want::Read)?;
        Ok(Self {
            options,
            poll,
            signals,
            watchdog: Watchdog::start()?,
            pmi: Pmi::new(&name, options.ranks),
            ranks: Vec::new(),
            open: (0..options.ranks).map(|_| AtomicUsize::new(2)).collect(),
            wake,
            pumps: Vec::new(),
            stage: Stage::Running,
            deadline: options.timeout.and_then(|t| Instant::now().checked_add(t)),
            exit: None,
            leaver: None,
            interrupted: false,
            children_changed: false,
            reaped: None,
            give_up: false,
        })
    }

    fn start(&mut self) -> Result<()> {
        let files = spawn::raise_files(self.options.ranks as u64 * 4 + 64)?;
        let (mut outputs, mut errors) = (Vec::new(), Vec::new());
        for rank in 0..self.options.ranks {
            let started = match spawn::rank(self.options, rank, self.pmi.name(), files) {
                Ok(started) => started,
                Err(e) => return Err(self.abandon(rank, &e)),
            };
            self.watchdog.guard(started.pid);
            let added = self.poll.add(&started.pmi, FIRST_RANK + rank as u64, Want::Read);
            outputs.push((rank, started.output));
            errors.push((rank, started.error));
            self.ranks.push(Rank {
                child: started.child,
                pid: started.pid,
                state: State::Running,
                pmi: Some(started.pmi),
                side: started.side,
                input: Lines::default(),
                output: Vec::new(),
                writing: false,
            });
            if let Err(e) = added {
                return Err(self.abandon(rank, &e));
            }
        }
        self.pump(outputs, errors).map_err(|e| self.abandon(self.options.ranks - 1, &e))
    }

    fn pump(
        &mut self,
        outputs: Vec<(usize, std::os::fd::OwnedFd)>,
        errors: Vec<(usize, std::os::fd::OwnedFd)>,
    ) -> std::io::Result<()> {
        for (pipes, sink) in [(outputs, Sink::Output), (errors, Sink::Error)] {
            let open = Arc::clone(&self.open);
            self.pumps.push(Pump::start(pipes, sink, self.options.label, open, self.wake.1.try_clone()?)?);
        }
        Ok(())
    }

    /// Ends what was started; gives the error to report.
    fn abandon(&mut self, rank: usize, error: &std::io::Error) -> Error {
        self.signal(Signal::KILL);
        for rank in 0..self.ranks.len() {
            self.reap(rank);
        }
        let message = format!("rank {rank} of {} cannot be started: {error}", self.options.ranks);
        Error::new(ErrorKind::System, message)
            .help("start fewer ranks, or raise the limit (ulimit -u, ulimit -n)")
    }

    fn serve(&mut self) -> Result<u8> {
        while !self.is_over() {
            for token in self.poll.wait(self.until_next())? {
                match token {
                    WAKE => {
                        let _ = self.wake.0.read(&mut [0; 4096]);
                    }
                    token if token < WAKE => self.signalled(token),
                    token => self.talk(usize::try_from(token - FIRST_RANK).unwrap_or(0)),
                }
            }
            if std::mem::take(&mut self.children_changed) {
                self.look_at_children();
            }
            self.look_at_clock(Instant::now());
        }
        Ok(self.exit.unwrap_or(0))
    }

    fn is_over(&self) -> bool {
        self.give_up || (self.reaped.is_some() && self.pumps.iter().all(Pump::is_done))
    }

    /// How long nothing is due.
    fn until_next(&self) -> Option<Duration> {
        let stage = match self.stage {
            Stage::Running => None,
            Stage::Grace(t) | Stage::Term(t) | Stage::Kill(t) => Some(t).filter(|_| self.reaped.is_none()),
        };
        let ended = self.ranks.iter().filter_map(|r| match r.state {
            State::Ended(t) => Some(t),
            _ => None,
        });
        let next = ended.chain(stage).chain(self.deadline).chain(self.reaped.map(|t| t + LINGER)).min()?;
        // Rounded up: epoll may wake a little early otherwise, and often.
        Some(next.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    fn running(&self) -> Vec<usize> {
        let running = |r: &usize| matches!(self.ranks[*r].state, State::Running);
        (0..self.ranks.len()).filter(running).collect()
    }

    /// To the process groups of all ranks that run.
    fn signal(&self, signal: Signal) {
        for rank in self.running() {
            let _ = kill_process_group(self.ranks[rank].pid, signal);
        }
    }

    fn signalled(&mut self, token: u64) {
        let Some((signal, count)) = self.signals.take(token) else { return };
        if count == 0 {
            return;
        }
        match signal {
            Signal::CHILD => self.children_changed = true,
            Signal::USR1 | Signal::USR2 => self.signal(signal),
            _ => self.interrupt(signal, count),
        }
    }

    /// The first is passed on; one more of INT or TERM kills.
    fn interrupt(&mut self, signal: Signal, count: usize) {
        let again = std::mem::replace(&mut self.interrupted, true);
        if !again {
            self.signal(signal);
            if signal != Signal::HUP {
                let name = super::end::signal_name(signal.as_raw());
                say(&format!("{name} was passed on to the ranks; once more kills them"));
            }
        }
        if (again || count > 1) && signal != Signal::HUP {
            self.exit.get_or_insert(code_of(128 + signal.as_raw()));
            self.kill(Instant::now());
        }
        if self.reaped.is_some() {
            // Only the output is left, and nobody takes it.
            self.exit.get_or_insert(code_of(128 + signal.as_raw()));
            self.give_up = true;
        }
    }

    fn terminate(&mut self, now: Instant) {
        self.signal(Signal::TERM);
        self.stage = Stage::Term(now + TERM_TIME);
    }

    fn kill(&mut self, now: Instant) {
        self.signal(Signal::KILL);
        self.stage = Stage::Kill(now + KILL_TIME);
    }

    fn look_at_children(&mut self) {
        let ended = |rank: usize| Some((rank, End::of(self.ranks[rank].pid)?));
        let mut ends: Vec<(usize, End)> = self.running().into_iter().filter_map(ended).collect();
        // Of those that ended since the last look, one killed by a signal is the more likely culprit.
        ends.sort_by_key(|&(rank, end)| (!matches!(end, End::Signal(_)), rank));
        for &(rank, _) in &ends {
            // Its last words (goodbye, abort) come before its end.
            self.talk(rank);
            self.ranks[rank].state = State::Ended(Instant::now() + LINGER);
        }
        for (rank, end) in ends {
            self.ended(rank, end);
        }
    }

    fn ended(&mut self, rank: usize, end: End) {
        let inside = self.pmi.is_inside(rank);
        let others = !self.running().is_empty();
        if !self.pmi.is_finalized(rank) {
            let how = match end.is_success() && inside {
                true => "left with code 0 before it was done".to_owned(),
                false => end.words(),
            };
            self.tell_others(rank, &how);
        }
        if !end.is_success() && self.exit.is_none() {
            self.accuse_leaver();
            let was = if matches!(end, End::Signal(_)) { "was " } else { "" };
            self.failed(end.code(), &format!("{} {was}{}", self.who(rank), end.words()), others);
        } else if end.is_success() && inside && others && self.leaver.is_none() {
            self.leaver = Some(rank);
            self.begin_grace();
        }
    }

    fn who(&self, rank: usize) -> String {
        format!("rank {rank} (pid {})", self.ranks[rank].pid.as_raw_nonzero())
    }

    /// The job has failed: says why, and lets the others (if any) end by themselves.
    fn failed(&mut self, code: u8, what: &str, others: bool) {
        self.exit = Some(code);
        let rest = match others && matches!(self.stage, Stage::Running) {
            true => format!("; the others have {:?} to end", self.options.grace),
            false => String::new(),
        };
        say(&format!("{what}{rest}"));
        self.begin_grace();
    }

    fn begin_grace(&mut self) {
        if matches!(self.stage, Stage::Running) {
            self.stage = Stage::Grace(Instant::now() + self.options.grace);
        }
    }

    fn accuse_leaver(&mut self) {
        if let Some(rank) = self.leaver.take() {
            say(&format!("{} left with code 0 before it was done (no finalize)", self.who(rank)));
        }
    }

    /// Over the side channel. A rank that does not read it loses the news, not we our time.
    fn tell_others(&mut self, gone: usize, how: &str) {
        let line = side::line(gone, how);
        for rank in self.running() {
            let _ = (&self.ranks[rank].side).write_all(line.as_bytes());
        }
    }

    fn look_at_clock(&mut self, now: Instant) {
        for rank in 0..self.ranks.len() {
            if let State::Ended(until) = self.ranks[rank].state
                && (now >= until || self.open[rank].load(Ordering::Acquire) == 0)
            {
                self.reap(rank);
            }
        }
        if self.reaped.is_none() && self.ranks.iter().all(|r| matches!(r.state, State::Reaped)) {
            self.reaped = Some(now);
        }
        if let Some(reaped) = self.reaped
            && now >= reaped + LINGER
        {
            // Somebody outside the process groups holds the pipes.
            self.pumps.iter().for_each(Pump::ask_to_stop);
            self.reaped = now.checked_add(KILL_TIME);
        }
        if self.deadline.is_some_and(|d| now >= d) {
            self.deadline = None;
            self.out_of_time(now);
        }
        match self.stage {
            Stage::Grace(until) if now >= until => self.grace_is_over(now),
            Stage::Term(until) if now >= until => self.kill(now),
            Stage::Kill(until) if now >= until && self.reaped.is_none() => {
                say(&format!("{} cannot be killed", ranks_text(&self.running())));
                self.give_up = true;
            }
            _ => {}
        }
    }

    fn out_of_time(&mut self, now: Instant) {
        let limit = self.options.timeout.unwrap_or_default();
        self.exit.get_or_insert(EXIT_TIMEOUT);
        if self.reaped.is_some() {
            say(&format!("the job's output was not taken within {limit:?}"));
            self.give_up = true;
        } else {
            say(&format!(
                "the job did not end within {limit:?}; still running: {}",
                ranks_text(&self.running())
            ));
            self.terminate(now);
        }
    }

    fn grace_is_over(&mut self, now: Instant) {
        let running = self.running();
        if running.is_empty() {
            self.stage = Stage::Term(now + TERM_TIME);
            return;
        }
        self.accuse_leaver();
        self.exit.get_or_insert(1);
        let still = if running.len() == 1 { "is" } else { "are" };
        say(&format!(
            "{} {still} still running after {:?}: terminated",
            ranks_text(&running),
            self.options.grace
        ));
        self.terminate(now);
    }

    /// Takes the last notice of a rank, after everything in its process group is dead.
    fn reap(&mut self, rank: usize) {
        let rank = &mut self.ranks[rank];
        // The unreaped process keeps the group's number ours.
        let _ = kill_process_group(rank.pid, Signal::KILL);
        let _ = rank.child.wait();
        rank.state = State::Reaped;
        if let Some(pmi) = rank.pmi.take() {
            let _ = self.poll.remove(&pmi);
        }
        self.watchdog.release(rank.pid);
    }

    /// Reads a rank's requests and answers them.
    fn talk(&mut self, rank: usize) {
        let mut reads = 0;
        loop {
            if !self.flush(rank) {
                return;
            }
            match self.ranks[rank].input.pop() {
                Ok(Some(line)) => {
                    self.obey(rank, &line);
                    continue;
                }
                Ok(None) => {}
                Err(_) => return self.broke(rank, "a line without end"),
            }
            // Not for ever: others want to be heard, too. No whole line may be left behind here.
            reads += 1;
            let Some(stream) = self.ranks[rank].pmi.as_mut().filter(|_| reads <= READS) else { return };
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer) {
                Ok(len) if len > 0 => self.ranks[rank].input.push(&buffer[..len]),
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) if e.kind() == Io::WouldBlock => return,
                _ => return self.hang_up(rank),
            }
        }
    }

    fn obey(&mut self, rank: usize, line: &[u8]) {
        match self.pmi.line(rank, line) {
            Outcome::Nothing => {}
            Outcome::Reply(answer) => self.ranks[rank].output.extend(answer),
            Outcome::All(answer) => {
                for rank in 0..self.ranks.len() {
                    self.ranks[rank].output.extend_from_slice(&answer);
                    self.flush(rank);
                }
            }
            Outcome::Abort { code, message } => {
                if self.exit.is_none() {
                    let colon = if message.is_empty() { "" } else { ": " };
                    say(&format!("{} aborted the job with code {code}{colon}{message}", self.who(rank)));
                    self.exit = Some(code_of(code));
                }
                self.terminate_once();
            }
            Outcome::Refuse(why) => self.broke(rank, &why),
        }
    }

    fn terminate_once(&mut self) {
        if matches!(self.stage, Stage::Running | Stage::Grace(_)) {
            self.terminate(Instant::now());
        }
    }

    fn broke(&mut self, rank: usize, why: &str) {
        self.hang_up(rank);
        if self.exit.is_none() {
            say(&format!(
                "{} does not speak PMI-1: {}",
                self.who(rank),
                quote(why.as_bytes()).trim_matches('"')
            ));
            self.exit = Some(1);
        }
        self.terminate_once();
    }

    fn hang_up(&mut self, rank: usize) {
        if let Some(pmi) = self.ranks[rank].pmi.take() {
            let _ = self.poll.remove(&pmi);
        }
        self.ranks[rank].output.clear();
    }

    /// Sends what waits to be sent to a rank; whether nothing is left.
    fn flush(&mut self, rank: usize) -> bool {
        let token = FIRST_RANK + rank as u64;
        let rank = &mut self.ranks[rank];
        let Some(stream) = &mut rank.pmi else {
            rank.output.clear();
            return true;
        };
        while !rank.output.is_empty() {
            match stream.write(&rank.output) {
                Ok(len) => {
                    rank.output.drain(..len);
                }
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) if e.kind() == Io::WouldBlock => break,
                // It is gone; its end will be noticed.
                Err(_) => rank.output.clear(),
            }
        }
        let writing = !rank.output.is_empty();
        if writing != rank.writing {
            rank.writing = writing;
            let _ = self.poll.change(&*stream, token, if writing { Want::Write } else { Want::Read });
        }
        !writing
    }
}

impl Drop for Job<'_> {
    /// However we leave, nothing stays.
    fn drop(&mut self) {
        for rank in 0..self.ranks.len() {
            if !matches!(self.ranks[rank].state, State::Reaped) {
                let _ = kill_process_group(self.ranks[rank].pid, Signal::KILL);
            }
        }
    }
}
