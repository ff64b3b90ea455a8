//! One call: an operation with the memory that its buffers lend, and how it runs on a communicator.

use crate::buffer::{Access, Memory};
use circulant::comm::{UnscopedPersistent, UnscopedRequest};
use circulant::{Communicator, Error, ErrorKind, Result, ops};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// One buffer of a call: an object, the bytes of its memory that take part (offset, length), and how they are divided among the ranks
/// (counts and displacements in bytes).
#[derive(FromPyObject)]
pub(crate) struct Side<'py>(Bound<'py, PyAny>, (usize, usize), Option<Lists>);

type Lists = (Vec<usize>, Vec<usize>);

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
    Reduce,
    Allreduce,
    ReduceScatter,
    ReduceScatterBlock,
    Scan,
    Exscan,
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
            "reduce" => Self::Reduce,
            "allreduce" => Self::Allreduce,
            "reduce_scatter" => Self::ReduceScatter,
            "reduce_scatter_block" => Self::ReduceScatterBlock,
            "scan" => Self::Scan,
            "exscan" => Self::Exscan,
            _ => return Err(PyValueError::new_err(format!("there is no operation {name:?}"))),
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
    sent: Lists,
    received: Lists,
    by: Option<ops::Reducer>,
    root: usize,
}

/// The operation of a call on slices, by the names that one of the three forms has for it.
macro_rules! call {
    ($call:ident, $on:ident, $slices:ident; $barrier:ident $bcast:ident $allgather:ident $allgatherv:ident $gather:ident
     $gatherv:ident $scatter:ident $scatterv:ident $alltoall:ident $alltoallv:ident $reduce:ident $allreduce:ident
     $reduce_scatter:ident $reduce_scatter_block:ident $scan:ident $exscan:ident) => {{
        let ((send, recv), root) = ($slices, $call.root);
        let sent = (&$call.sent.0[..], &$call.sent.1[..]);
        let received = (&$call.received.0[..], &$call.received.1[..]);
        match $call.operation {
            Operation::Barrier => $on.$barrier(),
            Operation::Bcast => $on.$bcast(recv.unwrap_or_default(), root),
            Operation::Allgather => $on.$allgather(send, recv.unwrap_or_default()),
            Operation::Allgatherv => $on.$allgatherv(send, recv.unwrap_or_default(), received),
            Operation::Gather => $on.$gather(send, recv.unwrap_or_default(), root),
            Operation::Gatherv => $on.$gatherv(send, recv.unwrap_or_default(), received, root),
            Operation::Scatter => $on.$scatter(send.unwrap_or_default(), recv, root),
            Operation::Scatterv => $on.$scatterv(send.unwrap_or_default(), sent, recv, root),
            Operation::Alltoall => $on.$alltoall(send, recv.unwrap_or_default()),
            Operation::Alltoallv => $on.$alltoallv(send, sent, recv.unwrap_or_default(), received),
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
        }
    }};
}

/// Memory and lists of a side.
fn held(side: Option<Side<'_>>, access: Access) -> PyResult<(Option<Memory>, Lists)> {
    let Some(Side(object, range, lists)) = side else { return Ok(Default::default()) };
    Ok((Some(Memory::hold(&object, range, access)?), lists.unwrap_or_default()))
}

impl Call {
    /// Holds the memory of both sides.
    ///
    /// # Errors
    /// When an object lends no such memory, or the two sides overlap.
    pub(crate) fn new(
        operation: &str,
        (send, recv): (Option<Side<'_>>, Option<Side<'_>>),
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

    /// Runs it to its end.
    ///
    /// # Errors
    /// Those of the call.
    pub(crate) fn run(&self, on: &Communicator) -> Result<()> {
        // SAFETY: this side of the interpreter only this call touches them. That the program's other threads leave memory of a call alone is
        // the rule that the module states, as that of any extension that releases the interpreter.
        let slices = unsafe { self.slices() };
        call!(self, on, slices; barrier bcast allgather allgatherv gather gatherv_rooted scatter scatterv_rooted alltoall alltoallv
            reduce allreduce reduce_scatter reduce_scatter_block scan exscan)
    }

    /// Begins it.
    ///
    /// # Safety
    /// This call is kept until the request has ended, and the program leaves its memory alone until then.
    ///
    /// # Errors
    /// Those of the call that come out at once.
    pub(crate) unsafe fn begin(&self, on: &Communicator) -> Result<UnscopedRequest> {
        let on = on.unscoped();
        // SAFETY: the caller's; the two slices do not overlap (`new`).
        unsafe {
            let slices = self.slices();
            call!(self, on, slices; ibarrier ibcast iallgather iallgatherv igather igatherv_rooted iscatter iscatterv_rooted
                ialltoall ialltoallv ireduce iallreduce ireduce_scatter ireduce_scatter_block iscan iexscan)
        }
    }

    /// Plans it.
    ///
    /// # Safety
    /// As of [`Call::begin`], for as long as the operation lives; the program has the memory between runs.
    ///
    /// # Errors
    /// As there.
    pub(crate) unsafe fn prepare(&self, on: &Communicator) -> Result<UnscopedPersistent> {
        let on = on.unscoped();
        // SAFETY: the caller's; the two slices do not overlap (`new`).
        unsafe {
            let slices = self.slices();
            call!(self, on, slices; barrier_init bcast_init allgather_init allgatherv_init gather_init gatherv_rooted_init
                scatter_init scatterv_rooted_init alltoall_init alltoallv_init reduce_init allreduce_init reduce_scatter_init
                reduce_scatter_block_init scan_init exscan_init)
        }
    }
}
