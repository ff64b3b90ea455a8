//! Process mappings, as launchers write them; the first two bytes are the number of ranks.
#![no_main]

use circulant::launch::mapping::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(([a, b], text)) = data.split_first_chunk::<2>() else { return };
    let size = usize::from(u16::from_le_bytes([*a, *b]));
    if let Ok(map) = parse(&String::from_utf8_lossy(text), size) {
        assert_eq!(map.len(), size);
    }
});
