//! What all operations have in common: whose call it is, where it goes, and what it returns.

use crate::call::Call;
use crate::communicators::Member;
use crate::decided::{self, Arguments, Key};
use crate::form::Form;
use crate::groups::Groups;
use crate::layer::{Layer, layer};
use crate::on::On;
use crate::progress;
use crate::report::{COUNTS, Operation, Reason};
use crate::stop::{SUCCESS, Stop};
use circulant::Error;
use std::ffi::c_int;
use std::time::Instant;

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
    progress::begins();
    let start = layer.report.then(Instant::now);
    let freed = decided::freed();
    let on = On { real: layer.real, abi: layer.abi, handle: layer.abi.handle(comm) };
    let found = if F::BLOCKS || layer.requests.is_some() {
        // SAFETY: the caller's.
        unsafe { layer.communicators.found(&on, F::BLOCKS) }
    } else {
        Err(Stop::Pass(Reason::Requests))
    };
    let (done, call) = match found {
        Ok(found) => {
            let call = Call::new(layer, on, found, operation, F::BLOCKS);
            let done = match call.member() {
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
            call.as_ref().inspect(|call| call.forget_trial());
            // SAFETY: the caller's.
            (unsafe { failed(&on, &e) }, None)
        }
    };
    if let (Some(key), Some(reason)) = (key, passed.filter(|reason| reason.is_final())) {
        key.keep(freed, reason, call.as_ref().and_then(|call| call.size().ok()));
    }
    let (bytes, measured) = call.map_or((0, Ok(())), Call::ended);
    if let Err(e) = measured {
        // SAFETY: the caller's.
        code = unsafe { failed(&on, &e) };
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

/// The program has made a communicator: makes what its non-blocking calls run on. The code that the call returns.
///
/// # Safety
/// `comm` is a communicator of this MPI or null, and all its ranks are in the call that has made it.
pub(crate) unsafe fn created(layer: &Layer, comm: usize) -> c_int {
    // In a trial requests run on what blocking calls have.
    if layer.requests.is_none() || layer.take.by_trial {
        return SUCCESS;
    }
    progress::begins();
    let on = On { real: layer.real, abi: layer.abi, handle: comm };
    // SAFETY: the caller's.
    match unsafe { layer.communicators.created(&on) } {
        Ok(()) | Err(Stop::Pass(_)) => SUCCESS,
        Err(Stop::Code(code)) => code,
        // SAFETY: the caller's; a null communicator is no failure.
        Err(Stop::Failed(e)) => unsafe { failed(&on, &e) },
    }
}

/// Says what went wrong, and calls the communicator's error handler.
///
/// # Safety
/// It is a communicator of this MPI.
#[cold]
unsafe fn failed(on: &On, e: &Error) -> c_int {
    eprintln!("circulant: {e}");
    let code = on.abi.err_other;
    // SAFETY: the caller's.
    unsafe { on.real.Comm_call_errhandler(on.handle, code) };
    code
}
