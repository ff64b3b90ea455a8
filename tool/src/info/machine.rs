//! What the machine is like, as far as it matters to collectives.

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};
use std::fs::read_to_string;
use std::path::Path;

/// A network interface.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// As Linux says: up, down, unknown (loopback is always unknown).
    pub(crate) state: String,
    pub(crate) mtu: Option<u64>,
    /// In Mbit/s, where the driver says so.
    pub(crate) speed: Option<u64>,
    pub(crate) addresses: Vec<String>,
}

/// Limits of the system and of this process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub(crate) cores: usize,
    /// Bytes.
    pub(crate) memory: Option<u64>,
    pub(crate) memory_available: Option<u64>,
    /// Bytes that may be locked (registered with RDMA hardware); none: any number.
    pub(crate) memlock: Option<u64>,
    /// Transparent huge pages: always, madvise, never.
    pub(crate) huge_pages_transparent: Option<String>,
    pub(crate) huge_pages_total: Option<u64>,
    pub(crate) huge_pages_free: Option<u64>,
    pub(crate) huge_page_bytes: Option<u64>,
    pub(crate) shm_bytes: Option<u64>,
    pub(crate) shm_free: Option<u64>,
    /// Yama's restriction of cross-memory attach: 0 none; else shared memory must copy twice.
    pub(crate) ptrace_scope: Option<u64>,
    pub(crate) open_files: Option<u64>,
}

impl Limits {
    pub(crate) fn read() -> Self {
        let memory = read_to_string("/proc/meminfo").unwrap_or_default();
        let kilobytes = |name| field(&memory, name).and_then(|n| n.checked_mul(1024));
        let shm = rustix::fs::statvfs("/dev/shm").ok();
        let thp = read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: kilobytes("MemTotal"),
            memory_available: kilobytes("MemAvailable"),
            memlock: getrlimit(Resource::Memlock).current,
            huge_pages_transparent: thp.as_deref().and_then(bracketed),
            huge_pages_total: field(&memory, "HugePages_Total"),
            huge_pages_free: field(&memory, "HugePages_Free"),
            huge_page_bytes: kilobytes("Hugepagesize"),
            shm_bytes: shm.as_ref().map(|s| s.f_blocks.saturating_mul(s.f_frsize)),
            shm_free: shm.as_ref().map(|s| s.f_bavail.saturating_mul(s.f_frsize)),
            ptrace_scope: number(Path::new("/proc/sys/kernel/yama/ptrace_scope")),
            open_files: getrlimit(Resource::Nofile).current,
        }
    }
}

/// The number after `name:` in a file such as /proc/meminfo.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The choice in brackets, as in `always [madvise] never`.
fn bracketed(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn number(path: &Path) -> Option<u64> {
    read_to_string(path).ok()?.trim().parse().ok()
}

/// All interfaces, by name.
pub(crate) fn interfaces() -> Vec<Interface> {
    let addresses = if_addrs::get_if_addrs().unwrap_or_default();
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().filter_map(Result::ok);
    let mut list: Vec<Interface> = entries
        // There are control files, such as bonding_masters, among the interfaces.
        .filter(|e| e.path().join("mtu").exists())
        .map(|e| {
            let (path, name) = (e.path(), e.file_name().to_string_lossy().into_owned());
            let state = read_to_string(path.join("operstate")).unwrap_or_default().trim().to_owned();
            let own = addresses.iter().filter(|a| a.name == name).map(|a| a.ip().to_string()).collect();
            Interface {
                state: if name == "lo" && state == "unknown" { "up".to_owned() } else { state },
                mtu: number(&path.join("mtu")),
                // Reading it fails, or gives -1, where there is none.
                speed: number(&path.join("speed")).filter(|s| *s > 0 && *s < u64::from(u32::MAX)),
                addresses: own,
                name,
            }
        })
        .collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_files_are_understood() {
        let text = "MemTotal:       16380924 kB\nMemTotalX:  1 kB\nHugePages_Free:       12\nBroken: x kB\n";
        assert_eq!(field(text, "MemTotal"), Some(16_380_924));
        assert_eq!(field(text, "HugePages_Free"), Some(12));
        assert_eq!((field(text, "Broken"), field(text, "Mem"), field("", "a")), (None, None, None));
        assert_eq!(bracketed("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!((bracketed("none"), bracketed("[")), (None, None));
    }

    #[test]
    fn this_machine_has_a_loopback_interface_and_memory() {
        let lo = interfaces().into_iter().find(|i| i.name == "lo").unwrap();
        assert!(lo.mtu.is_some());
        let limits = Limits::read();
        assert!(limits.cores > 0 && limits.memory > limits.memory_available.map(|m| m / 2), "{limits:?}");
    }
}
