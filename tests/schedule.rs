//! The schedules by their properties: the checker for every p ≤ 2000, a second construction, known
//! tables, simulated broadcasts, and mutants that the checker must tell apart.

use circulant::schedule::{Circulant, MAX_P, Violation, block, check, check_rank, classic};

/// Both whole tables, a row per rank.
fn tables(p: u32) -> (Vec<Vec<i8>>, Vec<Vec<i8>>) {
    let c = Circulant::new(p);
    ((0..p).map(|r| c.recv(r).to_vec()).collect(), (0..p).map(|r| c.send(r).to_vec()).collect())
}

fn verdict(p: u32, recv: &[Vec<i8>], send: &[Vec<i8>]) -> Result<(), Violation> {
    check(p, |r| &recv[r as usize], |r| &send[r as usize])
}

fn is_correct(p: u32) {
    let (recv, send) = tables(p);
    verdict(p, &recv, &send).unwrap_or_else(|violation| panic!("p = {p}: {violation}"));
}

#[test]
fn correct_for_every_p_up_to_2000_and_all_ranks() {
    (1..=2000).for_each(is_correct);
}
