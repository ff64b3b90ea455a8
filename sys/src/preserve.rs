//! What libraries loaded along with libfabric change behind one's back: psm's constructor pins the
//! calling thread to a core and sets and resets signal handlers, libfabric's shm provider sets its own.
//! Lost that way would be, among others, Rust's stack-overflow message and a launcher's binding.

use std::mem::MaybeUninit;

/// Signal handlers and the calling thread's CPU affinity as they were; put back when dropped.
///
/// Between the two no other thread should change signal handlers: its change would be undone.
#[must_use]
pub struct Preserved {
    handlers: Vec<(libc::c_int, libc::sigaction)>,
    cpus: Option<Vec<u64>>,
}

impl std::fmt::Debug for Preserved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preserved").field("handlers", &self.handlers.len()).field("cpus", &self.cpus).finish()
    }
}

impl Preserved {
    /// Takes note of the present state.
    pub fn take() -> Self {
        Self { handlers: handlers(), cpus: affinity() }
    }
}

impl Drop for Preserved {
    fn drop(&mut self) {
        for (signal, action) in &self.handlers {
            // SAFETY: `action` was filled by sigaction for this same signal; a null pointer asks for no
            // old value. The handler it names was in force before, so its contract is already met.
            unsafe { libc::sigaction(*signal, action, std::ptr::null_mut()) };
        }
        if let Some(cpus) = &self.cpus {
            // SAFETY: the pointer and the length in bytes describe the vector; pid 0 is this thread. A
            // refusal (a cpuset shrunk meanwhile) leaves the affinity as it is, which is harmless.
            unsafe { libc::sched_setaffinity(0, size_of_val(cpus.as_slice()), cpus.as_ptr().cast()) };
        }
    }
}

fn handlers() -> Vec<(libc::c_int, libc::sigaction)> {
    let mut out = Vec::with_capacity(64);
    for signal in 1..=libc::SIGRTMAX() {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: `action` has room for the answer and a null pointer asks for no change. Signals that
        // do not exist or belong to libc are refused with EINVAL and skipped.
        let found = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } == 0;
        if found {
            // SAFETY: the call above succeeded, so it wrote the whole structure.
            out.push((signal, unsafe { action.assume_init() }));
        }
    }
    out
}

/// The mask of processors this thread may use, as long as the kernel's own mask.
fn affinity() -> Option<Vec<u64>> {
    let mut words = 16;
    while words <= 8192 {
        let mut cpus = vec![0u64; words];
        // SAFETY: the pointer and the length in bytes describe the vector, which is a multiple of
        // sizeof(long) and aligned for it, as the call wants; pid 0 is this thread.
        let got =
            unsafe { libc::sched_getaffinity(0, size_of_val(cpus.as_slice()), cpus.as_mut_ptr().cast()) };
        if got == 0 {
            return Some(cpus);
        }
        words *= 2;
    }
    None
}
