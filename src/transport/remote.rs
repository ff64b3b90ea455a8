//! The wire between nodes, by the name that the setting `provider` gives: RDMA hardware by itself, or libfabric.

use super::fabric::{self, Interfaces};
use super::{Transport, rails};
use crate::error::Result;

#[cfg(feature = "verbs")]
use super::verbs;

/// What an endpoint of either is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    /// Our rank.
    pub(crate) rank: u32,
    /// What libfabric is told; the name, the number of ranks and how to wait count for both.
    pub(crate) fabric: fabric::Options<'a>,
    pub(crate) interfaces: &'a Interfaces,
}

/// Whether this name means RDMA hardware by itself.
fn native(name: &str) -> bool {
    name == NATIVE
}

/// The name of the transport that speaks verbs itself.
pub(crate) const NATIVE: &str = "ibverbs";

/// An endpoint.
///
/// # Errors
/// As [`rails::open`] and `verbs::Verbs::open`.
pub(crate) fn open(options: &Options<'_>) -> Result<Box<dyn Transport>> {
    match native(options.fabric.provider) {
        true => open_native(options),
        false => rails::open(&options.fabric, options.interfaces),
    }
}

/// Whether there is such a provider.
///
/// # Errors
/// When there is none, or its library cannot be loaded.
pub(crate) fn check(options: &fabric::Options<'_>) -> Result<()> {
    match native(options.provider) {
        true => check_native(),
        false => fabric::check(options),
    }
}

#[cfg(feature = "verbs")]
fn open_native(options: &Options<'_>) -> Result<Box<dyn Transport>> {
    let mut of = verbs::Options::new(options.rank, options.fabric.size);
    of.wait = options.fabric.wait;
    Ok(Box::new(verbs::Verbs::open(&of)?))
}

#[cfg(feature = "verbs")]
fn check_native() -> Result<()> {
    verbs::available()
}

#[cfg(not(feature = "verbs"))]
fn open_native(_: &Options<'_>) -> Result<Box<dyn Transport>> {
    Err(left_out())
}

#[cfg(not(feature = "verbs"))]
fn check_native() -> Result<()> {
    Err(left_out())
}

#[cfg(not(feature = "verbs"))]
fn left_out() -> crate::error::Error {
    let what = format!("this build has no {NATIVE}: it was made without the feature `verbs`");
    crate::error::Error::new(crate::error::ErrorKind::Config, what)
}
