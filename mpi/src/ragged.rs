//! Blocks of different lengths at places of their own: what the `v` and `w` operations pass as lists.
//!
//! Displacements may differ from rank to rank. Blocks that tile a piece of memory, in any order, are used where they lie; any others are
//! copied: no slice covers bytes between blocks, which are not the call's.

use crate::buffers::{Bytes, pack, unpack};
use crate::call::Call;
use crate::on::On;
use crate::report::Reason;
use crate::spared::{Entry, Kept, Spared};
use crate::stop::{Stop, count};
use crate::types::Type;
use circulant::comm::Local;
use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::c_void;
use std::thread::LocalKey;

/// The types of blocks.
#[derive(Debug)]
enum Types {
    All(Type),
    Each(Spared<Type>),
}

impl Types {
    fn of(&self, rank: usize) -> &Type {
        match self {
            Self::All(ty) => ty,
            Self::Each(types) => &types[rank],
        }
    }
}

/// The blocks of all ranks.
#[derive(Debug)]
pub(crate) struct Ragged {
    types: Types,
    /// Bytes of each.
    counts: Spared<usize>,
    /// Where each begins, in bytes from the beginning of the buffer: any number where nothing is.
    begins: Spared<isize>,
    /// Where each stands in what is sent or received, in bytes.
    places: Spared<usize>,
    total: usize,
    /// Where the memory begins that they tile, from the beginning of the buffer; nothing: they are copied.
    start: Option<isize>,
}

thread_local! {
    static TYPES: Kept<Type> = const { Cell::new(Vec::new()) };
    static BEGINS: Kept<isize> = const { Cell::new(Vec::new()) };
}

impl Entry for Type {
    const KEPT: &'static LocalKey<Kept<Self>> = &TYPES;
}

impl Entry for isize {
    const KEPT: &'static LocalKey<Kept<Self>> = &BEGINS;
}

impl Ragged {
    /// `ranks` blocks of one type, with displacements in elements.
    ///
    /// # Safety
    /// Both lists have an entry for each rank.
    pub(crate) unsafe fn of_type<C, D>(
        ranks: usize,
        counts: *const C,
        displs: *const D,
        ty: Type,
    ) -> Result<Self, Stop>
    where
        C: Into<i64> + Copy,
        D: TryInto<isize> + Copy,
    {
        let mut blocks = Self::none(Types::All(ty), ranks);
        for i in 0..ranks {
            // SAFETY: the caller's.
            let (n, displ) = unsafe { (counts.add(i).read_unaligned(), displs.add(i).read_unaligned()) };
            let at = displ.try_into().ok().and_then(|d: isize| d.checked_mul(ty.extent));
            blocks.push(ty.bytes(count(n)?)?, at)?;
        }
        blocks.placed()
    }

    /// `ranks` blocks, each of its own type, with displacements in bytes.
    ///
    /// # Safety
    /// All lists have an entry for each rank, that of types handles of this MPI.
    pub(crate) unsafe fn of_types<C, D>(
        call: &Call,
        ranks: usize,
        counts: *const C,
        displs: *const D,
        types: *const usize,
    ) -> Result<Self, Stop>
    where
        C: Into<i64> + Copy,
        D: TryInto<isize> + Copy,
    {
        let mut list = Spared::new();
        list.reserve(ranks);
        for i in 0..ranks {
            // SAFETY: the caller's.
            list.push(unsafe { call.datatype(call.abi.handle_at(types, i))? });
        }
        let mut blocks = Self::none(Types::Each(list), ranks);
        for i in 0..ranks {
            // SAFETY: the caller's.
            let (n, displ) = unsafe { (counts.add(i).read_unaligned(), displs.add(i).read_unaligned()) };
            let bytes = blocks.types.of(i).bytes(count(n)?)?;
            blocks.push(bytes, displ.try_into().ok())?;
        }
        blocks.placed()
    }

    /// Without blocks yet, and with room for those of so many ranks.
    fn none(types: Types, ranks: usize) -> Self {
        let (mut counts, mut begins, mut places) = (Spared::new(), Spared::new(), Spared::new());
        counts.reserve(ranks);
        begins.reserve(ranks);
        places.reserve(ranks);
        Self { types, counts, begins, places, total: 0, start: None }
    }

    /// Adds the block of the next rank.
    fn push(&mut self, bytes: usize, at: Option<isize>) -> Result<(), Stop> {
        let total = self.total.checked_add(bytes).filter(|n| isize::try_from(*n).is_ok());
        // Where nothing goes does not matter.
        let at = if bytes == 0 { Some(0) } else { at };
        let (Some(total), Some(at)) = (total, at) else { return Err(Stop::Pass(Reason::Arguments)) };
        self.places.push(self.total);
        self.counts.push(bytes);
        self.begins.push(at);
        self.total = total;
        Ok(())
    }

    /// All blocks are there: where they stand.
    fn placed(mut self) -> Result<Self, Stop> {
        let full = |rank: &usize| self.counts[*rank] > 0;
        let all = 0..self.counts.len();
        if all.clone().filter(full).any(|rank| !self.types.of(rank).dense) {
            return Ok(self);
        }
        self.start = self.tiled(all.clone().filter(full));
        if self.start.is_none() {
            let mut order = Spared::new();
            order.reserve(all.len());
            order.extend(all.filter(full));
            order.sort_unstable_by_key(|rank| self.begins[*rank]);
            self.start = self.tiled(order.iter().copied());
            if let Some(start) = self.start {
                for rank in order.iter() {
                    self.places[*rank] = self.begins[*rank].abs_diff(start);
                }
            }
        }
        Ok(self)
    }

    /// Where the memory begins that these blocks tile in this order, if they do.
    fn tiled(&self, ranks: impl Iterator<Item = usize>) -> Option<isize> {
        let (mut start, mut end) = (None, 0);
        for rank in ranks {
            let at = self.begins[rank];
            if start.is_some() && at != end {
                return None;
            }
            start = start.or(Some(at));
            end = at.checked_add(isize::try_from(self.counts[rank]).ok()?)?;
        }
        Some(start.unwrap_or(0))
    }

    /// The block of a rank: where it begins, its elements, their type, and the part of `bytes` that it is.
    fn block(&self, rank: usize) -> (isize, usize, &Type, std::ops::Range<usize>) {
        let (ty, bytes, place) = (self.types.of(rank), self.counts[rank], self.places[rank]);
        (self.begins[rank], bytes / ty.size.max(1), ty, place..place + bytes)
    }

    /// Bytes of each block.
    pub(crate) fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Counts and places, as calls take them. The places are this rank's own.
    pub(crate) fn parts(&self) -> Local<'_> {
        Local { counts: &self.counts, displs: &self.places }
    }

    /// The bytes of the buffer that are received into; none where blocks are copied.
    pub(crate) fn memory(&self, buffer: *mut c_void) -> (*mut c_void, usize) {
        match self.start {
            Some(start) => (buffer.wrapping_byte_offset(start), self.total),
            None => (std::ptr::null_mut(), 0),
        }
    }

    /// Bytes of all.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// The data of all blocks.
    ///
    /// # Safety
    /// `from` is the beginning of a send buffer that these blocks describe.
    pub(crate) unsafe fn source<'a>(&self, on: &On, from: *const c_void) -> Result<Cow<'a, [u8]>, Stop> {
        let from = from.cast::<u8>();
        if self.total == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        if let Some(start) = self.start {
            let first = from.wrapping_offset(start);
            if from.is_null() {
                return Err(Stop::Pass(Reason::Arguments));
            }
            // SAFETY: the blocks tile these bytes, so all of them are the send buffer's.
            return Ok(Cow::Borrowed(unsafe { std::slice::from_raw_parts(first, self.total) }));
        }
        let mut packed = vec![0; self.total];
        for rank in 0..self.counts.len() {
            let (at, n, ty, part) = self.block(rank);
            // SAFETY: the block's elements stand there.
            unsafe { pack(on, from.wrapping_offset(at), n, ty, &mut packed[part])? };
        }
        Ok(Cow::Owned(packed))
    }

    /// Where all blocks are received.
    ///
    /// # Safety
    /// `to` is the beginning of a receive buffer that these blocks describe, which nothing else uses while the target lives.
    pub(crate) unsafe fn target<'a>(self, to: *mut c_void) -> Result<RaggedTarget<'a>, Stop> {
        let to = to.cast::<u8>();
        let bytes = match self.start {
            _ if self.total == 0 => Bytes::There(&mut []),
            Some(_) if to.is_null() => return Err(Stop::Pass(Reason::Arguments)),
            Some(start) => {
                let first = to.wrapping_offset(start);
                // SAFETY: the blocks tile these bytes, so all of them are the receive buffer's.
                Bytes::There(unsafe { std::slice::from_raw_parts_mut(first, self.total) })
            }
            None => Bytes::Packed(vec![0; self.total]),
        };
        Ok(RaggedTarget { bytes, to, ragged: self })
    }
}

/// Where blocks are received.
#[derive(Debug)]
pub(crate) struct RaggedTarget<'a> {
    bytes: Bytes<'a>,
    to: *mut u8,
    ragged: Ragged,
}

impl RaggedTarget<'_> {
    /// What is received into, and the blocks.
    pub(crate) fn split(&mut self) -> (&mut [u8], &Ragged) {
        (self.bytes.get(), &self.ragged)
    }

    /// Takes over what stands in the blocks of these ranks already.
    pub(crate) fn keep(&mut self, on: &On, ranks: std::ops::Range<usize>) -> Result<(), Stop> {
        let Bytes::Packed(packed) = &mut self.bytes else { return Ok(()) };
        for rank in ranks {
            let (at, n, ty, part) = self.ragged.block(rank);
            // SAFETY: the block's elements stand there.
            unsafe { pack(on, self.to.wrapping_offset(at), n, ty, &mut packed[part])? };
        }
        Ok(())
    }

    /// Puts what was received where it belongs: the blocks of all ranks but `without`, whose block did not move.
    pub(crate) fn finish(self, on: &On, without: Option<usize>) -> Result<(), Stop> {
        let Bytes::Packed(packed) = self.bytes else { return Ok(()) };
        for rank in (0..self.ragged.counts.len()).filter(|rank| Some(*rank) != without) {
            let (at, n, ty, part) = self.ragged.block(rank);
            // SAFETY: the block's elements belong there.
            unsafe { unpack(on, &packed[part], self.to.wrapping_offset(at), n, ty)? };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: Type = Type { handle: 1, size: 4, extent: 4, dense: true, class: None };

    fn ragged(counts: &[i32], displs: &[i32]) -> Ragged {
        // SAFETY: both lists have as many entries as there are counts.
        unsafe { Ragged::of_type(counts.len(), counts.as_ptr(), displs.as_ptr(), INT) }
            .ok()
            .unwrap_or_else(|| unreachable!())
    }

    #[test]
    fn only_blocks_that_tile_memory_stay_where_they_are() {
        let tiles = ragged(&[2, 0, 1, 3], &[-1, 99, 1, 2]);
        assert_eq!((tiles.start, tiles.parts().displs, tiles.total()), (Some(-4), &[0, 8, 8, 12][..], 24));
        let turned = ragged(&[1, 2, 0, 1], &[5, 3, 77, 2]);
        assert_eq!((turned.start, turned.parts().displs, turned.total()), (Some(8), &[12, 4, 12, 0][..], 16));
        for (counts, displs) in [(&[1, 1][..], &[0, 2][..]), (&[2, 1], &[0, 1]), (&[1, 1], &[0, 0])] {
            let copied = ragged(counts, displs);
            assert_eq!(copied.start, None, "{displs:?}: a gap, or an overlap");
            assert_eq!(copied.parts().displs[1], copied.counts()[0]);
        }
    }
}
