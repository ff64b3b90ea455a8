//! What all operations have in common: whose call it is, where it goes, and what it returns.

use crate::communicators::{Found, Member};
use crate::decided::{self, Arguments, Key};
use crate::form::Form;
use crate::groups::Groups;
use crate::layer::{Layer, layer};
use crate::report::{COUNTS, Operation, Reason};
use crate::trials::{Trial, Way};
use crate::types::Type;
use circulant::{Communicator, Error};
use std::cell::Cell;
use std::ffi::c_int;
use std::ops::Deref;
use std::time::Instant;

/// `MPI_SUCCESS`, in every ABI.
pub(crate) const SUCCESS: c_int = 0;

/// Why a call does not run here to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It goes to the MPI. All ranks find the same, or the arguments are wrong.
    Pass(Reason),
    /// A function of the MPI failed, and has called the error handler.
    Code(c_int),
    /// Ours failed.
    Failed(Box<Error>),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Self::Failed(Box::new(e))
    }
}

/// Where the MPI's functions are called that need a communicator, such as those that pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct On {
    pub(crate) layer: &'static Layer,
    /// The communicator.
    pub(crate) handle: usize,
}

/// A call on a communicator that is ours.
#[derive(Debug)]
pub(crate) struct Call {
    /// The program's handle.
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
    /// Our communicator of the same ranks.
    pub(crate) fn comm(&self) -> Result<&Communicator, Stop> {
        self.found.member.comm().map_err(Stop::Pass)
    }

    pub(crate) fn size(&self) -> Result<usize, Stop> {
        Ok(self.comm()?.size())
    }

    pub(crate) fn rank(&self) -> Result<usize, Stop> {
        Ok(self.comm()?.rank())
    }

    /// The root of the call.
    pub(crate) fn root(&self, root: c_int) -> Result<usize, Stop> {
        let root = usize::try_from(root).ok().filter(|root| self.size().is_ok_and(|size| *root < size));
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

    /// The call has ended, here or at the MPI.
    fn ended(&self) -> Result<(), Error> {
        match (self.trial.take(), self.found.member.trials()) {
            (Some(trial), Some((comm, trials))) => trials.ended(comm, trial),
            _ => Ok(()),
        }
    }

    /// The datatype that the program passes as `handle`.
    ///
    /// # Safety
    /// It is one of this MPI.
    pub(crate) unsafe fn datatype(&self, handle: usize) -> Result<Type, Stop> {
        let handle = self.layer.abi.handle(handle);
        // SAFETY: the caller's.
        unsafe { self.layer.types.of(self, handle) }
    }

    /// Whether a buffer is `MPI_IN_PLACE`.
    pub(crate) fn in_place<T>(&self, buffer: *const T) -> bool {
        buffer as usize == self.layer.abi.in_place
    }
}

/// A count as MPI passes it.
pub(crate) fn count(count: impl Into<i64>) -> Result<usize, Stop> {
    usize::try_from(count.into()).map_err(|_| Stop::Pass(Reason::Arguments))
}

/// What is done with a call on an intercommunicator whose operation is not taken there.
pub(crate) fn not_between(_: &Call, _: &Groups) -> Result<(), Stop> {
    Err(Stop::Pass(Reason::Intercommunicator))
}

/// Runs a collective: here by `ours`, on an intercommunicator `between` its groups, or by the MPI's function, `pass`. `arguments` are what
/// decides that beside operation and communicator; nothing: it must be found out anew.
///
/// # Safety
/// `comm` is a communicator of this MPI, and this thread is in a call on it.
#[inline]
pub(crate) unsafe fn collective<F: Form>(
    _form: F,
    operation: Operation,
    comm: usize,
    arguments: Option<Arguments>,
    ours: impl FnOnce(&Call) -> Result<(), Stop>,
    between: impl FnOnce(&Call, &Groups) -> Result<(), Stop>,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let Some(layer) = layer() else { return pass() };
    let key = arguments.map(|arguments| Key { operation, blocks: F::BLOCKS, comm, arguments });
    match key.and_then(|key| key.reason()) {
        None => {}
        Some(_) if !layer.report => return pass(),
        Some(reason) => {
            let start = Instant::now();
            let code = pass();
            COUNTS.passed((operation, F::BLOCKS), reason, Some(start.elapsed()));
            return code;
        }
    }
    let start = layer.report.then(Instant::now);
    let freed = decided::freed();
    let handle = layer.abi.handle(comm);
    // SAFETY: the caller's.
    let can = if F::BLOCKS { Ok(()) } else { unsafe { can_begin(layer, handle) } };
    // SAFETY: the caller's.
    let found = can.and_then(|()| unsafe { layer.communicators.found(layer, handle) });
    let (done, call) = match found {
        Ok(found) => {
            let (on, bytes, trial) = (On { layer, handle }, Cell::new(0), Cell::new(None));
            let call = Call { on, found, operation, blocks: F::BLOCKS, bytes, trial };
            let done = match &*call.found.member {
                Member::Ours(..) => ours(&call),
                Member::Between(groups, _) if F::BLOCKS => between(&call, groups),
                Member::Between(..) => Err(Stop::Pass(Reason::Intercommunicator)),
                Member::Passed(reason) => Err(Stop::Pass(*reason)),
            };
            (done, Some(call))
        }
        Err(stop) => (Err(stop), None),
    };
    let (mut code, passed) = match done {
        Ok(()) => (SUCCESS, None),
        Err(Stop::Pass(reason)) => (pass(), Some(reason)),
        Err(Stop::Code(code)) => (code, None),
        Err(Stop::Failed(e)) => {
            // No rank measures any more.
            call.as_ref().inspect(|call| call.trial.set(None));
            // SAFETY: the caller's.
            (unsafe { failed(layer, handle, &e) }, None)
        }
    };
    if let (Some(key), Some(reason)) = (key, passed.filter(|reason| reason.is_final())) {
        key.keep(freed, reason, call.as_ref().and_then(|call| call.size().ok()));
    }
    let bytes = call.as_ref().map_or(0, |call| call.bytes.get());
    if let Some(call) = call {
        if let Err(e) = call.ended() {
            // SAFETY: the caller's.
            code = unsafe { failed(layer, handle, &e) };
        }
        call.found.keep();
    }
    if layer.report {
        let time = start.map(|start| start.elapsed());
        match passed {
            Some(reason) => COUNTS.passed((operation, F::BLOCKS), reason, time),
            None => COUNTS.took((operation, F::BLOCKS), bytes, time),
        }
    }
    code
}

/// Goes on if a non-blocking call on this communicator runs here, and stops with the reason why it goes to the MPI. All ranks find the same.
///
/// # Safety
/// `comm` is a communicator of this MPI.
unsafe fn can_begin(layer: &Layer, comm: usize) -> Result<(), Stop> {
    if layer.requests.is_none() {
        return Err(Stop::Pass(Reason::Requests));
    }
    // SAFETY: the caller's.
    match unsafe { layer.communicators.is_known(layer.real, comm)? } {
        true => Ok(()),
        // Its ranks would have to wait for each other here.
        false => Err(Stop::Pass(Reason::New)),
    }
}

/// Says what went wrong, and calls the communicator's error handler.
///
/// # Safety
/// `comm` is a communicator of this MPI.
#[cold]
unsafe fn failed(layer: &Layer, comm: usize, e: &Error) -> c_int {
    eprintln!("circulant: {e}");
    let code = layer.abi.err_other;
    // SAFETY: the caller's.
    unsafe { layer.real.Comm_call_errhandler(comm, code) };
    code
}
