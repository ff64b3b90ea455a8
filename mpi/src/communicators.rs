//! Which communicators of the program are ours, and for how long.
//!
//! Communicators of ours need an exchange between their ranks. For blocking calls one is made at the first of them on the program's
//! communicator: all its ranks are in one there. A non-blocking call must not wait for other ranks, so what such calls run on is made when the
//! program's communicator is, in the call that makes it; it takes no call slots, of which a rank has few. Both live as one attribute of the
//! program's communicator, so they end with it; a copy of the communicator gets its own. Handles are used again after a communicator is
//! freed, so nothing is remembered by handle alone: each thread keeps the last one that it used, until any is freed.

use crate::attributes::{CopyFunction, DeleteFunction, copy};
use crate::groups::Groups;
use crate::on::On;
use crate::real::Real;
use crate::report::Reason;
use crate::stop::Stop;
use crate::trials::Trials;
use circulant::{Communicator, Error, ErrorKind, Result};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What this rank is in a communicator of the program.
#[derive(Debug)]
pub(crate) enum Member {
    Ours(Box<Ours>),
    /// An intercommunicator.
    Between(Box<Groups>, Box<Trials>),
    /// All calls go to the MPI.
    Passed(Reason),
}

/// Ours of the ranks of a communicator of the program.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    /// For blocking calls, from the first of them on.
    blocking: OnceLock<Communicator>,
    /// For non-blocking calls, where it was made with the program's.
    requests: OnceLock<Communicator>,
    trials: Trials,
}

impl Ours {
    /// On which calls run that block, or do not.
    fn comm(&self, blocks: bool) -> Option<&Communicator> {
        let blocking = self.blocking.get();
        if blocks { blocking } else { self.requests.get().or(blocking) }
    }
}

impl Member {
    /// On which calls run that block, or do not.
    pub(crate) fn comm(&self, blocks: bool) -> Result<&Communicator, Reason> {
        match self {
            Self::Ours(ours) => ours.comm(blocks).ok_or(Reason::New),
            Self::Between(..) => Err(Reason::Intercommunicator),
            Self::Passed(reason) => Err(*reason),
        }
    }

    /// Its trials, and the communicator of all its ranks that they use, once it is there.
    pub(crate) fn trials(&self) -> Option<(&Communicator, &Trials)> {
        match self {
            Self::Ours(ours) => Some((ours.comm(true)?, &ours.trials)),
            Self::Between(groups, trials) => Some((&groups.union, trials)),
            Self::Passed(_) => None,
        }
    }

    /// It is known where calls go that block, or do not, and what they run on is there.
    fn is_ready(&self, blocks: bool) -> bool {
        match self {
            Self::Ours(ours) => ours.comm(blocks).is_some(),
            Self::Between(..) | Self::Passed(_) => true,
        }
    }
}

/// How often a communicator with our attribute was freed.
static FREED: AtomicU64 = AtomicU64::new(0);

/// What freed communicators held. It is dropped by the next call that makes one: the MPI may hold a lock in the function that frees.
static LEFT: Mutex<Vec<Arc<Member>>> = Mutex::new(Vec::new());

thread_local! {
    /// The communicator that this thread used last. A call takes it out and puts it back, which counts no references.
    static LAST: Cell<Option<Found>> = const { Cell::new(None) };
}

/// What a communicator of the program was found to be.
#[derive(Debug)]
pub(crate) struct Found {
    handle: usize,
    /// [`FREED`] then.
    freed: u64,
    pub(crate) member: Arc<Member>,
}

impl Found {
    /// Leaves it to the thread's next call.
    pub(crate) fn keep(self) {
        LAST.set(Some(self));
    }
}

/// The communicators of the program.
#[derive(Debug)]
pub(crate) struct Communicators {
    keyval: c_int,
    world: usize,
    null: usize,
    /// The group of `MPI_COMM_WORLD`.
    group: usize,
    /// All ranks.
    ours: Communicator,
}

impl Communicators {
    /// `ours` has the ranks of `world`, in its order.
    ///
    /// # Safety
    /// `world` is `MPI_COMM_WORLD`, and the MPI is initialised.
    pub(crate) unsafe fn new(real: &Real, abi: &crate::abi::Abi, ours: Communicator) -> Result<Self> {
        let (mut keyval, mut group) = (0, 0);
        let (copy, delete) = (copy as CopyFunction, delete as DeleteFunction);
        // SAFETY: functions with the signatures that MPI asks for, and room for what is returned.
        let codes = unsafe {
            let made = (&raw mut keyval, std::ptr::null_mut());
            [
                real.Comm_create_keyval(copy as *mut c_void, delete as *mut c_void, made.0, made.1),
                real.Comm_group(abi.world, &raw mut group),
            ]
        };
        if codes != [0, 0] {
            return Err(Error::new(
                ErrorKind::Launch,
                "the MPI gave no attribute key, or no group of all ranks",
            ));
        }
        let (world, null) = (abi.world, abi.comm_null);
        Ok(Self { keyval, world, null, group, ours })
    }

    /// What this rank is in a communicator, for a call that blocks or does not. Only one that blocks waits for other ranks.
    ///
    /// # Safety
    /// `on` is a communicator of this MPI, and this thread is in a collective call on it.
    #[inline]
    pub(crate) unsafe fn found(&self, on: &On, blocks: bool) -> Result<Found, Stop> {
        let freed = FREED.load(Ordering::Acquire);
        if let Some(last) = LAST.take()
            && last.handle == on.handle
            && last.freed == freed
            && last.member.is_ready(blocks)
        {
            return Ok(last);
        }
        // SAFETY: the caller's.
        Ok(Found { handle: on.handle, freed, member: unsafe { self.member(on, blocks)? } })
    }

    /// As [`Communicators::found`], whatever the thread used last.
    ///
    /// # Safety
    /// As [`Communicators::found`].
    #[cold]
    unsafe fn member(&self, on: &On, blocks: bool) -> Result<Arc<Member>, Stop> {
        if on.handle == self.null {
            return Err(Stop::Pass(Reason::Arguments));
        }
        // SAFETY: the caller's, here and below.
        let (member, ranks) = unsafe { self.known(on, blocks)? };
        if blocks {
            // SAFETY: all its ranks are in this call.
            unsafe { self.complete(on, (&member, ranks), blocks)? };
        }
        Ok(member)
    }

    /// The program has made a communicator: makes what its non-blocking calls run on.
    ///
    /// # Safety
    /// `on` is a communicator of this MPI or null, and all its ranks are in the call that has made it.
    pub(crate) unsafe fn created(&self, on: &On) -> Result<(), Stop> {
        if on.handle == self.null {
            return Ok(());
        }
        // SAFETY: the caller's, here and below.
        unsafe {
            let (inter, size) = self.shape(on)?;
            if inter || size == 1 {
                return Ok(());
            }
            let (member, ranks) = self.known(on, false)?;
            self.complete(on, (&member, ranks), false)
        }
    }

    /// What this rank is in a communicator, as far as that can be known, with the ranks in `MPI_COMM_WORLD` if they were looked up. Asks other ranks
    /// only for a call that blocks.
    ///
    /// # Safety
    /// As [`Communicators::found`].
    unsafe fn known(&self, on: &On, blocks: bool) -> Result<(Arc<Member>, Option<Vec<usize>>), Stop> {
        // SAFETY: the caller's, here and below.
        unsafe {
            if let Some(member) = self.attached(on.real, on.handle)? {
                return Ok((member, None));
            }
            let (member, ranks) = self.make(on, blocks)?;
            Ok((self.attach(on, member)?, ranks))
        }
    }

    /// Makes what calls run on that block, or do not, if it is not there; `ranks` if they were looked up.
    ///
    /// # Safety
    /// `on` is a communicator of this MPI, and all its ranks are in this call.
    unsafe fn complete(
        &self,
        on: &On,
        (member, ranks): (&Member, Option<Vec<usize>>),
        blocks: bool,
    ) -> Result<(), Stop> {
        let Member::Ours(ours) = member else { return Ok(()) };
        let place = if blocks { &ours.blocking } else { &ours.requests };
        if place.get().is_some() {
            return Ok(());
        }
        let ranks = match ranks {
            Some(ranks) => ranks,
            // SAFETY: the caller's.
            None => unsafe {
                let (_, size) = self.shape(on)?;
                let ranks = self.world_ranks(on.real, Real::Comm_group, on.handle, size)?;
                ranks.ok_or(Stop::Pass(Reason::Foreign))?
            },
        };
        // SAFETY: the caller's.
        let made = unsafe { self.assemble((on, ranks.len()), &ranks, 0..ranks.len(), blocks)? };
        // No other thread is in a call on this communicator.
        _ = place.set(made);
        Ok(())
    }

    /// What an earlier call made of it.
    ///
    /// # Safety
    /// `comm` is a communicator of this MPI.
    unsafe fn attached(&self, real: &Real, comm: usize) -> Result<Option<Arc<Member>>, Stop> {
        let (mut value, mut flag) = (std::ptr::null_mut::<c_void>(), 0);
        // SAFETY: the caller's; there is room for a pointer and an int.
        let code = unsafe { real.Comm_get_attr(comm, self.keyval, &raw mut value, &raw mut flag) };
        if code != 0 {
            return Err(Stop::Pass(Reason::Arguments));
        }
        if flag == 0 || value.is_null() {
            return Ok(None);
        }
        let member = value.cast_const().cast::<Member>();
        // SAFETY: what `attach` has set comes of Arc::into_raw, and its count is held until `delete`, which MPI calls after all
        // calls on the communicator.
        unsafe {
            Arc::increment_strong_count(member);
            Ok(Some(Arc::from_raw(member)))
        }
    }

    /// Keeps what this rank is in a communicator for as long as that lives.
    ///
    /// # Safety
    /// `on` is a communicator of this MPI.
    unsafe fn attach(&self, on: &On, member: Member) -> Result<Arc<Member>, Stop> {
        drop_left();
        let member = Arc::new(member);
        let value = Arc::into_raw(Arc::clone(&member)).cast_mut().cast();
        // SAFETY: the caller's; the value is read and freed as what it is.
        let code = unsafe { on.real.Comm_set_attr(on.handle, self.keyval, value) };
        if code != 0 {
            // SAFETY: it was not taken, so its count is still ours.
            drop(unsafe { Arc::from_raw(value.cast_const().cast::<Member>()) });
            return Err(Stop::Code(code));
        }
        Ok(member)
    }

    /// Whether it is an intercommunicator, and how many ranks this rank's group has.
    ///
    /// # Safety
    /// `on` is a communicator of this MPI.
    unsafe fn shape(&self, On { real, handle: comm, .. }: &On) -> Result<(bool, c_int), Stop> {
        let (mut inter, mut size) = (0, 0);
        // SAFETY: the caller's; there is room for an int each.
        let codes =
            unsafe { [real.Comm_test_inter(*comm, &raw mut inter), real.Comm_size(*comm, &raw mut size)] };
        if codes == [0, 0] { Ok((inter != 0, size)) } else { Err(Stop::Pass(Reason::Arguments)) }
    }

    /// What [`Communicators::known`] returns, of a communicator that no call has looked at.
    ///
    /// # Safety
    /// As [`Communicators::found`].
    unsafe fn make(&self, on: &On, blocks: bool) -> Result<(Member, Option<Vec<usize>>), Stop> {
        if on.handle == self.world {
            let blocking = OnceLock::from(self.ours.clone());
            return Ok((Member::Ours(Box::new(Ours { blocking, ..Ours::default() })), None));
        }
        // SAFETY: the caller's.
        let (inter, size) = unsafe { self.shape(on)? };
        if inter && !blocks {
            return Err(Stop::Pass(Reason::Intercommunicator));
        }
        if inter {
            // SAFETY: the caller's.
            return Ok((unsafe { self.between(on, size)? }, None));
        }
        if size == 1 {
            return Ok((Member::Passed(Reason::SingleRank), None));
        }
        // SAFETY: the caller's.
        Ok(match unsafe { self.world_ranks(on.real, Real::Comm_group, on.handle, size)? } {
            None => (Member::Passed(Reason::Foreign), None),
            ranks => (Member::Ours(Box::default()), ranks),
        })
    }

    /// What this rank is in an intercommunicator with `size` ranks in its group.
    ///
    /// # Safety
    /// As [`Communicators::found`].
    unsafe fn between(&self, on: &On, size: c_int) -> Result<Member, Stop> {
        let (real, comm) = (on.real, on.handle);
        let mut remote = 0;
        // SAFETY: the caller's; there is room for an int.
        if unsafe { real.Comm_remote_size(comm, &raw mut remote) } != 0 {
            return Err(Stop::Pass(Reason::Arguments));
        }
        // SAFETY: the caller's.
        let (own, theirs) = unsafe {
            let own = self.world_ranks(real, Real::Comm_group, comm, size)?;
            (own, self.world_ranks(real, Real::Comm_remote_group, comm, remote)?)
        };
        let (Some(own), Some(theirs)) = (own, theirs) else { return Ok(Member::Passed(Reason::Foreign)) };
        // Both groups find the same, as they have no rank in common.
        let is_first = own.iter().min() < theirs.iter().min();
        let all = if is_first { [&own[..], &theirs].concat() } else { [&theirs[..], &own].concat() };
        let first = if is_first { 0 } else { theirs.len() };
        let mut merged = 0;
        // SAFETY: the caller's; the group that says that it is the high one comes second.
        let code = unsafe { real.Intercomm_merge(comm, c_int::from(!is_first), &raw mut merged) };
        if code != 0 {
            return Err(Stop::Code(code));
        }
        let over = (&On { handle: on.abi.handle(merged), ..*on }, all.len());
        // SAFETY: all ranks of `merged`, which are `all`, are in these calls; it is used no more then.
        let (union, own) = unsafe {
            let union = self.assemble(over, &all, 0..all.len(), true);
            let own = self.assemble(over, &own, first..first + own.len(), true);
            real.Comm_free(&raw mut merged);
            (union?, own?)
        };
        Ok(Member::Between(Box::new(Groups { union, own, is_first }), Box::default()))
    }

    /// Ours of `ranks`, which are those at `place` of the communicator `over`, for calls that block or do not.
    ///
    /// # Safety
    /// `over` is a communicator of this MPI with its number of ranks, all of which are in this call.
    unsafe fn assemble(
        &self,
        (over, size): (&On, usize),
        ranks: &[usize],
        place: Range<usize>,
        blocks: bool,
    ) -> Result<Communicator> {
        let exchange = |ours: &[u8; 16]| {
            let mut all = vec![[0u8; 16]; size];
            let (from, to, byte) = (ours.as_ptr().cast(), all.as_mut_ptr().cast(), over.abi.byte);
            // SAFETY: 16 bytes of ours, and room for 16 of each rank; all ranks of `over` are in this call.
            let code = unsafe { over.real.Allgather(from, 16, byte, to, 16, byte, over.handle) };
            match (code, all.get(place)) {
                (0, Some(members)) => Ok(members.to_vec()),
                _ => Err(Error::new(ErrorKind::Launch, format!("MPI_Allgather: {code}"))),
            }
        };
        match blocks {
            true => self.ours.assemble(ranks, exchange),
            false => self.ours.assemble_for_requests(ranks, exchange),
        }
    }

    /// The ranks in `MPI_COMM_WORLD` of a group of `comm`; nothing if one of them is not there. Its own ranks find the same then, as another
    /// job's ranks have none here, and its see ours so.
    ///
    /// # Safety
    /// `comm` is a communicator of this MPI, whose group that `group` makes has `size` ranks.
    unsafe fn world_ranks(
        &self,
        real: &Real,
        group: unsafe fn(&Real, usize, *mut usize) -> c_int,
        comm: usize,
        size: c_int,
    ) -> Result<Option<Vec<usize>>, Stop> {
        let ranks: Vec<c_int> = (0..size).collect();
        let mut found = vec![0; ranks.len()];
        let mut made = 0;
        // SAFETY: the caller's; the lists have an int for each rank, and the group is freed once.
        let codes = unsafe {
            let had = group(real, comm, &raw mut made);
            let to = (self.group, found.as_mut_ptr());
            let told = real.Group_translate_ranks(made, size, ranks.as_ptr(), to.0, to.1);
            [had, told, real.Group_free(&raw mut made)]
        };
        if codes != [0, 0, 0] {
            return Err(Stop::Pass(Reason::Arguments));
        }
        // MPI_UNDEFINED is negative.
        Ok(found.into_iter().map(|rank| usize::try_from(rank).ok()).collect())
    }
}

/// Drops what freed communicators held, with no lock of ours and outside the MPI.
pub(crate) fn drop_left() {
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    drop(left);
}

/// The communicator ends.
unsafe extern "C" fn delete(_comm: usize, _keyval: c_int, value: *mut c_void, _extra: *mut c_void) -> c_int {
    // SAFETY: `attach` has set it, by Arc::into_raw, and MPI calls this once for each value that was set.
    let member = unsafe { Arc::from_raw(value.cast_const().cast::<Member>()) };
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(member);
    FREED.fetch_add(1, Ordering::Release);
    crate::decided::forget();
    0
}
