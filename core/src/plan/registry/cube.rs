//! The lines of scans on a hypercube.

use super::line::line;
use super::{Algorithm, Arguments, Operation, order, power_of_two, q};
use crate::error::Result;
use crate::plan::Plan;
use crate::plan::scan::hypercube::Hypercube;

const fn cube(operation: Operation, build: super::Build) -> Algorithm {
    let texts = [
        "p a power of two; keeps the order of ranks",
        "q",
        "q*m",
        "Grama et al., section 4.3, PREFIX_SUMS_HCUBE",
    ];
    line(operation, "hypercube", texts, |a, _| q(a.size), build).only(power_of_two).ordered(order::PAIRS)
}

/// All of them.
pub(super) const LINES: &[Algorithm] =
    &[cube(Operation::Scan, |a, _| scan(a, true)), cube(Operation::Exscan, |a, _| scan(a, false))];

fn scan(a: &Arguments, inclusive: bool) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Hypercube::new(a.size, a.bytes, a.element, a.in_place, inclusive)?))
}
