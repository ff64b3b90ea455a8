//! Calls with counts of 64 bits, passed on to an MPI that knows 32 bits only (Open MPI up to 5).
//!
//! A program that looks for `MPI_Bcast_c` at run time, as mpi4py does, finds ours, and may then call no other.

use crate::nonblocking::with_lists;
use crate::real::{Handle, MISSING, real};
use std::ffi::{c_int, c_void};

type In = *const c_void;
type Out = *mut c_void;

/// An argument as the form with 32 bits takes it, if it fits.
trait Narrow {
    type Narrowed;
    fn narrow(self) -> Option<Self::Narrowed>;
}

impl Narrow for i64 {
    type Narrowed = c_int;
    fn narrow(self) -> Option<c_int> {
        c_int::try_from(self).ok()
    }
}

macro_rules! as_they_are {
    ($($type:ty)*) => {$(
        impl Narrow for $type {
            type Narrowed = Self;
            fn narrow(self) -> Option<Self> {
                Some(self)
            }
        }
    )*};
}

as_they_are! { c_int Handle In Out }

/// Operations whose counts are numbers.
macro_rules! numbers {
    ($($name:ident $narrow:ident $request_name:ident $request_narrow:ident ($($arg:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// What MPI asks of callers of this operation.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the names and arguments are MPI's")]
        pub(crate) unsafe fn $name($($arg: $type),*) -> c_int {
            let call = || {
                // SAFETY: the caller's; the arguments have the values that the caller gave.
                Some(unsafe { real().$narrow($($arg.narrow()?),*) })
            };
            call().unwrap_or_else(|| too_large(stringify!($narrow)))
        }

        /// # Safety
        /// What MPI asks of callers of this operation.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the names and arguments are MPI's")]
        pub(crate) unsafe fn $request_name($($arg: $type,)* request: *mut Handle) -> c_int {
            let call = || {
                // SAFETY: as above.
                Some(unsafe { real().$request_narrow($($arg.narrow()?,)* request) })
            };
            call().unwrap_or_else(|| too_large(stringify!($request_narrow)))
        }
    )*};
}

numbers! {
    Bcast_c Bcast Ibcast_c Ibcast(buf: Out, n: i64, t: Handle, root: c_int, comm: Handle);
    Gather_c Gather Igather_c Igather(s: In, sn: i64, st: Handle, r: Out, rn: i64, rt: Handle, root: c_int, comm: Handle);
    Scatter_c Scatter Iscatter_c Iscatter(s: In, sn: i64, st: Handle, r: Out, rn: i64, rt: Handle, root: c_int, comm: Handle);
    Allgather_c Allgather Iallgather_c Iallgather(s: In, sn: i64, st: Handle, r: Out, rn: i64, rt: Handle, comm: Handle);
    Alltoall_c Alltoall Ialltoall_c Ialltoall(s: In, sn: i64, st: Handle, r: Out, rn: i64, rt: Handle, comm: Handle);
    Reduce_c Reduce Ireduce_c Ireduce(s: In, r: Out, n: i64, t: Handle, op: Handle, root: c_int, comm: Handle);
    Allreduce_c Allreduce Iallreduce_c Iallreduce(s: In, r: Out, n: i64, t: Handle, op: Handle, comm: Handle);
    Reduce_scatter_block_c Reduce_scatter_block Ireduce_scatter_block_c Ireduce_scatter_block(s: In, r: Out, n: i64, t: Handle, op: Handle, comm: Handle);
    Scan_c Scan Iscan_c Iscan(s: In, r: Out, n: i64, t: Handle, op: Handle, comm: Handle);
    Exscan_c Exscan Iexscan_c Iexscan(s: In, r: Out, n: i64, t: Handle, op: Handle, comm: Handle);
}

#[cold]
fn too_large(name: &str) -> c_int {
    eprintln!(
        "circulant: the MPI library of this program has no PMPI_{name}_c, and a count is too large for PMPI_{name}"
    );
    MISSING
}

/// How long the lists of a call are.
struct Lengths {
    /// Of lists with an entry for each rank that this one exchanges data with.
    peers: usize,
    /// Of lists with an entry for each rank of its own group.
    own: usize,
    rank: c_int,
    inter: bool,
}

impl Lengths {
    /// # Safety
    /// `comm` is a handle that the program passes as a communicator.
    unsafe fn of(comm: Handle) -> Result<Self, c_int> {
        let (mut size, mut rank, mut inter) = (0, 0, 0);
        let ok = |code| if code == 0 { Ok(()) } else { Err(code) };
        // SAFETY: each writes one number; a handle that is no communicator's is an error of the MPI.
        unsafe {
            ok(real().Comm_size(comm, &raw mut size))?;
            ok(real().Comm_rank(comm, &raw mut rank))?;
            ok(real().Comm_test_inter(comm, &raw mut inter))?;
        }
        let mut peers = size;
        if inter != 0 {
            // SAFETY: as above.
            ok(unsafe { real().Comm_remote_size(comm, &raw mut peers) })?;
        }
        let length = |n: c_int| usize::try_from(n).unwrap_or(0);
        Ok(Self { peers: length(peers), own: length(size), rank, inter: inter != 0 })
    }

    /// Of lists that matter at the root alone: elsewhere they may be no lists at all.
    fn at(&self, root: c_int) -> usize {
        // MPI_ROOT is -4 in Open MPI, -3 in MPICH; MPI_PROC_NULL is -2 and -1.
        let here = if self.inter { root <= -3 } else { root == self.rank };
        if here { self.peers } else { 0 }
    }

    /// Of lists of what is sent: in place they may be no lists. `MPI_IN_PLACE` is 1 or -1, and no buffer begins there.
    fn sent(&self, buffer: In) -> usize {
        if matches!(buffer as usize, 1 | usize::MAX) { 0 } else { self.peers }
    }
}

/// The first `n` entries; `None` if one does not fit.
///
/// # Safety
/// There are `n`.
unsafe fn ints<T: Copy + TryInto<c_int>>(list: *const T, n: usize) -> Option<Vec<c_int>> {
    // SAFETY: the caller's; MPI lets lists begin at any address that suits their type.
    (0..n).map(|i| unsafe { *list.add(i) }.try_into().ok()).collect()
}

/// Operations with lists: their lengths, and the call with lists of 32 bits.
macro_rules! lists {
    ($($name:ident $narrow:ident $request_name:ident $request_narrow:ident ($($arg:ident: $type:ty),*) $lengths:ident
        [$($list:ident: $n:expr),*] ($($number:ident),*) ($($given:expr),*);)*) => {$(
        /// # Safety
        /// What MPI asks of callers of this operation.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the names and arguments are MPI's")]
        pub(crate) unsafe fn $name($($arg: $type,)* comm: Handle) -> c_int {
            // SAFETY: the caller passes a communicator.
            let $lengths = match unsafe { Lengths::of(comm) } {
                Ok(lengths) => lengths,
                Err(code) => return code,
            };
            let call = || {
                // SAFETY: where MPI reads a list, it has an entry for each rank of the group that `Lengths` has counted.
                $(let $list = unsafe { ints($list, $n) }?;)*
                $(let $number = $number.narrow()?;)*
                // SAFETY: the caller's; the lists live until the call returns.
                Some(unsafe { real().$narrow($($given,)* comm) })
            };
            call().unwrap_or_else(|| too_large(stringify!($narrow)))
        }

        /// # Safety
        /// What MPI asks of callers of this operation.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the names and arguments are MPI's")]
        pub(crate) unsafe fn $request_name($($arg: $type,)* comm: Handle, request: *mut Handle) -> c_int {
            // SAFETY: the caller passes a communicator.
            let $lengths = match unsafe { Lengths::of(comm) } {
                Ok(lengths) => lengths,
                Err(code) => return code,
            };
            let call = || {
                // SAFETY: as above. The MPI may read them until the operation ends.
                let lists = [$(unsafe { ints($list, $n) }?),*];
                $(let $number = $number.narrow()?;)*
                // SAFETY: as above; the lists live until the operation has ended.
                Some(unsafe {
                    with_lists(lists, |[$($list),*], request| real().$request_narrow($($given,)* comm, request), request)
                })
            };
            call().unwrap_or_else(|| too_large(stringify!($request_narrow)))
        }
    )*};
}

lists! {
    Gatherv_c Gatherv Igatherv_c Igatherv(s: In, sn: i64, st: Handle, r: Out, rn: *const i64, rd: *const isize, rt: Handle, root: c_int) of
        [rn: of.at(root), rd: of.at(root)] (sn) (s, sn, st, r, rn.as_ptr(), rd.as_ptr(), rt, root);
    Scatterv_c Scatterv Iscatterv_c Iscatterv(s: In, sn: *const i64, sd: *const isize, st: Handle, r: Out, rn: i64, rt: Handle, root: c_int) of
        [sn: of.at(root), sd: of.at(root)] (rn) (s, sn.as_ptr(), sd.as_ptr(), st, r, rn, rt, root);
    Allgatherv_c Allgatherv Iallgatherv_c Iallgatherv(s: In, sn: i64, st: Handle, r: Out, rn: *const i64, rd: *const isize, rt: Handle) of
        [rn: of.peers, rd: of.peers] (sn) (s, sn, st, r, rn.as_ptr(), rd.as_ptr(), rt);
    Alltoallv_c Alltoallv Ialltoallv_c Ialltoallv(s: In, sn: *const i64, sd: *const isize, st: Handle, r: Out, rn: *const i64, rd: *const isize, rt: Handle) of
        [sn: of.sent(s), sd: of.sent(s), rn: of.peers, rd: of.peers] ()
        (s, sn.as_ptr(), sd.as_ptr(), st, r, rn.as_ptr(), rd.as_ptr(), rt);
    Alltoallw_c Alltoallw Ialltoallw_c Ialltoallw(s: In, sn: *const i64, sd: *const isize, st: *const Handle, r: Out, rn: *const i64, rd: *const isize, rt: *const Handle) of
        [sn: of.sent(s), sd: of.sent(s), rn: of.peers, rd: of.peers] ()
        (s, sn.as_ptr(), sd.as_ptr(), st, r, rn.as_ptr(), rd.as_ptr(), rt);
    Reduce_scatter_c Reduce_scatter Ireduce_scatter_c Ireduce_scatter(s: In, r: Out, n: *const i64, t: Handle, op: Handle) of
        [n: of.own] () (s, r, n.as_ptr(), t, op);
}
