//! Meeting the others at the launcher: settings, the choice of the wire, addresses.
//!
//! All ranks go through the same fences, also those that have failed already: they publish their error in place of
//! their address, their neighbours read it, and tell it to all.

use super::whereabouts::{announce, settle};
use super::world::{SharedLaunch, lock, to_u32};
use crate::config::{Config, Provider, Wait};
use crate::engine::Directory;
use crate::error::{Error, ErrorKind, Result};
use crate::launch::Launch;
use crate::schedule::Circulant;
use crate::transport::Transport;
use crate::transport::fabric::{self, Networks};
use crate::transport::node::Node;
use crate::transport::rails;
use crate::transport::route::Route;
use crate::transport::shm::{self, Shm};
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
        published(&lock(&self.launch).get(&format!("{}-{rank}", self.directory))?, rank).map(|p| p.address)
    }
}

/// What a rank publishes.
#[derive(Debug)]
struct Published {
    /// Whether it reaches all on its node.
    reach: bool,
    /// How many cores it may use.
    cores: u32,
    /// Its host and its address, for people.
    place: String,
    /// Its address, for its transport.
    address: Vec<u8>,
}

/// What rank `rank` published; or why it has no address.
fn published(value: &[u8], rank: u32) -> Result<Published> {
    let read = || {
        let ([first, a, b, len], rest) = value.split_first_chunk::<4>()?;
        let reach = reach_of(*first)?;
        let (place, address) = rest.split_at_checked(usize::from(*len))?;
        let place = String::from_utf8_lossy(place).into_owned();
        let cores = u16::from_le_bytes([*a, *b]).into();
        Some(Published { reach, cores, place, address: address.to_vec() })
    };
    read().ok_or_else(|| {
        let text = value.split_first().map_or_else(Default::default, |(_, t)| String::from_utf8_lossy(t));
        let e = Error::new(ErrorKind::Aborted, format!("rank {rank} could not start: {text}"));
        e.with_peer(rank as usize).reported_by(rank as usize)
    })
}

/// The first byte of what is published: cores, place and address follow, or the text of an error.
const UNREACHED: u8 = 0;
const ERROR: u8 = 1;
const REACHED: u8 = 2;

fn code(reach: bool) -> u8 {
    if reach { REACHED } else { UNREACHED }
}

fn reach_of(code: u8) -> Option<bool> {
    [false, true].into_iter().find(|reach| self::code(*reach) == code)
}

/// Our host, and the address of our endpoint, for people.
fn place(wire: &dyn Transport) -> String {
    let text = format!("{} {}", shm::name(), wire.place());
    text.trim_end().chars().take(60).collect()
}

/// The value to publish: of an endpoint's place and address, or of why there is none.
fn value(reach: bool, opened: Result<(String, Vec<u8>), String>) -> Vec<u8> {
    let mut out = vec![if opened.is_ok() { code(reach) } else { ERROR }];
    match opened {
        Ok((place, address)) => {
            let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
            out.extend(u16::try_from(cores).unwrap_or(u16::MAX).to_le_bytes());
            // At most 60 characters of at most 4 bytes.
            out.push(u8::try_from(place.len()).unwrap_or(0));
            out.extend(place.into_bytes());
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
    /// Their hosts and addresses, for people, and our own.
    pub(super) places: Vec<String>,
    pub(super) place: String,
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
    let one_node = |nodes: &Option<Vec<u32>>| nodes.as_ref().is_some_and(|n| n.iter().all(|x| *x == n[0]));
    // Where the launcher knows that all share a node, this is asked only when it is needed.
    let announced = transport.is_none() && !one_node(nodes);
    if announced {
        announce(launch)?;
    }
    launch.fence(patience)?;
    let settings = String::from_utf8_lossy(&launch.get("settings")?).into_owned();
    if rank > 0 {
        // Of another size all else would be wrong, too: who our neighbours are, and which keys there are.
        same_size(&settings, launch.size())?;
        loaded = config.adopt(&settings);
    }
    if let Some(wire) = transport {
        return exchange(launch, "addr", loaded.map(|()| wire), patience);
    }
    // Rank 0's word, whatever became of our own settings: all must go the same way.
    let provider = settings.lines().find_map(|l| l.strip_prefix("provider="));
    let provider = provider.map_or(Provider::Auto, Provider::from);
    let mut networks = None;
    if announced {
        networks = Some(settle(launch, nodes, patience)?);
    }
    let map = nodes.clone().unwrap_or_default();
    if let Route::Shm { only } = Route::of(&provider, &map) {
        match by_shm(config, launch, &mut loaded, &map, only, patience)? {
            Some(met) => return Ok(met),
            None => tracing::debug!("the ranks of this node cannot map each other's memory"),
        }
    }
    let networks = match networks {
        Some(networks) => networks,
        None => {
            announce(launch)?;
            launch.fence(patience)?;
            settle(launch, nodes, patience)?
        }
    };
    let map = nodes.as_deref().unwrap_or(&[]);
    let alone = one_node(nodes);
    match Route::of(&provider, map) {
        Route::Both(provider) => {
            let shm = loaded.and_then(|()| open_shm(config, launch, map));
            let (shm, reach) = acquaint(launch, "near", map, shm, patience)?;
            let far = Far { provider, all_on_one_node: alone && networks.near, networks: &networks };
            // Asleep in libfabric it would not see what comes by shared memory.
            let wait = config.wait.filter(|w| *w != Wait::Block).or(Some(Wait::Yield));
            let size = launch.size();
            let fabric = |shm| far.open(config, size, wait).map(|f| Node::new(shm, f));
            let mut node = shm.and_then(fabric);
            // How far all of our node reach is known only after the exchange.
            let opened = node.as_ref().map(|n| (place(n), n.address())).map_err(ToString::to_string);
            let (mut met, reach) = swap(launch, "addr", value(reach, opened), Some(map), patience)?;
            if let Ok(node) = &mut node {
                node.settle(reach);
            }
            met.endpoint = Some(Box::new(node?));
            Ok(met)
        }
        route => {
            // Of one node whose ranks do not reach each other libfabric's shared memory is not to be expected to do better.
            let (provider, near) = match route {
                Route::Fabric(provider) | Route::Both(provider) => (provider, alone && networks.near),
                Route::Shm { .. } => ("auto", false),
            };
            let far = Far { provider, all_on_one_node: near, networks: &networks };
            let opened = loaded.and_then(|()| far.open(config, launch.size(), config.wait));
            exchange(launch, "addr", opened, patience)
        }
    }
}

/// The same for a job of one rank. It needs no wire, but refuses a provider that does not exist, as several ranks do.
pub(super) fn alone(config: &mut Config) -> Result<Met> {
    config.load()?;
    let networks = Networks::default();
    Far { provider: config.provider.fabric(), all_on_one_node: true, networks: &networks }.check(config)?;
    Ok(Met::default())
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

/// Shared memory among all ranks. `None`: some cannot map others' memory, and another wire will do.
fn by_shm(
    config: &Config,
    launch: &mut dyn Launch,
    loaded: &mut Result<()>,
    map: &[u32],
    only: bool,
    patience: Duration,
) -> Result<Option<Met>> {
    let known = std::mem::replace(loaded, Ok(())).and_then(|()| match map.iter().all(|n| *n == map[0]) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Config, "provider shm carries only ranks of one node")
            .help("CIRCULANT_PROVIDER=auto, or tcp+shm and the like, take another wire between nodes")),
    });
    let shm = known.and_then(|()| open_shm(config, launch, map));
    let (shm, reach) = acquaint(launch, "shm", map, shm, patience)?;
    let opened = shm.as_ref().map(|s| (place(s), s.address())).map_err(ToString::to_string);
    let (mut met, reach) = swap(launch, "shm-addr", value(reach, opened), Some(map), patience)?;
    if !reach && !only {
        *loaded = shm.map(|_| ());
        return Ok(None);
    }
    met.endpoint = Some(Box::new(shm?));
    match reach {
        false => Err(Error::new(
            ErrorKind::System,
            "the ranks of this node cannot map each other's memory through /proc",
        )
        .over("shm")
        .help("containers must share a space of process numbers; or choose another CIRCULANT_PROVIDER")),
        true => Ok(Some(met)),
    }
}

/// Publishes the endpoint's address and reads the neighbours'.
fn exchange(
    launch: &mut dyn Launch,
    directory: &'static str,
    opened: Result<Box<dyn Transport>>,
    patience: Duration,
) -> Result<Met> {
    let shown = opened.as_ref().map(|w| (place(w.as_ref()), w.address())).map_err(ToString::to_string);
    let swapped = swap(launch, directory, value(false, shown), None, patience);
    let endpoint = Some(opened?);
    swapped.map(|(met, _)| Met { endpoint, ..met })
}

/// Publishes `value` and reads the neighbours' addresses; and, where the nodes are given, whether the ranks of our own
/// reach each other.
fn swap(
    launch: &mut dyn Launch,
    directory: &'static str,
    value: Vec<u8>,
    nodes: Option<&[u32]>,
    patience: Duration,
) -> Result<(Met, bool)> {
    let (rank, size) = (to_u32(launch.rank())?, to_u32(launch.size())?);
    launch.put(&format!("{directory}-{rank}"), &value)?;
    launch.fence(patience)?;
    let ours = launch.get(&format!("{directory}-{rank}"))?;
    // Before any other error: the others wait for us at a fence there.
    let (reach, cores) = nodes.map_or(Ok((true, 0)), |nodes| common(launch, directory, nodes, patience))?;
    if ours != value {
        let what = format!("another process took part as rank {rank}, too");
        return Err(Error::new(ErrorKind::Mismatch, what)
            .help("start each rank once, by one launcher, and do not change the variables that it sets"));
    }
    let mut met = Met { directory, cores, ..Met::default() };
    met.place = published(&value, rank).map_or_else(|_| shm::name(), |p| p.place);
    tracing::debug!(rank, "listens on {}", met.place);
    for n in neighbours(rank, size) {
        match published(&launch.get(&format!("{directory}-{n}"))?, n) {
            Ok(theirs) => {
                met.neighbours.push(n);
                met.addresses.push(theirs.address);
                met.places.push(theirs.place);
            }
            Err(e) => {
                met.absent.get_or_insert(e);
            }
        }
    }
    Ok((met, reach))
}

/// Whether all ranks of our node reach each other, and how many cores each may use at least; 0: nobody said.
fn common(
    launch: &mut dyn Launch,
    directory: &str,
    nodes: &[u32],
    patience: Duration,
) -> Result<(bool, u32)> {
    let least = |values: &[(u32, Vec<u8>)]| {
        // Who has failed has no say.
        let all = values.iter().filter_map(|(n, value)| published(value, *n).ok());
        let (mut reach, mut cores) = (true, 0);
        for p in all {
            reach &= p.reach;
            cores = if cores == 0 { p.cores } else { p.cores.min(cores) };
        }
        [&[code(reach)][..], &cores.to_le_bytes()].concat()
    };
    let found = of_node(launch, directory, nodes, patience, least)?;
    let read = || {
        let (first, cores) = found.split_first()?;
        Some((reach_of(*first)?, u32::from_le_bytes(cores.try_into().ok()?)))
    };
    read().ok_or_else(|| senseless(directory))
}

#[cold]
fn senseless(key: &str) -> Error {
    let what = format!("what the first rank of this node published of {key:?} makes no sense");
    Error::new(ErrorKind::Launch, what)
}

/// Ranks of one node from which on one of them reads for all: fewer ask for each other's values sooner than they meet
/// at one more fence.
const MANY: usize = 16;

/// What follows from the values that the ranks of our node have published as `key`. Of large nodes the first rank reads
/// them and publishes what follows: else m ranks would ask for m values each.
fn of_node(
    launch: &mut dyn Launch,
    key: &str,
    nodes: &[u32],
    patience: Duration,
    follows: impl Fn(&[(u32, Vec<u8>)]) -> Vec<u8>,
) -> Result<Vec<u8>> {
    let rank = to_u32(launch.rank())?;
    let mates = mates(nodes, rank);
    let read = |launch: &mut dyn Launch| -> Result<Vec<u8>> {
        let values: Result<Vec<_>> =
            mates.iter().map(|n| Ok((*n, launch.get(&format!("{key}-{n}"))?))).collect();
        Ok(follows(&values?))
    };
    // All ranks of the job must meet at as many fences.
    if largest(nodes) < MANY {
        return read(launch);
    }
    let first = mates.first().copied().unwrap_or(rank);
    if first == rank {
        let found = read(launch)?;
        launch.put(&format!("{key}-of-{rank}"), &found)?;
    }
    launch.fence(patience)?;
    launch.get(&format!("{key}-of-{first}"))
}

/// Values one after the other, each behind its length.
fn joined(values: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let len = |value: &[u8]| u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes();
    values.iter().flat_map(|(_, value)| [&len(value)[..], value].concat()).collect()
}

/// The opposite of [`joined`].
fn parted(mut all: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut values = Vec::new();
    while let Some((len, rest)) = all.split_first_chunk::<4>() {
        let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        values.push(value.to_vec());
        all = rest;
    }
    all.is_empty().then_some(values)
}

/// Ranks of the node that has most.
fn largest(nodes: &[u32]) -> usize {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0)
}

/// Tells the ranks of our node where our memory is, and finds out whether we reach theirs.
fn acquaint(
    launch: &mut dyn Launch,
    key: &str,
    nodes: &[u32],
    mut opened: Result<Shm>,
    patience: Duration,
) -> Result<(Result<Shm>, bool)> {
    let rank = to_u32(launch.rank())?;
    let address = opened.as_ref().map(Transport::address).unwrap_or_default();
    launch.put(&format!("{key}-{rank}"), &address)?;
    launch.fence(patience)?;
    let mut reach = true;
    let addresses = parted(&of_node(launch, key, nodes, patience, joined)?).ok_or_else(|| senseless(key))?;
    let Ok(shm) = &mut opened else { return Ok((opened, reach)) };
    for (mate, theirs) in mates(nodes, rank).into_iter().zip(addresses) {
        // Who has failed publishes nothing.
        if mate != rank
            && !theirs.is_empty()
            && let Err(why) = shm.reach(mate, &theirs)
        {
            tracing::debug!(rank, mate, "shared memory: {why}");
            reach = false;
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
    Shm::open(&shm::Options { rank, locals: &mates(nodes, rank), wait: config.wait })
}

/// An endpoint of libfabric to open.
struct Far<'a> {
    provider: &'a str,
    /// All ranks share this node, its loopback interface, and libfabric's shared memory.
    all_on_one_node: bool,
    networks: &'a Networks,
}

impl Far<'_> {
    fn open(&self, config: &Config, size: usize, wait: Option<Wait>) -> Result<Box<dyn Transport>> {
        rails::open(&self.options(config, size, wait), &config.rails)
    }

    fn check(&self, config: &Config) -> Result<()> {
        fabric::check(&self.options(config, 1, None))
    }

    fn options<'c>(&'c self, config: &'c Config, size: usize, wait: Option<Wait>) -> fabric::Options<'c> {
        let Self { provider, all_on_one_node, networks } = *self;
        let (ports, libfabric) = (config.ports, &config.libfabric);
        fabric::Options { provider, all_on_one_node, networks, ports, size, wait, libfabric }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mates_are_the_ranks_of_our_node() {
        assert_eq!(mates(&[0, 0, 1], 1), [0, 1]);
        assert_eq!(mates(&[0, 0, 1], 2), [2]);
        assert_eq!([largest(&[]), largest(&[4, 1, 4, 1, 4])], [0, 3]);
    }

    #[test]
    fn values_are_parted_where_they_were_joined() {
        let join = |values: &[&[u8]]| joined(&values.iter().map(|v| (0, v.to_vec())).collect::<Vec<_>>());
        for values in [&[][..], &[&b"abc"[..], b"", b"d"], &[b""]] {
            assert_eq!(parted(&join(values)).unwrap(), values);
        }
        let good = join(&[&b"abc"[..], b"de"]);
        // Cut behind the first it is whole.
        assert!((1..good.len()).filter(|cut| *cut != 7).all(|cut| parted(&good[..cut]).is_none()));
        assert!(parted(&[0xFF; 9]).is_none());
    }

    #[test]
    fn what_is_published_comes_back() {
        for reach in [false, true] {
            let p = published(&value(reach, Ok(("n1 10.0.0.1".to_owned(), vec![7, 8]))), 3).unwrap();
            assert_eq!((p.reach, p.place.as_str(), p.address), (reach, "n1 10.0.0.1", vec![7, 8]));
            assert!(p.cores > 0);
        }
        let e = published(&value(true, Err("no luck".to_owned())), 3).unwrap_err();
        assert!(e.peer() == Some(3) && e.to_string().contains("could not start: no luck"), "{e}");
        assert!(published(&[], 3).is_err() && published(&[REACHED, 1, 0, 9, 9], 3).is_err());
    }
}
