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
        let usable = usable(found.iter().map(|(c, _)| c), &first.provider);
        let mut found_at: Vec<DomainAndAddress> = Vec::new();
        let mut alike: Vec<&Candidate> = usable.iter().copied().filter(|c| c.score == first.score).collect();
        // In the agreed order, so that the first rail of all leads to the same network, and so on.
        alike.sort_by_key(|c| c.network.unwrap_or(usize::MAX));
        for interface in alike.into_iter().map(domain_and_address) {
            if !found_at.contains(&interface) {
                found_at.push(interface);
            }
        }
        let lacks = |what: String| {
            let there: Vec<String> = usable.iter().copied().map(shown).collect();
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
                    let named = |c: &&Candidate| c.domain == *name || c.address == *name;
                    // The first of the best.
                    let best = usable.iter().copied().filter(named).min_by_key(|c| -c.score);
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

/// The candidates of a provider that will do. One without an address, where its device has others that have one, is no interface of
/// its own: verbs;ofi_rxm lists each device once more without, and opens no domain there (`No data available`).
fn usable<'a>(found: impl Iterator<Item = &'a Candidate>, provider: &str) -> Vec<&'a Candidate> {
    let all: Vec<_> = found.filter(|c| c.provider == provider && c.rejected.is_none()).collect();
    let addressed = |domain: &str| all.iter().any(|c| c.domain == domain && !c.address.is_empty());
    all.iter().copied().filter(|c| !c.address.is_empty() || !addressed(&c.domain)).collect()
}

fn shown(c: &Candidate) -> String {
    if c.address.is_empty() { c.domain.clone() } else { format!("{} ({})", c.domain, c.address) }
}

#[cfg(test)]
mod tests {
    use super::super::select::absent;
    use super::*;

    #[test]
    fn a_device_without_an_address_is_no_second_interface() {
        let at = |domain: &str, address: &str| Candidate {
            domain: domain.to_owned(),
            address: address.to_owned(),
            rejected: None,
            ..absent("verbs;ofi_rxm", 400, String::new())
        };
        let found = [
            at("rxe0", "10.77.0.1"),
            Candidate { rejected: Some("link-local".to_owned()), ..at("rxe0", "fe80::1") },
            at("rxe0", ""),
            at("rxe1", "10.77.1.1"),
            at("rxe1", ""),
            Candidate { provider: "tcp".to_owned(), ..at("eth0", "10.0.0.1") },
        ];
        let names =
            |provider: &str| usable(found.iter(), provider).into_iter().map(shown).collect::<Vec<_>>();
        assert_eq!(names("verbs;ofi_rxm"), ["rxe0 (10.77.0.1)", "rxe1 (10.77.1.1)"]);
        // Where there are no addresses at all, as with psm3, devices are what there is.
        let bare = [at("mlx5_0", ""), at("mlx5_1", "")];
        assert_eq!(usable(bare.iter(), "verbs;ofi_rxm").len(), 2);
    }
}
