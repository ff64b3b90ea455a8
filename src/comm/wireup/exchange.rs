//! The launcher's key-value store as wire-up uses it: what each rank publishes, and what follows from the values of all
//! ranks of a node.

use super::joined::{joined, parted};
use super::locals::{firsts, largest_node, locals};
use crate::comm::fence;
use crate::comm::members::to_u32;
use crate::error::{Error, ErrorKind, Result};
use crate::launch::Launch;
use crate::secret::Secret;
use std::collections::BTreeMap;
use std::time::Duration;

/// Ranks of one node from which on one of them reads for all. Chosen: fewer ranks read each other's values sooner than
/// they pass one more fence (docs/launch.md).
const MIN_READER_NODE_RANKS: usize = 16;

/// Ranks of a job on several nodes from which on rank 0 reads a value of each node, not of each rank. Chosen: rank 0 reads fewer values itself sooner
/// than all pass one more fence (some 15 µs a value, docs/launch.md).
const MIN_JOINED_RANKS: usize = if cfg!(test) { 5 } else { 64 };

/// Ranks of a job from which on rank 0 reads a value of each row of ranks, where the launcher does not tell which nodes they are on. Chosen: a fence of as
/// many takes less time than rank 0 needs for their values (15 µs each).
const MIN_ROW_RANKS: u32 = if cfg!(test) { 7 } else { 4096 };

/// How the ranks of a job are divided where one rank of each part reads the values of that part and publishes them as one, for rank 0.
enum Parts<'a> {
    /// By node: the node of each rank.
    Nodes(&'a [u32]),
    /// Rows of `ranks` consecutive ranks; the last row may have fewer.
    Rows { ranks: u32, size: u32 },
}

impl<'a> Parts<'a> {
    /// The parts of `size` ranks; `nodes` is the node of each, where the launcher tells it. `None`: rank 0 reads every value itself. The result is the same
    /// at all ranks.
    fn new(nodes: Option<&'a [u32]>, size: u32) -> Option<Self> {
        match nodes {
            Some(nodes) => reads_by_node(nodes).then_some(Self::Nodes(nodes)),
            // As many rows as ranks of a row.
            None => (size >= MIN_ROW_RANKS).then(|| Self::Rows { ranks: size.isqrt() + 1, size }),
        }
    }

    /// The ranks of the part that a rank is in.
    fn of(&self, rank: u32) -> Vec<u32> {
        match *self {
            Self::Nodes(nodes) => locals(nodes, rank),
            Self::Rows { ranks, size } => {
                let first = rank / ranks * ranks;
                (first..size.min(first.saturating_add(ranks))).collect()
            }
        }
    }

    /// The first rank and all ranks of each part.
    fn all(&self) -> BTreeMap<u32, Vec<u32>> {
        match *self {
            Self::Nodes(nodes) => firsts(nodes),
            Self::Rows { ranks, size } => {
                (0..size).step_by(ranks as usize).map(|first| (first, self.of(first))).collect()
            }
        }
    }
}

/// The key-value store, and what a rank knows of the job.
pub(super) struct Exchange<'a> {
    launch: &'a mut dyn Launch,
    pub(super) rank: u32,
    pub(super) size: u32,
    /// For each fence.
    timeout: Duration,
    /// When a wait is told of, where a fence may last longer.
    warn_after: Option<Duration>,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        launch: &'a mut dyn Launch,
        timeout: Duration,
        warn_after: Option<Duration>,
    ) -> Result<Self> {
        let (rank, size) = (to_u32(launch.rank())?, to_u32(launch.size())?);
        let warn_after = warn_after.filter(|after| *after < timeout);
        Ok(Self { launch, rank, size, timeout, warn_after })
    }

    /// What the user has given the ranks to know.
    pub(super) fn secret(&self) -> Secret {
        self.launch.secret()
    }

    /// The group of our node, as the launcher tells it.
    pub(super) fn group(&self) -> Option<String> {
        self.launch.group()
    }

    /// Publishes a value of rank 0's.
    pub(super) fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.launch.put(key, value)
    }

    /// Reads a value of rank 0's.
    pub(super) fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        self.launch.get(key)
    }

    /// Publishes our value of a key that every rank has.
    pub(super) fn put_own(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.launch.put(&format!("{key}-{}", self.rank), value)
    }

    /// Publishes our value of a key that every rank has, for ranks of our node only.
    pub(super) fn put_near(&mut self, key: &str, value: &[u8], nodes: &[u32]) -> Result<()> {
        let readers = locals(nodes, self.rank);
        self.launch.put_for(&format!("{key}-{}", self.rank), value, &readers)
    }

    /// The value of rank `rank` of such a key.
    pub(super) fn get_of(&mut self, key: &str, rank: u32) -> Result<Vec<u8>> {
        self.launch.get(&format!("{key}-{rank}"))
    }

    pub(super) fn fence(&mut self) -> Result<()> {
        match self.warn_after {
            Some(after) => fence::pass(self.launch, self.timeout, after),
            None => self.launch.fence(self.timeout),
        }
    }

    /// What follows from the values that the ranks of our node have published as `key`. Of large nodes the first rank reads
    /// them and publishes what follows: else m ranks would ask for m values each.
    pub(super) fn of_node(
        &mut self,
        key: &str,
        nodes: &[u32],
        follows: impl Fn(&[(u32, Vec<u8>)]) -> Vec<u8>,
    ) -> Result<Vec<u8>> {
        let locals = locals(nodes, self.rank);
        // All ranks of the job pass as many fences.
        if largest_node(nodes) < MIN_READER_NODE_RANKS {
            return Ok(follows(&self.get_all(key, &locals)?));
        }
        let first = locals.first().copied().unwrap_or(self.rank);
        if first == self.rank {
            let found = follows(&self.get_all(key, &locals)?);
            self.put_near(&format!("{key}-of"), &found, nodes)?;
        }
        self.fence()?;
        self.get_of(&format!("{key}-of"), first)
    }

    /// Publishes our value of a key of which rank 0 reads that of every rank; to be followed by a fence, and [`Self::of_all`] with the same `nodes`.
    pub(super) fn put_for_all(&mut self, key: &str, value: &[u8], nodes: Option<&[u32]>) -> Result<()> {
        match Parts::new(nodes, self.size) {
            Some(Parts::Nodes(nodes)) => self.put_near(key, value, nodes),
            _ => self.put_own(key, value),
        }
    }

    /// At rank 0 what all ranks have published as `key`, by rank; elsewhere nothing. Where there are many ranks, the first rank of each node, or of each row of
    /// ranks where nodes are not known, reads what its ranks have published, and publishes it in one; that passes a fence.
    pub(super) fn of_all(&mut self, key: &str, nodes: Option<&[u32]>) -> Result<Vec<Vec<u8>>> {
        let all = if self.rank == 0 { self.size } else { 0 };
        let Some(parts) = Parts::new(nodes, self.size) else {
            return (0..all).map(|rank| self.get_of(key, rank)).collect();
        };
        let (of, part) = (format!("{key}-of"), parts.of(self.rank));
        if part.first() == Some(&self.rank) {
            let values = self.get_all(key, &part)?;
            self.put_own(&of, &joined(&values))?;
        }
        self.fence()?;
        let mut found = vec![Vec::new(); all as usize];
        if all > 0 {
            for (first, ranks) in parts.all() {
                let values = parted(&self.get_of(&of, first)?, ranks.len());
                let values = values.ok_or_else(|| unreadable(key).with_peer(first as usize))?;
                for (rank, value) in ranks.into_iter().zip(values) {
                    found[rank as usize] = value;
                }
            }
        }
        Ok(found)
    }

    /// The values of these ranks of such a key.
    pub(super) fn get_all(&mut self, key: &str, ranks: &[u32]) -> Result<Vec<(u32, Vec<u8>)>> {
        ranks.iter().map(|rank| Ok((*rank, self.get_of(key, *rank)?))).collect()
    }
}

/// Whether rank 0 reads a value of each of these nodes, not of each rank; all ranks know the same nodes. On one node that would save nothing.
fn reads_by_node(nodes: &[u32]) -> bool {
    let count = firsts(nodes).len();
    nodes.len() >= MIN_JOINED_RANKS && (2..=nodes.len() / 2).contains(&count)
}

/// The error of a value that the first rank of a node, or of a row, has published, and that cannot be read.
#[cold]
pub(super) fn unreadable(key: &str) -> Error {
    let what = format!("what a rank published of {key:?} of several ranks cannot be read");
    Error::new(ErrorKind::Launch, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::threads;

    /// Each rank is in one part, and all know it alike.
    #[test]
    fn parts_are_of_all_ranks() {
        let nodes = [0, 0, 1, 1, 0, 2, 2];
        let apart: Vec<u32> = (0..100).collect();
        assert!(Parts::new(None, MIN_ROW_RANKS - 1).is_none() && Parts::new(Some(&apart), 100).is_none());
        let rows = [MIN_ROW_RANKS, 50, 4095, 4096, 4097, 100_000].map(|size| (None, size));
        for (known, size) in rows.into_iter().chain([(Some(&nodes[..]), 7)]) {
            let parts = Parts::new(known, size).unwrap();
            let all = parts.all();
            assert_eq!(all.values().map(Vec::len).sum::<usize>(), size as usize);
            let longest = all.values().map(Vec::len).max().unwrap();
            assert!(all.len().max(longest).pow(2) <= 2 * size as usize + 2, "{size}");
            for (first, ranks) in &all {
                assert_eq!(ranks.first(), Some(first));
                assert!(ranks.iter().all(|rank| size > 5000 && rank % 97 > 0 || parts.of(*rank) == *ranks));
            }
        }
        let of_nodes = Parts::new(Some(&nodes), 7).unwrap().all();
        assert_eq!(of_nodes.into_values().collect::<Vec<_>>(), [vec![0, 1, 4], vec![2, 3], vec![5, 6]]);
    }

    /// Where the launcher says nothing of nodes, too, rank 0 gets what all have published, in their order, and all pass as many fences.
    #[test]
    fn rank_0_reads_what_all_have_published() {
        for size in [1, 2, MIN_ROW_RANKS - 1, MIN_ROW_RANKS, 23] {
            let one = |mut launch: Box<dyn Launch>| {
                let mut exchange = Exchange::new(launch.as_mut(), Duration::from_secs(60), None).unwrap();
                let value = exchange.rank.to_le_bytes();
                exchange.put_for_all("here", &value, None).unwrap();
                exchange.fence().unwrap();
                let found = exchange.of_all("here", None).unwrap();
                exchange.fence().unwrap();
                (exchange.rank, found)
            };
            std::thread::scope(|scope| {
                let group = threads::group_on(vec![0; size as usize]);
                let started: Vec<_> = group.into_iter().map(|launch| scope.spawn(|| one(launch))).collect();
                for thread in started {
                    let (rank, found) = thread.join().unwrap();
                    let all: Vec<_> =
                        (0..if rank == 0 { size } else { 0 }).map(|r| r.to_le_bytes().to_vec()).collect();
                    assert_eq!(found, all, "rank {rank} of {size}");
                }
            });
        }
    }
}
