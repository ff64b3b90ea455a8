//! What a rank says on standard error: warnings, and with `CIRCULANT_LOG=info` what it does.
//!
//! A program that has installed a `tracing` subscriber gets the same lines as its events. Without one they are written
//! here, one write per line, so that lines of several ranks do not mix. What is of the levels debug and trace needs a
//! subscriber, as the tool has one.

use crate::config::Logging;
use std::collections::HashSet;
use std::io::Write;
use std::time::{Duration, Instant};
use tracing::Level;
use tracing::level_filters::LevelFilter;

/// The messages of one rank of one world.
#[derive(Clone, Debug)]
pub struct Log {
    rank: usize,
    wanted: Logging,
    /// Calls are told of.
    calls: bool,
    /// The calls that were told of.
    seen: HashSet<(&'static str, &'static str)>,
}

impl Log {
    /// As the setting `log` says, at this rank.
    pub fn new(wanted: Logging, rank: usize) -> Self {
        Self { rank, wanted, calls: false, seen: HashSet::new() }
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

    /// Whether it tells of any call.
    #[inline]
    pub fn tells_of_calls(&self) -> bool {
        self.calls
    }

    /// Tells how a call goes, the first time that calls of `operation` go this `way`.
    #[inline]
    pub fn call(&mut self, operation: &'static str, way: &'static str, more: impl FnOnce() -> String) {
        if self.calls && self.seen.insert((operation, way)) {
            self.info(|| format!("{operation}: {way}{}", more()));
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

/// Warnings of what strangers can cause as often as they like: the first at once, then one in [`RARELY`] at most, which says how many
/// there were meanwhile.
#[derive(Debug)]
pub struct Rarely {
    level: LevelFilter,
    last: Option<Instant>,
    unsaid: u64,
}

/// The least time between two such warnings.
pub const RARELY: Duration = Duration::from_secs(5);

impl Rarely {
    /// Of a rank whose setting `log` has this level.
    pub fn new(level: LevelFilter) -> Self {
        Self { level, last: None, unsaid: 0 }
    }

    /// Warns, unless the last warning was a short time ago. `line` is asked for only if it is said.
    pub fn warn(&mut self, line: impl FnOnce() -> String) {
        if let Some(line) = self.take(Instant::now(), line) {
            warn(&line, self.level);
        }
    }

    /// What is to be said `now`.
    fn take(&mut self, now: Instant, line: impl FnOnce() -> String) -> Option<String> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < RARELY) {
            self.unsaid = self.unsaid.saturating_add(1);
            return None;
        }
        self.last = Some(now);
        Some(match std::mem::take(&mut self.unsaid) {
            0 => line(),
            unsaid => format!("{} ({unsaid} more of this kind before)", line()),
        })
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

    #[test]
    fn what_comes_often_is_said_rarely() {
        let mut rarely = Rarely::new(LevelFilter::WARN);
        let start = Instant::now();
        let mut at = |after: Duration| rarely.take(start + after, || "x".to_owned());
        assert_eq!(at(Duration::ZERO).unwrap(), "x");
        assert!((1..100).all(|i| at(RARELY / 100 * i).is_none()));
        assert_eq!(at(RARELY).unwrap(), "x (99 more of this kind before)");
        assert_eq!(at(RARELY * 3).unwrap(), "x");
    }

    #[test]
    fn each_way_of_a_call_is_told_once() {
        let wanted = Logging { level: LevelFilter::INFO, all: false };
        let mut log = Log::new(wanted, 0);
        log.call("bcast", "short", || panic!("that was no call of the program"));
        log.tell_of_calls();
        let mut told = 0;
        for way in ["short", "circulant", "short", "circulant"] {
            log.call("bcast", way, || {
                told += 1;
                String::new()
            });
        }
        assert_eq!(told, 2);
        let mut other = Log::new(wanted, 1);
        other.tell_of_calls();
        other.call("bcast", "short", || panic!("rank 1 speaks"));
    }
}
