//! Every collective with every algorithm on the simulated wire: a matrix that is generated from the registry, and
//! compared with a sequential reference.
//!
//! What varies: algorithm, p, type with operator, values, in place or not, kind of call, blocks, lengths, root, and how
//! the wire behaves. `cargo test` runs cases in which every pair of these meets; `ci/collectives` runs the whole:
//! `COLLECTIVES=full` in the environment. `COLLECTIVES_SEED` is for other random choices.

use crate::collective;
use crate::ranks;

use circulant::ops::{Complex, Type, bf16, f16};
use circulant::ops::{DoubleInt, F32Index, F64Index, FloatInt, I32Index, I64Index, LongInt, ShortInt};
use circulant::ops::{TwoDouble, TwoInt, TwoReal, U32Index, U64Index};
use circulant::plan::registry::{self, Algorithm, Arguments, Operation};
use circulant::transport::{Borrow, sim};
use circulant::{Communicator, Result};
use collective::cover::{Random, cover, covers};
use collective::element::{Affine, Fill, Odd};
use collective::{Case, Data, Mode, check, check_slices};
use std::time::Instant;

const SIZES: [usize; 10] = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17];
const MODES: [Mode; 8] = [
    Mode::Slices,
    Mode::Arena,
    Mode::Scoped,
    Mode::Request,
    Mode::Polled,
    Mode::Persistent,
    Mode::Unscoped,
    Mode::UnscopedPersistent,
];
const FILLS: [Fill; 3] = [Fill::Exact, Fill::Real, Fill::Special];
const BLOCKS: [Option<u32>; 4] = [None, Some(1), Some(3), Some(8)];

/// Elements per rank.
#[derive(Clone, Copy, Debug)]
enum Length {
    Elements(usize),
    /// More bytes than lowering merges into one put.
    Long,
}

const LENGTHS: [Length; 5] =
    [Length::Elements(0), Length::Elements(1), Length::Elements(7), Length::Elements(501), Length::Long];

/// How the wire behaves, and the settings of the world on it.
fn wires(seed: u64) -> [(sim::Faults, &'static [(&'static str, &'static str)]); 4] {
    let good = sim::Faults::default();
    let bad = sim::Faults { seed, refuse: 60, delay: 5, reorder: true, ..good.clone() };
    let small = sim::Faults { max_put: 1000, gather: 1, ..bad.clone() };
    let staged = sim::Faults { max_put: 5000, gather: 8, borrow: Borrow::Staged, ..bad.clone() };
    [
        (good, &[]),
        (bad, &[("light", "0")]),
        (small, &[("light", "200")]),
        (staged, &[("light", "4K"), ("window", "3000")]),
    ]
}

/// Whether these data go through every kind of call. Calls of all kinds come down to bytes and an operator's function, so few
/// types prove them; the others are called on slices alone, as each kind of call for each type is minutes of compiling.
fn by_all_calls(data: Data) -> bool {
    matches!(data.kind(), None | Some(Type::F64))
}

fn check_any(comm: &Communicator, case: &Case) -> Result<()> {
    let kind = match case.data {
        Data::Affine(_) => return check::<Affine>(comm, case),
        Data::Odd => return check::<Odd>(comm, case),
        Data::Raw => return check::<u8>(comm, case),
        Data::BuiltIn(kind, _) => kind,
    };
    match kind {
        Type::I8 => check_slices::<i8>(comm, case),
        Type::I16 => check_slices::<i16>(comm, case),
        Type::I32 => check_slices::<i32>(comm, case),
        Type::I64 => check_slices::<i64>(comm, case),
        Type::I128 => check_slices::<i128>(comm, case),
        Type::U8 => check_slices::<u8>(comm, case),
        Type::U16 => check_slices::<u16>(comm, case),
        Type::U32 => check_slices::<u32>(comm, case),
        Type::U64 => check_slices::<u64>(comm, case),
        Type::U128 => check_slices::<u128>(comm, case),
        Type::F16 => check_slices::<f16>(comm, case),
        Type::Bf16 => check_slices::<bf16>(comm, case),
        Type::F32 => check_slices::<f32>(comm, case),
        Type::F64 => check::<f64>(comm, case),
        Type::ComplexF32 => check_slices::<Complex<f32>>(comm, case),
        Type::ComplexF64 => check_slices::<Complex<f64>>(comm, case),
        Type::I32Index => check_slices::<I32Index>(comm, case),
        Type::I64Index => check_slices::<I64Index>(comm, case),
        Type::U32Index => check_slices::<U32Index>(comm, case),
        Type::U64Index => check_slices::<U64Index>(comm, case),
        Type::F32Index => check_slices::<F32Index>(comm, case),
        Type::F64Index => check_slices::<F64Index>(comm, case),
        Type::ShortInt => check_slices::<ShortInt>(comm, case),
        Type::TwoInt => check_slices::<TwoInt>(comm, case),
        Type::LongInt => check_slices::<LongInt>(comm, case),
        Type::FloatInt => check_slices::<FloatInt>(comm, case),
        Type::DoubleInt => check_slices::<DoubleInt>(comm, case),
        Type::TwoReal => check_slices::<TwoReal>(comm, case),
        Type::TwoDouble => check_slices::<TwoDouble>(comm, case),
        other => panic!("{other} has no values: add it to tests/common/element.rs"),
    }
}

/// A case on p ranks on one of [`wires`].
struct Entry {
    p: usize,
    wire: usize,
    case: Case,
}

/// The factors of the matrix, in this order: algorithm, p, data, mode, in place, fill, length, blocks, root, wire.
struct Matrix {
    /// All but those between groups: tests/world/inter.rs.
    algorithms: Vec<&'static Algorithm>,
    data: Vec<Data>,
    sizes: Vec<usize>,
}

impl Matrix {
    fn new() -> Self {
        let algorithms: Vec<_> = registry::all().filter(|a| !a.operation.is_between_groups()).collect();
        let data = Data::all();
        let sizes = vec![
            algorithms.len(),
            SIZES.len(),
            data.len(),
            MODES.len(),
            2,
            FILLS.len(),
            LENGTHS.len(),
            BLOCKS.len(),
            3,
            wires(0).len(),
        ];
        Self { algorithms, data, sizes }
    }

    /// Whether two factors may have these values, by the registry's restrictions.
    fn possible(&self, f: usize, v: usize, g: usize, w: usize) -> bool {
        if (f, g) == (2, 3) {
            return MODES[w] == Mode::Slices || by_all_calls(self.data[v]);
        }
        if f != 0 {
            return true;
        }
        let algorithm = self.algorithms[v];
        match g {
            1 => fits(algorithm, SIZES[w], true),
            2 if algorithm.operation.reduces() => {
                // Two powers of primes, so only the operator can be what does not fit.
                [4, 9].iter().any(|p| fits(algorithm, *p, self.data[w].commutative()))
            }
            // Only the type counts where elements are only moved.
            2 => w == 0 || self.data[w - 1].kind() != self.data[w].kind(),
            _ => true,
        }
    }

    fn entry(&self, values: &[usize], seed: u64) -> Entry {
        let algorithm = self.algorithms[values[0]];
        let (p, data) = (SIZES[values[1]], self.data[values[2]]);
        let elements = match LENGTHS[values[6]] {
            Length::Elements(n) => n,
            Length::Long => 40_000 / data.size() + 3,
        };
        let len = elements * data.unit();
        let case = Case {
            operation: algorithm.operation,
            algorithm: Some(algorithm.name),
            data,
            fill: FILLS[values[5]],
            mode: MODES[values[3]],
            in_place: values[4] == 1,
            root: [0, p - 1, p / 2][values[8]],
            len,
            blocks: BLOCKS[values[7]],
            seed,
        };
        Entry { p, wire: values[9], case }
    }
}

/// The nodes of p ranks: for even p round-robin, alike in number for some (4, 8), else not; for odd p in ranges. Each rank
/// is alone if p is 2.
fn nodes(p: usize) -> Vec<u32> {
    let count = (p / 3).max(2);
    (0..p).map(|rank| if p.is_multiple_of(2) { rank % count } else { rank * count / p } as u32).collect()
}

/// The groups of these nodes: the first two nodes, the next two, and so on.
fn groups(p: usize) -> Vec<u32> {
    nodes(p).into_iter().map(|node| node / 2).collect()
}

fn fits(algorithm: &Algorithm, p: usize, commutative: bool) -> bool {
    let (nodes, groups) = (nodes(p).into(), groups(p).into());
    (algorithm.fits)(&Arguments { size: p as u32, commutative, nodes, groups, ..Arguments::default() })
        .is_ok()
}

/// Runs the entries, those of one world together.
fn run_all(entries: &[Entry], seed: u64) {
    for p in SIZES {
        for (w, (faults, settings)) in wires(seed).iter().enumerate() {
            let here: Vec<&Case> =
                entries.iter().filter(|e| (e.p, e.wire) == (p, w)).map(|e| &e.case).collect();
            if here.is_empty() {
                continue;
            }
            let began = Instant::now();
            let done = ranks::run_in((nodes(p), groups(p)), faults, settings, |_, comm| {
                for case in &here {
                    check_any(comm, case).unwrap_or_else(|e| panic!("{e} in {case:?}, p = {p}, wire {w}"));
                }
                Ok(())
            });
            done.into_iter().for_each(|r| r.unwrap());
            println!("p = {p}, wire {w}: {} cases, {} ms", here.len(), began.elapsed().as_millis());
        }
    }
}

fn seed() -> u64 {
    let seed = std::env::var("COLLECTIVES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("COLLECTIVES_SEED={seed}");
    seed
}

/// Whether the number of blocks, and the root, matter to an algorithm.
fn varies(algorithm: &Algorithm) -> [bool; 2] {
    // Powers of two for some, three nodes in two groups for others.
    let blocks = [4, 9].into_iter().any(|p: usize| {
        let (nodes, groups) = (nodes(p).into(), groups(p).into());
        let a = Arguments { size: p as u32, bytes: 4096, nodes, groups, ..Arguments::default() };
        let a = Arguments { counts: vec![4096; p], ..a };
        (algorithm.rounds_of)(&a, 1) != (algorithm.rounds_of)(&a, 8)
    });
    use Operation as O;
    let rooted = [O::Bcast, O::Gather, O::Gatherv, O::Scatter, O::Scatterv, O::Reduce];
    [blocks, rooted.contains(&algorithm.operation)]
}

/// All of algorithm, p, kind of call, in place, length, blocks and root, with random others; and all of algorithm, p,
/// data and values, with random others.
fn whole(matrix: &Matrix, random: &mut Random) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (a, algorithm) in matrix.algorithms.iter().enumerate() {
        let [blocks, rooted] = varies(algorithm);
        let mut sizes = matrix.sizes.clone();
        sizes[0] = 1;
        let mut narrow = |free: &[usize]| {
            let mut sizes = sizes.clone();
            free.iter().for_each(|f| sizes[*f] = 1);
            for mut n in 0..sizes.iter().product::<usize>() {
                let mut values: Vec<usize> = sizes
                    .iter()
                    .map(|size| {
                        let value = n % size;
                        n /= size;
                        value
                    })
                    .collect();
                values[0] = a;
                loop {
                    free.iter().for_each(|f| values[*f] = random.below(matrix.sizes[*f]));
                    // Random data that this algorithm, or this kind of call, cannot do is thrown again, and so is a random call.
                    let data_fits = matrix.possible(0, a, 2, values[2]);
                    if (data_fits || !free.contains(&2)) && matrix.possible(2, values[2], 3, values[3]) {
                        break;
                    }
                }
                if matrix.possible(0, a, 1, values[1]) && matrix.possible(0, a, 2, values[2]) {
                    entries.push(matrix.entry(&values, random.draw()));
                }
            }
        };
        let mut free = vec![2, 5, 9];
        free.extend([(7, blocks), (8, rooted)].iter().filter(|(_, varies)| !varies).map(|(f, _)| f));
        narrow(&free);
        narrow(&[3, 4, 6, 7, 8, 9]);
    }
    entries
}

#[test]
fn the_matrix() {
    let seed = seed();
    let (matrix, mut random) = (Matrix::new(), Random(seed));
    let all = matrix.sizes.iter().product::<usize>();
    let entries: Vec<Entry> = if std::env::var("COLLECTIVES").is_ok_and(|v| v == "full") {
        whole(&matrix, &mut random)
    } else {
        let possible = |f, v, g, w| matrix.possible(f, v, g, w);
        let cases = cover(&matrix.sizes, possible, &mut random);
        assert!(covers(&matrix.sizes, possible, &cases));
        cases.iter().map(|values| matrix.entry(values, random.draw())).collect()
    };
    println!("{} cases of {all}", entries.len());
    run_all(&entries, seed);
}

/// A contribution that shares a put with a part of the result, whose counter several puts bump, does not wait for the last of these.
#[test]
fn what_shares_a_put_waits_for_that_alone() {
    let case = Case {
        operation: Operation::Reduce,
        algorithm: Some("levels"),
        data: Data::BuiltIn(Type::I64, circulant::ops::Op::Sum),
        fill: Fill::Exact,
        mode: Mode::Slices,
        in_place: false,
        root: 8,
        len: 5006,
        blocks: Some(8),
        seed: 1,
    };
    run_all(&[Entry { p: 16, wire: 3, case }], 1);
}
