//! Hosts as users and Slurm write them, the places of ranks on them, and the mapping that goes out.
#![no_main]

use circulant::launch::mapping;
use circulant_launcher::hosts::{
    capacity, file, list, mapping as write, place, slurm_counts, slurm_names,
};
use libfuzzer_sys::fuzz_target;

const MAX_SLOTS: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let Some(([ranks, each], text)) = data.split_first_chunk::<2>() else { return };
    let text = String::from_utf8_lossy(text);
    let (ranks, each) = (usize::from(*ranks), Some(usize::from(*each)).filter(|&each| each > 0));
    for hosts in [list(&text), file(&text)].into_iter().flatten() {
        assert!((1..=MAX_SLOTS).contains(&hosts.len()));
        for host in &hosts {
            // It becomes a word of ssh's command line.
            assert!(
                !host.name.is_empty()
                    && !host.name.starts_with('-')
                    && !host.name.contains(char::is_whitespace)
            );
            assert!(host.slots.is_none_or(|n| (1..=MAX_SLOTS).contains(&n)));
            // Said alone it is the same host.
            assert_eq!(
                list(&format!("[{}]", host.name)).map(|h| h[0].name.clone()).ok().as_ref(),
                Some(&host.name)
            );
        }
        assert!(capacity(&hosts, each) >= hosts.len());
        let nodes = place(&hosts, ranks, each);
        assert_eq!(nodes.len(), ranks);
        assert!(nodes.iter().all(|&n| n < hosts.len()));
        if ranks > 0 {
            let back = mapping::parse(&write(&nodes), ranks).expect("we read what we write");
            assert!(back.iter().map(|&n| n as usize).eq(nodes.iter().copied()));
        }
    }
    if let Ok(names) = slurm_names(&text) {
        assert!((1..=MAX_SLOTS).contains(&names.len()));
        // Written out in full it is the same list.
        assert_eq!(slurm_names(&names.join(",")).as_ref().ok(), Some(&names));
    }
    if let Ok(counts) = slurm_counts(&text) {
        assert!((1..=MAX_SLOTS).contains(&counts.len()) && counts.iter().all(|n| (1..=MAX_SLOTS).contains(n)));
        let full = counts.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        assert_eq!(slurm_counts(&full).ok(), Some(counts));
    }
});
