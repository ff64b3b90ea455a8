//! Posts of two members in one process.

use super::layout::{BYTES, MAX_PART_BYTES};
use super::post::{MIN_CROWDED_LENT_BYTES, MIN_CYCLE_BYTES, MIN_LENT_BYTES as MIN_LENT, POSTS_PER_CYCLE};
use super::*;
use crate::transport::slot_pool::MAX_CALL_SLOTS;
use crate::transport::slot_pool::tests::{open, two};

const POST: Post = Post { code: 3, hash: 99, past: 98 };

fn once(bytes: &[u8]) -> std::iter::Once<&[u8]> {
    std::iter::once(bytes)
}

#[test]
#[cfg_attr(miri, ignore = "areas are smaller there")]
fn the_document_says_how_long_an_area_is() {
    let document = include_str!("../../../docs/design.md");
    let said = format!(
        "{} KiB for each communicator, at most {MAX_CALL_SLOTS} at once",
        layout::USUAL_AREA_BYTES >> 10
    );
    assert!(document.contains(&said), "docs/design.md does not say: {said}");
}

#[test]
fn what_is_posted_is_read_and_slots_wait_for_readers() {
    let mut pools = two();
    let [mut reader, mut writer] = open(&mut pools);
    for sequence in 0..100u64 {
        let bytes: Vec<u8> =
            (0..MAX_POST_BYTES).map(|i| (i as u64 * 7 + sequence).to_le_bytes()[0]).collect();
        assert_eq!(reader.look(0, sequence), Look::Nothing);
        assert_eq!(writer.room(sequence, MAX_POST_BYTES), Ok(()));
        let (first, second) = bytes.split_at(usize::try_from(sequence).unwrap());
        writer.post(sequence, POST, [first, second].into_iter(), true);
        assert_eq!(reader.look(0, sequence), Look::Posted(POST));
        let mut out = vec![0; MAX_POST_BYTES];
        assert!(reader.read(0, sequence, 0, &mut out, 0));
        assert!(out == bytes);
        assert!(reader.read(0, sequence, MAX_POST_BYTES - 5, &mut out[..5], 0));
        assert_eq!(out[..5], bytes[MAX_POST_BYTES - 5..]);
        assert!(!reader.has_shared(0, sequence));
        writer.share(sequence, MAX_POST_BYTES, &bytes[3..MAX_PART_BYTES]);
        assert!(reader.has_shared(0, sequence) && !reader.has_shared(0, sequence + LONG_SLOTS as u64));
        reader.read_part(0, sequence, MAX_POST_BYTES, &mut out[..MAX_PART_BYTES - 3]);
        assert_eq!(
            out[..MAX_PART_BYTES - 3],
            bytes[3..MAX_PART_BYTES],
            "a part has room beside what is posted"
        );
        assert!(reader.read(0, sequence, 0, &mut out, 0));
        assert!(out == bytes);
        if sequence >= LONG_SLOTS as u64 {
            assert_eq!(reader.look(0, sequence - LONG_SLOTS as u64), Look::Later);
        }
        // All slots are full; a member that reads them is named, until it has passed the oldest.
        if sequence % LONG_SLOTS as u64 == LONG_SLOTS as u64 - 1 {
            assert_eq!(writer.room(sequence + 1, 0), Err(1));
            reader.pass(sequence + 1 - LONG_SLOTS as u64);
            assert_eq!(writer.room(sequence + 1, 0), Err(1));
            reader.pass(sequence + 2 - LONG_SLOTS as u64);
            assert_eq!(writer.room(sequence + 1, 0), Ok(()));
            assert_eq!(writer.room(sequence + 2, 0), Err(1));
            reader.pass(sequence + 1);
        }
    }
    reader.pass(100);
    // What no member reads need not wait, nor does a call that all have entered.
    for sequence in 100..150 {
        assert_eq!(writer.room(sequence, 1), Ok(()));
        writer.post(sequence, POST, once(&[1]), sequence >= 120);
        if sequence >= 120 {
            writer.all_entered(sequence);
        }
    }
}

/// Where ranks share cores, short posts are further ahead of their reader than long ones. Both are there until it has passed them.
#[test]
fn short_posts_are_further_ahead_where_ranks_share_cores() {
    for mut pauses in [Pauses::new(false, true), Pauses::new(true, false)] {
        pauses.settle(3, 2);
        let mut pools = two();
        pools.iter_mut().for_each(|pool| pool.pause_by(pauses));
        // The first has wide memory, the second none. Where a setting has ranks spin, the longest posts lie there.
        let both = [open(&mut pools), open(&mut pools)];
        let wide = both.each_ref().map(|[_, writer]| writer.is_wide(MAX_POST_BYTES));
        assert_eq!(wide, [pauses.spins, false]);
        both.into_iter().for_each(run_ahead);
    }
}

fn run_ahead([mut reader, mut writer]: [CallSlots; 2]) {
    let most = writer.layout.holds();
    assert!(most < MAX_POST_BYTES);
    let bytes = |sequence: u64, len| vec![sequence.to_le_bytes()[0]; len];
    let mut next = 0;
    // So many calls find room one after the other. Each fourth one that may shows a part of a result.
    let part = most / 4 / 8 * 8;
    let long = [most + 1, MAX_POST_BYTES].map(|len| (len, LONG_SLOTS));
    let lengths = [most, most - part, 3, 0].map(|len| (len, SHORT_SLOTS));
    let lengths = lengths[..1].iter().chain(&long).chain(&lengths[1..]);
    for &(len, ahead) in lengths {
        let has_part = writer.has_part(len, part);
        assert_eq!(has_part, len != most, "{len} bytes");
        let shares = |sequence: u64| has_part && sequence % 4 == 1;
        for _ in 0..3 * SHORT_SLOTS {
            let first = next;
            while writer.room(next, len).is_ok() {
                writer.post(next, POST, once(&bytes(next, len)), true);
                if shares(next) {
                    writer.share(next, len, &bytes(next + 9, part));
                }
                next += 1;
            }
            assert_eq!(next - first, ahead as u64, "{len} bytes");
            let mut shared = vec![0; part];
            for sequence in first..next {
                let mut out = vec![0; len];
                assert_eq!(reader.look(0, sequence), Look::Posted(POST));
                assert!(reader.read(0, sequence, 0, &mut out, 0));
                assert!(out == bytes(sequence, len), "call {sequence}, {len} bytes");
                out.fill(0);
                let taken = reader.take(0, sequence, POST, 0, &mut out);
                assert_eq!(taken, !writer.is_wide(len));
                assert!(!taken || out == bytes(sequence, len), "call {sequence}, {len} bytes");
                let holds = if len > most { MAX_POST_BYTES } else { most };
                let mut more = vec![0; holds + 1];
                assert!(!reader.take(0, sequence, POST, 0, &mut more), "a slot ends before");
                assert_eq!(
                    reader.read(0, sequence, 0, &mut more, 0),
                    writer.is_wide(len),
                    "wide memory does not"
                );
                assert_eq!(reader.has_shared(0, sequence), shares(sequence));
                if shares(sequence) {
                    reader.read_part(0, sequence, len, &mut shared);
                    assert!(shared == bytes(sequence + 9, part));
                }
            }
            reader.pass(next);
        }
    }
    // A long post waits for the last one in its long slot, though its own slot is free, and a short one does not.
    let [long, short] = [writer.room(next, MAX_POST_BYTES), writer.room(next, most)];
    assert_eq!((long, short), (Ok(()), Ok(())));
    writer.post(next, POST, once(&bytes(next, MAX_POST_BYTES)), true);
    let later = next + LONG_SLOTS as u64;
    assert_eq!((writer.room(later, MAX_POST_BYTES), writer.room(later, most)), (Err(1), Ok(())));
    reader.pass(next + 1);
    assert_eq!(writer.room(later, MAX_POST_BYTES), Ok(()));
}

/// Posts of any lengths, in wide memory and without, are there until their reader has passed them.
#[test]
fn posts_stay_until_they_are_passed() {
    let mut pools = two();
    // The first area has wide memory, and others have none.
    let mut both = [open(&mut pools), open(&mut pools)];
    assert_eq!(both.each_ref().map(|[_, writer]| writer.longest()), [MAX_WIDE_POST_BYTES, MAX_POST_BYTES]);
    stay(&mut both);
    // A slot that names no place in wide memory, and more bytes than there are, has its reader read some of it.
    let [reader, writer] = &mut both[0];
    reader.pass(2000);
    assert_eq!(writer.room(2000, MAX_POST_BYTES), Ok(()));
    writer.post(2000, POST, once(&[1; MAX_POST_BYTES]), true);
    [BYTES, BYTES + 8].iter().for_each(|at| writer.word(0, 2000, *at).store(u64::MAX, Ordering::Relaxed));
    assert_eq!(reader.place(0, 2000), Place::Area(MAX_WIDE_POST_BYTES));
    assert!(reader.read(0, 2000, 5, &mut vec![0; MAX_POST_BYTES - 5], 0));
    assert!(reader.read(0, 2000, 5, &mut vec![0; MAX_WIDE_POST_BYTES - 5], 0));
    // Of one in a slot nothing is read behind its end.
    assert_eq!(writer.room(2001, 1), Ok(()));
    writer.post(2001, POST, once(&[1]), true);
    assert_eq!(reader.place(0, 2001), Place::Area(MAX_POST_BYTES));
    let mut out = vec![7; MAX_WIDE_POST_BYTES];
    assert!(!reader.read(0, 2001, 0, &mut out, 0));
    assert!(out.iter().all(|byte| *byte == 7));
}

/// Posts of all lengths, each read when the writer has no room for the next.
fn stay(both: &mut [[CallSlots; 2]; 2]) {
    for [reader, writer] in both {
        let most = writer.longest();
        let len = |sequence: u64| {
            let mixed = (sequence + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33;
            usize::try_from(mixed).unwrap() % (most + 1)
        };
        let bytes = |sequence: u64| -> Vec<u8> {
            (0..len(sequence) as u64).map(|i| (i * 7 + sequence).to_le_bytes()[0]).collect()
        };
        let (mut oldest, mut early) = (0, 0);
        for sequence in 0..if cfg!(miri) { 50 } else { 1000u64 } {
            while writer.room(sequence, len(sequence)) == Err(1) {
                early += u32::from(sequence - oldest < LONG_SLOTS as u64);
                let mut out = vec![0; len(oldest)];
                assert_eq!(reader.look(0, oldest), Look::Posted(POST));
                assert!(matches!(reader.place(0, oldest), Place::Area(ready) if ready >= len(oldest)));
                assert!(reader.read(0, oldest, 0, &mut out, 0));
                assert!(out == bytes(oldest), "call {oldest}");
                oldest += 1;
                reader.pass(oldest);
            }
            writer.post(sequence, POST, once(&bytes(sequence)), true);
        }
        // Two of the longest posts do not fit next to each other now and then, where the first does not lie at the beginning.
        assert_eq!(early > 0, most == MAX_WIDE_POST_BYTES, "{early}");
    }
}

/// Where each rank has a core of its own a post lies behind the last one, and what has been passed is not written again at once: two members' after three others. Where ranks share
/// cores it lies at the beginning.
#[test]
fn posts_cycle_through_wide_memory() {
    let mut pools = two();
    let [mut reader, mut writer] = open(&mut pools);
    let mut places = |writer: &mut CallSlots, calls: Range<u64>, len| -> Vec<usize> {
        let one = |sequence| {
            assert_eq!(writer.room(sequence, len), Ok(()));
            writer.post(sequence, POST, once(&vec![7; len]), true);
            reader.pass(sequence + 1);
            writer.all_entered(sequence + 1);
            writer.in_wide[writer.layout.turn(sequence)].bytes.start
        };
        calls.map(one).collect()
    };
    let cycle = |part: usize| [0, 1, 2, 3, 0, 1].map(|i| i * part);
    let [quarter, sixth] = [WIDE_BYTES / 4, (WIDE_BYTES / 6).next_multiple_of(WIDE_ALIGN_BYTES)];
    assert_eq!(places(&mut writer, 0..6, quarter - WIDE_ALIGN_BYTES / 2), cycle(quarter));
    // The last one ended in the middle.
    assert_eq!(places(&mut writer, 6..8, sixth), [2 * quarter, 0]);
    assert_eq!(places(&mut writer, 8..13, sixth)[..], cycle(sixth)[1..]);
    writer.pauses.spins = false;
    assert_eq!(places(&mut writer, 13..16, sixth), [0; 3]);
}

/// One of two members that posts alone uses all of its wide memory, and no more than four posts of the length once the other one has posted, too.
#[test]
fn a_member_that_posts_alone_cycles_through_all_of_its_wide_memory() {
    let mut pools = two();
    let [mut reader, mut writer] = open(&mut pools);
    const LEN: usize = WIDE_BYTES / 16;
    let mut places = |calls: Range<u64>, both: bool| -> Vec<usize> {
        let one = |sequence| {
            for (slots, posts) in [(&mut writer, true), (&mut reader, both)] {
                assert_eq!(slots.room(sequence, LEN), Ok(()));
                slots.post(sequence, POST, once(&vec![7; if posts { LEN } else { 0 }]), posts);
            }
            let place = writer.in_wide[writer.layout.turn(sequence)].bytes.start / LEN;
            for slots in [&mut writer, &mut reader] {
                slots.ended(sequence);
                slots.pass(sequence + 1);
                slots.all_entered(sequence + 1);
            }
            place
        };
        calls.map(one).collect()
    };
    let alone: Vec<usize> = (0..16).chain(0..4).collect();
    assert_eq!(places(0..20, false), alone);
    // Each posts where the other's post lies that it has read.
    let both = places(20..30, true);
    assert!(both[0] == 4 && both[1..].iter().all(|place| *place < POSTS_PER_CYCLE), "{both:?}");
    // It is known after one call that the other one posts nothing.
    let again = places(30..50, false);
    assert_eq!(again.iter().max(), Some(&15), "{again:?}");
}

/// Of two members that have both posted in wide memory each posts next where the other's post lies that it has read, also where only one of them posts.
#[test]
fn members_post_where_they_have_read() {
    let mut pools = two();
    // The second of them is the first member.
    let [second, first] = open(&mut pools);
    let mut members = [first, second];
    let bytes =
        |member: usize, sequence: u64, len| vec![(2 * sequence + member as u64).to_le_bytes()[0]; len];
    let both = [true; 2];
    let calls = [
        (both, MAX_POST_BYTES),
        (both, MAX_POST_BYTES),
        (both, 3 * MAX_POST_BYTES),
        ([true, false], MAX_POST_BYTES),
        ([false, true], MAX_POST_BYTES),
        (both, 1),
        (both, MAX_NARROW_BYTES + 1),
    ];
    let cycle = |len: usize| (POSTS_PER_CYCLE * len).clamp(MIN_CYCLE_BYTES, WIDE_BYTES);
    // Where both have posted in the last call, if they have.
    let (mut swapped, mut last) = (false, [None; 2]);
    for (sequence, (posts, len)) in (0..).zip(calls.into_iter().cycle().take(200)) {
        for (member, slots) in members.iter_mut().enumerate() {
            assert_eq!(slots.swapped, swapped, "call {sequence} at {member}");
            let posted = bytes(member, sequence, if posts[member] { len } else { 0 });
            assert_eq!(slots.room(sequence, posted.len()), Ok(()));
            slots.post(sequence, POST, once(&posted), posts[member]);
            let place = slots.in_wide[slots.layout.turn(sequence)].clone();
            let is_wide = place.until == sequence + 1;
            assert_eq!(is_wide, slots.is_wide(posted.len()), "call {sequence}");
            // One that lies where the other has posted alone may be farther on.
            let read = last[1 - member].filter(|start| is_wide && start + len <= cycle(len));
            assert!(
                read.is_none_or(|start| place.bytes.start == start),
                "call {sequence}: it is at {place:?}"
            );
        }
        for member in 0..2 {
            let mut out = vec![0; if posts[1 - member] { len } else { 0 }];
            assert!(members[member].read(1 - member, sequence, 0, &mut out, 0));
            assert!(out == bytes(1 - member, sequence, out.len()), "call {sequence} at {member}");
            members[member].ended(sequence);
            members[member].pass(sequence + 1);
            members[member].all_entered(sequence);
        }
        last = [None; 2];
        if posts == both && members[0].is_wide(len) {
            swapped = !swapped;
            last =
                members.each_ref().map(|slots| Some(slots.in_wide[slots.layout.turn(sequence)].bytes.start));
        }
    }
    // In different calls neither reads.
    for (hash, slots) in (0..).zip(&mut members) {
        slots.post(200, Post { hash, ..POST }, once(&[1; MAX_POST_BYTES]), true);
    }
    for slots in &mut members {
        slots.ended(200);
        assert_eq!(slots.swapped, swapped);
    }
    // The other member may still write there.
    let used = members[0].index as u64;
    drop(members);
    assert_ne!(pools[1].ticket().unwrap() & 0xFF, used);
}

/// Where its whole cycle holds unread posts, a post of two members lies behind them.
#[test]
fn a_post_finds_room_behind_unread_ones() {
    let mut pools = two();
    let [_reader, mut writer] = open(&mut pools);
    for (sequence, len) in [(0, WIDE_BYTES / 2), (1, WIDE_BYTES / 32)] {
        assert_eq!(writer.room(sequence, len), Ok(()));
        writer.post(sequence, POST, once(&vec![7; len]), true);
    }
    assert_eq!(writer.in_wide[1].bytes.start, WIDE_BYTES / 2);
}

/// In one go only what the call's own slot holds is posted, and only where that is known to have been read.
#[test]
fn what_fits_its_slot_is_posted_at_once() {
    for crowded in [false, true] {
        let mut pools = two();
        let [mut reader, mut writer] = open(&mut pools);
        if crowded {
            [&mut reader, &mut writer].into_iter().for_each(|slots| slots.layout = Layout::new(true));
        }
        let most = MAX_NARROW_BYTES.min(writer.layout.holds());
        assert!(!writer.try_post(0, POST, once(&vec![7; most + 1]), true), "it lies elsewhere");
        assert_eq!(writer.posted[0], 0);
        let slots = writer.layout.slots() as u64;
        for sequence in 0..slots {
            let bytes = vec![sequence.to_le_bytes()[0]; most];
            assert!(writer.try_post(sequence, POST, once(&bytes), true));
            let mut out = vec![9; most];
            assert!(reader.take(0, sequence, POST, 0, &mut out) && out == bytes);
            assert!(reader.has_posted(0, sequence, POST));
            assert!(!reader.has_posted(0, sequence, Post { past: 99, ..POST }));
            assert!(!reader.has_posted(0, sequence + 1, POST));
        }
        assert!(!writer.try_post(slots, POST, once(&[]), true), "the first one may still be read");
        reader.pass(1);
        assert!(!writer.try_post(slots, POST, once(&[]), true), "it has not asked");
        assert_eq!(writer.room(slots, 0), Ok(()));
        assert!(writer.try_post(slots, POST, once(&[]), false));
        writer.all_entered(slots);
        assert!(writer.try_post(2 * slots, POST, once(&[]), true), "no other member reads the one before");
    }
}

/// In one go only what is there, is the same call and lies in its slot.
#[test]
fn what_lies_in_its_slot_is_taken_at_once() {
    let mut pools = two();
    let [mut reader, mut writer] = open(&mut pools);
    let mut out = [0; 3];
    let mut take = |sequence, post, at| (reader.take(0, sequence, post, at, &mut out), out);
    assert_eq!(take(0, POST, 1), (false, [0; 3]), "it is not there");
    writer.post(0, POST, once(&[1, 2, 3, 4]), true);
    for other in [Post { code: 4, ..POST }, Post { hash: 98, ..POST }, Post { past: 99, ..POST }] {
        assert_eq!(take(0, other, 1), (false, [0; 3]), "{other:?}");
    }
    assert_eq!(take(LONG_SLOTS as u64, POST, 1), (false, [0; 3]), "a later call");
    assert_eq!(take(0, POST, MAX_POST_BYTES - 2), (false, [0; 3]), "a slot ends before");
    assert_eq!(take(0, POST, usize::MAX), (false, [0; 3]));
    assert_eq!(take(0, POST, 1), (true, [2, 3, 4]));
    writer.post(1, POST, once(&vec![5; MAX_POST_BYTES]), true);
    assert_eq!(take(1, POST, 0), (false, [2, 3, 4]), "it lies in wide memory");
    reader.pass(2);
    writer.lend(2, POST, crate::transport::Lent { chunk: 0, fd: 0, at: 0 });
    assert!(!reader.take(0, 2, POST, 0, &mut out), "it is lent");
}

/// The bytes of a long post can be read part by part while it is written: an iterator looks between two of its pieces.
#[test]
fn a_long_post_shows_its_parts() {
    let mut pools = two();
    let [reader, mut writer] = open(&mut pools);
    let (bytes, seen) = (vec![3; MAX_POST_BYTES], std::cell::RefCell::new(Vec::new()));
    let pieces = (0..8).map(|i| {
        seen.borrow_mut().push((i, reader.look(0, 5), reader.place(0, 5)));
        &bytes[..]
    });
    writer.post(5, POST, pieces, true);
    assert_eq!(reader.place(0, 5), Place::Area(8 * MAX_POST_BYTES));
    let seen = seen.into_inner();
    // The first eight looks are those that add up the lengths.
    assert!(seen[..9].iter().all(|(_, look, _)| *look == Look::Nothing));
    for (i, look, place) in &seen[9..] {
        assert_eq!((*look, *place), (Look::Posted(POST), Place::Area(i * MAX_POST_BYTES)));
    }
}

/// What is lent is described, and stays until its readers have passed the call.
#[test]
fn a_lent_post_says_where_its_bytes_are() {
    let mut pools = two();
    let [mut reader, mut writer] = open(&mut pools);
    assert!(writer.lends(MIN_LENT) && !writer.lends(MIN_LENT - 1));
    let lent = crate::transport::Lent { chunk: 0xABCD_EF01, fd: 0x8765_4321, at: u64::MAX - 5 };
    for sequence in 0..3 * LONG_SLOTS as u64 {
        assert_eq!(writer.room(sequence, 0), Ok(()));
        writer.lend(sequence, POST, lent);
        assert_eq!(
            (reader.look(0, sequence), reader.place(0, sequence)),
            (Look::Posted(POST), Place::Lent(lent))
        );
        assert!(!writer.watch_passed(1, sequence));
        reader.pass(sequence + 1);
        assert!(writer.watch_passed(1, sequence));
    }
    // Others have no wide memory, and their posts no reader that is near enough.
    let [_, other] = open(&mut pools);
    assert!(!other.lends(MAX_POST_BYTES));
    writer.pauses.spins = false;
    assert!(!writer.lends(MAX_POST_BYTES), "a setting says how to wait");
    writer.pauses.crowded = true;
    let long = [MIN_CROWDED_LENT_BYTES - 1, MIN_CROWDED_LENT_BYTES].map(|len| writer.lends(len));
    assert_eq!(long, [false, true], "ranks that share cores wait for their turn once more");
}

#[test]
fn areas_come_back_when_no_member_reads_them() {
    let mut pools = two();
    let mut kept: Vec<_> = (0..MAX_CALL_SLOTS).map(|_| open(&mut pools)).collect();
    assert_eq!(pools[0].ticket(), None);
    let [mut a, mut b] = kept.swap_remove(4);
    b.post(0, POST, once(&[1]), true);
    b.pass(1);
    assert!(a.is_quiet() && !b.is_quiet());
    a.pass(1);
    assert!(a.is_quiet() && b.is_quiet());
    // A member that uses its area for other slots need not be asked.
    b.pass(2);
    assert!(!b.is_quiet());
    drop(a);
    let again = pools[0].ticket().unwrap();
    assert!(b.is_quiet());
    drop(b);
    let ticket = pools[1].ticket().unwrap();
    // What stood there is gone.
    let [a, _b] = pools.each_mut().map(|b| b.open(&[(3, again), (7, ticket)]).unwrap());
    assert_eq!([0, 1].map(|m| a.look(m, 0)), [Look::Nothing; 2]);
    pools[0].take_back(again);
    assert!(pools[0].open(&[(3, again), (8, ticket)]).is_none(), "rank 8 is elsewhere");
    assert!(pools[0].open(&[(3, again), (7, 0xFF)]).is_none(), "there is no such area");
}
