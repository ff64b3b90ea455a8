//! Costs of what knows nodes: a plan among carriers, of which each put is followed by those within the node, and the
//! way within the first and the last node.

use super::{COALESCE, Machine, Path, float, spread};
use crate::plan::node::Nodes;
use crate::plan::price::Model;
use crate::plan::registry::{Arguments, nodes as lines, q};

/// The wire between carriers: each put is followed by one to every other rank of the node.
fn wire(machine: &Machine, nodes: &Nodes) -> Model {
    let fan = machine.near.overhead_ns.saturating_mul(u64::from(nodes.most() - 1));
    // A block must not only come over the wire but be read within the node as fast.
    let byte_ps = machine.wire.byte_ps.max(machine.near.byte_ps);
    Model { overhead_ns: machine.wire.overhead_ns.saturating_add(fan), byte_ps, ..machine.wire }
}

fn others(nodes: &Nodes) -> f64 {
    f64::from(nodes.most() - 1)
}

pub(in crate::plan::registry) fn barrier(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let wire = path.machine.wire;
    path.near(1.0, 1.0, 0.0);
    let nobody = Arguments { size: nodes.count(), ..Arguments::default() };
    path.among(nodes.count(), wire, |path| spread::barrier(&nobody, path));
    path.near(1.0, others(&nodes), 0.0);
}

pub(in crate::plan::registry) fn bcast(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let n = lines::bcast_blocks(a, path.model());
    spread_blocks(a, &nodes, n, path);
    path.near(1.0, others(&nodes), float(a.bytes) / f64::from(n));
}

/// A lane's blocks are S times as short, but share the node's link with those of the others.
pub(in crate::plan::registry) fn bcast_lanes(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let (n, share) = (lines::bcast_blocks(a, path.model()), float(a.bytes) / f64::from(nodes.most()));
    path.near(1.0, others(&nodes) * f64::from(n), share / f64::from(n));
    spread_blocks(a, &nodes, n, path);
    path.near(1.0, others(&nodes), share / f64::from(n));
}

fn spread_blocks(a: &Arguments, nodes: &Nodes, n: u32, path: &mut Path<'_>) {
    let (wire, count) = (wire(path.machine, nodes), nodes.count());
    let among = Arguments { size: count, ..Arguments::default() };
    path.among(count, wire, |path| spread::circulant(&among, n, float(a.bytes), path));
}

pub(in crate::plan::registry) fn allgather(a: &Arguments, path: &mut Path<'_>) {
    if let Ok(a) = lines::equal(a) {
        allgatherv(&a, path);
    }
}

pub(in crate::plan::registry) fn allgather_lanes(a: &Arguments, path: &mut Path<'_>) {
    if let Ok(a) = lines::equal(a) {
        allgatherv_lanes(&a, path);
    }
}

/// Irregular among the nodes. A node's bytes are those of its ranks, each in puts of its own.
pub(in crate::plan::registry) fn allgatherv(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let counts = lines::by_node(&nodes, &a.counts);
    let all = float(counts.iter().sum());
    let mean = all / f64::from(a.size);
    path.near(1.0, 1.0, mean);
    gathered(a, &nodes, counts, f64::from(nodes.most()), path);
    path.near(1.0, others(&nodes), mean.min(float(COALESCE)));
}

/// The lanes share the link; in each a rank's own bytes move.
pub(in crate::plan::registry) fn allgatherv_lanes(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let counts = lines::by_node(&nodes, &a.counts);
    let mean = float(counts.iter().sum()) / f64::from(a.size);
    gathered(a, &nodes, counts, 1.0, path);
    path.near(1.0, others(&nodes), mean);
}

/// The allgatherv of these counts among the nodes, each in so many pieces.
fn gathered(a: &Arguments, nodes: &Nodes, counts: Vec<u64>, pieces: f64, path: &mut Path<'_>) {
    let (wire, count) = (wire(path.machine, nodes), nodes.count());
    let all = float(counts.iter().sum());
    let mean = all / f64::from(a.size.max(1));
    // Beyond one for each node and round.
    let light = mean < path.light();
    let runs = if light { 1.0 } else { Path::runs(pieces, mean) };
    let more = (runs - 1.0) * f64::from(count - 1);
    let among = Arguments { size: count, counts, blocks: a.blocks, ..Arguments::default() };
    path.among(count, wire, |path| {
        spread::allgatherv(&among, path);
        path.over(&[1], 0.0, more, 0.0);
    });
    // All that a rank reads.
    path.longer(
        |_| (),
        |path| {
            *path = Path::new(path.machine, path.size);
            path.near(f64::from(q(nodes.most())), 1.0, all);
        },
    );
}
