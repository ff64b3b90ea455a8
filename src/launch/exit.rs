//! What is left to do when this process ends in order: when `main` returns, or something calls `exit`.

use std::sync::OnceLock;

/// The process that is meant, and what it does at its end.
static WORK: OnceLock<(u32, fn())> = OnceLock::new();

/// Whether the system will call [`run`].
static REGISTERED: OnceLock<bool> = OnceLock::new();

/// Has `work` done when this process ends in order, once, however often it is asked for. Not in a copy made by `fork`; not
/// when a signal, `abort` or `_exit` ends the process, nor when it becomes another program. `false`: the system refuses.
pub(super) fn at_exit(work: fn()) -> bool {
    *REGISTERED.get_or_init(|| {
        let _ = WORK.set((std::process::id(), work));
        // SAFETY: `run` has the type that is asked for, takes nothing and does not unwind. It is there when it is called: the
        // C library calls what a shared object registered before it unloads that object.
        unsafe { libc::atexit(run) == 0 }
    })
}

extern "C" fn run() {
    if let Some((_, work)) = WORK.get().filter(|(process, _)| *process == std::process::id()) {
        // Unwinding may not go on into the C library.
        let _ = std::panic::catch_unwind(work);
    }
}
