//! `circulant cast` and `circulant collect`: files between ranks, whole and verified or not at all.

pub(crate) mod cast;
mod catalogue;
pub(crate) mod collect;
mod entry;
mod staged;
mod stream;

pub(crate) use cast::CastArgs;
pub(crate) use collect::CollectArgs;
pub(crate) use staged::{Staged, vacant};
