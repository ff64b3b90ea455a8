//! The functions of C, under the names of MPI: `MPI_X` and `PMPI_X` are the same. Fortran's wrappers call either.
//!
//! A program that is linked or preloaded with this library calls these in place of its MPI's, and none of them before `MPI_Init` has
//! returned does anything but call that.

use crate::abi::Abi;
use crate::form::Blocking;
use crate::layer::{Layer, layer};
use crate::nonblocking::NonBlocking;
use crate::real::{Real, real};
use crate::requests;
use std::ffi::{c_char, c_int, c_void};

type Handle = usize;
type In = *const c_void;
type Out = *mut c_void;
type Ints = *const c_int;

/// Passes a call on: to the MPI's function, and, where an MPI lacks that of 64 bits, to the other one.
macro_rules! pass {
    (int $real:ident ($($arg:ident),*)) => { real().$real($($arg),*) };
    (large $real:ident ($($arg:ident),*)) => {
        if real().$real.is_some() { real().$real($($arg),*) } else { crate::narrow::$real($($arg),*) }
    };
}

/// Makes `MPI_X` and `PMPI_X` of an operation's function, with the MPI's own to pass calls on to.
macro_rules! exports {
    ($width:ident: $($mpi:ident $pmpi:ident $real:ident $ours:ident ($($arg:ident: $type:ty),*);)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $mpi($($arg: $type),*) -> c_int {
            // SAFETY: the caller calls MPI's function, and keeps what MPI asks of it.
            unsafe { crate::operations::$ours(Blocking, $($arg,)* || pass!($width $real ($($arg),*))) }
        }

        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $pmpi($($arg: $type),*) -> c_int {
            // SAFETY: as above.
            unsafe { crate::operations::$ours(Blocking, $($arg,)* || pass!($width $real ($($arg),*))) }
        }
    )*};
}

/// The same of non-blocking operations, whose last argument is room for a request.
macro_rules! requests {
    ($width:ident: $($mpi:ident $pmpi:ident $real:ident $ours:ident ($($arg:ident: $type:ty),*);)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $mpi($($arg: $type,)* request: *mut Handle) -> c_int {
            let form = NonBlocking(request);
            // SAFETY: the caller calls MPI's function, and keeps what MPI asks of it.
            unsafe { crate::operations::$ours(form, $($arg,)* || pass!($width $real ($($arg,)* request))) }
        }

        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $pmpi($($arg: $type,)* request: *mut Handle) -> c_int {
            let form = NonBlocking(request);
            // SAFETY: as above.
            unsafe { crate::operations::$ours(form, $($arg,)* || pass!($width $real ($($arg,)* request))) }
        }
    )*};
}

/// All forms of operations whose arguments are the same but for the width of counts and displacements, `N` and `D`.
macro_rules! widths {
    ($($ours:ident $arguments:tt
        $mpi:ident $pmpi:ident $real:ident $impi:ident $ipmpi:ident $ireal:ident
        $mpi_c:ident $pmpi_c:ident $real_c:ident $impi_c:ident $ipmpi_c:ident $ireal_c:ident;)*) => {
        /// Counts and displacements of 32 bits.
        mod int {
            use super::{Blocking, Handle, In, NonBlocking, Out, c_int, real};

            type N = c_int;
            type D = c_int;

            exports! { int: $($mpi $pmpi $real $ours $arguments;)* }
            requests! { int: $($impi $ipmpi $ireal $ours $arguments;)* }
        }

        /// Counts of 64 bits, displacements as wide as a pointer.
        mod large {
            use super::{Blocking, Handle, In, NonBlocking, Out, c_int, real};

            type N = i64;
            type D = isize;

            exports! { large: $($mpi_c $pmpi_c $real_c $ours $arguments;)* }
            requests! { large: $($impi_c $ipmpi_c $ireal_c $ours $arguments;)* }
        }
    };
}

exports! { int: MPI_Barrier PMPI_Barrier Barrier barrier(comm: Handle); }
requests! { int: MPI_Ibarrier PMPI_Ibarrier Ibarrier barrier(comm: Handle); }

widths! {
    bcast(buf: Out, n: N, t: Handle, root: c_int, comm: Handle)
        MPI_Bcast PMPI_Bcast Bcast MPI_Ibcast PMPI_Ibcast Ibcast
        MPI_Bcast_c PMPI_Bcast_c Bcast_c MPI_Ibcast_c PMPI_Ibcast_c Ibcast_c;
    gather(s: In, sn: N, st: Handle, r: Out, rn: N, rt: Handle, root: c_int, comm: Handle)
        MPI_Gather PMPI_Gather Gather MPI_Igather PMPI_Igather Igather
        MPI_Gather_c PMPI_Gather_c Gather_c MPI_Igather_c PMPI_Igather_c Igather_c;
    gatherv(s: In, sn: N, st: Handle, r: Out, rn: *const N, rd: *const D, rt: Handle, root: c_int, comm: Handle)
        MPI_Gatherv PMPI_Gatherv Gatherv MPI_Igatherv PMPI_Igatherv Igatherv
        MPI_Gatherv_c PMPI_Gatherv_c Gatherv_c MPI_Igatherv_c PMPI_Igatherv_c Igatherv_c;
    scatter(s: In, sn: N, st: Handle, r: Out, rn: N, rt: Handle, root: c_int, comm: Handle)
        MPI_Scatter PMPI_Scatter Scatter MPI_Iscatter PMPI_Iscatter Iscatter
        MPI_Scatter_c PMPI_Scatter_c Scatter_c MPI_Iscatter_c PMPI_Iscatter_c Iscatter_c;
    scatterv(s: In, sn: *const N, sd: *const D, st: Handle, r: Out, rn: N, rt: Handle, root: c_int, comm: Handle)
        MPI_Scatterv PMPI_Scatterv Scatterv MPI_Iscatterv PMPI_Iscatterv Iscatterv
        MPI_Scatterv_c PMPI_Scatterv_c Scatterv_c MPI_Iscatterv_c PMPI_Iscatterv_c Iscatterv_c;
    allgather(s: In, sn: N, st: Handle, r: Out, rn: N, rt: Handle, comm: Handle)
        MPI_Allgather PMPI_Allgather Allgather MPI_Iallgather PMPI_Iallgather Iallgather
        MPI_Allgather_c PMPI_Allgather_c Allgather_c MPI_Iallgather_c PMPI_Iallgather_c Iallgather_c;
    allgatherv(s: In, sn: N, st: Handle, r: Out, rn: *const N, rd: *const D, rt: Handle, comm: Handle)
        MPI_Allgatherv PMPI_Allgatherv Allgatherv MPI_Iallgatherv PMPI_Iallgatherv Iallgatherv
        MPI_Allgatherv_c PMPI_Allgatherv_c Allgatherv_c MPI_Iallgatherv_c PMPI_Iallgatherv_c Iallgatherv_c;
    alltoall(s: In, sn: N, st: Handle, r: Out, rn: N, rt: Handle, comm: Handle)
        MPI_Alltoall PMPI_Alltoall Alltoall MPI_Ialltoall PMPI_Ialltoall Ialltoall
        MPI_Alltoall_c PMPI_Alltoall_c Alltoall_c MPI_Ialltoall_c PMPI_Ialltoall_c Ialltoall_c;
    alltoallv(s: In, sn: *const N, sd: *const D, st: Handle, r: Out, rn: *const N, rd: *const D, rt: Handle, comm: Handle)
        MPI_Alltoallv PMPI_Alltoallv Alltoallv MPI_Ialltoallv PMPI_Ialltoallv Ialltoallv
        MPI_Alltoallv_c PMPI_Alltoallv_c Alltoallv_c MPI_Ialltoallv_c PMPI_Ialltoallv_c Ialltoallv_c;
    alltoallw(s: In, sn: *const N, sd: *const D, st: *const Handle, r: Out, rn: *const N, rd: *const D, rt: *const Handle, comm: Handle)
        MPI_Alltoallw PMPI_Alltoallw Alltoallw MPI_Ialltoallw PMPI_Ialltoallw Ialltoallw
        MPI_Alltoallw_c PMPI_Alltoallw_c Alltoallw_c MPI_Ialltoallw_c PMPI_Ialltoallw_c Ialltoallw_c;
    reduce(s: In, r: Out, n: N, t: Handle, op: Handle, root: c_int, comm: Handle)
        MPI_Reduce PMPI_Reduce Reduce MPI_Ireduce PMPI_Ireduce Ireduce
        MPI_Reduce_c PMPI_Reduce_c Reduce_c MPI_Ireduce_c PMPI_Ireduce_c Ireduce_c;
    allreduce(s: In, r: Out, n: N, t: Handle, op: Handle, comm: Handle)
        MPI_Allreduce PMPI_Allreduce Allreduce MPI_Iallreduce PMPI_Iallreduce Iallreduce
        MPI_Allreduce_c PMPI_Allreduce_c Allreduce_c MPI_Iallreduce_c PMPI_Iallreduce_c Iallreduce_c;
    reduce_scatter(s: In, r: Out, n: *const N, t: Handle, op: Handle, comm: Handle)
        MPI_Reduce_scatter PMPI_Reduce_scatter Reduce_scatter MPI_Ireduce_scatter PMPI_Ireduce_scatter Ireduce_scatter
        MPI_Reduce_scatter_c PMPI_Reduce_scatter_c Reduce_scatter_c MPI_Ireduce_scatter_c PMPI_Ireduce_scatter_c Ireduce_scatter_c;
    reduce_scatter_block(s: In, r: Out, n: N, t: Handle, op: Handle, comm: Handle)
        MPI_Reduce_scatter_block PMPI_Reduce_scatter_block Reduce_scatter_block MPI_Ireduce_scatter_block PMPI_Ireduce_scatter_block Ireduce_scatter_block
        MPI_Reduce_scatter_block_c PMPI_Reduce_scatter_block_c Reduce_scatter_block_c MPI_Ireduce_scatter_block_c PMPI_Ireduce_scatter_block_c Ireduce_scatter_block_c;
    scan(s: In, r: Out, n: N, t: Handle, op: Handle, comm: Handle)
        MPI_Scan PMPI_Scan Scan MPI_Iscan PMPI_Iscan Iscan
        MPI_Scan_c PMPI_Scan_c Scan_c MPI_Iscan_c PMPI_Iscan_c Iscan_c;
    exscan(s: In, r: Out, n: N, t: Handle, op: Handle, comm: Handle)
        MPI_Exscan PMPI_Exscan Exscan MPI_Iexscan PMPI_Iexscan Iexscan
        MPI_Exscan_c PMPI_Exscan_c Exscan_c MPI_Iexscan_c PMPI_Iexscan_c Iexscan_c;
}

/// Initialises the MPI, and begins.
unsafe fn init(mpis: impl FnOnce() -> c_int) -> c_int {
    let code = mpis();
    if code == 0 {
        // SAFETY: the MPI has just been initialised, by this thread.
        unsafe { crate::init::start() };
    }
    code
}

/// Ends, and finalizes the MPI.
unsafe fn finalize() -> c_int {
    // SAFETY: the thread that finalizes the MPI may call it, and is the last that does.
    unsafe {
        crate::init::stop();
        real().Finalize()
    }
}

/// Looks at the operation of a request before the MPI is asked for its status: MPICH calls no function of the request there.
unsafe fn status_of(request: Handle, mpis: impl FnOnce() -> c_int) -> c_int {
    requests::advance_request(request);
    mpis()
}

/// Frees a datatype or an operator, later if an operation is under way: it may use it (MPI 4.1, sections 5.1.9 and 6.9.7).
unsafe fn free(
    handle: *mut Handle,
    free: unsafe fn(&Real, *mut Handle) -> c_int,
    is_predefined: fn(&Layer, Handle) -> bool,
    null: fn(&Abi) -> Handle,
) -> c_int {
    if let Some(layer) = layer()
        && !handle.is_null()
    {
        // SAFETY: the program passes a handle.
        let passed = unsafe { layer.abi.handle_at(handle, 0) };
        // What cannot be freed the MPI refuses.
        if !is_predefined(layer, passed) && requests::keep(passed, free) {
            // SAFETY: as above.
            unsafe { layer.abi.set_handle(handle, null(layer.abi)) };
            return 0;
        }
    }
    // SAFETY: the caller's.
    unsafe { free(real(), handle) }
}

/// Makes a communicator, by the MPI, and what its non-blocking collectives run on.
unsafe fn creates(made: *mut Handle, mpis: impl FnOnce() -> c_int) -> c_int {
    let code = mpis();
    match layer() {
        Some(layer) if code == 0 && !made.is_null() => {
            // SAFETY: the MPI has written the handle; all ranks of the communicator are in the call that has made it.
            unsafe { crate::collective::created(layer, layer.abi.handle_at(made, 0)) }
        }
        _ => code,
    }
}

/// Makes both names of functions other than collectives.
macro_rules! both {
    ($($mpi:ident $pmpi:ident ($($arg:ident: $type:ty),*) $body:expr;)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $mpi($($arg: $type),*) -> c_int {
            // SAFETY: the caller calls MPI's function, and keeps what MPI asks of it.
            unsafe { $body }
        }

        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $pmpi($($arg: $type),*) -> c_int {
            // SAFETY: as above.
            unsafe { $body }
        }
    )*};
}

both! {
    MPI_Init PMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) init(|| real().Init(argc, argv));
    MPI_Init_thread PMPI_Init_thread(argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int)
        init(|| real().Init_thread(argc, argv, required, provided));
    MPI_Finalize PMPI_Finalize() finalize();
    MPI_Comm_dup PMPI_Comm_dup(comm: Handle, made: *mut Handle) creates(made, || real().Comm_dup(comm, made));
    MPI_Comm_dup_with_info PMPI_Comm_dup_with_info(comm: Handle, info: Handle, made: *mut Handle)
        creates(made, || real().Comm_dup_with_info(comm, info, made));
    MPI_Comm_split PMPI_Comm_split(comm: Handle, color: c_int, key: c_int, made: *mut Handle)
        creates(made, || real().Comm_split(comm, color, key, made));
    MPI_Comm_split_type PMPI_Comm_split_type(comm: Handle, split: c_int, key: c_int, info: Handle, made: *mut Handle)
        creates(made, || real().Comm_split_type(comm, split, key, info, made));
    MPI_Comm_create PMPI_Comm_create(comm: Handle, group: Handle, made: *mut Handle)
        creates(made, || real().Comm_create(comm, group, made));
    MPI_Comm_create_group PMPI_Comm_create_group(comm: Handle, group: Handle, tag: c_int, made: *mut Handle)
        creates(made, || real().Comm_create_group(comm, group, tag, made));
    MPI_Intercomm_merge PMPI_Intercomm_merge(comm: Handle, high: c_int, made: *mut Handle)
        creates(made, || real().Intercomm_merge(comm, high, made));
    MPI_Cart_create PMPI_Cart_create(comm: Handle, n: c_int, dims: Ints, periods: Ints, reorder: c_int, made: *mut Handle)
        creates(made, || real().Cart_create(comm, n, dims, periods, reorder, made));
    MPI_Cart_sub PMPI_Cart_sub(comm: Handle, remains: Ints, made: *mut Handle)
        creates(made, || real().Cart_sub(comm, remains, made));
    MPI_Graph_create PMPI_Graph_create(comm: Handle, n: c_int, index: Ints, edges: Ints, reorder: c_int, made: *mut Handle)
        creates(made, || real().Graph_create(comm, n, index, edges, reorder, made));
    MPI_Dist_graph_create PMPI_Dist_graph_create(comm: Handle, n: c_int, sources: Ints, degrees: Ints, to: Ints, weights: Ints,
        info: Handle, reorder: c_int, made: *mut Handle)
        creates(made, || real().Dist_graph_create(comm, n, sources, degrees, to, weights, info, reorder, made));
    MPI_Dist_graph_create_adjacent PMPI_Dist_graph_create_adjacent(comm: Handle, n: c_int, sources: Ints, sw: Ints, m: c_int, to: Ints,
        tw: Ints, info: Handle, reorder: c_int, made: *mut Handle)
        creates(made, || real().Dist_graph_create_adjacent(comm, n, sources, sw, m, to, tw, info, reorder, made));
    MPI_Request_get_status PMPI_Request_get_status(request: Handle, flag: *mut c_int, status: usize)
        status_of(request, || real().Request_get_status(request, flag, status));
    MPI_Type_free PMPI_Type_free(datatype: *mut Handle)
        free(datatype, Real::Type_free, |layer, handle| layer.types.is_predefined(handle), |abi| abi.type_null);
    MPI_Op_free PMPI_Op_free(op: *mut Handle)
        free(op, Real::Op_free, |layer, handle| layer.reducers.is_predefined(handle), |abi| abi.op_null);
}
