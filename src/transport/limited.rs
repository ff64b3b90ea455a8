//! Hardware's rules by force: any transport, cut down to what the setting `limits` says. What other hardware asks of the engine can
//! so be seen on this one.
//!
//! | part | what becomes of the transport |
//! |---|---|
//! | `gather`, `max_put` | says these [`Limits`], and refuses a put beyond them |
//! | `inject` | a longer put is done a poll later: its source is needed for longer |
//! | `queue` | the most puts under way, and messages between two polls; more are refused for now |
//! | `unordered` | what arrives is held back and handed on in a random order, which the endpoint's number seeds |
//! | `word`, `no-word` | a word that does not fit into these bits follows its put in a message |
//!
//! Such a message is sent when its put is done. So it needs a transport whose messages arrive behind the puts that were done before
//! them at the same peer: shared memory, TCP and RDMA's reliable connections are such, but neither several interfaces nor datagrams.

use super::{
    Access, Clock, Delivery, Lent, Limits, Mapping, MemoryAttributes, Posted, Registration, Remote, Sink,
    SlotPool, Source, Transport,
};
use crate::config::ForcedLimits;
use crate::error::{Result, argument};
use std::collections::VecDeque;
use std::fs::File;
use std::time::Duration;

/// Begins a message that is the word of a put: no message of the engine begins so.
const FOLLOWS: [u8; 16] = *b"\xFFcirculant: word";
/// A rest takes no longer while a word waits to be sent. Chosen, as this wrapper is for tests.
const BRIEF_REST: Duration = Duration::from_millis(1);

/// A put under way.
#[derive(Clone, Copy, Debug)]
struct Put {
    peer: u32,
    token: u64,
    /// Follows in a message.
    word: Option<u32>,
    /// It is done a poll later.
    late: bool,
}

/// What came and is not handed on yet.
#[derive(Debug)]
enum Event {
    Arrival(u32),
    Message(Vec<u8>),
}

/// All but the endpoint itself.
#[derive(Debug)]
struct State {
    forced: ForcedLimits,
    /// Puts by the token that the endpoint below knows, and which of these are free.
    puts: Vec<Option<Put>>,
    free: Vec<u64>,
    under_way: usize,
    /// Messages since the last poll.
    messages: usize,
    /// Puts that are done below: their words are to be sent, or they are done late.
    ended: VecDeque<Put>,
    held: Vec<Event>,
    random: u64,
}

impl State {
    /// The word of a put whose own follows, in as many bits as there are; no other put has it.
    fn void(&self) -> Option<u32> {
        let bits = self.forced.word_bits?;
        Some((1u32 << bits) - 1)
    }

    /// A number below `n`, or 0.
    fn random(&mut self, n: usize) -> usize {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % (n.max(1) as u64)).unwrap_or(0)
    }

    /// Something came: to be handed on now or, out of order, later.
    fn came(&mut self, event: Event, sink: &mut dyn Sink) {
        match self.forced.unordered {
            true => self.held.push(event),
            false => hand_on(event, sink),
        }
    }

    /// Hands on some of what is held, in any order: at least one. Returns how many.
    fn release(&mut self, sink: &mut dyn Sink) -> usize {
        let n = self.held.len().min(1 + self.random(self.held.len()));
        for _ in 0..n {
            let at = self.random(self.held.len());
            let event = self.held.swap_remove(at);
            hand_on(event, sink);
        }
        n
    }
}

fn hand_on(event: Event, sink: &mut dyn Sink) {
    match event {
        Event::Arrival(word) => sink.arrival(word),
        Event::Message(bytes) => sink.message(&bytes),
    }
}

/// Between the endpoint and its user.
struct Filter<'a> {
    state: &'a mut State,
    sink: &'a mut dyn Sink,
}

impl Sink for Filter<'_> {
    fn arrival(&mut self, word: u32) {
        if self.state.void() != Some(word) {
            self.state.came(Event::Arrival(word), self.sink);
        }
    }

    fn delivery(&mut self, word: u32, len: u64) -> Delivery {
        if self.state.void() == Some(word) { Delivery::Land } else { self.sink.delivery(word, len) }
    }

    fn consume(&mut self, word: u32, offset: u64, bytes: &[u8]) {
        self.sink.consume(word, offset, bytes);
    }

    fn done(&mut self, token: u64) {
        let index = usize::try_from(token).unwrap_or(usize::MAX);
        let Some(put) = self.state.puts.get_mut(index).and_then(Option::take) else { return };
        self.state.free.push(token);
        if put.late || put.word.is_some() {
            return self.state.ended.push_back(put);
        }
        self.state.under_way -= 1;
        self.sink.done(put.token);
    }

    fn message(&mut self, bytes: &[u8]) {
        let word = bytes.strip_prefix(&FOLLOWS).and_then(|word| word.try_into().ok());
        let event = match word {
            Some(word) => Event::Arrival(u32::from_le_bytes(word)),
            None if !self.state.forced.unordered => return self.sink.message(bytes),
            None => Event::Message(bytes.to_vec()),
        };
        self.state.came(event, self.sink);
    }

    fn lost(&mut self, peer: Option<u32>, why: &str) {
        self.sink.lost(peer, why);
    }
}

/// See the [module](self).
pub(crate) struct Limited {
    inner: Box<dyn Transport>,
    limits: Limits,
    state: State,
}

impl std::fmt::Debug for Limited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limited")
            .field("limits", &self.limits)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Limited {
    /// Of an endpoint that was not used yet; `seed` is another one at each rank.
    pub(crate) fn new(inner: Box<dyn Transport>, forced: ForcedLimits, seed: u64) -> Self {
        let mut limits = inner.limits().clone();
        limits.gather = limits.gather.min(forced.gather.unwrap_or(usize::MAX));
        limits.max_put = limits.max_put.min(forced.max_put.unwrap_or(u64::MAX));
        limits.inject = limits.inject.min(forced.inject.unwrap_or(usize::MAX));
        let state = State {
            forced,
            puts: Vec::new(),
            free: Vec::new(),
            under_way: 0,
            messages: 0,
            ended: VecDeque::new(),
            held: Vec::new(),
            random: seed,
        };
        Self { inner, limits, state }
    }

    fn full(&self, taken: usize) -> bool {
        self.state.forced.queue.is_some_and(|most| taken >= most)
    }

    /// Ends puts that are done below: sends their words, as far as these are taken. Returns how many have ended.
    fn end_puts(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        let all = self.state.ended.len();
        for n in 0..all {
            let Some(put) = self.state.ended.front().copied() else { return Ok(n) };
            if let Some(word) = put.word {
                let mut bytes = [0; FOLLOWS.len() + 4];
                bytes[..FOLLOWS.len()].copy_from_slice(&FOLLOWS);
                bytes[FOLLOWS.len()..].copy_from_slice(&word.to_le_bytes());
                match self.inner.message(put.peer, &bytes) {
                    Ok(Posted::Yes) => {}
                    Ok(Posted::Again) => return Ok(n),
                    Err(e) if e.kind() == crate::ErrorKind::PeerLost => {
                        sink.lost(Some(put.peer), e.message())
                    }
                    Err(e) => return Err(e),
                }
            }
            self.state.ended.pop_front();
            self.state.under_way -= 1;
            sink.done(put.token);
        }
        Ok(all)
    }
}

// SAFETY: all promises are those of the transport below, to which memory and puts go as they are. A put is said to be done not before
// it is so there, once. An arrival is said when it is there, or, of a put without its word, when the message arrives that was sent
// after that put was done: behind its bytes (`Limited::new` is only used on transports of which that holds).
unsafe impl Transport for Limited {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.inner.address()
    }

    fn place(&self) -> String {
        self.inner.place()
    }

    fn connect(&mut self, peer: u32, address: &[u8]) -> Result<()> {
        self.inner.connect(peer, address)
    }

    unsafe fn register(
        &mut self,
        ptr: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<(Registration, Remote)> {
        // SAFETY: passed on.
        unsafe { self.inner.register(ptr, len, access) }
    }

    fn share(&self, len: usize) -> Option<(File, Mapping)> {
        self.inner.share(len)
    }

    unsafe fn register_shared(
        &mut self,
        ptr: *mut u8,
        len: usize,
        file: File,
    ) -> Result<(Registration, Remote)> {
        // SAFETY: passed on.
        unsafe { self.inner.register_shared(ptr, len, file) }
    }

    unsafe fn register_memory(
        &mut self,
        ptr: *mut u8,
        len: usize,
        attributes: &MemoryAttributes,
    ) -> Result<(Registration, Remote)> {
        // SAFETY: passed on.
        unsafe { self.inner.register_memory(ptr, len, attributes) }
    }

    fn deregister(&mut self, registration: Registration) -> Result<()> {
        self.inner.deregister(registration)
    }

    unsafe fn put(
        &mut self,
        peer: u32,
        sources: &[Source],
        address: u64,
        key: u64,
        word: u32,
        token: u64,
    ) -> Result<Posted> {
        let total = sources.iter().fold(0u64, |total, s| total.saturating_add(s.len as u64));
        if sources.len() > self.limits.gather || total > self.limits.max_put {
            let n = sources.len();
            return Err(argument(format!(
                "a put of {n} segments and {total} bytes exceeds the forced limits"
            )));
        }
        if self.full(self.state.under_way) {
            return Ok(Posted::Again);
        }
        let void = self.state.void().filter(|void| word >= *void);
        let late = self.state.forced.inject.is_some_and(|most| total > most as u64);
        let index = self.state.free.pop().unwrap_or_else(|| {
            self.state.puts.push(None);
            self.state.puts.len() as u64 - 1
        });
        // SAFETY: passed on; the token is said to be done only when the one below is.
        let posted = unsafe { self.inner.put(peer, sources, address, key, void.unwrap_or(word), index) };
        match posted {
            Ok(Posted::Yes) => {
                // No vector is longer than memory.
                let at = usize::try_from(index).unwrap_or(0);
                self.state.puts[at] = Some(Put { peer, token, word: void.map(|_| word), late });
                self.state.under_way += 1;
            }
            _ => self.state.free.push(index),
        }
        posted
    }

    fn message(&mut self, peer: u32, bytes: &[u8]) -> Result<Posted> {
        if self.full(self.state.messages) {
            return Ok(Posted::Again);
        }
        let posted = self.inner.message(peer, bytes)?;
        self.state.messages += usize::from(posted == Posted::Yes);
        Ok(posted)
    }

    fn longest_message_to(&self, peer: u32) -> usize {
        self.inner.longest_message_to(peer)
    }

    fn connects(&self, peer: u32) -> bool {
        self.inner.connects(peer)
    }

    fn cut(&mut self, peer: u32) {
        self.inner.cut(peer);
        // Their tokens below are not used again.
        let State { puts, ended, under_way, .. } = &mut self.state;
        for put in puts.iter_mut().filter(|put| put.is_some_and(|put| put.peer == peer)) {
            *put = None;
            *under_way -= 1;
        }
        ended.retain(|put| {
            *under_way -= usize::from(put.peer == peer);
            put.peer != peer
        });
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize> {
        self.state.messages = 0;
        // Before the poll: what is done late is done in the next one.
        let ended = self.end_puts(sink)?;
        let held = self.state.held.len();
        let came = self.inner.poll(&mut Filter { state: &mut self.state, sink })?;
        let kept = self.state.held.len() - held;
        Ok(ended + came.saturating_sub(kept) + self.state.release(sink))
    }

    fn idle(&mut self, longest: Duration) {
        let waits = !self.state.ended.is_empty() || !self.state.held.is_empty();
        self.inner.idle(if waits { longest.min(BRIEF_REST) } else { longest });
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn slots(&mut self) -> Option<&mut SlotPool> {
        self.inner.slots()
    }

    fn lend(&self, bytes: &[u8]) -> Option<Lent> {
        self.inner.lend(bytes)
    }

    fn reads_memory_of(&mut self, peer: u32) -> bool {
        self.inner.reads_memory_of(peer)
    }

    fn fetch(&mut self, peer: u32, lent: Lent, at: usize, out: (&mut [u8], u64)) -> Result<()> {
        self.inner.fetch(peer, lent, at, out)
    }

    fn close(&mut self) -> Result<()> {
        self.inner.close()
    }

    fn abort(&mut self) -> Result<()> {
        self.inner.abort()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sim;
    use super::*;

    /// What a rank is told.
    #[derive(Default)]
    struct Told {
        arrivals: Vec<u32>,
        done: Vec<u64>,
        messages: Vec<Vec<u8>>,
    }

    impl Sink for Told {
        fn arrival(&mut self, word: u32) {
            self.arrivals.push(word);
        }
        fn done(&mut self, token: u64) {
            self.done.push(token);
        }
        fn message(&mut self, bytes: &[u8]) {
            self.messages.push(bytes.to_vec());
        }
        fn lost(&mut self, _: Option<u32>, why: &str) {
            panic!("{why}");
        }
    }

    /// Two ranks, the first of which puts from this memory to itself of the second.
    struct Two {
        ranks: Vec<(Limited, Told)>,
        from: Source,
        to: Remote,
        _memory: Box<[[u8; 8192]; 2]>,
    }

    fn two(limits: &str) -> Two {
        let forced = ForcedLimits::read(limits).unwrap();
        let mut memory = Box::new([[7u8; 8192], [0; 8192]]);
        let wires = sim::group(2, &sim::Faults::default()).into_iter();
        let mut ranks: Vec<_> =
            wires.map(|wire| (Limited::new(Box::new(wire), forced.clone(), 5), Told::default())).collect();
        let at = memory.as_mut_ptr();
        let mut register = |rank: usize, access| {
            // SAFETY: the memory lives as long as the endpoints, in one value, and nothing else touches it.
            unsafe { ranks[rank].0.register(at.add(rank).cast(), 8192, access) }.unwrap()
        };
        let (registration, _) = register(0, Access::Source);
        let (_, to) = register(1, Access::Target);
        Two { ranks, from: Source { ptr: at.cast(), len: 8192, registration }, to, _memory: memory }
    }

    impl Two {
        fn put(&mut self, lengths: &[usize], word: u32, token: u64) -> Result<Posted> {
            let sources: Vec<_> = lengths.iter().map(|len| Source { len: *len, ..self.from }).collect();
            // SAFETY: the sources lie in their registration and live as long as the endpoint.
            unsafe { self.ranks[0].0.put(1, &sources, self.to.base, self.to.key, word, token) }
        }

        fn poll(&mut self, rank: usize) -> usize {
            let (wire, told) = &mut self.ranks[rank];
            wire.poll(told).unwrap()
        }
    }

    #[test]
    fn a_word_that_does_not_fit_follows_when_its_put_is_done() {
        for (limits, with_the_put) in [
            ("queue=9", &[0, 7, 0xFFFE, 0xFFFF, 0xFFFF_FFFF][..]),
            ("word=16", &[0, 7, 0xFFFE]),
            ("no-word", &[]),
        ] {
            let mut two = two(limits);
            for (token, word) in (10..).zip([0, 7, 0xFFFE, 0xFFFF, 0xFFFF_FFFF]) {
                assert_eq!(two.put(&[100], word, token).unwrap(), Posted::Yes);
            }
            two.poll(1);
            assert_eq!(two.ranks[1].1.arrivals, with_the_put, "{limits}: no put is done yet");
            while two.poll(0) > 0 {}
            while two.poll(1) > 0 {}
            two.ranks[0].1.done.sort_unstable();
            assert_eq!(two.ranks[0].1.done, [10, 11, 12, 13, 14], "{limits}");
            assert_eq!(two.ranks[1].1.arrivals, [0, 7, 0xFFFE, 0xFFFF, 0xFFFF_FFFF], "{limits}");
            assert!(two.ranks[1].1.messages.is_empty(), "{limits}");
        }
    }

    #[test]
    fn a_full_queue_refuses_until_there_is_room() {
        let mut two = two("queue=2");
        let posted: Vec<_> = (0..3).map(|token| two.put(&[100], 1, token).unwrap()).collect();
        assert_eq!(posted, [Posted::Yes, Posted::Yes, Posted::Again]);
        let sent: Vec<_> = (0..3).map(|_| two.ranks[0].0.message(1, b"x").unwrap()).collect();
        assert_eq!(sent, [Posted::Yes, Posted::Yes, Posted::Again]);
        two.poll(0);
        assert_eq!(two.ranks[0].1.done, [0, 1]);
        assert_eq!(two.put(&[100], 1, 2).unwrap(), Posted::Yes);
        assert_eq!(two.ranks[0].0.message(1, b"x").unwrap(), Posted::Yes);
    }

    #[test]
    fn all_that_comes_is_handed_on_once_in_another_order() {
        let mut two = two("unordered,no-word");
        let words: Vec<u32> = (0..40).collect();
        for word in &words {
            assert_eq!(two.put(&[1], *word, 0).unwrap(), Posted::Yes);
            assert_eq!(two.ranks[0].0.message(1, &word.to_le_bytes()).unwrap(), Posted::Yes);
        }
        while two.poll(0) > 0 {}
        while two.poll(1) > 0 {}
        let told = &two.ranks[1].1;
        let messages: Vec<_> =
            told.messages.iter().map(|bytes| u32::from_le_bytes(bytes[..].try_into().unwrap())).collect();
        for came in [&told.arrivals, &messages] {
            assert_ne!(came, &words);
            let mut sorted = came.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, words);
        }
    }

    #[test]
    fn a_source_is_needed_for_longer() {
        let mut two = two("inject=100");
        assert_eq!(two.put(&[100], 1, 1).unwrap(), Posted::Yes);
        assert_eq!(two.put(&[100, 1], 1, 2).unwrap(), Posted::Yes);
        two.poll(0);
        assert_eq!(two.ranks[0].1.done, [1]);
        two.poll(0);
        assert_eq!(two.ranks[0].1.done, [1, 2]);
    }

    #[test]
    fn puts_to_a_rank_that_is_cut_off_end_without_a_word() {
        let mut two = two("inject=0,queue=2");
        assert_eq!(two.put(&[100], 1, 1).unwrap(), Posted::Yes);
        two.poll(0);
        // The first would be done in the next poll.
        assert_eq!(two.put(&[100], 1, 2).unwrap(), Posted::Yes);
        assert_eq!(two.put(&[100], 1, 3).unwrap(), Posted::Again);
        two.ranks[0].0.cut(1);
        assert_eq!(two.ranks[0].0.state.under_way, 0);
        two.poll(0);
        two.poll(0);
        assert!(two.ranks[0].1.done.is_empty());
    }

    #[test]
    fn a_put_beyond_the_limits_is_refused() {
        let mut two = two("gather=2,max_put=4096");
        let limits = two.ranks[0].0.limits();
        assert_eq!((limits.gather, limits.max_put), (2, 4096));
        assert!(two.put(&[1, 1, 1], 1, 1).is_err() && two.put(&[4096, 1], 1, 1).is_err());
        assert_eq!(two.put(&[4095, 1], 1, 1).unwrap(), Posted::Yes);
        assert_eq!(two.put(&[], 1, 1).unwrap(), Posted::Yes);
    }
}
