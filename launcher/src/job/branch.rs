//! An agent that we started, with all below it.

use crate::end::End;
use crate::link::Link;
use crate::message::Down;
use crate::poll::Poll;
use crate::setup::{Setup, Site};
use crate::spawn::{AGENT, pid_of};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the starter (ssh) may outlive its agent, and the agent its starter.
pub(super) const PARTING: Duration = Duration::from_secs(2);

/// How far an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has until then to greet.
    Starting(Instant),
    Up,
    /// Its end of the connection or its starter is gone; by then the other should be, too.
    Closing(Instant),
    /// It is done, or lost. Its starter has until then to end.
    Leaving(Instant),
    Gone,
}

/// An agent, with all below it.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) sites: Vec<Site>,
    pub(super) link: Option<Link>,
    /// The starter's process.
    pub(super) child: Option<(Child, Pid)>,
    /// How that ended.
    pub(super) ended: Option<End>,
    pub(super) stage: Stage,
    pub(super) greeted: bool,
    /// Why it could not even be tried.
    pub(super) trouble: Option<String>,
    /// All ranks below are in the barrier.
    pub(super) fenced: bool,
    /// Whether it has a piece of standard input that was not taken yet.
    pub(super) untaken: bool,
}

impl Branch {
    /// An agent on the first of `sites`, to be started by the command of `setup`.
    pub(super) fn start(setup: &Setup, sites: Vec<Site>, job: &Poll, token: u64) -> Self {
        let start_timeout = setup.start_timeout();
        let mut branch = Self {
            link: None,
            child: None,
            ended: None,
            stage: Stage::Starting(Instant::now() + start_timeout),
            greeted: false,
            trouble: None,
            fenced: false,
            untaken: false,
            sites,
        };
        if let Err(e) = branch.spawn(setup, job, token) {
            branch.trouble = Some(format!("{} cannot be started: {e}", name(&setup.starter)));
            branch.stage = Stage::Closing(Instant::now());
        }
        branch
    }

    pub(super) fn spawn(&mut self, setup: &Setup, poll: &Poll, token: u64) -> std::io::Result<()> {
        let missing = || std::io::Error::other("a pipe is missing");
        let (program, arguments) = setup.starter.split_first().ok_or_else(missing)?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg(&self.sites[0].name)
            .arg(&setup.agent)
            .arg(AGENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not that of the terminal: its interrupts are for us.
            .process_group(0)
            .spawn()?;
        let (output, input) = (child.stdin.take(), child.stdout.take());
        let pid = pid_of(&child).ok_or_else(missing)?;
        self.child = Some((child, pid));
        let (output, input) = (output.ok_or_else(missing)?, input.ok_or_else(missing)?);
        let mut link = Link::new(input.into(), output.into(), poll, token)?;
        let theirs = Setup { sites: self.sites.clone(), ..setup.clone() };
        link.send(poll, Down::Setup(Box::new(theirs)).encode());
        self.link = Some(link);
        Ok(())
    }

    pub(super) fn is_gone(&self) -> bool {
        self.stage == Stage::Gone
    }

    /// Whether its ranks may still run.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self.stage, Stage::Starting(_) | Stage::Up | Stage::Closing(_))
    }

    /// When we look at it again at the latest.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.stage {
            Stage::Starting(t) | Stage::Closing(t) | Stage::Leaving(t) => Some(t),
            Stage::Up | Stage::Gone => None,
        }
    }

    pub(super) fn has(&self, host: usize) -> bool {
        self.sites.iter().any(|s| s.index == host)
    }

    /// Whether it is to be told.
    pub(super) fn concerns(&self, message: &Down, first_only: bool) -> bool {
        match message {
            Down::Credit(host, ..) => self.has(*host),
            Down::Input(_) => !first_only || self.sites.iter().any(|s| s.ranks.contains(&0)),
            _ => true,
        }
    }

    /// It is not waited for any more. It ends by itself when its connection does.
    pub(super) fn abandon(&mut self, poll: &Poll) {
        if let Some(mut link) = self.link.take() {
            link.close(poll);
        }
        if !self.greeted {
            self.kill();
        }
        self.untaken = false;
    }

    pub(super) fn kill(&mut self) {
        if let Some((_, pid)) = self.child.as_ref().filter(|_| self.stage != Stage::Gone) {
            let _ = kill_process_group(*pid, Signal::KILL);
        }
    }

    /// The starter's process is over: takes notice of it.
    pub(super) fn reap(&mut self) {
        self.kill();
        if let Some((child, _)) = &mut self.child {
            let _ = child.wait();
        }
        self.stage = Stage::Gone;
    }

    /// Done or lost: only the starter is left.
    pub(super) fn leave(&mut self, poll: &Poll) {
        self.abandon(poll);
        match self.child.is_none() || self.ended.is_some() {
            true => self.reap(),
            false => self.stage = Stage::Leaving(Instant::now() + PARTING),
        }
    }
}

/// The last part of a command's path.
pub(super) fn name(starter: &[std::ffi::OsString]) -> String {
    let program = starter.first().map_or(OsStr::new("?"), |p| p);
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
}
