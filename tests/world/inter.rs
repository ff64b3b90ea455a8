//! Collectives between two groups, on the simulated wire.

use crate::ranks;

use circulant::comm::{Intercommunicator, Root};
use circulant::machine::LogGp;
use circulant::plan::Kind;
use circulant::plan::registry::{Arguments, Operation, algorithms};
use circulant::transport::sim;
use circulant::{Communicator, ErrorKind, Options, Result};
use ranks::run;

fn value(group: usize, rank: usize, i: usize) -> u32 {
    (group * 1_000_000 + rank * 10_000 + i) as u32
}

/// How long the contribution of a rank is.
fn count(group: usize, rank: usize) -> usize {
    [0, 700, 3, 40][(group * 5 + rank * 3) % 4]
}

fn named(inter: &Intercommunicator, name: &str) -> Intercommunicator {
    inter.with(Options::new().algorithm(name))
}

/// Counts of a group, where they go with a gap before each, and how long that is.
fn counts(group: usize, ranks: usize) -> (Vec<usize>, Vec<usize>, usize) {
    let counts: Vec<usize> = (0..ranks).map(|r| count(group, r)).collect();
    let mut at = 0;
    let mut displs = Vec::new();
    for count in &counts {
        displs.push(at + 1);
        at += count + 1;
    }
    (counts, displs, at)
}

fn allgather(inter: &Intercommunicator, group: usize) -> Result<()> {
    let (r, other) = (inter.rank(), 1 - group);
    for len in [[4usize, 4], [0, 5], [1000, 3]] {
        let send: Vec<u32> = (0..len[group]).map(|i| value(group, r, i)).collect();
        let wanted = |s| (0..len[other]).map(move |i| value(other, s, i));
        let wanted: Vec<u32> = (0..inter.remote_size()).flat_map(wanted).collect();
        let mut recv = vec![7; wanted.len()];
        inter.allgather(&send, &mut recv)?;
        assert_eq!(recv, wanted);
        let (mut s, t) = (inter.alloc::<u32>(send.len())?, inter.alloc::<u32>(wanted.len())?);
        s.copy_from_slice(&send);
        let done = inter.iallgather(s, t)?.wait()?;
        assert_eq!(*done.recv, *wanted);
        let mut often = inter.allgather_init(done.send.unwrap(), done.recv)?;
        for _ in 0..2 {
            often.output()?.fill(7);
            often.start()?;
            often.wait()?;
            assert_eq!(often.output()?, wanted);
        }
    }
    Ok(())
}

fn allgatherv(inter: &Intercommunicator, group: usize) -> Result<()> {
    let (r, other) = (inter.rank(), 1 - group);
    let (ours, to, _) = counts(group, inter.size());
    let (theirs, from, total) = counts(other, inter.remote_size());
    let send: Vec<u32> = (0..ours[r]).map(|i| value(group, r, i)).collect();
    let mut wanted = vec![7; total];
    for (s, (count, displ)) in theirs.iter().zip(&from).enumerate() {
        (0..*count).for_each(|i| wanted[displ + i] = value(other, s, i));
    }
    let mut recv = vec![7; total];
    inter.allgatherv(&send, (&ours, &to), &mut recv, (&theirs, &from))?;
    assert_eq!(recv, wanted);
    let (mut s, mut t) = (inter.alloc::<u32>(send.len())?, inter.alloc::<u32>(total)?);
    s.copy_from_slice(&send);
    t.fill(7);
    let done = inter.iallgatherv(s, (&ours, &to), t, (&theirs, &from))?.wait()?;
    assert_eq!(*done.recv, *wanted);
    let mut often = inter.allgatherv_init(done.send.unwrap(), (&ours, &to), done.recv, (&theirs, &from))?;
    often.start()?;
    often.wait()?;
    assert_eq!(often.output()?, wanted);
    Ok(())
}

fn bcast(inter: &Intercommunicator, group: usize) -> Result<()> {
    for (root_group, root) in [(0, 0), (1, 0), (0, usize::MAX), (1, usize::MAX)] {
        let ours = root_group == group;
        let root = root.min(if ours { inter.size() } else { inter.remote_size() } - 1);
        let said = if ours { Root::Here(root) } else { Root::There(root) };
        let sends = ours && inter.rank() == root;
        let before = if sends { value(root_group, root, 0) } else { 7 };
        let after = if sends || !ours { value(root_group, root, 0) } else { 7 };
        let mut buf = vec![before; 5000];
        inter.bcast(&mut buf, said)?;
        assert!(buf.iter().all(|x| *x == after));
        let mut buf = inter.alloc::<u32>(5000)?;
        buf.fill(before);
        let done = inter.ibcast(buf, said)?.wait()?;
        assert!(done.recv.iter().all(|x| *x == after));
    }
    Ok(())
}

fn groups(comm: &Communicator, first: usize) -> Result<(Intercommunicator, usize)> {
    // The first group backwards, so that no rank is where it was.
    let world = comm.group();
    let a: Vec<usize> = (0..first).rev().collect();
    let (a, b) = (world.include(&a)?, world.exclude(&a)?);
    let inter = comm.create_inter(&a, &b)?.unwrap();
    Ok((inter, usize::from(comm.rank() >= first)))
}

#[test]
fn every_algorithm_between_all_pairs_of_small_groups() {
    for (p, first) in (2..8).flat_map(|p| (1..p).map(move |first| (p, first))) {
        for r in run(p, &sim::Faults::default(), &[], |_, comm| {
            let (inter, group) = groups(comm, first)?;
            let ours = [first, p - first][group];
            assert_eq!((inter.size(), inter.remote_size()), (ours, p - ours));
            for a in algorithms(Operation::InterAllgather) {
                allgather(&named(&inter, a.name), group)?;
            }
            for a in algorithms(Operation::InterAllgatherv) {
                allgatherv(&named(&inter, a.name), group)?;
            }
            for a in algorithms(Operation::InterBcast) {
                bcast(&named(&inter, a.name), group)?;
            }
            inter.barrier()?;
            inter.ibarrier()?.wait()?;
            assert_eq!(inter.merge()?.size(), p);
            // Chosen by price, too.
            allgather(&inter, group)?;
            allgatherv(&inter, group)
        }) {
            r.unwrap();
        }
    }
}

#[test]
fn wrong_groups_are_refused_everywhere() {
    for case in 0..3 {
        for r in run(4, &sim::Faults::default(), &[], |_, comm| {
            let all = comm.group();
            let (a, b): (&[usize], &[usize]) = match case {
                0 => (&[0, 1], &[1, 2, 3]),
                1 => (&[], &[0, 1, 2, 3]),
                // One rank has them the other way round.
                _ if comm.rank() == 2 => (&[2, 3], &[0, 1]),
                _ => (&[0, 1], &[2, 3]),
            };
            comm.create_inter(&all.include(a)?, &all.include(b)?)?.unwrap().barrier()
        }) {
            let e = r.unwrap_err();
            let (kind, text) = [
                (ErrorKind::Argument, "rank 1 is in both groups"),
                (ErrorKind::Argument, "one of the groups is empty"),
                (ErrorKind::Mismatch, "named the same group"),
            ][case];
            assert_eq!(e.kind(), kind, "{e}");
            assert!(e.to_string().contains(text), "{e}");
        }
    }
}

#[test]
fn counts_on_which_the_groups_disagree_are_found_before_data_moves() {
    for r in run(3, &sim::Faults::default(), &[], |_, comm| {
        let (inter, group) = groups(comm, 1)?;
        let mut recv = vec![7u8; if group == 0 { 2 * 5 } else { 4 }];
        // The first group expects 5 of each, the second sends 6.
        let sent = inter.allgather(&[1u8; 6][..[4, 6][group]], &mut recv);
        assert!(recv.iter().all(|x| *x == 7));
        sent
    }) {
        let e = r.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Mismatch, "{e}");
    }
}

/// The settings of Kang et al. 2019, section 5, for 32 ranks: the first group's size, and the elements of each rank.
fn setting(s: usize) -> (usize, Vec<usize>) {
    const MAX_ELEMENTS: usize = 1600;
    let first = if [1, 5, 6].contains(&s) { 16 } else { 25 };
    let count = |rank: usize| {
        let (group, ranks, i) = if rank < first { (0, first, rank) } else { (1, 32 - first, rank - first) };
        match (s, group) {
            (3, 1) | (4, 0) => MAX_ELEMENTS / 4,
            (6 | 8, _) => MAX_ELEMENTS * (i + 1) / ranks,
            _ => MAX_ELEMENTS,
        }
    };
    (first, (0..32).map(count).collect())
}

/// What the wire carries is what the plans say, for their Algorithm 2 and for root gathering, in all eight settings;
/// and with Algorithm 2 the busiest rank has much less to do.
#[test]
fn the_eight_settings_move_the_bytes_that_the_plans_say() {
    println!("setting  root gathering  Algorithm 2  bytes of the busiest rank");
    for s in 1..=8 {
        let (first, counts) = setting(s);
        let displs: Vec<usize> = counts
            .iter()
            .enumerate()
            .map(|(r, _)| counts[if r < first { 0 } else { first }..r].iter().sum())
            .collect();
        let bytes = |list: &[usize]| list.iter().map(|n| *n as u64 * 4).collect::<Vec<u64>>();
        let arguments = Arguments {
            size: 32,
            first: first as u32,
            counts: bytes(&counts),
            displs: bytes(&displs),
            ..Arguments::default()
        };
        let model = LogGp { latency_ns: 1000, overhead_ns: 100, byte_ps: 100, reduce_ps: 100 };
        let mut busiest = Vec::new();
        for name in ["root_gathering", "balanced"] {
            let line = algorithms(Operation::InterAllgatherv).find(|a| a.name == name).unwrap();
            let plan = (line.build)(&arguments, &model).unwrap();
            let moved = |rank, kind| -> u64 {
                plan.steps(rank).filter(|step| step.kind == kind).map(|step| step.len).sum()
            };
            let sent: Vec<u64> = (0..32).map(|rank| moved(rank, Kind::Put)).collect();
            busiest.push((0..32).map(|rank| sent[rank as usize] + moved(rank, Kind::Expect)).max().unwrap());
            let counted = run(32, &sim::Faults::default(), &[("light", "0")], |world, comm| {
                let all = comm.group();
                let a: Vec<usize> = (0..first).collect();
                let inter = comm.create_inter(&all.include(&a)?, &all.exclude(&a)?)?.unwrap();
                let (ours, theirs) =
                    if comm.rank() < first { (0..first, first..32) } else { (first..32, 0..first) };
                let send = vec![comm.rank() as u32; counts[comm.rank()]];
                let mut recv = vec![0u32; counts[theirs.clone()].iter().sum()];
                let (sent, received) = (
                    (&counts[ours.clone()], &displs[ours]),
                    (&counts[theirs.clone()], &displs[theirs.clone()]),
                );
                let before = world.stats().put_bytes;
                named(&inter, name).allgatherv(&send, sent, &mut recv, received)?;
                let moved = world.stats().put_bytes - before;
                let wanted = theirs.flat_map(|r| vec![r as u32; counts[r]]);
                assert!(wanted.eq(recv));
                Ok(moved)
            });
            let counted: Vec<u64> = counted.into_iter().map(|r| r.unwrap()).collect();
            assert_eq!(counted, sent, "s{s}, {name}");
        }
        println!(
            "s{s}       {:>14}  {:>11}  {:.2}",
            busiest[0],
            busiest[1],
            busiest[0] as f64 / busiest[1] as f64
        );
        assert!(2 * busiest[0] > 3 * busiest[1], "s{s}: {busiest:?}");
    }
}
