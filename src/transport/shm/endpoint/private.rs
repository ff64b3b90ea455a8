//! Puts from memory of this process alone, copied to a shared chunk for their readers.

use super::{Posted, Result, Shm, senseless};
use crate::transport::shm::bounce::Bounce;
use crate::transport::shm::ring::{self, Record};
use crate::transport::shm::segment;

impl Shm {
    /// Lets another peer read what was just copied for one: until the next poll the source is promised to be the same.
    pub(super) fn bounce_again(
        &mut self,
        peer: u32,
        of: (*const u8, usize),
        record: &Record,
    ) -> Result<Option<Posted>> {
        let Some(place) = self.place(peer) else { return Ok(None) };
        let (Some((number, bounce)), Some(p)) = (&mut self.bounce, &mut self.peers[place]) else {
            return Ok(None);
        };
        let Some(start) = bounce.copied((of.0.addr(), of.1)) else { return Ok(None) };
        let named =
            [u64::from(*number) << 32 | u64::from(segment::number(&bounce.file)), start as u64, of.1 as u64];
        if !p.writer.push(record, &[(named.as_ptr().cast(), ring::SEGMENT)]).map_err(|_| senseless(peer))? {
            return Ok(Some(Posted::Again));
        }
        bounce.also(place, p.writer.head());
        Ok(Some(Posted::Yes))
    }

    /// Where `len` bytes may be copied for their reader, if there is room.
    pub(super) fn bounce_room(&mut self, len: usize) -> Option<usize> {
        let Some((_, bounce)) = &mut self.bounce else {
            let made = Bounce::new().map_err(|e| tracing::debug!("no chunk for plain memory: {e}")).ok()?;
            let number = self.memory.number();
            return self.bounce.insert((number, made)).1.room(len);
        };
        let peers = &mut self.peers;
        bounce.give_back(|place| peers[place].as_mut()?.writer.tail().ok());
        bounce.room(len)
    }

    /// Copies the pieces to `start` of the chunk for `peer` to read.
    ///
    /// # Safety
    /// All pieces can be read, and [`Shm::bounce_room`] just gave `start` for as many bytes.
    pub(super) unsafe fn bounce(
        &mut self,
        peer: u32,
        pieces: &[(*const u8, usize)],
        start: usize,
        record: Record,
    ) -> Result<Posted> {
        let Some(place) = self.place(peer) else { return Ok(Posted::Again) };
        let (Some((number, bounce)), Some(p)) = (&mut self.bounce, &mut self.peers[place]) else {
            return Ok(Posted::Again);
        };
        let total: usize = pieces.iter().map(|p| p.1).sum();
        let fd = segment::number(&bounce.file);
        let named = [u64::from(*number) << 32 | u64::from(fd), start as u64, total as u64];
        if !p.writer.has_room_for(ring::FIXED + ring::SEGMENT).map_err(|_| senseless(peer))? {
            return Ok(Posted::Again);
        }
        let mut at = start;
        for (from, len) in pieces {
            // SAFETY: there is room for all (the caller's promise).
            unsafe { bounce.write(at, *from, *len) };
            at += len;
        }
        let list = (named.as_ptr().cast(), ring::SEGMENT);
        if !p.writer.push(&record, &[list]).map_err(|_| senseless(peer))? {
            return Ok(Posted::Again);
        }
        let of = if let [(from, len)] = pieces { Some((from.addr(), *len)) } else { None };
        bounce.take(total, place, p.writer.head(), of);
        Ok(Posted::Yes)
    }
}
