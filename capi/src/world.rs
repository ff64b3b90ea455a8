//! Worlds, and the library's version.

use crate::bootstrap::{Bootstrap, Outside};
use crate::comm::Comm;
use crate::setting::Setting;
use crate::status::{Status, given, guard, place, string};
use circulant::comm::{Builder, Finalizing};
use circulant::error::argument;
use circulant::{Result, World};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;

/// What C calls `circulant_world_t`.
struct Handle {
    world: World,
    provider: CString,
    launcher: CString,
}

/// Begins a world with settings by their names.
///
/// # Safety
/// The pointers are as the header says.
unsafe fn init(
    mut builder: Builder,
    settings: *const Setting,
    n: usize,
    place: &mut *mut Handle,
) -> Result<()> {
    // SAFETY: our caller's.
    for (name, value) in unsafe { Setting::pairs(settings, n)? } {
        builder = builder.set(name, value);
    }
    let world = builder.init()?;
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let (provider, launcher) = (text(world.provider()), text(world.launcher()));
    *place = Box::into_raw(Box::new(Handle { world, provider, launcher }));
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_init(settings: *const Setting, n: usize, world: *mut *mut Handle) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe { init(World::builder(), settings, n, place("world", world)?) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_init_with(
    bootstrap: *const Bootstrap,
    settings: *const Setting,
    n: usize,
    world: *mut *mut Handle,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let place = place("world", world)?;
            let outside = Outside::new(bootstrap)?;
            init(World::builder().launch(Box::new(outside)), settings, n, place)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_finalize(world: *mut *mut Handle) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says: what is not null was given by `init`, and comes back once.
        unsafe {
            let place = place("world", world)?;
            if place.is_null() {
                return Ok(());
            }
            let handle = Box::from_raw(std::mem::replace(place, null_mut()));
            handle.world.finalize()
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_finalize_start(
    world: *mut *mut Handle,
    ending: *mut *mut Finalizing,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says; as of `circulant_finalize`.
        unsafe {
            let (place, ending) = (place("world", world)?, place("ending", ending)?);
            if place.is_null() {
                *ending = null_mut();
                return Ok(());
            }
            let handle = Box::from_raw(std::mem::replace(place, null_mut()));
            *ending = Box::into_raw(Box::new(handle.world.start_finalize()?));
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_finalize_test(ending: *mut *mut Finalizing, finished: *mut c_int) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says: what is not null was given by the function above, and comes back once.
        unsafe {
            let (place, finished) = (place("ending", ending)?, place("finished", finished)?);
            let over = place.as_mut().map_or(Ok(true), Finalizing::test);
            if !matches!(over, Ok(false)) && !place.is_null() {
                drop(Box::from_raw(std::mem::replace(place, null_mut())));
            }
            *finished = c_int::from(over?);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_abort(world: *mut *mut Handle, code: c_int, message: *const c_char) -> Status {
    guard(|| {
        // SAFETY: as of `circulant_finalize`.
        unsafe {
            let (place, message) = (place("world", world)?, string("message", message)?);
            given("world", place.cast_const())?;
            let handle = Box::from_raw(std::mem::replace(place, null_mut()));
            handle.world.abort(code, message);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_world_comm(world: *const Handle, comm: *mut *mut Comm) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (handle, place) = (given("world", world)?, place("comm", comm)?);
            *place = Comm::give(handle.world.comm());
            Ok(())
        }
    })
}

/// What C calls `circulant_hook_fn`.
type Hook = unsafe extern "C" fn(*mut c_void);

/// A function to be called while calls wait, with what it is given.
struct Call {
    hook: Hook,
    context: *mut c_void,
}

// SAFETY: the header says that any thread that is in a call calls the function.
unsafe impl Send for Call {}
// SAFETY: and several at a time.
unsafe impl Sync for Call {}

impl Call {
    fn run(&self) {
        // SAFETY: the function is what the header says.
        unsafe { (self.hook)(self.context) }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_while_waiting(
    world: *const Handle,
    hook: Option<Hook>,
    context: *mut c_void,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        let handle = unsafe { given("world", world)? };
        let hook = hook.ok_or_else(|| argument("hook is NULL"))?;
        let call = Call { hook, context };
        handle.world.while_waiting(move || call.run());
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_progress(world: *const Handle) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says.
        unsafe { given("world", world)? }.world.progress();
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_world_provider(world: *const Handle) -> *const c_char {
    // SAFETY: the pointer is as the header says.
    unsafe { world.as_ref() }.map_or(c"".as_ptr(), |handle| handle.provider.as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_world_launcher(world: *const Handle) -> *const c_char {
    // SAFETY: the pointer is as the header says.
    unsafe { world.as_ref() }.map_or(c"".as_ptr(), |handle| handle.launcher.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn circulant_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
