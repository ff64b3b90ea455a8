//! Rank locations: which ranks share a node, which nodes are in a group, and over which networks nodes reach each other. Each rank
//! publishes where it is; rank 0 reads that, of many ranks in a value of each node, and publishes what follows. So a rank asks the launcher for one
//! value, not for p.

use super::exchange::Exchange;
use super::groups::{Told, groups};
use crate::comm::members::to_u32;
use crate::comm::places::Places;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::fabric::{Here, Networks};
use crate::transport::{remote, shm};
use std::collections::HashMap;

/// The key under which each rank says where it is.
const KEY: &str = "here";

/// Where the ranks are.
#[derive(Default)]
pub(super) struct Locations {
    pub(super) places: Places,
    /// `None`: not asked for yet, as the launcher says that all ranks share a node.
    pub(super) networks: Option<Networks>,
}

/// Publishes where we are; to be followed by a fence, and [`agree`] with the same `nodes`. `networks`: also over which networks others reach us.
pub(super) fn publish(exchange: &mut Exchange<'_>, nodes: Option<&[u32]>, networks: bool) -> Result<()> {
    let (name, group) = (shm::name(), exchange.group().unwrap_or_default());
    let mut here = Here::default();
    here.host = shm::host();
    if networks {
        here = Here::look(here.host);
        here.rdma = remote::link();
    }
    exchange.put_for_all(KEY, &[Told { name, group }.encode(), here.encode()].concat(), nodes)
}

/// What follows from where all ranks are; passes a fence, or two where ranks are many. Ranks that the launcher (which says `nodes`) puts on one node, but
/// which are in containers of their own, get nodes of their own. What is wrong with the setting `groups`, rank 0 has in `ready`.
pub(super) fn agree(
    exchange: &mut Exchange<'_>,
    config: &Config,
    ready: &mut Result<()>,
    nodes: Option<&[u32]>,
) -> Result<Locations> {
    let published = exchange.of_all(KEY, nodes)?;
    if exchange.rank == 0 {
        let (value, grouped) = from_all(&published, config, nodes)?;
        if ready.is_ok() {
            *ready = grouped;
        }
        exchange.put("networks", &value)?;
    }
    exchange.fence()?;
    let value = exchange.get("networks")?;
    let unreadable =
        || Error::new(ErrorKind::Launch, "what rank 0 published of networks cannot be read").with_peer(0);
    let [networks, map, groups] = parts(&value).ok_or_else(unreadable)?;
    let whole = |map| unpacked(map, exchange.size as usize).ok_or_else(unreadable);
    let nodes = match map.is_empty() {
        true => nodes.unwrap_or_default().to_vec(),
        false => whole(map)?,
    };
    let groups = if groups.is_empty() { Vec::new() } else { whole(groups)? };
    let networks = Networks::decode(networks).ok_or_else(unreadable)?;
    Ok(Locations { places: Places { nodes: nodes.into(), groups: groups.into() }, networks: Some(networks) })
}

/// What rank 0 makes of where all are: the networks, the node of each rank, the group of each rank's node; and whether groups could be found.
fn from_all(published: &[Vec<u8>], config: &Config, nodes: Option<&[u32]>) -> Result<(Vec<u8>, Result<()>)> {
    let (mut told, mut all) = (Vec::new(), Vec::new());
    for value in published {
        let (node, here) = Told::decode(value).unwrap_or_default();
        told.push(node);
        all.push(Here::decode(here).unwrap_or_default());
    }
    let refined = refine(nodes, &all)?;
    let (groups, grouped) = match groups(config, &refined, &told) {
        Ok(groups) => (groups, Ok(())),
        Err(e) => (Vec::new(), Err(e)),
    };
    // As launchers give a map as a rule, one is published only where it differs.
    let map = if nodes == Some(&refined[..]) { Vec::new() } else { packed(&refined) };
    Ok((joined(&[Networks::agree(&all).encode(), map, packed(&groups)]), grouped))
}

/// Each with its length in front.
fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    let one = |part: &Vec<u8>| [&u32::try_from(part.len()).unwrap_or(0).to_le_bytes(), &part[..]].concat();
    parts.iter().flat_map(one).collect()
}

/// What [`joined`] has joined.
fn parts<const N: usize>(mut bytes: &[u8]) -> Option<[&[u8]; N]> {
    let mut found = [&[][..]; N];
    for part in &mut found {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        (*part, bytes) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    }
    bytes.is_empty().then_some(found)
}

impl Locations {
    /// With the networks; where they have not been asked for, as all ranks are on one node, passes two fences.
    pub(super) fn with_networks(
        self,
        exchange: &mut Exchange<'_>,
        config: &Config,
        ready: &mut Result<()>,
    ) -> Result<(Places, Networks)> {
        match self.networks {
            Some(networks) => Ok((self.places, networks)),
            None => {
                publish(exchange, Some(&self.places.nodes), true)?;
                exchange.fence()?;
                let Self { places, networks } = agree(exchange, config, ready, Some(&self.places.nodes))?;
                Ok((places, networks.unwrap_or_default()))
            }
        }
    }
}

/// The node of each rank, numbered in order of first appearance: those that a launcher puts on one node and that are in
/// one space of processes.
fn refine(nodes: Option<&[u32]>, all: &[Here]) -> Result<Vec<u32>> {
    let mut seen = HashMap::new();
    let mut number = |key| -> Result<u32> {
        let next = to_u32(seen.len())?;
        Ok(*seen.entry(key).or_insert(next))
    };
    let node = |rank: usize| nodes.and_then(|n| n.get(rank)).copied().unwrap_or(0);
    let refined: Result<Vec<u32>> = all.iter().enumerate().map(|(r, h)| number((node(r), h.host))).collect();
    let refined = refined?;
    // The launcher's numbers, if they say the same.
    let same = |nodes: &[u32]| {
        let mut pairs = HashMap::new();
        let one_to_one = nodes.iter().zip(&refined).all(|(a, b)| *pairs.entry(*a).or_insert(*b) == *b);
        nodes.len() == refined.len() && one_to_one
    };
    Ok(match nodes {
        Some(nodes) if same(nodes) => nodes.to_vec(),
        _ => refined,
    })
}

/// Runs of equal numbers: how many, which.
fn packed(map: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    for run in map.chunk_by(|a, b| a == b) {
        out.extend(u32::try_from(run.len()).unwrap_or(0).to_le_bytes());
        out.extend(run[0].to_le_bytes());
    }
    out
}

fn unpacked(bytes: &[u8], size: usize) -> Option<Vec<u32>> {
    let mut map = Vec::new();
    let mut words = bytes.chunks(4).map(|c| c.try_into().ok().map(u32::from_le_bytes));
    while let Some(count) = words.next() {
        let (count, node) = (count? as usize, words.next()??);
        if count > size - map.len() {
            return None;
        }
        map.resize(map.len() + count, node);
    }
    (map.len() == size).then_some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(hosts: &[u64]) -> Vec<Here> {
        let here = |host: &u64| {
            let mut h = Here::default();
            h.host = *host;
            h
        };
        hosts.iter().map(here).collect()
    }

    #[test]
    fn containers_on_one_node_are_told_apart() {
        assert_eq!(refine(Some(&[0, 0, 0, 0]), &all(&[5, 5, 6, 6])).unwrap(), [0, 0, 1, 1]);
        assert_eq!(refine(Some(&[0, 0, 1]), &all(&[5, 6, 7])).unwrap(), [0, 1, 2]);
        // What a launcher says of different nodes stands, also where all seem to be one (an emulated cluster).
        assert_eq!(refine(Some(&[0, 1, 0]), &all(&[5, 5, 5])).unwrap(), [0, 1, 0]);
        assert_eq!(refine(Some(&[9, 9, 4]), &all(&[5, 5, 6])).unwrap(), [9, 9, 4]);
        assert_eq!(refine(None, &all(&[8, 3, 8])).unwrap(), [0, 1, 0]);
    }

    #[test]
    fn maps_come_back() {
        for map in [&[][..], &[0, 0, 0], &[0, 1, 0], &[7, 7, 2, 2, 2]] {
            assert_eq!(unpacked(&packed(map), map.len()).unwrap(), map);
        }
        let good = packed(&[1, 1, 2]);
        assert!((0..good.len()).all(|cut| unpacked(&good[..cut], 3).is_none()));
        assert!(unpacked(&good, 2).is_none() && unpacked(&good, 4).is_none());
        assert!(unpacked(&[0xFF; 8], 3).is_none());
    }

    #[test]
    fn parts_come_back() {
        let whole = joined(&[vec![1, 2], vec![], vec![3]]);
        assert_eq!(parts(&whole), Some([&[1, 2][..], &[], &[3]]));
        assert!((0..whole.len()).all(|cut| parts::<3>(&whole[..cut]).is_none()));
        assert!(parts::<2>(&whole).is_none() && parts::<1>(&[0xFF; 9]).is_none());
    }
}
