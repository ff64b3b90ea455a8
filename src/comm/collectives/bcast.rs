//! Broadcast and barrier.

use super::{Spec, bytes_of};
use crate::buffer::Buf;
use crate::comm::calling::Calling;
use crate::comm::{Communicator, Persistent, Request};
use crate::error::Result;
use crate::ops::Element;
use crate::plan::registry::{Arguments, Operation};
use bytemuck::Pod;

impl Communicator {
    /// Broadcasts `buf` of rank `root` to all: n blocks in n−1+⌈log2 p⌉ rounds, for any p, n and root
    /// (Träff 2022, Algorithm 6; each rank gets each block exactly once). `buf` has the same length at all
    /// ranks; the root's is sent, the others' are overwritten.
    ///
    /// # Errors
    /// When `root` is out of range, ranks disagree on root, length or type, the deadline passes, or a rank is lost.
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let comm = world.comm();
    /// let mut data = comm.alloc::<f64>(1000)?;
    /// if comm.rank() == 0 {
    ///     data.fill(1.0);
    /// }
    /// comm.bcast(&mut data, 0)?;
    /// assert!(data.iter().all(|x| *x == 1.0));
    ///
    /// // A plain slice will do, too; there is no rank `size()`.
    /// let mut word = [0u8; 4];
    /// comm.bcast(&mut word, 0)?;
    /// let error = comm.bcast(&mut word, comm.size()).unwrap_err();
    /// assert_eq!(error.kind(), circulant::ErrorKind::Argument);
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn bcast<T: Pod>(&self, buf: &mut [T], root: usize) -> Result<()> {
        if let Some(done) = self.short_bcast(Element::of::<T>(), bytemuck::cast_slice_mut(buf), root) {
            return done;
        }
        let calling = Calling::of::<T>(Operation::Bcast).at(root);
        if let Some(done) = self.again(&calling, None, Some(&mut *buf)) {
            return done;
        }
        let spec = self.bcast_spec::<T>(buf.len(), root);
        self.run(calling, spec, None, Some(buf))
    }

    owned!("bcast", ibcast, bcast_init <T, M> (self, buf: Buf<T, M>, root: usize) => {
        (Operation::Bcast, self.bcast_spec::<T>(buf.len(), root), (None, buf))
    });

    pub(in crate::comm) fn bcast_spec<T: Pod>(&self, len: usize, root: usize) -> Result<Spec> {
        let arguments =
            Arguments { root: self.root(root)?, bytes: bytes_of::<T>(len), ..Arguments::default() };
        Ok(Spec { arguments, fill: self.rank() == root, ..Spec::of::<T>() })
    }

    /// Returns when all ranks have entered: ⌈log2 p⌉ rounds of notifications on the circulant graph.
    ///
    /// # Errors
    /// As [`Communicator::bcast`].
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let world = circulant::World::init()?;
    /// world.comm().barrier()?;
    /// // A deadline of its own for one call, in place of CIRCULANT_DEADLINE:
    /// let options = circulant::Options::new().deadline(Duration::from_secs(5));
    /// world.comm().with(options).barrier()?;
    /// # world.finalize()?;
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn barrier(&self) -> Result<()> {
        if let Some(done) = self.short_barrier() {
            return done;
        }
        let calling = Calling::of::<u8>(Operation::Barrier);
        if let Some(done) = self.again::<u8>(&calling, None, None) {
            return done;
        }
        self.run::<u8>(calling, Ok(Spec::default()), None, None)
    }

    owned!("barrier", ibarrier, barrier_init (self): u8 => {
        (Operation::Barrier, Ok(Spec::default()), (None, self.alloc(0)?))
    });
}
