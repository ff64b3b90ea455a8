//! One point: untimed runs that size the repetitions, then for each repetition a barrier, the operation timed
//! locally, and the slowest rank's time. Smallest and median over the repetitions, and the smallest span.

use super::cold::Cold;
use super::dist::Dist;
use super::job::Job;
use super::operations::{How, Operation};
use super::order::{MemoryKind, Mode, Order};
use super::overlap::{self, Work};
use super::sample::Use;
use super::shapes::{RankCall, Shape, WINDOW_PUTS};
use super::together::{Together, now};
use crate::outcome::Failure;
use crate::settings::Setting as Between;
use crate::units;
use circulant::comm::{Options, Stats};
use circulant::diagnostics::allocations;
use circulant::measure::{self, Wire};
use circulant::ops::{Op, Reducer, Type};
use circulant::plan::registry::Algorithm;
use circulant::{Communicator, World};
use serde::Serialize;

/// What a run of the benchmark is made of.
#[derive(Debug)]
pub(crate) struct Lab<'a> {
    pub(crate) world: &'a World,
    /// For what goes on besides: gathered times.
    pub(crate) comm: &'a Communicator,
    /// For the barrier ahead of each repetition.
    pub(crate) together: Together,
    /// For what is timed.
    pub(crate) options: Options,
    pub(crate) wire: Wire,
    /// Nanoseconds per byte that is reduced; 0 if nothing is.
    pub(crate) fold_ns: f64,
    pub(crate) root: usize,
    /// Calls of each repetition.
    pub(crate) calls: u32,
    /// Untimed repetitions ahead of those that are timed.
    pub(crate) warm: u64,
    /// Most repetitions.
    pub(crate) reps: usize,
    /// Seconds that a point's repetitions may take.
    pub(crate) time: f64,
    pub(crate) memory: MemoryKind,
    /// What is read between repetitions.
    pub(crate) cold: Option<Cold>,
    /// Whether every rank writes its buffers between repetitions.
    pub(crate) fresh: bool,
    pub(crate) mode: Mode,
    pub(crate) in_place: bool,
    pub(crate) kind: Type,
    pub(crate) op: Op,
    pub(crate) reducer: Reducer,
    pub(crate) check: bool,
    pub(crate) stats: bool,
    /// What is computed beside the calls, where their overlap is asked for.
    pub(crate) work: Option<Work>,
}

impl Lab<'_> {
    /// What `point` is about at one rank.
    pub(crate) fn rank_call(&self, point: &Point) -> RankCall {
        let (p, rank) = (self.comm.size(), self.comm.rank());
        let element = self.kind.size() as u64;
        let Point { op, dist, setting, bytes, .. } = *point;
        let (root, in_place) = (self.root, self.in_place);
        op.rank_call(RankCall { p, rank, root, bytes, dist, setting, in_place, element })
    }
}

/// A point to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) op: &'static Operation,
    pub(crate) dist: Option<&'static Dist>,
    pub(crate) setting: Option<&'static Between>,
    pub(crate) bytes: u64,
    /// `None`: the library chooses.
    pub(crate) algorithm: Option<&'static Algorithm>,
}

impl Point {
    /// The distribution's or setting's name, `-` where there is none.
    pub(crate) fn dist_name(&self) -> &'static str {
        self.dist.map(|d| d.name).or(self.setting.map(|s| s.name)).unwrap_or("-")
    }

    /// The algorithm's name, `auto` where the library chooses.
    pub(crate) fn algorithm_name(&self) -> &'static str {
        self.algorithm.map_or("auto", |a| a.name)
    }
}

/// What came out, times in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) op: &'static str,
    pub(crate) dist: &'static str,
    pub(crate) algorithm: &'static str,
    pub(crate) p: usize,
    pub(crate) bytes: u64,
    pub(crate) min_us: f64,
    pub(crate) median_us: f64,
    pub(crate) span_us: f64,
    pub(crate) reps: usize,
    /// C = βV + γF + q(L+o), from the wire as measured in the same run.
    pub(crate) reference_us: f64,
    /// min_us beside it; none where the reference is 0.
    pub(crate) ratio: Option<f64>,
    /// Size over the median, in GB/s (10^9 bytes), as nccl-tests have it; none without bytes.
    pub(crate) algbw_gbs: Option<f64>,
    /// V over the median: with the V of the reference this is nccl-tests' algorithm bandwidth times 2(P−1)/P for
    /// allreduce, (P−1)/P for allgather, reduce_scatter, alltoall, gather and scatter, 1 for bcast and reduce.
    pub(crate) busbw_gbs: Option<f64>,
    /// Messages per second of all pairs together, from the median; of `rate` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) messages_per_s: Option<f64>,
    /// Of the call beside computing, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) overlap_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<Counted>,
}

/// What was counted in one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Counted {
    pub(crate) puts: Figure,
    pub(crate) wire_bytes: Figure,
    /// Of `wire_bytes` what went to nodes of other groups.
    pub(crate) global_bytes: Figure,
    pub(crate) copied_bytes: Figure,
    pub(crate) allocations: Figure,
    pub(crate) rounds: Figure,
    /// Where the library talks to RDMA hardware itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hardware: Option<Hardware>,
}

/// What RDMA hardware did in one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Hardware {
    pub(crate) requests: Figure,
    pub(crate) doorbells: Figure,
    pub(crate) signalled: Figure,
    pub(crate) receives: Figure,
    pub(crate) refills: Figure,
    pub(crate) refused: Figure,
    /// Of this and the next each rank sees those of all processes that use its port.
    pub(crate) receivers_not_ready: Figure,
    pub(crate) timeouts: Figure,
}

/// Figures of [`Counted`] and [`Hardware`].
const COUNTS: usize = 14;

/// Over the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Figure {
    pub(crate) max: u64,
    pub(crate) sum: u64,
}

/// Measures one point; `None` when rank 0 wants to stop (`go_on` is rank 0's word). Collective.
pub(crate) fn measure(lab: &Lab<'_>, point: &Point, go_on: bool) -> Result<Option<Row>, Failure> {
    let mut word = [u8::from(go_on)];
    lab.comm.bcast(&mut word, 0)?;
    if word == [0] {
        return Ok(None);
    }
    let call = lab.rank_call(point);
    let shape = (point.op.shape)(&call);
    let start = match point.op.how {
        How::Put(halves) => return raw(lab, point, &shape, halves).map(Some),
        How::Rate => return message_rate(lab, point, &shape).map(Some),
        How::Move(_, start) | How::Reduce(_, start) => start,
    };
    let options = lab.options.clone().algorithm(point.algorithm.map(|a| a.name));
    let order = Order {
        comm: lab.comm,
        options: &options,
        shape: &shape,
        kind: lab.kind,
        reducer: &lab.reducer,
        mode: lab.mode,
        memory: lab.memory,
        guard: 0,
    };
    if lab.check {
        let (op, dist, algorithm) = (point.op.name, point.dist_name(), point.algorithm_name());
        let (bytes, root) = (point.bytes, lab.root);
        let text = format!("{op} {dist} of {bytes} B, root {root}, algorithm {algorithm}");
        let what = Use { op: point.op.reduces().then_some(lab.op), p: lab.comm.size() };
        super::check::check(start, &order, what, &text)?;
    }
    let mut job = start(&order)?;
    let reps = warm_up(lab, &mut *job)?;
    let times = Times { calls: lab.calls, ..timed(lab, reps, &mut *job, |job| repeat(lab.calls, job))? };
    let overlap = lab.work.map(|work| overlap(lab, &mut *job, work, &times, reps)).transpose()?.flatten();
    let stats = if lab.stats { Some(count(lab, &mut *job)?) } else { None };
    Ok(Some(Row { overlap_percent: overlap, ..row(lab, point, &shape, &times, stats) }))
}

/// The untimed runs that are asked for, then one, or two where they are short; says how many repetitions fit.
fn warm_up(lab: &Lab<'_>, job: &mut dyn Job) -> Result<usize, Failure> {
    for _ in 0..lab.warm {
        set_out(lab, job)?;
        repeat(lab.calls, job)?;
    }
    let mut slowest = 0f64;
    for _ in 0..2 {
        if slowest >= lab.time / 16.0 {
            break;
        }
        set_out(lab, job)?;
        let start = now();
        repeat(lab.calls, job)?;
        let mine = [(now() - start) as f64 * 1e-9];
        let mut all = vec![0f64; lab.comm.size()];
        lab.comm.allgather(&mine, &mut all)?;
        slowest = all.into_iter().fold(0.0, f64::max);
    }
    Ok(repetitions(lab.time, slowest, lab.reps))
}

/// A repetition.
fn repeat(calls: u32, job: &mut dyn Job) -> circulant::Result<()> {
    (0..calls).try_for_each(|_| job.run())
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// This many repetitions are made however long they take, unless fewer are wanted.
pub(crate) const LEAST_REPS: usize = 3;

/// As many as fit into `time`, at least [`LEAST_REPS`], at most `most`.
#[allow(clippy::cast_possible_truncation)] // the fraction is to be cut off; the cast saturates
#[allow(clippy::cast_sign_loss)] // times are not negative
fn repetitions(time: f64, one: f64, most: usize) -> usize {
    ((time / (one + 1e-6)) as usize).max(LEAST_REPS).min(most)
}

/// Start and end of each repetition at each rank, on the clock all processes of a machine share.
struct Times {
    p: usize,
    /// Of each repetition.
    calls: u32,
    /// `[rank][repetition]`: start, end, in nanoseconds.
    all: Vec<[u64; 2]>,
}

fn timed(
    lab: &Lab<'_>,
    reps: usize,
    job: &mut dyn Job,
    mut run: impl FnMut(&mut dyn Job) -> circulant::Result<()>,
) -> Result<Times, Failure> {
    let mut mine = vec![[0u64; 2]; reps];
    for slot in &mut mine {
        set_out(lab, job)?;
        let start = now();
        run(job)?;
        *slot = [start, now()];
    }
    let p = lab.comm.size();
    let mut all = vec![[0u64; 2]; reps * p];
    lab.comm.allgather(&mine, &mut all)?;
    Ok(Times { p, calls: 1, all })
}

/// What is ahead of each repetition.
fn set_out(lab: &Lab<'_>, job: &mut dyn Job) -> Result<(), Failure> {
    if lab.fresh {
        write_lines(job.send()?);
        write_lines(job.recv()?);
    }
    lab.cold.iter().for_each(Cold::sweep);
    Ok(lab.together.begin()?)
}

/// Stores to every cache line of the buffer, so that copies in the caches of other cores become invalid. The values do not change.
fn write_lines(bytes: &mut [u8]) {
    for line in bytes.chunks_mut(LINE_BYTES) {
        line[0] = std::hint::black_box(line[0]);
    }
}

/// How much of the call passes beside a computation that takes as long, in %. All ranks find the same.
fn overlap(
    lab: &Lab<'_>,
    job: &mut dyn Job,
    work: Work,
    alone: &Times,
    reps: usize,
) -> Result<Option<f64>, Failure> {
    let (_, pure, _) = alone.figures();
    let steps = work.steps_in(pure);
    let compute = timed(lab, reps, job, |_| {
        overlap::steps(steps);
        Ok(())
    })?;
    let total = timed(lab, reps, job, |job| job.run_over(&mut || overlap::steps(steps)))?;
    Ok(overlap::percent(pure, total.figures().1, compute.figures().1))
}

impl Times {
    /// (smallest, median) slowest-rank time and smallest span of a call, in nanoseconds.
    fn figures(&self) -> (f64, f64, f64) {
        let reps = self.all.len() / self.p;
        let of = |i: usize| (0..self.p).map(move |r| self.all[r * reps + i]);
        let mut slowest: Vec<u64> =
            (0..reps).map(|i| of(i).map(|[s, e]| e.saturating_sub(s)).max().unwrap_or(0)).collect();
        let span = (0..reps)
            .filter_map(|i| Some(of(i).map(|t| t[1]).max()?.saturating_sub(of(i).map(|t| t[0]).min()?)));
        let span = span.min().unwrap_or(0);
        slowest.sort_unstable();
        let of_one = |ns: u64| ns as f64 / f64::from(self.calls);
        (of_one(slowest[0]), of_one(slowest[reps / 2]), of_one(span))
    }
}

fn row(lab: &Lab<'_>, point: &Point, shape: &Shape, times: &Times, stats: Option<Counted>) -> Row {
    let (min, median, span) = times.figures();
    let reference = match times.p {
        1 => 0.0,
        _ => reference(lab, shape),
    };
    Row {
        op: point.op.name,
        dist: point.dist_name(),
        algorithm: point.algorithm_name(),
        p: lab.comm.size(),
        bytes: point.bytes,
        min_us: min / 1e3,
        median_us: median / 1e3,
        span_us: span / 1e3,
        reps: times.all.len() / times.p,
        reference_us: reference / 1e3,
        ratio: units::ratio(min, reference),
        algbw_gbs: bandwidth(point.bytes, median),
        busbw_gbs: bandwidth(if lab.comm.size() > 1 { shape.volume } else { 0 }, median),
        messages_per_s: None,
        overlap_percent: None,
        stats,
    }
}

/// Bytes over nanoseconds, which are 10^9 bytes over seconds.
fn bandwidth(bytes: u64, ns: f64) -> Option<f64> {
    (bytes > 0 && ns > 0.0).then(|| bytes as f64 / ns)
}

/// C, in nanoseconds.
fn reference(lab: &Lab<'_>, shape: &Shape) -> f64 {
    units::reference(&lab.wire, shape.volume, shape.rounds) + lab.fold_ns * shape.folded as f64
}

/// What reducing a byte takes in the second cache, in nanoseconds: the least of several runs at rank 0. Collective.
pub(crate) fn fold_ns(comm: &Communicator, reducer: &Reducer) -> Result<f64, Failure> {
    const BYTES: usize = 64 << 10;
    let mut best = [f64::MAX];
    if comm.rank() == 0 {
        let (mut a, b) = (vec![0u128; BYTES / 16], vec![0u128; BYTES / 16]);
        for _ in 0..20 {
            let start = now();
            let target = std::hint::black_box(bytemuck::cast_slice_mut(&mut a));
            reducer.reduce(target, bytemuck::cast_slice(&b), circulant::ops::Side::SourceRight)?;
            best[0] = best[0].min((now() - start) as f64 / BYTES as f64);
        }
    }
    comm.bcast(&mut best, 0)?;
    Ok(best[0])
}

/// The raw wire, this many halves of a round trip. Rank 0 alone has times; the others' rows are never shown.
fn raw(lab: &Lab<'_>, point: &Point, shape: &Shape, halves: u32) -> Result<Row, Failure> {
    let bytes = put_bytes(point)?;
    let first = measure::put_times(lab.comm, bytes, 1)?;
    let mut one = [first.first().map_or(0.0, |t| t.as_secs_f64())];
    lab.comm.bcast(&mut one, 0)?;
    let times = measure::put_times(lab.comm, bytes, repetitions(lab.time, 2.0 * one[0], lab.reps))?;
    let all = times.iter().map(|t| [0, u64::try_from((*t * halves).as_nanos()).unwrap_or(u64::MAX)]);
    let mut all: Vec<[u64; 2]> = all.collect();
    if all.is_empty() {
        all.push([0, 0]);
    }
    let row = row(lab, point, shape, &Times { p: 1, calls: 1, all }, None);
    let reference = reference(lab, shape);
    Ok(Row { reference_us: reference / 1e3, ratio: units::ratio(row.min_us * 1e3, reference), ..row })
}

/// Windows of puts between all pairs at once; a window lasts as long as that of the slowest pair.
fn message_rate(lab: &Lab<'_>, point: &Point, shape: &Shape) -> Result<Row, Failure> {
    let bytes = put_bytes(point)?;
    let (p, pairs) = (lab.comm.size(), lab.comm.size() / 2);
    let windows = |reps: usize| -> Result<Vec<[u64; 2]>, Failure> {
        let mut mine: Vec<[u64; 2]> = measure::window_times(lab.comm, bytes, WINDOW_PUTS, reps)?
            .iter()
            .map(|t| [0, u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)])
            .collect();
        mine.resize(reps, [0; 2]);
        let mut all = vec![[0u64; 2]; reps * p];
        lab.comm.allgather(&mine, &mut all)?;
        // The times of the senders count.
        all.truncate(reps * pairs);
        Ok(all)
    };
    let one = windows(1)?.iter().map(|[_, end]| *end).max().unwrap_or(0);
    let all = windows(repetitions(lab.time, one as f64 * 1e-9, lab.reps))?;
    let row = row(lab, point, shape, &Times { p: pairs, calls: 1, all }, None);
    let (messages, median_ns) = (pairs as u64 * u64::from(WINDOW_PUTS), row.median_us * 1e3);
    let reference = reference(lab, shape);
    let bandwidth = bandwidth(point.bytes * messages, median_ns);
    Ok(Row {
        reference_us: reference / 1e3,
        ratio: units::ratio(row.min_us * 1e3, reference),
        algbw_gbs: bandwidth,
        busbw_gbs: bandwidth,
        messages_per_s: (median_ns > 0.0).then(|| messages as f64 / median_ns * 1e9),
        ..row
    })
}

/// Bytes of one put on the raw wire.
fn put_bytes(point: &Point) -> Result<usize, Failure> {
    usize::try_from(point.bytes).map_err(|_| Failure::usage("that is too much to put"))
}

/// Counts one operation: the largest of three runs at each rank, then maximum and sum over the ranks.
fn count(lab: &Lab<'_>, job: &mut dyn Job) -> Result<Counted, Failure> {
    let mut most = [0u64; COUNTS];
    for _ in 0..3 {
        lab.together.barrier()?;
        let (before, heap) = (lab.world.stats(), allocations());
        job.run()?;
        let (heap, after) = (allocations() - heap, lab.world.stats());
        for (m, d) in most.iter_mut().zip(differences(&before, &after, heap)) {
            *m = (*m).max(d);
        }
    }
    let mut all = vec![[0u64; COUNTS]; lab.comm.size()];
    lab.comm.allgather(&[most], &mut all)?;
    let figure = |i: usize| Figure {
        max: all.iter().map(|a| a[i]).max().unwrap_or(0),
        sum: all.iter().map(|a| a[i]).sum(),
    };
    Ok(Counted {
        puts: figure(0),
        wire_bytes: figure(1),
        global_bytes: figure(2),
        copied_bytes: figure(3),
        allocations: figure(4),
        rounds: figure(5),
        hardware: counts_hardware(lab.world).then(|| Hardware {
            requests: figure(6),
            doorbells: figure(7),
            signalled: figure(8),
            receives: figure(9),
            refills: figure(10),
            refused: figure(11),
            receivers_not_ready: figure(12),
            timeouts: figure(13),
        }),
    })
}

/// Whether RDMA hardware counts what it does: start-up alone has posted something.
pub(crate) fn counts_hardware(world: &World) -> bool {
    world.stats().hardware.requests > 0
}

fn differences(before: &Stats, after: &Stats, heap: u64) -> [u64; COUNTS] {
    let (b, a) = (&before.hardware, &after.hardware);
    [
        after.puts - before.puts,
        after.put_bytes - before.put_bytes,
        after.bytes_between_groups - before.bytes_between_groups,
        after.copied_bytes - before.copied_bytes,
        heap,
        after.rounds - before.rounds,
        a.requests - b.requests,
        a.doorbells - b.doorbells,
        a.signalled - b.signalled,
        a.receives - b.receives,
        a.refills - b.refills,
        a.refused - b.refused,
        a.receivers_not_ready.saturating_sub(b.receivers_not_ready),
        a.timeouts.saturating_sub(b.timeouts),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_counts() {
        // Two ranks, three repetitions.
        let all = vec![[0, 10], [100, 105], [200, 230], [5, 12], [90, 99], [201, 202]];
        let (min, median, span) = Times { p: 2, calls: 1, all: all.clone() }.figures();
        assert_eq!((min, median, span), (9.0, 10.0, 12.0));
        let of_one = Times { p: 2, calls: 4, all }.figures();
        assert_eq!(of_one, (2.25, 2.5, 3.0));
    }

    #[test]
    fn bandwidths_are_in_gigabytes() {
        assert_eq!(bandwidth(3_000_000_000, 1.5e9), Some(2.0));
        assert_eq!((bandwidth(0, 1.0), bandwidth(1, 0.0)), (None, None));
    }

    #[test]
    fn repetitions_are_sized_as_the_rivals_do() {
        assert_eq!(repetitions(1.0, 0.1, 35), 9);
        assert_eq!(repetitions(1.0, 1e-5, 35), 35);
        assert_eq!(repetitions(1.0, 60.0, 35), 3);
        assert_eq!(repetitions(1.0, 60.0, 1), 1);
        assert_eq!(repetitions(4.0, 0.0, usize::MAX), 4_000_000);
    }
}
