//! The settings of one process.

use super::forced::ForcedLimits;
use super::format::{Refused, nearest};
use super::library::Library;
use super::table::{SETTINGS, Scope, Setting, Values};
use super::unknown::unknown;
use crate::error::{Error, ErrorKind, Result};
use crate::select;
use std::ffi::OsStr;
use std::ops::Deref;

/// The settings of one process. Each is a field of [`Values`]: `config.deadline`.
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) values: Values,
    /// The names of settings that are not left at their defaults.
    given: Vec<&'static str>,
    /// What cannot be understood, by the name of a setting or of a variable.
    faults: Vec<(String, Error)>,
    /// What the file of the setting `selection` says.
    pub(super) selection_text: String,
    /// What the file of the setting `tuning` says, at rank 0.
    pub(super) tuning_text: String,
    /// What the file of the setting `groups` says, at rank 0.
    pub(super) groups_text: String,
}

impl Deref for Config {
    type Target = Values;

    fn deref(&self) -> &Values {
        &self.values
    }
}

impl Config {
    /// Defaults only, whatever the environment says.
    pub fn defaults() -> Self {
        Self {
            values: Values::defaults(),
            given: Vec::new(),
            faults: Vec::new(),
            selection_text: String::new(),
            tuning_text: String::new(),
            groups_text: String::new(),
        }
    }

    /// Defaults, overridden by the environment; a variable that is set to nothing counts as not set. What cannot be
    /// understood, such as a variable that begins with `CIRCULANT_` and is not known, is an error when a world begins, which
    /// all ranks are told of ([`Config::check`]).
    pub fn from_env() -> Self {
        let mut config = Self::defaults();
        for (variable, value) in std::env::vars_os().filter(|(_, value)| !value.is_empty()) {
            config.take(&variable, &value);
        }
        config.faults.sort_by(|a, b| a.0.cmp(&b.0));
        config
    }

    /// Takes what a variable of the environment says.
    fn take(&mut self, variable: &OsStr, value: &OsStr) {
        let Some(setting) = SETTINGS.iter().find(|s| variable == s.variable) else {
            let name = variable.to_string_lossy();
            self.faults.extend(unknown(&name).map(|e| (name.into_owned(), e)));
            return;
        };
        let text = value.to_str().ok_or_else(|| {
            let what = format!("{}: its value is not Unicode", setting.variable);
            Error::new(ErrorKind::Config, what).help(setting.text)
        });
        if let Err(e) = text.and_then(|text| self.read(setting, text)) {
            self.faults.push((setting.name.to_owned(), e));
        }
    }

    /// Sets `name` to what `text` says.
    ///
    /// # Errors
    /// When there is no such setting, when it cannot have this value, or when it names a library to load: that is for
    /// [`Config::set_libfabric`] and the like.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let setting = setting(name)?;
        match setting.scope {
            Scope::Library => {
                let what =
                    format!("{}: it names a library to load, which no safe call can do", setting.variable);
                Err(Error::new(ErrorKind::Config, what).help(format!(
                    "set the variable where the program is started, or pass the library to Builder::{}",
                    setting.name
                )))
            }
            Scope::Agreed | Scope::Local => self.read(setting, text),
        }
    }

    /// As [`Config::set`], with an error kept for when a world begins ([`Config::check`]).
    pub fn set_deferred(&mut self, name: &str, text: &str) {
        if let Err(e) = self.set(name, text) {
            self.faults.push((name.to_owned(), e));
        }
    }

    /// Loads this library for libfabric.
    pub fn set_libfabric(&mut self, library: Library) {
        self.values.libfabric = library;
        self.give("libfabric");
    }

    /// Loads this library for PMIx.
    pub fn set_libpmix(&mut self, library: Library) {
        self.values.libpmix = library;
        self.give("libpmix");
    }

    /// Loads this library for the PMI of Slurm or PALS.
    pub fn set_libpmi(&mut self, library: Library) {
        self.values.libpmi = library;
        self.give("libpmi");
    }

    fn read(&mut self, setting: &'static Setting, text: &str) -> Result<()> {
        self.values.read(setting.name, text).map_err(|why| refused(setting, text, &why))?;
        self.give(setting.name);
        Ok(())
    }

    /// The setting `name` has a value that it was given; what was wrong with it before does not count any more.
    fn give(&mut self, name: &'static str) {
        self.faults.retain(|(of, _)| of != name);
        if !self.is_given(name) {
            self.given.push(name);
        }
    }

    /// Whether the setting `name` is not left at its default.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// What could not be understood; such settings have their defaults.
    pub fn faults(&self) -> impl Iterator<Item = &Error> {
        self.faults.iter().map(|(_, e)| e)
    }

    /// Whether all was understood.
    ///
    /// # Errors
    /// The first of [`Config::faults`].
    pub fn check(&self) -> Result<()> {
        self.faults().next().map_or(Ok(()), |e| Err(e.clone()))
    }

    /// Whether the setting `name` was understood.
    ///
    /// # Errors
    /// When it was not, or when there is no such setting.
    pub fn check_one(&self, name: &str) -> Result<()> {
        let setting = setting(name)?;
        let fault = self.faults.iter().find(|(of, _)| of == setting.name);
        fault.map_or(Ok(()), |(_, e)| Err(e.clone()))
    }

    /// All settings, each with its value in canonical form.
    pub fn texts(&self) -> impl Iterator<Item = (&'static Setting, String)> {
        SETTINGS.iter().map(|s| (s, self.values.text(s.name)))
    }

    /// Those whose values are not the defaults.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Setting, String)> {
        self.texts().filter(|(s, value)| value != s.default)
    }

    /// What selection goes by. The files must be [loaded](Config::load).
    pub fn choices(&self) -> select::Settings {
        select::Settings {
            algorithm: self.algorithm.clone(),
            rules: self.selection_text.clone(),
            reproducible: self.reproducible,
            tuning: self.tuning_text.clone(),
            latency_ns: self.latency,
            overhead_ns: self.overhead,
            byte_ps: self.byte_time,
            light_bytes: self.light,
            probe: self.probe,
        }
    }
}

/// Whether a process may have this variable: one that does not begin with `CIRCULANT_`, one that tells a process its rank, or
/// a setting that can have this value.
///
/// # Errors
/// When it may not, with the nearest variable or value if there is one like it.
pub fn check_variable(name: &OsStr, value: &OsStr) -> Result<()> {
    let mut config = Config::defaults();
    config.take(name, value);
    config.check()
}

/// The setting called `name`.
fn setting(name: &str) -> Result<&'static Setting> {
    SETTINGS.iter().find(|s| s.name == name).ok_or_else(|| {
        let help = match nearest(name, SETTINGS.iter().map(|s| s.name)) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "circulant info lists them".to_owned(),
        };
        Error::new(ErrorKind::Config, format!("there is no setting {name:?}")).help(help)
    })
}

#[cold]
fn refused(setting: &Setting, text: &str, why: &Refused) -> Error {
    let part = if setting.name == "limits" { ForcedLimits::wrong_part(text) } else { None };
    let (text, allowed) = part.unwrap_or((text, why.allowed));
    let what = format!("{}: {text:?} is not {allowed}", setting.variable);
    let help = why.near.map_or_else(|| setting.text.to_owned(), |near| format!("did you mean {near:?}?"));
    Error::new(ErrorKind::Config, what).help(help)
}
