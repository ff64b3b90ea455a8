//! Requests of non-blocking collectives: the program gets a generalized request of its MPI for an operation that runs here.
//!
//! MPI completes a generalized request when it is told to (MPI 4.1, section 13.2). What looks whether the operation has ended differs: in
//! Open MPI the function that its progress calls, in MPICH the `poll` and `wait` functions of its extended requests, which the calls that
//! test and wait for requests call. The first that finds that it has ended unpacks the result and completes the request.

use crate::abi::Kind;
use crate::real::{Real, symbol};
use crate::stop::{SUCCESS, Stop};
use crate::wire::Wire;
use circulant::comm::UnscopedRequest;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Operations that are under way at most: a world has room for 240, of which some are left for calls of other threads.
const MAX_PENDING: usize = 200;
/// How many operations one call of the MPI's progress looks at: looking at one moves on all.
const LOOKS: usize = 4;

/// `MPIX_Grequest_start` of MPICH: functions that query, free, cancel, poll and wait, their state, and the request.
type ExtendedStart = unsafe extern "C" fn(Query, Free, Cancel, Poll, Wait, *mut c_void, *mut usize) -> c_int;
type Query = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type Poll = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Wait = unsafe extern "C" fn(c_int, *mut *mut c_void, f64, *mut c_void) -> c_int;

/// How requests are made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Requests {
    /// The MPI's progress looks after them.
    Plain,
    /// They have functions that look after them.
    Extended(ExtendedStart),
}

impl Requests {
    /// How they are made here; nothing where non-blocking calls go to the MPI. `is_moved`: its progress calls us; `has_thread`: a thread
    /// of the library moves on what is under way.
    pub(crate) fn of(kind: Kind, is_moved: bool, has_thread: bool) -> Option<Self> {
        match kind {
            Kind::OpenMpi => is_moved.then_some(Self::Plain),
            Kind::Mpich if is_moved || has_thread => {
                let start = symbol(c"PMPIX_Grequest_start")?;
                // SAFETY: the function of this name, which mpi.h of MPICH (4.0.2, 5.0.2) and of Intel MPI declare with this type.
                Some(Self::Extended(unsafe { std::mem::transmute::<usize, ExtendedStart>(start) }))
            }
            Kind::Mpich | Kind::Standard => None,
        }
    }

    /// Makes a request with this state.
    ///
    /// # Safety
    /// There is room for a request, and `state` comes of `Arc::into_raw` of a [`Pending`]; its count goes with it if this succeeds.
    unsafe fn make(self, real: &Real, state: *mut c_void, request: *mut usize) -> c_int {
        match self {
            // SAFETY: the caller's; functions with the types that MPI asks for.
            Self::Plain => unsafe {
                let (query, free, cancel) = (query as Query, free as Free, cancel as Cancel);
                real.Grequest_start(
                    query as *mut c_void,
                    free as *mut c_void,
                    cancel as *mut c_void,
                    state,
                    request,
                )
            },
            // SAFETY: as above.
            Self::Extended(start) => unsafe { start(query, free, cancel, poll, wait, state, request) },
        }
    }
}

/// An operation under way.
struct Pending {
    /// Of the list: later ones have larger numbers.
    serial: u64,
    wire: Wire,
    /// It runs here.
    is_ours: bool,
    /// The request's handle, once it is made.
    request: AtomicUsize,
    /// What waiting for it returns.
    code: AtomicI32,
    /// Until it has ended.
    work: Mutex<Option<Work>>,
}

/// What is still to be done for a request.
pub(crate) struct Work {
    /// Goes first: it uses the memory that `finish` has.
    pub(crate) operation: Operation,
    pub(crate) finish: Box<dyn FnOnce() -> Result<(), Stop>>,
}

/// What a request stands for.
#[allow(clippy::large_enum_variant, reason = "nearly all are the larger one")]
pub(crate) enum Operation {
    Ours(UnscopedRequest),
    /// The MPI's request for a call that was passed on, and that uses memory of ours.
    Mpis(usize),
}

impl Operation {
    /// Whether it has ended.
    fn test(&mut self, wire: &Wire) -> Result<bool, Stop> {
        thread_local! {
            /// This thread is in the MPI's test, from where its progress may call us again.
            static INSIDE: Cell<bool> = const { Cell::new(false) };
        }
        let request = match self {
            Self::Ours(request) => return Ok(request.test()?),
            Self::Mpis(_) if INSIDE.replace(true) => return Ok(false),
            Self::Mpis(request) => request,
        };
        let mut flag = 0;
        // SAFETY: a request of the MPI that no one else has, which it makes null at its end, and may then be asked again.
        let code = unsafe { wire.real.Test(request, &raw mut flag, wire.abi.status_ignore) };
        INSIDE.set(false);
        if code == SUCCESS { Ok(flag != 0) } else { Err(Stop::Code(code)) }
    }
}

// SAFETY: what keeps it from being sent are addresses of the program's buffers, which any thread of the program may complete a call on
// (MPI 4.1, section 11.6), and of memory that it owns.
unsafe impl Send for Work {}

/// What is under way, in the order of starting, and what the program has freed meanwhile.
struct List {
    pending: Vec<Arc<Pending>>,
    serial: u64,
    /// The place of the operation that is looked at next.
    turn: usize,
    freed: Vec<Freed>,
}

/// A datatype or an operator that an operation may still use.
struct Freed {
    /// Operations with smaller numbers may use it.
    before: u64,
    free: unsafe fn(&Real, *mut usize) -> c_int,
    handle: usize,
}

static LIST: Mutex<List> = Mutex::new(List { pending: Vec::new(), serial: 0, turn: 0, freed: Vec::new() });
/// The operations in it.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Those of them that run here.
static OURS: AtomicUsize = AtomicUsize::new(0);

/// The list. No function of the MPI is called while it is locked.
fn list() -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the program's request for an operation that has begun.
///
/// # Safety
/// There is room for a request of this MPI.
pub(crate) unsafe fn begin(requests: Requests, wire: Wire, work: Work, room: *mut usize) -> Result<(), Stop> {
    let is_ours = matches!(work.operation, Operation::Ours(_));
    let serial = {
        let mut list = list();
        list.serial += 1;
        list.serial
    };
    let (request, code, work) = (AtomicUsize::new(0), AtomicI32::new(SUCCESS), Mutex::new(Some(work)));
    let pending = Arc::new(Pending { serial, wire, is_ours, request, code, work });
    let state = Arc::into_raw(Arc::clone(&pending));
    // SAFETY: the caller's; the state is what it must be.
    let code = unsafe { requests.make(wire.real, state.cast_mut().cast(), room) };
    if code != SUCCESS {
        // SAFETY: the MPI has not taken it. (Dropping an operation of ours waits for it.)
        drop(unsafe { Arc::from_raw(state) });
        return Err(Stop::Code(code));
    }
    // SAFETY: the MPI has written the handle.
    pending.request.store(unsafe { wire.abi.handle_at(room, 0) }, Ordering::Release);
    list().pending.push(Arc::clone(&pending));
    COUNT.fetch_add(1, Ordering::Release);
    OURS.fetch_add(usize::from(is_ours), Ordering::Release);
    pending.advance();
    Ok(())
}

impl Pending {
    /// Whether it has ended; moves on everything that is under way. The first thread that finds that it has completes the request.
    fn advance(&self) -> bool {
        let mut work = match self.work.try_lock() {
            Ok(work) => work,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is at it.
            Err(TryLockError::WouldBlock) => return false,
        };
        let ended = match work.as_mut().map(|work| work.operation.test(&self.wire)) {
            None => return true,
            Some(Ok(false)) => return false,
            Some(ended) => ended,
        };
        let Some(Work { operation, finish }) = work.take() else { return true };
        drop((operation, work));
        let done = ended.and_then(|_| finish());
        let code = match done {
            Ok(()) => SUCCESS,
            Err(Stop::Code(code)) => code,
            Err(Stop::Pass(_)) => self.wire.abi.err_other,
            Err(Stop::Failed(e)) => {
                eprintln!("circulant: {e}");
                self.wire.abi.err_other
            }
        };
        self.code.store(code, Ordering::Release);
        // SAFETY: a request that is not complete; the thread that took the work comes here, once.
        unsafe { self.wire.real.Grequest_complete(self.request.load(Ordering::Acquire)) };
        self.retire();
        true
    }

    /// Leaves the list, and frees what waited for that.
    fn retire(&self) {
        let mut list = list();
        if let Some(at) = list.pending.iter().position(|p| p.serial == self.serial) {
            list.pending.swap_remove(at);
            COUNT.fetch_sub(1, Ordering::Release);
            OURS.fetch_sub(usize::from(self.is_ours), Ordering::Release);
        }
        let oldest = list.pending.iter().map(|p| p.serial).min().unwrap_or(u64::MAX);
        let (free, keep) = std::mem::take(&mut list.freed).into_iter().partition(|f| f.before <= oldest);
        list.freed = keep;
        drop(list);
        let free: Vec<Freed> = free;
        for Freed { free, mut handle, .. } in free {
            // SAFETY: the program has freed it, and no operation uses it any more.
            unsafe { free(self.wire.real, &raw mut handle) };
        }
    }
}

/// Looks at some operations, at others than last time, and completes those that have ended.
pub(crate) fn advance_some() {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let mut chosen = [const { None }; LOOKS];
    {
        let mut list = list();
        let count = list.pending.len();
        for place in chosen.iter_mut().take(count) {
            list.turn = (list.turn + 1) % count;
            *place = Some(Arc::clone(&list.pending[list.turn]));
        }
    }
    for pending in chosen.iter().flatten() {
        pending.advance();
    }
}

/// Looks at the operation of this request, if it is one of ours.
pub(crate) fn advance_request(request: usize) {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let is_it = |p: &&Arc<Pending>| p.request.load(Ordering::Acquire) == p.wire.abi.handle(request);
    let found = list().pending.iter().find(is_it).cloned();
    if let Some(pending) = found {
        pending.advance();
    }
}

/// Waits until another operation may begin.
pub(crate) fn make_room(wire: &Wire) {
    while OURS.load(Ordering::Acquire) >= MAX_PENDING {
        advance_some();
        wire.progress();
    }
}

/// Waits until nothing is under way: a program may end without having waited for all.
pub(crate) fn drain() {
    while COUNT.load(Ordering::Acquire) > 0 {
        advance_some();
        let left = list().pending.first().map(|pending| pending.wire);
        if let Some(wire) = left {
            wire.progress();
        }
    }
}

/// Keeps a datatype or an operator that the program frees for the operations that are under way. Whether there are any.
pub(crate) fn keep(handle: usize, free: unsafe fn(&Real, *mut usize) -> c_int) -> bool {
    if COUNT.load(Ordering::Acquire) == 0 {
        return false;
    }
    let mut list = list();
    let before = list.serial + 1;
    if !list.pending.is_empty() {
        list.freed.push(Freed { before, free, handle });
        return true;
    }
    false
}

/// The program's status of a request that is complete.
///
/// # Safety
/// MPI calls it, with the state of a request of ours and a status.
unsafe extern "C" fn query(state: *mut c_void, status: *mut c_void) -> c_int {
    // SAFETY: the state of `make`, which lives until `free`.
    let pending = unsafe { &*state.cast_const().cast::<Pending>() };
    let (real, byte) = (pending.wire.real, pending.wire.abi.byte);
    // SAFETY: the MPI's status.
    unsafe {
        real.Status_set_elements(status, byte, 0);
        real.Status_set_cancelled(status, 0);
    }
    pending.code.load(Ordering::Acquire)
}

/// The request is gone.
///
/// # Safety
/// MPI calls it once, with the state of a request of ours.
unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    // SAFETY: the count that `make` gave away.
    drop(unsafe { Arc::from_raw(state.cast_const().cast::<Pending>()) });
    SUCCESS
}

/// A collective cannot be cancelled (MPI 4.1, section 6.12).
///
/// # Safety
/// As [`query`].
unsafe extern "C" fn cancel(state: *mut c_void, _complete: c_int) -> c_int {
    // SAFETY: as in `query`.
    unsafe { &*state.cast_const().cast::<Pending>() }.wire.abi.err_other
}

/// MPICH tests a request.
///
/// # Safety
/// As [`query`].
unsafe extern "C" fn poll(state: *mut c_void, _status: *mut c_void) -> c_int {
    // SAFETY: as in `query`.
    let pending = unsafe { &*state.cast_const().cast::<Pending>() };
    if !pending.advance() {
        // Others may be what another rank waits for before it comes to this one.
        advance_some();
        // MPICH's MPI_Wait calls nothing but this.
        pending.wire.progress();
    }
    SUCCESS
}

/// MPICH waits for requests.
///
/// # Safety
/// There are `count` states of requests of ours.
unsafe extern "C" fn wait(
    count: c_int,
    states: *mut *mut c_void,
    _seconds: f64,
    _status: *mut c_void,
) -> c_int {
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's; and as in `query`.
        let pending = unsafe { &*(*states.add(i)).cast_const().cast::<Pending>() };
        while !pending.advance() {
            pending.wire.progress();
            std::thread::yield_now();
        }
    }
    SUCCESS
}
