//! The ranks of this host: their PMI, their end.

use super::rank::State;
use super::state::{FIRST_END, FIRST_RANK, Head, Job, LINGER};
use crate::end::End;
use crate::message::{Down, Ended, FENCE_PIECE_PAIRS, Pair, Up};
use crate::pmi::Outcome;
use crate::poll::Interest;
use circulant::launch::side;
use rustix::process::{PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::{ErrorKind as Io, Read, Write};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// How often one rank's socket is read before it is another's turn.
const READS: usize = 16;

impl Job {
    /// The number in the job of the `at`-th rank here, and its process.
    fn rank_and_pid(&self, at: usize) -> (usize, u32) {
        (self.setup.sites[0].ranks[at], self.ranks[at].pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// To the process groups of all ranks here that run.
    pub(super) fn signal(&self, signal: Signal) {
        for rank in self.ranks.iter().filter(|r| r.is_running()) {
            let _ = kill_process_group(rank.pid, signal);
        }
    }

    /// Over the side channel, to all that joined; a rank that joins later gets it then. (Of many programs that join nothing,
    /// each end would mean a word to all others.) A rank that does not read it loses the news, not we our time.
    pub(super) fn tell_ranks(&mut self, gone: usize, how: &str) {
        let line = side::line(gone, how);
        for (at, rank) in self.ranks.iter().enumerate() {
            if rank.is_running() && self.pmi.is_inside(at) {
                let _ = (&*rank.side).write_all(line.as_bytes());
            }
        }
        self.news.push_str(&line);
    }

    /// Has the poll say when the `at`-th rank here ends: else each end would mean a look at all ranks.
    pub(super) fn watch(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        rank.process = pidfd_open(rank.pid, PidfdFlags::empty()).ok();
        if let Some(process) = &rank.process
            && self.poll.add(process, FIRST_END + at as u64, Interest::Read).is_err()
        {
            rank.process = None;
        }
        self.unwatched |= rank.process.is_none();
    }

    /// Looks at the ranks that ended; `changed` says that some child did.
    pub(super) fn look_at_children(&mut self, changed: bool) {
        let mut those = std::mem::take(&mut self.ended);
        if changed && self.unwatched {
            those = (0..self.ranks.len()).collect();
        }
        let ended = |at: usize| {
            let rank = &self.ranks[at];
            Some((at, End::of(rank.pid).filter(|_| rank.is_running())?))
        };
        let mut ends: Vec<(usize, End)> = those.into_iter().filter_map(ended).collect();
        // Of those that ended since the last look, one killed by a signal is the more likely culprit.
        ends.sort_by_key(|&(at, end)| (!matches!(end, End::Signal(_)), at));
        for &(at, _) in &ends {
            // Its last messages (finalize, abort) come before its end.
            self.talk(at);
            if let Some(process) = self.ranks[at].process.take() {
                let _ = self.poll.remove(&process);
            }
            self.ranks[at].state = State::Ended(Instant::now() + LINGER);
            self.ending.push(at);
        }
        for (at, end) in ends {
            let (rank, pid) = self.rank_and_pid(at);
            if let Some(report) = self.reports.of(at) {
                self.event(Up::Report(rank, report.line()));
            }
            let how = match end {
                End::Code(code) => (code, false),
                End::Signal(signal) => (signal, true),
            };
            let (inside, finalized) = (self.pmi.is_inside(at), self.pmi.is_finalized(at));
            self.event(Up::Ended(Ended { rank, pid, how, inside, finalized }));
        }
    }

    /// Whether the last notice of a rank is to be taken.
    pub(super) fn is_due(&self, at: usize, now: Instant) -> bool {
        let State::Ended(until) = self.ranks[at].state else { return false };
        now >= until || self.open[at].load(Ordering::Acquire) == 0
    }

    /// Takes the last notice of a rank, after everything in its process group is dead.
    pub(super) fn reap(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        // The unreaped process keeps the group's number ours.
        let _ = kill_process_group(rank.pid, Signal::KILL);
        let _ = rank.child.wait();
        rank.state = State::Reaped;
        self.unreaped -= 1;
        if let Some(pmi) = rank.pmi.take() {
            let _ = self.poll.remove(&pmi);
        }
        self.watchdog.release(rank.pid);
    }

    /// Reads a rank's requests and answers them.
    pub(super) fn talk(&mut self, at: usize) {
        let (mut reads, mut more) = (0, true);
        loop {
            if !self.flush(at) {
                return;
            }
            match self.ranks[at].input.pop() {
                Ok(Some(line)) => {
                    self.obey(at, &line);
                    continue;
                }
                Ok(None) => {}
                Err(_) => return self.broke(at, "a line without end"),
            }
            // Not for ever: other ranks are waited for, too. No whole line may be left behind here.
            reads += 1;
            more &= reads <= READS;
            let Some(stream) = self.ranks[at].pmi.as_mut().filter(|_| more) else { return };
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer) {
                Ok(len) if len > 0 => {
                    self.ranks[at].input.push(&buffer[..len]);
                    more = len == buffer.len();
                }
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) if e.kind() == Io::WouldBlock => return,
                _ => return self.hang_up(at),
            }
        }
    }

    fn obey(&mut self, at: usize, line: &[u8]) {
        let joined = self.pmi.is_inside(at);
        let outcome = self.pmi.line(at, line);
        if !joined && self.pmi.is_inside(at) && !self.news.is_empty() {
            let _ = (&*self.ranks[at].side).write_all(self.news.as_bytes());
        }
        match outcome {
            Outcome::Nothing => {}
            Outcome::Reply(answer) => self.ranks[at].output.extend(answer),
            Outcome::All(answer) => {
                self.barrier = Some(answer);
                self.advance_fence();
            }
            Outcome::Late => {
                let answer = self.late();
                self.ranks[at].output.extend(answer.into_bytes());
            }
            Outcome::Abort { code, message } => {
                let (rank, pid) = self.rank_and_pid(at);
                self.event(Up::Abort(rank, pid, code, message));
            }
            Outcome::Refuse(why) => self.broke(at, &why),
        }
    }

    /// Which ranks of this host are not in the barrier; of others it is known only whether all of them are.
    fn late(&self) -> String {
        let here = if self.barrier.is_some() { Vec::new() } else { self.pmi.late() };
        let late: Vec<String> = here.iter().map(|at| self.setup.sites[0].ranks[*at].to_string()).collect();
        format!("cmd=late_result rc=0 value={}\n", late.join(","))
    }

    fn broke(&mut self, at: usize, why: &str) {
        self.hang_up(at);
        let (rank, pid) = self.rank_and_pid(at);
        self.event(Up::Broke(rank, pid, why.to_owned()));
    }

    fn hang_up(&mut self, at: usize) {
        if let Some(pmi) = self.ranks[at].pmi.take() {
            let _ = self.poll.remove(&pmi);
        }
        self.ranks[at].output.clear();
    }

    /// When all ranks here and all below are in the barrier: says so, or lets them out.
    pub(super) fn advance_fence(&mut self) {
        let here = self.barrier.is_some() || self.ranks.is_empty();
        if !here || self.branches.iter().any(|b| !b.fenced) {
            return;
        }
        let mut pairs = self.pmi.take_fresh();
        pairs.append(&mut self.gathered);
        match &mut self.head {
            Head::Agent(up) => up.send(&self.poll, Up::Fence(pairs).encode()),
            Head::Root(_) => self.pass_fence(pairs),
        }
    }

    /// The launcher's: all ranks are in the barrier, and these were put before it.
    fn pass_fence(&mut self, pairs: Vec<Pair>) {
        let mut left = pairs.into_iter();
        loop {
            let piece: Vec<Pair> = left.by_ref().take(FENCE_PIECE_PAIRS).collect();
            if left.len() == 0 {
                return self.down(Down::Fence(piece));
            }
            self.down(Down::Values(piece));
        }
    }

    /// Takes in what was put before a barrier, on any node.
    pub(super) fn take_in(&mut self, pairs: Vec<Pair>) {
        for (key, value) in pairs {
            self.pmi.merge(key, value);
        }
    }

    /// All ranks of the job are in the barrier: out of it, with what was put before it.
    pub(super) fn release(&mut self, pairs: Vec<Pair>) {
        for branch in &mut self.branches {
            branch.fenced = false;
        }
        self.take_in(pairs);
        let Some(answer) = self.barrier.take() else { return };
        for at in 0..self.ranks.len() {
            self.ranks[at].output.extend_from_slice(&answer);
            self.flush(at);
        }
    }

    /// Sends what waits to be sent to a rank; whether nothing is left.
    fn flush(&mut self, at: usize) -> bool {
        let token = FIRST_RANK + at as u64;
        let rank = &mut self.ranks[at];
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
            let _ = self.poll.change(&*stream, token, if writing { Interest::Write } else { Interest::Read });
        }
        !writing
    }
}
