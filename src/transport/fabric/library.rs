//! Loads libfabric and sets, once and before it looks, what the environment does not say.

use super::{Options, quirks};
use crate::error::{Error, ErrorKind, Result};
use libfabric_sys::{Api, fi_info};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// One environment variable that matters to libfabric, and what set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its value; `None` when it is not set.
    pub value: Option<String>,
    /// It was set by us, not by the user.
    pub ours: bool,
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(v) if self.ours => write!(f, "{}={v} (preset)", self.name),
            Some(v) => write!(f, "{}={v}", self.name),
            None => write!(f, "{} not set, since threads were running already", self.name),
        }
    }
}

/// libfabric, loaded, and the environment it found.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) api: &'static Api,
    pub(super) environment: Vec<Variable>,
}

static LIBRARY: Mutex<Option<&'static Library>> = Mutex::new(None);

/// The variables that were set here, not by the user.
static OURS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Sets what libfabric should find in its environment in a job of `size` ranks, as opening a [`super::Fabric`] does, but now:
/// to be called before the library of a launcher, or anything else, starts threads. What the user set stays; with other
/// threads running nothing is set.
pub fn prepare(size: usize, ports: Option<(u16, u16)>) {
    let _ = preset(size, ports);
}

/// Loads the library of `options`. The first call decides about the environment.
pub(super) fn library(options: &Options<'_>) -> Result<&'static Library> {
    let mut found = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: its name is of the environment, or of a caller that promises that it is libfabric (`config::Library`).
    let api = unsafe { Api::load(options.libfabric.name()) }.map_err(|e| {
        let text = e.to_string();
        let (what, help) = text.split_once("; ").unwrap_or((&text, ""));
        Error::new(ErrorKind::Library, what).help(format!("{help} (CIRCULANT_LIBFABRIC)"))
    })?;
    // libfabric looks at its environment in the first fi_getinfo, which is still to come.
    let fresh = || Library { api, environment: preset(options.size, options.ports) };
    let library: &'static Library = found.get_or_insert_with(|| Box::leak(Box::new(fresh())));
    match library.environment.iter().find(|v| v.value.is_none() && v.name.ends_with("_RANGE")) {
        Some(v) if options.ports.is_some() => Err(Error::new(
            ErrorKind::Config,
            format!("CIRCULANT_PORTS: {} cannot be set, since threads were running already", v.name),
        )
        .help("make the World before starting threads, or set that variable where the job is started")),
        _ => Ok(library),
    }
}

fn preset(size: usize, ports: Option<(u16, u16)>) -> Vec<Variable> {
    let mut set = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    let alone = only_thread();
    quirks::presets(size)
        .chain(ports.into_iter().flat_map(quirks::ports))
        .map(|(name, value)| match std::env::var_os(name) {
            Some(v) => {
                let value = Some(v.to_string_lossy().into_owned());
                Variable { name, value, ours: set.contains(&name) }
            }
            None if alone => {
                // SAFETY: changing the environment is a data race only with another thread that reads it,
                // and /proc/self/task shows this one alone; no other can appear but by its doing.
                unsafe { std::env::set_var(name, &value) };
                set.push(name);
                Variable { name, value: Some(value), ours: true }
            }
            None => Variable { name, value: None, ours: false },
        })
        .collect()
}

/// Whether this process has just one thread; no, when that cannot be found out.
fn only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

impl Library {
    /// Registrations are not cached: closing one really ends it.
    pub(super) fn uncached(&self) -> bool {
        self.environment.iter().any(|v| v.name == "FI_MR_CACHE_MAX_COUNT" && v.value.as_deref() == Some("0"))
    }

    /// "1.17", "2.5".
    pub(super) fn version(&self) -> String {
        let (major, minor) = self.api.version();
        format!("{major}.{minor}")
    }

    /// An error of libfabric's call `what`, which answered `code`.
    pub(super) fn error(&self, what: &str, code: i64) -> Error {
        Error::new(ErrorKind::Transport, format!("{what}: {} ({code})", self.api.strerror(code)))
    }
}

/// One entry of fi_getinfo's list, ours to keep.
#[derive(Debug)]
pub(super) struct Info {
    entry: *mut fi_info,
    api: &'static Api,
}

// SAFETY: the entry is plain memory that only this value points to; the library does not care which thread
// reads or frees it.
unsafe impl Send for Info {}

impl Info {
    /// Takes over `entry`, a single entry.
    ///
    /// # Safety
    /// `entry` is null or a whole entry (all attributes present) made by `api`'s library, owned by nothing
    /// else.
    pub(super) unsafe fn own(entry: *mut fi_info, api: &'static Api) -> Option<Self> {
        (!entry.is_null()).then_some(Self { entry, api })
    }

    pub(super) fn as_ptr(&self) -> *mut fi_info {
        self.entry
    }

    /// The entry, to read.
    pub(super) fn get(&self) -> &fi_info {
        // SAFETY: `own` promised a valid entry; it is freed only by drop, and changed only by calls that
        // take `as_ptr` while no such reference lives (open, on a value it owns).
        unsafe { &*self.entry }
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: owned, and made by this library (`own`).
        unsafe { self.api.freeinfo(self.entry) }
    }
}
