//! What one rank sends and receives in an operation, where its result stands and what it must be.

use super::dist::{DISTS, Dist};
use crate::agree::starts;
use crate::settings::Setting as Between;
use crate::units::rounds;
use circulant::comm::Layout;
use circulant::plan::registry::Arguments;
use std::ops::Range;

/// One rank's call of an operation, which is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankCall {
    pub(crate) p: usize,
    pub(crate) rank: usize,
    pub(crate) root: usize,
    pub(crate) bytes: u64,
    pub(crate) dist: Option<&'static Dist>,
    /// Between two groups.
    pub(crate) setting: Option<&'static Between>,
    /// Asked for; which ranks then are depends on the operation.
    pub(crate) in_place: bool,
    /// Bytes of an element; 1 where nothing is reduced.
    pub(crate) element: u64,
}

/// What one rank sends and receives, in elements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// Ranks of the first of two groups; 0: there is one.
    pub(crate) first: usize,
    /// The root is in our group.
    pub(crate) at_home: bool,
    pub(crate) root: usize,
    /// Elements of the send buffer; `None`: there is none, or in place.
    pub(crate) send: Option<usize>,
    /// Elements of the receive buffer; `None`: there is none, or in place.
    pub(crate) recv: Option<usize>,
    /// Where in the receive buffer the contribution stands from the start, if it does.
    pub(crate) own: Option<usize>,
    /// Elements of the contribution.
    pub(crate) given: usize,
    /// Elements of a rank's block, or of the vector.
    pub(crate) block: usize,
    pub(crate) counts: Vec<usize>,
    pub(crate) sent: Lists,
    pub(crate) received: Lists,
    /// What alltoallw is called with: the blocks sent, and those received.
    pub(crate) layouts: [Vec<Layout>; 2],
    pub(crate) result: Outcome,
    /// Bytes that the reference counts: C = β·volume + γ·folded + rounds·(L+o).
    pub(crate) volume: u64,
    /// Bytes that the reference reduces.
    pub(crate) folded: u64,
    pub(crate) rounds: u32,
}

/// A block for every rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    pub(crate) counts: Vec<usize>,
    pub(crate) displs: Vec<usize>,
}

impl Lists {
    pub(crate) fn new(counts: Vec<usize>) -> (Self, usize) {
        let (displs, total) = starts(&counts);
        (Self { counts, displs }, total)
    }

    pub(crate) fn parts(&self) -> (&[usize], &[usize]) {
        (&self.counts, &self.displs)
    }

    /// The same blocks, in bytes, as layouts of one piece.
    fn layouts(&self) -> Vec<Layout> {
        // Of memory that exists, so none is beyond what memory has.
        let layout = |(&at, &len)| Layout::new([(at, len)]).unwrap_or_default();
        self.displs.iter().zip(&self.counts).map(layout).collect()
    }
}

/// What the receive buffer must hold in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Parts of contributions.
    Pieces(Vec<Piece>),
    /// At its beginning, `len` elements of all contributions of `ranks` from element `from` on, combined. Of no
    /// ranks: what was there before.
    Fold { from: usize, len: usize, ranks: Range<usize> },
}

impl Default for Outcome {
    fn default() -> Self {
        Self::Pieces(Vec::new())
    }
}

/// Elements of the result that come from one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where in the receive buffer.
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) owner: usize,
    /// From which element of the owner's contribution on.
    pub(crate) from: usize,
}

/// Sizes are below 2^48 (refused otherwise) and this is a 64-bit program.
fn length(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

impl RankCall {
    /// Whole elements of a vector, at least one.
    fn vector(&self) -> usize {
        match self.bytes {
            0 => 0,
            bytes => length((bytes / self.element).max(1)),
        }
    }

    /// Whole 4-byte units of each rank, at least one; of a vector to be reduced, whole elements.
    fn block(&self) -> usize {
        let p = self.p as u64;
        length(match (self.bytes, self.element) {
            (0, _) => 0,
            (bytes, 1) if bytes % 4 == 0 => (bytes / 4 / p).max(1) * 4,
            (bytes, element) => (bytes / element / p).max(1),
        })
    }

    fn counts(&self) -> Vec<usize> {
        let dist = self.dist.unwrap_or(&DISTS[0]);
        let counts = match self.element {
            1 => dist.counts(self.bytes, self.p),
            _ => dist.shares(self.vector() as u64, self.p),
        };
        counts.into_iter().map(length).collect()
    }

    fn bytes_of(&self, elements: usize) -> u64 {
        elements as u64 * self.element
    }

    fn at_root(&self) -> bool {
        self.rank == self.root
    }
}

impl Shape {
    /// What algorithms are chosen by, for an operator that commutes.
    pub(crate) fn arguments(&self, call: &RankCall) -> Arguments {
        let lists = if self.received.counts.is_empty() { &self.sent } else { &self.received };
        let bytes = |list: &[usize]| list.iter().map(|n| call.bytes_of(*n)).collect::<Vec<_>>();
        Arguments {
            size: u32::try_from(call.p).unwrap_or(u32::MAX),
            first: u32::try_from(self.first).unwrap_or(u32::MAX),
            root: u32::try_from(call.root).unwrap_or(u32::MAX),
            bytes: call.bytes_of(self.block),
            counts: if self.counts.is_empty() { bytes(&lists.counts) } else { bytes(&self.counts) },
            displs: bytes(&lists.displs),
            in_place: call.in_place,
            element: call.element,
            commutative: true,
            ..Arguments::default()
        }
    }
}

pub(crate) fn barrier(call: &RankCall) -> Shape {
    Shape { rounds: rounds(call.p), ..Shape::default() }
}

/// One put, or one there and one back.
pub(crate) fn puts<const N: u32>(call: &RankCall) -> Shape {
    Shape { volume: call.bytes * u64::from(N), rounds: N, ..Shape::default() }
}

/// Puts in a window of `rate`: the default of osu_mbw_mr.
pub(crate) const WINDOW_PUTS: u32 = 64;

/// A window of puts and its answer.
pub(crate) fn window(call: &RankCall) -> Shape {
    Shape { volume: call.bytes * u64::from(WINDOW_PUTS), rounds: 2, ..Shape::default() }
}

pub(crate) fn bcast(call: &RankCall) -> Shape {
    let len = length(call.bytes);
    Shape {
        root: call.root,
        recv: Some(len),
        own: call.at_root().then_some(0),
        given: len,
        block: len,
        result: Outcome::Pieces(vec![Piece { start: 0, len, owner: call.root, from: 0 }]),
        volume: call.bytes,
        rounds: rounds(call.p),
        ..Shape::default()
    }
}

pub(crate) fn allgather(call: &RankCall) -> Shape {
    gathered(call, vec![call.block(); call.p], None)
}

pub(crate) fn allgatherv(call: &RankCall) -> Shape {
    gathered(call, call.counts(), None)
}

pub(crate) fn gather(call: &RankCall) -> Shape {
    gathered(call, vec![call.block(); call.p], Some(call.root))
}

pub(crate) fn gatherv(call: &RankCall) -> Shape {
    gathered(call, call.counts(), Some(call.root))
}

fn gathered(call: &RankCall, counts: Vec<usize>, root: Option<usize>) -> Shape {
    let (received, total) = Lists::new(counts);
    let mine = received.counts[call.rank];
    let gets = root.is_none_or(|root| root == call.rank);
    let in_place = call.in_place && gets;
    let pieces = received.counts.iter().zip(&received.displs).enumerate();
    let pieces = pieces.map(|(owner, (&len, &start))| Piece { start, len, owner, from: 0 });
    // The rank that gets most has least to give; a root is given.
    let least = root.map(|root| received.counts[root]).or(received.counts.iter().min().copied());
    Shape {
        root: call.root,
        send: (!in_place).then_some(mine),
        recv: Some(if gets { total } else { 0 }),
        own: in_place.then(|| received.displs[call.rank]),
        given: mine,
        block: mine,
        result: Outcome::Pieces(if gets { pieces.collect() } else { Vec::new() }),
        volume: (total - least.unwrap_or(0)) as u64,
        rounds: rounds(call.p),
        received,
        ..Shape::default()
    }
}

pub(crate) fn scatter(call: &RankCall) -> Shape {
    scattered(call, vec![call.block(); call.p])
}

pub(crate) fn scatterv(call: &RankCall) -> Shape {
    scattered(call, call.counts())
}

fn scattered(call: &RankCall, counts: Vec<usize>) -> Shape {
    let (sent, total) = Lists::new(counts);
    let len = sent.counts[call.rank];
    let in_place = call.in_place && call.at_root();
    let piece = Piece { start: 0, len, owner: call.root, from: sent.displs[call.rank] };
    let given = if call.at_root() { total } else { 0 };
    Shape {
        root: call.root,
        send: Some(given),
        recv: (!in_place).then_some(len),
        given,
        block: len,
        result: Outcome::Pieces(if in_place { Vec::new() } else { vec![piece] }),
        volume: (total - sent.counts[call.root]) as u64,
        rounds: rounds(call.p),
        sent,
        ..Shape::default()
    }
}

pub(crate) fn alltoall(call: &RankCall) -> Shape {
    let len = call.block();
    let total = len * call.p;
    let pieces = (0..call.p).map(|r| Piece { start: r * len, len, owner: r, from: call.rank * len });
    Shape {
        send: (!call.in_place).then_some(total),
        recv: Some(total),
        own: call.in_place.then_some(0),
        given: total,
        block: len,
        result: Outcome::Pieces(pieces.collect()),
        volume: (total - len) as u64,
        rounds: rounds(call.p),
        ..Shape::default()
    }
}

/// Rank r's distribution begins with itself. In place what a pair exchanges must be equally long: r and s send
/// each other share r + s.
pub(crate) fn alltoallv(call: &RankCall) -> Shape {
    let (p, shares) = (call.p, call.counts());
    let share = |from: usize, to: usize| match call.in_place {
        false => shares[(to + p - from) % p],
        true => shares[(to + from) % p],
    };
    let (sent, total) = Lists::new((0..p).map(|to| share(call.rank, to)).collect());
    let (received, _) = Lists::new((0..p).map(|from| share(from, call.rank)).collect());
    let piece = |owner: usize| Piece {
        start: received.displs[owner],
        len: received.counts[owner],
        owner,
        from: (0..call.rank).map(|to| share(owner, to)).sum(),
    };
    Shape {
        send: (!call.in_place).then_some(total),
        recv: Some(total),
        own: call.in_place.then_some(0),
        given: total,
        result: Outcome::Pieces((0..p).map(piece).collect()),
        volume: (total - sent.counts[call.rank]) as u64,
        rounds: rounds(p),
        sent,
        received,
        ..Shape::default()
    }
}

/// The blocks of [`alltoallv`], as layouts.
pub(crate) fn alltoallw(call: &RankCall) -> Shape {
    let shape = alltoallv(call);
    Shape { layouts: [shape.sent.layouts(), shape.received.layouts()], ..shape }
}

/// The bytes that some rank must at least reduce when `folds` vectors of this many bytes are folded by all ranks.
fn fair(call: &RankCall, bytes: u64, folds: usize) -> u64 {
    u64::try_from(u128::from(bytes) * folds as u128 / call.p as u128).unwrap_or(u64::MAX)
}

/// A vector at every rank, and the combination of those of `ranks`.
fn folded(call: &RankCall, ranks: Range<usize>) -> Shape {
    let len = call.vector();
    let bytes = call.bytes_of(len);
    Shape {
        send: (!call.in_place).then_some(len),
        recv: Some(len),
        own: call.in_place.then_some(0),
        given: len,
        block: len,
        result: Outcome::Fold { from: 0, len, ranks },
        volume: bytes,
        folded: fair(call, bytes, call.p - 1),
        rounds: rounds(call.p),
        ..Shape::default()
    }
}

pub(crate) fn allreduce(call: &RankCall) -> Shape {
    let all = folded(call, 0..call.p);
    Shape { volume: 2 * all.folded, ..all }
}

pub(crate) fn scan(call: &RankCall) -> Shape {
    folded(call, 0..call.rank + 1)
}

pub(crate) fn exscan(call: &RankCall) -> Shape {
    let all = folded(call, 0..call.rank);
    Shape { folded: fair(call, all.volume, call.p.saturating_sub(2)), ..all }
}

pub(crate) fn reduce(call: &RankCall) -> Shape {
    let at_root = RankCall { in_place: call.in_place && call.at_root(), ..*call };
    let all = folded(&at_root, 0..call.p);
    let shape = Shape { root: call.root, ..all };
    match call.at_root() {
        true => shape,
        false => Shape { recv: Some(0), result: Outcome::default(), ..shape },
    }
}

pub(crate) fn reduce_scatter_block(call: &RankCall) -> Shape {
    let block = call.block();
    Shape { block, counts: Vec::new(), ..shared(call, vec![block; call.p]) }
}

pub(crate) fn reduce_scatter(call: &RankCall) -> Shape {
    shared(call, call.counts())
}

fn shared(call: &RankCall, counts: Vec<usize>) -> Shape {
    let (displs, total) = starts(&counts);
    let len = counts[call.rank];
    let most = call.bytes_of(total - counts.iter().min().copied().unwrap_or(0));
    Shape {
        send: (!call.in_place).then_some(total),
        recv: Some(if call.in_place { total } else { len }),
        own: call.in_place.then_some(0),
        given: total,
        result: Outcome::Fold { from: displs[call.rank], len, ranks: 0..call.p },
        volume: most,
        folded: fair(call, call.bytes_of(total), call.p - 1),
        rounds: rounds(call.p),
        counts,
        ..Shape::default()
    }
}
