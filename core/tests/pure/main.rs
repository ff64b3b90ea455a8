//! What is computed without a wire: schedules, plans, their registry and choice, reductions.
//! One binary, which is linked once; tests are named by their file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

mod formulas;
mod gather_lists;
mod grid;
mod levels;
mod ops;
mod orders;
mod pacing;
mod plan_inter;
mod plan_moves;
mod plan_node;
mod plan_proof;
mod plan_reduce;
mod plan_registry;
mod plan_rules;
mod proof;
mod raw;
mod schedule;
mod selection;
