//! `circulant select`: what every algorithm would cost, and which is chosen.

use crate::algorithms::operation;
use crate::bench::dist::{DISTS, Dist};
use crate::learned;
use crate::outcome::{Failure, Out};
use crate::units::{self, figures, plural, time};
use crate::wire::{WireArgs, time_argument};
use circulant::config::Config;
use circulant::machine::{LogGp, Machine};
use circulant::plan::registry::cost::Cost;
use circulant::plan::registry::{Algorithm, Arguments, Operation};
use circulant::schedule::MAX_P;
use circulant::select::{Candidate, PROBED_UNHIDDEN, Selection};
use clap::{Args, ValueEnum};
use serde::Serialize;

const AFTER_HELP: &str = "\
Prices are of the critical path: latencies (hops), overheads (puts), bytes on links and bytes combined one after the \
other, as the simulator would have them; no plan is made. The settings (CIRCULANT_ALGORITHM, CIRCULANT_SELECTION, \
CIRCULANT_REPRODUCIBLE, CIRCULANT_BLOCKS and the figures of the wire) apply as they would to a call. The first \
algorithm of the registry whose price is at most 3 % above the lowest is taken.

Examples:
  circulant select bcast -p 36 --bytes 64Ki
  circulant select allreduce -p 1000 --ppn 36 --bytes 1M --latency 1.5us --overhead 200ns --byte-time 0.08
  circulant select allgatherv -p 16 --bytes 1M --dist spike
  circulant select reduce -p 9 --commutative no --sweep";

/// Show what every algorithm of an operation would cost, and which is chosen
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SelectArgs {
    /// The operation
    #[arg(value_name = "OP", value_parser = operation())]
    op: Operation,
    /// Number of ranks
    #[arg(short, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_P)))]
    p: u32,
    /// Bytes: of the vector, or of all ranks' blocks together (K, M, G decimal; Ki, Mi, Gi binary)
    #[arg(short, long, value_name = "B", default_value = "64Ki", value_parser = units::size_argument)]
    bytes: u64,
    /// Bytes of each rank, for operations that have counts
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["bytes", "dist", "sweep"], value_parser = units::size_argument)]
    counts: Vec<u64>,
    /// Distribution of the bytes over the ranks, for operations that have counts: regular, broadcast, spike, half, linear, geometric, irr3
    #[arg(short, long, value_name = "DIST", default_value = "regular", value_parser = distribution)]
    dist: &'static Dist,
    /// The root, of operations that have one
    #[arg(long, value_name = "R", default_value_t = 0)]
    root: u32,
    /// Ranks of the first group, of operations between groups [default: half of them]
    #[arg(long, value_name = "N")]
    first: Option<u32>,
    /// Whether the operator commutes
    #[arg(long, value_enum, default_value_t = Answer::Yes)]
    commutative: Answer,
    /// Only algorithms that fold in the operation's one order
    #[arg(long)]
    reproducible: bool,
    #[command(flatten)]
    wire: WireArgs,
    /// As with figures that the probe of start-up found: where puts have too few bytes to cover them, o counts three times
    #[arg(long, help_heading = "The wire")]
    probed: bool,
    /// Likewise, what a put takes a rank alone while the others wait, as CIRCULANT_LOG=info says it [default: as much as among them]
    #[arg(long, value_name = "TIME", requires = "probed", value_parser = time_argument, help_heading = "The wire")]
    alone: Option<u64>,
    /// The choice for sizes from 8 bytes to 64 MiB
    #[arg(long)]
    sweep: bool,
    /// A file that CIRCULANT_LEARN made, as CIRCULANT_SELECTION, and what it says of the operation
    #[arg(long, value_name = "FILE")]
    learned: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Answer {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Aligned, to read
    #[default]
    Text,
    /// A list of objects
    Json,
}

fn distribution(name: &str) -> Result<&'static Dist, String> {
    Dist::find(name).ok_or_else(|| {
        format!("there is no distribution {name:?}; there are {}", DISTS.map(|d| d.name).join(", "))
    })
}

/// Runs the subcommand.
pub(crate) fn run(args: &SelectArgs) -> Result<(), Failure> {
    if args.root >= args.p {
        let said = format!("root {} is out of range: there are ranks 0 to {}", args.root, args.p - 1);
        return Err(Failure::usage(said));
    }
    let mut config = Config::from_env();
    if let Some(file) = &args.learned {
        config.set("selection", file)?;
    }
    config.load()?;
    let machine = args.wire.machine(&config)?;
    let unhidden = if args.probed { PROBED_UNHIDDEN } else { machine.unhidden };
    let machine = Machine { unhidden, alone_ns: args.alone.unwrap_or(machine.alone_ns), ..machine };
    let selection = Selection::of(&config.choices(), machine)?;
    let mut out = Out::new();
    let blocks = config.blocks;
    let sizes: Vec<u64> = match args.sweep {
        true => (3..=26).map(|k| 1 << k).collect(),
        false => vec![args.bytes],
    };
    let mut points = Vec::new();
    for bytes in sizes {
        let nodes = args.wire.ppn.map(|k| (0..args.p).map(|rank| rank / k.max(1)).collect());
        let nodes = nodes.unwrap_or_default();
        let groups = machine.groups_of(args.p).into();
        let arguments = Arguments { blocks, nodes, groups, ..arguments(args, bytes)? };
        points.push(Point::new(&selection, args, bytes, &arguments)?);
    }
    match (args.format, args.sweep) {
        (Format::Json, _) => {
            let text = serde_json::to_string_pretty(&points).map_err(|e| Failure::new(1, e.to_string()))?;
            out.line(&text);
        }
        (Format::Text, sweep) => {
            out.line(&heading(args, selection.machine()));
            out.line("");
            match sweep {
                true => race(&points, &mut out),
                false => points.iter().for_each(|point| point.print(&mut out)),
            }
            if args.learned.is_some() {
                let name = args.op.name();
                let lines = config.selection_text().lines();
                learned::print(lines.filter(|line| line.split_whitespace().next() == Some(name)), &mut out);
            }
        }
    }
    out.finish()
}

/// Whether ranks have counts of their own.
fn irregular(op: Operation) -> bool {
    use Operation::{Allgatherv, Gatherv, InterAllgatherv, ReduceScatter, Scatterv};
    matches!(op, Allgatherv | Gatherv | Scatterv | ReduceScatter | InterAllgatherv)
}

/// The arguments of a call with `bytes` bytes in all.
fn arguments(args: &SelectArgs, bytes: u64) -> Result<Arguments, Failure> {
    let p = args.p;
    let a = Arguments {
        size: p,
        root: args.root,
        first: if args.op.is_between_groups() { args.first.unwrap_or(p / 2) } else { 0 },
        commutative: args.commutative == Answer::Yes,
        ..Arguments::default()
    };
    if !args.counts.is_empty() {
        if !irregular(args.op) {
            return Err(Failure::usage(format!("{} has no counts: give --bytes", args.op)));
        }
        if args.counts.len() != p as usize {
            let said = format!("{} counts for {}", args.counts.len(), plural(p.into(), "rank"));
            return Err(Failure::usage(said));
        }
        return Ok(with_counts(a, args.counts.clone()));
    }
    if irregular(args.op) {
        return Ok(with_counts(a, args.dist.counts(bytes, p as usize)));
    }
    // Of operations in blocks --bytes is all of them.
    let one = Arguments { bytes: 1, ..a.clone() }.total(args.op).max(1);
    let bytes = bytes.div_ceil(one);
    let element = if bytes.is_multiple_of(4) { 4 } else { 1 };
    Ok(Arguments { bytes, element, ..a })
}

fn with_counts(a: Arguments, counts: Vec<u64>) -> Arguments {
    let element = if counts.iter().all(|n| n.is_multiple_of(4)) { 4 } else { 1 };
    Arguments { counts, element, ..a }
}

/// One size with all its candidates.
#[derive(Serialize)]
struct Point {
    operation: &'static str,
    p: u32,
    bytes: u64,
    /// The one that a call would take.
    chosen: &'static str,
    /// Not by price.
    named: bool,
    candidates: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    #[serde(flatten)]
    price: Option<Price>,
    excluded: Option<String>,
}

#[derive(Serialize)]
struct Price {
    time_ns: f64,
    rounds: u32,
    blocks: u32,
    hops: f64,
    puts: f64,
    bytes_on_path: f64,
    bytes_reduced: f64,
    bytes_copied: f64,
    /// That a rank receives at most.
    volume: u64,
}

impl Row {
    fn new(candidate: &Candidate, arguments: &Arguments) -> Self {
        let algorithm = candidate.algorithm;
        match &candidate.cost {
            Ok(cost) => Self {
                name: algorithm.name,
                price: Some(Price::new(algorithm, cost, arguments)),
                excluded: None,
            },
            Err(why) => Self { name: algorithm.name, price: None, excluded: Some(why.clone()) },
        }
    }
}

impl Price {
    fn new(algorithm: &Algorithm, cost: &Cost, arguments: &Arguments) -> Self {
        let by_blocks = Arguments { blocks: Some(cost.blocks), ..arguments.clone() };
        Self {
            time_ns: cost.ns,
            rounds: (algorithm.rounds_of)(arguments, cost.blocks),
            blocks: cost.blocks,
            hops: cost.hops,
            puts: cost.puts,
            bytes_on_path: cost.bytes,
            bytes_reduced: cost.reduced,
            bytes_copied: cost.copied,
            volume: algorithm.volume_of(&by_blocks),
        }
    }
}

impl Point {
    fn new(selection: &Selection, args: &SelectArgs, bytes: u64, a: &Arguments) -> Result<Self, Failure> {
        let choice = selection.choose(args.op, a, None, args.reproducible)?;
        let mut candidates = selection.candidates(args.op, a, args.reproducible);
        if let (None, Some(_)) = (a.blocks, choice.way.blocks) {
            // What a file says of blocks is for the algorithm that it names.
            let named = &Arguments { blocks: choice.way.blocks, ..a.clone() };
            let by_blocks = selection.candidates(args.op, named, args.reproducible);
            let both = candidates.iter_mut().zip(by_blocks);
            both.filter(|(c, _)| c.algorithm.name == choice.way.algorithm.name)
                .for_each(|(c, named)| *c = named);
        }
        let mut candidates: Vec<Row> = candidates.iter().map(|c| Row::new(c, a)).collect();
        let price = |row: &Row| row.price.as_ref().map_or(f64::INFINITY, |p| p.time_ns);
        candidates.sort_by(|a, b| price(a).total_cmp(&price(b)));
        let (chosen, named) = (choice.way.algorithm, !choice.is_priced);
        let bytes = if args.counts.is_empty() { bytes } else { a.total(args.op) };
        Ok(Self { operation: args.op.name(), p: args.p, bytes, chosen: chosen.name, named, candidates })
    }

    fn print(&self, out: &mut Out) {
        let heads =
            ["", "algorithm", "time", "rounds", "n", "hops", "puts", "on links", "combined", "received"];
        let mut rows = vec![heads.map(str::to_owned)];
        for row in &self.candidates {
            let Some(price) = &row.price else { continue };
            rows.push([
                if row.name == self.chosen { "*" } else { "" }.to_owned(),
                row.name.to_owned(),
                time(price.time_ns),
                price.rounds.to_string(),
                price.blocks.to_string(),
                figures(price.hops),
                figures(price.puts),
                bytes_text(price.bytes_on_path),
                bytes_text(price.bytes_reduced),
                units::size(price.volume),
            ]);
        }
        out.table(&rows, &[true, true, false, false, false, false, false, false, false, false]);
        for row in &self.candidates {
            if let Some(why) = &row.excluded {
                out.line(&format!("   {}: {why}", row.name));
            }
        }
        let by = if self.named { "by the settings" } else { "by price" };
        out.line(&format!("\n{} is chosen, {by}", self.chosen));
    }
}

/// The choice for each size, and what else comes near.
fn race(points: &[Point], out: &mut Out) {
    let mut rows = vec![["bytes", "algorithm", "n", "rounds", "time", "next", "its time"].map(str::to_owned)];
    for point in points {
        let find = |name: &str| point.candidates.iter().find(|row| row.name == name);
        let next = point.candidates.iter().find(|row| row.name != point.chosen && row.price.is_some());
        let Some(price) = find(point.chosen).and_then(|row| row.price.as_ref()) else { continue };
        let compare = |row: &Row| {
            row.price.as_ref().map(|p| format!("{} (x{:.2})", time(p.time_ns), p.time_ns / price.time_ns))
        };
        rows.push([
            units::size(point.bytes),
            point.chosen.to_owned(),
            price.blocks.to_string(),
            price.rounds.to_string(),
            time(price.time_ns),
            next.map_or("-", |row| row.name).to_owned(),
            next.and_then(compare).unwrap_or_default(),
        ]);
    }
    out.table(&rows, &[false, true, false, false, false, true, false]);
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
fn bytes_text(bytes: f64) -> String {
    units::size(bytes.round() as u64)
}

fn heading(args: &SelectArgs, machine: &Machine) -> String {
    let wire = |wire: LogGp| units::wire_text(&wire.into());
    let (ranks, within) = match args.wire.ppn {
        Some(k) => (
            format!("{}, {k} per node", plural(args.p.into(), "rank")),
            format!("; within a node {}", wire(machine.near)),
        ),
        None => (plural(args.p.into(), "rank"), String::new()),
    };
    let what = match (args.sweep, args.counts.is_empty()) {
        (false, true) if args.op != Operation::Barrier => format!(" of {}", units::size(args.bytes)),
        _ => String::new(),
    };
    let gamma = units::gamma_text(machine);
    let groups = units::groups_text(machine.groups);
    format!("{}{what}, {ranks}; {}{within}; {gamma}{groups}", args.op, wire(machine.wire))
}
