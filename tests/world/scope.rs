//! Requests on slices that are lent for a scope: however the scope ends, what was started in it has ended.
//! (All operations in it: the tests in `collectives.rs` and `traffic.rs`.)

use crate::ranks;

use circulant::comm::{Cartesian, Pending, Root, wait_all};
use circulant::launch::threads;
use circulant::transport::{Borrow, sim};
use circulant::{Communicator, Error, ErrorKind, InPlace, Result, World, ops};
use std::panic::{AssertUnwindSafe, catch_unwind};

const N: usize = 5000;

/// The body at p ranks: on wires that are lent slices, that get copies of them, and that misbehave; and on shared memory.
fn everywhere(p: usize, body: impl Fn(&Communicator) -> Result<()> + Sync) {
    let good = sim::Faults::default();
    let staged = sim::Faults { borrow: Borrow::Staged, ..good.clone() };
    let bad = sim::Faults { seed: 7, refuse: 60, delay: 5, reorder: true, max_put: 1000, ..good.clone() };
    for faults in [good, staged, bad] {
        ranks::run(p, &faults, &[], |_, comm| body(comm)).into_iter().for_each(|result| result.unwrap());
    }
    let shared = ranks::run_shared(p, &[("deadline", "20")], |_, comm| body(comm));
    shared.into_iter().for_each(|result| result.unwrap());
}

/// What each rank contributes, and its sum over all.
fn terms(comm: &Communicator) -> (Vec<u64>, u64) {
    let p = comm.size() as u64;
    (vec![comm.rank() as u64 + 1; N], p * (p + 1) / 2)
}

#[test]
fn what_is_waited_for_comes_back() {
    for p in [1, 2, 5] {
        everywhere(p, |comm| {
            let (mine, sum) = terms(comm);
            let mut total = vec![0; N];
            let mut word = [comm.rank() as u64; 3];
            comm.scope(|s| {
                let (reducing, telling) =
                    (s.iallreduce(&mine, &mut total, ops::Sum)?, s.ibcast(&mut word, p - 1)?);
                // In any order; and the slices can be lent again.
                let word = telling.wait()?;
                assert_eq!(*word, [p as u64 - 1; 3]);
                word[0] = 77;
                let total = reducing.wait()?;
                assert!(total.iter().all(|x| *x == sum));
                let again = s.iallreduce(InPlace, total, ops::Max)?;
                assert!(again.wait()?.iter().all(|x| *x == sum));
                Ok(())
            })?;
            assert_eq!((word[0], total[N - 1]), (77, sum));
            Ok(())
        });
    }
}

#[test]
fn requests_are_tested_and_waited_for_together() {
    everywhere(3, |comm| {
        let (mine, sum) = terms(comm);
        let (mut total, mut all) = (vec![0; N], vec![0; 3 * N]);
        comm.scope(|s| {
            let mut reducing = s.iallreduce(&mine, &mut total, ops::Sum)?;
            let mut gathering = s.iallgather(&mine, &mut all)?;
            let mut owned = comm.ibarrier()?;
            let mut pending: [&mut dyn Pending; 3] = [&mut reducing, &mut gathering, &mut owned];
            wait_all(&mut pending)?;
            assert!(reducing.test()? && reducing.test()?);
            assert!(reducing.wait()?.iter().all(|x| *x == sum));
            assert_eq!(gathering.wait()?[2 * N], 3);
            owned.wait().map(drop)
        })
    });
}

/// A request that is dropped, leaked, or left behind by an early return or a panic has finished when the scope has.
#[test]
fn what_is_not_waited_for_has_finished_when_the_scope_ends() {
    everywhere(4, |comm| {
        let (mine, sum) = terms(comm);
        for way in ["dropped", "leaked", "returned", "panicked"] {
            let (mut total, mut word) = (vec![0; N], vec![comm.rank(); N]);
            let scope = || {
                comm.scope(|s| {
                    let reducing = s.iallreduce(&mine, &mut total, ops::Sum)?;
                    let telling = s.ibcast(&mut word, 2)?;
                    match way {
                        "leaked" => _ = Box::leak(Box::new((reducing, telling))),
                        "returned" => return Err(Error::new(ErrorKind::System, "something else")),
                        "panicked" => std::panic::resume_unwind(Box::new("in the scope")),
                        _ => drop((reducing, telling)),
                    }
                    Ok(())
                })
            };
            match (way, catch_unwind(AssertUnwindSafe(scope))) {
                ("panicked", Err(payload)) => assert_eq!(payload.downcast_ref(), Some(&"in the scope")),
                ("returned", Ok(Err(e))) => assert_eq!(e.message(), "something else"),
                (_, Ok(Ok(()))) => {}
                (_, other) => panic!("{way}: {:?}", other.map_err(drop)),
            }
            assert!(total.iter().all(|x| *x == sum) && word.iter().all(|x| *x == 2), "{way}");
            // Their memory is theirs alone, and the world goes on.
            total.fill(9);
            word.fill(9);
            comm.barrier()?;
            assert!(total.iter().all(|x| *x == 9) && word.iter().all(|x| *x == 9), "{way}");
        }
        Ok(())
    });
}

/// One that was not waited for fails: the scope says so, and what was lent is not touched any more.
#[test]
fn an_error_at_a_peer_ends_the_scope() {
    for borrow in [Borrow::Direct, Borrow::Staged] {
        let faults = sim::Faults { borrow, delay: 3, ..sim::Faults::default() };
        let all = ranks::run(4, &faults, &[], |_, comm| {
            let (mut word, mut total) = (vec![1u64; N], vec![1u64; N]);
            let result = comm.scope(|s| {
                // Rank 3 makes another call, with a root that does not exist.
                if comm.rank() == 3 {
                    return s.ibcast(&mut word, 9)?.wait().map(drop);
                }
                let (telling, reducing) =
                    (s.ibcast(&mut word, 0)?, s.iallreduce(InPlace, &mut total, ops::Sum)?);
                Box::leak(Box::new((telling, reducing)));
                Ok(())
            });
            let e = result.unwrap_err();
            word.fill(9);
            total.fill(9);
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(word.iter().chain(&total).all(|x| *x == 9), "written to after the scope");
            // Nothing starts any more.
            let mut word = [0u8];
            comm.scope(|s| s.ibcast(&mut word, 0)?.wait().map(drop)).unwrap_err();
            Err::<(), _>(e)
        });
        for result in all {
            let e = result.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Argument, "{e}");
            assert!(e.to_string().contains("root 9 is out of range"), "{e}");
        }
    }
}

/// A request that has failed does not give its slice back as if it had not, however often it is asked.
#[test]
fn a_request_that_has_failed_stays_so() {
    let all = ranks::run(2, &sim::Faults::default(), &[("deadline", "0.2")], |_, comm| {
        if comm.rank() == 1 {
            return comm.bcast(&mut [0u8], 5);
        }
        let mut word = vec![0u8; N];
        let mut owned = comm.ibcast(comm.alloc::<u8>(N)?, 0)?;
        comm.scope(|s| {
            let mut lent = s.iallreduce(InPlace, &mut word, ops::Max)?;
            while lent.test().is_ok() {
                std::thread::yield_now();
            }
            owned.test().unwrap_err();
            lent.test().unwrap_err();
            lent.wait().map(drop)
        })
        .unwrap_err();
        owned.wait().map(drop)
    });
    all.into_iter().for_each(|result| assert!(result.is_err()));
}

#[test]
fn neighbours_and_groups_have_scopes() {
    everywhere(4, |comm| {
        let (r, p) = (comm.rank(), comm.size());
        let ring = comm.cartesian(&Cartesian::new(&[p], &[true])?)?;
        let (mine, mut two, mut field) = ([r; 2], [0; 2], [9, r, r, 9]);
        ring.scope(|s| {
            let turning = s.ineighbor_alltoall(&mine, &mut two)?;
            let halo = s.ineighbor_alltoallv(InPlace, (&[1, 1], &[1, 2]), &mut field, (&[1, 1], &[0, 3]))?;
            assert_eq!(*halo.wait()?, [(r + p - 1) % p, r, r, (r + 1) % p]);
            turning.wait().map(drop)
        })?;
        assert_eq!(two, [(r + p - 1) % p, (r + 1) % p]);

        let all = comm.group();
        let (low, high) = (all.include(&[0, 1])?, all.include(&[2, 3])?);
        let inter = comm.create_inter(&low, &high)?.unwrap();
        let (mut theirs, mut word) = ([0; 2], [r]);
        inter.scope(|s| {
            let gathering = s.iallgather(&mine[..1], &mut theirs)?;
            s.ibcast(&mut word, if r < 2 { Root::Here(1) } else { Root::There(1) })?.wait()?;
            gathering.wait().map(drop)
        })?;
        assert_eq!(theirs, if r < 2 { [2, 3] } else { [0, 1] });
        assert_eq!(word, [if r == 0 { 0 } else { 1 }]);
        Ok(())
    });
}

/// Scopes of several communicators of one world, one in another and one in another thread: each ends what it has started.
#[test]
fn scopes_nest_and_run_beside_each_other() {
    everywhere(4, |comm| {
        let (mine, sum) = terms(comm);
        let (inside, beside) = (comm.dup()?, comm.dup()?);
        let (mut outer, mut inner, mut other) = (vec![0; N], vec![0; N], vec![0; N]);
        comm.scope(|s| {
            let first = s.iallreduce(&mine, &mut outer, ops::Sum)?;
            std::thread::scope(|threads| {
                let other = threads.spawn(|| {
                    beside.scope(|s| {
                        Box::leak(Box::new(s.iallreduce(&mine, &mut other, ops::Sum)?));
                        Ok(())
                    })
                });
                inside.scope(|s| {
                    Box::leak(Box::new(s.iallreduce(&mine, &mut inner, ops::Sum)?));
                    Ok(())
                })?;
                other.join().unwrap()
            })?;
            assert!(inner.iter().chain(&other).all(|x| *x == sum));
            first.wait().map(drop)
        })?;
        assert!(outer.iter().all(|x| *x == sum));
        Ok(())
    });
}

/// A world may be dropped or finalized while a scope lends memory to it: none of it is touched after the scope.
#[test]
fn a_world_may_end_inside_a_scope() {
    for finalizes in [false, true] {
        std::thread::scope(|threads| {
            for launch in threads::group(3) {
                threads.spawn(move || {
                    let world = World::builder().launch(launch).set("provider", "shm").set("deadline", "20");
                    let world = world.init().unwrap();
                    let comm = world.comm();
                    let mut total = vec![1u64; N];
                    let result = comm.scope(|s| {
                        Box::leak(Box::new(s.iallreduce(InPlace, &mut total, ops::Sum)?));
                        if finalizes {
                            return world.finalize();
                        }
                        drop(world);
                        Ok(())
                    });
                    total.fill(9);
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    assert!(total.iter().all(|x| *x == 9), "written to after the scope: {result:?}");
                    comm.scope(|s| s.ibarrier()?.wait().map(drop)).unwrap_err();
                });
            }
        });
    }
}
