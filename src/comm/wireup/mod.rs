//! Wire-up: how ranks that know only their launcher come to be connected, as a sequence of values of which each is made
//! from the one before:
//!
//! ```text
//! settings agreed -> rank locations -> route -> endpoint -> addresses -> connected
//! ```
//!
//! Between these steps are fences of the launcher. All ranks pass the same fences, also those that have failed already: a
//! rank carries its first error along (the `Result` in a value), publishes it in place of its address, and its neighbours,
//! which read it there, propagate it to all.

mod addresses;
mod card;
mod connect;
mod endpoint;
mod exchange;
mod groups;
mod joined;
mod locals;
mod locations;
mod memory;
mod native;
mod settings;
#[cfg(test)]
mod tests;

pub(super) use connect::{Connected, Wired, connect};

use super::places::Places;
use crate::config::{Config, ForcedLimits, Interfaces, Provider};
use crate::error::{Error, ErrorKind, Result};
use crate::launch::Launch;
use crate::secret::Secret;
use crate::transport::Transport;
use crate::transport::fabric::Networks;
use crate::transport::limited::Limited;
use crate::transport::route::Route;
use endpoint::{Attempt, Far, Opened};
use exchange::Exchange;
use locals::one_node;
use locations::Locations;
use settings::Agreed;
use std::time::Duration;

/// From the launcher to an endpoint, or to the one that is given, and the neighbours' addresses.
pub(super) fn wire_up(
    config: &mut Config,
    launch: &mut dyn Launch,
    given: Option<Box<dyn Transport>>,
    timeout: Duration,
) -> Result<Wired> {
    let seed = launch.rank() as u64;
    let mut wired = open(config, launch, given, timeout)?;
    if config.limits.word_bits.is_some() && config.rails != Interfaces::Best {
        let what = "CIRCULANT_LIMITS: words follow their puts on one interface only, and CIRCULANT_RAILS takes several";
        return Err(Error::new(ErrorKind::Config, what));
    }
    if config.limits != ForcedLimits::default() {
        let limited =
            |inner| Box::new(Limited::new(inner, config.limits.clone(), seed)) as Box<dyn Transport>;
        wired.opened.endpoint = wired.opened.endpoint.map(limited);
    }
    Ok(wired)
}

/// As [`wire_up`], of an endpoint as it is.
fn open(
    config: &mut Config,
    launch: &mut dyn Launch,
    given: Option<Box<dyn Transport>>,
    timeout: Duration,
) -> Result<Wired> {
    let known = launch.nodes().filter(|nodes| nodes.len() == launch.size());
    if launch.size() == 1 {
        check_alone(config)?;
        let nodes = known.unwrap_or_else(|| vec![0]).into();
        return Ok(Wired { opened: Opened::default(), places: Places { nodes, ..Places::default() } });
    }
    let mut exchange = Exchange::new(launch, timeout, config.warn_after)?;
    // Where the launcher knows that all ranks share a node, the rest is asked for only when it is needed.
    let asks = !known.as_deref().is_some_and(one_node);
    if asks {
        locations::publish(&mut exchange, known.as_deref(), given.is_none())?;
    }
    let Agreed { provider, secret, mut ready } = settings::agree(&mut exchange, config)?;
    let locations = match (asks, known) {
        (true, known) => locations::agree(&mut exchange, config, &mut ready, known.as_deref())?,
        (false, known) => {
            let nodes = known.unwrap_or_default().into();
            Locations { places: Places { nodes, ..Places::default() }, networks: None }
        }
    };
    if let Some(endpoint) = given {
        let opened = endpoint::plain(&mut exchange, ready.map(|()| endpoint))?;
        return Ok(Wired { opened, places: locations.places });
    }
    over_route(&mut exchange, config, (&provider, &secret), ready, locations)
}

/// The endpoint of the route that `provider` means for ranks there.
fn over_route(
    exchange: &mut Exchange<'_>,
    config: &Config,
    (provider, secret): (&Provider, &Secret),
    mut ready: Result<()>,
    locations: Locations,
) -> Result<Wired> {
    let nodes = &locations.places.nodes;
    if let Route::Shm { only } = Route::of(provider, nodes) {
        match endpoint::shm(exchange, config, ready, nodes, only)? {
            Attempt::Opened(opened) => return Ok(Wired { opened, places: locations.places }),
            Attempt::Unreached(still) => ready = still,
        }
        tracing::debug!("the ranks of this node cannot map each other's memory");
    }
    // These may tell ranks in containers apart, which the launcher puts on one node.
    let (places, networks) = locations.with_networks(exchange, config, &mut ready)?;
    let all_on_one_node = one_node(&places.nodes) && networks.near;
    let route = Route::of(provider, &places.nodes);
    let (provider, all_on_one_node) = match &route {
        Route::Both(provider) | Route::Fabric(provider) => (*provider, all_on_one_node),
        // Between ranks of a node that cannot map each other's memory, libfabric's shared memory would fail, too.
        Route::Shm { .. } => ("auto", false),
    };
    let beside_shm = matches!(route, Route::Both(_));
    let mut far = Far::new(config, (provider, secret), all_on_one_node, &networks, beside_shm);
    far.agree_native(exchange, config, &places.nodes, ready.is_ok())?;
    let opened = match beside_shm {
        true => endpoint::both(exchange, config, ready, &places.nodes, far),
        false => endpoint::fabric(exchange, config, ready, far),
    }?;
    Ok(Wired { opened, places })
}

/// A job of one rank needs no endpoint, but refuses a provider that does not exist, as several ranks do.
fn check_alone(config: &mut Config) -> Result<()> {
    config.load()?;
    let (provider, networks) = (config.provider.fabric(), &Networks::default());
    let secret = Secret::of_word("");
    Far::new(config, (provider, &secret), true, networks, false).check(config)
}
