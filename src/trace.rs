//! What a rank says on standard error: warnings, and with `CIRCULANT_LOG=info` what it does.
//!
//! A program that has installed a `tracing` subscriber gets the same lines as its events. Without one they are written
//! here, one write per line, so that lines of several ranks do not mix. What is of the levels debug and trace needs a
//! subscriber, as the tool has one.

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::io::Write;
use std::sync::Once;
use tracing::Level;
use tracing::level_filters::LevelFilter;

/// What follows the level where all ranks are to speak, and not rank 0 alone.
const ALL: &str = "all";

/// What the setting `log` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Messages of this level and of more serious ones.
    pub level: LevelFilter,
    /// Of all ranks; else only of rank 0.
    pub all: bool,
}

impl Wanted {
    /// Reads `info`, or `info,all`.
    ///
    /// # Errors
    /// When it is none of the levels.
    pub fn of(config: &Config) -> Result<Self> {
        let text = config.text("log");
        let (level, all) = match text.split_once(',') {
            Some((level, ranks)) => (level, Some(ranks.trim())),
            None => (text, None),
        };
        let level = match level.trim() {
            "off" => Some(LevelFilter::OFF),
            "error" => Some(LevelFilter::ERROR),
            "warn" => Some(LevelFilter::WARN),
            "info" => Some(LevelFilter::INFO),
            "debug" => Some(LevelFilter::DEBUG),
            "trace" => Some(LevelFilter::TRACE),
            _ => None,
        };
        level.filter(|_| all.is_none_or(|ranks| ranks == ALL)).map_or_else(
            || {
                let what = format!("CIRCULANT_LOG: {text:?} is not error, warn, info, debug or trace");
                Err(Error::new(ErrorKind::Config, what).help("with ,all behind it all ranks speak: info,all"))
            },
            |level| Ok(Self { level, all: all.is_some() }),
        )
    }
}

/// The messages of one rank of one world.
#[derive(Clone, Debug)]
pub struct Log {
    rank: usize,
    wanted: Wanted,
    /// Calls are told of.
    calls: bool,
    /// The calls that were told of.
    seen: HashSet<(&'static str, &'static str)>,
}

impl Log {
    /// As the setting `log` says, at this rank.
    ///
    /// # Errors
    /// When the setting makes no sense.
    pub fn new(config: &Config, rank: usize) -> Result<Self> {
        Ok(Self { rank, wanted: Wanted::of(config)?, calls: false, seen: HashSet::new() })
    }

    /// Whether this rank tells what it does.
    pub fn informs(&self) -> bool {
        (self.rank == 0 || self.wanted.all)
            && (self.wanted.level >= LevelFilter::INFO || tracing::enabled!(Level::INFO))
    }

    /// Tells what this rank does; `line` is asked for only if that is wanted.
    pub fn info(&self, line: impl FnOnce() -> String) {
        if !self.informs() {
            return;
        }
        let (rank, line) = (self.rank, line());
        match tracing::enabled!(Level::INFO) {
            true => tracing::info!("rank {rank}: {line}"),
            false => say(Level::INFO, &format!("rank {rank}: {line}")),
        }
    }

    /// From now on calls are told of, if this rank tells what it does: those before were not the program's.
    pub fn tell_of_calls(&mut self) {
        self.calls = self.informs();
    }

    /// Tells how a call goes, the first time that calls of `operation` go this `way`.
    #[inline]
    pub fn call(&mut self, operation: &'static str, way: &'static str, more: impl FnOnce() -> String) {
        if self.calls && self.seen.insert((operation, way)) {
            self.info(|| format!("{operation}: {way}{}", more()));
        }
    }

    /// Warns, if this is rank 0; once in a process.
    pub fn warn_once(&self, lines: impl FnOnce() -> Vec<String>) {
        static WARNED: Once = Once::new();
        if self.rank == 0 {
            WARNED.call_once(|| lines().iter().for_each(|line| warn(line, self.wanted.level)));
        }
    }
}

/// Warns, unless that is below `level`.
pub fn warn(line: &str, level: LevelFilter) {
    if tracing::enabled!(Level::WARN) {
        tracing::warn!("{line}");
    } else if level >= LevelFilter::WARN {
        say(Level::WARN, line);
    }
}

/// What messages of a level are called.
pub fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// One line in one write. When standard error is gone there is nothing to be done.
fn say(level: Level, line: &str) {
    let line = format!("circulant: {}: {line}\n", name(level));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Result<Wanted> {
        let mut config = Config::defaults();
        config.set("log", text)?;
        Wanted::of(&config)
    }

    #[test]
    fn levels_and_ranks() {
        for (text, level, all) in [
            ("warn", LevelFilter::WARN, false),
            ("info", LevelFilter::INFO, false),
            ("info,all", LevelFilter::INFO, true),
            ("debug, all", LevelFilter::DEBUG, true),
            ("off", LevelFilter::OFF, false),
        ] {
            assert_eq!(wanted(text).unwrap(), Wanted { level, all }, "{text}");
        }
        for text in ["loud", "", "info,", "info,1", "all", "circulant=debug"] {
            assert!(wanted(text).unwrap_err().to_string().contains("CIRCULANT_LOG"), "{text}");
        }
    }

    #[test]
    fn each_way_of_a_call_is_told_once() {
        let mut config = Config::defaults();
        config.set("log", "info").unwrap();
        let mut log = Log::new(&config, 0).unwrap();
        log.call("bcast", "board", || panic!("that was no call of the program"));
        log.tell_of_calls();
        let mut told = 0;
        for way in ["board", "circulant", "board", "circulant"] {
            log.call("bcast", way, || {
                told += 1;
                String::new()
            });
        }
        assert_eq!(told, 2);
        let mut other = Log::new(&config, 1).unwrap();
        other.tell_of_calls();
        other.call("bcast", "board", || panic!("rank 1 speaks"));
    }
}
