//! `circulant trace`: flight records of the ranks of a job as one picture: for which rank each waits, which come late, and a timeline.

mod clocks;
mod job;
mod perfetto;
mod spans;
mod svg;
mod tables;
mod waits;

use crate::outcome::{Failure, Out};
use crate::units;
use circulant::record::{EXTENSION, Record};
use clap::Args;
use job::Job;
use std::path::{Path, PathBuf};

/// Longer files are no records: of 16777216 events, as many as there can be, one has half of this.
const MAX_FILE_BYTES: u64 = 4 << 30;

const AFTER_HELP: &str = "\
Records are written where the setting record (--record, CIRCULANT_RECORD) names a folder: on error, at SIGUSR1, which \
circulant run passes on to all ranks, and at the end of the job.

Examples:
  circulant run -n 8 --record records ./program; circulant trace records
  kill -USR1 PID-OF-CIRCULANT-RUN; circulant trace records
  circulant trace records --perfetto job.json --svg job.svg";

/// Say from flight records for which rank each waits, which come late and by how much, and draw what they did
///
/// The text has the calls under way, each with the rank that it waits for and what that rank does; then the operations, with the time
/// between the first and the last rank to enter, and which these were; then the calls in which that was longest, and the
/// ranks. Ranks of one node have one clock. Clocks of several nodes are made to agree by the messages between them, as none
/// arrives before it was sent.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TraceArgs {
    /// Records, or folders of them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Writes a timeline for ui.perfetto.dev, or chrome://tracing
    #[arg(long, value_name = "FILE.json")]
    perfetto: Option<PathBuf>,
    /// Draws a timeline: a row per rank, dark where it is busy in a call and light where it waits
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Of timelines only the last seconds
    #[arg(long, value_name = "S", value_parser = units::seconds_argument)]
    last: Option<f64>,
    /// Rows of the tables of calls and of ranks, at most
    #[arg(long, value_name = "N", default_value = "16")]
    rows: usize,
}

/// Runs the subcommand.
pub(crate) fn run(args: &TraceArgs) -> Result<(), Failure> {
    let job = Job::of(records(&args.files)?)?;
    let mut out = Out::new();
    out.text(&waits::text(&job));
    out.text(&tables::text(&job, args.rows));
    let spans = spans::of(&job, args.last);
    if let Some(path) = &args.perfetto {
        write(path, &perfetto::json(&job, &spans))?;
    }
    if let Some(path) = &args.svg {
        write(path, &svg::drawn(&job, &spans)?)?;
    }
    out.finish()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| Failure::about(path.display(), &e))
}

/// The records in these files, and in the files of these folders that are named as records are.
fn records(paths: &[PathBuf]) -> Result<Vec<Record>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let about = |e| Failure::about(path.display(), &e);
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        for entry in std::fs::read_dir(path).map_err(about)? {
            let file = entry.map_err(about)?.path();
            files.extend(Some(file).filter(|f| f.extension().is_some_and(|e| e == EXTENSION)));
        }
        if files.len() == before {
            return Err(Failure::new(1, format!("{}: no records are there (*.{EXTENSION})", path.display())));
        }
    }
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> Result<Record, Failure> {
    let about = |e| Failure::about(file.display(), &e);
    let len = std::fs::metadata(file).map_err(about)?.len();
    if len > MAX_FILE_BYTES {
        return Err(Failure::new(1, format!("{}: {len} bytes are too many for a record", file.display())));
    }
    let bytes = std::fs::read(file).map_err(about)?;
    Record::read(&bytes).map_err(|what| Failure::new(1, format!("{}: {what}", file.display())))
}
