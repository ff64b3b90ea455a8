//! A call of the program, as its operation sees it.

use crate::communicators::{Found, Member};
use crate::groups::Groups;
use crate::layer::Layer;
use crate::on::On;
use crate::reductions::Reduction;
use crate::report::{Operation, Reason};
use crate::stop::Stop;
use crate::trials::{Trial, Way};
use crate::types::Type;
use circulant::{Communicator, Error};
use std::cell::Cell;
use std::ffi::c_int;
use std::ops::Deref;

/// A call on a communicator that is ours.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) layer: &'static Layer,
    /// The program's communicator.
    on: On,
    found: Found,
    operation: Operation,
    pub(crate) blocks: bool,
    /// For the report.
    bytes: Cell<usize>,
    /// Set where the call is measured.
    trial: Cell<Option<Trial>>,
}

impl Deref for Call {
    type Target = On;

    fn deref(&self) -> &On {
        &self.on
    }
}

impl Call {
    pub(crate) fn new(
        layer: &'static Layer,
        on: On,
        found: Found,
        operation: Operation,
        blocks: bool,
    ) -> Self {
        Self { layer, on, found, operation, blocks, bytes: Cell::new(0), trial: Cell::new(None) }
    }

    /// What this rank is in the communicator.
    pub(crate) fn member(&self) -> &Member {
        &self.found.member
    }

    /// Our communicator of the same ranks, for calls that block or do not, as this one.
    pub(crate) fn comm(&self) -> Result<&Communicator, Stop> {
        self.found.member.comm(self.blocks).map_err(Stop::Pass)
    }

    pub(crate) fn size(&self) -> Result<usize, Stop> {
        Ok(self.comm()?.size())
    }

    pub(crate) fn rank(&self) -> Result<usize, Stop> {
        Ok(self.comm()?.rank())
    }

    /// The root of the call.
    pub(crate) fn root(&self, root: c_int) -> Result<usize, Stop> {
        let size = self.size()?;
        let root = usize::try_from(root).ok().filter(|root| *root < size);
        root.ok_or(Stop::Pass(Reason::Arguments))
    }

    /// Goes on if a call of this size, which all ranks know alike, is taken.
    pub(crate) fn chosen(&self, bytes: usize) -> Result<(), Stop> {
        self.bytes.set(bytes);
        self.goes(Some(bytes))
    }

    /// Goes on if the operation is taken at all: of this size, which is for the report, other ranks know nothing.
    pub(crate) fn chosen_whatever_size(&self, bytes: usize) -> Result<(), Stop> {
        self.bytes.set(bytes);
        self.goes(None)
    }

    /// Goes on if a call of this size is taken, or of any if not all ranks know it.
    fn goes(&self, size: Option<usize>) -> Result<(), Stop> {
        let take = &self.layer.take;
        if !take.takes(self.operation, size.unwrap_or(0)) {
            return Err(Stop::Pass(Reason::Selection));
        }
        if !take.by_trial {
            return Ok(());
        }
        let Some((comm, trials)) = self.found.member.trials() else { return Ok(()) };
        if !self.blocks {
            // It cannot be tried: a trial waits for all ranks.
            return match trials.verdict(self.operation, size) {
                Some(true) => Ok(()),
                Some(false) => Err(Stop::Pass(Reason::Slower)),
                None => Err(Stop::Pass(Reason::Untried)),
            };
        }
        match trials.way(comm, self.operation, size)? {
            Way::Ours => Ok(()),
            Way::Theirs => Err(Stop::Pass(Reason::Slower)),
            Way::Try(trial) => {
                self.trial.set(Some(trial));
                if trial.is_ours() { Ok(()) } else { Err(Stop::Pass(Reason::Trial)) }
            }
        }
    }

    /// Takes note of its size, for the report.
    pub(crate) fn moves(&self, bytes: usize) {
        self.bytes.set(bytes);
    }

    /// No rank measures it any more.
    pub(crate) fn forget_trial(&self) {
        self.trial.set(None);
    }

    /// The call has ended, here or at the MPI. The bytes that it moved, and what measuring it came to.
    pub(crate) fn ended(self) -> (usize, Result<(), Error>) {
        let measured = match (self.trial.take(), self.found.member.trials()) {
            (Some(trial), Some((comm, trials))) => trials.ended(comm, trial),
            _ => Ok(()),
        };
        self.found.keep();
        (self.bytes.get(), measured)
    }

    /// The datatype that the program passes as `handle`.
    ///
    /// # Safety
    /// It is one of this MPI.
    pub(crate) unsafe fn datatype(&self, handle: usize) -> Result<Type, Stop> {
        let handle = self.abi.handle(handle);
        // SAFETY: the caller's.
        unsafe { self.layer.types.of(self, handle) }
    }

    /// The reduction by `op`, the program's handle, on elements of type `ty`.
    ///
    /// # Safety
    /// `op` is an operator of this MPI.
    pub(crate) unsafe fn reduction(&self, op: usize, ty: Type) -> Result<Reduction, Stop> {
        let may_reduce = self.layer.may_reduce;
        // SAFETY: the caller's.
        unsafe { self.layer.reducers.of(self, (self.blocks, may_reduce), op, ty) }
    }

    /// Whether a buffer is `MPI_IN_PLACE`.
    pub(crate) fn in_place<T>(&self, buffer: *const T) -> bool {
        buffer as usize == self.abi.in_place
    }
}

/// What is done with a call on an intercommunicator whose operation is not taken there.
pub(crate) fn not_between(_: &Call, _: &Groups) -> Result<(), Stop> {
    Err(Stop::Pass(Reason::Intercommunicator))
}
