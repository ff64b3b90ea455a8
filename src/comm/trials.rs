//! What a communicator knows of the trials of its calls, and what trials have found. How they go is in [`adapt`](super::adapt).

use crate::select::{Class, Trial, Turn, Way};
use std::time::{Duration, Instant};

/// The trials of a communicator.
#[derive(Default)]
pub(super) struct Trials(pub(super) Vec<(Class, Trial)>);

impl std::fmt::Debug for Trials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Ways and times would fill pages.
        f.debug_struct("Trials").field("classes", &self.0.len()).finish_non_exhaustive()
    }
}

/// What kind of call asks for a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A blocking call of all ranks, which takes part in a trial.
    Blocking,
    /// Any other call: it takes what is kept.
    Other,
}

/// The part of a call in a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    /// Its place among the communicator's trials.
    pub(super) class: usize,
    pub(super) turn: Turn,
    /// The way can do this call; else it has gone by price.
    pub(super) is_able: bool,
}

impl Tried {
    /// When the call begins, if its time is wanted.
    pub(super) fn begins(&self) -> Option<Instant> {
        (self.turn.is_timed() && self.is_able).then(Instant::now)
    }
}

/// What a trial has found; see [`World::learned`](super::World::learned).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Learned {
    /// The calls that it holds for.
    pub class: Class,
    /// Ranks of the communicator.
    pub size: usize,
    /// The most ranks on one node of the world.
    pub per_node: u32,
    /// The ways that were tried, the first by price, each with its time at the slowest rank (the lower quartile of its calls) in the trial that had it last; none: it could not do such calls.
    pub tried: Vec<(Way, Option<Duration>)>,
    /// The way that is kept.
    pub kept: Way,
}

impl Learned {
    /// A line for a file of the setting `selection`, with what was measured behind it; none where such a line cannot tell these calls from others
    /// (unequal counts).
    pub fn rule(&self) -> Option<String> {
        let rule = self.class.rule(u32::try_from(self.size).ok()?, self.per_node, &self.kept)?;
        Some(format!("{rule} # {}", self.measured()))
    }

    /// The same line, or one like it where there is no rule: for people.
    pub fn line(&self) -> String {
        self.rule().unwrap_or_else(|| {
            let (operation, limit) = (self.class.operation(), self.class.limit());
            let calls = format!("{operation} of unequal counts bytes<={limit} size={}", self.size);
            format!("{calls} -> {} # {}", self.kept, self.measured())
        })
    }

    fn measured(&self) -> String {
        let tried = self.tried.iter().map(|(way, time)| match time {
            Some(time) => format!("{way} {:.1} us", time.as_secs_f64() * 1e6),
            None => format!("{way} not"),
        });
        tried.collect::<Vec<_>>().join(", ")
    }
}
