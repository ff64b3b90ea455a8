//! One call: an operation with the memory that its buffers lend, and how it runs on a communicator.

use crate::buffer::{Access, InPlace, Memory};
use crate::operator::Met;
use circulant::comm::{Layout, Local, Neighborhood, UnscopedPersistent, UnscopedRequest};
use circulant::{Communicator, Error, ErrorKind, Result, ops};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// One buffer of a call: an object, the bytes of its memory that take part (offset, length), and how they are divided among the ranks
/// (counts and displacements in bytes, or pieces).
#[derive(FromPyObject)]
pub(crate) struct Side<'py>(Bound<'py, PyAny>, (usize, usize), Option<Division>);

/// Where a call sends from, and where it receives.
pub(crate) type Sides<'py> = (Option<Side<'py>>, Option<Side<'py>>);

#[derive(FromPyObject)]
enum Division {
    Lists(Lists),
    /// Of each rank: offset, length, number and distance of its pieces.
    Pieces(Vec<Vec<(usize, usize, usize, usize)>>),
}

type Lists = (Vec<usize>, Vec<usize>);

/// What the ranks get of a buffer, or give to it.
#[derive(Default)]
struct Shares {
    lists: Lists,
    layouts: Vec<Layout>,
}

impl Shares {
    fn new(division: Option<Division>) -> Result<Self> {
        let lists = match division {
            None => return Ok(Self::default()),
            Some(Division::Lists(lists)) => return Ok(Self { lists, ..Self::default() }),
            Some(Division::Pieces(lists)) => lists,
        };
        let layout = |pieces: Vec<(usize, usize, usize, usize)>| {
            let mut all = Vec::new();
            for (offset, len, count, stride) in pieces {
                all.extend_from_slice(Layout::strided(offset, count, len, stride)?.pieces());
            }
            Layout::new(all)
        };
        Ok(Self { layouts: lists.into_iter().map(layout).collect::<Result<_>>()?, ..Self::default() })
    }

    fn parts(&self) -> (&[usize], &[usize]) {
        (&self.lists.0, &self.lists.1)
    }
}

/// An operation by the name that Python has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Barrier,
    Bcast,
    Allgather,
    Allgatherv,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Alltoall,
    Alltoallv,
    Alltoallw,
    Reduce,
    Allreduce,
    ReduceScatter,
    ReduceScatterBlock,
    Scan,
    Exscan,
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
}

impl Operation {
    fn named(name: &str) -> PyResult<Self> {
        Ok(match name {
            "barrier" => Self::Barrier,
            "bcast" => Self::Bcast,
            "allgather" => Self::Allgather,
            "allgatherv" => Self::Allgatherv,
            "gather" => Self::Gather,
            "gatherv" => Self::Gatherv,
            "scatter" => Self::Scatter,
            "scatterv" => Self::Scatterv,
            "alltoall" => Self::Alltoall,
            "alltoallv" => Self::Alltoallv,
            "alltoallw" => Self::Alltoallw,
            "reduce" => Self::Reduce,
            "allreduce" => Self::Allreduce,
            "reduce_scatter" => Self::ReduceScatter,
            "reduce_scatter_block" => Self::ReduceScatterBlock,
            "scan" => Self::Scan,
            "exscan" => Self::Exscan,
            "neighbor_allgather" => Self::NeighborAllgather,
            "neighbor_allgatherv" => Self::NeighborAllgatherv,
            "neighbor_alltoall" => Self::NeighborAlltoall,
            "neighbor_alltoallv" => Self::NeighborAlltoallv,
            _ => return Err(PyValueError::new_err(format!("there is no operation {name:?}"))),
        })
    }
}

/// What a call has on one side, at one rank.
#[derive(Clone, Copy)]
enum Plain {
    Nothing,
    Memory,
    /// Or the object that says that it is in place.
    MemoryOrInPlace,
}

impl Plain {
    /// The memory of what stands for it; nothing if that is something else.
    fn of(self, object: &Bound<'_, PyAny>, access: Access) -> Option<Option<Memory>> {
        match self {
            Self::Nothing => Some(None),
            Self::MemoryOrInPlace if object.is_instance_of::<InPlace>() => Some(None),
            Self::Memory | Self::MemoryOrInPlace => Memory::all(object, access).map(Some),
        }
    }
}

impl Operation {
    /// It combines elements with an operator.
    fn reduces(self) -> bool {
        use Operation::{Allreduce, Exscan, Reduce, ReduceScatter, ReduceScatterBlock, Scan};
        matches!(self, Reduce | Allreduce | ReduceScatter | ReduceScatterBlock | Scan | Exscan)
    }

    /// What it sends and what it receives, where neither has lists.
    fn plain_sides(self, is_root: bool) -> Option<[Plain; 2]> {
        use Plain::{Memory, MemoryOrInPlace, Nothing};
        Some(match self {
            Self::Bcast => [Nothing, Memory],
            Self::Gather | Self::Reduce if !is_root => [Memory, Nothing],
            Self::Scatter if is_root => [Memory, MemoryOrInPlace],
            Self::Scatter => [Nothing, Memory],
            Self::Allgather | Self::Gather | Self::Alltoall => [MemoryOrInPlace, Memory],
            Self::Reduce | Self::Allreduce | Self::ReduceScatterBlock | Self::Scan | Self::Exscan => {
                [MemoryOrInPlace, Memory]
            }
            _ => return None,
        })
    }
}

/// The arguments of a call, with its memory held.
pub(crate) struct Call {
    operation: Operation,
    /// `None`: in place, or nothing is sent here.
    send: Option<Memory>,
    /// `None`: nothing is received here; for a scatter, in place.
    recv: Option<Memory>,
    sent: Shares,
    received: Shares,
    by: Option<ops::Reducer>,
    root: usize,
}

/// The operation of a call on slices, by the names that one of the three forms has for it.
macro_rules! call {
    ($call:ident, $on:ident, $slices:ident; $barrier:ident $bcast:ident $allgather:ident $allgatherv:ident $gather:ident
     $gatherv:ident $scatter:ident $scatterv:ident $alltoall:ident $alltoallv:ident $alltoallw:ident $reduce:ident $allreduce:ident
     $reduce_scatter:ident $reduce_scatter_block:ident $scan:ident $exscan:ident) => {{
        let ((send, recv), root) = ($slices, $call.root);
        let (sent, received) = ($call.sent.parts(), $call.received.parts());
        match $call.operation {
            Operation::Barrier => $on.$barrier(),
            Operation::Bcast => $on.$bcast(recv.unwrap_or_default(), root),
            Operation::Allgather => $on.$allgather(send, recv.unwrap_or_default()),
            Operation::Allgatherv => {
                let (counts, displs) = received;
                $on.$allgatherv(send, recv.unwrap_or_default(), Local { counts, displs })
            }
            Operation::Gather => $on.$gather(send, recv.unwrap_or_default(), root),
            Operation::Gatherv => $on.$gatherv(send, recv.unwrap_or_default(), received, root),
            Operation::Scatter => $on.$scatter(send.unwrap_or_default(), recv, root),
            Operation::Scatterv => $on.$scatterv(send.unwrap_or_default(), sent, recv, root),
            Operation::Alltoall => $on.$alltoall(send, recv.unwrap_or_default()),
            Operation::Alltoallv => $on.$alltoallv(send, sent, recv.unwrap_or_default(), received),
            Operation::Alltoallw => {
                $on.$alltoallw(send, &$call.sent.layouts, recv.unwrap_or_default(), &$call.received.layouts)
            }
            Operation::Reduce => $on.$reduce(send, recv.unwrap_or_default(), $call.reducer()?, root),
            Operation::Allreduce => $on.$allreduce(send, recv.unwrap_or_default(), $call.reducer()?),
            Operation::ReduceScatter => {
                $on.$reduce_scatter(send, recv.unwrap_or_default(), received, $call.reducer()?)
            }
            Operation::ReduceScatterBlock => {
                $on.$reduce_scatter_block(send, recv.unwrap_or_default(), $call.reducer()?)
            }
            Operation::Scan => $on.$scan(send, recv.unwrap_or_default(), $call.reducer()?),
            Operation::Exscan => $on.$exscan(send, recv.unwrap_or_default(), $call.reducer()?),
            _ => Err($call.misplaced()),
        }
    }};
}

/// As [`call`], on neighbours.
macro_rules! neighbor_call {
    ($call:ident, $on:ident, $slices:ident; $allgather:ident $allgatherv:ident $alltoall:ident $alltoallv:ident) => {{
        let (send, recv) = $slices;
        let (all, recv) = (send.unwrap_or_default(), recv.unwrap_or_default());
        let (sent, received) = ($call.sent.parts(), $call.received.parts());
        match $call.operation {
            Operation::NeighborAllgather => $on.$allgather(all, recv),
            Operation::NeighborAllgatherv => $on.$allgatherv(all, recv, received),
            Operation::NeighborAlltoall => $on.$alltoall(all, recv),
            Operation::NeighborAlltoallv => $on.$alltoallv(send, sent, recv, received),
            _ => Err($call.misplaced()),
        }
    }};
}

/// Memory and lists of a side.
fn held(side: Option<Side<'_>>, access: Access) -> PyResult<(Option<Memory>, Shares)> {
    let Some(Side(object, range, division)) = side else { return Ok(Default::default()) };
    let shares = Shares::new(division).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok((Some(Memory::hold(&object, range, access)?), shares))
}

impl Call {
    /// Holds the memory of both sides.
    ///
    /// # Errors
    /// When an object lends no such memory, or the two sides overlap.
    pub(crate) fn new(
        operation: &str,
        (send, recv): Sides<'_>,
        by: Option<ops::Reducer>,
        root: usize,
    ) -> PyResult<Self> {
        let operation = Operation::named(operation)?;
        let (send, sent) = held(send, Access::Reads)?;
        let (recv, received) = held(recv, Access::Writes)?;
        if let (Some(send), Some(recv)) = (&send, &recv)
            && send.overlaps(recv)
        {
            return Err(PyValueError::new_err(
                "what is sent and what is received overlap: pass IN_PLACE for one of them",
            ));
        }
        Ok(Self { operation, send, recv, sent, received, by, root })
    }

    /// A call whose buffers are memory alone, or in place, and whose operator has met their elements: what most calls are. Nothing: it is
    /// another one, or wrong. `rank` is ours.
    ///
    /// # Errors
    /// When there is no such operation.
    pub(crate) fn plain(
        operation: &str,
        [send, recv]: [&Bound<'_, PyAny>; 2],
        by: Option<&Bound<'_, PyAny>>,
        (root, rank): (usize, usize),
    ) -> PyResult<Option<Self>> {
        let operation = Operation::named(operation)?;
        if operation.reduces() && by.is_none() {
            return Ok(None);
        }
        Ok(operation.plain_sides(root == rank).and_then(|[sends, receives]| {
            let send = sends.of(send, Access::Reads)?;
            let recv = receives.of(recv, Access::Writes)?;
            if let (Some(send), Some(recv)) = (&send, &recv)
                && send.overlaps(recv)
            {
                return None;
            }
            let by = match by {
                None => None,
                Some(by) => {
                    let mut types = send.iter().chain(&recv).map(Memory::format);
                    Some(by.cast::<Met>().ok()?.get().on(types.next()?, types.next())?)
                }
            };
            let (sent, received) = Default::default();
            Some(Self { operation, send, recv, sent, received, by, root })
        }))
    }

    fn misplaced(&self) -> Error {
        Error::new(ErrorKind::Argument, format!("{:?} is no call of this object", self.operation))
    }

    fn reducer(&self) -> Result<ops::OnBytes> {
        let missing = || Error::new(ErrorKind::Argument, "a reduction without an operator");
        self.by.as_ref().map(ops::Reducer::on_bytes).ok_or_else(missing)
    }

    /// What is sent and what is received.
    ///
    /// # Safety
    /// As of [`Memory::bytes`] and [`Memory::bytes_mut`]. The two do not overlap.
    #[allow(
        clippy::mut_from_ref,
        reason = "the memory is the Python object's, not of this value; see the contract"
    )]
    unsafe fn slices(&self) -> (Option<&[u8]>, Option<&mut [u8]>) {
        // SAFETY: the caller's.
        unsafe { (self.send.as_ref().map(|m| m.bytes()), self.recv.as_ref().map(|m| m.bytes_mut())) }
    }
}

/// What calls run on.
pub(crate) trait Runs: Sync {
    /// Runs a call to its end.
    ///
    /// # Errors
    /// Those of the call.
    fn run(&self, call: &Call) -> Result<()>;

    /// Begins a call.
    ///
    /// # Safety
    /// The call is kept until the request has ended, and the program leaves its memory alone until then.
    ///
    /// # Errors
    /// Those of the call that come out at once.
    unsafe fn begin(&self, call: &Call) -> Result<UnscopedRequest>;

    /// Plans a call.
    ///
    /// # Safety
    /// As of [`Runs::begin`], for as long as the operation lives; the program has the memory between runs.
    ///
    /// # Errors
    /// As there.
    unsafe fn prepare(&self, call: &Call) -> Result<UnscopedPersistent>;
}

impl Runs for Communicator {
    fn run(&self, call: &Call) -> Result<()> {
        // SAFETY: this side of the interpreter only this call touches them. That the program's other threads leave memory of a call alone is
        // the rule that the module states, as that of any extension that releases the interpreter.
        let slices = unsafe { call.slices() };
        call!(call, self, slices; barrier bcast allgather allgatherv gather gatherv_rooted scatter scatterv_rooted alltoall alltoallv
            alltoallw reduce allreduce reduce_scatter reduce_scatter_block scan exscan)
    }

    unsafe fn begin(&self, call: &Call) -> Result<UnscopedRequest> {
        let on = self.unscoped();
        // SAFETY: the caller's; the two slices do not overlap (`new`).
        unsafe {
            let slices = call.slices();
            call!(call, on, slices; ibarrier ibcast iallgather iallgatherv igather igatherv_rooted iscatter iscatterv_rooted
                ialltoall ialltoallv ialltoallw ireduce iallreduce ireduce_scatter ireduce_scatter_block iscan iexscan)
        }
    }

    unsafe fn prepare(&self, call: &Call) -> Result<UnscopedPersistent> {
        let on = self.unscoped();
        // SAFETY: the caller's; the two slices do not overlap (`new`).
        unsafe {
            let slices = call.slices();
            call!(call, on, slices; barrier_init bcast_init allgather_init allgatherv_init gather_init gatherv_rooted_init
                scatter_init scatterv_rooted_init alltoall_init alltoallv_init alltoallw_init reduce_init allreduce_init
                reduce_scatter_init reduce_scatter_block_init scan_init exscan_init)
        }
    }
}

impl Runs for Neighborhood {
    fn run(&self, call: &Call) -> Result<()> {
        // SAFETY: as of a communicator.
        let slices = unsafe { call.slices() };
        neighbor_call!(call, self, slices; neighbor_allgather neighbor_allgatherv neighbor_alltoall neighbor_alltoallv)
    }

    unsafe fn begin(&self, call: &Call) -> Result<UnscopedRequest> {
        let on = self.unscoped();
        // SAFETY: the caller's; the two slices do not overlap (`new`).
        unsafe {
            let slices = call.slices();
            neighbor_call!(call, on, slices; ineighbor_allgather ineighbor_allgatherv ineighbor_alltoall ineighbor_alltoallv)
        }
    }

    unsafe fn prepare(&self, call: &Call) -> Result<UnscopedPersistent> {
        let on = self.unscoped();
        // SAFETY: the caller's; the two slices do not overlap (`new`).
        unsafe {
            let slices = call.slices();
            neighbor_call!(call, on, slices; neighbor_allgather_init neighbor_allgatherv_init neighbor_alltoall_init
                neighbor_alltoallv_init)
        }
    }
}
