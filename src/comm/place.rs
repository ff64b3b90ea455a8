//! What calls take besides plain slices: "in place" as a type.

use crate::buffer::{Buf, HostMemory, MemoryPlace};
use bytemuck::Pod;

/// What the traits here are for; no other types can implement them, so that they may grow.
mod sealed {
    pub trait Sealed {}
    impl<S: ?Sized> Sealed for &S {}
    impl<S: ?Sized> Sealed for &mut S {}
    impl<S> Sealed for Option<S> {}
    impl Sealed for super::InPlace {}
    impl<T: super::Pod, M: super::MemoryPlace> Sealed for super::Buf<T, M> {}
}

/// In place of a send buffer (or of a receive buffer, at the root of a scatter): the contribution lies in the
/// receive buffer already, where MPI's `MPI_IN_PLACE` expects it.
///
/// ```
/// use circulant::{InPlace, World, ops};
///
/// let world = World::init()?;
/// let mut sums = [world.rank() as u64, 1];
/// world.comm().allreduce(InPlace, &mut sums, ops::Sum)?;
/// assert_eq!(sums[1], world.size() as u64);
/// # world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace;

/// What a rank contributes to a call: a slice (`&[T]`, `&Vec<T>`, `&[T; N]`, `&Buf<T>`) or [`InPlace`]; or an `Option` of a slice, of
/// which `None` is in place. Sealed: there are no others.
///
/// ```compile_fail,E0277
/// struct Mine;
/// impl circulant::comm::Contribution<'static, u8> for Mine {
///     fn slice(self) -> Option<&'static [u8]> {
///         None
///     }
/// }
/// ```
pub trait Contribution<'a, T>: sealed::Sealed {
    /// The slice; `None` in place.
    fn slice(self) -> Option<&'a [T]>;
}

impl<'a, T, S: AsRef<[T]> + ?Sized> Contribution<'a, T> for &'a S {
    fn slice(self) -> Option<&'a [T]> {
        Some(self.as_ref())
    }
}

impl<'a, T> Contribution<'a, T> for InPlace {
    fn slice(self) -> Option<&'a [T]> {
        None
    }
}

/// Where a rank gets its part: a mutable slice (`&mut [T]`, …) or, at the root of a scatter, [`InPlace`]; or an `Option` of a slice.
/// Sealed, as [`Contribution`].
pub trait Destination<'a, T>: sealed::Sealed {
    /// The slice; `None` in place.
    fn slice(self) -> Option<&'a mut [T]>;
}

impl<'a, T, S: AsMut<[T]> + ?Sized> Destination<'a, T> for &'a mut S {
    fn slice(self) -> Option<&'a mut [T]> {
        Some(self.as_mut())
    }
}

impl<'a, T> Destination<'a, T> for InPlace {
    fn slice(self) -> Option<&'a mut [T]> {
        None
    }
}

/// As [`Contribution`] and [`Destination`], for calls that own their buffers: a [`Buf`] or [`InPlace`], or an `Option`
/// of a [`Buf`].
pub trait Owned<T: Pod, M: MemoryPlace = HostMemory>: sealed::Sealed {
    /// The buffer; `None` in place.
    fn buffer(self) -> Option<Buf<T, M>>;
}

impl<T: Pod, M: MemoryPlace> Owned<T, M> for Buf<T, M> {
    fn buffer(self) -> Option<Buf<T, M>> {
        Some(self)
    }
}

impl<T: Pod, M: MemoryPlace> Owned<T, M> for InPlace {
    fn buffer(self) -> Option<Buf<T, M>> {
        None
    }
}

impl<'a, T> Contribution<'a, T> for Option<&'a [T]> {
    fn slice(self) -> Option<&'a [T]> {
        self
    }
}

impl<'a, T> Destination<'a, T> for Option<&'a mut [T]> {
    fn slice(self) -> Option<&'a mut [T]> {
        self
    }
}

impl<T: Pod, M: MemoryPlace> Owned<T, M> for Option<Buf<T, M>> {
    fn buffer(self) -> Option<Buf<T, M>> {
        self
    }
}
