//! Ranks tied to cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeSet;

/// The processors of each core that we may use, as text for [`set`]. Empty where that cannot be known.
pub(super) fn cores() -> Vec<String> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let ours = |cpu: &usize| allowed.is_set(*cpu);
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    let mut cores = Vec::new();
    for cpu in (0..CpuSet::MAX_CPU).filter(ours) {
        if seen.contains(&cpu) {
            continue;
        }
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let list = std::fs::read_to_string(file).unwrap_or_default();
        let mut siblings: Vec<usize> = parse(list.trim()).into_iter().filter(ours).collect();
        if !siblings.contains(&cpu) {
            siblings = vec![cpu];
        }
        seen.extend(&siblings);
        cores.push(siblings.iter().map(usize::to_string).collect::<Vec<_>>().join(","));
    }
    cores
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
pub(super) fn set(processors: &str) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in parse(processors).into_iter().filter(|&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
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
        assert!(!cores().is_empty());
    }
}
