//! The last step of wire-up: the engine, connected to the neighbours.

use super::addresses::{Addresses, Published};
use super::endpoint::Opened;
use super::locals::{locals, one_node};
use crate::buffer::Arena;
use crate::comm::collective::Collective;
use crate::comm::launcher::SharedLaunch;
use crate::comm::liveness::Watch;
use crate::comm::measure::flow;
use crate::comm::members::to_u32;
use crate::comm::places::Places;
use crate::comm::program::Cache;
use crate::comm::shared::Shared;
use crate::comm::short::ShortCalls;
use crate::comm::startup_log;
use crate::comm::watchdog::{Watchdog, Watching};
use crate::config::{Config, FOR_EVER, OnFailure, Wait};
use crate::engine::{Engine, Identity, Setup, longest_nap};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digest;
use crate::launch::Launch;
use crate::select::{Figures, Selection, Wires};
use crate::trace::Log;
use crate::transport::{Copier, Limits, Transport, shm};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An endpoint, the neighbours' addresses, and where each rank is.
pub(in crate::comm) struct Wired {
    pub(super) opened: Opened,
    pub(super) places: Places,
}

/// An endpoint, the neighbours, and their addresses in the same order.
pub(in crate::comm) type Parts = (Option<Box<dyn Transport>>, Vec<u32>, Vec<Vec<u8>>);

impl Wired {
    /// Its parts, for what does without the engine.
    ///
    /// # Errors
    /// When a neighbour could not open its endpoint.
    pub(in crate::comm) fn parts(self) -> Result<Parts> {
        let Opened { endpoint, addresses, .. } = self.opened;
        let Addresses { neighbours, addresses, absent, .. } = addresses;
        absent.map_or(Ok((endpoint, neighbours, addresses)), Err)
    }
}

/// A rank that is connected to its neighbours, and has tested the wire to each.
pub(in crate::comm) struct Connected {
    pub(in crate::comm) shared: Shared,
    pub(in crate::comm) launch: SharedLaunch,
    pub(in crate::comm) provider: String,
    pub(in crate::comm) wires: Wires,
    /// Our own address, if there are ranks that do not know it yet.
    pub(in crate::comm) address: Option<Vec<u8>>,
    pub(in crate::comm) watchdog: Option<Watching>,
}

/// The figures of these wires, and the choice of algorithms by them.
fn choice(config: &Config, wires: &Wires, places: &Places, cores: u32) -> Result<(Figures, Selection)> {
    let choices = config.choices();
    let figures = Figures::new(wires, &choices, None)?;
    let mut selection = Selection::new(&choices, &figures)?;
    selection.place(&places.nodes, &places.groups, config.taper);
    if one_node(&places.nodes) {
        selection.share(cores);
    }
    Ok((figures, selection))
}

/// What figures depend on.
fn wires(limits: &Limits) -> Wires {
    Wires {
        provider: limits.provider.clone(),
        shm_within_nodes: limits.shm_within_nodes,
        readers: limits.copier == Copier::Reader,
    }
}

/// Whether the wire goes on where the setting `on-failure` asks for it. All ranks get the same answer.
fn can_go_on(config: &Config, limits: Option<&Limits>) -> Result<()> {
    match limits {
        Some(limits) if config.on_failure == OnFailure::Continue && !limits.survives => {
            let what = format!(
                "CIRCULANT_ON_FAILURE=continue: over {} the ranks cannot go on without one",
                limits.wire()
            );
            Err(Error::new(ErrorKind::Config, what).help(
                "take shared memory, tcp or ibverbs (CIRCULANT_PROVIDER=shm, tcp, tcp+shm, …), or leave the setting at end",
            ))
        }
        _ => Ok(()),
    }
}

/// Connects to the neighbours.
///
/// # Errors
/// When a neighbour could not open its endpoint, does not answer within `timeout`, or disagrees about settings.
pub(in crate::comm) fn connect(
    config: &Config,
    launch: Box<dyn Launch>,
    Wired { opened, places }: Wired,
    log: &Log,
    timeout: Duration,
) -> Result<Connected> {
    let Opened { endpoint, addresses, cores } = opened;
    let (rank, size) = (launch.rank(), launch.size());
    let provider = endpoint.as_ref().map_or("self".to_owned(), |e| e.limits().wire());
    let wires = endpoint.as_ref().map_or_else(|| Wires::named(&provider), |e| wires(e.limits()));
    can_go_on(config, endpoint.as_deref().map(Transport::limits))?;
    let may_hang = endpoint.as_ref().is_some_and(|e| e.limits().may_hang);
    let (figures, selection) = choice(config, &wires, &places, cores)?;
    let known_to_all = addresses.neighbours.len() + 1 == size;
    let address = endpoint.as_ref().filter(|_| !known_to_all).map(|e| e.address());
    let setup = Setup {
        rank: to_u32(rank)?,
        size: to_u32(size)?,
        neighbours: addresses.neighbours.clone(),
        node_groups: Arc::clone(&places.groups),
        flow: flow(&figures, config.window, endpoint.as_ref().map_or(1, |e| e.limits().rails)),
        warn_after: config.warn_after.unwrap_or(FOR_EVER),
        names: Collective::name_of,
        record_events: config.record_events,
    };
    let locals = locals(&places.nodes, setup.rank).len();
    let (launch, arena): (SharedLaunch, _) = (Arc::new(Mutex::new(launch)), Arena::of_one_of(locals));
    startup_log::addresses(log, &addresses.own_shown, &addresses.neighbours, &addresses.shown);
    let identity = identity(config, endpoint.as_deref().map(Transport::limits));
    let mut engine = Engine::new(setup, endpoint);
    if config.wait != Some(Wait::Spin) {
        engine.longest_nap = longest_nap(locals, cores);
    }
    engine.watch(Box::new(Watch::new(Arc::clone(&launch), &[])));
    let same_host = introduce(&mut engine, addresses, &launch, identity, (&arena, timeout))?;
    let watch = Watch::new(Arc::clone(&launch), &same_host);
    engine.watch(Box::new(watch.clone()));
    let deadline = config.deadline.unwrap_or(FOR_EVER);
    let watchdog = may_hang.then(|| {
        let liveness = Box::new(watch);
        let beat = engine.heartbeat();
        Watchdog { beat, liveness, same_host, rank, provider: provider.clone(), deadline }.start()
    });
    let shared = Shared {
        engine,
        arena,
        cache: Cache::of_one_of(locals),
        adapt: config.adapt,
        agreeing: Vec::new(),
        learned: Vec::new(),
        figures,
        deadline,
        blocks: config.blocks,
        selection,
        places,
        led: 0,
        check: config.check,
        short_calls: ShortCalls::default(),
        log: log.clone(),
    };
    Ok(Connected { shared, launch, provider, wires, address, watchdog })
}

/// Tells the engine where the other ranks are, and connects it to the neighbours. Returns the (rank, process) of those on our
/// host.
fn introduce(
    engine: &mut Engine,
    all: Addresses,
    launch: &SharedLaunch,
    identity: Identity,
    (arena, timeout): (&Arena, Duration),
) -> Result<Vec<(u32, u32)>> {
    let Addresses { neighbours, addresses, shown, own_shown, absent, directory } = all;
    engine.locate(own_shown, neighbours.into_iter().zip(shown).collect());
    engine.look_up_in(Box::new(Published { launch: Arc::clone(launch), directory }));
    if let Some(e) = absent {
        return Err(engine.tell(&addresses, e));
    }
    engine.connect(&addresses, identity, arena, timeout).map_err(|e| engine.fail(e))
}

/// What neighbours check of each other.
fn identity(config: &Config, limits: Option<&Limits>) -> Identity {
    let mut agreed = config.agreed();
    if let Some(l) = limits {
        // What is done with borrowed slices is up to each rank, and may differ between nodes.
        agreed.push_str(&format!("{} {} {} {}", l.wire(), l.max_put, l.gather, l.message));
    }
    Identity { pid: std::process::id(), host: shm::host(), agreed: digest(agreed.as_bytes()) }
}
