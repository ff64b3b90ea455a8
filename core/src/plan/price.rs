//! The simulator: what a plan costs on a wire of given latency, overhead and byte time (LogGP).
//!
//! Every rank has a link out and a link in, each serial. A put holds the link out for o + β·bytes, and
//! the link in for β·bytes, L later at the earliest: what comes while another put is coming in waits its
//! turn. A rank with a free link posts whatever is ready, lowest round first, just as the engine does;
//! nothing else is waited for. Programs are priced, not plans, so lowering is priced too.
//!
//! Where several ranks share a node ([`Machine::per_node`]) they share its link out and its link in. A rank still has
//! one put under way at a time: it spends o on it, then waits for the node's link, which serves in the order of
//! arrival. Within a node a put has an o, L and β of its own. Where readers copy ([`Machine::readers`]) the sender spends o on it
//! and is free again, and the bytes take the reader's time, one put after the other; else the sender's link within the
//! node carries them.
//!
//! A link carries puts whole, or those to several peers in turns ([`Machine::turn_bytes`]). Where ranks of a node share
//! cores ([`Machine::cores`]), puts, readers' copies and reductions of a rank take its core, which
//! goes round its ranks.
//!
//! Where nodes are in groups ([`Machine::groups`]) a put from one to another also holds the link up of its group, and L later the
//! link down of the other, for its bytes on a link as fast as those of all the group's nodes together, divided by the taper.
//! Both serve in the order of arrival, and L is longer by [`Groups::latency_ns`](crate::machine::Groups::latency_ns).
//!
//! [`price`] is the whole of it for small p. For many ranks, or to look on, record a [`Tape`] and run a [`Clock`].

mod clock;
mod cores;
mod global;
mod queue;
mod tape;
mod turns;

pub use clock::{Clock, Transfer};
pub use tape::Tape;

use super::Plan;
use super::lower::{Program, WireLimits};
use crate::error::Result;
use crate::machine::{LogGp, Machine};

/// Prices `plan` after lowering it to `limits`: the time until the last rank is done, in nanoseconds.
///
/// # Errors
/// If the plan cannot be lowered.
pub fn price(plan: &dyn Plan, limits: &WireLimits, model: &LogGp) -> Result<u64> {
    Ok(time(Tape::record(plan, limits, |_, _| Ok(()))?, model))
}

/// Prices the programs of all ranks, in nanoseconds; `u64::MAX` if they have more than 2^32 ops.
pub fn price_programs(programs: &[Program], model: &LogGp) -> u64 {
    Tape::of(programs).map_or(u64::MAX, |tape| time(tape, model))
}

fn time(tape: Tape, model: &LogGp) -> u64 {
    let mut clock = Clock::new(tape, Machine::flat(*model));
    while clock.run(u64::MAX) {}
    clock.time_ns()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Cores;
    use crate::plan::barrier::dissemination::Barrier;
    use crate::plan::bcast::circulant::Bcast;

    const LIMITS: WireLimits = WireLimits::PLAIN;
    const MODEL: LogGp = LogGp { latency_ns: 1000, overhead_ns: 100, byte_ps: 500, reduce_ps: 0 };

    #[test]
    fn one_block_to_one_rank_costs_what_the_model_says() {
        let plan = Bcast::new(2, 0, 10_000, 1).unwrap();
        assert_eq!(price(&plan, &LIMITS, &MODEL).unwrap(), 1000 + 100 + 5000);
        // Two blocks: the second follows at once.
        let plan = Bcast::new(2, 1, 10_000, 2).unwrap();
        assert_eq!(price(&plan, &LIMITS, &MODEL).unwrap(), 1000 + 2 * 100 + 5000);
    }

    #[test]
    fn a_barrier_costs_q_latencies() {
        for p in [2u32, 3, 8, 9, 100] {
            let q = u64::from(p.next_power_of_two().ilog2());
            assert_eq!(price(&Barrier::new(p).unwrap(), &LIMITS, &MODEL).unwrap(), q * (1000 + 100));
        }
    }

    #[test]
    fn one_block_to_all_costs_a_put_per_round_and_a_latency_per_hop() {
        for (p, hops) in [(2u32, 1), (4, 2), (16, 4), (64, 6)] {
            let plan = Bcast::new(p, 0, 1000, 1).unwrap();
            let q = u64::from(p.next_power_of_two().ilog2());
            let want = hops * 1000 + q * (100 + 500);
            assert_eq!(price(&plan, &LIMITS, &MODEL).unwrap(), want, "p = {p}");
        }
    }

    /// Whether no two of these spans overlap.
    fn serial(mut spans: Vec<(u64, u64)>) -> bool {
        spans.sort_unstable();
        spans.windows(2).all(|w| w[0].1 <= w[1].0)
    }

    /// Two nodes of two ranks; rank 0 puts 1000 bytes to all others: to 1 within the node, which copies while 0 goes on, to 2 and 3 over its
    /// link out. With one link in for both, 3 gets its bytes after 2.
    #[test]
    fn ranks_of_a_node_share_its_links() {
        use crate::plan::bcast::{linear::Star, tree::Tree};
        let near = LogGp { latency_ns: 200, overhead_ns: 100, byte_ps: 100, ..MODEL };
        let machine = Machine::shared(MODEL, near, 2);
        let star = Tree::<Star>::new(4, 0, 1000).unwrap();
        let mut clock = Clock::new(Tape::record(&star, &LIMITS, |_, _| Ok(())).unwrap(), machine);
        clock.remember();
        while clock.run(1) {}
        assert!(clock.finished());
        assert_eq!((clock.crossing(), clock.tape().puts(), clock.tape().bytes()), (2000, 3, 3000));
        let at = |to: u32| {
            let t = clock.transfers().iter().find(|t| t.to == to).unwrap();
            (t.leaves.0 / 1000, t.arrives.1 / 1000)
        };
        assert_eq!([at(1), at(2), at(3)], [(100, 400), (200, 1700), (800, 2300)]);
        assert_eq!(clock.time_ns(), 2300);
        // Both ranks of node 0 put to node 1 at once: the second waits for the links, not for o.
        let pairs = crate::plan::alltoall::direct::alltoall(4, 1000).unwrap();
        let mut clock = Clock::new(Tape::record(&pairs, &LIMITS, |_, _| Ok(())).unwrap(), machine);
        clock.remember();
        while clock.run(u64::MAX) {}
        // Four puts leave a node, one after the other; the last byte is there L later.
        assert!((100 + 4 * 500 + 1000..100 + 4 * 500 + 1000 + 500).contains(&clock.time_ns()));
        assert_eq!(clock.crossing(), 8000);
        let crossing = || clock.transfers().iter().filter(|t| t.from / 2 != t.to / 2);
        for node in 0..2 {
            assert!(serial(crossing().filter(|t| t.from / 2 == node).map(|t| t.leaves).collect()));
            assert!(serial(crossing().filter(|t| t.to / 2 == node).map(|t| t.arrives).collect()));
        }
        assert_eq!(crossing().count(), 8);
    }

    /// When the put to each rank arrives, in nanoseconds, and the end of all.
    fn arrivals(plan: &dyn Plan, machine: Machine) -> (Vec<(u32, u64)>, u64) {
        let mut clock = Clock::new(Tape::record(plan, &LIMITS, |_, _| Ok(())).unwrap(), machine);
        clock.remember();
        while clock.run(u64::MAX) {}
        assert!(clock.finished());
        let last = |to| clock.transfers().iter().filter(|t| t.to == to).map(|t| t.arrives.1 / 1000).max();
        ((0..plan.size()).filter_map(|to| Some((to, last(to)?))).collect(), clock.time_ns())
    }

    /// Rank 0 puts 1000 bytes each to 1 and 2. Whole: 100 + 500 and 100 + 500 more, and L. In turns of 400 bytes both have left at
    /// the end only.
    #[test]
    fn a_link_carries_puts_to_several_peers_in_turns() {
        use crate::plan::bcast::{linear::Star, tree::Tree};
        let star = Tree::<Star>::new(3, 0, 1000).unwrap();
        let whole = Machine::flat(MODEL);
        assert_eq!(arrivals(&star, whole), (vec![(1, 1600), (2, 2200)], 2200));
        let in_turns = Machine { turn_bytes: 400, ..whole };
        assert_eq!(arrivals(&star, in_turns), (vec![(1, 2100), (2, 2200)], 2200));
    }

    /// One core for three ranks. Rank 0 has posted both puts after 200 ns and goes to sleep; the first is there at 300, when the core
    /// has passed two ranks and is two turns of 50 from rank 1; that reads for 100, and it is a turn to rank 2.
    #[test]
    fn ranks_that_share_a_core_have_turns() {
        use crate::plan::bcast::{linear::Star, tree::Tree};
        let star = Tree::<Star>::new(3, 0, 1000).unwrap();
        let near = LogGp { latency_ns: 200, overhead_ns: 100, byte_ps: 100, ..MODEL };
        let own = Machine::shared(MODEL, near, 3);
        assert_eq!(arrivals(&star, own), (vec![(1, 400), (2, 500)], 500));
        let cores = |per_node, put_ns| Cores { per_node, turn_ns: 50, put_ns, relay_percent: 0 };
        let three = Machine { cores: cores(3, 0), ..own };
        assert_eq!(arrivals(&star, three), arrivals(&star, own));
        let one = Machine { cores: cores(1, 0), ..own };
        assert_eq!(arrivals(&star, one), (vec![(1, 500), (2, 650)], 650));
        // Where ranks take turns a put costs more; the core comes to rank 1 just when its bytes are there.
        let one = Machine { cores: cores(1, 25), ..own };
        assert_eq!(arrivals(&star, one), (vec![(1, 425), (2, 600)], 600));
    }

    /// Down a chain of three ranks: the second put is of bytes that came from another rank.
    #[test]
    fn bytes_that_are_passed_on_take_longer_where_cores_are_shared() {
        let chain = crate::plan::bcast::chain::Bcast::new(3, 0, 1000, 1).unwrap();
        let near = LogGp { latency_ns: 200, overhead_ns: 100, byte_ps: 100, ..MODEL };
        let cores = Cores { per_node: 3, turn_ns: 50, put_ns: 25, relay_percent: 50 };
        let machine = Machine { cores, ..Machine::shared(MODEL, near, 3) };
        assert_eq!(arrivals(&chain, machine), (vec![(1, 400), (2, 400 + 300 + 150)], 850));
    }

    /// Groups of two ranks, tapered 1:4: a byte takes a group's links twice as long as a node's. 0 puts to 1, which is in its group, and then
    /// to 2 and 3, which are in the other.
    #[test]
    fn nodes_of_a_group_share_its_links() {
        use crate::plan::bcast::{linear::Star, tree::Tree};
        let star = Tree::<Star>::new(4, 0, 1000).unwrap();
        let flat = Machine::flat(MODEL);
        assert_eq!(arrivals(&star, flat).0, [(1, 1600), (2, 2200), (3, 2800)]);
        // Groups that are not tapered carry what their nodes do.
        assert_eq!(arrivals(&star, flat.in_groups(2, 1)), arrivals(&star, flat));
        // The put to 3 leaves at 1300, waits for the link up until 700 + 1000, and takes 1000 to come.
        assert_eq!(arrivals(&star, flat.in_groups(2, 4)).0, [(1, 1600), (2, 2700), (3, 3700)]);
        // What goes from group to group comes as much later.
        let mut further = flat.in_groups(2, 1);
        further.groups.latency_ns = 5000;
        assert_eq!(arrivals(&star, further).0, [(1, 1600), (2, 7200), (3, 7800)]);
        let tape = || Tape::record(&star, &LIMITS, |_, _| Ok(())).unwrap();
        let mut clock = Clock::in_groups(tape(), flat.in_groups(0, 4), &[7, 7, 7, 1]).unwrap();
        while clock.run(u64::MAX) {}
        // Group 7 has three nodes, group 1 has one, whose link down takes 2000 for what leaves at 1300.
        assert_eq!((clock.time_ns(), clock.global(), clock.crossing()), (1300 + 1000 + 2000, 1000, 3000));
        Clock::in_groups(tape(), flat, &[0, 1]).unwrap_err();
        let in_turns = Machine { turn_bytes: 400, ..flat.in_groups(2, 4) };
        let mut clock = Clock::new(tape(), in_turns);
        while clock.run(u64::MAX) {}
        // The first turn to 2 leaves at 400, behind that to 1; the link up then has 2000 bytes to carry.
        assert!(clock.finished());
        assert!((400 + 1000 + 2000..3700).contains(&clock.time_ns()), "{}", clock.time_ns());
        assert_eq!(clock.global(), 2000);
    }

    /// A group's links carry the bytes of all puts, and no faster than they can: every rank of a group puts to the other group at once.
    #[test]
    fn tapered_links_are_full() {
        for taper in [1, 2, 4] {
            let machine = Machine::flat(MODEL).in_groups(16, taper);
            let plan = crate::plan::alltoall::direct::alltoall(32, 10_000).unwrap();
            let mut clock = Clock::new(Tape::record(&plan, &LIMITS, |_, _| Ok(())).unwrap(), machine);
            while clock.run(u64::MAX) {}
            assert_eq!(clock.global(), 2 * 16 * 16 * 10_000);
            let least = 16 * 16 * 10_000 * MODEL.byte_ps / 16 * u64::from(taper) / 1000;
            assert!(clock.time_ns() >= least, "1:{taper}: {} of {least}", clock.time_ns());
            // Of 31 puts of a rank 16 leave its group: the taper of 4 binds.
            assert!(taper < 4 || clock.time_ns() < least + least / 4, "{} of {least}", clock.time_ns());
        }
    }

    #[test]
    fn one_rank_per_node_is_the_flat_wire() {
        let near = LogGp { latency_ns: 1, overhead_ns: 1, byte_ps: 1, ..MODEL };
        for p in [1, 2, 9, 20] {
            let plan = Bcast::new(p, 0, 10_000, 5).unwrap();
            let tape = Tape::record(&plan, &LIMITS, |_, _| Ok(())).unwrap();
            let mut clock = Clock::new(tape, Machine::shared(MODEL, near, 1));
            while clock.run(u64::MAX) {}
            assert_eq!(clock.time_ns(), price(&plan, &LIMITS, &MODEL).unwrap());
        }
    }

    /// An observer sees every put once, no link carries two at a time, and nothing comes before L.
    #[test]
    fn links_are_serial() {
        let plan = Bcast::new(17, 3, 100_000, 12).unwrap();
        let mut clock =
            Clock::new(Tape::record(&plan, &LIMITS, |_, _| Ok(())).unwrap(), Machine::flat(MODEL));
        clock.remember();
        while clock.run(7) {}
        let transfers = clock.transfers();
        assert_eq!(transfers.len(), 16 * 12);
        for rank in 0..17 {
            assert!(serial(transfers.iter().filter(|t| t.from == rank).map(|t| t.leaves).collect()));
            assert!(serial(transfers.iter().filter(|t| t.to == rank).map(|t| t.arrives).collect()));
        }
        assert!(transfers.iter().all(|t| t.arrives.0 >= t.leaves.0 + 1_000_000));
        assert!(transfers.iter().all(|t| t.arrives.1 - t.arrives.0 == t.len * 500));
    }
}
