//! Round-optimal collectives over one-sided puts, without MPI.
//!
//! The collectives of MPI between the processes of a job, for any number of processes p and any root. A broadcast
//! goes in n blocks along the schedules of Träff's circulant
//! graphs and reaches all ranks in n−1+⌈log2 p⌉ rounds, the fewest possible, each block each
//! rank exactly once, straight into its final memory. The wire is [libfabric](https://ofiwg.github.io/libfabric/):
//! RDMA hardware, shared memory, or TCP.
//!
//! An algorithm is data and one engine runs it: [`schedule`] is arithmetic on (p, r), [`plan`] turns it into
//! steps, an engine runs the steps, a [`transport`] touches the wire. Users need only [`comm`], whose types are
//! re-exported here. Why all this is as it is: `docs/design.md`.
//!
//! # Quick start
//! ```
//! use circulant::World;
//!
//! fn main() -> circulant::Result<()> {
//!     let world = World::init()?;
//!     let comm = world.comm();
//!     let mut data = comm.alloc::<f64>(1000)?;
//!     if comm.rank() == 0 {
//!         data.fill(0.5);
//!     }
//!     comm.bcast(&mut data, 0)?;
//!     println!("rank {} of {}: {}", comm.rank(), comm.size(), data.iter().sum::<f64>());
//!     drop(data);
//!     world.finalize()
//! }
//! ```
//! Run alone it is a job of one rank; `circulant run -n 8 PROGRAM` runs eight. More is in `examples/`.
//!
//! # Operations
//! Methods of [`Communicator`]; those of one element at each rank are there as values, too, with `_one` behind their names
//! ([`allreduce_one`](Communicator::allreduce_one), [`bcast_one`](Communicator::bcast_one), …). Each is there in three forms: blocking (`bcast`), non-blocking (`ibcast`, which
//! returns a [`Request`]; on borrowed slices in a [`scope`](Communicator::scope)) and persistent (`bcast_init`, which returns a
//! [`comm::Persistent`]). Bindings to other languages have the last two on memory that no lifetime describes: [`unscoped`](Communicator::unscoped).
//!
//! | operation | in place ([`InPlace`]) |
//! |---|---|
//! | [`barrier`](Communicator::barrier) | |
//! | [`bcast`](Communicator::bcast) | has one buffer |
//! | [`allgather`](Communicator::allgather), [`allgatherv`](Communicator::allgatherv) | yes |
//! | [`gather`](Communicator::gather), [`gatherv`](Communicator::gatherv), [`gatherv_rooted`](Communicator::gatherv_rooted) | at the root |
//! | [`scatter`](Communicator::scatter), [`scatterv`](Communicator::scatterv), [`scatterv_rooted`](Communicator::scatterv_rooted) | at the root |
//! | [`alltoall`](Communicator::alltoall), [`alltoallv`](Communicator::alltoallv), [`alltoallw`](Communicator::alltoallw) | by way of a copy |
//! | [`reduce`](Communicator::reduce) | at the root, by way of a copy |
//! | [`allreduce`](Communicator::allreduce) | yes |
//! | [`scan`](Communicator::scan), [`exscan`](Communicator::exscan) | each rank as it likes, by way of a copy |
//! | [`reduce_scatter`](Communicator::reduce_scatter), [`reduce_scatter_block`](Communicator::reduce_scatter_block) | each rank as it likes, by way of a copy |
//! | [`neighbor_allgather`](comm::Neighborhood::neighbor_allgather), [`neighbor_allgatherv`](comm::Neighborhood::neighbor_allgatherv), [`neighbor_alltoall`](comm::Neighborhood::neighbor_alltoall) | |
//! | [`neighbor_alltoallv`](comm::Neighborhood::neighbor_alltoallv) | sent and received blocks disjoint |
//!
//! Counts and displacements are a [`comm::Partition`] where they are kept, or `&counts`, or `(&counts, &displs)`: [`comm::Parts`].
//! Displacements of each rank's own, for an allgatherv, are [`comm::Local`]; an alltoallw takes a [`comm::Layout`] for each rank.
//!
//! Those between neighbours are methods of [`comm::Neighborhood`], on a graph or a grid of ranks. Between two groups of ranks: [`comm::Intercommunicator`] has `allgather`, `allgatherv`, `bcast` and `barrier`, in the
//! same three forms. Types and operators: [`ops`]; reductions of bytes whose type is known at run time: [`ops::Reducer::on_bytes`].
//!
//! # Crates
//! This one sends. What is computed before (schedules, plans, selection, simulation, operators) is the crate `circulant-core`,
//! which is re-exported here: [`schedule`], [`plan`], [`select`], [`ops`], [`error`]. The tool `circulant` is the crate
//! `circulant-tool`, and the process manager behind `circulant run` the crate `circulant-launcher`. `circulant-capi` is the
//! library for C, C++ and Fortran.
//! `circulant-mpi` takes the collectives of unmodified MPI programs.
//!
//! # The library libfabric
//! *To build*, nothing of it is needed, neither headers nor libclang: the bindings are committed.
//! *To run* with more than one rank, version 1.17 (Debian 12: `apt install libfabric1`) or newer; it is loaded
//! by the first [`World::init`], as `libfabric.so.1` or what CIRCULANT_LIBFABRIC names. One binary runs on
//! 1.17 and on 2.x. A job of one rank does not load it.
//!
//! Loading it runs foreign constructors, and libfabric reads its environment only once. So call
//! [`World::init`] early, before other threads are started: only then are the presets of
//! [`transport::fabric::presets`] set. Signal handlers and the thread's CPU affinity survive.
//!
//! # Providers
//! CIRCULANT_PROVIDER chooses: `auto` takes shared memory of our own (`shm`) if all ranks share a node, and needs
//! no libfabric then. Between nodes it takes RDMA where there is some, else TCP; where nodes have several ranks, with shared
//! memory inside them (`tcp+shm` and the like). `tcp`, `rxm`, `verbs`, `sockets`, `udp`, `fi_shm` (libfabric's shared memory)
//! and libfabric's exact names can be asked for, and `ibverbs`: RDMA hardware without libfabric ([`transport::verbs`]). Where
//! all ranks have it on one kind of link, `auto` and `verbs` take that, too; `verbs;ofi_rxm` is libfabric's. All ranks use the same. What providers do otherwise than they say is one table,
//! [`transport::fabric::quirks`]; start-up tests the wire to each neighbour before it is used.
//!
//! # Launch
//! [`World::init`] finds its job: by PMI-1 under `circulant run`, Hydra's `mpiexec` and `srun --mpi=pmi2`; by PMIx under
//! `mpirun` of Open MPI, `prterun` and `srun --mpi=pmix`; by variables of its own in a loop over ssh or in containers. Without
//! a launcher the size is 1; a launcher that speaks of several ranks and cannot be
//! reached is an error, never several jobs of size 1. After [`World::finalize`] a process may make another world, with other
//! settings. See `docs/launch.md`.
//!
//! All settings, their variables and defaults are one table: [`config::SETTINGS`]; programs set them by methods of
//! [`comm::Builder`]. A variable that begins with `CIRCULANT_` and is not known is an error. With CIRCULANT_LOG=info rank 0 says on
//! standard error what it runs on, and how each kind of call first goes ([`trace`]).
//!
//! # Thread safety
//! [`World`] and [`Communicator`] can be shared between threads, requests and [`comm::Persistent`] can be moved. Threads
//! may be in calls at the same time, each on a communicator of its own ([`Communicator::dup`]): a call that waits
//! lets the others in at every turn. (MPI calls this `MPI_THREAD_MULTIPLE`; the engine itself runs on one thread at
//! a time, so threads do not make it faster.) On one communicator the order of calls must be the same on all ranks,
//! so threads that share one must agree on it.
//!
//! Any thread in a call moves on everything that is under way in its world. While none is in a call nothing moves,
//! unless the program calls [`World::progress`], or the setting `progress` is `thread`: then a thread of the library does so
//! whenever no call does. What is not of this library and needs to move on while a call waits is a hook: [`World::while_waiting`].
//!
//! A process that is forked without exec can't use its parent's world.
//!
//! # Memory safety
//! The public interface is safe. When a call on borrowed memory returns, also with an error, no rank can still
//! write into that memory or read from it on our behalf. After success that holds because everything was
//! counted; after an error because the endpoint is closed before the call returns; where closing would not be
//! enough (a provider whose peers copy across processes, such as `fi_shm`) borrowed slices are staged through
//! memory of the library. If closing itself fails, the process is aborted. [`comm::Persistent`] owns its
//! buffers, so leaking one leaks memory and leaves nothing dangling. Elements are
//! [`bytemuck::Pod`]: any bytes that arrive are valid values. Of a `bool` they are not. One `bool` of each rank
//! goes as a [`comm::Scalar`], whose bytes are checked; a slice of them is sent as bytes (`bytemuck::cast_slice::<bool, u8>`)
//! and received as bytes, with [`ops::Land`] and [`ops::Lor`] of `u8` for *and* and *or*, as in `examples/flags.rs`.
//!
//! Nothing protects against a malicious rank: while an operation is open, a rank that was told the key of a buffer
//! can write to any byte of that registered memory.
//!
//! # Errors and cleanup
//! Each error is an [`Error`]: rank, peer, operation with its number, round, provider, and what to do. Every
//! wait ends: when what it waits for comes, when a rank that it needs is gone, or at a deadline where one is set
//! (CIRCULANT_DEADLINE). Each minute it says on stderr for which ranks it waits. **An error is final for the
//! world**, also one of arguments: all ranks get it, under the culprit's name, and later calls fail at once. (But where [`Communicator::alloc`] can't have memory,
//! the other ranks get no error.) There is nothing to repair; end the job or go on alone.
//!
//! [`World::finalize`] waits for all ranks and leaves no data in sockets ([`World::start_finalize`]: without waiting, by questions). A world that is dropped without it
//! has left the job in the middle, and the others get an error. Buffers may outlive their world.
//! `docs/troubleshooting.md` lists the errors by their texts.
//!
//! # Without hardware
//! Everything runs over TCP and shared memory on one machine; `ci/verbs` runs it over real verbs on a software
//! device (soft-RoCE) in a small virtual machine. For tests inside one process there is
//! [`transport::sim`] with [`launch::threads`]: ranks as threads, the real engine, and a wire that delays,
//! reorders and breaks as told. [`plan::interpret`] checks plans for thousands of ranks without any wire.

pub mod comm;
pub mod config;
pub(crate) mod engine;
pub mod launch;
pub mod record;
pub mod secret;
pub mod trace;
pub mod transport;

pub(crate) mod buffer;
pub(crate) mod hash;
pub(crate) mod memory;

/// The crate of [`Pod`](bytemuck::Pod), [`Zeroable`](bytemuck::Zeroable) and casts between slices, of the version
/// that is used here. Derive `Pod` with `#[bytemuck(crate = "circulant::bytemuck")]` on the type if your package does not depend on it.
pub use bytemuck;
pub use circulant_core::{error, ops};
// Their pages are those of `circulant-core`: programs that call collectives need none of them.
#[doc(no_inline)]
pub use circulant_core::{machine, plan, schedule, select};
pub use comm::measure;
pub use comm::{Buf, Communicator, InPlace, Options, Request, World};
pub use error::{Error, ErrorKind, Result};

/// Counters, to show what a call does.
pub mod diagnostics {
    pub use crate::buffer::{CountingAllocator, allocations, heap_growth, live_allocations};
}

/// What fuzz targets reach of the crate's own decoders.
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::engine::message::fuzz_message as message;
    #[cfg(not(loom))]
    pub use crate::transport::shm::{fuzz_address as address, fuzz_ring as ring};

    /// What fuzz targets begin with passes, and the targets compile in every build of the tests.
    #[cfg(all(test, not(loom), not(miri)))]
    #[test]
    fn seeds_pass() {
        let record = |bytes: &[u8]| _ = crate::record::Record::read(bytes);
        let targets =
            [("messages", message as fn(&[u8])), ("segment", address), ("ring", ring), ("record", record)];
        for (name, target) in targets {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
            let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
            let seeds: Vec<_> = files.map(|file| std::fs::read(file).unwrap()).collect();
            assert!(!seeds.is_empty(), "no seeds in {}", folder.display());
            seeds.iter().for_each(|seed| target(seed));
        }
    }
}
