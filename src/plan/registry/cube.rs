//! The lines of scans on a hypercube.

use super::{Algorithm, Arguments, Operation, order, power_of_two, q};
use crate::error::Result;
use crate::plan::Plan;
use crate::plan::scan::hypercube::Hypercube;

const fn line(operation: Operation, build: super::Build) -> Algorithm {
    Algorithm {
        operation,
        name: "hypercube",
        restrictions: "p a power of two; keeps the order of ranks",
        rounds: "q",
        volume: "q*m",
        source: "Grama et al., section 4.3, PREFIX_SUMS_HCUBE",
        fits: power_of_two,
        rounds_of: |a, _| q(a.size),
        build,
        cost: None,
        order: Some(order::PAIRS),
    }
}

/// All of them.
pub(super) const LINES: &[Algorithm] =
    &[line(Operation::Scan, |a, _| scan(a, true)), line(Operation::Exscan, |a, _| scan(a, false))];

fn scan(a: &Arguments, inclusive: bool) -> Result<Box<dyn Plan>> {
    Ok(Box::new(Hypercube::new(a.size, a.bytes, a.element, a.in_place, inclusive)?))
}
