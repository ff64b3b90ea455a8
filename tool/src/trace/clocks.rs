//! The clocks of nodes, compared by the messages between them. A message takes at least some time each way; where the shortest
//! ways in both directions are alike, half of their difference is how far one clock is ahead.

use circulant::record::{EventKind, NONE, Record};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How far nodes' clocks are ahead of the first one's.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    ahead_ns: HashMap<String, i64>,
    /// Nodes in the order of their lowest ranks.
    pub(crate) hosts: Vec<String>,
    /// Of these no messages in both directions were found, so that their clocks are taken as they are.
    pub(crate) alone: Vec<String>,
}

impl Clocks {
    /// Nanoseconds to take off the times of `host`.
    pub(crate) fn ahead(&self, host: &str) -> i64 {
        self.ahead_ns.get(host).copied().unwrap_or(0)
    }
}

/// Which message: call, from, to, block.
type Message = (u64, u32, u32, u32, u32);

/// A message's sending and its arrival, as (rank, ticks), where there is one of each.
pub(crate) fn messages(records: &BTreeMap<u32, Record>) -> Vec<[(u32, u64); 2]> {
    let mut seen: HashMap<Message, [Vec<(u32, u64)>; 2]> = HashMap::new();
    for (&rank, record) in records {
        for event in record.events.iter().filter(|e| e.peer != NONE && e.block != NONE) {
            let (from, to, end) = match event.kind {
                EventKind::Put | EventKind::Eager | EventKind::Notify => (rank, event.peer, 0),
                EventKind::Arrive => (event.peer, rank, 1),
                _ => continue,
            };
            let key = (event.call.comm, event.call.sequence, from, to, event.block);
            seen.entry(key).or_default()[end].push((rank, event.ticks));
        }
    }
    let mut all: Vec<_> = seen
        .into_values()
        .filter_map(|ends| match [&ends[0][..], &ends[1][..]] {
            [[sent], [arrived]] => Some([*sent, *arrived]),
            _ => None,
        })
        .collect();
    all.sort_unstable();
    all
}

/// Brings the clocks of all nodes to that of the first.
pub(crate) fn compare(records: &BTreeMap<u32, Record>) -> Clocks {
    let mut clocks = Clocks::default();
    for record in records.values() {
        if !clocks.hosts.contains(&record.host) {
            clocks.hosts.push(record.host.clone());
        }
    }
    if clocks.hosts.len() < 2 {
        return clocks;
    }
    let node = |rank: &u32| clocks.hosts.iter().position(|h| *h == records[rank].host).unwrap_or(0);
    let nodes: HashMap<u32, usize> = records.keys().map(|rank| (*rank, node(rank))).collect();
    let mut shortest: HashMap<(usize, usize), i64> = HashMap::new();
    for [(from, sent), (to, arrived)] in messages(records) {
        let took = records[&to].unix_ns(arrived).saturating_sub(records[&from].unix_ns(sent));
        let least = shortest.entry((nodes[&from], nodes[&to])).or_insert(took);
        *least = took.min(*least);
    }
    let mut ahead = vec![None; clocks.hosts.len()];
    ahead[0] = Some(0);
    let mut open = VecDeque::from([0]);
    while let Some(at) = open.pop_front() {
        for next in 0..ahead.len() {
            let (Some(there), Some(back)) = (shortest.get(&(at, next)), shortest.get(&(next, at))) else {
                continue;
            };
            if ahead[next].is_none() {
                ahead[next] = ahead[at].map(|a: i64| a.saturating_add(there.saturating_sub(*back) / 2));
                open.push_back(next);
            }
        }
    }
    for (host, ahead) in clocks.hosts.iter().zip(ahead) {
        match ahead {
            Some(ns) => _ = clocks.ahead_ns.insert(host.clone(), ns),
            None => clocks.alone.push(host.clone()),
        }
    }
    clocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rank: u32, host: &str, events: &[(u64, &str, u32, u32)]) -> Record {
        let lines: String = events
            .iter()
            .map(|(at, kind, peer, block)| format!("event {at} {kind} 0 1 bcast {peer} 0 {block}\n"))
            .collect();
        let text = format!(
            "circulant-record 1\nrank {rank} of 4\nprocess 1 on {host}\nwhy end\nclock 0 1000\nclock 9000 10000\nlost 0\n{lines}end\n"
        );
        Record::read(text.as_bytes()).unwrap()
    }

    /// Node b is 300 ns ahead, and a message takes 50; node c is 500 behind b; of node d nothing comes back.
    #[test]
    fn clocks_are_compared_by_messages_in_both_directions() {
        let records = [
            record(0, "a", &[(1000, "put", 1, 7), (2000, "arrive", 1, 8), (2100, "put", 3, 1)]),
            record(
                1,
                "b",
                &[(1350, "arrive", 0, 7), (2250, "put", 0, 8), (2500, "eager", 2, 1), (3000, "arrive", 2, 2)],
            ),
            record(2, "c", &[(2050, "arrive", 1, 1), (2450, "notify", 1, 2)]),
            record(3, "d", &[(5000, "arrive", 0, 1)]),
        ];
        let clocks = compare(&records.into_iter().map(|r| (r.rank, r)).collect());
        let ahead: Vec<i64> = ["a", "b", "c", "d"].iter().map(|h| clocks.ahead(h)).collect();
        assert_eq!(ahead, [0, 300, -200, 0]);
        assert_eq!(clocks.alone, ["d"]);
    }
}
