//! How far prices are from times: the algorithm that is chosen and the next ones, side by side.

use super::args::TuneArgs;
use crate::bench::operations::Operation;
use crate::bench::order::{MemoryKind, Mode};
use crate::bench::points::{self, Lab, Point};
use crate::bench::together::Together;
use crate::outcome::{Failure, Out};
use crate::units::{self, align, plural, time};
use circulant::Options;
use circulant::World;
use circulant::measure;
use circulant::ops::{Op, Type, reducer};
use circulant::plan::registry::Algorithm;
use indicatif::{ProgressBar, ProgressStyle};

/// A choice that is not slower than the fastest by more than this is a good one.
const GOOD: f64 = 1.10;

/// One algorithm at one point, in nanoseconds.
struct Row {
    name: &'static str,
    predicted: f64,
    measured: f64,
}

/// Runs them, and prints the table at rank 0. Collective.
pub(super) fn run(args: &TuneArgs, world: &World, out: &mut Out) -> Result<(), Failure> {
    if world.size() == 1 {
        return Err(
            Failure::usage("one rank has nothing to verify: circulant run -n 4 tune --verify").everywhere()
        );
    }
    let comm = &world.comm();
    let wire = measure::wire(comm)?;
    let lab = Lab {
        world,
        comm,
        together: Together::new(comm, Options::default(), &wire, world.nodes()),
        options: Options::default(),
        wire,
        fold_ns: 0.0,
        root: 0,
        calls: 1,
        warm: 0,
        reps: 1000,
        time: args.time,
        memory: MemoryKind::Arena,
        cold: None,
        fresh: false,
        mode: Mode::Blocking,
        in_place: false,
        kind: Type::F64,
        op: Op::Sum,
        reducer: reducer(Type::F64, Op::Sum)?,
        check: false,
        stats: false,
        work: None,
    };
    let bar = if world.rank() == 0 { ProgressBar::new(0) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    let mut points = Vec::new();
    for op in &args.ops {
        let sizes = if op.sized { args.bytes.as_slice() } else { &[0] };
        for bytes in sizes {
            points.push(Point { op, dist: None, setting: None, bytes: *bytes, algorithm: None });
        }
    }
    bar.set_length(points.len() as u64);
    let mut all = Vec::new();
    for point in &points {
        bar.set_message(format!("{} {}", point.op.name, units::size(point.bytes)));
        all.push((point.op, point.bytes, race(&lab, point, usize::from(args.candidates))?));
        bar.inc(1);
    }
    bar.finish_and_clear();
    if world.rank() == 0 {
        out.text(&table(&all));
    }
    Ok(())
}

/// The algorithm chosen, then the next by price.
fn race(lab: &Lab<'_>, point: &Point, most: usize) -> Result<Vec<Row>, Failure> {
    let Some(registered) = point.op.registered() else { return Ok(Vec::new()) };
    let call = lab.rank_call(point);
    let arguments = (point.op.shape)(&call).arguments(&call);
    let candidates = measure::candidates(lab.comm, registered, &arguments)?;
    let mut priced: Vec<(&'static Algorithm, f64)> =
        candidates.iter().filter_map(|c| Some((c.algorithm, c.cost.as_ref().ok()?.ns))).collect();
    if let Some((_chosen, others)) = priced.split_first_mut() {
        others.sort_by(|a, b| a.1.total_cmp(&b.1));
    }
    priced.truncate(most);
    let mut rows = Vec::new();
    for (algorithm, predicted) in priced {
        let point = Point { algorithm: Some(algorithm), ..*point };
        if let Some(row) = points::measure(lab, &point, true)? {
            rows.push(Row { name: algorithm.name, predicted, measured: row.min_us * 1e3 });
        }
    }
    Ok(rows)
}

type Measured = (&'static Operation, u64, Vec<Row>);

fn table(all: &[Measured]) -> String {
    let head = ["operation", "size", "algorithm", "predicted", "measured", "ratio", ""].map(str::to_owned);
    let mut lines = vec![head];
    for (op, bytes, rows) in all {
        let best = fastest(rows);
        for (i, row) in rows.iter().enumerate() {
            let mut marks = Vec::new();
            if i == 0 {
                marks.push("chosen");
            }
            if row.measured == best {
                marks.push("fastest");
            }
            let size = if op.sized { units::size(*bytes) } else { "-".to_owned() };
            lines.push([
                op.name.to_owned(),
                size,
                row.name.to_owned(),
                time(row.predicted),
                time(row.measured),
                units::ratio_text(units::ratio(row.predicted, row.measured)),
                marks.join(", "),
            ]);
        }
    }
    let width = |i: usize| lines.iter().map(|l| l[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let left = [true, false, true, false, false, false, true];
    let mut text: String = lines.iter().map(|l| align(l, &widths, &left) + "\n").collect();
    text += "\n";
    text + &summary(all)
}

fn fastest(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.measured).fold(f64::INFINITY, f64::min)
}

/// How good the choices were, and the prices.
fn summary(all: &[Measured]) -> String {
    let with_choice = all.iter().filter_map(|(_, _, rows)| Some((rows.first()?, fastest(rows))));
    let ratios: Vec<f64> = with_choice.map(|(chosen, best)| chosen.measured / best).collect();
    let good = ratios.iter().filter(|r| **r <= GOOD).count();
    let worst = ratios.iter().copied().fold(1.0, f64::max);
    let rows = all.iter().flat_map(|(_, _, rows)| rows);
    let mut prices: Vec<f64> = rows.filter_map(|r| units::ratio(r.predicted, r.measured)).collect();
    prices.sort_by(f64::total_cmp);
    let at = |i: usize| units::ratio_text(prices.get(i).copied());
    format!(
        "The choice was within 10 % of the fastest at {good} of {}; at worst {} times as slow.\n\
         Predicted / measured: median {}, from {} to {}.\n",
        plural(ratios.len() as u64, "point"),
        units::ratio_text(Some(worst)),
        at(prices.len() / 2),
        at(0),
        at(prices.len().saturating_sub(1)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_who_was_chosen_and_who_was_fastest() {
        let op = Operation::find("bcast").unwrap();
        let row = |name, predicted, measured| Row { name, predicted, measured };
        let all = [
            (op, 1000, vec![row("circulant", 1e3, 2e3), row("chain", 4e3, 1e3)]),
            (op, 64, vec![row("binomial", 1e3, 1e3), row("linear", 2e3, 1e3 + 1.0)]),
        ];
        let text = table(&all);
        let lines: Vec<_> = text.lines().collect();
        let row = |words: &[&str]| lines.iter().any(|l| l.split_whitespace().collect::<Vec<_>>() == words);
        assert!(row(&["bcast", "1", "KB", "circulant", "1", "µs", "2", "µs", "0.50", "chosen"]), "{text}");
        assert!(row(&["bcast", "1", "KB", "chain", "4", "µs", "1", "µs", "4.00", "fastest"]), "{text}");
        assert!(
            row(&["bcast", "64", "B", "binomial", "1", "µs", "1", "µs", "1.00", "chosen,", "fastest"]),
            "{text}"
        );
        assert!(text.contains("within 10 % of the fastest at 1 of 2 points; at worst 2.00 times"), "{text}");
        assert!(text.contains("median 2.00, from 0.50 to 4.00"), "{text}");
    }
}
