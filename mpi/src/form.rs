//! The forms of a call: the same description of an operation runs to its end at once, or is started and ends later.

use crate::call::Call;
use crate::on::On;
use crate::stop::Stop;
use circulant::Communicator;
use circulant::comm::{Unscoped, UnscopedRequest};
use std::borrow::Cow;

/// What this rank contributes, if it does not stand in place, and where its part of the result goes.
pub(crate) type Memory<L> = (Option<Cow<'static, [u8]>>, L);

/// How a call runs that is taken.
pub(crate) trait Form: Copy {
    /// It returns when the operation has ended here.
    const BLOCKS: bool;

    /// Runs the operation on this memory: by `now`, or begins it by `start`. When it has ended `finish` puts its result where it belongs.
    ///
    /// # Safety
    /// Until then the memory is the call's, as MPI asks of the buffers of a call in this form.
    unsafe fn run<L: 'static>(
        self,
        call: &Call,
        memory: Memory<L>,
        now: impl FnOnce(&Communicator, Option<&[u8]>, &mut L) -> circulant::Result<()>,
        start: impl for<'s> FnOnce(
            Unscoped<'s>,
            Option<&'s [u8]>,
            &'s mut L,
        ) -> circulant::Result<UnscopedRequest>,
        finish: impl FnOnce(L, &On) -> Result<(), Stop> + 'static,
    ) -> Result<(), Stop>;
}

/// `MPI_Bcast`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocking;

impl Form for Blocking {
    const BLOCKS: bool = true;

    #[inline]
    unsafe fn run<L: 'static>(
        self,
        call: &Call,
        (own, mut to): Memory<L>,
        now: impl FnOnce(&Communicator, Option<&[u8]>, &mut L) -> circulant::Result<()>,
        _start: impl for<'s> FnOnce(
            Unscoped<'s>,
            Option<&'s [u8]>,
            &'s mut L,
        ) -> circulant::Result<UnscopedRequest>,
        finish: impl FnOnce(L, &On) -> Result<(), Stop> + 'static,
    ) -> Result<(), Stop> {
        now(call.comm()?, own.as_deref(), &mut to)?;
        finish(to, call)
    }
}

/// Runs an operation in the form of its call: the blocking method of a communicator, or the non-blocking one of the same arguments.
macro_rules! run {
    ($form:ident, $call:ident, $memory:expr,
     |$own:pat_param, $to:pat_param| $({ $prepare:stmt })? $now:ident $start:ident ($($arg:expr),*),
     $finish:expr) => {
        $form.run(
            $call,
            $memory,
            |comm, $own, $to| {
                $($prepare)?
                comm.$now($($arg),*)
            },
            |comm, $own, $to| {
                $($prepare)?
                comm.$start($($arg),*)
            },
            $finish,
        )
    };
}
pub(crate) use run;
