//! The pure part of [circulant](https://docs.rs/circulant): what is computed, before anything is sent.
//!
//! | module | what it holds |
//! |---|---|
//! | [`schedule`] | the schedules on circulant graphs of Träff: which block goes to which rank in which round |
//! | [`plan`] | what every rank does in an operation, the algorithms, their proof by interpretation, and their simulation |
//! | [`select`] | the choice of an algorithm and a number of blocks by a model of the network |
//! | [`ops`] | element types, operators, and the loops that reduce |
//! | [`machine`] | nodes and links by their parameters (LogGP), for the simulator and the choice |
//! | [`error`] | the one error type |
//!
//! Nothing here does I/O, knows a clock or contains unsafe code; it builds for `wasm32-unknown-unknown`. The crate
//! `circulant` re-exports all of it.
#![forbid(unsafe_code)]

pub mod error;
pub mod machine;
pub mod ops;
pub mod plan;
pub mod schedule;
pub mod select;

mod bytes;

pub use bytes::parse_bytes;
pub use error::{Error, ErrorKind, Result};
