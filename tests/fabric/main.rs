//! The libfabric transport on real providers, and our own shared memory (`shm`): several endpoints in one process,
//! one thread driving all.
//!
//! `CIRCULANT_LIBFABRIC` chooses the library (and FI_PROVIDER_PATH its plug-ins), `TEST_PROVIDERS`
//! the providers, comma separated, in place of those that need no hardware.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

// The harness is our own, so clippy does not see that this is a test.

mod allocations;
mod node;
mod processes;
mod strangers;

use allocations::nothing_is_allocated;
use circulant::ErrorKind;
use circulant::transport::fabric::{Fabric, Options, quirks, survey};
use circulant::transport::{
    Access, Borrow, Copier, LONG_MESSAGE_MAX, MESSAGE_MAX, Memory, MemoryAttributes, MemoryKind, Posted,
    Registration, Source, Transport,
};
use libtest_mimic::{Arguments, Trial};
use memmap2::MmapMut;
use node::{ARENA, Node, Random, TIMEOUT, all_poll, nodes, options, promises, put, say};
use processes::{
    a_killed_peer_is_no_hang, an_endpoint_goes_on_without_a_peer, be_a_peer, closing_under_fire,
    two_processes_trade, what_is_taken_arrives_after_deaths,
};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use strangers::{
    another_user_is_kept_out, only_sources_can_connect, raw_messages_are_dropped, strangers_are_not_heard,
    strangers_at_the_port,
};

/// Providers that run anywhere. The second column: take part in the cases with thousands of operations.
const PROVIDERS: &[(&str, bool)] =
    &[("tcp", true), ("rxm", true), ("fi_shm", true), ("sockets", false), ("rails", true), ("shm", true)];

/// How much a case asks of a provider.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    Little,
    /// Thousands of operations.
    Much,
    /// Endpoints of one process talk both ways; more than libfabric 2.5's shm can do: it crashes in its own
    /// progress function. Two processes are fine.
    BothWays,
}
use Load::{BothWays, Little, Much};

type Case = (&'static str, fn(&str), Load);

const CASES: &[Case] = &[
    ("puts_arrive_whole", puts_arrive_whole, BothWays),
    ("gathers_up_to_the_limit", gathers_up_to_the_limit, Much),
    ("sources_may_be_read_only", sources_may_be_read_only, Little),
    ("names_differ_between_endpoints", names_differ_between_endpoints, Little),
    ("limits_say_what_it_does", limits_say_what_it_does, Little),
    ("words_arrive_once", words_arrive_once, Little),
    ("puts_to_oneself", puts_to_oneself, Little),
    ("the_longest_messages_arrive", the_longest_messages_arrive, Little),
    ("messages_both_ways", messages_both_ways, BothWays),
    ("thousands_at_once", thousands_at_once, Much),
    ("nothing_is_allocated", nothing_is_allocated, Much),
    ("wrong_requests_are_refused", wrong_requests_are_refused, Little),
    ("deregistered_memory_is_left_alone", deregistered_memory_is_left_alone, Little),
    ("closing_ends_everything", closing_ends_everything, Little),
    ("closing_under_fire", closing_under_fire, Much),
    ("two_processes_trade", two_processes_trade, Little),
    ("a_killed_peer_is_no_hang", a_killed_peer_is_no_hang, Little),
    ("an_endpoint_goes_on_without_a_peer", an_endpoint_goes_on_without_a_peer, Little),
    ("what_is_taken_arrives_after_deaths", what_is_taken_arrives_after_deaths, Little),
    ("opening_leaves_signal_handlers", opening_leaves_signal_handlers, Little),
    ("survey_says_what_open_takes", survey_says_what_open_takes, Little),
    ("memory_of_devices_is_asked_for", memory_of_devices_is_asked_for, Little),
    ("strangers_are_not_heard", strangers_are_not_heard, Little),
    ("strangers_at_the_port", strangers_at_the_port, Little),
    ("raw_messages_are_dropped", raw_messages_are_dropped, Little),
    ("only_sources_can_connect", only_sources_can_connect, Little),
];

fn main() {
    if let Ok(provider) = std::env::var("TEST_PEER") {
        return be_a_peer(&provider, rank());
    }
    let mut args = Arguments::from_args();
    // One thread: the presets can then be set, and libfabric's start is paid once.
    args.test_threads = Some(1);
    let named = std::env::var("TEST_PROVIDERS").ok();
    let providers: Vec<(String, bool)> = match &named {
        Some(list) => list.split(',').map(|p| (p.to_owned(), true)).collect(),
        None => PROVIDERS.iter().map(|(p, many)| ((*p).to_owned(), *many)).collect(),
    };
    let survey = survey(&options("auto")).expect("libfabric");
    if !args.list {
        println!("{survey}");
    }
    let mut trials = vec![
        Trial::test("unknown_provider", || done(unknown_provider)),
        Trial::test("shm_needs_one_node", || done(shm_needs_one_node)),
        // Another user's process can be started by root only.
        Trial::test("shm::another_user_is_kept_out", || done(another_user_is_kept_out))
            .with_ignored_flag(!rustix::process::geteuid().is_root()),
    ];
    for (provider, many) in &providers {
        for (name, body, load) in CASES {
            let of_libfabric = [
                "opening_leaves_signal_handlers",
                "survey_says_what_open_takes",
                "memory_of_devices_is_asked_for",
                "strangers_are_not_heard",
                "strangers_at_the_port",
                "raw_messages_are_dropped",
                "only_sources_can_connect",
            ]
            .contains(name);
            if (*many || *load != Much) && !(["shm", "rails"].contains(&provider.as_str()) && of_libfabric) {
                let out = *load == BothWays && provider == "fi_shm" && survey.version.starts_with("2.");
                let provider = provider.clone();
                let trial = Trial::test(format!("{provider}::{name}"), move || done(|| body(&provider)));
                trials.push(trial.with_ignored_flag(out));
            }
        }
    }
    libtest_mimic::run(&args, trials).exit();
}

/// Which rank we play in a process of our own.
fn rank() -> u32 {
    std::env::var("TEST_RANK").unwrap().parse().unwrap()
}

/// A case fails by a panic.
fn done(body: impl FnOnce()) -> Result<(), libtest_mimic::Failed> {
    body();
    Ok(())
}

fn puts_arrive_whole(provider: &str) {
    let mut nodes = nodes(provider, 3);
    let mut random = Random::new();
    let inject = nodes[0].wire.limits().inject;
    let mut sizes = vec![0, 1, 7, 8, inject - 1, inject, inject + 1, 4095, 4096, 4097, 16384, 65537, 4 << 20];
    sizes.extend((0..40).map(|i| 1 + random.below(1 << (1 + i % 22))));
    for (i, &size) in sizes.iter().enumerate() {
        let (from, to) = (random.below(3), random.below(3));
        let to = if from == to { (to + 1) % 3 } else { to };
        let (source, target) = (random.below(ARENA - size), random.below(ARENA - size));
        let mut payload = vec![0; size];
        random.fill(&mut payload);
        nodes[from].write(source, &payload);
        nodes[to].log.expected.insert(i as u32, (target, payload.clone()));
        // What lies around the target must stay.
        let around = nodes[to].read(0, ARENA);
        let sources = [nodes[from].source(source, size)];
        put(&mut nodes, from, to, &sources, target, i as u32, 1000 + i as u64);
        all_poll(&mut nodes, |n| {
            n[to].log.arrivals.last() == Some(&(i as u32))
                && n[from].log.done.last() == Some(&(1000 + i as u64))
        });
        let now = nodes[to].read(0, ARENA);
        assert!(
            now[..target] == around[..target] && now[target + size..] == around[target + size..],
            "size {size}"
        );
    }
}

fn gathers_up_to_the_limit(provider: &str) {
    let mut nodes = nodes(provider, 2);
    let mut random = Random::new();
    let limit = nodes[0].wire.limits().gather;
    for i in 0..60u32 {
        let segments = 1 + i as usize % limit;
        let mut payload = Vec::new();
        let mut sources = Vec::new();
        for s in 0..segments {
            let mut piece = vec![0; 1 + random.below(1 << (1 + i as usize % 17))];
            random.fill(&mut piece);
            let at = s * (1 << 18) + random.below(1000);
            nodes[0].write(at, &piece);
            sources.push(nodes[0].source(at, piece.len()));
            payload.extend(piece);
            if i % 3 == 0 {
                sources.push(nodes[0].source(at, 0)); // no bytes: no segment
            }
        }
        let target = random.below(ARENA - payload.len());
        nodes[1].log.expected.insert(i, (target, payload));
        put(&mut nodes, 0, 1, &sources, target, i, u64::from(i));
        all_poll(&mut nodes, |n| {
            n[1].log.arrivals.len() == i as usize + 1 && n[0].log.done.len() == i as usize + 1
        });
        assert!(nodes[1].log.expected.is_empty());
    }
}

fn sources_may_be_read_only(provider: &str) {
    const SIZE: usize = 100_000;
    let mut table = MmapMut::map_anon(SIZE).unwrap();
    Random::new().fill(&mut table);
    let table = table.make_read_only().unwrap();
    let mut nodes = nodes(provider, 2);
    // SAFETY: the mapping outlives the endpoints, which are dropped before it, and is only read.
    let registered =
        unsafe { nodes[0].wire.register(table.as_ptr().cast_mut(), SIZE, Access::Source) }.unwrap();
    let source = Source { ptr: table.as_ptr(), len: SIZE, registration: registered.0 };
    nodes[1].log.expected.insert(1, (0, table.to_vec()));
    put(&mut nodes, 0, 1, &[source], 0, 1, 1);
    all_poll(&mut nodes, |n| n[1].log.arrivals == [1] && n[0].log.done == [1]);
    nodes[0].wire.deregister(registered.0).unwrap();
}

/// What one endpoint calls its memory says nothing of another's, not even at an endpoint that did the same before.
fn names_differ_between_endpoints(provider: &str) {
    let nodes = nodes(provider, 4);
    let keys: BTreeSet<u64> = nodes.iter().map(|n| n.remote.key).collect();
    assert_eq!(keys.len(), nodes.len(), "{keys:x?}");
}

fn limits_say_what_it_does(provider: &str) {
    let nodes = nodes(provider, 1);
    let (node, limits) = (&nodes[0], nodes[0].wire.limits());
    assert_eq!(node.remote.base == node.arena as u64, !limits.offsets, "{limits:?}");
    assert_eq!(limits.copier == Copier::Reader, provider == "shm", "{limits:?}");
    assert_eq!(limits.may_hang, provider == "fi_shm", "{limits:?}");
    // Asleep at one of several interfaces it does not see the others.
    assert!(!limits.wakes || !["shm", "rails"].contains(&provider), "{limits:?}");
    assert_eq!((limits.memory, limits.shm_within_nodes), (&[MemoryKind::Host][..], false));
}

fn words_arrive_once(provider: &str) {
    let mut nodes = nodes(provider, 2);
    let words = [0, 1, u32::MAX, 0x8000_0000, 0xdead_beef, 7, 7];
    for (i, &word) in words.iter().enumerate() {
        // In turn: no sources, a short one, one that is not injected.
        let sources = match i % 3 {
            0 => vec![],
            1 => vec![nodes[0].source(0, 8)],
            _ => vec![nodes[0].source(0, 100_000)],
        };
        put(&mut nodes, 0, 1, &sources, 0, word, i as u64);
    }
    all_poll(&mut nodes, |n| n[1].log.arrivals.len() == words.len() && n[0].log.done.len() == words.len());
    let (mut got, mut want) = (nodes[1].log.arrivals.clone(), words.to_vec());
    got.sort_unstable();
    want.sort_unstable();
    assert_eq!(got, want);
    nodes[0].log.done.sort_unstable();
    assert_eq!(nodes[0].log.done, (0..words.len() as u64).collect::<Vec<_>>());
    assert!(nodes[0].log.arrivals.is_empty(), "the sender saw an arrival");
}

fn puts_to_oneself(provider: &str) {
    let mut nodes = nodes(provider, 1);
    if !promises(provider, &*nodes[0].wire).0 {
        return;
    }
    for (i, size) in [0, 8, 5000, 200_000].into_iter().enumerate() {
        let payload = vec![i as u8 + 1; size];
        nodes[0].write(0, &payload);
        nodes[0].log.expected.insert(i as u32, (1 << 20, payload));
        let sources = [nodes[0].source(0, size)];
        put(&mut nodes, 0, 0, &sources, 1 << 20, i as u32, i as u64);
        all_poll(&mut nodes, |n| n[0].log.arrivals.len() == i + 1 && n[0].log.done.len() == i + 1);
    }
}

fn messages_both_ways(provider: &str) {
    let mut nodes = nodes(provider, 2);
    let text = |from: usize, i: usize| -> Vec<u8> {
        (0..i % (MESSAGE_MAX + 1)).map(|k| (from * 100 + i + k) as u8).collect()
    };
    // More than there are receive buffers, before the other side looks.
    const COUNT: usize = 300;
    for i in 0..COUNT {
        for from in 0..2 {
            say(&mut nodes, from, 1 - from, &text(from, i));
        }
    }
    all_poll(&mut nodes, |n| n.iter().all(|n| n.log.messages.len() >= COUNT));
    for (me, node) in nodes.iter_mut().enumerate() {
        let mut want: Vec<Vec<u8>> = (0..COUNT).map(|i| text(1 - me, i)).collect();
        want.sort();
        node.log.messages.sort();
        assert!(node.log.messages == want);
    }
}

/// What every transport carries, and what this one says.
fn the_longest_messages_arrive(provider: &str) {
    let mut nodes = nodes(provider, 2);
    let longest = nodes[0].wire.limits().message;
    assert!(longest <= LONG_MESSAGE_MAX);
    let texts: Vec<Vec<u8>> = [MESSAGE_MAX, longest]
        .into_iter()
        .map(|len| (0..len).map(|k| (len + k * k) as u8).collect())
        .collect();
    for text in &texts {
        say(&mut nodes, 0, 1, text);
    }
    all_poll(&mut nodes, |n| n[1].log.messages.len() == texts.len());
    assert!(texts.iter().all(|text| nodes[1].log.messages.contains(text)));
}

fn thousands_at_once(provider: &str) {
    let mut nodes = nodes(provider, 2);
    const COUNT: u32 = 6000;
    let mut refused = 0;
    for i in 0..COUNT {
        let size = [8, 64, 500, 9000][i as usize % 4];
        let source = [nodes[0].source((i as usize * 64) % (1 << 20), size)];
        let remote = nodes[1].remote;
        let start = Instant::now();
        // Only the sender progresses, until nothing goes any more.
        // SAFETY: the source lies in the arena and is not written in this test.
        while unsafe { nodes[0].wire.put(1, &source, remote.base + (2 << 20), remote.key, i, u64::from(i)) }
            .unwrap()
            == Posted::Again
        {
            refused += 1;
            if nodes[0].poll() == 0 {
                nodes[1].poll();
            }
            assert!(start.elapsed() < TIMEOUT, "put {i} is never taken");
        }
    }
    assert!(refused > 0, "an endpoint takes a bounded number of puts");
    all_poll(&mut nodes, |n| {
        n[1].log.arrivals.len() >= COUNT as usize && n[0].log.done.len() >= COUNT as usize
    });
    nodes[1].log.arrivals.sort_unstable();
    nodes[0].log.done.sort_unstable();
    assert_eq!(nodes[1].log.arrivals, (0..COUNT).collect::<Vec<_>>());
    assert_eq!(nodes[0].log.done, (0..u64::from(COUNT)).collect::<Vec<_>>());
}

/// One put that fails, as an error kind.
fn failing(node: &mut Node, peer: u32, sources: &[Source]) -> ErrorKind {
    // SAFETY: refused before the provider hears of it, or lying in the arena.
    let posted = unsafe { node.wire.put(peer, sources, node.remote.base, node.remote.key, 1, 1) };
    posted.unwrap_err().kind()
}

fn wrong_requests_are_refused(provider: &str) {
    let mut nodes = nodes(provider, 2);
    let limits = nodes[0].wire.limits().clone();
    let good = nodes[0].source(0, 8);
    let many = vec![good; limits.gather + 1];
    assert_eq!(failing(&mut nodes[0], 1, &many), ErrorKind::Argument);
    // Rails take longer ones: their limit says where to cut.
    if limits.max_put < ARENA as u64 * 2 && provider != "rails" {
        let long = nodes[0].source(0, limits.max_put as usize / 2 + 1);
        assert_eq!(failing(&mut nodes[0], 1, &[long, long]), ErrorKind::Argument);
    }
    assert_eq!(failing(&mut nodes[0], 9, &[good]), ErrorKind::Argument);
    let outside = [
        Source { len: ARENA + 1, ..good },
        Source { ptr: good.ptr.wrapping_sub(1), ..good },
        Source { ptr: good.ptr.wrapping_add(ARENA), ..good },
        Source { len: usize::MAX, ..good },
        Source { registration: Registration(77), ..good },
        Source { registration: Registration(u32::MAX), ..good },
    ];
    for source in outside {
        assert_eq!(failing(&mut nodes[0], 1, &[source]), ErrorKind::Argument);
    }
    assert_eq!(nodes[0].wire.message(1, &[0; LONG_MESSAGE_MAX + 1]).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(nodes[0].wire.message(9, b"x").unwrap_err().kind(), ErrorKind::Argument);
    let address = nodes[1].wire.address();
    assert_eq!(nodes[0].wire.connect(1, &address).unwrap_err().kind(), ErrorKind::Argument);
    for wrong in [&[][..], &address[..10], &address[..20], b"no address at all, but long enough for one"] {
        assert!(nodes[0].wire.connect(2, wrong).is_err());
    }
    assert!(nodes[0].wire.deregister(Registration(99)).is_err());
    // None of it did any harm.
    put(&mut nodes, 0, 1, &[good], 0, 42, 43);
    all_poll(&mut nodes, |n| !n[1].log.arrivals.is_empty() && !n[0].log.done.is_empty());
    assert_eq!((&nodes[1].log.arrivals[..], &nodes[0].log.done[..]), (&[42][..], &[43][..]));
}

fn deregistered_memory_is_left_alone(provider: &str) {
    let mut nodes = nodes(provider, 2);
    let start = nodes[1].arena.wrapping_add(4 << 20);
    // SAFETY: a part of the arena, which outlives the endpoint.
    let (inner, remote) = unsafe { nodes[1].wire.register(start, 4096, Access::Target).unwrap() };
    nodes[0].write(0, &[5; 4096]);
    let source = [nodes[0].source(0, 4096)];
    let send = |nodes: &mut Vec<Node>, word| {
        // SAFETY: the source lies in the arena and is not written in this test.
        while unsafe { nodes[0].wire.put(1, &source, remote.base, remote.key, word, u64::from(word)) }
            .unwrap()
            == Posted::Again
        {
            nodes.iter_mut().for_each(|n| _ = n.poll());
        }
    };
    send(&mut nodes, 1);
    all_poll(&mut nodes, |n| n[1].log.arrivals == [1] && n[0].log.done == [1]);
    assert!(nodes[1].read(4 << 20, 4096) == [5; 4096]);

    nodes[1].wire.deregister(inner).unwrap();
    assert!(nodes[1].wire.deregister(inner).is_err(), "twice");
    if nodes[0].wire.limits().borrow == Borrow::Direct {
        nodes[1].write(4 << 20, &[6; 4096]);
        send(&mut nodes, 2);
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            nodes.iter_mut().for_each(|n| _ = n.poll());
        }
        assert!(nodes[1].read(4 << 20, 4096) == [6; 4096], "a peer wrote into deregistered memory");
    }
    // The near end: a source whose registration has ended is refused.
    let mine = nodes[0].registration;
    nodes[0].wire.deregister(mine).unwrap();
    assert_eq!(failing(&mut nodes[0], 1, &source), ErrorKind::Argument);
    // No bytes: nothing to register.
    // SAFETY: no bytes.
    let (none, _) = unsafe { nodes[0].wire.register(std::ptr::null_mut(), 0, Access::Target).unwrap() };
    nodes[0].wire.deregister(none).unwrap();
}

fn closing_ends_everything(provider: &str) {
    for _ in 0..3 {
        let mut nodes = nodes(provider, 2);
        let source = [nodes[0].source(0, 1 << 20)];
        // Closed with a long put under way: whatever becomes of it, nothing may hang or crash.
        put(&mut nodes, 0, 1, &source, 0, 1, 1);
        for node in &mut nodes {
            node.wire.close().unwrap();
            node.wire.close().unwrap();
            assert_eq!(node.wire.poll(&mut node.log).unwrap_err().kind(), ErrorKind::Aborted);
            assert_eq!(node.wire.message(1, b"x").unwrap_err().kind(), ErrorKind::Aborted);
            assert_eq!(failing(node, 1, &source), ErrorKind::Aborted);
            // SAFETY: refused.
            assert!(unsafe { node.wire.register(node.arena, 8, Access::Target) }.is_err());
        }
    }
    assert!(leftovers().is_empty(), "{:?}", leftovers());
}

/// This process's files in /dev/shm.
fn leftovers() -> Vec<String> {
    let mine = format!("{}:", std::process::id());
    let names = std::fs::read_dir("/dev/shm").unwrap().flatten();
    names.filter_map(|e| e.file_name().into_string().ok()).filter(|n| n.starts_with(&mine)).collect()
}

/// The handlers of the signals that providers take an interest in.
fn handlers() -> Vec<usize> {
    let signals = [libc::SIGSEGV, libc::SIGBUS, libc::SIGTERM, libc::SIGINT, libc::SIGABRT, libc::SIGILL];
    let asked = signals.map(|signal| {
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: asks only; there is room for the answer, and all-zero is a valid value besides.
        unsafe {
            libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
            action.assume_init().sa_sigaction
        }
    });
    asked.to_vec()
}

fn opening_leaves_signal_handlers(provider: &str) {
    let before = handlers();
    assert!(before[0] != libc::SIG_DFL, "Rust reports stack overflows");
    let mut wire = Fabric::open(&options(provider)).unwrap();
    assert_eq!(handlers(), before);
    wire.close().unwrap();
    assert_eq!(handlers(), before);
}

fn survey_says_what_open_takes(provider: &str) {
    let survey = survey(&options(provider)).unwrap();
    println!("{survey}");
    let chosen = &survey.candidates[survey.chosen.unwrap()];
    let wire = Fabric::open(&options(provider)).unwrap();
    assert_eq!(quirks::quirk(&chosen.provider).provider, quirks::quirk(&wire.limits().provider).provider);
    assert_eq!(chosen.max_put, wire.limits().max_put);
    assert!(wire.limits().gather >= 1 && wire.limits().gather <= chosen.gather);
    assert!(chosen.rejected.is_none() && chosen.word >= 4);
    let want: &[&str] = match provider {
        "tcp" if survey.version == "1.17" => &["net"],
        "tcp" => &["tcp"],
        "rxm" => &["tcp;ofi_rxm"],
        "verbs" => &["verbs;ofi_rxm"],
        "udp" => &["udp;ofi_rxd"],
        "fi_shm" => &["shm", "fi_shm"],
        exact => &[exact],
    };
    assert!(want.contains(&chosen.provider.as_str()), "{provider} is {}", chosen.provider);
}

/// There is no device here: what can be seen is that memory is registered by attributes, and that what is missing is named.
fn memory_of_devices_is_asked_for(provider: &str) {
    let mut bytes = [0u8; 4096];
    let mut register = |wire: &mut Fabric, memory| {
        // SAFETY: the bytes live longer than the endpoints, which no peer knows; nothing is copied.
        let made = unsafe { wire.register_memory(bytes.as_mut_ptr(), 4096, &MemoryAttributes::new(memory)) };
        made.map(|(registration, _)| wire.deregister(registration).unwrap())
    };
    let mut wire = Fabric::open(&options(provider)).unwrap();
    let e = register(&mut wire, Memory::Cuda(0)).unwrap_err();
    assert!(e.to_string().contains("CUDA memory (device 0) cannot be registered"), "{e}");
    assert!(e.to_string().contains("takes host memory only"), "{e}");
    register(&mut wire, Memory::Host).unwrap();
    let survey = survey(&options(provider)).unwrap();
    let able = survey.candidates[survey.chosen.unwrap()].device_memory;
    match Fabric::open(&Options { device_memory: true, ..options(provider) }) {
        Err(e) => assert!(!able && e.to_string().contains("registers host memory only"), "{e}"),
        Ok(mut wire) => {
            assert_eq!((able, wire.limits().memory), (true, MemoryKind::ALL));
            register(&mut wire, Memory::Host).unwrap();
            // Some look for the interface, some do not.
            match register(&mut wire, Memory::Cuda(0)) {
                Ok(()) => println!("{provider} does not look for CUDA"),
                Err(e) => assert!(e.to_string().contains("4096 bytes of CUDA memory (device 0)"), "{e}"),
            }
        }
    }
}

fn unknown_provider() {
    for wrong in ["carrier-pigeon", "", "tcp\0", "tcp,net", "^tcp"] {
        let e = Fabric::open(&options(wrong)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        println!("{e}");
        assert!(e.to_string().contains("tcp") && e.to_string().contains("auto"), "{e}");
    }
}

fn shm_needs_one_node() {
    let e = Fabric::open(&Options { all_on_one_node: false, ..options("fi_shm") }).unwrap_err();
    assert!(e.to_string().contains("one node"), "{e}");
    let survey = survey(&Options { all_on_one_node: false, ..options("auto") }).unwrap();
    println!("{survey}");
    for c in survey.candidates.iter().filter(|c| c.provider == "shm" || c.address == "127.0.0.1") {
        assert!(c.rejected.is_some(), "{c}");
    }
}
