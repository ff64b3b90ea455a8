//! What tests of several binaries share: cases of every collective with what they must give, ranks as threads, mixed traffic.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "for tests, which may panic"
)]

pub mod allgather;
pub mod chaos;
pub mod collective;
pub mod exercise;
pub mod huge;
pub mod ranks;
pub mod soak;
pub mod survivors;
pub mod traffic;
