//! Communicators.

use crate::bootstrap::Allgather;
use crate::setting::Setting;
use crate::slices::rank;
use crate::status::{Status, given, guard, place};
use circulant::error::argument;
use circulant::{Communicator, Error, ErrorKind, Options, Result};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::time::Duration;

/// What C calls `circulant_comm_t`.
pub(crate) struct Comm(pub(crate) Communicator);

impl Comm {
    /// For C, until `circulant_comm_free`.
    pub(crate) fn give(comm: Communicator) -> *mut Self {
        Box::into_raw(Box::new(Self(comm)))
    }
}

/// A number that C counts by.
fn int(name: &str, number: usize) -> Result<c_int> {
    c_int::try_from(number).map_err(|_| argument(format!("the {name} is more than an int")))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_rank(comm: *const Comm, rank: *mut c_int) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            *place("rank", rank)? = int("rank", given("comm", comm)?.0.rank())?;
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_size(comm: *const Comm, size: *mut c_int) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            *place("size", size)? = int("size", given("comm", comm)?.0.size())?;
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_dup(comm: *const Comm, made: *mut *mut Comm) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("made", made)?);
            *place = Comm::give(comm.0.dup()?);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_revoke(comm: *const Comm) -> Status {
    // SAFETY: the pointer is as the header says.
    guard(|| unsafe { given("comm", comm) }?.0.revoke())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_is_revoked(comm: *const Comm, revoked: *mut c_int) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("revoked", revoked)?);
            *place = c_int::from(comm.0.is_revoked()?);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_gone(
    comm: *const Comm,
    ranks: *mut c_int,
    n: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says: `ranks` has room for n.
        unsafe {
            let (comm, count) = (given("comm", comm)?, place("count", count)?);
            let gone = comm.0.gone()?;
            for (at, rank) in gone.iter().take(n).enumerate() {
                *place("ranks", ranks.wrapping_add(at))? = int("rank", *rank)?;
            }
            *count = gone.len();
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_agree(comm: *const Comm, flags: u64, agreed: *mut u64) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("agreed", agreed)?);
            *place = comm.0.agree(flags)?.flags;
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_shrink(comm: *const Comm, made: *mut *mut Comm) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("made", made)?);
            *place = Comm::give(comm.0.shrink()?);
            Ok(())
        }
    })
}

/// `CIRCULANT_NO_COLOUR`.
const NO_COLOUR: i64 = i64::MIN;

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_split(
    comm: *const Comm,
    colour: i64,
    key: i64,
    made: *mut *mut Comm,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("made", made)?);
            let made = comm.0.split((colour != NO_COLOUR).then_some(colour), key)?;
            *place = made.map_or(null_mut(), Comm::give);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_split_by_node(comm: *const Comm, made: *mut *mut Comm) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("made", made)?);
            *place = Comm::give(comm.0.split_by_node()?);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_create(
    comm: *const Comm,
    ranks: *const c_int,
    n: usize,
    made: *mut *mut Comm,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("made", made)?);
            let group = comm.0.group().include(&members("ranks", ranks, n)?)?;
            *place = comm.0.create(&group)?.map_or(null_mut(), Comm::give);
            Ok(())
        }
    })
}

/// `n` ranks, or other numbers that are not negative.
///
/// # Safety
/// `ranks` is null, or leads to as many.
pub(crate) unsafe fn members(name: &str, ranks: *const c_int, n: usize) -> Result<Vec<usize>> {
    if n == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: our caller's.
    let ranks = unsafe { std::slice::from_raw_parts(given(name, ranks)?, n) };
    ranks.iter().map(|r| rank(&format!("one of {name}"), *r)).collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_assemble(
    comm: *const Comm,
    ranks: *const c_int,
    n: usize,
    allgather: Option<Allgather>,
    context: *mut c_void,
    made: *mut *mut Comm,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        let (comm, place, ranks) =
            unsafe { (given("comm", comm)?, place("made", made)?, members("ranks", ranks, n)?) };
        let allgather = allgather.ok_or_else(|| argument("allgather is NULL"))?;
        let exchange = |ours: &[u8; 16]| {
            let mut all = vec![[0u8; 16]; n];
            // SAFETY: the function is what the header says; `all` has room for all members.
            let status =
                unsafe { allgather(context, ours.as_ptr().cast(), all.as_mut_ptr().cast(), ours.len()) };
            match status {
                0 => Ok(all),
                _ => {
                    Err(Error::new(ErrorKind::Launch, format!("the allgather failed: it returned {status}")))
                }
            }
        };
        *place = Comm::give(comm.0.assemble(&ranks, exchange)?);
        Ok(())
    })
}

/// Options of calls, by their names.
fn options(settings: &[(&str, &str)]) -> Result<Options> {
    let mut options = Options::new();
    for (name, value) in settings {
        let wrong = || argument(format!("{name:?} cannot be {value:?}"));
        options = match *name {
            "algorithm" => options.algorithm(*value),
            "blocks" => options.blocks(value.parse::<u32>().map_err(|_| wrong())?),
            "deadline" => {
                let seconds = value.parse().map_err(|_| wrong())?;
                options.deadline(Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?)
            }
            "reproducible" => match *value {
                "yes" => options.reproducible(true),
                "no" => options.reproducible(false),
                _ => return Err(wrong()),
            },
            _ => {
                let e = argument(format!("there is no option {name:?}"));
                return Err(e.help("one of algorithm, blocks, deadline, reproducible"));
            }
        };
    }
    Ok(options)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_with(
    comm: *const Comm,
    settings: *const Setting,
    n: usize,
    made: *mut *mut Comm,
) -> Status {
    guard(|| {
        // SAFETY: all pointers are as the header says.
        unsafe {
            let (comm, place) = (given("comm", comm)?, place("made", made)?);
            let pairs = Setting::pairs(settings, n)?;
            *place = Comm::give(comm.0.with(options(&pairs)?));
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn circulant_comm_free(comm: *mut *mut Comm) -> Status {
    guard(|| {
        // SAFETY: the pointer is as the header says: what is not null was given by a function here, and comes back once.
        unsafe {
            let place = place("comm", comm)?;
            if !place.is_null() {
                drop(Box::from_raw(*place));
                *place = null_mut();
            }
            Ok(())
        }
    })
}
