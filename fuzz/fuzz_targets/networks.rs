//! What ranks tell of their addresses, and rank 0 of networks.
#![no_main]

use circulant::transport::fabric::{Here, Networks};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let all: Vec<Here> = data.split(|b| *b == b'|').filter_map(Here::decode).collect();
    for here in &all {
        assert_eq!(Here::decode(&here.encode()).as_ref(), Some(here));
    }
    let networks = Networks::agree(&all);
    assert_eq!(Networks::decode(&networks.encode()).as_ref(), Some(&networks));
    let _ = Networks::decode(data);
});
