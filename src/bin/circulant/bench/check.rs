//! `--check`: every byte of every point, outside the timing, on arena memory and on plain slices. What is
//! received into is first filled with the complement of what must come, so that no byte is right by chance,
//! and is fenced by guard bytes that nothing may touch.

use super::operations::{How, Operation, Shape};
use super::points::{Lab, Memory, MemoryKind};
use crate::agree::agree;
use crate::outcome::Failure;
use std::ops::Range;

/// Guard bytes before and behind; odd, so that plain slices begin at odd addresses.
const GUARD: usize = 67;
const GUARD_BYTE: u8 = 0xa5;

/// Runs `op` once on each kind of memory and compares; wrong data is exit code 3. Collective.
pub(crate) fn check(lab: &Lab<'_>, op: &Operation, shape: &Shape, what: &str) -> Result<(), Failure> {
    let How::Collective { call, .. } = op.how else { return Ok(()) };
    for kind in [MemoryKind::Arena, MemoryKind::Plain] {
        let mut memory = Memory::new(lab.comm, kind, shape.send + 2 * GUARD, shape.recv + 2 * GUARD)?;
        let (send, recv) = memory.parts();
        let rank = lab.comm.rank();
        let (sent, result) = (GUARD..GUARD + shape.send, GUARD..GUARD + shape.recv);
        send.fill(GUARD_BYTE);
        recv.fill(GUARD_BYTE);
        pattern(rank, &mut send[sent.clone()], 0);
        prepare(shape, &mut recv[result.clone()]);
        call(lab.timed, shape, &send[sent.clone()], &mut recv[result.clone()])?;
        let verdict = judge(shape, recv, &result).and_then(|()| intact(rank, send, &sent));
        let wrong =
            |fault: String| Failure::new(3, format!("wrong data: {what} on {} memory: {fault}", kind.name()));
        agree(lab.comm, verdict.map_err(wrong))?;
    }
    Ok(())
}

/// Our own contribution where it must stand already; the complement of what must come everywhere else.
fn prepare(shape: &Shape, recv: &mut [u8]) {
    for piece in &shape.pieces {
        let bytes = &mut recv[piece.start..piece.start + piece.len];
        pattern(piece.owner, bytes, if shape.in_place { 0 } else { !0 });
    }
}

/// Compares the result and its guards.
fn judge(shape: &Shape, recv: &[u8], result: &Range<usize>) -> Result<(), String> {
    let bytes = &recv[result.clone()];
    for piece in &shape.pieces {
        if let Some(i) = difference(piece.owner, &bytes[piece.start..piece.start + piece.len]) {
            let at = piece.start + i;
            let want = byte(piece.owner, i);
            let what = match bytes[at] {
                b if b == !want => "never arrived".to_owned(),
                b => format!("is {b:#04x} instead of {want:#04x}"),
            };
            return Err(format!("byte {at} of {} (byte {i} of rank {}) {what}", shape.recv, piece.owner));
        }
    }
    guarded(recv, result, "result")
}

fn intact(rank: usize, send: &[u8], sent: &Range<usize>) -> Result<(), String> {
    match difference(rank, &send[sent.clone()]) {
        Some(i) => Err(format!("byte {i} of the send buffer was changed")),
        None => guarded(send, sent, "send buffer"),
    }
}

fn guarded(bytes: &[u8], inside: &Range<usize>, name: &str) -> Result<(), String> {
    let before = bytes[..inside.start].iter().rposition(|b| *b != GUARD_BYTE);
    let behind = bytes[inside.end..].iter().position(|b| *b != GUARD_BYTE);
    match (before, behind) {
        (Some(i), _) => Err(format!("{} bytes before the {name} were written to", inside.start - i)),
        (_, Some(i)) => Err(format!("{} bytes behind the {name} were written to", i + 1)),
        _ => Ok(()),
    }
}

/// Eight bytes of rank `owner`'s data (splitmix64 of rank and place).
fn word(owner: usize, index: u64) -> u64 {
    let mut x = ((owner as u64) << 40).wrapping_add(index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn byte(owner: usize, i: usize) -> u8 {
    word(owner, i as u64 / 8).to_le_bytes()[i % 8]
}

fn pattern(owner: usize, bytes: &mut [u8], mask: u64) {
    for (i, chunk) in bytes.chunks_mut(8).enumerate() {
        let want = (word(owner, i as u64) ^ mask).to_le_bytes();
        chunk.copy_from_slice(&want[..chunk.len()]);
    }
}

fn difference(owner: usize, bytes: &[u8]) -> Option<usize> {
    bytes.chunks(8).enumerate().find_map(|(i, chunk)| {
        let want = word(owner, i as u64).to_le_bytes();
        let wrong = chunk.iter().zip(want).position(|(a, b)| *a != b)?;
        Some(8 * i + wrong)
    })
}

#[cfg(test)]
mod tests {
    use super::super::operations::Place;
    use super::*;
    use proptest::prelude::*;

    fn shape(p: usize, bytes: u64) -> Shape {
        let dist = super::super::dist::Dist::find("linear");
        (Operation::find("allgatherv").unwrap().shape)(&Place { p, rank: 1, root: 0, bytes, dist })
    }

    fn good(shape: &Shape) -> Vec<u8> {
        let mut recv = vec![GUARD_BYTE; shape.recv + 2 * GUARD];
        let told = Shape { in_place: true, ..shape.clone() };
        prepare(&told, &mut recv[GUARD..GUARD + shape.recv]);
        recv
    }

    proptest! {
        /// No single changed byte escapes, be it in the result or beside it.
        #[test]
        fn every_wrong_byte_is_seen(p in 2usize..9, bytes in 1u64..3000, at in 0usize..4000, flip in 1u8..=255) {
            let shape = shape(p, bytes);
            let result = GUARD..GUARD + shape.recv;
            let mut recv = good(&shape);
            prop_assert_eq!(judge(&shape, &recv, &result), Ok(()));
            let at = at % recv.len();
            recv[at] ^= flip;
            let fault = judge(&shape, &recv, &result).unwrap_err();
            if result.contains(&at) {
                let name = format!("byte {} of", at - GUARD);
                prop_assert!(fault.starts_with(&name), "{}", fault);
            } else {
                prop_assert!(fault.contains("result"), "{}", fault);
            }
        }

        /// Nothing that was not delivered is right by chance.
        #[test]
        fn the_poison_is_wrong_everywhere(p in 2usize..9, bytes in 1u64..3000) {
            let shape = shape(p, bytes);
            let mut recv = vec![GUARD_BYTE; shape.recv + 2 * GUARD];
            prepare(&shape, &mut recv[GUARD..GUARD + shape.recv]);
            let expected = good(&shape);
            for i in GUARD..GUARD + shape.recv {
                prop_assert_ne!(recv[i], expected[i]);
            }
            let fault = judge(&shape, &recv, &(GUARD..GUARD + shape.recv)).unwrap_err();
            prop_assert!(fault.ends_with("never arrived"), "{}", fault);
        }
    }
}
