//! Where the ranks are: which of them share a node, and over which networks nodes reach each other. Each rank tells
//! where it is; rank 0 reads that and tells all what follows. So a rank asks the launcher for one value, not for p.

use super::world::to_u32;
use crate::error::{Error, ErrorKind, Result};
use crate::launch::Launch;
use crate::transport::fabric::{Here, Networks};
use crate::transport::shm;
use std::collections::HashMap;
use std::time::Duration;

/// Publishes where we are; to be followed by a fence, and [`settle`].
pub(super) fn announce(launch: &mut dyn Launch) -> Result<()> {
    launch.put(&format!("here-{}", launch.rank()), &Here::look(shm::host()).encode())
}

/// What follows from where all are. Ranks that a launcher takes for mates, but which are in containers of their own, come
/// to stand on nodes of their own.
pub(super) fn settle(
    launch: &mut dyn Launch,
    nodes: &mut Option<Vec<u32>>,
    patience: Duration,
) -> Result<Networks> {
    if launch.rank() == 0 {
        let all: Result<Vec<Here>> = (0..launch.size())
            .map(|rank| Ok(Here::decode(&launch.get(&format!("here-{rank}"))?).unwrap_or_default()))
            .collect();
        let all = all?;
        let refined = refine(nodes.as_deref(), &all)?;
        let networks = Networks::agree(&all).encode();
        // Some dozen networks at most.
        let mut value = u16::try_from(networks.len()).unwrap_or(0).to_le_bytes().to_vec();
        value.extend(networks);
        // As launchers give a map as a rule, it is told only where it is another.
        if nodes.as_deref() != Some(&refined[..]) {
            value.extend(packed(&refined));
        }
        launch.put("networks", &value)?;
    }
    launch.fence(patience)?;
    let value = launch.get("networks")?;
    let wrong =
        || Error::new(ErrorKind::Launch, "what rank 0 published about networks makes no sense").with_peer(0);
    let parts = value.split_first_chunk::<2>();
    let (networks, map) = parts
        .and_then(|(len, rest)| rest.split_at_checked(usize::from(u16::from_le_bytes(*len))))
        .ok_or_else(wrong)?;
    if !map.is_empty() {
        *nodes = Some(unpacked(map, launch.size()).ok_or_else(wrong)?);
    }
    Networks::decode(networks).ok_or_else(wrong)
}

/// The node of each rank, numbered in order of first appearance: those that a launcher puts on one node and that are in
/// one space of processes.
fn refine(nodes: Option<&[u32]>, all: &[Here]) -> Result<Vec<u32>> {
    let mut seen = HashMap::new();
    let mut place = |key| -> Result<u32> {
        let next = to_u32(seen.len())?;
        Ok(*seen.entry(key).or_insert(next))
    };
    let node = |rank: usize| nodes.and_then(|n| n.get(rank)).copied().unwrap_or(0);
    let refined: Result<Vec<u32>> = all.iter().enumerate().map(|(r, h)| place((node(r), h.host))).collect();
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
