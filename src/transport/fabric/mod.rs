//! libfabric: reliable datagram endpoints that put with remote CQ data, loaded at run time.
//!
//! One endpoint, one completion queue, one address vector. An arrival is a completion with
//! FI_REMOTE_WRITE and nothing else of it is looked at but its data word: that is what holds on every
//! provider. Which provider is taken, and why, is [`survey`]'s to say; what providers do differently from
//! what they promise is in [`quirks`].

mod endpoint;
mod guard;
mod interfaces;
mod library;
mod limits;
mod network;
mod objects;
mod peers;
pub mod quirks;
mod registrations;
mod select;
mod slots;
mod stale;
mod tags;

pub use super::Wait;
pub use crate::config::Interfaces;
pub use endpoint::Fabric;
pub use library::{Variable, prepare};
pub use network::{Here, Interface, Networks, Subnet, interfaces};
pub use quirks::presets;
pub use select::{Candidate, Survey, check, survey};
pub use stale::{remove_shm_of, sweep_stale_shm};

use super::{
    Access, LONG_MESSAGE_MAX, Limits, MESSAGE_MAX, Memory, MemoryAttributes, Posted, Registration, Remote,
    Sink, Source, Transport,
};
use crate::config::{Library, Logging, Sources};
use crate::secret::Secret;

/// How to open a [`Fabric`].
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// `auto`, a name people type (tcp, rxm, fi_shm, verbs, sockets, udp), or libfabric's exact name.
    pub provider: &'a str,
    /// All ranks of the job run on this node: shared memory and the loopback interface will do.
    pub all_on_one_node: bool,
    /// The networks that ranks have agreed on; of the default nothing follows.
    pub networks: &'a Networks,
    /// The lowest and highest port to use, for providers over TCP; `None`: the system chooses.
    pub ports: Option<(u16, u16)>,
    /// From where the port takes connections, for providers over TCP.
    pub sources: &'a Sources,
    /// The number of ranks in the job.
    pub size: usize,
    /// How to wait; `None`: asleep after a while where the provider can, sooner where others want the core.
    pub wait: Option<Wait>,
    /// Ranks go on without those that are gone (`Limits::survives`).
    pub survives: bool,
    /// Only providers that register memory of devices.
    pub device_memory: bool,
    /// What the ranks of the job know and no other process; `None`: they know nothing.
    pub secret: Option<&'a Secret>,
    /// Whether it is told when messages of strangers are dropped.
    pub log: Logging,
    /// The library.
    pub libfabric: &'a Library,
}
