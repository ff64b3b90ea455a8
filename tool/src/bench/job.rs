//! An operation ready to run any number of times: blocking, non-blocking or persistent, on elements of a type that
//! is known at run time only.

use super::calls::{Calls, Wide};
use super::order::{MemoryKind, Mode, Order};
use super::sample::{Sampler, Samples};
use crate::agree::agree;
use crate::outcome::Failure;
use crate::units;
use bytemuck::Pod;
use circulant::comm::{Buf, Persistent};
use circulant::{Communicator, Result};
use std::marker::PhantomData;

/// Makes the job. Collective: fails everywhere when one rank has not enough memory.
pub(crate) type Start = for<'a> fn(&Order<'a>) -> std::result::Result<Box<dyn Job + 'a>, Failure>;

/// An operation and its memory.
pub(crate) trait Job {
    /// Once, to its end; `between` its start and the wait for it something else (never for blocking calls).
    fn run_over(&mut self, between: &mut dyn FnMut()) -> Result<()>;
    /// Once, to its end.
    fn run(&mut self) -> Result<()> {
        self.run_over(&mut || {})
    }
    /// Bytes of what is sent, with guards around.
    fn send(&mut self) -> Result<&mut [u8]>;
    /// Bytes of what is received into, with guards around.
    fn recv(&mut self) -> Result<&mut [u8]>;
    /// Bytes of an element.
    fn element(&self) -> usize;
    /// Writes elements of a rank's contribution.
    fn sampler(&self) -> Sampler;
}

enum Memory<T: Pod> {
    Arena(Buf<T>),
    Plain(Vec<T>),
}

impl<T: Pod> Memory<T> {
    fn new(comm: &Communicator, kind: MemoryKind, len: usize) -> std::result::Result<Self, Failure> {
        match kind {
            MemoryKind::Arena => comm.alloc(len).map(Self::Arena).map_err(|e| Failure::new(1, e.to_string())),
            MemoryKind::Plain => zeros(len).map(Self::Plain),
        }
    }

    fn slice(&mut self) -> &mut [T] {
        match self {
            Self::Arena(buffer) => buffer,
            Self::Plain(vector) => vector,
        }
    }
}

fn zeros<T: Pod>(len: usize) -> std::result::Result<Vec<T>, Failure> {
    let mut v = bytemuck::allocation::try_zeroed_vec(len).map_err(|()| {
        Failure::new(1, format!("no memory for {}", units::size((len * size_of::<T>()) as u64)))
    })?;
    // Until it is written to, all of it may be one page of zeros, which the cache holds.
    bytemuck::cast_slice_mut::<T, u8>(&mut v).fill(0);
    Ok(v)
}

/// The forms of a call.
enum Form<T: Pod> {
    Blocking { send: Option<Memory<T>>, recv: Option<Memory<T>> },
    Request { send: Option<Buf<T>>, recv: Option<Buf<T>> },
    Persistent(Box<Persistent<T>>),
}

struct Typed<'a, C: Calls<T>, T: Pod> {
    order: Order<'a>,
    comm: C::Comm,
    form: Form<T>,
    calls: PhantomData<C>,
}

/// The job of an operation on elements of type `T`.
pub(crate) fn start<'a, C: Calls<T> + 'static, T: Pod + Samples>(
    order: &Order<'a>,
) -> std::result::Result<Box<dyn Job + 'a>, Failure> {
    let Order { comm, shape, reducer, .. } = *order;
    let timed = C::Comm::of(order)?;
    let form = match order.mode {
        Mode::Blocking => {
            let memory = |len: Option<usize>| {
                len.map(|len| Memory::new(comm, order.memory, len + 2 * order.guard)).transpose()
            };
            let both = memory(shape.send).and_then(|send| Ok((send, memory(shape.recv)?)));
            let (send, recv) = agree(comm, both)?;
            Form::Blocking { send, recv }
        }
        mode => {
            let memory = |len: Option<usize>| len.map(|len| comm.alloc(len)).transpose();
            let both = memory(shape.send).and_then(|send| Ok((send, memory(shape.recv)?)));
            let (send, recv) = agree(comm, both.map_err(|e| Failure::new(1, e.to_string())))?;
            match mode {
                Mode::Persistent => Form::Persistent(Box::new(C::init(&timed, shape, reducer, send, recv)?)),
                _ => Form::Request { send, recv },
            }
        }
    };
    Ok(Box::new(Typed::<C, T> { order: *order, comm: timed, form, calls: PhantomData }))
}

/// The job of an operation that moves bytes.
pub(crate) fn bytes<'a, C: Calls<u8> + 'static>(
    order: &Order<'a>,
) -> std::result::Result<Box<dyn Job + 'a>, Failure> {
    start::<C, u8>(order)
}

/// The job of an operation on elements of the type that is asked for.
macro_rules! typed {
    (@match $order:ident, $calls:ty: $($variant:ident $t:ty,)*) => {
        match $order.kind {
            $(circulant::ops::Type::$variant => super::job::start::<$calls, $t>($order),)*
            kind => Err(crate::outcome::Failure::usage(format!("the benchmark does not know {kind}"))),
        }
    };
    ($calls:ty) => {{
        use circulant::ops;
        |order| typed!(@match order, $calls:
            I8 i8, I16 i16, I32 i32, I64 i64, I128 i128, U8 u8, U16 u16, U32 u32, U64 u64, U128 u128,
            F16 ops::f16, Bf16 ops::bf16, F32 f32, F64 f64,
            ComplexF32 ops::Complex<f32>, ComplexF64 ops::Complex<f64>,
            I32Index ops::I32Index, I64Index ops::I64Index, U32Index ops::U32Index, U64Index ops::U64Index,
            F32Index ops::F32Index, F64Index ops::F64Index,
            ShortInt ops::ShortInt, TwoInt ops::TwoInt, LongInt ops::LongInt, FloatInt ops::FloatInt,
            DoubleInt ops::DoubleInt, TwoReal ops::TwoReal, TwoDouble ops::TwoDouble,
        )
    }};
}
pub(crate) use typed;

/// Without its guards; elsewhere (other modes) there are none.
fn inside<T: Pod>(memory: Option<&mut Memory<T>>, guard: usize) -> Option<&mut [T]> {
    let slice = memory?.slice();
    let end = slice.len() - guard;
    Some(&mut slice[guard..end])
}

impl<C: Calls<T>, T: Pod + Samples> Job for Typed<'_, C, T> {
    fn run_over(&mut self, between: &mut dyn FnMut()) -> Result<()> {
        let (comm, Order { shape, reducer, guard, .. }) = (&self.comm, self.order);
        match &mut self.form {
            Form::Blocking { send, recv } => {
                let send = inside(send.as_mut(), guard).map(|s| &*s);
                C::call(comm, shape, reducer, send, inside(recv.as_mut(), guard))
            }
            Form::Request { send, recv } => {
                let (sends, receives) = (send.is_some(), recv.is_some());
                let request = C::begin(comm, shape, reducer, send.take(), recv.take())?;
                between();
                let done = request.wait()?;
                *send = done.send.filter(|_| sends);
                *recv = Some(done.recv).filter(|_| receives);
                Ok(())
            }
            Form::Persistent(persistent) => {
                persistent.start()?;
                between();
                persistent.wait()
            }
        }
    }

    fn send(&mut self) -> Result<&mut [u8]> {
        let slice = match &mut self.form {
            Form::Blocking { send, .. } => send.as_mut().map(Memory::slice).unwrap_or_default(),
            Form::Request { send, .. } => send.as_deref_mut().unwrap_or_default(),
            Form::Persistent(_) if self.order.shape.send.is_none() => &mut [],
            Form::Persistent(persistent) => persistent.input()?,
        };
        Ok(bytemuck::cast_slice_mut(slice))
    }

    fn recv(&mut self) -> Result<&mut [u8]> {
        let slice = match &mut self.form {
            Form::Blocking { recv, .. } => recv.as_mut().map(Memory::slice).unwrap_or_default(),
            Form::Request { recv, .. } => recv.as_deref_mut().unwrap_or_default(),
            Form::Persistent(persistent) => persistent.output()?,
        };
        Ok(bytemuck::cast_slice_mut(slice))
    }

    fn element(&self) -> usize {
        size_of::<T>()
    }

    fn sampler(&self) -> Sampler {
        super::sample::write::<T>
    }
}
