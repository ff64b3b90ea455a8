//! Who comes late and by how much: by operation, by call, by rank.

use super::job::{Job, call_text};
use super::spans;
use crate::units::{self, align, time};
use circulant::record::{Call, EventKind};
use std::collections::BTreeMap;

/// When the ranks entered one call and left it.
#[derive(Debug)]
struct Met<'a> {
    call: &'a Call,
    /// (time, rank), in order.
    entered: Vec<(i64, u32)>,
    left: Vec<(i64, u32)>,
}

impl Met<'_> {
    /// Nanoseconds from the first rank's entering to the last one's.
    fn spread(&self) -> i64 {
        match self.entered[..] {
            [(first, _), .., (last, _)] => last - first,
            _ => 0,
        }
    }

    fn first_in(&self) -> u32 {
        self.entered.first().map_or(0, |(_, rank)| *rank)
    }

    fn last_in(&self) -> u32 {
        self.entered.last().map_or(0, |(_, rank)| *rank)
    }

    /// From when all were there to when the last has left: what the call itself took.
    fn took(&self) -> Option<(i64, u32)> {
        let ((there, _), (gone, rank)) = (*self.entered.last()?, *self.left.last()?);
        (self.left.len() == self.entered.len()).then_some(((gone - there).max(0), rank))
    }

    /// By how much a rank came later than half of the ranks.
    fn late(&self) -> impl Iterator<Item = (u32, i64)> {
        let middle = self.entered.get(self.entered.len() / 2).map_or(0, |(at, _)| *at);
        self.entered.iter().map(move |(at, rank)| (*rank, (at - middle).max(0)))
    }
}

/// The tables, each with at most so many rows.
pub(crate) fn text(job: &Job, rows: usize) -> String {
    let met = met(job);
    if met.is_empty() {
        return "no call that has ended was entered by two of these ranks\n".to_owned();
    }
    format!("\n{}\n{}\n{}", operations(&met), calls(&met, rows), ranks(job, &met, rows))
}

/// The calls that at least two ranks have entered, but not the library's own, and none for which a rank waits.
fn met(job: &Job) -> Vec<Met<'_>> {
    let mut all: BTreeMap<&Call, Met<'_>> = BTreeMap::new();
    for (rank, record) in &job.records {
        for event in &record.events {
            let call = &event.call;
            if call.comm > u64::MAX - 8 || !matches!(event.kind, EventKind::Enter | EventKind::Leave) {
                continue;
            }
            let at = job.time(record, event.ticks);
            let met = all.entry(call).or_insert_with(|| Met { call, entered: Vec::new(), left: Vec::new() });
            match event.kind {
                // A persistent operation enters its first call when it is bound, too.
                EventKind::Enter => {
                    met.entered.retain(|(_, r)| r != rank);
                    met.left.retain(|(_, r)| r != rank);
                    met.entered.push((at, *rank));
                }
                _ if met.entered.iter().any(|(_, r)| r == rank) => met.left.push((at, *rank)),
                _ => {}
            }
        }
    }
    // Which rank comes last to a call under way is not known yet.
    for wait in job.records.values().flat_map(|r| &r.waits) {
        all.remove(&wait.call);
    }
    let mut met: Vec<_> = all.into_values().filter(|m| m.entered.len() > 1).collect();
    for m in &mut met {
        m.entered.sort_unstable();
        m.left.sort_unstable();
    }
    met
}

/// A table, its first column to the left.
fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(|word| (*word).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let columns = rows[0].len();
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let left: Vec<bool> = (0..columns).map(|i| i == 0).collect();
    rows.iter().map(|row| align(row, &widths, &left) + "\n").collect()
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// The rank that is most often there, and how often.
fn most(ranks: impl Iterator<Item = u32>) -> String {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    let all = ranks.map(|rank| *counts.entry(rank).or_default() += 1).count();
    // Of those with the same count the lowest.
    let most = counts.into_iter().max_by_key(|(rank, n)| (*n, std::cmp::Reverse(*rank)));
    most.map_or_else(|| "-".to_owned(), |(rank, n)| format!("{rank} ({n} of {all})"))
}

fn operations(met: &[Met<'_>]) -> String {
    let mut by_name: BTreeMap<&str, Vec<&Met<'_>>> = BTreeMap::new();
    for m in met {
        by_name.entry(&m.call.operation).or_default().push(m);
    }
    let rows = by_name.into_iter().map(|(name, calls)| {
        let took: Vec<(i64, u32)> = calls.iter().filter_map(|m| m.took()).collect();
        let spreads: Vec<i64> = calls.iter().map(|m| m.spread()).collect();
        let longest = spreads.iter().max().copied().unwrap_or(0);
        vec![
            name.to_owned(),
            calls.len().to_string(),
            if took.is_empty() {
                "-".to_owned()
            } else {
                time(median(took.iter().map(|t| t.0).collect()) as f64)
            },
            most(took.iter().map(|t| t.1)),
            time(median(spreads) as f64),
            time(longest as f64),
            most(calls.iter().map(|m| m.last_in())),
        ]
    });
    let head = ["operation", "calls", "takes", "slowest rank", "imbalance", "at most", "last rank to enter"];
    table(&head, rows.collect())
}

fn calls(met: &[Met<'_>], rows: usize) -> String {
    let mut worst: Vec<&Met<'_>> = met.iter().collect();
    worst.sort_by_key(|m| std::cmp::Reverse(m.spread()));
    let rows = worst.into_iter().take(rows).map(|m| {
        let took = m.took();
        vec![
            call_text(m.call),
            time(m.spread() as f64),
            m.first_in().to_string(),
            m.last_in().to_string(),
            took.map_or_else(|| "-".to_owned(), |(ns, _)| time(ns as f64)),
            took.map_or_else(|| "-".to_owned(), |(_, rank)| rank.to_string()),
        ]
    });
    table(&["call", "imbalance", "first rank", "last rank", "takes", "slowest rank"], rows.collect())
}

/// One rank's row.
#[derive(Debug, Default)]
struct Row {
    last: usize,
    late: i64,
    inside: i64,
    idle: i64,
}

fn ranks(job: &Job, met: &[Met<'_>], rows: usize) -> String {
    let mut all: BTreeMap<u32, Row> = job.records.keys().map(|rank| (*rank, Row::default())).collect();
    for m in met {
        for (rank, late) in m.late() {
            all.entry(rank).or_default().late += late;
        }
        all.entry(m.last_in()).or_default().last += 1;
    }
    let spans = spans::of(job, None);
    for (rank, calls) in &spans.ranks {
        let row = all.entry(*rank).or_default();
        for span in calls {
            row.inside += span.end - span.start;
            row.idle += span.idle.iter().map(|(start, end)| end - start).sum::<i64>();
        }
    }
    let mut latest: Vec<(u32, Row)> = all.into_iter().collect();
    latest.sort_by_key(|(rank, row)| (std::cmp::Reverse(row.late), *rank));
    let rows = latest.into_iter().take(rows).map(|(rank, row)| {
        let times = [row.late, row.inside, row.idle].map(|ns| time(ns as f64));
        let [late, inside, idle] = times;
        vec![format!("rank {rank}"), row.last.to_string(), late, inside, idle]
    });
    let calls = units::plural(met.len() as u64, "call");
    format!(
        "of {calls}:\n{}",
        table(&["", "came last", "late by", "in calls", "waiting there"], rows.collect())
    )
}
