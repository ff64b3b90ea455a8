//! Bruck's alltoall for small blocks (Bruck, Ho, Kipnis, Upfal, Weathersby 1997, index operation, radix n + 1).
//!
//! A block's distance is written in digits to the base n + 1, and each digit that is not 0 is one hop: hop k moves every block whose digit
//! k is d by d·(n+1)^k, in one message for every d. The n messages of a hop wait for nothing of each other, so on a wire of long latency
//! more of them cost less than more hops. With n = 1 there are q hops, and a rank puts as many blocks as the numbers 1 … p−1 have bits, at
//! most (p/2)·q; with n = ⌈√p⌉ − 1 two hops, and each block is put at most twice. The far hops come first: the order is free, and so
//! neighbouring blocks stay together for longer, which saves copies.

use super::relay::{Builder, Group, Relay};
use crate::error::{Result, argument};
use crate::machine::LogGp;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::line;
use crate::plan::registry::{Algorithm, Arguments, Operation};
use crate::plan::topology::log2_ceil;

pub(in crate::plan) const LINE: Algorithm = line(
    Operation::Alltoall,
    "bruck",
    [
        "any p, n",
        "<= n*ceil(log(p)/log(n+1))",
        "s times the digits to base n+1 of 1..p-1 that are not 0",
        "Bruck et al. 1997",
    ],
    |a, n| hops(a.size, n).map(|hop| hop.puts).sum(),
    |a, model| Ok(Box::new(alltoall(a.size, a.bytes, ways(a, model))?)),
)
.receives(|a| a.bytes * blocks(a.size, a.blocks.unwrap_or(1)))
.costs(cost);

/// Of this many distances the mean is taken for that of all of a hop. Chosen, so that a price takes no longer where n is large.
const MOST_DISTANCES: u32 = 64;

/// The messages of a hop leave at once; what they bring is packed for the next one, or unpacked.
fn cost(a: &Arguments, path: &mut Path<'_>) {
    let n = ways(a, path.model());
    path.blocks(n);
    let bytes = float(a.bytes);
    for hop in hops(a.size, n) {
        let distances: Vec<u32> = (1..=hop.puts.min(MOST_DISTANCES)).map(|d| d * hop.reach).collect();
        path.over(&distances, 1.0, f64::from(hop.puts), float(hop.blocks) * bytes);
    }
    if a.size > 2 {
        path.copy(f64::from(a.size) * bytes);
    }
}

/// A digit of distances.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hop {
    /// What 1 in it stands for.
    reach: u32,
    /// Its values other than 0.
    puts: u32,
    /// The distances in which it is not 0.
    blocks: u64,
}

/// The hops, the nearest first.
fn hops(size: u32, n: u32) -> impl Iterator<Item = Hop> {
    let radix = n.max(1).saturating_add(1);
    let reaches = std::iter::successors(Some(1u32), move |reach| Some(reach.saturating_mul(radix)));
    reaches.take_while(move |reach| *reach < size).map(move |reach| {
        let (size, all) = (u64::from(size), u64::from(reach) * u64::from(radix));
        let zeros = size / all * u64::from(reach) + (size % all).min(reach.into());
        Hop { reach, puts: (radix - 1).min((size as u32 - 1) / reach), blocks: size - zeros }
    })
}

/// Blocks that a rank puts.
fn blocks(size: u32, n: u32) -> u64 {
    hops(size, n).map(|hop| hop.blocks).sum()
}

/// The number that is given, or the least by which there are as many hops as cost least; more than one hop, as with one
/// nothing is forwarded.
fn ways(a: &Arguments, model: &LogGp) -> u32 {
    let most = a.size.saturating_sub(1).max(1);
    if let Some(n) = a.blocks {
        return n.clamp(1, most);
    }
    let price = |n: u32| {
        let sum = hops(a.size, n).fold((0.0, 0.0, 0.0), |(hops, puts, blocks), hop| {
            (hops + 1.0, puts + f64::from(hop.puts), blocks + float(hop.blocks))
        });
        let bytes = sum.2 * float(a.bytes) * float(model.byte_ps) / 1000.0;
        sum.0 * float(model.latency_ns) + sum.1 * float(model.overhead_ns) + bytes
    };
    // From most hops on: of equal prices that of fewest puts.
    let radixes = (2..=log2_ceil(a.size)).rev().map(|hops| root(a.size, hops) - 1);
    radixes.min_by(|a, b| price(*a).total_cmp(&price(*b))).unwrap_or(1)
}

/// The least number from 2 on whose power is `size` or more.
fn root(size: u32, exponent: u32) -> u32 {
    let power = |base: u32| u64::from(base).saturating_pow(exponent);
    let (mut low, mut high) = (2, size.max(2));
    while low < high {
        let middle = low + (high - low) / 2;
        (low, high) = if power(middle) < size.into() { (middle + 1, high) } else { (low, middle) };
    }
    low
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
        for by in (1..=hop.puts).map(|digit| digit * hop.reach) {
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
    use crate::plan::Plan;

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

    #[test]
    fn a_root_is_the_least_number_whose_power_is_enough() {
        for p in (1..300).chain(RANKS) {
            for exponent in 1..12 {
                let found = root(p, exponent);
                let power = |base: u32| u64::from(base).pow(exponent);
                assert!(power(found) >= p.into() && (found == 2 || power(found - 1) < p.into()), "{p} {exponent}");
            }
        }
    }

    /// Far more latency than anything else: two hops. Far more bytes, likewise, as they forward least. Dear puts: q hops.
    #[test]
    fn hops_are_as_many_as_cost_least() {
        let base = LogGp { latency_ns: 1, overhead_ns: 1, byte_ps: 1, reduce_ps: 1 };
        for size in (5..300).chain(RANKS) {
            let of = |bytes: u64, model: LogGp| {
                let n = ways(&Arguments { size, bytes, ..Arguments::default() }, &model);
                hops(size, n).count()
            };
            assert_eq!(of(8, LogGp { latency_ns: 1_000_000_000, ..base }), 2, "{size} ranks");
            assert_eq!(of(1 << 30, base), 2, "{size} ranks");
            let most = of(8, LogGp { overhead_ns: 1_000_000_000, ..base });
            let puts = |n: u32| hops(size, n).map(|hop| hop.puts).sum::<u32>();
            assert!(most > 2 || puts(1) >= puts(root(size, 2) - 1), "{size} ranks: {most} hops");
        }
    }
}
