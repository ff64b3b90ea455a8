//! Meeting the others at the launcher: settings, the choice of the wire, addresses.
//!
//! All ranks go through the same fences, also those that have failed already: they publish their error in place of
//! their address, their neighbours read it, and tell it to all.

use super::world::{SharedLaunch, lock, to_u32};
use crate::config::Config;
use crate::engine::Directory;
use crate::error::{Error, ErrorKind, Result};
use crate::launch::Launch;
use crate::schedule::Circulant;
use crate::transport::fabric::{self, Interfaces};
use crate::transport::node::Node;
use crate::transport::rails;
use crate::transport::route::Route;
use crate::transport::shm::{self, Reach, Shm};
use crate::transport::{Transport, Wait};
use std::time::Duration;

/// The addresses that all ranks published at start-up.
#[derive(Debug)]
pub(super) struct Addresses {
    pub(super) launch: SharedLaunch,
    /// Under which name.
    pub(super) directory: &'static str,
}

impl Directory for Addresses {
    fn address(&mut self, rank: u32) -> Result<Vec<u8>> {
        published(&lock(&self.launch).get(&format!("{}-{rank}", self.directory))?, rank).map(|(_, _, a)| a)
    }
}

/// What rank `rank` published: how far it reaches on its node, how many cores it may use, and its address; or why it has
/// none.
fn published(value: &[u8], rank: u32) -> Result<(Reach, u32, Vec<u8>)> {
    if let [first @ (UNREACHED | SHARED | ALL), a, b, address @ ..] = value {
        let reach = match *first {
            UNREACHED => Reach::None,
            SHARED => Reach::Shared,
            _ => Reach::All,
        };
        return Ok((reach, u16::from_le_bytes([*a, *b]).into(), address.to_vec()));
    }
    let why = value.split_first().map_or_else(Default::default, |(_, text)| String::from_utf8_lossy(text));
    let e = Error::new(ErrorKind::Aborted, format!("rank {rank} could not start: {why}"));
    Err(e.with_peer(rank as usize))
}

/// The first byte of what is published: the number of cores and an address follow, or the text of an error.
const UNREACHED: u8 = 0;
const ERROR: u8 = 1;
const SHARED: u8 = 2;
const ALL: u8 = 3;

/// The value to publish.
fn value(reach: Reach, address: Result<Vec<u8>, String>) -> Vec<u8> {
    let first = match (&address, reach) {
        (Err(_), _) => ERROR,
        (_, Reach::None) => UNREACHED,
        (_, Reach::Shared) => SHARED,
        (_, Reach::All) => ALL,
    };
    let mut out = vec![first];
    match address {
        Ok(address) => {
            let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
            out.extend(u16::try_from(cores).unwrap_or(u16::MAX).to_le_bytes());
            out.extend(address);
        }
        Err(text) => out.extend(text.into_bytes()),
    }
    out
}

/// What comes of it.
#[derive(Default)]
pub(super) struct Met {
    pub(super) endpoint: Option<Box<dyn Transport>>,
    /// Those with an address, and these.
    pub(super) neighbours: Vec<u32>,
    pub(super) addresses: Vec<Vec<u8>>,
    /// A neighbour that could not open its endpoint, and why.
    pub(super) absent: Option<Error>,
    /// The name under which addresses were published.
    pub(super) directory: &'static str,
    /// The cores that each rank of our node may use at least; 0: that was not asked.
    pub(super) cores: u32,
}

/// Agrees on the settings and on the wire, opens the endpoint and exchanges addresses. Fills in `nodes` where the
/// launcher did not know them and they are needed.
pub(super) fn meet(
    config: &mut Config,
    launch: &mut dyn Launch,
    transport: Option<Box<dyn Transport>>,
    nodes: &mut Option<Vec<u32>>,
    patience: Duration,
) -> Result<Met> {
    let rank = to_u32(launch.rank())?;
    let mut loaded = Ok(());
    if rank == 0 {
        loaded = config.load();
        let settings = format!("{SIZE}={}\n{}", launch.size(), config.agreed());
        launch.put("settings", settings.as_bytes())?;
    }
    let ask_hosts = nodes.is_none() && transport.is_none();
    if ask_hosts {
        launch.put(&format!("host-{rank}"), &shm::host().to_le_bytes())?;
    }
    launch.fence(patience)?;
    let settings = String::from_utf8_lossy(&launch.get("settings")?).into_owned();
    if rank > 0 {
        // Of another size all else would be wrong, too: who our neighbours are, and which keys there are.
        same_size(&settings, launch.size())?;
        loaded = config.adopt(&settings);
    }
    if let Some(wire) = transport {
        return exchange(launch, "addr", loaded.map(|()| wire), Reach::None, patience).map(|(met, _)| met);
    }
    // Rank 0's word, whatever became of our own settings: all must go the same way.
    let provider = settings.lines().find_map(|l| l.strip_prefix("provider=")).unwrap_or("auto");
    let wanted = Route::of(provider, nodes.as_deref().unwrap_or(&[]));
    if ask_hosts && !matches!(wanted, Route::Fabric(_)) {
        *nodes = Some(nodes_by_host(launch)?);
    }
    let map = nodes.as_deref().unwrap_or(&[]);
    let one_node = !map.is_empty() && map.iter().all(|n| *n == map[0]);
    match Route::of(provider, map) {
        Route::Fabric(provider) => {
            let opened =
                loaded.and_then(|()| open_fabric(config, provider, one_node, launch.size(), wait(config)?));
            exchange(launch, "addr", opened, Reach::None, patience).map(|(met, _)| met)
        }
        Route::Both(provider) => {
            let shm = loaded.and_then(|()| open_shm(config, launch, map));
            let (shm, reach) = acquaint(launch, map, shm, patience)?;
            let size = launch.size();
            // Asleep in libfabric it would not see what comes by shared memory.
            let wait = wait(config).map(|w| w.filter(|w| *w != Wait::Block).or(Some(Wait::Yield)));
            let fabric =
                |shm| open_fabric(config, provider, one_node, size, wait?).map(|f| Node::new(shm, f));
            let mut node = shm.and_then(fabric);
            // How far all of our node reach is known only after the exchange.
            let address = node.as_ref().map(Transport::address).map_err(ToString::to_string);
            let (mut met, reach) = swap(launch, "addr", value(reach, address), Some(map), patience)?;
            if let Ok(node) = &mut node {
                node.settle(reach);
            }
            met.endpoint = Some(Box::new(node?));
            Ok(met)
        }
        Route::Shm { only } => by_shm(config, launch, loaded, map, only, patience),
    }
}

/// The name under which rank 0 publishes how many ranks it believes in.
const SIZE: &str = "size";

/// Whether rank 0 was told the same size of the job.
fn same_size(settings: &str, size: usize) -> Result<()> {
    let said = settings.lines().find_map(|l| l.strip_prefix(SIZE)?.strip_prefix('='));
    match said {
        Some(said) if said != size.to_string() => {
            let what = format!("the launcher says that the job has {said} ranks to rank 0, and {size} to us");
            Err(Error::new(ErrorKind::Mismatch, what).with_peer(0).help(
                "start all ranks by one launcher, in one command, and do not change the variables that it sets",
            ))
        }
        _ => Ok(()),
    }
}

fn by_shm(
    config: &Config,
    launch: &mut dyn Launch,
    loaded: Result<()>,
    map: &[u32],
    only: bool,
    patience: Duration,
) -> Result<Met> {
    let loaded = loaded.and_then(|()| match map.iter().all(|n| *n == map[0]) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Config, "provider shm carries only ranks of one node")
            .help("CIRCULANT_PROVIDER=auto, or tcp+shm and the like, take another wire between nodes")),
    });
    let shm = loaded.and_then(|()| open_shm(config, launch, map));
    let (mut shm, reach) = acquaint(launch, map, shm, patience)?;
    let address = shm.as_ref().map(Transport::address).map_err(ToString::to_string);
    let (mut met, reach) = swap(launch, "addr", value(reach, address), Some(map), patience)?;
    if reach > Reach::None || only {
        if let Ok(shm) = &mut shm {
            shm.settle(reach);
        }
        met.endpoint = Some(Box::new(shm?));
        return match reach {
            Reach::None => Err(Error::new(
                ErrorKind::System,
                "the ranks of this node cannot map each other's memory through /proc",
            )
            .over("shm")
            .help("containers must share a space of process numbers; or choose another CIRCULANT_PROVIDER")),
            _ => Ok(met),
        };
    }
    tracing::debug!("the ranks of this node cannot map each other's memory: libfabric is used instead");
    let wire = shm.and_then(|_| open_fabric(config, "auto", true, launch.size(), wait(config)?));
    exchange(launch, "far", wire, Reach::None, patience).map(|(met, _)| met)
}

/// Publishes the endpoint's address and reads the neighbours'.
fn exchange(
    launch: &mut dyn Launch,
    directory: &'static str,
    opened: Result<Box<dyn Transport>>,
    reach: Reach,
    patience: Duration,
) -> Result<(Met, Reach)> {
    let address = opened.as_ref().map(|wire| wire.address()).map_err(ToString::to_string);
    let swapped = swap(launch, directory, value(reach, address), None, patience);
    let endpoint = Some(opened?);
    swapped.map(|(met, reach)| (Met { endpoint, ..met }, reach))
}

/// Publishes `value` and reads the neighbours' addresses; and, where the nodes are given, how far the ranks of our own
/// reach.
fn swap(
    launch: &mut dyn Launch,
    directory: &'static str,
    value: Vec<u8>,
    nodes: Option<&[u32]>,
    patience: Duration,
) -> Result<(Met, Reach)> {
    let (rank, size) = (to_u32(launch.rank())?, to_u32(launch.size())?);
    launch.put(&format!("{directory}-{rank}"), &value)?;
    launch.fence(patience)?;
    if launch.get(&format!("{directory}-{rank}"))? != value {
        let what = format!("another process took part as rank {rank}, too");
        return Err(Error::new(ErrorKind::Mismatch, what)
            .help("start each rank once, by one launcher, and do not change the variables that it sets"));
    }
    let mut met = Met { directory, ..Met::default() };
    for n in neighbours(rank, size) {
        match published(&launch.get(&format!("{directory}-{n}"))?, n) {
            Ok((.., address)) => {
                met.neighbours.push(n);
                met.addresses.push(address);
            }
            Err(e) => {
                met.absent.get_or_insert(e);
            }
        }
    }
    let mut reach = Reach::All;
    for n in nodes.map(|nodes| mates(nodes, rank)).unwrap_or_default() {
        // Who has failed has no say.
        if let Ok((theirs, cores, _)) = published(&launch.get(&format!("{directory}-{n}"))?, n) {
            reach = reach.min(theirs);
            met.cores = if met.cores == 0 { cores } else { met.cores.min(cores) };
        }
    }
    Ok((met, reach))
}

/// Tells the ranks of our node where our memory is, and finds out how far we reach into theirs.
fn acquaint(
    launch: &mut dyn Launch,
    nodes: &[u32],
    mut opened: Result<Shm>,
    patience: Duration,
) -> Result<(Result<Shm>, Reach)> {
    let rank = to_u32(launch.rank())?;
    let address = opened.as_ref().map(Transport::address).unwrap_or_default();
    launch.put(&format!("shm-{rank}"), &address)?;
    launch.fence(patience)?;
    let mut reach = Reach::All;
    let Ok(shm) = &mut opened else { return Ok((opened, reach)) };
    for mate in mates(nodes, rank) {
        let theirs = launch.get(&format!("shm-{mate}"))?;
        // Who has failed publishes nothing.
        if mate != rank && !theirs.is_empty() {
            let (far, why) = shm.reach(mate, &theirs);
            if far < Reach::All {
                tracing::debug!(rank, mate, "shared memory: {why}");
            }
            reach = reach.min(far);
        }
    }
    Ok((opened, reach))
}

/// The ranks on the node of `rank`, with it.
fn mates(nodes: &[u32], rank: u32) -> Vec<u32> {
    let mine = nodes.get(rank as usize);
    (0u32..).zip(nodes).filter(|(_, n)| Some(*n) == mine).map(|(r, _)| r).collect()
}

fn open_shm(config: &Config, launch: &dyn Launch, nodes: &[u32]) -> Result<Shm> {
    let rank = to_u32(launch.rank())?;
    Shm::open(&shm::Options { rank, mates: &mates(nodes, rank), wait: wait(config)? })
}

fn wait(config: &Config) -> Result<Option<Wait>> {
    match config.text("wait") {
        "spin" => Ok(Some(Wait::Spin)),
        "yield" => Ok(Some(Wait::Yield)),
        "block" => Ok(Some(Wait::Block)),
        "auto" => Ok(None),
        other => {
            let what = format!("CIRCULANT_WAIT: {other:?} is not spin, yield, block or auto");
            Err(Error::new(ErrorKind::Config, what))
        }
    }
}

fn open_fabric(
    config: &Config,
    provider: &str,
    all_on_one_node: bool,
    size: usize,
    wait: Option<Wait>,
) -> Result<Box<dyn Transport>> {
    let interfaces: Interfaces = config.text("rails").parse()?;
    let libfabric = config.text("libfabric");
    rails::open(&fabric::Options { provider, all_on_one_node, size, wait, libfabric }, &interfaces)
}

/// The ranks at r ± skips\[k\]: all that the circulant algorithms ever talk to, whatever the root.
fn neighbours(rank: u32, size: u32) -> Vec<u32> {
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

/// Node indices in order of first appearance, from what identifies each rank's host.
fn nodes_by_host(launch: &mut dyn Launch) -> Result<Vec<u32>> {
    let mut seen = std::collections::HashMap::new();
    let size = to_u32(launch.size())?;
    (0..size)
        .map(|rank| {
            let host = launch.get(&format!("host-{rank}"))?;
            let next = u32::try_from(seen.len()).unwrap_or(u32::MAX);
            Ok(*seen.entry(host).or_insert(next))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mates_are_the_ranks_of_our_node() {
        assert_eq!(mates(&[0, 0, 1], 1), [0, 1]);
        assert_eq!(mates(&[0, 0, 1], 2), [2]);
    }

    #[test]
    fn what_is_published_comes_back() {
        for reach in [Reach::None, Reach::Shared, Reach::All] {
            let (far, cores, address) = published(&value(reach, Ok(vec![7, 8])), 3).unwrap();
            assert_eq!((far, address), (reach, vec![7, 8]));
            assert!(cores > 0);
        }
        let e = published(&value(Reach::All, Err("no luck".to_owned())), 3).unwrap_err();
        assert!(e.peer() == Some(3) && e.to_string().contains("could not start: no luck"), "{e}");
        assert!(published(&[], 3).is_err());
    }
}
