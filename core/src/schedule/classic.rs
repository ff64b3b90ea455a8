//! The 2022 paper's own construction, repaired: a second opinion that shares nothing with the fast one
//! but the skips. O(log² p) per receive, O(log³ p) per send schedule.
//!
//! Where this departs from the printed text: Algorithm 4 starts from B = {base block} (otherwise its
//! last round has two candidates); "rounds i = 0..k" is read as all q rounds; Algorithm 3 is replaced by
//! an equivalent without open special cases (its home ranges with a gap of 1 hold fewer blocks than
//! line 21 says, e.g. ranks 3 and 4 of p = 33); the base block of the root is none.

use super::skips::{Circulant, Entries, last_phase, this_phase};

/// The base block of `r` > 0 by Algorithm 2: its first skip from below, range by range.
fn baseblock(skips: &[u32], mut r: u32) -> usize {
    loop {
        let t = top(skips, r);
        if skips[t] == r {
            return t;
        }
        r -= skips[t];
    }
}

/// The largest t with skips\[t\] ≤ `r`, for `r` ≥ 1.
fn top(skips: &[u32], r: u32) -> usize {
    skips.partition_point(|&skip| skip <= r) - 1
}

/// The base blocks of ranks 1 to `last`, as a mask.
fn prefix(skips: &[u32], last: u32) -> u64 {
    if last == 0 { 0 } else { (2 << top(skips, last)) - 1 }
}

/// The base blocks of ranks `a` to `b`, 1 ≤ a, b < p, as a mask; empty if a > b. For Algorithm 3, in O(q).
fn range_blocks(skips: &[u32], mut a: u32, mut b: u32) -> u64 {
    let mut blocks = 0;
    while a <= b {
        let t = top(skips, b);
        let s = skips.partition_point(|&skip| skip < a);
        if s > t {
            // Strictly inside one home range, which repeats the ranks below it.
            a -= skips[t];
            b -= skips[t];
            continue;
        }
        // The heads of the home ranges s..=t, the last one's beginning, and the largest complete one.
        blocks |= ((2 << t) - 1) & !((1 << s) - 1);
        blocks |= prefix(skips, b - skips[t]);
        if t > s {
            blocks |= prefix(skips, skips[t] - skips[t - 1] - 1);
        }
        if a == skips[s] {
            break;
        }
        // What is left of the home range that `a` lies in.
        a -= skips[s - 1];
        b = skips[s] - 1 - skips[s - 1];
    }
    blocks
}

/// The base blocks of the cyclic range from `a` to `b`, −p < a ≤ b < p; the root has none.
fn cyclic_blocks(skips: &[u32], p: u32, a: i64, b: i64) -> u64 {
    let last = i64::from(p) - 1;
    let part = |a: i64, b: i64| match (u32::try_from(a.max(1)), u32::try_from(b)) {
        (Ok(a), Ok(b)) => range_blocks(skips, a, b),
        _ => 0,
    };
    part(a, b) | if a < 0 { part(a + last + 1, b.min(-1) + last + 1) } else { 0 }
}

/// The receive schedule of rank `r` by Algorithm 4.
///
/// # Panics
/// If `r` ≥ p.
pub fn recv(c: &Circulant, r: u32) -> Entries {
    c.must_be_rank(r);
    let (p, q, skips) = (c.p(), c.q(), c.skips());
    let mut entries = Entries::zeroed(c);
    let mut have = if r == 0 { 0u64 } else { 1 << baseblock(skips, r) };
    let base = have.checked_ilog2();
    let mut reach = 0i64;
    for k in 0..q {
        let (skip, next) = (i64::from(c.skip(k)), i64::from(c.skip(k + 1)));
        reach += skip;
        let rank = i64::from(r);
        if let Some(base) = base.filter(|_| (skip..next).contains(&rank)) {
            entries.set(k, this_phase(base));
            continue;
        }
        let near =
            if k == q - 1 { (1 << q) - 1 } else { cyclic_blocks(skips, p, rank - next + 1, rank - skip) };
        let mut fresh = near & !have;
        if fresh == 0 {
            fresh = cyclic_blocks(skips, p, rank - reach, rank - next) & !have;
        }
        let block = fresh.checked_ilog2().unwrap_or(0);
        have |= 1 << block;
        entries.set(k, last_phase(block, q));
    }
    entries
}

/// The send schedule of rank `r` by Algorithm 5: what each receiver expects.
///
/// # Panics
/// If `r` ≥ p.
pub fn send(c: &Circulant, r: u32) -> Entries {
    let mut entries = Entries::zeroed(c);
    for k in 0..c.q() {
        // Nothing is ever sent to the root; its row only keeps the schedule uniform.
        entries.set(k, recv(c, c.to(r, k))[k as usize]);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_blocks_are_those_of_the_ranks() {
        for p in 2..100 {
            let c = Circulant::new(p);
            for a in 1..p {
                let mut blocks = 0;
                for b in a..p {
                    blocks |= 1 << c.base(b);
                    assert_eq!(range_blocks(c.skips(), a, b), blocks, "p = {p}, ranks {a} to {b}");
                }
            }
        }
    }
}
