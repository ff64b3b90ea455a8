//! Which algorithm is chosen where, beside the best one by the simulator: over all operations, ranks, nodes, cores, sizes and
//! wires of the grid that the tests go over (`core/tests/pure/selection.rs`).

#[allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "of the tests")]
#[path = "../../core/tests/pure/grid.rs"]
mod grid;

use circulant_core::plan::registry::Operation;
use grid::{BYTES, Judged, Point, RANKS, Score, judge};
use std::collections::HashMap;
use std::fmt::Write;

/// The head of a table for programs.
const HEAD: &str =
    "operation,distribution,ranks,ranks per node,cores,bytes,wire,chosen,chosen ns,best,best ns";
/// So many of the worst points are printed.
const WORST: usize = 12;

/// What `words` ask for: of one operation, or of all.
pub(crate) fn run(words: &[&str]) -> Result<String, String> {
    let (operation, words) = match words {
        [name, rest @ ..] if !name.starts_with('-') => {
            (Some(name.parse::<Operation>().map_err(|e| e.to_string())?), rest)
        }
        words => (None, words),
    };
    match words {
        [] => Ok(summary(&all(operation), None)),
        ["--csv"] => Ok(csv(&all(operation))),
        ["--against", file] => {
            let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
            let before = others(&text)?;
            Ok(summary(&all(operation), Some(&before)))
        }
        _ => {
            Err("choices takes an operation, and --csv, or --against and the file that --csv made".to_owned())
        }
    }
}

/// All points with their times.
fn all(operation: Option<Operation>) -> Vec<Judged> {
    let mut points: Vec<Point> = [grid::flat(&RANKS, &BYTES), grid::nodes(), grid::cores()].concat();
    points.retain(|point| operation.is_none_or(|operation| operation == point.operation));
    judge(&points)
}

fn csv(judged: &[Judged]) -> String {
    let mut out = format!("{HEAD}\n");
    for judged in judged {
        let time = judged.candidates.iter().find(|c| c.line.name == judged.chosen).map_or(0, |c| c.simulated);
        let best = judged.best();
        let _ =
            writeln!(out, "{},{},{time},{},{}", judged.point, judged.chosen, best.line.name, best.simulated);
    }
    out
}

/// What another tree chooses, by point.
fn others(text: &str) -> Result<HashMap<String, String>, String> {
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return Err(format!("the first line is not {HEAD}"));
    }
    let line = |line: &str| {
        let fields: Vec<_> = line.split(',').collect();
        let chosen = fields.get(7).ok_or_else(|| format!("{line:?} has no choice"))?;
        Ok((fields[..7].join(","), (*chosen).to_owned()))
    };
    lines.map(line).collect()
}

/// Which part of the grid a point is of.
fn kind(point: &Point) -> &'static str {
    match (point.per_node, point.cores) {
        (0, _) => "a rank per node",
        (_, 0) => "ranks share nodes",
        _ => "ranks share cores",
    }
}

/// By kind and operation: how good the choice is, and another tree's by the same simulator.
fn summary(judged: &[Judged], before: Option<&HashMap<String, String>>) -> String {
    let mut rows: Vec<(String, [Score; 2])> = Vec::new();
    let mut changed: Vec<(f64, String)> = Vec::new();
    for judged in judged {
        let other = before.and_then(|before| before.get(&judged.point.to_string())).map(String::as_str);
        let other = other.filter(|name| judged.candidates.iter().any(|c| c.line.name == *name));
        let kind = kind(&judged.point);
        for name in [format!("{kind}: {}", judged.point.operation), kind.to_owned(), "all".to_owned()] {
            let at = rows.iter().position(|row| row.0 == name).unwrap_or_else(|| {
                rows.push((name, Default::default()));
                rows.len() - 1
            });
            rows[at].1[0].add(judged, judged.chosen);
            if let Some(other) = other {
                rows[at].1[1].add(judged, other);
            }
        }
        if let Some(other) = other.filter(|other| *other != judged.chosen) {
            let ratio = judged.ratio() / judged.ratio_of(other);
            changed.push((ratio, format!("{}: {} for {other}", judged.point, judged.chosen)));
        }
    }
    let out = table(&rows, before.is_some());
    match before {
        Some(_) => out + &changes(changed),
        None => out + &worst(judged),
    }
}

fn table(rows: &[(String, [Score; 2])], both: bool) -> String {
    let cell = |score: &Score| format!("{:.1} %, {:.2}", score.share(), score.worst);
    let mut out = match both {
        true => String::from("| | points | before: within a tenth, worst | now |\n|---|---|---|---|\n"),
        false => String::from("| | points | within a tenth, worst |\n|---|---|---|\n"),
    };
    for (name, [now, before]) in rows {
        let _ = match both {
            true => writeln!(out, "| {name} | {} | {} | {} |", now.points, cell(before), cell(now)),
            false => writeln!(out, "| {name} | {} | {} |", now.points, cell(now)),
        };
    }
    out
}

/// Of points where another algorithm is chosen than before.
fn changes(mut changed: Vec<(f64, String)>) -> String {
    changed.sort_by(|a, b| b.0.total_cmp(&a.0));
    let slower = changed.iter().filter(|change| change.0 > 1.1).count();
    let faster = changed.iter().filter(|change| change.0 < 1.0 / 1.1).count();
    let mut out = format!("\n{} choices changed: {faster} a tenth faster, {slower} slower\n", changed.len());
    for (ratio, at) in changed.iter().take(WORST) {
        let _ = writeln!(out, "x{ratio:.2} {at}");
    }
    out
}

fn worst(judged: &[Judged]) -> String {
    let mut ratios: Vec<_> = judged.iter().map(|judged| (judged.ratio(), judged)).collect();
    ratios.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut out = String::from("\nThe worst:\n");
    for (ratio, judged) in ratios.iter().take(WORST) {
        let (point, chosen, best) = (&judged.point, judged.chosen, judged.best());
        let price = judged.candidates.iter().find(|c| c.line.name == chosen).map_or(f64::NAN, |c| c.price);
        let _ = writeln!(
            out,
            "x{ratio:.2}, by prices x{:.2}, {point}: {chosen} for {}",
            price / best.price,
            best.line.name
        );
    }
    out
}
