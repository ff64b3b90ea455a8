//! Slurm's short form of a list of names of nodes.

/// The most names of a list: more are a slip of the finger.
pub const MAX_NAMES: usize = 1 << 16;

/// `n[1-3,07],login,r[1-2]c[0-1]`, name by name; `None`: it is no such list, or names more nodes than there can be.
pub fn names(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, c) in text.char_indices().chain([(text.len(), ',')]) {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                expand(&text[start..at], &mut names)?;
                start = at + 1;
            }
            _ => {}
        }
    }
    (depth == 0 && !names.is_empty()).then_some(names)
}

/// One pattern, whose brackets may be several.
fn expand(pattern: &str, names: &mut Vec<String>) -> Option<()> {
    let mut made = vec![String::new()];
    let mut rest = pattern;
    while let Some((head, tail)) = rest.split_once('[') {
        let (ranges, after) = tail.split_once(']')?;
        let mut endings = Vec::new();
        for range in ranges.split(',') {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let digits = |t: &str| !t.is_empty() && t.len() < 10 && t.bytes().all(|b| b.is_ascii_digit());
            if !digits(low) || !digits(high) {
                return None;
            }
            let (from, to): (usize, usize) = (low.parse().ok()?, high.parse().ok()?);
            if from > to || to - from >= MAX_NAMES {
                return None;
            }
            endings.extend((from..=to).map(|n| format!("{n:0width$}", width = low.len())));
        }
        if endings.len().checked_mul(made.len())? > MAX_NAMES {
            return None;
        }
        made = made.iter().flat_map(|m| endings.iter().map(move |e| format!("{m}{head}{e}"))).collect();
        rest = after;
    }
    made.iter_mut().for_each(|m| m.push_str(rest));
    if made.iter().any(String::is_empty) || names.len() + made.len() > MAX_NAMES {
        return None;
    }
    names.append(&mut made);
    Some(())
}
