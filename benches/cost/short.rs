//! Calls of 8 bytes and nothing else: the work of which `ci/instructions` counts the instructions.
//!
//! `short_cost sim barrier|allreduce CALLS`: requests of two ranks on the simulated wire, which one thread moves in turns: no rank waits,
//! so that the count of [`requested`] is always the same. `circulant run -n 2 short_cost shm barrier|allreduce CALLS`: blocking calls
//! of processes that share memory, in [`called`].

use circulant::launch::threads;
use circulant::ops::Sum;
use circulant::transport::sim::{self, Faults};
use circulant::{Buf, Communicator, InPlace, Request, Result, World};

/// One call of each rank, from its beginning to its end.
#[inline(never)]
fn requested(comms: &[Communicator; 2], buffers: &mut [Option<(Buf<u64>, Buf<u64>)>; 2]) -> Result<()> {
    let mut requests: Vec<Request<u64>> = Vec::with_capacity(2);
    for (comm, buffers) in comms.iter().zip(buffers.iter_mut()) {
        let Some((send, recv)) = buffers.take() else { continue };
        requests.push(comm.iallreduce(send, recv, Sum)?);
    }
    until_all(&mut requests)?;
    for (request, buffers) in requests.into_iter().zip(buffers) {
        let done = request.wait()?;
        *buffers = done.send.map(|send| (send, done.recv));
    }
    Ok(())
}

#[inline(never)]
fn requested_barriers(comms: &[Communicator; 2]) -> Result<()> {
    let mut requests = [comms[0].ibarrier()?, comms[1].ibarrier()?];
    until_all(&mut requests)?;
    requests.into_iter().try_for_each(|request| request.wait().map(drop))
}

fn until_all<T: circulant::bytemuck::Pod>(requests: &mut [Request<T>]) -> Result<()> {
    loop {
        let mut all = true;
        for request in requests.iter_mut() {
            all &= request.test()?;
        }
        if all {
            return Ok(());
        }
    }
}

/// One blocking call.
#[inline(never)]
fn called(comm: &Communicator, barrier: bool) -> Result<()> {
    if barrier {
        return comm.barrier();
    }
    comm.allreduce(InPlace, &mut [1u64], Sum)
}

/// Both ranks of a world, connected by threads of their own.
fn worlds() -> Result<[World; 2]> {
    let endpoints = sim::group(2, &Faults::default()).into_iter().zip(threads::group(2));
    let begin = |(endpoint, launch)| {
        std::thread::spawn(move || World::builder().launch(launch).transport(Box::new(endpoint)).init())
    };
    let mut started = endpoints.map(begin).collect::<Vec<_>>().into_iter().map(|thread| thread.join());
    match (started.next(), started.next()) {
        (Some(Ok(first)), Some(Ok(second))) => Ok([first?, second?]),
        _ => std::process::exit(1),
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [wire, operation, count] = &words[..] else { usage() };
    let (Ok(count), barrier) = (count.parse::<u32>(), operation == "barrier") else { usage() };
    if !barrier && operation != "allreduce" {
        usage();
    }
    if wire == "shm" {
        let world = World::init()?;
        let comm = world.comm();
        (0..count).try_for_each(|_| called(&comm, barrier))?;
        return world.finalize();
    }
    let [first, second] = worlds()?;
    let comms = [first.comm().clone(), second.comm().clone()];
    let mut buffers = [None, None];
    for (comm, buffers) in comms.iter().zip(&mut buffers) {
        *buffers = Some((comm.alloc_from(&[1])?, comm.alloc(1)?));
    }
    for _ in 0..count {
        if barrier {
            requested_barriers(&comms)?;
        } else {
            requested(&comms, &mut buffers)?;
        }
    }
    // Both have to take part in the end, in threads of their own.
    drop((comms, buffers));
    let other = std::thread::spawn(move || second.finalize());
    first.finalize()?;
    other.join().unwrap_or(Ok(()))
}

fn usage() -> ! {
    eprintln!("usage: short_cost sim|shm barrier|allreduce CALLS");
    std::process::exit(2);
}
