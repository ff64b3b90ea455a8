//! Which provider, and over which interface: every candidate with a printable score, or the reason why not.

use super::library::{Info, Library, Variable, library};
use super::network::{self, Interface, Networks};
use super::quirks::{ALIASES, Class, QUIRKS, Quirk, quirk};
use super::{MESSAGE_MAX, Options};
use crate::config;
use crate::error::{Error, ErrorKind, Result};
use libfabric_sys as fi;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// The memory registration modes we can live with.
const MR_MODES: u64 =
    fi::FI_MR_LOCAL | fi::FI_MR_VIRT_ADDR | fi::FI_MR_ALLOCATED | fi::FI_MR_PROV_KEY | fi::FI_MR_ENDPOINT;
/// What providers ask beside these of memory of devices.
const DEVICE_MR_MODES: u64 = MR_MODES | fi::FI_MR_HMEM;
/// What a provider may ask of each operation: some memory of ours in its context.
const MODES: u64 = fi::FI_CONTEXT | fi::FI_CONTEXT2;

const NOT_THERE: &str = "not in this library, or no device for it";

/// An endpoint that libfabric offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// libfabric's exact name of the provider.
    pub provider: String,
    /// The device or interface.
    pub domain: String,
    /// Its address, where it has one that people can read.
    pub address: String,
    /// Higher is better; of equals, libfabric's first.
    pub score: i32,
    /// Why it will not do; `None` when it will.
    pub rejected: Option<String>,
    /// Bytes of notify word that a put can carry.
    pub word: usize,
    /// The longest put.
    pub max_put: u64,
    /// Segments that a put can gather.
    pub gather: usize,
    /// Bytes copied when posted.
    pub inject: usize,
    /// It registers memory of devices, where that is asked for (FI_HMEM).
    pub device_memory: bool,
    /// The index of its network among those that ranks have agreed on.
    pub network: Option<usize>,
}

/// Everything there is to know about what could be chosen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Survey {
    /// libfabric's version, such as 1.17.
    pub version: String,
    /// The file it was loaded from.
    pub path: std::path::PathBuf,
    /// libfabric's variables that matter, as they were found.
    pub environment: Vec<Variable>,
    /// What libfabric offers, in the order of preference among providers.
    pub candidates: Vec<Candidate>,
    /// The index in `candidates` of the one that [`super::Fabric::open`] takes; `None` when none will do.
    pub chosen: Option<usize>,
}

/// What libfabric offers for `options`, and which of it [`super::Fabric::open`] would take.
///
/// # Errors
/// When libfabric cannot be loaded. That nothing can be chosen is no error here.
pub fn survey(options: &Options<'_>) -> Result<Survey> {
    let lib = library(options)?;
    let found = look(lib, options, false);
    Ok(Survey {
        version: lib.version(),
        path: lib.api.path().to_owned(),
        environment: lib.environment.clone(),
        chosen: best(&found),
        candidates: found.into_iter().map(|(c, _)| c).collect(),
    })
}

/// Whether there is such a provider. One that is in our own tables is not looked for; for all others libfabric is asked.
///
/// # Errors
/// When libfabric has none of that name, or cannot be loaded.
pub fn check(options: &Options<'_>) -> Result<()> {
    let provider = options.provider;
    let ours = ["auto", "shm"].into_iter().chain(ALIASES.iter().map(|(name, _)| *name));
    if ours.chain(QUIRKS.iter().map(|q| q.provider)).any(|name| name == provider) {
        return Ok(());
    }
    choose(library(options)?, options).map(drop)
}

/// The endpoint to open.
pub(super) fn choose(lib: &'static Library, options: &Options<'_>) -> Result<(Candidate, Info)> {
    let mut found = look(lib, options, true);
    if let Some((candidate, Some(info))) = best(&found).map(|i| found.swap_remove(i)) {
        return Ok((candidate, info));
    }
    let mut why: Vec<String> = Vec::new();
    for (c, _) in &found {
        let line = format!("{}: {}", c.provider.escape_debug(), c.rejected.as_deref().unwrap_or("?"));
        if !why.contains(&line) {
            why.push(line);
        }
    }
    let there = available(lib);
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "no usable provider for {:?} in libfabric {} ({})",
            options.provider,
            lib.version(),
            why.join("; ")
        ),
    )
    .help(format!(
        "here there are {}; besides their exact names there are auto, shm (our own), {}",
        if there.is_empty() { "none".to_owned() } else { there.join(", ") },
        ALIASES.iter().map(|(name, _)| *name).chain(["sockets"]).collect::<Vec<_>>().join(", ")
    )))
}

pub(super) fn best(found: &[(Candidate, Option<Info>)]) -> Option<usize> {
    // The first of the highest: max_by_key would give the last.
    (0..found.len())
        .filter(|&i| found[i].0.rejected.is_none() && found[i].1.is_some())
        .min_by_key(|&i| (-found[i].0.score, found[i].0.network.unwrap_or(usize::MAX)))
}

/// The exact names that `provider` stands for, best first.
fn names(provider: &str) -> Vec<&str> {
    if provider == "auto" {
        return QUIRKS.iter().filter(|q| q.class != Class::OnRequest).map(|q| q.provider).collect();
    }
    match ALIASES.iter().find(|(name, _)| *name == provider) {
        Some((_, means)) => means.to_vec(),
        None => vec![provider],
    }
}

/// Asks libfabric for each provider that `options` allow; with `enough`, stops at the first that will do.
pub(super) fn look(
    lib: &'static Library,
    options: &Options<'_>,
    enough: bool,
) -> Vec<(Candidate, Option<Info>)> {
    let mut found = Vec::new();
    let interfaces = network::interfaces();
    for (rank, name) in names(options.provider).into_iter().enumerate() {
        let quirk = quirk(name);
        let base = score(quirk.class) - i32::try_from(rank).unwrap_or(i32::MAX / 2);
        let before = found.len();
        let mut why = NOT_THERE.to_owned();
        // People are told also where it is not asked for.
        let device_memory =
            !enough && ask(lib, name, &quirk, &Options { device_memory: true, ..*options }).is_ok();
        match ask(lib, name, &quirk, options) {
            Ok(infos) => {
                for info in infos {
                    let mut c = describe(&info, base);
                    c.device_memory |= device_memory;
                    c.rejected = objection(&c, &info, &quirk, options);
                    if let Some(ip) = ip(info.get()) {
                        place_in(&mut c, ip, options, &quirk, &interfaces);
                    }
                    // Asked for tcp, 1.17 offers tcp;ofi_rxm; and one endpoint comes in several flavours.
                    if c.provider == name && !found[before..].iter().any(|(other, _)| *other == c) {
                        found.push((c, Some(info)));
                    }
                }
            }
            Err(e) => why = e,
        }
        if found.len() == before {
            found.push((absent(name, base, why), None));
        }
        if enough && best(&found).is_some() {
            break;
        }
    }
    found
}

fn score(class: Class) -> i32 {
    match class {
        Class::Rdma => 400,
        Class::SharedMemory => 300,
        Class::Tcp => 200,
        Class::OnRequest => 100,
    }
}

/// The user pinned this provider to an interface.
fn pinned(quirk: &Quirk) -> bool {
    quirk.interface.is_some_and(|v| std::env::var_os(v).is_some_and(|v| !v.is_empty()))
}

/// The variable has one of the values that libfabric takes for yes.
fn on(variable: &str) -> bool {
    let value = std::env::var(variable).unwrap_or_default().to_lowercase();
    matches!(value.as_str(), "1" | "yes" | "true" | "on")
}

/// One fi_getinfo for one provider: its endpoints, or why there are none.
fn ask(lib: &'static Library, name: &str, quirk: &Quirk, options: &Options<'_>) -> Result<Vec<Info>, String> {
    let name = CString::new(name).map_err(|_| "its name has a NUL in it".to_owned())?;
    let loopback = options.all_on_one_node && quirk.interface.is_some() && !pinned(quirk);
    let (node, flags) = if loopback { (Some(c"127.0.0.1"), fi::FI_SOURCE) } else { (None, 0) };
    list(lib, Some(&name), node, flags, options.device_memory)
}

/// fi_getinfo with our hints.
fn list(
    lib: &'static Library,
    provider: Option<&CStr>,
    node: Option<&CStr>,
    flags: u64,
    device_memory: bool,
) -> Result<Vec<Info>, String> {
    let (caps, modes) = if device_memory { (fi::FI_HMEM, fi::FI_MR_HMEM) } else { (0, 0) };
    // SAFETY: fresh from the library, and ours alone.
    let hints = unsafe { Info::own(lib.api.allocinfo(), lib.api) }.ok_or("no memory")?;
    // SAFETY: fi_allocinfo gives an entry with all attributes present and zero, which only `hints` owns. The
    // provider's name is allocated by malloc, as fi_freeinfo, which frees it, expects.
    unsafe {
        let h = &mut *hints.as_ptr();
        h.caps = fi::FI_MSG | fi::FI_RMA | caps;
        h.mode = MODES;
        (*h.ep_attr).type_ = fi::FI_EP_RDM;
        (*h.domain_attr).mr_mode = i32::try_from(MR_MODES | modes).unwrap_or(0);
        (*h.domain_attr).threading = fi::FI_THREAD_DOMAIN;
        (*h.domain_attr).cq_data_size = size_of::<u32>();
        if let Some(name) = provider {
            (*h.fabric_attr).prov_name = libc::strdup(name.as_ptr());
        }
    }
    let mut first = std::ptr::null_mut();
    // SAFETY: the hints were made above by this library; `first` can be written.
    let code = unsafe { lib.api.getinfo(node, flags, hints.as_ptr(), &mut first) };
    if code == -fi::FI_ENODATA && device_memory {
        return Err("not in this library, no device for it, or it registers host memory only".to_owned());
    }
    if code == -fi::FI_ENODATA {
        return Err(NOT_THERE.to_owned());
    }
    if code != 0 {
        return Err(lib.api.strerror(code.into()));
    }
    let mut out = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: `at` walks the list that fi_getinfo just gave us; the copy is ours alone.
        unsafe {
            out.extend(Info::own(lib.api.dupinfo(at), lib.api));
            at = (*at).next;
        }
    }
    // SAFETY: the list is ours, and the copies do not point into it.
    unsafe { lib.api.freeinfo(first) };
    Ok(out)
}

/// Why `info` will not do.
fn objection(c: &Candidate, info: &Info, quirk: &Quirk, options: &Options<'_>) -> Option<String> {
    let info = info.get();
    if quirk.class == Class::SharedMemory && !options.all_on_one_node {
        return Some("carries only ranks of one node".into());
    }
    if let Some(variable) = quirk.refuses.filter(|v| on(v)) {
        return Some(format!("with {variable} set it loses arrivals: unset that"));
    }
    if c.word < size_of::<u32>() {
        return Some(format!("its puts carry {} bytes of notify word, needed are 4", c.word));
    }
    if info.mode & !MODES != 0 {
        return Some(format!("wants modes {:#x} that we do not know", info.mode & !MODES));
    }
    // SAFETY: fi_getinfo's entries have all their attributes.
    let mr_mode = u64::from(unsafe { (*info.domain_attr).mr_mode }.cast_unsigned());
    let known = if options.device_memory { DEVICE_MR_MODES } else { MR_MODES };
    if mr_mode & !known != 0 {
        return Some(format!("wants registration modes {:#x} that we do not know", mr_mode & !known));
    }
    if c.max_put < MESSAGE_MAX as u64 {
        return Some(format!("messages of at most {} bytes are too short", c.max_put));
    }
    None
}

/// Judges the address of a candidate by the networks of this node and of all.
fn place_in(c: &mut Candidate, ip: IpAddr, options: &Options<'_>, quirk: &Quirk, interfaces: &[Interface]) {
    let Options { networks, all_on_one_node, .. } = options;
    let alone = *all_on_one_node || options.size <= 1 || networks.near && ip.is_loopback() || pinned(quirk);
    c.network = networks.place(ip).filter(|_| !all_on_one_node);
    if c.network.is_some() {
        c.score += IN_NETWORK;
    }
    let known = interfaces.iter().find(|i| i.ip == ip);
    let objection = match known.and_then(|i| i.objection) {
        Some(why) if !alone => Some(why),
        None if networks.only_v6 && ip.is_ipv4() && !alone => Some("some other node has no IPv4 address"),
        // Nothing finds it, pinned or not.
        Some(why) if matches!(ip, IpAddr::V6(a) if a.is_unicast_link_local()) => Some(why),
        _ => None,
    };
    c.rejected = c.rejected.take().or(objection.map(str::to_owned));
}

/// What being in a network that ranks have agreed on is worth, in points of a candidate's score. Chosen.
const IN_NETWORK: i32 = 10;

fn describe(info: &Info, base: i32) -> Candidate {
    let i = info.get();
    let ip = ip(i);
    // SAFETY: fi_getinfo's entries have all their attributes; names are null or C strings.
    unsafe {
        Candidate {
            provider: text((*i.fabric_attr).prov_name),
            domain: text((*i.domain_attr).name),
            address: match ip {
                Some(ip) => ip.to_string(),
                None if i.addr_format == fi::FI_ADDR_STR => text(i.src_addr.cast()),
                None => String::new(),
            },
            // The other family is the second choice: rarely set up on all nodes.
            score: base - if matches!(ip, Some(IpAddr::V6(_))) { 50 } else { 0 },
            rejected: None,
            word: (*i.domain_attr).cq_data_size,
            max_put: (*i.ep_attr).max_msg_size as u64,
            gather: (*i.tx_attr).iov_limit,
            inject: (*i.tx_attr).inject_size,
            device_memory: i.caps & fi::FI_HMEM != 0,
            network: None,
        }
    }
}

pub(super) fn absent(name: &str, score: i32, why: String) -> Candidate {
    Candidate {
        provider: name.to_owned(),
        domain: String::new(),
        address: String::new(),
        score,
        rejected: Some(why),
        word: 0,
        max_put: 0,
        gather: 0,
        inject: 0,
        device_memory: false,
        network: None,
    }
}

/// The IP address that `info` binds to, if it is one.
fn ip(info: &fi::fi_info) -> Option<IpAddr> {
    let p = info.src_addr.cast::<u8>();
    if p.is_null() || info.src_addrlen < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: a source address has src_addrlen bytes, which is enough for each read after its check;
    // the family stands first in every socket address. Unaligned reads ask for no alignment.
    unsafe {
        match i32::from(p.cast::<libc::sa_family_t>().read_unaligned()) {
            _ if info.addr_format == fi::FI_ADDR_STR => None,
            libc::AF_INET => {
                let a = p.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 if info.src_addrlen >= size_of::<libc::sockaddr_in6>() => {
                let a = p.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(a.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

/// A copy of a C string, empty for null.
///
/// # Safety
/// `p` is null or a C string.
unsafe fn text(p: *const c_char) -> String {
    if p.is_null() {
        return String::new();
    }
    // SAFETY: not null, so a C string.
    unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
}

/// The names of all providers that offer anything for our hints.
fn available(lib: &'static Library) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let asked = QUIRKS.iter().filter_map(|q| CString::new(q.provider).ok()).map(Some).chain([None]);
    for info in asked.flat_map(|name| list(lib, name.as_deref(), None, 0, false).unwrap_or_default()) {
        let name = describe(&info, 0).provider;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Default for Options<'_> {
    fn default() -> Self {
        static UNKNOWN: LazyLock<Networks> = LazyLock::new(Networks::default);
        static USUAL: LazyLock<config::Library> =
            LazyLock::new(|| config::Config::defaults().libfabric.clone());
        Self {
            provider: "auto",
            all_on_one_node: false,
            networks: &UNKNOWN,
            ports: None,
            sources: &config::Sources::All,
            size: 1,
            wait: None,
            survives: false,
            device_memory: false,
            secret: None,
            log: config::Logging::default(),
            libfabric: &USUAL,
        }
    }
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "libfabric {} from {}", self.version, self.path.display())?;
        for v in &self.environment {
            writeln!(f, "  {v}")?;
        }
        for (i, c) in self.candidates.iter().enumerate() {
            let mark = if self.chosen == Some(i) { '*' } else { ' ' };
            writeln!(f, "{mark} {c}")?;
        }
        match self.chosen {
            Some(_) => Ok(()),
            None => writeln!(f, "  none of these will do"),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<14} {:>4}  {:<10} {:<24}", self.provider, self.score, self.domain, self.address)?;
        match &self.rejected {
            Some(why) => write!(f, " no: {why}"),
            None => {
                write!(f, " word {} B, gather {}, inject {} B, ", self.word, self.gather, self.inject)?;
                match self.max_put {
                    n if n >= 1 << 62 => write!(f, "puts of any length"),
                    n => write!(f, "puts to {n} B"),
                }
            }
        }
    }
}
