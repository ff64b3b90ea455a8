//! One collective of any kind with any algorithm, checked against a sequential reference. Shared by the tests of
//! all wires.
#![allow(clippy::cast_possible_truncation, reason = "test patterns wrap")]

use circulant::comm::{Persistent, Request};
use circulant::ops::{self, Reducer};
use circulant::plan::registry::Operation;
use circulant::{Buf, Communicator, InPlace, Options, Result};

/// How a collective is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// On slices of ours.
    Slices,
    /// On buffers of the arena.
    Arena,
    /// By a request.
    Request,
    /// By a persistent operation, started twice.
    Persistent,
}

/// One call, the same on all ranks.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) algorithm: &'static str,
    pub(crate) mode: Mode,
    pub(crate) in_place: bool,
    pub(crate) commutative: bool,
    pub(crate) root: usize,
    /// Elements per rank; irregular operations make different counts of it.
    pub(crate) len: usize,
    pub(crate) blocks: Option<u32>,
    pub(crate) seed: u64,
}

/// Functions x ↦ ax + b over the integers modulo 2^64, composed: associative and not commutative, and the result says
/// in which order which operands were taken in.
type Element = [u64; 2];

fn compose(f: Element, g: Element) -> Element {
    [f[0].wrapping_mul(g[0]), f[1].wrapping_mul(g[0]).wrapping_add(g[1])]
}

fn add(f: Element, g: Element) -> Element {
    [f[0].wrapping_add(g[0]), f[1].wrapping_add(g[1])]
}

pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Case {
    /// Element i that `from` contributes (for `to`, where that matters).
    fn value(&self, from: usize, to: usize, i: usize) -> Element {
        let x = mix(self.seed ^ mix((from as u64) << 40 ^ (to as u64) << 20 ^ i as u64));
        [x | 1, x.rotate_left(17)]
    }

    fn count(&self, rank: usize) -> usize {
        match mix(self.seed ^ rank as u64) % 4 {
            0 => 0,
            1 => self.len * 3,
            _ => self.len / 2 + rank % 3,
        }
    }

    /// Elements from one rank to another in an alltoallv.
    fn sent(&self, from: usize, to: usize) -> usize {
        self.count(from * 31 + to)
    }

    fn reducer(&self) -> Reducer {
        if self.commutative {
            Reducer::new::<Element, _>(ops::user("add", true, add))
        } else {
            Reducer::new::<Element, _>(ops::user("compose", false, compose))
        }
    }

    fn fold(&self, ranks: std::ops::Range<usize>, i: usize) -> Element {
        let values = ranks.map(|r| self.value(r, 0, i));
        let both = if self.commutative { add } else { compose };
        values.reduce(both).unwrap_or([77; 2])
    }
}

/// What a rank passes and what it shall find: input (none in place), output before, output after, and how many of
/// its elements count.
struct Parts {
    input: Option<Vec<Element>>,
    before: Vec<Element>,
    after: Vec<Element>,
    counting: usize,
    counts: [Vec<usize>; 2],
    displs: [Vec<usize>; 2],
}

/// Displacements with a gap before each.
fn spread(counts: &[usize]) -> (Vec<usize>, usize) {
    let mut at = 0;
    let displs = counts
        .iter()
        .map(|c| {
            at += 1;
            let d = at;
            at += c;
            d
        })
        .collect();
    (displs, at)
}

fn parts(c: &Case, rank: usize, p: usize) -> Parts {
    use Operation as O;
    let old = [77u64; 2];
    let n = c.len;
    let own = |len: usize| -> Vec<Element> { (0..len).map(|i| c.value(rank, 0, i)).collect() };
    let mut counts = [Vec::new(), Vec::new()];
    let mut displs = [Vec::new(), Vec::new()];
    let is_root = rank == c.root;
    let (mut input, mut before, after);
    match c.operation {
        O::Barrier => (input, before, after) = (vec![], vec![], vec![]),
        O::Bcast => {
            after = (0..n).map(|i| c.value(c.root, 0, i)).collect();
            before = if is_root { after.clone() } else { vec![old; n] };
            input = vec![];
        }
        O::Allgather | O::Gather => {
            let all: Vec<_> = (0..p).flat_map(|r| (0..n).map(move |i| c.value(r, 0, i))).collect();
            input = own(n);
            let here = c.operation == O::Allgather || is_root;
            after = if here { all } else { vec![] };
            before = vec![old; after.len()];
            if c.in_place && here {
                before[rank * n..(rank + 1) * n].copy_from_slice(&input);
            }
        }
        O::Allgatherv | O::Gatherv => {
            counts[1] = (0..p).map(|r| c.count(r)).collect();
            let (d, total) = spread(&counts[1]);
            displs[1] = d;
            input = own(counts[1][rank]);
            let here = c.operation == O::Allgatherv || is_root;
            before = vec![old; if here { total } else { 0 }];
            let mut all = before.clone();
            if here {
                for r in 0..p {
                    (0..counts[1][r]).for_each(|i| all[displs[1][r] + i] = c.value(r, 0, i));
                }
                if c.in_place {
                    before[displs[1][rank]..][..input.len()].copy_from_slice(&input);
                }
            }
            after = all;
        }
        O::Scatter => {
            input = if is_root { (0..p).flat_map(|r| (0..n).map(move |i| c.value(0, r, i))).collect() } else { vec![] };
            after = (0..n).map(|i| c.value(0, rank, i)).collect();
            before = vec![old; n];
        }
        O::Scatterv => {
            counts[0] = (0..p).map(|r| c.count(r)).collect();
            let (d, total) = spread(&counts[0]);
            displs[0] = d;
            input = vec![old; if is_root { total } else { 0 }];
            if is_root {
                for r in 0..p {
                    (0..counts[0][r]).for_each(|i| input[displs[0][r] + i] = c.value(0, r, i));
                }
            }
            after = (0..counts[0][rank]).map(|i| c.value(0, rank, i)).collect();
            before = vec![old; after.len()];
        }
        O::Alltoall => {
            input = (0..p).flat_map(|r| (0..n).map(move |i| c.value(rank, r, i))).collect();
            after = (0..p).flat_map(|r| (0..n).map(move |i| c.value(r, rank, i))).collect();
            before = vec![old; p * n];
        }
        O::Alltoallv => {
            counts = [(0..p).map(|r| c.sent(rank, r)).collect(), (0..p).map(|r| c.sent(r, rank)).collect()];
            let (sd, sn) = spread(&counts[0]);
            let (rd, rn) = spread(&counts[1]);
            input = vec![old; sn];
            before = vec![old; rn];
            let mut all = before.clone();
            for r in 0..p {
                (0..counts[0][r]).for_each(|i| input[sd[r] + i] = c.value(rank, r, i));
                (0..counts[1][r]).for_each(|i| all[rd[r] + i] = c.value(r, rank, i));
            }
            displs = [sd, rd];
            after = all;
        }
        O::Reduce | O::Allreduce | O::Scan | O::Exscan => {
            input = own(n);
            let here = c.operation != O::Reduce || is_root;
            let ranks = match c.operation {
                O::Scan => 0..rank + 1,
                O::Exscan => 0..rank,
                _ => 0..p,
            };
            after = if here { (0..n).map(|i| c.fold(ranks.clone(), i)).collect() } else { vec![] };
            before = vec![old; after.len()];
            if c.in_place && here {
                before.clone_from(&input);
            }
            if c.in_place && c.operation == O::Exscan && rank == 0 {
                return Parts { input: None, after: before.clone(), counting: n, before, counts, displs };
            }
        }
        O::ReduceScatter | O::ReduceScatterBlock => {
            counts[0] = match c.operation {
                O::ReduceScatter => (0..p).map(|r| c.count(r)).collect(),
                _ => vec![n; p],
            };
            let at: usize = counts[0][..rank].iter().sum();
            input = own(counts[0].iter().sum());
            let mine: Vec<_> = (at..at + counts[0][rank]).map(|i| c.fold(0..p, i)).collect();
            before = if c.in_place { input.clone() } else { vec![old; mine.len()] };
            after = mine;
        }
        other => unreachable!("{other}"),
    }
    let rooted = matches!(c.operation, O::Gather | O::Gatherv | O::Reduce);
    // Elsewhere there is no such thing, or (scatter, alltoallv) not in this driver.
    let never = matches!(c.operation, O::Bcast | O::Barrier | O::Scatter | O::Scatterv | O::Alltoallv);
    let owned = matches!(c.mode, Mode::Request | Mode::Persistent);
    let in_place = c.in_place && (!rooted || is_root) && !never && !(owned && c.operation == O::Alltoall);
    if in_place && c.operation == O::Alltoall {
        before.clone_from(&input);
    }
    let counting = after.len();
    Parts { input: (!in_place).then_some(input), before, after, counting, counts, displs }
}

fn buffer(comm: &Communicator, from: &[Element]) -> Result<Buf<Element>> {
    let mut buf = comm.alloc(from.len())?;
    buf.copy_from_slice(from);
    Ok(buf)
}

/// Calls it once on slices. `input` is not there in place.
fn call(comm: &Communicator, c: &Case, x: &Parts, input: Option<&[Element]>, out: &mut [Element]) -> Result<()> {
    use Operation as O;
    let op = &c.reducer();
    let (counts, displs) = (&x.counts, &x.displs);
    macro_rules! either {
        ($name:ident($($arg:expr),*)) => {
            match input {
                Some(input) => comm.$name(input, $($arg),*),
                None => comm.$name(InPlace, $($arg),*),
            }
        };
    }
    match c.operation {
        O::Barrier => comm.barrier(),
        O::Bcast => comm.bcast(out, c.root),
        O::Allgather => either!(allgather(out)),
        O::Allgatherv => either!(allgatherv(out, &counts[1], &displs[1])),
        O::Gather => either!(gather(out, c.root)),
        O::Gatherv => either!(gatherv(out, &counts[1], &displs[1], c.root)),
        O::Scatter => comm.scatter(input.unwrap_or_default(), out, c.root),
        O::Scatterv => comm.scatterv(input.unwrap_or_default(), &counts[0], &displs[0], out, c.root),
        O::Alltoall => either!(alltoall(out)),
        O::Alltoallv => either!(alltoallv((&counts[0], &displs[0]), out, (&counts[1], &displs[1]))),
        O::Reduce => either!(reduce(out, op, c.root)),
        O::Allreduce => either!(allreduce(out, op)),
        O::ReduceScatter => either!(reduce_scatter(out, &counts[0], op)),
        O::ReduceScatterBlock => either!(reduce_scatter_block(out, op)),
        O::Scan => either!(scan(out, op)),
        O::Exscan => either!(exscan(out, op)),
        other => unreachable!("{other}"),
    }
}

/// The same call for requests and for persistent operations.
macro_rules! owned_calls {
    ($name:ident -> $result:ident: [$($operation:ident $call:ident ($($arg:expr),*);)*]
     [$($scatter:ident $scall:ident ($($sarg:expr),*);)*] $comm:ident $c:ident $x:ident $op:ident $out:ident $input:ident) => {
        fn $name(
            $comm: &Communicator,
            $c: &Case,
            $x: &Parts,
            $input: Option<Buf<Element>>,
            $out: Buf<Element>,
        ) -> Result<$result<Element>> {
            let $op = &$c.reducer();
            match $c.operation {
                $(Operation::$operation => match $input {
                    Some(input) => $comm.$call(input, $($arg),*),
                    None => $comm.$call(InPlace, $($arg),*),
                },)*
                $(Operation::$scatter => $comm.$scall($($sarg),*),)*
                other => unreachable!("{other}"),
            }
        }
    };
}

owned_calls! { begin -> Request: [
    Allgather iallgather (out);
    Allgatherv iallgatherv (out, &x.counts[1], &x.displs[1]);
    Gather igather (out, c.root);
    Gatherv igatherv (out, &x.counts[1], &x.displs[1], c.root);
    Reduce ireduce (out, op, c.root);
    Allreduce iallreduce (out, op);
    ReduceScatter ireduce_scatter (out, &x.counts[0], op);
    ReduceScatterBlock ireduce_scatter_block (out, op);
    Scan iscan (out, op);
    Exscan iexscan (out, op);
    ] [
    Bcast ibcast (out, c.root);
    Scatter iscatter (full(comm, input)?, out, c.root);
    Scatterv iscatterv (full(comm, input)?, &x.counts[0], &x.displs[0], out, c.root);
    Alltoall ialltoall (full(comm, input)?, out);
    Alltoallv ialltoallv (full(comm, input)?, (&x.counts[0], &x.displs[0]), out, (&x.counts[1], &x.displs[1]));
    ] comm c x op out input
}

owned_calls! { init -> Persistent: [
    Allgather allgather_init (out);
    Allgatherv allgatherv_init (out, &x.counts[1], &x.displs[1]);
    Gather gather_init (out, c.root);
    Gatherv gatherv_init (out, &x.counts[1], &x.displs[1], c.root);
    Reduce reduce_init (out, op, c.root);
    Allreduce allreduce_init (out, op);
    ReduceScatter reduce_scatter_init (out, &x.counts[0], op);
    ReduceScatterBlock reduce_scatter_block_init (out, op);
    Scan scan_init (out, op);
    Exscan exscan_init (out, op);
    ] [
    Bcast bcast_init (out, c.root);
    Scatter scatter_init (full(comm, input)?, out, c.root);
    Scatterv scatterv_init (full(comm, input)?, &x.counts[0], &x.displs[0], out, c.root);
    Alltoall alltoall_init (full(comm, input)?, out);
    Alltoallv alltoallv_init (full(comm, input)?, (&x.counts[0], &x.displs[0]), out, (&x.counts[1], &x.displs[1]));
    ] comm c x op out input
}

fn full(comm: &Communicator, input: Option<Buf<Element>>) -> Result<Buf<Element>> {
    input.map_or_else(|| comm.alloc(0), Ok)
}

/// Runs the case and compares what it left with the reference.
pub(crate) fn check(comm: &Communicator, c: &Case) -> Result<()> {
    let (rank, p) = (comm.rank(), comm.size());
    let options = Options {
        algorithm: Some(c.algorithm.to_owned()),
        blocks: c.blocks,
        ..Options::default()
    };
    let comm = &comm.with(options);
    let x = parts(c, rank, p);
    let right = |out: &[Element], how: &str| {
        let wrong = (0..x.counting).find(|i| out[*i] != x.after[*i]);
        assert_eq!(wrong, None, "{how}, first wrong element at {rank} of {p}: {c:?}");
    };
    match (c.mode, c.operation) {
        (Mode::Slices, _) => {
            let mut out = x.before.clone();
            call(comm, c, &x, x.input.as_deref(), &mut out)?;
            right(&out, "slices");
        }
        (Mode::Arena, _) => {
            let input = x.input.as_ref().map(|i| buffer(comm, i)).transpose()?;
            let mut out = buffer(comm, &x.before)?;
            call(comm, c, &x, input.as_deref(), &mut out)?;
            right(&out, "arena");
        }
        (Mode::Request, Operation::Barrier) => {
            comm.ibarrier()?.wait()?;
        }
        (Mode::Persistent, Operation::Barrier) => {
            let mut barrier = comm.barrier_init()?;
            barrier.start()?;
            barrier.wait()?;
        }
        (Mode::Request, _) => {
            let input = x.input.as_ref().map(|i| buffer(comm, i)).transpose()?;
            let done = begin(comm, c, &x, input, buffer(comm, &x.before)?)?.wait()?;
            right(&done.recv, "request");
        }
        (Mode::Persistent, _) => {
            let input = x.input.as_ref().map(|i| buffer(comm, i)).transpose()?;
            let mut often = init(comm, c, &x, input, buffer(comm, &x.before)?)?;
            for how in ["first start", "second start"] {
                often.output()?.copy_from_slice(&x.before);
                often.start()?;
                often.wait()?;
                right(often.output()?, how);
            }
        }
    }
    Ok(())
}
