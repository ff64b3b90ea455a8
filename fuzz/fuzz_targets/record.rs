//! Flight records, as `circulant trace` finds them.
#![no_main]

use circulant::record::Record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(record) = Record::read(data) else { return };
    // A record that was read, written and read again is equal to itself.
    assert_eq!(Record::read(record.to_string().as_bytes()).as_ref(), Ok(&record));
    record.events.iter().for_each(|event| _ = record.unix_ns(event.ticks));
});
