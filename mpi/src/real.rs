//! The functions of the program's own MPI, by their PMPI names.
//!
//! Never by linking: a linked name is found in this library itself. `RTLD_NEXT` finds what stands behind it among the libraries that the
//! program was linked with. An interpreter opens its MPI with `RTLD_LOCAL`, where `RTLD_NEXT` does not look: then the loaded objects are
//! searched.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

/// What MPI calls `MPI_Count`.
pub(crate) type Count = i64;
/// A handle, as it is passed: an `int` or a pointer.
pub(crate) type Handle = usize;
type In = *const c_void;
type Out = *mut c_void;
type Ints = *const c_int;
type Counts = *const Count;
type Aints = *const isize;
type Handles = *const Handle;

macro_rules! functions {
    ($($name:ident ($($arg:ident: $type:ty),*);)*) => {
        /// The functions that this library calls; those that the MPI lacks are `None`.
        #[allow(non_snake_case, reason = "the names are MPI's")]
        pub(crate) struct Real {
            $(pub(crate) $name: Option<unsafe extern "C" fn($($type),*) -> c_int>,)*
        }

        impl Real {
            fn look_up() -> Self {
                $(
                    let name = concat!("PMPI_", stringify!($name), "\0");
                    let found = CStr::from_bytes_with_nul(name.as_bytes()).ok().and_then(function);
                    // SAFETY: the address of the function of this name, whose C declaration in MPI has these parameters
                    // (handles: one register each), or null, which is None.
                    #[allow(non_snake_case, reason = "the names are MPI's")]
                    let $name = unsafe {
                        std::mem::transmute::<Out, Option<unsafe extern "C" fn($($type),*) -> c_int>>(
                            found.unwrap_or(std::ptr::null_mut()),
                        )
                    };
                )*
                Self { $($name),* }
            }

            $(
                /// MPI's function of this name.
                ///
                /// # Safety
                /// What MPI asks of its callers.
                #[allow(non_snake_case, clippy::too_many_arguments, reason = "the names and arguments are MPI's")]
                pub(crate) unsafe fn $name(&self $(, $arg: $type)*) -> c_int {
                    match self.$name {
                        // SAFETY: the caller's.
                        Some(f) => unsafe { f($($arg),*) },
                        None => missing(stringify!($name)),
                    }
                }
            )*
        }
    };
}

functions! {
    Init(argc: *mut c_int, argv: *mut *mut *mut c_char);
    Init_thread(argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int);
    Query_thread(provided: *mut c_int);
    Finalize();
    Abi_get_version(major: *mut c_int, minor: *mut c_int);
    Abort(comm: Handle, code: c_int);

    Comm_rank(comm: Handle, rank: *mut c_int);
    Comm_size(comm: Handle, size: *mut c_int);
    Comm_test_inter(comm: Handle, flag: *mut c_int);
    Comm_remote_size(comm: Handle, size: *mut c_int);
    Comm_dup(comm: Handle, made: *mut Handle);
    Comm_dup_with_info(comm: Handle, info: Handle, made: *mut Handle);
    Comm_split(comm: Handle, color: c_int, key: c_int, made: *mut Handle);
    Comm_split_type(comm: Handle, split: c_int, key: c_int, info: Handle, made: *mut Handle);
    Comm_create(comm: Handle, group: Handle, made: *mut Handle);
    Comm_create_group(comm: Handle, group: Handle, tag: c_int, made: *mut Handle);
    Cart_create(comm: Handle, n: c_int, dims: Ints, periods: Ints, reorder: c_int, made: *mut Handle);
    Cart_sub(comm: Handle, remains: Ints, made: *mut Handle);
    Graph_create(comm: Handle, n: c_int, index: Ints, edges: Ints, reorder: c_int, made: *mut Handle);
    Dist_graph_create(comm: Handle, n: c_int, sources: Ints, degrees: Ints, to: Ints, weights: Ints, info: Handle, reorder: c_int, made: *mut Handle);
    Dist_graph_create_adjacent(comm: Handle, n: c_int, sources: Ints, sw: Ints, m: c_int, to: Ints, tw: Ints, info: Handle, reorder: c_int, made: *mut Handle);
    Comm_free(comm: *mut Handle);
    Comm_group(comm: Handle, group: *mut Handle);
    Comm_remote_group(comm: Handle, group: *mut Handle);
    Intercomm_merge(comm: Handle, high: c_int, made: *mut Handle);
    Group_translate_ranks(group: Handle, n: c_int, ranks: Ints, other: Handle, found: *mut c_int);
    Group_free(group: *mut Handle);
    Comm_create_keyval(copy: Out, delete: Out, keyval: *mut c_int, extra: Out);
    Comm_set_attr(comm: Handle, keyval: c_int, value: Out);
    Comm_get_attr(comm: Handle, keyval: c_int, value: *mut Out, flag: *mut c_int);
    Comm_call_errhandler(comm: Handle, code: c_int);

    Iprobe(source: c_int, tag: c_int, comm: Handle, flag: *mut c_int, status: usize);
    Ibarrier(comm: Handle, request: *mut Handle);
    Test(request: *mut Handle, flag: *mut c_int, status: usize);
    Request_get_status(request: Handle, flag: *mut c_int, status: usize);
    Grequest_start(query: Out, free: Out, cancel: Out, state: Out, request: *mut Handle);
    Grequest_complete(request: Handle);
    Status_set_elements(status: Out, datatype: Handle, n: c_int);
    Status_set_cancelled(status: Out, flag: c_int);

    Type_size_x(datatype: Handle, size: *mut Count);
    Type_get_extent(datatype: Handle, lb: *mut isize, extent: *mut isize);
    Type_get_true_extent(datatype: Handle, lb: *mut isize, extent: *mut isize);
    Type_get_envelope(datatype: Handle, ints: *mut c_int, aints: *mut c_int, types: *mut c_int, combiner: *mut c_int);
    Type_get_envelope_c(datatype: Handle, ints: *mut Count, aints: *mut Count, counts: *mut Count, types: *mut Count, combiner: *mut c_int);
    Type_get_contents(datatype: Handle, ints: c_int, aints: c_int, types: c_int, i: *mut c_int, a: *mut isize, t: *mut Handle);
    Type_free(datatype: *mut Handle);
    Type_create_keyval(copy: Out, delete: Out, keyval: *mut c_int, extra: Out);
    Type_set_attr(datatype: Handle, keyval: c_int, value: Out);
    Type_create_hindexed(n: c_int, lengths: Ints, displs: Aints, datatype: Handle, made: *mut Handle);
    Type_commit(datatype: *mut Handle);
    Pack(from: In, count: c_int, datatype: Handle, to: Out, size: c_int, position: *mut c_int, comm: Handle);
    Unpack(from: In, size: c_int, position: *mut c_int, to: Out, count: c_int, datatype: Handle, comm: Handle);
    Pack_c(from: In, count: Count, datatype: Handle, to: Out, size: Count, position: *mut Count, comm: Handle);
    Unpack_c(from: In, size: Count, position: *mut Count, to: Out, count: Count, datatype: Handle, comm: Handle);
    Op_free(op: *mut Handle);
    Op_commutative(op: Handle, flag: *mut c_int);
    Reduce_local(left: In, right: Out, count: c_int, datatype: Handle, op: Handle);

    Barrier(comm: Handle);
    Bcast(buf: Out, n: c_int, t: Handle, root: c_int, comm: Handle);
    Bcast_c(buf: Out, n: Count, t: Handle, root: c_int, comm: Handle);
    Gather(send: In, sn: c_int, st: Handle, recv: Out, rn: c_int, rt: Handle, root: c_int, comm: Handle);
    Gather_c(send: In, sn: Count, st: Handle, recv: Out, rn: Count, rt: Handle, root: c_int, comm: Handle);
    Gatherv(send: In, sn: c_int, st: Handle, recv: Out, rn: Ints, rd: Ints, rt: Handle, root: c_int, comm: Handle);
    Gatherv_c(send: In, sn: Count, st: Handle, recv: Out, rn: Counts, rd: Aints, rt: Handle, root: c_int, comm: Handle);
    Scatter(send: In, sn: c_int, st: Handle, recv: Out, rn: c_int, rt: Handle, root: c_int, comm: Handle);
    Scatter_c(send: In, sn: Count, st: Handle, recv: Out, rn: Count, rt: Handle, root: c_int, comm: Handle);
    Scatterv(send: In, sn: Ints, sd: Ints, st: Handle, recv: Out, rn: c_int, rt: Handle, root: c_int, comm: Handle);
    Scatterv_c(send: In, sn: Counts, sd: Aints, st: Handle, recv: Out, rn: Count, rt: Handle, root: c_int, comm: Handle);
    Allgather(send: In, sn: c_int, st: Handle, recv: Out, rn: c_int, rt: Handle, comm: Handle);
    Allgather_c(send: In, sn: Count, st: Handle, recv: Out, rn: Count, rt: Handle, comm: Handle);
    Allgatherv(send: In, sn: c_int, st: Handle, recv: Out, rn: Ints, rd: Ints, rt: Handle, comm: Handle);
    Allgatherv_c(send: In, sn: Count, st: Handle, recv: Out, rn: Counts, rd: Aints, rt: Handle, comm: Handle);
    Alltoall(send: In, sn: c_int, st: Handle, recv: Out, rn: c_int, rt: Handle, comm: Handle);
    Alltoall_c(send: In, sn: Count, st: Handle, recv: Out, rn: Count, rt: Handle, comm: Handle);
    Alltoallv(send: In, sn: Ints, sd: Ints, st: Handle, recv: Out, rn: Ints, rd: Ints, rt: Handle, comm: Handle);
    Alltoallv_c(send: In, sn: Counts, sd: Aints, st: Handle, recv: Out, rn: Counts, rd: Aints, rt: Handle, comm: Handle);
    Alltoallw(send: In, sn: Ints, sd: Ints, st: Handles, recv: Out, rn: Ints, rd: Ints, rt: Handles, comm: Handle);
    Alltoallw_c(send: In, sn: Counts, sd: Aints, st: Handles, recv: Out, rn: Counts, rd: Aints, rt: Handles, comm: Handle);
    Reduce(send: In, recv: Out, n: c_int, t: Handle, op: Handle, root: c_int, comm: Handle);
    Reduce_c(send: In, recv: Out, n: Count, t: Handle, op: Handle, root: c_int, comm: Handle);
    Allreduce(send: In, recv: Out, n: c_int, t: Handle, op: Handle, comm: Handle);
    Allreduce_c(send: In, recv: Out, n: Count, t: Handle, op: Handle, comm: Handle);
    Reduce_scatter(send: In, recv: Out, n: Ints, t: Handle, op: Handle, comm: Handle);
    Reduce_scatter_c(send: In, recv: Out, n: Counts, t: Handle, op: Handle, comm: Handle);
    Reduce_scatter_block(send: In, recv: Out, n: c_int, t: Handle, op: Handle, comm: Handle);
    Reduce_scatter_block_c(send: In, recv: Out, n: Count, t: Handle, op: Handle, comm: Handle);
    Scan(send: In, recv: Out, n: c_int, t: Handle, op: Handle, comm: Handle);
    Scan_c(send: In, recv: Out, n: Count, t: Handle, op: Handle, comm: Handle);
    Exscan(send: In, recv: Out, n: c_int, t: Handle, op: Handle, comm: Handle);
    Exscan_c(send: In, recv: Out, n: Count, t: Handle, op: Handle, comm: Handle);

    Ibcast(buf: Out, n: c_int, t: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Ibcast_c(buf: Out, n: Count, t: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Igather(send: In, sn: c_int, st: Handle, recv: Out, rn: c_int, rt: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Igather_c(send: In, sn: Count, st: Handle, recv: Out, rn: Count, rt: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Igatherv(send: In, sn: c_int, st: Handle, recv: Out, rn: Ints, rd: Ints, rt: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Igatherv_c(send: In, sn: Count, st: Handle, recv: Out, rn: Counts, rd: Aints, rt: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Iscatter(send: In, sn: c_int, st: Handle, recv: Out, rn: c_int, rt: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Iscatter_c(send: In, sn: Count, st: Handle, recv: Out, rn: Count, rt: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Iscatterv(send: In, sn: Ints, sd: Ints, st: Handle, recv: Out, rn: c_int, rt: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Iscatterv_c(send: In, sn: Counts, sd: Aints, st: Handle, recv: Out, rn: Count, rt: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Iallgather(send: In, sn: c_int, st: Handle, recv: Out, rn: c_int, rt: Handle, comm: Handle, request: *mut Handle);
    Iallgather_c(send: In, sn: Count, st: Handle, recv: Out, rn: Count, rt: Handle, comm: Handle, request: *mut Handle);
    Iallgatherv(send: In, sn: c_int, st: Handle, recv: Out, rn: Ints, rd: Ints, rt: Handle, comm: Handle, request: *mut Handle);
    Iallgatherv_c(send: In, sn: Count, st: Handle, recv: Out, rn: Counts, rd: Aints, rt: Handle, comm: Handle, request: *mut Handle);
    Ialltoall(send: In, sn: c_int, st: Handle, recv: Out, rn: c_int, rt: Handle, comm: Handle, request: *mut Handle);
    Ialltoall_c(send: In, sn: Count, st: Handle, recv: Out, rn: Count, rt: Handle, comm: Handle, request: *mut Handle);
    Ialltoallv(send: In, sn: Ints, sd: Ints, st: Handle, recv: Out, rn: Ints, rd: Ints, rt: Handle, comm: Handle, request: *mut Handle);
    Ialltoallv_c(send: In, sn: Counts, sd: Aints, st: Handle, recv: Out, rn: Counts, rd: Aints, rt: Handle, comm: Handle, request: *mut Handle);
    Ialltoallw(send: In, sn: Ints, sd: Ints, st: Handles, recv: Out, rn: Ints, rd: Ints, rt: Handles, comm: Handle, request: *mut Handle);
    Ialltoallw_c(send: In, sn: Counts, sd: Aints, st: Handles, recv: Out, rn: Counts, rd: Aints, rt: Handles, comm: Handle, request: *mut Handle);
    Ireduce(send: In, recv: Out, n: c_int, t: Handle, op: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Ireduce_c(send: In, recv: Out, n: Count, t: Handle, op: Handle, root: c_int, comm: Handle, request: *mut Handle);
    Iallreduce(send: In, recv: Out, n: c_int, t: Handle, op: Handle, comm: Handle, request: *mut Handle);
    Iallreduce_c(send: In, recv: Out, n: Count, t: Handle, op: Handle, comm: Handle, request: *mut Handle);
    Ireduce_scatter(send: In, recv: Out, n: Ints, t: Handle, op: Handle, comm: Handle, request: *mut Handle);
    Ireduce_scatter_c(send: In, recv: Out, n: Counts, t: Handle, op: Handle, comm: Handle, request: *mut Handle);
    Ireduce_scatter_block(send: In, recv: Out, n: c_int, t: Handle, op: Handle, comm: Handle, request: *mut Handle);
    Ireduce_scatter_block_c(send: In, recv: Out, n: Count, t: Handle, op: Handle, comm: Handle, request: *mut Handle);
    Iscan(send: In, recv: Out, n: c_int, t: Handle, op: Handle, comm: Handle, request: *mut Handle);
    Iscan_c(send: In, recv: Out, n: Count, t: Handle, op: Handle, comm: Handle, request: *mut Handle);
    Iexscan(send: In, recv: Out, n: c_int, t: Handle, op: Handle, comm: Handle, request: *mut Handle);
    Iexscan_c(send: In, recv: Out, n: Count, t: Handle, op: Handle, comm: Handle, request: *mut Handle);
}

impl std::fmt::Debug for Real {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Real")
    }
}

/// The MPI's functions. They are looked up once, at the first call of a function of MPI.
pub(crate) fn real() -> &'static Real {
    static REAL: OnceLock<Real> = OnceLock::new();
    REAL.get_or_init(Real::look_up)
}

/// What a call returns that goes to a function which the MPI lacks: `MPI_ERR_INTERN` of MPICH, `MPI_ERR_OTHER` of the others.
pub(crate) const MISSING: c_int = 16;

#[cold]
fn missing(name: &str) -> c_int {
    eprintln!("circulant: the MPI library of this program has no PMPI_{name}");
    MISSING
}

/// The function of this name that is not ours.
pub(crate) fn function(name: &CStr) -> Option<Out> {
    // SAFETY: the name ends with a zero; what dlsym returns is an address or null.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if next.is_null() { in_libraries(name) } else { Some(next) }
}

/// The address of the data of this name. The program's own copy counts where its linker has made one.
pub(crate) fn symbol(name: &CStr) -> Option<usize> {
    // SAFETY: as in `function`.
    let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let found = if first.is_null() { in_libraries(name) } else { Some(first) };
    found.map(|address| address as usize)
}

/// The address of the symbol in the MPI libraries that are loaded.
fn in_libraries(name: &CStr) -> Option<Out> {
    static LIBRARIES: OnceLock<Vec<usize>> = OnceLock::new();
    let find = |library: &usize| {
        // SAFETY: the handle of a library that is never closed, and a name that ends with a zero.
        let found = unsafe { libc::dlsym(*library as Out, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    LIBRARIES.get_or_init(libraries).iter().find_map(find)
}

/// Handles of the loaded objects with "libmpi" in their names.
fn libraries() -> Vec<usize> {
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: `note` has the signature of the callback, and `names` lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    // Not in the callback: the loader holds a lock there.
    let opened = names.iter().map(|name| {
        // SAFETY: RTLD_NOLOAD opens only what is loaded already, so no code of it runs.
        unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }
    });
    opened.filter(|library| !library.is_null()).map(|library| library as usize).collect()
}

/// Takes down the name of an object of MPI.
unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, names: Out) -> c_int {
    // SAFETY: the loader passes the record of an object, whose name ends with a zero or is null.
    let name = unsafe { (*info).dlpi_name };
    if !name.is_null() {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name) };
        let file = name.to_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
        if file.windows(6).any(|w| w == b"libmpi") {
            // SAFETY: `libraries` passes its list, which nothing else uses during the call.
            unsafe { (*names.cast::<Vec<CString>>()).push(name.to_owned()) };
        }
    }
    0
}
