//! Every setting, in one table: name, environment variable, flag, type, default, text. The tool prints it,
//! `circulant run` turns its flags into these variables, and rank 0's values of those that must agree are
//! published at start-up and compared.

mod agreed;
mod forced;
mod format;
mod library;
mod process;
mod table;
#[cfg(test)]
mod tests;
mod unknown;
mod values;

pub use circulant_core::parse_bytes;
pub use forced::ForcedLimits;
pub use library::Library;
pub use process::{Config, check_variable};
pub use table::{SETTINGS, Scope, Setting, Values};
pub use unknown::{LAUNCH_VARIABLES, MPI_VARIABLES, SIDE_VARIABLE};
pub use values::{
    Grouping, Interfaces, Launcher, Logging, Network, OnFailure, Progress, Provider, Sources, Wait,
};

use std::time::Duration;

/// As long as anything may take, where no limit is set: 100 years, which every clock can count.
pub const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
