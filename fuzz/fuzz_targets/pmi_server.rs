//! Ranks that say anything to the launcher: the first byte of each line is the rank.
#![no_main]

use circulant_launcher::{Outcome, Pmi};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut pmi = Pmi::new("job", 3);
    for line in data.split(|b| *b == b'\n') {
        let (rank, line) = line.split_first().map_or((0, line), |(r, rest)| (usize::from(*r) % 3, rest));
        match pmi.line(rank, line) {
            // An answer is one line, whatever was put in: else ranks could forge each other's.
            Outcome::Reply(answer) | Outcome::All(answer) => {
                assert_eq!(answer.iter().position(|b| *b == b'\n'), Some(answer.len() - 1));
            }
            _ => {}
        }
        let _ = (pmi.is_inside(rank), pmi.is_finalized(rank));
    }
});
