//! A ring of shared memory whose writer changes it while it is read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| circulant::fuzzing::ring(data));
