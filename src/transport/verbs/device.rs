//! Devices and their ports: which there are, which will do, and which is taken.

use super::gid::{self, Gid, GidKind};
use super::library::{check, errno, error, library};
use super::support::Support;
use super::{NAME, Options, reasons};
use crate::error::{Error, ErrorKind, Result};
use libfabric_sys::verbs as ib;
use std::fmt;
use std::mem::zeroed;
use std::path::{Path, PathBuf};

/// The longest gather list that is asked for: with it a work request of common hardware is 512 bytes, and longer ones
/// are worth less than they cost.
pub(super) const MAX_GATHER: u32 = 30;
/// Bit of a port's flags that asks for global routing headers (`IBV_QPF_GRH_REQUIRED` of verbs.h).
const GLOBAL_REQUIRED: u8 = 1;
/// The highest service level of RoCE: a priority of Ethernet has 3 bits (IEEE 802.1Q).
const MAX_PRIORITY: u8 = 7;

/// An open device.
pub(super) struct Device {
    pub(super) lib: &'static ib::Verbs,
    pub(super) context: *mut ib::ibv_context,
    pub(super) name: String,
}

impl Device {
    /// Which memory it registers.
    fn support(&self) -> Support {
        // SAFETY: the context is open; the domain is open while it is asked, and has nothing in it afterwards.
        unsafe {
            let pd = self.lib.ibv_alloc_pd(self.context);
            if pd.is_null() {
                return Support::default();
            }
            let support = Support::ask(self.lib, pd);
            self.lib.ibv_dealloc_pd(pd);
            support
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: open since it was made, and closed only here. What was made with it is gone, or leaked with this value.
        unsafe { self.lib.ibv_close_device(self.context) };
    }
}

/// A port, as it says of itself.
#[derive(Clone, Copy)]
pub(super) struct Port {
    pub(super) number: u8,
    pub(super) attr: ib::ibv_port_attr,
    pub(super) max_gather: u32,
    pub(super) gid: Option<Gid>,
}

impl Port {
    pub(super) fn ethernet(&self) -> bool {
        u32::from(self.attr.link_layer) == ib::IBV_LINK_LAYER_ETHERNET
    }

    pub(super) fn global_required(&self) -> bool {
        self.attr.flags & GLOBAL_REQUIRED != 0
    }

    /// The longest packet, as verbs count, within what is asked for in bytes.
    pub(super) fn mtu(&self, asked: Option<u32>) -> u8 {
        let most = asked.map_or(ib::IBV_MTU_4096, |bytes| (bytes >> 7).max(2).ilog2());
        u8::try_from(self.attr.active_mtu.min(most)).unwrap_or(1).clamp(1, 5)
    }

    /// Why it, of that device, will not do.
    fn objection(
        &self,
        device: &str,
        transport: ib::ibv_transport_type,
        options: &Options<'_>,
    ) -> Option<String> {
        if transport != ib::IBV_TRANSPORT_IB {
            return Some("it is neither InfiniBand nor RoCE (iWARP carries no immediate word)".into());
        }
        if self.attr.state != ib::IBV_PORT_ACTIVE {
            return Some(reasons::inactive(device, self.attr.state));
        }
        if options.partition >= self.attr.pkey_tbl_len {
            let (asked, has) = (options.partition, self.attr.pkey_tbl_len);
            return Some(format!("it has no partition key of index {asked}: its table has {has}"));
        }
        if self.ethernet() && options.service_level > MAX_PRIORITY {
            let level = options.service_level;
            return Some(format!(
                "its link is Ethernet, whose priorities end at {MAX_PRIORITY}, and {level} is asked for"
            ));
        }
        match (options.gid, &self.gid) {
            (Some(index), None) => Some(format!("it has no GID {index}")),
            (None, None) if self.ethernet() => Some(reasons::unaddressed(device)),
            _ => None,
        }
    }
}

/// A port that could be taken, for people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// Device and port: `mlx5_0:1`.
    pub name: String,
    /// `InfiniBand` or `Ethernet`.
    pub link: &'static str,
    /// The GID that it talks from, as an address.
    pub address: String,
    /// The kind of that GID.
    pub kind: Option<GidKind>,
    /// Payload of its longest packet in bytes.
    pub mtu: u32,
    /// The longest put in bytes.
    pub max_put: u64,
    /// Segments that a put can gather.
    pub gather: usize,
    /// Which memory it registers.
    pub memory: Support,
    /// Why it will not do; `None` when it will.
    pub rejected: Option<String>,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME:<14} {:<15} {:<10} {:<24}", self.name, self.link, self.address)?;
        match &self.rejected {
            Some(why) => write!(f, " no: {why}"),
            None => {
                let (gather, mtu, most) = (self.gather, self.mtu, self.max_put);
                write!(f, " word 4 B, gather {gather}, packets {mtu} B, puts to {most} B")
            }
        }
    }
}

/// All ports of all devices here, and whether they will do for `options`.
///
/// # Errors
/// When libibverbs is not installed. No device is no error.
pub fn survey(options: &Options<'_>) -> Result<Vec<Candidate>> {
    let mut all = Vec::new();
    each_port(options, |seen| {
        all.push(match seen {
            Seen::Port(device, port, objection) => Candidate {
                name: format!("{}:{}", device.name, port.number),
                link: if port.ethernet() { "Ethernet" } else { "InfiniBand" },
                address: port.gid.map(|g| g.ip().to_string()).unwrap_or_default(),
                kind: port.gid.map(|g| g.kind),
                mtu: 128 << port.mtu(options.path_mtu),
                max_put: port.attr.max_msg_sz.into(),
                gather: port.max_gather as usize,
                memory: device.support(),
                rejected: objection,
            },
            Seen::Closed(name, e) => Candidate {
                name: name.to_owned(),
                link: "",
                address: String::new(),
                kind: None,
                mtu: 0,
                max_put: 0,
                gather: 0,
                memory: Support::default(),
                rejected: Some(e.to_string()),
            },
        });
        false
    })?;
    Ok(all)
}

/// The kind of link of the first active port here that verbs can be spoken on, as a number: 1 InfiniBand, 2 Ethernet. 0: there
/// is none, or libibverbs is not installed. No device is opened.
pub fn link() -> u8 {
    match active_link(Path::new("/sys/class/infiniband")) {
        0 => 0,
        _ if library().is_err() => 0,
        found => found,
    }
}

/// The same of a folder of devices, as the kernel shows them.
fn active_link(devices: &Path) -> u8 {
    let entries = |folder: &Path| {
        let all = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
        let mut all: Vec<PathBuf> = all.collect();
        all.sort();
        all
    };
    let says =
        |file: PathBuf, what: &str| std::fs::read_to_string(file).is_ok_and(|text| text.contains(what));
    // Node type 1 is a channel adapter; iWARP's are 4.
    let speaks = |device: &PathBuf| says(device.join("node_type"), "1:");
    for port in entries(devices).iter().filter(|d| speaks(d)).flat_map(|d| entries(&d.join("ports"))) {
        if says(port.join("state"), "ACTIVE") {
            return if says(port.join("link_layer"), "Ethernet") { 2 } else { 1 };
        }
    }
    0
}

/// The first port that will do, of an open device.
pub(super) fn choose(options: &Options<'_>) -> Result<(Device, Port)> {
    let (mut found, mut why) = (None, Vec::new());
    let device = each_port(options, |seen| match seen {
        Seen::Port(_, port, None) => {
            found = Some(port);
            true
        }
        Seen::Port(device, port, Some(objection)) => {
            why.push(format!("{}:{}: {objection}", device.name, port.number));
            false
        }
        Seen::Closed(_, e) => {
            why.push(
                e.remedy().map_or_else(|| e.message().to_owned(), |line| format!("{} ({line})", e.message())),
            );
            false
        }
    })?;
    if let (Some(device), Some(port)) = (device, found) {
        return Ok((device, port));
    }
    let why = match (why.is_empty(), options.device) {
        (true, Some(_)) => "there is none".to_owned(),
        (true, None) => reasons::absent(),
        _ => why.join("; "),
    };
    let of = options.device.map(|d| format!(" called {d:?}")).unwrap_or_default();
    Err(Error::new(ErrorKind::Config, format!("no usable RDMA port{of}: {why}"))
        .over(NAME)
        .help("`circulant info` lists devices and ports; CIRCULANT_PROVIDER=auto takes another wire"))
}

/// What [`each_port`] shows.
enum Seen<'a> {
    /// A port of an open device, and why it will not do.
    Port(&'a Device, Port, Option<String>),
    /// A device that cannot be opened, by its name.
    Closed(&'a str, Error),
}

/// Shows each port that `options` allow to `take`; returns the device of the first that it takes.
fn each_port(options: &Options<'_>, mut take: impl FnMut(Seen<'_>) -> bool) -> Result<Option<Device>> {
    let lib = library()?;
    let list = List::new(lib)?;
    let asked = options.device.map(|d| d.split_once(':').unwrap_or((d, "")));
    for device in list.devices() {
        // SAFETY: an entry of the list, which is not freed yet.
        let name = unsafe { ib::text(lib.ibv_get_device_name(device)) }.unwrap_or_default();
        // SAFETY: as above.
        let transport = unsafe { (*device).transport_type };
        if asked.is_some_and(|(asked, _)| asked != name) {
            continue;
        }
        // SAFETY: as above.
        let context = unsafe { lib.ibv_open_device(device) };
        if context.is_null() {
            take(Seen::Closed(&name, reasons::closed(&name, errno())));
            continue;
        }
        let device = Device { lib, context, name };
        for port in ports(&device, options)? {
            if asked.is_some_and(|(_, number)| !number.is_empty() && number != port.number.to_string()) {
                continue;
            }
            if take(Seen::Port(&device, port, port.objection(&device.name, transport, options))) {
                return Ok(Some(device));
            }
        }
    }
    Ok(None)
}

fn ports(device: &Device, options: &Options<'_>) -> Result<Vec<Port>> {
    let Device { lib, context, name } = device;
    // SAFETY: all-zero attributes are valid (numbers only); the context is open; both calls write no more than the attributes,
    // of which the exported ibv_query_port writes the part that its first version had.
    unsafe {
        let mut of: ib::ibv_device_attr = zeroed();
        check(&format!("asking {name}"), lib.ibv_query_device(*context, &mut of))?;
        let max_gather = u32::try_from(of.max_sge).unwrap_or(1).clamp(1, MAX_GATHER);
        let mut all = Vec::new();
        for number in 1..=of.phys_port_cnt {
            let mut attr: ib::ibv_port_attr = zeroed();
            let code = lib.ibv_query_port(*context, number, (&raw mut attr).cast());
            check(&format!("asking port {number} of {name}"), code)?;
            let mut port = Port { number, attr, max_gather, gid: None };
            let folder = PathBuf::from(format!("/sys/class/infiniband/{name}/ports/{number}"));
            port.gid = gid::choose(&gid::list(&folder), port.ethernet(), options.gid);
            all.push(port);
        }
        Ok(all)
    }
}

/// libibverbs' list of devices, a null pointer behind the last.
struct List {
    lib: &'static ib::Verbs,
    first: *mut *mut ib::ibv_device,
}

impl List {
    fn new(lib: &'static ib::Verbs) -> Result<Self> {
        // SAFETY: the count is not wanted.
        let first = unsafe { lib.ibv_get_device_list(std::ptr::null_mut()) };
        match errno() {
            // A kernel without RDMA.
            libc::ENOSYS if first.is_null() => Ok(Self { lib, first }),
            code if first.is_null() => Err(error("looking for RDMA devices", code)),
            _ => Ok(Self { lib, first }),
        }
    }

    fn devices(&self) -> impl Iterator<Item = *mut ib::ibv_device> + '_ {
        (0..).map_while(|i| {
            if self.first.is_null() {
                return None;
            }
            // SAFETY: the list has a null pointer at its end, behind which `map_while` does not ask.
            let device = unsafe { *self.first.add(i) };
            (!device.is_null()).then_some(device)
        })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: from ibv_get_device_list; open devices outlive it.
            unsafe { self.lib.ibv_free_device_list(self.first) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_one_of_an_active_port_of_a_channel_adapter() {
        let dir = tempfile::tempdir().unwrap();
        let port = |device: &str, node: &str, state: &str, link: &str| {
            let folder = dir.path().join(device).join("ports/1");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(dir.path().join(device).join("node_type"), node).unwrap();
            std::fs::write(folder.join("state"), state).unwrap();
            std::fs::write(folder.join("link_layer"), link).unwrap();
            active_link(dir.path())
        };
        assert_eq!(active_link(&dir.path().join("none")), 0);
        assert_eq!(port("a", "1: CA\n", "1: DOWN\n", "InfiniBand\n"), 0);
        assert_eq!(port("b", "4: RNIC\n", "4: ACTIVE\n", "Ethernet\n"), 0);
        assert_eq!(port("d", "1: CA\n", "4: ACTIVE\n", "Ethernet\n"), 2);
        assert_eq!(port("c", "1: CA\n", "4: ACTIVE\n", "InfiniBand\n"), 1, "the first");
    }
}
