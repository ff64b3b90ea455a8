//! The ends of rings, call slots and endpoints on threads of their own, so that Miri and sanitizers see what orders their accesses.

use super::rings::{memory, record};
use super::{LEN, Rank, ranks};
use crate::transport::call_slots::{
    CallSlots, Look, MAX_SHORT_BYTES, MAX_WIDE_POST_BYTES, Place, Post, SHORT_SLOTS,
};
use crate::transport::pauses::Pauses;
use crate::transport::shm::ring::{Kind, Reader, Writer};
use crate::transport::slot_pool::tests::{open, two};
use crate::transport::{Access, Posted, Source, Transport};
use std::thread;
use std::time::Duration;

const ROUNDS: u64 = if cfg!(miri) { 40 } else { 20_000 };

#[test]
fn a_ring_between_threads() {
    let (_map, ring) = memory();
    let (mut writer, mut reader) = (Writer::new(ring), Reader::new(ring));
    thread::scope(|s| {
        s.spawn(move || {
            for i in 0..ROUNDS {
                let bytes = vec![i.to_le_bytes()[0]; usize::try_from(i % 600).unwrap()];
                let sent = record(Kind::Inline, bytes.len());
                while !writer.push(&sent, &[(bytes.as_ptr(), bytes.len())]).unwrap() {
                    thread::yield_now();
                }
            }
        });
        for i in 0..ROUNDS {
            let got = loop {
                match reader.next().unwrap() {
                    Some(got) => break got,
                    None => thread::yield_now(),
                }
            };
            let mut bytes = vec![0; got.len];
            // SAFETY: the vector has that length.
            unsafe { reader.body(&got, 0, bytes.as_mut_ptr(), bytes.len()).unwrap() };
            assert_eq!(bytes, vec![i.to_le_bytes()[0]; usize::try_from(i % 600).unwrap()]);
            reader.take();
        }
    });
}

/// Each posts and reads the other's, then its part; now and then one posts what no other waits for, and runs ahead.
#[test]
fn call_slots_between_threads() {
    for crowded in [false, true] {
        let mut pauses = Pauses::new(!crowded, crowded);
        pauses.settle(2, if crowded { 1 } else { 2 });
        let mut pools = two();
        pools.iter_mut().for_each(|pool| pool.pause_by(pauses));
        run_between_threads(open(&mut pools), if crowded { MAX_SHORT_BYTES } else { 0 });
    }
}

/// Parts are shared beside posts of more bytes than `short`.
fn run_between_threads(members: [CallSlots; 2], short: usize) {
    thread::scope(|s| {
        // The second of them is the first member.
        for (me, mut slots) in members.into_iter().rev().enumerate() {
            s.spawn(move || {
                let value = |member: usize, call: u64| (call * 2 + member as u64).to_le_bytes()[0];
                for call in 0..ROUNDS {
                    // In every third call only the second reads, so the first may be slots ahead.
                    let all = usize::try_from(call * 7).unwrap()
                        % if cfg!(miri) { 512 } else { MAX_WIDE_POST_BYTES };
                    let [len, theirs] = if call % 3 > 0 { [all; 2] } else { [all * (1 - me), all * me] };
                    while slots.room(call, len).is_err() {
                        thread::yield_now();
                    }
                    let post = Post { code: 1, hash: call, past: 0 };
                    let bytes = vec![value(me, call); len];
                    slots.post(call, post, std::iter::once(&bytes[..]), true);
                    if me == 1 || call % 3 > 0 {
                        while slots.look(1 - me, call) == Look::Nothing {
                            thread::yield_now();
                        }
                        assert_eq!(slots.look(1 - me, call), Look::Posted(post));
                        // A long one is shown while it is written.
                        while matches!(slots.place(1 - me, call), Place::Area(ready) if ready < theirs) {
                            thread::yield_now();
                        }
                        let mut out = vec![0; theirs];
                        assert!(slots.read(1 - me, call, 0, &mut out, 0));
                        assert_eq!(out, vec![value(1 - me, call); theirs]);
                    }
                    if call % 3 > 0 && len > short {
                        slots.share(call, len, &[value(me, call) ^ 1; 9]);
                        while !slots.has_shared(1 - me, call) {
                            thread::yield_now();
                        }
                        let mut out = [0; 9];
                        slots.read_part(1 - me, call, theirs, &mut out);
                        assert_eq!(out, [value(1 - me, call) ^ 1; 9]);
                    }
                    slots.ended(call);
                    slots.pass(call + 1);
                }
                const { assert!(ROUNDS > 4 * SHORT_SLOTS as u64) };
            });
        }
    });
}

/// Puts of all kinds and messages between three ranks, each a thread.
#[test]
fn endpoints_between_threads() {
    let turns: u32 = if cfg!(miri) { 4 } else { 300 };
    let mut all = ranks(3);
    let plain: Vec<Vec<u8>> = (0..3u8).map(|i| vec![100 + i; 5000]).collect();
    let private: Vec<_> = all
        .iter_mut()
        .zip(&plain)
        // SAFETY: the vectors live longer than the endpoints, and are only read.
        .map(|(r, p)| unsafe { r.wire.register(p.as_ptr().cast_mut(), p.len(), Access::Source) }.unwrap().0)
        .collect();
    let remotes: Vec<_> = all.iter().map(|r| r.remote).collect();
    // A slot for each sender and kind of put; what is sent stands at the end, and never changes.
    const SLOT: usize = LEN / 16;
    for (i, rank) in all.iter_mut().enumerate() {
        rank.map[15 * SLOT..].fill(u8::try_from(i).unwrap() + 1);
    }
    let play = |me: usize, rank: &mut Rank| {
        let kinds = |rank: &Rank| {
            [
                rank.source(15 * SLOT, 100),
                rank.source(15 * SLOT, SLOT),
                Source { ptr: plain[me].as_ptr(), len: 3000, registration: private[me] },
            ]
        };
        for turn in 0..turns {
            for to in (0..3).filter(|to| *to != me) {
                for (kind, source) in kinds(rank).into_iter().enumerate() {
                    let mut there = remotes[to];
                    there.base += ((me * 4 + kind) * SLOT) as u64;
                    let peer = 10 + 3 * u32::try_from(to).unwrap();
                    while rank.put(peer, &[source], there, turn) != Posted::Yes {
                        rank.poll();
                        thread::yield_now();
                    }
                    while rank.wire.message(peer, &turn.to_le_bytes()).unwrap() != Posted::Yes {
                        rank.poll();
                    }
                }
            }
            let want = 6 * (usize::try_from(turn).unwrap() + 1);
            while rank.log.arrivals.len() < want
                || rank.log.done.len() < want
                || rank.log.messages.len() < want
            {
                rank.poll();
                thread::yield_now();
                assert!(rank.log.lost.is_empty(), "{:?}", rank.log.lost);
            }
        }
        for from in (0..3).filter(|from| *from != me) {
            let value = u8::try_from(from).unwrap();
            for (kind, len, value) in [(0, 100, value + 1), (1, SLOT, value + 1), (2, 3000, value + 100)] {
                let there = &rank.map[(from * 4 + kind) * SLOT..][..len];
                assert!(there.iter().all(|b| *b == value), "{from} to {me}, kind {kind}");
            }
        }
    };
    thread::scope(|s| {
        for (me, rank) in all.iter_mut().enumerate() {
            s.spawn(move || play(me, rank));
        }
    });
    all.iter_mut().for_each(|r| r.wire.close().unwrap());
}

/// Of many ranks on one core: a rank that waits sleeps until the other writes to it, or has read its put. What is not woken up sleeps for an hour.
#[test]
#[cfg_attr(miri, ignore = "Miri knows no futex of shared memory")]
fn ranks_that_share_a_core_sleep_and_wake_each_other_up() {
    const HOUR: Duration = Duration::from_secs(3600);
    let locals: Vec<u32> = (0..80).collect();
    let mut two = [3, 70].map(|rank| super::open(rank, &locals));
    let addresses = two.each_ref().map(|r| r.wire.address());
    for rank in &mut two {
        rank.wire.settle(1);
        assert!(rank.wire.limits().wakes);
        for (peer, address) in [3, 70].iter().zip(&addresses) {
            rank.wire.reach(*peer, address).unwrap();
            rank.wire.connect(*peer, address).unwrap();
        }
        rank.wire.longest_sleep = HOUR;
    }
    let [mut one, mut other] = two;
    let wait = |rank: &mut Rank, until: &dyn Fn(&Rank) -> bool| {
        while !until(rank) {
            if rank.poll() == 0 {
                rank.wire.idle(HOUR);
            }
        }
    };
    let to = other.remote;
    thread::scope(|s| {
        s.spawn(move || {
            for i in 0..ROUNDS {
                let from = one.source(0, 10_000);
                while one.put(70, &[from], to, 0) == Posted::Again {
                    one.poll();
                }
                let done = usize::try_from(i).unwrap() + 1;
                wait(&mut one, &|r| r.log.done.len() == done && r.log.messages.len() == done);
            }
        });
        for i in 0..ROUNDS {
            let arrived = usize::try_from(i).unwrap() + 1;
            wait(&mut other, &|r| r.log.arrivals.len() == arrived);
            // Some are too long for what is left of the first page: the rest becomes void, and the reader must pass it first.
            let message = vec![7; usize::try_from(i % 5).unwrap() * 700];
            if i % 200 == 4 {
                // The other sleeps by then.
                thread::sleep(Duration::from_millis(2));
            }
            while other.wire.message(3, &message).unwrap() == Posted::Again {
                other.poll();
            }
        }
    });
}
