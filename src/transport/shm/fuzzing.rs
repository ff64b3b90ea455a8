//! Rings and addresses from elsewhere, for fuzz targets.

use super::inbound::{Inbound, ReadContext, Scratch, TargetRecency};
use super::registrations::Registrations;
use super::ring::{self, Kind, Reader, SEGMENT};
use super::segment::Address;
use crate::transport::{Access, Sink};
use std::sync::atomic::{AtomicU8, Ordering};

/// An address is refused, or is what its bytes say.
pub fn fuzz_address(bytes: &[u8]) {
    if let Some(address) = Address::decode(bytes) {
        assert_eq!(address.encode().as_slice(), bytes);
    }
}

/// Bytes of the ring that is fuzzed. Chosen: short, so that records reach its end.
const CAPACITY: usize = 1024;

/// Aligned as rings are.
#[repr(align(64))]
struct Space([AtomicU8; ring::footprint(CAPACITY)]);

struct Nothing;

impl Sink for Nothing {
    fn arrival(&mut self, _word: u32) {}
    fn done(&mut self, _token: u64) {}
    fn message(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= CAPACITY);
    }
    fn lost(&mut self, _peer: Option<u32>, _why: &str) {}
}

/// A ring of these bytes, whose writer goes on changing them while they are read: by the second half of `bytes`, each three of
/// which say where and what. Every record lies in the ring, or the reader finds out, and nothing lands outside of what is
/// registered.
pub fn fuzz_ring(bytes: &[u8]) {
    let (first, changes) = bytes.split_at(bytes.len() / 2);
    let space = Space(std::array::from_fn(|i| AtomicU8::new(first.get(i).copied().unwrap_or(0))));
    let mut target = vec![0u8; 256];
    let mut memory = Registrations::default();
    let Ok((_, remote)) = memory.register(target.as_mut_ptr(), target.len(), Access::Target, None, None)
    else {
        return;
    };
    let base = space.0.as_ptr().cast_mut().cast::<u8>();
    // SAFETY: the space has that length and alignment, and outlives the readers; the bytes are atomics, so they may change.
    let rings = [(); 2].map(|()| unsafe { ring::RingMemory::new(base, CAPACITY) });
    // A record of the right shape now and then, where it will be read first: its key and address.
    for (at, word) in [(ring::footprint(0) + 16, remote.key), (ring::footprint(0) + 24, remote.base)] {
        if first.len() % 2 == 0 {
            word.to_le_bytes()
                .iter()
                .enumerate()
                .for_each(|(i, b)| space.0[at + i].store(*b, Ordering::Relaxed));
        }
    }
    std::thread::scope(|s| {
        s.spawn(|| {
            for change in changes.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % space.0.len();
                space.0[at].store(change[2], Ordering::Relaxed);
            }
        });
        let mut reader = Reader::new(rings[0]);
        let mut body = vec![0; CAPACITY];
        for _ in 0..64 {
            let Ok(Some(record)) = reader.next() else { break };
            let len = if matches!(record.kind, Kind::Fetch | Kind::Part) {
                record.segments * SEGMENT
            } else {
                record.len
            };
            assert!(len <= CAPACITY);
            // SAFETY: the vector has that length.
            assert!(unsafe { reader.body(&record, 0, body.as_mut_ptr(), len) }.is_ok());
            reader.take();
        }
        let mut inbound = Inbound::new(Reader::new(rings[1]));
        let (mut scratch, mut recency) = (Scratch::new(), TargetRecency::default());
        for _ in 0..64 {
            let mut context = ReadContext {
                registrations: &memory,
                scratch: &mut scratch,
                left: 1 << 20,
                hurry: true,
                recency: &mut recency,
            };
            inbound.step(&mut context, None, &mut Nothing);
            if inbound.broken {
                break;
            }
        }
    });
    drop(memory);
}
