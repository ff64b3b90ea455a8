//! The tool, run as users run it.
//! One binary, which is linked once; tests are named by their file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

mod arguments;
mod doctor;
mod examples;
mod limits;
mod log;
mod mpi_cli;
mod schedule_cli;
mod select_cli;
mod sim_cli;
mod tool;
mod trace_cli;
mod tune_cli;
