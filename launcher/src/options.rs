//! What `circulant run` is asked for.

use super::hosts::Host;
use super::setup::{App, Bind, Input, Map};
use circulant::config::OnFailure;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The programs, whose ranks follow each other; at least one rank in all.
    pub apps: Vec<App>,
    /// Where; none is this machine.
    pub hosts: Vec<Host>,
    /// How many ranks each host takes, whatever `hosts` says.
    pub each: Option<usize>,
    /// How agents are started on them.
    pub starter: Starter,
    /// Variables for all ranks beside those of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether lines of the output begin with `[rank] `.
    pub label: bool,
    /// Whether ranks that were told an error by others print it, too. With labels they do.
    pub all_errors: bool,
    /// How long the whole job may take.
    pub timeout: Option<Duration>,
    /// How long the others may go on when a rank failed.
    pub grace: Duration,
    /// What becomes of the others when a rank is killed: they end, or go on.
    pub on_failure: OnFailure,
    /// How long an agent may take to come up.
    pub start_timeout: Duration,
    /// What ranks are bound to.
    pub bind: Bind,
    /// Where the next rank goes.
    pub map: Map,
    /// Which ranks read standard input.
    pub input: Input,
    /// How many agents a launcher or agent starts itself.
    pub fanout: usize,
}

/// What starts agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starter {
    /// `ssh HOST COMMAND…`; this machine, if it is among the hosts, needs none.
    Ssh,
    /// This program, called as `EXEC HOST COMMAND…`, also for this machine.
    Exec(PathBuf),
    /// `srun`, in an allocation of Slurm.
    Srun,
}

impl Starter {
    /// The words before the name of the host.
    pub(super) fn command(&self) -> Vec<OsString> {
        let words = |text: &str| text.split(' ').map(OsString::from).collect();
        match self {
            // No questions: no user could answer them for many hosts. A host that is dead is noticed in a minute.
            Self::Ssh => words(
                "ssh -x -T -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 -o ServerAliveCountMax=3",
            ),
            Self::Exec(program) => vec![program.clone().into_os_string()],
            // A step of one task beside others. The agent takes all processors that the step has.
            Self::Srun => words("srun --overlap -N1 -n1 --mpi=none --export=ALL -Q -w"),
        }
    }

    /// Whether `host` is the machine that we are on and needs no agent.
    pub(super) fn is_here(&self, host: &str, ourselves: &str) -> bool {
        match self {
            Self::Ssh => host == "localhost" || host == ourselves,
            Self::Exec(_) => false,
            Self::Srun => std::env::var("SLURMD_NODENAME").is_ok_and(|name| name == host),
        }
    }
}

/// Exit code of a job that took longer than [`Options::timeout`].
pub const EXIT_TIMEOUT: u8 = 124;
