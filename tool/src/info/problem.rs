//! Something that is wrong or slow, and what to do about it.

use circulant::Error;
use serde::{Deserialize, Serialize};

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Problem {
    /// Nothing works, or not as wished; otherwise it only costs time.
    pub(crate) serious: bool,
    pub(crate) what: String,
    /// What to do about it; empty when `what` says it.
    pub(crate) remedy: String,
}

impl Problem {
    pub(crate) fn serious(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { serious: true, what: what.into(), remedy: remedy.into() }
    }

    pub(crate) fn slow(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { serious: false, what: what.into(), remedy: remedy.into() }
    }

    /// An error that says itself what to do.
    pub(crate) fn of(e: &Error) -> Self {
        Self::serious(e.to_string(), "")
    }
}
