//! Start-up and shutdown: launcher, settings, wire, neighbours.

use super::communicator::Communicator;
use super::context::Context;
use super::directory::Table;
use super::hook::Hook;
use super::launcher::{SharedLaunch, lock};
use super::lock::{Held, Lock};
use super::measure;
use super::members::{Members, to_u32};
use super::options::Options;
use super::places::Places;
use super::progress::Progress;
use super::recording::{self, Recording};
use super::startup_log;
use super::watchdog::Watching;
use super::wireup::{Connected, connect, wire_up};
use crate::config::{self, Config, FOR_EVER};
use crate::error::Result;
use crate::launch::Launch;
use crate::record::Record;
use crate::select::{self, Figures, Probed, Tuning, Wires};
use crate::trace::Log;
use crate::transport::{HardwareCounts, Transport};
use std::sync::Arc;

/// What one process has done on the wire since its world began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pieces of registered memory in use now: buffers, and what kept programs need.
    pub buffers: u64,
    /// Bytes that are registered for longer than a call: the memory that buffers are pieces of, and what the program has registered.
    pub registered_bytes: u64,
    /// Puts posted; short ones may have gone as messages, or stand where others read them.
    pub puts: u64,
    /// Bytes in them.
    pub put_bytes: u64,
    /// Those of them that went to nodes of other groups, where [`World::groups`] are known.
    pub bytes_between_groups: u64,
    /// Puts and notifies that arrived here.
    pub arrivals: u64,
    /// Control messages sent (ready-to-receive messages, notifies, acknowledgements).
    pub messages: u64,
    /// Bytes that our own code copied (staging, packing, own contribution, puts that went as messages).
    pub copied_bytes: u64,
    /// Bytes that operators combined into others.
    pub reduced_bytes: u64,
    /// Rounds of the operations completed here, added up.
    pub rounds: u64,
    /// Operations completed here.
    pub operations: u64,
    /// What RDMA hardware counted, where the library talks to it without libfabric.
    pub hardware: HardwareCounts,
}

impl Stats {
    /// What this process has done so far.
    pub(super) fn of(held: &Held<'_>) -> Self {
        let (c, buffers) = (held.engine.stats(), held.arena.live() as u64);
        Self {
            buffers,
            registered_bytes: held.arena.bytes() as u64,
            puts: c.puts,
            put_bytes: c.put_bytes,
            bytes_between_groups: c.global_bytes,
            arrivals: c.arrivals,
            messages: c.messages,
            copied_bytes: c.copied_bytes,
            reduced_bytes: c.reduced_bytes,
            rounds: c.rounds,
            operations: c.operations,
            hardware: held.engine.hardware(),
        }
    }
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
/// A foreign launcher is told of the end when the process ends in order: when `main` returns, or by [`std::process::exit`]. One
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
    wires: Wires,
    launcher: String,
    places: Places,
    pub(super) config: Config,
    /// Moves things on between calls, if the settings want it; ends with the world.
    _progress: Option<Progress>,
    /// Looks at a provider that can hang in a call; ends with the world, too.
    _watchdog: Option<Watching>,
    /// Listens for the signal that asks for flight records; ends with the world, too.
    _recording: Option<Recording>,
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

/// What a communicator of the library's own is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Internal {
    Probe,
    Addresses,
    Finalize,
}

impl World {
    /// Wires up and connects.
    pub(super) fn start(
        mut config: Config,
        mut launch: Box<dyn Launch>,
        transport: Option<Box<dyn Transport>>,
    ) -> Result<Self> {
        let (rank, size) = (to_u32(launch.rank())?, to_u32(launch.size())?);
        let launcher = launch.name().to_owned();
        let timeout = config.start_deadline.unwrap_or(FOR_EVER);
        let log = Log::new(config.log, launch.rank());
        let wired = wire_up(&mut config, launch.as_mut(), transport, timeout)?;
        let Connected { mut shared, launch, provider, wires, address, watchdog } =
            connect(&config, launch, wired, &log, timeout)?;
        let (places, members) = (shared.places.clone(), Members::World(size));
        let short_calls = shared.add_world_short_calls(&members)?;
        let context = Context::new(0, members, rank).with_short_calls(short_calls);
        let comm = Communicator::new(Arc::new(Lock::new(shared)), context, Options::default())?;
        let mut world = Self {
            comm,
            launch,
            provider,
            wires,
            launcher,
            places,
            config,
            _progress: None,
            _watchdog: watchdog,
            _recording: None,
        };
        if let Some(folder) = &world.config.record {
            world._recording = Some(Recording::start(folder, &world.comm.lock)?);
        }
        world.complete(address)?;
        // Not before: start-up's own calls are none of the program's.
        if world.config.stats || world.config.stats_file.is_some() {
            world.comm.hold()?.engine.time_calls();
        }
        if world.config.on_failure == config::OnFailure::Continue {
            // Not before: a rank that is gone while the world begins ends it.
            world.comm.hold()?.engine.go_on_without_the_gone();
        }
        // Not before: until here an address may have to be asked of the launcher, which is this thread's alone.
        if world.config.progress == config::Progress::Thread {
            world._progress = Some(Progress::start(&world.comm.lock)?);
        }
        startup_log::world(
            &log,
            &world.comm,
            &world.config,
            [&world.provider, &world.launcher],
            &world.places,
        );
        tracing::debug!(rank, size, provider = world.provider, launcher = world.launcher, "world is up");
        Ok(world)
    }

    /// What ranks tell each other once they are connected: the addresses of all, if there are ranks that do not know `address`,
    /// ours; and figures where these are not known.
    fn complete(&mut self, address: Option<Vec<u8>>) -> Result<()> {
        if self.size() > 1 {
            self.comm.barrier()?;
        }
        if let Some(address) = address {
            let table = Table::gather(&self.internal(Internal::Addresses)?, &address)?;
            self.comm.hold()?.engine.look_up_in(Box::new(table));
        }
        self.settle()?;
        // Start-up's own calls went by the figures of before.
        self.comm.context.trials().0.clear();
        // Nor is it told of them.
        self.comm.hold()?.cache.clear();
        Ok(())
    }

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
        &self.places.nodes
    }

    /// The index of the group of nodes that every rank's node is in, as the setting `groups` or the launcher says; nothing: the
    /// network is not divided.
    pub fn groups(&self) -> &[u32] {
        &self.places.groups
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

    /// All ranks once more, for calls that are not counted among the user's.
    pub(super) fn internal(&self, purpose: Internal) -> Result<Communicator> {
        let whole = &self.comm.context;
        let context = Context::new(u64::MAX - purpose as u64, whole.members.clone(), whole.rank);
        Communicator::new(Arc::clone(&self.comm.lock), context, Options::default())
    }

    /// Takes the figures that hold for where the ranks are; probes the wire if no table knows them.
    fn settle(&mut self) -> Result<()> {
        let figures = self.comm.hold()?.figures;
        let probing = self.config.choices().probe;
        // The first rank on another node than rank 0; else it is rank 1.
        let other = self.nodes().iter().position(|node| *node != self.nodes()[0]);
        let mut probed = None;
        if self.size() > 1 && select::probes(&self.wires, probing, &figures) {
            probed = Some(measure::probe(
                &self.internal(Internal::Probe)?,
                [0, other.unwrap_or(1)],
                figures.wire(),
            )?);
        }
        match probed.is_some() || other.is_none() {
            true => self.retune(probed),
            false => Ok(()),
        }
    }

    /// The figures from the settings and what was probed, at all ranks alike.
    fn retune(&mut self, probed: Option<Probed>) -> Result<()> {
        let mut figures = Figures::new(&self.wires, &self.config.choices(), probed)?;
        if self.nodes().iter().all(|node| *node == self.nodes()[0]) {
            figures = figures.on_one_node();
        }
        self.comm.hold()?.retune(figures, self.config.window);
        tracing::debug!(?figures);
        Ok(())
    }

    /// What this process has done so far. Inside an operator all of it is 0.
    pub fn stats(&self) -> Stats {
        self.comm.hold().map(|held| Stats::of(&held)).unwrap_or_default()
    }

    /// Calls `hook` again and again while a call of this world waits, so that something else moves on meanwhile: the other
    /// communication library of a program, an event loop. In place of one that was set before.
    ///
    /// The thread that waits calls it, once each time that it has looked in vain, and no other: no thread of the library does, and a call
    /// that finds all there calls nothing. Between two calls of it at most 0.1 ms are slept (without a hook: 4 ms), so a wait takes more
    /// of the processor. `test` calls nothing, as it does not wait; nor does start-up, nor [`measure`].
    ///
    /// No lock is held meanwhile: `hook` may take others, and call into this world, where waits of its own calls go without it. If it
    /// panics, the call that waits does, and the world ends, as by a panic in an operator.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let world = circulant::World::init()?;
    /// let looks = Arc::new(AtomicU64::new(0));
    /// let counted = Arc::clone(&looks);
    /// world.while_waiting(move || _ = counted.fetch_add(1, Ordering::Relaxed));
    /// world.comm().barrier()?;
    /// println!("waited for {} turns", looks.load(Ordering::Relaxed));
    /// world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn while_waiting(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.comm.lock.hook.set(Some(Arc::new(hook)));
    }

    /// Moves on, once, what is under way and what is still to be sent, and returns at once: for programs that wait for something
    /// else meanwhile. The counterpart of [`World::while_waiting`]: where another communication library, or an event loop,
    /// lets functions be called while it waits, this is one to register, and the setting `progress = thread` is not needed.
    ///
    /// Any thread may call it at any time. It does nothing while another thread is in a call of this world, which makes progress itself;
    /// inside an operator, or a hook, whose wait makes progress itself; and after the end of the world. With nothing to do it looks at two
    /// numbers, and at the wire in one of 16 to 256 calls. An error ends the world, and is returned by the next call that can return one.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let barrier = comm.ibarrier()?;
    /// for _ in 0..1000 {
    ///     // … a piece of work …
    ///     world.progress();
    /// }
    /// barrier.wait()?;
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn progress(&self) {
        if Hook::is_inside() || self.comm.lock.quiet.passes_by() {
            return;
        }
        self.comm.lock.quiet.poll(|| match self.comm.lock.try_hold() {
            // An error has ended the world, and the next call says why.
            Some(mut held) => held.engine.nudge_or_poll().unwrap_or((false, true)),
            None => (false, false),
        });
    }

    /// [`World::progress`] for callers that count themselves: so many calls may pass by then without being made, as nothing is under way, unless
    /// a call of this world begins meanwhile.
    #[doc(hidden)]
    pub fn progress_counted_outside(&self) -> u32 {
        self.progress();
        self.comm.lock.quiet.hand_over()
    }

    /// What this rank did last, and what it waits for now: the flight record (of short calls that did not wait the beginning has the time of the end, unless `record` or `stats` is set), as `circulant trace` reads it once it is written to a
    /// file ([`Display`](std::fmt::Display)). Where the setting `record` names a folder the library writes it there by itself, on
    /// error, at SIGUSR1 and at the end.
    ///
    /// # Errors
    /// Inside an operator.
    pub fn record(&self) -> Result<Record> {
        Ok(recording::located(self.comm.hold()?.engine.flight_record()))
    }

    /// Asks the launcher to end the whole job with `code`.
    pub fn abort(self, code: i32, message: &str) {
        lock(&self.launch).abort(code, message);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // It may hold a communicator of ours.
        self.comm.lock.hook.set(None);
        // After an error the endpoint is closed already; otherwise this rank just vanishes.
        if let Ok(mut held) = self.comm.hold() {
            held.engine.vanish();
        }
    }
}
