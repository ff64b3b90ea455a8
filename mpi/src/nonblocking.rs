//! Non-blocking collectives.

use crate::call::Call;
use crate::form::{Form, Memory};
use crate::layer::layer;
use crate::on::On;
use crate::report::Reason;
use crate::requests::{self, Operation, Work};
use crate::stop::{SUCCESS, Stop};
use circulant::Communicator;
use circulant::comm::{Unscoped, UnscopedRequest};
use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

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
/// MPI's. Where none is looked after here the program gets the MPI's, and the lists stay: equal ones once.
///
/// # Safety
/// `start` begins it as MPI asks of its callers, with room for the MPI's request; there is room for one at `room`, too.
pub(crate) unsafe fn with_lists<const N: usize>(
    lists: [Vec<c_int>; N],
    start: impl FnOnce([&[c_int]; N], *mut usize) -> c_int,
    room: *mut usize,
) -> c_int {
    let found = layer().and_then(|layer| Some((layer, layer.requests?)));
    let (Some((layer, made)), false) = (found, room.is_null()) else {
        return start(lists.map(kept_for_good), room);
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
    let work = Work { operation: Operation::Mpis(layer.abi.handle(request)), finish };
    // SAFETY: the caller's.
    match unsafe { requests::begin(made, layer.wire, work, room) } {
        Ok(()) => SUCCESS,
        Err(Stop::Code(code)) => code,
        Err(_) => layer.abi.err_other,
    }
}

/// The list, which stays; one that is equal to an earlier one is that one.
fn kept_for_good(list: Vec<c_int>) -> &'static [c_int] {
    static KEPT: Mutex<BTreeSet<&[c_int]>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    match kept.get(&list[..]) {
        Some(found) => found,
        None => {
            let list: &[c_int] = list.leak();
            kept.insert(list);
            list
        }
    }
}
