//! The collectives as users call them: blocking, non-blocking (`i…`) and persistent (`…_init`).
//!
//! Each operation has one function that checks its arguments and makes a [`Spec`] of them; all three kinds of
//! calls go through it.

use super::call::Spec;
use super::communicator::Communicator;
use super::partition::{Parts, Places, lists};
use super::shadow::{Copies, Piece};
use crate::error::{Result, argument};
use crate::ops::Reducer;
use crate::plan::Region;
use crate::plan::allgatherv::extent;
use crate::plan::alltoall::graph::{Edges, Graph};
use crate::plan::registry::Arguments;
use bytemuck::Pod;

/// The two calls of an operation that own their buffers, from one description: what makes the operation, the
/// spec and the buffers of the arguments.
macro_rules! owned {
    ($blocking:literal, $begin:ident, $init:ident ($self:ident): $element:ty => $body:expr) => {
        owned!(@ $blocking, $begin, $init [] ($self): $element, $crate::buffer::HostMemory => $body);
    };
    ($blocking:literal, $begin:ident, $init:ident <M> ($self:ident $(, $arg:ident: $type:ty)*): $element:ty => $body:expr) => {
        owned!(@ $blocking, $begin, $init [M: $crate::buffer::MemoryPlace] ($self $(, $arg: $type)*): $element, M => $body);
    };
    ($blocking:literal, $begin:ident, $init:ident <T, M> ($self:ident $(, $arg:ident: $type:ty)*) => $body:expr) => {
        owned!(@ $blocking, $begin, $init [T: Pod, M: $crate::buffer::MemoryPlace] ($self $(, $arg: $type)*): T, M => $body);
    };
    (@ $blocking:literal, $begin:ident, $init:ident [$($generic:tt)*]
     ($self:ident $(, $arg:ident: $type:ty)*): $element:ty, $place:ty => $body:expr) => {
        #[doc = concat!(
            "[`Communicator::", $blocking, "`] that returns at once: the [`Request`](crate::comm::Request) owns the \
             buffers and gives them back."
        )]
        ///
        /// # Errors
        /// As the blocking call. Arguments are checked at once, the rest comes out while waiting.
        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        pub fn $begin<$($generic)*>(&$self $(, $arg: $type)*) -> Result<Request<$element, $place>> {
            let (operation, spec, buffers) = $body;
            Request::new($self, operation, spec, buffers)
        }

        #[doc = concat!(
            "[`Communicator::", $blocking, "`] to be started many times: see [`Persistent`](crate::comm::Persistent). \
             Collective."
        )]
        ///
        /// # Errors
        /// As the blocking call.
        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        pub fn $init<$($generic)*>(&$self $(, $arg: $type)*) -> Result<Persistent<$element, $place>> {
            let (operation, spec, buffers) = $body;
            Persistent::new($self, operation, spec, buffers)
        }
    };
}

mod alltoall;
mod bcast;
mod gather;
mod reduce;
mod scalar;
mod scan;
mod scatter;

pub use scalar::Scalar;

/// Lengths in bytes; everything that is passed lies in memory, so nothing overflows.
pub(super) fn bytes_of<T>(elements: usize) -> u64 {
    elements as u64 * size_of::<T>() as u64
}

/// Checks that `len` elements are as many as each of `ranks` ranks' `each`.
fn whole(name: &str, len: usize, each: usize, ranks: usize) -> Result<()> {
    if Some(len) == each.checked_mul(ranks) {
        return Ok(());
    }
    Err(argument(format!("{name} has {len} elements, which are not {each} for each of {ranks} ranks")))
}

/// An equal part of `len` elements for each of `ranks` ranks.
fn part(name: &str, len: usize, ranks: usize) -> Result<usize> {
    if len.is_multiple_of(ranks) {
        return Ok(len / ranks);
    }
    Err(argument(format!("{name} has {len} elements, which cannot be shared equally by {ranks} ranks")))
}

/// Checks counts and displacements (in elements) against the ranks and, if it is here, the buffer's length; makes
/// bytes of them. That blocks do not overlap is checked by the plan, where it matters.
pub(super) fn ragged<T>(
    name: &str,
    room: Option<usize>,
    ranks: usize,
    (counts, displs): (&[usize], &[usize]),
) -> Result<(Vec<u64>, Vec<u64>)> {
    if counts.len() != ranks || displs.len() != ranks {
        return Err(argument(format!(
            "{} counts and {} displacements for {ranks} ranks",
            counts.len(),
            displs.len()
        )));
    }
    let most = room.unwrap_or(usize::MAX / size_of::<T>().max(1));
    for (r, (count, displ)) in counts.iter().zip(displs).enumerate() {
        if displ.checked_add(*count).is_none_or(|end| end > most) && *count > 0 {
            return Err(argument(match room {
                Some(room) => {
                    format!("rank {r}'s {count} elements at {displ} do not fit into {name}, which has {room}")
                }
                None => format!("rank {r}'s {count} elements at {displ} are more than memory"),
            }));
        }
    }
    // Where nothing goes does not matter, and need not be a place.
    let place = |(displ, count): (&usize, &usize)| if *count == 0 { 0 } else { bytes_of::<T>(*displ) };
    Ok((counts.iter().map(|n| bytes_of::<T>(*n)).collect(), displs.iter().zip(counts).map(place).collect()))
}

/// The copies that displacements of this rank's own ask for, which are checked against `room` elements of the receive buffer. In place
/// the contribution of `kept` stands there.
pub(super) fn own_places<T>(
    places: &Places<'_>,
    room: usize,
    ranks: usize,
    kept: Option<usize>,
) -> Result<Option<Box<Copies>>> {
    let Some(own) = places.own else { return Ok(None) };
    let (counts, displs) = ragged::<T>("recv", Some(room), ranks, (places.counts, own))?;
    extent(&counts, &displs)?;
    let size = size_of::<T>();
    let piece = |rank: usize| Piece {
        at: own[rank] * size,
        within: places.displs[rank] * size,
        len: places.counts[rank] * size,
    };
    let some = |rank: &usize| counts[*rank] > 0;
    let received = Some((0..ranks).filter(some).map(piece).collect());
    Ok(Some(Box::new(Copies { received, kept: kept.filter(some).map(piece), ..Copies::default() })))
}

/// Checks that a buffer has as many elements as the counts say.
pub(super) fn own_count(name: &str, len: usize, rank: usize, counts: &[usize]) -> Result<()> {
    match counts.get(rank) {
        Some(count) if *count != len => {
            Err(argument(format!("{name} has {len} elements, counts[{rank}] says {count}")))
        }
        _ => Ok(()),
    }
}

/// What reductions of `T` have in common. The elements are the reducer's: of [`OnBytes`](crate::ops::OnBytes) `T` is a byte of them.
fn reducing<T: Pod>(by: Result<Reducer>, arguments: Arguments, fill: bool) -> Result<Spec> {
    let reducer = by?;
    let (element, commutative) = (reducer.element() as u64, reducer.commutative());
    if element != size_of::<T>() as u64 {
        let mut lengths = arguments.counts.iter().chain([&arguments.bytes]);
        if let Some(bytes) = lengths.find(|bytes| !bytes.is_multiple_of(element)) {
            let (name, kind) = (reducer.name(), reducer.type_name());
            return Err(argument(format!(
                "{bytes} bytes are no whole number of {kind} ({element} bytes each), which the operator {name} is for"
            )));
        }
    }
    let arguments = Arguments { element, commutative, exact: reducer.exact(), ..arguments };
    Ok(Spec { arguments, element: reducer.element_type(), reducer: Some(reducer), fill, ..Spec::default() })
}

impl Communicator {
    /// The root as plans count it.
    fn root(&self, root: usize) -> Result<u32> {
        match u32::try_from(root) {
            Ok(r) if root < self.size() => Ok(r),
            _ => Err(argument(format!(
                "root {} is out of range: there are ranks 0 to {}",
                // As languages say it that have signed numbers only: no job has half as many ranks.
                root.cast_signed(),
                self.size() - 1
            ))),
        }
    }

    /// Says `in_place` unless it is not the root that is.
    fn at_root_only(&self, in_place: bool, root: usize) -> Result<bool> {
        if in_place && self.rank() != root {
            return Err(argument("only the root can be in place here"));
        }
        Ok(in_place)
    }

    /// The buffer that takes part at the root only, if we are not it.
    fn unless_root(&self, root: usize, region: Region) -> Option<Region> {
        (self.rank() != root).then_some(region)
    }

    /// The blocks of all ranks in the buffer of the root, as (length, place) in bytes, and that `own`, its other buffer, is as long as
    /// its own block. In place, without `own`, that block stays where it is: none goes there.
    fn blocks_at_root<T>(
        &self,
        name: &str,
        room: usize,
        parts: &impl Parts,
        (other, own): (&str, Option<usize>),
    ) -> Result<Vec<(u64, u64)>> {
        let (counts, displs) = lists(parts);
        let (mut lengths, places) = ragged::<T>(name, Some(room), self.size(), (counts, &displs))?;
        match own {
            Some(len) => own_count(other, len, self.rank(), counts)?,
            None => lengths[self.rank()] = 0,
        }
        Ok(lengths.into_iter().zip(places).collect())
    }

    /// The spec of an exchange between the root and all ranks, of which only the root knows all counts.
    fn star<T: Pod>(&self, root: u32, edges: Edges) -> Spec {
        let graph = Graph { multiplicity: 1, edges: [(self.context.rank, edges)].into() };
        Spec { arguments: Arguments { root, graph, ..Arguments::default() }, fill: true, ..Spec::of::<T>() }
    }
}
