//! A launcher by an allgather of the program.

use crate::status::given;
use circulant::error::argument;
use circulant::launch::{Gone, Launch};
use circulant::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::time::Duration;

/// What gathers as many bytes of each rank.
pub(crate) type Allgather = unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, usize) -> c_int;
type Abort = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);

/// What C calls `circulant_bootstrap_t`. It grows at its end only, and its first field says how far it goes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Bootstrap {
    bytes: usize,
    rank: c_int,
    size: c_int,
    context: *mut c_void,
    allgather: Option<Allgather>,
    abort: Option<Abort>,
}

impl Bootstrap {
    /// # Safety
    /// `from` is null, or leads to a structure that has as many bytes as it says.
    unsafe fn read(from: *const Self) -> Result<Self> {
        // SAFETY: our caller's: it has at least the field that says how long it is.
        let bytes = unsafe { *given::<usize>("bootstrap", from.cast())? };
        // What it had in the first version of the header.
        if bytes < offset_of!(Self, abort) + size_of::<Option<Abort>>() {
            return Err(argument("the bootstrap's first field is to be sizeof (circulant_bootstrap_t)"));
        }
        let mut all = MaybeUninit::<Self>::zeroed();
        // SAFETY: both have as many bytes. Each field may be zero, and is what C wrote there otherwise.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.cast::<u8>(),
                all.as_mut_ptr().cast::<u8>(),
                bytes.min(size_of::<Self>()),
            );
            Ok(all.assume_init())
        }
    }
}

/// A job whose ranks tell each other by a function of the program.
pub(crate) struct Outside {
    bootstrap: Bootstrap,
    allgather: Allgather,
    rank: usize,
    size: usize,
    /// Since the last fence, as they travel.
    own: Vec<u8>,
    values: HashMap<String, Vec<u8>>,
}

// SAFETY: the header says that another thread may call the functions while that one waits which began or finalizes the world.
unsafe impl Send for Outside {}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Outside {
    /// # Safety
    /// `bootstrap` is as the header says.
    ///
    /// # Errors
    /// When it lacks something, or says what cannot be.
    pub(crate) unsafe fn new(bootstrap: *const Bootstrap) -> Result<Self> {
        // SAFETY: our caller's.
        let bootstrap = unsafe { Bootstrap::read(bootstrap)? };
        let allgather = bootstrap.allgather.ok_or_else(|| argument("the bootstrap has no allgather"))?;
        match (usize::try_from(bootstrap.rank), usize::try_from(bootstrap.size)) {
            (Ok(rank), Ok(size)) if rank < size => {
                Ok(Self { bootstrap, allgather, rank, size, own: Vec::new(), values: HashMap::new() })
            }
            _ => Err(argument(format!("the bootstrap says rank {} of {}", bootstrap.rank, bootstrap.size))),
        }
    }

    /// As many bytes of each rank.
    fn gather(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; mine.len() * self.size];
        // SAFETY: the function is as the header says; `all` has room for all ranks.
        let status = unsafe {
            (self.allgather)(
                self.bootstrap.context,
                mine.as_ptr().cast(),
                all.as_mut_ptr().cast(),
                mine.len(),
            )
        };
        match status {
            0 => Ok(all),
            _ => {
                let what = format!("the bootstrap's allgather failed: it returned {status}");
                Err(Error::new(ErrorKind::Launch, what).at_rank(self.rank))
            }
        }
    }

    /// What one rank has put, from how it travels: lengths of 8 bytes each before keys and values.
    fn take(&mut self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let mut next = || {
                let (len, rest) = bytes.split_first_chunk::<8>()?;
                let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
                let (part, rest) = rest.split_at_checked(len)?;
                bytes = rest;
                Some(part.to_vec())
            };
            let (key, value) = (String::from_utf8(next()?).ok()?, next()?);
            self.values.insert(key, value);
        }
        Some(())
    }
}

impl Launch for Outside {
    fn name(&self) -> &str {
        "bootstrap"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        for part in [key.as_bytes(), value] {
            self.own.extend((part.len() as u64).to_le_bytes());
            self.own.extend(part);
        }
        Ok(())
    }

    fn fence(&mut self, _deadline: Duration) -> Result<()> {
        let mut own = std::mem::take(&mut self.own);
        let lengths = self.gather(&(own.len() as u64).to_le_bytes())?;
        let (lengths, _) = lengths.as_chunks::<8>();
        let broken =
            || Error::new(ErrorKind::Launch, "the bootstrap's allgather gave other bytes than were sent");
        let lengths: Vec<usize> = lengths
            .iter()
            .map(|len| usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX))
            .collect();
        let most = lengths.iter().copied().max().unwrap_or(0);
        if lengths.get(self.rank) != Some(&own.len()) || most.checked_mul(self.size).is_none() {
            return Err(broken());
        }
        if most == 0 {
            return Ok(());
        }
        own.resize(most, 0);
        let all = self.gather(&own)?;
        for (bytes, len) in all.chunks_exact(most).zip(lengths) {
            self.take(&bytes[..len]).ok_or_else(broken)?;
        }
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        let missing = || Error::new(ErrorKind::Launch, format!("no rank put the key {key}"));
        self.values.get(key).cloned().ok_or_else(missing)
    }

    fn nodes(&self) -> Option<Vec<u32>> {
        None
    }

    fn gone(&mut self) -> Option<Gone> {
        None
    }

    fn abort(&mut self, code: i32, message: &str) {
        let text = CString::new(message.replace('\0', "?")).unwrap_or_default();
        match self.bootstrap.abort {
            // SAFETY: the function is as the header says.
            Some(abort) => unsafe { abort(self.bootstrap.context, code, text.as_ptr()) },
            None => eprintln!("circulant: {message}"),
        }
    }

    fn finalize(&mut self) -> Result<()> {
        Ok(())
    }
}
