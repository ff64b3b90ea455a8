//! Every collective of the library in its three forms, behind one trait. What differs from call to call is what
//! its arguments are made of, one line each.

use super::order::Order;
use super::shapes::Shape;
use circulant::comm::{Buf, Persistent, Request};
use circulant::ops::Reducer;
use circulant::{Communicator, Result};

/// A buffer, or in place.
pub(crate) type Maybe<B> = Option<B>;

/// What collectives are called on.
pub(crate) trait Wide: Sized {
    /// For a job. Collective.
    fn of(order: &Order<'_>) -> Result<Self>;
    fn buffer<T: bytemuck::Pod>(&self, len: usize) -> Result<Buf<T>>;
}

impl Wide for Communicator {
    fn of(order: &Order<'_>) -> Result<Self> {
        Ok(order.comm.with(order.options.clone()))
    }

    fn buffer<T: bytemuck::Pod>(&self, len: usize) -> Result<Buf<T>> {
        self.alloc(len)
    }
}

/// For arguments that are never in place: an empty buffer where a rank has none.
pub(crate) trait Here {
    type Buffer;
    fn here(self, comm: &impl Wide) -> Result<Self::Buffer>;
}

impl<'a, T> Here for Maybe<&'a [T]> {
    type Buffer = &'a [T];
    fn here(self, _: &impl Wide) -> Result<&'a [T]> {
        Ok(self.unwrap_or_default())
    }
}

impl<'a, T> Here for Maybe<&'a mut [T]> {
    type Buffer = &'a mut [T];
    fn here(self, _: &impl Wide) -> Result<&'a mut [T]> {
        Ok(self.unwrap_or_default())
    }
}

impl<T: bytemuck::Pod> Here for Maybe<Buf<T>> {
    type Buffer = Buf<T>;
    fn here(self, comm: &impl Wide) -> Result<Buf<T>> {
        self.map_or_else(|| comm.buffer(0), Ok)
    }
}

/// One operation on elements of type `T`.
pub(crate) trait Calls<T: bytemuck::Pod> {
    /// What it is called on.
    type Comm: Wide;
    /// Blocking, on slices.
    fn call(
        comm: &Self::Comm,
        shape: &Shape,
        op: &Reducer,
        send: Maybe<&[T]>,
        recv: Maybe<&mut [T]>,
    ) -> Result<()>;
    /// Non-blocking.
    fn begin(
        comm: &Self::Comm,
        shape: &Shape,
        op: &Reducer,
        send: Maybe<Buf<T>>,
        recv: Maybe<Buf<T>>,
    ) -> Result<Request<T>>;
    /// Persistent.
    fn init(
        comm: &Self::Comm,
        shape: &Shape,
        op: &Reducer,
        send: Maybe<Buf<T>>,
        recv: Maybe<Buf<T>>,
    ) -> Result<Persistent<T>>;
}

/// `Name <T> [blocking, non-blocking, persistent] (arguments)`; of owned buffers after `;` where they differ.
macro_rules! calls {
    ($comm:ident ($c:ident, $x:ident, $op:ident, $send:ident, $recv:ident): $($entry:tt)*) => {
        calls!(@entries ($comm, $c, $x, $op, $send, $recv) $($entry)*);
    };
    (@entries $names:tt) => {};
    (@entries $names:tt $name:ident <$t:ident> $forms:tt ($($arg:expr),*), $($more:tt)*) => {
        calls!(@one $names $name [$t: bytemuck::Pod] $t $forms ($($arg),*) ($($arg),*));
        calls!(@entries $names $($more)*);
    };
    (@entries $names:tt $name:ident <$t:ident> $forms:tt ($($arg:expr),*; $($own:expr),*), $($more:tt)*) => {
        calls!(@one $names $name [$t: bytemuck::Pod] $t $forms ($($arg),*) ($($own),*));
        calls!(@entries $names $($more)*);
    };
    (@entries $names:tt $name:ident $t:ident $forms:tt ($($arg:expr),*; $($own:expr),*), $($more:tt)*) => {
        calls!(@one $names $name [] $t $forms ($($arg),*) ($($own),*));
        calls!(@entries $names $($more)*);
    };
    (@one ($comm:ident, $c:ident, $x:ident, $op:ident, $send:ident, $recv:ident) $name:ident [$($generic:tt)*] $t:ident
     [$call:ident, $begin:ident, $init:ident] ($($arg:expr),*) ($($own:expr),*)) => {
        #[derive(Debug)]
        pub(crate) struct $name;

        #[allow(unused_variables, reason = "not every operation takes all")]
        impl<$($generic)*> Calls<$t> for $name {
            type Comm = $comm;

            fn call(
                $c: &$comm, $x: &Shape, $op: &Reducer, $send: Maybe<&[$t]>, $recv: Maybe<&mut [$t]>,
            ) -> Result<()> {
                $c.$call($($arg),*)
            }

            fn begin(
                $c: &$comm, $x: &Shape, $op: &Reducer, $send: Maybe<Buf<$t>>, $recv: Maybe<Buf<$t>>,
            ) -> Result<Request<$t>> {
                $c.$begin($($own),*)
            }

            fn init(
                $c: &$comm, $x: &Shape, $op: &Reducer, $send: Maybe<Buf<$t>>, $recv: Maybe<Buf<$t>>,
            ) -> Result<Persistent<$t>> {
                $c.$init($($own),*)
            }
        }
    };
}

pub(super) use calls;

calls! { Communicator (c, x, op, send, recv):
    Barrier u8 [barrier, ibarrier, barrier_init] (;),
    Bcast <T> [bcast, ibcast, bcast_init] (recv.here(c)?, x.root),
    Allgather <T> [allgather, iallgather, allgather_init] (send, recv.here(c)?),
    Allgatherv <T> [allgatherv, iallgatherv, allgatherv_init]
        (send, recv.here(c)?, x.received.parts()),
    Gather <T> [gather, igather, gather_init] (send, recv.here(c)?, x.root),
    Gatherv <T> [gatherv, igatherv, gatherv_init]
        (send, recv.here(c)?, x.received.parts(), x.root),
    Scatter <T> [scatter, iscatter, scatter_init] (send.here(c)?, recv, x.root),
    Scatterv <T> [scatterv, iscatterv, scatterv_init]
        (send.here(c)?, x.sent.parts(), recv, x.root),
    Alltoall <T> [alltoall, ialltoall, alltoall_init]
        (send, recv.here(c)?; send.here(c)?, recv.here(c)?),
    Alltoallv <T> [alltoallv, ialltoallv, alltoallv_init]
        (send, x.sent.parts(), recv.here(c)?, x.received.parts();
         send.here(c)?, x.sent.parts(), recv.here(c)?, x.received.parts()),
    Alltoallw u8 [alltoallw, ialltoallw, alltoallw_init]
        (send, &x.layouts[0], recv.here(c)?, &x.layouts[1];
         send.here(c)?, &x.layouts[0], recv.here(c)?, &x.layouts[1]),
    Reduce <T> [reduce, ireduce, reduce_init] (send, recv.here(c)?, op, x.root),
    Allreduce <T> [allreduce, iallreduce, allreduce_init] (send, recv.here(c)?, op),
    ReduceScatterBlock <T> [reduce_scatter_block, ireduce_scatter_block, reduce_scatter_block_init]
        (send, recv.here(c)?, op),
    ReduceScatter <T> [reduce_scatter, ireduce_scatter, reduce_scatter_init]
        (send, recv.here(c)?, &x.counts, op),
    Scan <T> [scan, iscan, scan_init] (send, recv.here(c)?, op),
    Exscan <T> [exscan, iexscan, exscan_init] (send, recv.here(c)?, op),
}
