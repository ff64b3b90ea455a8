//! The wire between nodes, by the name that the setting `provider` gives: RDMA hardware by itself, or libfabric.

use super::fabric::{self, Interfaces};
use super::{Transport, rails};
use crate::config::Config;
use crate::error::Result;

#[cfg(feature = "verbs")]
use super::verbs;

/// What an endpoint of either is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    /// Our rank.
    pub(crate) rank: u32,
    /// What libfabric is told; the name, the number of ranks and how to wait count for both.
    pub(crate) fabric: fabric::Options<'a>,
    pub(crate) config: &'a Config,
}

/// Whether this name means RDMA hardware by itself: where all ranks have it, also the names that leave a choice, but with
/// several interfaces, which only libfabric takes together. The same at all ranks.
fn native(options: &Options<'_>) -> bool {
    match options.fabric.provider {
        NATIVE => true,
        "auto" | "verbs" => options.fabric.networks.rdma && options.config.rails == Interfaces::Best,
        _ => false,
    }
}

/// The kind of link on which verbs can be spoken here, as ranks tell each other; 0: none.
pub(crate) fn link() -> u8 {
    #[cfg(feature = "verbs")]
    return verbs::link();
    #[cfg(not(feature = "verbs"))]
    0
}

/// The name of the transport that speaks verbs itself.
pub(crate) const NATIVE: &str = "ibverbs";

/// An endpoint.
///
/// # Errors
/// As [`rails::open`] and `verbs::Verbs::open`.
pub(crate) fn open(options: &Options<'_>) -> Result<Box<dyn Transport>> {
    match native(options) {
        true => open_native(options),
        false => rails::open(&options.fabric, &options.config.rails),
    }
}

/// Whether there is such a provider.
///
/// # Errors
/// When there is none, or its library cannot be loaded.
pub(crate) fn check(options: &fabric::Options<'_>) -> Result<()> {
    match options.provider {
        NATIVE => check_native(),
        _ => fabric::check(options),
    }
}

#[cfg(feature = "verbs")]
fn open_native(options: &Options<'_>) -> Result<Box<dyn Transport>> {
    let (fabric, config) = (&options.fabric, options.config);
    let of = verbs::Options {
        wait: fabric.wait,
        device: config.verbs_device.as_deref(),
        gid: config.verbs_gid.map(u32::from),
        partition: config.verbs_partition.unwrap_or(0),
        service_level: config.verbs_level.unwrap_or(0),
        path_mtu: config.verbs_mtu,
        ..verbs::Options::new(options.rank, fabric.size)
    };
    let open = verbs::Verbs::open(&of);
    Ok(Box::new(open.map_err(|e| match fabric.provider {
        NATIVE => e,
        // Chosen by us, as all ranks have a port.
        _ if e.remedy().is_none() => e.help("CIRCULANT_PROVIDER=verbs;ofi_rxm takes it by libfabric"),
        _ => e,
    })?))
}

#[cfg(feature = "verbs")]
fn check_native() -> Result<()> {
    verbs::available()
}

#[cfg(not(feature = "verbs"))]
fn open_native(_: &Options<'_>) -> Result<Box<dyn Transport>> {
    Err(left_out())
}

#[cfg(not(feature = "verbs"))]
fn check_native() -> Result<()> {
    Err(left_out())
}

#[cfg(not(feature = "verbs"))]
fn left_out() -> crate::error::Error {
    let what = format!("this build has no {NATIVE}: it was made without the feature `verbs`");
    crate::error::Error::new(crate::error::ErrorKind::Config, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Library;
    use crate::transport::fabric::Networks;

    #[test]
    fn hardware_by_itself_is_taken_where_all_ranks_have_it() {
        let (mut config, library) = (Config::defaults(), Library::default());
        let asked = |provider, rdma, config: &Config| {
            let mut networks = Networks::default();
            networks.rdma = rdma;
            let networks = &networks;
            let (all_on_one_node, ports, size, wait, libfabric) = (false, None, 2, None, &library);
            let fabric =
                fabric::Options { provider, all_on_one_node, networks, ports, size, wait, libfabric };
            native(&Options { rank: 0, fabric, config })
        };
        let names = ["auto", "verbs", "ibverbs", "verbs;ofi_rxm", "tcp"];
        assert_eq!(names.map(|name| asked(name, true, &config)), [true, true, true, false, false]);
        assert_eq!(names.map(|name| asked(name, false, &config)), [false, false, true, false, false]);
        config.set("rails", "2").unwrap();
        assert_eq!(names.map(|name| asked(name, true, &config)), [false, false, true, false, false]);
    }
}
