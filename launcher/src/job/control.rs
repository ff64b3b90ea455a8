//! What the launcher decides: where ranks go, when the job has failed, who is told, and when patience ends.

use super::{Head, Job, KILL_TIME, summary};
use crate::end::{End, code_of, ranks_text, signal_name};
use crate::hosts::{self, Host};
use crate::message::{Down, Ended, Up};
use crate::output::{Pump, say};
use crate::setup::{Setup, Site};
use crate::{EXIT_TIMEOUT, Options, Starter};
use circulant::error::Result;
use circulant::launch::side::Report;
use circulant::launch::wire::quote;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

/// Between TERM and KILL.
const TERM_TIME: Duration = Duration::from_secs(2);

/// A longer mapping than this is not told: MPI libraries take values up to 1023 characters.
const MAPPING_MAX: usize = 1000;

/// How far the end of the job has come, and until when that stage lasts.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Running,
    Grace(Instant),
    Term(Instant),
    Kill(Instant),
}

/// What the launcher knows of the whole job.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) label: bool,
    grace: Duration,
    limit: Duration,
    /// Which ranks did not end yet.
    running: BTreeSet<usize>,
    /// Index and name of each rank's host.
    hosts: Vec<(usize, String)>,
    /// Whether hosts are worth a word.
    many: bool,
    /// Whether agents know that nobody reads this stream.
    pub(super) shut: [bool; 2],
    stage: Stage,
    deadline: Option<Instant>,
    exit: Option<u8>,
    /// A rank (and its process) that left with code 0 but without a goodbye; no failure unless the others do
    /// not end either.
    leaver: Option<(usize, u32)>,
    interrupted: bool,
    /// Why ranks ended, by their own words, and how, both in order.
    reports: Vec<(usize, Report)>,
    ends: Vec<(usize, End)>,
    /// All ranks ended; by then their agents should have, too.
    parting: Option<Instant>,
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

    fn who(&self, rank: usize, pid: u32) -> String {
        match self.hosts.get(rank).filter(|_| self.many) {
            Some((_, host)) => format!("rank {rank} (pid {pid} on {host})"),
            None => format!("rank {rank} (pid {pid})"),
        }
    }

    fn still_running(&self) -> Vec<usize> {
        self.running.iter().copied().collect()
    }

    fn accuse_leaver(&mut self) {
        if let Some((rank, pid)) = self.leaver.take() {
            say(&format!("{} left with code 0 before it was done (no finalize)", self.who(rank, pid)));
        }
    }

    fn begin_grace(&mut self) {
        if matches!(self.stage, Stage::Running) {
            self.stage = Stage::Grace(Instant::now() + self.grace);
        }
    }

    /// The job has failed: says why, and lets the others (if any) end by themselves.
    fn failed(&mut self, code: u8, what: &str) {
        self.exit = Some(code);
        let rest = match !self.running.is_empty() && matches!(self.stage, Stage::Running) {
            true => format!("; the others have {:?} to end", self.grace),
            false => String::new(),
        };
        say(&format!("{what}{rest}"));
        self.begin_grace();
    }
}

/// Who runs where: what all must know, with our own site, and the other sites.
pub(super) fn plan(options: &Options) -> Result<(Setup, Vec<Site>)> {
    let size = options.apps.iter().map(|a| a.ranks).sum();
    let ourselves = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let alone = [Host { name: ourselves.clone(), slots: None }];
    let (listed, alone) = match options.hosts.is_empty() {
        true => (&alone[..], true),
        false => (&options.hosts[..], false),
    };
    let places = hosts::place(listed, size, options.each);
    let mut sites: Vec<Site> = Vec::new();
    let mut index = vec![None; listed.len()];
    let mut nodes = Vec::with_capacity(size);
    for (rank, &place) in places.iter().enumerate() {
        let site = *index[place].get_or_insert_with(|| {
            sites.push(Site { index: sites.len(), name: listed[place].name.clone(), ranks: Vec::new() });
            sites.len() - 1
        });
        sites[site].ranks.push(rank);
        nodes.push(site);
    }
    let ours = sites.iter().position(|s| alone || options.starter.is_here(&s.name, &ourselves));
    let here = match ours {
        Some(at) => sites.remove(at),
        None => Site { index: sites.len(), name: ourselves, ranks: Vec::new() },
    };
    let (secret, name): ([u8; 16], [u8; 8]) = (random()?, random()?);
    let mapping = hosts::mapping(&nodes);
    let mut setup = Setup {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        secret: secret.to_vec(),
        name: format!("circulant-{}-{:016x}", std::process::id(), u64::from_le_bytes(name)),
        size,
        mapping: if mapping.len() <= MAPPING_MAX { mapping } else { String::new() },
        environment: options.environment.clone(),
        apps: options.apps.clone(),
        sites: vec![here],
        starter: Vec::new(),
        agent: OsString::new(),
        fanout: options.fanout.max(1),
        patience: usize::try_from(options.patience.as_millis()).unwrap_or(usize::MAX),
        bind: options.bind,
        input: options.input,
        lines: options.label || size > 1,
        fold: !(options.label || options.all_errors),
    };
    if !sites.is_empty() {
        prepare(&mut setup, options)?;
    }
    Ok((setup, sites))
}

/// Random bytes, a few.
fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // So few are never cut short.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}

/// What only other hosts need to be told.
fn prepare(setup: &mut Setup, options: &Options) -> Result<()> {
    let own = std::env::current_exe()?;
    setup.starter = options.starter.command();
    setup.agent = match options.starter {
        Starter::Srun => own.into_os_string(),
        Starter::Ssh | Starter::Exec(_) => quoted(own.as_os_str()),
    };
    let folder = std::env::current_dir()?;
    for app in &mut setup.apps {
        app.folder.get_or_insert_with(|| folder.clone());
    }
    let ours = std::env::vars_os().filter(|(name, _)| travels(name));
    setup.environment = ours.chain(setup.environment.drain(..)).collect();
    Ok(())
}

/// Whether a variable means the same on another host.
fn travels(name: &OsStr) -> bool {
    const STAY: &[&str] = &[
        "HOSTNAME",
        "HOST",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "DISPLAY",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "XDG_SESSION_ID",
        "DBUS_SESSION_BUS_ADDRESS",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "PALS_RANKID",
    ];
    let name = name.to_string_lossy();
    let of_others = ["PMI_", "PMIX_", "SLURM", "SSH_", "HYD", "OMPI_COMM_WORLD", "CIRCULANT_SIDE"];
    !STAY.contains(&&*name) && !of_others.iter().any(|o| name.starts_with(o))
}

/// A word for a shell.
fn quoted(word: &OsStr) -> OsString {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+:,@%=".contains(b);
    if word.as_bytes().iter().all(plain) {
        return word.to_owned();
    }
    let mut out = vec![b'\''];
    for &b in word.as_bytes() {
        match b {
            b'\'' => out.extend_from_slice(b"'\\''"),
            b => out.push(b),
        }
    }
    out.push(b'\'');
    OsString::from_vec(out)
}

impl Job {
    pub(super) fn exit_code(&self) -> u8 {
        match &self.head {
            Head::Root(control) => control.exit.unwrap_or(0),
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
                        control.who(rank, pid)
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
                        control.who(rank, pid),
                        why.trim_matches('"')
                    ));
                    control.exit = Some(1);
                }
                self.terminate_once();
            }
            Up::Output(rank, sink, bytes) => {
                if control.host_of(rank) != usize::MAX
                    && let Some(pump) = self.pumps.get(sink.index())
                {
                    pump.arrive((rank, bytes));
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
            let who = control.who(ended.rank, ended.pid);
            let told_by = control.reports.iter().find(|r| r.0 == ended.rank).and_then(|r| r.1.told_by);
            let told = told_by.map_or(String::new(), |rank| format!(", told of an error by rank {rank}"));
            control.failed(end.code(), &format!("{who} {was}{}{told}", end.words()));
        } else if end.is_success() && ended.inside && others && control.leaver.is_none() {
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
                    control.failed(1, &format!("host {name} is lost with {} ({why})", ranks_text(&ranks)))
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
        // Only the output is left, and nobody takes it.
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
        let behind = self.pumps.iter().any(Pump::is_behind);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        assert_eq!(quoted(OsStr::new("/usr/bin/x-1")), "/usr/bin/x-1");
        assert_eq!(quoted(OsStr::new("/a b/it's")), "'/a b/it'\\''s'");
    }

    #[test]
    fn what_travels() {
        assert!(
            ["HOME", "PATH", "CIRCULANT_PROVIDER", "OMP_NUM_THREADS"].iter().all(|n| travels(OsStr::new(n)))
        );
        assert!(
            !["PMI_FD", "SLURM_PROCID", "HOSTNAME", "SSH_AUTH_SOCK"].iter().any(|n| travels(OsStr::new(n)))
        );
    }
}
