//! What a rank and a node are like.

use crate::info::machine::Limits;
use crate::info::problem::Problem;
use crate::info::{self};
use circulant::transport::fabric::{Here, interfaces};
use circulant::transport::shm;
use serde::{Deserialize, Serialize};

/// A rank, and where it runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct RankInfo {
    pub(super) rank: usize,
    /// What tells its node, and its space of networks, from others.
    pub(super) node: u64,
    pub(super) space: u64,
    pub(super) process: u32,
    /// The cores that it may use, such as 0-3,8.
    pub(super) cores: String,
}

impl RankInfo {
    pub(super) fn look(rank: usize) -> Self {
        let here = Here::look(shm::host());
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let cores = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap_or("").trim();
        Self {
            rank,
            node: here.host,
            space: here.space,
            process: std::process::id(),
            cores: cores.to_owned(),
        }
    }
}

/// Ranks by node, in order of their first ranks. There is none without ranks.
pub(super) fn group(ranks: Vec<RankInfo>) -> Vec<Vec<RankInfo>> {
    let mut groups: Vec<Vec<RankInfo>> = Vec::new();
    for rank in ranks {
        match groups.iter_mut().find(|g| (g[0].node, g[0].space) == (rank.node, rank.space)) {
            Some(group) => group.push(rank),
            None => groups.push(vec![rank]),
        }
    }
    groups
}

/// An address, and why other nodes cannot be expected to reach it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Address {
    pub(super) interface: String,
    pub(super) ip: std::net::IpAddr,
    pub(super) prefix: u8,
    /// Mbit/s; 0: unknown.
    pub(super) speed: u32,
    pub(super) objection: Option<String>,
}

/// What one rank of a node finds there.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) host: String,
    pub(super) ranks: Vec<usize>,
    /// The cores that these may use.
    pub(super) bindings: Vec<String>,
    pub(super) libfabric: Option<String>,
    /// Providers that would do between nodes, the best first.
    pub(super) providers: Vec<String>,
    pub(super) addresses: Vec<Address>,
    /// Where it listens for the others to try.
    pub(super) port: Option<u16>,
    pub(super) limits: Limits,
    pub(super) problems: Vec<Problem>,
}

impl Node {
    pub(super) fn look(ranks: &[RankInfo]) -> Self {
        let info = info::Report::make();
        let several = |p: &&info::Provider| {
            p.is_there() && p.several_nodes.as_ref().is_some_and(|j| j.rejected.is_none())
        };
        let mut usable: Vec<&info::Provider> = info.providers.iter().filter(several).collect();
        usable.sort_by_key(|p| p.several_nodes.as_ref().map_or(0, |j| -j.score));
        let mut providers: Vec<String> = Vec::new();
        for p in usable {
            if !providers.contains(&p.provider) {
                providers.push(p.provider.clone());
            }
        }
        let addresses = interfaces().into_iter().map(|i| Address {
            interface: i.name,
            ip: i.ip,
            prefix: i.prefix,
            speed: i.speed,
            objection: i.objection.map(str::to_owned),
        });
        Self {
            host: info.host,
            ranks: ranks.iter().map(|s| s.rank).collect(),
            bindings: ranks.iter().map(|s| s.cores.clone()).collect(),
            libfabric: info.libfabric.map(|l| l.version),
            providers,
            addresses: addresses.collect(),
            port: None,
            limits: info.limits,
            problems: info.problems,
        }
    }

    /// The addresses by which others can be expected to reach it.
    pub(super) fn usable(&self) -> impl Iterator<Item = &Address> {
        self.addresses.iter().filter(|a| a.objection.is_none())
    }
}

/// How many cores a list such as 0-3,8 names; `None` when it is none.
pub(super) fn count(list: &str) -> Option<usize> {
    let mut all = 0usize;
    for part in list.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (usize, usize) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        all = all.checked_add(high.checked_sub(low)?.checked_add(1)?)?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(count("0-3,8"), Some(5));
        assert_eq!(count("7"), Some(1));
        for wrong in ["", "x", "3-1", "1-", "0-18446744073709551615,1"] {
            assert_eq!(count(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranks_are_grouped_by_process_and_network_space() {
        let rank = |rank, node, space| RankInfo { rank, node, space, ..RankInfo::default() };
        let groups = group(vec![rank(0, 1, 1), rank(1, 2, 1), rank(2, 1, 1), rank(3, 1, 2)]);
        let ranks: Vec<Vec<usize>> = groups.iter().map(|g| g.iter().map(|s| s.rank).collect()).collect();
        assert_eq!(ranks, [vec![0, 2], vec![1], vec![3]]);
    }
}
