//! Settings that all ranks must agree on, and the files that three of them name.

use super::process::Config;
use super::table::{SETTINGS, Scope, Setting};
use super::values::Grouping;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digest;

/// The name under which rank 0's version is published.
const VERSION: &str = "version";

/// The name under which the digest of the selection's file is published.
const DIGEST: &str = "selection-digest";

/// The name under which the text of the tuning file is published, and what stands there between its lines.
const TUNING: &str = "tuning-text";
const SEPARATOR: &str = "\u{1e}";

/// The longest tuning file: one has about twenty lines.
const MAX_TUNING_BYTES: u64 = 64 << 10;

/// The longest file of groups. Chosen: 65 536 nodes with a line of 64 characters each.
const MAX_GROUPS_BYTES: u64 = 4 << 20;

impl Config {
    /// Reads the files of the settings `selection`, `tuning` and `groups`, if there are any.
    ///
    /// # Errors
    /// When a setting was not understood ([`Config::check`]), or a file cannot be read.
    pub fn load(&mut self) -> Result<()> {
        self.check()?;
        self.tuning_text = match &self.tuning {
            None => String::new(),
            Some(path) => read_short(path, MAX_TUNING_BYTES).map_err(|what| {
                Error::new(ErrorKind::Config, format!("CIRCULANT_TUNING: {path}: {what}"))
                    .help("rank 0 reads it; circulant tune -o FILE writes it")
            })?,
        };
        self.groups_text = match &self.groups {
            Grouping::File(path) => read_short(path, MAX_GROUPS_BYTES).map_err(|what| {
                Error::new(ErrorKind::Config, format!("CIRCULANT_GROUPS: {path}: {what}"))
                    .help("rank 0 reads it: lines such as n[1-16] group1")
            })?,
            _ => String::new(),
        };
        self.load_selection()
    }

    fn load_selection(&mut self) -> Result<()> {
        self.selection_text = match &self.selection {
            None => String::new(),
            Some(path) => std::fs::read_to_string(path).map_err(|e| {
                Error::new(ErrorKind::Config, format!("CIRCULANT_SELECTION: {path}: {e}"))
                    .help("every rank reads it: put it where all nodes see it")
            })?,
        };
        Ok(())
    }

    /// The text of the file of rules, once it is [loaded](Config::load).
    pub fn selection_text(&self) -> &str {
        &self.selection_text
    }

    /// The text of the tuning file: at rank 0 once it is [loaded](Config::load), elsewhere once it was
    /// [adopted](Config::adopt).
    pub fn tuning_text(&self) -> &str {
        &self.tuning_text
    }

    /// The text of the file of groups: at rank 0 once it is [loaded](Config::load).
    pub fn groups_text(&self) -> &str {
        &self.groups_text
    }

    /// Takes this for the text of the tuning file.
    pub fn set_tuning_text(&mut self, text: impl Into<String>) {
        self.tuning_text = text.into();
    }

    /// The settings that ranks must agree on, in canonical form, as text to publish and compare.
    pub fn agreed(&self) -> String {
        let mut out = format!(
            "{VERSION}={}\n{DIGEST}={:016x}\n",
            env!("CARGO_PKG_VERSION"),
            digest(self.selection_text.as_bytes())
        );
        for s in SETTINGS.iter().filter(|s| s.scope == Scope::Agreed) {
            out.push_str(&format!("{}={}\n", s.name, self.values.text(s.name)));
        }
        if !self.tuning_text.is_empty() {
            // In one line; the figures only, with their lines' numbers.
            let lines: Vec<_> =
                self.tuning_text.lines().map(|l| l.split('#').next().unwrap_or("").trim()).collect();
            out.push_str(&format!("{TUNING}={}\n", lines.join(SEPARATOR)));
        }
        out
    }

    /// Takes rank 0's values (as [`Config::agreed`] writes them) for the settings that must agree and were
    /// not set here: launchers differ in which variables reach other nodes. Reads the file of `selection`; that of
    /// `tuning` comes from rank 0.
    ///
    /// # Errors
    /// When a setting was not understood ([`Config::check`]) or was set here to something else, the versions differ, or the
    /// file says something else.
    pub fn adopt(&mut self, agreed: &str) -> Result<()> {
        self.check()?;
        let mut digest_0 = None;
        for line in agreed.lines() {
            let Some((name, value)) = line.split_once('=') else { continue };
            match name {
                VERSION if value != env!("CARGO_PKG_VERSION") => {
                    let ours = env!("CARGO_PKG_VERSION");
                    return Err(mismatch(format!("rank 0 runs version {value}, we run {ours}")));
                }
                DIGEST => digest_0 = Some(value),
                TUNING => self.tuning_text = value.replace(SEPARATOR, "\n"),
                _ => {
                    if let Some(s) = SETTINGS.iter().find(|s| s.name == name && s.scope == Scope::Agreed) {
                        self.adopt_value(s, value)?;
                    }
                }
            }
        }
        self.load_selection()?;
        if digest_0.is_some_and(|theirs| theirs != format!("{:016x}", digest(self.selection_text.as_bytes())))
        {
            let path = self.selection.as_deref().unwrap_or("none");
            return Err(mismatch(format!("the file {path} (CIRCULANT_SELECTION) is another one at rank 0")));
        }
        Ok(())
    }

    fn adopt_value(&mut self, s: &Setting, value: &str) -> Result<()> {
        let mine = self.values.text(s.name);
        let taken =
            if self.is_given(s.name) { mine == value } else { self.values.read(s.name, value).is_ok() };
        match taken {
            true => Ok(()),
            false => Err(mismatch(format!("{} is {value:?} at rank 0 and {mine:?} here", s.variable))),
        }
    }
}

#[cold]
fn mismatch(what: String) -> Error {
    Error::new(ErrorKind::Mismatch, what)
        .with_peer(0)
        .help("give all ranks the same CIRCULANT_ variables and the same binary")
}

/// A file that a person could have written.
fn read_short(path: &str, most: u64) -> Result<String, String> {
    let about = std::fs::metadata(path).map_err(|e| e.to_string())?;
    match about.len() {
        _ if !about.is_file() => Err("it is no file".to_owned()),
        size if size > most => Err(format!("{size} bytes are too many for a file of settings")),
        _ => std::fs::read_to_string(path).map_err(|e| e.to_string()),
    }
}
