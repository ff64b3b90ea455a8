//! The endpoint of each route, with the addresses of the neighbours'.

use super::addresses::{self, Addresses, NodeWide};
use super::card;
use super::exchange::Exchange;
use super::locals::one_node;
use super::memory::{self, Mapped};
use super::native;
use crate::config::{Config, OnFailure, Wait};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secret;
use crate::transport::fabric::{self, Networks};
use crate::transport::node::Node;
use crate::transport::remote;
use crate::transport::{Transport, awake};

/// An endpoint, and the neighbours' addresses.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) endpoint: Option<Box<dyn Transport>>,
    pub(super) addresses: Addresses,
    /// The cores that the ranks of our node may use together; 0: that was not asked.
    pub(super) cores: u32,
}

/// What comes of a route that needs not do.
pub(super) enum Attempt {
    Opened(Opened),
    /// Some ranks cannot map others' memory, and another route will do; whether we are ready for it.
    Unreached(Result<()>),
}

/// An endpoint that the program has given, or one of libfabric.
pub(super) fn plain(exchange: &mut Exchange<'_>, endpoint: Result<Box<dyn Transport>>) -> Result<Opened> {
    let value = card::value(endpoint.as_ref().map(AsRef::as_ref), false);
    let exchanged = addresses::exchange(exchange, "addr", &value, None);
    let endpoint = Some(endpoint?);
    exchanged.map(|(addresses, NodeWide { cores, .. })| Opened { endpoint, addresses, cores })
}

/// Shared memory among all ranks; `only`: no other route will do.
pub(super) fn shm(
    exchange: &mut Exchange<'_>,
    config: &Config,
    ready: Result<()>,
    nodes: &[u32],
    only: bool,
) -> Result<Attempt> {
    let ready = ready.and_then(|()| match one_node(nodes) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Config, "provider shm carries only ranks of one node")
            .help("CIRCULANT_PROVIDER=auto, or tcp+shm and the like, take another wire between nodes")),
    });
    let Mapped { shm, reaches_locals } = memory::map(exchange, "shm", nodes, ready, config.wait)?;
    let value = card::value(shm.as_ref().map(|shm| shm as &dyn Transport), reaches_locals);
    let (addresses, NodeWide { reached, cores }) =
        addresses::exchange(exchange, "shm-addr", &value, Some(nodes))?;
    if !reached && !only {
        return Ok(Attempt::Unreached(shm.map(drop)));
    }
    let mut shm = shm?;
    shm.settle(cores);
    let endpoint: Option<Box<dyn Transport>> = Some(Box::new(shm));
    match reached {
        true => Ok(Attempt::Opened(Opened { endpoint, addresses, cores })),
        false => {
            let what = "the ranks of this node cannot map each other's memory through /proc";
            Err(Error::new(ErrorKind::System, what).over("shm").help(
                "containers must share a space of process numbers; or choose another CIRCULANT_PROVIDER",
            ))
        }
    }
}

/// Shared memory within nodes, and another endpoint between them.
pub(super) fn both(
    exchange: &mut Exchange<'_>,
    config: &Config,
    ready: Result<()>,
    nodes: &[u32],
    far: Far<'_>,
) -> Result<Opened> {
    let Mapped { shm, reaches_locals } = memory::map(exchange, "near", nodes, ready, config.wait)?;
    let job = (exchange.rank, exchange.size);
    let node = shm.and_then(|shm| Ok(Node::new(shm, far.open(config, job)?)));
    let value = card::value(node.as_ref().map(|node| node as &dyn Transport), reaches_locals);
    let (addresses, NodeWide { reached, cores }) =
        addresses::exchange(exchange, "addr", &value, Some(nodes))?;
    let mut node = node?;
    // Known only after the exchange.
    node.settle(reached, cores);
    Ok(Opened { endpoint: Some(Box::new(node)), addresses, cores })
}

/// One endpoint between all ranks.
pub(super) fn fabric(
    exchange: &mut Exchange<'_>,
    config: &Config,
    ready: Result<()>,
    far: Far<'_>,
) -> Result<Opened> {
    let job = (exchange.rank, exchange.size);
    let endpoint = ready.and_then(|()| far.open(config, job));
    plain(exchange, endpoint)
}

/// An endpoint to open: of RDMA hardware, or of libfabric.
pub(super) struct Far<'a> {
    provider: &'a str,
    secret: &'a Secret,
    /// All ranks share this node, its loopback interface, and libfabric's shared memory.
    all_on_one_node: bool,
    networks: &'a Networks,
    wait: Option<Wait>,
    /// Open already, at all ranks.
    native: Option<Box<dyn Transport>>,
}

impl<'a> Far<'a> {
    pub(super) fn new(
        config: &Config,
        (provider, secret): (&'a str, &'a Secret),
        all_on_one_node: bool,
        networks: &'a Networks,
        beside_shm: bool,
    ) -> Self {
        // Asleep in there a rank would not see what comes by shared memory.
        let wait = if beside_shm { awake(config.wait) } else { config.wait };
        Self { provider, secret, all_on_one_node, networks, wait, native: None }
    }

    /// Opens RDMA hardware where all ranks have it and the setting leaves the choice, if all of them can.
    pub(super) fn agree_native(
        &mut self,
        exchange: &mut Exchange<'_>,
        config: &Config,
        nodes: &[u32],
        ready: bool,
    ) -> Result<()> {
        if remote::prefers_native(self.provider, self.networks) {
            let (rank, size) = (exchange.rank, exchange.size as usize);
            let fabric = self.options(config, size);
            let open = || remote::open_native(&remote::Options { rank, fabric, config });
            self.native = native::agree(exchange, nodes, ready, open)?;
        }
        Ok(())
    }

    fn open(self, config: &Config, (rank, size): (u32, u32)) -> Result<Box<dyn Transport>> {
        let fabric = self.options(config, size as usize);
        match self.native {
            Some(native) => Ok(native),
            None => remote::open(&remote::Options { rank, fabric, config }),
        }
    }

    /// Whether there is such a provider.
    pub(super) fn check(&self, config: &Config) -> Result<()> {
        remote::check(&self.options(config, 1))
    }

    fn options<'c>(&self, config: &'c Config, size: usize) -> fabric::Options<'c>
    where
        'a: 'c,
    {
        let Self { provider, secret, all_on_one_node, networks, wait, .. } = *self;
        let (ports, libfabric, device_memory) = (config.ports, &config.libfabric, config.device_memory);
        let (secret, log) = (Some(secret), config.log);
        fabric::Options {
            provider,
            all_on_one_node,
            networks,
            ports,
            sources: &config.sources,
            size,
            wait,
            survives: config.on_failure == OnFailure::Continue,
            device_memory,
            secret,
            log,
            libfabric,
        }
    }
}
