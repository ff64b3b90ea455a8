//! What the ranks run: programs, their numbers of ranks, folders and variables.

use super::args::{OURS, RunArgs, Trouble, ranks, wrong};
use super::find::find;
use circulant_launcher::{App, Host, hosts};
use clap::{Args, Command, CommandFactory, Parser};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// More ranks than this per processor is a slip of the finger.
const PER_PROCESSOR: usize = 64;
const ALWAYS_FINE: usize = 1024;

/// What may stand behind a colon.
#[derive(Debug, Parser)]
#[command(name = "circulant run … :", no_binary_name = true, disable_help_flag = true)]
struct Next {
    /// Number of ranks
    #[arg(short = 'n', long = "ranks", value_name = "P", value_parser = ranks, allow_negative_numbers = true)]
    ranks: usize,
    /// Variable for these ranks
    #[arg(short = 'x', long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Folder in which they run
    #[arg(long, value_name = "FOLDER", visible_alias = "wd")]
    wdir: Option<PathBuf>,
    /// Program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// The programs of the command line, in order.
pub(super) fn apps(args: &RunArgs, hosts: &[Host]) -> Result<Vec<App>, Trouble> {
    let mut parts = args.program.split(|word| word == ":");
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&[OsString]> = parts.collect();
    let told = hosts.iter().any(|h| h.slots.is_some()) || args.each.is_some();
    let ranks = match args.ranks {
        Some(ranks) => ranks,
        None if !hosts.is_empty() && told && rest.is_empty() => hosts::capacity(hosts, args.each),
        None => return Err(wrong("how many ranks? say --ranks <P> (-n)")),
    };
    let local = hosts.is_empty();
    let mut all = vec![app(ranks, first, &args.env, args.wdir.as_ref(), local)?];
    for words in rest {
        let words = plain(words.to_vec(), &Next::command());
        let next = Next::try_parse_from(words).map_err(|e| wrong(format!("behind a colon: {}", line(&e))))?;
        let env: Vec<OsString> = args.env.iter().chain(&next.env).cloned().collect();
        let folder = next.wdir.as_ref().or(args.wdir.as_ref());
        all.push(app(next.ranks, &next.program, &env, folder, local)?);
    }
    let sum: usize = all.iter().map(|a| a.ranks).sum();
    let most = std::thread::available_parallelism().map_or(1, usize::from) * PER_PROCESSOR;
    let most = most.max(ALWAYS_FINE);
    if local && sum > most {
        return Err(wrong(format!("this machine takes at most {most} ranks")));
    }
    Ok(all)
}

fn app(
    ranks: usize,
    words: &[OsString],
    env: &[OsString],
    folder: Option<&PathBuf>,
    local: bool,
) -> Result<App, Trouble> {
    let (word, arguments) = words.split_first().ok_or_else(|| wrong("PROGRAM is missing before a colon"))?;
    let mut arguments = arguments.to_vec();
    let here = std::env::current_dir().unwrap_or_default();
    let folder = folder.map(|f| here.join(f));
    let program = if OURS.iter().any(|&o| word == o) {
        arguments.insert(0, word.clone());
        PathBuf::from("/proc/self/exe")
    } else if local {
        find(word, folder.as_deref().unwrap_or(&here))?
    } else if word.is_empty() {
        return Err(wrong("the name of the program is empty"));
    } else {
        // Each host looks it up itself.
        PathBuf::from(word)
    };
    let environment = env.iter().map(|word| variable(word)).collect::<Result<_, _>>()?;
    Ok(App { ranks, program, arguments, environment, folder })
}

/// `NAME=VALUE`, or `NAME` for its value here.
fn variable(word: &OsStr) -> Result<(OsString, OsString), Trouble> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|&b| b == b'=');
    let name = &bytes[..at.unwrap_or(bytes.len())];
    if name.is_empty() || name.contains(&0) {
        return Err(wrong(format!("--env {}: NAME or NAME=VALUE is wanted", word.display())));
    }
    let value = match at {
        Some(at) => OsString::from_vec(bytes[at + 1..].to_vec()),
        None => std::env::var_os(word).ok_or_else(|| {
            wrong(format!("--env {0}: there is no such variable here; {0}=VALUE sets one", word.display()))
        })?,
    };
    Ok((OsString::from_vec(name.to_vec()), value))
}

/// The command line of this process, with `-np` and `-ppn` as other launchers have them made `-n` and `--ppn`.
pub(crate) fn words(all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = all.collect();
    let unusual = |w: &OsString| w == "-np" || w == "-ppn";
    if all.get(1).is_some_and(|w| w == "run") && all.iter().any(unusual) {
        let rest = all.split_off(2);
        all.extend(plain(rest, &RunArgs::augment_args(Command::new("run"))));
    }
    all
}

/// Replaces `-np` and `-ppn` before the program.
fn plain(mut words: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let takes_value = |word: &str| {
        let known = |a: &&clap::Arg| match word.strip_prefix("--") {
            Some(long) => a.get_long_and_visible_aliases().is_some_and(|l| l.contains(&long)),
            None => word.strip_prefix('-').is_some_and(|s| s.chars().eq(a.get_short())),
        };
        command.get_arguments().find(known).is_some_and(|a| a.get_action().takes_values())
    };
    let mut at = 0;
    while let Some(word) = words.get(at).and_then(|w| w.to_str()).filter(|w| w.starts_with('-') && *w != "--")
    {
        let usual = match word {
            "-np" => "-n",
            "-ppn" => "--ppn",
            other => other,
        };
        let (usual, value) = (usual.to_owned(), takes_value(usual));
        words[at] = usual.into();
        at += 1 + usize::from(value);
    }
    words
}

/// What clap says, in one line.
fn line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.split("\n\n").next().unwrap_or_default();
    text.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
}
