//! Which memory a device registers, beside plain memory that is locked: found out by asking it.

use crate::transport::MemoryKind;
use libfabric_sys::verbs as ib;
use std::io;
use std::path::Path;

/// Bytes of a page, which is registered to see whether that works.
const PAGE_BYTES: usize = 4096;

/// What a device, its driver and the kernel's modules can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Support {
    /// Memory need not be present or locked: pages come when they are used (on-demand paging).
    pub on_demand: bool,
    /// Memory is registered by its file (dma-buf), whatever device it is of.
    pub dmabuf: bool,
    /// Modules tell the driver the addresses of memory of NVIDIA's devices, and of AMD's.
    pub peers: [bool; 2],
}

impl Support {
    /// Asks the device of this protection domain.
    ///
    /// # Safety
    /// The domain is open and was made by the library.
    pub(super) unsafe fn ask(lib: &ib::Verbs, pd: *mut ib::ibv_pd) -> Self {
        let folder = Path::new("/sys");
        // SAFETY: our caller's.
        unsafe { Self { on_demand: on_demand(lib, pd), dmabuf: dmabuf(lib, pd), peers: peers(folder) } }
    }

    /// The kinds of memory that can be registered.
    pub fn kinds(self) -> &'static [MemoryKind] {
        match (self.dmabuf, self.peers) {
            (true, _) => MemoryKind::ALL,
            (_, [true, true]) => &[MemoryKind::Host, MemoryKind::Cuda, MemoryKind::Rocm],
            (_, [true, false]) => &[MemoryKind::Host, MemoryKind::Cuda],
            (_, [false, true]) => &[MemoryKind::Host, MemoryKind::Rocm],
            (_, [false, false]) => &[MemoryKind::Host],
        }
    }
}

/// Registers a page on demand.
///
/// # Safety
/// As [`Support::ask`].
unsafe fn on_demand(lib: &ib::Verbs, pd: *mut ib::ibv_pd) -> bool {
    let Ok(mut page) = memmap2::MmapMut::map_anon(PAGE_BYTES) else { return false };
    let access = (ib::IBV_ACCESS_LOCAL_WRITE | ib::IBV_ACCESS_ON_DEMAND).cast_signed();
    // SAFETY: the page is there until the registration has ended; if it does not end, it is leaked.
    unsafe {
        let mr = lib.ibv_reg_mr(pd, page.as_mut_ptr().cast(), PAGE_BYTES, access);
        if mr.is_null() {
            return false;
        }
        if lib.ibv_dereg_mr(mr) != 0 {
            std::mem::forget(page);
        }
        true
    }
}

/// Registers a file that there is not: a driver that takes none says so before it looks.
///
/// # Safety
/// As [`Support::ask`].
unsafe fn dmabuf(lib: &ib::Verbs, pd: *mut ib::ibv_pd) -> bool {
    let access = ib::IBV_ACCESS_LOCAL_WRITE.cast_signed();
    // SAFETY: no memory is registered, as there is no file -1.
    let mr = unsafe { lib.ibv_reg_dmabuf_mr(pd, (-1, 0), (0, PAGE_BYTES), access) };
    mr.is_null() && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
}

/// Whether modules of the kernel, which shows itself in `folder`, tell addresses of devices' memory: NVIDIA's and AMD's.
fn peers(folder: &Path) -> [bool; 2] {
    let there = |path: &str| folder.join(path).exists();
    let nvidia = there("module/nvidia_peermem") || there("kernel/mm/memory_peers/nv_mem/version");
    [nvidia, there("kernel/mm/memory_peers/amdkfd/version")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_the_kernel_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let kinds = || Support { peers: peers(dir.path()), ..Support::default() }.kinds();
        assert_eq!(kinds(), [MemoryKind::Host]);
        std::fs::create_dir_all(dir.path().join("module/nvidia_peermem")).unwrap();
        assert_eq!(kinds(), [MemoryKind::Host, MemoryKind::Cuda]);
        let amd = dir.path().join("kernel/mm/memory_peers/amdkfd");
        std::fs::create_dir_all(&amd).unwrap();
        std::fs::write(amd.join("version"), "1").unwrap();
        assert_eq!(kinds(), [MemoryKind::Host, MemoryKind::Cuda, MemoryKind::Rocm]);
        assert_eq!(Support { dmabuf: true, ..Support::default() }.kinds(), MemoryKind::ALL);
    }
}
