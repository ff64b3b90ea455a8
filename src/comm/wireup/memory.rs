//! Shared memory of the ranks of a node: each tells the others where its memory is, and maps theirs.

use super::addresses::neighbours;
use super::exchange::{Exchange, unreadable};
use super::joined::{joined, parted};
use super::locals::{largest_node, locals};
use crate::comm::short::MAX_MEMBERS;
use crate::config::Wait;
use crate::error::Result;
use crate::transport::Transport;
use crate::transport::shm::{self, Shm};

/// Our endpoint of shared memory.
pub(super) struct Mapped {
    pub(super) shm: Result<Shm>,
    /// Whether it has mapped the memory of the ranks of its node that it was to map, as far as these have not failed.
    pub(super) reaches_locals: bool,
}

/// Ranks of a node that map each other's memory at once, at most: those of a communicator with short calls. Where there are
/// more, each maps that of its neighbours on a circulant graph of the node's ranks, and others' when it needs it: m² mappings of 1024 ranks
/// are a million.
const MAX_MAPPED: usize = if cfg!(test) { 4 } else { MAX_MEMBERS };

/// Opens an endpoint if we are `ready`, publishes its address as `key` and maps the memory of the node-local ranks, or of some of them. Passes
/// one fence, or two where a node has many.
pub(super) fn map(
    exchange: &mut Exchange<'_>,
    key: &str,
    nodes: &[u32],
    ready: Result<()>,
    wait: Option<Wait>,
) -> Result<Mapped> {
    let (rank, locals) = (exchange.rank, locals(nodes, exchange.rank));
    let mut shm = ready.and_then(|()| Shm::open(&shm::Options { rank, locals: &locals, wait }));
    // A rank that has failed publishes nothing.
    let address = shm.as_ref().map(Transport::address).unwrap_or_default();
    exchange.put_near(key, &address, nodes)?;
    exchange.fence()?;
    let addresses = match largest_node(nodes) > MAX_MAPPED {
        true => exchange.get_all(key, &mapped(&locals, rank))?,
        false => {
            let all = exchange.of_node(key, nodes, joined)?;
            let all = parted(&all, locals.len()).ok_or_else(|| unreadable(key))?;
            locals.into_iter().zip(all).collect()
        }
    };
    let mut reaches_locals = true;
    if let Ok(shm) = &mut shm {
        for (local, address) in addresses {
            if local != rank
                && !address.is_empty()
                && let Err(why) = shm.reach(local, &address)
            {
                tracing::debug!(rank, local, "shared memory: {why}");
                reaches_locals = false;
            }
        }
    }
    Ok(Mapped { shm, reaches_locals })
}

/// The ranks of our node whose memory `rank` maps at once, where not all do.
fn mapped(locals: &[u32], rank: u32) -> Vec<u32> {
    let index = |i: usize| u32::try_from(i).unwrap_or(u32::MAX);
    let Ok(mine) = locals.binary_search(&rank) else { return Vec::new() };
    neighbours(index(mine), index(locals.len())).into_iter().map(|i| locals[i as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_large_nodes_some_memory_is_mapped_at_once() {
        assert_eq!(mapped(&[2, 7], 7), [2]);
        assert_eq!(mapped(&[3, 5, 6, 7, 9, 11, 20, 30], 6), [3, 5, 7, 9, 20]);
        let many: Vec<u32> = (0..1000).map(|i| 2 * i).collect();
        let some = mapped(&many, 8);
        assert!(some.len() <= 20 && some.is_sorted() && some.iter().all(|r| many.contains(r)), "{some:?}");
    }
}
