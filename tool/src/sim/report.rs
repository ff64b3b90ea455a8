//! Outcomes as a table for people, as CSV, as JSON, and as a plot.

use super::case::{Case, irregular, rooted, set};
use super::race::Outcome;
use crate::bench::plot::{Frame, Series, chart};
use crate::grid::grid;
use crate::outcome::{Failure, Out};
use crate::units::{self, ratio_text, size, time};
use circulant::machine::Machine;
use circulant::plan::registry::{Algorithm, Arguments};
use serde::Serialize;
use std::path::Path;

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned, fastest first; with --sizes a column per algorithm
    #[default]
    Table,
    /// op,dist,p,ppn,bytes,algorithm,ns,reference_ns,rounds,puts,put_bytes,crossing_bytes,global_bytes,note
    Csv,
    /// An array of objects with these fields
    Json,
}

/// One algorithm at one size; what it does not have is empty.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    op: &'static str,
    dist: &'static str,
    p: u32,
    ppn: u32,
    bytes: u64,
    algorithm: &'static str,
    ns: Option<u64>,
    reference_ns: f64,
    rounds: Option<u32>,
    puts: Option<u64>,
    put_bytes: Option<u64>,
    /// Of these, from node to node.
    crossing_bytes: Option<u64>,
    /// Of these, from group to group.
    global_bytes: Option<u64>,
    /// Why it was not run.
    note: String,
}

impl Row {
    pub(crate) fn new(case: &Case, arguments: &Arguments, algorithm: &Algorithm, outcome: &Outcome) -> Self {
        let ran = if let Outcome::Ran(ran) = outcome { Some(ran) } else { None };
        Self {
            op: case.operation.name(),
            dist: spread(case).unwrap_or("-"),
            p: case.p,
            ppn: case.machine.most_on_a_node(case.p),
            bytes: case.bytes,
            algorithm: algorithm.name,
            ns: ran.map(|r| r.ns),
            reference_ns: case.reference_ns(arguments),
            rounds: ran.map(|r| r.rounds),
            puts: ran.map(|r| r.puts),
            put_bytes: ran.map(|r| r.bytes),
            crossing_bytes: ran.map(|r| r.crossing),
            global_bytes: ran.map(|r| r.global),
            note: match outcome {
                Outcome::Ran(ran) if ran.outlined => "the copies of a message are one".to_owned(),
                Outcome::Ran(_) => String::new(),
                // Without the advice to choose another: all are here.
                Outcome::Unfit(why) => format!("cannot: {}", why.split("; ").next().unwrap_or(why)),
                Outcome::OutOfReach(reach) => {
                    let bytes = units::bytes(reach.bytes());
                    let free =
                        reach.free.map_or_else(String::new, |free| format!("; {} are free", size(free)));
                    let needs = format!("{bytes} and {}", time(reach.ns()));
                    format!("not run: about {:.1e} steps, {needs}{free}", reach.steps)
                }
            },
        }
    }

    fn time(&self) -> String {
        self.ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64))
    }

    fn csv(&self) -> String {
        let text = |value: Option<u64>| value.map_or_else(String::new, |v| v.to_string());
        format!(
            "{},{},{},{},{},{},{},{:.0},{},{},{},{},{},{}",
            self.op,
            self.dist,
            self.p,
            self.ppn,
            self.bytes,
            self.algorithm,
            text(self.ns),
            self.reference_ns,
            text(self.rounds.map(u64::from)),
            text(self.puts),
            text(self.put_bytes),
            text(self.crossing_bytes),
            text(self.global_bytes),
            self.note.replace(',', ";")
        )
    }
}

pub(crate) fn print(out: &mut Out, format: Format, case: &Case, budget: u64, rows: &[Row]) {
    match format {
        Format::Csv => {
            out.line(
                "op,dist,p,ppn,bytes,algorithm,ns,reference_ns,rounds,puts,put_bytes,crossing_bytes,\
                 global_bytes,note",
            );
            rows.iter().for_each(|row| out.line(&row.csv()));
        }
        Format::Json => match serde_json::to_string_pretty(rows) {
            Ok(text) => out.line(&text),
            Err(e) => tracing::error!("{e}"),
        },
        Format::Table => {
            let in_groups = case.machine.groups.nodes > 0;
            let one_size = rows.iter().all(|row| row.bytes == rows[0].bytes);
            out.line(&heading(case, one_size.then(|| rows.first()).flatten()));
            out.line("");
            out.text(&if one_size { by_time(rows, in_groups) } else { by_size(rows) });
            if rows.iter().any(|row| row.note.starts_with("not run")) {
                let budget = units::figures(budget as f64 / 1e6);
                out.line(&format!(
                    "\nnot run: beyond the budget of {budget} million steps (--budget), or beyond the memory that is free"
                ));
            }
        }
    }
}

/// The name of what says how much each rank has.
fn spread(case: &Case) -> Option<&'static str> {
    let of_setting = || set(case.operation).then_some(case.setting.name);
    irregular(case.operation).then_some(case.dist.name).or_else(of_setting)
}

fn title(case: &Case) -> String {
    let ranks = units::plural(u64::from(case.p), "rank");
    let nodes = match case.machine.per_node {
        0 => String::new(),
        per_node if per_node >= case.p => ", on one node".to_owned(),
        per_node => format!(", {per_node} per node"),
    };
    let dist = spread(case).map_or_else(String::new, |name| format!(" {name}"));
    let groups = match case.operation.is_between_groups() {
        true => {
            let first = case.first.unwrap_or_else(|| case.setting.first(case.p));
            format!(" ({first} and {})", case.p.saturating_sub(first))
        }
        false => String::new(),
    };
    let root =
        if rooted(case.operation) && case.root > 0 { format!(" from {}", case.root) } else { String::new() };
    format!("{}{dist}{root} among {ranks}{groups}{nodes}", case.operation)
}

fn wires(case: &Case) -> String {
    let Machine { wire, near, per_node, .. } = case.machine;
    let mut text = units::wire_text(&wire.into());
    if per_node > 0 {
        text += &format!("; within a node {}", units::wire_text(&near.into()));
    }
    text += &units::groups_text(case.machine.groups);
    if case.operation.reduces() {
        text += &format!("; γ = {:.3} ns/B", wire.reduce_ps as f64 / 1000.0);
    }
    text
}

fn heading(case: &Case, row: Option<&Row>) -> String {
    let mut text = title(case);
    if let Some(row) = row {
        text += &format!(", {}; the reference C = {}", size(row.bytes), time(row.reference_ns));
    }
    format!("{text}\n{}", wires(case))
}

/// Fastest first; those that were not run last.
fn by_time(rows: &[Row], in_groups: bool) -> String {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| row.ns.unwrap_or(u64::MAX));
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
    let bytes = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), size);
    let crossing = rows.iter().any(|row| row.ppn > 1);
    let cells = |row: &&Row| {
        let ratio = row.ns.and_then(|ns| units::ratio(ns as f64, row.reference_ns));
        let mut cells = vec![
            row.algorithm.to_owned(),
            row.time(),
            ratio_text(ratio),
            number(row.rounds.map(u64::from)),
            number(row.puts),
            bytes(row.put_bytes),
        ];
        if crossing {
            cells.push(bytes(row.crossing_bytes));
        }
        if in_groups {
            cells.push(bytes(row.global_bytes));
        }
        cells.push(row.note.clone());
        cells
    };
    let cells: Vec<_> = sorted.iter().map(cells).collect();
    let mut columns = vec![
        ("algorithm", true),
        ("time", false),
        ("time/C", false),
        ("rounds", false),
        ("puts", false),
        ("bytes", false),
    ];
    if crossing {
        columns.push(("between nodes", false));
    }
    if in_groups {
        columns.push(("between groups", false));
    }
    columns.push(("", true));
    grid(&columns, &cells)
}

/// A line per size, a column per algorithm that ran at all, and the fastest.
fn by_size(rows: &[Row]) -> String {
    let names = names(rows);
    let mut columns = vec![("size", false), ("C", false)];
    columns.extend(names.iter().map(|name| (*name, false)));
    columns.push(("fastest", true));
    let lines = rows.chunk_by(|a, b| a.bytes == b.bytes).map(|rows| {
        let mut cells = vec![size(rows[0].bytes), time(rows[0].reference_ns)];
        let of = |name: &str| rows.iter().find(|row| row.algorithm == name);
        cells.extend(names.iter().map(|name| of(name).map_or_else(String::new, Row::time)));
        let fastest = rows.iter().filter(|row| row.ns.is_some()).min_by_key(|row| row.ns);
        cells.push(fastest.map_or("-", |row| row.algorithm).to_owned());
        cells
    });
    let lines: Vec<_> = lines.collect();
    let unfit = rows.iter().filter(|row| row.bytes == rows[0].bytes && row.note.starts_with("cannot"));
    let unfit: String = unfit.map(|row| format!("\n{} {}", row.algorithm, row.note)).collect();
    grid(&columns, &lines) + &unfit + if unfit.is_empty() { "" } else { "\n" }
}

/// Those that ran at some size, or might have.
fn names(rows: &[Row]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for row in rows.iter().filter(|row| !row.note.starts_with("cannot")) {
        if !names.contains(&row.algorithm) {
            names.push(row.algorithm);
        }
    }
    names
}

/// Draws the race over sizes.
pub(crate) fn plot(path: &Path, case: &Case, rows: &[Row]) -> Result<(), Failure> {
    let times = |name: &str| {
        let own = rows.iter().filter(|row| row.algorithm == name);
        own.filter_map(|row| Some((row.bytes as f64, row.ns.filter(|ns| *ns > 0)? as f64 / 1000.0))).collect()
    };
    let series = names(rows).into_iter().map(|name| Series {
        name: name.to_owned(),
        times: times(name),
        reference: Vec::new(),
    });
    let series: Vec<_> = series.filter(|s| !s.times.is_empty()).collect();
    if series.is_empty() {
        return Err(Failure::new(1, "there is nothing to plot: no algorithm ran"));
    }
    let mut reference: Vec<_> =
        rows.iter().map(|row| (row.bytes as f64, row.reference_ns / 1000.0)).filter(|p| p.1 > 0.0).collect();
    reference.dedup();
    let frame = Frame {
        title: title(case),
        under: wires(case),
        times: "predicted time",
        reference,
        ..Frame::default()
    };
    chart(path, &frame, &series)
}
