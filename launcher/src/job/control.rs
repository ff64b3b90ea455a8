//! What the launcher knows of the whole job.

use crate::end::End;
use crate::options::Options;
use crate::output::say;
use crate::setup::{Setup, Site};
use circulant::config::OnFailure;
use circulant::launch::side::Report;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How far the end of the job has come, and until when that stage lasts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Running,
    Grace(Instant),
    Term(Instant),
    Kill(Instant),
}

/// What the launcher knows of the whole job.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) label: bool,
    pub(super) grace: Duration,
    pub(super) limit: Duration,
    /// Which ranks did not end yet.
    pub(super) running: BTreeSet<usize>,
    /// Index and name of each rank's host.
    pub(super) hosts: Vec<(usize, String)>,
    /// Whether hosts are worth a word.
    pub(super) many: bool,
    /// Whether agents know that this stream is not read.
    pub(super) shut: [bool; 2],
    pub(super) stage: Stage,
    pub(super) deadline: Option<Instant>,
    pub(super) exit: Option<u8>,
    /// The others go on when a rank is killed.
    pub(super) goes_on: bool,
    /// The exit code that stands for the end of the first rank that was killed while others went on, and how many there were.
    pub(super) lost: Option<(u8, usize)>,
    /// A rank (and its process) that ended with code 0 but without finalize; no failure unless the others do
    /// not end either.
    pub(super) leaver: Option<(usize, u32)>,
    pub(super) interrupted: bool,
    /// Why ranks ended, by their own words, and how, both in order.
    pub(super) reports: Vec<(usize, Report)>,
    pub(super) ends: Vec<(usize, End)>,
    /// All ranks ended; by then their agents should have, too.
    pub(super) parting: Option<Instant>,
}

impl Control {
    pub(super) fn new(options: &Options, setup: &Setup, remote: &[Site]) -> Self {
        let mut hosts = vec![(0, String::new()); setup.size];
        for site in setup.sites.iter().chain(remote) {
            for &rank in &site.ranks {
                hosts[rank] = (site.index, site.name.clone());
            }
        }
        Self {
            label: options.label,
            grace: options.grace,
            limit: options.timeout.unwrap_or_default(),
            running: (0..setup.size).collect(),
            hosts,
            many: !remote.is_empty(),
            shut: [false; 2],
            stage: Stage::Running,
            deadline: options.timeout.and_then(|t| Instant::now().checked_add(t)),
            exit: None,
            goes_on: options.on_failure == OnFailure::Continue,
            lost: None,
            leaver: None,
            interrupted: false,
            reports: Vec::new(),
            ends: Vec::new(),
            parting: None,
        }
    }

    pub(super) fn host_of(&self, rank: usize) -> usize {
        self.hosts.get(rank).map_or(usize::MAX, |h| h.0)
    }

    /// When something is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let stage = match self.stage {
            Stage::Running => None,
            Stage::Grace(t) | Stage::Term(t) | Stage::Kill(t) => Some(t).filter(|_| !self.running.is_empty()),
        };
        stage.into_iter().chain(self.deadline).chain(self.parting).min()
    }

    pub(super) fn name_of(&self, rank: usize, pid: u32) -> String {
        match self.hosts.get(rank).filter(|_| self.many) {
            Some((_, host)) => format!("rank {rank} (pid {pid} on {host})"),
            None => format!("rank {rank} (pid {pid})"),
        }
    }

    pub(super) fn still_running(&self) -> Vec<usize> {
        self.running.iter().copied().collect()
    }

    pub(super) fn accuse_leaver(&mut self) {
        if let Some((rank, pid)) = self.leaver.take() {
            say(&format!("{} left with code 0 before it was done (no finalize)", self.name_of(rank, pid)));
        }
    }

    pub(super) fn begin_grace(&mut self) {
        if matches!(self.stage, Stage::Running) {
            self.stage = Stage::Grace(Instant::now() + self.grace);
        }
    }

    /// Ranks were killed, or lost with their host, and the others go on: says why.
    pub(super) fn go_on_without(&mut self, ranks: usize, code: u8, what: &str) {
        let (first, count) = self.lost.unwrap_or((code, 0));
        self.lost = Some((first, count + ranks));
        let rest = if self.running.is_empty() { "" } else { "; the others go on" };
        say(&format!("{what}{rest}"));
    }

    /// The exit code of the job, once all ranks have ended: that of the first to be killed only where all were.
    pub(super) fn exit_code(&self) -> u8 {
        let all = self.lost.filter(|(_, count)| *count >= self.hosts.len()).map(|(code, _)| code);
        self.exit.or(all).unwrap_or(0)
    }

    /// The job has failed: says why, and lets the others (if any) end by themselves.
    pub(super) fn failed(&mut self, code: u8, what: &str) {
        self.exit = Some(code);
        let rest = match !self.running.is_empty() && matches!(self.stage, Stage::Running) {
            true => format!("; the others have {:?} to end", self.grace),
            false => String::new(),
        };
        say(&format!("{what}{rest}"));
        self.begin_grace();
    }
}
