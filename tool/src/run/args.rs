//! The command line of `circulant run`.

use super::settings::SettingFlags;
use circulant::{Error, ErrorKind};
use circulant_launcher::{Bind, Map};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// More ranks than this in a job are a slip of the finger.
const MAX_RANKS: usize = 1 << 20;

/// Subcommands that may stand for PROGRAM.
pub(super) const OURS: [&str; 7] = ["bench", "tune", "cast", "collect", "info", "doctor", "schedule"];

const AFTER_HELP: &str = "\
Exit code: 0 when all ranks end with 0; else that of the rank that failed first (128 + signal for one that was \
killed); the code of an abort; 124 after --timeout; 127 or 126 when PROGRAM is not found or cannot be run; 1 when a \
host cannot be reached or is lost; 2 for a wrong command line.

When a rank fails, the others are told which one is gone, may end by themselves within --grace, then get TERM and, \
2 s later, KILL, and so does everything in their process groups. INT, TERM and HUP are passed on; a second INT or \
TERM kills.

Hosts are reached by ssh, without passwords; circulant must be there under the same path. In an allocation of Slurm \
its nodes are used, by srun, unless hosts are given. -np and -ppn are understood, too. Several programs are \
separated by a colon: circulant run -n 1 ./master : -n 8 -x ROLE=worker ./worker

The ranks find PMI-1 in PMI_FD, so programs built with MPICH can be started as well.

Examples:
  circulant run -n 8 ./program
  circulant run -n 8 --map-by socket --bind-to core ./program
  circulant run -H node1:4,node2:4 -l ./program
  circulant run --hostfile hosts -n 64 bench bcast --check";

/// Start a program as several ranks, on this machine or others
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    /// Number of ranks; with hosts that tell how many they take, or in an allocation: as many
    #[arg(short = 'n', long = "ranks", value_name = "P", value_parser = ranks, allow_negative_numbers = true)]
    pub(super) ranks: Option<usize>,
    /// Ranks per host, whatever the list of hosts says
    #[arg(long = "ppn", value_name = "K", visible_alias = "ntasks-per-node", value_parser = ranks)]
    pub(super) each: Option<usize>,
    /// Hosts, and how many ranks each takes: a:4,b:4; without numbers they share the ranks evenly
    #[arg(short = 'H', long, visible_alias = "host", value_name = "LIST")]
    pub(super) hosts: Option<String>,
    /// File of hosts: lines HOST, HOST:4 or HOST slots=4; # begins a comment
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "hosts")]
    pub(super) hostfile: Option<PathBuf>,
    /// Program that starts agents instead of ssh, called as EXEC HOST COMMAND…
    #[arg(long, value_name = "EXEC")]
    pub(super) launcher_exec: Option<PathBuf>,
    /// Agents that each launcher or agent starts itself; beyond it they form a tree
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) fanout: u16,
    /// Begin each line of output with its rank in brackets
    #[arg(short, long)]
    pub(super) label: bool,
    /// Print also the errors that ranks were only told by others; else the summary at the end names these ranks
    #[arg(long)]
    pub(super) all_errors: bool,
    /// Variable for the ranks: NAME (as it is here) or NAME=VALUE; may come more than once
    #[arg(short = 'x', long = "env", value_name = "NAME[=VALUE]")]
    pub(super) env: Vec<OsString>,
    /// Folder in which the ranks run [default: this one]
    #[arg(long, value_name = "FOLDER", visible_alias = "wd")]
    pub(super) wdir: Option<PathBuf>,
    /// Where the next rank goes: where there is a slot left, to the next host (node), or on a host to the next core,
    /// socket or NUMA node, to which it is then bound unless --bind-to says otherwise
    #[arg(long, value_name = "WHAT", default_value = "slot")]
    pub(super) map_by: Mapping,
    /// What each rank is bound to: a core of its own, or a socket or NUMA node [default: none]
    #[arg(long, value_name = "WHAT")]
    pub(super) bind_to: Option<Binding>,
    /// Which ranks read standard input
    #[arg(long, value_name = "WHICH", default_value = "0")]
    pub(super) stdin: Reads,
    /// Seconds that the whole job may take; then it is ended with exit code 124
    #[arg(long, value_name = "S", value_parser = positive_seconds)]
    pub(super) timeout: Option<Duration>,
    /// Seconds that the others may go on after a rank failed
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub(super) grace: Duration,
    #[command(flatten)]
    pub(super) settings: SettingFlags,
    /// Program and its arguments; bench, tune, cast, collect, info, doctor and schedule are this tool's own
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(super) program: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Binding {
    None,
    Core,
    #[value(alias = "package")]
    Socket,
    Numa,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Mapping {
    Slot,
    Core,
    Node,
    #[value(alias = "package")]
    Socket,
    Numa,
}

impl RunArgs {
    pub(super) fn map(&self) -> Map {
        match self.map_by {
            Mapping::Slot => Map::Slot,
            Mapping::Core => Map::Core,
            Mapping::Node => Map::Node,
            Mapping::Socket => Map::Socket,
            Mapping::Numa => Map::Numa,
        }
    }

    /// What is said, else what ranks are mapped by.
    pub(super) fn bind(&self) -> Bind {
        match (self.bind_to, self.map_by) {
            (Some(Binding::None), _) | (None, Mapping::Slot | Mapping::Node) => Bind::None,
            (Some(Binding::Core), _) | (None, Mapping::Core) => Bind::Core,
            (Some(Binding::Socket), _) | (None, Mapping::Socket) => Bind::Socket,
            (Some(Binding::Numa), _) | (None, Mapping::Numa) => Bind::Numa,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Reads {
    #[value(name = "0")]
    First,
    All,
    None,
}

/// An exit code and the reason.
pub(super) type Trouble = (u8, Error);

/// A wrong command line.
pub(super) fn wrong(message: impl Into<String>) -> Trouble {
    (2, Error::new(ErrorKind::Argument, message))
}

/// A number of ranks.
pub(super) fn ranks(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("there must be at least one rank".to_owned()),
        Ok(n) if n <= MAX_RANKS => Ok(n),
        _ if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            Err(format!("at most {MAX_RANKS} ranks"))
        }
        _ => Err("it must be a whole number from 1".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|&s| (0.0..1e9).contains(&s));
    number.map(Duration::from_secs_f64).ok_or_else(|| "it must be a number of seconds, 0 or more".to_owned())
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    seconds(text)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| "it must be a number of seconds above 0".to_owned())
}
