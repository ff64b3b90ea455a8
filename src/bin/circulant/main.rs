//! The tool.

mod run;

use clap::Parser;
use std::process::ExitCode;

/// Round-optimal collectives over one-sided puts, without MPI.
#[derive(Debug, Parser)]
#[command(version)]
enum Tool {
    /// Start a program as several ranks on this machine.
    Run(run::RunArgs),
}

fn main() -> ExitCode {
    if let Some(code) = run::own_use() {
        return code;
    }
    match Tool::parse() {
        Tool::Run(args) => run::main(args),
    }
}
