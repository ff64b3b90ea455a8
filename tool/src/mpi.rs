//! `circulant mpi`: an MPI program whose collectives run here.

use crate::outcome::Failure;
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that is preloaded (the crate `circulant-mpi`).
const LIBRARY: &str = "libcirculant_mpi.so";

const AFTER_HELP: &str = "\
The variable LD_PRELOAD is set for the command, which gives it to the ranks: mpiexec of MPICH and of Intel, and srun, to all of them; \
mpirun of Open MPI to those of its own host, and to others with -x LD_PRELOAD among its options.

CIRCULANT_MPI_REPORT=1 prints at the end what was taken and what was passed on to the MPI, CIRCULANT_MPI_TAKE=allgatherv:8K-,bcast \
chooses operations and sizes, CIRCULANT_MPI=0 leaves everything to the MPI.

Examples:
  circulant mpi -- mpiexec -n 4 ./program
  CIRCULANT_MPI_REPORT=1 circulant mpi -- mpirun -n 4 python program.py
  circulant mpi --library /opt/lib/libcirculant_mpi.so -- srun -n 64 ./program";

/// Run an unmodified MPI program with its collectives taken: preloads libcirculant_mpi.so
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MpiArgs {
    /// The library to preload; else it is looked for beside this tool and in ../lib
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The command that starts the program, with its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Becomes the command; returns only if it cannot.
pub(crate) fn run(args: &MpiArgs) -> Failure {
    let library = match library(args.library.as_deref()) {
        Ok(library) => library,
        Err(failure) => return failure,
    };
    let Some((program, rest)) = args.command.split_first() else { return Failure::usage("say what to run") };
    let mut command = Command::new(program);
    command.args(rest).env("LD_PRELOAD", preloaded(&library, std::env::var_os("LD_PRELOAD").as_deref()));
    Failure::about(program.to_string_lossy(), &command.exec())
}

/// The library as an absolute path: ranks may run elsewhere.
fn library(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return named.canonicalize().map_err(|e| Failure::about(named.display(), &e));
    }
    let tool = std::env::current_exe().map_err(|e| Failure::about("this tool's own path", &e))?;
    let folder = tool.parent().unwrap_or(Path::new("."));
    let places = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    let found = places.iter().find_map(|p| p.canonicalize().ok());
    found.ok_or_else(|| {
        let text =
            format!("there is no {LIBRARY} in {} or in ../lib; name it by --library", folder.display());
        Failure::new(1, text)
    })
}

/// What is preloaded already stays, behind the library.
fn preloaded(library: &Path, before: Option<&OsStr>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(before) = before.filter(|b| !b.is_empty()) {
        all.push(":");
        all.push(before);
    }
    all
}
