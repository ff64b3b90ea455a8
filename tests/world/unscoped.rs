//! Calls on memory for which the caller vouches: what no lifetime ends, ends with the request.
//! (All operations: the tests in `collectives.rs`.)

use crate::ranks;

use circulant::comm::{Cartesian, Pending, Root, UnscopedPersistent, UnscopedRequest, wait_all};
use circulant::transport::{Borrow, sim};
use circulant::{ErrorKind, InPlace, ops};

const N: usize = 5000;

/// A wire that is lent slices, and one that is lent copies.
fn wires() -> [sim::Faults; 2] {
    [Borrow::Direct, Borrow::Staged].map(|borrow| sim::Faults { borrow, delay: 3, ..sim::Faults::default() })
}

/// Memory that outlives every test.
fn memory(value: u64) -> *mut [u64] {
    Box::leak(vec![value; N].into_boxed_slice())
}

/// When a request has ended its memory is the caller's: also after an error, and for good.
#[test]
fn an_error_ends_a_request() {
    for faults in wires() {
        let all = ranks::run(4, &faults, &[], |_, comm| {
            let (word, total) = (memory(1), memory(1));
            // SAFETY: there for good, and not used before `wait` has returned, or the request was dropped.
            let (lent, kept) = unsafe { (&mut *word, &mut *total) };
            if comm.rank() == 3 {
                // SAFETY: as above.
                return unsafe { comm.unscoped().ibcast(lent, 9).map(drop) };
            }
            // SAFETY: as above.
            let (telling, reducing) = unsafe {
                (comm.unscoped().ibcast(lent, 0)?, comm.unscoped().allreduce_init(InPlace, kept, ops::Sum))
            };
            // A broadcast that was sent before the error came has finished; what follows has not.
            let result = telling.wait().and_then(move |()| {
                let mut reducing = reducing?;
                reducing.start()?;
                reducing.wait()
            });
            let e = result.unwrap_err();
            // SAFETY: all has ended.
            let (word, total) = unsafe { (&mut *word, &mut *total) };
            word.fill(9);
            total.fill(9);
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(word.iter().chain(&*total).all(|x| *x == 9), "written to after the end");
            Err::<(), _>(e)
        });
        for result in all {
            let e = result.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Argument, "{e}");
            assert!(e.to_string().contains("root 9 is out of range"), "{e}");
        }
    }
}

/// A request that has failed says so however often it is asked; one that has finished is finished.
#[test]
fn requests_say_again_what_they_said() {
    let all = ranks::run(2, &sim::Faults::default(), &[("deadline", "0.2")], |_, comm| {
        let memory = memory(comm.rank() as u64);
        // SAFETY: there for good, and not used while a request is under way.
        let mut request = unsafe { comm.unscoped().ibcast(&mut *memory, 1)? };
        while !request.test()? {}
        assert!(request.test()? && request.test()?);
        // SAFETY: it has finished.
        unsafe { (*memory).iter().for_each(|x| assert_eq!(*x, 1)) };
        request.wait()?;
        if comm.rank() == 1 {
            return comm.bcast(&mut [0u8], 5);
        }
        // SAFETY: as above.
        let mut request = unsafe { comm.unscoped().iallreduce(InPlace, &mut *memory, ops::Max)? };
        while request.test().is_ok() {
            std::thread::yield_now();
        }
        request.test().unwrap_err();
        request.wait()
    });
    all.into_iter().for_each(|result| assert!(result.is_err()));
}

/// A request that one thread has begun another one waits for, among others.
#[test]
fn requests_go_from_thread_to_thread() {
    for faults in wires() {
        let all = ranks::run(3, &faults, &[], |_, comm| {
            let (p, memory) = (comm.size() as u64, memory(comm.rank() as u64 + 1));
            // SAFETY: there for good, and not used while a request is under way.
            let mut request = unsafe { comm.unscoped().iallreduce(InPlace, &mut *memory, ops::Sum)? };
            let mut barrier = comm.ibarrier()?;
            std::thread::scope(|threads| {
                threads
                    .spawn(|| wait_all(&mut [&mut barrier as &mut dyn Pending, &mut request]))
                    .join()
                    .unwrap()
            })?;
            // SAFETY: it has finished.
            assert!(unsafe { (*memory).iter().all(|x| *x == p * (p + 1) / 2) });
            Ok(())
        });
        all.into_iter().for_each(|result| result.unwrap());
    }
    fn sent<T: Send>() {}
    sent::<UnscopedPersistent>();
    sent::<UnscopedRequest>();
}

#[test]
fn a_persistent_operation_is_started_once_at_a_time() {
    let all = ranks::run(2, &sim::Faults::default(), &[], |_, comm| {
        let memory = memory(7);
        // SAFETY: there for good, and not used while a run is under way.
        let mut often = unsafe { comm.unscoped().bcast_init(&mut *memory, 0)? };
        assert!(often.test()?);
        often.wait()?;
        often.start()?;
        assert!(often.start().unwrap_err().to_string().contains("started twice"));
        often.wait()?;
        often.wait()?;
        assert!(often.test()?);
        Ok(())
    });
    all.into_iter().for_each(|result| result.unwrap());
}

/// What is sent is what stands there when a run starts, and after a run the memory is the caller's, also when the operation is dropped.
#[test]
fn each_start_takes_what_stands_there() {
    for faults in wires() {
        let all = ranks::run(3, &faults, &[], |_, comm| {
            let (mine, sum) = (memory(0), memory(9));
            // SAFETY: both are there for good, different ones, and not used while a run is under way.
            let mut often = unsafe { comm.unscoped().allreduce_init(&*mine, &mut *sum, ops::Sum)? };
            for turn in 1..=3 {
                // SAFETY: no run is under way.
                unsafe { (*mine).fill(turn) };
                often.start()?;
                often.wait()?;
                // SAFETY: as above.
                let sum = unsafe { &mut *sum };
                assert!(sum.iter().all(|x| *x == 3 * turn), "turn {turn}");
                sum.fill(7);
            }
            drop(often);
            // SAFETY: as above.
            assert!(unsafe { (*sum).iter().all(|x| *x == 7) });
            Ok(())
        });
        all.into_iter().for_each(|result| result.unwrap());
    }
}

#[test]
fn neighbours_and_groups_have_them() {
    for faults in wires() {
        let all = ranks::run(4, &faults, &[], |_, comm| {
            let (r, p) = (comm.rank(), comm.size());
            let ring = comm.cartesian(&Cartesian::new(&[p], &[true])?)?;
            let (mine, mut two) = ([r; 2], [0; 2]);
            // SAFETY: both are there until it is dropped, and are not used while a run is under way.
            let mut turning = unsafe { ring.unscoped().neighbor_alltoall_init(&mine, &mut two)? };
            turning.start()?;
            turning.wait()?;
            drop(turning);
            assert_eq!(two, [(r + p - 1) % p, (r + 1) % p]);

            let all = comm.group();
            let (low, high) = (all.include(&[0, 1])?, all.include(&[2, 3])?);
            let inter = comm.create_inter(&low, &high)?.unwrap();
            let mut word = [r];
            // SAFETY: it is there until `wait` returns, and not used before.
            let telling = unsafe {
                inter.unscoped().ibcast(&mut word, if r < 2 { Root::Here(1) } else { Root::There(1) })?
            };
            telling.wait()?;
            assert_eq!(word, [if r == 0 { 0 } else { 1 }]);
            Ok(())
        });
        all.into_iter().for_each(|result| result.unwrap());
    }
}
