//! Requests and copies where a put gathers, and where it does not.

use crate::ranks;
use circulant::comm::Layout;
use circulant::{Options, Result};

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

/// Bytes of a block that is no eager message.
const BLOCK: usize = 10_000;

/// What all ranks together put and copy in one start of an alltoall by `algorithm`, with each block checked.
fn exchanged(algorithm: &str, settings: &[(&str, &str)]) -> (u64, u64) {
    let all = ranks::run_over("shm", RANKS, settings, |world, comm| {
        let block = |from: usize, to: usize| vec![(from * RANKS + to) as u8; BLOCK];
        let rank = comm.rank();
        let mine = comm.alloc_from(&(0..RANKS).flat_map(|to| block(rank, to)).collect::<Vec<_>>())?;
        let comm = comm.with(Options::new().algorithm(algorithm));
        let mut often = comm.alltoall_init(mine, comm.alloc::<u8>(RANKS * BLOCK)?)?;
        let before = world.stats();
        often.start()?;
        often.wait()?;
        let after = world.stats();
        assert_eq!(often.output()?, (0..RANKS).flat_map(|from| block(from, rank)).collect::<Vec<_>>());
        Ok((after.puts - before.puts, after.copied_bytes - before.copied_bytes))
    });
    let all: Vec<_> = all.into_iter().collect::<Result<_>>().unwrap();
    all.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn an_alltoall_that_forwards_packs_nothing() {
    for algorithm in ["bruck", "circulant"] {
        let (gathered, packed) = (exchanged(algorithm, &[]), exchanged(algorithm, &[("limits", "gather=1")]));
        println!("{algorithm}: puts, bytes copied: gathered {gathered:?}, packed {packed:?}");
        let rounds = RANKS.next_power_of_two().ilog2() as usize;
        assert_eq!((gathered.0, packed.0), ((RANKS * rounds) as u64, (RANKS * rounds) as u64));
        // What a rank has at last: its own block, and those that landed among others, which no put can bring to several places.
        assert!(
            gathered.1 <= (RANKS * RANKS * BLOCK) as u64 && gathered.1 < packed.1,
            "{gathered:?} {packed:?}"
        );
    }
}

/// How the bytes to a peer lie in what is sent.
fn sent(pieces: usize) -> Vec<Layout> {
    (0..RANKS).map(|to| Layout::strided(to * BLOCK, pieces, BLOCK / pieces, RANKS * BLOCK).unwrap()).collect()
}

/// What all ranks together put and copy in an alltoallw of so many pieces to each, in each of its forms, with each block checked.
fn layouts(pieces: usize, settings: &[(&str, &str)]) -> Vec<(u64, u64)> {
    let all = ranks::run_over("shm", RANKS, settings, |world, comm| {
        let rank = comm.rank();
        let byte = |from: usize, to: usize, piece: usize| (from * 89 + to * 31 + piece * 7) as u8;
        let row = |piece| (0..RANKS).flat_map(move |to| vec![byte(rank, to, piece); BLOCK]);
        let mine: Vec<u8> = (0..pieces).flat_map(row).collect();
        let part = |from| (0..pieces).flat_map(move |piece| vec![byte(from, rank, piece); BLOCK / pieces]);
        let wanted: Vec<u8> = (0..RANKS).flat_map(part).collect();
        let into: Vec<_> =
            (0..RANKS).map(|from| Layout::new([(from * BLOCK, BLOCK)])).collect::<Result<_>>()?;
        let mut counted = Vec::new();
        let mut count = |output: &[u8], before: circulant::comm::Stats| {
            let after = world.stats();
            assert_eq!(output, wanted);
            counted.push((after.puts - before.puts, after.copied_bytes - before.copied_bytes));
        };
        let mut output = vec![0; RANKS * BLOCK];
        let before = world.stats();
        comm.alltoallw(&mine, &sent(pieces), &mut output, &into)?;
        count(&output, before);
        let (mine, output) = (comm.alloc_from(&mine)?, comm.alloc(RANKS * BLOCK)?);
        let before = world.stats();
        let done = comm.ialltoallw(mine, &sent(pieces), output, &into)?.wait()?;
        count(&done.recv, before);
        let Some(mine) = done.send else { unreachable!("it was given") };
        let mut often = comm.alltoallw_init(mine, &sent(pieces), done.recv, &into)?;
        let before = world.stats();
        often.start()?;
        often.wait()?;
        count(often.output()?, before);
        Ok(counted)
    });
    let all: Vec<Vec<(u64, u64)>> = all.into_iter().collect::<Result<_>>().unwrap();
    (0..3)
        .map(|form| all.iter().fold((0, 0), |sum, one| (sum.0 + one[form].0, sum.1 + one[form].1)))
        .collect()
}

#[test]
fn layouts_of_few_pieces_are_sent_from_where_they_are() {
    let own = (RANKS * BLOCK) as u64;
    let puts = (RANKS * (RANKS - 1)) as u64;
    for (pieces, settings, copied) in [
        (1, &[][..], own),
        (4, &[], own),
        (4, &[("limits", "gather=4")], own),
        // What no list holds is packed, all of it.
        (4, &[("limits", "gather=3")], own + own * RANKS as u64),
    ] {
        let counted = layouts(pieces, settings);
        assert_eq!(counted, [(puts, copied); 3], "{pieces} pieces, {settings:?}");
    }
}
