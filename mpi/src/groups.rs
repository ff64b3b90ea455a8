//! Intercommunicators: two groups of ranks, each of which gets what the other one gives.
//!
//! Here that is a communicator of both groups, in which data moves by one exchange, and one of this rank's own group, in which is combined
//! and passed on. Ranks of a group that has the root, but are not it, know nothing of a call: no size, no datatype, no operator. So a call
//! begins with an agreement: if one rank must leave it to the MPI all do.

use crate::abi::Abi;
use crate::report::Reason;
use crate::stop::Stop;
use circulant::{Communicator, ops};
use std::ffi::c_int;

/// The groups of an intercommunicator.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Both: first the one of which `is_first` tells.
    pub(crate) union: Communicator,
    /// This rank's.
    pub(crate) own: Communicator,
    /// This rank's group comes first in `union`.
    pub(crate) is_first: bool,
}

/// Where the root of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// It is this rank.
    Here,
    /// Another rank of this one's group: there is nothing to do.
    Beside,
    /// This rank of the other group.
    There(usize),
}

/// The blocks of a buffer that go to the ranks of the other group, or come from them, by rank in the union.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Bytes of each.
    counts: Vec<usize>,
    /// Where each begins, in bytes.
    places: Vec<usize>,
}

impl Groups {
    /// The number of ranks of the other group.
    pub(crate) fn remote_size(&self) -> usize {
        self.union.size() - self.own.size()
    }

    /// What a rank passes as root.
    pub(crate) fn root(&self, abi: &Abi, root: c_int) -> Result<Root, Stop> {
        match usize::try_from(root) {
            Ok(rank) if rank < self.remote_size() => Ok(Root::There(rank)),
            _ if root == abi.root => Ok(Root::Here),
            _ if root == abi.proc_null => Ok(Root::Beside),
            _ => Err(Stop::Pass(Reason::Arguments)),
        }
    }

    /// The blocks of the other group's ranks: of each, by its rank there, the bytes and the place.
    pub(crate) fn blocks(&self, of: impl Fn(usize) -> (usize, usize)) -> Blocks {
        let (own, remote) = (self.own.size(), self.remote_size());
        let theirs = (0..remote).map(of);
        let none = std::iter::repeat_n((0, 0), own);
        let (counts, places) =
            if self.is_first { none.chain(theirs).unzip() } else { theirs.chain(none).unzip() };
        Blocks { counts, places }
    }

    /// No blocks.
    pub(crate) fn nothing(&self) -> Blocks {
        self.blocks(|_| (0, 0))
    }

    /// The whole buffer, for one rank of the other group.
    pub(crate) fn with(&self, rank: usize, bytes: usize) -> Blocks {
        self.blocks(|i| (if i == rank { bytes } else { 0 }, 0))
    }

    /// What this rank has prepared for a call, if all ranks of both groups have prepared theirs. Collective.
    pub(crate) fn agreed<T>(&self, mine: Result<T, Stop>) -> Result<T, Stop> {
        let (refuses, mut any) = ([u8::from(mine.is_err())], [0]);
        self.union.allreduce(&refuses, &mut any, ops::Max)?;
        match mine {
            Ok(_) if any != [0] => Err(Stop::Pass(Reason::Arguments)),
            mine => mine,
        }
    }

    /// Sends blocks of `send` to the other group's ranks, and receives theirs in `recv`. Collective.
    pub(crate) fn exchange(
        &self,
        (send, sent): (&[u8], &Blocks),
        (recv, received): (&mut [u8], &Blocks),
    ) -> Result<(), Stop> {
        let (sent, received) = ((&sent.counts, &sent.places), (&received.counts, &received.places));
        Ok(self.union.alltoallv(send, sent, recv, received)?)
    }
}
