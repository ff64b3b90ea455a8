//! Starting processes: the ranks, whose lives are tied to ours; and the watchdog (`__watch`), which clears up after us
//! when we are killed.

use super::output::say;
use super::setup::{App, Input, Setup};
use super::{bind, tie};
use circulant::error::{Error, ErrorKind, Result};
use circulant::launch::side;
use rustix::io::FdFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// First argument that makes this executable stand for a rank whose program cannot be started, so that it ends like
/// one, with its code and its words: `__refuse <exit code> <text>`.
pub const REFUSE: &str = "__refuse";

/// First argument that makes this executable an agent.
pub const AGENT: &str = "__agent";

/// First argument that makes this executable the watchdog.
pub const WATCH: &str = "__watch";

/// This executable, also when its file was replaced meanwhile.
pub(super) const OURSELVES: &str = "/proc/self/exe";

/// A rank that was started, and our ends of what connects us.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) pid: Pid,
    pub(super) pmi: UnixStream,
    pub(super) side: UnixStream,
    pub(super) output: OwnedFd,
    pub(super) error: OwnedFd,
    /// Where we feed it.
    pub(super) stdin: Option<ChildStdin>,
}

/// How the ranks of this node are started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<'a> {
    pub(super) setup: &'a Setup,
    /// The soft limit of open files that ranks shall have, where ours was raised.
    pub(super) files: Option<u64>,
    /// Whether our own standard input is the user's.
    pub(super) root: bool,
    /// The processors of each rank; nothing where ranks are not bound.
    pub(super) processors: &'a [Vec<usize>],
}

/// What a rank reads.
enum Stdin {
    Ours,
    /// Ours, a terminal, which only the foreground may read.
    Terminal,
    Fed,
    Empty,
}

impl Start<'_> {
    fn stdin(&self, rank: usize) -> Stdin {
        match self.setup.input {
            Input::First if rank == 0 && !self.root => Stdin::Fed,
            Input::First if rank == 0 && std::io::stdin().is_terminal() => Stdin::Terminal,
            Input::First if rank == 0 => Stdin::Ours,
            Input::All => Stdin::Fed,
            _ => Stdin::Empty,
        }
    }

    /// The program of the `at`-th rank of this node, tied to us.
    fn command(&self, at: usize, ties: [RawFd; 2], stdin: &Stdin) -> Command {
        let app = self.app(at);
        let mut command = Command::new(&app.program);
        command.args(&app.arguments);
        if app.program == Path::new(OURSELVES) {
            command.arg0("circulant");
        }
        self.surround(&mut command, at, ties, stdin);
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let own = tie::Own {
            files: self.files.map(|soft| Rlimit { current: Some(soft), maximum }),
            processors: self.processors.get(at).map(|list| bind::set(list)),
        };
        tie::to_us(&mut command, own);
        command
    }

    /// What stands for the rank when its program cannot be started because of `error`.
    fn refusal(&self, at: usize, ties: [RawFd; 2], stdin: &Stdin, error: &std::io::Error) -> Command {
        let code = if error.kind() == std::io::ErrorKind::NotFound { "127" } else { "126" };
        let text = format!("{} cannot be started: {error}", self.app(at).program.display());
        let mut command = Command::new(OURSELVES);
        command.arg0("circulant").args([REFUSE, code, &text]);
        self.surround(&mut command, at, ties, stdin);
        command
    }

    fn app(&self, at: usize) -> &App {
        &self.setup.apps[self.setup.app_of(self.setup.sites[0].ranks[at])]
    }

    /// What the `at`-th rank of this node finds around it.
    fn surround(&self, command: &mut Command, at: usize, [pmi, side]: [RawFd; 2], stdin: &Stdin) {
        let (setup, app, ranks) = (self.setup, self.app(at), &self.setup.sites[0].ranks);
        command
            .stdin(match stdin {
                Stdin::Fed | Stdin::Terminal => Stdio::piped(),
                Stdin::Ours => Stdio::inherit(),
                Stdin::Empty => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .envs(setup.environment.iter().chain(&app.environment).map(|(k, v)| (k, v)))
            .env("PMI_FD", pmi.to_string())
            .env("PMI_RANK", ranks[at].to_string())
            .env("PMI_SIZE", setup.size.to_string())
            .env("MPI_LOCALRANKID", at.to_string())
            .env("MPI_LOCALNRANKS", ranks.len().to_string())
            .env(side::VARIABLE, format!("{side}:{}", setup.name));
        for stale in ["PMI_PORT", "PMI_ID", "PMI_SPAWNED", "PMI_DEBUG"] {
            command.env_remove(stale);
        }
        if let Some(folder) = &app.folder {
            command.current_dir(folder).env("PWD", folder);
        }
    }

    /// Starts the `at`-th rank of this node in a process group of its own.
    pub(super) fn rank(&self, at: usize) -> std::io::Result<Started> {
        let rank = self.setup.sites[0].ranks[at];
        let (pmi, pmi_theirs) = UnixStream::pair()?;
        let (side, side_theirs) = UnixStream::pair()?;
        pmi.set_nonblocking(true)?;
        side.set_nonblocking(true)?;
        let stdin = self.stdin(rank);
        let ties = [pmi_theirs.as_raw_fd(), side_theirs.as_raw_fd()];
        // Only between here and the end of this function are these two inherited, and we start one at a time.
        rustix::io::fcntl_setfd(&pmi_theirs, FdFlags::empty())?;
        rustix::io::fcntl_setfd(&side_theirs, FdFlags::empty())?;
        let started = match self.command(at, ties, &stdin).spawn() {
            Err(error) if is_programs(&error) => self.refusal(at, ties, &stdin, &error).spawn(),
            other => other,
        };
        let mut child = started?;
        let mut fed = child.stdin.take();
        if matches!(stdin, Stdin::Terminal) {
            fed.take().into_iter().for_each(feed);
        }
        let missing = || std::io::Error::other("a pipe is missing");
        Ok(Started {
            pid: pid_of(&child).ok_or_else(missing)?,
            output: child.stdout.take().ok_or_else(missing)?.into(),
            error: child.stderr.take().ok_or_else(missing)?.into(),
            stdin: fed,
            child,
            pmi,
            side,
        })
    }
}

pub(super) fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Passes the terminal's lines on: the rank is not in the terminal's foreground group and may not read it.
fn feed(mut to: ChildStdin) {
    let body = move || {
        let mut buffer = [0; 4096];
        // In the background we may not read either: that is the end of the input, not a reason to be stopped.
        while rustix::termios::tcgetpgrp(rustix::stdio::stdin()).ok() == Some(rustix::process::getpgrp()) {
            match std::io::stdin().read(&mut buffer) {
                Ok(len) if len > 0 && to.write_all(&buffer[..len]).is_ok() => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
    };
    // Without the thread the rank's input is at its end, which it must be able to stand.
    let _ = std::thread::Builder::new().name("input".to_owned()).spawn(body);
}

/// Makes room for `needed` open files. Gives the soft limit as it was, if it had to be raised.
pub(super) fn raise_files(needed: u64) -> Result<Option<u64>> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let Some(soft) = limit.current.filter(|&soft| soft < needed) else { return Ok(None) };
    if let Some(most) = limit.maximum.filter(|&most| most < needed) {
        let message = format!("so many ranks need {needed} open files, but the limit is {most}");
        return Err(Error::new(ErrorKind::System, message).help("raise it (ulimit -Hn) or start fewer ranks"));
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    rustix::process::setrlimit(Resource::Nofile, raised).map_err(|e| {
        Error::new(ErrorKind::System, format!("the limit of open files cannot be raised: {e}"))
    })?;
    Ok(Some(soft))
}

/// Whether it is the program's fault that it was not started, rather than want of processes, memory or descriptors.
fn is_programs(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let want = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::SRCH];
    error.raw_os_error().is_none_or(|e| !want.iter().any(|w| w.raw_os_error() == e))
}

/// In place of a program that cannot be started.
pub fn refuse_main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let code = arguments.next().and_then(|c| c.to_str()?.parse::<u8>().ok());
    let (Some(code), Some(text)) = (code, arguments.next()) else {
        say("this is for its own use");
        return ExitCode::from(2);
    };
    say(&text.to_string_lossy());
    ExitCode::from(code)
}

/// Tells the watchdog which process groups live.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// For the job with this key-value space.
    pub(super) fn start(job: &str) -> std::io::Result<Self> {
        let mut child = Command::new(OURSELVES)
            .arg0("circulant")
            .arg(WATCH)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let mut watchdog = Self { pipe: child.stdin.take(), child };
        watchdog.tell(&format!("={job}"));
        Ok(watchdog)
    }

    /// `group`, which is that of a rank, lives: kill it when we are gone.
    pub(super) fn guard(&mut self, group: Pid, rank: usize) {
        self.tell(&format!("+{} {rank}", group.as_raw_nonzero()));
    }

    /// `group` is over.
    pub(super) fn release(&mut self, group: Pid) {
        self.tell(&format!("-{}", group.as_raw_nonzero()));
    }

    fn tell(&mut self, line: &str) {
        if let Some(pipe) = &mut self.pipe {
            // If the watchdog was killed, the job goes on without.
            let _ = pipe.write_all(format!("{line}\n").as_bytes());
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.child.wait();
    }
}

/// The watchdog: reads process groups until its input ends, which it does when the launcher is done with
/// all of them, or dead. Those that are left are killed, and everything else that these ranks started.
pub fn watch_main() -> ExitCode {
    let mut groups = BTreeMap::new();
    let mut job = String::new();
    for line in BufReader::new(std::io::stdin()).lines() {
        let Ok(line) = line else { break };
        let number = |text: &str| text.parse::<i32>().ok().filter(|&n| n > 1);
        if let Some((group, rank)) = line.strip_prefix('+').and_then(|l| l.split_once(' ')) {
            groups.extend(number(group).map(|g| (g, rank.to_owned())));
        } else if let Some(group) = line.strip_prefix('-').and_then(number) {
            groups.remove(&group);
        } else if let Some(name) = line.strip_prefix('=') {
            job = name.to_owned();
        }
    }
    for group in groups.keys().filter_map(|&g| Pid::from_raw(g)) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    if !groups.is_empty() && !job.is_empty() {
        let ranks: Vec<String> = groups.into_values().map(|rank| format!("PMI_RANK={rank}")).collect();
        hunt(&format!(":{job}"), &ranks);
    }
    ExitCode::SUCCESS
}

/// Kills what ranks left in sessions of their own: processes in whose environment the side channel of this job
/// and one of these ranks stand. What starts processes faster than that is given up after 2 s.
fn hunt(job: &str, ranks: &[String]) {
    let until = Instant::now() + Duration::from_secs(2);
    let is_ours = |pid: &Pid| {
        let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
        let environment = std::fs::read(path).unwrap_or_default();
        let mut variables = environment.split(|&b| b == 0);
        let side = |v: &[u8]| v.starts_with(side::VARIABLE.as_bytes()) && v.ends_with(job.as_bytes());
        let rank = |v: &[u8]| ranks.iter().any(|r| r.as_bytes() == v);
        variables.clone().any(side) && variables.any(rank)
    };
    while Instant::now() < until {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|e| Pid::from_raw(e.file_name().to_str()?.parse().ok()?));
        let found: Vec<Pid> = pids.filter(is_ours).collect();
        if found.is_empty() {
            return;
        }
        for pid in found {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
