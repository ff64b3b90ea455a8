//! `circulant.Error`: an error of the library with its parts as attributes.

use circulant::ErrorKind;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

pyo3::create_exception!(
    circulant,
    Error,
    PyRuntimeError,
    "A call has failed. It is final for the world: all ranks get it, and later calls fail at once; but where survived (bool) is true, the \
     communicator has ended and the world goes on (Comm.Shrink).\n\n\
     Attributes: kind (str), message (str), survived, rank, peer, operation, sequence, round, provider, reporter, remedy (each None where \
     it is not known)."
);

/// The exception for an error of the library.
pub(crate) fn raised(py: Python<'_>, e: &circulant::Error) -> PyErr {
    let error = Error::new_err(e.to_string());
    match describe(error.value(py).as_any(), e) {
        Ok(()) => error,
        Err(e) => e,
    }
}

fn describe(value: &Bound<'_, PyAny>, e: &circulant::Error) -> PyResult<()> {
    value.setattr("kind", kind(e.kind()))?;
    value.setattr("message", e.message())?;
    value.setattr("survived", e.is_survived())?;
    value.setattr("rank", e.rank())?;
    value.setattr("peer", e.peer())?;
    value.setattr("operation", e.operation().map(|(name, _)| name))?;
    value.setattr("sequence", e.operation().map(|(_, sequence)| sequence))?;
    value.setattr("round", e.round())?;
    value.setattr("reporter", e.reporter())?;
    value.setattr("remedy", e.remedy())
}

/// The class of a failure in words.
fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Argument => "argument",
        ErrorKind::Mismatch => "mismatch",
        ErrorKind::Timeout => "timeout",
        ErrorKind::PeerLost => "peer lost",
        ErrorKind::Aborted => "aborted",
        ErrorKind::Transport => "transport",
        ErrorKind::Launch => "launch",
        ErrorKind::Config => "config",
        ErrorKind::Library => "library",
        ErrorKind::System => "system",
        ErrorKind::Revoked => "revoked",
        _ => "other",
    }
}
