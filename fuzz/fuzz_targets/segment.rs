//! Addresses of shared memory, as ranks publish them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| circulant::fuzzing::address(data));
