//! Reductions of bytes, whose elements only the reducer knows. (By all algorithms and kinds of calls: `collectives.rs`.)

use crate::collective::element::raw;
use crate::ranks;

use circulant::ops::{self, Op, Reducer, Type, reducer};
use circulant::transport::{Borrow, sim};
use circulant::{Communicator, ErrorKind, InPlace, Result};
use std::alloc::Layout;

const ELEMENT: usize = 12;

/// On wires that are lent slices, that get copies of them, and that misbehave; and on shared memory, where short calls go
/// through slots.
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

/// What `rank` contributes: `n` elements.
fn given(rank: usize, n: usize) -> Vec<u8> {
    (0..n * ELEMENT).map(|i| (rank * 31 + i * 7 + i / 5) as u8 | 1).collect()
}

/// The contributions of these ranks, combined in their order.
fn combined(ranks: std::ops::Range<usize>, n: usize) -> Vec<u8> {
    let mut all = given(ranks.start, n);
    for rank in ranks.skip(1) {
        raw().reduce(&mut all, &given(rank, n), ops::Side::SourceRight).unwrap();
    }
    all
}

/// Memory whose slice from `offset` on, of `len` bytes, no alignment fits.
struct Odd(Vec<u8>, usize);

impl Odd {
    fn new(content: &[u8]) -> Self {
        let mut memory = vec![0; content.len() + 2];
        let offset = 1 + memory.as_ptr().addr() % 2;
        memory[offset..][..content.len()].copy_from_slice(content);
        Self(memory, offset)
    }

    fn slice(&mut self) -> &mut [u8] {
        let end = self.1 + self.0.len() - 2;
        &mut self.0[self.1..end]
    }
}

#[test]
fn slices_of_any_alignment_are_combined_in_rank_order() {
    for p in [1, 2, 5] {
        everywhere(p, |comm| {
            let (r, by) = (comm.rank(), raw().on_bytes());
            // By slots, by eager messages, by rendezvous.
            for n in [1, 100, 3000] {
                let len = n * ELEMENT;
                let mut mine = Odd::new(&given(r, n));
                let mut all = Odd::new(&vec![9; len]);
                comm.allreduce(&*mine.slice(), all.slice(), &by)?;
                assert_eq!(all.slice(), combined(0..p, n), "allreduce of {n} at {r} of {p}");
                let mut place = Odd::new(&given(r, n));
                comm.allreduce(InPlace, place.slice(), &by)?;
                assert_eq!(place.slice(), combined(0..p, n), "allreduce in place");
                let mut place = Odd::new(&given(r, n));
                if r == p - 1 {
                    comm.reduce(InPlace, place.slice(), &by, p - 1)?;
                    assert_eq!(place.slice(), combined(0..p, n), "reduce in place");
                } else {
                    comm.reduce(&*place.slice(), &mut [], &by, p - 1)?;
                }
                comm.scan(&*mine.slice(), all.slice(), &by)?;
                assert_eq!(all.slice(), combined(0..r + 1, n), "scan");
                comm.exscan(&*mine.slice(), all.slice(), &by)?;
                if r > 0 {
                    assert_eq!(all.slice(), combined(0..r, n), "exscan");
                }
                scattered(comm, n)?;
                comm.scope(|s| {
                    let sum = s.iallreduce(&*mine.slice(), all.slice(), &by)?.wait()?;
                    assert_eq!(sum, combined(0..p, n), "iallreduce");
                    Ok(())
                })?;
            }
            Ok(())
        });
    }
}

/// Elements of `n` at each rank, and of other numbers.
fn scattered(comm: &Communicator, n: usize) -> Result<()> {
    let (r, p, by) = (comm.rank(), comm.size(), raw().on_bytes());
    let whole = combined(0..p, n * p);
    let mut mine = Odd::new(&given(r, n * p));
    let mut part = Odd::new(&vec![9; n * ELEMENT]);
    comm.reduce_scatter_block(&*mine.slice(), part.slice(), &by)?;
    assert_eq!(*part.slice(), whole[r * n * ELEMENT..][..n * ELEMENT], "reduce_scatter_block");
    // Rank 0 has what the others have one less of.
    let counts: Vec<usize> = (0..p).map(|i| if i == 0 { n + p - 1 } else { n - 1 } * ELEMENT).collect();
    let at: usize = counts[..r].iter().sum();
    let mut part = Odd::new(&vec![9; counts[r]]);
    comm.reduce_scatter(&*mine.slice(), part.slice(), &counts, &by)?;
    assert_eq!(*part.slice(), whole[at..][..counts[r]], "reduce_scatter");
    Ok(())
}

/// A rank that knows the type calls with slices of it, one that does not with bytes.
#[test]
fn bytes_and_types_meet() {
    everywhere(3, |comm| {
        for n in [2, 5000] {
            let mine = vec![comm.rank() as f64; n];
            let mut sum = vec![0.0; n];
            if comm.rank() == 1 {
                let by = reducer(Type::F64, Op::Sum)?.on_bytes();
                comm.allreduce(bytemuck::cast_slice(&mine), bytemuck::cast_slice_mut(&mut sum), by)?;
            } else {
                comm.allreduce(&mine, &mut sum, ops::Sum)?;
            }
            assert_eq!(sum, vec![3.0; n]);
        }
        Ok(())
    });
}

/// Bytes that are no whole number of elements are refused by every call, at once and at every rank: nothing has moved.
#[test]
fn parts_of_elements_are_refused_before_data_moves() {
    type Call = fn(&Communicator, &[u8], &mut [u8]) -> Result<()>;
    let calls: [(&str, Call); 14] = [
        ("reduce", |c, x, out| c.reduce(x, out, raw().on_bytes(), 0)),
        ("reduce in place", |c, x, out| match c.rank() {
            0 => c.reduce(InPlace, out, raw().on_bytes(), 0),
            _ => c.reduce(x, out, raw().on_bytes(), 0),
        }),
        ("allreduce", |c, x, out| c.allreduce(x, out, raw().on_bytes())),
        ("scan", |c, x, out| c.scan(x, out, raw().on_bytes())),
        ("exscan", |c, x, out| c.exscan(x, out, raw().on_bytes())),
        ("reduce_scatter_block", |c, x, out| {
            c.reduce_scatter_block(&x.repeat(c.size()), out, raw().on_bytes())
        }),
        // 39 bytes in place: 13 for each of three.
        ("reduce_scatter_block in place", |c, x, out| {
            let mut all = x.repeat(c.size());
            let done = c.reduce_scatter_block(InPlace, &mut all, raw().on_bytes());
            out.copy_from_slice(&vec![if all == x.repeat(c.size()) { 9 } else { 0 }; out.len()]);
            done
        }),
        ("reduce_scatter", |c, x, out| {
            c.reduce_scatter(&x.repeat(c.size()), out, &vec![x.len(); c.size()], raw().on_bytes())
        }),
        ("iallreduce", |c, x, _| {
            c.iallreduce(c.alloc_from(x)?, c.alloc(x.len())?, raw().on_bytes())?.wait().map(drop)
        }),
        ("ireduce", |c, x, _| {
            c.ireduce(c.alloc_from(x)?, c.alloc(x.len())?, raw().on_bytes(), 0)?.wait().map(drop)
        }),
        ("scan_init", |c, x, _| c.scan_init(c.alloc_from(x)?, c.alloc(x.len())?, raw().on_bytes()).map(drop)),
        ("reduce_scatter_init", |c, x, _| {
            let (all, counts) = (c.alloc_from(&x.repeat(c.size()))?, vec![x.len(); c.size()]);
            c.reduce_scatter_init(all, c.alloc(x.len())?, &counts, raw().on_bytes()).map(drop)
        }),
        ("iallreduce in a scope", |c, x, out| {
            c.scope(|s| s.iallreduce(x, out, raw().on_bytes())?.wait().map(drop))
        }),
        ("iexscan in a scope", |c, x, out| {
            c.scope(|s| s.iexscan(x, out, raw().on_bytes())?.wait().map(drop))
        }),
    ];
    for (name, call) in calls {
        let body = |comm: &Communicator| {
            let (x, mut out) = ([1u8; 13], [9u8; 13]);
            let e = call(comm, &x, &mut out).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Argument, "{name}: {e}");
            let text = e.to_string();
            assert!(
                text.contains("13 bytes are no whole number of raw elements (12 bytes each)"),
                "{name}: {e}"
            );
            assert_eq!(out, [9; 13], "{name}");
            Err::<(), _>(e)
        };
        let all = ranks::run(3, &sim::Faults::default(), &[], |_, comm| body(comm));
        let shared = ranks::run_shared(3, &[("deadline", "20")], |_, comm| body(comm));
        assert!(all.iter().chain(&shared).all(Result::is_err), "{name}");
    }
}

/// Raw operators are the same by name, size, alignment and flag.
#[test]
fn raw_operators_that_differ_are_found_out() {
    let make = |name: &str, size, align, commutative| {
        Reducer::raw(name, Layout::from_size_align(size, align).unwrap(), commutative, |_, _| ()).unwrap()
    };
    let odd = [make("b", 8, 8, true), make("a", 4, 4, true), make("a", 8, 4, true), make("a", 8, 8, false)];
    for other in odd {
        for len in [8, 80_000] {
            let body = |comm: &Communicator| {
                let by = if comm.rank() == 1 { other.clone() } else { make("a", 8, 8, true) };
                comm.allreduce(InPlace, &mut vec![1; len], by.on_bytes())?;
                comm.barrier()
            };
            for result in ranks::run_shared(3, &[("deadline", "5")], |_, comm| body(comm)) {
                let e = result.unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Mismatch, "{other:?}, {len} bytes: {e}");
            }
        }
    }
}

#[test]
fn a_raw_operator_that_panics_is_an_error_everywhere() {
    for len in [1, 100_000] {
        let all = ranks::run_shared(3, &[("deadline", "5")], |_, comm| {
            let by = Reducer::raw("explode", Layout::new::<u8>(), true, |_, _| panic!("boom"))?;
            comm.allreduce(InPlace, &mut vec![1; len], by.on_bytes())?;
            comm.barrier()
        });
        for result in all {
            let e = result.unwrap_err();
            assert!(e.to_string().contains("the operator explode panicked: boom"), "{e}");
        }
    }
}
