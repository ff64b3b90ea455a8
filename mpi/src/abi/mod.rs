//! The ABIs of MPI libraries: which one is here, and its constants.
//!
//! Sources: `mpi.h` of MPICH 4.0.2 and 5.0.2 (their ABI initiative holds these values for Intel's and Cray's libraries, too), `mpi.h` of
//! Open MPI 4.1.4, and `mpi_abi.h` of MPICH 5.0.2, which is the header of the standard ABI 1.0 (MPI 5.0, chapter 20). A test compares
//! with the headers that it finds.

mod check;
mod tables;
#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests may panic"
)]
mod tests;

pub(crate) use check::check;
pub(crate) use tables::{Class, NAMED, Named, Op, PREDEFINED_OPS};

use crate::real::{Real, symbol};
use std::ffi::c_int;

/// Whose conventions the MPI follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Handles are `int`.
    Mpich,
    /// Handles are addresses of the library's data.
    OpenMpi,
    /// Handles are pointers that hold small constants.
    Standard,
}

/// What a program passes besides buffers and counts. Handles are as wide as a pointer; those of MPICH have 32 bits.
#[derive(Clone, Debug)]
pub(crate) struct Abi {
    pub(crate) kind: Kind,
    pub(crate) world: usize,
    pub(crate) comm_null: usize,
    pub(crate) type_null: usize,
    pub(crate) op_null: usize,
    pub(crate) byte: usize,
    pub(crate) int: usize,
    pub(crate) min: usize,
    pub(crate) in_place: usize,
    pub(crate) status_ignore: usize,
    pub(crate) any_source: c_int,
    /// `MPI_ROOT` and `MPI_PROC_NULL`, which calls between two groups pass as root.
    pub(crate) root: c_int,
    pub(crate) proc_null: c_int,
    pub(crate) err_other: c_int,
    /// `MPI_COMBINER_NAMED`; DUP and CONTIGUOUS follow it.
    pub(crate) named: c_int,
}

/// `MPI_UNDEFINED`, in every ABI.
pub(crate) const UNDEFINED: c_int = -32766;

impl Kind {
    /// That of the library that is loaded, and its `MPI_COMM_WORLD`.
    pub(crate) fn of(real: &Real) -> (Self, usize) {
        if let Some(world) = symbol(c"ompi_mpi_comm_world") {
            return (Self::OpenMpi, world);
        }
        let (mut major, mut minor) = (-1, -1);
        // SAFETY: both point to an int; the function may be called before MPI_Init (MPI 5.0, section 20.2.1).
        let told = real.Abi_get_version.is_some()
            && unsafe { real.Abi_get_version(&raw mut major, &raw mut minor) } == 0;
        if told && (major, minor) == (1, 0) {
            (Self::Standard, Abi::standard().world)
        } else {
            (Self::Mpich, Abi::mpich().world)
        }
    }
}

impl Abi {
    /// That of a library of this kind; nothing where a symbol is missing that it must have.
    pub(crate) fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Mpich => Some(Self::mpich()),
            Kind::OpenMpi => Self::open_mpi(),
            Kind::Standard => Some(Self::standard()),
        }
    }

    pub(crate) fn mpich() -> Self {
        Self {
            kind: Kind::Mpich,
            world: 0x4400_0000,
            comm_null: 0x0400_0000,
            type_null: 0x0c00_0000,
            op_null: 0x1800_0000,
            byte: 0x4c00_010d,
            int: 0x4c00_0405,
            min: 0x5800_0002,
            in_place: usize::MAX,
            status_ignore: 1,
            any_source: -2,
            root: -3,
            proc_null: -1,
            err_other: 15,
            named: 1,
        }
    }

    pub(crate) fn standard() -> Self {
        Self {
            kind: Kind::Standard,
            world: 0x101,
            comm_null: 0x100,
            type_null: 0x200,
            op_null: 0x20,
            byte: 0x247,
            int: 0x209,
            min: 0x22,
            in_place: 1,
            status_ignore: 0,
            any_source: -1,
            root: -4,
            proc_null: -3,
            err_other: 16,
            named: 101,
        }
    }

    fn open_mpi() -> Option<Self> {
        Some(Self {
            kind: Kind::OpenMpi,
            world: symbol(c"ompi_mpi_comm_world")?,
            comm_null: symbol(c"ompi_mpi_comm_null")?,
            type_null: symbol(c"ompi_mpi_datatype_null")?,
            op_null: symbol(c"ompi_mpi_op_null")?,
            byte: symbol(c"ompi_mpi_byte")?,
            int: symbol(c"ompi_mpi_int")?,
            min: symbol(c"ompi_mpi_op_min")?,
            in_place: 1,
            status_ignore: 0,
            any_source: -1,
            root: -4,
            proc_null: -2,
            err_other: 16,
            named: 0,
        })
    }

    /// A handle as it is compared: what stands above an `int` in its register is not defined.
    pub(crate) fn handle(&self, passed: usize) -> usize {
        match self.kind {
            Kind::Mpich => passed & 0xffff_ffff,
            Kind::OpenMpi | Kind::Standard => passed,
        }
    }

    /// Handle number `i` of a list.
    ///
    /// # Safety
    /// `list` points to more than `i` handles of this ABI.
    pub(crate) unsafe fn handle_at(&self, list: *const usize, i: usize) -> usize {
        match self.kind {
            // SAFETY: the caller's; these handles are an int each.
            Kind::Mpich => unsafe { list.cast::<u32>().add(i).read_unaligned() as usize },
            // SAFETY: the caller's; these handles are a pointer each.
            Kind::OpenMpi | Kind::Standard => unsafe { list.add(i).read_unaligned() },
        }
    }

    /// Writes a handle.
    ///
    /// # Safety
    /// `to` points to a handle of this ABI.
    pub(crate) unsafe fn set_handle(&self, to: *mut usize, handle: usize) {
        match self.kind {
            // SAFETY: the caller's; these handles are an int each.
            Kind::Mpich => unsafe { to.cast::<[u8; 4]>().write_unaligned(lower(handle)) },
            // SAFETY: the caller's; these handles are a pointer each.
            Kind::OpenMpi | Kind::Standard => unsafe { to.write_unaligned(handle) },
        }
    }

    /// The handle of a named type; nothing where this library has none.
    pub(crate) fn named_type(&self, named: &Named) -> Option<usize> {
        match self.kind {
            Kind::Mpich => Some(named.mpich as usize),
            Kind::Standard => Some(usize::from(named.standard)),
            Kind::OpenMpi => symbol(named.open_mpi),
        }
    }

    /// The handle of a predefined operator.
    pub(crate) fn predefined_op(&self, op: &Op) -> Option<usize> {
        match self.kind {
            Kind::Mpich => Some(op.mpich as usize),
            Kind::Standard => Some(usize::from(op.standard)),
            Kind::OpenMpi => symbol(op.open_mpi),
        }
    }
}

/// The bytes of an `int` that is passed as a handle.
fn lower(handle: usize) -> [u8; 4] {
    let [a, b, c, d, ..] = handle.to_le_bytes();
    [a, b, c, d]
}
