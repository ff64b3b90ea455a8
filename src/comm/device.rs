//! Memory that a program hands in: that of devices, or memory of its own that is registered for many calls.

use super::communicator::Communicator;
use super::lock::Lock;
use crate::buffer::{Adopted, AnyMemory, Buf, Release, Wire};
use crate::error::{ErrorKind, Result, argument};
use crate::transport::{Limits, MemoryAttributes, Registration};
use bytemuck::Pod;
use std::sync::Arc;

impl Communicator {
    /// What the wire of this world takes and promises; `None` for a world of one rank.
    ///
    /// # Errors
    /// Inside an operator of the same world, and in a forked child.
    pub fn limits(&self) -> Result<Option<Limits>> {
        Ok(self.hold()?.engine.limits().cloned())
    }

    /// Registers `len` elements at `ptr`, which may be memory of a device, for requests and persistent operations of this world. Not
    /// collective, and ranks need not have memory of the same kind. It is registered until the buffer is dropped; dropping it inside an
    /// operator of the same world aborts the process.
    ///
    /// Puts go from and to it directly. Where the library has to copy (short messages, pieces that share a put, a rank's own
    /// contribution) it calls the function that the attributes name. Operations that reduce are refused before data moves, as the
    /// processor does that. Which kinds of memory a wire takes is in [`Limits::memory`] ([`Communicator::limits`]).
    ///
    /// Of host memory, slices that calls borrow meanwhile are registered with it, unless the wire has them staged.
    ///
    /// # Safety
    /// Until the buffer, and every request or persistent operation that it was given to, is dropped:
    ///
    /// - `ptr` leads to `len` elements that stay allocated, as `attributes` say; host memory can be read and written there. On a wire
    ///   whose [`Limits::borrow`] is `Staged` it stays so after an error, and is not used, as long as a rank of the job lives.
    /// - While an operation that has the buffer is under way, the memory is not used otherwise, be it by kernels of the device: wait for
    ///   these before the operation begins. What is only sent may be read.
    /// - While a call, a request or a persistent operation has borrowed a slice of it, the buffer is not dropped.
    /// - The function that copies does what [`CopyFunction`](crate::transport::CopyFunction) says, in any thread that calls the library.
    /// - The file, if one is named, is open, and the memory is there in it.
    ///
    /// # Errors
    /// When memory of a device comes without a function that copies it, when the wire does not take such memory, or cannot register it;
    /// and when the bytes are more than memory. Such an error is this rank's alone: the world goes on.
    ///
    /// # Examples
    /// ```
    /// use circulant::transport::{Memory, MemoryAttributes};
    ///
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// // Memory of the program's own. That of a GPU: MemoryAttributes::new(Memory::Cuda(0)).copied_by(a function around cudaMemcpy).
    /// let mut field = vec![comm.rank() as u64; 100];
    /// // SAFETY: the vector lives longer than the buffer, and is left alone meanwhile.
    /// let buf = unsafe { comm.adopt(field.as_mut_ptr(), field.len(), &MemoryAttributes::new(Memory::Host))? };
    /// let done = comm.ibcast(buf, 0)?.wait()?;
    /// assert_eq!(done.recv.memory(), Memory::Host);
    /// drop(done);
    /// assert_eq!(field[99], 0);
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub unsafe fn adopt<T: Pod>(
        &self,
        ptr: *mut T,
        len: usize,
        attributes: &MemoryAttributes,
    ) -> Result<Buf<T, AnyMemory>> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|n| ptr.addr().checked_add(*n).is_some());
        let Some(bytes) = bytes.filter(|n| isize::try_from(*n).is_ok()) else {
            return Err(argument(format!("{len} elements do not fit into memory")));
        };
        if bytes > 0 && ptr.is_null() {
            return Err(argument("a null pointer to adopt"));
        }
        let mut held = self.hold()?;
        held.engine.healthy()?;
        let world = Box::new(World(Arc::clone(&self.lock)));
        let arena = held.arena.clone();
        let range = (ptr.cast(), bytes);
        // SAFETY: our caller's; requests and persistent operations keep the buffer until they have ended.
        let adopted = unsafe { Adopted::new(range, attributes, &arena, held.transport(), world)? };
        Ok(Buf::adopted(ptr, len, adopted))
    }
}

/// The world whose endpoint has registered memory.
#[derive(Debug)]
struct World(Arc<Lock>);

impl Release for World {
    fn release(&self, registration: Registration) {
        let mut held = match self.0.hold() {
            Ok(held) => held,
            // In a forked child, whose memory no peer reaches.
            Err(e) if e.kind() == ErrorKind::Aborted => return,
            // Inside an operator of this world: the memory must not come back as if no peer could reach it.
            Err(_) => std::process::abort(),
        };
        let ended = held.transport().map_or(Ok(()), |transport| transport.deregister(registration));
        if ended.is_err() {
            held.shut();
        }
    }
}
