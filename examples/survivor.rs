//! An iterative solver that loses ranks and ends with the right answer all the same: each rank keeps a copy of what the rank before it
//! has come to, and those that are left go on from there. Run it with `circulant run -n 8 --on-failure continue
//! target/release/examples/survivor 600`, and kill ranks (`kill -9`) while it works: any one at a time, and any that are not next to each other.
//!
//! It solves u'' = -2, u(0) = u(1) = 0 by Jacobi iteration; the answer is x(1 - x).

use circulant::{Communicator, Error, ErrorKind, Result, World, ops};
use std::ops::Range;

/// Unknowns, if none are named.
const UNKNOWNS: usize = 100;
/// Iterations between two copies.
const INTERVAL: u64 = 1000;
/// The solver stops when no value changes by more than this between two of its checks.
const SMALL: f64 = 1e-10;

/// The unknowns of one rank of several.
fn part(rank: usize, size: usize, n: usize) -> Range<usize> {
    n * rank / size..n * (rank + 1) / size
}

/// What two ranks had come to: this one, and the one before it in the communicator of that time.
struct Saved {
    /// The step, and how many communicators there had been: ranks that are at different ones have divided the unknowns in another way.
    at: (u64, u64),
    ours: (usize, Vec<f64>),
    theirs: (usize, Vec<f64>),
    /// The rank before, in the world.
    before: usize,
}

impl Saved {
    /// Gives our part to the rank behind us, and takes that of the rank before.
    fn exchange(comm: &Communicator, n: usize, at: (u64, u64), cells: &[f64]) -> Result<Self> {
        let (rank, size) = (comm.rank(), comm.size());
        let (before, behind) = ((rank + size - 1) % size, (rank + 1) % size);
        let theirs = part(before, size, n);
        let (mut sent, mut received) = (vec![0; size], vec![0; size]);
        (sent[behind], received[before]) = (cells.len(), theirs.len());
        let mut copy = vec![0.0; theirs.len()];
        comm.alltoallv(cells, &sent, &mut copy, &received)?;
        let ours = (part(rank, size, n).start, cells.to_vec());
        Ok(Self { at, ours, theirs: (theirs.start, copy), before: comm.group().ranks()[before] })
    }
}

/// All unknowns at the last step of which every rank has a copy, and that step. Each rank gives its own, and those of the rank before it if
/// that is gone.
fn restore(comm: &Communicator, n: usize, saved: &[Saved]) -> Result<(u64, Vec<f64>)> {
    let (step, nth) = saved.last().map_or((0, 0), |saved| saved.at);
    let step = comm.allreduce_one(step, ops::Min)?;
    let of_step = saved.iter().rfind(|saved| saved.at.0 == step).map_or(nth, |saved| saved.at.1);
    let nth = comm.allreduce_one(of_step, ops::Min)?;
    let mut whole = vec![0.0; n];
    if step == 0 {
        return Ok((0, whole));
    }
    // Each with its place.
    let mut pieces: Vec<[u64; 2]> = Vec::new();
    if let Some(saved) = saved.iter().find(|saved| saved.at == (step, nth)) {
        let gone = !comm.group().ranks().contains(&saved.before);
        for (start, values) in [Some(&saved.ours), gone.then_some(&saved.theirs)].into_iter().flatten() {
            pieces.extend(values.iter().enumerate().map(|(i, value)| [(start + i) as u64, value.to_bits()]));
        }
    }
    let mut counts = vec![0; comm.size()];
    comm.allgather(&[pieces.len()], &mut counts)?;
    let mut all = vec![[0; 2]; counts.iter().sum()];
    comm.allgatherv(&pieces, &mut all, &counts)?;
    if all.len() != n {
        let what = format!("{} of {n} unknowns are left: two ranks next to each other are gone", all.len());
        return Err(Error::new(ErrorKind::Aborted, what));
    }
    for [i, value] in all {
        if let Some(cell) = usize::try_from(i).ok().and_then(|i| whole.get_mut(i)) {
            *cell = f64::from_bits(value);
        }
    }
    Ok((step, whole))
}

/// Iterates until little changes, from what was saved; the largest error, and the number of iterations.
fn solve(comm: &Communicator, n: usize, nth: u64, saved: &mut Vec<Saved>) -> Result<(f64, u64)> {
    let (mut step, whole) = restore(comm, n, saved)?;
    let ours = part(comm.rank(), comm.size(), n);
    let mut cells = whole[ours.clone()].to_vec();
    let mut edges = vec![[0.0f64; 2]; comm.size()];
    let h = 1.0 / (n + 1) as f64;
    loop {
        if step % INTERVAL == 0 {
            // The copy before stays until all have this one.
            saved.push(Saved::exchange(comm, n, (step, nth), &cells)?);
            if saved.len() > 2 {
                saved.remove(0);
            }
        }
        let edge = |cell: Option<&f64>| cell.copied().unwrap_or_default();
        comm.allgather(&[[edge(cells.first()), edge(cells.last())]], &mut edges)?;
        let left = if comm.rank() > 0 { edges[comm.rank() - 1][1] } else { 0.0 };
        let right = edges.get(comm.rank() + 1).map_or(0.0, |edge| edge[0]);
        let (mut before, mut change) = (left, 0.0f64);
        for i in 0..cells.len() {
            let behind = cells.get(i + 1).copied().unwrap_or(right);
            let new = (before + behind) / 2.0 + h * h;
            before = std::mem::replace(&mut cells[i], new);
            change = change.max((new - before).abs());
        }
        step += 1;
        if step % INTERVAL == 0 && comm.allreduce_one(change, ops::Max)? < SMALL / INTERVAL as f64 {
            break;
        }
    }
    let exact = |i: usize| (i + 1) as f64 * h * (1.0 - (i + 1) as f64 * h);
    let error = cells.iter().zip(ours).map(|(cell, i)| (cell - exact(i)).abs()).fold(0.0, f64::max);
    Ok((comm.allreduce_one(error, ops::Max)?, step))
}

fn main() -> Result<()> {
    let n = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(UNKNOWNS);
    let world = World::init()?;
    let (mut comm, mut nth, mut saved) = (world.comm(), 0, Vec::new());
    if comm.size() > n {
        return Err(Error::new(ErrorKind::Argument, "there are more ranks than unknowns"));
    }
    println!("rank {} is process {}", world.rank(), std::process::id());
    let (error, steps) = loop {
        match solve(&comm, n, nth, &mut saved) {
            // All or none: one that has not heard of a loss must not leave the others alone.
            done if comm.agree(u64::from(done.is_ok()))?.flags == 1 => break done?,
            Err(e) if !e.is_survived() => return Err(e),
            done => {
                if let Err(e) = done {
                    println!("{e}");
                }
                (comm, nth) = (comm.shrink()?, nth + 1);
            }
        }
    };
    assert!(error < 1e-6, "the largest error is {error}");
    if comm.rank() == 0 {
        println!(
            "solved by {} of {} ranks after {steps} steps, largest error {error:.1e}",
            comm.size(),
            world.size()
        );
    }
    world.finalize()
}
