//! All ranks pass the same fences, also one that has failed: the others come to know why it has no endpoint.

use super::wire_up;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::launch::{Launch, threads};
use std::time::Duration;

/// Only stops a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Wire-up of ranks on these nodes, of which `culprit` has settings that cannot be; the rank that each takes for absent.
fn wired(nodes: &[u32], provider: &str, culprit: usize) -> Vec<Result<Option<Error>>> {
    let one = |mut launch: Box<dyn Launch>| {
        let mut config = Config::from_env();
        config.set("provider", provider)?;
        match launch.rank() {
            0 if culprit == 0 => config.set("tuning", "/nonexistent/tuning")?,
            rank if rank == culprit => config.set("blocks", "7")?,
            _ => {}
        }
        let wired = wire_up(&mut config, launch.as_mut(), None, TIMEOUT)?;
        Ok(wired.opened.addresses.absent)
    };
    std::thread::scope(|scope| {
        let started: Vec<_> =
            threads::group_on(nodes.to_vec()).into_iter().map(|launch| scope.spawn(|| one(launch))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_rank_that_has_failed_passes_all_fences() {
    for (nodes, provider, culprit) in [
        (&[0, 0, 0][..], "auto", 1),
        (&[0, 0, 0], "auto", 0),
        // One rank reads for all of a node.
        (&[0; 17], "shm", 3),
        (&[0, 0, 1], "tcp+shm", 0),
        (&[0, 0, 1], "tcp+shm", 2),
        (&[0, 1, 2], "tcp", 1),
        // The first ranks of nodes read for rank 0.
        (&[0, 0, 1, 1, 1], "tcp+shm", 4),
        (&[0, 1, 0, 1, 1], "tcp+shm", 0),
    ] {
        let case = format!("{provider}, nodes {nodes:?}, rank {culprit} failed");
        let mut absent = 0;
        for (rank, result) in wired(nodes, provider, culprit).into_iter().enumerate() {
            match result {
                Err(e) if rank == culprit => {
                    assert!([ErrorKind::Config, ErrorKind::Mismatch].contains(&e.kind()), "{case}: {e}");
                }
                Ok(Some(e)) if rank != culprit => {
                    assert_eq!(e.peer(), Some(culprit), "{case}, rank {rank}: {e}");
                    absent += 1;
                }
                Ok(None) if nodes.len() > 3 => {}
                other => panic!("{case}, rank {rank}: {other:?}"),
            }
        }
        assert!(absent >= 2, "{case}: {absent} neighbours learned of it");
    }
}
