//! The launcher behind `circulant run`: starts N ranks on this machine, serves PMI-1 to them, copies what
//! they print, and ends the job when a rank fails. One thread does everything but copying, sleeping in
//! epoll; it must be the process's main thread, because a rank dies with the thread that started it.

mod end;
mod job;
mod output;
mod pmi;
mod poll;
mod signals;
mod spawn;

pub use job::run;
pub use pmi::{Outcome, Pmi};
pub use spawn::{EXEC, WATCH, exec_main, watch_main};

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many ranks, at least 1.
    pub ranks: usize,
    /// The program: a path, already looked up.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables for the ranks beside those of this process.
    pub environment: Vec<(String, OsString)>,
    /// Whether lines of the output begin with `[rank] `.
    pub label: bool,
    /// How long the whole job may take.
    pub timeout: Option<Duration>,
    /// How long the others may go on when a rank failed.
    pub grace: Duration,
}

/// Exit code of a job that took longer than [`Options::timeout`].
pub const EXIT_TIMEOUT: u8 = 124;
