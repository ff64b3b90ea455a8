//! The `circulant` tool.

mod run;
mod schedule;

use clap::Parser;
use std::process::ExitCode;

/// Round-optimal collectives over one-sided puts, without MPI.
#[derive(Debug, Parser)]
#[command(version)]
enum Tool {
    /// Start a program as several ranks on this machine.
    Run(run::RunArgs),
    Schedule(schedule::ScheduleArgs),
}

fn main() -> ExitCode {
    if let Some(code) = run::own_use() {
        return code;
    }
    let done = match Tool::parse() {
        Tool::Run(args) => return run::main(args),
        Tool::Schedule(args) => schedule::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("circulant: {error}");
            ExitCode::FAILURE
        }
    }
}
