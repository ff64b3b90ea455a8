//! Rings, call slots and the end of a segment under loom: all orders of what a few threads do, and all values that they may see.
//! `ci/loom` runs this.

use super::doorbell::{self, For};
use super::ring::{Kind, Reader, Record, RingMemory, Writer};
use crate::memory::cells::{Area, Cells};
use crate::memory::words::{self, AtomicU32, AtomicU64, Ordering};
use crate::transport::Lent;
use crate::transport::call_slots::{
    AREA_BYTES, CallSlots, LONG_SLOTS, Look, MAX_POST_BYTES, MAX_SHORT_BYTES, MemberArea, Place, Post,
    WIDE_BYTES,
};
use crate::transport::pauses::Pauses;
use loom::sync::Arc;
use loom::thread;

/// So often one thread may be interrupted by another where it need not wait.
fn model(interruptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 100_000;
    builder.check(body);
}

/// More messages than a ring has room for come out as they went in.
#[test]
fn ring() {
    /// More than the ring has room for.
    const MESSAGES: u8 = 4;
    model(2, || {
        // SAFETY: a model has cells of its own.
        let memory = unsafe { RingMemory::new(std::ptr::null_mut(), 64) };
        let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
        let writing = thread::spawn(move || {
            for i in 0..MESSAGES {
                let bytes = [i; 8];
                let record = Record { kind: Kind::Message, segments: 0, len: 8, word: 0, key: 0, address: 0 };
                while !writer.push(&record, &[(bytes.as_ptr(), 8)]).unwrap() {
                    thread::yield_now();
                }
            }
        });
        for i in 0..MESSAGES {
            let record = loop {
                match reader.next().unwrap() {
                    Some(record) => break record,
                    None => thread::yield_now(),
                }
            };
            let mut bytes = [9; 8];
            // SAFETY: this many bytes.
            unsafe { reader.body(&record, 0, bytes.as_mut_ptr(), 8).unwrap() };
            assert_eq!(bytes, [i; 8]);
            reader.take();
        }
        writing.join().unwrap();
    });
}

/// A rank that says that it sleeps and then finds nothing is woken up: by what is written to its ring after that, and, if it waits for that, when
/// what it wrote is read.
#[test]
fn doorbell() {
    model(3, || {
        // SAFETY: a model has cells of its own.
        let memory = unsafe { RingMemory::new(std::ptr::null_mut(), 64) };
        let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
        let words = [0; 2].map(|_| Arc::new(AtomicU32::new(0)));
        let [readers, writers] = words.clone();
        let writing = thread::spawn(move || {
            let record = Record { kind: Kind::Message, segments: 0, len: 0, word: 0, key: 0, address: 0 };
            assert!(writer.push(&record, &[]).unwrap());
            let rings = doorbell::claim(&readers, For::Records);
            doorbell::arm(&writers, For::Reads);
            (rings, writer.tail().unwrap() == writer.head())
        });
        doorbell::arm(&words[0], For::Records);
        let found = reader.next().unwrap().is_some();
        let read = if found {
            reader.take();
            Some(doorbell::claim(&words[1], For::Reads))
        } else {
            None
        };
        let (woken, seen) = writing.join().unwrap();
        assert!(found || woken, "the reader sleeps, and there is something to read");
        assert!(read.is_none_or(|woken| woken || seen), "the writer sleeps, and all was read");
        assert!(!woken || !doorbell::is_armed(&words[0]));
    });
}

/// Members with two slots each: each posts two pieces in `calls` calls, or (`one_way`) the first alone; and each but one that posts
/// alone reads what the one before it posted, or the first.
fn call_slots(members: usize, calls: u64, interruptions: usize, one_way: bool) {
    model(interruptions, move || {
        let areas: Vec<_> = (0..members).map(|_| Cells::new(AREA_BYTES)).collect();
        let join = |mine: usize| {
            let areas = areas.iter().map(|cells| MemberArea::new(Area(cells.clone()), None, 1)).collect();
            let mut slots =
                CallSlots::new(areas, mine, 0, std::sync::Arc::default(), Pauses::new(false, false));
            let (posts, reads) = (!one_way || mine == 0, !one_way || mine > 0);
            let other = if one_way { 0 } else { (mine + members - 1) % members };
            move || {
                for call in 0..calls {
                    let what =
                        |member: usize| [1, 2].map(|n| u8::try_from(call * 16 + member as u64).unwrap() * n);
                    let post = Post { code: 1, hash: call + 1, past: 7 };
                    if posts {
                        while slots.room(call, 0).is_err() {
                            thread::yield_now();
                        }
                        let [first, second] = what(mine);
                        slots.post(call, post, [&[first][..], &[second]].into_iter(), true);
                    }
                    if reads {
                        while slots.look(other, call) == Look::Nothing {
                            thread::yield_now();
                        }
                        assert_eq!(slots.look(other, call), Look::Posted(post));
                        let mut out = [0; 2];
                        assert!(slots.read(other, call, 0, &mut out, 0));
                        assert_eq!(out, what(other));
                    }
                    slots.pass(call + 1);
                }
                assert!(MAX_POST_BYTES >= 2);
            }
        };
        let threads: Vec<_> = (1..members).map(|mine| thread::spawn(join(mine))).collect();
        join(0)();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn slots_of_two() {
    call_slots(2, 3, 2, false);
}

/// Nothing but what readers say that they have passed orders their reads before the next writes.
#[test]
fn slots_from_one_to_one() {
    call_slots(2, 3, 2, true);
}

#[test]
fn slots_from_one_to_two() {
    call_slots(3, 1, 1, true);
}

/// Where ranks share cores, a long post lies beside the call's own slot. A part of the result lies behind the post. Both are written over when their reader has passed the call,
/// also where short posts came in between.
#[test]
fn long_posts_beside_short_slots() {
    model(2, || {
        let areas = [0; 2].map(|_| Cells::new(AREA_BYTES));
        let join = |mine: usize| {
            let members = areas.iter().map(|cells| MemberArea::new(Area(cells.clone()), None, 1)).collect();
            let mut pauses = Pauses::new(false, false);
            pauses.settle(2, 1);
            CallSlots::new(members, mine, 0, std::sync::Arc::default(), pauses)
        };
        let (mut writer, mut reader) = (join(0), join(1));
        let bytes = |call: u64| [1u64, 2].map(|n| (n + 4 * call).to_le_bytes());
        let post = Post { code: 1, hash: 5, past: 7 };
        /// Chosen: the first long slot is used twice.
        const CALLS: u64 = LONG_SLOTS as u64 + 1;
        // Beside no bytes a short slot has room for a part.
        let len = |call: u64| if call % 2 == 0 { MAX_POST_BYTES } else { 0 };
        let writing = thread::spawn(move || {
            for call in 0..CALLS {
                while writer.room(call, len(call)).is_err() {
                    thread::yield_now();
                }
                let bytes = bytes(call);
                writer.post(call, post, std::iter::once(&bytes.as_flattened()[..len(call)]), true);
                writer.share(call, len(call), &bytes[0]);
            }
        });
        for call in 0..CALLS {
            let mut out = [0; MAX_POST_BYTES];
            while !reader.take(0, call, post, 0, &mut out[..len(call)]) {
                thread::yield_now();
            }
            assert_eq!(out[..len(call)], bytes(call).as_flattened()[..len(call)]);
            while !reader.has_shared(0, call) {
                thread::yield_now();
            }
            let mut part = [0; 8];
            reader.read_part(0, call, len(call), &mut part);
            assert_eq!(part, bytes(call)[0]);
            reader.pass(call + 1);
        }
        writing.join().unwrap();
    });
}

/// Two members that spin, with wide memory.
fn two_with_wide_memory() -> [CallSlots; 2] {
    let [areas, wides] = [AREA_BYTES, WIDE_BYTES].map(|len| [0; 2].map(|_| Cells::new(len)));
    [0, 1].map(|mine| {
        let member = |i: usize| MemberArea::new(Area(areas[i].clone()), Some(Area(wides[i].clone())), 1);
        let members = vec![member(0), member(1)];
        CallSlots::new(members, mine, 0, std::sync::Arc::default(), Pauses::new(true, false))
    })
}

/// The parts of a long post are written before they are shown, and written over when its reader has passed the call.
#[test]
fn parts_of_a_post() {
    /// Chosen: the place is written again twice.
    const CALLS: u64 = 3;
    model(2, || {
        let [mut writer, mut reader] = two_with_wide_memory();
        // One part in each cell.
        let bytes = |call: u64| [1u64, 2, 3].map(|n| (n + 4 * call).to_le_bytes());
        let post = Post { code: 1, hash: 5, past: 7 };
        let writing = thread::spawn(move || {
            for call in 0..CALLS {
                // All posts lie in one place: only that the reader has passed lets it be written again.
                while writer.room(call, 24).is_err() || call > 0 && !writer.has_passed(1, call - 1) {
                    thread::yield_now();
                }
                if call > 0 {
                    writer.all_entered(call);
                }
                writer.post(call, post, std::iter::once(bytes(call).as_flattened()), true);
            }
        });
        for call in 0..CALLS {
            while reader.look(0, call) == Look::Nothing {
                thread::yield_now();
            }
            for (at, part) in (0..).step_by(8).zip(bytes(call)) {
                while matches!(reader.place(0, call), Place::Area(ready) if ready <= at) {
                    thread::yield_now();
                }
                let mut out = [0; 8];
                assert!(reader.read(0, call, at, &mut out, 0));
                assert_eq!(out, part);
            }
            reader.pass(call + 1);
        }
        writing.join().unwrap();
    });
}

/// Two members that have both posted in wide memory swap it: what is written over was read, and what is read was written.
#[test]
fn wide_memories_are_swapped() {
    /// Chosen: each memory has posts of both members, one of them twice.
    const CALLS: u64 = 3;
    model(2, || {
        let exchange = |mut slots: CallSlots| {
            let mine = slots.rank();
            move || {
                let bytes = |member: u64, call: u64| (1 + member + 2 * call).to_le_bytes();
                let post = Post { code: 1, hash: 5, past: 7 };
                let mut places = Vec::new();
                for call in 0..CALLS {
                    while slots.room(call, 8).is_err() {
                        thread::yield_now();
                    }
                    slots.post(call, post, std::iter::once(&bytes(mine as u64, call)[..]), true);
                    while slots.look(1 - mine, call) == Look::Nothing
                        || slots.place(1 - mine, call) == Place::Area(0)
                    {
                        thread::yield_now();
                    }
                    let mut out = [0; 8];
                    assert!(slots.read(1 - mine, call, 0, &mut out, 0));
                    assert_eq!(out, bytes(1 - mine as u64, call));
                    slots.all_entered(call);
                    slots.ended(call);
                    slots.pass(call + 1);
                    places.push(slots.is_swapped());
                }
                assert_eq!(places, [true, false, true]);
            }
        };
        let [first, second] = two_with_wide_memory();
        let other = thread::spawn(exchange(second));
        exchange(first)();
        other.join().unwrap();
    });
}

/// What is lent is read before its reader passes the call, so that it can be written afterwards.
#[test]
fn lent_bytes() {
    model(3, || {
        let areas = [0; 2].map(|_| Cells::new(AREA_BYTES));
        let join = |mine: usize| {
            let members = areas.iter().map(|cells| MemberArea::new(Area(cells.clone()), None, 1)).collect();
            CallSlots::new(members, mine, 0, std::sync::Arc::default(), Pauses::new(true, false))
        };
        let (mut writer, mut reader, bytes) = (join(0), join(1), Cells::new(8));
        let there = bytes.clone();
        let post = Post { code: 1, hash: 5, past: 7 };
        let writing = thread::spawn(move || {
            for call in 0..2 {
                bytes.write(0, &call, 1);
                assert!(writer.room(call.into(), 0).is_ok());
                writer.lend(call.into(), post, Lent { chunk: 3, fd: 4, at: 9 });
                while !writer.has_passed(1, call.into()) {
                    thread::yield_now();
                }
            }
        });
        for call in 0..2u8 {
            while reader.look(0, call.into()) == Look::Nothing {
                thread::yield_now();
            }
            assert_eq!(reader.place(0, call.into()), Place::Lent(Lent { chunk: 3, fd: 4, at: 9 }));
            let mut out = 9;
            there.read(0, &mut out, 1);
            assert_eq!(out, call);
            reader.pass(u64::from(call) + 1);
        }
        writing.join().unwrap();
    });
}

/// A reader of what an owner changed after it had closed finds that out. (Its bytes are atomics here: that they are read while
/// they change is the point.)
#[test]
fn close() {
    loom::model(|| {
        let (flag, bytes) = (Arc::new(AtomicU32::new(0)), Arc::new([AtomicU64::new(1), AtomicU64::new(1)]));
        let (flag_there, bytes_there) = (flag.clone(), bytes.clone());
        let owner = thread::spawn(move || {
            words::close(&flag_there);
            bytes_there.iter().for_each(|b| b.store(2, Ordering::Relaxed));
        });
        let read: Vec<u64> = bytes.iter().map(|b| b.load(Ordering::Relaxed)).collect();
        assert!(!words::was_open(&flag) || read == [1, 1], "{read:?}");
        owner.join().unwrap();
    });
}
