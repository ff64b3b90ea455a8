//! What the launcher decides: when the job has failed, which ranks are told, and when time is up.

use super::control::{Control, Stage};
use super::state::{Head, Job, KILL_TIME};
use super::summary;
use crate::end::{End, code_of, ranks_text, signal_name};
use crate::message::{Down, Ended, Up};
use crate::options::EXIT_TIMEOUT;
use crate::output::{Forwarder, say};
use circulant::launch::side::Report;
use circulant::launch::wire::quote;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Between TERM and KILL.
const TERM_TIME: Duration = Duration::from_secs(2);

impl Job {
    pub(super) fn exit_code(&self) -> u8 {
        match &self.head {
            Head::Root(control) => control.exit_code(),
            Head::Agent(_) => 0,
        }
    }

    /// At the end of a job of several ranks: why it failed, if ranks have said it.
    pub(super) fn sum_up(&self) {
        let Head::Root(control) = &self.head else { return };
        let (reports, ends, fold) = (&control.reports, &control.ends, self.setup.fold);
        let text = summary::summary(reports, ends, self.exit_code(), fold);
        if let Some(text) = text.filter(|_| self.setup.size > 1) {
            say(&text);
        }
    }

    pub(super) fn decide(&mut self, event: Up) {
        let Head::Root(control) = &mut self.head else { return };
        match event {
            Up::Ended(ended) => self.rank_ended(&ended),
            Up::Abort(rank, pid, code, message) => {
                if control.exit.is_none() {
                    let colon = if message.is_empty() { "" } else { ": " };
                    say(&format!(
                        "{} aborted the job with code {code}{colon}{message}",
                        control.name_of(rank, pid)
                    ));
                    control.exit = Some(code_of(code));
                }
                self.terminate_once();
            }
            Up::Report(rank, line) => {
                if control.running.contains(&rank) {
                    control
                        .reports
                        .extend(Report::parse(line.trim_end().as_bytes()).map(|report| (rank, report)));
                }
            }
            Up::Broke(rank, pid, why) => {
                if control.exit.is_none() {
                    let why = quote(why.as_bytes());
                    say(&format!(
                        "{} does not speak PMI-1: {}",
                        control.name_of(rank, pid),
                        why.trim_matches('"')
                    ));
                    control.exit = Some(1);
                }
                self.terminate_once();
            }
            Up::Output(rank, sink, bytes) => {
                if control.host_of(rank) != usize::MAX
                    && let Some(forwarder) = self.forwarders.get(sink.index())
                {
                    forwarder.arrive((rank, bytes));
                }
            }
            Up::Lost(host, up, why) => self.host_lost(host, up, &why),
            Up::Failed(host, why) => {
                let first = control.exit.is_none();
                control.exit.get_or_insert(1);
                if first {
                    say(&format!("{}: {why}", self.host_name(host)));
                }
                self.kill(Instant::now());
            }
            // Answered where they arrive.
            Up::Fence(_) | Up::Taken | Up::Done => {}
        }
    }

    fn host_name(&self, host: usize) -> String {
        let Head::Root(control) = &self.head else { return String::new() };
        control.hosts.iter().find(|h| h.0 == host).map_or_else(|| "a host".to_owned(), |h| h.1.clone())
    }

    fn rank_ended(&mut self, ended: &Ended) {
        let Head::Root(control) = &mut self.head else { return };
        if !control.running.remove(&ended.rank) {
            return;
        }
        let end = ended.end();
        let others = !control.running.is_empty();
        control.ends.push((ended.rank, end));
        if !end.is_success() && control.exit.is_none() {
            control.accuse_leaver();
            let was = if matches!(end, End::Signal(_)) { "was " } else { "" };
            let name = control.name_of(ended.rank, ended.pid);
            let told_by = control.reports.iter().find(|r| r.0 == ended.rank).and_then(|r| r.1.told_by);
            let told = told_by.map_or(String::new(), |rank| format!(", told of an error by rank {rank}"));
            let what = format!("{name} {was}{}{told}", end.words());
            match end {
                End::Signal(_) if control.goes_on && !control.interrupted => {
                    control.go_on_without(1, end.code(), &what);
                }
                _ => control.failed(end.code(), &what),
            }
        } else if end.is_success() && ended.inside && others && !control.goes_on && control.leaver.is_none() {
            control.leaver = Some((ended.rank, ended.pid));
            control.begin_grace();
        }
        if !ended.finalized && others {
            let how = match end.is_success() && ended.inside {
                true => "left with code 0 before it was done".to_owned(),
                false => end.words(),
            };
            self.down(Down::Gone(ended.rank, how));
        }
    }

    /// A host is lost, or was never reached.
    fn host_lost(&mut self, host: usize, up: bool, why: &str) {
        let name = self.host_name(host);
        let sites = self.lost_with(host);
        let Head::Root(control) = &mut self.head else { return };
        let mut ranks: Vec<usize> = sites.iter().flat_map(|s| s.ranks.iter().copied()).collect();
        ranks.retain(|r| control.running.remove(r));
        ranks.sort_unstable();
        if ranks.is_empty() {
            return;
        }
        if control.exit.is_none() {
            control.accuse_leaver();
            match up {
                true => {
                    let what = format!("host {name} is lost with {} ({why})", ranks_text(&ranks));
                    match control.goes_on {
                        true => control.go_on_without(ranks.len(), 1, &what),
                        false => control.failed(1, &what),
                    }
                }
                false => {
                    control.exit = Some(1);
                    say(&format!("host {name} cannot be reached: {why}"));
                }
            }
        }
        if !up {
            return self.kill(Instant::now());
        }
        for rank in ranks {
            self.down(Down::Gone(rank, format!("lost with host {name}")));
        }
    }

    /// A signal to the launcher. Those that end are passed on once; one more of INT or TERM kills.
    pub(super) fn user_signal(&mut self, signal: Signal, count: usize) {
        if matches!(signal, Signal::USR1 | Signal::USR2) {
            return self.down(Down::Signal(signal.as_raw()));
        }
        let over = self.is_ended();
        let Head::Root(control) = &mut self.head else { return };
        let again = std::mem::replace(&mut control.interrupted, true);
        let kill = (again || count > 1) && signal != Signal::HUP;
        if kill || over {
            control.exit.get_or_insert(code_of(128 + signal.as_raw()));
        }
        if !again {
            self.down(Down::Signal(signal.as_raw()));
            if signal != Signal::HUP {
                let name = signal_name(signal.as_raw());
                say(&format!("{name} was passed on to the ranks; once more kills them"));
            }
        }
        if kill {
            self.kill(Instant::now());
        }
        // Only the output is left, and it is not read.
        self.give_up |= over;
    }

    fn terminate_once(&mut self) {
        let Head::Root(control) = &self.head else { return };
        if matches!(control.stage, Stage::Running | Stage::Grace(_)) {
            self.terminate(Instant::now());
        }
    }

    fn terminate(&mut self, now: Instant) {
        self.end_by(Signal::TERM, Stage::Term(now + TERM_TIME));
    }

    fn kill(&mut self, now: Instant) {
        self.end_by(Signal::KILL, Stage::Kill(now + KILL_TIME));
    }

    fn end_by(&mut self, signal: Signal, stage: Stage) {
        self.down(Down::Signal(signal.as_raw()));
        let hosts = self.drop_starting();
        if let Head::Root(control) = &mut self.head {
            let Control { running, hosts: of, .. } = &mut **control;
            running.retain(|&rank| !hosts.contains(&of[rank].0));
            control.stage = stage;
        }
    }

    /// Whether nothing but output is left.
    fn is_ended(&self) -> bool {
        let Head::Root(control) = &self.head else { return false };
        control.running.is_empty() && self.reaped.is_some()
    }

    pub(super) fn watch_the_clock(&mut self, now: Instant) {
        let ended = self.is_ended();
        let left = self.branches.iter().any(|b| !b.is_gone());
        let behind = self.forwarders.iter().any(Forwarder::is_behind);
        let Head::Root(control) = &mut self.head else { return };
        // An agent may take its time only while its output is not taken.
        match control.parting {
            _ if !(ended && left) || behind => control.parting = None,
            None => control.parting = Some(now + KILL_TIME),
            Some(until) if now >= until => {
                say("agents did not end after their ranks");
                control.exit.get_or_insert(1);
                self.give_up = true;
                return;
            }
            Some(_) => {}
        }
        if control.deadline.is_some_and(|d| now >= d) {
            control.deadline = None;
            self.out_of_time(now, ended);
        }
        let Head::Root(control) = &mut self.head else { return };
        match control.stage {
            Stage::Grace(until) if now >= until => self.grace_is_over(now),
            Stage::Term(until) if now >= until => self.kill(now),
            Stage::Kill(until) if now >= until && !control.running.is_empty() => {
                say(&format!("{} cannot be killed", ranks_text(&control.still_running())));
                self.give_up = true;
            }
            _ => {}
        }
    }

    fn out_of_time(&mut self, now: Instant, ended: bool) {
        let Head::Root(control) = &mut self.head else { return };
        let limit = control.limit;
        control.exit.get_or_insert(EXIT_TIMEOUT);
        if ended {
            say(&format!("the job's output was not taken within {limit:?}"));
            self.give_up = true;
        } else {
            let running = ranks_text(&control.still_running());
            say(&format!("the job did not end within {limit:?}; still running: {running}"));
            self.terminate(now);
        }
    }

    fn grace_is_over(&mut self, now: Instant) {
        let Head::Root(control) = &mut self.head else { return };
        let running = control.still_running();
        if running.is_empty() {
            control.stage = Stage::Term(now + TERM_TIME);
            return;
        }
        control.accuse_leaver();
        control.exit.get_or_insert(1);
        let still = if running.len() == 1 { "is" } else { "are" };
        let grace = control.grace;
        say(&format!("{} {still} still running after {grace:?}: terminated", ranks_text(&running)));
        self.terminate(now);
    }
}
