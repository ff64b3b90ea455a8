//! The command line of `circulant bench`.

use super::dist::{DISTS, Dist};
use super::operations::{OPERATIONS, Operation};
use super::order::{MemoryKind, Mode};
use super::table::Format;
use crate::settings::{SETTINGS, Setting as Between};
use crate::units;
use circulant::ops::{Op, Type, pairs};
use circulant::plan::registry;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Most repetitions that make sense; each keeps 16 bytes per rank at every rank.
const MAX_REPETITIONS: u64 = 1_000_000;

/// Most calls of a repetition that make sense: a second of the shortest.
const MAX_CALLS: i64 = 10_000_000;

const EXAMPLES: &str = "\
Examples:
  circulant run -n 8 bench bcast --bytes 1K,64K,1M
  circulant run -n 8 bench bcast,allgatherv --check --stats
  circulant run -n 9 bench allgatherv --dist spike,irr3 --bytes 1M --plot allgatherv.svg
  circulant run -n 8 bench allreduce --type f32 --op max --algorithm all --bytes 8,1M
  circulant run -n 8 bench alltoall,scan --mode request --check
  circulant run -n 8 bench allreduce --mode request --overlap
  circulant run -n 2 bench put,bcast --bytes 4,1K,1M,16M
  circulant run -n 4 bench rate --bytes 8
  circulant run -n 2 bench allreduce,barrier --bytes 8 --calls 10000
  circulant run -n 8 bench bcast --format csv --label tcp > tcp.csv
  srun -n 64 circulant bench bcast --blocks 12 --time 5";

/// Time collectives, beside what the wire itself would take
///
/// For every repetition all ranks pass a barrier (by linear where ranks 0 and 1 are on different nodes and the
/// latency between them is longer than P−1 puts take; rank 0 then sleeps for the difference, so that all begin
/// together), each times the operation, and the slowest one counts. Shown are the smallest and the median
/// repetition, and the smallest span (latest end − earliest start; meaningful where all ranks read one clock,
/// that is on one machine). One or two untimed runs come first and set the number of repetitions. Beside each
/// time stands the reference C = βV + γF + q(L+o), with latency L, overhead o per put and time per byte β of a
/// raw put between ranks 0 and 1 and the time γ of reducing a byte, measured in the same run, and q = ⌈log2 P⌉. V
/// and F are the bytes that some rank must at least move and reduce. Each term alone is a lower bound for one
/// port per rank; C, their sum, is not. algbw and busbw are the algorithm and bus bandwidth of nccl-tests (its
/// doc/PERFORMANCE.md), from the median: size/t, and V/t, which is 2(P−1)/P of it for allreduce, (P−1)/P for
/// allgather, reduce_scatter, alltoall, gather and scatter, all of it for bcast and reduce. rate is the message
/// rate of the raw wire as osu_mbw_mr measures it; its bandwidths are those of all pairs together.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = after_long_help())]
pub(crate) struct BenchArgs {
    /// What to time: names of operations (see below) with commas between, or all
    #[arg(value_name = "OP,…", value_delimiter = ',', required = true, value_parser = operation)]
    pub(crate) ops: Vec<Choice<&'static Operation>>,
    /// Sizes in bytes (K, M, G decimal; Ki, Mi, Gi binary) [default: 4, 8, 40, 80, 400, … 4M]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = units::size_argument)]
    pub(crate) bytes: Vec<u64>,
    /// Distributions of the bytes over the ranks, for irregular operations [default: all seven; of
    /// reduce_scatter: regular]; settings s1 to s8 of two groups for inter_allgather and inter_allgatherv
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = distribution)]
    pub(crate) dist: Vec<Spread>,
    /// Root rank of bcast, reduce, gather(v), scatter(v)
    #[arg(long, value_name = "R", default_value_t = 0)]
    pub(crate) root: usize,
    /// Most repetitions per point
    #[arg(short, long, value_name = "N", default_value_t = 35, value_parser = clap::value_parser!(u64).range(1..=MAX_REPETITIONS))]
    pub(crate) reps: u64,
    /// Seconds that the repetitions of a point may take together; at least 3 are made
    #[arg(short, long, value_name = "S", default_value = "1", value_parser = units::seconds_argument)]
    pub(crate) time: f64,
    /// Calls of a repetition, one behind the other; times are those of one of them, the mean. 1 tells how long a call takes by itself, many what a loop of calls takes, in which a
    /// rank may be some calls ahead of another. Of put, pingpong and rate always 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MAX_CALLS), conflicts_with = "overlap")]
    pub(crate) calls: u32,
    /// Untimed repetitions of each point ahead of the one or two that set the number of the others, each with the rest, the barrier, --cold and --fresh of a timed one; 256 are enough for all trials of a point with CIRCULANT_ADAPT=on
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MAX_REPETITIONS))]
    pub(crate) warm: u64,
    /// Blocks per message: a number from 1, or auto
    #[arg(long, value_name = "N", default_value = "auto", value_parser = blocks)]
    pub(crate) blocks: Choice<u32>,
    /// Algorithms by their registry names, with commas between; auto (the library chooses); all that can do it
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "auto")]
    pub(crate) algorithm: Vec<String>,
    /// Type of the elements, for operations that reduce
    #[arg(long = "type", value_name = "TYPE", default_value = "i32", value_parser = kind)]
    pub(crate) kind: Type,
    /// Operator, for operations that reduce
    #[arg(long, value_name = "OP", default_value = "sum", value_parser = operator)]
    pub(crate) op: Op,
    /// Form of the calls
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: Mode,
    /// Contributions stand in the receive buffer (at the root only, where there is one) [where MPI has it]
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Memory that is sent from and received into
    #[arg(long, value_enum, default_value_t)]
    pub(crate) memory: MemoryKind,
    /// Cold buffers: before each repetition every rank reads so many bytes of other memory [--cold alone: so many that
    /// the ranks of a node read twice their largest cache]
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "0", value_parser = units::size_argument)]
    pub(crate) cold: Option<u64>,
    /// Fresh data: before each repetition every rank writes its buffers, as a program does that computes what it sends. Else
    /// what was read before may still be in the readers' caches
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Seconds for which every rank does nothing before each repetition: links that let some bytes through at once, faster than
    /// their rate, can do so again after this [default: 0]
    #[arg(long, value_name = "S", value_parser = units::seconds_argument)]
    pub(crate) rest: Option<f64>,
    /// All ranks begin each repetition at the same moment of the machine's clock: a second rest comes behind the barrier, and rank 0 tells when it ends.
    /// Only where all ranks read one clock, that is on one machine; the rest must be longer than the barrier and telling take
    #[arg(long, requires = "rest")]
    pub(crate) one_clock: bool,
    /// Seconds that one call may take before it fails on every rank [default: CIRCULANT_DEADLINE]
    #[arg(long, value_name = "S", value_parser = units::seconds_argument)]
    pub(crate) deadline: Option<f64>,
    /// Compare every byte of every point with a sequential reference, outside the timing, on arena and plain
    /// memory; exit code 3 if wrong
    #[arg(short, long)]
    pub(crate) check: bool,
    /// Count puts, bytes on the wire, those of them between groups of nodes, bytes copied by our code, heap allocations and rounds of one operation, and where ibverbs
    /// carries it work requests and doorbells
    #[arg(long)]
    pub(crate) stats: bool,
    /// Tell how much of a call passes while the ranks compute between its start and the wait for it: in % as the OSU
    /// benchmarks have it, 100·(1 − (t_total − t_compute)/t_pure); with --mode request or persistent
    #[arg(long)]
    pub(crate) overlap: bool,
    /// The same as --mode persistent
    #[arg(long, conflicts_with = "mode")]
    pub(crate) persistent: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Draw time against size, both logarithmic, with the reference, into this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Last column of the CSV, and the plot's title
    #[arg(long, value_name = "TEXT", default_value = "circulant", value_parser = label)]
    pub(crate) label: String,
}

/// How bytes are spread over ranks, or ranks over groups.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spread {
    Dist(&'static Dist),
    Between(&'static Between),
}

/// A value, or `auto` or `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice<T>(pub(crate) Option<T>);

fn after_long_help() -> String {
    let mut text = "Operations, what a size m means, and the reference C:\n".to_owned();
    for o in OPERATIONS {
        text += &format!("  {:<21}{}; C = {}\n", o.name, o.sizes, o.reference);
    }
    text += "\nTypes and operators:\n";
    for kind in Type::ALL {
        let ops: Vec<&str> = pairs().filter(|(k, _)| k == kind).map(|(_, op)| op.name()).collect();
        text += &format!("  {:<13}{}\n", kind.name(), ops.join(" "));
    }
    text += "\nDistributions (the last rank with a share takes what the rounding leaves; for irr3 the last rank):\n";
    for d in DISTS {
        text += &format!("  {:<12}{}\n", d.name, d.about);
    }
    text += "\nSettings of two groups A : B:\n";
    for s in SETTINGS {
        text += &format!("  {:<12}{}\n", s.name, s.about);
    }
    text += "\nAlgorithms (n blocks, q = ⌈log2 P⌉ rounds):\n";
    let can = |a: &&registry::Algorithm| Operation::find(a.operation.name()).is_some();
    for a in registry::all().filter(can) {
        text +=
            &format!("  {:<21}{:<19}{} rounds; {}\n", a.operation.name(), a.name, a.rounds, a.restrictions);
    }
    text + "\n" + EXAMPLES
}

fn operation(name: &str) -> Result<Choice<&'static Operation>, String> {
    match (name, Operation::find(name)) {
        ("all", _) => Ok(Choice(None)),
        (_, Some(found)) => Ok(Choice(Some(found))),
        _ => {
            // As MPI and the library call requests.
            let blocking =
                name.strip_prefix('i').and_then(Operation::find).filter(|o| o.registered().is_some());
            if let Some(o) = blocking {
                let request = format!("{name:?} is {} by --mode request", o.name);
                let groups = format!("inter_{}", o.name);
                return Err(match Operation::find(&groups) {
                    Some(_) => format!("{request}; between two groups it is {groups}"),
                    None => request,
                });
            }
            let names = OPERATIONS.map(|o| o.name).join(", ");
            Err(format!("there is no operation {name:?}; there are {names}; or all"))
        }
    }
}

fn kind(name: &str) -> Result<Type, String> {
    let names = || Type::ALL.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
    name.parse().map_err(|_| format!("there is no type {name:?}; there are {}", names()))
}

fn operator(name: &str) -> Result<Op, String> {
    let names = || Op::ALL.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
    name.parse().map_err(|_| format!("there is no operator {name:?}; there are {}", names()))
}

fn distribution(name: &str) -> Result<Spread, String> {
    let found = Dist::find(name).map(Spread::Dist);
    found.or_else(|| Between::find(name).map(Spread::Between)).ok_or_else(|| {
        let names: Vec<&str> = DISTS.iter().map(|d| d.name).chain(SETTINGS.iter().map(|s| s.name)).collect();
        format!("there is no distribution {name:?}; there are {}", names.join(", "))
    })
}

fn blocks(text: &str) -> Result<Choice<u32>, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(Choice(None)),
        (_, Ok(n)) if n > 0 => Ok(Choice(Some(n))),
        _ => Err("it must be a whole number from 1, or auto".to_owned()),
    }
}

fn label(text: &str) -> Result<String, String> {
    match text.contains([',', '"', '\n', '\r']) {
        true => Err("it must not contain commas, quotes or line ends: it stands in a CSV column".to_owned()),
        false => Ok(text.to_owned()),
    }
}

impl BenchArgs {
    /// The operations asked for, on `p` ranks; `all` is all that are collective and need no more ranks.
    pub(crate) fn operations(&self, p: usize) -> Vec<&'static Operation> {
        let mut list: Vec<&'static Operation> = Vec::new();
        let collective = |o: &&Operation| o.registered().is_some() && (p > 1 || !o.between());
        for choice in &self.ops {
            match choice.0 {
                Some(op) => list.push(op),
                None => list.extend(OPERATIONS.iter().filter(collective)),
            }
        }
        list
    }

    /// Those of the distributions that were asked for.
    pub(crate) fn dists(&self) -> impl Iterator<Item = &'static Dist> {
        self.dist.iter().filter_map(|spread| if let Spread::Dist(d) = spread { Some(*d) } else { None })
    }

    /// Those of the settings of two groups that were asked for.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &'static Between> {
        self.dist.iter().filter_map(|spread| if let Spread::Between(s) = spread { Some(*s) } else { None })
    }

    /// How long every rank does nothing before each repetition; twice with `--one-clock`.
    pub(crate) fn rest(&self) -> Duration {
        Duration::from_secs_f64(self.rest.unwrap_or_default())
    }

    /// The form of the calls.
    pub(crate) fn mode(&self) -> Mode {
        if self.persistent { Mode::Persistent } else { self.mode }
    }
}
