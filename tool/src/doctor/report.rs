//! All that was found, and what is wrong with it.

use super::checked::Checked;
use super::node::{self, Node};
use super::reach::Reached;
use crate::info::problem::Problem;
use serde::Serialize;
use std::collections::HashMap;

/// Clocks that differ by more seconds than this make logs and file times useless.
const SKEW: f64 = 1.0;

/// The world that was made.
#[derive(Debug, Serialize)]
pub(super) struct Wire {
    pub(super) provider: String,
    /// The node of each rank, as the library has them.
    pub(super) nodes: Vec<u32>,
    pub(super) start_seconds: f64,
    /// Of each rank how far its clock is ahead of rank 0's, and how wrong that can be, in seconds.
    pub(super) clocks: Vec<(f64, f64)>,
}

/// Everything, at rank 0.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// None: no launcher could be found or joined.
    pub(super) launcher: Option<String>,
    pub(super) ranks: usize,
    pub(super) launcher_nodes: Option<Vec<u32>>,
    pub(super) nodes: Vec<Node>,
    /// What tells each node's space of networks from others.
    pub(super) spaces: Vec<u64>,
    /// What each node came to when it tried others.
    pub(super) reached: Vec<Vec<Reached>>,
    pub(super) wire: Option<Wire>,
    /// What `--wire` has found.
    pub(super) checked: Option<Checked>,
    pub(super) problems: Vec<Problem>,
}

impl Report {
    pub(super) fn trouble_of(&mut self, e: &circulant::Error) {
        self.problems.push(Problem::of(e));
    }

    /// There is nothing but this node to tell of.
    pub(super) fn alone(&mut self, node: Node) {
        self.nodes = vec![node];
        self.reached = vec![Vec::new()];
    }

    pub(super) fn has_trouble(&self) -> bool {
        self.problems.iter().any(|p| p.serious)
    }

    /// Host and place of a node.
    pub(super) fn name(&self, i: usize) -> String {
        let Some(node) = self.nodes.get(i) else { return format!("node {i}") };
        let twins = self.nodes.iter().filter(|n| n.host == node.host).count();
        // Containers may share a host's name.
        if twins > 1 { format!("{}#{i}", node.host) } else { node.host.clone() }
    }

    /// Looks for what is wrong.
    pub(super) fn judge(&mut self) {
        let mut found: Vec<Problem> = Vec::new();
        found.extend(self.of_nodes());
        found.extend(self.map());
        found.extend(self.networks());
        found.extend(self.cores());
        found.extend(self.clocks());
        found.extend(self.versions());
        self.problems.extend(found);
    }

    /// The nodes' own problems, each once, with the nodes that have it. What is about other nodes is known better here.
    fn of_nodes(&self) -> Vec<Problem> {
        let mut found: Vec<(Problem, Vec<String>)> = Vec::new();
        for (i, n) in self.nodes.iter().enumerate() {
            for p in n.problems.iter().filter(|p| !p.what.starts_with("no network interface")) {
                match found.iter_mut().find(|(known, _)| known == p) {
                    Some((_, names)) => names.push(self.name(i)),
                    None => found.push((p.clone(), vec![self.name(i)])),
                }
            }
        }
        let many = self.nodes.len() > 1;
        let told = |(p, names): (Problem, Vec<String>)| match many {
            true => Problem { what: format!("{}: {}", few(&names), p.what), ..p },
            false => p,
        };
        found.into_iter().map(told).collect()
    }

    /// The launcher's map beside what is seen.
    fn map(&self) -> Option<Problem> {
        let said = self.launcher_nodes.as_ref()?;
        let mut seen: HashMap<u32, usize> = HashMap::new();
        for (i, node) in self.nodes.iter().enumerate() {
            for said in node.ranks.iter().filter_map(|r| said.get(*r)) {
                if let Some(other) = seen.insert(*said, i).filter(|other| *other != i) {
                    let (a, b) = (self.name(other), self.name(i));
                    return Some(Problem::slow(
                        format!(
                            "the launcher takes {a} and {b} for one node, but they are apart (containers or namespaces): \
                             between them goes libfabric"
                        ),
                        "for shared memory let containers share process numbers: docker run --pid, --ipc and --network host",
                    ));
                }
            }
        }
        None
    }

    /// Pairs of nodes that do not reach each other, and addresses that are dead.
    fn networks(&self) -> Vec<Problem> {
        let (mut cut, mut dead) = (Vec::new(), Vec::new());
        for (i, tried) in self.reached.iter().enumerate() {
            let mut nodes: Vec<usize> = tried.iter().map(|r| r.node).collect();
            nodes.sort_unstable();
            nodes.dedup();
            for j in nodes {
                let to = || tried.iter().filter(|r| r.node == j);
                let why = |r: &Reached| r.outcome.as_ref().err().map(|e| format!("{}: {e}", r.ip));
                let failed: Vec<String> = to().filter_map(why).collect();
                match to().any(|r| r.outcome.is_ok()) {
                    false => cut.push(format!("{} → {} ({})", self.name(i), self.name(j), failed.join("; "))),
                    true if !failed.is_empty() => {
                        dead.push(format!("{} → {} ({})", self.name(i), self.name(j), failed.join("; ")));
                    }
                    true => {}
                }
            }
        }
        let mut found = Vec::new();
        if !cut.is_empty() {
            found.push(Problem::serious(
                format!("no address answers: {}", few(&cut)),
                "a firewall (open the ports, CIRCULANT_PORTS=20000-20999 gives a range), a network that one of them lacks, \
                 or a wrong route: compare the addresses above, ip route, ping",
            ));
        }
        if !dead.is_empty() {
            found.push(Problem::slow(
                format!("some addresses do not answer, others do: {}", few(&dead)),
                "where start-up chooses one of these, name the interface of the right network: CIRCULANT_RAILS=eth0",
            ));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let others = self.spaces.iter().any(|s| Some(s) != self.spaces.get(i));
            if others && node.usable().next().is_none() {
                found.push(Problem::serious(
                    format!("{} has no address that other nodes could reach", self.name(i)),
                    "give it one (ip address add, ip link set up), in the network of the others",
                ));
            }
            if others && node.port.is_none() {
                found.push(Problem::serious(format!("{} could not listen for others", self.name(i)), ""));
            }
        }
        found
    }

    /// More ranks than cores, and ranks bound to the same ones though there are others.
    fn cores(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        for (i, node) in self.nodes.iter().enumerate() {
            let (ranks, cores) = (node.ranks.len(), machine_cores().max(node.limits.cores));
            let mut by_list: HashMap<&str, usize> = HashMap::new();
            for list in node.bindings.iter().filter(|l| !l.is_empty()) {
                *by_list.entry(list).or_default() += 1;
            }
            let crowded = by_list.iter().filter_map(|(list, n)| Some((*list, *n, node::count(list)?)));
            let most = crowded.filter(|(_, n, cores)| n > cores).max_by_key(|(_, n, _)| *n);
            let Some((list, n, few)) = most else { continue };
            let what = format!("{}: {n} of {ranks} ranks share the cores {list}", self.name(i));
            found.push(match few < cores && n > few {
                true => Problem::slow(
                    what,
                    "let the launcher bind each to its own: --bind-to core, srun --cpu-bind=cores",
                ),
                false => Problem::slow(what, "fewer ranks per node, or expect them to take turns"),
            });
        }
        found
    }

    fn clocks(&self) -> Option<Problem> {
        let wire = self.wire.as_ref()?;
        let off = |(_, (skew, within)): &(usize, &(f64, f64))| skew.abs() - within > SKEW;
        let (rank, (skew, _)) = wire.clocks.iter().enumerate().find(off)?;
        Some(Problem::slow(
            format!(
                "the clock of rank {rank} is {skew:+.1} s off rank 0's: times in logs and of files mislead"
            ),
            "run chronyd or ntpd on all nodes (nothing in the library depends on it)",
        ))
    }

    fn versions(&self) -> Option<Problem> {
        let mut by_version: HashMap<&str, Vec<String>> = HashMap::new();
        for (i, n) in self.nodes.iter().enumerate() {
            by_version.entry(n.libfabric.as_deref().unwrap_or("none")).or_default().push(self.name(i));
        }
        if by_version.len() < 2 {
            return None;
        }
        let mut list: Vec<String> =
            by_version.iter().map(|(v, names)| format!("{v} on {}", few(names))).collect();
        list.sort();
        Some(Problem::slow(
            format!("nodes have different libfabrics: {}", list.join("; ")),
            "install the same, or name one that all have: CIRCULANT_LIBFABRIC",
        ))
    }
}

/// All cores of this machine that are on, however this process is bound.
fn machine_cores() -> usize {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    node::count(online.trim()).unwrap_or(1)
}

/// The first of many, and how many more.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, ranks: &[usize]) -> Node {
        Node { host: host.to_owned(), ranks: ranks.to_vec(), port: Some(1), ..Node::default() }
    }

    fn reached(node: usize, ip: &str, outcome: Result<f64, &str>) -> Reached {
        Reached { node, ip: ip.parse().unwrap(), outcome: outcome.map_err(str::to_owned) }
    }

    fn judged(mut report: Report) -> (bool, String) {
        report.judge();
        (
            report.has_trouble(),
            report.problems.iter().map(|p| format!("{} | {}\n", p.what, p.remedy)).collect(),
        )
    }

    #[test]
    fn nodes_that_do_not_meet_are_trouble_and_dead_addresses_a_note() {
        let nodes = || vec![node("n0", &[0]), node("n1", &[1])];
        let cut = vec![vec![reached(1, "10.0.0.2", Err("connection refused"))], vec![]];
        let (bad, text) = judged(Report { nodes: nodes(), reached: cut, ..Report::default() });
        assert!(bad && text.contains("n0 → n1 (10.0.0.2: connection refused)"), "{text}");
        let some =
            vec![vec![reached(1, "10.0.0.2", Ok(9.0)), reached(1, "10.9.0.2", Err("no answer"))], vec![]];
        let (bad, text) = judged(Report { nodes: nodes(), reached: some, ..Report::default() });
        assert!(!bad && text.contains("10.9.0.2: no answer") && text.contains("CIRCULANT_RAILS"), "{text}");
        let (bad, text) = judged(Report { nodes: nodes(), spaces: vec![1, 2], ..Report::default() });
        assert!(bad && text.contains("n0 has no address"), "{text}");
    }

    #[test]
    fn a_map_that_is_wrong_is_told() {
        let nodes = vec![node("n", &[0, 1]), node("n", &[2])];
        let report = Report { nodes, launcher_nodes: Some(vec![0, 0, 0]), ..Report::default() };
        let (bad, text) = judged(report);
        assert!(!bad && text.contains("takes n#0 and n#1 for one node"), "{text}");
        let nodes = vec![node("n", &[0, 1]), node("m", &[2])];
        let report = Report { nodes, launcher_nodes: Some(vec![0, 0, 1]), ..Report::default() };
        assert_eq!(judged(report), (false, String::new()));
    }

    #[test]
    fn clocks_versions_and_crowds_are_seen() {
        let mut nodes = vec![node("n0", &[0, 1]), node("n1", &[2])];
        nodes[0].bindings = vec!["0".to_owned(), "0".to_owned()];
        nodes[1].libfabric = Some("2.5".to_owned());
        let clocks = vec![(0.0, 0.1), (0.5, 0.1), (-9.0, 0.1)];
        let wire =
            Some(Wire { provider: "tcp".to_owned(), nodes: vec![0, 0, 1], start_seconds: 1.0, clocks });
        let (bad, text) = judged(Report { nodes, wire, ..Report::default() });
        for words in ["rank 2 is -9.0 s off", "2 of 2 ranks share the cores 0", "2.5 on n1; none on n0"] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert!(!bad, "{text}");
    }
}
