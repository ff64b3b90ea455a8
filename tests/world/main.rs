//! Worlds whose ranks are threads of this process, on the simulated wire.
//! One binary, which is linked once; tests are named by their file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

use circulant_tests::{allgather, collective, exercise, huge as huge_rows, ranks, survivors};

mod adapt;
mod again;
mod arguments;
mod assemble;
mod bytes;
mod chaos;
mod choice;
mod collectives;
mod communicators;
mod device;
mod disagree;
mod ending;
mod gather_lists;
mod groups;
mod hook;
mod huge;
mod in_place;
mod inter;
mod layouts;
mod local;
mod misuse;
mod neighborhood;
mod progress;
mod record;
mod rooted;
mod scope;
mod sim;
mod surface;
mod survive;
mod unscoped;
mod waits;
