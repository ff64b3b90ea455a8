//! `circulant run`: programs as the ranks of a job, on this machine and others.

mod apps;
mod find;
mod places;
mod settings;

pub(crate) use apps::words;

use circulant::{Error, ErrorKind};
use circulant_launcher::{Bind, Input, Options};
use clap::{Args, Parser, ValueEnum};
use settings::SettingFlags;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Subcommands that may stand for PROGRAM.
const OURS: [&str; 7] = ["bench", "tune", "cast", "collect", "info", "doctor", "schedule"];

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
  circulant run -H node1:4,node2:4 -l ./program
  circulant run --hostfile hosts -n 64 bench bcast --check";

/// Start a program as several ranks, on this machine or others
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    /// Number of ranks; with hosts that tell how many they take, or in an allocation: as many
    #[arg(short = 'n', long = "ranks", value_name = "P", value_parser = apps::ranks, allow_negative_numbers = true)]
    ranks: Option<usize>,
    /// Ranks per host, whatever the list of hosts says
    #[arg(long = "ppn", value_name = "K", visible_alias = "ntasks-per-node", value_parser = apps::ranks)]
    each: Option<usize>,
    /// Hosts, and how many ranks each takes: a:4,b:4; without numbers they share the ranks evenly
    #[arg(short = 'H', long, visible_alias = "host", value_name = "LIST")]
    hosts: Option<String>,
    /// File of hosts: lines HOST, HOST:4 or HOST slots=4; # begins a comment
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<PathBuf>,
    /// Program that starts agents instead of ssh, called as EXEC HOST COMMAND…
    #[arg(long, value_name = "EXEC")]
    launcher_exec: Option<PathBuf>,
    /// Agents that each launcher or agent starts itself; beyond it they form a tree
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u16).range(1..))]
    fanout: u16,
    /// Begin each line of output with its rank in brackets
    #[arg(short, long)]
    label: bool,
    /// Print also the errors that ranks were only told by others; else the summary at the end names these ranks
    #[arg(long)]
    all_errors: bool,
    /// Variable for the ranks: NAME (as it is here) or NAME=VALUE; may come more than once
    #[arg(short = 'x', long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Folder in which the ranks run [default: this one]
    #[arg(long, value_name = "FOLDER", visible_alias = "wd")]
    wdir: Option<PathBuf>,
    /// Tie each rank to a core of its own
    #[arg(long, value_name = "WHAT", default_value = "none")]
    bind_to: Binding,
    /// Which ranks read standard input
    #[arg(long, value_name = "WHO", default_value = "0")]
    stdin: Reads,
    /// Seconds that the whole job may take; then it is ended with exit code 124
    #[arg(long, value_name = "S", value_parser = positive_seconds)]
    timeout: Option<Duration>,
    /// Seconds that the others may go on after a rank failed
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    grace: Duration,
    #[command(flatten)]
    settings: SettingFlags,
    /// Program and its arguments; bench, tune, cast, collect, info, doctor and schedule are this tool's own
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Binding {
    None,
    Core,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reads {
    #[value(name = "0")]
    First,
    All,
    None,
}

/// This executable also serves `circulant run` in three small parts; when it is to be one of them, does that.
/// To be called first in `main`.
pub(crate) fn own_use() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        circulant_launcher::REFUSE => Some(circulant_launcher::refuse_main(arguments)),
        circulant_launcher::WATCH => Some(circulant_launcher::watch_main()),
        circulant_launcher::AGENT => Some(circulant_launcher::agent_main()),
        _ => None,
    }
}

// `circulant run` alone: the command lines of all other subcommands would cost a start more than the rest of it. No doc
// comment, as that would open its help.
#[derive(Debug, Parser)]
#[command(name = "run", bin_name = "circulant run", version)]
struct Alone {
    #[command(flatten)]
    args: RunArgs,
}

/// What the words of this process's command line say, if they are `circulant run …`.
pub(crate) fn parse(words: &[OsString]) -> Option<Result<RunArgs, clap::Error>> {
    let ours = words.get(1..).filter(|w| w.first().is_some_and(|first| first == "run"))?;
    Some(Alone::try_parse_from(ours).map(|alone| alone.args))
}

/// An exit code and the reason.
type Trouble = (u8, Error);

/// A wrong command line.
fn wrong(message: impl Into<String>) -> Trouble {
    (2, Error::new(ErrorKind::Argument, message))
}

/// Runs the job. To be called on the main thread.
pub(crate) fn main(args: RunArgs) -> ExitCode {
    let done = options(args).and_then(|options| {
        let ended = circulant_launcher::run(&options);
        // A killed rank could not clean up after itself.
        circulant::transport::fabric::sweep_stale_shm();
        ended.map_err(|error| (1, error))
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err((code, error)) => {
            eprintln!("circulant run: {error}");
            ExitCode::from(code)
        }
    }
}

fn options(args: RunArgs) -> Result<Options, Trouble> {
    let patience = settings::check(&args.settings.0).map_err(|e| (2, e))?;
    let (hosts, starter) = places::hosts(&args)?;
    let apps = apps::apps(&args, &hosts)?;
    let ranks = apps.iter().map(|a| a.ranks).sum();
    Ok(Options {
        apps,
        hosts,
        each: args.each,
        starter,
        environment: environment(args.settings.0, ranks),
        label: args.label,
        all_errors: args.all_errors,
        timeout: args.timeout,
        grace: args.grace,
        patience,
        bind: match args.bind_to {
            Binding::None => Bind::None,
            Binding::Core => Bind::Core,
        },
        input: match args.stdin {
            Reads::First => Input::First,
            Reads::All => Input::All,
            Reads::None => Input::None,
        },
        fanout: args.fanout.into(),
    })
}

/// The settings, and what libfabric should find in its environment: a rank that has threads already could not
/// set that safely itself.
fn environment(settings: Vec<(String, OsString)>, ranks: usize) -> Vec<(OsString, OsString)> {
    let unset = |(name, _): &(&str, String)| std::env::var_os(name).is_none();
    let presets = circulant::transport::fabric::presets(ranks).filter(unset);
    let presets = presets.map(|(name, value)| (name.into(), value.into()));
    settings.into_iter().map(|(name, value)| (name.into(), value)).chain(presets).collect()
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
