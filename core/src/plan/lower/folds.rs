//! Which arrivals are combined into something by one reduce and read by no other operation. A transport that reads them
//! piece by piece can hand the pieces to that reduce, and land nothing.

use super::program::{Expected, NO_OP, Op, OpKind, Segment};
use crate::plan::{Place, Region};

/// By counter: the reduce that takes in what arrives with it, or [`NO_OP`]. `waiters` are (counter, count, op), and
/// `landing` says where one put lands and how long it is. Nothing at all where nothing is folded so.
///
/// A reduce *matches* a counter if it waits for it and its source is exactly what lands with it, in
/// [`Region::Land`]. It then reads that landing and no other, also if a slot is used again. So only what others than
/// such reduces do with a slot can need its bytes there.
pub(super) fn folds(
    ops: &[Op],
    segments: &[Segment],
    expected: &[Expected],
    waiters: &[(u32, u32, u32)],
    landing: &[(Place, u64)],
) -> Vec<u32> {
    if !ops.iter().any(|op| matches!(op.kind, OpKind::Reduce(_))) {
        return Vec::new();
    }
    let of = |op: &Op| &segments[op.first_segment as usize..][..op.segments as usize];
    let mut folds = vec![NO_OP; expected.len()];
    // By op: the counter that it matches; the second time, none.
    let mut matched: Vec<Option<u32>> = vec![None; ops.len()];
    for &(counter, _, op) in waiters {
        let c = counter as usize;
        let Some(&(place, len)) = landing.get(c) else { continue };
        let [source] = of(&ops[op as usize]) else { continue };
        let whole = source.place == place && source.len == len && expected[c].arrivals == 1;
        if !whole || place.region != Region::Land || !matches!(ops[op as usize].kind, OpKind::Reduce(_)) {
            continue;
        }
        let again = folds[c] != NO_OP || matched[op as usize].is_some();
        if !again {
            (folds[c], matched[op as usize]) = (op, Some(counter));
        } else {
            folds[c] = NO_OP;
            if let Some(other) = matched[op as usize].take() {
                folds[other as usize] = NO_OP;
            }
        }
    }
    if folds.iter().all(|op| *op == NO_OP) {
        return Vec::new();
    }
    let mut touched = touched(ops, of, |op| matched[op].is_some_and(|c| folds[c as usize] != NO_OP));
    touched.sort_unstable();
    // Ranges that overlap become one, so that the last that begins before a place is the only one to look at.
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(touched.len());
    for (begin, end) in touched {
        match joined.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((begin, end)),
        }
    }
    for (c, op) in folds.iter_mut().enumerate().filter(|(_, op)| **op != NO_OP) {
        let (place, len) = landing[c];
        let before = joined.partition_point(|range| range.0 < place.offset + len);
        if before > 0 && joined[before - 1].1 > place.offset {
            *op = NO_OP;
        }
    }
    folds
}

/// The ranges of `Land` that ops read or write here, but for the sources of those that take in what lands.
fn touched<'a>(
    ops: &'a [Op],
    of: impl Fn(&'a Op) -> &'a [Segment],
    takes: impl Fn(usize) -> bool,
) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        if op.kind.is_local() && op.target.region == Region::Land && op.len > 0 {
            out.push((op.target.offset, op.target.offset + op.len));
        }
        let land = of(op).iter().filter(|s| s.place.region == Region::Land && s.len > 0);
        out.extend(land.filter(|_| !takes(i)).map(|s| (s.place.offset, s.place.offset + s.len)));
    }
    out
}
