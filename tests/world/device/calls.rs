//! Every call that only moves bytes, on memory of a device alone: as a request, and as a persistent operation that runs twice.

use super::{Placed, block, blocks, wire};
use crate::ranks::run;
use circulant::comm::{AnyMemory, Buf, Cartesian, Layout, Local, Neighborhood, Persistent, Request, Root};
use circulant::transport::sim;
use circulant::{Communicator, Result};

type Bytes = Buf<u8, AnyMemory>;

/// What a call is given, and what is to be in its receive buffer afterwards.
struct Call<'a> {
    name: &'a str,
    /// `None`: in place.
    send: Option<&'a [u8]>,
    recv: &'a [u8],
    wanted: &'a [u8],
}

impl Call<'_> {
    /// Both forms; what is sent stays as it is.
    fn check(
        &self,
        comm: &Communicator,
        begin: impl FnOnce(Option<Bytes>, Bytes) -> Result<Request<u8, AnyMemory>>,
        init: impl FnOnce(Option<Bytes>, Bytes) -> Result<Persistent<u8, AnyMemory>>,
    ) -> Result<()> {
        let Self { name, send, recv, wanted } = *self;
        let place = |bytes| Placed::new(comm, bytes, true);
        let (mut from, mut to) = (send.map(place).transpose()?, place(recv)?);
        let unchanged = |from: &Option<Placed>| {
            assert_eq!(from.as_ref().map(|f| f.seen(send.unwrap().len())).as_deref(), send)
        };
        begin(from.as_mut().map(Placed::take), to.take())?.wait()?;
        assert_eq!(to.seen(wanted.len()), wanted, "{name}");
        unchanged(&from);

        let (mut from, mut to) = (send.map(place).transpose()?, place(recv)?);
        let (sent, received) = (from.as_mut().map(Placed::take), to.take());
        let mut operation = init(sent, received)?;
        for _ in 0..2 {
            to.fill(recv);
            operation.start()?;
            operation.wait()?;
            assert_eq!(to.seen(wanted.len()), wanted, "{name}, persistent");
            unchanged(&from);
        }
        operation.into_buffers().map(drop)
    }
}

/// `bytes` with `part` at `at`.
fn with(bytes: &[u8], at: usize, part: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + part.len()].copy_from_slice(part);
    bytes
}

/// Blocks of another length at each rank, a byte before each.
struct Uneven {
    counts: Vec<usize>,
    displs: Vec<usize>,
    /// A receive buffer: sevens, and with all blocks.
    empty: Vec<u8>,
    full: Vec<u8>,
}

impl Uneven {
    /// Rank r's block is the one for rank `to`, `n` bytes at most; the blocks stand `backwards` or in the order of ranks.
    fn new(p: usize, n: usize, to: usize, backwards: bool) -> Self {
        let counts: Vec<usize> = (0..p).map(|r| n * (r + 1) / p).collect();
        let (mut displs, mut at) = (vec![0; p], 0);
        let place = |r: usize| if backwards { p - 1 - r } else { r };
        for r in (0..p).map(place) {
            displs[r] = at + 1;
            at += counts[r] + 1;
        }
        let empty = vec![7; at];
        let all = |full: Vec<u8>, r: usize| with(&full, displs[r], &block(r, to, counts[r]));
        let full = (0..p).fold(empty.clone(), all);
        Self { counts, displs, empty, full }
    }

    fn parts(&self) -> (&[usize], &[usize]) {
        (&self.counts, &self.displs)
    }

    /// Rank r's own block, and the empty buffer with it.
    fn own(&self, r: usize, to: usize) -> (Vec<u8>, Vec<u8>) {
        let block = block(r, to, self.counts[r]);
        let kept = with(&self.empty, self.displs[r], &block);
        (block, kept)
    }
}

fn to_all(c: &Communicator, n: usize) -> Result<()> {
    let (me, p) = (c.rank(), c.size());
    let (mine, all) = (block(me, 0, n), blocks(p, |r| block(r, 0, n)));
    let zeros = vec![0; n * p];
    let call = Call {
        name: "bcast",
        send: None,
        recv: &if me == 1 % p { block(9, 0, n) } else { vec![0; n] },
        wanted: &block(9, 0, n),
    };
    call.check(c, |_, b| c.ibcast(b, 1 % p), |_, b| c.bcast_init(b, 1 % p))?;
    let call = Call { name: "allgather", send: Some(&mine), recv: &zeros, wanted: &all };
    call.check(c, |s, r| c.iallgather(s, r), |s, r| c.allgather_init(s, r))?;
    let kept = with(&zeros, me * n, &mine);
    let call = Call { name: "allgather in place", send: None, recv: &kept, wanted: &all };
    call.check(c, |s, r| c.iallgather(s, r), |s, r| c.allgather_init(s, r))?;
    let uneven = Uneven::new(p, n, 0, true);
    let (own, kept) = uneven.own(me, 0);
    let call = Call { name: "allgatherv", send: Some(&own), recv: &uneven.empty, wanted: &uneven.full };
    call.check(
        c,
        |s, r| c.iallgatherv(s, r, uneven.parts()),
        |s, r| c.allgatherv_init(s, r, uneven.parts()),
    )?;
    let call = Call { name: "allgatherv in place", send: None, recv: &kept, wanted: &uneven.full };
    call.check(
        c,
        |s, r| c.iallgatherv(s, r, uneven.parts()),
        |s, r| c.allgatherv_init(s, r, uneven.parts()),
    )?;
    // Each rank has them elsewhere: every second one backwards.
    let uneven = Uneven::new(p, n, 0, me % 2 == 1);
    let (own, kept) = uneven.own(me, 0);
    let local = Local { counts: &uneven.counts, displs: &uneven.displs };
    let call =
        Call { name: "allgatherv, own places", send: Some(&own), recv: &uneven.empty, wanted: &uneven.full };
    call.check(c, |s, r| c.iallgatherv(s, r, local), |s, r| c.allgatherv_init(s, r, local))?;
    let call =
        Call { name: "allgatherv, own places, in place", send: None, recv: &kept, wanted: &uneven.full };
    call.check(c, |s, r| c.iallgatherv(s, r, local), |s, r| c.allgatherv_init(s, r, local))
}

/// To a root, which is in place or not.
fn to_root(c: &Communicator, n: usize, in_place: bool) -> Result<()> {
    let (me, p) = (c.rank(), c.size());
    let root = p - 1;
    let (mine, all) = (block(me, 0, n), blocks(p, |r| block(r, 0, n)));
    let empty = vec![0; n * p];
    let (here, gone) = (me == root, in_place && me == root);
    let recv = if gone { with(&empty, me * n, &mine) } else { empty };
    // Elsewhere a buffer that takes no part.
    let of = |recv: &[u8]| if here { recv.to_vec() } else { vec![3; 5] };
    let (recv, wanted) = (of(&recv), of(&all));
    let call = Call { name: "gather", send: (!gone).then_some(&mine), recv: &recv, wanted: &wanted };
    call.check(c, |s, r| c.igather(s, r, root), |s, r| c.gather_init(s, r, root))?;
    let uneven = Uneven::new(p, n, 0, true);
    let (own, kept) = uneven.own(me, 0);
    let (recv, wanted) = (of(if gone { &kept } else { &uneven.empty }), of(&uneven.full));
    let parts = uneven.parts();
    let call = Call { name: "gatherv", send: (!gone).then_some(&own), recv: &recv, wanted: &wanted };
    call.check(c, |s, r| c.igatherv(s, r, parts, root), |s, r| c.gatherv_init(s, r, parts, root))?;
    let call = Call { name: "gatherv_rooted", ..call };
    call.check(
        c,
        |s, r| c.igatherv_rooted(s, r, parts, root),
        |s, r| c.gatherv_rooted_init(s, r, parts, root),
    )
}

/// From a root, which is in place or not.
fn from_root(c: &Communicator, n: usize, in_place: bool) -> Result<()> {
    let (me, p) = (c.rank(), c.size());
    let root = p - 1;
    let gone = in_place && me == root;
    let of = |send: Vec<u8>| if me == root { send } else { vec![3; 5] };
    let mine = block(me, 0, n);
    // In place the root's part stays where it is, and the receive buffer is none.
    let place = |bytes: usize| if gone { vec![0; 1] } else { vec![0; bytes] };
    let into = |r: Bytes| (!gone).then_some(r);
    let result = |part: &[u8]| if gone { vec![0; 1] } else { part.to_vec() };
    let call = Call {
        name: "scatter",
        send: Some(&of(blocks(p, |r| block(r, 0, n)))),
        recv: &place(n),
        wanted: &result(&mine),
    };
    call.check(
        c,
        |s, r| c.iscatter(s.unwrap(), into(r), root),
        |s, r| c.scatter_init(s.unwrap(), into(r), root),
    )?;
    let uneven = Uneven::new(p, n, 0, true);
    let (own, parts) = (uneven.own(me, 0).0, uneven.parts());
    let send = of(uneven.full.clone());
    let call = Call { name: "scatterv", send: Some(&send), recv: &place(own.len()), wanted: &result(&own) };
    call.check(
        c,
        |s, r| c.iscatterv(s.unwrap(), parts, into(r), root),
        |s, r| c.scatterv_init(s.unwrap(), parts, into(r), root),
    )?;
    let call = Call { name: "scatterv_rooted", ..call };
    call.check(
        c,
        |s, r| c.iscatterv_rooted(s.unwrap(), parts, into(r), root),
        |s, r| c.scatterv_rooted_init(s.unwrap(), parts, into(r), root),
    )
}

fn from_all_to_all(c: &Communicator, n: usize) -> Result<()> {
    let (me, p) = (c.rank(), c.size());
    let (sent, received) = (blocks(p, |to| block(me, to, n)), blocks(p, |from| block(from, me, n)));
    let zeros = vec![0; n * p];
    for send in [Some(&sent[..]), None] {
        let call = Call { name: "alltoall", send, recv: send.map_or(&sent, |_| &zeros), wanted: &received };
        call.check(c, |s, r| c.ialltoall(s, r), |s, r| c.alltoall_init(s, r))?;
        let even = (&vec![n; p], &(0..p).map(|r| r * n).collect::<Vec<_>>());
        let call = Call { name: "alltoallv", ..call };
        call.check(c, |s, r| c.ialltoallv(s, even, r, even), |s, r| c.alltoallv_init(s, even, r, even))?;
        // A piece for each peer: without a copy.
        let each: Vec<Layout> = (0..p).map(|r| Layout::new([(r * n, n)])).collect::<Result<_>>()?;
        let call = Call { name: "alltoallw", ..call };
        call.check(c, |s, r| c.ialltoallw(s, &each, r, &each), |s, r| c.alltoallw_init(s, &each, r, &each))?;
    }
    Ok(())
}

/// The bytes for a peer stand p bytes apart, and where they go, too: the columns of a matrix.
fn columns(c: &Communicator, n: usize) -> Result<()> {
    let (me, p) = (c.rank(), c.size());
    let column = |r: usize| Layout::strided(r, n, 1, p);
    let each: Vec<Layout> = (0..p).map(column).collect::<Result<_>>()?;
    let turned = |rows: &[u8]| -> Vec<u8> { (0..n * p).map(|i| rows[i % p * n + i / p]).collect() };
    let (sent, received) =
        (turned(&blocks(p, |to| block(me, to, n))), turned(&blocks(p, |from| block(from, me, n))));
    let zeros = vec![0; n * p];
    for send in [Some(&sent[..]), None] {
        let recv = send.map_or(&sent, |_| &zeros);
        let call = Call { name: "alltoallw of columns", send, recv, wanted: &received };
        call.check(c, |s, r| c.ialltoallw(s, &each, r, &each), |s, r| c.alltoallw_init(s, &each, r, &each))?;
    }
    Ok(())
}

/// A ring, in which two ranks have two edges.
fn along_edges(c: &Communicator, n: usize) -> Result<()> {
    let (me, p) = (c.rank(), c.size());
    let ring: Neighborhood = c.cartesian(&Cartesian::new(&[p], &[true])?)?;
    let [left, right] = [(me + p - 1) % p, (me + 1) % p];
    let mine = block(me, 0, n);
    let beside = [block(left, 0, n), block(right, 0, n)].concat();
    let zeros = vec![0; 2 * n];
    let call = Call { name: "neighbor_allgather", send: Some(&mine), recv: &zeros, wanted: &beside };
    call.check(
        c,
        |s, r| ring.ineighbor_allgather(s.unwrap(), r),
        |s, r| ring.neighbor_allgather_init(s.unwrap(), r),
    )?;
    let apart = (&[n, n], &[1, n + 3]);
    let empty = vec![7; 2 * n + 4];
    let wanted = with(&with(&empty, 1, &beside[..n]), n + 3, &beside[n..]);
    let call = Call { name: "neighbor_allgatherv", send: Some(&mine), recv: &empty, wanted: &wanted };
    call.check(
        c,
        |s, r| ring.ineighbor_allgatherv(s.unwrap(), r, apart),
        |s, r| ring.neighbor_allgatherv_init(s.unwrap(), r, apart),
    )?;
    // What goes left comes from the right.
    let (to, from) =
        ([block(me, 1, n), block(me, 2, n)].concat(), [block(left, 2, n), block(right, 1, n)].concat());
    let call = Call { name: "neighbor_alltoall", send: Some(&to), recv: &zeros, wanted: &from };
    call.check(
        c,
        |s, r| ring.ineighbor_alltoall(s.unwrap(), r),
        |s, r| ring.neighbor_alltoall_init(s.unwrap(), r),
    )?;
    let even = (&[n, n], &[0, n]);
    let call = Call { name: "neighbor_alltoallv", ..call };
    call.check(
        c,
        |s, r| ring.ineighbor_alltoallv(s, even, r, even),
        |s, r| ring.neighbor_alltoallv_init(s, even, r, even),
    )?;
    let inner = (&[n, n], &[n, 2 * n]);
    let outer = (&[n, n], &[0, 3 * n]);
    let field = [vec![0; n], to, vec![0; n]].concat();
    let wanted = with(&with(&field, 0, &from[..n]), 3 * n, &from[n..]);
    let call = Call { name: "neighbor_alltoallv in place", send: None, recv: &field, wanted: &wanted };
    call.check(
        c,
        |s, r| ring.ineighbor_alltoallv(s, inner, r, outer),
        |s, r| ring.neighbor_alltoallv_init(s, inner, r, outer),
    )
}

/// Between the first rank and all others.
fn between_groups(c: &Communicator, n: usize) -> Result<()> {
    if c.size() == 1 {
        return Ok(());
    }
    let (first, second) = (c.group().include(&[0])?, c.group().exclude(&[0])?);
    let inter = c.create_inter(&first, &second)?.unwrap();
    let (me, mine) = (c.rank(), block(c.rank(), 0, n));
    let theirs: Vec<usize> = if me == 0 { (1..c.size()).collect() } else { vec![0] };
    let wanted = theirs.iter().flat_map(|r| block(*r, 0, n)).collect::<Vec<_>>();
    let zeros = vec![0; wanted.len()];
    let call = Call { name: "inter_allgather", send: Some(&mine), recv: &zeros, wanted: &wanted };
    call.check(c, |s, r| inter.iallgather(s.unwrap(), r), |s, r| inter.allgather_init(s.unwrap(), r))?;
    let (ours, theirs) = (vec![n; inter.size()], vec![n; inter.remote_size()]);
    let call = Call { name: "inter_allgatherv", ..call };
    call.check(
        c,
        |s, r| inter.iallgatherv(s.unwrap(), &ours, r, &theirs),
        |s, r| inter.allgatherv_init(s.unwrap(), &ours, r, &theirs),
    )?;
    let root = if me == 0 { Root::Here(0) } else { Root::There(0) };
    let recv = if me == 0 { mine } else { vec![0; n] };
    let call = Call { name: "inter_bcast", send: None, recv: &recv, wanted: &block(0, 0, n) };
    call.check(c, |_, b| inter.ibcast(b, root), |_, b| inter.bcast_init(b, root))
}

#[test]
fn every_call_that_moves_bytes_does_it_between_devices() {
    for (gather, light) in [(1, "0"), (4, "4K")] {
        for p in [1, 2, 5] {
            let faults = sim::Faults { gather, reorder: true, delay: 3, refuse: 20, ..wire() };
            let results = run(p, &faults, &[("light", light), ("window", "20K")], |_, comm| {
                // eager; by its own ready message; in several puts
                for n in [1, 3000, 40_000] {
                    to_all(comm, n)?;
                    from_all_to_all(comm, n)?;
                    // Each byte is a copy by the device.
                    columns(comm, n.min(100))?;
                    along_edges(comm, n)?;
                    between_groups(comm, n)?;
                    for in_place in [false, true] {
                        to_root(comm, n, in_place)?;
                        from_root(comm, n, in_place)?;
                    }
                }
                Ok(())
            });
            results.into_iter().for_each(|result| result.unwrap());
        }
    }
}
