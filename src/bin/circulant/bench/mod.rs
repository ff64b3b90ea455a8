//! `circulant bench`: collectives by the rivals' protocol, beside what the wire itself would take.

mod check;
pub(crate) mod dist;
mod operations;
pub(crate) mod plot;
mod points;
mod table;

use crate::outcome::{Failure, Out, leave};
use crate::units;
use circulant::World;
use circulant::comm::Options;
use circulant::plan::registry;
use clap::Args;
use dist::{DISTS, Dist};
use indicatif::{ProgressBar, ProgressStyle};
use operations::{How, OPERATIONS, Operation};
use points::{Lab, MemoryKind, Point, Row};
use std::path::PathBuf;
use std::time::Duration;
use table::{Format, Setting, Table};

/// Most repetitions that make sense; each keeps 16 bytes per rank at every rank.
const MOST_REPS: u64 = 1_000_000;

const EXAMPLES: &str = "\
Examples:
  circulant run -n 8 bench bcast --bytes 1K,64K,1M
  circulant run -n 8 bench bcast,allgatherv --check --stats
  circulant run -n 9 bench allgatherv --dist spike,irr3 --bytes 1M --plot allgatherv.svg
  circulant run -n 2 bench put,bcast --bytes 4,1K,1M,16M
  circulant run -n 8 bench bcast --format csv --label tcp > tcp.csv
  srun -n 64 circulant bench bcast --blocks 12 --time 5";

/// Time collectives, beside what the wire itself would take
///
/// For every repetition all ranks pass a barrier, each times the operation, and the slowest one counts. Shown
/// are the smallest and the median repetition, and the smallest span (latest end − earliest start; meaningful
/// where all ranks read one clock, that is on one machine). One or two untimed runs come first and set the
/// number of repetitions. Beside each time stands the reference C = βm + q(L+o), with latency L, overhead o per
/// put and time per byte β of a raw put between ranks 0 and 1, measured in the same run, and q = ⌈log2 P⌉.
/// C is not a lower bound.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = after_long_help())]
pub(crate) struct BenchArgs {
    /// What to time: any of bcast, allgatherv, allgather, barrier, put, with commas between
    #[arg(value_name = "OP,…", value_delimiter = ',', required = true, value_parser = operation)]
    ops: Vec<&'static Operation>,
    /// Sizes in bytes (K, M, G decimal; Ki, Mi, Gi binary) [default: 4, 8, 40, 80, 400, … 4M]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = units::size_argument)]
    bytes: Vec<u64>,
    /// Distributions of the bytes over the ranks, for allgatherv [default: all seven]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = distribution)]
    dist: Vec<&'static Dist>,
    /// Root rank of bcast
    #[arg(long, value_name = "R", default_value_t = 0)]
    root: usize,
    /// Most repetitions per point
    #[arg(short, long, value_name = "N", default_value_t = 35, value_parser = clap::value_parser!(u64).range(1..=MOST_REPS))]
    reps: u64,
    /// Seconds that the repetitions of a point may take together; at least 3 are made
    #[arg(short, long, value_name = "S", default_value = "1", value_parser = units::seconds_argument)]
    time: f64,
    /// Blocks per message: a number from 1, or auto
    #[arg(long, value_name = "N", default_value = "auto", value_parser = blocks)]
    blocks: Choice<u32>,
    /// Algorithm by its registry name, or auto
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = algorithm)]
    algorithm: Choice<String>,
    /// Memory that is sent from and received into
    #[arg(long, value_enum, default_value_t)]
    memory: MemoryKind,
    /// Seconds that one call may take before it fails on every rank [default: CIRCULANT_DEADLINE]
    #[arg(long, value_name = "S", value_parser = units::seconds_argument)]
    deadline: Option<f64>,
    /// Verify every byte of every point, outside the timing, on arena and plain memory; exit code 3 if wrong
    #[arg(short, long)]
    check: bool,
    /// Count puts, bytes on the wire, bytes copied by our code, heap allocations and rounds of one operation
    #[arg(long)]
    stats: bool,
    /// Initialise each point once and start it for every repetition (bcast and allgatherv, arena memory)
    #[arg(long)]
    persistent: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    format: Format,
    /// Draw time against size, both logarithmic, with the reference, into this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Last column of the CSV, and the plot's title
    #[arg(long, value_name = "TEXT", default_value = "circulant", value_parser = label)]
    label: String,
}

/// A value or `auto`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice<T>(Option<T>);

fn after_long_help() -> String {
    let mut text = "What a size means:\n".to_owned();
    for o in OPERATIONS {
        text += &format!("  {:<12}{}\n", o.name, o.sizes);
    }
    text += "\nDistributions (the last rank with a share takes what the rounding leaves; for irr3 the last rank):\n";
    for d in DISTS {
        text += &format!("  {:<12}{}\n", d.name, d.about);
    }
    text += "\nAlgorithms (n blocks, q = ⌈log2 P⌉ rounds):\n";
    let can = |a: &&registry::Algorithm| Operation::find(a.operation.name()).is_some();
    for a in registry::all().filter(can) {
        text +=
            &format!("  {:<12}{:<19}{} rounds; {}\n", a.operation.name(), a.name, a.rounds, a.restrictions);
    }
    text + "\n" + EXAMPLES
}

fn operation(name: &str) -> Result<&'static Operation, String> {
    Operation::find(name).ok_or_else(|| {
        format!("there is no operation {name:?}; there are {}", OPERATIONS.map(|o| o.name).join(", "))
    })
}

fn distribution(name: &str) -> Result<&'static Dist, String> {
    Dist::find(name).ok_or_else(|| {
        format!("there is no distribution {name:?}; there are {}", DISTS.map(|d| d.name).join(", "))
    })
}

fn blocks(text: &str) -> Result<Choice<u32>, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(Choice(None)),
        (_, Ok(n)) if n > 0 => Ok(Choice(Some(n))),
        _ => Err("it must be a whole number from 1, or auto".to_owned()),
    }
}

#[allow(clippy::unnecessary_wraps)] // as clap wants it
fn algorithm(text: &str) -> Result<Choice<String>, String> {
    Ok(Choice(Some(text.to_owned()).filter(|t| t != "auto")))
}

fn label(text: &str) -> Result<String, String> {
    match text.contains([',', '"', '\n', '\r']) {
        true => Err("it must not contain commas, quotes or line ends: it stands in a CSV column".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// The rivals' default: 4, 8, 40, 80, … below 4 Mi.
fn default_sizes() -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut bytes = 4;
    while bytes <= 4 << 20 {
        sizes.push(bytes);
        bytes *= if sizes.len() % 2 == 1 { 2 } else { 5 };
    }
    sizes
}

/// Every point, in the order of the command line.
fn plan(args: &BenchArgs) -> Vec<Point> {
    let sizes = if args.bytes.is_empty() { default_sizes() } else { args.bytes.clone() };
    let dists = if args.dist.is_empty() { DISTS.iter().collect() } else { args.dist.clone() };
    let mut points = Vec::new();
    for &op in &args.ops {
        let dists = if op.irregular { dists.iter().map(|d| Some(*d)).collect() } else { vec![None] };
        for dist in dists {
            let sizes = if op.sized { sizes.as_slice() } else { &[0] };
            points.extend(sizes.iter().map(|&bytes| Point { op, dist, bytes }));
        }
    }
    points
}

/// What can be known to be wrong before any data moves. All ranks find the same.
fn refuse(args: &BenchArgs, points: &[Point], p: usize) -> Result<(), Failure> {
    if args.root >= p {
        return Err(Failure::usage(format!(
            "root {} is out of range: there are ranks 0 to {}",
            args.root,
            p - 1
        )));
    }
    let is_put = |o: &&&'static Operation| matches!(o.how, How::Put);
    if p == 1 && args.ops.iter().any(|o| is_put(&o)) {
        return Err(Failure::usage("put needs two ranks: circulant run -n 2 bench put"));
    }
    if let Some(name) = &args.algorithm.0 {
        for o in args.ops.iter().filter(|o| !is_put(o)) {
            known_algorithm(o, name)?;
        }
    }
    if args.persistent {
        let without = |o: &&&Operation| matches!(o.how, How::Collective { init: None, .. } | How::Put);
        if let Some(o) = args.ops.iter().find(without) {
            return Err(Failure::usage(format!(
                "there is no persistent {}; bcast and allgatherv have one",
                o.name
            )));
        }
        if args.memory == MemoryKind::Plain {
            return Err(Failure::usage("persistent operations own their memory, which is arena memory"));
        }
    }
    if args.plot.is_some() && !points.iter().any(|x| x.op.sized && x.bytes > 0) {
        return Err(Failure::usage("there is nothing to plot: no operation with a size above 0"));
    }
    Ok(())
}

/// The library's entry of an operation.
fn registered(op: &Operation) -> Option<registry::Operation> {
    registry::Operation::ALL.into_iter().find(|o| o.name() == op.name)
}

fn known_algorithm(op: &Operation, name: &str) -> Result<(), Failure> {
    let found = registered(op).map_or(Ok(()), |o| registry::algorithm(o, name).map(|_| ()));
    Ok(found?)
}

/// Runs the subcommand.
pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    let points = plan(args);
    let world = World::init()?;
    let done = refuse(args, &points, world.size())
        .map_err(Failure::everywhere)
        .and_then(|()| all_points(args, &world, &points));
    leave(world, done)?.map_or(Ok(()), Report::finish)
}

fn all_points<'a>(
    args: &'a BenchArgs,
    world: &World,
    points: &[Point],
) -> Result<Option<Report<'a>>, Failure> {
    // Blocks and algorithm are for what is timed, not for barriers and gathered times.
    let deadline = args.deadline.map(Duration::from_secs_f64);
    let comm = &world.comm().with(Options { deadline, ..Options::default() });
    let chosen = Options {
        deadline,
        blocks: args.blocks.0,
        algorithm: args.algorithm.0.clone(),
        ..Options::default()
    };
    let lab = Lab {
        world,
        comm,
        timed: &world.comm().with(chosen),
        wire: comm.wire()?,
        root: args.root,
        reps: usize::try_from(args.reps).unwrap_or(usize::MAX),
        time: args.time,
        memory: args.memory,
        persistent: args.persistent,
        check: args.check,
        stats: args.stats,
    };
    let mut report = (world.rank() == 0).then(|| Report::new(args, setting(args, &lab), points));
    for point in points {
        let go_on = report.as_mut().is_none_or(|r| r.next(point));
        match points::measure(&lab, point, go_on)? {
            Some(row) => report.iter_mut().for_each(|r| r.row(&row)),
            None => break,
        }
    }
    Ok(report)
}

fn setting(args: &BenchArgs, lab: &Lab<'_>) -> Setting {
    Setting {
        label: args.label.clone(),
        p: lab.world.size(),
        nodes: lab.world.nodes().iter().max().map_or(1, |n| n + 1),
        provider: lab.world.provider().to_owned(),
        launcher: lab.world.launcher().to_owned(),
        memory: args.memory.name(),
        persistent: args.persistent,
        root: args.root,
        latency_ns: lab.wire.latency_ns,
        overhead_ns: lab.wire.overhead_ns,
        byte_ns: lab.wire.byte_ns,
    }
}

/// What rank 0 shows.
struct Report<'a> {
    args: &'a BenchArgs,
    setting: Setting,
    out: Out,
    table: Table,
    bar: ProgressBar,
    rows: Vec<Row>,
}

impl<'a> Report<'a> {
    fn new(args: &'a BenchArgs, setting: Setting, points: &[Point]) -> Self {
        let table = Table::new(points, args.stats);
        let mut out = Out::new();
        match args.format {
            Format::Table => out.line(&table.head()),
            Format::Csv => out.line(table::CSV_HEAD),
            Format::Json => {}
        }
        // Hidden by itself unless standard error is a terminal.
        let bar = ProgressBar::new(points.len() as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} points, {msg} ({elapsed})") {
            bar.set_style(style);
        }
        Self { args, setting, out, table, bar, rows: Vec::new() }
    }

    /// Says what is measured now; whether anybody still wants to know.
    fn next(&mut self, point: &Point) -> bool {
        self.bar.set_message(format!("{} {} {}", point.op.name, point.dist_name(), units::size(point.bytes)));
        !self.out.closed()
    }

    fn row(&mut self, row: &Row) {
        let line = match self.args.format {
            Format::Table => Some(self.table.row(row)),
            Format::Csv => Some(table::csv(row, &self.setting.label)),
            Format::Json => None,
        };
        if let Some(line) = line {
            let out = &mut self.out;
            self.bar.suspend(|| out.line(&line));
        }
        self.rows.push(row.clone());
        self.bar.inc(1);
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        match self.args.format {
            Format::Table => self.out.text(&table::footer(&self.setting, &self.rows, self.args.stats)),
            Format::Csv => {}
            Format::Json => table::json(&mut self.out, &self.setting, &self.rows),
        }
        if let Some(path) = &self.args.plot
            && !self.out.closed()
        {
            plot::draw(path, &self.setting, &self.rows)?;
        }
        self.out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(words: &str) -> Result<BenchArgs, clap::Error> {
        Alone::try_parse_from(std::iter::once("bench").chain(words.split_whitespace())).map(|a| a.bench)
    }

    #[test]
    fn the_command_line_is_consistent() {
        Alone::command().debug_assert();
    }

    #[test]
    fn default_points_are_the_rivals() {
        let sizes = default_sizes();
        assert_eq!(sizes[..5], [4, 8, 40, 80, 400]);
        assert_eq!((sizes.len(), sizes.last()), (13, Some(&4_000_000)));
        let points = plan(&parse("bcast,allgatherv,barrier").unwrap());
        assert_eq!(points.len(), 13 + 7 * 13 + 1);
        let points = plan(&parse("allgatherv --dist irr3,half --bytes 0,1Ki").unwrap());
        let seen: Vec<_> = points.iter().map(|x| (x.dist_name(), x.bytes)).collect();
        assert_eq!(seen, [("irr3", 0), ("irr3", 1024), ("half", 0), ("half", 1024)]);
    }

    #[test]
    fn wrong_words_are_refused() {
        for words in [
            "",
            "bcst",
            "bcast,",
            "bcast --dist flat",
            "bcast --bytes 1X",
            "bcast --bytes -1",
            "bcast --reps 0",
            "bcast --time 0",
            "bcast --blocks 0",
            "bcast --label a,b",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
        let refused = |words: &str, p| {
            let args = parse(words).unwrap();
            refuse(&args, &plan(&args), p).map_err(|f| (f.code, f.text))
        };
        for (words, p) in [
            ("bcast --root 3", 3),
            ("put", 1),
            ("bcast --algorithm magic", 2),
            ("bcast,barrier --algorithm circulant", 2),
            ("barrier --persistent", 2),
            ("bcast --persistent --memory plain", 2),
            ("bcast --bytes 0 --plot x.svg", 2),
        ] {
            assert_eq!(refused(words, p).unwrap_err().0, 2, "{words}");
        }
        assert_eq!(refused("bcast,put --root 2 --algorithm circulant --plot x.svg", 3), Ok(()));
    }
}
