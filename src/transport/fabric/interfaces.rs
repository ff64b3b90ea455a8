//! Which interfaces to open an endpoint on.

use super::library::{Info, Library, library};
use super::select::{Candidate, best, choose, look};
use super::{Fabric, Options};
use crate::error::{Error, ErrorKind, Result};
use crate::transport::random;
use libfabric_sys as fi;

/// Which interfaces to take, all of the same provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interfaces {
    /// The best.
    Best,
    /// So many of those that are as good as the best; `None`: all of them.
    Several(Option<usize>),
    /// Those of these names (of domains, as libfabric has them, or addresses), also one several times.
    Named(Vec<String>),
}

impl std::str::FromStr for Interfaces {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        match (text.parse(), text) {
            (Ok(1), _) => Ok(Self::Best),
            (Ok(n), _) if n > 0 => Ok(Self::Several(Some(n))),
            (Err(_), "auto") => Ok(Self::Several(None)),
            (Err(_), _) if names.iter().all(|name| !name.is_empty()) => Ok(Self::Named(names)),
            _ => Err(Error::new(ErrorKind::Config, format!("CIRCULANT_RAILS: {text:?} names no interfaces"))
                .help("a number from 1, auto, or names with commas between, such as eth0,eth1")),
        }
    }
}

/// (domain, address)
type Place = (String, String);

fn place(c: &Candidate) -> Place {
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
        let mut places: Vec<Place> = Vec::new();
        let alike = found.iter().map(|(c, _)| c).filter(|c| usable(c) && c.score == first.score);
        let mut alike: Vec<&Candidate> = alike.collect();
        // In the agreed order, so that the first rail of all leads to the same network, and so on.
        alike.sort_by_key(|c| c.network.unwrap_or(usize::MAX));
        for place in alike.into_iter().map(place) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let lacks = |what: String| {
            let there: Vec<String> = found.iter().map(|(c, _)| c).filter(|c| usable(c)).map(shown).collect();
            Error::new(ErrorKind::Config, format!("CIRCULANT_RAILS: {what}"))
                .over(first.provider.clone())
                .help(format!("it can be had on {}; circulant info tells more", there.join(", ")))
        };
        let wanted = match interfaces {
            Interfaces::Best => places.into_iter().take(1).collect(),
            Interfaces::Several(None) => places,
            Interfaces::Several(Some(n)) if *n > places.len() => {
                return Err(lacks(format!(
                    "{n} interfaces are wanted, and {} are as good as the best",
                    places.len()
                )));
            }
            Interfaces::Several(Some(n)) => places.into_iter().take(*n).collect(),
            Interfaces::Named(names) => {
                let mut wanted = Vec::new();
                for name in names {
                    let named = |c: &&Candidate| usable(c) && (c.domain == *name || c.address == *name);
                    let best = found.iter().map(|(c, _)| c).filter(named).max_by_key(|c| c.score);
                    wanted.push(place(best.ok_or_else(|| lacks(format!("there is no interface {name:?}")))?));
                }
                wanted
            }
        };
        let seed = random();
        wanted.iter().map(|place| Self::open_at(lib, options, &first.provider, place, seed)).collect()
    }

    fn open_at(
        lib: &'static Library,
        options: &Options<'_>,
        provider: &str,
        at: &Place,
        seed: u64,
    ) -> Result<Self> {
        let mut found = look(lib, options, true);
        found.retain(|(c, _)| c.provider == provider && place(c) == *at);
        let info: Option<Info> = best(&found).and_then(|i| found.swap_remove(i).1);
        let gone = || Error::new(ErrorKind::Transport, format!("interface {} is gone", at.0)).over(provider);
        let _preserved = fi::Preserved::take();
        Self::of(lib, info.ok_or_else(gone)?, options, seed).map_err(|e| e.over(provider))
    }
}

fn shown(c: &Candidate) -> String {
    if c.address.is_empty() { c.domain.clone() } else { format!("{} ({})", c.domain, c.address) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_all() {
        let parsed = |text: &str| text.parse::<Interfaces>();
        assert_eq!(parsed("1").unwrap(), Interfaces::Best);
        assert_eq!(parsed("3").unwrap(), Interfaces::Several(Some(3)));
        assert_eq!(parsed("auto").unwrap(), Interfaces::Several(None));
        let names = ["eth0", "10.0.0.1"].map(str::to_owned).to_vec();
        assert_eq!(parsed("eth0, 10.0.0.1").unwrap(), Interfaces::Named(names));
        for wrong in ["0", "", "eth0,", ","] {
            assert!(parsed(wrong).unwrap_err().to_string().contains("CIRCULANT_RAILS"), "{wrong}");
        }
    }
}
