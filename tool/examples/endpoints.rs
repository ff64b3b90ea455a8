//! Two endpoints of RDMA hardware in one process: what `circulant doctor --wire` cannot see of the transport, as its peers poll, its keys are
//! its own and its errors are text. One check after the other. It needs a device; `ci/verbs` runs it on soft-RoCE.
//!
//! ```text
//! CIRCULANT_VERBS_DEVICE=mlx5_0 target/release/examples/endpoints
//! ```
#![allow(clippy::unwrap_used, reason = "a check that fails panics, which is its result")]

use circulant::transport::verbs::{Options, Verbs};
use circulant::transport::{Access, Posted, Registration, Remote, Sink, Source, Transport};
use std::time::{Duration, Instant};

/// Stops what hangs: retries to a peer that is gone take 9 s on an idle machine.
const LIMIT: Duration = Duration::from_secs(240);

/// What was delivered.
#[derive(Debug, Default)]
struct Seen {
    words: Vec<u32>,
    done: Vec<u64>,
    messages: Vec<Vec<u8>>,
    lost: Vec<(Option<u32>, String)>,
}

impl Sink for Seen {
    fn arrival(&mut self, word: u32) {
        self.words.push(word);
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

/// How deep queues are; the default: as the library has them.
#[derive(Clone, Copy, Default)]
struct Depths {
    queue: Option<u16>,
    receives: Option<u16>,
}

/// An endpoint, memory of its own, and what it has seen.
struct End {
    wire: Verbs,
    memory: *mut u8,
    registration: Registration,
    remote: Remote,
    seen: Seen,
}

/// Bytes of each end's memory: more than the longest put of soft-RoCE, which is 8 MiB.
const BYTES: usize = 9 << 20;

impl End {
    fn open(rank: u32, depths: Depths) -> Self {
        let device = std::env::var("CIRCULANT_VERBS_DEVICE").ok();
        let Depths { queue, receives } = depths;
        let options = Options { device: device.as_deref(), queue, receives, ..Options::new(rank, 2) };
        let mut wire = Verbs::open(&options).unwrap();
        let memory = Box::leak(vec![0u8; BYTES].into_boxed_slice()).as_mut_ptr();
        // SAFETY: leaked, so valid for ever; touched by raw pointers only.
        let (registration, remote) = unsafe { wire.register(memory, BYTES, Access::Target).unwrap() };
        Self { wire, memory, registration, remote, seen: Seen::default() }
    }

    fn pair(depths: Depths) -> [Self; 2] {
        let mut ends = [Self::open(0, depths), Self::open(1, depths)];
        for (a, b) in [(0, 1u32), (1, 0)] {
            let address = ends[b as usize].wire.address();
            ends[a].wire.connect(b, &address).unwrap();
        }
        ends
    }

    fn poll(&mut self) {
        self.wire.poll(&mut self.seen).unwrap();
    }

    fn source(&self, offset: usize, len: usize) -> Source {
        Source { ptr: self.memory.wrapping_add(offset), len, registration: self.registration }
    }

    fn fill(&mut self, byte: u8, len: usize) {
        assert!(len <= BYTES);
        // SAFETY: memory of this end's own, of which nothing is under way.
        unsafe { self.memory.write_bytes(byte, len) };
    }

    fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        // SAFETY: within this end's memory; what was put there has arrived.
        (0..len).map(|i| unsafe { self.memory.add(offset + i).read() }).collect()
    }

    /// To rank 1.
    fn put(
        &mut self,
        sources: &[Source],
        at: u64,
        key: u64,
        word: u32,
        token: u64,
    ) -> circulant::Result<Posted> {
        // SAFETY: sources lie in this end's memory, which is never freed, and are not written before the put is done.
        unsafe { self.wire.put(1, sources, at, key, word, token) }
    }
}

/// Polls both ends until `over`.
fn until(ends: &mut [End; 2], what: &str, mut over: impl FnMut(&[End; 2]) -> bool) {
    let begin = Instant::now();
    while !over(ends) {
        ends.iter_mut().for_each(End::poll);
        assert!(begin.elapsed() < LIMIT, "{what}: {:?} {:?}", ends[0].seen, ends[1].seen);
    }
}

/// Puts from rank 0 to rank 1, as soon as that is taken.
fn put(ends: &mut [End; 2], sources: &[Source], at: usize, word: u32) {
    let (base, key) = (ends[1].remote.base + at as u64, ends[1].remote.key);
    let begin = Instant::now();
    while ends[0].put(sources, base, key, word, word.into()).unwrap() == Posted::Again {
        ends.iter_mut().for_each(End::poll);
        assert!(begin.elapsed() < LIMIT, "put {word} is not taken");
    }
}

fn what_is_refused_at_once() {
    let mut ends = connected();
    let limits = ends[0].wire.limits().clone();
    let many = vec![ends[0].source(0, 1); limits.gather + 1];
    assert!(ends[0].put(&many, 0, 0, 0, 0).unwrap_err().to_string().contains("segments"));
    if let Ok(longest) = usize::try_from(limits.max_put)
        && longest < BYTES
    {
        let long = [ends[0].source(0, longest + 1)];
        assert!(ends[0].put(&long, 0, 0, 0, 0).unwrap_err().to_string().contains("exceeds"));
    }
    let registration = ends[1].registration;
    ends[1].wire.deregister(registration).unwrap();
    assert!(ends[1].wire.deregister(registration).is_err());
}

fn connected() -> [End; 2] {
    connected_with(Depths::default())
}

fn connected_with(depths: Depths) -> [End; 2] {
    let mut ends = End::pair(depths);
    put(&mut ends, &[], 0, u32::MAX);
    until(&mut ends, "the first put", |e| !e[1].seen.words.is_empty() && !e[0].seen.done.is_empty());
    ends.iter_mut().for_each(|e| e.seen = Seen::default());
    ends
}

/// One piece, four and as many as a device of the usual kind takes (30): each list is one request, and its bytes stand one behind the other.
fn gather_lists() {
    /// From one piece to the next.
    const APART: usize = 20_000;
    let mut ends = connected();
    let most = ends[0].wire.limits().gather;
    // SAFETY: memory of this end's own, of which nothing is under way.
    (0..BYTES).for_each(|i| unsafe { ends[0].memory.add(i).write((i / 7 + i / 1999).to_le_bytes()[0]) });
    let mut word = 0;
    for pieces in [1, 4, 30].map(|n: usize| n.min(most)) {
        for len in [1, 37, 4096, 10_001] {
            // Each piece is longer by a byte than the one before.
            let list: Vec<(usize, usize)> = (0..pieces).map(|i| (i * APART, len + i)).collect();
            let sources: Vec<Source> = list.iter().map(|(at, len)| ends[0].source(*at, *len)).collect();
            let wanted: Vec<u8> = list.iter().flat_map(|(at, len)| ends[0].bytes(*at, *len)).collect();
            ends[1].fill(0xEE, wanted.len() + 2);
            let before = ends[0].wire.hardware().requests;
            put(&mut ends, &sources, 1, word);
            word += 1;
            let count = word as usize;
            until(&mut ends, "a list", |e| e[1].seen.words.len() == count && e[0].seen.done.len() == count);
            assert_eq!(ends[0].wire.hardware().requests, before + 1, "{pieces} pieces");
            let around = [&[0xEE], &wanted[..], &[0xEE]].concat();
            assert!(ends[1].bytes(0, around.len()) == around, "{pieces} pieces of {len} bytes");
        }
    }
}

fn full_queues() {
    fill_queues(connected(), 512);
}

fn queues_of_a_few() {
    for (queue, receives) in [(1, 1), (40, 5)] {
        fill_queues(connected_with(Depths { queue: Some(queue), receives: Some(receives) }), receives.into());
    }
}

/// A peer that polls nothing: the queue fills, then its `receives` are used up, and all arrives in the end.
fn fill_queues(mut ends: [End; 2], receives: u32) {
    let (mut taken, mut refused, mut patience) = (0u32, 0, 4096u32);
    let count = receives + 188;
    let begin = Instant::now();
    while taken < count {
        let source = [ends[0].source(taken as usize, 1000)];
        let (base, key) = (ends[1].remote.base, ends[1].remote.key);
        match ends[0].put(&source, base, key, taken, taken.into()).unwrap() {
            Posted::Yes => taken += 1,
            Posted::Again => {
                refused += 1;
                ends[0].poll();
                // Long after all receives are used up, and from then on now and then.
                patience -= u32::from(taken > receives);
                if patience == 0 {
                    ends[1].poll();
                    patience = 16;
                }
            }
        }
        assert!(begin.elapsed() < LIMIT, "{taken} taken");
    }
    assert!(refused > 0 && ends[0].wire.hardware().refused == refused, "{refused} refused");
    let all = count as usize;
    until(&mut ends, "all puts", |e| e[1].seen.words.len() == all && e[0].seen.done.len() == all);
    ends[1].seen.words.sort_unstable();
    assert_eq!(ends[1].seen.words, (0..count).collect::<Vec<_>>());
    assert_eq!(ends[0].seen.done, (0..u64::from(count)).collect::<Vec<_>>());
    assert!(ends.iter().all(|e| e.seen.lost.is_empty()));
    let [sender, receiver] = [0, 1].map(|i| ends[i].wire.hardware());
    assert!(receiver.receives > receives.into() && receiver.refills > 1, "{receiver:?}");
    // Where the driver counts it, as soft-RoCE does.
    assert!(sender.receivers_not_ready > 0 || !counts_not_ready(), "{sender:?}");
}

/// A put that reaches a byte past the peer's memory fails, by name, and nothing is written. (The peer hears of it where its device says so;
/// soft-RoCE does not.)
fn outside_the_range() {
    let mut ends = connected();
    let Remote { base, key } = ends[1].remote;
    let at = base + BYTES as u64 - 4999;
    ends[0].fill(0x55, 5000);
    ends[1].fill(0xEE, BYTES);
    let source = [ends[0].source(0, 5000)];
    assert_eq!(ends[0].put(&source, at, key, 1, 1).unwrap(), Posted::Yes);
    until(&mut ends, "a refusal", |e| !e[0].seen.lost.is_empty());
    let (peer, why) = ends[0].seen.lost[0].clone();
    assert!(peer == Some(1) && why.contains("does not know the key"), "{why}");
    assert!(ends[1].bytes(BYTES - 5000, 5000).iter().all(|b| *b == 0xEE) && ends[1].seen.words.is_empty());
    assert!(ends[0].seen.done.is_empty(), "a put that failed is not done");
    let e = ends[0].put(&source, at, key, 1, 1).unwrap_err();
    assert_eq!((e.kind(), e.peer()), (circulant::ErrorKind::PeerLost, Some(1)), "{e}");
}

fn what_was_said_before_closing_is_heard() {
    let mut ends = connected();
    assert_eq!(ends[0].wire.message(1, b"I give up").unwrap(), Posted::Yes);
    ends[0].wire.close().unwrap();
    let begin = Instant::now();
    while ends[1].seen.messages.is_empty() {
        ends[1].poll();
        assert!(begin.elapsed() < LIMIT);
    }
    assert_eq!(ends[1].seen.messages, [b"I give up"]);
    assert_eq!(ends[0].wire.message(1, b"?").unwrap_err().kind(), circulant::ErrorKind::Aborted);
}

/// Noticed by hardware after its retries; doctor does not wait for all of them.
fn a_peer_that_is_gone() {
    let mut ends = connected();
    ends[1].wire.close().unwrap();
    let source = [ends[0].source(0, 5000)];
    let Remote { base, key } = ends[1].remote;
    assert_eq!(ends[0].put(&source, base, key, 1, 1).unwrap(), Posted::Yes);
    let begin = Instant::now();
    while ends[0].seen.lost.is_empty() {
        ends[0].poll();
        ends[0].wire.idle(Duration::from_millis(4));
        assert!(begin.elapsed() < LIMIT);
    }
    let (peer, why) = &ends[0].seen.lost[0];
    assert!(*peer == Some(1) && why.contains("did not acknowledge"), "{why}");
    assert!(ends[0].seen.done.is_empty());
}

/// Whether a device here counts requests to a receiver that was not ready.
fn counts_not_ready() -> bool {
    let devices = std::fs::read_dir("/sys/class/infiniband").unwrap();
    devices.flatten().any(|d| d.path().join("ports/1/hw_counters/rcvd_rnr_err").exists())
}

fn main() {
    let checks: [(&str, fn()); 7] = [
        ("what is refused at once", what_is_refused_at_once),
        ("gather lists", gather_lists),
        ("full queues", full_queues),
        ("queues of a few", queues_of_a_few),
        ("outside the range", outside_the_range),
        ("what was said before closing is heard", what_was_said_before_closing_is_heard),
        ("a peer that is gone", a_peer_that_is_gone),
    ];
    for (name, check) in checks {
        let begin = Instant::now();
        check();
        println!("ok {name} ({:.1} s)", begin.elapsed().as_secs_f64());
    }
}
