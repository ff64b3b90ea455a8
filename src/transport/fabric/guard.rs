//! The setting `sources`: the port of an endpoint takes connections from these addresses only. Libfabric accepts every connection, and
//! has no way to ask first; the kernel drops what a filter of the listening socket refuses (`SO_ATTACH_FILTER`, which needs no
//! privilege), so a stranger's first packet is never answered. The filter looks at first packets only (SYN without ACK): to all others it costs
//! three instructions.

use crate::config::{Network, Sources};
use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_JA, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
use libc::{sock_filter, sock_fprog};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// What the filter returns of a packet that is taken: so many bytes of it, at most.
const TAKE: u32 = u32::MAX;
/// What it returns of a packet that is dropped: none of its bytes.
const DROP: u32 = 0;
/// Where the flags stand in a TCP header, in bytes (RFC 9293, 3.1).
const FLAGS_AT: u32 = 13;
/// The flag of the first packet of each side (RFC 9293, 3.1).
const SYN: u32 = 0x02;
/// The flag of all packets but the very first (RFC 9293, 3.1).
const ACK: u32 = 0x10;
/// The network header, as seen from a filter (SKF_NET_OFF of linux/filter.h).
const NETWORK: u32 = (-0x10_0000_i32).cast_unsigned();
/// Where the source's address stands in that of IPv4, in bytes (RFC 791, 3.1).
const SOURCE_V4: u32 = NETWORK.wrapping_add(12);
/// Where it stands in that of IPv6, in bytes (RFC 8200, 3).
const SOURCE_V6: u32 = NETWORK.wrapping_add(8);
/// The most instructions of a filter: Linux takes no more (`BPF_MAXINSNS` of linux/bpf_common.h).
const MAX_INSTRUCTIONS: usize = 4096;

const fn instruction(code: u32, k: u32, (jt, jf): (u8, u8)) -> sock_filter {
    // Codes are below 256.
    sock_filter { code: (code & 0xFF) as u16, jt, jf, k }
}

const fn load(k: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, k, (0, 0))
}

const fn and(k: u32) -> sock_filter {
    instruction(BPF_ALU | BPF_AND | BPF_K, k, (0, 0))
}

/// Skips so many instructions if the value is `k`, and so many if not.
const fn skip(k: u32, jumps: (u8, u8)) -> sock_filter {
    instruction(BPF_JMP | BPF_JEQ | BPF_K, k, jumps)
}

const fn give(k: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, k, (0, 0))
}

/// Takes what comes from this network; else goes on behind.
fn takes(network: &Network) -> Vec<sock_filter> {
    let mask = |bits: u32| u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0);
    let (at, words): (u32, Vec<u32>) = match network.ip {
        IpAddr::V4(ip) => (SOURCE_V4, vec![ip.into()]),
        IpAddr::V6(ip) => {
            let words = ip.octets();
            let words = words.chunks_exact(4).map(|w| w.iter().fold(0, |all, b| all << 8 | u32::from(*b)));
            (SOURCE_V6, words.collect())
        }
    };
    let compared = (0u32..).zip(words).map(|(i, word)| {
        let mask = mask(u32::from(network.bits).saturating_sub(32 * i));
        (at.wrapping_add(4 * i), mask, word & mask)
    });
    let compared: Vec<_> = compared.filter(|(_, mask, _)| *mask != 0).collect();
    let mut out = Vec::new();
    for (i, (at, mask, word)) in (0u8..).zip(&compared) {
        // Of each later word three instructions, and the end.
        let later = u8::try_from(compared.len()).unwrap_or(4) - 1 - i;
        out.extend([load(*at), and(*mask), skip(*word, (0, 3 * later + 1))]);
    }
    out.push(give(TAKE));
    out
}

/// The filter of a listening socket.
fn program(networks: &[Network]) -> Vec<sock_filter> {
    let of = |v4: bool| -> Vec<sock_filter> {
        let mut all: Vec<_> = networks.iter().filter(|n| n.ip.is_ipv4() == v4).flat_map(takes).collect();
        all.push(give(DROP));
        all
    };
    let (v4, v6) = (of(true), of(false));
    let behind = u32::try_from(v4.len()).unwrap_or(u32::MAX);
    let mut out = vec![
        instruction(BPF_LD | BPF_B | BPF_ABS, FLAGS_AT, (0, 0)),
        and(SYN | ACK),
        skip(SYN, (1, 0)),
        give(TAKE),
        // The version stands in the first four bits of either header.
        instruction(BPF_LD | BPF_B | BPF_ABS, NETWORK, (0, 0)),
        and(0xF0),
        skip(0x40, (1, 0)),
        instruction(BPF_JMP | BPF_JA, behind, (0, 0)),
    ];
    out.extend(v4);
    out.extend(v6);
    out
}

/// Lets the listening socket of this process at `port` take connections from `sources` only, and from this node's 127.0.0.1 and ::1.
///
/// # Errors
/// When there is no such socket, or the system refuses the filter.
pub(super) fn keep(port: u16, sources: &Sources) -> io::Result<()> {
    let Sources::Only(networks) = sources else { return Ok(()) };
    let mut networks = networks.clone();
    networks.extend([[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()].map(Network::host));
    let program = program(&networks);
    if program.len() > MAX_INSTRUCTIONS {
        return Err(io::Error::other("they are too many for a filter of the kernel's"));
    }
    let mut kept = 0;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let Some(fd) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A copy, as the number may be another file's by the next look.
        let Some(socket) = copy(fd).filter(|socket| listens_at(socket, port)) else { continue };
        attach(&socket, &program)?;
        kept += 1;
    }
    if kept == 0 { Err(io::Error::other("no listening socket of this process is there")) } else { Ok(()) }
}

fn copy(fd: i32) -> Option<OwnedFd> {
    // SAFETY: not -1; borrowed for the call only, which fails if there is no such descriptor.
    let fd = (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })?;
    rustix::io::fcntl_dupfd_cloexec(fd, 0).ok()
}

fn listens_at(socket: &OwnedFd, port: u16) -> bool {
    let address = || SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok();
    rustix::net::sockopt::socket_acceptconn(socket).unwrap_or(false)
        && address().is_some_and(|address| address.port() == port)
}

fn attach(socket: &OwnedFd, program: &[sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let whole = sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let size = libc::socklen_t::try_from(size_of::<sock_fprog>()).map_err(io::Error::other)?;
    // SAFETY: the socket is open; `whole` names `len` instructions, which the kernel copies.
    let code = unsafe {
        let at = (&raw const whole).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, at, size)
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    /// What the filter gives for a packet with these flags from there: the few instructions that it is made of, carried out.
    fn verdict(program: &[sock_filter], flags: u8, from: IpAddr) -> u32 {
        let mut header = [0u8; 40];
        match from {
            IpAddr::V4(ip) => {
                header[0] = 0x45;
                header[12..16].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                header[0] = 0x60;
                header[8..24].copy_from_slice(&ip.octets());
            }
        }
        let (mut value, mut at) = (0u32, 0);
        loop {
            let i = &program[at];
            at += 1;
            let index = |k: u32| usize::try_from(k.wrapping_sub(NETWORK)).unwrap();
            match u32::from(i.code) {
                c if c == BPF_LD | BPF_B | BPF_ABS && i.k == FLAGS_AT => value = flags.into(),
                c if c == BPF_LD | BPF_B | BPF_ABS => value = header[index(i.k)].into(),
                c if c == BPF_LD | BPF_W | BPF_ABS => {
                    let word = header[index(i.k)..].first_chunk::<4>().unwrap();
                    value = u32::from_be_bytes(*word);
                }
                c if c == BPF_ALU | BPF_AND | BPF_K => value &= i.k,
                c if c == BPF_JMP | BPF_JEQ | BPF_K => {
                    at += usize::from(if value == i.k { i.jt } else { i.jf });
                }
                c if c == BPF_JMP | BPF_JA => at += i.k as usize,
                _ => return i.k,
            }
        }
    }

    #[test]
    fn only_these_networks_are_taken() {
        let all = ["10.1.0.0/16", "192.0.2.7", "fd00:1::/33", "2001:db8::5", "::ffff:0:0/96"].map(network);
        let program = program(&all);
        for from in ["10.1.255.1", "192.0.2.7", "fd00:1:7fff::1", "2001:db8::5", "::ffff:1.2.3.4"] {
            assert_eq!(verdict(&program, 0x02, from.parse().unwrap()), TAKE, "{from}");
        }
        for from in ["10.2.0.1", "192.0.2.6", "fd00:1:8000::1", "2001:db8::6", "0.0.0.0", "::", "9.1.0.0"] {
            assert_eq!(verdict(&program, 0x02, from.parse().unwrap()), DROP, "{from}");
            assert_eq!(verdict(&program, 0x10, from.parse().unwrap()), TAKE, "what is there already: {from}");
        }
        for everywhere in ["0.0.0.0/0", "::/0"].map(network) {
            let other: IpAddr = match everywhere.ip.is_ipv4() {
                true => Ipv6Addr::LOCALHOST.into(),
                false => Ipv4Addr::LOCALHOST.into(),
            };
            let program = super::program(std::slice::from_ref(&everywhere));
            assert_eq!(verdict(&program, 0x02, other), DROP);
            assert_eq!(verdict(&program, 0x02, everywhere.ip), TAKE);
        }
    }
}
