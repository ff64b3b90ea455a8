//! Files of the tool, by their paths, so that distributions, settings and tables are the same there.
#![allow(dead_code, reason = "the tool uses all of them")]

#[path = "../../tool/src/bench/dist.rs"]
pub(crate) mod dist;
#[path = "../../tool/src/grid.rs"]
pub(crate) mod grid;
#[path = "../../tool/src/settings.rs"]
pub(crate) mod settings;
#[path = "../../tool/src/units.rs"]
pub(crate) mod units;
