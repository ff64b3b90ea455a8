//! The report as text.

use super::node::Node;
use super::reach;
use super::report::Report;
use crate::info::print::{columns, problems, row};
use crate::units::{plural, size};

/// More nodes than this are not listed one by one.
const LISTED: usize = 32;

/// All of it.
pub(super) fn text(report: &Report) -> String {
    let mut text = head(report);
    text += &nodes(report);
    text += &addresses(report);
    text += &reached(report);
    text += &wire(report);
    text += &report.checked.as_ref().map(super::checked::Checked::text).unwrap_or_default();
    text + &problems(&report.problems)
}

fn head(report: &Report) -> String {
    let (ranks, nodes) = (report.ranks.max(1) as u64, report.nodes.len() as u64);
    let by = match &report.launcher {
        Some(launcher) => format!("launcher {launcher}"),
        None => "no launcher".to_owned(),
    };
    format!(
        "circulant {}: {} on {}, {by}\n",
        env!("CARGO_PKG_VERSION"),
        plural(ranks, "rank"),
        plural(nodes, "node")
    )
}

/// Numbers in order, runs of them as first-last.
fn runs(numbers: &[usize]) -> String {
    let parts = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    });
    parts.collect::<Vec<_>>().join(",")
}

fn bindings(node: &Node) -> String {
    let mut lists: Vec<&str> = node.bindings.iter().map(String::as_str).collect();
    lists.dedup();
    match lists[..] {
        [] | [""] => "?".to_owned(),
        [one] => one.to_owned(),
        [a, b] => format!("{a} | {b}"),
        [a, b, ..] => format!("{a} | {b} | …"),
    }
}

fn nodes(report: &Report) -> String {
    let mut rows = vec![row([
        "node",
        "ranks",
        "cores",
        "bound to",
        "clock",
        "lockable",
        "/dev/shm free",
        "huge pages",
        "attach",
        "libfabric",
        "providers between nodes",
    ])];
    for (i, n) in report.nodes.iter().enumerate().take(LISTED) {
        let l = &n.limits;
        let unknown = || "?".to_owned();
        let huge = match (&l.huge_pages_transparent, l.huge_pages_free) {
            (Some(t), Some(free)) if free > 0 => format!("{t}, {free} free"),
            (Some(t), _) => t.clone(),
            (None, _) => unknown(),
        };
        let attach = match l.ptrace_scope {
            None | Some(0) => "free".to_owned(),
            Some(scope) => format!("ptrace_scope {scope}"),
        };
        rows.push(row([
            &report.name(i),
            &runs(&n.ranks),
            &l.cores.to_string(),
            &bindings(n),
            &clock(report, n),
            &l.memlock.map_or_else(|| "unlimited".to_owned(), size),
            &l.shm_free.map_or_else(unknown, size),
            &huge,
            &attach,
            n.libfabric.as_deref().unwrap_or("none"),
            &n.providers.join(" "),
        ]));
    }
    format!("\nNodes\n{}{}", columns(&rows), rest(report.nodes.len()))
}

fn rest(nodes: usize) -> String {
    match nodes.checked_sub(LISTED) {
        None | Some(0) => String::new(),
        Some(more) => format!("  … and {more} more (--json has all)\n"),
    }
}

/// The clock of the node's first rank, beside rank 0's.
fn clock(report: &Report, node: &Node) -> String {
    let clocks = report.wire.as_ref().map(|w| &w.clocks);
    match (node.ranks.first(), clocks) {
        (Some(0), _) => "reference".to_owned(),
        (Some(rank), Some(clocks)) => clocks
            .get(*rank)
            .map_or_else(String::new, |(skew, within)| format!("{:+.1} ms ±{:.1}", skew * 1e3, within * 1e3)),
        _ => "?".to_owned(),
    }
}

fn addresses(report: &Report) -> String {
    let mut rows = vec![row(["node", "interface", "address", "speed", "for other nodes"])];
    for (i, n) in report.nodes.iter().enumerate().take(LISTED) {
        for a in &n.addresses {
            let speed = if a.speed == 0 { "-".to_owned() } else { format!("{} Mbit/s", a.speed) };
            let use_of = a.objection.as_ref().map_or_else(|| "yes".to_owned(), |why| format!("no: {why}"));
            rows.push(row([
                &report.name(i),
                &a.interface,
                &format!("{}/{}", a.ip, a.prefix),
                &speed,
                &use_of,
            ]));
        }
    }
    format!("\nAddresses\n{}", columns(&rows))
}

/// From row to column: the quickest address's answer.
fn reached(report: &Report) -> String {
    let n = report.nodes.len();
    if n < 2 {
        return String::new();
    }
    let best = |i: usize, j: usize| -> Option<String> {
        let tried: Vec<_> = report.reached.get(i)?.iter().filter(|r| r.node == j).collect();
        let quick = tried.iter().filter_map(|r| r.outcome.as_ref().ok()).copied().min_by(f64::total_cmp);
        match (quick, tried.is_empty()) {
            (_, true) => None,
            (Some(us), _) => Some(format!("{us:.0}")),
            (None, _) => Some("no".to_owned()),
        }
    };
    if n > reach::ALL {
        let pairs = (0..n).flat_map(|i| reach::targets(i, n).into_iter().map(move |j| (i, j)));
        let (mut good, mut bad) = (0u64, Vec::new());
        for (i, j) in pairs {
            match best(i, j).as_deref() {
                Some("no") | None => bad.push(format!("  {} → {}: no\n", report.name(i), report.name(j))),
                Some(_) => good += 1,
            }
        }
        let more = bad.len().saturating_sub(LISTED);
        bad.truncate(LISTED);
        let more = if more > 0 { format!("  … and {more} more\n") } else { String::new() };
        return format!("\nReach\n  {good} pairs of nodes tried and well\n{}{more}", bad.concat());
    }
    let mut rows =
        vec![std::iter::once("from \\ to".to_owned()).chain((0..n).map(|j| report.name(j))).collect()];
    for i in 0..n {
        let cells = (0..n)
            .map(|j| if i == j { "-".to_owned() } else { best(i, j).unwrap_or_else(|| "?".to_owned()) });
        rows.push(std::iter::once(report.name(i)).chain(cells).collect::<Vec<String>>());
    }
    format!("\nReach (µs for a connection and an answer, by the quickest address)\n{}", columns(&rows))
}

fn wire(report: &Report) -> String {
    let Some(w) = &report.wire else { return String::new() };
    let mut distinct = w.nodes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let nodes = plural(distinct.len() as u64, "node");
    format!("\nWire\n  {} on {nodes}, up and tested in {:.2} s\n", w.provider, w.start_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::reach::Reached;

    #[test]
    fn ranks_are_shown_in_runs() {
        assert_eq!(runs(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(runs(&[]), "");
    }

    #[test]
    fn many_nodes_make_no_large_table() {
        let n = 200;
        let node = |i: usize| Node { host: format!("n{i}"), ranks: vec![i], ..Node::default() };
        let well = |i: usize, j: usize| Reached {
            node: j,
            ip: [10, 0, 0, 1].into(),
            outcome: if (i, j) == (3, 4) { Err("no answer".to_owned()) } else { Ok(50.0) },
        };
        let report = Report {
            nodes: (0..n).map(node).collect(),
            reached: (0..n).map(|i| reach::targets(i, n).into_iter().map(|j| well(i, j)).collect()).collect(),
            ..Report::default()
        };
        let text = text(&report);
        assert!(text.lines().count() < 60 && text.contains("n3 → n4: no"), "{text}");
        assert!(text.contains("1599 pairs of nodes tried and well"), "{text}");
    }

    #[test]
    fn few_nodes_make_a_table() {
        let node = |i: usize| Node { host: format!("n{i}"), ranks: vec![i], ..Node::default() };
        let to = |node, ok: bool| Reached {
            node,
            ip: [10, 0, 0, 1].into(),
            outcome: if ok { Ok(50.4) } else { Err("refused".to_owned()) },
        };
        let reached = vec![vec![to(1, false), to(1, true)], vec![to(0, false)]];
        let report = Report { nodes: (0..2).map(node).collect(), reached, ..Report::default() };
        let table = super::reached(&report);
        let lines: Vec<Vec<&str>> = table.lines().skip(2).map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[1..], [vec!["n0", "-", "50"], vec!["n1", "no", "-"]], "{table}");
    }
}
