//! Puts from memory of this process alone, on their way to their readers part by part.

use super::ring::Record;
use crate::transport::Source;
use std::collections::VecDeque;

/// The most segments of one put. Chosen, as libfabric's (`fabric/limits.rs`).
pub(super) const MAX_GATHER: usize = 16;

/// A reader of what is put.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamReader {
    /// Its index among the node-local ranks.
    pub(super) local: usize,
    pub(super) record: Record,
    pub(super) token: u64,
}

/// The same bytes for one or several readers. They are promised to be there until all its puts are done.
#[derive(Debug)]
pub(super) struct Stream {
    /// Address and length, in order.
    pub(super) pieces: Vec<(usize, usize)>,
    pub(super) readers: Vec<StreamReader>,
    pub(super) total: usize,
    /// So much of it is on its way: none while readers may join.
    pub(super) sent: usize,
}

impl Stream {
    /// The pieces of memory that hold `len` bytes from `sent` on.
    pub(super) fn part(&self, len: usize) -> impl Iterator<Item = (usize, usize)> {
        let (mut skip, mut left) = (self.sent, len);
        self.pieces.iter().filter_map(move |&(at, n)| {
            let begin = skip.min(n);
            skip -= begin;
            let n = (n - begin).min(left);
            left -= n;
            (n > 0).then_some((at + begin, n))
        })
    }
}

/// All that are under way.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) queue: VecDeque<Stream>,
    /// Those that were, to be used again.
    spare: Vec<Stream>,
    /// By index among the node-local ranks: it reads a stream. Records of other puts would come between its parts.
    busy: Vec<bool>,
}

impl Streams {
    pub(super) fn new(ranks: usize) -> Self {
        Self { queue: VecDeque::new(), spare: Vec::new(), busy: vec![false; ranks] }
    }

    pub(super) fn busy(&self, local: usize) -> bool {
        self.busy.get(local).copied().unwrap_or(false)
    }

    /// Puts the sources, `total` bytes, to one more reader, which is not busy.
    pub(super) fn add(&mut self, sources: &[Source], total: usize, reader: StreamReader) {
        let pieces = || sources.iter().filter(|s| s.len > 0).map(|s| (s.ptr.expose_provenance(), s.len));
        let same = |s: &Stream| s.sent == 0 && s.pieces.iter().copied().eq(pieces());
        self.busy[reader.local] = true;
        if let Some(stream) = self.queue.iter_mut().rev().find(|s| same(s)) {
            return stream.readers.push(reader);
        }
        let mut stream = self.spare.pop().unwrap_or_else(|| Stream {
            pieces: Vec::with_capacity(MAX_GATHER),
            readers: Vec::new(),
            total: 0,
            sent: 0,
        });
        (stream.total, stream.sent) = (total, 0);
        stream.pieces.extend(pieces());
        stream.readers.push(reader);
        self.queue.push_back(stream);
    }

    /// One reader less.
    pub(super) fn leave(&mut self, local: usize) {
        self.busy[local] = false;
    }

    /// Takes a stream back that is at its end.
    pub(super) fn end(&mut self, mut stream: Stream) {
        for reader in stream.readers.drain(..) {
            self.busy[reader.local] = false;
        }
        stream.pieces.clear();
        self.spare.push(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_pieces_are_all_of_them_in_order() {
        let pieces = vec![(1000, 5), (2000, 1), (3000, 300), (4000, 7)];
        let bytes: Vec<usize> = pieces.iter().flat_map(|&(at, n)| at..at + n).collect();
        for part in 1..320 {
            let mut stream = Stream { pieces: pieces.clone(), readers: vec![], total: bytes.len(), sent: 0 };
            let mut seen = Vec::new();
            while stream.sent < stream.total {
                let n = part.min(stream.total - stream.sent);
                seen.extend(stream.part(n).flat_map(|(at, n)| at..at + n));
                stream.sent += n;
                assert_eq!(seen.len(), stream.sent);
            }
            assert_eq!(seen, bytes, "in parts of {part}");
        }
    }
}
