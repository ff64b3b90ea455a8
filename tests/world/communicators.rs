//! Communicators and groups against a reference that sorts lists.

use crate::collective;
use crate::ranks;

use circulant::comm::Group;
use circulant::transport::sim;
use circulant::{Communicator, InPlace, Result, ops};
use collective::cover::Random;

fn seed() -> u64 {
    let seed = std::env::var("COLLECTIVES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("COLLECTIVES_SEED={seed}");
    seed
}

/// Its members, in order, as world ranks; asked of the ranks themselves.
fn met(comm: &Communicator, me: usize) -> Result<Vec<usize>> {
    let mut all = vec![usize::MAX; comm.size()];
    comm.allgather(&[me], &mut all)?;
    let mut sum = [me];
    comm.allreduce(InPlace, &mut sum, ops::Sum)?;
    assert_eq!(sum[0], all.iter().sum());
    assert_eq!(all[comm.rank()], me);
    assert_eq!(comm.group().ranks(), all);
    Ok(all)
}

/// A colour and a key for each of `p` ranks: few colours, some none; equal, negative and extreme keys.
fn wishes(random: &mut Random, p: usize) -> Vec<(Option<i64>, i64)> {
    let colours = [Some(0), Some(-3), Some(i64::MAX), Some(i64::MIN), None];
    let (few, keys) = (1 + random.below(colours.len()), [0, 1, -1, i64::MIN, i64::MAX, 5]);
    (0..p).map(|_| (colours[colours.len() - 1 - random.below(few)], keys[random.below(keys.len())])).collect()
}

/// The members of the part of `rank`, by what MPI says of splits.
fn part_of(wishes: &[(Option<i64>, i64)], parent: &[usize], rank: usize) -> Option<Vec<usize>> {
    let colour = wishes[rank].0?;
    let mut part: Vec<usize> = (0..parent.len()).filter(|r| wishes[*r].0 == Some(colour)).collect();
    part.sort_by_key(|r| wishes[*r].1);
    Some(part.into_iter().map(|r| parent[r]).collect())
}

#[test]
fn splits_of_splits() {
    let seed = seed();
    for p in [1, 2, 3, 5, 8, 9] {
        let results = ranks::run(p, &sim::Faults::default(), &[], |world, comm| {
            let (me, mut random) = (world.rank(), Random(seed));
            let mut sizes = Vec::new();
            for _ in 0..20 {
                let (mut comm, mut members) = (comm.clone(), (0..p).collect::<Vec<_>>());
                // Parts of parts; those in none leave. All draw the same, whatever part they are in.
                for depth in 0..4 {
                    let wishes = wishes(&mut Random(random.draw()), p);
                    let wishes = &wishes[..members.len()];
                    let (colour, key) = wishes[comm.rank()];
                    let part = comm.split(colour, key)?;
                    let want = part_of(wishes, &members, comm.rank());
                    assert_eq!(part.is_some(), want.is_some());
                    let (Some(part), Some(want)) = (part, want) else {
                        (depth..3).for_each(|_| _ = random.draw());
                        break;
                    };
                    assert_eq!(met(&part, me)?, want, "depth {depth}");
                    let copy = part.dup()?;
                    assert_eq!(met(&copy, me)?, want);
                    sizes.push(want.len());
                    (comm, members) = (part, want);
                }
            }
            let node = comm.split_by_node()?;
            assert_eq!(met(&node, me)?, (0..p).collect::<Vec<_>>(), "one process is one node");
            Ok(sizes)
        });
        let sizes: Vec<usize> = results.into_iter().flat_map(|r| r.unwrap()).collect();
        assert!(p == 1 || (1..=p).all(|n| sizes.contains(&n) || n > 3), "parts of {sizes:?}");
    }
}

/// Calls on a copy and on the original, begun in one order and waited for in another, with equal arguments.
#[test]
fn copies_do_not_mix() {
    for r in
        ranks::run(5, &sim::Faults { delay: 9, reorder: true, ..sim::Faults::default() }, &[], |_, comm| {
            let comms: Vec<Communicator> = (0..4).map(|_| comm.dup()).collect::<Result<_>>()?;
            for round in 0..20u64 {
                let mut requests = Vec::new();
                // Every rank begins with another one.
                for i in 0..4 {
                    let which = (i + comm.rank()) % 4;
                    let mut data = comm.alloc::<u64>(100)?;
                    data.fill(round * 100 + which as u64);
                    requests.push((which, comms[which].iallreduce(InPlace, data, ops::Max)?));
                }
                for (which, request) in requests.into_iter().rev() {
                    assert!(request.wait()?.recv.iter().all(|x| *x == round * 100 + which as u64));
                }
            }
            Ok(())
        })
    {
        r.unwrap();
    }
}

#[test]
fn groups_become_communicators() {
    let seed = seed();
    for p in [1, 2, 5, 8] {
        for r in ranks::run(p, &sim::Faults::default(), &[], |world, comm| {
            let mut random = Random(seed);
            for _ in 0..20 {
                // Disjoint groups at the same time, each in an order of its own, and some ranks in none.
                let mut order: Vec<usize> = (0..p).collect();
                random.shuffle(&mut order);
                let cut = random.below(p + 1);
                let end = cut + random.below(p + 1 - cut);
                let groups = [&order[..cut], &order[cut..end]];
                let mine = groups.iter().find(|g| g.contains(&world.rank())).copied().unwrap_or_default();
                let made = comm.create(&Group::world(p).include(mine)?)?;
                assert_eq!(made.is_some(), !mine.is_empty());
                if let Some(made) = made {
                    assert_eq!(met(&made, world.rank())?, mine);
                    // Of a part: its own group, backwards.
                    let backwards: Vec<usize> = (0..mine.len()).rev().collect();
                    let turned = made.create(&made.group().include(&backwards)?)?.unwrap();
                    let want: Vec<usize> = mine.iter().rev().copied().collect();
                    assert_eq!(met(&turned, world.rank())?, want);
                }
            }
            Ok(())
        }) {
            r.unwrap();
        }
    }
}

#[test]
fn groups_are_ordered_sets() {
    let mut random = Random(seed());
    for _ in 0..500 {
        let p = 1 + random.below(12);
        let mut some = || {
            let mut all: Vec<usize> = (0..p).collect();
            random.shuffle(&mut all);
            all.truncate(random.below(p + 1));
            all
        };
        let (a, b) = (some(), some());
        let world = Group::world(p);
        let (ga, gb) = (world.include(&a).unwrap(), world.include(&b).unwrap());
        let without =
            |x: &[usize], y: &[usize]| x.iter().filter(|r| !y.contains(r)).copied().collect::<Vec<_>>();
        let both: Vec<usize> = a.iter().filter(|r| b.contains(r)).copied().collect();
        assert_eq!((ga.size(), ga.ranks()), (a.len(), a.clone()));
        assert_eq!(ga.union(&gb).ranks(), [a.clone(), without(&b, &a)].concat());
        assert_eq!(ga.intersection(&gb).ranks(), both);
        assert_eq!(ga.difference(&gb).ranks(), without(&a, &b));
        assert_eq!(world.exclude(&a).unwrap().ranks(), without(&world.ranks(), &a));
        for (i, r) in a.iter().enumerate() {
            assert_eq!(ga.position(*r), Some(i));
            assert_eq!(ga.translate(i, &gb).unwrap(), b.iter().position(|x| x == r));
        }
        assert!(ga.translate(a.len(), &gb).is_err() && world.include(&[p]).is_err());
        if let Some(first) = a.first() {
            assert!(world.include(&[*first, *first]).is_err() && world.exclude(&[*first, *first]).is_err());
        }
        assert_eq!(ga == gb, a == b);
    }
}
