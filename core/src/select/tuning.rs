//! The tuning file: what `circulant tune` measured, for the model of the wires (the setting `tuning`). It is a small
//! part of TOML: sections, keys with whole numbers or quoted text, comments.
//!
//! ```text
//! [measured]
//! provider = "tcp"      # whose wires these are
//!
//! [between-nodes]
//! latency-ns = 8000     # L
//! overhead-ns = 2500    # o
//! byte-ps = 350         # β
//! ```

use super::wires::REDUCE_PS;
use crate::error::{Error, ErrorKind, Result};
use crate::machine::LogGp;
use std::fmt;

/// The section of the wire between nodes.
pub const BETWEEN: &str = "between-nodes";
/// The section of the wire within a node.
pub const WITHIN: &str = "within-node";

/// A line that the file may have: section, key, whether it is text, what it means.
type Line = (&'static str, &'static str, bool, &'static str);

const LINES: &[Line] = &[
    ("measured", "provider", true, "whose wires these are: over others only [memory] counts"),
    ("measured", "version", true, "of circulant"),
    ("measured", "date", true, "UTC"),
    ("measured", "hosts", false, ""),
    ("measured", "ranks", false, ""),
    (BETWEEN, "latency-ns", false, "L: from the end of sending a byte to its arrival"),
    (BETWEEN, "overhead-ns", false, "o: per put"),
    (BETWEEN, "byte-ps", false, "β: per byte"),
    (WITHIN, "latency-ns", false, "L"),
    (WITHIN, "overhead-ns", false, "o"),
    (WITHIN, "byte-ps", false, "β"),
    ("memory", "reduce-ps", false, "γ: a byte combined into another, of vectors longer than a cache"),
    ("memory", "light-bytes", false, "pieces below this share a put (CIRCULANT_LIGHT)"),
    ("memory", "reduce-cached-ps", false, "γ of vectors in a cache, where ranks share memory"),
    ("memory", "copy-cached-ps", false, "to read: a byte copied in a cache"),
    ("memory", "copy-cold-ps", false, "to read: a byte copied from and to memory"),
    ("memory", "pack-ns", false, "to read: what a light piece costs to pack, besides its bytes"),
];

/// Numbers beyond this are no times of any link (1000 s in nanoseconds, 1 s a byte in picoseconds), and could overflow.
const MAX_NUMBER: u64 = 1_000_000_000_000;
/// Text of more characters is no name. Chosen: `HOST_NAME_MAX` of Linux is 64.
const MAX_TEXT_CHARS: usize = 200;

/// What a tuning file says. Names are `section.key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// In the order of [`LINES`].
    values: Vec<(Line, Value)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number(u64),
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

impl Tuning {
    /// Reads a file's text.
    ///
    /// # Errors
    /// When a line cannot be understood; the message has its number.
    pub fn parse(text: &str) -> Result<Self> {
        let mut tuning = Self::default();
        let mut section: Option<(&'static str, usize)> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let content = without_comment(line).trim();
            if content.is_empty() {
                continue;
            }
            let at = |what: String| wrong(number, &what);
            match content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                Some(name) => {
                    tuning.complete(section)?;
                    section = Some((known_section(name.trim()).map_err(at)?, number));
                }
                None => tuning.line(section.map(|(name, _)| name), content).map_err(at)?,
            }
        }
        tuning.complete(section)?;
        if tuning.text("measured.provider").is_none() && tuning.values.iter().any(|(l, _)| is_wire(l.0)) {
            let what = "CIRCULANT_TUNING: there are figures of a wire, and no provider under [measured]";
            return Err(Error::new(ErrorKind::Config, what).help(HELP));
        }
        tuning.values.sort_by_key(|(line, _)| LINES.iter().position(|l| l == line));
        Ok(tuning)
    }

    fn line(&mut self, section: Option<&'static str>, content: &str) -> std::result::Result<(), String> {
        let (key, value) = content.split_once('=').ok_or_else(|| format!("{content:?} is no key = value"))?;
        let (key, value) = (key.trim(), value.trim());
        let section = section.ok_or_else(|| format!("{key:?} stands in no section"))?;
        let found = LINES.iter().find(|l| l.0 == section && l.1 == key);
        let line = found.ok_or_else(|| {
            let keys: Vec<_> = LINES.iter().filter(|l| l.0 == section).map(|l| l.1).collect();
            format!("[{section}] has no {key:?}; there are {}", keys.join(", "))
        })?;
        if self.values.iter().any(|(other, _)| other == line) {
            return Err(format!("{key:?} is there twice"));
        }
        self.values.push((*line, read(line, value)?));
        Ok(())
    }

    /// A wire has all three figures or none.
    fn complete(&self, section: Option<(&'static str, usize)>) -> Result<()> {
        let Some((section, number)) = section.filter(|(name, _)| is_wire(name)) else { return Ok(()) };
        let lacks = |l: &&Line| l.0 == section && !self.values.iter().any(|(other, _)| other == *l);
        match LINES.iter().find(lacks) {
            Some(line) => Err(wrong(number, &format!("[{section}] lacks {}", line.1))),
            None => Ok(()),
        }
    }

    /// Sets a number. Names that no file has are passed over.
    pub fn set(&mut self, name: &str, number: u64) {
        self.put(name, false, Value::Number(number.min(MAX_NUMBER)));
    }

    /// Sets a text. Quotes and whatever else would not be read again are left out.
    pub fn set_text(&mut self, name: &str, text: &str) {
        let plain: String = text.chars().filter(|c| is_plain(*c)).take(MAX_TEXT_CHARS).collect();
        self.put(name, true, Value::Text(plain));
    }

    fn put(&mut self, name: &str, is_text: bool, value: Value) {
        let Some((section, key)) = name.split_once('.') else { return };
        let Some(line) = LINES.iter().find(|l| (l.0, l.1, l.2) == (section, key, is_text)) else { return };
        self.values.retain(|(other, _)| other != line);
        self.values.push((*line, value));
        self.values.sort_by_key(|(line, _)| LINES.iter().position(|l| l == line));
    }

    /// Sets L, o and β of a link: [`BETWEEN`] or [`WITHIN`].
    pub fn set_link(&mut self, section: &str, link: LogGp) {
        let LogGp { latency_ns, overhead_ns, byte_ps, reduce_ps: _ } = link;
        for (key, value) in [("latency-ns", latency_ns), ("overhead-ns", overhead_ns), ("byte-ps", byte_ps)] {
            self.set(&format!("{section}.{key}"), value);
        }
    }

    /// The number called `section.key`, if the file has it.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|value| if let Value::Number(n) = value { Some(*n) } else { None })
    }

    /// The text called `section.key`, if the file has it.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)
            .and_then(|value| if let Value::Text(text) = value { Some(text.as_str()) } else { None })
    }

    fn get(&self, name: &str) -> Option<&Value> {
        let (section, key) = name.split_once('.')?;
        self.values.iter().find(|(l, _)| (l.0, l.1) == (section, key)).map(|(_, value)| value)
    }

    /// The figures of a link, [`BETWEEN`] or [`WITHIN`], if the file has L, o and β; γ as built in unless the file has it.
    pub fn link(&self, section: &str) -> Option<LogGp> {
        let number = |key: &str| self.number(&format!("{section}.{key}"));
        Some(LogGp {
            latency_ns: number("latency-ns")?,
            overhead_ns: number("overhead-ns")?,
            byte_ps: number("byte-ps")?,
            reduce_ps: self.number("memory.reduce-ps").unwrap_or(REDUCE_PS),
        })
    }
}

/// As a file, with comments.
impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Written by `circulant tune`; CIRCULANT_TUNING=FILE uses it. See docs/tuning.md.")?;
        for same in self.values.chunk_by(|(a, _), (b, _)| a.0 == b.0) {
            writeln!(f, "\n[{}]", same[0].0.0)?;
            for ((_, key, _, text), value) in same {
                let line = format!("{key} = {value}");
                match text.is_empty() {
                    true => writeln!(f, "{line}")?,
                    false => writeln!(f, "{line:<32}# {text}")?,
                }
            }
        }
        Ok(())
    }
}

const HELP: &str = "circulant tune -o FILE writes such a file";

fn wrong(line: usize, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("CIRCULANT_TUNING: line {line}: {what}")).help(HELP)
}

fn is_wire(section: &str) -> bool {
    section == BETWEEN || section == WITHIN
}

fn is_plain(c: char) -> bool {
    !c.is_control() && c != '"' && c != '#' && c != '\\'
}

/// What stands before `#`, which texts never have.
fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or("")
}

fn known_section(name: &str) -> std::result::Result<&'static str, String> {
    let found = LINES.iter().find(|l| l.0 == name).map(|l| l.0);
    found.ok_or_else(|| {
        format!("there is no section [{name}]; there are measured, {BETWEEN}, {WITHIN}, memory")
    })
}

fn read(line: &Line, value: &str) -> std::result::Result<Value, String> {
    let (_, key, is_text, _) = *line;
    if is_text {
        let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let inner = inner.filter(|text| text.chars().all(is_plain) && text.chars().count() <= MAX_TEXT_CHARS);
        return inner
            .map(|text| Value::Text(text.to_owned()))
            .ok_or_else(|| format!("{key} = {value} is no text in quotes"));
    }
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let number = value.parse().ok().filter(|n| digits && *n <= MAX_NUMBER);
    number
        .map(Value::Number)
        .ok_or_else(|| format!("{key} = {value} is no whole number from 0 to {MAX_NUMBER}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINK: LogGp = LogGp { latency_ns: 8000, overhead_ns: 2500, byte_ps: 350, reduce_ps: REDUCE_PS };

    fn whole() -> Tuning {
        let mut t = Tuning::default();
        for (i, line) in LINES.iter().enumerate() {
            let name = format!("{}.{}", line.0, line.1);
            match line.2 {
                true => t.set_text(&name, &format!("text; {i}")),
                false => t.set(&name, i as u64),
            }
        }
        t
    }

    #[test]
    fn what_is_written_is_read_again() {
        let t = whole();
        assert_eq!(t.values.len(), LINES.len());
        assert_eq!(Tuning::parse(&t.to_string()).unwrap(), t);
        let mut t = Tuning::default();
        assert_eq!(Tuning::parse(&t.to_string()).unwrap(), t);
        t.set_link(WITHIN, LINK);
        t.set_text("measured.provider", "tcp;ofi_rxm");
        assert_eq!(Tuning::parse(&t.to_string()).unwrap(), t);
        assert_eq!((t.link(WITHIN), t.link(BETWEEN)), (Some(LINK), None));
        assert_eq!(t.text("measured.provider"), Some("tcp;ofi_rxm"));
        t.set_text("measured.date", "a\"b#c\\\nd");
        assert_eq!(Tuning::parse(&t.to_string()).unwrap().text("measured.date"), Some("abcd"));
    }

    #[test]
    fn order_spaces_and_comments_do_not_matter() {
        let text = "# x\n [ memory ] # y\nreduce-ps=7#z\n\n[measured]\n provider   = \"tcp\"\r\n";
        let t = Tuning::parse(text).unwrap();
        assert_eq!((t.number("memory.reduce-ps"), t.text("measured.provider")), (Some(7), Some("tcp")));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("latency-ns = 4", "line 1: \"latency-ns\" stands in no section"),
            ("\n[wires]", "line 2: there is no section [wires]"),
            ("[memory]\nlatency", "line 2: \"latency\" is no key = value"),
            ("[memory]\nlatency-ns = 4", "line 2: [memory] has no \"latency-ns\"; there are reduce-ps"),
            ("[memory]\nreduce-ps = 4\nreduce-ps = 4", "line 3: \"reduce-ps\" is there twice"),
            ("[memory]\nreduce-ps = 4.5", "line 2: reduce-ps = 4.5 is no whole number"),
            ("[memory]\nreduce-ps = -4", "line 2: reduce-ps = -4 is no whole number"),
            ("[memory]\nreduce-ps = +4", "no whole number"),
            ("[memory]\nreduce-ps =", "no whole number"),
            ("[memory]\nreduce-ps = 99999999999999999999", "no whole number"),
            ("[memory]\nreduce-ps = 1000000000001", "no whole number"),
            ("[measured]\nprovider = tcp", "line 2: provider = tcp is no text in quotes"),
            ("#\n[within-node]\nlatency-ns = 4\n", "line 2: [within-node] lacks overhead-ns"),
            ("[between-nodes]\n[memory]", "line 1: [between-nodes] lacks latency-ns"),
            ("[within-node]\nlatency-ns = 4\noverhead-ns = 1\nbyte-ps = 1", "no provider under [measured]"),
        ] {
            let e = Tuning::parse(text).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Config);
            assert!(e.to_string().contains(said), "{text}: {e}");
        }
    }

    proptest! {
        /// Any text is understood or refused, without a panic; what is understood survives writing.
        #[test]
        fn no_text_is_a_panic(lines in proptest::collection::vec(
            prop_oneof![
                Just("[measured]".to_owned()), Just("[memory]".to_owned()), Just("[within-node]".to_owned()),
                Just("provider = \"tcp\"".to_owned()), "(latency|overhead|reduce)-ns = [0-9]{1,14}",
                "byte-ps ?= ?[0-9]{1,5}", ".{0,20}",
            ], 0..8)) {
            if let Ok(t) = Tuning::parse(&lines.join("\n")) {
                prop_assert_eq!(Tuning::parse(&t.to_string()).unwrap(), t);
            }
        }
    }
}
