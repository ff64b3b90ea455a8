//! More than 4 GiB in one call, on the simulated wire: one operation, as each takes seconds; real wires run all of them
//! in `ci/collectives`.

use crate::huge_rows as huge;
use crate::ranks;

use circulant::transport::sim;

#[test]
fn over_4_gib_in_one_call() {
    // The wire copies what is on its way.
    let faults = sim::Faults { max_put: 16 << 20, ..sim::Faults::default() };
    for r in ranks::run(2, &faults, &[], |_, comm| huge::bcast(comm)) {
        r.unwrap();
    }
}
