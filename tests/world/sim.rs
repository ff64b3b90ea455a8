//! The real engine on the simulated wire: ranks as threads, faults on request.

use crate::exercise;
use crate::ranks;

use circulant::transport::{Borrow, sim};
use circulant::{Communicator, ErrorKind, Options, World};
use exercise::{exercise, value};
use ranks::{run, run_wired};
use std::time::Duration;

#[test]
fn a_good_wire() {
    for p in [1, 2, 3, 5, 8, 9, 17] {
        for r in run(p, &sim::Faults::default(), &[], |_, comm| exercise(comm, 1)) {
            r.unwrap();
        }
    }
}

#[test]
fn a_wire_that_refuses_delays_and_reorders() {
    for seed in 1..=4u64 {
        println!("seed {seed}");
        for (borrow, max_put, gather, light) in [
            (Borrow::Direct, 1 << 20, 1, "0"),
            (Borrow::Staged, 100, 4, "64"),
            (Borrow::Direct, 1000, 8, "4K"),
            (Borrow::Direct, 1000, 1, "200"),
        ] {
            let faults = sim::Faults {
                seed,
                refuse: 60,
                delay: 5,
                reorder: true,
                max_put,
                gather,
                borrow,
                ..sim::Faults::default()
            };
            for p in [2, 5, 8] {
                for r in
                    run(p, &faults, &[("light", light), ("window", "3000")], |_, comm| exercise(comm, seed))
                {
                    r.unwrap();
                }
            }
        }
    }
}

#[test]
fn persistent_operations_repeat() {
    let faults = sim::Faults { seed: 5, refuse: 30, delay: 3, reorder: true, ..sim::Faults::default() };
    for p in [1, 2, 3, 8] {
        let results = run(p, &faults, &[("adapt", "off")], |world, comm| {
            let (r, n) = (comm.rank(), 5000);
            let mut bcast = comm.bcast_init(comm.alloc::<u32>(n)?, p - 1)?;
            let counts: Vec<usize> = (0..p).map(|j| 100 * j).collect();
            let displs: Vec<usize> = (0..p).map(|j| 50 * j * j.saturating_sub(1)).collect();
            let total = counts.iter().sum();
            let mut gather = comm.allgatherv_init(
                comm.alloc::<u32>(counts[r])?,
                comm.alloc::<u32>(total)?,
                (&counts, &displs),
            )?;
            let planned = bcast.planned();
            for round in 0..10usize {
                if r == p - 1 {
                    bcast.input()?.iter_mut().enumerate().for_each(|(i, x)| *x = value(round, i));
                }
                gather.input()?.fill(value(r, round));
                let before = world.stats();
                bcast.start()?;
                assert!(bcast.output().is_err(), "a running buffer must not be touched");
                bcast.wait()?;
                let puts = world.stats().puts - before.puts;
                assert_eq!(puts, planned.puts, "puts are those of the plan");
                assert!(bcast.output()?.iter().enumerate().all(|(i, x)| *x == value(round, i)));
                gather.start()?;
                bcast.start()?;
                gather.wait()?;
                bcast.wait()?;
                for j in 0..p {
                    assert!(gather.output()?[displs[j]..][..counts[j]].iter().all(|x| *x == value(j, round)));
                }
            }
            Ok(planned)
        });
        let planned: Vec<_> = results.into_iter().map(|r| r.unwrap()).collect();
        let sent: u64 = planned.iter().map(|p| p.put_bytes).sum();
        assert_eq!(sent, 20_000 * (p as u64 - 1), "every rank but the root gets every byte once");
    }
}

#[test]
fn disagreement_is_named_on_every_rank() {
    // Another root, another length, another operation: each is found before data moves.
    for case in 0..3 {
        let results = run(5, &sim::Faults::default(), &[], |_, comm| {
            let odd = comm.rank() == 3;
            let mut buf = vec![1u8; if odd && case == 1 { 999 } else { 1000 }];
            match case {
                0 => comm.bcast(&mut buf, if odd { 1 } else { 0 }),
                2 if odd => comm.barrier(),
                _ => comm.bcast(&mut buf, 0),
            }
        });
        for (rank, r) in results.into_iter().enumerate() {
            let e = r.unwrap_err();
            assert_eq!(e.kind(), circulant::ErrorKind::Mismatch, "case {case}, rank {rank}: {e}");
            assert!(e.to_string().contains("rank 3"), "case {case}, rank {rank}: {e}");
        }
    }
}

#[test]
fn two_roots_find_each_other_out() {
    let results = run(2, &sim::Faults::default(), &[("deadline", "3")], |_, comm| {
        comm.bcast(&mut [1u8; 1000], comm.rank())
    });
    for r in results {
        let e = r.unwrap_err();
        assert_eq!(e.kind(), circulant::ErrorKind::Mismatch, "{e}");
        assert!(e.to_string().contains("with other arguments"), "{e}");
    }
}

#[test]
fn bad_arguments_reach_every_rank() {
    let results = run(4, &sim::Faults::default(), &[], |_, comm| {
        let root = if comm.rank() == 2 { 9 } else { 0 };
        comm.bcast(&mut [0u8; 100], root)
    });
    for r in results {
        let e = r.unwrap_err();
        assert!(e.to_string().contains("root 9 is out of range"), "{e}");
        assert_eq!(e.kind(), circulant::ErrorKind::Argument);
    }
    let results = run(3, &sim::Faults::default(), &[], |_, comm| {
        let (counts, displs) = ([4, 4, 4], [0, 3, 8]);
        comm.allgatherv(&[0u8; 4], &mut [0u8; 12], (&counts, &displs))
    });
    for r in results {
        assert!(r.unwrap_err().to_string().contains("overlap"));
    }
    let results = run(3, &sim::Faults::default(), &[], |_, comm| {
        comm.allgatherv(&[0u8; 4], &mut [0u8; 11], &[4, 4, 4])
    });
    for r in results {
        assert!(r.unwrap_err().to_string().contains("do not fit into recv"));
    }
}

#[test]
fn a_dead_rank_is_named() {
    for deaths_show in [true, false] {
        let faults = sim::Faults { deaths_show, virtual_time: true, ..sim::Faults::default() };
        let results = run_wired(vec![0; 6], &faults, &[("deadline", "2")], |_, comm, net| {
            let mut buf = vec![0u8; 100_000];
            comm.bcast(&mut buf, 0)?;
            if comm.rank() == 4 {
                net.kill(4);
                // Keeps its thread: the launcher must not see it leave.
                net.sleep(4, Duration::from_secs(4));
            }
            for _ in 0..3 {
                comm.bcast(&mut buf, 0)?;
                comm.barrier()?;
            }
            Ok(())
        });
        for (rank, r) in results.into_iter().enumerate() {
            let e = r.unwrap_err();
            if rank != 4 {
                assert_eq!(e.peer(), Some(4), "rank {rank}, deaths show: {deaths_show}: {e}");
                assert!(e.to_string().contains("rank 4"), "{e}");
            }
        }
    }
}

#[test]
fn a_rank_elsewhere_is_named_with_what_it_does() {
    let faults = sim::Faults { virtual_time: true, ..sim::Faults::default() };
    let results = run_wired(vec![0; 4], &faults, &[("deadline", "20")], |_, comm, net| {
        if comm.rank() == 2 {
            // Computes for too long.
            net.sleep(2, Duration::from_secs(30));
        }
        comm.barrier()
    });
    let texts: Vec<String> = results.into_iter().map(|r| r.unwrap_err().to_string()).collect();
    assert!(texts.iter().all(|t| t.contains("rank 2")), "{texts:#?}");
    assert!(texts.iter().all(|t| t.contains("barrier #")), "{texts:#?}");
}

#[test]
fn a_silent_rank_that_another_one_waits_for_is_named() {
    let faults = sim::Faults { virtual_time: true, ..sim::Faults::default() };
    let results = run_wired(vec![0; 4], &faults, &[("deadline", "2")], |_, comm, net| {
        let pair = comm.split(Some(i64::from(comm.rank() % 3 == 0)), 0)?.unwrap();
        // Rank 0 waits for rank 3, which waits for rank 2, which is in neither's communicator and hears nothing.
        match comm.rank() {
            0 => pair.barrier(),
            2 => {
                (0..4).filter(|peer| *peer != 2).for_each(|peer| net.cut(2, peer));
                net.sleep(2, Duration::from_secs(8));
                comm.barrier()
            }
            _ => comm.barrier(),
        }
    });
    for rank in [0, 1, 3] {
        let text = results[rank].as_ref().unwrap_err().to_string();
        assert!(text.contains("rank 2 does not answer"), "rank {rank}: {text}");
    }
}

#[test]
fn any_deadline_is_survived() {
    let faults = sim::Faults { virtual_time: true, ..sim::Faults::default() };
    let results = run_wired(vec![0; 3], &faults, &[], |_, comm, net| {
        let patient = comm.with(Options::new().deadline(Duration::MAX));
        if comm.rank() == 1 {
            // The others' wait begins before we come.
            net.sleep(1, Duration::from_secs(2));
        }
        patient.barrier()?;
        let hasty = comm.with(Options::new().deadline(Duration::ZERO));
        if comm.rank() == 1 {
            net.sleep(1, Duration::from_secs(2));
        }
        hasty.barrier()
    });
    assert!(results.into_iter().any(|r| r.unwrap_err().kind() == ErrorKind::Timeout));
}

/// More than a page of alignment.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8192))]
struct Wide([u8; 8192]);
// SAFETY: bytes without padding: its size is its alignment.
unsafe impl bytemuck::Zeroable for Wide {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Wide {}

#[test]
fn absurd_sizes_are_errors() {
    for r in run(2, &sim::Faults::default(), &[], |_, comm| {
        for len in [usize::MAX, usize::MAX - 4096, usize::MAX - (4 << 20), isize::MAX as usize] {
            assert!(comm.alloc::<u8>(len).is_err(), "{len}");
        }
        assert!(comm.alloc::<Wide>(1).unwrap_err().to_string().contains("8192"));
        // Elements without bytes, and a contribution of nothing at a place that does not exist.
        let nothing = [(); 3];
        comm.allgather(&nothing, &mut [(); 6])?;
        comm.bcast(&mut [(); 9], 1)?;
        let n = if comm.rank() == 0 { 2 } else { 0 };
        let mut recv = [0u64; 2];
        comm.allgatherv(&vec![7u64; n], &mut recv, (&[2, 0], &[0, usize::MAX]))?;
        assert_eq!(recv, [7, 7]);
        Ok(())
    }) {
        r.unwrap();
    }
    let results = run(2, &sim::Faults::default(), &[], |_, comm| {
        comm.allgather(&[(); usize::MAX], &mut [(); usize::MAX - 1])
    });
    for r in results {
        assert_eq!(r.unwrap_err().kind(), ErrorKind::Argument);
    }
}

#[test]
fn memory_that_cannot_be_registered_is_named_everywhere() {
    // Own chunks of the arena can be, the receive buffers cannot.
    let faults = sim::Faults { lockable: 9 << 20, ..sim::Faults::default() };
    let results = run(3, &faults, &[("deadline", "5")], |_, comm| {
        let mut recv = vec![0u8; if comm.rank() == 1 { 12 << 20 } else { 3 << 20 }];
        comm.allgather(&vec![1u8; recv.len() / 3], &mut recv)
    });
    for r in results {
        let e = r.unwrap_err();
        assert!(e.to_string().contains("cannot register 12582912 bytes"), "{e}");
        assert!(e.to_string().contains("ulimit -l"), "the remedy travels: {e}");
        assert_eq!(e.operation(), Some(("allgather", 1)));
    }
}

#[test]
fn a_rank_that_was_away_hears_the_reason_and_later_calls_refer_to_it() {
    for deaths_refuse in [false, true] {
        let faults = sim::Faults { deaths_refuse, virtual_time: true, ..sim::Faults::default() };
        let results = run_wired(vec![0; 4], &faults, &[("deadline", "5")], |_, comm, net| {
            if comm.rank() == 3 {
                // The others have closed when it calls.
                net.sleep(3, Duration::from_secs(1));
            }
            let root = if comm.rank() == 1 { 9 } else { 0 };
            // It may have all it needs before it hears; a barrier has not.
            let first = comm.bcast(&mut [0u8; 100], root).and_then(|()| comm.barrier());
            let second = comm.barrier().unwrap_err();
            assert_eq!(second.kind(), ErrorKind::Aborted, "{second}");
            assert!(second.to_string().contains("root 9"), "{second}");
            let third = comm.bcast(&mut [0u8; 100], 17).unwrap_err();
            assert_eq!(third.kind(), ErrorKind::Aborted, "{third}");
            first
        });
        for (rank, r) in results.into_iter().enumerate() {
            let e = r.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Argument, "rank {rank}, posts refused: {deaths_refuse}: {e}");
            assert!(e.to_string().contains("root 9 is out of range"), "{e}");
        }
    }
}

#[test]
fn testing_for_ever_ends() {
    // A dead rank, or one that calls something wrong, shows also to ranks that only ask.
    for dead in [true, false] {
        let faults = sim::Faults { deaths_show: false, virtual_time: true, ..sim::Faults::default() };
        let results = run_wired(vec![0; 4], &faults, &[("deadline", "2")], |_, comm, net| {
            let mut bcast = comm.bcast_init(comm.alloc::<u8>(100_000)?, 0)?;
            if comm.rank() == 2 {
                if !dead {
                    return comm.bcast(&mut [0u8; 10], 99);
                }
                net.kill(2);
                net.sleep(2, Duration::from_secs(4));
            }
            bcast.start()?;
            let mut asked = 0;
            while !bcast.test()? {
                asked += 1;
                assert!(asked < 30_000, "no end of testing");
                net.sleep(comm.rank(), Duration::from_millis(1));
            }
            bcast.wait()?;
            comm.barrier()
        });
        for (rank, r) in results.into_iter().enumerate() {
            let e = r.unwrap_err();
            let word = if dead { "rank 2" } else { "root 99" };
            assert!(rank == 2 || e.to_string().contains(word), "rank {rank}: {e}");
        }
    }
}

#[test]
fn a_finalized_world_says_so() {
    for r in run(2, &sim::Faults::default(), &[], |_, comm| Ok(comm.clone())) {
        let comm = r.unwrap();
        let e = comm.barrier().unwrap_err();
        assert_eq!((e.kind(), e.rank()), (ErrorKind::Aborted, Some(comm.rank())), "{e}");
        assert!(e.to_string().contains("finalized"), "{e}");
        assert!(comm.bcast(&mut [0u8; 4], 7).is_err());
    }
}

#[test]
fn threads_take_turns() {
    for r in run(3, &sim::Faults::default(), &[], |_, comm| {
        // Equal calls, so any order among the threads of a rank is right.
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..50).try_for_each(|_| comm.bcast(&mut [5u8; 1000], 0))))
                .collect();
            calls.into_iter().try_for_each(|c| c.join().unwrap())
        })
    }) {
        r.unwrap();
    }
}

/// What may cross threads, checked by the compiler.
#[test]
fn handles_may_cross_threads() {
    fn send_and_sync<T: Send + Sync>() {}
    fn send<T: Send>() {}
    send_and_sync::<World>();
    send_and_sync::<Communicator>();
    send_and_sync::<circulant::Buf<u32>>();
    send_and_sync::<circulant::Error>();
    send::<circulant::comm::Persistent<u32>>();
}

#[test]
fn handles_print_short() {
    for r in run(2, &sim::Faults::default(), &[], |world, comm| {
        let big = comm.bcast_init(comm.alloc::<u8>(50_000_000)?, 0)?;
        Ok([format!("{world:?}"), format!("{comm:?}"), format!("{big:?}")])
    }) {
        for text in r.unwrap() {
            assert!(text.len() < 2000, "{} characters", text.len());
        }
    }
}

/// Where registering a slice costs more than to copy it, it is copied; not for an operation that runs many times.
#[test]
fn short_slices_are_copied_where_the_wire_says_so() {
    const LEN: usize = 20_000;
    for (copied_below, each) in [(0, 0), (LEN, 0), (LEN + 1, LEN as u64)] {
        let faults = sim::Faults { copied_below, ..sim::Faults::default() };
        let results = run(2, &faults, &[("blocks", "1")], |world, comm| {
            let mut slice = vec![comm.rank() as u8 + 1; LEN];
            comm.barrier()?;
            let before = world.stats().copied_bytes;
            // The root's goes both ways: the buffer of a broadcast is one that is received.
            let each = each * if comm.rank() == 0 { 2 } else { 1 };
            comm.bcast(&mut slice, 0)?;
            assert_eq!((world.stats().copied_bytes - before, slice[LEN - 1]), (each, 1));
            // SAFETY: the slice lives until the operation is dropped, and is left alone while a run is under way.
            let mut often = unsafe { comm.unscoped().bcast_init(&mut slice, 1)? };
            often.start()?;
            often.wait()?;
            assert_eq!(world.stats().copied_bytes - before, each);
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

#[test]
fn requests_that_were_forgotten_end_before_the_world() {
    let results = run(3, &sim::Faults { delay: 50, ..sim::Faults::default() }, &[], |_, comm| {
        let comm = comm.with(Options::new().blocks(100));
        let request = comm.ibcast(comm.alloc::<u8>(1_000_000)?, 0)?;
        if comm.rank() == 1 {
            std::mem::forget(request);
        }
        Ok(())
    });
    for r in results {
        r.unwrap();
    }
}
