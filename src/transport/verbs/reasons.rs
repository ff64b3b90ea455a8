//! Why no device or port will do, in words, with the line to type.

use crate::error::{Error, ErrorKind};
use libfabric_sys::verbs as ib;
use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel shows its devices, and their files.
const ROOT: &str = "/";

/// Of libibverbs that lists no device.
pub fn absent() -> String {
    absent_in(Path::new(ROOT))
}

fn absent_in(root: &Path) -> String {
    let devices = names(&root.join("sys/class/infiniband"));
    if let [first, ..] = &devices[..] {
        return format!(
            "the kernel has {}, but libibverbs has no driver for it; apt install ibverbs-providers (Fedora, RHEL: dnf install libibverbs)",
            if devices.len() == 1 { first.clone() } else { devices.join(", ") }
        );
    }
    let up = |name: &String| {
        let state = text(&root.join("sys/class/net").join(name).join("operstate"));
        name != "lo" && state.is_some_and(|state| state != "down")
    };
    let interface = names(&root.join("sys/class/net")).into_iter().find(up);
    format!(
        "there is no RDMA device here (rdma link); a card needs its driver (modprobe mlx5_ib, or irdma, bnxt_re, …); to try it without a \
         card: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev {}",
        interface.as_deref().unwrap_or("eth0")
    )
}

/// Of a port in this state.
pub(super) fn inactive(device: &str, state: ib::ibv_port_state) -> String {
    inactive_in(Path::new(ROOT), device, state)
}

fn inactive_in(root: &Path, device: &str, state: ib::ibv_port_state) -> String {
    match state {
        ib::IBV_PORT_DOWN => match interface_of(root, device) {
            Some(name) => {
                format!("the port is down: no cable, or its interface is not up; ip link set {name} up")
            }
            None => "the port is down: no cable, or the switch has it off".to_owned(),
        },
        ib::IBV_PORT_INIT => {
            "the port is initialising: no subnet manager answers; start one (opensm)".to_owned()
        }
        ib::IBV_PORT_ARMED => "the port is armed, and not active yet".to_owned(),
        _ => "the port is not active".to_owned(),
    }
}

/// Of a port that has no GID to talk from.
pub(super) fn unaddressed(device: &str) -> String {
    let interface = interface_of(Path::new(ROOT), device);
    let line = interface.map(|name| format!("; ip addr add ADDRESS/24 dev {name}")).unwrap_or_default();
    format!("it has no GID: its interface has no address{line}")
}

/// Of a device that libibverbs does not open. It says ENOENT also of a file that is there and closed to us.
pub(super) fn closed(device: &str, code: i32) -> Error {
    closed_in(Path::new(ROOT), device, code)
}

fn closed_in(root: &Path, device: &str, code: i32) -> Error {
    let file = file_of(root, device);
    let opened = file.as_ref().map(|file| std::fs::OpenOptions::new().read(true).write(true).open(file));
    let code = match &opened {
        Some(Err(e)) => e.raw_os_error().unwrap_or(code),
        _ => code,
    };
    let why = io::Error::from_raw_os_error(code);
    let e = Error::new(ErrorKind::Transport, format!("cannot open {device}: {why}")).over(super::NAME);
    let file = file.map_or_else(|| "/dev/infiniband/uverbs*".to_owned(), |file| file.display().to_string());
    match code {
        libc::EACCES | libc::EPERM => e.help(format!(
            "this user may not read and write {file}: chmod a+rw {file} (in a container also --device={file})"
        )),
        libc::ENOENT | libc::ENXIO | libc::ENODEV => e.help(format!(
            "{file} must be there: modprobe ib_uverbs; in a container --device=/dev/infiniband"
        )),
        _ => e,
    }
}

/// The interface under a device of Ethernet.
fn interface_of(root: &Path, device: &str) -> Option<String> {
    let device = root.join("sys/class/infiniband").join(device);
    // Of cards, and of soft-RoCE.
    names(&device.join("device/net")).into_iter().next().or_else(|| text(&device.join("parent")))
}

/// The file by which a process talks to a device.
fn file_of(root: &Path, device: &str) -> Option<PathBuf> {
    let all = root.join("sys/class/infiniband_verbs");
    let of = |name: &String| text(&all.join(name).join("ibdev")).is_some_and(|found| found == device);
    let name = names(&all).into_iter().find(of)?;
    Some(root.join("dev/infiniband").join(name))
}

/// What is in a folder, in order; nothing, where there is none.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn text(file: &Path) -> Option<String> {
    std::fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel shows, as a folder.
    struct Shown(tempfile::TempDir);

    impl Shown {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn root(&self) -> &Path {
            self.0.path()
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn a_machine_without_devices_is_told_what_to_load() {
        let kernel = Shown::new();
        assert!(absent_in(kernel.root()).ends_with("netdev eth0"));
        for (name, state) in [("lo", "unknown"), ("br0", "down"), ("ens3", "up")] {
            kernel.write(&format!("sys/class/net/{name}/operstate"), &format!("{state}\n"));
        }
        let said = absent_in(kernel.root());
        assert!(said.contains("modprobe mlx5_ib") && said.ends_with("netdev ens3"), "{said}");
        kernel.write("sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
        let said = absent_in(kernel.root());
        assert!(said.contains("has mlx5_0, but") && said.contains("apt install ibverbs-providers"), "{said}");
    }

    #[test]
    fn a_port_that_is_down_names_its_interface() {
        let kernel = Shown::new();
        let said = || inactive_in(kernel.root(), "d0", ib::IBV_PORT_DOWN);
        assert!(said().contains("no cable") && !said().contains("ip link"));
        kernel.write("sys/class/infiniband/d0/parent", "rd0\n");
        assert!(said().ends_with("ip link set rd0 up"), "{}", said());
        kernel.write("sys/class/infiniband/d0/device/net/ens1f0np0/operstate", "down\n");
        assert!(said().ends_with("ip link set ens1f0np0 up"), "{}", said());
        assert!(inactive_in(kernel.root(), "d0", ib::IBV_PORT_INIT).contains("subnet manager"));
    }

    #[test]
    fn a_device_that_cannot_be_opened_says_which_file_is_missing() {
        let kernel = Shown::new();
        let help = |code| closed_in(kernel.root(), "d1", code).remedy().unwrap().to_owned();
        assert!(help(libc::EACCES).contains("chmod a+rw /dev/infiniband/uverbs*"));
        kernel.write("sys/class/infiniband_verbs/uverbs0/ibdev", "d0\n");
        kernel.write("sys/class/infiniband_verbs/uverbs3/ibdev", "d1\n");
        let said = help(libc::ENOENT);
        assert!(said.contains("uverbs3 must be there: modprobe ib_uverbs"), "{said}");
        // A folder cannot be opened for writing, whatever the user's rights.
        std::fs::create_dir_all(kernel.root().join("dev/infiniband/uverbs3")).unwrap();
        let e = closed_in(kernel.root(), "d1", libc::ENOENT);
        assert!(e.message().starts_with("cannot open d1: Is a directory"), "{e}");
    }
}
