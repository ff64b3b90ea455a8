//! How a world begins: settings of the environment and of the program, a launcher, an endpoint.

use super::fence::warned;
use super::world::World;
use crate::config::{
    Config, Grouping, Interfaces, Launcher, Library, OnFailure, Progress, Provider, Sources, Wait,
};
use crate::error::{Error, ErrorKind, Result};
use crate::launch::{self, Launch};
use crate::select::Adapt;
use crate::transport::{Transport, fabric};
use std::ops::RangeInclusive;
use std::time::Duration;

/// How to build a [`World`] otherwise than from the environment alone.
///
/// Each setting has a method, or takes a text by [`Builder::set`]. What a setting cannot be is an error of
/// [`Builder::init`], at all ranks: a rank that did not begin would leave the others waiting.
///
/// ```
/// use circulant::World;
/// use circulant::config::Wait;
/// use std::time::Duration;
///
/// let world = World::builder().deadline(Duration::from_secs(20)).wait(Wait::Yield).set("blocks", "4").init()?;
/// world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
#[must_use = "a world begins with Builder::init"]
pub struct Builder {
    config: Config,
    launch: Option<Box<dyn Launch>>,
    transport: Option<Box<dyn Transport>>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("config", &self.config)
            .field("launch", &self.launch)
            .finish_non_exhaustive()
    }
}

impl World {
    /// Finds the launcher, connects to the circulant neighbours and tests the wire to each.
    ///
    /// # Errors
    /// When the launcher cannot be reached, a setting of some rank cannot be understood, settings disagree, no provider
    /// works, or a neighbour does not answer within CIRCULANT_START_DEADLINE.
    pub fn init() -> Result<Self> {
        Self::builder().init()
    }

    /// Settings from the environment, to be changed before [`Builder::init`].
    pub fn builder() -> Builder {
        Builder { config: Config::from_env(), launch: None, transport: None }
    }
}

impl Builder {
    /// Changes a setting by its name (see [`crate::config::SETTINGS`]), as the environment does: for tools and tests. A name
    /// that no setting has, a value that it cannot have, and a library to load are errors of [`Builder::init`].
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.config.set_deferred(name, value);
        self
    }

    /// What carries the puts: `provider("tcp")`, or a [`Provider`].
    pub fn provider(self, provider: impl Into<Provider>) -> Self {
        self.set("provider", &provider.into().to_string())
    }

    /// Which network interfaces puts are spread over.
    pub fn rails(self, interfaces: &Interfaces) -> Self {
        self.set("rails", &interfaces.to_string())
    }

    /// The TCP ports to use.
    pub fn ports(self, ports: RangeInclusive<u16>) -> Self {
        self.set("ports", &format!("{}-{}", ports.start(), ports.end()))
    }

    /// From which addresses this rank's TCP port takes connections.
    pub fn sources(self, sources: &Sources) -> Self {
        self.set("sources", &sources.to_string())
    }

    /// How long one call may take before it fails at every rank; zero: as long as it needs.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.set("deadline", &deadline.as_secs_f64().to_string())
    }

    /// After how long a call that waits says on standard error for which ranks; zero: never.
    pub fn warn_after(self, time: Duration) -> Self {
        self.set("warn-after", &time.as_secs_f64().to_string())
    }

    /// How long start-up may take, and the last step of [`World::finalize`]; zero: any time.
    pub fn start_deadline(self, deadline: Duration) -> Self {
        self.set("start-deadline", &deadline.as_secs_f64().to_string())
    }

    /// How many bytes a rank may have unacknowledged in one operation. The same at all ranks.
    pub fn window(self, bytes: u64) -> Self {
        self.set("window", &bytes.to_string())
    }

    /// In how many blocks each message goes, or in algorithms that go in hops how many messages a rank puts in each. The same at all ranks.
    pub fn blocks(self, blocks: u32) -> Self {
        self.set("blocks", &blocks.to_string())
    }

    /// The algorithm, or a list of them for operations: `bcast=chain,allreduce=ring`. The same at all ranks.
    pub fn algorithm(self, names: &str) -> Self {
        self.set("algorithm", names)
    }

    /// A file of rules for choosing algorithms, with the same content at all ranks.
    pub fn selection(self, file: &str) -> Self {
        self.set("selection", file)
    }

    /// Whether calls that are chosen by price are tried in other ways, too ([`Adapt`]). The same at all ranks.
    pub fn adapt(self, adapt: Adapt) -> Self {
        self.set("adapt", &format!("{adapt:?}").to_lowercase())
    }

    /// The file into which rank 0 puts what trials have found, at the end: rules for [`Builder::selection`].
    pub fn learn(self, file: &str) -> Self {
        self.set("learn", file)
    }

    /// Whether reductions and scans combine in one order whatever the size, the blocks and the nodes. The same at all
    /// ranks.
    pub fn reproducible(self, reproducible: bool) -> Self {
        self.set("reproducible", if reproducible { "yes" } else { "no" })
    }

    /// Pieces of fewer bytes share a put; 0: none do. The same at all ranks.
    pub fn light(self, bytes: u64) -> Self {
        self.set("light", &bytes.to_string())
    }

    /// Whether all ranks compare what they call before each blocking call. The same at all ranks.
    pub fn check(self, check: bool) -> Self {
        self.set("check", if check { "yes" } else { "no" })
    }

    /// Whether only those of libfabric's providers will do that register memory of devices. The same at all ranks.
    pub fn device_memory(self, needed: bool) -> Self {
        self.set("device-memory", if needed { "yes" } else { "no" })
    }

    /// Groups of nodes that few links join. The same at all ranks.
    pub fn groups(self, groups: &Grouping) -> Self {
        self.set("groups", &groups.to_string())
    }

    /// How many times what a group's links to others carry its nodes' links do together. The same at all ranks.
    pub fn taper(self, taper: u32) -> Self {
        self.set("taper", &taper.to_string())
    }

    /// How this rank waits while nothing arrives.
    pub fn wait(self, wait: Wait) -> Self {
        self.set("wait", wait.name())
    }

    /// A tuning file, which rank 0 reads for all.
    pub fn tuning(self, file: &str) -> Self {
        self.set("tuning", file)
    }

    /// When requests make progress.
    pub fn progress(self, progress: Progress) -> Self {
        self.set("progress", progress.name())
    }

    /// The folder for flight records.
    pub fn record(self, folder: &str) -> Self {
        self.set("record", folder)
    }

    /// How many events a flight record keeps; 0: none is made.
    pub fn record_events(self, events: u32) -> Self {
        self.set("record-events", &events.to_string())
    }

    /// Whether calls are timed and printed at the end.
    pub fn stats(self, stats: bool) -> Self {
        self.set("stats", if stats { "yes" } else { "no" })
    }

    /// The file for counters and times, with `%r` for the rank.
    pub fn stats_file(self, file: &str) -> Self {
        self.set("stats-file", file)
    }

    /// What becomes of the job when a rank is gone. The same at all ranks.
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        self.set("on-failure", on_failure.name())
    }

    /// Where rank and size come from.
    pub fn launcher(self, launcher: Launcher) -> Self {
        self.set("launcher", launcher.name())
    }

    /// Loads this libfabric, whatever the environment says.
    ///
    /// ```no_run
    /// use circulant::{World, config::Library};
    ///
    /// // SAFETY: a libfabric of our own build.
    /// let library = unsafe { Library::new("/opt/fabric/lib/libfabric.so.1") };
    /// let world = World::builder().libfabric(library).init()?;
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn libfabric(mut self, library: Library) -> Self {
        self.config.set_libfabric(library);
        self
    }

    /// Loads this library for PMIx.
    pub fn libpmix(mut self, library: Library) -> Self {
        self.config.set_libpmix(library);
        self
    }

    /// Loads this library for the PMI of Slurm or PALS.
    pub fn libpmi(mut self, library: Library) -> Self {
        self.config.set_libpmi(library);
        self
    }

    /// Uses this launcher instead of looking for one.
    pub fn launch(mut self, launch: Box<dyn Launch>) -> Self {
        self.launch = Some(launch);
        self
    }

    /// Uses this endpoint instead of choosing one.
    pub fn transport(mut self, transport: Box<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Builds the world. Collective.
    ///
    /// # Errors
    /// As [`World::init`].
    pub fn init(self) -> Result<World> {
        let launch = match self.launch {
            Some(launch) => launch,
            None => {
                // Before a launcher's library or our own thread at its side makes that impossible.
                if let Some(size) = launch::expected_size(&self.config) {
                    fabric::prepare(size, self.config.ports);
                }
                // A launcher may not be found for a variable that was not understood.
                self.detect().map_err(|e| self.config.check().err().unwrap_or(e))?
            }
        };
        let (rank, size) = (launch.rank(), launch.size());
        if rank >= size {
            let e = Error::new(
                ErrorKind::Launch,
                format!("the launcher ({}) says rank {rank} of {size}", launch.name()),
            );
            return Err(e.help("ranks are counted from 0"));
        }
        World::start(self.config, launch, self.transport).map_err(|e| e.at_rank(rank))
    }

    /// The launcher, or rank 0 in its place, which may be waited for.
    fn detect(&self) -> Result<Box<dyn Launch>> {
        let lasts = |after: &Duration| self.config.start_deadline.is_none_or(|deadline| *after < deadline);
        let Some(after) = self.config.warn_after.filter(lasts) else { return launch::detect(&self.config) };
        let text = |since: Duration| {
            format!("start-up waits for the launcher, or for rank 0 in its place, for {} s", since.as_secs())
        };
        warned(after, text, || launch::detect(&self.config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_sets_what_its_text_does() {
        let typed = Builder { config: Config::defaults(), launch: None, transport: None }
            .provider("tcp+shm")
            .rails(&Interfaces::Named(vec!["eth0".to_owned(), "eth1".to_owned()]))
            .ports(20_000..=20_999)
            .deadline(Duration::from_millis(2500))
            .warn_after(Duration::ZERO)
            .start_deadline(Duration::from_secs(7))
            .window(1 << 20)
            .blocks(4)
            .algorithm("bcast=chain")
            .selection("rules")
            .adapt(Adapt::Off)
            .learn("learned")
            .reproducible(true)
            .light(512)
            .groups(&Grouping::Nodes(4))
            .taper(2)
            .wait(Wait::Block)
            .tuning("figures")
            .progress(Progress::Thread)
            .on_failure(OnFailure::Continue)
            .launcher(Launcher::Single)
            .record("records")
            .record_events(100)
            .stats(true)
            .stats_file("stats-%r");
        assert!(typed.config.check().is_ok(), "{typed:?}");
        let found: Vec<String> =
            typed.config.changed().map(|(s, text)| format!("{}={text}", s.name)).collect();
        let wanted = "provider=tcp+shm rails=eth0,eth1 ports=20000-20999 deadline=2.5 warn-after=off start-deadline=7 \
                      window=1048576 blocks=4 algorithm=bcast=chain selection=rules adapt=off learn=learned reproducible=yes light=512 groups=4 taper=2 wait=block \
                      tuning=figures progress=thread on-failure=continue launcher=single record=records record-events=100 stats=yes stats-file=stats-%r";
        assert_eq!(found.join(" "), wanted);
    }

    #[test]
    fn what_a_setting_cannot_be_is_an_error_of_init() {
        for (builder, words) in [
            (World::builder().set("wiat", "spin"), "there is no setting \"wiat\"; did you mean \"wait\"?"),
            (World::builder().blocks(0), "CIRCULANT_BLOCKS: \"0\" is not a whole number from 1"),
            (World::builder().ports(RangeInclusive::new(9, 3)), "CIRCULANT_PORTS: \"9-3\" is not a range"),
            (World::builder().set("libpmix", "/tmp/any.so"), "Builder::libpmix"),
        ] {
            let e = builder.launcher(Launcher::Single).init().map(drop).unwrap_err().to_string();
            assert!(e.contains(words), "{e}");
        }
    }
}
