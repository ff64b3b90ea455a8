//! Gatherv and scatterv whose counts only the root knows.

use crate::ranks;

use circulant::transport::sim;
use circulant::{Communicator, ErrorKind, InPlace, Result};

fn count(rank: usize) -> usize {
    [3, 0, 500, 1][rank % 4]
}

fn block(rank: usize) -> Vec<u64> {
    (0..count(rank)).map(|i| (rank * 1000 + i) as u64).collect()
}

/// The root's lists, with a gap before each block, and its buffer; elsewhere nothing.
fn lists(comm: &Communicator, root: usize) -> (Vec<usize>, Vec<usize>, Vec<u64>) {
    if comm.rank() != root {
        return (Vec::new(), Vec::new(), Vec::new());
    }
    let counts: Vec<usize> = (0..comm.size()).map(count).collect();
    let displs: Vec<usize> =
        counts.iter().scan(1, |at, n| Some(std::mem::replace(at, *at + n + 1))).collect();
    let mut all = vec![77; counts.iter().map(|n| n + 1).sum()];
    for (rank, at) in displs.iter().enumerate() {
        all[*at..][..counts[rank]].copy_from_slice(&block(rank));
    }
    (counts, displs, all)
}

fn both(comm: &Communicator, root: usize) -> Result<()> {
    let (me, at_root) = (comm.rank(), comm.rank() == root);
    let (counts, displs, all) = lists(comm, root);
    let mine = block(me);
    let old = vec![77; all.len()];

    let mut recv = old.clone();
    comm.gatherv_rooted(&mine, &mut recv, (&counts, &displs), root)?;
    assert_eq!(recv, all);
    let request =
        comm.igatherv_rooted(comm.alloc_from(&mine)?, comm.alloc_from(&old)?, (&counts, &displs), root)?;
    assert_eq!(request.wait()?.recv[..], all);
    let mut often =
        comm.gatherv_rooted_init(comm.alloc_from(&mine)?, comm.alloc_from(&old)?, (&counts, &displs), root)?;
    for _ in 0..3 {
        often.start()?;
        often.wait()?;
        assert_eq!(often.output()?, all);
        often.output()?.fill(77);
    }
    if at_root {
        let mut recv = old.clone();
        recv[displs[me]..][..mine.len()].copy_from_slice(&mine);
        comm.gatherv_rooted(InPlace, &mut recv, (&counts, &displs), root)?;
        assert_eq!(recv, all);
        comm.scatterv_rooted(&all, (&counts, &displs), InPlace, root)?;
    } else {
        comm.gatherv_rooted(&mine, &mut [], &[], root)?;
        let mut recv = vec![0; mine.len()];
        comm.scatterv_rooted(&[], &[], &mut recv, root)?;
        assert_eq!(recv, mine);
    }
    let mut recv = vec![0; mine.len()];
    comm.scatterv_rooted(&all, (&counts, &displs), &mut recv, root)?;
    assert_eq!(recv, mine);
    let empty = || comm.alloc::<u64>(mine.len());
    let request = comm.iscatterv_rooted(comm.alloc_from(&all)?, (&counts, &displs), empty()?, root)?;
    assert_eq!(request.wait()?.recv[..], mine);
    let mut often = comm.scatterv_rooted_init(comm.alloc_from(&all)?, (&counts, &displs), empty()?, root)?;
    for _ in 0..3 {
        often.start()?;
        often.wait()?;
        assert_eq!(often.output()?, mine);
        often.output()?.fill(0);
    }
    Ok(())
}

#[test]
fn counts_are_known_at_the_root_only() {
    for p in [1, 2, 5, 8] {
        let bad =
            sim::Faults { seed: 3, refuse: 60, delay: 5, reorder: true, max_put: 1000, ..Default::default() };
        let roots =
            |comm: &Communicator| [0, comm.size() - 1].into_iter().try_for_each(|root| both(comm, root));
        ranks::run(p, &bad, &[], |_, comm| roots(comm)).into_iter().for_each(|result| result.unwrap());
        let shared = ranks::run_shared(p, &[("deadline", "20")], |_, comm| roots(comm));
        shared.into_iter().for_each(|result| result.unwrap());
    }
}

/// A rank without elements does not run ahead of a root that is late.
#[test]
fn a_late_root_is_waited_for() {
    let all = ranks::run(3, &sim::Faults::default(), &[], |_, comm| {
        if comm.rank() == 0 {
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        for _ in 0..2000 {
            let (counts, displs) = if comm.rank() == 0 { ([0; 3], [0; 3]) } else { ([9; 3], [9; 3]) };
            comm.gatherv_rooted::<u64>(&[], &mut [], (&counts, &displs), 0)?;
        }
        Ok(())
    });
    all.into_iter().for_each(|result| result.unwrap());
}

/// Whatever root and rank think of the rank's count, both numbers are named, and nothing has come.
#[test]
fn root_and_rank_that_disagree_learn_both_numbers() {
    for (there, here) in [(5, 6), (6, 5), (0, 4), (4, 0)] {
        for scatter in [false, true] {
            let all = ranks::run(3, &sim::Faults::default(), &[], |_, comm| {
                let counts = if comm.rank() == 0 { vec![0, 1, there] } else { Vec::new() };
                let displs = if comm.rank() == 0 { vec![0, 0, 1] } else { Vec::new() };
                let mine = vec![8u64; [0, 1, here][comm.rank()]];
                let mut big = vec![7u64; if comm.rank() == 0 { there + 1 } else { 0 }];
                let mut recv = mine.clone();
                let result = match scatter {
                    true => comm.scatterv_rooted(&big, (&counts, &displs), &mut recv, 0),
                    false => comm.gatherv_rooted(&mine, &mut big, (&counts, &displs), 0),
                };
                let untouched = if scatter {
                    comm.rank() < 2 || recv == mine
                } else {
                    big.iter().skip(1).all(|x| *x == 7)
                };
                assert!(untouched, "{recv:?} {big:?}");
                result.and_then(|()| comm.barrier())
            });
            let (from, to) = if scatter { (0, 2) } else { (2, 0) };
            for result in all {
                let e = result.unwrap_err();
                let (text, pair) = (e.to_string(), format!("elements from rank {from} to rank {to}:"));
                let named = [(here, there), (there, here)].map(|(a, b)| format!("{pair} {a} and {b}"));
                assert_eq!(e.kind(), ErrorKind::Mismatch, "{text}");
                let call = if scatter { "scatterv_rooted #" } else { "gatherv_rooted #" };
                assert!(text.contains(call), "{text}");
                assert!(named.iter().any(|named| text.contains(named)), "{there} and {here}: {text}");
            }
        }
    }
}
