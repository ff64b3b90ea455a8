//! The lines of PMI-1, for both ends: `cmd=<command> key=value key=value…\n`. Field order differs from
//! launcher to launcher, so fields are found by name, and `value=` reaches to the end of its line.

/// The longest line that either end takes.
pub const LINE_MAX: usize = 64 * 1024;

/// A field of a put to `circulant run`, and what it says of a value that only ranks of this node read: such a value is taken to no other node.
pub const SCOPE: &str = "scope";
/// See [`SCOPE`].
pub const LOCAL_SCOPE: &str = "local";

/// One line, without its newline, split into fields.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    command: &'a [u8],
    /// The fields between the command and `value=`.
    head: &'a [u8],
    value: Option<&'a [u8]>,
}

impl<'a> Line<'a> {
    /// Splits a line. `None` when it does not begin with `cmd=`.
    pub fn parse(raw: &'a [u8]) -> Option<Self> {
        let raw = raw.trim_ascii_end();
        let rest = raw.strip_prefix(b"cmd=")?;
        let (command, rest) = cut(rest);
        let mut at = rest;
        while !at.is_empty() {
            if let Some(value) = at.strip_prefix(b"value=") {
                let head = &rest[..rest.len() - at.len()];
                return Some(Self { command, head, value: Some(value) });
            }
            at = cut(at).1;
        }
        Some(Self { command, head: rest, value: None })
    }

    /// The word after `cmd=`.
    pub fn command(&self) -> &'a [u8] {
        self.command
    }

    /// The field called `name`, up to the next space.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        let mut at = self.head;
        while !at.is_empty() {
            let (word, rest) = cut(at);
            if let Some(v) = word.strip_prefix(name.as_bytes()).and_then(|w| w.strip_prefix(b"=")) {
                return Some(v);
            }
            at = rest;
        }
        None
    }

    /// The field called `name` as text.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.field(name)?).ok()
    }

    /// The field called `name` as a number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// What follows `value=`. Where `rc=` is not in front of it, a ` rc=…` behind it is taken for what it is.
    pub fn value(&self) -> Option<&'a [u8]> {
        let value = self.value?;
        Some(match self.trailing_rc() {
            Some(at) => &value[..at],
            None => value,
        })
    }

    /// The return code: 0 is success. `None` when the line has none.
    pub fn rc(&self) -> Option<i32> {
        if let Some(rc) = self.number("rc") {
            return Some(rc);
        }
        let value = self.value?;
        std::str::from_utf8(&value[self.trailing_rc()? + 4..]).ok()?.parse().ok()
    }

    fn trailing_rc(&self) -> Option<usize> {
        let value = self.value?;
        if self.field("rc").is_some() {
            return None;
        }
        let at = value.iter().rposition(|&b| b == b' ')?;
        let digits = value[at..].strip_prefix(b" rc=")?;
        std::str::from_utf8(digits).ok()?.parse::<i32>().ok().map(|_| at)
    }
}

/// The first word and what follows the space behind it.
fn cut(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|&b| b == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

/// Bytes as they come, lines as they are complete.
#[derive(Debug, Default)]
pub struct Lines {
    buffer: Vec<u8>,
    taken: usize,
}

/// A line is longer than [`LINE_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Lines {
    /// Takes in more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete line, without its newline.
    ///
    /// # Errors
    /// When the line that is arriving is too long already.
    pub fn pop(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        self.pop_within(LINE_MAX)
    }

    /// As [`Lines::pop`], of lines of at most `most` bytes.
    ///
    /// # Errors
    /// When the line that is arriving is too long already.
    pub fn pop_within(&mut self, most: usize) -> Result<Option<Vec<u8>>, TooLong> {
        let rest = &self.buffer[self.taken..];
        match rest.iter().position(|&b| b == b'\n') {
            Some(at) if at <= most => {
                let line = rest[..at].to_vec();
                self.taken += at + 1;
                Ok(Some(line))
            }
            None if rest.len() <= most => Ok(None),
            _ => Err(TooLong),
        }
    }
}

/// A raw line for a message: printable, and not endless.
pub fn quote(raw: &[u8]) -> String {
    let shown = &raw[..raw.len().min(200)];
    let dots = if shown.len() < raw.len() { "…" } else { "" };
    format!("\"{}{dots}\"", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_dialects() {
        for raw in [
            &b"cmd=get_result rc=0 msg=success value=a b=c"[..],
            b"cmd=get_result msg=success value=a b=c rc=0",
            b"cmd=get_result rc=0 value=a b=c ",
        ] {
            let line = Line::parse(raw).unwrap();
            assert_eq!((line.command(), line.rc()), (&b"get_result"[..], Some(0)), "{}", quote(raw));
            assert_eq!(line.value().unwrap(), b"a b=c");
        }
        let line = Line::parse(b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1").unwrap();
        assert_eq!((line.rc(), line.number("pmi_version"), line.value()), (Some(-1), Some(1), None));
        assert!(line.text("version").is_none());
        assert!(Line::parse(b"mcmd=spawn").is_none());
        assert_eq!(Line::parse(b"cmd=get_result rc=0 value=x rc=5").unwrap().value().unwrap(), b"x rc=5");
    }

    #[test]
    fn lines_come_whole_and_bounded() {
        let mut lines = Lines::default();
        lines.push(b"a\nbc");
        assert_eq!(lines.pop(), Ok(Some(b"a".to_vec())));
        assert_eq!(lines.pop(), Ok(None));
        lines.push(b"d\n");
        assert_eq!(lines.pop(), Ok(Some(b"bcd".to_vec())));
        lines.push(&vec![b'x'; LINE_MAX + 1]);
        assert_eq!(lines.pop(), Err(TooLong));
        let mut lines = Lines::default();
        lines.push(b"abc\nabcd");
        assert_eq!((lines.pop_within(3), lines.pop_within(3)), (Ok(Some(b"abc".to_vec())), Err(TooLong)));
    }

    proptest! {
        #[test]
        fn any_bytes(raw in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(line) = Line::parse(&raw) {
                let _ = (line.rc(), line.value(), line.field("key"), line.text(""));
            }
            let _ = quote(&raw);
        }

        #[test]
        fn any_words(words in proptest::collection::vec("(cmd|rc|value|key| )?=?[ -~]{0,6}", 0..8)) {
            let raw = format!("cmd={}", words.join(" "));
            let line = Line::parse(raw.as_bytes()).unwrap();
            let _ = (line.rc(), line.value(), line.field("key"));
        }

        #[test]
        fn lines_are_cut_the_same_however_they_arrive(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            step in 1usize..20,
        ) {
            let mut lines = Lines::default();
            let mut got = Vec::new();
            for part in bytes.chunks(step) {
                lines.push(part);
                while let Ok(Some(line)) = lines.pop() {
                    got.push(line);
                }
            }
            let want: Vec<Vec<u8>> = bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
            prop_assert_eq!(&got[..], &want[..want.len() - 1]);
        }
    }
}
