//! The wire to each neighbour, checked for all that the engine relies on: what start-up tests with one put, at length. For
//! `circulant doctor --wire`, on hardware above all; programs need none of it.
//!
//! It opens endpoints as a world does, and drives them by itself, without the engine: where the wire breaks a promise it says which one.
//! Between the checks are fences of the launcher.

mod access;
mod checks;
mod end;
mod finding;
mod note;
mod prefixed;
mod puts;
mod seen;
#[cfg(test)]
mod tests;

pub use finding::{Check, Finding, Findings};

use super::members::to_u32;
use super::wireup::wire_up;
use crate::config::Config;
use crate::error::Result;
use crate::launch::Launch;
use crate::schedule::Circulant;
use crate::transport::Transport;
use end::End;
use prefixed::Prefixed;
use std::time::Duration;

/// Opens an endpoint in place of the one that the settings mean.
type Open<'a> = &'a mut dyn FnMut() -> Option<Box<dyn Transport>>;

/// Checks the wire from this rank to each neighbour, and serves the checks of others. Collective: all ranks of the launcher. Each
/// step takes `timeout` at most, and a few seconds where a wire breaks its promises or a peer's end is awaited. The launcher
/// can be used afterwards.
///
/// # Errors
/// When no endpoint can be opened, or a rank does not come to a fence in time. What the wire does wrong is no error.
pub fn check(config: &Config, launch: &mut dyn Launch, timeout: Duration) -> Result<Findings> {
    check_with(config, launch, timeout, (&STEPS, None), &mut || None)
}

/// Each with an endpoint of its own.
const STEPS: [Step; 4] = [lasting, access::wrong_key, access::given_back, access::peer_gone];

fn check_with(
    config: &Config,
    launch: &mut dyn Launch,
    timeout: Duration,
    (steps, only): (&[Step], Option<Check>),
    open: Open<'_>,
) -> Result<Findings> {
    let mut found = Findings::default();
    if launch.size() < 2 {
        return Ok(found);
    }
    for (number, step) in (1..).zip(steps) {
        let mut launch = Prefixed::new(launch, number);
        let rank = to_u32(launch.rank())?;
        let wired = wire_up(&mut config.clone(), &mut launch, open(), timeout)?;
        let (mut end, neighbours) = End::open(rank, wired, timeout)?;
        end.only = only;
        end.clear();
        end.fence(&mut launch)?;
        step(&mut end, &mut launch, &neighbours, &mut found)?;
        found.limits = Some(end.limits.clone());
        found.neighbours = neighbours.iter().map(|peer| *peer as usize).collect();
    }
    Ok(found)
}

/// What is done with one endpoint.
type Step = fn(&mut End, &mut dyn Launch, &[u32], &mut Findings) -> Result<()>;

/// The checks that leave the wire as it is: along each edge of the graph, both ways; each rank puts to one and is put to by one at
/// a time.
fn lasting(end: &mut End, launch: &mut dyn Launch, _: &[u32], found: &mut Findings) -> Result<()> {
    let size = to_u32(launch.size())?;
    let graph = Circulant::new(size);
    let skips = (0..graph.q()).map(|k| graph.skip(k) % size).filter(|skip| *skip != 0);
    let mut ways: Vec<u32> = skips.flat_map(|skip| [skip, size - skip]).collect();
    ways.sort_unstable();
    ways.dedup();
    for way in ways {
        let ahead = (u64::from(end.rank) + u64::from(way)) % u64::from(size);
        let peer = to_u32(usize::try_from(ahead).unwrap_or(0))?;
        found.findings.extend(checks::all(end, peer));
        end.fence(launch)?;
        if let Some(why) = end.strays() {
            // From the rank that has put here just now.
            let behind = (u64::from(end.rank) + u64::from(size - way)) % u64::from(size);
            let pair = (to_u32(usize::try_from(behind).unwrap_or(0))?, end.rank);
            found.findings.push(Finding::new(Check::Words, pair, Err(why), Duration::ZERO));
            end.seen.others.clear();
        }
    }
    end.close(true)
}
