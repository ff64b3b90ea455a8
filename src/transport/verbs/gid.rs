//! Which of a port's addresses (GIDs) to talk from.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// What packets from a GID look like; better kinds first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GidKind {
    /// RoCE v2: UDP over IP, which routers forward.
    RoceV2,
    /// InfiniBand, or RoCE v1: Ethernet frames of a type of their own, which stay within a network.
    InfinibandOrRoceV1,
}

/// One entry of a port's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gid {
    pub(super) index: u32,
    pub(super) raw: [u8; 16],
    pub(super) kind: GidKind,
}

impl Gid {
    /// The address, for people.
    pub(super) fn ip(&self) -> IpAddr {
        let ip = Ipv6Addr::from(self.raw);
        ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
    }

    /// Lower is better: v2 before v1, as v1 ends at the first router; then IPv4, which is set up by hand or by DHCP where
    /// IPv6 often is not; a link-local address last, as two networks may have the same.
    fn order(&self) -> (GidKind, u8, u32) {
        let scope = match self.ip() {
            IpAddr::V4(_) => 0,
            IpAddr::V6(ip) if ip.is_unicast_link_local() => 2,
            IpAddr::V6(_) => 1,
        };
        (self.kind, scope, self.index)
    }
}

/// The GIDs in the folder of a port, as the kernel shows it (`/sys/class/infiniband/DEVICE/ports/PORT`).
pub(super) fn list(port: &Path) -> Vec<Gid> {
    let Ok(entries) = std::fs::read_dir(port.join("gids")) else { return Vec::new() };
    let index = |e: std::fs::DirEntry| e.file_name().to_str()?.parse::<u32>().ok();
    let mut indices: Vec<u32> = entries.filter_map(|e| index(e.ok()?)).collect();
    indices.sort_unstable();
    indices.into_iter().filter_map(|index| read(port, index)).collect()
}

/// Empty entries are all zeros, and reading the type of one fails.
fn read(port: &Path, index: u32) -> Option<Gid> {
    let text = std::fs::read_to_string(port.join(format!("gids/{index}"))).ok()?;
    let raw = text.trim().parse::<Ipv6Addr>().ok()?.octets();
    if raw == [0; 16] {
        return None;
    }
    let kind = std::fs::read_to_string(port.join(format!("gid_attrs/types/{index}"))).unwrap_or_default();
    let kind = if kind.trim() == "RoCE v2" { GidKind::RoceV2 } else { GidKind::InfinibandOrRoceV1 };
    Some(Gid { index, raw, kind })
}

/// The one to talk from: the best, or that of an index. On InfiniBand the first, which the subnet manager has given.
pub(super) fn choose(gids: &[Gid], ethernet: bool, asked: Option<u32>) -> Option<Gid> {
    match asked {
        Some(index) => gids.iter().find(|g| g.index == index).copied(),
        None if ethernet => gids.iter().min_by_key(|g| g.order()).copied(),
        None => gids.first().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder of a port with these GIDs: (address, type).
    fn port(gids: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let (gid, attrs) = (dir.path().join("gids"), dir.path().join("gid_attrs/types"));
        std::fs::create_dir_all(&gid).unwrap();
        std::fs::create_dir_all(&attrs).unwrap();
        for (i, (ip, kind)) in gids.iter().enumerate() {
            std::fs::write(gid.join(i.to_string()), format!("{ip}\n")).unwrap();
            std::fs::write(attrs.join(i.to_string()), format!("{kind}\n")).unwrap();
        }
        dir
    }

    const V1: &str = "IB/RoCE v1";
    const V2: &str = "RoCE v2";
    const LOCAL: &str = "fe80:0000:0000:0000:0202:c9ff:fe00:0001";
    const IPV4: &str = "0000:0000:0000:0000:0000:ffff:0a4d:0001";
    const IPV6: &str = "2001:0db8:0000:0000:0000:0000:0000:0007";
    const NONE: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

    fn chosen(gids: &[(&str, &str)], ethernet: bool, asked: Option<u32>) -> Option<u32> {
        choose(&list(port(gids).path()), ethernet, asked).map(|g| g.index)
    }

    #[test]
    fn on_ethernet_v2_comes_before_v1_and_ipv4_first() {
        let all = [(LOCAL, V1), (LOCAL, V2), (NONE, V2), (IPV6, V2), (IPV4, V1), (IPV4, V2)];
        assert_eq!(chosen(&all, true, None), Some(5));
        assert_eq!(chosen(&all[..5], true, None), Some(3), "a v2 of IPv6 before a v1 of IPv4");
        assert_eq!(chosen(&all[..2], true, None), Some(1), "link-local last, of v2 first");
        assert_eq!(chosen(&[(LOCAL, V1), (IPV4, V1)], true, None), Some(1));
    }

    #[test]
    fn what_is_asked_for_is_taken_and_infiniband_takes_the_first() {
        let all = [(LOCAL, V1), (IPV6, V2), (NONE, V2)];
        assert_eq!(chosen(&all, true, Some(0)), Some(0));
        assert_eq!((chosen(&all, true, Some(2)), chosen(&all, true, Some(9))), (None, None));
        assert_eq!(chosen(&all, false, None), Some(0));
        assert_eq!(
            (chosen(&[(NONE, V2)], true, None), list(Path::new("no such folder"))),
            (None, Vec::new())
        );
    }

    #[test]
    fn a_gid_of_ipv4_is_shown_as_such() {
        let all = list(port(&[(IPV4, V2), (IPV6, V2)]).path());
        assert_eq!([all[0].ip().to_string(), all[1].ip().to_string()], ["10.77.0.1", "2001:db8::7"]);
    }
}
