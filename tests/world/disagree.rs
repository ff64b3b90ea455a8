//! Ranks that call the same operation with other arguments: all of them learn which argument, and both values.

use crate::ranks;

use circulant::transport::sim;
use circulant::{Communicator, ErrorKind, InPlace, Result, ops};

const P: usize = 4;

/// Rank 2 calls `odd`, the others `usual`, then all enter a barrier. All learn "`what` a and b", in either order.
fn differ(
    what: &str,
    [a, b]: [&str; 2],
    usual: impl Fn(&Communicator) -> Result<()> + Sync,
    odd: impl Fn(&Communicator) -> Result<()> + Sync,
) {
    let body = |comm: &Communicator| {
        let done = if comm.rank() == 2 { odd(comm) } else { usual(comm) };
        done.and_then(|()| comm.barrier())
    };
    let worlds = [
        ranks::run(P, &sim::Faults::default(), &[("deadline", "30")], |_, comm| body(comm)),
        ranks::run_shared(P, &[("deadline", "30")], |_, comm| body(comm)),
    ];
    for (rank, result) in worlds.into_iter().flat_map(|world| world.into_iter().enumerate()) {
        let e = result.expect_err("rank 2 has called something else");
        let text = e.to_string();
        assert_eq!(e.kind(), ErrorKind::Mismatch, "rank {rank}: {text}");
        let said = [format!("{what} {a} and {b}"), format!("{what} {b} and {a}")];
        assert!(said.iter().any(|said| text.contains(said)), "{said:?}, rank {rank}: {text}");
        assert!(text.contains("than rank 2") || text.contains("rank 2 called"), "rank {rank}: {text}");
    }
}

/// A broadcast of `len` elements.
fn bcast<T: bytemuck::Pod>(comm: &Communicator, len: usize, root: usize) -> Result<()> {
    comm.bcast(&mut vec![T::zeroed(); len], root)
}

#[test]
fn lengths() {
    for len in [99, 99_999] {
        let words = [&*len.to_string(), &*(len + 1).to_string()];
        differ("length", words, |comm| bcast::<u64>(comm, len, 0), |comm| bcast::<u64>(comm, len + 1, 0));
    }
}

#[test]
fn roots() {
    for len in [5, 50_000] {
        differ("root", ["0", "1"], |comm| bcast::<u16>(comm, len, 0), |comm| bcast::<u16>(comm, len, 1));
    }
}

#[test]
fn types_of_one_size() {
    for len in [5, 50_000] {
        differ("type", ["f64", "i64"], |comm| bcast::<f64>(comm, len, 0), |comm| bcast::<i64>(comm, len, 0));
        let sum = |comm: &Communicator| comm.allreduce(InPlace, &mut vec![1u32; len], ops::Sum);
        differ("type", ["u32", "f32"], sum, |comm| comm.allreduce(InPlace, &mut vec![1f32; len], ops::Sum));
        // Pointer-sized integers are those of their size.
        let none = ranks::run_shared(2, &[], |_, comm| match comm.rank() {
            0 => bcast::<usize>(comm, len, 0),
            _ => bcast::<u64>(comm, len, 0),
        });
        none.into_iter().for_each(|result| result.unwrap());
    }
}

#[test]
fn counts() {
    for unit in [1, 3000] {
        let gather = |comm: &Communicator, last: usize| {
            let counts = [unit, 2 * unit, 3 * unit, last];
            let displs = [0, unit, 3 * unit, 6 * unit];
            let mine = vec![1u64; counts[comm.rank()]];
            comm.allgatherv(&mine, &mut vec![0; 6 * unit + last], (&counts, &displs))
        };
        let words = [&*(4 * unit).to_string(), &*(4 * unit - 1).to_string()];
        differ("count of rank 3:", words, |comm| gather(comm, 4 * unit), |comm| gather(comm, 4 * unit - 1));
    }
}

#[test]
fn operators() {
    let sum = |comm: &Communicator| comm.scan(InPlace, &mut vec![1u32; 100], ops::Sum);
    differ("operator", ["sum", "max"], sum, |comm| comm.scan(InPlace, &mut vec![1u32; 100], ops::Max));
}

/// With CIRCULANT_CHECK=1 both calls are named in words before data moves, on the simulated wire and on shared memory, where ranks
/// would not even notice.
#[test]
fn a_check_names_both_calls() {
    let body = |comm: &Communicator| {
        comm.barrier()?;
        match comm.rank() {
            2 => comm.allreduce(InPlace, &mut [1f64; 8], ops::Sum),
            _ => comm.bcast(&mut [0f64; 8], 0),
        }
    };
    let settings = [("deadline", "30"), ("check", "1")];
    let worlds = [
        ranks::run(P, &sim::Faults::default(), &settings, |_, comm| body(comm)),
        ranks::run_shared(P, &settings, |_, comm| body(comm)),
    ];
    for (rank, result) in worlds.into_iter().flat_map(|world| world.into_iter().enumerate()) {
        let e = result.expect_err("rank 2 has called something else");
        let said = "rank 0 calls bcast of 8 f64, root 0; rank 2 allreduce of 8 f64, sum";
        assert!(e.to_string().contains(said), "rank {rank}: {e}");
        assert_eq!((e.kind(), e.peer().is_some()), (ErrorKind::Mismatch, true), "rank {rank}: {e}");
    }
}

/// A call that one rank cannot make has the number there that it has at the others, with and without checks.
#[test]
fn a_call_that_is_refused_has_its_number() {
    // The start has a call, too, and a check is one.
    for (check, number) in [("0", 2), ("1", 5)] {
        let results = ranks::run_shared(2, &[("deadline", "30"), ("check", check)], |_, comm| {
            comm.allreduce(InPlace, &mut [1u64], ops::Sum)?;
            comm.allgather(&[1u64], &mut vec![0; 2 + comm.rank()])
        });
        for (rank, result) in results.into_iter().enumerate() {
            let e = result.expect_err("rank 1 has room for three");
            assert_eq!(
                (e.kind(), e.operation()),
                (ErrorKind::Argument, Some(("allgather", number))),
                "rank {rank}: {e}"
            );
        }
    }
}

/// What a check demands is in every call that matches: nothing is refused, whatever the kind of call, and threads may share a communicator.
#[test]
fn a_check_lets_calls_pass_that_match() {
    for r in ranks::run_shared(3, &[("check", "yes")], |_, comm| {
        let half = comm.split(Some((comm.rank() % 2) as i64), 0)?.unwrap();
        for i in 0..20 {
            let mut data = vec![comm.rank() as u64; i * 10];
            half.allreduce(InPlace, &mut data, ops::Max)?;
            comm.bcast(&mut data, i % 3)?;
            let request = comm.ibcast(comm.alloc::<u8>(i)?, 0)?;
            comm.barrier()?;
            request.wait()?;
        }
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| (0..20).try_for_each(|_| comm.bcast(&mut [5u8; 1000], 0))))
                .collect();
            calls.into_iter().try_for_each(|c| c.join().unwrap())
        })
    }) {
        r.unwrap();
    }
}
