//! `circulant bench`: collectives by the rivals' protocol, beside what the wire itself would take.

mod args;
mod calls;
mod check;
mod cold;
pub(crate) mod dist;
mod groups;
mod job;
pub(crate) mod operations;
pub(crate) mod order;
mod overlap;
pub(crate) mod plot;
pub(crate) mod points;
mod sample;
pub(crate) mod shapes;
mod table;
pub(crate) mod together;

use crate::learned;
use crate::outcome::{Failure, Out, leave};
use crate::settings::{SETTINGS, Setting as Between};
use crate::units;
use circulant::World;
use circulant::comm::{Learned, Options};
use circulant::measure;
use circulant::ops::reducer;
use circulant::plan::registry::{self, Algorithm};
use cold::Cold;
use dist::{DISTS, Dist};
use indicatif::{ProgressBar, ProgressStyle};
use operations::{Dists, InPlace, Operation};
use order::{MemoryKind, Mode};
use overlap::Work;
use points::{Lab, Point, Row};
use shapes::RankCall;
use std::time::Duration;
use table::{Counting, Format, Setting, Table};
use together::Together;

pub(crate) use args::BenchArgs;
#[cfg(test)]
pub(crate) use table::CSV_HEAD;

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
fn plan(args: &BenchArgs, p: usize, nodes: &[u32]) -> Result<Vec<Point>, Failure> {
    let sizes = if args.bytes.is_empty() { default_sizes() } else { args.bytes.clone() };
    let mut points = Vec::new();
    for op in args.operations(p) {
        let base = Point { op, dist: None, setting: None, bytes: 0, algorithm: None };
        for spread in spreads(args, &base) {
            for &bytes in if op.sized { sizes.as_slice() } else { &[0] } {
                let point = Point { bytes, ..spread };
                points.extend(
                    chosen(args, &point, p, nodes)?.into_iter().map(|algorithm| Point { algorithm, ..point }),
                );
            }
        }
    }
    Ok(points)
}

/// An operation with each of its distributions, or settings. Names meant for another kind are passed over.
fn spreads(args: &BenchArgs, base: &Point) -> Vec<Point> {
    let with = |dist: &'static Dist| Point { dist: Some(dist), ..*base };
    let among = |setting: &'static Between| Point { setting: Some(setting), ..*base };
    match base.op.dists {
        Dists::None => vec![*base],
        Dists::Between { irregular } => {
            let all = if args.dist.is_empty() {
                SETTINGS.iter().collect()
            } else {
                args.settings().collect::<Vec<_>>()
            };
            all.into_iter().filter(|s| s.irregular() == irregular).map(among).collect()
        }
        Dists::Asked if args.dist.is_empty() => vec![*base],
        Dists::All if args.dist.is_empty() => DISTS.iter().map(with).collect(),
        _ => args.dists().map(with).collect(),
    }
}

/// The algorithms for a point; `None` is the library's choice.
fn chosen(
    args: &BenchArgs,
    point: &Point,
    p: usize,
    nodes: &[u32],
) -> Result<Vec<Option<&'static Algorithm>>, Failure> {
    let Some(registered) = point.op.registered() else { return Ok(vec![None]) };
    let Point { op, dist, setting, bytes, .. } = *point;
    // The root's view: what it can do all can do. A root that is out of range is refused elsewhere.
    let (root, in_place, element) = (args.root.min(p - 1), args.in_place, args.kind.size() as u64);
    let call = op.rank_call(RankCall { p, rank: root, root, bytes, dist, setting, in_place, element });
    let mut arguments = (op.shape)(&call).arguments(&call);
    arguments.nodes = nodes.into();
    let mut list = Vec::new();
    for name in &args.algorithm {
        match name.as_str() {
            "auto" => list.push(None),
            "all" => {
                let fitting = registry::algorithms(registered).filter(|a| (a.fits)(&arguments).is_ok());
                list.extend(fitting.map(Some));
            }
            name => {
                let found = registry::algorithm(registered, name)?;
                (found.fits)(&arguments)?;
                list.push(Some(found));
            }
        }
    }
    Ok(list)
}

/// How many ranks there are on the node that has most.
fn most_per_node(nodes: &[u32]) -> u64 {
    let on = |node: &u32| nodes.iter().filter(|n| *n == node).count();
    nodes.iter().map(on).max().unwrap_or(1) as u64
}

/// What can be known to be wrong before any data moves. All ranks find the same.
fn refuse(args: &BenchArgs, p: usize) -> Result<(), Failure> {
    if args.root >= p {
        return Err(Failure::usage(format!(
            "root {} is out of range: there are ranks 0 to {}",
            args.root,
            p - 1
        )));
    }
    let ops = args.operations(p);
    if p == 1 && ops.iter().any(|o| o.registered().is_none()) {
        return Err(Failure::usage("put, pingpong and rate need two ranks: circulant run -n 2 bench put"));
    }
    if p == 1 && ops.iter().any(|o| o.between()) {
        return Err(Failure::usage("two groups need two ranks: circulant run -n 2 bench inter_allgather"));
    }
    reducer(args.kind, args.op)?;
    let mode = args.mode();
    if mode == Mode::Blocking && args.overlap {
        let said = "nothing passes beside a blocking call: --overlap needs --mode request or persistent";
        return Err(Failure::usage(said));
    }
    if mode != Mode::Blocking && args.memory == MemoryKind::Plain {
        let said = format!("{} calls own their memory, which is arena memory", mode.name());
        return Err(Failure::usage(said));
    }
    if args.in_place {
        let can = |o: &Operation| match o.in_place {
            InPlace::Never => false,
            InPlace::Blocking => mode == Mode::Blocking,
            InPlace::Always => true,
        };
        if let Some(o) = ops.iter().find(|o| !can(o)) {
            return Err(Failure::usage(format!("there is no {} {} in place", mode.name(), o.name)));
        }
    }
    Ok(())
}

fn something_to_plot(args: &BenchArgs, points: Vec<Point>) -> Result<Vec<Point>, Failure> {
    match args.plot.is_some() && !points.iter().any(|x| x.op.sized && x.bytes > 0) {
        true => Err(Failure::usage("there is nothing to plot: no operation with a size above 0")),
        false => Ok(points),
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    let world = World::init()?;
    let done = refuse(args, world.size())
        .and_then(|()| plan(args, world.size(), world.nodes()))
        .and_then(|points| something_to_plot(args, points))
        .map_err(Failure::everywhere)
        .and_then(|points| all_points(args, &world, &points));
    leave(world, done)?.map_or(Ok(()), Report::finish)
}

fn all_points<'a>(
    args: &'a BenchArgs,
    world: &World,
    points: &[Point],
) -> Result<Option<Report<'a>>, Failure> {
    // Blocks and algorithm are for what is timed, not for barriers and gathered times.
    let deadline = args.deadline.map(Duration::from_secs_f64);
    let comm = &world.comm().with(Options::new().deadline(deadline));
    let reducer = reducer(args.kind, args.op)?;
    let reduces = points.iter().any(|x| x.op.reduces());
    let fold_ns = if reduces { points::fold_ns(comm, &reducer)? } else { 0.0 };
    let wire = measure::wire(comm)?;
    let lab = Lab {
        world,
        comm,
        together: Together::new(comm, Options::new().deadline(deadline), &wire, world.nodes())
            .after(args.rest(), args.one_clock),
        options: Options::new().deadline(deadline).blocks(args.blocks.0),
        wire,
        fold_ns,
        root: args.root,
        calls: args.calls,
        warm: args.warm,
        reps: usize::try_from(args.reps).unwrap_or(usize::MAX),
        time: args.time,
        memory: args.memory,
        cold: args.cold.map(|bytes| Cold::new(bytes, most_per_node(world.nodes()))),
        fresh: args.fresh,
        mode: args.mode(),
        in_place: args.in_place,
        kind: args.kind,
        op: args.op,
        reducer,
        check: args.check,
        stats: args.stats,
        work: args.overlap.then(Work::calibrate),
    };
    let mut report = (world.rank() == 0).then(|| Report::new(args, setting(args, &lab), points));
    for point in points {
        let go_on = report.as_mut().is_none_or(|r| r.next(point));
        match points::measure(&lab, point, go_on)? {
            Some(row) => report.iter_mut().for_each(|r| r.row(&row)),
            None => break,
        }
    }
    if let Some(report) = &mut report {
        report.learned = world.learned()?.iter().map(Learned::line).collect();
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
        cold_bytes: lab.cold.as_ref().map_or(0, Cold::bytes),
        fresh: lab.fresh,
        rest_seconds: lab.together.rest().as_secs_f64(),
        one_clock: lab.together.is_by_clock(),
        calls: lab.calls,
        mode: lab.mode.name(),
        in_place: args.in_place,
        kind: args.kind.name(),
        op: args.op.name(),
        root: args.root,
        latency_ns: lab.wire.latency_ns,
        overhead_ns: lab.wire.overhead_ns,
        byte_ns: lab.wire.byte_ns,
        choices_by: choices_by(lab),
        fold_ns: lab.fold_ns,
        reps: args.reps,
        seconds: args.time,
        counting: Counting {
            stats: args.stats,
            groups: !lab.world.groups().is_empty(),
            hardware: points::counts_hardware(lab.world),
        },
    }
}

fn choices_by(lab: &Lab<'_>) -> String {
    let Ok((machine, source)) = measure::machine(lab.comm) else { return String::new() };
    format!("{} ({source})", crate::units::wire_text(&machine.wire.into()))
}

/// What rank 0 shows.
struct Report<'a> {
    args: &'a BenchArgs,
    setting: Setting,
    out: Out,
    table: Table,
    bar: ProgressBar,
    rows: Vec<Row>,
    /// What trials have found meanwhile.
    learned: Vec<String>,
}

impl<'a> Report<'a> {
    fn new(args: &'a BenchArgs, setting: Setting, points: &[Point]) -> Self {
        let table = Table::new(points, args.overlap, setting.counting);
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
        Self { args, setting, out, table, bar, rows: Vec::new(), learned: Vec::new() }
    }

    /// Says what is measured now; whether the output is still read.
    fn next(&mut self, point: &Point) -> bool {
        self.bar.set_message(format!(
            "{} {} {} {}",
            point.op.name,
            point.dist_name(),
            point.algorithm_name(),
            units::size(point.bytes)
        ));
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
            Format::Table => {
                self.out.text(&table::footer(&self.setting, &self.rows, self.args.overlap, self.args.stats));
                learned::print(self.learned.iter().map(String::as_str), &mut self.out);
            }
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
    use super::operations::OPERATIONS;
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
        let points = plan(&parse("bcast,allgatherv,barrier,reduce_scatter").unwrap(), 3, &[]).unwrap();
        assert_eq!(points.len(), 13 + 7 * 13 + 1 + 13);
        let points = plan(&parse("allgatherv --dist irr3,half --bytes 0,1Ki").unwrap(), 3, &[]).unwrap();
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
            "bcast --op plus",
            "bcast --type f23",
            "bcast --persistent --mode request",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
        let refused = |words: &str, p| {
            let args = parse(words).unwrap();
            let points = refuse(&args, p).and_then(|()| plan(&args, p, &[]));
            points.and_then(|points| something_to_plot(&args, points)).map_err(|f| (f.code, f.text))
        };
        for (words, p) in [
            ("bcast --root 3", 3),
            ("put", 1),
            ("inter_allgather", 1),
            ("bcast --algorithm magic", 2),
            ("bcast,barrier --algorithm circulant", 2),
            ("bcast --algorithm hypercube", 3),
            ("reduce --op minloc", 2),
            ("reduce --type f32 --op band", 2),
            ("bcast --in-place", 2),
            ("alltoall --in-place --mode request", 2),
            ("reduce --mode request --memory plain", 2),
            ("bcast --persistent --memory plain", 2),
            ("bcast --bytes 0 --plot x.svg", 2),
        ] {
            assert_eq!(refused(words, p).unwrap_err().0, 2, "{words}");
        }
        for (words, p) in [
            ("bcast,put --root 2 --algorithm circulant --plot x.svg", 3),
            ("all --type f32-index --op minloc --mode persistent", 1),
            ("alltoall,scan --in-place", 3),
        ] {
            assert!(refused(words, p).is_ok(), "{words}");
        }
    }

    #[test]
    fn all_algorithms_are_those_that_can() {
        let names = |words: &str, p| -> Vec<&str> {
            plan(&parse(words).unwrap(), p, &[]).unwrap().iter().map(Point::algorithm_name).collect()
        };
        let (seven, eight) =
            (names("bcast --bytes 8 --algorithm all", 7), names("bcast --bytes 8 --algorithm all", 8));
        assert!(seven.contains(&"circulant") && !seven.contains(&"hypercube") && !seven.contains(&"mesh"));
        assert!(eight.contains(&"hypercube") && eight.contains(&"mesh"));
        assert_eq!(names("bcast --bytes 8,80 --algorithm auto,chain", 7), ["auto", "chain", "auto", "chain"]);
        for op in OPERATIONS.iter().filter(|o| o.registered().is_some()) {
            let words = format!("{} --bytes 64 --dist linear,s1,s8 --algorithm all", op.name);
            let count = names(&words, 4).len();
            assert!(count > 0, "{}", op.name);
        }
    }
}
