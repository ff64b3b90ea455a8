//! Several worlds in one process: registered memory is its own world's, and plain memory to all others.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

use circulant::launch::{Launch, threads};
use circulant::transport::{Transport, sim};
use circulant::{Buf, Communicator, Error, ErrorKind, InPlace, Result, World, ops};

/// Ranks of every world here.
const P: usize = 3;
/// Elements of every buffer: enough that blocks go by puts, not by messages.
const LEN: usize = 20_000;

/// The wire of a world.
#[derive(Clone, Copy, Debug)]
enum Wire {
    Sim,
    Shm,
    Tcp,
}

const WIRES: [Wire; 3] = [Wire::Sim, Wire::Shm, Wire::Tcp];

/// What one rank needs for its part of a world: its launcher, and its endpoint or the name of one.
type Part = (Box<dyn Launch>, Result<Box<dyn Transport>, &'static str>);

fn parts(wire: Wire) -> Vec<Part> {
    let sim = sim::group(P, &sim::Faults::default()).into_iter();
    let wires = sim.map(|sim| match wire {
        Wire::Sim => Ok(Box::new(sim) as Box<dyn Transport>),
        Wire::Shm => Err("shm"),
        Wire::Tcp => Err("tcp"),
    });
    threads::group(P).into_iter().zip(wires).collect()
}

fn world((launch, wire): Part) -> Result<World> {
    let builder = World::builder().set("deadline", "20").launch(launch);
    match wire {
        Ok(wire) => builder.transport(wire).init(),
        Err(provider) => builder.provider(provider).init(),
    }
}

/// Runs `body` at every rank of two worlds at once; it is given the parts of the second.
fn with_two<R: Send>(wire: Wire, body: impl Fn(World, Part) -> Result<R> + Sync) -> Vec<Result<R>> {
    std::thread::scope(|scope| {
        let handles: Vec<_> = parts(wire)
            .into_iter()
            .zip(parts(wire))
            .map(|(first, second)| {
                let body = &body;
                scope.spawn(move || body(world(first)?, second))
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}

/// A call on buffers, the first of which may be of another world.
type Call = fn(&Communicator, Buf<u8>) -> Result<()>;

const CALLS: &[(&str, Call)] = &[
    ("ibcast", |c, buf| c.ibcast(buf, 0)?.wait().map(drop)),
    ("bcast_init", |c, buf| {
        let mut step = c.bcast_init(buf, 0)?;
        step.start()?;
        step.wait()
    }),
    ("iallgather, send", |c, buf| {
        let recv = c.alloc(buf.len() * P)?;
        c.iallgather(buf, recv)?.wait().map(drop)
    }),
    ("iallreduce, receive", |c, buf| {
        let send = c.alloc(buf.len())?;
        c.iallreduce(send, buf, ops::Sum)?.wait().map(drop)
    }),
    ("ireduce, in place at the root", |c, buf| {
        let send = if c.rank() == 0 { None } else { Some(c.alloc(buf.len())?) };
        match send {
            None => c.ireduce(InPlace, buf, ops::Sum, 0)?.wait().map(drop),
            Some(send) => c.ireduce(send, buf, ops::Sum, 0)?.wait().map(drop),
        }
    }),
    ("alltoall_init, in place", |c, buf| {
        let mut step = c.alltoall_init(InPlace, buf)?;
        step.start()?;
        step.wait()
    }),
];

/// Every rank is told which one passed a buffer of another world.
#[track_caller]
fn refused(what: &str, results: Vec<Result<()>>, culprit: usize) {
    for (rank, result) in results.into_iter().enumerate() {
        let e: Error = result.err().unwrap_or_else(|| panic!("{what}: no error at rank {rank}"));
        let text = e.to_string();
        assert_eq!(e.kind(), ErrorKind::Argument, "{what}, at rank {rank}: {text}");
        for word in ["allocated by another world", &format!("rank {culprit}")] {
            assert!(text.contains(word), "{what}, at rank {rank}: {word:?} is missing in {text:?}");
        }
    }
}

/// One rank passes a buffer of its other world, whose number is also that of a buffer of this world.
#[test]
fn a_buffer_of_another_world_is_refused() {
    for wire in WIRES {
        for (name, call) in CALLS {
            let results = with_two(wire, |first, second| {
                let second = world(second)?;
                let (a, b) = (first.comm(), second.comm());
                // Divisible by the number of ranks, as an alltoall wants it.
                let foreign: Buf<u8> = a.alloc(LEN * P)?;
                let bystander: Buf<u8> = b.alloc(LEN * P)?;
                let mine: Buf<u8> = b.alloc(LEN * P)?;
                let done = call(&b, if b.rank() == 1 { foreign } else { mine }).and_then(|()| b.barrier());
                assert!(bystander.iter().all(|x| *x == 0), "{name}: another buffer was written to");
                done
            });
            refused(&format!("{name} over {wire:?}"), results, 1);
        }
    }
}

/// The root sends from a buffer of this world; what the others receive would land in one that takes no part.
#[test]
fn no_other_buffer_is_written() {
    for wire in WIRES {
        let results = with_two(wire, |first, second| {
            let second = world(second)?;
            let (a, b) = (first.comm(), second.comm());
            let bystander: Buf<u8> = b.alloc(LEN)?;
            let mut sent: Buf<u8> = b.alloc(LEN)?;
            sent.fill(7);
            let foreign: Buf<u8> = a.alloc(LEN)?;
            let done = b.ibcast(if b.rank() == 0 { sent } else { foreign }, 0).and_then(|r| r.wait());
            // Until no peer writes any more.
            let ended = done.map(drop).and_then(|()| b.barrier());
            let hit = bystander.iter().filter(|x| **x != 0).count();
            assert_eq!(hit, 0, "{wire:?}: bytes of a buffer that takes no part were overwritten");
            ended
        });
        for (rank, result) in results.into_iter().enumerate() {
            let e = result.err().unwrap_or_else(|| panic!("{wire:?}: no error at rank {rank}"));
            assert_eq!(e.kind(), ErrorKind::Argument, "{wire:?}, at rank {rank}: {e}");
        }
    }
}

#[test]
fn a_buffer_of_a_world_that_has_ended_is_refused() {
    for wire in WIRES {
        let results = with_two(wire, |first, second| {
            let old: Buf<u8> = first.comm().alloc(LEN)?;
            first.finalize()?;
            let second = world(second)?;
            let comm = second.comm();
            let mine: Buf<u8> = comm.alloc(LEN)?;
            let request = comm.ibcast(if comm.rank() == 2 { old } else { mine }, 0)?;
            request.wait().map(drop).and_then(|()| comm.barrier())
        });
        refused(&format!("an old buffer over {wire:?}"), results, 2);
    }
}

/// Blocking calls take any slice.
#[test]
fn a_buffer_of_another_world_is_a_slice_like_any_other() {
    for wire in WIRES {
        let results = with_two(wire, |first, second| {
            let second = world(second)?;
            let mut buf: Buf<u8> = first.comm().alloc(LEN)?;
            if second.rank() == 0 {
                buf.fill(7);
            }
            second.comm().bcast(&mut buf, 0)?;
            assert!(buf.iter().all(|x| *x == 7));
            // And of its own world it is still what it was.
            let request = first.comm().ibcast(buf, 0)?;
            assert!(request.wait()?.recv.iter().all(|x| *x == 7));
            second.finalize()?;
            first.finalize()
        });
        results.into_iter().for_each(|r| r.unwrap());
    }
}
