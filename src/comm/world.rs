//! Start-up and shutdown: launcher, settings, wire, neighbours.

use super::call::Cache;
use super::communicator::{Communicator, Options};
use super::context::{Context, Members};
use super::desk::Desks;
use super::directory::Table;
use super::liveness::Watch;
use super::lock::Lock;
use super::measure::flow;
use super::meet::{Addresses, Met, alone, meet};
use super::progress::Progress;
use super::told;
use super::watchdog::{Watchdog, Watching};
use crate::buffer::Arena;
use crate::config::{self, Config, FOR_EVER, Wait};
use crate::engine::{Engine, Identity, Setup};
use crate::error::{Error, ErrorKind, Result};
use crate::launch::Launch;
use crate::machine::LogGp;
use crate::plan::registry::Operation;
use crate::select::{self, Figures, Selection, Tuning};
use crate::trace::Log;
use crate::transport::{Limits, Transport, shm};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What one process has done on the wire since its world began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pieces of registered memory in use now: buffers, and what kept programs need.
    pub buffers: u64,
    /// Puts posted; short ones may have gone as messages, or stand where others read them.
    pub puts: u64,
    /// Bytes in them.
    pub put_bytes: u64,
    /// Puts and notifies that arrived here.
    pub arrivals: u64,
    /// Control messages sent (open words, notifies, acknowledgements).
    pub messages: u64,
    /// Bytes that our own code copied (staging, packing, own contribution, puts that went as messages).
    pub copied_bytes: u64,
    /// Bytes that operators combined into others.
    pub reduced_bytes: u64,
    /// Rounds of the operations completed here, added up.
    pub rounds: u64,
    /// Operations completed here.
    pub operations: u64,
}

/// A launcher shared between the world and its process watch.
pub(super) type SharedLaunch = Arc<Mutex<Box<dyn Launch>>>;

/// What all handles of one world share.
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) arena: Arena,
    pub(super) cache: Cache,
    pub(super) figures: Figures,
    pub(super) deadline: Duration,
    /// The settings' choices, for calls whose options leave it open.
    pub(super) blocks: Option<u32>,
    pub(super) selection: Selection,
    /// The node index of every rank of the world, once it is known.
    pub(super) nodes: Arc<[u32]>,
    /// How many communicators we have begun to make.
    pub(super) led: u32,
    pub(super) desks: Desks,
    /// What this rank says on standard error.
    pub(super) log: Log,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Programs and counters would fill pages.
        f.debug_struct("Shared").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// Takes a lock whose holder cannot have left it half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All ranks of the job, connected. Dropping it without [`World::finalize`] ends this rank's part at once,
/// which the others see as an error.
///
/// A process may make one world after the other, each with settings of its own, and all ranks of the job make as many, in the
/// same order: after [`World::finalize`], [`World::init`] begins another one over the same connection to the launcher. Of
/// the one before nothing is left. Under a launcher there is one at a time; what wants several at once takes
/// communicators ([`Communicator::dup`], [`Communicator::split`]). After one that failed, or was dropped, [`World::init`] is an
/// error: for the launcher and the other ranks this one is gone.
///
/// A foreign launcher is told goodbye when the process ends in order: when `main` returns, or by [`std::process::exit`]. One
/// that ends by `_exit` or `abort`, or becomes another program by `exec`, is taken by it for a rank that failed. Our own
/// (`circulant run`, and ranks that no launcher started) is told at the end of each world.
///
/// # Examples
/// ```
/// use circulant::World;
///
/// let world = World::init()?;
/// println!("rank {} of {}, over {}", world.rank(), world.size(), world.provider());
/// world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
/// Settings can be changed in the program, before anything is connected:
/// ```
/// # use circulant::World;
/// # use std::time::Duration;
/// let world = World::builder().deadline(Duration::from_secs(20)).init()?;
/// world.comm().barrier()?;
/// world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
pub struct World {
    pub(super) comm: Communicator,
    pub(super) launch: SharedLaunch,
    provider: String,
    launcher: String,
    nodes: Arc<[u32]>,
    pub(super) config: Config,
    /// Moves things on between calls, if the settings want it; ends with the world.
    _progress: Option<Progress>,
    /// Looks at a provider that can hang in a call; ends with the world, too.
    _watchdog: Option<Watching>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Settings and what was published through the launcher would fill pages.
        f.debug_struct("World")
            .field("comm", &self.comm)
            .field("provider", &self.provider)
            .field("launcher", &self.launcher)
            .finish_non_exhaustive()
    }
}

impl World {
    /// The communicator of all ranks.
    pub fn comm(&self) -> Communicator {
        self.comm.clone()
    }

    /// Our rank.
    pub fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.comm.size()
    }

    /// The wire in use: `shm` is our own shared memory, `X+shm` that within nodes and X between them, all else is the
    /// name of libfabric's provider (its own shared memory: `fi_shm`). `self` when there is one rank only.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// How we were started.
    pub fn launcher(&self) -> &str {
        &self.launcher
    }

    /// The node index of every rank.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Chooses by what rank 0's `tuning` says from now on, as if CIRCULANT_TUNING had named such a file. Collective;
    /// no request may be under way.
    ///
    /// # Errors
    /// As [`Communicator::bcast`].
    pub fn tune(&mut self, tuning: &Tuning) -> Result<()> {
        let comm = self.comm();
        let mut text = tuning.to_string().into_bytes();
        let mut len = [text.len() as u64];
        comm.bcast(&mut len, 0)?;
        text.resize(usize::try_from(len[0]).unwrap_or(usize::MAX), 0);
        comm.bcast(&mut text, 0)?;
        self.config.set_tuning_text(String::from_utf8_lossy(&text));
        self.retune(None)?;
        comm.barrier()
    }

    /// All ranks once more, for calls that are not counted among the user's; one for each `purpose`.
    pub(super) fn aside(&self, purpose: u64) -> Result<Communicator> {
        let whole = &self.comm.context;
        let context = Context::new(u64::MAX - purpose, whole.members.clone(), whole.rank);
        Communicator::new(Arc::clone(&self.comm.lock), context, Options::default())
    }

    /// Takes the figures that hold for where the ranks are; measures them in haste if nobody knows them.
    fn settle(&mut self) -> Result<()> {
        let figures = self.comm.hold()?.figures;
        let probing = self.config.choices().probe;
        // The first rank on another node than rank 0; else it is rank 1.
        let other = self.nodes.iter().position(|node| *node != self.nodes[0]);
        let mut probed = None;
        if self.size() > 1 && select::probes(&self.provider, probing, &figures) {
            probed = Some(self.aside(0)?.probe([0, other.unwrap_or(1)], figures.wire())?);
        }
        match probed.is_some() || other.is_none() {
            true => self.retune(probed),
            false => Ok(()),
        }
    }

    /// The figures from the settings and what was probed, at all ranks alike.
    fn retune(&mut self, probed: Option<LogGp>) -> Result<()> {
        let mut figures = Figures::new(&self.provider, &self.config.choices(), probed)?;
        if self.nodes.iter().all(|node| *node == self.nodes[0]) {
            figures = figures.on_one_node();
        }
        self.comm.hold()?.retune(figures, self.config.window);
        tracing::debug!(?figures);
        Ok(())
    }

    /// What this process has done so far. Inside an operator all of it is 0.
    pub fn stats(&self) -> Stats {
        let Ok(held) = self.comm.hold() else { return Stats::default() };
        let (c, buffers) = (held.engine.stats(), held.arena.live() as u64);
        Stats {
            buffers,
            puts: c.puts,
            put_bytes: c.put_bytes,
            arrivals: c.arrivals,
            messages: c.messages,
            copied_bytes: c.copied_bytes,
            reduced_bytes: c.reduced_bytes,
            rounds: c.rounds,
            operations: c.operations,
        }
    }

    /// Asks the launcher to end the whole job with `code`.
    pub fn abort(self, code: i32, message: &str) {
        lock(&self.launch).abort(code, message);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // After an error the endpoint is closed already; otherwise this rank just vanishes.
        if let Ok(mut held) = self.comm.hold() {
            held.engine.vanish();
        }
    }
}

pub(super) fn start(
    mut config: Config,
    mut launch: Box<dyn Launch>,
    transport: Option<Box<dyn Transport>>,
) -> Result<World> {
    let (rank, size) = (launch.rank(), launch.size());
    let launcher = launch.name().to_owned();
    let patience = config.start_deadline.unwrap_or(FOR_EVER);
    let deadline = config.deadline.unwrap_or(FOR_EVER);
    let log = Log::new(config.log, rank);
    let mut nodes = launch.nodes().filter(|n| n.len() == size);
    let arena = Arena::default();
    let (rank32, size32) = (to_u32(rank)?, to_u32(size)?);
    let met = match size {
        1 => alone(&mut config)?,
        _ => meet(&mut config, launch.as_mut(), transport, &mut nodes, patience)?,
    };
    let Met { endpoint, neighbours, addresses, places, place, absent, directory, cores } = met;
    let provider = endpoint.as_ref().map_or("self".to_owned(), |e| e.limits().wire());
    let shared_locks = endpoint.as_ref().is_some_and(|e| e.limits().shared_locks);
    let choices = config.choices();
    let figures = Figures::new(&provider, &choices, None)?;
    let blocks = config.blocks;
    let mut selection = Selection::new(&choices, &figures)?;
    if let Some(nodes) = &nodes {
        selection.place(nodes);
    }
    if nodes.as_ref().is_some_and(|nodes| nodes.iter().all(|node| *node == nodes[0])) {
        selection.share(cores);
    }
    told::addresses(&log, &place, &neighbours, &places);
    let located = neighbours.iter().copied().zip(places).collect();
    // Others are strangers until all have told each other where they are.
    let strangers = neighbours.len() + 1 < size;
    let address = endpoint.as_ref().filter(|_| strangers).map(|e| e.address());
    let setup = Setup {
        rank: rank32,
        size: size32,
        neighbours,
        flow: flow(&figures, config.window),
        warn_after: config.warn_after.unwrap_or(FOR_EVER),
        names: Operation::name_of,
    };
    let launch: SharedLaunch = Arc::new(Mutex::new(launch));
    let identity = identity(&config, endpoint.as_deref().map(Transport::limits));
    let mut engine = Engine::new(setup, endpoint);
    engine.locate(place, located);
    engine.naps = config.wait != Some(Wait::Spin);
    engine.watch(Box::new(Watch::new(Arc::clone(&launch), &[])));
    engine.look_up_in(Box::new(Addresses { launch: Arc::clone(&launch), directory }));
    if let Some(e) = absent {
        return Err(engine.tell(&addresses, e));
    }
    let same_host = engine.connect(&addresses, identity, &arena, patience).map_err(|e| engine.fail(e))?;
    engine.watch(Box::new(Watch::new(Arc::clone(&launch), &same_host)));
    let watchdog = shared_locks.then(|| {
        let liveness = Box::new(Watch::new(Arc::clone(&launch), &same_host));
        let beat = engine.heartbeat();
        Watchdog { beat, liveness, same_host, rank, provider: provider.clone(), deadline }.start()
    });
    let nodes: Arc<[u32]> = nodes.unwrap_or_default().into();
    let cache = Cache::default();
    let (led, desks) = (0, Desks::default());
    let mut shared = Shared {
        engine,
        arena,
        cache,
        figures,
        deadline,
        blocks,
        selection,
        nodes: nodes.clone(),
        led,
        desks,
        log: log.clone(),
    };
    let members = Members::World(size32);
    let seat = shared.world_seat(&members);
    let context = Context::new(0, members, rank32).on(seat);
    let comm = Communicator::new(Arc::new(Lock::new(shared)), context, Options::default())?;
    let progress = match config.progress {
        config::Progress::Calls => None,
        config::Progress::Thread => Some(Progress::start(&comm.lock)?),
    };
    let mut world =
        World { comm, launch, provider, launcher, nodes, config, _progress: progress, _watchdog: watchdog };
    if size > 1 {
        world.comm().barrier()?;
    }
    if let Some(address) = address {
        let table = Table::gather(&world.aside(1)?, &address)?;
        world.comm.hold()?.engine.look_up_in(Box::new(table));
    }
    if world.nodes.is_empty() {
        world.nodes = nodes_by_host(&world.comm(), identity.host)?.into();
        world.comm.hold()?.nodes = Arc::clone(&world.nodes);
        world.comm.hold()?.selection.place(&world.nodes);
    }
    world.settle()?;
    told::world(&log, &world);
    tracing::debug!(rank, size, provider = world.provider, launcher = world.launcher, "world is up");
    Ok(world)
}

fn identity(config: &Config, limits: Option<&Limits>) -> Identity {
    let mut agreed = config.agreed();
    if let Some(l) = limits {
        // What is done with borrowed slices is each rank's own affair, and may differ between nodes.
        agreed.push_str(&format!("{} {} {} {}", l.wire(), l.max_put, l.gather, l.message));
    }
    Identity { pid: std::process::id(), host: shm::host(), agreed: super::call::digest(agreed.as_bytes()) }
}

/// Node indices in order of first appearance, from what identifies each rank's host.
fn nodes_by_host(comm: &Communicator, host: u64) -> Result<Vec<u32>> {
    let mut hosts = vec![0u64; comm.size()];
    comm.allgather(&[host], &mut hosts)?;
    let mut seen = std::collections::HashMap::new();
    Ok(hosts
        .iter()
        .map(|h| {
            let next = u32::try_from(seen.len()).unwrap_or(u32::MAX);
            *seen.entry(*h).or_insert(next)
        })
        .collect())
}

pub(super) fn to_u32(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::new(ErrorKind::Launch, format!("{n} ranks are too many")))
}
