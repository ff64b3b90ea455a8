//! Which address a rank listens on, so that all others reach it. A rank says where it runs and which addresses it has
//! ([`Here`]); rank 0 looks at what all have said and names the networks to take ([`Networks`]). An endpoint has one
//! address, so this must be agreed: two ranks that each take the network that they find best may not reach each other.

use crate::hash::digest;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most addresses of a rank that are published. Chosen, to bound what a rank reads of p others at start-up.
const MAX_ADDRESSES: usize = 16;

/// An address of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// Such as eth0.
    pub name: String,
    /// Its address.
    pub ip: IpAddr,
    /// Bits of the address that name the network.
    pub prefix: u8,
    /// In Mbit/s; 0 where the driver does not say.
    pub speed: u32,
    /// The way to everywhere else begins here.
    pub default: bool,
    /// Why other nodes cannot be expected to reach it; `None`: they may.
    pub objection: Option<&'static str>,
}

/// A network: the address of it, and its length in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subnet(IpAddr, u8);

impl Subnet {
    /// That of an address.
    pub fn of(ip: IpAddr, prefix: u8) -> Self {
        match ip {
            IpAddr::V4(a) => {
                let p = prefix.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(p)).unwrap_or(0);
                Self(Ipv4Addr::from(u32::from(a) & mask).into(), p)
            }
            IpAddr::V6(a) => {
                let p = prefix.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(p)).unwrap_or(0);
                Self(Ipv6Addr::from(u128::from(a) & mask).into(), p)
            }
        }
    }

    /// Whether the address belongs to it.
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.0.is_ipv4() && Self::of(ip, self.1) == *self
    }
}

impl std::fmt::Display for Subnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Published {
    ip: IpAddr,
    prefix: u8,
    speed: u32,
    default: bool,
}

/// Where a rank runs, as it tells the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Here {
    /// Machine and space of process numbers.
    pub host: u64,
    /// Machine and space of networks: those of equal ones share the loopback interface.
    pub space: u64,
    /// The kind of link of an active port of RDMA hardware; 0: there is none, or not all that it needs.
    pub rdma: u8,
    addresses: Vec<Published>,
}

impl Here {
    /// This process; `host` is what tells its node from others.
    pub fn look(host: u64) -> Self {
        let usable = interfaces().into_iter().filter(|i| i.objection.is_none());
        let published =
            usable.map(|i| Published { ip: i.ip, prefix: i.prefix, speed: i.speed, default: i.default });
        Self { host, space: space(), rdma: 0, addresses: published.take(MAX_ADDRESSES).collect() }
    }

    /// To publish.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(17 + self.addresses.len() * 22);
        out.extend(self.host.to_le_bytes());
        out.extend(self.space.to_le_bytes());
        out.push(self.rdma);
        for a in &self.addresses {
            out.push(if a.ip.is_ipv4() { 4 } else { 6 } | u8::from(a.default) << 7);
            out.push(a.prefix);
            out.extend(a.speed.to_le_bytes());
            extend(&mut out, a.ip);
        }
        out
    }

    /// The inverse of [`Here::encode`]; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (host, rest) = bytes.split_first_chunk::<8>()?;
        let (space, rest) = rest.split_first_chunk::<8>()?;
        let (rdma, mut rest) = rest.split_first()?;
        let mut addresses = Vec::new();
        while let Some(([kind, prefix], more)) = rest.split_first_chunk::<2>() {
            let (speed, more) = more.split_first_chunk::<4>()?;
            let (ip, more) = address(kind & 0x7F, more)?;
            let (speed, default) = (u32::from_le_bytes(*speed), kind & 0x80 != 0);
            addresses.push(Published { ip, prefix: *prefix, speed, default });
            rest = more;
        }
        let whole = rest.is_empty() && addresses.len() <= MAX_ADDRESSES;
        let (host, space) = (u64::from_le_bytes(*host), u64::from_le_bytes(*space));
        whole.then_some(Self { host, space, rdma: *rdma, addresses })
    }
}

fn extend(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(a) => out.extend(a.octets()),
        IpAddr::V6(a) => out.extend(a.octets()),
    }
}

fn address(kind: u8, bytes: &[u8]) -> Option<(IpAddr, &[u8])> {
    match kind {
        4 => bytes.split_first_chunk::<4>().map(|(a, rest)| (IpAddr::from(*a), rest)),
        6 => bytes.split_first_chunk::<16>().map(|(a, rest)| (IpAddr::from(*a), rest)),
        _ => None,
    }
}

/// The networks that a job takes, the best first. Empty: nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// All ranks share one space of networks, and with it the loopback interface.
    pub near: bool,
    /// Some node has no IPv4 address, and all have an IPv6 one.
    pub only_v6: bool,
    /// All ranks have an active port of RDMA hardware, all on the same kind of link, and what it needs.
    pub rdma: bool,
    subnets: Vec<Subnet>,
}

impl Networks {
    /// What follows from where all ranks are: networks that reach all nodes, else those that reach most.
    pub fn agree(all: &[Here]) -> Self {
        let mut seen = HashSet::new();
        let nodes: Vec<&Here> = all.iter().filter(|h| seen.insert(h.space)).collect();
        // An address that two nodes have leads to neither: bridges of containers and virtual machines.
        let mut holders: HashMap<IpAddr, usize> = HashMap::new();
        for a in nodes.iter().flat_map(|h| &h.addresses) {
            *holders.entry(a.ip).or_default() += 1;
        }
        let own = |h: &Here, v4: bool| -> Vec<Published> {
            h.addresses.iter().filter(|a| a.ip.is_ipv4() == v4 && holders[&a.ip] == 1).copied().collect()
        };
        let everywhere = |v4| nodes.iter().all(|h| !own(h, v4).is_empty());
        let only_v6 = !everywhere(true) && everywhere(false);
        let mut found: Vec<(Subnet, usize, usize, u32)> = Vec::new();
        for h in &nodes {
            let mut counted = HashSet::new();
            for a in own(h, !only_v6) {
                let subnet = Subnet::of(a.ip, a.prefix);
                if !counted.insert(subnet) {
                    continue;
                }
                match found.iter_mut().find(|f| f.0 == subnet) {
                    Some(f) => *f = (subnet, f.1 + 1, f.2 + usize::from(a.default), f.3.min(a.speed)),
                    None => found.push((subnet, 1, usize::from(a.default), a.speed)),
                }
            }
        }
        // Of equals the one that stands first at rank 0: the sort is stable.
        found.sort_by_key(|&(_, nodes, default, speed)| std::cmp::Reverse((nodes, speed, default)));
        let most = found.first().map_or(0, |f| f.1);
        let whole = most == nodes.len();
        let kept = found.iter().filter(|f| if whole { f.1 == most } else { f.1 > 1 });
        let rdma = all.first().is_some_and(|h| h.rdma != 0 && all.iter().all(|o| o.rdma == h.rdma));
        Self {
            near: nodes.len() <= 1,
            only_v6,
            rdma,
            subnets: kept.map(|f| f.0).take(MAX_ADDRESSES).collect(),
        }
    }

    /// The index of the network that `ip` belongs to.
    pub fn place(&self, ip: IpAddr) -> Option<usize> {
        self.subnets.iter().position(|s| s.contains(ip))
    }

    /// The networks, the best first.
    pub fn subnets(&self) -> &[Subnet] {
        &self.subnets
    }

    /// To publish.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.near) | u8::from(self.only_v6) << 1 | u8::from(self.rdma) << 2];
        for Subnet(ip, prefix) in &self.subnets {
            out.extend([if ip.is_ipv4() { 4 } else { 6 }, *prefix]);
            extend(&mut out, *ip);
        }
        out
    }

    /// The inverse of [`Networks::encode`]; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (flags, mut rest) = bytes.split_first()?;
        let mut subnets = Vec::new();
        while let Some(([kind, prefix], more)) = rest.split_first_chunk::<2>() {
            let (ip, more) = address(*kind, more)?;
            subnets.push(Subnet::of(ip, *prefix));
            rest = more;
        }
        let whole = rest.is_empty() && *flags < 8;
        let (near, only_v6, rdma) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        whole.then_some(Self { near, only_v6, rdma, subnets })
    }
}

/// What tells this space of networks from others.
fn space() -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let text = format!("{boot}{}", space.display());
    digest(text.as_bytes())
}

/// All addresses of this node, in the kernel's order.
pub fn interfaces() -> Vec<Interface> {
    let defaults = defaults();
    raw()
        .into_iter()
        .map(|(name, ip, prefix, flags)| Interface {
            speed: speed(&name),
            default: defaults.contains(&name),
            objection: objection(&name, ip, flags),
            name,
            ip,
            prefix,
        })
        .collect()
}

/// Why other nodes cannot be expected to reach this address.
fn objection(name: &str, ip: IpAddr, flags: u32) -> Option<&'static str> {
    let has = |flag: i32| flags & flag.cast_unsigned() != 0;
    let link_local = match ip {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    };
    match () {
        () if !has(libc::IFF_UP) => Some("its interface is down"),
        () if ip.is_loopback() || has(libc::IFF_LOOPBACK) => {
            Some("the loopback interface reaches no other node")
        }
        () if !has(libc::IFF_RUNNING) => Some("its interface has no link"),
        () if link_local => Some("a link-local address is not enough to find it"),
        () if ip.is_unspecified() || ip.is_multicast() => Some("it is no address of a node"),
        () if is_inner(name) => Some("it is a bridge to containers or virtual machines of this node"),
        () => None,
    }
}

/// Names of bridges and pairs whose other end is on this node.
fn is_inner(name: &str) -> bool {
    const INNER: [&str; 8] = ["docker", "virbr", "veth", "podman", "cni", "lxcbr", "lxdbr", "cali"];
    let hex = |rest: &str| rest.len() == 12 && rest.bytes().all(|b| b.is_ascii_hexdigit());
    INNER.iter().any(|i| name.starts_with(i)) || name.strip_prefix("br-").is_some_and(hex)
}

fn speed(name: &str) -> u32 {
    // Reading it fails, or gives -1, where there is none.
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Interfaces of default routes.
fn defaults() -> HashSet<String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut found = HashSet::new();
    for line in read("/proc/net/route").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name, "00000000", _, ..] = words[..] {
            found.insert(name.to_owned());
        }
    }
    for line in read("/proc/net/ipv6_route").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let everywhere = words.first().is_some_and(|w| w.bytes().all(|b| b == b'0'));
        if everywhere && words.get(1) == Some(&"00") {
            found.extend(words.last().filter(|n| **n != "lo").map(|n| (*n).to_owned()));
        }
    }
    found
}

/// Name, address, length of the network, flags.
fn raw() -> Vec<(String, IpAddr, u8, u32)> {
    let mut first = std::ptr::null_mut();
    // SAFETY: `first` can be written; on success it is a list that only we have, until freeifaddrs.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: `at` walks that list; names are C strings; addresses are null or socket addresses as long as their
        // family says, which `socket_ip` asks first.
        unsafe {
            let name = std::ffi::CStr::from_ptr((*at).ifa_name).to_string_lossy().into_owned();
            if let Some(ip) = socket_ip((*at).ifa_addr) {
                let ones = |ip: IpAddr| match ip {
                    IpAddr::V4(a) => u32::from(a).leading_ones(),
                    IpAddr::V6(a) => u128::from(a).leading_ones(),
                };
                let most = if ip.is_ipv4() { 32 } else { 128 };
                let prefix = socket_ip((*at).ifa_netmask).map_or(most, ones);
                found.push((name, ip, u8::try_from(prefix).unwrap_or(128), (*at).ifa_flags));
            }
            at = (*at).ifa_next;
        }
    }
    // SAFETY: the list of getifaddrs above; nothing of it is kept.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// # Safety
/// `p` is null or a socket address as long as its family says.
unsafe fn socket_ip(p: *const libc::sockaddr) -> Option<IpAddr> {
    if p.is_null() {
        return None;
    }
    // SAFETY: not null; the family says how long it is. Unaligned reads ask for no alignment.
    unsafe {
        match i32::from(std::ptr::addr_of!((*p).sa_family).read_unaligned()) {
            libc::AF_INET => {
                let a = p.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let a = p.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(a.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn here(space: u64, addresses: &[&str]) -> Here {
        let published = |text: &&str| {
            let (ip, prefix) = text.split_once('/').unwrap();
            Published { ip: ip.parse().unwrap(), prefix: prefix.parse().unwrap(), speed: 0, default: false }
        };
        Here { host: space, space, rdma: 0, addresses: addresses.iter().map(published).collect() }
    }

    #[test]
    fn rdma_is_agreed_where_all_ranks_have_it_on_one_kind_of_link() {
        let agreed = |links: &[u8]| {
            let all: Vec<_> = links.iter().map(|rdma| Here { rdma: *rdma, ..Here::default() }).collect();
            assert_eq!(all.first().and_then(|h| Here::decode(&h.encode())), all.first().cloned());
            let n = Networks::agree(&all);
            assert_eq!(Networks::decode(&n.encode()).as_ref(), Some(&n));
            n.rdma
        };
        assert_eq!(
            [agreed(&[2, 2]), agreed(&[2, 0]), agreed(&[0, 2]), agreed(&[1, 2])],
            [true, false, false, false]
        );
        assert!(!agreed(&[0, 0]) && !agreed(&[]));
    }

    fn agreed(all: &[Here]) -> (bool, bool, Vec<String>) {
        let n = Networks::agree(all);
        assert_eq!(Networks::decode(&n.encode()).as_ref(), Some(&n));
        (n.near, n.only_v6, n.subnets.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_network_of_all_is_taken() {
        let private = "172.17.0.1/16"; // the same on each node, as docker0
        let a = here(1, &["192.168.9.1/24", private, "10.0.0.1/16"]);
        let b = here(2, &["10.0.0.2/16", private]);
        let c = here(3, &["192.168.9.3/24", "10.0.3.3/16"]);
        let all = [a.clone(), a.clone(), b.clone(), c.clone()];
        assert_eq!(agreed(&all), (false, false, vec!["10.0.0.0/16".into()]));
        // Two that reach all: in rank 0's order, as rails want them.
        assert_eq!(agreed(&[a.clone(), c]).2, ["192.168.9.0/24", "10.0.0.0/16"]);
        assert!(agreed(&[a.clone(), a]).0);
        // Routed networks: none reaches all, and one on one node alone says nothing.
        let d = here(4, &["10.1.0.4/24"]);
        assert_eq!(agreed(&[b, d]).2, Vec::<String>::new());
        assert_eq!(agreed(&[]), (true, false, vec![]));
    }

    #[test]
    fn a_node_without_ipv4_decides_the_family() {
        let a = here(1, &["10.0.0.1/16", "fd00::1/64"]);
        let b = here(2, &["fd00::2/64"]);
        assert_eq!(agreed(&[a.clone(), b]), (false, true, vec!["fd00::/64".into()]));
        assert_eq!(agreed(&[a, here(3, &["10.0.0.3/16"])]), (false, false, vec!["10.0.0.0/16".into()]));
    }

    #[test]
    fn faster_comes_first() {
        let fast = |mut h: Here| {
            h.addresses[1].speed = 100_000;
            h
        };
        let (a, b) = (here(1, &["10.0.0.1/16", "10.9.0.1/16"]), here(2, &["10.0.0.2/16", "10.9.0.2/16"]));
        assert_eq!(agreed(&[fast(a), fast(b)]).2, ["10.9.0.0/16", "10.0.0.0/16"]);
    }

    #[test]
    fn what_no_other_node_reaches_is_known_by_name_and_flags() {
        let flags = |f: i32| f.cast_unsigned();
        let on = flags(libc::IFF_UP | libc::IFF_RUNNING);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(objection("eth0", ip("10.0.0.1"), on), None);
        assert_eq!(objection("br-lan", ip("10.0.0.1"), on), None);
        assert_eq!(objection("ib0", ip("fd00::1"), on), None);
        for (name, address, flags) in [
            ("eth0", "10.0.0.1", 0),
            ("eth0", "10.0.0.1", flags(libc::IFF_UP)),
            ("eth0", "169.254.3.4", on),
            ("eth0", "fe80::1", on),
            ("docker0", "172.17.0.1", on),
            ("br-0123456789ab", "172.18.0.1", on),
            ("lo", "127.0.0.1", on | flags(libc::IFF_LOOPBACK)),
        ] {
            assert!(objection(name, ip(address), flags).is_some(), "{name} {address}");
        }
    }

    #[test]
    fn this_node_has_a_loopback_interface() {
        let lo = interfaces().into_iter().find(|i| i.ip == IpAddr::from([127, 0, 0, 1])).unwrap();
        assert!(lo.objection.is_some() && lo.prefix == 8, "{lo:?}");
    }

    #[test]
    fn networks_hold_their_addresses() {
        let net = Subnet::of("10.1.2.3".parse().unwrap(), 8);
        assert!(net.contains("10.9.9.9".parse().unwrap()) && !net.contains("11.0.0.1".parse().unwrap()));
        assert!(!net.contains("a00::1".parse().unwrap()));
        assert_eq!(Subnet::of("::1".parse().unwrap(), 0).to_string(), "::/0");
        assert_eq!(Subnet::of("1.2.3.4".parse().unwrap(), 200).to_string(), "1.2.3.4/32");
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(here) = Here::decode(&bytes) {
                prop_assert_eq!(here.encode(), bytes.clone());
                let _ = Networks::agree(&[here.clone(), here]);
            }
            let _ = Networks::decode(&bytes);
        }

        #[test]
        fn what_is_told_comes_back(
            v4 in proptest::collection::vec((any::<u32>(), 0u8..33, any::<u32>(), any::<bool>()), 0..8),
            v6 in proptest::collection::vec((any::<u128>(), 0u8..129, any::<u32>(), any::<bool>()), 0..8),
        ) {
            let published = |ip, (prefix, speed, default)| Published { ip, prefix, speed, default };
            let mut addresses: Vec<Published> = v4.iter().map(|a| published(Ipv4Addr::from(a.0).into(), (a.1, a.2, a.3))).collect();
            addresses.extend(v6.iter().map(|a| published(Ipv6Addr::from(a.0).into(), (a.1, a.2, a.3))));
            let here = Here { host: 7, space: 9, rdma: 2, addresses };
            prop_assert_eq!(Here::decode(&here.encode()), Some(here.clone()));
            let agreed = Networks::agree(&[here]);
            prop_assert_eq!(Networks::decode(&agreed.encode()), Some(agreed));
        }
    }
}
