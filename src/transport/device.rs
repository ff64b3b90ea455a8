//! Where memory lives: a process's own, or that of a device.

use std::ffi::{c_int, c_void};
use std::fmt;

/// What memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryKind {
    /// A process's memory, which its cores load from and store to.
    Host,
    /// That of a GPU of NVIDIA's, by CUDA.
    Cuda,
    /// That of a GPU of AMD's, by ROCm.
    Rocm,
    /// That of a GPU of Intel's, by Level Zero.
    LevelZero,
}

impl MemoryKind {
    /// All kinds.
    pub const ALL: &'static [Self] = &[Self::Host, Self::Cuda, Self::Rocm, Self::LevelZero];
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Host => "host",
            Self::Cuda => "CUDA",
            Self::Rocm => "ROCm",
            Self::LevelZero => "Level Zero",
        })
    }
}

/// Where memory lives. Devices have the numbers that their own interface gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Memory {
    /// In the process.
    Host,
    /// In this CUDA device.
    Cuda(u32),
    /// In this ROCm device.
    Rocm(u32),
    /// In this Level Zero device.
    LevelZero(u32),
}

impl Memory {
    /// What it is, whatever the device.
    pub fn kind(self) -> MemoryKind {
        match self {
            Self::Host => MemoryKind::Host,
            Self::Cuda(_) => MemoryKind::Cuda,
            Self::Rocm(_) => MemoryKind::Rocm,
            Self::LevelZero(_) => MemoryKind::LevelZero,
        }
    }

    /// The number of its device; 0 of host memory.
    pub fn device(self) -> u32 {
        match self {
            Self::Host => 0,
            Self::Cuda(device) | Self::Rocm(device) | Self::LevelZero(device) => device,
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host memory"),
            _ => write!(f, "{} memory (device {})", self.kind(), self.device()),
        }
    }
}

/// Copies `bytes` bytes from `from` to `to`, of which at least one is memory of a device, and returns when they are there: 0, or the
/// number of an error. Such as `cudaMemcpy` with `cudaMemcpyDefault`, or `hipMemcpy` with `hipMemcpyDefault`.
pub type CopyFunction = unsafe extern "C" fn(to: *mut c_void, from: *const c_void, bytes: usize) -> c_int;

/// A file by which the kernel knows memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaBuf {
    /// Its descriptor, open while the memory is registered.
    pub fd: c_int,
    /// Where in it the memory begins, in bytes.
    pub offset: u64,
}

/// What a transport must know of memory to register it, beside where it is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MemoryAttributes {
    /// Where it lives.
    pub memory: Memory,
    /// What copies from and to it where the processor cannot. Of host memory: nothing.
    pub copy: Option<CopyFunction>,
    /// Its file; `None`: the driver of the network finds its pages by their addresses.
    pub dmabuf: Option<DmaBuf>,
}

impl MemoryAttributes {
    /// Of memory that lives there.
    pub fn new(memory: Memory) -> Self {
        Self { memory, copy: None, dmabuf: None }
    }

    /// With the function that copies from and to it.
    #[must_use]
    pub fn copied_by(self, copy: CopyFunction) -> Self {
        Self { copy: Some(copy), ..self }
    }

    /// With the file by which the kernel knows it: its descriptor, and where in it the memory begins, in bytes.
    #[must_use]
    pub fn in_file(self, fd: c_int, offset: u64) -> Self {
        Self { dmabuf: Some(DmaBuf { fd, offset }), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_memory_has_its_words() {
        let all = [Memory::Host, Memory::Cuda(0), Memory::Rocm(7), Memory::LevelZero(1)];
        assert_eq!(all.map(Memory::kind), MemoryKind::ALL);
        assert_eq!(all.map(Memory::device), [0, 0, 7, 1]);
        let words = all.map(|memory| memory.to_string());
        assert_eq!(
            words,
            [
                "host memory",
                "CUDA memory (device 0)",
                "ROCm memory (device 7)",
                "Level Zero memory (device 1)"
            ]
        );
    }
}
