//! Rank locations: which ranks share a node, and over which networks nodes reach each other. Each rank publishes where it
//! is; rank 0 reads that and publishes what follows. So a rank asks the launcher for one value, not for p.

use super::exchange::Exchange;
use crate::comm::members::to_u32;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::fabric::{Here, Networks};
use crate::transport::{remote, shm};
use std::collections::HashMap;

/// Where the ranks are.
pub(super) struct Locations {
    /// The node of each rank.
    pub(super) nodes: Vec<u32>,
    /// `None`: not asked for yet, as the launcher says that all ranks share a node.
    pub(super) networks: Option<Networks>,
}

/// Publishes where we are; to be followed by a fence, and [`agree`].
pub(super) fn publish(exchange: &mut Exchange<'_>) -> Result<()> {
    let mut here = Here::look(shm::host());
    here.rdma = remote::link();
    exchange.put_own("here", &here.encode())
}

/// What follows from where all ranks are; passes a fence. Ranks that the launcher (which says `nodes`) puts on one node, but
/// which are in containers of their own, get nodes of their own.
pub(super) fn agree(exchange: &mut Exchange<'_>, nodes: Option<Vec<u32>>) -> Result<Locations> {
    if exchange.rank == 0 {
        let value = from_all(exchange, nodes.as_deref())?;
        exchange.put("networks", &value)?;
    }
    exchange.fence()?;
    let value = exchange.get("networks")?;
    let unreadable =
        || Error::new(ErrorKind::Launch, "what rank 0 published of networks cannot be read").with_peer(0);
    let parts = value.split_first_chunk::<2>();
    let (networks, map) = parts
        .and_then(|(len, rest)| rest.split_at_checked(usize::from(u16::from_le_bytes(*len))))
        .ok_or_else(unreadable)?;
    let nodes = match map.is_empty() {
        true => nodes.unwrap_or_default(),
        false => unpacked(map, exchange.size as usize).ok_or_else(unreadable)?,
    };
    let networks = Networks::decode(networks).ok_or_else(unreadable)?;
    Ok(Locations { nodes, networks: Some(networks) })
}

/// Rank 0 reads where all are: the length of the networks, the networks, the node of each rank.
fn from_all(exchange: &mut Exchange<'_>, nodes: Option<&[u32]>) -> Result<Vec<u8>> {
    let all: Result<Vec<Here>> = (0..exchange.size)
        .map(|rank| Ok(Here::decode(&exchange.get_of("here", rank)?).unwrap_or_default()))
        .collect();
    let all = all?;
    let refined = refine(nodes, &all)?;
    let networks = Networks::agree(&all).encode();
    // Some dozen networks at most.
    let mut value = u16::try_from(networks.len()).unwrap_or(0).to_le_bytes().to_vec();
    value.extend(networks);
    // As launchers give a map as a rule, one is published only where it differs.
    if nodes != Some(&refined[..]) {
        value.extend(packed(&refined));
    }
    Ok(value)
}

impl Locations {
    /// With the networks; where they have not been asked for, passes two fences.
    pub(super) fn with_networks(self, exchange: &mut Exchange<'_>) -> Result<(Vec<u32>, Networks)> {
        match self.networks {
            Some(networks) => Ok((self.nodes, networks)),
            None => {
                publish(exchange)?;
                exchange.fence()?;
                let Self { nodes, networks } = agree(exchange, Some(self.nodes))?;
                Ok((nodes, networks.unwrap_or_default()))
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
}
