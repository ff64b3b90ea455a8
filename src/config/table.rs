//! The table of settings, and the fields that come of it.

use super::forced::ForcedLimits;
use super::format::{self, Refused};
use super::library::Library;
use super::values::{Grouping, Interfaces, Launcher, Logging, OnFailure, Progress, Provider, Sources, Wait};
use crate::select::{Adapt, Probing};
use std::time::Duration;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// Short name, also of the flag (`--name`).
    pub name: &'static str,
    /// Environment variable.
    pub variable: &'static str,
    /// Default, as text.
    pub default: &'static str,
    /// Which ranks it holds for.
    pub scope: Scope,
    /// What it does, with its unit.
    pub text: &'static str,
}

/// Which ranks a setting holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// Of all ranks: rank 0's value is taken, and another one is an error.
    Agreed,
    /// Of each rank.
    Local,
    /// Of each rank; it names a library to load, which no safe call can do.
    Library,
}

/// Makes of each line a line of [`SETTINGS`], a field of [`Values`], and what reads and writes that field as text.
macro_rules! settings {
    ($($field:ident: $type:ty, $format:ident, $name:literal, $variable:literal, $default:literal, $scope:ident,
        $text:literal;)*) => {
        /// All settings.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            variable: $variable,
            default: $default,
            scope: Scope::$scope,
            text: $text,
        }),*];

        /// The values of all settings.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct Values {
            $(#[doc = $text] pub $field: $type,)*
        }

        impl Values {
            /// The defaults.
            pub(super) fn defaults() -> Self {
                // A test parses every default.
                Self { $($field: format::$format.parse($default).unwrap_or_default(),)* }
            }

            /// Takes what `text` says for the value of the setting called `name`.
            pub(super) fn read(&mut self, name: &str, text: &str) -> Result<(), Refused> {
                match name {
                    $($name => self.$field = format::$format.parse(text)?,)*
                    _ => {}
                }
                Ok(())
            }

            /// The value of the setting called `name` in its canonical form; of no setting nothing.
            pub(super) fn text(&self, name: &str) -> String {
                match name {
                    $($name => format::$format.text(&self.$field),)*
                    _ => String::new(),
                }
            }
        }
    };
}

// field: type, format, name, variable, default, scope, text
settings! {
    provider: Provider, PROVIDER, "provider", "CIRCULANT_PROVIDER", "auto", Agreed,
        "wire: auto, shm, tcp, rxm, verbs, ibverbs, sockets, udp, fi_shm or a libfabric name; with +shm: shm within nodes";
    rails: Interfaces, INTERFACES, "rails", "CIRCULANT_RAILS", "1", Local,
        "network interfaces to spread puts over: how many, auto (all as good as the best), or names: eth0,eth1";
    ports: Option<(u16, u16)>, PORTS, "ports", "CIRCULANT_PORTS", "auto", Local,
        "TCP ports to use, for firewalls: 20000-20999 (some for each rank of a node), or auto (the system chooses)";
    sources: Sources, SOURCES, "sources", "CIRCULANT_SOURCES", "all", Local,
        "addresses from which a rank's TCP port takes connections: all, or networks such as 10.0.0.0/16,10.1.0.7";
    deadline: Option<Duration>, SECONDS, "deadline", "CIRCULANT_DEADLINE", "off", Local,
        "seconds that one call may take before it fails on every rank; off or 0: as long as it needs, while all ranks live";
    warn_after: Option<Duration>, SECONDS, "warn-after", "CIRCULANT_WARN_AFTER", "60", Local,
        "seconds after which a call that waits says on stderr for which ranks, and again each time; off or 0: never";
    start_deadline: Option<Duration>, SECONDS, "start-deadline", "CIRCULANT_START_DEADLINE", "60", Local,
        "seconds that start-up may take (launcher, connections, self-test), and the last step of finalize; off or 0: any time";
    window: Option<u64>, BYTES, "window", "CIRCULANT_WINDOW", "auto", Agreed,
        "bytes that a rank may have unacknowledged in one operation, a quarter of it in a reduction (K, M, G; Ki, Mi, Gi)";
    blocks: Option<u32>, BLOCKS, "blocks", "CIRCULANT_BLOCKS", "auto", Agreed,
        "blocks per message, or messages of a rank in a hop: a number (fewer are made where a rank would have more than 65536 puts for them), or auto (chosen from L, o, beta)";
    algorithm: String, ALGORITHM, "algorithm", "CIRCULANT_ALGORITHM", "auto", Agreed,
        "algorithm by its registry name for all that have it, or a list: bcast=chain,allreduce=ring; or auto";
    selection: Option<String>, FILE, "selection", "CIRCULANT_SELECTION", "none", Agreed,
        "file of rules for choosing algorithms, the same on all ranks: bcast bytes<=64K size<=16 -> binomial";
    adapt: Adapt, ADAPT, "adapt", "CIRCULANT_ADAPT", "auto", Agreed,
        "choices by price are tried beside others, and the fastest is kept: auto (calls that are repeated; but no sums whose bits depend on the order), on, off";
    learn: Option<String>, FILE, "learn", "CIRCULANT_LEARN", "none", Local,
        "file into which rank 0 puts what trials have found, as rules for the setting selection, at the end";
    reproducible: bool, SWITCH, "reproducible", "CIRCULANT_REPRODUCIBLE", "no", Agreed,
        "yes: reductions and scans combine in one order whatever the size, blocks and nodes (slower); no";
    latency: Option<u64>, NUMBER, "latency", "CIRCULANT_LATENCY", "auto", Agreed,
        "L in nanoseconds, for choosing the number of blocks";
    overhead: Option<u64>, NUMBER, "overhead", "CIRCULANT_OVERHEAD", "auto", Agreed,
        "o in nanoseconds per put";
    byte_time: Option<u64>, NUMBER, "byte-time", "CIRCULANT_BYTE_TIME", "auto", Agreed,
        "beta in picoseconds per byte";
    light: Option<u64>, BYTES, "light", "CIRCULANT_LIGHT", "auto", Agreed,
        "pieces below this many bytes share a put to a landing slot; 0 never";
    groups: Grouping, GROUPING, "groups", "CIRCULANT_GROUPS", "auto", Agreed,
        "groups of nodes that few links join: nodes per group, a file of lines NODES GROUP (rank 0 reads it, for all), auto (switches of Slurm, where it tells them), none";
    taper: u32, TAPER, "taper", "CIRCULANT_TAPER", "1", Agreed,
        "how many times what a group's links to others carry its nodes' links do together: 4, or 1:4";
    wait: Option<Wait>, WAIT, "wait", "CIRCULANT_WAIT", "auto", Local,
        "how to wait: spin, yield, block (asleep in the provider, where it can), or auto (by what is seen)";
    tuning: Option<String>, FILE, "tuning", "CIRCULANT_TUNING", "none", Agreed,
        "file of L, o, beta, gamma as circulant tune -o FILE measured them; rank 0 reads it, for all";
    probe: Probing, PROBE, "probe", "CIRCULANT_PROBE", "auto", Agreed,
        "measure L, o and beta at start-up: on, off, auto (between nodes and over libfabric, where neither settings nor a tuning file say them)";
    progress: Progress, PROGRESS, "progress", "CIRCULANT_PROGRESS", "calls", Local,
        "when requests make progress: calls (while any call is made), or thread (also between calls)";
    on_failure: OnFailure, ON_FAILURE, "on-failure", "CIRCULANT_ON_FAILURE", "end", Agreed,
        "when a rank is gone: end (the world ends at every rank), or continue (calls on its communicators fail, others go on; over shm, tcp, ibverbs, tcp+shm or ibverbs+shm)";
    check: bool, SWITCH, "check", "CIRCULANT_CHECK", "no", Agreed,
        "yes: before each blocking call all ranks compare operation, root, type, counts and operator, and an error names two that differ (slower); no";
    device_memory: bool, SWITCH, "device-memory", "CIRCULANT_DEVICE_MEMORY", "no", Agreed,
        "yes: of libfabric's providers only those that register memory of devices (FI_HMEM; ibverbs needs no asking); no";
    libfabric: Library, LIBRARY, "libfabric", "CIRCULANT_LIBFABRIC", "libfabric.so.1", Library,
        "path or name of the libfabric library to load";
    verbs_device: Option<String>, DEVICE, "verbs-device", "CIRCULANT_VERBS_DEVICE", "auto", Local,
        "device of ibverbs, with a colon its port: mlx5_0, mlx5_0:1; auto: the first that has an active port";
    verbs_gid: Option<u16>, INDEX, "verbs-gid", "CIRCULANT_VERBS_GID", "auto", Local,
        "index of the GID that ibverbs talks from; auto: RoCE v2 before v1, IPv4 first, link-local last";
    verbs_partition: Option<u16>, INDEX, "verbs-partition", "CIRCULANT_VERBS_PARTITION", "auto", Local,
        "index of the partition key of ibverbs in its port's table; auto: 0";
    verbs_level: Option<u8>, LEVEL, "verbs-level", "CIRCULANT_VERBS_LEVEL", "auto", Local,
        "service level of ibverbs, 0 to 15 (on Ethernet the priority, 0 to 7); auto: 0";
    verbs_mtu: Option<u32>, MTU, "verbs-mtu", "CIRCULANT_VERBS_MTU", "auto", Local,
        "bytes of the longest packet of ibverbs: 256, 512, 1024, 2048 or 4096; auto: what both ports can";
    verbs_queue: Option<u16>, DEPTH, "verbs-queue", "CIRCULANT_VERBS_QUEUE", "auto", Local,
        "puts and messages to one peer that ibverbs has under way at once, 1 to 16384; auto: 128";
    verbs_receives: Option<u16>, DEPTH, "verbs-receives", "CIRCULANT_VERBS_RECEIVES", "auto", Local,
        "receives that ibverbs keeps posted for puts and messages of all peers, of 8 KiB each, 1 to 16384; auto: 512";
    limits: ForcedLimits, LIMITS, "limits", "CIRCULANT_LIMITS", "none", Agreed,
        "forces limits of other hardware on the wire, for tests: gather=1,max_put=64Ki,inject=0,queue=16,unordered,word=16,no-word";
    launcher: Launcher, LAUNCHER, "launcher", "CIRCULANT_LAUNCHER", "auto", Local,
        "where rank and size come from: auto, pmi1, pmix, env, libpmi, single";
    libpmix: Library, LIBRARY, "libpmix", "CIRCULANT_LIBPMIX", "auto", Library,
        "path or name of the PMIx library to load; auto: the launcher's own, else libpmix.so.2";
    libpmi: Library, LIBRARY, "libpmi", "CIRCULANT_LIBPMI", "auto", Library,
        "path or name of the PMI library of Slurm or PALS to load; auto: libpmi.so.0";
    record: Option<String>, FOLDER, "record", "CIRCULANT_RECORD", "none", Local,
        "folder for flight records, which circulant trace reads: each rank writes rank-R.record on error, at SIGUSR1 and at the end";
    record_events: Option<u32>, EVENTS, "record-events", "CIRCULANT_RECORD_EVENTS", "auto", Local,
        "events that a rank's flight record keeps, of 40 bytes each, up to 16777216; 0: it is off; auto: 384 times log2 of the ranks";
    stats: bool, SWITCH, "stats", "CIRCULANT_STATS", "no", Local,
        "yes: calls are timed, by operation and size, and rank 0 prints its table on standard error at the end; no";
    stats_file: Option<String>, FILE, "stats-file", "CIRCULANT_STATS_FILE", "none", Local,
        "file to which each rank writes its counters and times at the end, as text for Prometheus; %r in the name is the rank";
    log: Logging, LOGGING, "log", "CIRCULANT_LOG", "warn", Local,
        "messages on standard error: error, warn, info (provider, nodes, addresses, algorithms), debug, trace; with ,all of all ranks";
}
