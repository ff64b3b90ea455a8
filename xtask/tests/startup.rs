//! The simulation of a start-up against what follows by hand where little happens.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "../src/startup.rs"]
#[allow(dead_code, reason = "its table is xtask's")]
mod startup;

use startup::{Costs, Job, answered, start};

/// Nothing takes time.
const FREE: Costs = Costs {
    ssh_ns: 0,
    fork_ns: 0,
    begin_ns: 0,
    cores: 1,
    request_ns: 0,
    value_ns: 0,
    value_bytes: 0,
    latency_ns: 0,
    byte_ps: 0,
    piece_values: u64::MAX,
};

/// A server that one thing at a time is asked answers as many requests as there are, whoever asks; one alone waits for the way to another node each time.
#[test]
fn requests_are_answered_one_after_another() {
    for (clients, gets) in [(1, 7), (5, 3), (100, 30)] {
        let all = clients as u64 * gets;
        assert_eq!(answered(&vec![gets; clients], 15, (1, 0)), all * 15);
        let there = answered(&vec![gets; clients], 15, (3, 20));
        assert!(there >= all * 45 && there <= all * 45 + gets * 2 * 20, "{there}");
    }
    assert_eq!(answered(&[7], 15, (3, 20)), 7 * (45 + 40));
    assert_eq!(answered(&[], 15, (1, 0)), 0);
    assert_eq!(answered(&[0, 4, 0], 15, (1, 0)), 60);
}

/// One node: its processes are started one after another, each begins on a core, and each phase takes as long as its requests.
#[test]
fn one_node_takes_what_its_server_and_its_cores_take() {
    let job = Job { nodes: 1, per_node: 6, fanout: 32 };
    let costs = Costs { fork_ns: 10, begin_ns: 100, cores: 2, ..FREE };
    // The second core begins with the second process, and has two more.
    assert_eq!(start(job, &costs).processes, 20 + 3 * 100);
    let costs = Costs { fork_ns: 10, begin_ns: 100, cores: 6, request_ns: 3, ..FREE };
    let times = start(job, &costs);
    assert_eq!((times.agents, times.processes), (0, 60 + 100));
    let phases = job.phases();
    let mut end = times.processes;
    for (phase, found) in phases.iter().zip(&times.phases) {
        let more = phase.root_gets + phase.first_gets;
        end += 3 * (6 * (phase.puts + phase.gets + 1) + if more > 0 { more + 1 } else { 0 });
        assert_eq!(*found, end, "{}", phase.name);
    }
}

/// Agents: with all below the launcher the last one starts behind all others; in a tree there is a level more for each time that the fan-out is
/// used up.
#[test]
fn agents_come_up_level_by_level() {
    let agents = |nodes, fanout, costs: &Costs| start(Job { nodes, per_node: 1, fanout }, costs).agents;
    let costs = Costs { ssh_ns: 1000, fork_ns: 1, ..FREE };
    assert_eq!(agents(21, 20, &costs), 20 + 1000);
    let levels = Costs { ssh_ns: 1000, ..FREE };
    for (nodes, fanout, depth) in
        [(1, 3, 0), (4, 3, 1), (5, 3, 2), (13, 3, 2), (14, 3, 3), (10_000, 32, 3), (7, 1, 6)]
    {
        assert_eq!(agents(nodes, fanout, &levels), depth * 1000, "{nodes} nodes, {fanout}");
    }
}

/// A fence among nodes that are all below the launcher: their values come over its link in one after another, and all values go to each over its link out; the
/// servers take in what comes.
#[test]
fn a_fence_takes_what_links_and_servers_take() {
    const NODES: usize = 9;
    let job = Job { nodes: NODES, per_node: 1, fanout: NODES };
    let (others, nodes) = (NODES as u64 - 1, NODES as u64);
    let first = |costs: &Costs| start(job, costs).phases[0];
    let links = Costs { value_bytes: 100, byte_ps: 1000, latency_ns: 7, ..FREE };
    assert_eq!(first(&links), 7 + others * 100 + 7 + others * nodes * 100);
    let servers = Costs { value_ns: 5, ..FREE };
    assert_eq!(first(&servers), others * 5 + nodes * 5);
    assert_eq!(first(&Costs { latency_ns: 7, ..FREE }), 14);
}

/// The same in a tree: a level more is a message more each way.
#[test]
fn a_fence_goes_up_and_down_all_levels() {
    let first =
        |nodes| start(Job { nodes, per_node: 1, fanout: 3 }, &Costs { latency_ns: 7, ..FREE }).phases[0];
    assert_eq!([1, 4, 13, 40].map(first), [0, 14, 28, 42]);
}

/// A fence carries what ranks put for other nodes, and nothing of what they put for their own.
#[test]
fn what_a_node_needs_alone_is_not_carried() {
    let (nodes, count) = (9_usize, 9_u64);
    let job = Job { nodes, per_node: 5, fanout: nodes };
    let times = start(job, &Costs { value_bytes: 100, byte_ps: 1000, ..FREE }).phases;
    // The values of all other nodes come in one after another, and those of all nodes go out to each other node.
    let carried = |each: u64| (count - 1) * each * 100 + (count - 1) * count * each * 100;
    let mut end = 0;
    for (phase, found) in job.phases().iter().zip(&times) {
        end += match (phase.root_gets, phase.first_is_far) {
            (0, false) => carried(phase.far_puts * 5),
            (0, true) => carried(1),
            // Rank 0's own value has no way up.
            _ => (count - 1) * 100,
        };
        assert_eq!(*found, end, "{}", phase.name);
    }
    assert_eq!(job.phases().iter().map(|phase| phase.far_puts).sum::<u64>(), 1, "its address");
}

/// Values that go down in pieces are on all links of a way at the same time.
#[test]
fn pieces_of_a_fence_follow_each_other() {
    let (nodes, count) = (7_usize, 7_u64);
    let job = Job { nodes, per_node: 1, fanout: 1 };
    let first = |piece_values| {
        start(job, &Costs { value_bytes: 100, byte_ps: 1000, latency_ns: 7, piece_values, ..FREE }).phases[0]
    };
    let (links, up) = (count - 1, (1..count).sum::<u64>() * 100);
    assert_eq!(first(count), 2 * links * 7 + up + links * count * 100, "as a whole");
    assert_eq!(first(1), 2 * links * 7 + up + count * 100 + (links - 1) * 100);
}
