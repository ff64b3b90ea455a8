//! The side channel: beside PMI, `circulant run` gives each rank a socket on which it says, in a line
//! `gone <rank> <how>`, which ranks ended. A rank says there why its world ended.

use super::wire::Lines;
use super::{Gone, fd};
use crate::error::Error;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

/// Names the side channel: `<descriptor>:<name of the key-value space>`. The second part tells a rank's
/// own channel from one inherited through another launcher.
pub use crate::config::SIDE_VARIABLE as VARIABLE;

/// A rank's end of the side channel.
#[derive(Debug)]
pub(super) struct Side {
    stream: Option<UnixStream>,
    lines: Lines,
    gone: VecDeque<Gone>,
    /// All that were ever told.
    told: Vec<usize>,
    /// Our own error was said.
    reported: bool,
}

impl Side {
    /// The channel that belongs to the key-value space `kvsname`, if there is one.
    pub(super) fn of(value: &str, kvsname: &str) -> Option<Self> {
        let (number, name) = value.split_once(':')?;
        if name != kvsname {
            return None;
        }
        let stream = fd::adopt_socket(number.parse::<RawFd>().ok()?).ok()?;
        stream.set_nonblocking(true).ok()?;
        let (gone, told) = (VecDeque::new(), Vec::new());
        Some(Self { stream: Some(stream), lines: Lines::default(), gone, told, reported: false })
    }

    /// Whether some rank is known to be gone that [`Side::take`] did not give yet. Never waits.
    pub(super) fn peek(&mut self) -> Option<&Gone> {
        self.read();
        self.gone.front()
    }

    /// The next rank that is gone. Never waits.
    pub(super) fn take(&mut self) -> Option<Gone> {
        self.read();
        self.gone.pop_front()
    }

    fn read(&mut self) {
        let mut buffer = [0; 1024];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut buffer) {
                Ok(len) if len > 0 => self.lines.push(&buffer[..len]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                _ => self.stream = None,
            }
        }
        while let Ok(Some(line)) = self.lines.pop() {
            let gone = parse(&line);
            self.told.extend(gone.iter().map(|g| g.rank));
            self.gone.extend(gone);
        }
    }

    /// Says why our world ended; the first word counts. Never waits.
    pub(super) fn report(&mut self, error: &Error) {
        if std::mem::replace(&mut self.reported, true) {
            return;
        }
        self.read();
        let gone = error.peer().is_some_and(|peer| self.told.contains(&peer));
        if let Some(stream) = &mut self.stream {
            // A launcher that does not read, or is gone, gets none.
            let _ = stream.write_all(Report::of(error, gone).line().as_bytes());
        }
    }
}

/// What a rank says about the error that ended its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The rank that told it, if it did not meet the error itself.
    pub told_by: Option<usize>,
    /// The rank at fault.
    pub culprit: Option<usize>,
    /// The launcher had told it that this one is gone.
    pub gone: bool,
    /// The error as the program prints it, without its remedy.
    pub text: String,
    /// What to do about it.
    pub remedy: String,
}

/// Stands between an error and its remedy.
const SEPARATOR: char = '\u{1f}';

/// Longer texts, in characters, are cut: a socket takes this much at once, and so does a line of ours.
const TEXT_MAX: usize = 7000;

impl Report {
    fn of(error: &Error, gone: bool) -> Self {
        // An error is one line, and so is its remedy, but for what a provider or a user put in.
        let clean = |text: &str| {
            let plain = |c: char| if matches!(c, '\n' | '\r' | SEPARATOR) { ' ' } else { c };
            text.chars().take(TEXT_MAX).map(plain).collect()
        };
        Self {
            told_by: error.reporter(),
            culprit: error.peer(),
            gone,
            text: clean(&error.headline()),
            remedy: clean(error.remedy().unwrap_or("")),
        }
    }

    /// Whether another told it, so that its own words say nothing new.
    pub fn is_told(&self) -> bool {
        self.told_by.is_some() || self.gone
    }

    /// As it goes over the channel.
    pub fn line(&self) -> String {
        let number = |n: Option<usize>| n.map_or("-".to_owned(), |n| n.to_string());
        let (told_by, culprit, gone) = (number(self.told_by), number(self.culprit), u8::from(self.gone));
        format!("error {told_by} {culprit} {gone} {}{SEPARATOR}{}\n", self.text, self.remedy)
    }

    /// What such a line (without its end) says.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(line).ok()?.strip_prefix("error ")?.splitn(4, ' ');
        let mut number = || match words.next()? {
            "-" => Some(None),
            n => n.parse::<usize>().ok().map(Some),
        };
        let (told_by, culprit, gone) = (number()?, number()?, number()? == Some(1));
        let (text, remedy) = words.next()?.split_once(SEPARATOR)?;
        Some(Self { told_by, culprit, gone, text: text.to_owned(), remedy: remedy.to_owned() })
    }
}

/// The line that says that `rank` is gone.
pub fn line(rank: usize, how: &str) -> String {
    format!("gone {rank} {}\n", how.replace('\n', " "))
}

fn parse(line: &[u8]) -> Option<Gone> {
    let (rank, how) = std::str::from_utf8(line).ok()?.strip_prefix("gone ")?.split_once(' ')?;
    Some(Gone { rank: rank.parse().ok()?, how: how.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn says_who_is_gone_and_never_waits() {
        let (theirs, mut ours) = UnixStream::pair().unwrap();
        let value = format!("{}:job", theirs.as_raw_fd());
        assert!(Side::of(&value, "other").is_none());
        let mut side = Side::of(&value, "job").unwrap();
        drop(theirs);
        assert!(side.take().is_none());
        ours.write_all(b"gone 3 killed by sig").unwrap();
        assert!(side.take().is_none());
        ours.write_all(b"nal 9\nnonsense\ngone x y\n").unwrap();
        let gone = Gone { rank: 3, how: "killed by signal 9".into() };
        assert_eq!(side.peek(), Some(&gone));
        assert_eq!(side.take(), Some(gone));
        ours.write_all(line(1, "exited\nbadly").as_bytes()).unwrap();
        drop(ours);
        assert_eq!(side.take(), Some(Gone { rank: 1, how: "exited badly".into() }));
        assert!(side.take().is_none() && side.stream.is_none());
    }

    #[test]
    fn a_report_comes_back() {
        let error = |text: &str| Error::new(crate::error::ErrorKind::Timeout, text).at_rank(4).over("tcp");
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut side = Side::of(&format!("{}:job", theirs.as_raw_fd()), "job").unwrap();
        (&ours).write_all(line(1, "killed").as_bytes()).unwrap();
        side.report(&error("two\nlines").with_peer(1).help("wait"));
        side.report(&error("another"));
        drop((side, theirs));
        let mut said = String::new();
        (&ours).read_to_string(&mut said).unwrap();
        let first = Report::parse(said.strip_suffix('\n').unwrap().as_bytes()).unwrap();
        assert_eq!((first.told_by, first.culprit, first.gone, first.is_told()), (None, Some(1), true, true));
        assert_eq!(first.text, "rank 4: two lines (peer 1, provider tcp)");
        assert_eq!(first.remedy, "wait");
        let long = Report::of(&error(&"\u{e9}".repeat(20_000)).reported_by(3), false);
        assert_eq!((long.told_by, long.text.chars().count()), (Some(3), TEXT_MAX));
        assert_eq!(Report::parse(long.line().trim_end_matches('\n').as_bytes()), Some(long));
    }

    proptest! {
        #[test]
        fn any_report(raw in proptest::collection::vec(any::<u8>(), 0..60), text in "error( [0-9-]{0,3}){0,4}[ -~\u{1f}]{0,20}") {
            let _ = Report::parse(&raw);
            if let Some(report) = Report::parse(text.as_bytes()) {
                prop_assert_eq!(Report::parse(report.line().trim_end_matches('\n').as_bytes()), Some(report));
            }
        }

        #[test]
        fn any_line(raw in proptest::collection::vec(any::<u8>(), 0..60), text in "gone [ -~]{0,20}") {
            let _ = (parse(&raw), parse(text.as_bytes()));
        }
    }
}
