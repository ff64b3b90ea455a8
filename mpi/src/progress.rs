//! The MPI's progress calls ours: while the program waits in a call of its MPI, what it has under way here moves on.
//!
//! Each MPI has another way, and some have none:
//!
//! | MPI | what is called |
//! |---|---|
//! | Open MPI 4 and 5 | `opal_progress_register` of its library libopen-pal |
//! | MPICH from 4.2 on | `MPIX_Async_start` |
//! | MPICH over UCX (Debian's 4.0) | `ucp_worker_progress` is a function of this library, which calls UCX's |
//! | Intel MPI, MPICH 5's library of the standard ABI | nothing: `CIRCULANT_PROGRESS=thread` |
//!
//! Whether it works is seen at the start: the MPI is made to make progress, and this library must have been called.

use crate::abi::Kind;
use crate::layer::layer;
use crate::outside;
use crate::real::{function, symbol};
use crate::requests;
use crate::wire::Wire;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// So many calls of the MPI may pass by: nothing was under way here at the last one that looked. It is here and not in the world, as an MPI calls
/// on each turn of its waits, and where ranks share cores each turn fetches anew all that it touches.
static PASSING: AtomicU32 = AtomicU32::new(0);
/// The MPI has called us.
static CALLED: AtomicBool = AtomicBool::new(false);
/// How it was told of us; nothing: over UCX, or not at all.
static REGISTERED: OnceLock<Registered> = OnceLock::new();
/// The world has ended: what was registered takes its leave.
static ENDED: AtomicBool = AtomicBool::new(false);
/// A function that takes its leave by itself has done so.
static LEFT: AtomicBool = AtomicBool::new(false);

/// `opal_progress_callback_t`: returns how much has happened.
type OpalCallback = extern "C" fn() -> c_int;
type OpalRegister = unsafe extern "C" fn(OpalCallback) -> c_int;
/// `MPIX_Async_poll_function`.
type AsyncPoll = extern "C" fn(*mut c_void) -> c_int;
type AsyncStart = unsafe extern "C" fn(AsyncPoll, *mut c_void, usize) -> c_int;
type UcxProgress = unsafe extern "C" fn(*mut c_void) -> c_uint;

/// `MPIX_STREAM_NULL`, `MPIX_ASYNC_NOPROGRESS` and `MPIX_ASYNC_DONE` of MPICH's mpi.h (4.2.0, 5.0.2).
const STREAM_NULL: usize = 0x3c00_0000;
const ASYNC_NOPROGRESS: c_int = 0;
const ASYNC_DONE: c_int = 1;

/// How often the MPI is asked to make progress before it is taken for one that calls nothing, or that has let go of us. Open MPI calls
/// some functions in one of 8 rounds.
const ROUNDS: usize = 100;

/// How the MPI's progress was told of us.
#[derive(Clone, Copy, Debug)]
enum Registered {
    Opal { unregister: OpalRegister },
    Async,
}

/// Registers with the MPI. Whether it calls us then.
///
/// # Safety
/// The MPI is initialised, and this thread may call it.
pub(crate) unsafe fn register(kind: Kind, wire: Wire) -> bool {
    let registered = match kind {
        // SAFETY: the functions of these names, as Open MPI declares them in opal/runtime/opal_progress.h.
        Kind::OpenMpi => unsafe { opal() },
        // SAFETY: the caller's.
        Kind::Mpich => unsafe { start_async() },
        Kind::Standard => None,
    };
    if let Some(registered) = registered {
        // The MPI is initialised once.
        _ = REGISTERED.set(registered);
    }
    CALLED.store(false, Ordering::Relaxed);
    (0..ROUNDS).any(|_| {
        wire.progress();
        CALLED.load(Ordering::Relaxed)
    })
}

/// Has Open MPI's progress look after requests where it calls the library for nothing else. Whether it does then.
///
/// # Safety
/// The MPI is Open MPI, and initialised.
pub(crate) unsafe fn look_after_requests() -> bool {
    // SAFETY: the caller's. Its end is the MPI's.
    unsafe { opal() }.is_some()
}

/// # Safety
/// The MPI is Open MPI.
unsafe fn opal() -> Option<Registered> {
    let register = symbol(c"opal_progress_register")?;
    let unregister = symbol(c"opal_progress_unregister")?;
    // SAFETY: their addresses, and their types in opal/runtime/opal_progress.h of Open MPI 4.1 and 5.0.
    let (register, unregister) = unsafe {
        (
            std::mem::transmute::<usize, OpalRegister>(register),
            std::mem::transmute::<usize, OpalRegister>(unregister),
        )
    };
    // SAFETY: the callback may be called at any time, by any thread.
    (unsafe { register(opal_callback) } == 0).then_some(Registered::Opal { unregister })
}

/// # Safety
/// The MPI has MPICH's ABI and is initialised.
unsafe fn start_async() -> Option<Registered> {
    let start = symbol(c"PMPIX_Async_start")?;
    // SAFETY: its address, and its type in MPICH's mpi.h; a stream is an int, the low half of its register.
    let start = unsafe { std::mem::transmute::<usize, AsyncStart>(start) };
    // SAFETY: the function may be called at any time, by any thread, and needs no state.
    (unsafe { start(async_poll, std::ptr::null_mut(), STREAM_NULL) } == 0).then_some(Registered::Async)
}

/// The MPI calls us no more, when this returns.
///
/// # Safety
/// The MPI is initialised, and this thread may call it.
pub(crate) unsafe fn end(wire: Wire) {
    ENDED.store(true, Ordering::Relaxed);
    match REGISTERED.get() {
        // SAFETY: registered by `opal`, and not yet unregistered.
        Some(Registered::Opal { unregister }) => _ = unsafe { unregister(opal_callback) },
        // It leaves when it is called next.
        Some(Registered::Async) => {
            _ = (0..ROUNDS).find(|_| {
                wire.progress();
                LEFT.load(Ordering::Relaxed)
            })
        }
        None => {}
    }
}

/// A collective begins here: no call of the MPI passes by. (Up to as many as passed by last may yet, if another thread is in one just now.)
pub(crate) fn begins() {
    PASSING.store(0, Ordering::Relaxed);
}

/// Moves on what is under way.
fn called() {
    let passing = PASSING.load(Ordering::Relaxed);
    if passing > 0 {
        return PASSING.store(passing - 1, Ordering::Relaxed);
    }
    CALLED.store(true, Ordering::Relaxed);
    let Some(layer) = layer().filter(|layer| layer.is_moved) else { return };
    let passing = if layer.may_reduce { layer.progress() } else { outside::within(|| layer.progress()) };
    PASSING.store(passing, Ordering::Relaxed);
}

/// Whether the MPI's operators may be called wherever an operation moves on. From within MPICH's progress they may not if it runs with
/// `MPI_THREAD_MULTIPLE`, as it has a lock there, which it refuses to take twice; and not by a thread of the library, `has_thread`.
///
/// # Safety
/// The MPI is initialised.
pub(crate) unsafe fn may_reduce(kind: Kind, wire: Wire, has_thread: bool) -> bool {
    /// `MPI_THREAD_MULTIPLE` of MPICH.
    const MULTIPLE: c_int = 3;
    let mut level = MULTIPLE;
    // SAFETY: the caller's; there is room for an int.
    let code = unsafe { wire.real.Query_thread(&raw mut level) };
    wire.all(!has_thread && (kind == Kind::OpenMpi || code == 0 && level < MULTIPLE))
}

extern "C" fn opal_callback() -> c_int {
    called();
    // No lock of Open MPI's is held here: requests may be completed.
    requests::advance_some();
    0
}

extern "C" fn async_poll(_thing: *mut c_void) -> c_int {
    if ENDED.load(Ordering::Relaxed) {
        LEFT.store(true, Ordering::Relaxed);
        return ASYNC_DONE;
    }
    called();
    ASYNC_NOPROGRESS
}

/// UCX's function, which MPICH calls on each turn of a wait; ours is found before it.
///
/// # Safety
/// As UCX asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn ucp_worker_progress(worker: *mut c_void) -> c_uint {
    static REAL: OnceLock<Option<UcxProgress>> = OnceLock::new();
    if REGISTERED.get().is_none() {
        called();
    }
    let real = REAL.get_or_init(|| {
        let found = function(c"ucp_worker_progress")?;
        // SAFETY: the function of this name, which UCX's ucp.h declares with this type.
        Some(unsafe { std::mem::transmute::<*mut c_void, UcxProgress>(found) })
    });
    // SAFETY: the caller's. There is a worker only where there is UCX.
    real.map_or(0, |real| unsafe { real(worker) })
}
