//! The report as text.

use super::problem::Problem;
use super::provider::Judgement;
use super::report::Report;
use crate::units::{align, size};

/// All of it.
pub(super) fn table(report: &Report) -> String {
    let mut text = format!("circulant {} on {}\n", report.version, report.host);
    text += &wires(report);
    text += &libfabric(report);
    text += &providers(report);
    text += &interfaces(report);
    text += &limits(report);
    text += &settings(report);
    text + &problems(&report.problems)
}

/// Columns as wide as their widest cell, all to the left, indented.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let left = vec![true; count];
    rows.iter().map(|row| format!("  {}\n", align(row, &widths, &left))).collect()
}

pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn wires(report: &Report) -> String {
    let mut rows = vec![row(["ranks", "wire", "why"])];
    rows.extend(report.wires.iter().map(|w| row([w.ranks, w.wire.as_deref().unwrap_or("none"), &w.why])));
    format!("\nWires\n{}\n", columns(&rows))
}

fn libfabric(report: &Report) -> String {
    let Some(l) = &report.libfabric else { return "libfabric: none, see the problems\n".to_owned() };
    let mut text = format!("libfabric {} from {}\n", l.version, l.path);
    for line in &l.environment {
        text += &format!("  {line}\n");
    }
    text
}

fn providers(report: &Report) -> String {
    if report.providers.is_empty() {
        return String::new();
    }
    let mut rows = vec![row([
        "provider",
        "domain",
        "address",
        "several nodes",
        "this node",
        "longest put",
        "gather",
        "memory",
    ])];
    for p in report.providers.iter().filter(|p| p.is_there()) {
        let (several, one) = (judged(p.several_nodes.as_ref()), judged(p.one_node.as_ref()));
        let mut line = row([&p.provider, &p.domain, &p.address, &several, &one]);
        line.extend(match p.max_put {
            0 => row(["", "", ""]),
            max => row([&longest(max), &p.gather.to_string(), &p.memory.text()]),
        });
        rows.push(line);
    }
    format!(
        "\nProviders (scores; * is the best; all but ibverbs are libfabric's; FI_HMEM: memory of devices, if there are any)\n{}{}",
        columns(&rows),
        reasons(report)
    )
}

fn judged(j: Option<&Judgement>) -> String {
    match j {
        None => "-".to_owned(),
        Some(Judgement { rejected: Some(_), .. }) => "no".to_owned(),
        Some(Judgement { chosen: true, score, .. }) => format!("{score} *"),
        Some(Judgement { score, .. }) => score.to_string(),
    }
}

fn longest(bytes: u64) -> String {
    if bytes >= 1 << 48 { "any".to_owned() } else { size(bytes) }
}

/// Why those that will not do will not: each reason once, with those it holds for.
fn reasons(report: &Report) -> String {
    let mut list: Vec<(String, Vec<&str>)> = Vec::new();
    for p in &report.providers {
        let why = |j: &Option<Judgement>| j.as_ref().and_then(|j| j.rejected.clone());
        let (several, one) = (why(&p.several_nodes), why(&p.one_node));
        let told = match several == one {
            true => [several, None],
            false => [several.map(|w| w + " (several nodes)"), one.map(|w| w + " (this node)")],
        };
        for reason in told.into_iter().flatten() {
            match list.iter_mut().find(|(r, _)| *r == reason) {
                Some((_, names)) if names.contains(&p.provider.as_str()) => {}
                Some((_, names)) => names.push(&p.provider),
                None => list.push((reason, vec![&p.provider])),
            }
        }
    }
    list.iter().map(|(reason, names)| format!("  no {}: {reason}\n", names.join(", "))).collect()
}

fn interfaces(report: &Report) -> String {
    let mut rows = vec![row(["interface", "state", "speed", "MTU", "addresses"])];
    for i in &report.interfaces {
        let speed = i.speed.map_or_else(|| "-".to_owned(), |s| format!("{s} Mbit/s"));
        let mtu = i.mtu.map_or_else(|| "-".to_owned(), |m| m.to_string());
        rows.push(row([&i.name, &i.state, &speed, &mtu, &i.addresses.join(", ")]));
    }
    format!("\nInterfaces\n{}", columns(&rows))
}

fn limits(report: &Report) -> String {
    let l = &report.limits;
    let unknown = || "unknown".to_owned();
    let bytes = |n: Option<u64>| n.map_or_else(unknown, size);
    let huge = match (l.huge_pages_total, l.huge_pages_free) {
        (Some(total), Some(free)) => format!("{free} of {total} free, {} each", bytes(l.huge_page_bytes)),
        _ => unknown(),
    };
    let rows = [
        row(["cores", &l.cores.to_string()]),
        row(["memory", &format!("{}, {} available", bytes(l.memory), bytes(l.memory_available))]),
        row(["lockable memory", &l.memlock.map_or_else(|| "unlimited".to_owned(), size)]),
        row(["transparent huge pages", &l.huge_pages_transparent.clone().unwrap_or_else(unknown)]),
        row(["huge pages", &huge]),
        row(["/dev/shm", &format!("{}, {} free", bytes(l.shm_bytes), bytes(l.shm_free))]),
        row([
            "cross-memory attach",
            match l.ptrace_scope {
                None | Some(0) => "not restricted by Yama",
                Some(_) => "restricted by Yama",
            },
        ]),
        row(["open files", &l.open_files.map_or_else(|| "unlimited".to_owned(), |n| n.to_string())]),
    ];
    format!("\nLimits\n{}", columns(&rows))
}

fn settings(report: &Report) -> String {
    let mut rows = vec![row(["variable", "value", "from", "what it does"])];
    rows.extend(report.settings.iter().map(|s| row([s.variable, &s.value, s.from, s.text])));
    format!(
        "\nSettings (flags of circulant run: --provider for CIRCULANT_PROVIDER, and so on)\n{}",
        columns(&rows)
    )
}

/// What is wrong, and what only costs time; and what to do about both.
pub(crate) fn problems(list: &[Problem]) -> String {
    let told = |serious: bool, head: &str| {
        let lines: String = list.iter().filter(|p| p.serious == serious).map(line).collect();
        if lines.is_empty() { lines } else { format!("\n{head}\n{lines}") }
    };
    let mut text = told(true, "Problems");
    if text.is_empty() {
        text += "\nNo problems found\n";
    }
    text + &told(false, "Slower than need be")
}

fn line(p: &Problem) -> String {
    let remedy = if p.remedy.is_empty() { String::new() } else { format!("    → {}\n", p.remedy) };
    format!("  {} {}\n{remedy}", if p.serious { "!" } else { "-" }, p.what)
}
