//! `--wire`: the wire between each pair of neighbours, checked for all that the library relies on, and a block of text about it that a
//! site can send back.

use super::job::Job;
use crate::info::print::{columns, row};
use crate::info::problem::Problem;
use crate::info::{self};
use crate::units::{figures, plural, size};
use circulant::comm::wire_check::{self, Check, Findings};
use circulant::config::Config;
use circulant::transport::{Borrow, Limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write;

/// More broken promises than this are counted, not listed.
const LISTED: usize = 12;
/// What no put is longer than; limits above it are none.
const ENDLESS_BYTES: u64 = 1 << 48;

/// What one rank has found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Told {
    /// What its endpoint can do, as text; what differs between ranks is a finding, too.
    limits: String,
    wire: String,
    neighbours: usize,
    findings: Vec<Finding>,
}

/// What a check between two ranks came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Finding {
    check: String,
    from: usize,
    to: usize,
    /// None: the promise is kept.
    broken: Option<String>,
    figures: Vec<(String, f64)>,
    remark: String,
    seconds: f64,
}

/// One check, between all pairs.
#[derive(Debug, Default, Serialize)]
struct Row {
    check: String,
    pairs: usize,
    broken: usize,
    /// Of the slowest pair.
    seconds: f64,
    /// Names, and the least and the most that was seen.
    figures: Vec<(String, f64, f64)>,
    /// What senders were told, and how many of them.
    remarks: Vec<(String, usize)>,
}

/// All of it, at rank 0.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    wire: String,
    limits: String,
    ranks: usize,
    nodes: usize,
    launcher: String,
    rows: Vec<Row>,
    /// Versions, provider, device and settings, one a line.
    about: Vec<String>,
}

/// Checks the wire; at rank 0 also what came of it, and what is wrong.
pub(super) fn check(job: &mut Job<'_>, nodes: usize) -> circulant::Result<(Option<Checked>, Vec<Problem>)> {
    let found = wire_check::check(&Config::from_env(), job.launch, job.timeout)?;
    job.tell("wire", &Told::of(&found))?;
    job.fence()?;
    if job.launch.rank() != 0 {
        return Ok((None, Vec::new()));
    }
    let ranks = job.launch.size();
    let mut all = Vec::with_capacity(ranks);
    for rank in 0..ranks {
        all.push(job.hear::<Told>("wire", rank)?.unwrap_or_default());
    }
    Ok((Some(Checked::of(&all, nodes, job.launch.name())), problems(&all)))
}

impl Told {
    fn of(found: &Findings) -> Self {
        let findings = found.findings.iter().map(|f| Finding {
            check: f.check.name().to_owned(),
            from: f.from,
            to: f.to,
            broken: f.broken.clone(),
            figures: f.figures.iter().map(|(name, figure)| ((*name).to_owned(), *figure)).collect(),
            remark: f.remark.clone(),
            seconds: f.time.as_secs_f64(),
        });
        Self {
            limits: found.limits.as_ref().map(limits).unwrap_or_default(),
            wire: found.limits.as_ref().map(Limits::wire).unwrap_or_default(),
            neighbours: found.neighbours.len(),
            findings: findings.collect(),
        }
    }
}

/// What an endpoint says of itself.
fn limits(l: &Limits) -> String {
    let longest = if l.max_put >= ENDLESS_BYTES { "any".to_owned() } else { size(l.max_put) };
    let borrow = if l.borrow == Borrow::Direct { "lent" } else { "staged" };
    format!(
        "longest put {longest}, gather {}, inject {}, message {}, slices are {borrow}, copied by {:?}, keys {}, addresses {}, {}",
        l.gather,
        size(l.inject as u64),
        size(l.message as u64),
        l.copier,
        if l.chooses_keys { "the provider's" } else { "ours" },
        if l.offsets { "offsets" } else { "virtual" },
        if l.wakes { "waits may sleep" } else { "waits poll" },
    )
}

/// Broken promises, the first ones with their pairs.
fn problems(all: &[Told]) -> Vec<Problem> {
    const REMEDY: &str = "take another wire (CIRCULANT_PROVIDER), and send back the block of text above";
    let broken: Vec<String> = all
        .iter()
        .flat_map(|told| &told.findings)
        .filter_map(|f| {
            f.broken.as_ref().map(|why| format!("rank {} → rank {}: {}: {why}", f.from, f.to, f.check))
        })
        .collect();
    let mut found: Vec<Problem> =
        broken.iter().take(LISTED).map(|what| Problem::serious(what.as_str(), REMEDY)).collect();
    if broken.len() > LISTED {
        found.push(Problem::serious(
            format!("{} more promises of the wire are broken", broken.len() - LISTED),
            REMEDY,
        ));
    }
    let mut differ: Vec<&str> =
        all.iter().map(|told| told.limits.as_str()).filter(|l| !l.is_empty()).collect();
    differ.sort_unstable();
    differ.dedup();
    if differ.len() > 1 {
        let what = format!("endpoints of ranks differ: {}", differ.join("; "));
        found.push(Problem::slow(what, "the same library, device and settings on all nodes"));
    }
    found
}

impl Checked {
    fn of(all: &[Told], nodes: usize, launcher: &str) -> Self {
        let first = all.first().cloned().unwrap_or_default();
        Self {
            about: about(),
            wire: first.wire,
            limits: first.limits,
            ranks: all.len(),
            nodes,
            launcher: launcher.to_owned(),
            rows: Check::ALL.iter().filter_map(|check| Row::of(check.name(), all)).collect(),
        }
    }

    /// The table and the block.
    pub(super) fn text(&self) -> String {
        let mut rows = vec![row(["check", "pairs", "kept", "slowest", "seen"])];
        rows.extend(self.rows.iter().map(|r| {
            let kept = if r.broken == 0 { "yes".to_owned() } else { format!("no: {}", r.broken) };
            row([&r.check, &r.pairs.to_string(), &kept, &format!("{:.3} s", r.seconds), &r.seen()])
        }));
        let mut text = match self.rows.is_empty() {
            true => "\nWire, checked\n  one rank has none\n".to_owned(),
            false => format!("\nWire, checked: each pair of neighbours\n{}", columns(&rows)),
        };
        text += "\nTo send back (remarks may name addresses)\n";
        text += "  ----8<----\n";
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "  circulant {}, {} on {}, launcher {}",
            env!("CARGO_PKG_VERSION"),
            plural(self.ranks as u64, "rank"),
            plural(self.nodes as u64, "node"),
            self.launcher
        );
        let _ = writeln!(text, "  wire {}: {}", self.wire, self.limits);
        for line in &self.about {
            let _ = writeln!(text, "  {line}");
        }
        for r in &self.rows {
            let kept = if r.broken == 0 { "kept".to_owned() } else { format!("BROKEN at {} of", r.broken) };
            let _ =
                writeln!(text, "  {}: {kept} {} pairs, {:.3} s; {}", r.check, r.pairs, r.seconds, r.seen());
        }
        text + "  ---->8----\n"
    }
}

impl Row {
    fn of(check: &str, all: &[Told]) -> Option<Self> {
        let found: Vec<&Finding> =
            all.iter().flat_map(|t| &t.findings).filter(|f| f.check == check).collect();
        let pairs = |only: fn(&Finding) -> bool| {
            found.iter().filter(|f| only(f)).map(|f| (f.from, f.to)).collect::<BTreeSet<_>>().len()
        };
        let mut row = Self {
            check: check.to_owned(),
            pairs: pairs(|_| true),
            broken: pairs(|f| f.broken.is_some()),
            seconds: found.iter().map(|f| f.seconds).fold(0.0, f64::max),
            ..Self::default()
        };
        for (name, x) in found.iter().flat_map(|f| &f.figures) {
            match row.figures.iter_mut().find(|(known, ..)| known == name) {
                Some((_, least, most)) => (*least, *most) = (least.min(*x), most.max(*x)),
                None => row.figures.push((name.clone(), *x, *x)),
            }
        }
        for f in found.iter().filter(|f| !f.remark.is_empty()) {
            match row.remarks.iter_mut().find(|(known, _)| *known == f.remark) {
                Some((_, count)) => *count += 1,
                None => row.remarks.push((f.remark.clone(), 1)),
            }
        }
        (!found.is_empty()).then_some(row)
    }

    /// Figures and the most frequent remark.
    fn seen(&self) -> String {
        let range = |(name, least, most): &(String, f64, f64)| match least == most {
            true => format!("{name} {}", figures(*least)),
            false => format!("{name} {} to {}", figures(*least), figures(*most)),
        };
        let mut parts: Vec<String> = self.figures.iter().map(range).collect();
        parts.extend(self.remarks.iter().max_by_key(|(_, count)| *count).map(
            |(remark, count)| match count {
                1 => remark.clone(),
                _ => format!("{remark} ({count} times)"),
            },
        ));
        parts.join(", ")
    }
}

/// Kernel, libfabric, what the provider and its device say of themselves, and the settings that were changed.
fn about() -> Vec<String> {
    let info = info::Report::make();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut lines = vec![format!("Linux {}, {}", release.trim(), std::env::consts::ARCH)];
    lines.extend(info.about());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(check: Check, from: usize, to: usize, broken: Option<&str>, figure: f64) -> Finding {
        Finding {
            check: check.name().to_owned(),
            from,
            to,
            broken: broken.map(str::to_owned),
            figures: vec![("us".to_owned(), figure)],
            seconds: figure / 10.0,
            ..Finding::default()
        }
    }

    #[test]
    fn pairs_are_counted_once_and_broken_promises_are_problems() {
        let told = |limits: &str, findings| Told { limits: limits.to_owned(), findings, ..Told::default() };
        let twice = finding(Check::Times, 0, 1, None, 2.0);
        let all = [
            told("a", vec![twice.clone(), finding(Check::Bytes, 0, 1, Some("late"), 1.0)]),
            told("b", vec![twice, finding(Check::Times, 1, 0, None, 4.5)]),
        ];
        let row = Row::of(Check::Times.name(), &all).unwrap();
        assert_eq!((row.pairs, row.broken, row.seen()), (2, 0, "us 2 to 4.5".to_owned()));
        assert!(Row::of(Check::Queue.name(), &all).is_none());
        let found = problems(&all);
        assert_eq!(found[0].what, "rank 0 → rank 1: bytes at arrival: late");
        assert!(found[0].serious && found[1].what.contains("differ: a; b"));
        let many: Vec<Finding> =
            (0..100).map(|i| finding(Check::Words, i, i + 1, Some("lost"), 1.0)).collect();
        let found = problems(&[told("a", many)]);
        assert_eq!(
            (found.len(), found[LISTED].what.as_str()),
            (LISTED + 1, "88 more promises of the wire are broken")
        );
    }
}
