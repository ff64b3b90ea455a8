//! Blocks of different lengths at places of their own: what the `v` and `w` operations pass as lists.
//!
//! Displacements may differ from rank to rank. Blocks that tile a piece of memory, in any order, are used where they lie; any others are
//! copied: no slice covers bytes between blocks, which are not the call's.

use crate::buffers::{Bytes, pack, unpack};
use crate::call::Call;
use crate::on::On;
use crate::report::Reason;
use crate::stop::{Stop, count};
use crate::types::Type;
use circulant::comm::Local;
use std::borrow::Cow;
use std::ffi::c_void;

/// The block of one rank.
#[derive(Clone, Copy, Debug)]
struct Block {
    count: usize,
    ty: Type,
    /// From the beginning of the buffer, in bytes.
    at: isize,
    bytes: usize,
}

/// The blocks of all ranks.
#[derive(Debug)]
pub(crate) struct Ragged {
    blocks: Vec<Block>,
    /// Bytes of each.
    counts: Vec<usize>,
    /// Where each stands in what is sent or received, in bytes.
    places: Vec<usize>,
    total: usize,
    /// Where the memory begins that they tile, from the beginning of the buffer; nothing: they are copied.
    start: Option<isize>,
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
        let block = |i| {
            // SAFETY: the caller's.
            let (n, displ) = unsafe { (counts.add(i).read_unaligned(), displs.add(i).read_unaligned()) };
            let at = displ.try_into().ok().and_then(|d: isize| d.checked_mul(ty.extent));
            Self::block(count(n)?, ty, at)
        };
        Self::new((0..ranks).map(block).collect::<Result<_, _>>()?)
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
        let block = |i| {
            // SAFETY: the caller's.
            let (n, displ, ty) = unsafe {
                let ty = call.datatype(call.abi.handle_at(types, i))?;
                (counts.add(i).read_unaligned(), displs.add(i).read_unaligned(), ty)
            };
            Self::block(count(n)?, ty, displ.try_into().ok())
        };
        Self::new((0..ranks).map(block).collect::<Result<_, _>>()?)
    }

    fn block(count: usize, ty: Type, at: Option<isize>) -> Result<Block, Stop> {
        let bytes = ty.bytes(count)?;
        // Where nothing goes does not matter.
        let at = if bytes == 0 { 0 } else { at.ok_or(Stop::Pass(Reason::Arguments))? };
        Ok(Block { count, ty, at, bytes })
    }

    fn new(blocks: Vec<Block>) -> Result<Self, Stop> {
        let counts: Vec<usize> = blocks.iter().map(|b| b.bytes).collect();
        let total = counts.iter().try_fold(0usize, |sum, n| sum.checked_add(*n));
        let total = total.filter(|n| isize::try_from(*n).is_ok()).ok_or(Stop::Pass(Reason::Arguments))?;
        let start = tiled(&blocks);
        let places = match start {
            Some(start) => {
                blocks.iter().map(|b| if b.bytes == 0 { 0 } else { b.at.abs_diff(start) }).collect()
            }
            None => {
                let next = |end: &mut usize, n: &usize| Some(std::mem::replace(end, *end + n));
                counts.iter().scan(0, next).collect()
            }
        };
        Ok(Self { blocks, counts, places, total, start })
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
        for (block, place) in self.blocks.iter().zip(&self.places) {
            let part = &mut packed[*place..*place + block.bytes];
            // SAFETY: the block's elements stand there.
            unsafe { pack(on, from.wrapping_offset(block.at), block.count, &block.ty, part)? };
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

/// Where the memory begins that dense blocks tile, if they do.
fn tiled(blocks: &[Block]) -> Option<isize> {
    let mut full: Vec<&Block> = blocks.iter().filter(|b| b.bytes > 0).collect();
    full.sort_by_key(|b| b.at);
    if !full.iter().all(|b| b.ty.dense) {
        return None;
    }
    let mut end = full.first().map_or(0, |b| b.at);
    for block in &full {
        if block.at != end {
            return None;
        }
        end = end.checked_add(isize::try_from(block.bytes).ok()?)?;
    }
    Some(full.first().map_or(0, |b| b.at))
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
        for (block, place) in
            self.ragged.blocks.iter().zip(&self.ragged.places).take(ranks.end).skip(ranks.start)
        {
            let part = &mut packed[*place..*place + block.bytes];
            // SAFETY: the block's elements stand there.
            unsafe { pack(on, self.to.wrapping_offset(block.at), block.count, &block.ty, part)? };
        }
        Ok(())
    }

    /// Puts what was received where it belongs: the blocks of all ranks but `without`, whose block did not move.
    pub(crate) fn finish(self, on: &On, without: Option<usize>) -> Result<(), Stop> {
        let Bytes::Packed(packed) = self.bytes else { return Ok(()) };
        for (rank, (block, place)) in self.ragged.blocks.iter().zip(&self.ragged.places).enumerate() {
            if Some(rank) == without {
                continue;
            }
            let part = &packed[*place..*place + block.bytes];
            // SAFETY: the block's elements belong there.
            unsafe { unpack(on, part, self.to.wrapping_offset(block.at), block.count, &block.ty)? };
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
        assert_eq!((tiles.start, tiles.parts().displs, tiles.total()), (Some(-4), &[0, 0, 8, 12][..], 24));
        let turned = ragged(&[1, 2, 0, 1], &[5, 3, 77, 2]);
        assert_eq!((turned.start, turned.parts().displs, turned.total()), (Some(8), &[12, 4, 0, 0][..], 16));
        for (counts, displs) in [(&[1, 1][..], &[0, 2][..]), (&[2, 1], &[0, 1]), (&[1, 1], &[0, 0])] {
            let copied = ragged(counts, displs);
            assert_eq!(copied.start, None, "{displs:?}: a gap, or an overlap");
            assert_eq!(copied.parts().displs[1], copied.counts()[0]);
        }
    }
}
