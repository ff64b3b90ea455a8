//! An irregular gather: rank r contributes r² numbers, rank 0 thus none, and every rank gets all. Run it with
//! `circulant run -n 4 target/debug/examples/allgatherv`.

use circulant::World;

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let (rank, size) = (comm.rank(), comm.size());

    // Counts and displacements must be the same everywhere. Here they are exchanged; where every rank can
    // work them out for itself, that is not needed.
    let mine = rank * rank;
    let mut counts = vec![0; size];
    comm.allgather(&[mine], &mut counts)?;
    let displs: Vec<usize> = counts.iter().scan(0, |end, n| Some(std::mem::replace(end, *end + n))).collect();

    let mut send = comm.alloc::<u32>(mine)?;
    send.fill(u32::try_from(rank).unwrap_or(u32::MAX));
    let mut recv = comm.alloc::<u32>(counts.iter().sum())?;
    comm.allgatherv(&send, &mut recv, &counts, &displs)?;

    println!("rank {rank}: counts {counts:?}, got {:?}", &recv[..]);
    world.finalize()
}
