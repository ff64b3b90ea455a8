//! An irregular gather: rank r contributes r² numbers, rank 0 thus none, and every rank gets all. Run it with
//! `circulant run -n 4 target/debug/examples/allgatherv`.

use circulant::World;
use circulant::comm::Partition;

fn main() -> circulant::Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let (rank, size) = (comm.rank(), comm.size());

    // Counts must be the same everywhere. Here they are exchanged; where every rank can
    // work them out for itself, that is not needed.
    let mine = rank * rank;
    let parts = Partition::contiguous(comm.allgather_one(mine)?)?;

    let mut send = comm.alloc::<u32>(mine)?;
    send.fill(u32::try_from(rank).unwrap_or(u32::MAX));
    let mut recv = comm.alloc::<u32>(parts.extent())?;
    comm.allgatherv(&send, &mut recv, &parts)?;

    let largest = &recv[parts.range(size - 1)];
    println!(
        "rank {rank}: counts {:?}, got {:?}, of them {largest:?} of the last rank",
        parts.counts(),
        &recv[..]
    );
    world.finalize()
}
