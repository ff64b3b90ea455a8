//! Loading libfabric: what it must leave alone, and what is said when it cannot be loaded.
//!
//! One test, since all of it is about the process as a whole. `CIRCULANT_LIBFABRIC` chooses the library.

use libfabric_sys::{Api, LoadError, OLDEST, Preserved};
use std::mem::MaybeUninit;

extern "C" fn handler(_: libc::c_int) {}

/// Handler, flags and restorer-independent parts of the action of every signal that has one.
fn actions() -> Vec<(libc::c_int, usize, libc::c_int)> {
    let mut out = Vec::new();
    for signal in 1..=libc::SIGRTMAX() {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: asks only; there is room for the answer, which is read only after success.
        unsafe {
            if libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0 {
                let action = action.assume_init();
                out.push((signal, action.sa_sigaction, action.sa_flags));
            }
        }
    }
    out
}

fn cpus() -> Vec<usize> {
    // SAFETY: all-zero is an empty set; the call writes a set of the size given; pid 0 is this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize).filter(|&c| libc::CPU_ISSET(c, &set)).collect()
    }
}

fn pin(cpu: usize) {
    // SAFETY: as above; the set is well formed.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

fn install(signal: libc::c_int, to: usize) {
    // SAFETY: all-zero is an empty mask and no flags; the handler does nothing, which is safe at any time.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = to;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

fn load(name: &str) -> Result<&'static Api, LoadError> {
    // SAFETY: a libfabric, the C library, or nothing.
    unsafe { Api::load(name) }
}

#[test]
fn loading_leaves_the_process_as_it_was() {
    // What cannot be loaded, first: it must not stand in the way of what can.
    let missing = load("libfabric-that-is-not-there.so.1").unwrap_err();
    assert!(matches!(missing, LoadError::Missing { .. }));
    assert!(missing.to_string().contains("libfabric1"), "{missing}");
    assert!(load("a\0b").unwrap_err().to_string().contains("NUL"));
    let old = load("libc.so.6").unwrap_err();
    assert!(matches!(old, LoadError::TooOld { version: None, .. }));
    assert!(old.to_string().contains("1.17"), "{old}");
    assert!(Api::loaded().is_none());

    // psm's constructor touches the first six, shm the last ones.
    let signals = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGABRT,
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGUSR1,
    ];
    for signal in signals {
        install(signal, handler as extern "C" fn(libc::c_int) as usize);
    }
    // Not the processor the constructor would choose by itself, if there is another.
    pin(*cpus().last().unwrap());
    let before = (actions(), cpus());

    let name = std::env::var("CIRCULANT_LIBFABRIC").unwrap_or("libfabric.so.1".into());
    let api = load(&name).unwrap();
    assert!((actions(), cpus()) == before, "loading changed signal handlers or the affinity");
    assert!(api.version() >= OLDEST && api.path().exists());

    let mut info = std::ptr::null_mut();
    // SAFETY: no hints; the list is freed below.
    assert_eq!(unsafe { api.getinfo(None, 0, std::ptr::null(), &mut info) }, 0);
    assert!((actions(), cpus()) == before, "fi_getinfo changed signal handlers or the affinity");
    assert!(!info.is_null());
    // SAFETY: the list is ours and not used any more.
    unsafe { api.freeinfo(info) };

    assert!(std::ptr::eq(load(&name).unwrap(), api));
    assert!(matches!(load("libc.so.6"), Err(LoadError::Another { .. })));
    assert_eq!(api.strerror(-11), api.strerror(11));

    // The guard itself, whatever the library does.
    {
        let _preserved = Preserved::take();
        install(libc::SIGUSR2, handler as extern "C" fn(libc::c_int) as usize);
        install(libc::SIGSEGV, libc::SIG_DFL);
        pin(cpus()[0]);
    }
    assert!((actions(), cpus()) == before);
}
