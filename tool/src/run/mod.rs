//! `circulant run`: programs as the ranks of a job, on this machine and others.

mod apps;
mod args;
mod find;
mod places;
mod settings;

pub(crate) use apps::words;
pub(crate) use args::RunArgs;

use args::{Reads, Trouble};
use circulant_launcher::{Input, Options};
use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

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
    let (hosts, starter) = places::hosts(&args)?;
    let apps = apps::apps(&args, &hosts)?;
    let settings::Checked { start_timeout, on_failure } =
        settings::check(&args.settings.0, &apps).map_err(|e| (2, e))?;
    let ranks = apps.iter().map(|a| a.ranks).sum();
    let (bind, map) = (args.bind(), args.map());
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
        on_failure,
        start_timeout,
        bind,
        map,
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
