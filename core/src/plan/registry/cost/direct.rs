//! Costs of what goes from everyone to everyone, and nothing is passed on.

use super::folds::pieces;
use super::{Path, float};
use crate::plan::reduce_scatter::direct::blocks;
use crate::plan::registry::Arguments;

fn others(a: &Arguments) -> f64 {
    f64::from(a.size.saturating_sub(1))
}

/// One hop; every rank gets all but its own.
pub(in crate::plan::registry) fn allgather(a: &Arguments, path: &mut Path<'_>) {
    let others = others(a);
    path.to_all(others.min(1.0), others, others * float(a.bytes));
}

/// As above; who has most puts it to all.
pub(in crate::plan::registry) fn allgatherv(a: &Arguments, path: &mut Path<'_>) {
    let (others, total) = (others(a), a.counts.iter().sum::<u64>());
    let (most, least) = (a.counts.iter().max(), a.counts.iter().min());
    let got = total - least.copied().unwrap_or(0);
    path.all_to_all(others.min(1.0), others, others * float(most.copied().unwrap_or(0)), float(got));
}

/// Everyone folds what it gets, block by block, while more comes.
fn fold(a: &Arguments, largest: u64, path: &mut Path<'_>) -> (f64, f64) {
    let (n, others) = (blocks(largest, a.blocks), others(a));
    path.blocks(n);
    let (puts, bytes) = (others * f64::from(n), others * float(largest));
    path.longer(
        |path| {
            path.to_all(others.min(1.0), puts, bytes);
            path.reduce(float(largest) / f64::from(n));
        },
        |path| {
            path.to_all(others.min(1.0), others.min(1.0), 0.0);
            path.reduce(bytes);
        },
    );
    (puts, bytes)
}

pub(in crate::plan::registry) fn allreduce(a: &Arguments, path: &mut Path<'_>) {
    let (puts, bytes) = fold(a, largest(a), path);
    path.to_all(others(a).min(1.0), puts, bytes);
}

/// The root gets from one after the other.
pub(in crate::plan::registry) fn reduce(a: &Arguments, path: &mut Path<'_>) {
    path.for_readers();
    let (puts, bytes) = fold(a, largest(a), path);
    path.alone(|path| path.to_all(others(a).min(1.0), puts, bytes));
}

pub(in crate::plan::registry) fn scatter(a: &Arguments, path: &mut Path<'_>) {
    // Of unequal pieces the largest would be waited for; and two ranks have no way round to save.
    if a.size == 2 || a.counts.iter().any(|count| *count != a.counts[0]) {
        path.for_readers();
    }
    let largest = a.counts.iter().copied().max().unwrap_or(a.bytes);
    fold(a, largest, path);
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // made of a whole number
fn largest(a: &Arguments) -> u64 {
    pieces(a).1 as u64
}
