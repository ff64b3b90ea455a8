//! A record out of text that anything may have written.

use super::event::{Call, Event, EventKind, Missing, NONE, Wait};
use super::{MAGIC, Reading, Record, VERSION, Why};
use std::collections::HashSet;
use std::str::{FromStr, SplitAsciiWhitespace};
use std::sync::Arc;

/// No world has more ranks: they are numbered by 32 bits, the highest of which stands for none.
const MAX_RANKS: u32 = u32::MAX - 1;

/// What was read so far.
#[derive(Default)]
struct Parts {
    rank: Option<(u32, u32)>,
    process: Option<(u32, String)>,
    why: Option<Why>,
    clock: Vec<Reading>,
    lost: Option<u64>,
    error: Option<String>,
    entered: Option<Call>,
    completed: Option<Call>,
    members: Vec<(u64, Vec<u32>)>,
    waits: Vec<Wait>,
    events: Vec<Event>,
    ended: bool,
    /// Each operation's name once.
    names: HashSet<Arc<str>>,
}

/// The words of one line.
struct Words<'a>(SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "the line ends too soon".to_owned())
    }

    fn number<T: FromStr>(&mut self) -> Result<T, String> {
        let word = self.word()?;
        word.parse().map_err(|_| format!("{word:?} is no number that can stand here"))
    }

    /// A number, or `-` for [`NONE`].
    fn perhaps(&mut self) -> Result<u32, String> {
        let mut ahead = Words(self.0.clone());
        match ahead.word()? {
            "-" => {
                self.word()?;
                Ok(NONE)
            }
            _ => self.number(),
        }
    }

    fn is(&mut self, expected: &str) -> Result<(), String> {
        let word = self.word()?;
        if word == expected { Ok(()) } else { Err(format!("{word:?} stands where {expected:?} should")) }
    }

    fn one_of<T: Copy>(&mut self, words: &[(T, &str)], what: &str) -> Result<T, String> {
        let word = self.word()?;
        let found = words.iter().find(|(_, known)| *known == word);
        found.map(|(value, _)| *value).ok_or_else(|| format!("{word:?} is no {what}"))
    }

    fn end(mut self) -> Result<(), String> {
        self.0.next().map_or(Ok(()), |word| Err(format!("{word:?} is one word too many")))
    }
}

impl Record {
    /// Reads what [`Display`](std::fmt::Display) writes.
    ///
    /// # Errors
    /// What is wrong, with its line and byte, when this is no whole record of this version.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let (mut parts, mut at) = (Parts::default(), 0);
        for (i, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
            let wrong = |what: String| format!("line {} (byte {at}): {what}", i + 1);
            let Some(whole) = line.strip_suffix(b"\n") else {
                return Err(wrong("the file was cut here".to_owned()));
            };
            let text = std::str::from_utf8(whole).map_err(|_| wrong("it is no text".to_owned()))?;
            let taken = if i == 0 { first(text) } else { parts.take(text) };
            taken.map_err(wrong)?;
            at += line.len();
        }
        parts.whole().map_err(|what| format!("byte {at}: {what}"))
    }
}

/// The line that tells a record from other files.
fn first(text: &str) -> Result<(), String> {
    let mut words = Words(text.split_ascii_whitespace());
    if words.0.next() != Some(MAGIC) {
        return Err("this is no flight record".to_owned());
    }
    match words.number::<u32>()? {
        VERSION => words.end(),
        other => Err(format!("version {other} of the format; this program reads version {VERSION}")),
    }
}

impl Parts {
    fn take(&mut self, text: &str) -> Result<(), String> {
        if self.ended {
            return Err("something stands behind the end".to_owned());
        }
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mut words = Words(rest.split_ascii_whitespace());
        match word {
            "rank" => {
                let rank = words.number()?;
                words.is("of")?;
                let size = words.number()?;
                if rank >= size || size > MAX_RANKS {
                    return Err(format!("rank {rank} of {size} cannot be"));
                }
                self.rank = Some((rank, size));
            }
            "process" => {
                let process = words.number()?;
                words.is("on")?;
                let host = rest.split_once(" on ").map_or("", |(_, host)| host);
                self.process = Some((process, host.to_owned()));
                return Ok(());
            }
            "why" => self.why = Some(words.one_of(&Why::WORDS, "reason")?),
            "error" => {
                self.error = Some(rest.replace('\r', " "));
                return Ok(());
            }
            "clock" if self.clock.len() < 2 => {
                self.clock.push(Reading { ticks: words.number()?, unix_ns: words.number()? });
            }
            "lost" => self.lost = Some(words.number()?),
            "entered" => self.entered = Some(self.call(&mut words)?),
            "completed" => self.completed = Some(self.call(&mut words)?),
            "members" => {
                let comm = words.number()?;
                let ranks = words.0.map(|w| w.parse().map_err(|_| format!("{w:?} is no rank")));
                self.members.push((comm, ranks.collect::<Result<_, _>>()?));
                return Ok(());
            }
            "waits" => {
                let wait = self.wait(&mut words)?;
                self.waits.push(wait);
            }
            "event" => {
                let event = self.event(&mut words)?;
                self.events.push(event);
            }
            "end" => self.ended = true,
            other => return Err(format!("{other:?} begins no line of a record")),
        }
        words.end()
    }

    fn call(&mut self, words: &mut Words<'_>) -> Result<Call, String> {
        let (comm, sequence, name) = (words.number()?, words.number()?, words.word()?);
        let operation = match self.names.get(name) {
            Some(known) => Arc::clone(known),
            None => {
                let name: Arc<str> = name.into();
                self.names.insert(Arc::clone(&name));
                name
            }
        };
        Ok(Call { comm, sequence, operation })
    }

    fn wait(&mut self, words: &mut Words<'_>) -> Result<Wait, String> {
        let call = self.call(words)?;
        let what = words.one_of(&Missing::WORDS, "thing to miss")?;
        let (peer, round, block) = (words.perhaps()?, words.perhaps()?, words.perhaps()?);
        Ok(Wait { call, what, peer, round, block, bytes: words.number()? })
    }

    fn event(&mut self, words: &mut Words<'_>) -> Result<Event, String> {
        let ticks = words.number()?;
        let kind = words.one_of(&EventKind::WORDS, "kind of event")?;
        let call = self.call(words)?;
        let (peer, round, block) = (words.perhaps()?, words.perhaps()?, words.perhaps()?);
        Ok(Event { ticks, kind, call, peer, round, block })
    }

    fn whole(self) -> Result<Record, String> {
        let lacks = |what: &str| format!("the record has no {what}");
        if !self.ended {
            return Err(lacks("end: it was cut"));
        }
        let (rank, size) = self.rank.ok_or_else(|| lacks("rank"))?;
        let (process, host) = self.process.ok_or_else(|| lacks("process"))?;
        let [start, end] = self.clock[..] else { return Err(lacks("two readings of the clock")) };
        let mut record = Record::new(rank, size, self.why.ok_or_else(|| lacks("reason"))?, start..end);
        record.lost = self.lost.ok_or_else(|| lacks("number of lost events"))?;
        (record.process, record.host, record.error) = (process, host, self.error);
        (record.entered, record.completed) = (self.entered, self.completed);
        (record.members, record.waits, record.events) = (self.members, self.waits, self.events);
        Ok(record)
    }
}
