//! Bruck's alltoall for small blocks (Bruck, Ho, Kipnis, Upfal, Weathersby 1997, index operation, radix n + 1).
//!
//! A block's distance is written in digits to the base n + 1, and each digit that is not 0 is one hop: hop k moves every block whose digit
//! k is d by d·(n+1)^k, in one message for every d. The n messages of a hop wait for nothing of each other, so on a wire of long latency
//! more of them cost less than more hops. With n = 1 there are q hops, and a rank puts as many blocks as the numbers 1 … p−1 have bits, at
//! most (p/2)·q; with n = ⌈√p⌉ − 1 two hops, and each block is put at most twice. The far hops come first: the order is free, and so
//! neighbouring blocks stay together for longer, which saves copies.

use super::relay::{Builder, Group, Relay};
use crate::error::{Result, argument};
use crate::machine::Machine;
use crate::plan::hops::{self, Hop, hops, puts};
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Alltoall,
    "bruck",
    [
        "any p, n",
        "<= n*ceil(log(p)/log(n+1))",
        "s times the digits to base n+1 of 1..p-1 that are not 0",
        "Bruck et al. 1997",
    ],
    |a, n| puts(a.size, n),
    |a, model| Ok(Box::new(alltoall(a.size, a.bytes, messages(a, &Machine::flat(*model)))?)),
)
.receives(|a| a.bytes * blocks(a.size, a.blocks.unwrap_or(1)))
.costs(cost)
.in_messages(FEWEST_HOPS, messages);

/// With one, nothing is forwarded: all put to all.
const FEWEST_HOPS: u32 = 2;

/// The messages of a hop leave at once; what they bring is packed for the next one, or unpacked.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let n = messages(a, path.machine());
    path.blocks(n);
    cost_by(a, n, path);
}

fn cost_by(a: &Arguments, n: u32, path: &mut Path<'_>) {
    let bytes = float(a.bytes);
    for hop in hops(a.size, n) {
        hop.over(path, f64::from(hop.puts), float(moved(a.size, n, hop)) * bytes);
    }
    if a.size > 2 {
        path.copy(f64::from(a.size) * bytes);
    }
}

/// Blocks that a rank puts in a hop: the distances in which its digit is not 0.
fn moved(size: u32, n: u32, hop: Hop) -> u64 {
    let (size, reach) = (u64::from(size), u64::from(hop.reach));
    let period = reach * (u64::from(n) + 1);
    size - size / period * reach - (size % period).min(reach)
}

/// The same in all hops.
fn blocks(size: u32, n: u32) -> u64 {
    hops(size, n).map(|hop| moved(size, n, hop)).sum()
}

fn messages(a: &Arguments, machine: &Machine) -> u32 {
    hops::messages(a, machine, FEWEST_HOPS, |n, path| cost_by(a, n, path))
}

/// Blocks of `count` bytes among `size` ranks, with up to `n` messages of a rank in each hop.
///
/// # Errors
/// If there are 0 or too many ranks, `n` is 0, or the blocks are beyond 2^64 bytes.
pub fn alltoall(size: u32, count: u64, n: u32) -> Result<Relay> {
    if n == 0 {
        return Err(argument(format!("an alltoall among {size} ranks in hops of no message")));
    }
    by_digits("bruck", size, count, Group::Cyclic, n)
}

/// One round per digit of the label and its value, the digit of most first.
pub(super) fn by_digits(name: &'static str, size: u32, count: u64, group: Group, n: u32) -> Result<Relay> {
    let mut builder = Builder::new(name, size, count, group)?;
    let hops: Vec<Hop> = hops(size, n).collect();
    for hop in hops.into_iter().rev() {
        for by in hop.distances() {
            // Every (n+1)·reach labels as many as one in this digit stands for.
            let period = usize::try_from(u64::from(hop.reach) * (u64::from(n) + 1)).unwrap_or(usize::MAX);
            let labels = (by..size).step_by(period).flat_map(|l| l..size.min(l.saturating_add(hop.reach)));
            builder.round(by, labels, |label| label % hop.reach == 0);
        }
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::LogGp;
    use crate::plan::Plan;
    use crate::plan::hops::root;

    const RANKS: [u32; 8] = [300, 625, 1000, 1023, 1024, 1025, 4096, 10_000];

    /// By two hops less than two blocks land for each of a rank's, and less than one and a half are packed.
    #[test]
    fn scratch_of_two_hops_is_bounded_by_the_data() {
        for p in (1..300).chain([1000, 1024, 1025]) {
            let sizes = alltoall(p, 8, (root(p, 2) - 1).max(1)).unwrap().sizes(0);
            assert!(sizes.land <= 2 * sizes.input, "{p} ranks: {sizes:?}");
            assert!(2 * sizes.work <= 3 * sizes.input, "{p} ranks: {sizes:?}");
        }
    }

    /// Far more latency than anything else: two hops. Far more bytes, likewise, as they forward least. Dear puts: q hops.
    #[test]
    fn hops_are_as_many_as_cost_least() {
        let base = LogGp { latency_ns: 1, overhead_ns: 1, byte_ps: 1, reduce_ps: 1 };
        for size in (5..300).chain(RANKS) {
            let of = |bytes: u64, model: LogGp| {
                let n = messages(&Arguments { size, bytes, ..Arguments::default() }, &Machine::flat(model));
                hops(size, n).count()
            };
            assert_eq!(of(8, LogGp { latency_ns: 1_000_000_000, ..base }), 2, "{size} ranks");
            assert_eq!(of(1 << 30, base), 2, "{size} ranks");
            let most = of(8, LogGp { overhead_ns: 1_000_000_000, ..base });
            assert!(most > 2 || puts(size, 1) >= puts(size, root(size, 2) - 1), "{size} ranks: {most} hops");
        }
    }
}
