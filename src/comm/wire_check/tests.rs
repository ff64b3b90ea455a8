//! Checks of a wire that keeps its promises, and of wires that break one each: that one is found.

use super::*;
use crate::launch::threads;
use crate::transport::sim::{self, Faults, Sim};
use crate::transport::{Access, Borrow, Clock, Delivery, Limits, Posted, Registration, Remote, Sink, Source};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};

type Registered = (Registration, Remote);

/// What a wire does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A word arrives before its bytes: it is told when the put is posted, by a message that overtakes it.
    Early,
    /// One put of 50 is lost, and said to be done.
    Lost,
    /// One word of 50 arrives twice.
    Twice,
    /// Words of 31 bits.
    Short,
    /// A put is said to be done when it is posted; it goes out later.
    DoneEarly,
    /// A queue that is full is an error.
    Full,
    /// Only the first piece of a gather list goes.
    Gather,
    /// Long puts are cut.
    Cut,
    /// Of long messages the end is damaged.
    Message,
    /// The bytes behind a put change.
    Beside,
    /// Keys are not checked: what is put goes to the memory that was registered last.
    Keys,
    /// Nothing is deregistered.
    Revoked,
    /// It cannot be closed while a put is under way.
    Close,
}

/// In front of a word that goes as a message.
const EARLY: &[u8] = b"early";
/// The word of a put whose own goes otherwise, and the token of a put that nothing asks for.
const VOID: u32 = 0xDEAD_BEEF;
/// See there.
const NO_TOKEN: u64 = u64::MAX;
/// One put of so many is hit.
const SOME: u64 = 50;
/// Polls for which a put is held back.
const HELD_POLLS: u32 = 20;
/// The length from which a put is cut.
const CUT_BYTES: usize = 1 << 20;

/// Long enough for any machine.
const PATIENT: Duration = Duration::from_secs(100);

/// A put that is held back.
struct Held {
    polls: u32,
    peer: u32,
    sources: Vec<Source>,
    address: u64,
    key: u64,
    word: u32,
    token: u64,
}

/// A simulated wire with a fault.
struct Broken {
    wire: Sim,
    rank: usize,
    fault: Fault,
    puts: u64,
    since_poll: u64,
    held: VecDeque<Held>,
    done: Vec<u64>,
    /// The latest key of each rank.
    keys: Arc<Mutex<Vec<Vec<u64>>>>,
}

// SAFETY: sources are valid as long as the memory that is registered, which outlives the endpoint in these tests; each endpoint is used
// by one thread at a time.
unsafe impl Send for Broken {}

/// What comes, as the fault has it.
struct Faulty<'a>(&'a mut dyn Sink);

impl Sink for Faulty<'_> {
    fn arrival(&mut self, word: u32) {
        if word != VOID {
            self.0.arrival(word);
        }
    }
    fn delivery(&mut self, word: u32, len: u64) -> Delivery {
        self.0.delivery(word, len)
    }
    fn done(&mut self, token: u64) {
        if token != NO_TOKEN {
            self.0.done(token);
        }
    }
    fn message(&mut self, bytes: &[u8]) {
        match bytes.strip_prefix(EARLY) {
            Some(word) => self.0.arrival(u32::from_le_bytes(word.try_into().unwrap())),
            None => self.0.message(bytes),
        }
    }
    fn lost(&mut self, peer: Option<u32>, why: &str) {
        self.0.lost(peer, why);
    }
}

// SAFETY: none where there is a fault: that it breaks a promise is the test. What it breaks concerns memory of the check alone.
unsafe impl Transport for Broken {
    fn limits(&self) -> &Limits {
        self.wire.limits()
    }
    fn address(&self) -> Vec<u8> {
        self.wire.address()
    }
    fn connect(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        self.wire.connect(peer, address)
    }
    unsafe fn register(&mut self, at: *mut u8, len: usize, access: Access) -> Result<Registered> {
        // SAFETY: passed on.
        let registered = unsafe { self.wire.register(at, len, access) }?;
        self.keys.lock().unwrap()[self.rank].push(registered.1.key);
        Ok(registered)
    }
    fn deregister(&mut self, registration: Registration) -> Result<()> {
        if self.fault == Fault::Revoked { Ok(()) } else { self.wire.deregister(registration) }
    }
    unsafe fn put(
        &mut self,
        peer: u32,
        sources: &[Source],
        address: u64,
        mut key: u64,
        mut word: u32,
        token: u64,
    ) -> Result<Posted> {
        self.puts += 1;
        self.since_poll += 1;
        let hit = self.puts.is_multiple_of(SOME);
        let mut sources = sources.to_vec();
        match self.fault {
            Fault::Early | Fault::DoneEarly => {
                let (mut own, mut later) = (token, word);
                match self.fault {
                    Fault::Early => {
                        let _ = self.wire.message(peer, &[EARLY, &word.to_le_bytes()].concat())?;
                        later = VOID;
                    }
                    _ => {
                        self.done.push(token);
                        own = NO_TOKEN;
                    }
                }
                self.held.push_back(Held {
                    polls: HELD_POLLS,
                    peer,
                    sources,
                    address,
                    key,
                    word: later,
                    token: own,
                });
                return Ok(Posted::Yes);
            }
            Fault::Lost if hit => {
                self.done.push(token);
                return Ok(Posted::Yes);
            }
            Fault::Twice if hit => {
                // SAFETY: passed on.
                let _ = unsafe { self.wire.put(peer, &sources, address, key, word, NO_TOKEN) }?;
            }
            Fault::Short => word &= u32::MAX >> 1,
            Fault::Full if self.since_poll > 2 * SOME => {
                return Err(crate::error::argument("the queue is full"));
            }
            Fault::Gather => sources.truncate(1),
            Fault::Cut => sources.iter_mut().filter(|s| s.len >= CUT_BYTES).for_each(|s| s.len -= 1),
            Fault::Beside => sources.iter_mut().for_each(|s| s.len += 1),
            Fault::Keys => {
                let keys = self.keys.lock().unwrap();
                let known = &keys[peer as usize];
                if !known.contains(&key) {
                    key = known[known.len() - 1];
                }
            }
            _ => {}
        }
        // SAFETY: passed on; what a fault adds lies in the same registered memory, behind it.
        unsafe { self.wire.put(peer, &sources, address, key, word, token) }
    }
    fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted> {
        let mut bytes = bytes.to_vec();
        if self.fault == Fault::Message && bytes.len() > 4096 {
            bytes[4000] ^= 1;
        }
        self.wire.message(peer, &bytes)
    }
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.since_poll = 0;
        self.held.iter_mut().for_each(|held| held.polls -= 1);
        while let Some(held) = self.held.pop_front_if(|held| held.polls == 0) {
            let Held { peer, sources, address, key, word, token, .. } = held;
            // SAFETY: the sources are registered and not freed; that they may be written is the fault.
            let _ = unsafe { self.wire.put(peer, &sources, address, key, word, token) }?;
        }
        self.done.drain(..).for_each(|token| sink.done(token));
        self.wire.poll(&mut Faulty(sink))
    }
    fn idle(&mut self, longest: Duration) {
        // Ranks are many and cores few.
        std::thread::sleep(longest);
    }
    fn clock(&self) -> Clock {
        self.wire.clock()
    }
    fn close(&mut self) -> Result<()> {
        self.wire.close()
    }
    fn abort(&mut self) -> Result<()> {
        match self.fault == Fault::Close && self.rank == 0 {
            true => Err(crate::error::argument("something is still under way")),
            false => self.wire.close(),
        }
    }
}

/// What all ranks find on a wire with this fault, by these steps.
fn found(size: usize, fault: Fault, faults: &Faults, steps: &[Step], only: Option<Check>) -> Vec<Finding> {
    let mut wires: Vec<VecDeque<Broken>> = (0..size).map(|_| VecDeque::new()).collect();
    for _ in steps {
        let keys = Arc::new(Mutex::new(vec![Vec::new(); size]));
        for (rank, wire) in sim::group(size, faults).into_iter().enumerate() {
            let (held, done, keys) = (VecDeque::new(), Vec::new(), Arc::clone(&keys));
            wires[rank].push_back(Broken { wire, rank, fault, puts: 0, since_poll: 0, held, done, keys });
        }
    }
    let one = |mut launch: Box<dyn Launch>, mut wires: VecDeque<Broken>| {
        let mut open = || wires.pop_front().map(|wire| Box::new(wire) as Box<dyn Transport>);
        let found =
            check_with(&Config::defaults(), launch.as_mut(), PATIENT, (steps, only), &mut open).unwrap();
        launch.finalize().unwrap();
        found.findings
    };
    std::thread::scope(|scope| {
        let ranks = threads::group(size).into_iter().zip(wires);
        let started: Vec<_> = ranks.map(|(launch, wires)| scope.spawn(move || one(launch, wires))).collect();
        started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_wire_that_keeps_its_promises_passes_between_all_neighbours() {
    // Side by side, as they wait for refusals mostly.
    std::thread::scope(|scope| {
        for (size, faults) in [
            (1, Faults::default()),
            (2, Faults { gather: 1, ..Faults::default() }),
            (3, Faults { max_put: 10_000, delay: 3, reorder: true, refuse: 50, ..Faults::default() }),
            (5, Faults { max_put: 70_000, borrow: Borrow::Staged, deaths_show: false, ..Faults::default() }),
        ] {
            scope.spawn(move || passes(size, &faults));
        }
    });
}

fn passes(size: usize, faults: &Faults) {
    let found = found(size, Fault::None, faults, &STEPS, None);
    assert!(found.iter().all(|f| f.broken.is_none()), "{size}: {found:#?}");
    let graph = Circulant::new(u32::try_from(size).unwrap());
    let ways: HashSet<usize> = (0..graph.q())
        .flat_map(|k| [graph.skip(k) as usize % size, size - graph.skip(k) as usize % size])
        .collect();
    for check in Check::ALL.into_iter().filter(|c| c.keeps_the_wire()) {
        let pairs: HashSet<_> = found.iter().filter(|f| f.check == check).map(|f| (f.from, f.to)).collect();
        let wanted = (0..size).flat_map(|r| ways.iter().map(move |way| (r, (r + way) % size)));
        assert_eq!(pairs, wanted.collect(), "{size} ranks, {check:?}");
    }
    for check in [Check::WrongKey, Check::GivenBack, Check::PeerGone] {
        assert_eq!(found.iter().any(|f| f.check == check), size > 1, "{size} ranks, {check:?}");
    }
}

#[test]
fn each_broken_promise_is_found() {
    let broken: [(Fault, Step, Check, &str); 13] = [
        (Fault::Early, lasting, Check::Bytes, "is not there yet when it is announced"),
        (Fault::Lost, lasting, Check::Words, "did not arrive"),
        (Fault::Twice, lasting, Check::Words, "arrived 2 times"),
        (Fault::Short, lasting, Check::Words, "did not arrive"),
        (Fault::DoneEarly, lasting, Check::Bytes, "was read after the put was said to be done"),
        (Fault::Full, lasting, Check::Queue, "refused for good: the queue is full"),
        (Fault::Gather, lasting, Check::Gather, "of a put of 5000"),
        (Fault::Cut, lasting, Check::Longest, "byte 2097151 of a put of 2097152 is not there"),
        (Fault::Message, lasting, Check::Messages, "a message of 8059 bytes was damaged"),
        (Fault::Beside, lasting, Check::Bytes, "bytes beside a put of 8 were changed"),
        (Fault::Keys, access::wrong_key, Check::WrongKey, "bytes were written"),
        (Fault::Revoked, access::given_back, Check::GivenBack, "bytes were written"),
        (Fault::Close, access::peer_gone, Check::PeerGone, "it does not close: something is still under way"),
    ];
    std::thread::scope(|scope| {
        for (fault, step, check, words) in broken {
            scope.spawn(move || {
                let faults = Faults { max_put: 2 << 20, ..Faults::default() };
                let found = found(2, fault, &faults, &[step], Some(check));
                let told = |f: &Finding| {
                    f.check == check && f.broken.as_ref().is_some_and(|why| why.contains(words))
                };
                assert!(found.iter().any(told), "{fault:?}: {found:#?}");
            });
        }
    });
}
