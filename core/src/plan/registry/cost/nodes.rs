//! Costs of what knows nodes: a plan among carriers, of which each put is followed by those within the node, and the
//! way within the first and the last node.

use super::{Path, blocks, float, folds, spread};
use crate::machine::{LogGp, Machine};
use crate::plan::allgatherv::circulant as allgatherv;
use crate::plan::barrier::dissemination;
use crate::plan::node::{Nodes, fold::ALONE};
use crate::plan::registry::{Arguments, nodes as lines, q};

/// The wire between carriers: each put is followed by one to every other rank of the node.
fn wire(machine: &Machine, nodes: &Nodes) -> LogGp {
    let fan = machine.near.overhead_ns.saturating_mul(u64::from(nodes.most() - 1));
    // A block must not only come over the wire but be read within the node as fast.
    let byte_ps = machine.wire.byte_ps.max(machine.near.byte_ps);
    LogGp { overhead_ns: machine.wire.overhead_ns.saturating_add(fan), byte_ps, ..machine.wire }
}

fn others(nodes: &Nodes) -> f64 {
    f64::from(nodes.most() - 1)
}

pub(in crate::plan::registry) fn barrier(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let wire = path.machine.wire;
    path.near(1.0, 1.0, 0.0);
    let nobody = Arguments { size: nodes.count(), ..Arguments::default() };
    path.among(nodes.count(), wire, |path| dissemination::cost(&nobody, path));
    path.near(1.0, others(&nodes), 0.0);
}

pub(in crate::plan::registry) fn bcast(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let n = lines::bcast_blocks(a, path.model());
    spread_blocks(a, &nodes, n, path);
    path.near(1.0, others(&nodes), float(a.bytes) / f64::from(n));
}

/// A lane's blocks are S times as short, but share the node's link with those of the others: what a put costs its
/// sender is hidden as far as those are on the link.
pub(in crate::plan::registry) fn bcast_lanes(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let (n, share) = (lines::bcast_blocks(a, path.model()), float(a.bytes) / f64::from(nodes.most()));
    let block = share / f64::from(n);
    path.near(1.0, others(&nodes) * f64::from(n), block);
    let wire = hidden(wire(path.machine, &nodes), block * others(&nodes));
    let among = Arguments { size: nodes.count(), ..Arguments::default() };
    path.among(nodes.count(), wire, |path| spread::circulant(&among, n, float(a.bytes), path));
    path.near(1.0, others(&nodes), block);
}

/// The wire where so many bytes of others are on it while a put is made.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
fn hidden(wire: LogGp, bytes: f64) -> LogGp {
    let others = (bytes * float(wire.byte_ps) / 1000.0) as u64;
    LogGp { overhead_ns: wire.overhead_ns.saturating_sub(others), ..wire }
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
    path.near(1.0, others(&nodes), mean.min(path.coalesce()));
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
    let runs = path.runs(pieces, mean);
    let light = path.shared(runs, mean);
    let runs = if light { 1.0 } else { runs };
    let more = (runs - 1.0) * f64::from(count - 1);
    let among = Arguments { size: count, counts, blocks: a.blocks, ..Arguments::default() };
    path.among(count, wire, |path| {
        allgatherv::cost(&among, path);
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

/// What a node's ranks combine, taking turns, of vectors of so many bytes each: all but one of the contributions, at
/// as many ranks.
fn added(a: &Arguments, nodes: &Nodes, path: &mut Path<'_>) {
    let share = float(a.bytes) * others(nodes) / f64::from(nodes.most());
    path.near(1.0, others(nodes), share);
    path.reduce(share);
}

/// The same where the leader has short vectors to itself, and else the others put their shares to it, of which a
/// block must be there.
fn led(a: &Arguments, nodes: &Nodes, block: f64, path: &mut Path<'_>) {
    if a.bytes >= ALONE {
        added(a, nodes, path);
        return path.near(1.0, 1.0, block);
    }
    let all = float(a.bytes) * others(nodes);
    path.near(1.0, 1.0, all);
    path.reduce(all);
}

pub(in crate::plan::registry) fn reduce(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let n = lines::fold_blocks(a, path.model());
    led(a, &nodes, float(a.bytes) / f64::from(n), path);
    let among = Arguments { size: nodes.count(), blocks: Some(n), ..a.clone() };
    let wire = path.machine.wire;
    path.among(nodes.count(), wire, |path| folds::reduce(&among, path));
}

pub(in crate::plan::registry) fn reduce_lanes(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let n = lines::fold_blocks(a, path.model());
    added(a, &nodes, path);
    among_lanes(a, &nodes, n, path, folds::reduce);
    path.near(1.0, f64::from(n), float(a.bytes) / f64::from(n));
}

/// Lanes share the link, but combine their shares at the same time.
fn among_lanes(
    a: &Arguments,
    nodes: &Nodes,
    n: u32,
    path: &mut Path<'_>,
    formula: fn(&Arguments, &mut Path<'_>),
) {
    let most = u64::from(nodes.most());
    let wire = path.machine.wire;
    let block = float(a.bytes) / f64::from(n) / f64::from(nodes.most());
    let wire = hidden(LogGp { reduce_ps: wire.reduce_ps / most, ..wire }, block * others(nodes));
    let among = Arguments { size: nodes.count(), blocks: Some(n), ..a.clone() };
    path.among(nodes.count(), wire, |path| formula(&among, path));
}

/// Each piece that comes is passed on in the node while others come.
pub(in crate::plan::registry) fn allreduce(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let count = nodes.count();
    led(a, &nodes, float(a.bytes) / f64::from(count), path);
    let among = Arguments { size: count, ..a.clone() };
    let wire = wire(path.machine, &nodes);
    path.among(count, wire, |path| folds::allreduce_among(&among, path));
    path.near(1.0, others(&nodes), float(a.bytes) / f64::from(count));
}

pub(in crate::plan::registry) fn allreduce_lanes(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    added(a, &nodes, path);
    among_lanes(a, &nodes, nodes.count(), path, folds::allreduce_among);
    path.near(1.0, others(&nodes), float(a.bytes) / f64::from(nodes.count()));
}

pub(in crate::plan::registry) fn allreduce_doubling(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    led(a, &nodes, float(a.bytes), path);
    let among = Arguments { size: nodes.count(), ..a.clone() };
    let wire = path.machine.wire;
    path.among(nodes.count(), wire, |path| folds::doubling(&among, path));
    path.near(1.0, others(&nodes), float(a.bytes));
}

pub(in crate::plan::registry) fn reduce_scatter_block(a: &Arguments, path: &mut Path<'_>) {
    if let Ok(a) = lines::equal(a) {
        reduce_scatter(&a, path);
    }
}

/// A lane's share of all the node's vectors at its carrier; then the lanes' reduce-scatters on one link, which combine at
/// the same time.
pub(in crate::plan::registry) fn reduce_scatter(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let (least, share) = (u64::from(nodes.least()), float(lines::largest_lane(&nodes, &a.counts)));
    path.near(1.0, f64::from(nodes.least().min(nodes.most() - 1)), others(&nodes) * share);
    path.reduce(others(&nodes) * share);
    let among = Arguments { size: nodes.count(), counts: lines::by_node(&nodes, &a.counts), ..a.clone() };
    let wire = path.machine.wire;
    let wire = LogGp { reduce_ps: wire.reduce_ps / least, ..wire };
    path.among(nodes.count(), wire, |path| folds::scatter_among(&among, path));
    if nodes.least() < nodes.most() {
        path.near(1.0, others(&nodes), share / f64::from(nodes.count()));
    }
}

/// Scans within nodes, the total of a node, the exscan among carriers, and what comes of it to everybody.
pub(in crate::plan::registry) fn scan(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let (rounds, bytes) = (f64::from(q(nodes.most())), float(a.bytes));
    path.near(rounds, rounds, rounds * bytes);
    path.reduce((rounds + 1.0) * bytes);
    path.copy(bytes);
    let among = Arguments { size: nodes.count(), ..a.clone() };
    let wire = path.machine.wire;
    path.among(nodes.count(), wire, |path| folds::exscan(&among, path));
    path.near(1.0, others(&nodes), bytes);
}

/// What a node's ranks get in one run: its leader hands each its own when that run is there.
fn handed(nodes: &Nodes, bytes: f64, path: &mut Path<'_>) {
    path.near(1.0, others(nodes), bytes);
}

/// The root puts a message to every other node, one after the other; the last one passes its blocks on.
pub(in crate::plan::registry) fn scatter_direct(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let (bytes, most) = (float(a.bytes), f64::from(nodes.most()));
    let away = f64::from(nodes.count() - 1);
    let (runs, wire) = (path.runs(most, bytes), path.machine.wire);
    path.among(nodes.count(), wire, |path| path.fan(away * runs, away * most * bytes));
    handed(&nodes, bytes, path);
}

/// Halves of the nodes, quarters, …
pub(in crate::plan::registry) fn scatter_binomial(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let each = a.bytes.saturating_mul(nodes.most().into());
    let among = Arguments { size: nodes.count(), bytes: each, ..Arguments::default() };
    let wire = path.machine.wire;
    path.among(nodes.count(), wire, |path| blocks::scatter_binomial(&among, path));
    handed(&nodes, float(a.bytes), path);
}

pub(in crate::plan::registry) fn scatterv_direct(a: &Arguments, path: &mut Path<'_>) {
    scatterv(a, blocks::scatterv_direct, path);
}

pub(in crate::plan::registry) fn scatterv_size_aware(a: &Arguments, path: &mut Path<'_>) {
    scatterv(a, blocks::scatterv_size_aware, path);
}

/// Among the nodes, and what the mean rank gets.
fn scatterv(a: &Arguments, formula: fn(&Arguments, &mut Path<'_>), path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let Ok(among) = lines::among_nodes(a, &nodes) else { return };
    let mean = float(among.counts.iter().sum()) / f64::from(a.size.max(1));
    let wire = path.machine.wire;
    path.among(nodes.count(), wire, |path| formula(&among, path));
    handed(&nodes, mean, path);
}

/// Within nodes all that a rank handles; then bundles of a node's blocks, of which a rank starts one while those of others
/// are on the link.
pub(in crate::plan::registry) fn alltoall_lanes(a: &Arguments, path: &mut Path<'_>) {
    let Ok(nodes) = lines::nodes(a) else { return };
    let (bytes, most) = (float(a.bytes), f64::from(nodes.most()));
    let away = f64::from(a.size - nodes.most());
    let handled = away / most;
    let pieces = if bytes < path.light() { 1.0 } else { 1.0 + handled };
    path.near(1.0, others(&nodes) * pieces, others(&nodes) * (1.0 + handled) * bytes);
    path.copy(bytes);
    let wire = path.machine.wire;
    let puts = handled.ceil();
    path.among(nodes.count(), wire, |path| {
        path.longer(
            |path| path.over(&[1], 1.0, puts, puts * most * bytes),
            |path| path.over(&[1], 1.0, 1.0, most * away * bytes),
        );
    });
}
