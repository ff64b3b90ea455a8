//! What the registry says of the order in which an algorithm folds: the trees are computed symbolically, by running
//! the plans on trees in place of numbers.

use circulant_core::machine::LogGp;
use circulant_core::plan::registry::{Algorithm, Arguments, Operation, all};
use circulant_core::plan::{Kind, Place, Plan, Region, Side, Step};
use std::collections::HashMap;

const MODEL: LogGp = LogGp { latency_ns: 1500, overhead_ns: 200, byte_ps: 80, reduce_ps: 100 };

/// A tree, as a digest.
type Tree = u64;

fn mix(left: Tree, right: Tree) -> Tree {
    let mut z = left.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ right.rotate_left(31);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// The trees in the output of each rank, byte by byte; an element is a byte. If operands may change places (as
/// those of a sum, bit by bit), left and right are the same.
fn run(plan: &dyn Plan, bytes: u64, commutes: bool) -> Vec<Vec<Option<Tree>>> {
    let p = plan.size();
    let mut memory: Vec<HashMap<(Region, u64), Tree>> = (0..p)
        .map(|rank| (0..bytes).map(|b| ((Region::Input, b), mix(u64::from(rank), 7))).collect())
        .collect();
    let steps: Vec<Vec<Step>> = (0..p).map(|rank| plan.steps(rank).collect()).collect();
    let last = steps.iter().flatten().map(|s| s.round).max().unwrap_or(0);
    // A step waits for steps of earlier rounds, or of its own rank and before it.
    for round in 0..=last {
        for (rank, steps) in steps.iter().enumerate() {
            for s in steps.iter().filter(|s| s.round == round) {
                let at = |place: Place, i: u64| (place.region, place.offset + i);
                for i in 0..s.len {
                    let read = |memory: &[HashMap<_, _>], place| memory[rank].get(&at(place, i)).copied();
                    match s.kind {
                        Kind::Put => {
                            let value = read(&memory, s.source).unwrap();
                            memory[s.peer as usize].insert(at(s.target, i), value);
                        }
                        Kind::Copy => {
                            let value = read(&memory, s.source).unwrap();
                            memory[rank].insert(at(s.target, i), value);
                        }
                        Kind::Reduce(side) => {
                            let (from, to) =
                                (read(&memory, s.source).unwrap(), read(&memory, s.target).unwrap());
                            let (left, right) =
                                if side == Side::SourceLeft { (from, to) } else { (to, from) };
                            let value = match commutes {
                                true => mix(left.min(right), left.max(right)),
                                false => mix(left, right),
                            };
                            memory[rank].insert(at(s.target, i), value);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    let output = |rank: u32| plan.sizes(rank).output;
    (0..p)
        .map(|rank| {
            (0..output(rank)).map(|b| memory[rank as usize].get(&(Region::Output, b)).copied()).collect()
        })
        .collect()
}

/// `each` bytes of the vector for every rank.
fn arguments(line: &Algorithm, size: u32, root: u32, each: u64, blocks: Option<u32>) -> (Arguments, u64) {
    let m = each * u64::from(size);
    let bytes = if line.operation == Operation::ReduceScatterBlock { each } else { m };
    let counts = vec![each; size as usize];
    let a = Arguments {
        size,
        root,
        bytes,
        counts,
        element: 1,
        commutative: true,
        blocks,
        nodes: (0..size).map(|rank| rank / 2).collect(),
        groups: (0..size).map(|rank| rank / 4).collect(),
        ..Arguments::default()
    };
    (a, m)
}

fn lines() -> impl Iterator<Item = &'static Algorithm> {
    all().filter(|line| line.operation.reduces())
}

#[test]
fn every_line_that_reduces_says_its_order_and_each_operation_has_one_canonical_line() {
    for line in all() {
        assert_eq!(line.order.is_some(), line.operation.reduces(), "{line:?}");
    }
    for op in Operation::ALL.into_iter().filter(|op| op.reduces()) {
        let canonical = lines().filter(|l| l.operation == op && l.order.unwrap().canonical).count();
        assert_eq!(canonical, 1, "{op}");
    }
}

/// One tree for reduce, allreduce, reduce_scatter and reduce_scatter_block: whatever root, count and n.
#[test]
fn canonical_lines_fold_in_one_tree() {
    for p in 1..=40 {
        let mut one = None;
        for line in lines().filter(|l| l.order.unwrap().canonical) {
            let scan = matches!(line.operation, Operation::Scan | Operation::Exscan);
            let roots = if line.operation == Operation::Reduce { vec![0, p / 2, p - 1] } else { vec![0] };
            let mut prefixes = None;
            for (root, each, blocks) in
                roots.iter().flat_map(|r| [(*r, 1, None), (*r, 3, Some(1)), (*r, 3, Some(4))])
            {
                let (a, m) = arguments(line, p, root, each, blocks);
                let plan = (line.build)(&a, &MODEL).unwrap();
                let out = run(&*plan, m, false);
                let name = format!("{} {}, p = {p}, root {root}", line.operation, line.name);
                if scan {
                    let trees: Vec<_> = out.iter().map(|bytes| bytes[0]).collect();
                    assert!(out.iter().all(|bytes| bytes.iter().all(|b| *b == bytes[0])), "{name}");
                    assert_eq!(*prefixes.get_or_insert(trees.clone()), trees, "{name}");
                    continue;
                }
                let mut results = 0;
                for tree in out.iter().flatten() {
                    assert_eq!(*one.get_or_insert(tree.unwrap()), tree.unwrap(), "{name}");
                    results += 1;
                }
                let each_rank = if line.operation == Operation::Allreduce { u64::from(p) } else { 1 };
                assert_eq!(results, each_rank * m, "{name}");
            }
        }
    }
}

/// All ranks get the same bits of a commutative operator, where the line says so; and where it does not, they
/// do not.
#[test]
fn bits_are_identical_where_that_is_said() {
    for line in lines().filter(|l| l.operation == Operation::Allreduce) {
        let mut differ = 0;
        for p in 2..=40 {
            let (a, m) = arguments(line, p, 0, 2, None);
            if (line.fits)(&a).is_err() {
                continue;
            }
            let out = run(&*(line.build)(&a, &MODEL).unwrap(), m, true);
            differ += u32::from(out.iter().any(|bytes| *bytes != out[0]));
        }
        assert_eq!(differ == 0, line.order.unwrap().identical, "{}: differ for {differ} p", line.name);
    }
}

/// A line that does not name n, counts or the root among what must be equal folds alike whatever they are.
#[test]
fn what_must_be_equal_for_equal_bits_is_all_that_is_named() {
    for line in lines() {
        let order = line.order.unwrap();
        let names = |what: &str| order.same_for.split(", ").any(|name| name == what);
        let scattered = matches!(line.operation, Operation::ReduceScatter | Operation::ReduceScatterBlock);
        let (mut by_cut, mut by_root) = (false, false);
        for p in 2..=24 {
            if (line.fits)(&arguments(line, p, 0, 2, None).0).is_err() {
                continue;
            }
            // By rank the first and the last byte.
            let trees = |each, blocks, root| {
                let (a, m) = arguments(line, p, root, each, blocks);
                let out = run(&*(line.build)(&a, &MODEL).unwrap(), m, true);
                let ends = |bytes: &Vec<Option<Tree>>| (bytes.first().copied(), bytes.last().copied());
                out.iter().map(ends).collect::<Vec<_>>()
            };
            let once = trees(2, Some(1), 0);
            let others = [trees(7, Some(1), 0), trees(7, Some(3), 0), trees(2, Some(4), 0)];
            by_cut |= others.iter().any(|other| *other != once);
            // One tree for the whole vector.
            by_cut |= !scattered && once.iter().any(|(first, last)| first != last);
            if line.operation == Operation::Reduce {
                by_root |= trees(2, Some(1), p - 1)[p as usize - 1] != once[0];
            }
        }
        let name = format!("{} {}: {order:?}", line.operation, line.name);
        assert!(!by_cut || names("counts") || names("n"), "{name}");
        assert_eq!(by_root, names("root"), "{name}");
    }
}
