//! A record as text.

use super::event::{Call, Event, Missing, NONE, Wait};
use super::{MAGIC, Record, VERSION, Why};
use std::fmt::{self, Display, Formatter};

/// A number, or none.
struct OrNone(u32);

impl Display for OrNone {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == NONE { f.write_str("-") } else { self.0.fmt(f) }
    }
}

/// `COMM SEQUENCE OPERATION`.
struct Words<'a>(&'a Call);

impl Display for Words<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.0.comm, self.0.sequence, self.0.operation)
    }
}

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{MAGIC} {VERSION}")?;
        writeln!(f, "rank {} of {}", self.rank, self.size)?;
        writeln!(f, "process {} on {}", self.process, self.host)?;
        let word = Why::WORDS.iter().find(|(why, _)| *why == self.why).map_or("", |(_, word)| word);
        writeln!(f, "why {word}")?;
        if let Some(error) = &self.error {
            writeln!(f, "error {}", error.replace(['\n', '\r'], " "))?;
        }
        for reading in [self.clock.start, self.clock.end] {
            writeln!(f, "clock {} {}", reading.ticks, reading.unix_ns)?;
        }
        writeln!(f, "lost {}", self.lost)?;
        for (word, call) in [("entered", &self.entered), ("completed", &self.completed)] {
            if let Some(call) = call {
                writeln!(f, "{word} {}", Words(call))?;
            }
        }
        for (comm, ranks) in &self.members {
            write!(f, "members {comm}")?;
            ranks.iter().try_for_each(|rank| write!(f, " {rank}"))?;
            writeln!(f)?;
        }
        self.waits.iter().try_for_each(|wait| wait_line(f, wait))?;
        self.events.iter().try_for_each(|event| event_line(f, event))?;
        writeln!(f, "end")
    }
}

fn wait_line(f: &mut Formatter<'_>, wait: &Wait) -> fmt::Result {
    let what = Missing::WORDS.iter().find(|(what, _)| *what == wait.what).map_or("", |(_, word)| word);
    let [peer, round, block] = [wait.peer, wait.round, wait.block].map(OrNone);
    writeln!(f, "waits {} {what} {peer} {round} {block} {}", Words(&wait.call), wait.bytes)
}

fn event_line(f: &mut Formatter<'_>, event: &Event) -> fmt::Result {
    let [peer, round, block] = [event.peer, event.round, event.block].map(OrNone);
    let (kind, call) = (event.kind.word(), Words(&event.call));
    writeln!(f, "event {} {kind} {call} {peer} {round} {block}", event.ticks)
}
