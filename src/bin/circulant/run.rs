//! `circulant run`: a program as several ranks on this machine.

use circulant::config::{Config, SETTINGS};
use circulant::launch::server::{self, Options};
use circulant::transport::fabric::Interfaces;
use circulant::{Error, ErrorKind, Result};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Subcommands that may stand for PROGRAM.
const OURS: [&str; 7] = ["bench", "tune", "cast", "collect", "info", "doctor", "schedule"];

/// More ranks than this per processor is a slip of the finger.
const PER_PROCESSOR: usize = 64;
const ALWAYS_FINE: usize = 1024;

const AFTER_HELP: &str = "\
Exit code: 0 when all ranks end with 0; else that of the rank that failed first (128 + signal for one that was \
killed); the code of an abort; 124 after --timeout; 127 or 126 when PROGRAM is not found or cannot be run; 2 for \
a wrong command line.

When a rank fails, the others are told which one is gone, may end by themselves within --grace, then get TERM and, \
2 s later, KILL, and so does everything in their process groups. INT, TERM and HUP are passed on; a second INT or \
TERM kills. Standard input goes to rank 0.

The ranks find PMI-1 in PMI_FD, so programs built with MPICH can be started as well.";

/// Start a program as several ranks on this machine
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    /// Number of ranks
    #[arg(short = 'n', long = "ranks", value_name = "P", value_parser = ranks, allow_negative_numbers = true)]
    ranks: usize,
    /// Begin each line of output with [rank]
    #[arg(short, long)]
    label: bool,
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

/// The flags that were given, one for each line of the settings table, as variables for the ranks.
#[derive(Debug)]
pub(crate) struct SettingFlags(Vec<(String, OsString)>);

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |s: &circulant::config::Setting| {
            let value = matches.get_one::<OsString>(s.name)?;
            Some((s.variable.to_owned(), value.clone()))
        };
        Ok(Self(SETTINGS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, s| {
            let arg = Arg::new(s.name)
                .long(s.name)
                .value_name("VALUE")
                .value_parser(clap::value_parser!(OsString))
                .help(format!("{} [{}, default {}]", s.text, s.variable, s.default))
                .help_heading("Settings of the ranks");
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// This executable also serves `circulant run` in two small parts; when it is to be one of them, does that.
/// To be called first in `main`.
pub(crate) fn own_use() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        server::EXEC => Some(server::exec_main(arguments)),
        server::WATCH => Some(server::watch_main()),
        _ => None,
    }
}

/// Runs the job. To be called on the main thread.
pub(crate) fn main(args: RunArgs) -> ExitCode {
    let fail = |code: u8, error: &Error| {
        eprintln!("circulant run: {error}");
        ExitCode::from(code)
    };
    if let Err(error) = check(&args.settings.0) {
        return fail(2, &error);
    }
    let mut words = args.program.into_iter();
    let word = words.next().unwrap_or_default();
    let mut arguments: Vec<OsString> = words.collect();
    let program = if OURS.iter().any(|&o| word == o) {
        arguments.insert(0, word);
        PathBuf::from("/proc/self/exe")
    } else {
        match find(&word) {
            Ok(program) => program,
            Err((code, error)) => return fail(code, &error),
        }
    };
    let options = Options {
        ranks: args.ranks,
        program,
        arguments,
        environment: environment(args.settings.0, args.ranks),
        label: args.label,
        timeout: args.timeout,
        grace: args.grace,
    };
    let ended = server::run(&options);
    // A killed rank could not clean up after itself.
    circulant::transport::fabric::sweep_stale_shm();
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(1, &error),
    }
}

/// The settings, and what libfabric should find in its environment: a rank that has threads already could not
/// set that safely itself.
fn environment(settings: Vec<(String, OsString)>, ranks: usize) -> Vec<(String, OsString)> {
    let unset = |(name, _): &(&str, String)| std::env::var_os(name).is_none();
    let presets = circulant::transport::fabric::presets(ranks).filter(unset);
    settings.into_iter().chain(presets.map(|(name, value)| (name.to_owned(), value.into()))).collect()
}

/// Refuses settings that every rank would refuse.
fn check(given: &[(String, OsString)]) -> Result<()> {
    let mut config = Config::defaults();
    for (variable, value) in given {
        let text = value
            .to_str()
            .ok_or_else(|| Error::new(ErrorKind::Config, format!("{variable}: its value is not Unicode")))?;
        if let Some(s) = SETTINGS.iter().find(|s| s.variable == variable) {
            config.set(s.name, text)?;
        }
    }
    for name in ["deadline", "start-deadline"] {
        config.seconds(name)?;
    }
    config.text("rails").parse::<Interfaces>()?;
    config.range("ports")?;
    config.number("blocks")?;
    config.bytes("window")?;
    config.bytes("light")?;
    Ok(())
}

fn ranks(text: &str) -> Result<usize, String> {
    let most = std::thread::available_parallelism().map_or(1, usize::from) * PER_PROCESSOR;
    let most = most.max(ALWAYS_FINE);
    match text.parse::<usize>() {
        Ok(0) => Err("there must be at least one rank".to_owned()),
        Ok(n) if n <= most => Ok(n),
        _ if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            Err(format!("this machine takes at most {most} ranks"))
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

/// Where the program is, as a shell would find it; else the shell's exit code and the reason.
fn find(word: &OsStr) -> Result<PathBuf, (u8, Error)> {
    let shown = Path::new(word).display();
    let error = |code, message: String| (code, Error::new(ErrorKind::Argument, message));
    if word.is_empty() {
        return Err(error(127, "the name of the program is empty".to_owned()));
    }
    if word.as_bytes().contains(&b'/') {
        return match fit(Path::new(word)) {
            Ok(()) => Ok(PathBuf::from(word)),
            Err((code, why)) => Err(error(code, format!("{shown}: {why}"))),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut unfit = None;
    for folder in std::env::split_paths(&path) {
        let here = folder.as_os_str().is_empty();
        let candidate = if here { Path::new(".").join(word) } else { folder.join(word) };
        match fit(&candidate) {
            Ok(()) => return Ok(candidate),
            Err((126, why)) => {
                unfit.get_or_insert_with(|| error(126, format!("{}: {why}", candidate.display())));
            }
            Err(_) => {}
        }
    }
    Err(unfit.unwrap_or_else(|| {
        let (code, missing) = error(127, format!("there is no program {shown} in PATH"));
        let help = match Path::new(word).is_file() {
            true => format!("for the file in this folder say ./{shown}"),
            false => {
                format!("{} are the tool's own, others need a path or a folder in PATH", OURS.join(", "))
            }
        };
        (code, missing.help(help))
    }))
}

/// Whether a file can be run; if not, a shell's exit code and the reason.
fn fit(path: &Path) -> Result<(), (u8, String)> {
    let about = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => (126, e.to_string()),
        _ => (127, "there is no such program".to_owned()),
    })?;
    if !about.is_file() {
        return Err((126, "it is not a file".to_owned()));
    }
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK)
        .map_err(|_| (126, "it cannot be run (chmod +x is missing?)".to_owned()))
}
