//! Where each rank's part of something begins when it stands behind those of the lower ranks: an exclusive scan, as
//! for writing one file together. Run it with `circulant run -n 4 target/debug/examples/offsets`.

use circulant::World;
use circulant::ops::Sum;

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let text = "x".repeat(10 + comm.rank() % 3);

    // exscan leaves rank 0's result as it is: 0.
    let mut begin = [0u64];
    comm.exscan(&[text.len() as u64], &mut begin, Sum)?;
    let mut end = [0u64];
    comm.scan(&[text.len() as u64], &mut end, Sum)?;
    assert_eq!(end[0] - begin[0], text.len() as u64);

    let mut all = vec![[0u64; 2]; comm.size()];
    comm.allgather(&[[begin[0], end[0]]], &mut all)?;
    assert!(all.windows(2).all(|pair| pair[0][1] == pair[1][0]));
    println!("rank {}: bytes {} to {}", comm.rank(), begin[0], end[0]);
    world.finalize()
}
