//! Sends a table that is a constant of the program, as it stands in read-only memory. Nothing copies it first.
//!
//! circulant run -n 4 target/release/examples/table

use circulant::{Result, World, ops};

/// Entries that each rank sends: 64 KiB, which no short message holds.
const LEN: usize = 8192;

static SQUARES: [u64; 2 * LEN] = {
    let mut squares = [0; 2 * LEN];
    let mut i = 0;
    while i < squares.len() {
        squares[i] = (i * i) as u64;
        i += 1;
    }
    squares
};

/// What a rank sends: from another place on at each, and not from the border of a page.
fn part(rank: usize) -> &'static [u64] {
    &SQUARES[3 + rank % 100..][..LEN]
}

fn main() -> Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let (rank, size) = (comm.rank(), comm.size());

    let mut all = vec![0; size * LEN];
    comm.allgather(part(rank), &mut all)?;
    assert!(all.chunks(LEN).enumerate().all(|(r, block)| block == part(r)));

    let mut sums = vec![0; LEN];
    comm.allreduce(&SQUARES[..LEN], &mut sums, ops::Sum)?;
    assert!(sums.iter().zip(&SQUARES).all(|(sum, square)| *sum == square * size as u64));

    if rank == 0 {
        println!("{size} tables of {LEN} squares over {}", world.provider());
    }
    world.finalize()
}
