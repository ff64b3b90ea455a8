//! Rings in memory of this process; some of the writers misbehave.

use super::Random;
use crate::transport::shm::ring::{self, Corrupt, FIXED, Kind, Reader, Record, RingMemory, SEGMENT, Writer};
use memmap2::{MmapMut, MmapRaw};

const CAPACITY: usize = 4096;

/// A ring in memory of its own.
pub(super) fn memory() -> (MmapRaw, RingMemory) {
    let map = MmapRaw::from(MmapMut::map_anon(ring::footprint(CAPACITY)).unwrap());
    // SAFETY: the caller keeps the mapping, whose heap address stays, as long as the ring; tests have one of each end.
    let ring = unsafe { RingMemory::new(map.as_mut_ptr(), CAPACITY) };
    (map, ring)
}

/// Writes at byte `at`, as a peer could.
fn write<T: Copy>(map: &MmapRaw, at: usize, value: T) {
    assert!(at + size_of::<T>() <= map.len());
    // SAFETY: inside the mapping, where no slice is.
    unsafe { map.as_mut_ptr().add(at).cast::<T>().write_unaligned(value) };
}

pub(super) fn record(kind: Kind, len: usize) -> Record {
    Record { kind, segments: 0, len, word: 7, key: 8, address: 9 }
}

#[test]
fn records_come_out_as_they_went_in_also_round_the_end() {
    let mut random = Random::new();
    let (_map, ring) = memory();
    let (mut writer, mut reader) = (Writer::new(ring), Reader::new(ring));
    let mut inside = std::collections::VecDeque::new();
    let (mut refused, mut total) = (0, 0);
    for i in 0..if cfg!(miri) { 300 } else { 20_000u32 } {
        let most = ring::longest(CAPACITY) - FIXED;
        let n = if i % 50 == 0 { most } else { random.below(300) };
        let bytes = random.bytes(n);
        let kind = if random.below(2) == 0 { Kind::Message } else { Kind::Inline };
        let sent = Record { word: i, key: u64::from(i) << 40, address: !u64::from(i), ..record(kind, n) };
        let (a, b) = bytes.split_at(n / 3);
        match writer.push(&sent, &[(a.as_ptr(), a.len()), (b.as_ptr(), b.len())]).unwrap() {
            true => inside.push_back((sent, bytes)),
            false => refused += 1,
        }
        while inside.len() > random.below(12) {
            let (sent, bytes) = inside.pop_front().unwrap();
            let got = reader.next().unwrap().unwrap();
            assert_eq!((got.kind, got.len), (sent.kind, sent.len));
            if got.kind == Kind::Inline {
                assert_eq!(got, sent);
            }
            let mut body = vec![0; got.len];
            // SAFETY: the vector has that length.
            unsafe { reader.body(&got, 0, body.as_mut_ptr(), body.len()).unwrap() };
            assert_eq!(body, bytes);
            reader.take();
            total += 1;
        }
    }
    assert!(refused > 0 && total > 100, "{refused} {total}");
}

#[test]
fn a_full_ring_refuses_and_recovers() {
    let (_map, ring) = memory();
    let (mut writer, mut reader) = (Writer::new(ring), Reader::new(ring));
    let bytes = [5u8; 100];
    let push = |w: &mut Writer| w.push(&record(Kind::Message, 100), &[(bytes.as_ptr(), 100)]).unwrap();
    let mut count = 0;
    while push(&mut writer) {
        count += 1;
    }
    assert!(count > CAPACITY / 200 && !push(&mut writer));
    assert!(reader.next().unwrap().is_some());
    assert!(!push(&mut writer), "not taken yet");
    reader.take();
    assert!(push(&mut writer));
    let mut rest = 0;
    while reader.next().unwrap().is_some() {
        reader.take();
        rest += 1;
    }
    assert_eq!(rest, count);
    let tail = writer.tail().unwrap();
    assert_eq!(tail, writer.head());
    let long = vec![0u8; CAPACITY];
    assert!(!writer.push(&record(Kind::Message, CAPACITY), &[(long.as_ptr(), CAPACITY)]).unwrap());
}

/// Whatever stands in a ring, its reader gives a record whose bytes are all inside, or says that it is corrupt.
#[test]
fn nonsense_is_found_out() {
    let mut random = Random::new();
    let (mut corrupt, mut fine) = (0, 0);
    for _ in 0..if cfg!(miri) { 300 } else { 20_000 } {
        let (map, ring) = memory();
        let mut writer = Writer::new(ring);
        let bytes = random.bytes(200);
        for n in [8, 200, 64] {
            assert!(writer.push(&record(Kind::Inline, n), &[(bytes.as_ptr(), n)]).unwrap());
        }
        for _ in 0..1 + random.below(4) {
            // Among the counts or among the records.
            let at = if random.below(4) == 0 { random.below(16) } else { 256 + random.below(400) };
            write(&map, at, random.bytes(1)[0]);
        }
        let mut reader = Reader::new(ring);
        loop {
            match reader.next() {
                Ok(Some(r)) => {
                    // Of these two the bytes themselves lie elsewhere.
                    let apart = matches!(r.kind, Kind::Fetch | Kind::Part);
                    let n = if apart { r.segments * SEGMENT } else { r.len };
                    let mut body = vec![0u8; n];
                    // SAFETY: the vector has that length.
                    assert!(unsafe { reader.body(&r, 0, body.as_mut_ptr(), n) }.is_ok());
                    // SAFETY: nothing is written when it is refused, which is what is asked here.
                    assert!(unsafe { reader.body(&r, usize::MAX - 8, body.as_mut_ptr(), n) }.is_err());
                    reader.take();
                    fine += 1;
                }
                Ok(None) => break,
                Err(Corrupt) => {
                    corrupt += 1;
                    break;
                }
            }
        }
    }
    assert!(corrupt > 10 && fine > 100, "{corrupt} {fine}");
}

#[test]
fn a_tail_that_makes_no_sense_is_found_out() {
    let (map, ring) = memory();
    let mut writer = Writer::new(ring);
    assert!(writer.push(&record(Kind::Message, 0), &[]).unwrap());
    write(&map, 128, u64::MAX);
    assert_eq!(writer.tail(), Err(Corrupt));
    let long = [0u8; 1900];
    assert_eq!(
        (0..4).try_for_each(|_| {
            writer.push(&record(Kind::Message, 1900), &[(long.as_ptr(), 1900)]).map(|_| ())
        }),
        Err(Corrupt)
    );
}

/// Every size, kind and length that a header can say near the borders of what is there: the reader gives a record that lies
/// in the ring, or finds out.
#[test]
#[cfg_attr(miri, ignore = "many rings, one after the other")]
fn headers_near_the_borders() {
    let edges = [0u32, 1, 7, 8, 15, 16, 24, 31, 32, 33, 40, 48, 56, 64, 72, 1 << 31, u32::MAX];
    let (mut fine, mut corrupt) = (0, 0);
    for head in [8u64, 16, 40, 64] {
        for kind in 0..8u8 {
            for segments in [0u8, 1, 2, 255] {
                for size in edges {
                    for len in edges {
                        let (map, ring) = memory();
                        let first = u64::from(size) << 32 | u64::from(segments) << 8 | u64::from(kind);
                        let words = [(0, head), (256, first), (264, u64::from(len) << 32)];
                        words.iter().for_each(|(at, word)| write(&map, *at, *word));
                        match Reader::new(ring).next() {
                            Ok(Some(r)) => {
                                let counted = matches!(r.kind, Kind::Fetch | Kind::Part);
                                let body = if counted { r.segments * SEGMENT } else { r.len };
                                let fixed =
                                    if matches!(r.kind, Kind::Hello | Kind::Message) { 16 } else { FIXED };
                                assert!(u64::from(size) <= head && body + fixed <= size.try_into().unwrap());
                                fine += 1;
                            }
                            Ok(None) => {}
                            Err(Corrupt) => corrupt += 1,
                        }
                    }
                }
            }
        }
    }
    assert!(fine > 900 && corrupt > 1000, "{fine} {corrupt}");
}

/// A ring of which the first page has memory: the records come out as they went in, and nothing is written or read beyond.
#[test]
fn a_ring_stays_in_its_first_page() {
    const WHOLE: usize = 16 << 10;
    let mut random = Random::new();
    let map = MmapRaw::from(MmapMut::map_anon(ring::footprint(WHOLE)).unwrap());
    // SAFETY: the mapping outlives both ends, of which there is one each.
    let ring = unsafe { RingMemory::new(map.as_mut_ptr(), WHOLE) };
    let (mut writer, mut reader) = (Writer::in_first_page(ring), Reader::new(ring));
    let mut inside = std::collections::VecDeque::new();
    let (mut refused, mut sent) = (0, 0u32);
    while sent < if cfg!(miri) { 100 } else { 20_000 } {
        // What is refused is sent again, as the engine does.
        let n = if sent % 50 == 0 { 3500 } else { random.below(400) };
        let bytes = random.bytes(n);
        for turn in 0.. {
            let body = [(bytes.as_ptr(), n)];
            if writer.push(&Record { word: sent, ..record(Kind::Inline, n) }, &body).unwrap() {
                break;
            }
            refused += 1;
            assert!(turn < 100, "a ring that is read takes what it refused");
            take(&mut reader, &mut inside, 1);
        }
        inside.push_back((sent, bytes));
        sent += 1;
        let keep = random.below(8);
        let many = inside.len().saturating_sub(keep);
        take(&mut reader, &mut inside, many);
    }
    assert!(refused > 0);
    // SAFETY: inside the mapping, and no end is used meanwhile.
    let beyond = unsafe {
        std::slice::from_raw_parts(map.as_ptr().add(ring::PAGE_BYTES), map.len() - ring::PAGE_BYTES)
    };
    assert!(beyond.iter().all(|byte| *byte == 0));
    assert!(writer.lacks_memory_for(8000) && !writer.lacks_memory_for(3700));
    let long = random.bytes(8000);
    assert!(!writer.push(&record(Kind::Message, 8000), &[(long.as_ptr(), 8000)]).unwrap());
    writer.has_all_memory();
    take(&mut reader, &mut inside, usize::MAX);
    assert!(writer.push(&record(Kind::Message, 8000), &[(long.as_ptr(), 8000)]).unwrap());
    assert_eq!(reader.next().unwrap().unwrap().len, 8000);
}

/// Reads up to `many` records, which are the first of `inside`.
fn take(reader: &mut Reader, inside: &mut std::collections::VecDeque<(u32, Vec<u8>)>, many: usize) {
    for _ in 0..many {
        let Some(got) = reader.next().unwrap() else { break };
        let (word, bytes) = inside.pop_front().unwrap();
        let mut body = vec![0; got.len];
        // SAFETY: the vector has that length.
        unsafe { reader.body(&got, 0, body.as_mut_ptr(), body.len()).unwrap() };
        assert!(got.word == word && body == bytes);
        reader.take();
    }
}
