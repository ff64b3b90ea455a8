//! Rows as a table for people, as CSV in the rivals' format, or as JSON.

use super::operations::{How, Operation};
use super::points::{Counted, Figure, Point, Row};
use super::shapes::WINDOW_PUTS;
use crate::outcome::Out;
use crate::units::{align, number, rate, ratio_text, size, time};
use serde::Serialize;

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned, with units and the reference
    #[default]
    Table,
    /// op,dist,p,bytes,min_us,median_us,span_us,reps,label
    Csv,
    /// One object: setting, rows
    Json,
}

pub(crate) const CSV_HEAD: &str = "op,dist,p,bytes,min_us,median_us,span_us,reps,label";

/// The label says which algorithm it was, where one was named.
pub(crate) fn csv(row: &Row, label: &str) -> String {
    let Row { op, dist, p, bytes, min_us, median_us, span_us, reps, algorithm, .. } = row;
    let line = format!("{op},{dist},{p},{bytes},{min_us:.3},{median_us:.3},{span_us:.3},{reps},{label}");
    if *algorithm == "auto" { line } else { format!("{line}/{algorithm}") }
}

/// A column: its head, and whether it is aligned to the left.
type Column = (&'static str, bool);

const TIMES: [Column; 11] = [
    ("op", true),
    ("dist", true),
    ("size", false),
    ("min", false),
    ("median", false),
    ("span", false),
    ("C", false),
    ("min/C", false),
    ("algbw", false),
    ("busbw", false),
    ("reps", false),
];

/// Of `--stats`, each with its width.
const COUNTS: [(Column, usize); 8] = [
    (("puts", false), 13),
    (("wire", false), 18),
    (("between groups", false), 18),
    (("copied", false), 18),
    (("allocs", false), 11),
    (("rounds", false), 11),
    (("requests", false), 13),
    (("doorbells", false), 13),
];
/// The one that is there where the network is divided.
const OF_GROUPS: usize = 2;
/// The first of those that are there where RDMA hardware counts.
const OF_HARDWARE: usize = 6;

/// Which of the columns of `--stats` there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counting {
    pub(crate) stats: bool,
    pub(crate) groups: bool,
    pub(crate) hardware: bool,
}

impl Counting {
    /// Their indices.
    fn columns(self) -> impl Iterator<Item = usize> {
        let shown = move |i: &usize| match *i {
            OF_GROUPS => self.groups,
            OF_HARDWARE.. => self.hardware,
            _ => true,
        };
        (0..if self.stats { COUNTS.len() } else { 0 }).filter(shown)
    }
}

/// Lines of cells under each other. The widths are set before the first row is known, so that rows can be
/// printed as they come.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    widths: Vec<usize>,
    /// Whether there is a column of algorithms: where one was named.
    algorithms: bool,
    /// Whether there is one of message rates: where they are measured.
    rates: bool,
    /// Whether there is one of overlap.
    overlap: bool,
    counting: Counting,
}

impl Table {
    /// For these points, with these of the counted columns.
    pub(crate) fn new(points: &[Point], overlap: bool, counting: Counting) -> Self {
        let mut columns = TIMES.to_vec();
        let widest = |cell: &dyn Fn(&Point) -> String| {
            points.iter().map(|p| cell(p).chars().count()).max().unwrap_or(1)
        };
        let mut widths = vec![
            widest(&|p| p.op.name.to_owned()),
            widest(&|p| p.dist_name().to_owned()),
            widest(&|p| size(p.bytes)),
        ];
        let algorithms = points.iter().any(|p| p.algorithm.is_some());
        if algorithms {
            columns.insert(1, ("algorithm", true));
            widths.insert(1, widest(&|p| p.algorithm_name().to_owned()));
        }
        widths.extend([7, 7, 7, 7, 6, 9, 9, 4]);
        let rates = points.iter().any(|p| matches!(p.op.how, How::Rate));
        if rates {
            columns.push(("messages/s", false));
            widths.push(10);
        }
        if overlap {
            columns.push(("overlap", false));
            widths.push(7);
        }
        for (column, width) in counting.columns().map(|i| COUNTS[i]) {
            columns.push(column);
            widths.push(width);
        }
        for (w, (head, _)) in widths.iter_mut().zip(&columns) {
            *w = (*w).max(head.chars().count());
        }
        Self { columns, widths, algorithms, rates, overlap, counting }
    }

    pub(crate) fn head(&self) -> String {
        self.align(&self.columns.iter().map(|(head, _)| (*head).to_owned()).collect::<Vec<_>>())
    }

    pub(crate) fn row(&self, row: &Row) -> String {
        let us = |t: f64| time(t * 1e3);
        let reference = if row.reference_us > 0.0 { us(row.reference_us) } else { "-".to_owned() };
        let mut cells = vec![
            row.op.to_owned(),
            row.dist.to_owned(),
            size(row.bytes),
            us(row.min_us),
            us(row.median_us),
            us(row.span_us),
            reference,
            ratio_text(row.ratio),
            bandwidth(row.algbw_gbs),
            bandwidth(row.busbw_gbs),
            row.reps.to_string(),
        ];
        if self.algorithms {
            cells.insert(1, row.algorithm.to_owned());
        }
        if self.rates {
            cells.push(row.messages_per_s.map_or_else(|| "-".to_owned(), number));
        }
        if self.overlap {
            cells.push(
                row.overlap_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.0} %")),
            );
        }
        let mut counts = row.stats.as_ref().map(counted).unwrap_or_default();
        let missing = || "-".to_owned();
        cells.extend(self.counting.columns().map(|i| counts[i].take().unwrap_or_else(missing)));
        self.align(&cells)
    }

    fn align(&self, cells: &[String]) -> String {
        align(cells, &self.widths, &self.columns.iter().map(|c| c.1).collect::<Vec<_>>())
    }
}

fn bandwidth(gbs: Option<f64>) -> String {
    gbs.map_or_else(|| "-".to_owned(), |gbs| rate(gbs * 1e9))
}

/// The cells of [`COUNTS`]; empty where nothing was counted.
fn counted(c: &Counted) -> [Option<String>; COUNTS.len()] {
    let number = |f: &Figure| Some(format!("{}/{}", f.max, f.sum));
    let bytes = |f: &Figure| Some(format!("{}/{}", size(f.max), size(f.sum)));
    let h = c.hardware.as_ref();
    [
        number(&c.puts),
        bytes(&c.wire_bytes),
        bytes(&c.global_bytes),
        bytes(&c.copied_bytes),
        number(&c.allocations),
        number(&c.rounds),
        h.and_then(|h| number(&h.requests)),
        h.and_then(|h| number(&h.doorbells)),
    ]
}

/// What the table was measured on and with.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) label: String,
    pub(crate) p: usize,
    pub(crate) nodes: u32,
    pub(crate) provider: String,
    pub(crate) launcher: String,
    pub(crate) memory: &'static str,
    /// Read by each rank before each repetition, so that buffers are cold; 0 when they are warm.
    pub(crate) cold_bytes: u64,
    /// Each rank writes its buffers before each repetition.
    pub(crate) fresh: bool,
    /// For which each rank does nothing before each repetition; twice where they begin at one time.
    pub(crate) rest_seconds: f64,
    /// All ranks begin a repetition at one time of their clock.
    pub(crate) one_clock: bool,
    /// Calls of a repetition.
    pub(crate) calls: u32,
    pub(crate) mode: &'static str,
    pub(crate) in_place: bool,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) op: &'static str,
    pub(crate) root: usize,
    pub(crate) latency_ns: f64,
    pub(crate) overhead_ns: f64,
    pub(crate) byte_ns: f64,
    /// What algorithms and blocks are chosen by, and where that is from.
    pub(crate) choices_by: String,
    /// Of reducing a byte; 0 when nothing is reduced.
    pub(crate) fold_ns: f64,
    /// Most repetitions of a point, and seconds that they may take together.
    pub(crate) reps: u64,
    pub(crate) seconds: f64,
    #[serde(skip)]
    pub(crate) counting: Counting,
}

#[derive(Serialize)]
struct Document<'a> {
    setting: &'a Setting,
    rows: &'a [Row],
}

pub(crate) fn json(out: &mut Out, setting: &Setting, rows: &[Row]) {
    match serde_json::to_string_pretty(&Document { setting, rows }) {
        Ok(text) => out.line(&text),
        Err(e) => tracing::error!("{e}"),
    }
}

/// What stands under a table: where it was measured, and what its columns mean.
pub(crate) fn footer(setting: &Setting, rows: &[Row], overlap: bool, stats: bool) -> String {
    let s = setting;
    let wire =
        circulant::measure::Wire { latency_ns: s.latency_ns, overhead_ns: s.overhead_ns, byte_ns: s.byte_ns };
    let mut text = format!(
        "\n{} on {}, provider {}, launcher {}, {} memory{}{}, {} calls{}{}{}\n",
        crate::units::plural(s.p as u64, "rank"),
        crate::units::plural(u64::from(s.nodes), "node"),
        s.provider,
        s.launcher,
        s.memory,
        if s.cold_bytes > 0 { format!(", cold ({} read before)", size(s.cold_bytes)) } else { String::new() },
        if s.fresh { ", written before each repetition" } else { "" },
        s.mode,
        if s.in_place { ", in place" } else { "" },
        if s.calls > 1 { format!(", {} in each repetition", s.calls) } else { String::new() },
        if s.rest_seconds > 0.0 {
            match s.one_clock {
                false => format!(", repetitions each after a rest of {} s", s.rest_seconds),
                true => format!(
                    ", repetitions each after two rests of {} s, at one time of the clock",
                    s.rest_seconds
                ),
            }
        } else {
            String::new()
        },
    );
    let mut used: Vec<&Operation> = Vec::new();
    for op in rows.iter().filter_map(|row| Operation::find(row.op)) {
        if !used.iter().any(|o| o.name == op.name) {
            used.push(op);
        }
    }
    if used.iter().any(|o| o.reduces()) {
        text += &format!("{} of {}, γ = {:.3} ns/B at rank 0\n", s.op, s.kind, s.fold_ns);
    }
    if s.p > 1 {
        let q = crate::units::rounds(s.p);
        text += &format!("wire between ranks 0 and 1: {}\n", crate::units::wire_text(&wire));
        text += &format!("choices by {}\n", s.choices_by);
        text += &format!("C, the reference, with q = {q}:\n");
        while let Some(reference) = used.first().map(|o| o.reference) {
            let names: Vec<&str> = used.iter().filter(|o| o.reference == reference).map(|o| o.name).collect();
            text += &format!("  {reference}: {}\n", names.join(", "));
            used.retain(|o| o.reference != reference);
        }
    }
    text +=
        "min, median: of the repetitions' slowest ranks; span: latest end − earliest start, the smallest\n";
    text += "algbw = size/median, busbw = V/median with the V of C (the factor of β): nccl-tests' algorithm and bus \
             bandwidth\n";
    text += &format!(
        "reps: repetitions made; as many as take {} s together (--time), but at least {} and at most {} (--reps)\n",
        s.seconds,
        s.reps.min(super::points::LEAST_REPS as u64),
        s.reps
    );
    if rows.iter().any(|row| row.messages_per_s.is_some()) {
        text += &format!(
            "messages/s: puts of all pairs of ranks i and i + P/2 together, in windows of {WINDOW_PUTS}, from the median\n"
        );
    }
    if overlap {
        text += "overlap: of the call beside a computation that takes as long, 100·(1 − (t_total − t_compute)/t_pure)\n";
    }
    if stats {
        text += "puts, wire, copied, allocs, rounds: of one operation, largest rank/sum of all\n";
    }
    if stats && s.counting.groups {
        text += "between groups: of wire, what went to nodes of other groups\n";
    }
    if stats && s.counting.hardware {
        text += "requests, doorbells: work requests of one operation, and the lists in which they were posted; --format json has more\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::dist::Dist;
    use super::super::points::Hardware;
    use super::*;

    fn points() -> Vec<Point> {
        let op = |name| Operation::find(name).unwrap();
        vec![
            Point { op: op("bcast"), dist: None, setting: None, bytes: 1_000_000, algorithm: None },
            Point {
                op: op("allgatherv"),
                dist: Dist::find("geometric"),
                setting: None,
                bytes: 4,
                algorithm: None,
            },
            Point { op: op("barrier"), dist: None, setting: None, bytes: 0, algorithm: None },
            Point { op: op("rate"), dist: None, setting: None, bytes: 8, algorithm: None },
        ]
    }

    fn example(op: &'static str, bytes: u64, us: f64) -> Row {
        let ratio = crate::units::ratio(us, 0.8 * us);
        let f = Figure { max: 100_001, sum: 999_999 };
        let stats = Some(Counted {
            puts: f,
            wire_bytes: f,
            global_bytes: f,
            copied_bytes: f,
            allocations: Figure::default(),
            rounds: Figure { max: 7, sum: 56 },
            hardware: (op == "bcast").then_some(Hardware {
                requests: f,
                doorbells: f,
                signalled: f,
                receives: f,
                refills: f,
                refused: f,
                receivers_not_ready: f,
                timeouts: f,
            }),
        });
        Row {
            op,
            dist: "-",
            algorithm: "auto",
            p: 8,
            bytes,
            min_us: us,
            median_us: us,
            span_us: us,
            reps: 35,
            reference_us: 0.8 * us,
            ratio,
            algbw_gbs: Some(bytes as f64 / us / 1e3),
            busbw_gbs: None,
            messages_per_s: (op == "rate").then_some(us * 1e5),
            overlap_percent: Some(us % 100.0),
            stats,
        }
    }

    /// The right ends of right-aligned columns are the same in every line, whatever the numbers.
    #[test]
    fn columns_line_up() {
        for (overlap, stats, hardware) in
            [(false, false, false), (true, false, true), (true, true, false), (false, true, true)]
        {
            let counting = Counting { stats, groups: overlap, hardware };
            let counts = 5 + usize::from(overlap) + 2 * usize::from(hardware);
            assert_eq!(counting.columns().count(), if stats { counts } else { 0 });
            let table = Table::new(&points(), overlap, counting);
            assert_eq!(table.head().contains("between groups"), stats && overlap);
            let mut lines = vec![table.head()];
            for us in [0.0, 0.0123, 1.0, 999.6, 123_456.7, 7.3e9] {
                lines.push(table.row(&example("bcast", 1_000_000, us)));
                lines.push(table.row(&example("allgatherv", 4, us)));
                lines.push(table.row(&example("rate", 8, us)));
            }
            let widths: Vec<usize> = lines.iter().map(|l| l.chars().count()).collect();
            assert!(widths.iter().all(|w| *w == widths[0]), "{lines:#?}");
        }
    }

    #[test]
    fn csv_is_the_rivals_format() {
        let row = example("bcast", 1000, 12.345);
        assert_eq!(csv(&row, "circulant"), "bcast,-,8,1000,12.345,12.345,12.345,35,circulant");
        let named = Row { algorithm: "ring", ..row.clone() };
        assert!(csv(&named, "circulant").ends_with(",35,circulant/ring"));
        assert_eq!(CSV_HEAD.split(',').count(), csv(&row, "x").split(',').count());
    }
}
