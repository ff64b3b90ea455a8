//! Lists of files, as ranks of `circulant collect` tell them.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the tool uses all of it")]
#[path = "../../tool/src/files/entry.rs"]
mod entry;

fuzz_target!(|data: &[u8]| {
    let Some(list) = entry::Entry::unpack(data) else { return };
    assert!(list.iter().all(|e| entry::is_leaf(&e.name)));
    let mut again = Vec::new();
    list.iter().for_each(|e| e.pack(&mut again));
    assert_eq!(again, data);
});
