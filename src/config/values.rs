//! The types of settings that are neither numbers, texts nor switches.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::str::FromStr;
use tracing::level_filters::LevelFilter;

/// What carries the puts of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Provider {
    /// Our own shared memory within nodes, the best provider of libfabric between them.
    #[default]
    Auto,
    /// Our own shared memory: all ranks share a node.
    Shm,
    /// Our own shared memory within nodes, this provider of libfabric between them: `tcp+shm`.
    Both(String),
    /// This provider of libfabric within nodes, too: a name that people type (`tcp`, `rxm`, `fi_shm`, `verbs`, …), or
    /// libfabric's exact one.
    Fabric(String),
}

impl Provider {
    /// The name that libfabric is asked for.
    pub fn fabric(&self) -> &str {
        match self {
            Self::Auto => AUTO,
            Self::Shm => SHM,
            Self::Both(name) | Self::Fabric(name) => name,
        }
    }
}

const AUTO: &str = "auto";
const SHM: &str = "shm";
const WITH_SHM: &str = "+shm";

impl From<&str> for Provider {
    fn from(name: &str) -> Self {
        match (name, name.strip_suffix(WITH_SHM)) {
            (AUTO, _) => Self::Auto,
            (SHM, _) => Self::Shm,
            (_, Some(far)) => Self::Both(far.to_owned()),
            _ => Self::Fabric(name.to_owned()),
        }
    }
}

impl Display for Provider {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.fabric())?;
        f.write_str(if matches!(self, Self::Both(_)) { WITH_SHM } else { "" })
    }
}

/// Which network interfaces to take, all of the same provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interfaces {
    /// The best.
    #[default]
    Best,
    /// So many of those that are as good as the best; `None`: all of them.
    Several(Option<usize>),
    /// Those of these names (of domains, as libfabric has them, or addresses), also one several times.
    Named(Vec<String>),
}

impl Display for Interfaces {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("1"),
            Self::Several(None) => f.write_str(AUTO),
            Self::Several(Some(n)) => write!(f, "{n}"),
            Self::Named(names) => f.write_str(&names.join(",")),
        }
    }
}

/// The addresses from which a rank's TCP port takes connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sources {
    /// Any.
    #[default]
    All,
    /// Those of these networks, and of this node's loopback interface.
    Only(Vec<Network>),
}

impl Display for Sources {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str(ALL),
            Self::Only(networks) => {
                f.write_str(&networks.iter().map(Network::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// What [`Sources::All`] is called.
const ALL: &str = "all";

/// Addresses that begin with the same bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// One of them.
    pub ip: IpAddr,
    /// How many bits they have in common, from the first on.
    pub bits: u8,
}

impl Network {
    /// Of one address only.
    pub fn host(ip: IpAddr) -> Self {
        Self { ip, bits: if ip.is_ipv4() { 32 } else { 128 } }
    }
}

impl Display for Network {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self == Self::host(self.ip) {
            true => write!(f, "{}", self.ip),
            false => write!(f, "{}/{}", self.ip, self.bits),
        }
    }
}

impl FromStr for Network {
    type Err = ();

    /// `10.0.0.7`, `10.0.0.0/16`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (ip, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
        let host = Self::host(ip.trim().parse().map_err(|_| ())?);
        match bits.map(|bits| bits.trim().parse::<u8>()) {
            None => Ok(host),
            Some(Ok(bits)) if bits <= host.bits => Ok(Self { bits, ..host }),
            Some(_) => Err(()),
        }
    }
}

/// Which nodes are near each other: those of a switch, or of a group of a Dragonfly. Links between groups are fewer than within them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grouping {
    /// As the launcher says of each node: under Slurm the switch above it. Where it says nothing the network is not divided.
    #[default]
    Told,
    /// The network is not divided.
    Undivided,
    /// So many nodes after each other, as nodes follow by their first ranks.
    Nodes(u32),
    /// As a file says, in lines of nodes and their group.
    File(String),
}

impl Display for Grouping {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told => f.write_str(AUTO),
            Self::Undivided => f.write_str(NONE),
            Self::Nodes(nodes) => write!(f, "{nodes}"),
            Self::File(path) => f.write_str(path),
        }
    }
}

/// What [`Grouping::Undivided`] is called.
const NONE: &str = "none";

/// What becomes of a job of which a rank is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// The world ends, at every rank.
    #[default]
    End,
    /// Calls on communicators of that rank fail, at every rank; all others go on.
    Continue,
}

impl OnFailure {
    /// The word that the setting takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Continue => "continue",
        }
    }
}

/// How a rank waits while nothing arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Pauses: best when every rank has a core to itself.
    Spin,
    /// Gives the core away: good everywhere.
    #[default]
    Yield,
    /// Sleeps until something comes after a few empty polls, where the provider can: for many ranks on few cores,
    /// and for what else shares them.
    Block,
}

impl Wait {
    /// The word that the setting takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Yield => "yield",
            Self::Block => "block",
        }
    }
}

/// When requests make progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// While a call of the world is made.
    #[default]
    Calls,
    /// Also between calls, by a thread of the library.
    Thread,
}

impl Progress {
    /// The word that the setting takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Thread => "thread",
        }
    }
}

/// Where rank and size come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// The first of those that follow of which the environment speaks.
    #[default]
    Auto,
    /// PMI-1, by `PMI_FD` or `PMI_PORT`.
    Pmi1,
    /// PMIx.
    Pmix,
    /// Variables of our own.
    Env,
    /// The launcher's libpmi.
    Libpmi,
    /// None: the size is 1.
    Single,
}

impl Launcher {
    /// The word that the setting takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => AUTO,
            Self::Pmi1 => "pmi1",
            Self::Pmix => "pmix",
            Self::Env => "env",
            Self::Libpmi => "libpmi",
            Self::Single => "single",
        }
    }
}

/// Which messages go to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// Messages of this level and of more serious ones.
    pub level: LevelFilter,
    /// Of all ranks; else only of rank 0.
    pub all: bool,
}

impl Default for Logging {
    fn default() -> Self {
        Self { level: LevelFilter::WARN, all: false }
    }
}
