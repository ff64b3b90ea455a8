//! Puts from memory of this process alone: copied to a shared chunk for their readers.

use super::Shm;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::memfd;
use crate::transport::shm::bounce::{Bounce, MAX_PART_BYTES};
use crate::transport::shm::doorbell::For;
use crate::transport::shm::registrations::BOUNCE;
use crate::transport::shm::ring::{self, Kind, Record};
use crate::transport::shm::segment;
use crate::transport::shm::stream::{Stream, StreamReader};
use crate::transport::{Sink, Source};

/// Bytes that are copied to the bounce chunk in one poll: what it holds.
const STREAM_SHARE_BYTES: usize = 16 * MAX_PART_BYTES;

impl Shm {
    /// Puts the sources, `total` bytes of this process's memory, to a rank that reads no other such put.
    pub(super) fn put_private(
        &mut self,
        sources: &[Source],
        total: usize,
        reader: StreamReader,
    ) -> Result<()> {
        if self.bounce.is_none() {
            let apart = self.pauses.spins;
            let made = Bounce::new(self.address.nonce, self.locals.len(), apart).map_err(|e| {
                Error::new(ErrorKind::System, format!("no memory to share for puts from plain memory: {e}"))
                    .over("shm")
                    .help(memfd::remedy(&e))
            })?;
            self.bounce = Some(made);
        }
        self.streams.add(sources, total, reader);
        Ok(())
    }

    /// Sends the streams on, as far as there is room.
    pub(super) fn advance(&mut self, sink: &mut dyn Sink) -> usize {
        let (mut left, mut happened) = (STREAM_SHARE_BYTES, 0);
        for _ in 0..self.streams.queue.len() {
            let Some(mut stream) = self.streams.queue.pop_front() else { break };
            let before = left;
            let ended = left > 0 && self.feed(&mut stream, &mut left, sink);
            happened += usize::from(ended || left < before);
            match ended {
                true => self.streams.end(stream),
                false => self.streams.queue.push_back(stream),
            }
        }
        happened
    }

    /// Sends one stream on for a turn; whether that was the end of it.
    fn feed(&mut self, stream: &mut Stream, left: &mut usize, sink: &mut dyn Sink) -> bool {
        // That a reader is gone is reported elsewhere; the others go on.
        stream.readers.retain(|r| {
            let here = self.peers[r.local].as_ref().is_some_and(|p| !p.lost && !p.segment.closed());
            if !here {
                self.streams.leave(r.local);
            }
            here
        });
        while *left > 0 && stream.sent < stream.total && !stream.readers.is_empty() {
            // A reader with a core of its own reads one part while we copy the next; else longer parts need fewer records.
            let part = if self.pauses.spins { MAX_PART_BYTES / 2 } else { MAX_PART_BYTES };
            let n = part.min(stream.total - stream.sent);
            match self.part(stream, n) {
                Ok(true) => *left = left.saturating_sub(n),
                Ok(false) => return false,
                Err(local) => {
                    self.lose(local, "what it wrote to shared memory makes no sense", sink);
                    return false;
                }
            }
        }
        let ended = stream.sent == stream.total || stream.readers.is_empty();
        if ended {
            stream.readers.iter().for_each(|r| sink.done(r.token));
        }
        ended
    }

    /// Copies the next `n` bytes, if there is room, and writes a record to all readers; or gives a peer that wrote nonsense.
    fn part(&mut self, stream: &mut Stream, n: usize) -> std::result::Result<bool, usize> {
        for r in &stream.readers {
            let Some(p) = &mut self.peers[r.local] else { return Err(r.local) };
            if !p.writer.has_room_for(ring::FIXED + 2 * ring::SEGMENT).map_err(|_| r.local)? {
                self.wake(r.local, For::Records);
                return Ok(false);
            }
        }
        let Some(start) = self.bounce_room(n, stream.readers.len()) else { return Ok(false) };
        let Some(bounce) = &mut self.bounce else { return Ok(false) };
        let mut at = start;
        for (from, len) in stream.part(n) {
            // SAFETY: a piece of memory that is promised to be there until the put is done (`Transport::put`), which no
            // reader was told yet; there is room for `n` bytes, which is what the pieces are.
            unsafe { bounce.write(at, std::ptr::with_exposed_provenance(from), len) };
            at += len;
        }
        let fd = segment::number(&bounce.file);
        let list = [
            [u64::from(BOUNCE) << 32 | u64::from(fd), start as u64, n as u64],
            [stream.sent as u64, stream.total as u64, 0],
        ];
        let body = [(list.as_ptr().cast(), 2 * ring::SEGMENT)];
        let mut first = true;
        for r in &stream.readers {
            let Some(p) = &mut self.peers[r.local] else { return Err(r.local) };
            let record = Record { kind: Kind::Part, segments: 2, ..r.record };
            // There was room (above).
            p.writer.push(&record, &body).map_err(|_| r.local)?;
            match std::mem::take(&mut first) {
                true => bounce.take(n, r.local, p.writer.head()),
                false => bounce.also(r.local, p.writer.head()),
            }
        }
        stream.readers.iter().for_each(|r| self.wake(r.local, For::Records));
        stream.sent += n;
        Ok(true)
    }

    /// Where `len` bytes may be copied for their readers, if there is room.
    fn bounce_room(&mut self, len: usize, readers: usize) -> Option<usize> {
        let bounce = self.bounce.as_mut()?;
        let peers = &mut self.peers;
        bounce.give_back(|local| {
            let peer = peers[local].as_mut()?;
            // A peer that has closed reads no more, nor does one that is gone, so its pieces are free.
            if peer.lost || peer.segment.closed() { Some(u64::MAX) } else { peer.writer.tail().ok() }
        });
        bounce.room(len, readers)
    }
}
