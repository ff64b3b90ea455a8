//! Rings and endpoints of one process, on real shared memory; some of the peers misbehave.

use super::ring::{self, Corrupt, FIXED, Kind, Memory, Reader, Record, SEGMENT, Writer};
use super::{Options, Shm};
use crate::transport::{Access, MESSAGE_MAX, Posted, Registration, Remote, Sink, Source, Taking, Transport};
use memmap2::{MmapMut, MmapOptions};

/// Small, and the same for the same seed, which is printed.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = match std::env::var("CIRCULANT_TEST_SEED") {
            Ok(text) => text.parse().unwrap(),
            Err(_) => u64::from(now.subsec_nanos()) << 20 | 1,
        };
        println!("seed {seed} (CIRCULANT_TEST_SEED)");
        Self(seed)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % n
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }
}

const CAPACITY: usize = 4096;

/// A ring in memory of its own.
fn memory() -> (MmapMut, Memory) {
    let mut map = MmapMut::map_anon(ring::footprint(CAPACITY)).unwrap();
    // SAFETY: the caller keeps the mapping, whose heap address stays, as long as the ring; tests have one of each end.
    let ring = unsafe { Memory::new(map.as_mut_ptr(), CAPACITY) };
    (map, ring)
}

fn record(kind: Kind, len: usize) -> Record {
    Record { kind, segments: 0, len, word: 7, key: 8, address: 9 }
}

#[test]
fn records_come_out_as_they_went_in_also_round_the_end() {
    let mut random = Random::new();
    let (_map, ring) = memory();
    let (mut writer, mut reader) = (Writer::new(ring), Reader::new(ring));
    let mut inside = std::collections::VecDeque::new();
    let (mut refused, mut total) = (0, 0);
    for i in 0..20_000u32 {
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
    assert!(refused > 0 && total > 1000, "{refused} {total}");
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
    for _ in 0..20_000 {
        let (mut map, ring) = memory();
        let mut writer = Writer::new(ring);
        let bytes = random.bytes(200);
        for n in [8, 200, 64] {
            assert!(writer.push(&record(Kind::Inline, n), &[(bytes.as_ptr(), n)]).unwrap());
        }
        for _ in 0..1 + random.below(4) {
            // Among the counts or among the records.
            let at = if random.below(4) == 0 { random.below(16) } else { 256 + random.below(400) };
            map[at] = random.bytes(1)[0];
        }
        let mut reader = Reader::new(ring);
        loop {
            match reader.next() {
                Ok(Some(r)) => {
                    let n = if r.kind == Kind::Fetch { r.segments * SEGMENT } else { r.len };
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
    assert!(corrupt > 100 && fine > 100, "{corrupt} {fine}");
}

#[test]
fn a_tail_that_makes_no_sense_is_found_out() {
    let (mut map, ring) = memory();
    let mut writer = Writer::new(ring);
    assert!(writer.push(&record(Kind::Message, 0), &[]).unwrap());
    map[128..136].copy_from_slice(&u64::MAX.to_ne_bytes());
    assert_eq!(writer.tail(), Err(Corrupt));
    let long = [0u8; 1900];
    assert_eq!(
        (0..4).try_for_each(|_| {
            writer.push(&record(Kind::Message, 1900), &[(long.as_ptr(), 1900)]).map(|_| ())
        }),
        Err(Corrupt)
    );
}

// --- endpoints ---------------------------------------------------------------------------------------------------

#[derive(Default)]
struct Log {
    arrivals: Vec<u32>,
    done: Vec<u64>,
    messages: Vec<Vec<u8>>,
    lost: Vec<(Option<u32>, String)>,
    /// What becomes of puts, by their words: all others land.
    wanted: Vec<(u32, Taking)>,
    /// What was taken of them: word, offset and bytes.
    taken: Vec<(u32, u64, Vec<u8>)>,
}

impl Sink for Log {
    fn arrival(&mut self, word: u32) {
        self.arrivals.push(word);
    }
    fn taking(&mut self, word: u32, _len: u64) -> Taking {
        self.wanted.iter().find(|(w, _)| *w == word).map_or(Taking::Land, |(_, taking)| *taking)
    }
    fn take(&mut self, word: u32, offset: u64, bytes: &[u8]) {
        self.taken.push((word, offset, bytes.to_vec()));
    }
    fn done(&mut self, token: u64) {
        self.done.push(token);
    }
    fn message(&mut self, bytes: &[u8]) {
        self.messages.push(bytes.to_vec());
    }
    fn lost(&mut self, peer: Option<u32>, why: &str) {
        self.lost.push((peer, why.to_owned()));
    }
}

const LEN: usize = 4 << 20;

/// An endpoint with a shared chunk; dropped first, the endpoint is closed before the memory goes.
struct Rank {
    wire: Shm,
    log: Log,
    registration: Registration,
    remote: Remote,
    map: MmapMut,
}

impl Rank {
    fn source(&self, at: usize, len: usize) -> Source {
        Source { ptr: self.map.as_ptr().wrapping_add(at), len, registration: self.registration }
    }

    fn poll(&mut self) -> usize {
        self.wire.poll(&mut self.log).unwrap()
    }

    fn put(&mut self, peer: u32, sources: &[Source], to: Remote, word: u32) -> Posted {
        // SAFETY: the sources lie in the map, which outlives the endpoint's use, and are not written meanwhile.
        unsafe { self.wire.put(peer, sources, to.base, to.key, word, word.into()) }.unwrap()
    }
}

fn ranks(n: u32) -> Vec<Rank> {
    // Not from 0 and not all: those of one node.
    let mates: Vec<u32> = (0..n).map(|i| 10 + 3 * i).collect();
    let mut ranks: Vec<Rank> = mates.iter().map(|rank| open(*rank, &mates)).collect();
    let addresses: Vec<_> = ranks.iter().map(|r| r.wire.address()).collect();
    for rank in &mut ranks {
        for (mate, address) in mates.iter().zip(&addresses) {
            rank.wire.reach(*mate, address).unwrap();
            rank.wire.connect(*mate, address).unwrap();
            assert!(rank.wire.connect(*mate, address).is_err(), "twice");
        }
    }
    ranks
}

fn open(rank: u32, mates: &[u32]) -> Rank {
    let mut wire = Shm::open(&Options { rank, mates, wait: None }).unwrap();
    let (file, _) = wire.share(LEN).unwrap();
    // SAFETY: a file of our own, which cannot shrink.
    let mut map = unsafe { MmapOptions::new().map_mut(&file) }.unwrap();
    // SAFETY: the map lives until the endpoint is closed; references into it live between polls only.
    let (registration, remote) = unsafe { wire.register_shared(map.as_mut_ptr(), LEN, file) }.unwrap();
    Rank { wire, log: Log::default(), registration, remote, map }
}

#[test]
fn all_to_all_arrives_whole_and_is_said_to_be_done() {
    let mut random = Random::new();
    let mut ranks = ranks(4);
    const SLICE: usize = LEN / 8;
    for round in 0..30u32 {
        let sizes: Vec<usize> = (0..4)
            .map(|_| random.below(19))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|k| random.below(2 << k))
            .collect();
        for (i, rank) in ranks.iter_mut().enumerate() {
            let bytes = random.bytes(sizes[i]);
            rank.map[4 * SLICE..][..bytes.len()].copy_from_slice(&bytes);
            rank.log = Log::default();
        }
        for from in 0..4 {
            for to in 0..4 {
                let peer = 10 + 3 * u32::try_from(to).unwrap();
                let base = ranks[to].remote.base + (from * SLICE) as u64;
                let remote = Remote { base, ..ranks[to].remote };
                let half = sizes[from] / 2;
                let sources = [
                    ranks[from].source(4 * SLICE, half),
                    ranks[from].source(4 * SLICE + half, sizes[from] - half),
                ];
                assert_eq!(
                    ranks[from].put(peer, &sources, remote, round * 4 + u32::try_from(to).unwrap()),
                    Posted::Yes
                );
            }
        }
        for _ in 0..1000 {
            ranks.iter_mut().for_each(|r| _ = r.poll());
        }
        for to in 0..4 {
            assert_eq!(ranks[to].log.arrivals.len(), 4, "round {round}");
            assert_eq!(ranks[to].log.done.len(), 4);
            assert!(ranks[to].log.lost.is_empty(), "{:?}", ranks[to].log.lost);
            for from in 0..4 {
                let want = &ranks[from].map[4 * SLICE..][..sizes[from]];
                assert!(
                    &ranks[to].map[from * SLICE..][..sizes[from]] == want,
                    "round {round}, {from} to {to}"
                );
            }
        }
    }
}

/// Plain memory comes to several readers part by part: to one it lands, another takes it (in whole elements, or not at
/// all), one is slow, and one has gone.
#[test]
fn plain_memory_is_passed_on_in_parts() {
    for (element, len, cut) in [(8, 3 << 20, 1 << 20), (12, 1_200_000, 24), (24, 48_000, 1), (1, 300, 257)] {
        let mut ranks = ranks(5);
        let plain = Random::new().bytes(len);
        // SAFETY: the vector lives until the end and is only read.
        let (r, _) =
            unsafe { ranks[0].wire.register(plain.as_ptr().cast_mut(), len, Access::Source) }.unwrap();
        let source = |at: usize, n| Source { ptr: plain[at..].as_ptr(), len: n, registration: r };
        ranks[2].log.wanted = vec![(1, Taking::Pieces(element))];
        ranks[2].map.fill(3);
        for (to, peer) in [(1, 13), (2, 16), (3, 19), (4, 22)] {
            let remote = ranks[to].remote;
            let one = [source(0, len)];
            let two = [source(0, cut), source(cut, len - cut)];
            let sources = if to == 3 { &two[..] } else { &one[..] };
            assert_eq!(ranks[0].put(peer, sources, remote, 1), Posted::Yes);
            // The next one waits for its turn.
            let long = ranks[0].source(0, 4096);
            assert_eq!(ranks[0].put(peer, &[long], remote, 2), Posted::Again);
        }
        if len > 1 << 20 {
            // It has parts of the stream, and never reads them.
            ranks[0].poll();
        }
        ranks[4].wire.close().unwrap();
        for turn in 0..10_000 {
            if ranks[1..4].iter().all(|r| r.log.arrivals == [1]) && ranks[0].log.done.len() >= 3 {
                break;
            }
            let slow = turn % 7 == 0;
            ranks[..if slow { 4 } else { 3 }].iter_mut().for_each(|r| _ = r.poll());
        }
        assert_eq!(ranks[0].log.done[..3], [1, 1, 1], "{:?}", ranks[0].log.lost);
        for to in [1, 2, 3] {
            assert_eq!(ranks[to].log.arrivals, [1], "{to} {len}");
            // Where a part would end within an element, it lands.
            let taken: Vec<u8> = ranks[to].log.taken.iter().flat_map(|t| t.2.iter().copied()).collect();
            let there = if taken.is_empty() { &ranks[to].map[..len] } else { &taken[..] };
            assert!(there == plain, "{to} {len}");
            let takes = to == 2 && len > 256 && ((64 << 10) % element == 0 || len < 64 << 10);
            assert_eq!(!taken.is_empty(), takes, "{to} {len}");
            assert!(ranks[to].log.taken.iter().all(|t| t.2.len() % element == 0));
        }
        let (source, remote) = (ranks[0].source(0, 4096), ranks[1].remote);
        assert_eq!(ranks[0].put(13, &[source], remote, 2), Posted::Yes);
    }
}

/// Parts that do not follow each other, or are longer than the whole, are errors and no arrivals.
#[test]
fn wrong_parts_are_errors() {
    // What the second part says of itself: bytes, offset, total.
    for (n, offset, total) in [
        (4096u64, 4096u64, 8192u64),
        (4096, 0, 8192),
        (4096, 4095, 8192),
        (4096, u64::MAX, 8192),
        (4096, 4096, 8191),
        (4096, 4096, 0),
        (u64::MAX, 4096, 8192),
    ] {
        let mut ranks = ranks(2);
        let remote = ranks[1].remote;
        // Chunk 0 is known from here on.
        let source = ranks[0].source(0, 4096);
        assert_eq!(ranks[0].put(13, &[source], remote, 1), Posted::Yes);
        ranks[1].poll();
        ranks[1].map.fill(3);
        let (key, address) = (remote.key, remote.base);
        let record = Record { kind: Kind::Part, segments: 2, len: 0, word: 2, key, address };
        let writer = ranks[0].wire.writer_to(13);
        for list in [[[0, 0, 4096], [0, 8192, 0]], [[0, 0, n], [offset, total, 0]]] {
            assert!(writer.push(&record, &[(list.as_ptr().cast(), 2 * SEGMENT)]).unwrap());
        }
        for _ in 0..10 {
            ranks[1].poll();
        }
        let right = (n, offset, total) == (4096, 4096, 8192);
        assert_eq!(ranks[1].log.arrivals, [&[1][..], &[2][..right.into()]].concat(), "{n} {offset} {total}");
        assert_eq!(ranks[1].log.lost.is_empty(), right, "{n} {offset} {total}");
        let beyond = if right { 8192 } else { 4096 };
        assert!(ranks[1].map[beyond..].iter().all(|b| *b == 3), "{n} {offset} {total}");
    }
}

/// Bytes that are wanted come in order, in whole elements, and nothing lands.
#[test]
fn what_is_taken_does_not_land() {
    for (element, len) in [(1, 300), (8, 100_000), (12, 99_996), (24, 1_200_000)] {
        let mut ranks = ranks(2);
        let mut random = Random::new();
        let bytes = random.bytes(len);
        ranks[0].map[64..64 + len].copy_from_slice(&bytes);
        ranks[1].map.fill(3);
        ranks[1].log.wanted = vec![(1, Taking::Pieces(element))];
        let (source, remote) = (ranks[0].source(64, len), ranks[1].remote);
        assert_eq!(ranks[0].put(13, &[source], remote, 1), Posted::Yes);
        for _ in 0..100 {
            ranks.iter_mut().for_each(|r| _ = r.poll());
        }
        let log = &ranks[1].log;
        assert_eq!((&log.arrivals[..], &ranks[0].log.done[..]), (&[1][..], &[1][..]));
        let mut all: Vec<u8> = Vec::new();
        for (word, offset, piece) in &log.taken {
            assert_eq!((*word, *offset, piece.len() % element), (1, all.len() as u64, 0));
            all.extend(piece);
        }
        assert!(all == bytes, "{element} {len}");
        assert!(ranks[1].map.iter().all(|b| *b == 3), "{element} {len}");
    }
}

/// A put whose turn has not come waits, others pass it, and in the end it lands: there may be nothing else to wait for.
#[test]
fn what_is_wanted_later_waits_but_not_for_ever() {
    let mut ranks = ranks(3);
    ranks[2].log.wanted = vec![(1, Taking::Later)];
    let remote = ranks[2].remote;
    for (from, word) in [(0, 1), (0, 2), (1, 3)] {
        ranks[from].map.fill(4 + u8::try_from(from).unwrap());
        let to = Remote { base: remote.base + u64::from(word) * 4096, ..remote };
        let source = ranks[from].source(0, 4096);
        assert_eq!(ranks[from].put(16, &[source], to, word), Posted::Yes);
    }
    ranks[2].poll();
    assert_eq!(ranks[2].log.arrivals, [3], "the other ring goes on, and of one nothing is passed");
    for _ in 0..1000 {
        ranks[2].poll();
    }
    assert_eq!(ranks[2].log.arrivals, [3, 1, 2]);
    assert!(ranks[2].log.taken.is_empty() && ranks[2].map[4096..12_288].iter().all(|b| *b == 4));
    // And once it is its turn, it is taken.
    ranks[2].log.wanted = vec![(5, Taking::Later)];
    let source = ranks[0].source(0, 4096);
    assert_eq!(ranks[0].put(16, &[source], remote, 5), Posted::Yes);
    ranks[2].poll();
    ranks[2].log.wanted = vec![(5, Taking::Pieces(8))];
    ranks[2].poll();
    assert_eq!((ranks[2].log.arrivals.len(), ranks[2].log.taken.len()), (4, 1));
}

/// Of a peer that has closed nothing is handed over: it may change what it had put.
#[test]
fn nothing_is_taken_of_who_has_closed() {
    let mut ranks = ranks(2);
    ranks[1].log.wanted = vec![(1, Taking::Pieces(8))];
    let (source, remote) = (ranks[0].source(0, 1 << 20), ranks[1].remote);
    assert_eq!(ranks[0].put(13, &[source], remote, 1), Posted::Yes);
    ranks[1].poll();
    let before = ranks[1].log.taken.len();
    assert!(before > 0 && ranks[1].log.arrivals.is_empty(), "a share of it");
    ranks[0].wire.close().unwrap();
    for _ in 0..200 {
        ranks[1].poll();
    }
    assert_eq!((ranks[1].log.taken.len(), ranks[1].log.arrivals.len()), (before, 0));
}

/// One copy of plain memory serves all who are put to at once; who is put to after a poll gets what stands there then.
#[test]
fn one_copy_serves_several_readers() {
    let mut ranks = ranks(4);
    let mut plain = vec![9u8; 8_000];
    // SAFETY: the vector lives until the end, and is written only when all puts are done.
    let (r, _) = unsafe { ranks[0].wire.register(plain.as_mut_ptr(), plain.len(), Access::Source) }.unwrap();
    for round in 0..100u8 {
        plain.fill(round);
        let source = Source { ptr: plain.as_ptr(), len: plain.len(), registration: r };
        for (to, peer) in [(1, 13), (2, 16), (3, 19)] {
            let remote = ranks[to].remote;
            assert_eq!(ranks[0].put(peer, &[source], remote, round.into()), Posted::Yes);
        }
        while ranks[0].log.done.len() < 3 * (usize::from(round) + 1) {
            ranks[0].poll();
        }
        // It may change before anybody has read it.
        plain.fill(0xFF);
        let slowest = usize::from(round) % 3 + 1;
        for to in [slowest % 3 + 1, (slowest + 1) % 3 + 1, slowest] {
            while ranks[to].log.arrivals.len() <= round.into() {
                ranks[to].poll();
            }
        }
        for rank in &ranks[1..] {
            assert!(rank.map[..plain.len()].iter().all(|b| *b == round), "round {round}");
        }
    }
}

/// A put that was posted, but not read when its owner closed, does not count; what was said before the end does.
#[test]
fn what_is_read_after_the_close_does_not_count() {
    let mut ranks = ranks(2);
    let remote = ranks[1].remote;
    let source = ranks[0].source(0, 1 << 20);
    assert_eq!(ranks[0].put(13, &[source], remote, 1), Posted::Yes);
    assert_eq!(ranks[0].wire.message(13, b"sorry").unwrap(), Posted::Yes);
    ranks[0].wire.close().unwrap();
    for _ in 0..200 {
        ranks[1].poll();
    }
    let log = &ranks[1].log;
    assert_eq!((log.arrivals.len(), &log.messages[..]), (0, &[b"sorry".to_vec()][..]));
    assert_eq!(log.lost, [(Some(10), "it closed its endpoint".to_owned())]);
    let e = ranks[1].wire.message(10, b"x").unwrap_err();
    assert_eq!((e.kind(), e.peer()), (crate::ErrorKind::PeerLost, Some(10)));
}

/// What is said of a put, where it says that its bytes are, and where it goes.
type Wrong = (&'static str, [u64; 3], fn(Remote) -> (u64, u64));

/// What a peer of ours would have to be to write this is another question: it must not hurt.
#[test]
fn wrong_puts_are_errors_and_change_nothing() {
    let chunk = |number: u64, fd: u64| number << 32 | fd;
    let len = LEN as u64;
    let cases: &[Wrong] = &[
        ("not registered", [0, 0, 4096], |r| (r.key + 1, r.base)),
        ("not registered", [0, 0, 4096], |r| (r.key, r.base + LEN as u64 - 4095)),
        ("not registered", [0, 0, 4096], |r| (r.key, r.base - 1)),
        ("cannot be read", [chunk(1, 999_999), 0, 4096], |r| (r.key, r.base)),
        ("cannot be read", [chunk(1, 0), 0, 4096], |r| (r.key, r.base)),
        ("cannot be read", [chunk(70_000, 0), 0, 4096], |r| (r.key, r.base)),
        ("cannot be read", [chunk(0xFFFF_FFFF, 0), 4096, 4096], |r| (r.key, r.base)),
        ("cannot be read", [0, len - 1, 4096], |r| (r.key, r.base)),
        ("makes no sense", [0, u64::MAX, u64::MAX], |r| (r.key, r.base)),
    ];
    for (want, segment, to) in cases {
        let mut ranks = ranks(2);
        // Chunk 0 is known from here on.
        let source = ranks[0].source(0, 1 << 16);
        let remote = ranks[1].remote;
        assert_eq!(ranks[0].put(13, &[source], remote, 1), Posted::Yes);
        ranks[1].poll();
        assert_eq!(ranks[1].log.arrivals, [1]);
        ranks[1].map.fill(3);
        let (key, address) = to(ranks[1].remote);
        let record = Record { kind: Kind::Fetch, segments: 1, len: 0, word: 2, key, address };
        let writer = ranks[0].wire.writer_to(13);
        assert!(writer.push(&record, &[(segment.as_ptr().cast(), SEGMENT)]).unwrap());
        for _ in 0..100 {
            ranks[1].poll();
        }
        let log = &ranks[1].log;
        assert_eq!(log.arrivals, [1], "{want} {segment:?}");
        assert!(log.lost.len() == 1 && log.lost[0].0 == Some(10), "{:?}", log.lost);
        // A segment without end is either one.
        assert!(
            log.lost[0].1.contains(want) || *want == "makes no sense",
            "{want} {segment:?}: {:?}",
            log.lost
        );
        assert!(ranks[1].map.iter().all(|b| *b == 3), "{want} {segment:?}");
    }
}

#[test]
fn messages_that_are_too_long_are_refused_at_both_ends() {
    let mut ranks = ranks(2);
    assert!(ranks[0].wire.message(13, &[0; MESSAGE_MAX + 1]).is_err());
    let long = [1u8; MESSAGE_MAX + 1];
    let record = record(Kind::Message, long.len());
    assert!(ranks[0].wire.writer_to(13).push(&record, &[(long.as_ptr(), long.len())]).unwrap());
    ranks[1].poll();
    assert!(ranks[1].log.messages.is_empty());
    assert_eq!(ranks[1].log.lost.len(), 1);
}

#[test]
fn the_memory_of_others_is_not_taken_for_a_peers() {
    let mates = [0, 1, 2];
    let mut a = open(0, &mates);
    let (b, c) = (open(1, &mates), open(2, &mates));
    assert!(a.wire.connect(1, &c.wire.address()).unwrap_err().to_string().contains("rank 2 of the node"));
    assert!(a.wire.connect(7, &b.wire.address()).is_err());
    let mut other = b.wire.address();
    other[8] ^= 1;
    let e = a.wire.connect(1, &other).unwrap_err();
    assert!(e.to_string().contains("another process's"), "{e}");
    assert!(a.wire.reach(1, &other).is_err());
    a.wire.connect(1, &b.wire.address()).unwrap();
    assert!(Shm::open(&Options { rank: 5, mates: &mates, wait: None }).is_err());
}
