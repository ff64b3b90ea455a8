//! What ranks say about the errors that ended their worlds, over the side channel, and how that keeps standard error
//! short: the errors that ranks were merely told are left out there, as the summary at the end names those ranks.

use circulant::error::{BELOW, BESIDE};
use circulant::launch::side::Report;
use circulant::launch::wire::Lines;
use std::io::{ErrorKind as Io, Read};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

/// The ranks of this host, by their places among them.
#[derive(Debug, Default)]
pub(super) struct Reports(Vec<Mutex<Channel>>);

#[derive(Debug)]
struct Channel {
    side: Arc<UnixStream>,
    lines: Lines,
    /// The first thing that it said.
    said: Option<Report>,
    closed: bool,
}

impl Reports {
    pub(super) fn new(sides: impl Iterator<Item = Arc<UnixStream>>) -> Self {
        let channel = |side| Channel { side, lines: Lines::default(), said: None, closed: false };
        Self(sides.map(|side| Mutex::new(channel(side))).collect())
    }

    /// What the rank at `at` has said by now. Never waits.
    pub(super) fn of(&self, at: usize) -> Option<Report> {
        let mut channel = self.0.get(at)?.lock().unwrap_or_else(PoisonError::into_inner);
        channel.read();
        channel.said.clone()
    }
}

impl Channel {
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        while self.said.is_none() && !self.closed {
            match (&*self.side).read(&mut buffer) {
                Ok(len) if len > 0 => self.lines.push(&buffer[..len]),
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) if e.kind() == Io::WouldBlock => return,
                _ => self.closed = true,
            }
            // A line without end is none of ours.
            while let Ok(Some(line)) = self.lines.pop() {
                self.said = self.said.take().or_else(|| Report::parse(&line));
            }
        }
    }
}

/// Leaves the error that a rank was told out of what it prints.
#[derive(Debug, Default)]
pub(super) struct Fold {
    /// The last line was that error, whose remedy may stand in the next.
    below: bool,
}

impl Fold {
    /// `lines`, which are whole, without those that are the error of `report` and nothing else. What a program wraps into
    /// words of its own stays.
    pub(super) fn rest(&mut self, report: &Report, lines: &[u8]) -> Vec<u8> {
        let mut rest = Vec::with_capacity(lines.len());
        for line in lines.split_inclusive(|&b| b == b'\n') {
            let text = std::str::from_utf8(line).unwrap_or("").trim_end();
            let below = std::mem::take(&mut self.below);
            if below && text.strip_prefix(BELOW) == Some(&report.remedy) {
                continue;
            }
            match behind_a_word(text).strip_prefix(&*report.text) {
                Some("") => self.below = true,
                Some(more) if more.strip_prefix(BESIDE) == Some(&report.remedy) => {}
                _ => rest.extend_from_slice(line),
            }
        }
        rest
    }
}

/// What stands behind `Error: `, `circulant: ` and the like.
fn behind_a_word(line: &str) -> &str {
    match line.split_once(": ") {
        Some((word, rest)) if !word.is_empty() && !word.contains(char::is_whitespace) => rest,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn report() -> Report {
        let (text, remedy) =
            ("rank 0: bcast #1: no (reported by rank 2)".to_owned(), "do it right".to_owned());
        Report { told_by: Some(2), culprit: None, gone: false, text, remedy }
    }

    #[test]
    fn only_the_error_itself_is_left_out() {
        let told = "rank 0: bcast #1: no (reported by rank 2)";
        for (lines, rest) in [
            (format!("a\nError: {told}\n  help: do it right\nb\n"), "a\nb\n".to_owned()),
            (format!("{told}\n{told}; do it right\ncirculant: {told}; do it right\n"), String::new()),
            (format!("{told}\n  help: do something else\n"), "  help: do something else\n".to_owned()),
        ] {
            assert_eq!(String::from_utf8(Fold::default().rest(&report(), lines.as_bytes())).unwrap(), rest);
        }
        for stays in ["step 7: ", "x: step: "].map(|before| format!("{before}{told}\n")) {
            assert_eq!(Fold::default().rest(&report(), stays.as_bytes()), stays.as_bytes());
        }
        for stays in [
            "  help: do it right\n",
            "Error: rank 0: bcast #1: no\n",
            &format!("{told}!\n"),
            "\n\n",
            "\u{e9}\n",
        ] {
            assert_eq!(Fold::default().rest(&report(), stays.as_bytes()), stays.as_bytes());
        }
        // The remedy may come with the next piece.
        let mut fold = Fold::default();
        assert_eq!(fold.rest(&report(), format!("Error: {told}\n").as_bytes()), b"");
        assert_eq!(fold.rest(&report(), b"  help: do it right\nx\n"), b"x\n");
    }

    #[test]
    fn the_first_report_counts_and_nothing_waits() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let reports = Reports::new(std::iter::once(Arc::new(ours)));
        assert_eq!((reports.of(0), reports.of(1)), (None, None));
        theirs.write_all(b"nonsense\n").unwrap();
        let other = Report { text: "other".to_owned(), ..report() };
        theirs.write_all(format!("{}{}", report().line(), other.line()).as_bytes()).unwrap();
        assert_eq!(reports.of(0), Some(report()));
        drop(theirs);
        assert_eq!(reports.of(0), Some(report()));
    }

    proptest! {
        #[test]
        fn other_bytes_stay(lines in proptest::collection::vec("[^\n\u{0}]{0,30}\n", 0..5), raw in any::<Vec<u8>>()) {
            let all = lines.concat();
            prop_assert_eq!(Fold::default().rest(&report(), all.as_bytes()), all.as_bytes());
            prop_assert_eq!(Fold::default().rest(&report(), &raw), raw);
        }
    }
}
