//! How long the calls of this rank took, by operation and size, as values and as text: a table, and the text format of Prometheus.

use super::lock::Held;
use super::world::{Stats, World};
use crate::engine::Measured;
use crate::error::Result;
use std::fmt::{self, Display, Formatter, Write as _};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;
use tracing::level_filters::LevelFilter;

/// What stands for the rank in the name of a file.
const RANK: &str = "%r";

/// The calls of one operation and size class that this rank has made. A call lasts from when it begins until this rank has
/// noticed its end: of a request until the `test` or `wait` that ends it. Percentiles are exact to 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// The operation's name.
    pub operation: &'static str,
    /// The most bytes of a call in this class; none: without a limit. The bytes are those of the message or vector, or of all blocks
    /// of the result; of an alltoallv, whose bytes no rank knows, 0.
    pub up_to_bytes: Option<u64>,
    /// Calls that have ended.
    pub calls: u64,
    /// Their bytes, added up.
    pub bytes: u64,
    /// Bytes that this rank has put to nodes of other groups for them, where [`World::groups`] are known.
    pub bytes_between_groups: u64,
    /// Their times, added up.
    pub total: Duration,
    /// The shortest.
    pub least: Duration,
    /// Half of them are not longer.
    pub median: Duration,
    /// 99 of 100 are not longer.
    pub p99: Duration,
    /// The longest, up to about an hour.
    pub most: Duration,
}

impl World {
    /// How long the calls of this rank took, where the setting `stats` or `stats-file` asks for it; else nothing.
    ///
    /// # Errors
    /// Inside an operator.
    pub fn latencies(&self) -> Result<Vec<Latency>> {
        Ok(latencies(&self.comm.hold()?))
    }

    /// Writes what the settings `stats` and `stats-file` ask for. What cannot be written is a warning: the job has ended well.
    pub(super) fn report_latencies(&self, held: &Held<'_>) {
        let (rank, latencies) = (self.rank(), latencies(held));
        if self.config.stats && rank == 0 {
            let table = Table { rank, latencies: &latencies, in_groups: !self.groups().is_empty() };
            let text = table.to_string();
            // Nothing can be done when standard error is gone.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        if let Some(name) = &self.config.stats_file {
            let name = name.replace(RANK, &rank.to_string());
            if let Err(e) = replace(Path::new(&name), &prometheus(rank, &latencies, &Stats::of(held))) {
                crate::trace::warn(
                    &format!("rank {rank}: CIRCULANT_STATS_FILE: {name}: {e}"),
                    LevelFilter::WARN,
                );
            }
        }
    }
}

/// What was timed, in time.
fn latencies(held: &Held<'_>) -> Vec<Latency> {
    let (measured, tick_ns) = held.engine.timed();
    let time =
        |ticks: u64| Duration::try_from_secs_f64(ticks as f64 * tick_ns / 1e9).unwrap_or(Duration::MAX);
    let one = |m: Measured| Latency {
        operation: held.engine.name_of(m.code),
        up_to_bytes: m.up_to_bytes,
        calls: m.calls,
        bytes: m.bytes,
        bytes_between_groups: m.global_bytes,
        total: time(m.total),
        least: time(m.least),
        median: time(m.median),
        p99: time(m.p99),
        most: time(m.most),
    };
    measured.into_iter().map(one).collect()
}

/// A collector that reads the file meanwhile finds the one before, or none.
pub(super) fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    std::fs::write(&fresh, text)?;
    std::fs::rename(&fresh, path)
}

/// The table that `stats` prints.
struct Table<'a> {
    rank: usize,
    latencies: &'a [Latency],
    /// The network is divided: what goes between groups has a column.
    in_groups: bool,
}

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "circulant: calls of rank {}, times in microseconds", self.rank)?;
        let head = ["operation", "bytes up to", "calls", "least", "median", "99 %", "most", "seconds in all"];
        line(f, head.map(str::to_owned), self.in_groups.then(|| "MB to groups".to_owned()))?;
        for l in self.latencies {
            let us = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e6);
            let limit = l.up_to_bytes.map_or_else(|| "more".to_owned(), |n| n.to_string());
            let total = format!("{:.3}", l.total.as_secs_f64());
            let times = [l.least, l.median, l.p99, l.most].map(us);
            let [least, median, p99, most] = times;
            let global = self.in_groups.then(|| format!("{:.3}", l.bytes_between_groups as f64 / 1e6));
            let cells = [l.operation.to_owned(), limit, l.calls.to_string(), least, median, p99, most, total];
            line(f, cells, global)?;
        }
        Ok(())
    }
}

fn line(f: &mut Formatter<'_>, [name, cells @ ..]: [String; 8], more: Option<String>) -> fmt::Result {
    write!(f, "{name:<20}")?;
    cells.iter().chain(&more).try_for_each(|cell| write!(f, " {cell:>13}"))?;
    writeln!(f)
}

/// The text format of Prometheus, version 0.0.4.
fn prometheus(rank: usize, latencies: &[Latency], stats: &Stats) -> String {
    let mut text = String::new();
    for (name, what, value) in [
        ("puts", "Puts posted.", stats.puts),
        ("put_bytes", "Bytes in puts.", stats.put_bytes),
        ("bytes_between_groups", "Bytes in puts to nodes of other groups.", stats.bytes_between_groups),
        ("arrivals", "Puts and notifies that arrived.", stats.arrivals),
        ("messages", "Control messages sent.", stats.messages),
        ("copied_bytes", "Bytes that the library copied.", stats.copied_bytes),
        ("reduced_bytes", "Bytes that operators combined into others.", stats.reduced_bytes),
        ("operations", "Operations completed.", stats.operations),
    ] {
        let name = format!("circulant_{name}_total");
        // Writing into a string does not fail.
        let _ =
            writeln!(text, "# HELP {name} {what}\n# TYPE {name} counter\n{name}{{rank=\"{rank}\"}} {value}");
    }
    text.push_str(
        "# HELP circulant_call_bytes_total Bytes of calls.\n# TYPE circulant_call_bytes_total counter\n",
    );
    for l in latencies {
        let _ = writeln!(text, "circulant_call_bytes_total{{{}}} {}", labels(rank, l), l.bytes);
    }
    text.push_str(
        "# HELP circulant_call_seconds Time that calls took.\n# TYPE circulant_call_seconds summary\n",
    );
    for l in latencies {
        let labels = labels(rank, l);
        for (quantile, time) in [("0", l.least), ("0.5", l.median), ("0.99", l.p99), ("1", l.most)] {
            let seconds = time.as_secs_f64();
            let _ = writeln!(text, "circulant_call_seconds{{{labels},quantile=\"{quantile}\"}} {seconds:e}");
        }
        let (sum, count) = (l.total.as_secs_f64(), l.calls);
        let _ = writeln!(
            text,
            "circulant_call_seconds_sum{{{labels}}} {sum:e}\ncirculant_call_seconds_count{{{labels}}} {count}"
        );
    }
    text
}

fn labels(rank: usize, l: &Latency) -> String {
    let limit = l.up_to_bytes.map_or_else(|| "+Inf".to_owned(), |n| n.to_string());
    format!("rank=\"{rank}\",operation=\"{}\",bytes_up_to=\"{limit}\"", l.operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(operation: &'static str, up_to_bytes: Option<u64>) -> Latency {
        let us = Duration::from_micros;
        Latency {
            operation,
            up_to_bytes,
            calls: 3,
            bytes: 24,
            bytes_between_groups: 2_000_000,
            total: us(60),
            least: us(10),
            median: us(20),
            p99: us(30),
            most: us(30),
        }
    }

    #[test]
    fn what_goes_between_groups_has_a_column_where_there_are_groups() {
        let latencies = [example("bcast", Some(64))];
        let text = |in_groups| Table { rank: 0, latencies: &latencies, in_groups }.to_string();
        assert!(!text(false).contains("groups"), "{}", text(false));
        let divided = text(true);
        let mut lines = divided.lines().skip(1);
        assert!(lines.next().unwrap().ends_with("seconds in all  MB to groups"), "{divided}");
        assert!(lines.next().unwrap().ends_with("2.000"), "{divided}");
    }

    /// Each line is a comment, or a name with labels and a number; each series stands once.
    #[test]
    fn prometheus_can_read_it() {
        let latencies = [example("bcast", Some(64)), example("bcast", None), example("allreduce", Some(64))];
        let text = prometheus(7, &latencies, &Stats::default());
        let mut series = std::collections::HashSet::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(
                value.parse::<f64>().is_ok() && name.ends_with('}') && name.contains("{rank=\"7\""),
                "{line}"
            );
            assert!(series.insert(name), "twice: {line}");
        }
        assert!(text.contains(
            "circulant_call_seconds{rank=\"7\",operation=\"bcast\",bytes_up_to=\"+Inf\",quantile=\"0.5\"} 2e-5\n"
        ));
        assert_eq!(series.len(), 8 + 3 * (1 + 4 + 2));
        assert_eq!(text.matches("# TYPE").count(), 10);
    }
}
