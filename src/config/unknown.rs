//! Environment variables that look like settings and are none.

use super::format::nearest;
use super::table::SETTINGS;
use crate::error::{Error, ErrorKind};

/// What every variable of this library begins with.
const PREFIX: &str = "CIRCULANT_";

/// The variables that tell a process its rank where no launcher does ([`crate::launch::environment`]).
pub const LAUNCH_VARIABLES: [&str; 6] = [
    "CIRCULANT_RANK",
    "CIRCULANT_SIZE",
    "CIRCULANT_ROOT",
    "CIRCULANT_JOB",
    "CIRCULANT_JOB_FILE",
    "CIRCULANT_MUNGE",
];

/// Set by `circulant run` for its ranks: the side channel ([`crate::launch::side`]).
pub const SIDE_VARIABLE: &str = "CIRCULANT_SIDE_FD";

/// What the library reads that is preloaded into MPI programs (the crate `circulant-mpi`): whether it takes calls, which, whether it
/// reports them, and whether the MPI makes progress in calls that wait.
pub const MPI_VARIABLES: [&str; 4] =
    ["CIRCULANT_MPI", "CIRCULANT_MPI_TAKE", "CIRCULANT_MPI_REPORT", "CIRCULANT_MPI_PROGRESS"];

/// The error of a variable that looks like a setting and is none.
pub(super) fn unknown(variable: &str) -> Option<Error> {
    let settings = SETTINGS.iter().map(|s| s.variable);
    let known = settings.chain(LAUNCH_VARIABLES).chain([SIDE_VARIABLE]).chain(MPI_VARIABLES);
    let rest = variable.strip_prefix(PREFIX)?;
    if known.clone().any(|name| name == variable) {
        return None;
    }
    let names = known.filter_map(|name| name.strip_prefix(PREFIX));
    let help = match nearest(rest, names) {
        Some(near) => format!("did you mean {PREFIX}{near}?"),
        None => "circulant info lists all settings".to_owned(),
    };
    let what = format!("{variable} is set, and no setting has that name");
    Some(Error::new(ErrorKind::Config, what).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_told() {
        for (name, near) in [
            ("CIRCULANT_PROVDER", "did you mean CIRCULANT_PROVIDER?"),
            ("CIRCULANT_DEADLIEN", "did you mean CIRCULANT_DEADLINE?"),
            ("CIRCULANT_RNK", "did you mean CIRCULANT_RANK?"),
            ("CIRCULANT_MPI_REPRT", "did you mean CIRCULANT_MPI_REPORT?"),
            ("CIRCULANT_", "circulant info"),
            ("CIRCULANT_MY_OWN_VARIABLE", "circulant info"),
        ] {
            let e = unknown(name).unwrap();
            assert!(e.to_string().contains(name) && e.to_string().contains(near), "{e}");
        }
        for name in [
            "CIRCULANT_RANK",
            "CIRCULANT_SIDE_FD",
            "CIRCULANT_MPI",
            "CIRCULANT_LOG",
            "PATH",
            "circulant_log",
            "CIRCULANT",
        ] {
            assert!(unknown(name).is_none(), "{name}");
        }
    }
}
