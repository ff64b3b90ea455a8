//! RDMA hardware by libibverbs itself, loaded at run time: reliable connected queue pairs that put with an immediate word.
//!
//! One device, one completion queue, one shared receive queue, and a queue pair for each peer that we talk to, made at
//! first use. A datagram queue pair carries the handshake that connects two of them (`handshake`). Puts to a peer are
//! collected in a list of work requests, which is posted with one doorbell (`requests`) when the engine has posted what is
//! ready ([`Transport::flush`](super::Transport::flush)).

mod close;
mod completions;
mod counters;
mod datagrams;
mod device;
mod endpoint;
mod gid;
mod handshake;
mod library;
mod objects;
mod peers;
mod reasons;
mod receives;
mod registrations;
mod requests;
mod support;
mod wire;

pub use device::{Candidate, link, survey};
pub use endpoint::Verbs;
pub use gid::GidKind;
pub use library::available;
pub use reasons::absent;
pub use support::Support;

use super::Wait;

/// The name of this transport, as the setting `provider` takes it.
pub const NAME: &str = "ibverbs";

/// The deepest queue that can be asked for: with the requests of all peers ([`Verbs`] bounds them) the completion queue then has some
/// 20 000 entries, and the smallest of common devices have 32 767.
pub const MAX_DEPTH: u16 = 1 << 14;

/// How to open a [`Verbs`].
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Our rank, by which peers know which of the two begins a handshake.
    pub rank: u32,
    /// The number of ranks in the job.
    pub size: usize,
    /// How to wait; `None`: asleep after a while, sooner where others want the core.
    pub wait: Option<Wait>,
    /// The device, and with a colon its port: `mlx5_0`, `mlx5_0:1`; `None`: the first with a port that is active.
    pub device: Option<&'a str>,
    /// The index of the GID to talk from; `None`: the best.
    pub gid: Option<u32>,
    /// The index of the partition key.
    pub partition: u16,
    /// The service level, 0 to 15; on Ethernet the priority, 0 to 7.
    pub service_level: u8,
    /// The longest packet's payload in bytes (256, 512, 1024, 2048, 4096); `None`: what the ports can.
    pub path_mtu: Option<u32>,
    /// Work requests to one peer that are under way at once, 1 to [`MAX_DEPTH`]; `None`: 128.
    pub queue: Option<u16>,
    /// Receives that are kept posted for the messages and puts of all peers, 1 to [`MAX_DEPTH`]; `None`: 512.
    pub receives: Option<u16>,
}

impl Options<'_> {
    /// Of a rank of a job of `size`; all else by itself.
    pub fn new(rank: u32, size: usize) -> Self {
        Self {
            rank,
            size,
            wait: None,
            device: None,
            gid: None,
            partition: 0,
            service_level: 0,
            path_mtu: None,
            queue: None,
            receives: None,
        }
    }
}
