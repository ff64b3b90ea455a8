//! How a call ends that does not run here to its end.

use crate::report::Reason;
use circulant::Error;
use std::ffi::c_int;

/// `MPI_SUCCESS`, in every ABI.
pub(crate) const SUCCESS: c_int = 0;

/// Why a call does not run here to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It goes to the MPI. All ranks find the same, or the arguments are wrong.
    Pass(Reason),
    /// A function of the MPI failed, and has called the error handler.
    Code(c_int),
    /// Ours failed.
    Failed(Box<Error>),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Self::Failed(Box::new(e))
    }
}

/// A count as MPI passes it.
pub(crate) fn count(count: impl Into<i64>) -> Result<usize, Stop> {
    usize::try_from(count.into()).map_err(|_| Stop::Pass(Reason::Arguments))
}
