//! Scans and reduce-scatters of which each rank is in place or not as it likes.

use crate::collective::cover::Random;
use crate::collective::element::{Affine, Fill};
use crate::collective::{Case, Data, Mode, check};
use crate::ranks;

use circulant::plan::registry::{Arguments, Operation, algorithms};
use circulant::transport::sim;
use circulant::{Communicator, InPlace, Result, ops};

const OPERATIONS: [Operation; 4] =
    [Operation::Scan, Operation::Exscan, Operation::ReduceScatter, Operation::ReduceScatterBlock];
const MODES: [Mode; 7] = [
    Mode::Slices,
    Mode::Arena,
    Mode::Scoped,
    Mode::Unscoped,
    Mode::UnscopedPersistent,
    Mode::Request,
    Mode::Persistent,
];

/// Each algorithm of each of these operations that ranks on `nodes` can run, in two kinds of calls. [`Case::in_place_at`] says which
/// ranks are in place.
fn cases(nodes: &[u32], random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for commutative in [true, false] {
        let a =
            Arguments { size: nodes.len() as u32, commutative, nodes: nodes.into(), ..Arguments::default() };
        for operation in OPERATIONS {
            for algorithm in algorithms(operation).filter(|line| (line.fits)(&a).is_ok()) {
                let first = random.below(MODES.len());
                cases.extend([first, first + 3].map(|mode| Case {
                    operation,
                    algorithm: Some(algorithm.name),
                    data: Data::Affine(commutative),
                    fill: Fill::Exact,
                    mode: MODES[mode % MODES.len()],
                    in_place: true,
                    root: 0,
                    len: random.below(40),
                    blocks: [None, Some(3)][random.below(2)],
                    seed: random.draw(),
                }));
            }
        }
    }
    cases
}

#[test]
fn every_rank_as_it_likes() {
    let seed = std::env::var("COLLECTIVES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("COLLECTIVES_SEED={seed}");
    let mut random = Random(seed);
    for p in (1..=9).chain([12, 16, 17, 20]) {
        // Nodes of two ranks and of three, in order, and no nodes.
        for nodes in [vec![0; p], (0..p).map(|rank| rank as u32 * 2 / 5).collect()] {
            let cases = cases(&nodes, &mut random);
            let mixed = |case: &&Case| {
                let ranks = (0..p).filter(|rank| case.in_place_at(*rank)).count();
                ranks > 0 && ranks < p
            };
            assert!(p == 1 || cases.iter().filter(mixed).count() * 3 > cases.len());
            let bad = sim::Faults { seed, refuse: 60, delay: 5, reorder: true, ..Default::default() };
            let all = ranks::run_on(nodes, &bad, &[], |_, comm| {
                for case in &cases {
                    check::<Affine>(comm, case).unwrap_or_else(|e| panic!("{e} in {case:?}, p = {p}"));
                }
                Ok(())
            });
            all.into_iter().for_each(|result| result.unwrap());
        }
    }
}

/// Ranks that disagree otherwise learn what it is, and nothing of which are in place.
#[test]
fn it_is_no_difference() {
    let scan = |comm: &Communicator, len: usize, in_place: bool| -> Result<()> {
        let (send, mut recv) = (vec![1u64; len], vec![1u64; len]);
        match in_place {
            true => comm.scan(InPlace, &mut recv, ops::Sum),
            false => comm.scan(&send, &mut recv, ops::Sum),
        }?;
        comm.barrier()
    };
    let all = ranks::run(3, &sim::Faults::default(), &[], |_, comm| {
        scan(comm, if comm.rank() == 1 { 101 } else { 100 }, comm.rank() == 1)
    });
    for result in all {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("length 10") && !text.contains("in place"), "{text}");
    }
}
