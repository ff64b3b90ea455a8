//! Requests and copies where a put gathers, and where it does not.

use crate::ranks;
use circulant::Result;

const RANKS: usize = 9;

/// Contributions of 9 to 15 KB: too long for a message, so none is copied to one.
fn counts() -> Vec<usize> {
    (0..RANKS).map(|rank| 9000 + 3000 * (rank * 5 % 3)).collect()
}

/// Puts, and bytes copied, of each rank in one start of an irregular allgather over shared memory, with each piece checked.
fn allgathered(settings: &[(&str, &str)]) -> Vec<(u64, u64)> {
    let settings = [settings, &[("algorithm", "allgatherv=circulant"), ("blocks", "1")]].concat();
    let all = ranks::run_over("shm", RANKS, &settings, |world, comm| {
        let counts = counts();
        let displs: Vec<usize> = (0..RANKS).map(|j| counts[..j].iter().sum()).collect();
        let mine = comm.alloc_from(&vec![comm.rank() as u8 + 1; counts[comm.rank()]])?;
        let output = comm.alloc::<u8>(counts.iter().sum())?;
        let mut often = comm.allgatherv_init(mine, output, (&counts, &displs))?;
        let puts = often.planned().puts;
        let before = world.stats();
        often.start()?;
        often.wait()?;
        let after = world.stats();
        assert_eq!(after.puts - before.puts, puts);
        let wanted: Vec<u8> = (0..RANKS).flat_map(|j| vec![j as u8 + 1; counts[j]]).collect();
        assert_eq!(often.output()?, wanted);
        Ok((puts, after.copied_bytes - before.copied_bytes))
    });
    all.into_iter().collect::<Result<_>>().unwrap()
}

#[test]
fn an_irregular_allgather_is_one_request_per_round_and_packs_nothing() {
    // All pieces are light, and share a put from two on, as two overheads are a latency.
    let light = [("light", "64Ki"), ("latency", "2000"), ("overhead", "1000"), ("byte-time", "100")];
    let (gathered, packed) =
        (allgathered(&light), allgathered(&[&light[..], &[("limits", "gather=1")]].concat()));
    let alone = allgathered(&[&light[1..], &[("light", "0")]].concat());
    let rounds = RANKS.next_power_of_two().ilog2().into();
    assert!(gathered.iter().all(|(puts, _)| *puts == rounds), "{gathered:?}");
    let sum = |of: &[(u64, u64)]| of.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let (gathered, packed, alone) = (sum(&gathered), sum(&packed), sum(&alone));
    // What is put as it lies is copied once, from a rank's own input to its output.
    assert_eq!(alone.1, counts().iter().sum::<usize>() as u64);
    assert!(gathered.0 < alone.0 && gathered.0 == packed.0, "{gathered:?} {packed:?} {alone:?}");
    assert!(gathered.1 < packed.1, "{gathered:?} {packed:?} {alone:?}");
    println!("puts, bytes copied: gathered {gathered:?}, packed {packed:?}, alone {alone:?}");
}
