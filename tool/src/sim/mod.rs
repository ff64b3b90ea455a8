//! `circulant sim`: the real plans on a virtual clock.

pub(crate) mod case;
pub(crate) mod race;
mod report;
mod timeline;

use crate::bench::dist::{DISTS, Dist};
use crate::outcome::{Failure, Out};
use crate::settings::{SETTINGS, Setting};
use crate::units;
use crate::wire::WireArgs;
use case::{Case, irregular, meaning, rooted, set};
use circulant::machine::Machine;
use circulant::plan::registry::{self, Algorithm, Operation};
use circulant::schedule::MAX_P;
use clap::Args;
use race::Outcome;
use report::{Format, Row};
use std::path::PathBuf;

/// Ranks that fit into a drawing of their transfers.
const MAX_TIMELINE_RANKS: u32 = 64;

const EXAMPLES: &str = "\
Examples:
  circulant sim bcast -p 1152 --bytes 10M
  circulant sim bcast -p 1152 --ppn 32 --bytes 10M
  circulant sim allgatherv -p 36 --bytes 1M --dist spike --latency 1ms --overhead 20us --byte-time 160
  circulant sim allreduce -p 100 --sizes 1K..64M --plot race.svg
  circulant sim bcast -p 9 --bytes 1M --algorithm circulant --blocks 4 --timeline bcast.svg
  circulant sim bcast -p 100000 --bytes 1M";

/// Predict the time of every algorithm of an operation, by running its plans on a virtual clock
///
/// Each rank (with --ppn: each node) has a link out and a link in that carry one put at a time. A put holds the
/// link out for o + β·bytes and, L later, the link in for β·bytes. A rank with a free link posts whatever is ready,
/// lowest round first, as the engine does. Beside each time stands the reference C = βV + q(L+o): V bytes that some
/// node must get or give, q = ⌈log2 P⌉. C is not a lower bound.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = after_long_help())]
pub(crate) struct SimArgs {
    /// What to simulate
    #[arg(value_name = "OP", value_parser = operation)]
    op: Operation,
    /// Number of ranks
    #[arg(short, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_P)))]
    p: u32,
    /// Size in bytes, as bench counts it (K, M, G decimal; Ki, Mi, Gi binary)
    #[arg(short, long, value_name = "M", value_parser = units::size_argument)]
    bytes: Option<u64>,
    /// Sizes from A to B, each twice the one before, and B
    #[arg(long, value_name = "A..B", value_parser = sizes, conflicts_with_all = ["bytes", "timeline"])]
    sizes: Option<Sizes>,
    /// How the bytes of an irregular operation are spread over the ranks
    #[arg(short, long, value_name = "NAME", value_parser = distribution)]
    dist: Option<&'static Dist>,
    /// How much each rank contributes between two groups, s1 to s4 for inter_allgather, s5 to s8 for inter_allgatherv
    /// [default: s1 or s5]
    #[arg(long, value_name = "NAME", value_parser = setting)]
    setting: Option<&'static Setting>,
    /// Ranks of the first group, for operations between two [default: as the setting says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    first: Option<u32>,
    /// Root rank
    #[arg(long, value_name = "R")]
    root: Option<u32>,
    /// Algorithm by its registry name, or all
    #[arg(long, value_name = "NAME", default_value = "all")]
    algorithm: String,
    /// Blocks per message [default: by rule]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: Option<u32>,
    #[command(flatten)]
    wire: WireArgs,
    /// Steps (puts, copies, reductions of all ranks) that one algorithm may take; one that takes more is listed
    /// and not run. About a microsecond and 50 bytes of memory each
    #[arg(long, value_name = "STEPS", default_value = "40M", value_parser = units::size_argument)]
    budget: u64,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    format: Format,
    /// Draw time against size, both logarithmic, a line per algorithm, into this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Draw the puts over time, by rank, by the fastest algorithm, into this file
    #[arg(long, value_name = "FILE.svg")]
    timeline: Option<PathBuf>,
}

/// The ends of a range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes(u64, u64);

impl Sizes {
    fn all(self) -> Vec<u64> {
        let twice = |size: &u64| size.checked_mul(2).filter(|next| *next <= self.1);
        let mut sizes: Vec<u64> = std::iter::successors(Some(self.0), twice).collect();
        if sizes.last() != Some(&self.1) {
            sizes.push(self.1);
        }
        sizes
    }
}

fn after_long_help() -> String {
    let mut text = "Operations, and what a size means:\n".to_owned();
    for o in Operation::ALL {
        text += &format!("  {:<22}{}\n", o.name(), meaning(o));
    }
    text += "\nDistributions:\n";
    for d in DISTS {
        text += &format!("  {:<22}{}\n", d.name, d.about);
    }
    text += "\nSettings of two groups:\n";
    for s in SETTINGS {
        text += &format!("  {:<22}{}\n", s.name, s.about);
    }
    text + "\n" + EXAMPLES
}

fn operation(name: &str) -> Result<Operation, String> {
    name.parse().map_err(|e: circulant::Error| e.to_string())
}

fn distribution(name: &str) -> Result<&'static Dist, String> {
    Dist::find(name).ok_or_else(|| {
        format!("there is no distribution {name:?}; there are {}", DISTS.map(|d| d.name).join(", "))
    })
}

fn setting(name: &str) -> Result<&'static Setting, String> {
    Setting::find(name).ok_or_else(|| format!("there is no setting {name:?}; there are s1 to s8"))
}

fn sizes(text: &str) -> Result<Sizes, String> {
    let ends = text.split_once("..").ok_or_else(|| "it must be two sizes such as 1K..64M".to_owned())?;
    let (from, to) = (units::size_argument(ends.0)?, units::size_argument(ends.1)?);
    match from {
        0 => Err("the smallest size must be at least 1".to_owned()),
        _ if from > to => Err("the smaller size comes first".to_owned()),
        _ => Ok(Sizes(from, to)),
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &SimArgs) -> Result<(), Failure> {
    let algorithms = chosen(args)?;
    let machine = args.wire.simulated()?;
    let mut out = Out::new();
    let mut rows = Vec::new();
    let mut best: Option<(u64, &Algorithm, race::Ran)> = None;
    let sizes = args.sizes.map_or_else(|| vec![args.bytes.unwrap_or(0)], Sizes::all);
    for bytes in sizes {
        let case = case(args, machine, bytes);
        let arguments = case.arguments()?;
        for algorithm in &algorithms {
            let outcome = race::run(&case, &arguments, algorithm, args.budget, args.timeline.is_some())?;
            if algorithms.len() == 1
                && let Outcome::Unfit(why) = &outcome
            {
                return Err(Failure::usage(why.clone()));
            }
            rows.push(Row::new(&case, &arguments, algorithm, &outcome));
            if let Outcome::Ran(ran) = outcome
                && best.as_ref().is_none_or(|(ns, ..)| ran.ns < *ns)
            {
                best = Some((ran.ns, algorithm, *ran));
            }
        }
    }
    report::print(&mut out, args.format, &case(args, machine, args.bytes.unwrap_or(0)), args.budget, &rows);
    if let Some(path) = &args.plot {
        report::plot(path, &case(args, machine, 0), &rows)?;
    }
    if let Some(path) = &args.timeline {
        let (_, algorithm, ran) =
            best.ok_or_else(|| Failure::new(1, "no algorithm ran: there is nothing to draw"))?;
        timeline::draw(path, &case(args, machine, args.bytes.unwrap_or(0)), algorithm, &ran)?;
    }
    out.finish()
}

/// Operations that move no bytes.
fn moves_nothing(operation: Operation) -> bool {
    matches!(operation, Operation::Barrier | Operation::InterBarrier)
}

fn case(args: &SimArgs, machine: Machine, bytes: u64) -> Case {
    Case {
        operation: args.op,
        p: args.p,
        bytes: if moves_nothing(args.op) { 0 } else { bytes },
        dist: args.dist.unwrap_or(&DISTS[0]),
        setting: args.setting.unwrap_or(&SETTINGS[if args.op == Operation::InterAllgatherv { 4 } else { 0 }]),
        first: args.first,
        root: args.root.unwrap_or(0),
        blocks: args.blocks,
        machine,
    }
}

/// The algorithms to run; or what is wrong with the arguments.
fn chosen(args: &SimArgs) -> Result<Vec<&'static Algorithm>, Failure> {
    if args.root.is_some_and(|root| root >= args.p) {
        let said = format!("there is no such root: there are ranks 0 to {}", args.p - 1);
        return Err(Failure::usage(said));
    }
    if args.root.is_some() && !rooted(args.op) {
        return Err(Failure::usage(format!("{} has no root", args.op)));
    }
    if args.dist.is_some() && !irregular(args.op) {
        let with: Vec<_> =
            Operation::ALL.into_iter().filter(|o| irregular(*o)).map(Operation::name).collect();
        return Err(Failure::usage(format!("{} has no distribution; {} have one", args.op, with.join(", "))));
    }
    between_groups(args)?;
    if args.bytes.is_none() && args.sizes.is_none() && !moves_nothing(args.op) {
        return Err(Failure::usage("say how much: --bytes 1M, say, or --sizes 1K..64M"));
    }
    if args.plot.is_some() && args.sizes.is_none() {
        return Err(Failure::usage("a plot is over sizes: --sizes 1K..64M, say"));
    }
    if args.timeline.is_some() && args.p > MAX_TIMELINE_RANKS {
        return Err(Failure::usage(format!("a timeline has room for {MAX_TIMELINE_RANKS} ranks")));
    }
    match args.algorithm.as_str() {
        "all" => Ok(registry::algorithms(args.op).collect()),
        name => Ok(vec![registry::algorithm(args.op, name)?]),
    }
}

/// What is wrong with the arguments that are for two groups.
fn between_groups(args: &SimArgs) -> Result<(), Failure> {
    if args.setting.is_some() && !set(args.op) {
        return Err(Failure::usage(format!(
            "{} has no setting; inter_allgather and inter_allgatherv have",
            args.op
        )));
    }
    if args.setting.is_some_and(|s| s.irregular() != (args.op == Operation::InterAllgatherv)) {
        return Err(Failure::usage("s1 to s4 are for inter_allgather, s5 to s8 for inter_allgatherv"));
    }
    match args.first {
        Some(_) if !args.op.is_between_groups() => {
            Err(Failure::usage(format!("{} is not between two groups", args.op)))
        }
        Some(first) if first >= args.p => Err(Failure::usage(format!(
            "a group of {first} leaves no rank for the other of {} ranks",
            args.p
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        sim: SimArgs,
    }

    fn parse(words: &str) -> Result<SimArgs, clap::Error> {
        Alone::try_parse_from(std::iter::once("sim").chain(words.split_whitespace())).map(|a| a.sim)
    }

    #[test]
    fn the_command_line_is_consistent() {
        Alone::command().debug_assert();
    }

    #[test]
    fn sizes_double() {
        assert_eq!(sizes("1K..5K").unwrap().all(), [1000, 2000, 4000, 5000]);
        assert_eq!(sizes("1Ki..4Ki").unwrap().all(), [1024, 2048, 4096]);
        for text in ["1K", "0..5", "5..1", "1..x"] {
            assert!(sizes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn wrong_words_are_refused() {
        for words in [
            "bcst -p 2 --bytes 1",
            "bcast --bytes 1",
            "bcast -p 0 --bytes 1",
            "bcast -p 2 --bytes 1 --sizes 1..2",
            "bcast -p 2 --bytes 1 --node-latency 1us",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
        for words in [
            "bcast -p 2 --bytes 1 --root 2",
            "allgather -p 2 --bytes 1 --root 0",
            "bcast -p 2 --bytes 1 --dist half",
            "bcast -p 2",
            "bcast -p 65 --bytes 1 --timeline x.svg",
            "bcast -p 2 --bytes 1 --plot x.svg",
            "bcast -p 2 --bytes 1 --algorithm magic",
            "bcast -p 2 --bytes 1 --first 1",
            "inter_bcast -p 2 --bytes 1 --first 2",
            "inter_bcast -p 2 --bytes 1 --setting s1",
            "inter_allgather -p 2 --bytes 1 --setting s5",
        ] {
            assert_eq!(chosen(&parse(words).unwrap()).unwrap_err().code, 2, "{words}");
        }
        assert_eq!(chosen(&parse("bcast -p 2 --bytes 1").unwrap()).unwrap()[0].name, "circulant");
    }
}
