//! Non-blocking collectives.

use crate::abi::{Abi, Kind};
use crate::call::Call;
use crate::form::{Form, Memory};
use crate::layer::layer;
use crate::on::On;
use crate::progress;
use crate::real::{MISSING, real};
use crate::report::Reason;
use crate::requests::{self, Operation, Requests, Work};
use crate::stop::{SUCCESS, Stop};
use crate::wire::Wire;
use circulant::Communicator;
use circulant::comm::{Unscoped, UnscopedRequest};
use std::ffi::c_int;
use std::sync::OnceLock;

/// `MPI_Ibcast`, to which the program passes room for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NonBlocking(pub(crate) *mut usize);

impl Form for NonBlocking {
    const BLOCKS: bool = false;

    unsafe fn run<L: 'static>(
        self,
        call: &Call,
        memory: Memory<L>,
        _now: impl FnOnce(&Communicator, Option<&[u8]>, &mut L) -> circulant::Result<()>,
        start: impl for<'s> FnOnce(
            Unscoped<'s>,
            Option<&'s [u8]>,
            &'s mut L,
        ) -> circulant::Result<UnscopedRequest>,
        finish: impl FnOnce(L, &On) -> Result<(), Stop> + 'static,
    ) -> Result<(), Stop> {
        let layer = call.layer;
        let (Some(made), false) = (layer.requests, self.0.is_null()) else {
            return Err(Stop::Pass(Reason::Arguments));
        };
        let comm = call.comm()?;
        requests::make_room(&layer.wire);
        // Where it stays: what is started has addresses in it.
        let mut memory = Box::new(memory);
        let (own, to) = &mut *memory;
        // Boxes and vectors may move; what they point to stays.
        let started = start(comm.unscoped(), own.as_deref(), to)?;
        // The program may free its communicator before the operation has ended.
        let on = layer.wire.on();
        let finish = Box::new(move || {
            let (own, to) = *memory;
            drop(own);
            finish(to, &on)
        });
        let work = Work { operation: Operation::Ours(started), finish };
        // SAFETY: our caller's: `self.0` has room for a request.
        unsafe { requests::begin(made, layer.wire, work, self.0) }
    }
}

/// Begins a call of the MPI's that reads `lists` until it ends, when they are dropped: the program gets a request of ours in place of the
/// MPI's.
///
/// # Safety
/// `start` begins it as MPI asks of its callers, with room for the MPI's request; there is room for one at `room`, too.
pub(crate) unsafe fn with_lists<const N: usize>(
    lists: [Vec<c_int>; N],
    start: impl FnOnce([&[c_int]; N], *mut usize) -> c_int,
    room: *mut usize,
) -> c_int {
    if room.is_null() {
        // The MPI refuses it.
        return start(lists.each_ref().map(Vec::as_slice), room);
    }
    let taking = layer().and_then(|layer| Some((layer.wire, layer.requests?)));
    let Some((wire, made)) = taking.or_else(where_nothing_is_taken) else {
        eprintln!("circulant: this MPI library has no requests for lists of 64 bits");
        return MISSING;
    };
    let mut request = 0;
    let code = start(lists.each_ref().map(Vec::as_slice), &raw mut request);
    if code != SUCCESS {
        return code;
    }
    let finish = Box::new(move || {
        drop(lists);
        Ok(())
    });
    let work = Work { operation: Operation::Mpis(wire.abi.handle(request)), finish };
    // SAFETY: the caller's.
    match unsafe { requests::begin(made, wire, work, room) } {
        Ok(()) => SUCCESS,
        Err(Stop::Code(code)) => code,
        Err(_) => wire.abi.err_other,
    }
}

/// How requests are made that end with one of the MPI's, where the library takes no calls, or none that do not block: of this rank alone.
fn where_nothing_is_taken() -> Option<(Wire, Requests)> {
    static FOUND: OnceLock<Option<(Abi, Requests)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let (kind, _) = Kind::of(real());
        // SAFETY: the MPI is initialised, as a call of it has begun.
        let is_looked_after = kind != Kind::OpenMpi || unsafe { progress::look_after_requests() };
        Some((Abi::of(kind)?, Requests::of(kind, is_looked_after, true)?))
    });
    let (abi, requests) = found.as_ref()?;
    // It only asks whether a message is there.
    Some((Wire { real: real(), abi, comm: abi.world }, *requests))
}
