//! Starting processes: the ranks, each through a shim (this executable as `__exec`) that ties its life to
//! ours and then becomes the program; and the watchdog (`__watch`), which clears up after us when we are
//! killed.

use super::Options;
use super::output::say;
use crate::error::{Error, ErrorKind, Result};
use crate::launch::side;
use rustix::io::FdFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

/// First argument that makes this executable the shim: `__exec <parent> <soft limit of files> <program> …`.
pub const EXEC: &str = "__exec";

/// First argument that makes this executable the watchdog.
pub const WATCH: &str = "__watch";

/// This executable, also when its file was replaced meanwhile.
const OURSELVES: &str = "/proc/self/exe";

/// A rank that was started, and our ends of what connects us.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) pid: Pid,
    pub(super) pmi: UnixStream,
    pub(super) side: UnixStream,
    pub(super) output: OwnedFd,
    pub(super) error: OwnedFd,
}

/// Starts `rank` in a process group of its own. `files` is the soft limit of open files it shall have.
pub(super) fn rank(
    options: &Options,
    rank: usize,
    kvsname: &str,
    files: Option<u64>,
) -> std::io::Result<Started> {
    let (pmi, pmi_theirs) = UnixStream::pair()?;
    let (side, side_theirs) = UnixStream::pair()?;
    pmi.set_nonblocking(true)?;
    side.set_nonblocking(true)?;
    let feed_terminal = rank == 0 && std::io::stdin().is_terminal();
    let mut command = Command::new(OURSELVES);
    command
        .arg0("circulant")
        .arg(EXEC)
        .arg(std::process::id().to_string())
        .arg(files.map_or_else(|| "-".to_owned(), |f| f.to_string()))
        .arg(&options.program)
        .args(&options.arguments)
        .stdin(match (rank, feed_terminal) {
            (0, true) => Stdio::piped(),
            (0, false) => Stdio::inherit(),
            _ => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .env("PMI_FD", pmi_theirs.as_raw_fd().to_string())
        .env("PMI_RANK", rank.to_string())
        .env("PMI_SIZE", options.ranks.to_string())
        .env("MPI_LOCALRANKID", rank.to_string())
        .env("MPI_LOCALNRANKS", options.ranks.to_string())
        .env(side::VARIABLE, format!("{}:{kvsname}", side_theirs.as_raw_fd()));
    for stale in ["PMI_PORT", "PMI_ID", "PMI_SPAWNED", "PMI_DEBUG"] {
        command.env_remove(stale);
    }
    command.envs(options.environment.iter().map(|(k, v)| (k, v)));
    // Only between here and the end of this function are these two inherited, and we start one at a time.
    rustix::io::fcntl_setfd(&pmi_theirs, FdFlags::empty())?;
    rustix::io::fcntl_setfd(&side_theirs, FdFlags::empty())?;
    let mut child = command.spawn()?;
    if let Some(stdin) = child.stdin.take() {
        feed(stdin);
    }
    let missing = || std::io::Error::other("a pipe is missing");
    Ok(Started {
        pid: pid_of(&child).ok_or_else(missing)?,
        output: child.stdout.take().ok_or_else(missing)?.into(),
        error: child.stderr.take().ok_or_else(missing)?.into(),
        child,
        pmi,
        side,
    })
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

/// The shim: dies with the launcher, has its limits back, becomes the program.
pub fn exec_main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = arguments.next();
    let files = arguments.next();
    let Some(program) = arguments.next() else {
        say("this is for its own use");
        return ExitCode::from(2);
    };
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // Had the launcher died before that line, no signal would come any more.
    let parent_now = rustix::process::getppid().map_or(0, |p| p.as_raw_nonzero().get());
    if parent.as_deref() != Some(OsStr::new(&parent_now.to_string())) {
        return ExitCode::FAILURE;
    }
    if let Some(soft) = files.and_then(|f| f.to_str()?.parse().ok()) {
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum });
    }
    let name = if program == OURSELVES { OsStr::new("circulant") } else { &program };
    let error = Command::new(&program).arg0(name).args(arguments).exec();
    say(&format!("{} cannot be started: {error}", program.display()));
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Tells the watchdog which process groups live.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    pub(super) fn start() -> std::io::Result<Self> {
        let mut child = Command::new(OURSELVES)
            .arg0("circulant")
            .arg(WATCH)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    /// `group` lives: kill it when we are gone.
    pub(super) fn guard(&mut self, group: Pid) {
        self.tell('+', group);
    }

    /// `group` is over.
    pub(super) fn release(&mut self, group: Pid) {
        self.tell('-', group);
    }

    fn tell(&mut self, sign: char, group: Pid) {
        if let Some(pipe) = &mut self.pipe {
            // If somebody killed the watchdog, the job goes on without.
            let _ = pipe.write_all(format!("{sign}{}\n", group.as_raw_nonzero()).as_bytes());
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
/// all of them, or dead. Those that are left are killed.
pub fn watch_main() -> ExitCode {
    let mut groups = std::collections::BTreeSet::new();
    for line in BufReader::new(std::io::stdin()).lines() {
        let Ok(line) = line else { break };
        let number = |text: &str| text.parse::<i32>().ok().filter(|&n| n > 1).and_then(Pid::from_raw);
        if let Some(group) = line.strip_prefix('+').and_then(number) {
            groups.insert(group.as_raw_nonzero());
        } else if let Some(group) = line.strip_prefix('-').and_then(number) {
            groups.remove(&group.as_raw_nonzero());
        }
    }
    for group in groups.into_iter().filter_map(|g| Pid::from_raw(g.get())) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}
