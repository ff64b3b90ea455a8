//! Datatypes, as far as moving their data needs to know them.
//!
//! What a derived type is costs several calls of the MPI. It is asked at the type's first use, and kept until the type is freed: an attribute
//! of the type, whose value is its handle, tells when that is. Each thread also keeps the type that it used last.

use crate::abi::{Abi, Class, NAMED};
use crate::attributes::{CopyFunction, DeleteFunction, copy};
use crate::on::On;
use crate::real::Real;
use crate::report::Reason;
use crate::stop::Stop;
use circulant::{Error, ErrorKind};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A type as a call passes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    pub(crate) handle: usize,
    /// Bytes of one element's data.
    pub(crate) size: usize,
    /// From one element to the next, in bytes.
    pub(crate) extent: isize,
    /// Elements lie one behind the other without gaps, in the order of the signature.
    pub(crate) dense: bool,
    /// What a named type is.
    pub(crate) class: Option<Class>,
}

impl Type {
    /// Bytes of the data of `count` elements.
    pub(crate) fn bytes(&self, count: usize) -> Result<usize, Stop> {
        let bytes = count.checked_mul(self.size).filter(|n| isize::try_from(*n).is_ok());
        bytes.ok_or(Stop::Pass(Reason::Arguments))
    }
}

/// A named type of this library.
#[derive(Debug)]
struct Known {
    handle: usize,
    class: Class,
    /// Asked at the first use: the library may lack a type that its header names.
    lengths: OnceLock<(usize, isize)>,
}

/// The types of the MPI.
#[derive(Debug)]
pub(crate) struct Types {
    /// By handle.
    known: Vec<Known>,
    null: usize,
    /// `MPI_COMBINER_NAMED`.
    named: c_int,
    /// Of the attribute that derived types get.
    keyval: c_int,
}

/// Derived types that calls have used, by handle. Each has our attribute, so it leaves the table when it is freed.
static DERIVED: Mutex<Option<HashMap<usize, Type>>> = Mutex::new(None);

/// How often a type was taken out of the table.
static FREED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The type that this thread used last, and [`FREED`] then.
    static LAST: Cell<Option<(u64, Type)>> = const { Cell::new(None) };
}

/// Runs `f` on the table. It calls no function of the MPI: the MPI may hold a lock where it calls `delete`.
fn derived<R>(f: impl FnOnce(&mut HashMap<usize, Type>) -> R) -> R {
    f(DERIVED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// The type with our attribute ends, or gets the attribute again.
unsafe extern "C" fn delete(_type: usize, _keyval: c_int, handle: *mut c_void, _extra: *mut c_void) -> c_int {
    derived(|table| table.remove(&(handle as usize)));
    FREED.fetch_add(1, Ordering::Release);
    crate::decided::forget();
    0
}

/// How many DUP and CONTIGUOUS one above the other are looked through; more are packed.
const MAX_DEPTH: u32 = 8;

impl Types {
    /// # Safety
    /// The MPI is initialised, and this thread may call it.
    pub(crate) unsafe fn new(real: &Real, abi: &Abi) -> circulant::Result<Self> {
        let (mut keyval, null) = (0, std::ptr::null_mut());
        let (copy, delete) = (copy as CopyFunction, delete as DeleteFunction);
        // SAFETY: functions with the signatures that MPI asks for, and room for the key.
        let code = unsafe {
            real.Type_create_keyval(copy as *mut c_void, delete as *mut c_void, &raw mut keyval, null)
        };
        if code != 0 {
            return Err(Error::new(ErrorKind::Launch, "the MPI gave no attribute key for types"));
        }
        let known = |named| Some((abi.named_type(named)?, named.class));
        let mut known: Vec<Known> = NAMED
            .iter()
            .filter_map(known)
            .map(|(handle, class)| Known { handle, class, lengths: OnceLock::new() })
            .collect();
        known.sort_by_key(|k| k.handle);
        // Two names of one type are one line.
        known.dedup_by_key(|k| k.handle);
        Ok(Self { known, null: abi.type_null, named: abi.named, keyval })
    }

    /// Whether the handle is a named type, or none.
    pub(crate) fn is_predefined(&self, handle: usize) -> bool {
        handle == self.null || self.known.binary_search_by_key(&handle, |k| k.handle).is_ok()
    }

    /// What the type behind `handle` is.
    ///
    /// # Safety
    /// `handle` is a type of this MPI.
    pub(crate) unsafe fn of(&self, on: &On, handle: usize) -> Result<Type, Stop> {
        let freed = FREED.load(Ordering::Acquire);
        match LAST.get() {
            Some((then, ty)) if ty.handle == handle && then == freed => return Ok(ty),
            _ => {}
        }
        // SAFETY: the caller's.
        let ty = unsafe { self.looked_up(on, handle)? };
        LAST.set(Some((freed, ty)));
        Ok(ty)
    }

    /// What a named type or an earlier call says, or else the MPI.
    ///
    /// # Safety
    /// As [`Types::of`].
    unsafe fn looked_up(&self, on: &On, handle: usize) -> Result<Type, Stop> {
        let real = on.real;
        if handle == self.null {
            return Err(Stop::Pass(Reason::Arguments));
        }
        if let Ok(i) = self.known.binary_search_by_key(&handle, |k| k.handle) {
            let known = &self.known[i];
            let lengths = match known.lengths.get() {
                Some(lengths) => *lengths,
                None => {
                    // SAFETY: the caller's.
                    let asked = unsafe { lengths(real, handle)? };
                    *known.lengths.get_or_init(|| asked)
                }
            };
            let (size, extent) = lengths;
            let dense = isize::try_from(size) == Ok(extent);
            return Ok(Type { handle, size, extent, dense, class: Some(known.class) });
        }
        if let Some(ty) = derived(|table| table.get(&handle).copied()) {
            return Ok(ty);
        }
        // SAFETY: the caller's.
        let ty = unsafe {
            let (size, extent) = lengths(real, handle)?;
            committed(on, handle)?;
            let dense = isize::try_from(size) == Ok(extent) && self.is_dense(real, handle, MAX_DEPTH);
            Type { handle, size, extent, dense, class: None }
        };
        // SAFETY: the caller's; the value is a number, which only `delete` gets.
        let code = unsafe { real.Type_set_attr(handle, self.keyval, handle as *mut c_void) };
        if code != 0 {
            return Err(Stop::Code(code));
        }
        // Now that it has the attribute. Where it had one of another thread's call, `delete` has just taken that entry out.
        derived(|table| table.insert(handle, ty));
        Ok(ty)
    }

    /// Whether the type is a named one without padding, or made of such by DUP and CONTIGUOUS alone. That its size is its extent
    /// says too little: a struct may permute.
    ///
    /// # Safety
    /// As [`Types::of`].
    unsafe fn is_dense(&self, real: &Real, handle: usize, depth: u32) -> bool {
        // SAFETY: the caller's; the numbers are written.
        let Some(made_by) = (unsafe { combiner(real, handle) }) else { return false };
        if made_by == self.named {
            // SAFETY: the caller's.
            return unsafe { lengths(real, handle) }.is_ok_and(|(s, e)| isize::try_from(s) == Ok(e));
        }
        let of_one = made_by == self.named + 1 || made_by == self.named + 2;
        if !of_one || depth == 0 {
            return false;
        }
        let (mut count, mut address, mut inner) = (0, 0, 0);
        // SAFETY: a DUP has one type, a CONTIGUOUS one count and one type: there is room for them.
        let code = unsafe {
            let counts = made_by - self.named - 1;
            real.Type_get_contents(handle, counts, 0, 1, &raw mut count, &raw mut address, &raw mut inner)
        };
        if code != 0 {
            return false;
        }
        // SAFETY: `inner` is a type that get_contents has just given us.
        let dense = unsafe { self.is_dense(real, inner, depth - 1) };
        // A type that is not named is a reference of its own, to be freed (MPI 4.1, section 5.1.13).
        // SAFETY: as above; freed once, and not used after.
        unsafe {
            if combiner(real, inner) != Some(self.named) {
                real.Type_free(&raw mut inner);
            }
        }
        dense
    }
}

/// Goes on if the type is committed. Packing none of its elements is what MPI says so of, by the communicator's error handler.
///
/// # Safety
/// `handle` is a type of this MPI.
unsafe fn committed(on: &On, handle: usize) -> Result<(), Stop> {
    let (from, mut to, mut position) = (0u8, 0u8, 0);
    // SAFETY: the caller's; nothing is read or written, as there are no elements.
    let code = unsafe {
        let (from, to) = ((&raw const from).cast(), (&raw mut to).cast());
        on.real.Pack(from, 0, handle, to, 0, &raw mut position, on.handle)
    };
    if code == 0 { Ok(()) } else { Err(Stop::Code(code)) }
}

/// How the type was made; nothing for one that needs counts of 64 bits, which is packed.
///
/// # Safety
/// `handle` is a type of this MPI.
unsafe fn combiner(real: &Real, handle: usize) -> Option<c_int> {
    let mut combiner = 0;
    if real.Type_get_envelope_c.is_some() {
        let [mut ints, mut aints, mut counts, mut types] = [0; 4];
        // SAFETY: the caller's; there is room for each number.
        let code = unsafe {
            let (ints, aints) = (&raw mut ints, &raw mut aints);
            real.Type_get_envelope_c(handle, ints, aints, &raw mut counts, &raw mut types, &raw mut combiner)
        };
        return (code == 0 && counts == 0).then_some(combiner);
    }
    let [mut ints, mut aints, mut types] = [0; 3];
    // SAFETY: as above.
    let code = unsafe {
        real.Type_get_envelope(handle, &raw mut ints, &raw mut aints, &raw mut types, &raw mut combiner)
    };
    (code == 0).then_some(combiner)
}

/// Size and extent of a type.
///
/// # Safety
/// `handle` is a type of this MPI.
unsafe fn lengths(real: &Real, handle: usize) -> Result<(usize, isize), Stop> {
    let (mut size, mut lb, mut extent) = (0, 0, 0);
    // SAFETY: the caller's; there is room for each number.
    let codes = unsafe {
        let first = real.Type_size_x(handle, &raw mut size);
        [first, real.Type_get_extent(handle, &raw mut lb, &raw mut extent)]
    };
    match (codes, usize::try_from(size)) {
        ([0, 0], Ok(size)) => Ok((size, extent)),
        // No type, or one whose size nothing can count: the MPI says so.
        _ => Err(Stop::Pass(Reason::Arguments)),
    }
}

/// Lower bound and length of an element's data, gaps included.
///
/// # Safety
/// `handle` is a type of this MPI.
pub(crate) unsafe fn true_extent(real: &Real, handle: usize) -> Option<(isize, isize)> {
    let (mut lb, mut extent) = (0, 0);
    // SAFETY: the caller's; there is room for both.
    let code = unsafe { real.Type_get_true_extent(handle, &raw mut lb, &raw mut extent) };
    (code == 0).then_some((lb, extent))
}
