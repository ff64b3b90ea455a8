//! A dot product of vectors that are spread over the ranks, and the largest element with its place: allreduce, in
//! place. Run it with `circulant run -n 4 target/debug/examples/dot`.

use circulant::ops::{F64Index, Maxloc, Sum};
use circulant::{InPlace, World};

/// Elements at each rank.
const N: usize = 1000;

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let first = comm.rank() * N;
    let x: Vec<f64> = (first..first + N).map(|i| i as f64).collect();

    // All ranks get the same bits, so all take the same branch on them.
    let mut dot = [x.iter().map(|x| x * 2.0).sum::<f64>()];
    comm.allreduce(InPlace, &mut dot, Sum)?;
    let n = comm.size() * N;
    assert_eq!(dot[0], (n * (n - 1)) as f64);

    let (place, value) =
        x.iter().enumerate().fold((0, f64::MIN), |a, (i, x)| if *x > a.1 { (i, *x) } else { a });
    let mut largest = [F64Index::new(value, (first + place) as u64)];
    comm.allreduce(InPlace, &mut largest, Maxloc)?;
    assert_eq!(largest[0].index, n as u64 - 1);
    println!("rank {}: x·y = {}, the largest is x[{}]", comm.rank(), dot[0], largest[0].index);
    world.finalize()
}
