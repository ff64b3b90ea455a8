//! Ranks bound to cores, sockets and NUMA nodes.

use super::setup::{Bind, Map};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeSet;

/// A core, as far as we may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Core {
    /// Its hardware threads.
    processors: Vec<usize>,
    /// The number of its socket.
    socket: usize,
    /// The number of its NUMA node.
    numa: usize,
}

/// The cores that we may use, by their first processors. Empty where that cannot be known.
pub(super) fn cores() -> Vec<Core> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let ours = |cpu: &usize| allowed.is_set(*cpu);
    let nodes = numa_nodes();
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    let mut cores = Vec::new();
    for cpu in (0..CpuSet::MAX_CPU).filter(ours) {
        if seen.contains(&cpu) {
            continue;
        }
        let read = |name: &str| {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}");
            std::fs::read_to_string(file).unwrap_or_default()
        };
        let mut processors: Vec<usize> =
            parse(read("thread_siblings_list").trim()).into_iter().filter(ours).collect();
        if !processors.contains(&cpu) {
            processors = vec![cpu];
        }
        seen.extend(&processors);
        // A kernel that does not know the socket says -1.
        let socket = read("physical_package_id").trim().parse().unwrap_or(0);
        let numa = nodes.iter().find(|(_, list)| list.contains(&cpu)).map_or(0, |(node, _)| *node);
        cores.push(Core { processors, socket, numa });
    }
    cores
}

/// Numbers and processors of the NUMA nodes; none where the kernel has no NUMA.
fn numa_nodes() -> Vec<(usize, Vec<usize>)> {
    let folder = "/sys/devices/system/node";
    let nodes = parse(std::fs::read_to_string(format!("{folder}/has_cpu")).unwrap_or_default().trim());
    let list =
        |node: usize| std::fs::read_to_string(format!("{folder}/node{node}/cpulist")).unwrap_or_default();
    nodes.into_iter().map(|node| (node, parse(list(node).trim()))).collect()
}

/// The processors of each of `ranks` ranks on `cores`. Where there are more ranks than cores the cores are taken again from
/// the first.
pub(super) fn processors(cores: &[Core], map: Map, bind: Bind, ranks: usize) -> Vec<Vec<usize>> {
    let order = match map {
        Map::Slot | Map::Core | Map::Node => cores.iter().collect(),
        Map::Socket => in_turns(cores, |core| core.socket),
        Map::Numa => in_turns(cores, |core| core.numa),
    };
    let with = |same: &dyn Fn(&Core) -> bool| {
        cores.iter().filter(|core| same(core)).flat_map(|core| core.processors.clone()).collect()
    };
    let of = |core: &Core| match bind {
        Bind::None => with(&|_| true),
        Bind::Core => core.processors.clone(),
        Bind::Socket => with(&|other| other.socket == core.socket),
        Bind::Numa => with(&|other| other.numa == core.numa),
    };
    order.iter().cycle().take(if order.is_empty() { 0 } else { ranks }).map(|core| of(core)).collect()
}

/// A core of each object in turn, then the next of each that has one.
fn in_turns(cores: &[Core], object: fn(&Core) -> usize) -> Vec<&Core> {
    let turn = |at: usize| cores[..at].iter().filter(|core| object(core) == object(&cores[at])).count();
    let mut order: Vec<usize> = (0..cores.len()).collect();
    order.sort_by_key(|&at| (turn(at), object(&cores[at])));
    order.into_iter().map(|at| &cores[at]).collect()
}

/// A list of processors as the kernel writes it: `0-2,8`. What makes no sense is left out.
fn parse(text: &str) -> Vec<usize> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(low), Ok(high)) = (low.trim().parse::<usize>(), high.trim().parse::<usize>()) {
            all.extend(low..=high.min(CpuSet::MAX_CPU - 1));
        }
    }
    all
}

/// These processors.
pub(super) fn set(processors: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    processors.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    set
}

/// Unties this process as far as the system lets it.
pub(super) fn free() {
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    let _ = sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse("0-2,8"), [0, 1, 2, 8]);
        assert_eq!(parse("x,3-1,"), [0usize; 0]);
        assert!(parse("5-99999999999").len() < CpuSet::MAX_CPU);
        let here = cores();
        assert!(!here.is_empty() && here.iter().all(|core| !core.processors.is_empty()), "{here:?}");
    }

    /// Two sockets of two NUMA nodes each, of 2, 1, 1 and 1 cores with two hardware threads.
    fn machine() -> Vec<Core> {
        let core =
            |(i, (socket, numa)): (usize, (usize, usize))| Core { processors: vec![i, i + 8], socket, numa };
        [(0, 0), (0, 0), (0, 1), (1, 2), (1, 3)].into_iter().enumerate().map(core).collect()
    }

    fn first(map: Map, ranks: usize) -> Vec<usize> {
        processors(&machine(), map, Bind::Core, ranks).iter().map(|list| list[0]).collect()
    }

    #[test]
    fn ranks_go_to_the_next_object() {
        for map in [Map::Slot, Map::Core, Map::Node] {
            assert_eq!(first(map, 5), [0, 1, 2, 3, 4]);
        }
        assert_eq!(first(Map::Socket, 5), [0, 3, 1, 4, 2]);
        assert_eq!(first(Map::Numa, 7), [0, 2, 3, 4, 1, 0, 2]);
        assert!(processors(&[], Map::Socket, Bind::Core, 3).is_empty());
    }

    #[test]
    fn ranks_are_bound_to_whole_objects() {
        let two = |map, bind| processors(&machine(), map, bind, 2);
        assert_eq!(two(Map::Slot, Bind::Core), [[0, 8], [1, 9]]);
        let (left, right) = (vec![0, 8, 1, 9, 2, 10], vec![3, 11, 4, 12]);
        assert_eq!(two(Map::Slot, Bind::Socket), [left.clone(), left.clone()]);
        assert_eq!(two(Map::Socket, Bind::Socket), [left, right]);
        assert_eq!(two(Map::Numa, Bind::Numa), [vec![0, 8, 1, 9], vec![2, 10]]);
    }
}
