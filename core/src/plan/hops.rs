//! Hops in which a rank puts up to n messages at once; those of a hop go n+1 times as far as those of the one before. On a wire of long latency more
//! messages in a hop cost less than more hops. What algorithms that go so have in common.

use crate::machine::Machine;
use crate::plan::registry::Arguments;
use crate::plan::registry::cost::Path;
use crate::plan::topology::log2_ceil;

/// Of this many distances, evenly spaced, the mean is taken for that of all of a hop. Chosen, so that a price takes no longer where n is large.
const MOST_DISTANCES: u32 = 64;

/// A hop: messages to the ranks d·reach further on, for every d from 1 to `puts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::plan) struct Hop {
    /// How far the nearest message goes: a power of n+1.
    pub reach: u32,
    /// The messages of a rank; n, or fewer where more would go round all ranks.
    pub puts: u32,
}

impl Hop {
    /// How far the messages go.
    pub(in crate::plan) fn distances(self) -> impl ExactSizeIterator<Item = u32> {
        (0..self.puts).map(move |d| (d + 1) * self.reach)
    }

    /// How far the last of them goes.
    pub(in crate::plan) fn furthest(self) -> u32 {
        self.puts * self.reach
    }

    /// These messages at once, in this many puts of `bytes` bytes together.
    pub(in crate::plan) fn over(self, path: &mut Path<'_>, puts: f64, bytes: f64) {
        let step = self.puts.div_ceil(MOST_DISTANCES).max(1) as usize;
        path.over_each(self.distances().step_by(step), 1.0, puts, bytes);
    }
}

/// The hops among `size` ranks, the nearest first; ⌈log_(n+1) p⌉.
pub(in crate::plan) fn hops(size: u32, n: u32) -> impl Iterator<Item = Hop> {
    let radix = n.max(1).saturating_add(1);
    let reaches = std::iter::successors(Some(1u32), move |reach| Some(reach.saturating_mul(radix)));
    let reaches = reaches.take_while(move |reach| *reach < size);
    reaches.map(move |reach| Hop { reach, puts: (radix - 1).min((size - 1) / reach) })
}

/// Messages of a rank in all hops.
pub(in crate::plan) fn puts(size: u32, n: u32) -> u32 {
    hops(size, n).map(|hop| hop.puts).sum()
}

/// The n that is given, or the least by which there are as many hops as cost least, but `fewest` at least. `price` walks the critical path by n.
pub(in crate::plan) fn messages(
    a: &Arguments,
    machine: &Machine,
    fewest: u32,
    price: impl Fn(u32, &mut Path<'_>),
) -> u32 {
    if let Some(n) = a.blocks {
        return n.clamp(1, a.size.saturating_sub(1).max(1));
    }
    let priced = |hops: u32| {
        let n = root(a.size, hops) - 1;
        let mut path = Path::new(machine, a.size);
        price(n, &mut path);
        (n, path.cost().ns)
    };
    // From most hops on: of equal prices that of fewest puts.
    let priced = (fewest..=log2_ceil(a.size)).rev().map(priced);
    priced.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(1, |(n, _)| n)
}

/// A path of messages without bytes.
pub(in crate::plan) fn alone(a: &Arguments, n: u32, path: &mut Path<'_>) {
    hops(a.size, n).for_each(|hop| hop.over(path, f64::from(hop.puts), 0.0));
}

/// The least numbers of messages by which there is a hop more than by n, and a hop less, but `fewest` at least; where there are such.
pub(crate) fn neighbors(size: u32, n: u32, fewest: u32) -> Vec<u32> {
    let hops = u32::try_from(hops(size, n).count()).unwrap_or(u32::MAX);
    let all = [hops.saturating_add(1), hops.saturating_sub(1)].into_iter();
    all.filter(|hops| (fewest..=log2_ceil(size)).contains(hops)).map(|hops| root(size, hops) - 1).collect()
}

/// The least number from 2 on whose power is `size` or more.
pub(in crate::plan) fn root(size: u32, exponent: u32) -> u32 {
    let (mut low, mut high) = (2, size.max(2));
    while low < high {
        let middle = low + (high - low) / 2;
        let enough = u64::from(middle).saturating_pow(exponent) >= size.into();
        (low, high) = if enough { (low, middle) } else { (middle + 1, high) };
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::LogGp;

    #[test]
    fn a_root_is_the_least_number_whose_power_is_enough() {
        for size in (1..300).chain([1000, 1023, 1024, 1025, 4096, 10_000, u32::MAX]) {
            for exponent in 1..12 {
                let enough = |base: u32| u64::from(base).saturating_pow(exponent) >= size.into();
                let found = root(size, exponent);
                assert!(enough(found) && (found == 2 || !enough(found - 1)), "{size}, {exponent}: {found}");
            }
        }
    }

    /// Every distance below p is a sum of one message's of each hop at most, and no message goes further than p.
    #[test]
    fn hops_reach_every_rank() {
        for size in 1..200 {
            for n in 1..size + 2 {
                let mut reached = vec![0];
                for hop in hops(size, n) {
                    assert!(hop.distances().all(|distance| distance < size));
                    assert_eq!(hop.distances().last(), Some(hop.furthest()));
                    let before = reached.clone();
                    reached.extend(hop.distances().flat_map(|d| before.iter().map(move |r| d + r)));
                }
                reached.sort_unstable();
                let below: Vec<u32> = reached.into_iter().filter(|r| *r < size).collect();
                assert!(below.into_iter().eq(0..size), "{size} ranks, {n} messages");
            }
        }
    }

    /// No rank at all, few and very many, and any n.
    #[test]
    fn extremes_are_no_panics() {
        for size in [0, 1, 2, 3, (1 << 31) - 1, u32::MAX] {
            for n in [0, 1, 2, 65_536, u32::MAX] {
                let (count, puts) = (hops(size, n).count(), puts(size, n));
                assert!(count <= 32 && puts < size.max(1), "{size} ranks, {n}: {count} hops, {puts} puts");
                assert!(neighbors(size, n, 1).len() <= 2);
            }
        }
    }

    #[test]
    fn neighbors_have_a_hop_more_and_a_hop_less() {
        assert_eq!(neighbors(36, 5, 2), [3], "with n = 35 all put to all");
        assert_eq!(neighbors(36, 5, 1), [3, 35]);
        assert_eq!(neighbors(1000, 9, 2), [5, 31]);
        assert_eq!(neighbors(8, 1, 2), [2]);
        assert!(neighbors(2, 1, 2).is_empty());
    }

    /// Where a put counts several times, as ranks share cores, there are no more of them, and fewer where it matters.
    #[test]
    fn dear_puts_are_fewer() {
        let flat = Machine::flat(LogGp { latency_ns: 1500, overhead_ns: 300, byte_ps: 80, reduce_ps: 100 });
        let shared = Machine { unhidden: 8, ..flat };
        let of = |size: u32, machine: &Machine| {
            let a = Arguments { size, ..Arguments::default() };
            puts(size, messages(&a, machine, 1, |n, path| alone(&a, n, path)))
        };
        for size in 2..1000 {
            assert!(of(size, &shared) <= of(size, &flat), "{size} ranks");
        }
        assert!(of(1000, &shared) < of(1000, &flat));
    }
}
