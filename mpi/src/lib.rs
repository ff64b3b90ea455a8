//! The collectives of unmodified MPI programs, taken by circulant.
//!
//! A shared library, `libcirculant_mpi.so`, that is preloaded (or linked before the MPI). It exports the collectives of MPI, blocking and non-blocking, under
//! their `MPI_` and `PMPI_` names, with counts as `int` and as `MPI_Count`. A call that it can take runs on [`circulant`]; any other goes
//! to the program's own MPI, which is found at run time. No `mpi.h` is used: handles travel as `usize`, and what the three ABIs
//! (`abi`) do not share is data.
//!
//! | module | what it does |
//! |---|---|
//! | `abi` | which ABI the MPI has, and its constants |
//! | `real` | the MPI's own functions |
//! | `wire`, `on` | the library's own use of the MPI; a communicator of the program, with what its MPI is asked by |
//! | `init`, `layer` | `MPI_Init` and `MPI_Finalize`; what there is between them |
//! | `collective`, `call`, `stop` | what all operations have in common; a call as its operation sees it; why one does not run here |
//! | `communicators`, `groups` | which communicators are ours, and for how long; intercommunicators |
//! | `attributes` | functions of the attributes by which communicators and types carry what is ours |
//! | `launch` | start-up over the MPI |
//! | `types`, `buffers`, `ragged`, `reductions` | datatypes, memory, lists of counts, operators |
//! | `operations`, `form` | the collectives, and that each has a blocking and a non-blocking form |
//! | `nonblocking`, `requests` | the non-blocking form; requests of the MPI for what runs here |
//! | `progress`, `outside` | the MPI's progress calls ours; when it must not |
//! | `exports` | the C functions |
//! | `decided` | calls of which it is known that they go to the MPI |
//! | `report` | what was taken and what was passed on |
//! | `take`, `trials` | the choice of operations and sizes, and by trying |
//!
//! # The rule
//! All ranks of a call must take it or pass it on alike, so only what all know alike decides: the communicator, the operation, the
//! operator, the root, and the bytes of the type signature. Datatypes, counts and displacements may differ from rank to rank.

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!(
    "an int handle is read as the low half of a 64-bit register or stack slot: Linux on x86-64 or aarch64 only"
);

mod abi;
mod attributes;
mod buffers;
mod call;
mod collective;
mod communicators;
mod decided;
mod exports;
mod form;
mod groups;
mod init;
mod launch;
mod layer;
mod narrow;
mod nonblocking;
mod on;
mod operations;
mod outside;
mod progress;
mod ragged;
mod real;
mod reductions;
mod report;
mod requests;
mod spared;
mod stop;
mod take;
mod trials;
mod types;
mod wire;
