//! What launcher and agents say to each other: a greeting, then frames, in pieces of any length.
#![no_main]

use circulant_launcher::message::{Down, Frames, Greeting, Up, greeting};
use libfuzzer_sys::fuzz_target;

const SECRET: &[u8] = b"0123456789abcdef";

/// The only frame in these bytes.
fn whole(bytes: &[u8]) -> (u8, Vec<u8>) {
    let mut frames = Frames::default();
    frames.push(bytes);
    let frame = frames.pop().expect("ours").expect("whole");
    assert_eq!(frames.pop(), Ok(None));
    frame
}

fuzz_target!(|data: &[u8]| {
    if let Some(line) = data.split(|b| *b == b'\n').next() {
        let right = Greeting::of(line, SECRET) == Greeting::Right;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        assert_eq!(right, line == greeting(SECRET).trim_end().as_bytes());
    }
    let Some((step, bytes)) = data.split_first() else { return };
    let mut frames = Frames::default();
    let mut got = Vec::new();
    'all: for part in bytes.chunks(usize::from(*step).max(1)) {
        frames.push(part);
        loop {
            match frames.pop() {
                Ok(Some(frame)) => got.push(frame),
                Ok(None) => break,
                Err(_) => break 'all,
            }
        }
    }
    // However they arrive they are cut alike.
    let mut at_once = Frames::default();
    at_once.push(bytes);
    for frame in &got {
        assert_eq!(at_once.pop().as_ref(), Ok(&Some(frame.clone())));
    }
    for (kind, payload) in &got {
        if let Some(message) = Up::decode(*kind, payload) {
            let (kind, payload) = whole(&message.encode());
            assert_eq!(Up::decode(kind, &payload), Some(message));
        }
        if let Some(message) = Down::decode(*kind, payload) {
            let (kind, payload) = whole(&message.encode());
            assert_eq!(Down::decode(kind, &payload), Some(message));
        }
    }
});
