//! Groups of nodes, as a job is told of them: the plans that know them move the right data, also on communicators of some ranks, and what goes
//! between groups is counted.

use crate::collective::cover::Random;
use crate::collective::element::{Affine, Fill};
use crate::collective::{Case, Data, Mode, check, check_slices};
use crate::ranks;

use circulant::config::Grouping;
use circulant::launch::threads;
use circulant::plan::registry::{Arguments, all};
use circulant::transport::sim;
use circulant::{Communicator, ErrorKind, InPlace, Options, Result, World, ops};

const MODES: [Mode; 4] = [Mode::Slices, Mode::Arena, Mode::Request, Mode::Persistent];

/// Each line called `levels` that fits these ranks, with a random length, root and number of blocks.
fn cases(nodes: &[u32], groups: &[u32], random: &mut Random) -> Vec<Case> {
    let size = nodes.len() as u32;
    let (nodes, groups) = (nodes.into(), groups.into());
    let a = Arguments { size, commutative: true, nodes, groups, ..Arguments::default() };
    let lines = all().filter(|line| line.name == "levels" && (line.fits)(&a).is_ok());
    let case = |line: &'static circulant::plan::registry::Algorithm| Case {
        operation: line.operation,
        algorithm: Some(line.name),
        data: Data::Affine(true),
        fill: Fill::Exact,
        mode: MODES[random.below(MODES.len())],
        in_place: random.below(2) == 1,
        root: random.below(size as usize),
        len: [0, 1, 7, 501, 6000][random.below(5)],
        blocks: [None, Some(1), Some(3), Some(8)][random.below(4)],
        seed: random.draw(),
    };
    lines.map(case).collect()
}

fn seed() -> u64 {
    let seed = std::env::var("COLLECTIVES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("COLLECTIVES_SEED={seed}");
    seed
}

/// Ranks on nodes of their own and on shared ones, groups of one node to many, ranks of a group apart.
fn machines() -> Vec<(Vec<u32>, Vec<u32>)> {
    let alone = |groups: &[u32]| ((0..groups.len() as u32).collect(), groups.to_vec());
    let shared = |nodes: &[u32], groups: &[u32]| {
        (nodes.to_vec(), nodes.iter().map(|node| groups[*node as usize]).collect())
    };
    vec![
        alone(&[0, 0, 1, 1]),
        alone(&[0, 1, 1, 0, 2]),
        alone(&[3, 3, 3, 1, 1, 0]),
        alone(&[0, 0, 0, 0, 1, 1, 1]),
        alone(&[0, 1, 2, 0, 1, 2, 0, 1, 2]),
        alone(&[0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3]),
        shared(&[0, 0, 1, 2], &[0, 0, 1]),
        shared(&[0, 1, 2, 0, 1, 2, 1], &[0, 1, 0]),
        shared(&[0, 0, 1, 1, 2, 2, 3, 3], &[0, 1, 0, 1]),
        shared(&[0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4], &[0, 0, 1, 1, 1]),
        shared(&[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 3, 3, 5, 1], &[0, 0, 1, 1, 2, 2]),
    ]
}

/// Runs each case of a machine on a wire that refuses, delays and reorders.
fn right_data((nodes, groups): (Vec<u32>, Vec<u32>), settings: &[(&str, &str)], random: &mut Random) {
    let cases = cases(&nodes, &groups, random);
    assert_eq!(cases.len(), 7, "{nodes:?} {groups:?}");
    let bad = sim::Faults { seed: 3, refuse: 60, delay: 5, reorder: true, ..Default::default() };
    let told = (nodes.clone(), groups.clone());
    let done = ranks::run_in(told, &bad, settings, |world, comm| {
        assert_eq!((world.nodes(), world.groups().len()), (&nodes[..], groups.len()));
        for case in &cases {
            check::<Affine>(comm, case).unwrap_or_else(|e| panic!("{e} in {case:?}, {groups:?}"));
        }
        Ok(())
    });
    done.into_iter().for_each(|result| result.unwrap());
}

#[test]
fn levels_move_the_right_data() {
    let mut random = Random(seed());
    for machine in machines() {
        right_data(machine, &[("light", "200")], &mut random);
    }
}

/// Where a put costs far more than its bytes an allgather(v) moves the blocks of groups as a whole.
#[test]
fn blocks_of_groups_move_the_right_data() {
    let mut random = Random(seed());
    let dear = [("light", "200"), ("latency", "1500"), ("overhead", "100000"), ("byte-time", "80")];
    let alone = |groups: Vec<u32>| ((0..groups.len() as u32).collect(), groups);
    for _ in 0..8 {
        right_data(alone((0..16).map(|node| node / 4).collect()), &dear, &mut random);
        right_data(alone(vec![0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3]), &dear, &mut random);
    }
}

/// Of some ranks, in another order: those that are left have the groups of their nodes, or none if they are all in one.
#[test]
fn communicators_know_the_groups_of_their_ranks() {
    let groups = vec![0, 0, 0, 1, 1, 1, 1, 2, 2];
    let nodes: Vec<u32> = (0..9).collect();
    let done = ranks::run_in((nodes, groups.clone()), &sim::Faults::default(), &[], |_, comm| {
        // All but rank 0, backwards; the first four; ranks of one group, which have none.
        for (members, lines) in [(1u32..9, 7), (0..4, 7), (3..7, 0)] {
            let in_it = members.contains(&(comm.rank() as u32));
            let Some(some) = comm.split(in_it.then_some(0), -(comm.rank() as i64))? else { continue };
            let groups: Vec<u32> = members.rev().map(|rank| groups[rank as usize]).collect();
            let alone: Vec<u32> = (0..groups.len() as u32).collect();
            let cases = cases(&alone, &groups, &mut Random(7));
            assert_eq!(cases.len(), lines);
            for case in cases {
                check_slices::<Affine>(&some, &Case { mode: Mode::Slices, ..case })?;
            }
        }
        comm.with(Options::new().algorithm("levels")).bcast(&mut [0u8; 9], 0)
    });
    done.into_iter().for_each(|result| result.unwrap());
}

/// Bytes between groups, by all ranks together, of a call.
fn between_groups(
    settings: &[(&str, &str)],
    (nodes, groups): (Vec<u32>, Vec<u32>),
    call: impl Fn(&Communicator) -> Result<()> + Sync,
) -> u64 {
    let done = ranks::run_in((nodes, groups), &sim::Faults::default(), settings, |world, comm| {
        let before = world.stats();
        call(comm)?;
        let after = world.stats();
        let between = after.bytes_between_groups - before.bytes_between_groups;
        assert!(between <= after.put_bytes - before.put_bytes);
        Ok(between)
    });
    done.into_iter().map(Result::unwrap).sum()
}

/// What no plan can do with less.
#[test]
fn what_goes_between_groups_is_counted() {
    let (nodes, groups): (Vec<u32>, _) = ((0..9).collect(), vec![0, 0, 0, 0, 1, 1, 1, 2, 2]);
    let machine = || (nodes.clone(), groups.clone());
    let bytes = 90_000;
    let levels = [("algorithm", "levels")];
    let bcast = |comm: &Communicator| comm.bcast(&mut vec![1u8; bytes], 4);
    assert_eq!(between_groups(&levels, machine(), bcast), 2 * bytes as u64);
    // The root puts to all.
    assert_eq!(between_groups(&[("algorithm", "linear")], machine(), bcast), 6 * bytes as u64);
    let allreduce = |comm: &Communicator| comm.allreduce(InPlace, &mut vec![1u64; bytes / 8], ops::Sum);
    assert_eq!(between_groups(&levels, machine(), allreduce), 4 * bytes as u64);
    // Eager ones, too.
    assert_eq!(between_groups(&levels, machine(), |comm| comm.bcast(&mut [1u8; 5], 0)), 10);
    // Where nothing is known of groups nothing is between them.
    assert_eq!(between_groups(&[], (nodes.clone(), Vec::new()), bcast), 0);
    assert_eq!(between_groups(&[("groups", "none")], machine(), bcast), 0);
}

/// A price that knows the taper takes the plan that spares the links between groups.
#[test]
fn the_taper_decides() {
    let machine = || ((0..16).collect::<Vec<u32>>(), (0..16).map(|rank| rank / 8).collect::<Vec<u32>>());
    let bytes = 4 << 20;
    let bcast = |comm: &Communicator| comm.bcast(&mut vec![1u8; bytes], 5);
    let wire = [("latency", "1500"), ("overhead", "300"), ("byte-time", "80"), ("adapt", "off")];
    let tapered =
        |taper: &'static str| between_groups(&[&wire[..], &[("taper", taper)]].concat(), machine(), bcast);
    let (flat, spared) = (tapered("1"), tapered("1:8"));
    assert!(flat > 2 * bytes as u64, "{flat} bytes between groups without a taper");
    assert_eq!(spared, bytes as u64);
}

/// All ranks come to the same groups: a number, what the launcher says, nothing.
#[test]
fn the_setting_decides_what_groups_are() {
    let told = || (vec![0, 0, 1, 2, 3, 3], vec![5, 5, 7, 5, 7, 7]);
    for (setting, wanted) in [
        ("auto", vec![0, 0, 1, 0, 1, 1]),
        ("2", vec![0, 0, 0, 1, 1, 1]),
        ("3", vec![0, 0, 0, 0, 1, 1]),
        ("4", vec![]),
        ("none", vec![]),
    ] {
        let done = ranks::run_in(told(), &sim::Faults::default(), &[("groups", setting)], |world, _| {
            Ok(world.groups().to_vec())
        });
        done.into_iter().for_each(|found| assert_eq!(found.unwrap(), wanted, "{setting}"));
    }
}

/// At a rank that was given another setting than rank 0, and where rank 0 cannot read its file, at all.
#[test]
fn ranks_that_cannot_agree_say_so() {
    let start = |settings: [Grouping; 3]| -> Vec<Result<()>> {
        let wires = sim::group(3, &sim::Faults::default());
        std::thread::scope(|scope| {
            let ranks = wires.into_iter().zip(threads::group_on(vec![0, 1, 2])).zip(settings);
            let one = |((wire, launch), groups): ((sim::Sim, _), Grouping)| {
                let builder = World::builder().launch(launch).transport(Box::new(wire)).groups(&groups);
                scope.spawn(move || builder.set("start-deadline", "20").init().map(drop))
            };
            let handles: Vec<_> = ranks.map(one).collect();
            handles.into_iter().map(|h| h.join().unwrap()).collect()
        })
    };
    let said = start([Grouping::Nodes(2), Grouping::Nodes(2), Grouping::Nodes(3)]).remove(2).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Mismatch);
    assert!(said.to_string().contains("CIRCULANT_GROUPS is \"2\" at rank 0 and \"3\" here"), "{said}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("groups");
    let file = || Grouping::File(path.to_str().unwrap().to_owned());
    for (text, words) in [(None, "No such file"), (Some("n[0-9] a\n"), "there is no line for the node")] {
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        for (rank, result) in start([file(), file(), file()]).into_iter().enumerate() {
            let e = result.unwrap_err();
            assert!(
                e.to_string().contains("CIRCULANT_GROUPS") && e.to_string().contains(words),
                "rank {rank}: {e}"
            );
        }
    }
}
