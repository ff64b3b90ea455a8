//! The law of the plans that know nodes: the network carries every byte once per node that needs it. Bytes of puts
//! from node to node are counted in the steps, for random nodes (unequal, in any order), roots and counts. That the
//! plans are right is proved with all others (`core/tests/pure/plan_registry.rs`, `core/tests/pure/plan_reduce.rs`). A failing case
//! prints its seed; `PLAN_PROOF_SEED` repeats it.

use crate::proof;

use circulant_core::machine::LogGp;
use circulant_core::plan::registry::{Algorithm, Arguments, Operation};
use circulant_core::plan::{Kind, Plan};
use proof::{MODEL, Random};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The lines that know nodes.
fn lines(operation: Operation) -> impl Iterator<Item = &'static Algorithm> {
    proof::algorithms(operation).filter(|line| line.restrictions.contains("several nodes"))
}

/// By node: the bytes that come from other nodes, and those that go to others.
fn crossing(plan: &dyn Plan, nodes: &[u32]) -> BTreeMap<u32, (u64, u64)> {
    let mut out: BTreeMap<u32, (u64, u64)> = nodes.iter().map(|node| (*node, (0, 0))).collect();
    for rank in 0..plan.size() {
        for step in plan.steps(rank).filter(|step| step.kind == Kind::Put) {
            let (from, to) = (nodes[rank as usize], nodes[step.peer as usize]);
            if from != to {
                out.get_mut(&from).unwrap().1 += step.len;
                out.get_mut(&to).unwrap().0 += step.len;
            }
        }
    }
    out
}

/// For random nodes of p ranks that the line can take: what crosses.
fn every_case(
    name: &str,
    operation: Operation,
    arguments: impl Fn(u32, &mut Random) -> Arguments + Sync,
    judge: impl Fn(&Arguments, &BTreeMap<u32, (u64, u64)>, &str) + Sync,
) {
    proof::every_p(name, (3..=40).chain([64, 100]), |p, random| {
        for line in lines(operation) {
            for _ in 0..8 {
                let a = Arguments { nodes: random.nodes(p), ..arguments(p, random) };
                if (line.fits)(&a).is_ok() {
                    let plan = (line.build)(&a, &MODEL).unwrap();
                    judge(&a, &crossing(&*plan, &a.nodes), &format!("{} {} {a:?}", operation, line.name));
                }
            }
        }
    });
}

#[test]
fn a_broadcast_comes_to_every_node_once() {
    let arguments = |size, random: &mut Random| {
        let blocks = random.one_of(&[None, Some(1), Some(7)]);
        let bytes = random.one_of(&[0, 1, 1000, 1 << 20]);
        Arguments { size, root: random.rank(size), bytes, blocks, ..Arguments::default() }
    };
    every_case("a_broadcast_comes_to_every_node_once", Operation::Bcast, arguments, |a, nodes, name| {
        for (node, (came, _)) in nodes {
            let wanted = if *node == a.nodes[a.root as usize] { 0 } else { a.bytes };
            assert_eq!(*came, wanted, "node {node}: {name}");
        }
    });
}

/// What the ranks of a node contribute together.
fn own(a: &Arguments, counts: &[u64], node: u32) -> u64 {
    a.nodes.iter().zip(counts).filter(|(n, _)| **n == node).map(|(_, count)| count).sum()
}

#[test]
fn an_allgather_brings_every_node_what_it_lacks() {
    let arguments = |size, random: &mut Random| {
        let blocks = random.one_of(&[None, Some(1), Some(7)]);
        let bytes = random.below(3000);
        let counts = random.counts(size, bytes);
        let displs = random.displs(&counts);
        Arguments { size, bytes, counts, displs, blocks, in_place: random.yes(2), ..Arguments::default() }
    };
    for operation in [Operation::Allgather, Operation::Allgatherv] {
        every_case("an_allgather_brings_every_node_what_it_lacks", operation, arguments, |a, nodes, name| {
            let equal = vec![a.bytes; a.size as usize];
            let counts = if operation == Operation::Allgather { &equal } else { &a.counts };
            for (node, (came, _)) in nodes {
                let wanted = counts.iter().sum::<u64>() - own(a, counts, *node);
                assert_eq!(*came, wanted, "node {node}: {name}");
            }
        });
    }
}

/// The same of groups of nodes: by lanes, and in whole blocks of groups, whose puts cost much more than their bytes here.
#[test]
fn an_allgather_brings_every_group_what_it_lacks() {
    let wire = LogGp { overhead_ns: 20 * MODEL.overhead_ns, ..MODEL };
    let lines = || {
        let all = [Operation::Allgather, Operation::Allgatherv].into_iter().flat_map(proof::algorithms);
        all.filter(|line| line.name == "levels")
    };
    proof::every_p(
        "an_allgather_brings_every_group_what_it_lacks",
        (3..=40).chain([64, 100]),
        |p, random| {
            for (line, _) in lines().flat_map(|line| (0..8).map(move |i| (line, i))) {
                let nodes = if random.yes(2) { Arc::default() } else { random.nodes(p) };
                let (groups, bytes) = (random.groups(p, &nodes), random.below(3000));
                let counts = match line.operation {
                    Operation::Allgather => vec![bytes; p as usize],
                    _ => random.counts(p, bytes),
                };
                let displs = random.displs(&counts);
                let blocks = random.one_of(&[None, Some(1), Some(7)]);
                let of_groups = Arguments { size: p, nodes: Arc::clone(&groups), ..Arguments::default() };
                let a = Arguments {
                    size: p,
                    bytes,
                    counts,
                    displs,
                    blocks,
                    nodes,
                    groups,
                    ..Arguments::default()
                };
                if (line.fits)(&a).is_err() {
                    continue;
                }
                let plan = (line.build)(&a, &wire).unwrap();
                for (group, (came, _)) in crossing(&*plan, &a.groups) {
                    let wanted = a.counts.iter().sum::<u64>() - own(&of_groups, &a.counts, group);
                    assert_eq!(came, wanted, "group {group}: {} {a:?}", line.operation);
                }
            }
        },
    );
}

fn vectors(size: u32, random: &mut Random) -> Arguments {
    let element = random.one_of(&[1, 8]);
    Arguments {
        size,
        root: random.rank(size),
        bytes: element * random.one_of(&[0, 1, 1000, 1 << 17]),
        element,
        commutative: true,
        blocks: random.one_of(&[None, Some(1), Some(7)]),
        in_place: random.yes(2),
        ..Arguments::default()
    }
}

#[test]
fn a_reduction_leaves_every_node_once() {
    every_case("a_reduction_leaves_every_node_once", Operation::Reduce, vectors, |a, nodes, name| {
        for (node, (_, went)) in nodes {
            let wanted = if *node == a.nodes[a.root as usize] { 0 } else { a.bytes };
            assert_eq!(*went, wanted, "node {node}: {name}");
        }
    });
}

/// Twice all but one of N pieces: the least there is for an allreduce of N nodes, on average over them.
#[test]
fn an_allreduce_crosses_as_among_nodes() {
    every_case("an_allreduce_crosses_as_among_nodes", Operation::Allreduce, vectors, |a, nodes, name| {
        if name.contains("node_doubling") {
            return; // q_N whole vectors
        }
        let crossed: u64 = nodes.values().map(|(came, _)| came).sum();
        assert_eq!(crossed, 2 * (nodes.len() as u64 - 1) * a.bytes, "{name}");
    });
}

/// Every node sends of each piece that is not its own one partial: that is the least.
#[test]
fn a_reduce_scatter_leaves_every_node_once() {
    let arguments = |size, random: &mut Random| {
        let a = vectors(size, random);
        let around = random.below(200);
        let counts: Vec<u64> = random.counts(size, around).iter().map(|count| count * a.element).collect();
        Arguments { bytes: around * a.element, counts, ..a }
    };
    for operation in [Operation::ReduceScatter, Operation::ReduceScatterBlock] {
        every_case("a_reduce_scatter_leaves_every_node_once", operation, arguments, |a, nodes, name| {
            let equal = vec![a.bytes; a.size as usize];
            let counts = if operation == Operation::ReduceScatter { &a.counts } else { &equal };
            for (node, (_, went)) in nodes {
                let wanted = counts.iter().sum::<u64>() - own(a, counts, *node);
                assert_eq!(*went, wanted, "node {node}: {name}");
            }
        });
    }
}

/// What all of a node's ranks get, in one message from the root or with that of the nodes behind it.
#[test]
fn a_scatter_brings_every_node_what_its_ranks_get() {
    let arguments = |size, random: &mut Random| {
        let bytes = random.below(3000);
        let counts = random.counts(size, bytes);
        let (displs, in_place) = (random.displs(&counts), random.yes(2));
        Arguments { size, root: random.rank(size), bytes, counts, displs, in_place, ..Arguments::default() }
    };
    for operation in [Operation::Scatter, Operation::Scatterv] {
        every_case(
            "a_scatter_brings_every_node_what_its_ranks_get",
            operation,
            arguments,
            |a, nodes, name| {
                let equal = vec![a.bytes; a.size as usize];
                let counts = if operation == Operation::Scatter { &equal } else { &a.counts };
                for (node, (came, went)) in
                    nodes.iter().filter(|(node, _)| **node != a.nodes[a.root as usize])
                {
                    let wanted = own(a, counts, *node);
                    assert_eq!(came - went, wanted, "node {node}: {name}");
                    assert!(!name.contains("node_direct") || *went == 0, "node {node}: {name}");
                }
            },
        );
    }
}

#[test]
fn an_alltoall_crosses_once() {
    let arguments =
        |size, random: &mut Random| Arguments { size, bytes: random.below(3000), ..Arguments::default() };
    every_case("an_alltoall_crosses_once", Operation::Alltoall, arguments, |a, nodes, name| {
        for (node, (came, went)) in nodes {
            let ranks = a.nodes.iter().filter(|n| *n == node).count() as u64;
            let wanted = ranks * (u64::from(a.size) - ranks) * a.bytes;
            assert_eq!((*came, *went), (wanted, wanted), "node {node}: {name}");
        }
    });
}
