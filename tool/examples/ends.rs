//! Tries a launcher: joins, passes on values that are longer than launchers like them, checks some collectives, and
//! ends as it is told. `ci/launchers` runs it under every launcher there is.
//!
//!     ends [normal | abort CODE | exit CODE | kill | leave]
//!
//! By itself and with `normal` all ranks end well, after a second world. Else the last rank ends so in the middle of the job, and the others, which
//! wait for it, must learn it: they print the error and exit with code 1.

use circulant::config::Config;
use circulant::launch::{self, Launch};
use circulant::{Communicator, World};
use rustix::process::{Signal, getpid, kill_process};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let ending = words.next().unwrap_or_else(|| "normal".to_owned());
    let code: i32 = words.next().map_or(Ok(0), |w| w.parse())?;
    let mut launch = launch::detect(&Config::from_env())?;
    pass_on(launch.as_mut())?;
    let world = World::builder().launch(launch).init()?;
    let comm = world.comm();
    check(&comm)?;
    let (rank, size) = (world.rank(), world.size());
    println!(
        "ok: {rank} of {size} by {} over {}, nodes {:?}",
        world.launcher(),
        world.provider(),
        world.nodes()
    );
    comm.barrier()?;
    if ending == "normal" {
        world.finalize()?;
        let second = World::init()?;
        assert_eq!((second.rank(), second.size()), (rank, size), "another place in the second world");
        check(&second.comm())?;
        second.finalize()?;
        return Ok(ExitCode::SUCCESS);
    }
    if rank + 1 == size {
        match ending.as_str() {
            "abort" => world.abort(code, "as told"),
            "kill" => kill_process(getpid(), Signal::KILL)?,
            _ => {}
        }
        std::process::exit(code);
    }
    loop {
        if let Err(e) = comm.barrier() {
            println!("told: {rank}: {e}");
            return Ok(ExitCode::from(1));
        }
    }
}

/// A value longer than most launchers carry in one piece, from our left neighbour.
fn pass_on(launch: &mut dyn Launch) -> circulant::Result<()> {
    let value = |rank: usize| (0..5000).map(|i| (rank * 31 + i * 7).to_le_bytes()[0]).collect::<Vec<u8>>();
    let (rank, size) = (launch.rank(), launch.size());
    launch.put(&format!("long-{rank}"), &value(rank))?;
    launch.fence(Duration::from_secs(60))?;
    let left = (rank + size - 1) % size;
    assert!(launch.get(&format!("long-{left}"))? == value(left), "the value of rank {left} came damaged");
    Ok(())
}

/// Some collectives whose results are known.
fn check(comm: &Communicator) -> circulant::Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut all = vec![0u64; size];
    comm.allgather(&[rank as u64 * 3], &mut all)?;
    assert!(all.iter().enumerate().all(|(r, n)| *n == r as u64 * 3), "allgather: {all:?}");
    let mut data: Vec<u32> = (0..50_000).map(|i| if rank + 1 == size { i * 3 } else { 0 }).collect();
    comm.bcast(&mut data, size - 1)?;
    assert!((0u32..).zip(&data).all(|(i, n)| *n == i * 3), "bcast");
    let (given, mut got) = (vec![rank as u64; size], vec![0; size]);
    comm.alltoall(&given, &mut got)?;
    assert!(got.iter().enumerate().all(|(r, n)| *n == r as u64), "alltoall: {got:?}");
    Ok(())
}
