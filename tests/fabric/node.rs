//! Endpoints with an arena and a log each: of libfabric, and (`shm`) of our own shared memory.

use circulant::config::{Config, Library};
use circulant::transport::fabric::{Fabric, Interfaces, Options, quirks};
use circulant::transport::rails;
use circulant::transport::shm;
use circulant::transport::{Access, Posted, Registration, Remote, Sink, Source, Transport};
use std::alloc::Layout;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Of each node: where it puts from, and where others put.
pub(crate) const ARENA: usize = 6 << 20;
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn options(provider: &str) -> Options<'_> {
    static LIBRARY: std::sync::OnceLock<Library> = std::sync::OnceLock::new();
    let library = LIBRARY.get_or_init(|| Config::from_env().libfabric.clone());
    Options { provider, all_on_one_node: true, size: 4, libfabric: library, ..Options::default() }
}

/// Small, and the same for the same seed, which a failing test prints.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = match std::env::var("TEST_SEED") {
            Ok(text) => text.parse().unwrap(),
            Err(_) => now.as_nanos() as u64 | 1,
        };
        println!("seed {seed} (TEST_SEED)");
        Self(seed)
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.below(256) as u8);
    }
}

/// What a node saw; checks expected payloads at the very moment of the arrival.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) arena: usize,
    pub(crate) expected: HashMap<u32, (usize, Vec<u8>)>,
    pub(crate) arrivals: Vec<u32>,
    pub(crate) done: Vec<u64>,
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) lost: Vec<(Option<u32>, String)>,
}

impl Sink for Log {
    fn arrival(&mut self, word: u32) {
        if let Some((offset, payload)) = self.expected.remove(&word) {
            // SAFETY: the offset and length lie in the arena of ARENA bytes, which outlives the node.
            let there =
                unsafe { std::slice::from_raw_parts((self.arena + offset) as *const u8, payload.len()) };
            assert!(there == payload, "payload of word {word}, {} bytes, is not whole", payload.len());
        }
        self.arrivals.push(word);
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

pub(crate) struct Node {
    pub(crate) wire: Box<dyn Transport>,
    pub(crate) log: Log,
    pub(crate) arena: *mut u8,
    pub(crate) registration: Registration,
    pub(crate) remote: Remote,
}

pub(crate) fn layout() -> Layout {
    Layout::from_size_align(ARENA, 4096).unwrap()
}

impl Drop for Node {
    fn drop(&mut self) {
        self.wire.close().unwrap();
        // SAFETY: allocated with this layout; closed, so it is not used any more.
        unsafe { std::alloc::dealloc(self.arena, layout()) };
    }
}

/// An endpoint of rank `rank` of four.
fn wire(provider: &str, rank: u32) -> Box<dyn Transport> {
    if provider == "rails" {
        return rails::open(&options("tcp"), &Interfaces::Named(vec!["lo".to_owned(); 2])).unwrap();
    }
    if provider != "shm" {
        return Box::new(Fabric::open(&options(provider)).unwrap());
    }
    // SAFETY: tests have one endpoint of each rank, as all providers need.
    unsafe { shm::endpoint(rank, &[0, 1, 2, 3]) }.unwrap()
}

/// Whether a rank can put to itself, and whether puts to the dead become errors.
pub(crate) fn promises(provider: &str, wire: &dyn Transport) -> (bool, bool) {
    match provider {
        "shm" => (true, false),
        _ => {
            let name = wire.limits().provider.split('*').next().unwrap();
            let quirk = quirks::quirk(name);
            (quirk.to_self, quirk.reports_death)
        }
    }
}

impl Node {
    pub(crate) fn open(provider: &str, rank: u32) -> Self {
        Self::over(wire(provider, rank))
    }
    /// Of libfabric, for ranks that go on without those that are gone.
    pub(crate) fn that_survives(provider: &str) -> Self {
        Self::over(Box::new(Fabric::open(&Options { survives: true, ..options(provider) }).unwrap()))
    }
    fn over(mut wire: Box<dyn Transport>) -> Self {
        // SAFETY: the layout has a size; the arena lives until the endpoint is closed (drop), and is touched
        // by raw pointers, or slices that live between two polls.
        let (arena, (registration, remote)) = unsafe {
            let arena = std::alloc::alloc_zeroed(layout());
            (arena, wire.register(arena, ARENA, Access::Target).unwrap())
        };
        Self { wire, log: Log { arena: arena as usize, ..Log::default() }, arena, registration, remote }
    }
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= ARENA);
        // SAFETY: within the arena, checked; nothing of it is in flight where a test writes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.arena.add(at), bytes.len()) };
    }
    pub(crate) fn read(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= ARENA);
        // SAFETY: within the arena, checked.
        unsafe { std::slice::from_raw_parts(self.arena.add(at), len) }.to_vec()
    }
    pub(crate) fn source(&self, at: usize, len: usize) -> Source {
        Source { ptr: self.arena.wrapping_add(at), len, registration: self.registration }
    }
    pub(crate) fn poll(&mut self) -> usize {
        self.wire.poll(&mut self.log).unwrap()
    }
    pub(crate) fn poll_for(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.poll();
        }
    }
}

/// `n` endpoints, each connected to all (also to itself where it says that works).
pub(crate) fn nodes(provider: &str, n: usize) -> Vec<Node> {
    let mut nodes: Vec<Node> = (0..n).map(|i| Node::open(provider, i as u32)).collect();
    let addresses: Vec<Vec<u8>> = nodes.iter().map(|n| n.wire.address()).collect();
    for node in &mut nodes {
        for (peer, address) in addresses.iter().enumerate() {
            node.wire.connect(peer as u32, address).unwrap();
        }
    }
    nodes
}

pub(crate) fn all_poll(nodes: &mut [Node], mut until: impl FnMut(&[Node]) -> bool) {
    let start = Instant::now();
    while !until(nodes) {
        if nodes.iter_mut().map(Node::poll).sum::<usize>() == 0 {
            nodes[0].wire.idle(Duration::from_millis(1));
        }
        for node in nodes.iter() {
            assert!(node.log.lost.is_empty(), "{:?}", node.log.lost);
        }
        assert!(start.elapsed() < TIMEOUT, "nothing more happens");
    }
}

/// Puts until taken, all polling meanwhile. The caller keeps the sources untouched until done.
pub(crate) fn put(
    nodes: &mut [Node],
    from: usize,
    to: usize,
    sources: &[Source],
    at: usize,
    word: u32,
    token: u64,
) {
    let remote = nodes[to].remote;
    let start = Instant::now();
    loop {
        // SAFETY: the sources lie in the node's arena, which lives as long as the endpoint; tests write there
        // again only after `done`.
        let posted = unsafe {
            nodes[from].wire.put(to as u32, sources, remote.base + at as u64, remote.key, word, token)
        };
        match posted.unwrap() {
            Posted::Yes => return,
            Posted::Again => nodes.iter_mut().for_each(|n| _ = n.poll()),
        }
        assert!(start.elapsed() < TIMEOUT, "the put is never taken");
    }
}

pub(crate) fn say(nodes: &mut [Node], from: usize, to: usize, bytes: &[u8]) {
    let start = Instant::now();
    while nodes[from].wire.message(to as u32, bytes).unwrap() == Posted::Again {
        nodes.iter_mut().for_each(|n| _ = n.poll());
        assert!(start.elapsed() < TIMEOUT, "the message is never taken");
    }
}
