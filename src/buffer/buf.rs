//! Buffers: registered memory that a program owns, with where it lives.

use super::arena::{Arena, Block, MAX_ALIGN_BYTES};
use super::bound::{Bound, Device, Grant};
use crate::error::{Result, argument};
use crate::transport::{Borrow, Memory, MemoryAttributes, Registration, Transport};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::HostMemory {}
    impl Sealed for super::AnyMemory {}
}

/// Where a [`Buf`] may live, as a type: [`HostMemory`] or [`AnyMemory`]. Sealed: there are no others.
pub trait MemoryPlace: sealed::Sealed + Send + Sync + 'static {}

/// A [`Buf`] in host memory: a slice.
#[derive(Clone, Copy, Debug)]
pub enum HostMemory {}

/// A [`Buf`] that may live in a device, as [`Buf::memory`] says: its elements cannot be reached through it.
#[derive(Clone, Copy, Debug)]
pub enum AnyMemory {}

impl MemoryPlace for HostMemory {}
impl MemoryPlace for AnyMemory {}

/// Registered memory of `T`s: collectives move it without a copy and without registering anything. From
/// [`Communicator::alloc`](crate::comm::Communicator::alloc) it lives in host memory and is a slice; it may outlive its world, as plain
/// memory. From [`Communicator::adopt`](crate::comm::Communicator::adopt) it is a [`Buf<T, AnyMemory>`](AnyMemory), which may live in a
/// device. Requests and persistent operations take both kinds, of their own world.
///
/// Memory of a device is no slice:
/// ```compile_fail,E0608
/// use circulant::comm::{AnyMemory, Buf};
/// fn first(buf: &Buf<u8, AnyMemory>) -> u8 {
///     buf[0]
/// }
/// ```
pub struct Buf<T: Pod, M: MemoryPlace = HostMemory> {
    /// Of host memory that is used as a slice: in the block that is held.
    ptr: *mut T,
    len: usize,
    held: Held,
    _place: PhantomData<M>,
}

// SAFETY: a buffer owns what it leads to, or vouches for it (`Adopted`), as a `Vec` does; references into it come from borrows of it.
unsafe impl<T: Pod + Send, M: MemoryPlace> Send for Buf<T, M> {}
// SAFETY: as above.
unsafe impl<T: Pod + Sync, M: MemoryPlace> Sync for Buf<T, M> {}

#[derive(Debug)]
enum Held {
    Arena(Block),
    /// Shared by the parts of it.
    Adopted(Arc<Adopted>),
}

/// What ends registrations of adopted memory.
pub(crate) trait Release: std::fmt::Debug + Send + Sync {
    /// Ends it. When this returns no peer can reach the memory.
    fn release(&self, registration: Registration);
}

/// Memory of the program's, registered until this is dropped.
#[derive(Debug)]
pub(crate) struct Adopted {
    bound: Bound,
    memory: Memory,
    arena: Arena,
    registration: Option<Registration>,
    world: Box<dyn Release>,
}

// SAFETY: of what it holds only the bound keeps it from being shared: an address with numbers, of which others get copies, and through which
// nothing is touched here.
unsafe impl Sync for Adopted {}

impl Adopted {
    /// Registers `len` bytes at `ptr` for an endpoint whose arena this is; without one there are no peers.
    ///
    /// # Safety
    /// Until this is dropped the memory is valid, and is touched by operations that it is bound to only, while one runs. The
    /// attributes are true of it, and their function does what [`CopyFunction`](crate::transport::CopyFunction) says.
    ///
    /// # Errors
    /// When memory of a device comes without a function that copies it, or the endpoint cannot register it.
    pub(crate) unsafe fn new(
        (ptr, len): (*mut u8, usize),
        attributes: &MemoryAttributes,
        arena: &Arena,
        transport: Option<&mut (dyn Transport + 'static)>,
        world: Box<dyn Release>,
    ) -> Result<Self> {
        let memory = attributes.memory;
        let device = match (memory, attributes.copy) {
            (Memory::Host, _) => None,
            (_, Some(copy)) => Some(Device { memory, copy }),
            (_, None) => {
                return Err(argument(format!("{memory} was handed in without a function that copies it"))
                    .help("name one, such as cudaMemcpy with cudaMemcpyDefault"));
            }
        };
        let direct = transport.as_ref().is_some_and(|t| t.limits().borrow == Borrow::Direct);
        let registered = match transport {
            // SAFETY: the range is valid until we are dropped, which ends the registration; the rest is our caller's.
            Some(transport) if len > 0 => Some(unsafe { transport.register_memory(ptr, len, attributes)? }),
            _ => None,
        };
        let registration = registered.map(|(registration, _)| registration);
        let grant = registered
            .map_or_else(Grant::default, |(_, remote)| Grant { address: remote.base, key: remote.key });
        // Slices of it that calls borrow are registered, then, too; but where peers may reach them after an error they are staged.
        if let (Some(registered), None, true) = (registered, device, direct) {
            arena.adopt((ptr, len), registered);
        }
        let number = registration.unwrap_or(Registration(u32::MAX));
        // SAFETY: our caller's; an operation that it is bound to keeps us until it has ended.
        let bound = unsafe {
            match device {
                None => Bound::new(ptr, len, number, grant),
                Some(device) => Bound::on_device(ptr, len, number, grant, device),
            }
        };
        Ok(Self { bound, memory, arena: arena.clone(), registration, world })
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if let Some(registration) = self.registration {
            self.arena.forget(registration);
            self.world.release(registration);
        }
    }
}

impl<T: Pod, M: MemoryPlace> std::fmt::Debug for Buf<T, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buf").field("len", &self.len).field("memory", &self.memory()).finish_non_exhaustive()
    }
}

impl<T: Pod> Buf<T> {
    pub(crate) fn new(block: Block, len: usize) -> Self {
        assert!(len * size_of::<T>() <= block.len() && align_of::<T>() <= MAX_ALIGN_BYTES);
        Self { ptr: block.start().cast(), len, held: Held::Arena(block), _place: PhantomData }
    }

    /// The same where any memory will do.
    pub(crate) fn anywhere<M: MemoryPlace>(self) -> Buf<T, M> {
        Buf { ptr: self.ptr, len: self.len, held: self.held, _place: PhantomData }
    }
}

impl<T: Pod> Buf<T, AnyMemory> {
    /// `len` elements from `ptr` in adopted memory, which has them.
    pub(crate) fn adopted(ptr: *mut T, len: usize, memory: Adopted) -> Self {
        Self { ptr, len, held: Held::Adopted(Arc::new(memory)), _place: PhantomData }
    }

    /// `len` elements of it from element `offset` on, as a buffer of its own. The memory is registered until all of its parts are dropped.
    ///
    /// # Safety
    /// What [`Communicator::adopt`](crate::comm::Communicator::adopt) asks for holds until all parts are dropped. Of parts that overlap none
    /// is given to an operation while another one is under way that has another, unless both only send.
    ///
    /// # Errors
    /// When it does not have these elements, or was not adopted.
    pub unsafe fn part(&self, offset: usize, len: usize) -> Result<Self> {
        let Held::Adopted(adopted) = &self.held else {
            return Err(argument("a part of a buffer that was not adopted: that is a slice"));
        };
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(argument(format!("{len} elements at {offset} of a buffer of {}", self.len)));
        }
        let held = Held::Adopted(Arc::clone(adopted));
        Ok(Self { ptr: self.ptr.wrapping_add(offset), len, held, _place: PhantomData })
    }

    /// Its first element, where its own memory has it: an address in a device is of use there only.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }
}

impl<T: Pod> Buf<T, AnyMemory> {
    /// As a slice, if it is from [`Communicator::alloc`](crate::comm::Communicator::alloc).
    ///
    /// # Errors
    /// The buffer itself, where it was adopted.
    pub fn into_host(self) -> std::result::Result<Buf<T>, Self> {
        match self {
            Self { ptr, len, held: held @ Held::Arena(_), .. } => {
                Ok(Buf { ptr, len, held, _place: PhantomData })
            }
            adopted => Err(adopted),
        }
    }
}

impl<T: Pod> From<Buf<T>> for Buf<T, AnyMemory> {
    fn from(buf: Buf<T>) -> Self {
        buf.anywhere()
    }
}

impl<T: Pod, M: MemoryPlace> Buf<T, M> {
    /// Its number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it lives.
    pub fn memory(&self) -> Memory {
        match &self.held {
            Held::Arena(_) => Memory::Host,
            Held::Adopted(adopted) => adopted.memory,
        }
    }

    /// The buffer, for an operation of the world whose arena this is.
    ///
    /// # Errors
    /// When it is of another world: another endpoint's registrations and keys mean other memory here.
    pub(crate) fn bound(&self, arena: &Arena) -> Result<Bound> {
        match &self.held {
            Held::Arena(block) if block.arena().is(arena) => Ok(block.bound(self.len * size_of::<T>())),
            Held::Adopted(adopted) if adopted.arena.is(arena) => {
                Ok(adopted.bound.part(self.ptr.cast(), self.len * size_of::<T>()))
            }
            _ => Err(argument("this buffer was allocated by another world").help(
                "requests and persistent operations take buffers of their own world: allocate it with this \
                 communicator's alloc, or pass it to a blocking call, as a slice",
            )),
        }
    }
}

impl<T: Pod> Deref for Buf<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: host memory is held as a block (`new`), which holds `len` elements, page-aligned, zeroed when made and `Pod` (any
        // bytes are a value); operations on it run only while this buffer is mutably borrowed or owned by them.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

impl<T: Pod> AsRef<[T]> for Buf<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Pod> AsMut<[T]> for Buf<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Pod> DerefMut for Buf<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes the range exclusively ours.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::sim::{Faults, Sim, group};
    use std::sync::Mutex;

    /// An endpoint that several have.
    #[derive(Clone, Debug)]
    struct Endpoint(Arc<Mutex<Sim>>);

    impl Release for Endpoint {
        fn release(&self, registration: Registration) {
            self.0.lock().unwrap().deregister(registration).unwrap();
        }
    }

    #[test]
    fn adopted_memory_is_registered_until_its_buffer_is_dropped() {
        let wire = group(1, &Faults::default()).pop().unwrap();
        let (endpoint, arena) = (Endpoint(Arc::new(Mutex::new(wire))), Arena::default());
        let mut memory = [7u16; 50];
        let (ptr, attributes) = (memory.as_mut_ptr(), MemoryAttributes::new(Memory::Host));
        let world = Box::new(endpoint.clone());
        // SAFETY: the memory lives longer than what it is adopted for.
        let adopted = unsafe {
            let mut wire = endpoint.0.lock().unwrap();
            Adopted::new((ptr.cast(), 100), &attributes, &arena, Some(&mut *wire), world).unwrap()
        };
        let registration = adopted.registration.unwrap();
        let buf = Buf::adopted(ptr, 50, adopted);
        assert!(buf.bound(&arena).is_ok() && buf.bound(&Arena::default()).is_err());
        // A slice of it needs no registration of its own.
        let slice = arena.locate(ptr.cast::<u8>().wrapping_add(40), 60);
        assert_eq!(slice.map(|(of, _)| of), Some(registration));
        assert!(arena.locate(ptr.cast::<u8>().wrapping_add(40), 61).is_none());
        let buf = buf.into_host().unwrap_err();
        // SAFETY: no operation is under way.
        let (part, outside) = unsafe { (buf.part(10, 40).unwrap(), buf.part(10, 41)) };
        assert!(outside.is_err() && part.len() == 40);
        let (all, later) = (buf.bound(&arena).unwrap().grant(), part.bound(&arena).unwrap().grant());
        assert_eq!((later.address - all.address, later.key), (20, all.key));
        drop(part);
        assert!(arena.locate(ptr.cast(), 100).is_some());
        drop(buf);
        assert!(arena.locate(ptr.cast(), 100).is_none());
        let twice = endpoint.0.lock().unwrap().deregister(registration).unwrap_err();
        assert!(twice.to_string().contains("not registered"), "{twice}");
    }
}
