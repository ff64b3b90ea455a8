//! What the lines of algorithms that know nodes have in common. N nodes, S the ranks of the largest, q_N = ⌈log2 N⌉,
//! q_S = ⌈log2 S⌉. Rounds are those of the proof, of which many are empty for most ranks.
//!
//! Their costs: a plan among carriers, of which each put is followed by those within the node, and the way within the first
//! and the last node.

use super::{Nodes, fold::MIN_SHARED_FOLD_BYTES};
use crate::error::{Result, argument};
use crate::machine::{LogGp, Machine};
use crate::plan::registry::Arguments;
use crate::plan::registry::cost::{Path, float};
use crate::plan::registry::line::{commutative, q};

pub(super) const LEADERS: &str = "several nodes, several ranks on some";
pub(super) const LANES: &str = "several nodes of the same number of ranks, several on each";
pub(super) const LEADERS_COMMUTE: &str = "several nodes, several ranks on some; commutative";
pub(super) const LANES_COMMUTE: &str =
    "several nodes of the same number of ranks, several on each; commutative";
pub(super) const FULL_LANE: &str = "Träff and Hunold 2020, arXiv 1910.13373; Träff 2022";

pub(super) fn nodes(a: &Arguments) -> Result<Nodes> {
    Nodes::new(a.size, &a.nodes)
}

/// Nodes of the same number of ranks.
pub(super) fn even(a: &Arguments) -> Result<Nodes> {
    let nodes = nodes(a)?;
    nodes.each()?;
    Ok(nodes)
}

/// A put for each rank of a node.
pub(super) fn of_node(a: &Arguments) -> u32 {
    nodes(a).map_or(1, |nodes| nodes.most())
}

/// What [`LEADERS`] says.
pub(super) fn leaders(a: &Arguments) -> Result<()> {
    nodes(a).map(|_| ())
}

/// What [`LANES`] says.
pub(super) fn lanes(a: &Arguments) -> Result<()> {
    even(a).map(|_| ())
}

/// What [`LEADERS_COMMUTE`] says.
pub(super) fn leaders_commute(a: &Arguments) -> Result<()> {
    leaders(a).and_then(|()| commutative(a))
}

/// What [`LANES_COMMUTE`] says.
pub(super) fn lanes_commute(a: &Arguments) -> Result<()> {
    lanes(a).and_then(|()| commutative(a))
}

/// (n + q_N)·S rounds, and S−1 for each stage within nodes.
pub(super) fn by_blocks(a: &Arguments, n: u32, stages: u32) -> u32 {
    let rounds = |nodes: Nodes| {
        let rounds = n.saturating_add(q(nodes.count())).saturating_mul(nodes.most());
        rounds.saturating_add(stages * (nodes.most() - 1))
    };
    nodes(a).map_or(0, rounds)
}

/// How many puts within a node cost a carrier as much as one between nodes, where n is chosen. What the transport within a node
/// costs is not known there. Between what is measured: 3 by instructions of shared memory and verbs;ofi_rxm (465 and 1507, `ci/cost
/// puts`), 30 by times of shared memory and tcp (0.1 and 3.2 us, `circulant bench put`).
const NEAR_PUTS_PER_PUT: u64 = 8;

/// The wire with the puts within a node in o.
pub(super) fn with_fan(nodes: &Nodes, model: &LogGp) -> LogGp {
    let fan = model.overhead_ns.saturating_mul(u64::from(nodes.most() - 1)) / NEAR_PUTS_PER_PUT;
    LogGp { overhead_ns: model.overhead_ns.saturating_add(fan), ..*model }
}

/// What has equal counts, with a count for each rank.
pub(super) fn equal(a: &Arguments) -> Result<Arguments> {
    let end = a.bytes.checked_mul(a.size.into()).ok_or_else(|| argument("beyond 2^64 bytes"))?;
    let displs = (0..u64::from(a.size)).map(|j| j * (end / u64::from(a.size.max(1)))).collect();
    Ok(Arguments { counts: vec![a.bytes; a.size as usize], displs, ..a.clone() })
}

/// The bytes of each node's ranks together.
pub(super) fn by_node(nodes: &Nodes, counts: &[u64]) -> Vec<u64> {
    let count = |rank: &u32| counts.get(*rank as usize).copied().unwrap_or(0);
    (0..nodes.count())
        .map(|node| nodes.members(node).iter().map(count).fold(0, u64::saturating_add))
        .collect()
}

/// All ranks of a node but one.
pub(super) fn others(nodes: &Nodes) -> f64 {
    f64::from(nodes.most() - 1)
}

/// The wire between carriers: each put is followed by one to every other rank of the node.
pub(super) fn wire(machine: &Machine, nodes: &Nodes) -> LogGp {
    let fan = machine.near.overhead_ns.saturating_mul(u64::from(nodes.most() - 1));
    // A block must not only come over the wire but be read within the node as fast.
    let byte_ps = machine.wire.byte_ps.max(machine.near.byte_ps);
    LogGp { overhead_ns: machine.wire.overhead_ns.saturating_add(fan), byte_ps, ..machine.wire }
}

/// The wire where this many bytes of others are on it while a put is made.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
pub(super) fn hidden(wire: LogGp, bytes: f64) -> LogGp {
    let others = (bytes * float(wire.byte_ps) / 1000.0) as u64;
    LogGp { overhead_ns: wire.overhead_ns.saturating_sub(others), ..wire }
}

/// What a node's ranks combine, taking turns, of vectors of this many bytes each: all but one of the contributions, at
/// as many ranks.
pub(super) fn added(a: &Arguments, nodes: &Nodes, path: &mut Path<'_>) {
    let share = float(a.bytes) * others(nodes) / f64::from(nodes.most());
    path.near(1.0, others(nodes), share);
    path.reduce(share);
}

/// The same where the leader has short vectors to itself, and else the others put their shares to it, of which a
/// block must be there.
pub(super) fn led(a: &Arguments, nodes: &Nodes, block: f64, path: &mut Path<'_>) {
    if a.bytes >= MIN_SHARED_FOLD_BYTES {
        added(a, nodes, path);
        return path.near(1.0, 1.0, block);
    }
    let all = float(a.bytes) * others(nodes);
    path.near(1.0, 1.0, all);
    path.reduce(all);
}

/// Lanes share the link, but combine their shares at the same time.
pub(super) fn among_lanes(
    a: &Arguments,
    nodes: &Nodes,
    n: u32,
    path: &mut Path<'_>,
    formula: impl FnOnce(&Arguments, &mut Path<'_>),
) {
    let most = u64::from(nodes.most());
    let wire = path.machine().wire;
    let block = float(a.bytes) / f64::from(n) / f64::from(nodes.most());
    let wire = hidden(LogGp { reduce_ps: wire.reduce_ps / most, ..wire }, block * others(nodes));
    let among = Arguments { size: nodes.count(), blocks: Some(n), ..a.clone() };
    path.among(nodes.count(), wire, |path| formula(&among, path));
}
