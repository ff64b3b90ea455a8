//! Endpoints of one process, on real shared memory; some of the peers misbehave.

mod lent;
mod rings;
mod threads;

use super::bounce::MAX_PART_BYTES;
use super::ring::{Kind, Record, SEGMENT};
use super::{Options, Shm};
use crate::memory::Mapping;
use crate::transport::{
    Access, Delivery, MESSAGE_MAX, Posted, Registration, Remote, Sink, Source, Transport,
};

/// Small, and the same for the same seed, which is printed.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = match std::env::var("TEST_SEED") {
            Ok(text) => text.parse().unwrap(),
            Err(_) => u64::from(now.subsec_nanos()) << 20 | 1,
        };
        println!("seed {seed} (TEST_SEED)");
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

// --- endpoints ---------------------------------------------------------------------------------------------------

#[derive(Default)]
struct Log {
    arrivals: Vec<u32>,
    done: Vec<u64>,
    messages: Vec<Vec<u8>>,
    lost: Vec<(Option<u32>, String)>,
    /// What becomes of puts, by their words: all others land.
    wanted: Vec<(u32, Delivery)>,
    /// What was taken of them: word, offset and bytes.
    taken: Vec<(u32, u64, Vec<u8>)>,
}

impl Sink for Log {
    fn arrival(&mut self, word: u32) {
        self.arrivals.push(word);
    }
    fn delivery(&mut self, word: u32, _len: u64) -> Delivery {
        self.wanted.iter().find(|(w, _)| *w == word).map_or(Delivery::Land, |(_, delivery)| *delivery)
    }
    fn consume(&mut self, word: u32, offset: u64, bytes: &[u8]) {
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

const LEN: usize = if cfg!(miri) { 64 << 10 } else { 4 << 20 };

/// An endpoint with a shared chunk; dropped first, the endpoint is closed before the memory goes.
struct Rank {
    wire: Shm,
    log: Log,
    registration: Registration,
    remote: Remote,
    map: Bytes,
}

/// A chunk as a slice, between polls.
struct Bytes(Mapping);

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: all of the mapping; tests poll, which writes there, only when they hold no reference.
        unsafe { std::slice::from_raw_parts(self.0.as_mut_ptr(), self.0.len()) }
    }
}

impl std::ops::DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr(), self.0.len()) }
    }
}

impl Rank {
    fn source(&self, at: usize, len: usize) -> Source {
        Source { ptr: self.map.0.as_mut_ptr().wrapping_add(at), len, registration: self.registration }
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
    let locals: Vec<u32> = (0..n).map(|i| 10 + 3 * i).collect();
    let mut ranks: Vec<Rank> = locals.iter().map(|rank| open(*rank, &locals)).collect();
    let addresses: Vec<_> = ranks.iter().map(|r| r.wire.address()).collect();
    for rank in &mut ranks {
        for (local, address) in locals.iter().zip(&addresses) {
            rank.wire.reach(*local, address).unwrap();
            rank.wire.connect(*local, address).unwrap();
            assert!(rank.wire.connect(*local, address).is_err(), "twice");
        }
    }
    ranks
}

fn open(rank: u32, locals: &[u32]) -> Rank {
    let mut wire = Shm::open(&Options { rank, locals, wait: None }).unwrap();
    let (file, map) = wire.share(LEN).unwrap();
    let map = Bytes(map);
    // SAFETY: the map lives until the endpoint is closed; references into it live between polls only.
    let (registration, remote) = unsafe { wire.register_shared(map.0.as_mut_ptr(), LEN, file) }.unwrap();
    Rank { wire, log: Log::default(), registration, remote, map }
}

#[test]
fn all_to_all_arrives_whole_and_is_said_to_be_done() {
    let mut random = Random::new();
    let mut ranks = ranks(4);
    const SLICE: usize = LEN / 8;
    for round in 0..if cfg!(miri) { 2 } else { 30u32 } {
        let sizes: Vec<usize> = (0..4)
            .map(|_| random.below(19))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|k| random.below((2 << k).min(SLICE)))
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
        for _ in 0..if cfg!(miri) { 50 } else { 1000 } {
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
    let cases = [(24, 48_000, 1), (1, 300, 257), (8, 3 << 20, 1 << 20), (12, 1_200_000, 24)];
    for (element, len, cut) in cases.into_iter().filter(|(_, len, _)| *len <= LEN) {
        let mut ranks = ranks(5);
        let plain = Random::new().bytes(len);
        // SAFETY: the vector lives until the end and is only read.
        let (r, _) =
            unsafe { ranks[0].wire.register(plain.as_ptr().cast_mut(), len, Access::Source) }.unwrap();
        let source = |at: usize, n| Source { ptr: plain[at..].as_ptr(), len: n, registration: r };
        ranks[2].log.wanted = vec![(1, Delivery::Pieces(element))];
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
            let takes =
                to == 2 && len > 256 && (MAX_PART_BYTES.is_multiple_of(element) || len < MAX_PART_BYTES);
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
        // Chunk 1 is known from here on.
        let source = ranks[0].source(0, 4096);
        assert_eq!(ranks[0].put(13, &[source], remote, 1), Posted::Yes);
        ranks[1].poll();
        ranks[1].map.fill(3);
        let (key, address) = (remote.key, remote.base);
        let record = Record { kind: Kind::Part, segments: 2, len: 0, word: 2, key, address };
        let writer = ranks[0].wire.writer_to(13);
        for list in [[[1 << 32, 0, 4096], [0, 8192, 0]], [[1 << 32, 0, n], [offset, total, 0]]] {
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
    let cases = [(1, 300), (8, 40_000), (8, 100_000), (12, 99_996), (24, 1_200_000)];
    for (element, len) in cases.into_iter().filter(|(_, len)| 64 + len <= LEN) {
        let mut ranks = ranks(2);
        let mut random = Random::new();
        let bytes = random.bytes(len);
        ranks[0].map[64..64 + len].copy_from_slice(&bytes);
        ranks[1].map.fill(3);
        ranks[1].log.wanted = vec![(1, Delivery::Pieces(element))];
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
    ranks[2].log.wanted = vec![(1, Delivery::Later)];
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
    ranks[2].log.wanted = vec![(5, Delivery::Later)];
    let source = ranks[0].source(0, 4096);
    assert_eq!(ranks[0].put(16, &[source], remote, 5), Posted::Yes);
    ranks[2].poll();
    ranks[2].log.wanted = vec![(5, Delivery::Pieces(8))];
    ranks[2].poll();
    assert_eq!((ranks[2].log.arrivals.len(), ranks[2].log.taken.len()), (4, 1));
}

/// Of a peer that has closed nothing is handed over: it may change what it had put.
#[test]
#[cfg_attr(miri, ignore = "there a poll takes all that fits in the memory")]
fn nothing_is_taken_of_who_has_closed() {
    let mut ranks = ranks(2);
    ranks[1].log.wanted = vec![(1, Delivery::Pieces(8))];
    let (source, remote) = (ranks[0].source(0, LEN.min(1 << 20)), ranks[1].remote);
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

/// One copy of plain memory serves all ranks that are put to at once; one that is put to after a poll gets what the memory holds then.
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
        // It may change before any rank has read it.
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
    let source = ranks[0].source(0, LEN.min(1 << 20));
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
        ("not registered", [chunk(1, 0), 0, 4096], |r| (r.key + 1, r.base)),
        ("not registered", [chunk(1, 0), 0, 4096], |r| (r.key, r.base + LEN as u64 - 4095)),
        ("not registered", [chunk(1, 0), 0, 4096], |r| (r.key, r.base - 1)),
        ("cannot be read", [chunk(2, 999_999), 0, 4096], |r| (r.key, r.base)),
        ("cannot be read", [chunk(2, 0), 0, 4096], |r| (r.key, r.base)),
        ("cannot be read", [chunk(70_000, 0), 0, 4096], |r| (r.key, r.base)),
        ("cannot be read", [chunk(0xFFFF_FFFF, 0), 4096, 4096], |r| (r.key, r.base)),
        ("cannot be read", [chunk(1, 0), len - 1, 4096], |r| (r.key, r.base)),
        ("makes no sense", [chunk(1, 0), u64::MAX, u64::MAX], |r| (r.key, r.base)),
    ];
    for (want, segment, to) in cases {
        let mut ranks = ranks(2);
        // Chunk 1 is known from here on.
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
    let record = rings::record(Kind::Message, long.len());
    assert!(ranks[0].wire.writer_to(13).push(&record, &[(long.as_ptr(), long.len())]).unwrap());
    ranks[1].poll();
    assert!(ranks[1].log.messages.is_empty());
    assert_eq!(ranks[1].log.lost.len(), 1);
}

/// On a node of many ranks a ring has memory for one page, until a message is longer.
#[test]
#[cfg_attr(miri, ignore = "maps the memory of many ranks")]
fn rings_of_many_ranks_carry_everything() {
    let locals: Vec<u32> = (0..200).collect();
    let mut ranks = [open(0, &locals), open(1, &locals)];
    let addresses = [0, 1].map(|i: usize| ranks[i].wire.address());
    ranks[0].wire.connect(1, &addresses[1]).unwrap();
    ranks[1].wire.connect(0, &addresses[0]).unwrap();
    let mut random = Random::new();
    let (mut messages, mut words) = (Vec::new(), Vec::new());
    for word in 0..3000u32 {
        if word % 3 == 0 {
            let len = if word % 300 == 0 && word > 1500 { MESSAGE_MAX } else { random.below(3000) };
            messages.push(random.bytes(len));
            while ranks[0].wire.message(1, messages.last().unwrap()).unwrap() == Posted::Again {
                ranks[1].poll();
            }
        } else {
            let sources = [ranks[0].source(0, 1 + random.below(2000))];
            words.push(word);
            let remote = ranks[1].remote;
            while ranks[0].put(1, &sources, remote, word) == Posted::Again {
                let _ = (ranks[1].poll(), ranks[0].poll());
            }
        }
    }
    for _ in 0..200 {
        let _ = (ranks[1].poll(), ranks[0].poll());
    }
    assert!(ranks[1].log.messages == messages && ranks[1].log.arrivals == words);
    assert_eq!(ranks[0].log.done.len(), words.len());
}

#[test]
fn the_memory_of_others_is_not_taken_for_a_peers() {
    let locals = [0, 1, 2];
    let mut a = open(0, &locals);
    let (b, c) = (open(1, &locals), open(2, &locals));
    assert!(a.wire.connect(1, &c.wire.address()).unwrap_err().to_string().contains("rank 2 of the node"));
    assert!(a.wire.connect(7, &b.wire.address()).is_err());
    let mut other = b.wire.address();
    other[8] ^= 1;
    let e = a.wire.connect(1, &other).unwrap_err();
    assert!(e.to_string().contains("another endpoint's"), "{e}");
    assert!(a.wire.reach(1, &other).is_err());
    a.wire.connect(1, &b.wire.address()).unwrap();
    assert!(Shm::open(&Options { rank: 5, locals: &locals, wait: None }).is_err());
}

/// A ring has one writer: a second endpoint of the same rank of the node is refused.
#[test]
fn a_ring_has_one_writer() {
    let locals = [0, 1];
    let (mut a, mut again, b) = (open(0, &locals), open(0, &locals), open(1, &locals));
    a.wire.connect(1, &b.wire.address()).unwrap();
    let e = again.wire.connect(1, &b.wire.address()).unwrap_err();
    assert!(e.to_string().contains("another endpoint"), "{e}");
    assert!(again.wire.message(1, b"x").is_err());
}

/// What a descriptor opens may be another job's by the time that it is read: it does not count as the peer's.
#[test]
fn chunks_of_others_are_not_taken_for_a_peers() {
    let mut ranks = ranks(2);
    let other = open(50, &[50]);
    let (file, _map) = other.wire.share(8192).unwrap();
    let to = ranks[1].remote;
    let record = Record { kind: Kind::Fetch, segments: 1, len: 0, word: 2, key: to.key, address: to.base };
    let list = [2 << 32 | u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap(), 0, 4096];
    ranks[1].map.fill(3);
    assert!(ranks[0].wire.writer_to(13).push(&record, &[(list.as_ptr().cast(), SEGMENT)]).unwrap());
    (0..10).for_each(|_| _ = ranks[1].poll());
    let log = &ranks[1].log;
    assert!(log.arrivals.is_empty() && ranks[1].map.iter().all(|b| *b == 3), "it was read");
    assert!(log.lost.len() == 1 && log.lost[0].1.contains("another endpoint"), "{:?}", log.lost);
}

/// A peer keeps this many chunks mapped: puts from further ones arrive all the same.
#[test]
fn more_chunks_than_can_be_mapped_do_no_harm() {
    let mut ranks = ranks(2);
    let mut maps = Vec::new();
    for i in 0..2 * super::registrations::MAX_CHUNKS {
        let (file, map) = ranks[0].wire.share(8192).unwrap();
        // SAFETY: the mapping has that length, and no other thread knows it yet.
        unsafe { map.as_mut_ptr().write_bytes(u8::try_from(i).unwrap(), 8192) };
        // SAFETY: the mapping lives until the endpoint is closed, and is read only.
        let (registration, _) =
            unsafe { ranks[0].wire.register_shared(map.as_mut_ptr(), 8192, file) }.unwrap();
        let (source, to) = (Source { ptr: map.as_mut_ptr(), len: 8192, registration }, ranks[1].remote);
        maps.push(map);
        assert_eq!(ranks[0].put(13, &[source], to, i), Posted::Yes);
        (0..10).for_each(|_| ranks.iter_mut().for_each(|r| _ = r.poll()));
        assert_eq!(ranks[1].log.arrivals.last(), Some(&i), "{:?}", ranks[1].log.lost);
        assert!(ranks[1].map[..8192].iter().all(|b| u32::from(*b) == i));
    }
    ranks.iter_mut().for_each(|r| r.wire.close().unwrap());
}
