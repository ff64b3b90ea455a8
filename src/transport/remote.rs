//! The wire between nodes, by the name that the setting `provider` gives: RDMA hardware by itself, or libfabric.

use super::fabric::{self, Networks};
use super::{Transport, rails};
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};

#[cfg(feature = "verbs")]
use super::{fabric::Interfaces, verbs};

/// What an endpoint of either is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    /// Our rank.
    pub(crate) rank: u32,
    /// What libfabric is told; the name, the number of ranks and how to wait count for both.
    pub(crate) fabric: fabric::Options<'a>,
    pub(crate) config: &'a Config,
}

/// Whether this name means RDMA hardware by itself where all ranks can open it: one that leaves a choice, and all ranks have a
/// port. The same at all ranks.
pub(crate) fn prefers_native(provider: &str, networks: &Networks) -> bool {
    ["auto", "verbs"].contains(&provider) && networks.rdma
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
    match options.fabric.provider {
        NATIVE => open_native(options),
        _ => rails::open(&options.fabric, &options.config.rails),
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

/// An endpoint of RDMA hardware by itself; of several ports, where rails are asked for.
///
/// # Errors
/// As `verbs::Verbs::open`; and when there are fewer ports than rails.
#[cfg(feature = "verbs")]
pub(crate) fn open_native(options: &Options<'_>) -> Result<Box<dyn Transport>> {
    let (fabric, config) = (&options.fabric, options.config);
    let of = verbs::Options {
        wait: fabric.wait,
        device: config.verbs_device.as_deref(),
        gid: config.verbs_gid.map(u32::from),
        partition: config.verbs_partition.unwrap_or(0),
        service_level: config.verbs_level.unwrap_or(0),
        path_mtu: config.verbs_mtu,
        queue: config.verbs_queue,
        receives: config.verbs_receives,
        ..verbs::Options::new(options.rank, fabric.size)
    };
    let ports = match &config.rails {
        Interfaces::Best => return Ok(Box::new(verbs::Verbs::open(&of)?)),
        Interfaces::Named(names) => names.clone(),
        Interfaces::Several(count) => several(&of, *count)?,
    };
    let wait = super::awake(fabric.wait);
    let open = |port: &String| -> Result<Box<dyn Transport>> {
        Ok(Box::new(verbs::Verbs::open(&verbs::Options { device: Some(port), wait, ..of })?))
    };
    rails::together(ports.iter().map(open).collect::<Result<_>>()?)
}

/// The names of the first `count` ports that will do; `None`: of all.
#[cfg(feature = "verbs")]
fn several(of: &verbs::Options<'_>, count: Option<usize>) -> Result<Vec<String>> {
    let ports = verbs::survey(of)?.into_iter().filter(|port| port.rejected.is_none());
    let names: Vec<String> = ports.map(|port| port.name).take(count.unwrap_or(usize::MAX)).collect();
    match count {
        Some(count) if names.len() < count => {
            let what = format!("{count} rails: there are {} RDMA ports that will do", names.len());
            Err(Error::new(ErrorKind::Config, what).over(NATIVE).help("`circulant info` lists them"))
        }
        _ => Ok(names),
    }
}

#[cfg(feature = "verbs")]
fn check_native() -> Result<()> {
    verbs::available()
}

#[cfg(not(feature = "verbs"))]
pub(crate) fn open_native(_: &Options<'_>) -> Result<Box<dyn Transport>> {
    Err(left_out())
}

#[cfg(not(feature = "verbs"))]
fn check_native() -> Result<()> {
    Err(left_out())
}

#[cfg(not(feature = "verbs"))]
fn left_out() -> Error {
    let what = format!("this build has no {NATIVE}: it was made without the feature `verbs`");
    Error::new(ErrorKind::Config, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_by_itself_is_preferred_where_all_ranks_have_it() {
        let mut networks = Networks::default();
        let names = ["auto", "verbs", "ibverbs", "verbs;ofi_rxm", "tcp"];
        assert_eq!(names.map(|name| prefers_native(name, &networks)), [false; 5]);
        networks.rdma = true;
        assert_eq!(names.map(|name| prefers_native(name, &networks)), [true, true, false, false, false]);
    }

    #[cfg(feature = "verbs")]
    #[test]
    fn settings_allow_what_queues_can_be() {
        let set = |depth: u32| Config::defaults().set("verbs-queue", &depth.to_string());
        let deepest = u32::from(verbs::MAX_DEPTH);
        assert!(set(deepest).is_ok() && set(deepest + 1).is_err());
    }
}
