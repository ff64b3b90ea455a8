//! Where ranks go, and what agents are told about it.

use crate::hosts::{self, Host};
use crate::options::{Options, Starter};
use crate::setup::{Map, Setup, Site};
use circulant::error::Result;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A longer mapping than this is not told: MPI libraries take values up to 1023 characters.
const MAPPING_MAX: usize = 1000;

/// Where each rank runs: what all must know, with our own site, and the other sites.
pub(super) fn plan(options: &Options) -> Result<(Setup, Vec<Site>)> {
    let size = options.apps.iter().map(|a| a.ranks).sum();
    let ourselves = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let alone = [Host { name: ourselves.clone(), slots: None }];
    let (listed, alone) = match options.hosts.is_empty() {
        true => (&alone[..], true),
        false => (&options.hosts[..], false),
    };
    let places = match options.map {
        Map::Node => hosts::place_in_turns(listed, size, options.each),
        Map::Slot | Map::Core | Map::Socket | Map::Numa => hosts::place(listed, size, options.each),
    };
    let mut sites: Vec<Site> = Vec::new();
    let mut index = vec![None; listed.len()];
    let mut nodes = Vec::with_capacity(size);
    for (rank, &place) in places.iter().enumerate() {
        let site = *index[place].get_or_insert_with(|| {
            sites.push(Site { index: sites.len(), name: listed[place].name.clone(), ranks: Vec::new() });
            sites.len() - 1
        });
        sites[site].ranks.push(rank);
        nodes.push(site);
    }
    let ours = sites.iter().position(|s| alone || options.starter.is_here(&s.name, &ourselves));
    let here = match ours {
        Some(at) => sites.remove(at),
        None => Site { index: sites.len(), name: ourselves, ranks: Vec::new() },
    };
    let (secret, name): ([u8; 16], [u8; 8]) = (random()?, random()?);
    let mapping = hosts::mapping(&nodes);
    let mut setup = Setup {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        secret: secret.to_vec(),
        name: format!("circulant-{}-{:016x}", std::process::id(), u64::from_le_bytes(name)),
        size,
        mapping: if mapping.len() <= MAPPING_MAX { mapping } else { String::new() },
        environment: options.environment.clone(),
        apps: options.apps.clone(),
        sites: vec![here],
        starter: Vec::new(),
        agent: OsString::new(),
        fanout: options.fanout.max(1),
        start_timeout: usize::try_from(options.start_timeout.as_millis()).unwrap_or(usize::MAX),
        bind: options.bind,
        map: options.map,
        input: options.input,
        lines: options.label || size > 1,
        fold: !(options.label || options.all_errors),
    };
    if !sites.is_empty() {
        prepare(&mut setup, options)?;
    }
    Ok((setup, sites))
}

/// Random bytes, a few.
fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // So few are never cut short.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}

/// What only other hosts need to be told.
fn prepare(setup: &mut Setup, options: &Options) -> Result<()> {
    let own = std::env::current_exe()?;
    setup.starter = options.starter.command();
    setup.agent = match options.starter {
        Starter::Srun => own.into_os_string(),
        Starter::Ssh | Starter::Exec(_) => quoted(own.as_os_str()),
    };
    let folder = std::env::current_dir()?;
    for app in &mut setup.apps {
        app.folder.get_or_insert_with(|| folder.clone());
    }
    let ours = std::env::vars_os().filter(|(name, _)| travels(name));
    setup.environment = ours.chain(setup.environment.drain(..)).collect();
    Ok(())
}

/// Whether a variable means the same on another host.
fn travels(name: &OsStr) -> bool {
    const STAY: &[&str] = &[
        "HOSTNAME",
        "HOST",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "DISPLAY",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "XDG_SESSION_ID",
        "DBUS_SESSION_BUS_ADDRESS",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "PALS_RANKID",
    ];
    let name = name.to_string_lossy();
    let of_others = ["PMI_", "PMIX_", "SLURM", "SSH_", "HYD", "OMPI_COMM_WORLD", "CIRCULANT_SIDE"];
    !STAY.contains(&&*name) && !of_others.iter().any(|o| name.starts_with(o))
}

/// A word for a shell.
fn quoted(word: &OsStr) -> OsString {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+:,@%=".contains(b);
    if word.as_bytes().iter().all(plain) {
        return word.to_owned();
    }
    let mut out = vec![b'\''];
    for &b in word.as_bytes() {
        match b {
            b'\'' => out.extend_from_slice(b"'\\''"),
            b => out.push(b),
        }
    }
    out.push(b'\'');
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        assert_eq!(quoted(OsStr::new("/usr/bin/x-1")), "/usr/bin/x-1");
        assert_eq!(quoted(OsStr::new("/a b/it's")), "'/a b/it'\\''s'");
    }

    #[test]
    fn what_travels() {
        assert!(
            ["HOME", "PATH", "CIRCULANT_PROVIDER", "OMP_NUM_THREADS"].iter().all(|n| travels(OsStr::new(n)))
        );
        assert!(
            !["PMI_FD", "SLURM_PROCID", "HOSTNAME", "SSH_AUTH_SOCK"].iter().any(|n| travels(OsStr::new(n)))
        );
    }
}
