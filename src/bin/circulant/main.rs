//! The `circulant` tool.

mod schedule;

use std::process::ExitCode;

use clap::Parser;

/// Round-optimal collectives over one-sided puts, without MPI.
#[derive(Parser)]
#[command(version)]
enum Command {
    Schedule(schedule::ScheduleArgs),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Schedule(args) => schedule::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("circulant: {error}");
            ExitCode::FAILURE
        }
    }
}
