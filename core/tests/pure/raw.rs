//! Operators on elements whose size is known at run time only.

use bytemuck::{cast_slice, cast_slice_mut};
use circulant_core::ErrorKind;
use circulant_core::ops::*;
use std::alloc::Layout;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// Functions x ↦ ax + b modulo 2^32 with a mark: left then right.
fn compose(f: [u32; 3], g: [u32; 3]) -> [u32; 3] {
    [f[0].wrapping_mul(g[0]), f[1].wrapping_mul(g[0]).wrapping_add(g[1]), g[2]]
}

/// The same of memory that is aligned: else the cast panics.
fn composed(left: &[u8], right: &mut [u8]) {
    assert_eq!(left.len(), right.len());
    let (left, right): (&[[u32; 3]], &mut [[u32; 3]]) = (cast_slice(left), cast_slice_mut(right));
    right.iter_mut().zip(left).for_each(|(g, f)| *g = compose(*f, *g));
}

fn raw(align: usize) -> Reducer {
    Reducer::raw("compose", Layout::from_size_align(12, align).unwrap(), false, composed).unwrap()
}

fn elements(salt: u32, n: usize) -> Vec<[u32; 3]> {
    let word = |i: usize, k: u32| (i as u32 * 3 + k + salt).wrapping_mul(0x9e37_79b9) | 1;
    (0..n).map(|i| [word(i, 0), word(i, 1), word(i, 2)]).collect()
}

/// `content` from byte `offset` of a page on, in memory of its own.
fn at(offset: usize, content: &[u8]) -> Vec<u128> {
    let mut memory = vec![0_u128; (offset + content.len()).div_ceil(16)];
    cast_slice_mut::<_, u8>(&mut memory)[offset..][..content.len()].copy_from_slice(content);
    memory
}

#[test]
fn sides_and_alignment_are_the_reducers_care() {
    let r = raw(4);
    assert_eq!((r.element(), r.commutative(), r.exact(), r.name()), (12, false, false, "compose"));
    assert_eq!(r.element_type(), Element::of::<[u32; 3]>());
    // 700 elements are more than is copied at a time.
    for n in [0, 1, 2, 700, 2500] {
        let (a, b) = (elements(1, n), elements(77, n));
        for offsets in [(0, 0), (4, 8), (0, 1), (3, 0), (2, 7)] {
            for side in [Side::SourceLeft, Side::SourceRight] {
                let (mut t, s) = (at(offsets.0, cast_slice(&a)), at(offsets.1, cast_slice(&b)));
                let target = &mut cast_slice_mut::<_, u8>(&mut t)[offsets.0..][..12 * n];
                r.reduce(target, &cast_slice::<_, u8>(&s)[offsets.1..][..12 * n], side).unwrap();
                let pairs = a.iter().zip(&b);
                let wanted: Vec<[u32; 3]> = match side {
                    Side::SourceLeft => pairs.map(|(t, s)| compose(*s, *t)).collect(),
                    Side::SourceRight => pairs.map(|(t, s)| compose(*t, *s)).collect(),
                };
                assert_eq!(target, cast_slice::<_, u8>(&wanted), "{n} at {offsets:?}, {side:?}");
            }
        }
    }
}

/// Alignments above those of numbers, and elements above what is copied at a time.
#[test]
fn any_alignment_and_size() {
    for (size, align) in [(1, 1), (6, 2), (32, 32), (4096, 4096), (20_000, 16), (20_001, 1)] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let last =
            Reducer::raw("last", Layout::from_size_align(size, align).unwrap(), false, move |left, right| {
                let aligned = |p: *const u8| p.addr().is_multiple_of(align);
                log.lock().unwrap().push((left.len(), right.len()));
                assert!(aligned(left.as_ptr()) && aligned(right.as_ptr()), "{size} bytes aligned to {align}");
            })
            .unwrap();
        let (a, b) = (vec![1; 3 * size + 1], vec![2; 3 * size + 1]);
        for (side, wanted) in [(Side::SourceLeft, 1), (Side::SourceRight, 2)] {
            for offset in [0, 1] {
                let mut target = a.clone();
                last.reduce(&mut target[offset..][..3 * size], &b[offset..][..3 * size], side).unwrap();
                assert_eq!(
                    target[offset..][..3 * size],
                    vec![wanted; 3 * size],
                    "{size}, {side:?}, {offset}"
                );
            }
        }
        let seen = seen.lock().unwrap();
        assert!(seen.iter().all(|(l, r)| l == r && l.is_multiple_of(size)));
        assert_eq!(seen.iter().map(|(l, _)| l).sum::<usize>(), 4 * 3 * size);
    }
}

#[test]
fn layouts_that_no_slice_can_have_are_refused() {
    for (size, align, says) in [
        (0, 1, "0 bytes that is aligned to 1"),
        (12, 8, "12 bytes that is aligned to 8"),
        (8192, 8192, "at most 4096"),
    ] {
        let layout = Layout::from_size_align(size, align).unwrap();
        let e = Reducer::raw("bad", layout, true, |_, _| ()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Argument);
        assert!(e.to_string().starts_with("bad: ") && e.to_string().contains(says), "{e}");
    }
}

#[test]
fn wrong_lengths_change_nothing_and_a_panic_is_an_error() {
    let r = raw(4);
    let mut memory = [7; 13];
    let e = r.reduce(&mut memory, &[7; 13], Side::SourceRight).unwrap_err().to_string();
    assert!(e.starts_with("compose: 13 bytes are no whole number of raw elements (12 bytes each)"), "{e}");
    assert_eq!(memory, [7; 13]);
    let boom = Reducer::raw("boom", Layout::new::<u8>(), true, |_, _| panic!("no")).unwrap();
    for side in [Side::SourceLeft, Side::SourceRight] {
        let e = boom.reduce(&mut [1], &[1], side).unwrap_err();
        assert!(e.to_string().starts_with("the operator boom panicked: no; "), "{e}");
    }
}

#[test]
fn fingerprints_tell_raw_operators_apart() {
    let make = |name: &str, size, align, commutative| {
        Reducer::raw(name, Layout::from_size_align(size, align).unwrap(), commutative, |_, _| ()).unwrap()
    };
    let all = [
        make("a", 8, 8, true),
        make("b", 8, 8, true),
        make("a", 16, 8, true),
        make("a", 8, 4, true),
        make("a", 8, 8, false),
        Reducer::new::<[u8; 8], _>(user("a", true, |a: [u8; 8], _| a)),
        Reducer::new::<u64, _>(user("a", true, |a: u64, _| a)),
    ];
    assert_eq!(all.iter().map(Reducer::hash).collect::<HashSet<_>>().len(), all.len());
    assert_eq!(all[0].hash(), make("a", 8, 8, true).hash());
}

/// What calls of bytes take, and calls of a type do not.
#[test]
fn on_bytes_is_for_slices_of_bytes() {
    let sum = Reducer::new::<f64, _>(Sum);
    let taken: Reducer = IntoReducer::<u8>::into_reducer(sum.on_bytes()).unwrap();
    assert_eq!((taken.hash(), taken.element_type()), (sum.hash(), Element::of::<f64>()));
    assert_eq!(IntoReducer::<u8>::into_reducer(raw(4).on_bytes()).unwrap().element(), 12);
    let e = IntoReducer::<u8>::into_reducer(&sum).unwrap_err().to_string();
    assert!(e.contains("is for f64, the elements are u8; pass its on_bytes()"), "{e}");
    let e = IntoReducer::<[u32; 3]>::into_reducer(raw(4)).unwrap_err().to_string();
    assert!(e.contains("the operator compose is for raw elements, the elements are [u32; 3]"), "{e}");
}
