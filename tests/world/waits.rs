//! What a call that waits does: for ranks that are slow, in finalize, or in an operator that calls back.

use crate::ranks;

use circulant::transport::sim;
use circulant::{Communicator, ErrorKind, InPlace, Options, Result, World, ops};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The body's results on the simulated wire, where calls go by plan, and on shared memory, where short ones are short calls.
fn on_both<R: Send>(
    p: usize,
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator) -> Result<R> + Sync,
) -> Vec<Vec<Result<R>>> {
    let plan = ranks::run(p, &sim::Faults::default(), settings, &body);
    vec![plan, ranks::run_shared(p, settings, &body)]
}

/// No rank has to come in time unless a deadline says so.
#[test]
fn a_slow_rank_is_waited_for() {
    for none in ["off", "0", "1e9"] {
        let settings = [("deadline", none), ("warn-after", "0.2")];
        let adds = |comm: &Communicator| {
            let mut sum = [1u64];
            comm.allreduce(InPlace, &mut sum, ops::Sum)?;
            Ok(sum[0])
        };
        let faults = sim::Faults { virtual_time: true, ..sim::Faults::default() };
        let mut all = ranks::run_wired(vec![0; 3], &faults, &settings, |_, comm, net| {
            if comm.rank() == 0 {
                net.sleep(0, Duration::from_secs(3));
            }
            adds(comm)
        });
        all.extend(ranks::run_shared(3, &settings, |_, comm| {
            if comm.rank() == 0 {
                // Shared memory has no virtual time.
                std::thread::sleep(Duration::from_millis(700));
            }
            adds(comm)
        }));
        for result in all {
            assert_eq!(result.unwrap(), 3);
        }
    }
}

/// That is what happens unless something else is set.
#[test]
fn there_is_no_deadline_by_default() {
    let setting = circulant::config::SETTINGS.iter().find(|s| s.name == "deadline").unwrap();
    assert_eq!(setting.default, "off");
}

#[test]
fn finalize_matches_no_call_of_the_program() {
    for forever in [false, true] {
        let deadline = if forever { "off" } else { "20" };
        let all = on_both(3, &[("deadline", deadline)], |_, comm| match comm.rank() {
            1 => Ok(()),
            _ => comm.barrier(),
        });
        for (rank, result) in all.into_iter().flat_map(|world| world.into_iter().enumerate()) {
            let e = result.expect_err("rank 1 has made no barrier");
            assert_eq!((e.kind(), e.peer()), (ErrorKind::Mismatch, Some(1)), "rank {rank}: {e}");
            let text = e.to_string();
            assert!(text.contains("rank 1 is in finalize") && text.contains("barrier #"), "rank {rank}: {e}");
        }
    }
}

/// Requests that were forgotten still end before it.
#[test]
fn finalize_waits_for_requests() {
    let all = on_both(3, &[("deadline", "off")], |_, comm| {
        let request = comm.ibcast(comm.alloc::<u64>(1000)?, 0)?;
        std::mem::forget(request);
        Ok(())
    });
    all.into_iter().flatten().for_each(|result| result.unwrap());
}

#[test]
fn an_operator_that_calls_into_its_world_gets_an_error() {
    for algorithm in [None, Some("doubling")] {
        let all = on_both(3, &[("deadline", "20")], |_, comm| {
            let (inner, within) = (Arc::new(Mutex::new(None)), comm.clone());
            let found = Arc::clone(&inner);
            let sum = move |a: u64, b: u64| {
                *found.lock().unwrap() = Some(within.barrier().expect_err("the world is in a reduction"));
                a + b
            };
            let mut data = [1u64; 5];
            let options = Options::new().algorithm(algorithm);
            comm.with(options).allreduce(InPlace, &mut data, ops::user("nested", true, sum))?;
            assert_eq!(data, [3; 5]);
            // The world goes on.
            comm.barrier()?;
            let found = inner.lock().unwrap().clone();
            Ok(found)
        });
        let errors: Vec<_> = all.into_iter().flatten().filter_map(|result| result.unwrap()).collect();
        assert!(!errors.is_empty());
        for e in errors {
            assert_eq!(e.kind(), ErrorKind::Argument, "{e}");
            assert!(e.to_string().contains("an operator calls into the world"), "{e}");
        }
    }
}
