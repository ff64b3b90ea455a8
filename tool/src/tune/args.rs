//! The command line of `circulant tune`.

use crate::bench::operations::Operation;
use crate::units;
use clap::Args;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Measured are L, o and β of raw puts, between two ranks on different nodes and between two on one node, as far as the \
job has such; and what memory does: γ of a sum, copies, and packing of light pieces. Run it on a machine that does \
nothing else, started as the jobs are that will use the file: with the same provider and over the same network. All \
jobs with CIRCULANT_TUNING=FILE choose by these figures; only rank 0 needs the file. See docs/tuning.md.

Examples:
  circulant run -n 4 tune -o cluster.tuning
  circulant run -n 8 tune --verify
  CIRCULANT_TUNING=cluster.tuning circulant run -n 8 tune --keep --verify --ops allgatherv --bytes 1M
  CIRCULANT_TUNING=cluster.tuning circulant run -n 8 tune --keep";

/// Measure the wires and memory, for choosing algorithms by (one process per rank)
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TuneArgs {
    /// Write the figures to this file, for CIRCULANT_TUNING [default: print them]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(short, long, requires = "output")]
    pub(super) force: bool,
    /// Measure no wire: show the figures that calls choose by now
    #[arg(long, conflicts_with = "output")]
    pub(super) keep: bool,
    /// Run the algorithms that are chosen and the next best by price, and compare prices with times
    #[arg(long)]
    pub(super) verify: bool,
    /// Operations to verify, with commas between
    #[arg(long, value_name = "OP,…", value_delimiter = ',', requires = "verify", value_parser = operation,
          default_value = "bcast,allgatherv,allreduce,reduce_scatter,alltoall")]
    pub(super) ops: Vec<&'static Operation>,
    /// Sizes to verify (K, M, G decimal; Ki, Mi, Gi binary)
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "verify", value_parser = units::size_argument,
          default_value = "64,4K,100K,1M")]
    pub(super) bytes: Vec<u64>,
    /// How many algorithms to run at each point, at most
    #[arg(long, value_name = "N", requires = "verify", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) candidates: u8,
    /// Seconds that the repetitions of one algorithm may take together
    #[arg(long, value_name = "S", requires = "verify", default_value = "0.2", value_parser = units::seconds_argument)]
    pub(super) time: f64,
}

fn operation(name: &str) -> Result<&'static Operation, String> {
    let found = Operation::find(name).filter(|o| o.registered().is_some() && !o.between());
    found.ok_or_else(|| {
        format!("there is no operation {name:?} to verify; `circulant bench --help` lists them")
    })
}
