//! Flight records: what a rank did last, as a file of text that `circulant trace` reads.
//!
//! Each rank keeps its last events in a ring; where the setting `record` names a folder it is written there as
//! `rank-R.record`, see docs/troubleshooting.md. A file has a line per fact, the words of a line with one space between:
//!
//! | line | says |
//! |---|---|
//! | `circulant-record 1` | the first line: this format |
//! | `rank R of P` | whose it is |
//! | `process PID on HOST` | where the rank ran; ranks of one HOST share a clock |
//! | `why WORD` | [`Why`] it was written |
//! | `error TEXT` | the error that ended the world, if one did |
//! | `clock TICKS NS` | twice, at the start of the world and when the file was written: a tick count, and Unix time in ns |
//! | `lost N` | how many events were overwritten before the first one here |
//! | `entered CALL`, `completed CALL` | the last calls; CALL is communicator, sequence number, operation |
//! | `members COMM R …` | the world ranks of a communicator other than the world's, which is 0, in which the rank waits |
//! | `waits CALL WHAT PEER ROUND BLOCK BYTES` | a call under way, and the first thing that it misses ([`Missing`]); `-`: none |
//! | `event TICKS KIND CALL PEER ROUND BLOCK` | in order; KIND is an [`EventKind`], `-`: none |
//! | `end` | the last line: the file is whole |
//!
//! A block is a counter of the operation's plan at the rank that receives, so a put and its arrival have the same number. A
//! reader refuses what it does not know, naming file, line and byte.

mod event;
mod read;
mod write;

pub use event::{Call, Event, EventKind, Missing, NONE, Wait};
use std::ops::Range;

/// The format's version.
const VERSION: u32 = 1;
/// The first word of a file.
const MAGIC: &str = "circulant-record";
/// How the names of files end.
pub const EXTENSION: &str = "record";

/// Why a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The program asked for it.
    Asked,
    /// A signal asked for it.
    Signal,
    /// An error ended the world.
    Error,
    /// The world ended in order.
    End,
}

impl Why {
    /// All, with their words in a file.
    const WORDS: [(Self, &'static str); 4] =
        [(Self::Asked, "asked"), (Self::Signal, "signal"), (Self::Error, "error"), (Self::End, "end")];
}

/// One reading of a rank's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// A count that grows evenly.
    pub ticks: u64,
    /// Nanoseconds since 1970 by the clock of the node.
    pub unix_ns: u64,
}

/// What one rank recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Whose it is.
    pub rank: u32,
    /// How many ranks the world has.
    pub size: u32,
    /// The number of its process.
    pub process: u32,
    /// The node that it ran on.
    pub host: String,
    /// Why it was written.
    pub why: Why,
    /// The error that ended the world.
    pub error: Option<String>,
    /// At the start of the world, and when the record was made.
    pub clock: Range<Reading>,
    /// How many events were overwritten.
    pub lost: u64,
    /// The call that was entered last.
    pub entered: Option<Call>,
    /// The call that was completed last.
    pub completed: Option<Call>,
    /// World ranks of communicators, by number.
    pub members: Vec<(u64, Vec<u32>)>,
    /// The calls under way.
    pub waits: Vec<Wait>,
    /// The last events, in order.
    pub events: Vec<Event>,
}

impl Record {
    /// An empty one.
    pub(crate) fn new(rank: u32, size: u32, why: Why, clock: Range<Reading>) -> Self {
        Self {
            rank,
            size,
            process: 0,
            host: String::new(),
            why,
            error: None,
            clock,
            lost: 0,
            entered: None,
            completed: None,
            members: Vec::new(),
            waits: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Unix time in nanoseconds of a tick count, by the two readings of this record.
    pub fn unix_ns(&self, ticks: u64) -> i64 {
        let Range { start, end } = &self.clock;
        let (from, span) = (i128::from(start.ticks), i128::from(end.ticks) - i128::from(start.ticks));
        let ns = i128::from(end.unix_ns) - i128::from(start.unix_ns);
        let since = match span {
            // Without a second reading a tick counts as a nanosecond.
            ..=0 => i128::from(ticks) - from,
            _ => (i128::from(ticks) - from) * ns / span,
        };
        i64::try_from(i128::from(start.unix_ns) + since).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(sequence: u32) -> Call {
        Call { comm: 0, sequence, operation: "bcast".into() }
    }

    fn example() -> Record {
        let clock = Reading { ticks: 1000, unix_ns: 5_000_000 }..Reading { ticks: 3000, unix_ns: 6_000_000 };
        let mut record = Record::new(2, 9, Why::Error, clock);
        (record.process, record.host) = (77, "node 1".into());
        record.error = Some("rank 2: bcast #3: one\nof two lines".into());
        record.lost = 4;
        (record.entered, record.completed) = (Some(call(3)), Some(call(2)));
        record.members.push((5 << 32 | 1, vec![2, 4, 8]));
        let (peer, round, block) = (4, 1, NONE);
        record.waits.push(Wait { call: call(3), what: Missing::Entry, peer, round, block, bytes: 0 });
        let event = |ticks, kind, peer| Event { ticks, kind, call: call(3), peer, round: 0, block: 7 };
        record.events.push(event(1500, EventKind::Enter, NONE));
        record.events.push(event(2000, EventKind::Arrive, 4));
        record
    }

    #[test]
    fn what_is_written_is_read() {
        let (record, mut read) = (example(), Record::read(example().to_string().as_bytes()).unwrap());
        assert_eq!(read.error.take().unwrap(), "rank 2: bcast #3: one of two lines");
        assert_eq!(read, Record { error: None, ..record });
        assert_eq!(read.unix_ns(2000), 5_500_000);
        assert_eq!(read.unix_ns(0), 4_500_000, "before the first reading");
    }

    /// A file that was cut, or in which a word was changed, is no record; the error names its line.
    #[test]
    fn what_is_damaged_is_refused() {
        let text = example().to_string();
        for cut in 0..text.len() - 1 {
            assert!(Record::read(&text.as_bytes()[..cut]).is_err(), "{:?}", &text[..cut]);
        }
        for (from, to, words) in [
            ("circulant-record 1", "circulant-record 2", "line 1 (byte 0): version 2"),
            ("rank 2 of 9", "rank 9 of 9", "line 2 (byte 19): rank 9 of 9"),
            ("why error", "why not", "line 4"),
            ("lost 4", "lost -4", "\"-4\" is no number"),
            ("Arrive", "arrive", ""),
            (" arrive ", " arrived ", "\"arrived\" is no kind of event"),
            ("event 1500", "evnt 1500", "\"evnt\" begins no line"),
            ("end\n", "end\nend\n", "behind the end"),
            ("rank 2 of 9\n", "", "has no rank"),
        ] {
            let damaged = text.replace(from, to);
            let e = Record::read(damaged.as_bytes()).err();
            assert!(damaged == text || e.as_ref().is_some_and(|e| e.contains(words)), "{from}: {e:?}");
        }
        assert!(Record::read(b"\xff\xfe").unwrap_err().contains("line 1 (byte 0)"));
    }
}
