//! `PMI_process_mapping`: which node each rank lives on, as launchers write it:
//! `(vector,(first_node,nodes,ranks_per_node),…)`. The list of blocks starts over when it is used up.

use crate::error::{Error, ErrorKind, Result};

/// The node index of each of `size` ranks.
///
/// # Errors
/// When `text` is not a process mapping, or covers no rank.
///
/// ```
/// use circulant::launch::mapping::parse;
/// assert_eq!(parse("(vector,(0,2,2))", 4)?, [0, 0, 1, 1]);
/// assert_eq!(parse("(vector,(0,1,1))", 3)?, [0, 0, 0]); // wraps round
/// assert_eq!(parse("(vector,(0,1,2),(1,1,1))", 4)?, [0, 0, 1, 0]);
/// # Ok::<(), circulant::Error>(())
/// ```
pub fn parse(text: &str, size: usize) -> Result<Vec<u32>> {
    let blocks = blocks(text).ok_or_else(|| {
        let text: String = text.chars().take(200).collect();
        Error::new(ErrorKind::Launch, format!("PMI_process_mapping cannot be understood: {text:?}"))
    })?;
    let mut map = Vec::with_capacity(size.min(1 << 20));
    // Every block that is left holds a rank, so this ends after `size` additions at most.
    for &(first, nodes, each) in blocks.iter().cycle() {
        for node in first..=first + (nodes - 1) {
            if map.len() == size {
                return Ok(map);
            }
            let more = size - map.len();
            map.extend(std::iter::repeat_n(node, more.min(each as usize)));
        }
    }
    Ok(map)
}

/// The blocks (first node, nodes, ranks per node) that hold ranks; `None` when there are none.
fn blocks(text: &str) -> Option<Vec<(u32, u32, u32)>> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut rest = text.strip_prefix("(vector")?.strip_suffix(')')?;
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        let (block, after) = rest.strip_prefix(",(")?.split_once(')')?;
        rest = after;
        let mut numbers = block.split(',').map(str::parse::<u32>);
        let (first, nodes, each) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        if numbers.next().is_some() || first.checked_add(nodes).is_none() {
            return None;
        }
        if nodes > 0 && each > 0 {
            blocks.push((first, nodes, each));
        }
    }
    (!blocks.is_empty()).then_some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_launchers_say() {
        assert_eq!(parse("(vector,(0,1,4))", 4).unwrap(), [0; 4]);
        assert_eq!(parse("(vector,(0,1,3),(1,1,1))", 4).unwrap(), [0, 0, 0, 1]);
        assert_eq!(parse("(vector,(0,3,1))", 7).unwrap(), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(parse(" (vector, (5,2,1), (0,0,9))\n", 3).unwrap(), [5, 6, 5]);
        assert_eq!(parse("(vector,(0,1,1))", 0).unwrap(), [0u32; 0]);
        assert_eq!(parse("(vector,(0,4294967295,4294967295))", 3).unwrap(), [0; 3]);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "",
            "vector",
            "(vector)",
            "(vector,)",
            "(vector,(0,1,1)",
            "(vector,(0,1))",
            "(vector,(0,1,1,1))",
            "(vector,(0,0,1))",
            "(vector,(0,1,0))",
            "(vector,(-1,1,1))",
            "(vector,(4294967295,1,1))",
            "(vector,(0,1,1),(1,1",
            "(vector,(0,1,1)(1,1,1))",
            "(vector,(a,b,c))",
            "(matrix,(0,1,1))",
        ] {
            assert!(parse(bad, 4).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text(text in "[(),0-9vector]{0,60}", size in 0usize..1000) {
            if let Ok(map) = parse(&text, size) {
                prop_assert_eq!(map.len(), size);
            }
        }

        #[test]
        fn any_blocks(
            blocks in proptest::collection::vec((any::<u32>(), any::<u32>(), any::<u32>()), 0..9),
            size in 0usize..1000,
        ) {
            let list: String = blocks.iter().map(|(f, n, e)| format!(",({f},{n},{e})")).collect();
            if let Ok(map) = parse(&format!("(vector{list})"), size) {
                prop_assert_eq!(map.len(), size);
                for node in map {
                    prop_assert!(blocks.iter().any(|b| node >= b.0 && node - b.0 < b.1));
                }
            }
        }
    }
}
