//! One call of a collective, and what it shall leave: a sequential reference.

use super::element::{Element, Fill, fold, order_shows, raw};
use super::mix;
use circulant::ops::{self, Op, Reducer, Type};
use circulant::plan::registry::Operation;

/// How a collective is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On slices of ours.
    Slices,
    /// On buffers of the arena.
    Arena,
    /// By a request on slices of ours, in a scope.
    Scoped,
    /// By a request that is waited for.
    Request,
    /// By a request that is tested until it has finished.
    Polled,
    /// By a persistent operation, started twice.
    Persistent,
    /// By a request on memory for which we vouch.
    Unscoped,
    /// By a persistent operation on memory for which we vouch, started twice.
    UnscopedPersistent,
}

/// What is moved or reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    BuiltIn(Type, Op),
    /// A user's struct and operator, commutative or not.
    Affine(bool),
    /// Three bytes; not commutative.
    Odd,
    /// Bytes, of which an operator that knows no type takes 12; not commutative.
    Raw,
}

impl Data {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let built_in = ops::pairs().map(|(kind, op)| Self::BuiltIn(kind, op));
        built_in.chain([Self::Affine(true), Self::Affine(false), Self::Odd, Self::Raw]).collect()
    }

    pub fn commutative(self) -> bool {
        matches!(self, Self::BuiltIn(..) | Self::Affine(true))
    }

    pub fn size(self) -> usize {
        match self {
            Self::BuiltIn(kind, _) => kind.size(),
            Self::Affine(_) => 16,
            Self::Odd => 3,
            Self::Raw => 12,
        }
    }

    /// As how many elements of a slice one element counts.
    pub fn unit(self) -> usize {
        if self == Self::Raw { self.size() } else { 1 }
    }

    /// The type, of built-in ones.
    pub fn kind(self) -> Option<Type> {
        match self {
            Self::BuiltIn(kind, _) => Some(kind),
            _ => None,
        }
    }

    pub fn op(self) -> Op {
        match self {
            Self::BuiltIn(_, op) => op,
            _ => Op::Sum,
        }
    }
}

/// One call, the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub operation: Operation,
    /// None: whatever is selected.
    pub algorithm: Option<&'static str>,
    pub data: Data,
    pub fill: Fill,
    pub mode: Mode,
    pub in_place: bool,
    pub root: usize,
    /// Of a rank's slice, a multiple of the data's unit; irregular operations make different counts of it.
    pub len: usize,
    pub blocks: Option<u32>,
    pub seed: u64,
}

impl Case {
    /// Element i that `from` contributes (for `to`, where that matters).
    fn value<T: Element>(&self, from: usize, to: usize, i: usize) -> T {
        let x = mix(self.seed ^ mix((from as u64) << 40 ^ (to as u64) << 20 ^ i as u64));
        T::make(self.fill, self.data.op(), from, x)
    }

    fn values<T: Element>(&self, from: usize, to: usize, n: usize) -> Vec<T> {
        self.range(from, to, 0..n)
    }

    fn range<T: Element>(&self, from: usize, to: usize, range: std::ops::Range<usize>) -> Vec<T> {
        range.map(|i| self.value(from, to, i)).collect()
    }

    fn count(&self, rank: usize) -> usize {
        match mix(self.seed ^ rank as u64) % 4 {
            _ if self.len == 0 => 0,
            0 => 0,
            1 => self.len * 3,
            _ => (self.len / self.data.unit() / 2 + rank % 3) * self.data.unit(),
        }
    }

    /// Elements from one rank to another in an alltoallv; in place as many as back.
    fn sent(&self, from: usize, to: usize) -> usize {
        let (a, b) = if self.in_place { (from.min(to), from.max(to)) } else { (from, to) };
        self.count(a * 31 + b)
    }

    pub fn reducer<T: Element>(&self) -> Reducer {
        match T::KIND {
            _ if self.data == Data::Raw => raw(),
            Some(kind) => ops::reducer(kind, self.data.op()).unwrap(),
            None => T::user(self.data.commutative()),
        }
    }

    /// The reducer as calls take it.
    pub fn by<T: Element>(&self) -> T::By {
        T::by(self.reducer::<T>())
    }

    /// Whether its buffers are the operation's.
    pub fn owned(&self) -> bool {
        matches!(self.mode, Mode::Request | Mode::Polled | Mode::Persistent)
    }

    /// Whether this rank's call is in place.
    pub fn in_place_at(&self, rank: usize) -> bool {
        use Operation as O;
        self.in_place
            && match self.operation {
                O::Gather | O::Gatherv | O::Reduce | O::Scatter | O::Scatterv => rank == self.root,
                O::Bcast | O::Barrier => false,
                // Each rank as it likes.
                O::Scan | O::Exscan | O::ReduceScatter | O::ReduceScatterBlock => {
                    !mix(self.seed ^ mix(rank as u64)).is_multiple_of(3)
                }
                _ => true,
            }
    }
}

/// What a rank passes and what it shall find.
#[derive(Clone, Debug)]
pub struct Parts<T> {
    /// None in place (not so for a scatter, whose output is in place).
    pub input: Option<Vec<T>>,
    pub before: Vec<T>,
    pub after: Vec<T>,
    /// The operands of `after`, when it may differ from it by rounding.
    pub operands: Option<Vec<Vec<T>>>,
    pub counts: [Vec<usize>; 2],
    pub displs: [Vec<usize>; 2],
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

impl<T: Element> Parts<T> {
    pub fn of(c: &Case, rank: usize, p: usize) -> Self {
        match c.operation {
            operation if operation.reduces() => Self::reduced(c, rank, p),
            Operation::Alltoall | Operation::Alltoallv => Self::exchanged(c, rank, p),
            Operation::Scatter | Operation::Scatterv => Self::scattered(c, rank, p),
            Operation::Allgather | Operation::Gather | Operation::Allgatherv | Operation::Gatherv => {
                Self::gathered(c, rank, p)
            }
            Operation::Bcast => {
                let after = c.values(c.root, 0, c.len);
                let before = if rank == c.root { after.clone() } else { vec![Self::old(); c.len] };
                Self::plain(Vec::new(), before, after)
            }
            Operation::Barrier => Self::plain(Vec::new(), Vec::new(), Vec::new()),
            other => unreachable!("{other}"),
        }
    }

    /// What stands where nothing was written.
    fn old() -> T {
        let bytes = vec![0x4d; size_of::<T>()];
        bytemuck::pod_read_unaligned(&bytes)
    }

    fn plain(input: Vec<T>, before: Vec<T>, after: Vec<T>) -> Self {
        let none = [Vec::new(), Vec::new()];
        Self { input: Some(input), before, after, operands: None, counts: none.clone(), displs: none }
    }

    /// Several blocks, each at its place; what is between is `old`.
    fn laid(counts: &[usize], displs: &[usize], end: usize, block: impl Fn(usize) -> Vec<T>) -> Vec<T> {
        let mut all = vec![Self::old(); end];
        for r in 0..counts.len() {
            all[displs[r]..][..counts[r]].copy_from_slice(&block(r));
        }
        all
    }

    fn gathered(c: &Case, rank: usize, p: usize) -> Self {
        let regular = matches!(c.operation, Operation::Allgather | Operation::Gather);
        let to_all = matches!(c.operation, Operation::Allgather | Operation::Allgatherv);
        let counts: Vec<usize> = (0..p).map(|r| if regular { c.len } else { c.count(r) }).collect();
        let (displs, end) = match regular {
            true => ((0..p).map(|r| r * c.len).collect(), p * c.len),
            false => spread(&counts),
        };
        let input: Vec<T> = c.values(rank, 0, counts[rank]);
        let here = to_all || rank == c.root;
        let end = if here { end } else { 0 };
        let mut before = vec![Self::old(); end];
        let mut after = Vec::new();
        if here {
            after = Self::laid(&counts, &displs, end, |r| c.values(r, 0, counts[r]));
        }
        let in_place = c.in_place_at(rank);
        if in_place {
            before[displs[rank]..][..input.len()].copy_from_slice(&input);
        }
        let plain = Self::plain(input, before, after);
        let lists = ([Vec::new(), counts], [Vec::new(), displs]);
        Self { input: plain.input.filter(|_| !in_place), counts: lists.0, displs: lists.1, ..plain }
    }

    fn scattered(c: &Case, rank: usize, p: usize) -> Self {
        let regular = c.operation == Operation::Scatter;
        let counts: Vec<usize> = (0..p).map(|r| if regular { c.len } else { c.count(r) }).collect();
        let (displs, end) = match regular {
            true => ((0..p).map(|r| r * c.len).collect(), p * c.len),
            false => spread(&counts),
        };
        let input = match rank == c.root {
            true => Self::laid(&counts, &displs, end, |r| c.values(0, r, counts[r])),
            false => Vec::new(),
        };
        let after = if c.in_place_at(rank) { Vec::new() } else { c.values(0, rank, counts[rank]) };
        let plain = Self::plain(input, vec![Self::old(); after.len()], after);
        Self { counts: [counts, Vec::new()], displs: [displs, Vec::new()], ..plain }
    }

    fn exchanged(c: &Case, rank: usize, p: usize) -> Self {
        let regular = c.operation == Operation::Alltoall;
        let count = |from, to| if regular { c.len } else { c.sent(from, to) };
        let counts =
            [(0..p).map(|r| count(rank, r)).collect(), (0..p).map(|r| count(r, rank)).collect::<Vec<_>>()];
        let places = |counts: &[usize]| match regular {
            true => ((0..p).map(|r| r * c.len).collect(), p * c.len),
            false => spread(counts),
        };
        let ((sdispls, sent), (rdispls, received)) = (places(&counts[0]), places(&counts[1]));
        let input = Self::laid(&counts[0], &sdispls, sent, |r| c.values(rank, r, counts[0][r]));
        let after = Self::laid(&counts[1], &rdispls, received, |r| c.values(r, rank, counts[1][r]));
        let in_place = c.in_place_at(rank);
        let before = if in_place { input.clone() } else { vec![Self::old(); received] };
        let plain = Self::plain(input, before, after);
        Self { input: plain.input.filter(|_| !in_place), counts, displs: [sdispls, rdispls], ..plain }
    }

    fn reduced(c: &Case, rank: usize, p: usize) -> Self {
        use Operation as O;
        let ranks = match c.operation {
            O::Scan => 0..rank + 1,
            O::Exscan => 0..rank,
            _ => 0..p,
        };
        let counts: Vec<usize> = match c.operation {
            O::ReduceScatter => (0..p).map(|r| c.count(r)).collect(),
            O::ReduceScatterBlock => vec![c.len; p],
            _ => vec![c.len],
        };
        let total = counts.iter().sum();
        let cut = match c.operation {
            O::ReduceScatter | O::ReduceScatterBlock => {
                let at = counts[..rank].iter().sum();
                at..at + counts[rank]
            }
            _ => 0..c.len,
        };
        let input: Vec<T> = c.values(rank, 0, total);
        let operands: Vec<Vec<T>> = ranks.map(|r| c.range(r, 0, cut.clone())).collect();
        let in_place = c.in_place_at(rank);
        let here = c.operation != O::Reduce || rank == c.root;
        let room = if here { cut.len() } else { 0 };
        let before = if in_place { input.clone() } else { vec![Self::old(); room] };
        let after = match (here, operands.is_empty()) {
            (false, _) => Vec::new(),
            // Rank 0 of an exscan gets nothing.
            (true, true) => before.clone(),
            (true, false) => fold(&c.reducer::<T>(), &operands),
        };
        let shows = !operands.is_empty() && order_shows::<T>(c.fill, c.data.op());
        let plain = Self::plain(input, before, after);
        Self {
            input: plain.input.filter(|_| !in_place),
            operands: shows.then_some(operands),
            counts: [counts, Vec::new()],
            ..plain
        }
    }

    /// The first element of `found` that is wrong.
    pub fn wrong(&self, found: &[T], op: Op) -> Option<usize> {
        // In place a reduce_scatter leaves more behind than counts.
        assert!(found.len() >= self.after.len());
        let same = |i: usize| bytemuck::bytes_of(&found[i]) == bytemuck::bytes_of(&self.after[i]);
        let near = |i: usize| {
            let of = |all: &Vec<Vec<T>>| all.iter().map(|v| v[i]).collect::<Vec<_>>();
            self.operands.as_ref().is_some_and(|all| found[i].near(&of(all), op))
        };
        (0..self.after.len()).find(|i| !same(*i) && !near(*i))
    }
}
