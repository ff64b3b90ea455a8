//! What is there for convenience: single values, registered copies, both buffers of a persistent operation.

use crate::ranks;

use circulant::bytemuck::{Pod, Zeroable};
use circulant::transport::sim;
use circulant::{ErrorKind, InPlace, ops};

/// A type of a user, made with the `bytemuck` that is re-exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Zeroable, Pod)]
#[bytemuck(crate = "circulant::bytemuck")]
#[repr(C)]
struct Pair {
    key: u32,
    weight: f32,
}

#[test]
fn one_element_of_each_rank_goes_as_a_value() {
    for p in [1, 2, 5] {
        let all = ranks::run(p, &sim::Faults::default(), &[], |_, comm| {
            let (r, p) = (comm.rank(), comm.size());
            let last = p - 1;
            assert_eq!(comm.bcast_one(r as u64, last)?, last as u64);
            assert_eq!(comm.allreduce_one(r + 1, ops::Sum)?, p * (p + 1) / 2);
            assert_eq!(comm.reduce_one(r as i32, ops::Max, 0)?, (r == 0).then_some(last as i32));
            assert_eq!(comm.scan_one(2u8, ops::Sum)?, 2 * (r as u8 + 1));
            assert_eq!(comm.exscan_one(2.0, ops::Sum)?, (r > 0).then_some(2.0 * r as f64));
            let squares: Vec<u32> = (0..p as u32).map(|r| r * r).collect();
            assert_eq!(comm.allgather_one((r * r) as u32)?, squares);
            assert_eq!(comm.gather_one((r * r) as u32, last)?, (r == last).then(|| squares.clone()));
            let send = if r == last { &squares[..] } else { &[] };
            assert_eq!(comm.scatter_one(send, last)?, (r * r) as u32);
            let pair = Pair { key: 7, weight: 0.5 };
            assert_eq!(comm.bcast_one(if r == 0 { pair } else { Pair::default() }, 0)?, pair);
            Ok(())
        });
        all.into_iter().for_each(|result| result.unwrap());
    }
}

/// Of `bool` and `char` some bytes are no value: what arrives is checked, and a result that is none is an error.
#[test]
fn what_is_no_value_of_its_type_is_an_error() {
    let all = ranks::run(4, &sim::Faults::default(), &[], |_, comm| {
        let r = comm.rank();
        assert!(comm.allreduce_one(r < 4, ops::Land)?);
        assert!(!comm.allreduce_one(r == 2, ops::Land)?);
        assert!(comm.allreduce_one(r == 2, ops::Lor)?);
        assert_eq!(comm.allgather_one(r == 1)?, [false, true, false, false]);
        assert_eq!(comm.bcast_one(if r == 3 { 'ß' } else { 'x' }, 3)?, 'ß');
        let e = comm.allreduce_one(true, ops::Sum).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Argument, "{e}");
        assert!(e.to_string().contains("the result, bytes 04, is no value of type bool"), "{e}");
        comm.barrier()
    });
    all.into_iter().for_each(|result| result.unwrap());
}

#[test]
fn a_persistent_operation_gives_both_buffers() {
    let all = ranks::run(3, &sim::Faults::default(), &[], |_, comm| {
        let r = comm.rank() as u64;
        let mut turn = comm.allgather_init(comm.alloc_from(&[r])?, comm.alloc(3)?)?;
        for round in 0..4 {
            turn.start()?;
            // What is sent is ours to read, the rest is not ours to touch.
            assert_eq!(turn.input_ref()?, [r + 3 * round]);
            turn.buffers().unwrap_err();
            turn.wait()?;
            let (old, new) = turn.buffers()?;
            assert_eq!(new, [3 * round, 1 + 3 * round, 2 + 3 * round]);
            old[0] = new[comm.rank()] + 3;
        }
        let mut sum = comm.allreduce_init(InPlace, comm.alloc_from(&[1u32])?, ops::Sum)?;
        sum.start()?;
        assert_eq!(sum.input_ref().unwrap_err().kind(), ErrorKind::Argument);
        sum.wait()?;
        assert_eq!(sum.input_ref()?, [3]);
        let (nothing, both) = sum.buffers()?;
        assert_eq!((nothing.len(), &*both), (0, &[3][..]));
        Ok(())
    });
    all.into_iter().for_each(|result| result.unwrap());
}
