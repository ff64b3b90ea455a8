//! Which interfaces to open an endpoint on.

use super::library::{Info, Library, library};
use super::select::{Candidate, best, choose, look};
use super::{Fabric, Interfaces, Options};
use crate::error::{Error, ErrorKind, Result};
use crate::transport::random;
use libfabric_sys as fi;

/// The domain and the address of an interface.
type DomainAndAddress = (String, String);

fn domain_and_address(c: &Candidate) -> DomainAndAddress {
    (c.domain.clone(), c.address.clone())
}

impl Fabric {
    /// An endpoint on each of `interfaces`, at least one. Where keys are ours to choose, they choose the same.
    ///
    /// # Errors
    /// As [`Fabric::open`], and when there are no such interfaces, or not so many; the message says which there are.
    pub fn open_on(options: &Options<'_>, interfaces: &Interfaces) -> Result<Vec<Self>> {
        let lib = library(options)?;
        let (first, _) = choose(lib, options)?;
        let found = look(lib, options, true);
        let usable = |c: &Candidate| c.provider == first.provider && c.rejected.is_none();
        let mut found_at: Vec<DomainAndAddress> = Vec::new();
        let alike = found.iter().map(|(c, _)| c).filter(|c| usable(c) && c.score == first.score);
        let mut alike: Vec<&Candidate> = alike.collect();
        // In the agreed order, so that the first rail of all leads to the same network, and so on.
        alike.sort_by_key(|c| c.network.unwrap_or(usize::MAX));
        for interface in alike.into_iter().map(domain_and_address) {
            if !found_at.contains(&interface) {
                found_at.push(interface);
            }
        }
        let lacks = |what: String| {
            let there: Vec<String> = found.iter().map(|(c, _)| c).filter(|c| usable(c)).map(shown).collect();
            Error::new(ErrorKind::Config, format!("CIRCULANT_RAILS: {what}"))
                .over(first.provider.clone())
                .help(format!("it can be had on {}; circulant info tells more", there.join(", ")))
        };
        let wanted = match interfaces {
            Interfaces::Best => found_at.into_iter().take(1).collect(),
            Interfaces::Several(None) => found_at,
            Interfaces::Several(Some(n)) if *n > found_at.len() => {
                return Err(lacks(format!(
                    "{n} interfaces are wanted, and {} are as good as the best",
                    found_at.len()
                )));
            }
            Interfaces::Several(Some(n)) => found_at.into_iter().take(*n).collect(),
            Interfaces::Named(names) => {
                let mut wanted = Vec::new();
                for name in names {
                    let named = |c: &&Candidate| usable(c) && (c.domain == *name || c.address == *name);
                    let best = found.iter().map(|(c, _)| c).filter(named).max_by_key(|c| c.score);
                    wanted.push(domain_and_address(
                        best.ok_or_else(|| lacks(format!("there is no interface {name:?}")))?,
                    ));
                }
                wanted
            }
        };
        let seed = random();
        wanted.iter().map(|at| Self::open_at(lib, options, &first.provider, at, seed)).collect()
    }

    fn open_at(
        lib: &'static Library,
        options: &Options<'_>,
        provider: &str,
        at: &DomainAndAddress,
        seed: u64,
    ) -> Result<Self> {
        let mut found = look(lib, options, true);
        found.retain(|(c, _)| c.provider == provider && domain_and_address(c) == *at);
        let info: Option<Info> = best(&found).and_then(|i| found.swap_remove(i).1);
        let gone = || Error::new(ErrorKind::Transport, format!("interface {} is gone", at.0)).over(provider);
        let _preserved = fi::Preserved::take();
        Self::of(lib, info.ok_or_else(gone)?, options, seed).map_err(|e| e.over(provider))
    }
}

fn shown(c: &Candidate) -> String {
    if c.address.is_empty() { c.domain.clone() } else { format!("{} ({})", c.domain, c.address) }
}
