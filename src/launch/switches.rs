//! The switch above our node, as Slurm tells each task: `SLURM_TOPOLOGY_ADDR` is the way down to its node (`s0.s4.node12`), and
//! `SLURM_TOPOLOGY_ADDR_PATTERN` says what each part is (`switch.switch.node`).

/// The switch right above our node, with those above it; `None`: nothing is said, or there is none. The lowest level is taken: its nodes are
/// those that reach each other by one switch, and its links up are the first that can be fewer than those down.
pub(super) fn group(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let pattern = variable("SLURM_TOPOLOGY_ADDR_PATTERN")?;
    let kinds: Vec<&str> = pattern.trim().split('.').collect();
    let (last, above) = kinds.split_last()?;
    let address = variable("SLURM_TOPOLOGY_ADDR")?;
    // A node's name may have dots in it.
    let parts: Vec<&str> = address.trim().splitn(kinds.len(), '.').collect();
    let named = parts.len() == kinds.len() && parts.iter().all(|part| !part.is_empty());
    (named && *last == "node" && !above.is_empty()).then(|| parts[..above.len()].join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(address: &str, pattern: &str) -> Option<String> {
        group(&|name| match name {
            "SLURM_TOPOLOGY_ADDR" => Some(address.to_owned()),
            "SLURM_TOPOLOGY_ADDR_PATTERN" => Some(pattern.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn the_switch_above_the_node_is_its_group() {
        assert_eq!(found("s0.s4.node12", "switch.switch.node").as_deref(), Some("s0.s4"));
        assert_eq!(found("s0.s[4,6].n1.site", "switch.switch.node").as_deref(), Some("s0.s[4,6]"));
        assert_eq!(found("b2.n1", "block.node").as_deref(), Some("b2"));
        // What topology/flat says.
        assert_eq!(found("node12", "node"), None);
        for (address, pattern) in
            [("", "switch.node"), ("s0", "switch.node"), (".n1", "switch.node"), ("s0.n1", "switch")]
        {
            assert_eq!(found(address, pattern), None, "{address:?} {pattern:?}");
        }
        assert_eq!(group(&|_| None), None);
    }
}
