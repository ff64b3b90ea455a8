//! One point: untimed runs that size the repetitions, then for each repetition a barrier, the operation timed
//! locally, and the slowest rank's time. Smallest and median over the repetitions, and the smallest span.

use super::dist::Dist;
use super::operations::{How, Operation, Place, Shape};
use crate::agree::agree;
use crate::outcome::Failure;
use crate::units;
use circulant::comm::{Buf, Persistent, Stats, Wire};
use circulant::diagnostics::allocations;
use circulant::{Communicator, World};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// What a run of the benchmark is made of.
#[derive(Debug)]
pub(crate) struct Lab<'a> {
    pub(crate) world: &'a World,
    /// For what goes on besides: barriers, gathered times.
    pub(crate) comm: &'a Communicator,
    /// For what is timed.
    pub(crate) timed: &'a Communicator,
    pub(crate) wire: Wire,
    pub(crate) root: usize,
    /// Most repetitions.
    pub(crate) reps: usize,
    /// Seconds that a point's repetitions may take.
    pub(crate) time: f64,
    pub(crate) memory: MemoryKind,
    pub(crate) persistent: bool,
    pub(crate) check: bool,
    pub(crate) stats: bool,
}

/// A point to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) op: &'static Operation,
    pub(crate) dist: Option<&'static Dist>,
    pub(crate) bytes: u64,
}

impl Point {
    /// The distribution's name, `-` where there is none.
    pub(crate) fn dist_name(&self) -> &'static str {
        self.dist.map_or("-", |d| d.name)
    }
}

/// What came out, times in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) op: &'static str,
    pub(crate) dist: &'static str,
    pub(crate) p: usize,
    pub(crate) bytes: u64,
    pub(crate) min_us: f64,
    pub(crate) median_us: f64,
    pub(crate) span_us: f64,
    pub(crate) reps: usize,
    /// C = βm + q(L+o) and its kin, from the wire as measured in the same run.
    pub(crate) reference_us: f64,
    /// min_us beside it; none where the reference is 0.
    pub(crate) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<Counted>,
}

/// What was counted in one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Counted {
    pub(crate) puts: Figure,
    pub(crate) wire_bytes: Figure,
    pub(crate) copied_bytes: Figure,
    pub(crate) allocations: Figure,
    pub(crate) rounds: Figure,
}

/// Over the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Figure {
    pub(crate) max: u64,
    pub(crate) sum: u64,
}

/// Which memory the operation works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MemoryKind {
    /// Registered memory of the library's (Communicator::alloc)
    #[default]
    Arena,
    /// Ordinary slices
    Plain,
}

impl MemoryKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arena => "arena",
            Self::Plain => "plain",
        }
    }
}

/// What is sent, and where the result goes.
#[derive(Debug)]
pub(crate) enum Memory {
    Arena(Buf<u8>, Buf<u8>),
    Plain(Vec<u8>, Vec<u8>),
}

impl Memory {
    /// Collective: fails everywhere when one rank has not enough.
    pub(crate) fn new(
        comm: &Communicator,
        kind: MemoryKind,
        send: usize,
        recv: usize,
    ) -> Result<Self, Failure> {
        let mine = match kind {
            MemoryKind::Arena => comm
                .alloc(send)
                .and_then(|s| Ok(Self::Arena(s, comm.alloc(recv)?)))
                .map_err(|e| Failure::new(1, e.to_string())),
            MemoryKind::Plain => zeros(send).and_then(|s| Ok(Self::Plain(s, zeros(recv)?))),
        };
        agree(comm, mine)
    }

    pub(crate) fn parts(&mut self) -> (&mut [u8], &mut [u8]) {
        match self {
            Self::Arena(send, recv) => (send, recv),
            Self::Plain(send, recv) => (send, recv),
        }
    }
}

fn zeros(len: usize) -> Result<Vec<u8>, Failure> {
    let mut v = Vec::new();
    v.try_reserve_exact(len)
        .map_err(|_| Failure::new(1, format!("no memory for {}", units::size(len as u64))))?;
    v.resize(len, 0);
    Ok(v)
}

/// The operation, ready to run any number of times.
enum Job<'a> {
    Call { call: super::operations::Call, comm: &'a Communicator, shape: &'a Shape, memory: Memory },
    Started(Box<Persistent<u8>>),
}

impl Job<'_> {
    fn run(&mut self) -> circulant::Result<()> {
        match self {
            Self::Call { call, comm, shape, memory } => {
                let (send, recv) = memory.parts();
                call(comm, shape, send, recv)
            }
            Self::Started(persistent) => {
                persistent.start()?;
                persistent.wait()
            }
        }
    }
}

/// Measures one point; `None` when rank 0 wants to stop (`go_on` is rank 0's word). Collective.
pub(crate) fn measure(lab: &Lab<'_>, point: &Point, go_on: bool) -> Result<Option<Row>, Failure> {
    let (p, rank) = (lab.comm.size(), lab.comm.rank());
    let mut word = [u8::from(go_on)];
    lab.comm.bcast(&mut word, 0)?;
    if word == [0] {
        return Ok(None);
    }
    let place = Place { p, rank, root: lab.root, bytes: point.bytes, dist: point.dist };
    let shape = (point.op.shape)(&place);
    let (call, init) = match point.op.how {
        How::Put => return raw(lab, point, &shape).map(Some),
        How::Collective { call, init } => (call, init),
    };
    if lab.check {
        let what = format!("{} {} of {} B, root {}", point.op.name, point.dist_name(), point.bytes, lab.root);
        super::check::check(lab, point.op, &shape, &what)?;
    }
    let memory = Memory::new(lab.comm, lab.memory, shape.send, shape.recv)?;
    let mut job = match (init.filter(|_| lab.persistent), memory) {
        (Some(init), Memory::Arena(send, recv)) => {
            Job::Started(Box::new(init(lab.timed, &shape, send, recv)?))
        }
        (_, memory) => Job::Call { call, comm: lab.timed, shape: &shape, memory },
    };
    let reps = warm_up(lab, &mut job)?;
    let times = timed(lab, &mut job, reps)?;
    let stats = if lab.stats { Some(count(lab, &mut job)?) } else { None };
    Ok(Some(row(lab, point, &shape, &times, stats)))
}

/// One untimed run, or two where they are short; says how many repetitions fit.
fn warm_up(lab: &Lab<'_>, job: &mut Job<'_>) -> Result<usize, Failure> {
    let mut slowest = 0f64;
    for _ in 0..2 {
        if slowest >= lab.time / 16.0 {
            break;
        }
        lab.comm.barrier()?;
        let start = now();
        job.run()?;
        let mine = [(now() - start) as f64 * 1e-9];
        let mut all = vec![0f64; lab.comm.size()];
        lab.comm.allgather(&mine, &mut all)?;
        slowest = all.into_iter().fold(0.0, f64::max);
    }
    Ok(repetitions(lab.time, slowest, lab.reps))
}

/// As many as fit into `time`, at least 3 (if so many are wanted), at most `most`.
#[allow(clippy::cast_possible_truncation)] // the fraction is to be cut off; the cast saturates
#[allow(clippy::cast_sign_loss)] // times are not negative
fn repetitions(time: f64, one: f64, most: usize) -> usize {
    ((time / (one + 1e-6)) as usize).max(3).min(most)
}

/// Start and end of each repetition at each rank, on the clock all processes of a machine share.
struct Times {
    p: usize,
    /// `[rank][repetition]`: start, end, in nanoseconds.
    all: Vec<[u64; 2]>,
}

fn timed(lab: &Lab<'_>, job: &mut Job<'_>, reps: usize) -> Result<Times, Failure> {
    let mut mine = vec![[0u64; 2]; reps];
    for slot in &mut mine {
        lab.comm.barrier()?;
        let start = now();
        job.run()?;
        *slot = [start, now()];
    }
    let p = lab.comm.size();
    let mut all = vec![[0u64; 2]; reps * p];
    lab.comm.allgather(&mine, &mut all)?;
    Ok(Times { p, all })
}

impl Times {
    /// (smallest, median) slowest-rank time and smallest span, in nanoseconds.
    fn figures(&self) -> (f64, f64, f64) {
        let reps = self.all.len() / self.p;
        let of = |i: usize| (0..self.p).map(move |r| self.all[r * reps + i]);
        let mut slowest: Vec<u64> =
            (0..reps).map(|i| of(i).map(|[s, e]| e.saturating_sub(s)).max().unwrap_or(0)).collect();
        let span = (0..reps)
            .filter_map(|i| Some(of(i).map(|t| t[1]).max()?.saturating_sub(of(i).map(|t| t[0]).min()?)));
        let span = span.min().unwrap_or(0);
        slowest.sort_unstable();
        (slowest[0] as f64, slowest[reps / 2] as f64, span as f64)
    }
}

fn row(lab: &Lab<'_>, point: &Point, shape: &Shape, times: &Times, stats: Option<Counted>) -> Row {
    let (min, median, span) = times.figures();
    let reference = match times.p {
        1 => 0.0,
        _ => units::reference(&lab.wire, shape.volume, shape.rounds),
    };
    Row {
        op: point.op.name,
        dist: point.dist_name(),
        p: lab.comm.size(),
        bytes: point.bytes,
        min_us: min / 1e3,
        median_us: median / 1e3,
        span_us: span / 1e3,
        reps: times.all.len() / times.p,
        reference_us: reference / 1e3,
        ratio: units::ratio(min, reference),
        stats,
    }
}

/// The raw wire. Rank 0 alone has times; the others' rows are never shown.
fn raw(lab: &Lab<'_>, point: &Point, shape: &Shape) -> Result<Row, Failure> {
    let bytes = usize::try_from(point.bytes).map_err(|_| Failure::usage("that is too much to put"))?;
    let first = lab.comm.put_times(bytes, 1)?;
    let mut one = [first.first().map_or(0.0, |t| t.as_secs_f64())];
    lab.comm.bcast(&mut one, 0)?;
    let times = lab.comm.put_times(bytes, repetitions(lab.time, 2.0 * one[0], lab.reps))?;
    let all = times.iter().map(|t| [0, u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)]);
    let mut all: Vec<[u64; 2]> = all.collect();
    if all.is_empty() {
        all.push([0, 0]);
    }
    let row = row(lab, point, shape, &Times { p: 1, all }, None);
    let reference = units::reference(&lab.wire, shape.volume, shape.rounds);
    Ok(Row { reference_us: reference / 1e3, ratio: units::ratio(row.min_us * 1e3, reference), ..row })
}

/// Counts one operation: the largest of three runs at each rank, then maximum and sum over the ranks.
fn count(lab: &Lab<'_>, job: &mut Job<'_>) -> Result<Counted, Failure> {
    let mut most = [0u64; 5];
    for _ in 0..3 {
        lab.comm.barrier()?;
        let (before, heap) = (lab.world.stats(), allocations());
        job.run()?;
        let (heap, after) = (allocations() - heap, lab.world.stats());
        for (m, d) in most.iter_mut().zip(differences(&before, &after, heap)) {
            *m = (*m).max(d);
        }
    }
    let mut all = vec![[0u64; 5]; lab.comm.size()];
    lab.comm.allgather(&[most], &mut all)?;
    let figure = |i: usize| Figure {
        max: all.iter().map(|a| a[i]).max().unwrap_or(0),
        sum: all.iter().map(|a| a[i]).sum(),
    };
    Ok(Counted {
        puts: figure(0),
        wire_bytes: figure(1),
        copied_bytes: figure(2),
        allocations: figure(3),
        rounds: figure(4),
    })
}

fn differences(before: &Stats, after: &Stats, heap: u64) -> [u64; 5] {
    [
        after.puts - before.puts,
        after.put_bytes - before.put_bytes,
        after.copied_bytes - before.copied_bytes,
        heap,
        after.rounds - before.rounds,
    ]
}

/// Nanoseconds on CLOCK_MONOTONIC, which the processes of a machine share.
#[allow(clippy::cast_sign_loss)] // that clock never shows a negative time
fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_counts() {
        // Two ranks, three repetitions.
        let all = vec![[0, 10], [100, 105], [200, 230], [5, 12], [90, 99], [201, 202]];
        let (min, median, span) = Times { p: 2, all }.figures();
        assert_eq!((min, median, span), (9.0, 10.0, 12.0));
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
