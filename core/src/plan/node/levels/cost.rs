//! What plans that know groups cost. Each node has its own link, and within a group that is what carries most: a node gets (G−1)/G of a vector
//! there, or puts as much. Between groups a lane moves its share alone, at the taper's rate, as all lanes do at the same time.

use super::super::Nodes;
use super::super::line::{by_node, others};
use super::super::reduce_scatter::largest_lane;
use super::known::{blocks, ends, levels, reduce_lanes, with_others};
use super::whole;
use crate::machine::{LogGp, Machine};
use crate::plan::allgatherv::window::circulant_widths;
use crate::plan::allreduce::scattered;
use crate::plan::bcast::circulant;
use crate::plan::reduce_scatter::plain;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::{Arguments, Operation};
use crate::plan::topology::log2_ceil;
use std::sync::Arc;

/// Walks the critical path among nodes and groups, of the arguments of the nodes, which know their groups as nodes.
type Walk = fn(&Arguments, &Nodes, &mut Path<'_>);

/// The path among the nodes' groups; where ranks share nodes, what they do in these besides.
pub(super) fn priced(operation: Operation, a: &Arguments, walk: Walk, path: &mut Path<'_>) {
    let Ok(levels) = levels(a) else { return };
    let Some(groups) = levels.last() else { return };
    let nodes = (0..groups.size()).map(|node| groups.of(node)).collect();
    let mut among = Arguments { size: groups.size(), nodes, groups: Arc::default(), ..a.clone() };
    if matches!(operation, Operation::Bcast | Operation::Reduce) {
        among.blocks = Some(blocks(a, &levels, path.model()));
    }
    if let [ranks, _] = &levels[..] {
        among.root = ranks.of(a.root.min(a.size.saturating_sub(1)));
        among.counts = if a.counts.is_empty() { Vec::new() } else { by_node(ranks, &a.counts) };
        path.near(2.0, 2.0 * others(ranks), float(a.total(operation)));
    }
    walk(&among, groups, path);
}

/// The wire of a lane between groups, all of whose nodes put to others at once.
fn between(path: &Path<'_>) -> LogGp {
    let Machine { wire, groups, .. } = *path.machine();
    let latency_ns = wire.latency_ns.saturating_add(groups.latency_ns);
    LogGp { latency_ns, byte_ps: wire.byte_ps.saturating_mul(groups.taper.into()), ..wire }
}

/// Of each of a group's nodes its share, in pieces, to each of the others: a node adds up what comes while it puts.
fn folded(groups: &Nodes, bytes: f64, pieces: f64, path: &mut Path<'_>) {
    let (others, wire) = (others(groups), path.machine().wire);
    let share = bytes / f64::from(groups.least());
    path.among(groups.size(), wire, |path| {
        let runs = path.runs(pieces, share / pieces);
        let bytes = others * share * path.at_once();
        let puts = |path: &mut Path<'_>| path.over(&[1], 1.0, others * runs, bytes);
        path.beside(puts, |path| path.reduce(others * share));
    });
}

/// In blocks: the root puts them to carriers, these among groups and within theirs.
pub(super) fn bcast(a: &Arguments, groups: &Nodes, path: &mut Path<'_>) {
    let (n, bytes) = (a.blocks.unwrap_or(1), float(a.bytes));
    let levels = std::slice::from_ref(groups);
    let wire = with_others(levels, path.model());
    // A group's link carries all its lanes, in a pipeline with theirs: the slower counts.
    let taper = float(path.machine().groups.taper.into()) / f64::from(groups.most());
    let size = ends(levels);
    path.among(size, wire, |path| circulant::walk(size, n, bytes * taper.max(1.0), path));
    let block = bytes / f64::from(n) * taper.min(1.0);
    path.among(groups.count(), wire, |path| path.over(&[1], 0.0, 0.0, block));
    path.blocks(n);
}

/// As by lanes, or in whole blocks where each rank has a node to itself and that takes less. It is not known that contributions lie in order, but most do.
pub(super) fn allgatherv(a: &Arguments, groups: &Nodes, path: &mut Path<'_>) {
    let each_alone = path.size() == groups.size();
    match stretches(a, groups, path.model()).filter(|_| each_alone) {
        Some(n) => {
            in_whole(a, groups, n, path);
            path.blocks(n);
        }
        None => in_lanes(a, groups, path),
    }
}

/// Upper limit of the number of stretches. Chosen: of 64 the first takes less than 2 % of the whole.
pub(super) const MAX_STRETCHES: u32 = 64;

/// How much of the first stretch counts where n is chosen, of which the taper is not known: it comes before anything is gathered, and takes the taper's times
/// its bytes. Chosen between 1:1 and 1:4. Simulated: 8 MiB among 128 to 1024 nodes in groups of 16 and 32 takes at most 1.03 times what the
/// best number takes.
const FIRST_STRETCH: f64 = 3.0;

/// The stretches in which blocks of groups go as a whole, if that is cheaper: the same at all ranks, as only the wire and the counts decide.
pub(super) fn stretches(a: &Arguments, groups: &Nodes, wire: &LogGp) -> Option<u32> {
    if !whole::follows(groups) {
        return None;
    }
    let window = lacking(a, groups) / f64::from(groups.least());
    let by_rule = || {
        let (byte, overhead) = (float(wire.byte_ps) / 1000.0, float(wire.overhead_ns.max(1)));
        (FIRST_STRETCH * window * byte / overhead / f64::from(groups.most())).sqrt().round()
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small and positive
    let n = a.blocks.unwrap_or_else(|| by_rule().min(f64::from(MAX_STRETCHES)) as u32);
    let n = n.clamp(1, MAX_STRETCHES);
    whole::rounds(groups, n)?;
    let machine = Machine::flat(*wire);
    let price = |walk: &dyn Fn(&mut Path<'_>)| {
        let mut path = Path::new(&machine, groups.size());
        walk(&mut path);
        path.cost().ns
    };
    let in_whole = price(&|path| in_whole(a, groups, n, path));
    (in_whole < price(&|path| in_lanes(a, groups, path))).then_some(n)
}

/// The bytes that a group lacks.
fn lacking(a: &Arguments, groups: &Nodes) -> f64 {
    float(a.total(Operation::Allgatherv)) * (1.0 - 1.0 / f64::from(groups.count()))
}

/// The block of a group; then, each on the link of a node, what comes from other groups and its gathering, of which the first stretch comes before all. Or the
/// links between groups take longer.
fn in_whole(a: &Arguments, groups: &Nodes, n: u32, path: &mut Path<'_>) {
    let (wire, far, others) = (path.machine().wire, between(path), others(groups));
    let (n, nodes, hops) = (f64::from(n), f64::from(groups.least()), f64::from(log2_ceil(groups.most())));
    let piece = float(by_node(groups, &a.counts).into_iter().max().unwrap_or(0)) / (others + 1.0);
    let window = lacking(a, groups) / nodes / n;
    let widths = circulant_widths(groups.most());
    let puts = |path: &Path<'_>, bytes| -> f64 {
        let runs = |&(_, width): &(u32, u32)| path.runs(width.into(), bytes);
        widths.iter().map(runs).map(|runs| if path.shared(runs, bytes) { 1.0 } else { runs }).sum()
    };
    // The windows of a message may lie round the end of the group, and round that of the output.
    let split = 2.0;
    // Blocks have parts in a window.
    let parts = 1.0 + (f64::from(groups.count() - 1) / nodes / n).ceil();
    path.among(groups.size(), wire, |path| path.over(&[1], hops, 1.0 + puts(path, piece), others * piece));
    path.among(groups.size(), far, |path| path.over(&[1], 1.0, parts, window));
    path.among(groups.size(), wire, |path| {
        let gathered = split + puts(path, window);
        path.longer(
            |path| {
                path.over(&[1], hops, n * gathered + (n - 1.0) * parts, (n * (others + 1.0) - 1.0) * window)
            },
            |path| {
                path.among(groups.size(), far, |path| path.over(&[1], 0.0, 0.0, (n - 1.0) * window));
                path.over(&[1], hops, gathered, others * window);
            },
        );
    });
}

/// A node puts its own piece and those that its lane brings to the others of its group. What comes to the lane last is passed on last, and latencies are
/// hidden by what is put before; or the way of that takes longer.
fn in_lanes(a: &Arguments, groups: &Nodes, path: &mut Path<'_>) {
    let (count, wire, far) = (groups.count(), path.machine().wire, between(path));
    let (pieces, rounds) = (f64::from(count), f64::from(log2_ceil(count)));
    let all = float(a.counts.iter().sum());
    let piece = all / pieces / f64::from(groups.least());
    let puts = |path: &Path<'_>| if path.shared(pieces, piece) { rounds + 1.0 } else { pieces };
    let others = others(groups);
    path.among(groups.size(), wire, |path| {
        let start = path.clone();
        path.over(&[1], 1.0, others * puts(path) + rounds, others * pieces * piece + (pieces - 1.0) * piece);
        path.longer(
            |_| (),
            |path| {
                *path = start;
                path.among(count, far, |path| path.over(&[1], rounds, rounds, (pieces - 1.0) * piece));
                let last = pieces - f64::from(1u32 << log2_ceil(count).saturating_sub(1));
                let puts = others * puts(path).min(last);
                path.over(&[1], 1.0, puts, others * last * piece);
            },
        );
    });
}

/// How much longer the combining of a block after the other takes, as some come late. Simulated: 8 MiB among 32 to 128 nodes takes 1.08 to 1.1 times
/// what the formula says without it.
const HELD_UP: f64 = 1.1;

/// In blocks: these go to carriers, which add up, among groups, and to the root, each while more come. A carrier combines what its group
/// and one other have for it.
pub(super) fn reduce(a: &Arguments, groups: &Nodes, path: &mut Path<'_>) {
    let (n, wire, far) = (float(a.blocks.unwrap_or(1).into()), path.machine().wire, between(path));
    let lanes = f64::from(reduce_lanes(std::slice::from_ref(groups), a.root));
    let (block, others) = (float(a.bytes) / n, others(groups));
    let share = block / lanes;
    let taper = float(path.machine().groups.taper.into()) / f64::from(groups.most());
    // The first block comes to its carriers, which combine it one contribution after the other; all others are behind it.
    path.among(groups.size(), wire, |path| {
        let puts =
            |path: &mut Path<'_>| path.over(&[1], 1.0, n * others, n * others * share * taper.max(1.0));
        path.longer(puts, |path| {
            path.over(&[1], 1.0, others, others * share);
            path.reduce(HELD_UP * (n - 1.0) * (others + 1.0) * share);
        });
        path.reduce(share);
    });
    path.among(groups.count(), far, |path| {
        let hops = f64::from(log2_ceil(groups.count()));
        path.over(&[1], hops, hops, hops * share);
        path.reduce(hops * share);
    });
    path.among(groups.size(), wire, |path| path.over(&[1], 1.0, 1.0, block));
    path.blocks(a.blocks.unwrap_or(1));
}

pub(super) fn allreduce(a: &Arguments, groups: &Nodes, path: &mut Path<'_>) {
    let (pieces, bytes, wire) = (f64::from(groups.count()), float(a.bytes), path.machine().wire);
    folded(groups, bytes, pieces, path);
    let share = a.bytes.div_ceil(groups.least().into());
    let among = Arguments { size: groups.count(), bytes: share, ..a.clone() };
    let far = between(path);
    path.among(groups.count(), far, |path| scattered::circulant_cost(&among, 1.0, path));
    let (others, share) = (others(groups), float(share));
    path.among(groups.size(), wire, |path| {
        // A put for each round that brings some.
        let rounds = 1.0 + f64::from(log2_ceil(groups.count()));
        let runs = path.runs(pieces, share / pieces).max(rounds.min(pieces));
        path.over(&[1], 1.0, others * runs, others * share * path.at_once());
    });
}

pub(super) fn reduce_scatter(a: &Arguments, groups: &Nodes, path: &mut Path<'_>) {
    let lane = float(largest_lane(groups, &a.counts));
    folded(groups, lane * f64::from(groups.least()), f64::from(groups.count()), path);
    let counts = by_node(groups, &a.counts);
    let counts = counts.iter().map(|count| count.div_ceil(groups.least().into())).collect();
    let (among, wire) = (Arguments { size: groups.count(), counts, ..a.clone() }, path.machine().wire);
    let far = between(path);
    path.among(groups.count(), far, |path| plain::cost(&among, 1.0, path));
    if groups.least() < groups.most() {
        let share = lane / f64::from(groups.count());
        path.among(groups.size(), wire, |path| path.over(&[1], 1.0, others(groups), share));
    }
}
