//! The collectives between the two groups of an intercommunicator.
//!
//! The size of a call is not known to all its ranks, so none decides where it goes. In place is nothing there (MPI 4.1, section 6.2.3).

use super::{Handle, In, Out, product, sum};
use crate::buffers::{Target, apart, source};
use crate::call::Call;
use crate::groups::{Blocks, Groups, Root};
use crate::ragged::{Ragged, RaggedTarget};
use crate::reductions::{Combined, Reduction};
use crate::report::Reason;
use crate::spared::Spared;
use crate::stop::{Stop, count};
use std::borrow::Cow;
use std::ffi::c_int;

/// What is received into.
trait Receives {
    fn bytes(&mut self) -> &mut [u8];
    /// Puts what was received where it belongs.
    fn finish(self, call: &Call) -> Result<(), Stop>;
}

impl Receives for Target<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        Target::bytes(self)
    }

    fn finish(self, call: &Call) -> Result<(), Stop> {
        Target::finish(self, call)
    }
}

impl Receives for RaggedTarget<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        self.split().0
    }

    fn finish(self, call: &Call) -> Result<(), Stop> {
        RaggedTarget::finish(self, call, None)
    }
}

impl Receives for Combined<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        self.split().0
    }

    fn finish(self, call: &Call) -> Result<(), Stop> {
        Combined::finish(self, call)
    }
}

/// What this rank sends and where it receives, each with its blocks.
struct Part<'a, T> {
    sends: (Cow<'a, [u8]>, Blocks),
    receives: (Option<T>, Blocks),
}

impl<'a, T: Receives> Part<'a, T> {
    /// Of a rank that neither sends nor receives.
    fn none(on: &Groups) -> Self {
        Self { sends: (Cow::Borrowed(&[]), on.nothing()), receives: (None, on.nothing()) }
    }

    fn sends(self, data: Cow<'a, [u8]>, blocks: Blocks) -> Self {
        Self { sends: (data, blocks), ..self }
    }

    fn receives(self, target: T, blocks: Blocks) -> Self {
        Self { receives: (Some(target), blocks), ..self }
    }

    /// Makes the exchange; what was received, if anything was to be.
    fn exchanged(self, call: &Call, on: &Groups) -> Result<Option<T>, Stop> {
        let ((data, sent), (mut target, received)) = (self.sends, self.receives);
        let to = target.as_mut().map_or(&mut [][..], Receives::bytes);
        call.moves(data.len().max(to.len()));
        let data = apart(data, to.as_ptr().cast(), to.len());
        on.exchange((&data, &sent), (to, &received))?;
        Ok(target)
    }

    /// Makes the exchange, and puts what was received where it belongs.
    fn moved(self, call: &Call, on: &Groups) -> Result<(), Stop> {
        self.exchanged(call, on)?.map_or(Ok(()), |target| target.finish(call))
    }
}

/// What this rank has prepared, where the operation is taken and all ranks have.
fn prepared<T>(call: &Call, on: &Groups, mine: impl FnOnce() -> Result<T, Stop>) -> Result<T, Stop> {
    call.chosen_whatever_size(0)?;
    on.agreed(mine())
}

/// The data of elements to be sent.
///
/// # Safety
/// `send` is a send buffer of `n` elements of a type of this MPI, `blocks` times.
unsafe fn data<'a>(
    call: &Call,
    (send, n, datatype): (In, i64, Handle),
    blocks: usize,
) -> Result<(Cow<'a, [u8]>, usize), Stop> {
    if call.in_place(send) {
        return Err(Stop::Pass(Reason::Arguments));
    }
    // SAFETY: the caller's.
    unsafe {
        let (n, ty) = (count(n)?, call.datatype(datatype)?);
        Ok((source(call, send, product(n, blocks)?, &ty)?, ty.bytes(n)?))
    }
}

/// Where elements are received, and the bytes of a block.
///
/// # Safety
/// `recv` is a receive buffer of `n` elements of a type of this MPI, `blocks` times.
unsafe fn target<'a>(
    call: &Call,
    (recv, n, datatype): (Out, i64, Handle),
    blocks: usize,
) -> Result<(Target<'a>, usize), Stop> {
    if call.in_place(recv) {
        return Err(Stop::Pass(Reason::Arguments));
    }
    // SAFETY: the caller's.
    unsafe {
        let (n, ty) = (count(n)?, call.datatype(datatype)?);
        Ok((Target::new(recv, product(n, blocks)?, ty)?, ty.bytes(n)?))
    }
}

/// `MPI_Barrier`.
pub(super) fn barrier(call: &Call, on: &Groups) -> Result<(), Stop> {
    call.chosen_whatever_size(0)?;
    Ok(on.union.barrier()?)
}

/// # Safety
/// What MPI asks of callers of `MPI_Bcast`.
pub(super) unsafe fn bcast(
    call: &Call,
    on: &Groups,
    (buffer, n, datatype): (Out, i64, Handle),
    root: c_int,
) -> Result<(), Stop> {
    let part = prepared(call, on, || {
        let none = Part::none(on);
        // SAFETY: the caller's; the buffer of a rank beside the root is not looked at.
        unsafe {
            Ok(match on.root(call.abi, root)? {
                Root::Beside => none,
                Root::Here => {
                    let (data, bytes) = data(call, (buffer, n, datatype), 1)?;
                    none.sends(data, on.with(0, bytes))
                }
                Root::There(root) => {
                    let (target, bytes) = target(call, (buffer, n, datatype), 1)?;
                    let is_leader = on.own.rank() == 0;
                    none.receives(target, if is_leader { on.with(root, bytes) } else { on.nothing() })
                }
            })
        }
    })?;
    let Some(mut target) = part.exchanged(call, on)? else { return Ok(()) };
    on.own.bcast(target.bytes(), 0)?;
    target.finish(call)
}

/// # Safety
/// What MPI asks of callers of `MPI_Gather`.
pub(super) unsafe fn gather(
    call: &Call,
    on: &Groups,
    (send, recv): ((In, i64, Handle), (Out, i64, Handle)),
    root: c_int,
) -> Result<(), Stop> {
    let part = prepared(call, on, || {
        let none = Part::none(on);
        // SAFETY: the caller's, of what is looked at where the root is here and where it is there.
        unsafe {
            Ok(match on.root(call.abi, root)? {
                Root::Beside => none,
                Root::Here => {
                    let (target, each) = target(call, recv, on.remote_size())?;
                    none.receives(target, on.blocks(|i| (each, i * each)))
                }
                Root::There(root) => {
                    let (data, bytes) = data(call, send, 1)?;
                    none.sends(data, on.with(root, bytes))
                }
            })
        }
    })?;
    part.moved(call, on)
}

/// # Safety
/// What MPI asks of callers of `MPI_Scatter`.
pub(super) unsafe fn scatter(
    call: &Call,
    on: &Groups,
    (send, recv): ((In, i64, Handle), (Out, i64, Handle)),
    root: c_int,
) -> Result<(), Stop> {
    let part = prepared(call, on, || {
        let none = Part::none(on);
        // SAFETY: as in `gather`.
        unsafe {
            Ok(match on.root(call.abi, root)? {
                Root::Beside => none,
                Root::Here => {
                    let (data, each) = data(call, send, on.remote_size())?;
                    none.sends(data, on.blocks(|i| (each, i * each)))
                }
                Root::There(root) => {
                    let (target, bytes) = target(call, recv, 1)?;
                    none.receives(target, on.with(root, bytes))
                }
            })
        }
    })?;
    part.moved(call, on)
}

/// # Safety
/// What MPI asks of callers of `MPI_Gatherv`. `recv` is the buffer and what describes it, which is asked at the root only.
pub(super) unsafe fn gatherv(
    call: &Call,
    on: &Groups,
    send: (In, i64, Handle),
    (recv, received): (Out, impl FnOnce(usize) -> Result<Ragged, Stop>),
    root: c_int,
) -> Result<(), Stop> {
    let part = prepared(call, on, || {
        let none = Part::none(on);
        // SAFETY: as in `gather`.
        unsafe {
            Ok(match on.root(call.abi, root)? {
                Root::Beside => none,
                Root::Here => {
                    let received = received(on.remote_size())?;
                    let blocks = ragged(on, &received);
                    none.receives(received.target(recv)?, blocks)
                }
                Root::There(root) => {
                    let (data, bytes) = data(call, send, 1)?;
                    none.sends(data, on.with(root, bytes))
                }
            })
        }
    })?;
    part.moved(call, on)
}

/// # Safety
/// What MPI asks of callers of `MPI_Scatterv`. `send` is the buffer and what describes it, which is asked at the root only.
pub(super) unsafe fn scatterv(
    call: &Call,
    on: &Groups,
    (send, sent): (In, impl FnOnce(usize) -> Result<Ragged, Stop>),
    recv: (Out, i64, Handle),
    root: c_int,
) -> Result<(), Stop> {
    let part = prepared(call, on, || {
        let none = Part::none(on);
        // SAFETY: as in `gather`.
        unsafe {
            Ok(match on.root(call.abi, root)? {
                Root::Beside => none,
                Root::Here => {
                    let sent = sent(on.remote_size())?;
                    none.sends(sent.source(call, send)?, ragged(on, &sent))
                }
                Root::There(root) => {
                    let (target, bytes) = target(call, recv, 1)?;
                    none.receives(target, on.with(root, bytes))
                }
            })
        }
    })?;
    part.moved(call, on)
}

/// # Safety
/// What MPI asks of callers of `MPI_Allgather`, or of `MPI_Alltoall`: then `own_blocks` is true, as each rank sends a block of its own to
/// each.
pub(super) unsafe fn everywhere(
    call: &Call,
    on: &Groups,
    (send, recv): ((In, i64, Handle), (Out, i64, Handle)),
    own_blocks: bool,
) -> Result<(), Stop> {
    let part = prepared(call, on, || {
        let ranks = on.remote_size();
        // SAFETY: the caller's.
        unsafe {
            let (data, sent) = data(call, send, if own_blocks { ranks } else { 1 })?;
            let (target, received) = target(call, recv, ranks)?;
            let sent = on.blocks(|i| (sent, if own_blocks { i * sent } else { 0 }));
            Ok(Part::none(on).sends(data, sent).receives(target, on.blocks(|i| (received, i * received))))
        }
    })?;
    part.moved(call, on)
}

/// # Safety
/// What MPI asks of callers of `MPI_Allgatherv`. `recv` is the buffer and what describes it.
pub(super) unsafe fn allgatherv(
    call: &Call,
    on: &Groups,
    send: (In, i64, Handle),
    (recv, received): (Out, impl FnOnce(usize) -> Result<Ragged, Stop>),
) -> Result<(), Stop> {
    let part = prepared(call, on, || {
        // SAFETY: the caller's.
        unsafe {
            let ((data, bytes), received) = (data(call, send, 1)?, received(on.remote_size())?);
            let blocks = ragged(on, &received);
            let part = Part::none(on).sends(data, on.blocks(|_| (bytes, 0)));
            Ok(part.receives(received.target(recv)?, blocks))
        }
    })?;
    part.moved(call, on)
}

/// # Safety
/// What MPI asks of callers of `MPI_Alltoallv` and `MPI_Alltoallw`. `send` and `recv` are the buffers and what describes them.
pub(super) unsafe fn exchange(
    call: &Call,
    on: &Groups,
    (send, sent): (In, impl FnOnce(usize) -> Result<Ragged, Stop>),
    (recv, received): (Out, impl FnOnce(usize) -> Result<Ragged, Stop>),
) -> Result<(), Stop> {
    let part = prepared(call, on, || {
        if call.in_place(send) {
            return Err(Stop::Pass(Reason::Arguments));
        }
        let (sent, received) = (sent(on.remote_size())?, received(on.remote_size())?);
        let (sends, receives) = (ragged(on, &sent), ragged(on, &received));
        // SAFETY: the caller's.
        unsafe {
            Ok(Part::none(on)
                .sends(sent.source(call, send)?, sends)
                .receives(received.target(recv)?, receives))
        }
    })?;
    part.moved(call, on)
}

/// The reduction, and the bytes of its vector.
///
/// # Safety
/// `op` and `datatype` are of this MPI.
unsafe fn reduction(
    call: &Call,
    op: Handle,
    (n, datatype): (i64, Handle),
) -> Result<(Reduction, usize, usize), Stop> {
    // SAFETY: the caller's.
    let by = unsafe { call.reduction(op, call.datatype(datatype)?)? };
    let n = count(n)?;
    let bytes = by.bytes(n)?;
    Ok((by, n, bytes))
}

/// # Safety
/// What MPI asks of callers of `MPI_Reduce`.
pub(super) unsafe fn reduce(
    call: &Call,
    on: &Groups,
    (send, recv): (In, Out),
    (n, datatype, op): (i64, Handle, Handle),
    root: c_int,
) -> Result<(), Stop> {
    /// What a rank has to do.
    enum Does<'a> {
        Nothing,
        Combines(Cow<'a, [u8]>, Reduction, usize, usize),
        Receives(Combined<'a>, usize),
    }
    let does = prepared(call, on, || {
        // SAFETY: as in `gather`.
        unsafe {
            Ok(match on.root(call.abi, root)? {
                Root::Beside => Does::Nothing,
                Root::Here => {
                    let (by, n, bytes) = reduction(call, op, (n, datatype))?;
                    Does::Receives(by.target(recv, n)?, bytes)
                }
                Root::There(root) => {
                    let (by, n, bytes) = reduction(call, op, (n, datatype))?;
                    Does::Combines(by.source(call, send, n)?, by, bytes, root)
                }
            })
        }
    })?;
    let none = Part::none(on);
    let part = match does {
        Does::Nothing => none,
        Does::Receives(target, bytes) => none.receives(target, on.with(0, bytes)),
        Does::Combines(own, by, bytes, root) => {
            let is_leader = on.own.rank() == 0;
            let mut total = vec![0; if is_leader { bytes } else { 0 }];
            on.own.reduce(&*own, &mut total, by.op(), 0)?;
            if is_leader { none.sends(Cow::Owned(total), on.with(root, bytes)) } else { none }
        }
    };
    part.moved(call, on)
}

/// Each group combines, and each rank gets the other group's result from one rank there.
///
/// # Safety
/// What MPI asks of callers of `MPI_Allreduce`.
pub(super) unsafe fn allreduce(
    call: &Call,
    on: &Groups,
    (send, recv): (In, Out),
    (n, datatype, op): (i64, Handle, Handle),
) -> Result<(), Stop> {
    let (own, mut target, bytes) = prepared(call, on, || {
        if call.in_place(send) {
            return Err(Stop::Pass(Reason::Arguments));
        }
        // SAFETY: the caller's.
        unsafe {
            let (by, n, bytes) = reduction(call, op, (n, datatype))?;
            Ok((by.source(call, send, n)?, by.target(recv, n)?, bytes))
        }
    })?;
    let mut total = vec![0; bytes];
    on.own.allreduce(&*own, &mut total, target.split().1.op())?;
    let (me, size, remote) = (on.own.rank(), on.own.size(), on.remote_size());
    let sent = on.blocks(|i| (if i % size == me { bytes } else { 0 }, 0));
    let part = Part::none(on).sends(Cow::Owned(total), sent).receives(target, on.with(me % remote, bytes));
    part.moved(call, on)
}

/// Each group combines at its first rank, which sends the result to the other group's; that one hands out the blocks. How long these are in the
/// other group, no rank knows.
///
/// # Safety
/// What MPI asks of callers of `MPI_Reduce_scatter`. `counts` gives the elements of each rank of this group.
pub(super) unsafe fn reduce_scatter(
    call: &Call,
    on: &Groups,
    (send, recv): (In, Out),
    counts: impl FnOnce(usize) -> Result<Spared<usize>, Stop>,
    (datatype, op): (Handle, Handle),
) -> Result<(), Stop> {
    let (own, mut target, bytes) = prepared(call, on, || {
        if call.in_place(send) {
            return Err(Stop::Pass(Reason::Arguments));
        }
        let counts = counts(on.own.size())?;
        // SAFETY: the caller's.
        unsafe {
            let by = call.reduction(op, call.datatype(datatype)?)?;
            let bytes = counts.iter().map(|n| by.bytes(*n)).collect::<Result<Vec<usize>, Stop>>()?;
            let (mine, elements) = (on.own.rank(), sum(&counts)?);
            let own = apart(by.source(call, send, elements)?, recv, bytes[mine]);
            Ok((own, by.target(recv, counts[mine])?, bytes))
        }
    })?;
    let all = if on.own.rank() == 0 { own.len() } else { 0 };
    call.moves(own.len());
    let (mut total, mut theirs) = (vec![0; all], vec![0; all]);
    let (to, by) = target.split();
    on.own.reduce(&*own, &mut total, by.op(), 0)?;
    let leaders = on.with(0, all);
    on.exchange((&total, &leaders), (&mut theirs, &leaders))?;
    on.own.scatterv(&theirs, &bytes, to, 0)?;
    target.finish(call)
}

fn ragged(on: &Groups, blocks: &Ragged) -> Blocks {
    let parts = blocks.parts();
    on.blocks(|i| (parts.counts[i], parts.displs[i]))
}
