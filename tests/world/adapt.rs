//! Trials: calls that are repeated are tried in other ways, all ranks keep the same one, and every result is right meanwhile.

use super::ranks::run;
use circulant::comm::{Learned, measure};
use circulant::machine::{LogGp, Machine};
use circulant::ops::Sum;
use circulant::plan::registry::{Arguments, Operation};
use circulant::select::{MAX_WAYS, Selection, Settings, Source, TRIAL_CALLS, calls_to_settle};
use circulant::transport::sim::Faults;
use circulant::{Communicator, InPlace, Options, Result, World};

const P: usize = 5;
/// Where several algorithms cost about the same.
const WIRE: [(&str, &str); 3] = [("latency", "20000"), ("overhead", "1000"), ("byte-time", "1000")];
/// Calls of a class until its first trial has ended, at most.
const TRIAL: usize = TRIAL_CALLS + 1;
/// Until all of its trials have.
const SETTLED: usize = calls_to_settle(0) + 1;

fn adapt(how: &'static str) -> Vec<(&'static str, &'static str)> {
    WIRE.into_iter().chain([("adapt", how)]).collect()
}

/// A broadcast of `len` bytes that is checked.
fn bcast(comm: &Communicator, len: usize, call: usize) -> Result<()> {
    let root = call % comm.size();
    let fill = (call % 251) as u8;
    let mut data = vec![if comm.rank() == root { fill } else { !fill }; len];
    comm.bcast(&mut data, root)?;
    assert!(data.iter().all(|byte| *byte == fill), "call {call}");
    Ok(())
}

fn texts(learned: &[Learned]) -> Vec<String> {
    let tried = |l: &Learned| l.tried.iter().map(|(way, time)| format!("{way} {time:?}")).collect::<Vec<_>>();
    learned.iter().map(|l| format!("{:?} {} {:?} {}", l.class, l.size, tried(l), l.kept)).collect()
}

/// On a wire that delays and reorders, with every form of call in between, and sizes of one class.
#[test]
fn all_ranks_keep_the_same_way() {
    let body = |world: &World, comm: &Communicator| {
        for call in 0..SETTLED + TRIAL {
            bcast(comm, 20_000 + call, call)?;
            let mut sum = vec![call as u64; 1000];
            comm.allreduce(InPlace, &mut sum, Sum)?;
            assert!(sum.iter().all(|x| *x == (P * call) as u64));
            if call.is_multiple_of(7) {
                let request = comm.ibcast(comm.alloc_from(&vec![comm.rank() as u64; 2500])?, 1)?;
                bcast(comm, 20_000, call)?;
                assert!(request.wait()?.recv.iter().all(|x| *x == 1));
            }
        }
        let learned = world.learned()?;
        assert!(learned.iter().any(|l| l.tried.len() > MAX_WAYS), "later trials: {learned:?}");
        Ok(texts(&learned))
    };
    let faults = Faults { seed: 3, refuse: 60, delay: 5, reorder: true, ..Faults::default() };
    let found: Vec<_> = run(P, &faults, &adapt("on"), body).into_iter().map(Result::unwrap).collect();
    assert!(found.iter().all(|texts| *texts == found[0]), "{found:?}");
    assert_eq!(found[0].len(), 2, "{:?}", found[0]);
}

/// A persistent operation that goes in several messages a hop by price is tried like others.
#[test]
fn a_persistent_operation_in_several_messages_a_hop_is_tried() {
    const RANKS: usize = 9;
    let settings = [("latency", "2000"), ("overhead", "1000"), ("byte-time", "1"), ("adapt", "on")];
    let body = |world: &World, comm: &Communicator| {
        let mut sum = comm.allreduce_init(comm.alloc::<u64>(1)?, comm.alloc::<u64>(1)?, Sum)?;
        for call in 0..SETTLED as u64 {
            sum.input()?.fill(call);
            sum.start()?;
            sum.wait()?;
            assert_eq!(sum.output()?, [RANKS as u64 * call]);
        }
        drop(sum);
        Ok(texts(&world.learned()?))
    };
    let found = run(RANKS, &Faults::default(), &settings, body);
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    assert!(found.iter().all(|texts| *texts == found[0]), "{found:?}");
    assert!(found[0].iter().any(|text| text.contains("multiplying blocks=2")), "{:?}", found[0]);
}

/// Start-up itself calls a barrier, before it has probed the wire.
#[test]
fn what_is_cheapest_by_the_probe_is_tried_first() {
    let body = |world: &World, comm: &Communicator| {
        let (machine, source) = measure::machine(comm)?;
        (0..TRIAL).try_for_each(|_| comm.barrier())?;
        assert_eq!(source, Source::Probe);
        Ok((machine, world.learned()?.remove(0).tried[0].0))
    };
    let barrier = Arguments { size: 16, ..Arguments::default() };
    let cheapest = |machine| {
        let selection = Selection::of(&Settings::default(), machine).unwrap();
        selection.choose(Operation::Barrier, &barrier, None, false).unwrap().way
    };
    for found in run(16, &Faults::default(), &[("probe", "on"), ("adapt", "on")], body) {
        let (machine, first) = found.unwrap();
        assert_eq!(first, cheapest(machine));
    }
}

/// What is called a few times is not tried, nor what gives other bits in another order, nor what is named; nor anything where it is off.
#[test]
fn what_is_not_tried() {
    let body = |world: &World, comm: &Communicator| {
        for call in 0..2 * TRIAL {
            let mut sum = vec![0.1f64; 1000];
            comm.allreduce(InPlace, &mut sum, Sum)?;
            comm.with(Options::new().blocks(3)).bcast(&mut [0u8; 9000], call % P)?;
        }
        (0..10).try_for_each(|call| bcast(comm, 500, call))?;
        Ok(world.learned()?.len())
    };
    for (how, tried) in [("auto", 0), ("on", 1), ("off", 0)] {
        let found = run(P, &Faults::default(), &adapt(how), body);
        assert!(found.iter().all(|found| *found.as_ref().unwrap() == tried), "{how}: {found:?}");
    }
    let reproducible: Vec<_> = adapt("on").into_iter().chain([("reproducible", "yes")]).collect();
    let found = run(P, &Faults::default(), &reproducible, body);
    assert!(found.iter().all(|found| *found.as_ref().unwrap() == 0), "{found:?}");
}

/// What was learned is a file of rules, by which the next job chooses.
#[test]
fn what_is_learned_is_a_rule() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    let learn: Vec<_> = adapt("auto").into_iter().chain([("learn", path.to_str().unwrap())]).collect();
    let body = |world: &World, comm: &Communicator| {
        (0..TRIAL_CALLS + TRIAL).try_for_each(|call| bcast(comm, 20_000, call))?;
        world.learned()
    };
    std::fs::write(&path, "bcast bytes<10 -> chain\n").unwrap();
    run(P, &Faults::default(), &learn, body).into_iter().for_each(|found| drop(found.unwrap()));
    let learned = run(P, &Faults::default(), &learn, body).remove(0).unwrap();
    let rules = std::fs::read_to_string(&path).unwrap();
    assert_eq!(rules.lines().count(), 2, "the second job's in place of the first one's: {rules}");
    assert!(rules.ends_with("bcast bytes<10 -> chain\n"), "{rules}");
    let settings = Settings { rules, ..Settings::default() };
    let wire = LogGp { latency_ns: 20_000, overhead_ns: 1000, byte_ps: 1000, reduce_ps: 100 };
    let machine = Machine::nodes(wire, P as u32);
    let selection = Selection::of(&settings, machine).unwrap();
    let call = Arguments { size: P as u32, bytes: 20_000, ..Arguments::default() };
    let choice = selection.choose(Operation::Bcast, &call, None, false).unwrap();
    assert!(!choice.is_priced);
    assert_eq!(choice.way, learned[0].kept);
    // With it nothing is tried.
    let known: Vec<_> = adapt("on").into_iter().chain([("selection", path.to_str().unwrap())]).collect();
    let found = run(P, &Faults::default(), &known, body);
    assert!(found.iter().all(|found| found.as_ref().unwrap().is_empty()));
}

/// More communicators than there are slots for operations in flight are dropped while the times of a trial are on their way.
#[test]
fn communicators_are_dropped_in_the_midst_of_a_trial() {
    let body = |_: &World, comm: &Communicator| {
        for round in 0..300 {
            let copy = comm.dup()?;
            // In some rounds the last of them has sent the times.
            (0..TRIAL - round % 20).try_for_each(|call| bcast(&copy, 3000, call + round))?;
        }
        Ok(())
    };
    run(2, &Faults::default(), &adapt("on"), body).into_iter().for_each(|r| r.unwrap());
}

/// Two persistent operations that run at a time, and are waited for in another order at each rank; one by `test`.
#[test]
fn persistent_operations_are_tried() {
    let body = |world: &World, comm: &Communicator| {
        let mut cast = comm.bcast_init(comm.alloc::<u8>(20_000)?, 1)?;
        let mut all = comm.allgather_init(comm.alloc::<u32>(700)?, comm.alloc::<u32>(700 * P)?)?;
        let mut sum = comm.allreduce_init(comm.alloc::<u64>(1000)?, comm.alloc::<u64>(1000)?, Sum)?;
        for call in 0..(SETTLED + TRIAL) as u32 {
            sum.input()?.fill(call.into());
            sum.start()?;
            sum.wait()?;
            assert!(sum.output()?.iter().all(|x| *x == P as u64 * u64::from(call)), "call {call}");
            if comm.rank() == 1 {
                cast.input()?.fill((call % 251) as u8);
            }
            all.input()?.fill(call + comm.rank() as u32);
            cast.start()?;
            all.start()?;
            if comm.rank().is_multiple_of(2) {
                cast.wait()?;
                all.wait()?;
            } else {
                while !all.test()? {}
                cast.wait()?;
            }
            assert!(cast.output()?.iter().all(|byte| *byte == (call % 251) as u8), "call {call}");
            let from = all.output()?.chunks(700).zip(0..);
            assert!(
                from.into_iter().all(|(part, rank)| part.iter().all(|x| *x == call + rank)),
                "call {call}"
            );
        }
        drop((cast, all, sum));
        // Some are dropped while their times are on their way.
        for runs in 10..TRIAL {
            let mut cast = comm.bcast_init(comm.alloc::<u8>(2500)?, 0)?;
            for _ in 0..runs {
                cast.start()?;
                cast.wait()?;
            }
        }
        bcast(comm, 100, 1)?;
        Ok(texts(&world.learned()?))
    };
    for how in ["on", "auto"] {
        let faults = Faults { seed: 5, refuse: 60, delay: 5, reorder: true, ..Faults::default() };
        let found = run(P, &faults, &adapt(how), body).into_iter().map(Result::unwrap).collect::<Vec<_>>();
        assert!(found.iter().all(|texts| *texts == found[0]), "{found:?}");
        for operation in ["Bcast", "Allreduce"] {
            assert!(found[0].iter().any(|text| text.contains(operation)), "{how}: {:?}", found[0]);
        }
    }
}
