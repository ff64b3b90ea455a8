//! Figures of the wire and of the machine: the raw wire as measured between two ranks, what choices are made by, and what algorithms would
//! cost on a communicator. For tools; programs need none of it.

use super::communicator::Communicator;
use super::shared::Shared;
use crate::engine::{Flow, Pair};
use crate::error::{Result, argument};
use crate::machine::{LogGp, Machine};
use crate::ops;
use crate::plan::registry::{Arguments, Operation};
use crate::select::{Candidate, Figures, PROBED_UNHIDDEN, Probed, Source};
use std::time::Duration;

/// What was measured of a link: a put of m bytes arrives after o + L + βm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wire {
    /// L: one-way latency of a small put beyond its overhead, in nanoseconds.
    pub latency_ns: f64,
    /// o: time per put that the sender is busy, in nanoseconds.
    pub overhead_ns: f64,
    /// β: time per byte, in nanoseconds. NaN where it could not be seen: what else puts take varied by more.
    pub byte_ns: f64,
}

impl From<LogGp> for Wire {
    fn from(link: LogGp) -> Self {
        Self {
            latency_ns: link.latency_ns as f64,
            overhead_ns: link.overhead_ns as f64,
            byte_ns: link.byte_ps as f64 / 1e3,
        }
    }
}

/// Half round trips of a put of `bytes` between ranks 0 and 1, `reps` of them (at ranks 0 and 1; empty
/// elsewhere). The raw wire: no schedule, no ready messages, no flow control. Collective; the other ranks
/// sleep meanwhile.
///
/// # Errors
/// As [`Communicator::bcast`].
pub fn put_times(comm: &Communicator, bytes: usize, reps: usize) -> Result<Vec<Duration>> {
    if comm.size() < 2 {
        return Ok(Vec::new());
    }
    put_times_between(comm, [0, 1], bytes, reps)
}

/// The same between any two ranks; both get their own times.
///
/// # Errors
/// As [`Communicator::bcast`], and when the ranks are not two of this communicator's.
pub fn put_times_between(
    comm: &Communicator,
    pair: [usize; 2],
    bytes: usize,
    reps: usize,
) -> Result<Vec<Duration>> {
    alone(comm, pair, |shared, pair, deadline| {
        shared.engine.ping_pong(&shared.arena, pair, bytes, reps, deadline)
    })
    .map(Option::unwrap_or_default)
}

/// Windows of `count` puts of `bytes` from each rank i below p/2 to rank i + p/2, all pairs at the same time, `reps` of them:
/// how long each took until all its puts had arrived, at the senders; at the others, times that do not count. The raw
/// wire, by the protocol of osu_mbw_mr. Collective; with an odd number of ranks the last one sleeps meanwhile.
///
/// # Errors
/// As [`Communicator::bcast`].
pub fn window_times(comm: &Communicator, bytes: usize, count: u32, reps: usize) -> Result<Vec<Duration>> {
    let (pairs, rank) = (comm.size() / 2, comm.rank());
    let other = if rank < pairs { rank + pairs } else { rank - pairs };
    let other = (pairs > 0 && other < 2 * pairs && rank < 2 * pairs).then_some(other);
    let windows = beside(comm, other, rank < pairs, |shared, pair, deadline| {
        shared.engine.windows(&shared.arena, pair, bytes, count, reps, deadline)
    })?;
    Ok(windows.unwrap_or_default().iter().map(|w| w.answered).collect())
}

/// Measures L, o and β between ranks 0 and 1; all ranks get the same figures. Collective. With one rank
/// all are 0.
///
/// # Errors
/// As [`Communicator::bcast`].
pub fn wire(comm: &Communicator) -> Result<Wire> {
    if comm.size() < 2 { Ok(Wire::default()) } else { wire_between(comm, [0, 1]) }
}

/// The same between any two ranks; all ranks get the first one's figures.
///
/// # Errors
/// As [`put_times_between`].
pub fn wire_between(comm: &Communicator, pair: [usize; 2]) -> Result<Wire> {
    let small = best(&put_times_between(comm, pair, 8, 200)?);
    let overhead = alone(comm, pair, |shared, pair, deadline| {
        shared.engine.post_cost(&shared.arena, pair, 64, deadline)
    })?;
    let overhead = overhead.map_or(0.0, nanoseconds).min(small);
    let mut figures = [(small - overhead).max(0.0), overhead, f64::NAN];
    let mut times = [f64::INFINITY; 2];
    for _ in 0..MAX_SLOPE_ATTEMPTS {
        for (time, (bytes, reps)) in times.iter_mut().zip(SLOPE_PUTS) {
            *time = time.min(best(&put_times_between(comm, pair, bytes, reps)?));
        }
        figures[2] = byte_time(small, times).unwrap_or(f64::NAN);
        // All go by what the first of the pair saw.
        comm.bcast(&mut figures, pair[0])?;
        if !figures[2].is_nan() {
            break;
        }
    }
    let [latency_ns, overhead_ns, byte_ns] = figures;
    Ok(Wire { latency_ns, overhead_ns, byte_ns })
}

/// o as schedules see it, in nanoseconds: what one block more costs a broadcast of the same bytes, while all
/// ranks send and receive; of that the third which blocks of the right length do not hide. Where they have cores of their own this is little more than the o of [`wire`];
/// where they share them it may be fifty times as much, and blocks should be as much fewer. Collective; `byte_ns`
/// is β. 0 for one rank.
///
/// # Errors
/// As [`Communicator::bcast`].
pub fn block_overhead(comm: &Communicator, byte_ns: f64) -> Result<f64> {
    if comm.size() < 2 {
        return Ok(0.0);
    }
    let mut data = comm.alloc::<u8>(OVERHEAD_BCAST_BYTES)?;
    let mut times = [0.0f64; 2];
    for (time, n) in times.iter_mut().zip(FEW_AND_MANY_BLOCKS) {
        let options = comm.options.clone().blocks(n).algorithm("circulant");
        let in_blocks = comm.with(options);
        // The first makes the plan.
        let mut best = f64::INFINITY;
        for rep in 0..4 {
            comm.barrier()?;
            // By the wire's clock, which is a virtual one on the simulated wire.
            let start = comm.hold()?.engine.now();
            in_blocks.bcast(&mut data, 0)?;
            let spent = comm.hold()?.engine.now().duration_since(start);
            let (mine, mut slowest) = ([nanoseconds(spent)], [0.0]);
            comm.allreduce(&mine, &mut slowest, ops::Max)?;
            if rep > 0 {
                best = best.min(slowest[0]);
            }
        }
        *time = best;
    }
    let [few, many] = FEW_AND_MANY_BLOCKS.map(f64::from);
    // T(n) = (n − 1 + q)(o + βm/n) + …
    let rounds = f64::from(comm.size().next_power_of_two().trailing_zeros()) - 1.0;
    let shorter = rounds * byte_ns * OVERHEAD_BCAST_BYTES as f64 * (1.0 / few - 1.0 / many);
    let mut overhead =
        [(EXPOSED_SHARE_OF_OVERHEAD * (times[1] - times[0] + shorter) / (many - few)).max(0.0)];
    comm.bcast(&mut overhead, 0)?;
    Ok(overhead[0])
}

/// L, o and β in haste, at start-up; β stays what `known` says where it cannot be seen. On a wire that
/// is quick there is time for a second look, which the first, with everything cold, needs.
pub(super) fn probe(comm: &Communicator, pair: [usize; 2], known: &LogGp) -> Result<Probed> {
    let [mut small, mut large, mut put] = [f64::INFINITY; 3];
    for (few, fewer) in [(8, 2), (30, 8)] {
        let times = alone(comm, pair, |shared, pair, deadline| {
            let mut times = |bytes, reps| shared.engine.ping_pong(&shared.arena, pair, bytes, reps, deadline);
            let times = [times(8, few)?, times(PROBE_BYTES, fewer)?];
            Ok((times, shared.engine.post_cost(&shared.arena, pair, PROBE_PUTS, deadline)?))
        })?;
        let ([short, long], post) = times.unwrap_or_default();
        let spent: Duration = short.iter().chain(&long).sum();
        // All go by what the first of the pair saw.
        let mut seen =
            [small.min(best(&short)), large.min(best(&long)), put.min(nanoseconds(post)), nanoseconds(spent)];
        comm.bcast(&mut seen, pair[0])?;
        [small, large, put] = [seen[0], seen[1], seen[2]];
        if seen[3] > PROBE_NS {
            break;
        }
    }
    let byte_ps = whole(1000.0 * (large - small) / PROBE_BYTES as f64);
    let byte_ps = if byte_ps > 0 { byte_ps } else { known.byte_ps };
    let overhead = block_overhead(comm, byte_ps as f64 / 1000.0)?;
    let wire = LogGp {
        latency_ns: whole(small).saturating_sub(known.overhead_ns),
        overhead_ns: whole(overhead).max(known.overhead_ns),
        byte_ps,
        reduce_ps: known.reduce_ps,
    };
    Ok(Probed { wire, alone_ns: if_cores_are_shared(whole(put).max(known.overhead_ns), wire.overhead_ns) })
}

/// [`Machine::alone_ns`]: the `put` nanoseconds that a put took one rank, or `u64::MAX` where o, of which a put takes [`PROBED_UNHIDDEN`] while all put, shows that ranks have cores of their own.
fn if_cores_are_shared(put: u64, overhead_ns: u64) -> u64 {
    let among_all = overhead_ns.saturating_mul(PROBED_UNHIDDEN.into());
    if among_all > put.saturating_mul(SHARED_CORES_TIMES) { put } else { u64::MAX }
}

/// The figures that algorithms and blocks are chosen by, and where they come from.
///
/// # Errors
/// Inside an operator.
pub fn machine(comm: &Communicator) -> Result<(Machine, Source)> {
    let held = comm.hold()?;
    Ok((*held.selection.machine(), held.figures.source()))
}

/// What every algorithm would cost for a call on this communicator; the first is the one that would be taken if
/// the call says no more. What the communicator knows itself need not be in the arguments.
///
/// # Errors
/// When no algorithm can do it.
pub fn candidates(
    comm: &Communicator,
    operation: Operation,
    arguments: &Arguments,
) -> Result<Vec<Candidate>> {
    let held = comm.hold()?;
    let mut arguments = arguments.clone();
    held.complete(&comm.context, operation, &mut arguments, &comm.options);
    let (name, reproducible) = (comm.options.algorithm.as_deref(), comm.options.reproducible);
    let chosen = held.selection.choose(operation, &arguments, name, reproducible)?.way.algorithm;
    let mut all = held.selection.candidates(operation, &arguments, reproducible);
    let at = all.iter().position(|c| std::ptr::eq(c.algorithm, chosen)).unwrap_or(0);
    all[..=at].rotate_right(1);
    Ok(all)
}

/// Runs `body` at the two ranks while the others sleep.
fn alone<R>(
    comm: &Communicator,
    pair: [usize; 2],
    body: impl FnOnce(&mut Shared, Pair, Duration) -> Result<R>,
) -> Result<Option<R>> {
    let [first, second] = pair;
    if first == second || first.max(second) >= comm.size() {
        let what = format!("ranks {first} and {second} are no pair of {} ranks", comm.size());
        return Err(comm.own(argument(what)));
    }
    let other = match comm.rank() {
        rank if rank == first => Some(second),
        rank if rank == second => Some(first),
        _ => None,
    };
    beside(comm, other, comm.rank() == first, body)
}

/// Runs `body` with rank `other`, which does the same, between two barriers; a rank without another sleeps meanwhile.
fn beside<R>(
    comm: &Communicator,
    other: Option<usize>,
    leads: bool,
    body: impl FnOnce(&mut Shared, Pair, Duration) -> Result<R>,
) -> Result<Option<R>> {
    comm.barrier()?;
    let result = match other {
        Some(other) => {
            let other = u32::try_from(other).unwrap_or(u32::MAX);
            let pair = Pair { peer: comm.context.members.world_rank(other), leads };
            let mut guard = comm.hold()?;
            let shared = &mut *guard;
            let deadline = comm.deadline().unwrap_or(shared.deadline);
            Some(body(shared, pair, deadline).map_err(|e| shared.engine.fail(e))?)
        }
        None => {
            comm.hold()?.engine.lazy = true;
            None
        }
    };
    let after = comm.barrier();
    comm.hold()?.engine.lazy = false;
    after.map(|()| result)
}

impl Shared {
    /// Takes other figures. All ranks do so with the same, between two barriers.
    pub(super) fn retune(&mut self, figures: Figures, window: Option<u64>) {
        self.figures = figures;
        self.selection.retune(&figures);
        self.cache.clear();
        let rails = self.engine.limits().map_or(1, |limits| limits.rails);
        self.engine.set_flow(flow(&figures, window, rails));
    }
}

/// What a rank may have on its way; `window`: as the settings say. The figures are of one rail: with the window of one a rank with two waits for the
/// acknowledgement of what one of them carries.
pub(super) fn flow(figures: &Figures, window: Option<u64>, rails: usize) -> Flow {
    Flow {
        window: window.unwrap_or_else(|| figures.window().saturating_mul(rails as u64)),
        acknowledged: figures.acknowledged(),
        bandwidth_bound: figures.bandwidth_bound().saturating_mul(rails as u64),
        order_timeout: Duration::from_nanos(figures.in_order_ns()),
    }
}

/// A probe does not look twice if one way took so long, in nanoseconds (3 ms). Chosen: start-up stays short on slow
/// wires, whose times vary little in proportion.
const PROBE_NS: f64 = 3e6;

/// Bytes of the longer put of a probe. Chosen: long enough for β to show beside L (5 ms beside 1 ms at 100 Mbit/s; 5 µs
/// beside 1 µs at 100 Gbit/s), short enough for a slow wire.
const PROBE_BYTES: usize = 64 << 10;

/// Puts in a row that show what one takes while the other ranks sleep. Chosen: few enough for the buffers of any wire, so that none waits.
const PROBE_PUTS: u32 = 16;

/// Ranks share cores if a put takes more than this many times as long while all put as it takes one rank alone. Chosen: where each has a core a block of the
/// probe's broadcast is put and got, and others come meanwhile, some three times as much. (16 ranks on two cores: 6 to 8 times.)
const SHARED_CORES_TIMES: u64 = 4;

/// A broadcast of this many bytes in few and in many blocks shows what a block costs. Chosen: the same bytes in both,
/// so their difference is the blocks'.
const OVERHEAD_BCAST_BYTES: usize = 64 << 10;
/// How many blocks: few, and many. Chosen: 128 apart, of 4 KiB and of 455 bytes.
const FEW_AND_MANY_BLOCKS: [u32; 2] = [16, 144];

/// This share of what a block costs there shows where blocks are as long as they should be: the rest of the ranks' work
/// passes while the wire carries others. Fitted: with it the rule for n was best for broadcasts of 100 KB to 4 MB among
/// 16 ranks of 2 cores on an emulated network (90 us a block; n = 36, 128, 192).
const EXPOSED_SHARE_OF_OVERHEAD: f64 = 1.0 / PROBED_UNHIDDEN as f64;

/// Bytes and repetitions of the puts between which β is the slope. Chosen: `a_slope_that_cannot_be_is_none` has what
/// was measured with them on seven wires.
const SLOPE_PUTS: [(usize, usize); 2] = [(100_000, 20), (1_000_000, 10)];

/// After so often without one, the wire has no β that can be measured. Chosen; sockets, woken late, are such a wire
/// (`a_slope_that_cannot_be_is_none`).
const MAX_SLOPE_ATTEMPTS: usize = 4;

/// Bytes must explain this share of what the longest put takes beyond the smallest one. A wire with a rendezvous spends less
/// than half of a put of 1 MB on it; where waking up takes hundreds of microseconds, as with sockets, a slope is noise.
const MIN_SHARE_BY_BYTES: f64 = 0.5;

/// β in nanoseconds per byte, from the shortest times of a small put and of those of [`SLOPE_PUTS`]; `None` where these
/// times cannot be those of a wire.
fn byte_time(small: f64, [near, far]: [f64; 2]) -> Option<f64> {
    let [(shorter, _), (longer, _)] = SLOPE_PUTS;
    let byte_ns = (far - near) / (longer - shorter) as f64;
    (byte_ns > 0.0 && byte_ns * longer as f64 >= MIN_SHARE_BY_BYTES * (far - small)).then_some(byte_ns)
}

/// The shortest time in nanoseconds; 0 if there is none.
fn best(times: &[Duration]) -> f64 {
    times.iter().min().copied().map_or(0.0, nanoseconds)
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_nanos() as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
fn whole(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::{Settings, Wires};

    #[test]
    fn one_rank_is_alone_where_others_share_its_core() {
        assert_eq!(if_cores_are_shared(6100, 11_700), 6100, "16 ranks on two cores");
        for (put, overhead) in [(300, 300), (2500, 2500), (5600, 7000), (u64::MAX, 1), (1, 0)] {
            assert_eq!(if_cores_are_shared(put, overhead), u64::MAX, "{put} and {overhead} ns");
        }
    }

    #[test]
    fn each_rail_has_a_window() {
        let figures = Figures::new(&Wires::named("tcp"), &Settings::default(), None).unwrap();
        let window = |rails| flow(&figures, None, rails).window;
        assert_eq!((window(1), window(3)), (figures.window(), 3 * figures.window()));
        assert_eq!(flow(&figures, Some(5), 3).window, 5, "a setting is what all rails have together");
    }

    #[test]
    fn only_where_latency_decides_are_acknowledgements_more_frequent_than_the_window_asks() {
        let figures = |latency, overhead| {
            let settings = Settings {
                latency_ns: Some(latency),
                overhead_ns: Some(overhead),
                byte_ps: Some(80_000),
                ..Settings::default()
            };
            Figures::new(&Wires::named("tcp"), &settings, None).unwrap()
        };
        let far = figures(1_000_000, 1000);
        assert_eq!((far.window(), far.acknowledged()), (500_000, 125_000));
        // 160 overheads.
        let near = figures(1000, 100_000);
        assert_eq!((near.window(), near.acknowledged()), (200_000, 200_000));
    }

    /// Shortest times in microseconds of 8 B, 100 KB and 1 MB, as they were measured.
    #[test]
    fn a_slope_that_cannot_be_is_none() {
        for (wire, small, near, far, byte_ns) in [
            ("shm", 1.3, 4.3, 26.9, Some(0.025)),
            ("net", 6.8, 38.5, 237.0, Some(0.221)),
            ("fi_shm", 4.2, 10.3, 46.6, Some(0.040)),
            ("1 ms, 100 Mbit/s", 1040.0, 9040.0, 81_040.0, Some(80.0)),
            ("sockets", 61.8, 141.0, 418.0, Some(0.308)),
            ("sockets, woken late", 99.4, 284.7, 291.0, None),
            ("sockets, the longer put was quicker", 307.0, 254.0, 253.0, None),
        ] {
            let found = byte_time(small * 1e3, [near * 1e3, far * 1e3]);
            let rounded = found.map(|b| (b * 1e3).round() / 1e3);
            assert_eq!(rounded, byte_ns, "{wire}");
        }
    }
}
