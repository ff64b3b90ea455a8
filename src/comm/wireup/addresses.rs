//! Addresses: each rank publishes its endpoint's, and reads those of its neighbours.

use super::card::{self, Card};
use super::exchange::{Exchange, unreadable};
use crate::comm::launcher::{SharedLaunch, lock};
use crate::engine::Directory;
use crate::error::{Error, ErrorKind, Result};
use crate::schedule::Circulant;
use crate::transport::cores::UsableCores;
use crate::transport::shm;

/// What ranks published of their endpoints, as far as we read it.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// The neighbours that have an address, and these.
    pub(super) neighbours: Vec<u32>,
    pub(super) addresses: Vec<Vec<u8>>,
    /// Their hosts and addresses, for people, and our own.
    pub(super) shown: Vec<String>,
    pub(super) own_shown: String,
    /// A neighbour that could not open its endpoint, and why.
    pub(super) absent: Option<Error>,
    /// The name under which all are published.
    pub(super) directory: &'static str,
}

/// What all ranks of our node have in common.
pub(super) struct NodeWide {
    /// Each of them can map the memory of all others.
    pub(super) reached: bool,
    /// The cores that they may use together; 0: that was not asked.
    pub(super) cores: u32,
}

/// Publishes our value (see [`card::value`]) under the name `directory`, and reads the neighbours'; where `nodes` are given,
/// also what the ranks of our own have in common. Passes one fence, or two where a node is large.
pub(super) fn exchange(
    exchange: &mut Exchange<'_>,
    directory: &'static str,
    value: &[u8],
    nodes: Option<&[u32]>,
) -> Result<(Addresses, NodeWide)> {
    let rank = exchange.rank;
    exchange.put_own(directory, value)?;
    exchange.fence()?;
    let ours = exchange.get_of(directory, rank)?;
    // Before any other error: the ranks of the node wait for us at a fence there.
    let node_wide = match nodes {
        Some(nodes) => node_wide(exchange, directory, nodes)?,
        None => NodeWide { reached: true, cores: 0 },
    };
    if ours != value {
        let what = format!("another process took part as rank {rank}, too");
        return Err(Error::new(ErrorKind::Mismatch, what)
            .help("start each rank once, by one launcher, and do not change the variables that it sets"));
    }
    let mut all = Addresses { directory, ..Addresses::default() };
    all.own_shown = Card::decode(value, rank).map_or_else(|_| shm::name(), |card| card.host_and_address);
    tracing::debug!(rank, "listens on {}", all.own_shown);
    for neighbour in neighbours(rank, exchange.size) {
        match Card::decode(&exchange.get_of(directory, neighbour)?, neighbour) {
            Ok(card) => {
                all.neighbours.push(neighbour);
                all.addresses.push(card.address);
                all.shown.push(card.host_and_address);
            }
            Err(e) => {
                all.absent.get_or_insert(e);
            }
        }
    }
    Ok((all, node_wide))
}

/// What the cards of our node's ranks have in common. Ranks that have failed do not count.
fn node_wide(exchange: &mut Exchange<'_>, directory: &str, nodes: &[u32]) -> Result<NodeWide> {
    let follows = |values: &[(u32, Vec<u8>)]| {
        let card = |(rank, value): &(u32, Vec<u8>)| Card::decode(value, *rank).ok();
        let cards: Vec<Card> = values.iter().filter_map(card).collect();
        let reached = cards.iter().all(|card| card.reaches_locals);
        let cores = UsableCores::together(cards.iter().map(|card| card.cores));
        [&[card::code(reached)][..], &cores.to_le_bytes()].concat()
    };
    let found = exchange.of_node(directory, nodes, follows)?;
    let read = || {
        let (first, cores) = found.split_first()?;
        let cores = u32::from_le_bytes(cores.try_into().ok()?);
        Some(NodeWide { reached: card::reaches_locals(*first)?, cores })
    };
    read().ok_or_else(|| unreadable(directory))
}

/// The ranks at r ± skips\[k\]: all that the circulant algorithms ever talk to, whatever the root.
pub(super) fn neighbours(rank: u32, size: u32) -> Vec<u32> {
    let graph = Circulant::new(size);
    let mut list: Vec<u32> = (0..graph.q())
        .flat_map(|k| {
            let skip = graph.skip(k) % size;
            let ahead = u64::from(rank) + u64::from(skip);
            let behind = u64::from(rank) + u64::from(size - skip);
            [ahead, behind].map(|r| u32::try_from(r % u64::from(size)).unwrap_or(0))
        })
        .filter(|r| *r != rank)
        .collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// Looks up addresses of other ranks at the launcher, until all ranks have told each other theirs.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) launch: SharedLaunch,
    /// The name under which they are published.
    pub(super) directory: &'static str,
}

impl Directory for Published {
    fn address(&mut self, rank: u32) -> Result<Vec<u8>> {
        let value = lock(&self.launch).get(&format!("{}-{rank}", self.directory))?;
        Card::decode(&value, rank).map(|card| card.address)
    }
}
