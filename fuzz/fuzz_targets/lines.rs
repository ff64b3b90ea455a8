//! Lines of PMI-1, in pieces of any length, and their fields.
#![no_main]

use circulant::launch::wire::{Line, Lines, quote};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((step, bytes)) = data.split_first() else { return };
    let mut lines = Lines::default();
    let mut got = Vec::new();
    for part in bytes.chunks(usize::from(*step).max(1)) {
        lines.push(part);
        while let Ok(Some(line)) = lines.pop() {
            if let Some(line) = Line::parse(&line) {
                let _ =
                    (line.command(), line.rc(), line.value(), line.text("kvsname"), line.number::<i32>("rc"));
            }
            let _ = quote(&line);
            got.push(line);
        }
    }
    // However they arrive they are cut alike.
    let want: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    assert!(got.iter().zip(&want).all(|(g, w)| g == w) && got.len() < want.len());
});
