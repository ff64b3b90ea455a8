//! Every operation as a call whose result is known, of lengths that are given.

use circulant::ops::{self, IntoReducer, Reducer};
use circulant::{Communicator, InPlace, Result};

/// Element `i` of what `rank` gives in call `call`.
fn value(call: usize, rank: usize, i: usize) -> u64 {
    ((call * 31 + rank) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(i as u64)
}

pub(crate) fn given(call: usize, rank: usize, len: usize) -> Vec<u64> {
    (0..len).map(|i| value(call, rank, i)).collect()
}

fn then(f: [u32; 2], g: [u32; 2]) -> [u32; 2] {
    [f[0].wrapping_mul(g[0]), f[1].wrapping_mul(g[0]).wrapping_add(g[1])]
}

/// x ↦ a·x + b, composed: any change of the order shows.
fn compose() -> Reducer {
    Reducer::new::<[u32; 2], _>(ops::user("compose", false, then))
}

fn affine(call: usize, rank: usize, len: usize) -> Vec<[u32; 2]> {
    (0..len).map(|i| value(call, rank, i)).map(|v| [v as u32 | 1, (v >> 32) as u32]).collect()
}

/// The composition over these ranks; none without a rank.
fn composed(call: usize, ranks: std::ops::Range<usize>, len: usize) -> Vec<[u32; 2]> {
    let all = ranks.map(|rank| affine(call, rank, len));
    let joined = all.reduce(|all, one| all.iter().zip(one).map(|(f, g)| then(*f, g)).collect());
    joined.unwrap_or_default()
}

/// What a rank is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The number of the call.
    pub(crate) call: usize,
    /// Elements of 8 bytes of each rank, or of all.
    pub(crate) len: usize,
    pub(crate) root: usize,
    pub(crate) in_place: bool,
}

pub(crate) type Operation = fn(&Communicator, Case) -> Result<()>;

/// All of them.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("barrier", |comm, _| comm.barrier()),
    ("bcast", bcast),
    ("gather", gather),
    ("gatherv", gatherv),
    ("gatherv_rooted", gatherv_rooted),
    ("scatter", scatter),
    ("scatterv", scatterv),
    ("scatterv_rooted", scatterv_rooted),
    ("allgather", allgather),
    ("allgatherv", allgatherv),
    ("alltoall", alltoall),
    ("alltoallv", alltoallv),
    ("reduce", reduce),
    ("allreduce", allreduce),
    ("reduce_scatter", reduce_scatter),
    ("reduce_scatter_block", reduce_scatter_block),
    ("scan", scan),
    ("exscan", exscan),
    ("scan, exact", |comm, case| scan_exact(comm, case, true)),
    ("exscan, exact", |comm, case| scan_exact(comm, case, false)),
];

fn bcast(comm: &Communicator, Case { call, len, root, .. }: Case) -> Result<()> {
    let mut data = if comm.rank() == root { given(call, root, len) } else { vec![7; len] };
    comm.bcast(&mut data, root)?;
    assert!(data == given(call, root, len));
    Ok(())
}

/// Counts and displacements, with a gap of one element behind each block.
fn ragged(p: usize, len: usize) -> (Vec<usize>, Vec<usize>) {
    let counts: Vec<usize> = (0..p).map(|j| (len + j) % (len + 3)).collect();
    let displs = (0..p).map(|j| counts[..j].iter().sum::<usize>() + j).collect();
    (counts, displs)
}

/// Room for these blocks, that of `kept` with what it gives.
fn room((counts, displs): (&[usize], &[usize]), kept: Option<(usize, Vec<u64>)>) -> Vec<u64> {
    let mut all = vec![5; counts.iter().sum::<usize>() + counts.len()];
    if let Some((rank, block)) = kept {
        all[displs[rank]..][..counts[rank]].copy_from_slice(&block);
    }
    all
}

/// All blocks are those that `block` says, and the gaps are as they were.
fn check((counts, displs): (&[usize], &[usize]), all: &[u64], block: impl Fn(usize) -> Vec<u64>) {
    for (rank, (count, displ)) in counts.iter().zip(displs).enumerate() {
        assert!(all[*displ..][..*count] == block(rank), "the block of {rank}");
        assert!(all[displ + count] == 5, "the gap behind the block of {rank}");
    }
}

fn gather(comm: &Communicator, Case { call, len, root, in_place }: Case) -> Result<()> {
    let (p, r) = (comm.size(), comm.rank());
    let mut all = vec![7; if r == root { p * len } else { 0 }];
    match in_place && r == root {
        true => {
            all[r * len..][..len].copy_from_slice(&given(call, r, len));
            comm.gather(InPlace, &mut all, root)?;
        }
        false => comm.gather(&given(call, r, len), &mut all, root)?,
    }
    assert!(r != root || (0..p).all(|j| all[j * len..][..len] == given(call, j, len)));
    Ok(())
}

fn gathered(comm: &Communicator, case: Case, rooted: bool) -> Result<()> {
    let Case { call, len, root, in_place } = case;
    let (p, r) = (comm.size(), comm.rank());
    let (counts, displs) = ragged(p, len);
    let mine = given(call, r, counts[r]);
    let kept = in_place && r == root;
    let mut all = room((&counts, &displs), kept.then(|| (r, mine.clone())));
    let all_of_none = &mut [][..];
    match (rooted, r == root, kept) {
        (false, _, true) => comm.gatherv(InPlace, &mut all, (&counts, &displs), root)?,
        (false, true, false) => comm.gatherv(&mine, &mut all, (&counts, &displs), root)?,
        (false, ..) => comm.gatherv(&mine, all_of_none, (&counts, &displs), root)?,
        (true, _, true) => comm.gatherv_rooted(InPlace, &mut all, (&counts, &displs), root)?,
        (true, true, false) => comm.gatherv_rooted(&mine, &mut all, (&counts, &displs), root)?,
        (true, ..) => comm.gatherv_rooted(&mine, all_of_none, &[], root)?,
    }
    if r == root {
        check((&counts, &displs), &all, |j| given(call, j, counts[j]));
    }
    Ok(())
}

fn gatherv(comm: &Communicator, case: Case) -> Result<()> {
    gathered(comm, case, false)
}

fn gatherv_rooted(comm: &Communicator, case: Case) -> Result<()> {
    gathered(comm, case, true)
}

fn scatter(comm: &Communicator, Case { call, len, root, in_place }: Case) -> Result<()> {
    let (p, r) = (comm.size(), comm.rank());
    let all = given(call, root, if r == root { p * len } else { 0 });
    let mut mine = vec![7; len];
    if in_place && r == root {
        return comm.scatter(&all, InPlace, root);
    }
    comm.scatter(&all, &mut mine, root)?;
    assert!((0..len).all(|i| mine[i] == value(call, root, r * len + i)));
    Ok(())
}

fn scattered(comm: &Communicator, case: Case, rooted: bool) -> Result<()> {
    let Case { call, len, root, in_place } = case;
    let (p, r) = (comm.size(), comm.rank());
    let (counts, displs) = ragged(p, len);
    let all = given(call, root, if r == root { counts.iter().sum::<usize>() + p } else { 0 });
    let mut mine = vec![7; counts[r]];
    match (rooted, r == root, in_place && r == root) {
        (false, _, true) => comm.scatterv(&all, (&counts, &displs), InPlace, root)?,
        (true, _, true) => comm.scatterv_rooted(&all, (&counts, &displs), InPlace, root)?,
        (false, ..) => comm.scatterv(&all, (&counts, &displs), &mut mine, root)?,
        (true, true, _) => comm.scatterv_rooted(&all, (&counts, &displs), &mut mine, root)?,
        (true, ..) => comm.scatterv_rooted(&[], &[], &mut mine, root)?,
    }
    let expected = |i| if in_place && r == root { 7 } else { value(call, root, displs[r] + i) };
    assert!((0..counts[r]).all(|i| mine[i] == expected(i)));
    Ok(())
}

fn scatterv(comm: &Communicator, case: Case) -> Result<()> {
    scattered(comm, case, false)
}

fn scatterv_rooted(comm: &Communicator, case: Case) -> Result<()> {
    scattered(comm, case, true)
}

fn allgather(comm: &Communicator, Case { call, len, in_place, .. }: Case) -> Result<()> {
    let (p, r) = (comm.size(), comm.rank());
    let mut all = vec![0; p * len];
    all[r * len..][..len].copy_from_slice(&given(call, r, len));
    match in_place {
        true => comm.allgather(InPlace, &mut all)?,
        false => comm.allgather(&given(call, r, len), &mut all)?,
    }
    assert!((0..p).all(|j| all[j * len..][..len] == given(call, j, len)));
    Ok(())
}

fn allgatherv(comm: &Communicator, Case { call, len, in_place, .. }: Case) -> Result<()> {
    let (p, r) = (comm.size(), comm.rank());
    let (counts, displs) = ragged(p, len);
    let mine = given(call, r, counts[r]);
    let mut all = room((&counts, &displs), in_place.then(|| (r, mine.clone())));
    match in_place {
        true => comm.allgatherv(InPlace, &mut all, (&counts, &displs))?,
        false => comm.allgatherv(&mine, &mut all, (&counts, &displs))?,
    }
    check((&counts, &displs), &all, |j| given(call, j, counts[j]));
    Ok(())
}

/// Of all ranks together `len` elements, rounded down.
fn alltoall(comm: &Communicator, Case { call, len, root, in_place }: Case) -> Result<()> {
    let (p, r) = (comm.size(), comm.rank());
    let len = len / p;
    let mine = given(call, r, p * len);
    let mut recv = mine.clone();
    // Each as it likes.
    match in_place && r == root {
        true => comm.alltoall(InPlace, &mut recv)?,
        false => comm.alltoall(&mine, &mut recv)?,
    }
    assert!((0..p * len).all(|i| recv[i] == value(call, i / len, r * len + i % len)));
    Ok(())
}

/// Elements that a rank sends to another: nothing to some, and of some ranks more than a post has room for.
fn sent(case: Case, p: usize, from: usize, to: usize) -> usize {
    let Case { call, len, root, .. } = case;
    let long = if from == root && call.is_multiple_of(3) { 2500 } else { 0 };
    match (from * 3 + to + call) % 4 {
        0 => 0,
        n => len / p + n + long,
    }
}

fn alltoallv(comm: &Communicator, case: Case) -> Result<()> {
    let Case { call, in_place, .. } = case;
    let (p, r) = (comm.size(), comm.rank());
    // In place as many come as go.
    let in_place = in_place && call.is_multiple_of(2);
    let count = |from: usize, to: usize| {
        if in_place { sent(case, p, from.min(to), from.max(to)) } else { sent(case, p, from, to) }
    };
    let displs =
        |counts: &[usize]| -> Vec<usize> { (0..p).map(|j| counts[..j].iter().sum::<usize>() + j).collect() };
    let element = |from: usize, to: usize, i: usize| value(call, from * p + to, i);
    let out: Vec<usize> = (0..p).map(|j| count(r, j)).collect();
    let into: Vec<usize> = (0..p).map(|j| count(j, r)).collect();
    let (out_at, into_at) = (displs(&out), displs(&into));
    let mut mine = vec![5; out.iter().sum::<usize>() + p];
    for to in 0..p {
        (0..out[to]).for_each(|i| mine[out_at[to] + i] = element(r, to, i));
    }
    let mut recv = vec![5; into.iter().sum::<usize>() + p];
    if in_place {
        recv.copy_from_slice(&mine);
        comm.alltoallv(InPlace, &[], &mut recv, (&into, &into_at))?;
    } else {
        comm.alltoallv(&mine, (&out, &out_at), &mut recv, (&into, &into_at))?;
    }
    check((&into, &into_at), &recv, |from| (0..into[from]).map(|i| element(from, r, i)).collect());
    Ok(())
}

fn reduce(comm: &Communicator, Case { call, len, root, in_place }: Case) -> Result<()> {
    let (p, r) = (comm.size(), comm.rank());
    let mut out = if in_place { affine(call, r, len) } else { vec![[0; 2]; len] };
    match in_place && r == root {
        true => comm.reduce(InPlace, &mut out, compose(), root)?,
        false => comm.reduce(&affine(call, r, len), &mut out, compose(), root)?,
    }
    assert!(r != root || out == composed(call, 0..p, len));
    Ok(())
}

fn allreduce(comm: &Communicator, Case { call, len, in_place, .. }: Case) -> Result<()> {
    let mut out = if in_place { affine(call, comm.rank(), len) } else { vec![[0; 2]; len] };
    match in_place {
        true => comm.allreduce(InPlace, &mut out, compose())?,
        false => comm.allreduce(&affine(call, comm.rank(), len), &mut out, compose())?,
    }
    assert!(out == composed(call, 0..comm.size(), len));
    Ok(())
}

fn reduce_scatter(comm: &Communicator, Case { call, len, root, in_place }: Case) -> Result<()> {
    let (p, r) = (comm.size(), comm.rank());
    // The root's part takes what is left.
    let counts: Vec<usize> =
        (0..p).map(|j| if j == root { len - len / p / 2 * (p - 1) } else { len / p / 2 }).collect();
    let at: usize = counts[..r].iter().sum();
    let mine = affine(call, r, len);
    let mut out = if in_place { mine.clone() } else { vec![[0; 2]; counts[r]] };
    match in_place {
        true => comm.reduce_scatter(InPlace, &mut out, &counts, compose())?,
        false => comm.reduce_scatter(&mine, &mut out, &counts, compose())?,
    }
    assert!(out[..counts[r]] == composed(call, 0..p, len)[at..][..counts[r]]);
    Ok(())
}

fn reduce_scatter_block(comm: &Communicator, Case { call, len, root, in_place }: Case) -> Result<()> {
    let (p, r) = (comm.size(), comm.rank());
    let (len, all) = (len / p, len / p * p);
    let mine = affine(call, r, all);
    let in_place = in_place && r == root;
    let mut out = if in_place { mine.clone() } else { vec![[0; 2]; len] };
    match in_place {
        true => comm.reduce_scatter_block(InPlace, &mut out, compose())?,
        false => comm.reduce_scatter_block(&mine, &mut out, compose())?,
    }
    assert!(out[..len] == composed(call, 0..p, all)[r * len..][..len]);
    Ok(())
}

fn scan(comm: &Communicator, Case { call, len, root, in_place }: Case) -> Result<()> {
    let mine = affine(call, comm.rank(), len);
    let mut out = mine.clone();
    match in_place && comm.rank() != root {
        true => comm.scan(InPlace, &mut out, compose())?,
        false => comm.scan(&mine, &mut out, compose())?,
    }
    assert!(out == composed(call, 0..comm.rank() + 1, len));
    Ok(())
}

fn exscan(comm: &Communicator, Case { call, len, root, in_place }: Case) -> Result<()> {
    let mine = affine(call, comm.rank(), len);
    let mut out = mine.clone();
    match in_place && comm.rank() != root {
        true => comm.exscan(InPlace, &mut out, compose())?,
        false => comm.exscan(&mine, &mut out, compose())?,
    }
    assert!(out == if comm.rank() == 0 { mine } else { composed(call, 0..comm.rank(), len) });
    Ok(())
}

/// A scan by an exact operator, or an exscan: ranks may read the results of others. Every other call is of bytes, whose lengths need be no whole words.
fn scan_exact(comm: &Communicator, case: Case, includes_ours: bool) -> Result<()> {
    let Case { call, len, .. } = case;
    let given = |rank| given(call, rank, len);
    if call % 2 == 0 {
        return scan_of(comm, case, includes_ours, given, (u64::wrapping_add, ops::Sum));
    }
    let bytes = |rank| given(rank).iter().map(|value| value.to_le_bytes()[3]).collect();
    scan_of(comm, case, includes_ours, bytes, (u8::min, ops::Min))
}

/// The same of what `given` says of each rank.
fn scan_of<T: circulant::bytemuck::Pod + PartialEq, O: IntoReducer<T>>(
    comm: &Communicator,
    Case { root, in_place, .. }: Case,
    includes_ours: bool,
    given: impl Fn(usize) -> Vec<T>,
    (combined, op): (fn(T, T) -> T, O),
) -> Result<()> {
    let r = comm.rank();
    let mine = given(r);
    let mut out = mine.clone();
    match (in_place && r != root, includes_ours) {
        (true, true) => comm.scan(InPlace, &mut out, op)?,
        (true, false) => comm.exscan(InPlace, &mut out, op)?,
        (false, true) => comm.scan(&mine, &mut out, op)?,
        (false, false) => comm.exscan(&mine, &mut out, op)?,
    }
    let all = (0..r + usize::from(includes_ours)).map(given);
    let expected = all.reduce(|all, one| all.iter().zip(one).map(|(a, b)| combined(*a, b)).collect());
    assert!(out == expected.unwrap_or(mine));
    Ok(())
}
