//! A failing program made short.

use super::judge::Wrong;
use super::program::Program;

/// Takes items away, many at first, as long as the program fails in the same way; the shortest, and how it fails.
pub fn shrink(
    program: &Program,
    wrong: &Wrong,
    fails: impl Fn(&Program) -> Option<Wrong>,
) -> (Program, Wrong) {
    let (mut short, mut last) = (program.clone(), wrong.clone());
    let mut size = short.items.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let before = short.items.len();
        while at < short.places.len() {
            let gone = at..(at + size).min(short.places.len());
            let kept = short.places.iter().enumerate().filter(|(i, _)| !gone.contains(i));
            let kept: Vec<usize> = kept.map(|(_, place)| *place).collect();
            let candidate = short.keep(&kept);
            match fails(&candidate).filter(|w| w.class == last.class) {
                Some(wrong) => (short, last) = (candidate, wrong),
                None => at += size,
            }
        }
        // Items of one may go once others have gone.
        size = if size == 1 && short.items.len() < before { 1 } else { size / 2 };
    }
    (short, last)
}
