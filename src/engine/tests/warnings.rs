//! Every wait says each minute for which ranks: also those that are no operation.

use super::*;
use crate::plan::barrier::dissemination::Barrier;

const MINUTE: Duration = Duration::from_secs(60);
/// Longer than until a wait tells that it is one.
const WHILE: Duration = Duration::from_secs(1);

/// The wait goes on for a while in vain, as its rank and the others do.
fn waits_on(world: &mut [Engine], rank: usize, mut turn: impl FnMut(&mut Engine) -> bool) {
    for _ in 0..3 {
        assert!(!turn(&mut world[rank]), "rank {rank}: nothing ends the wait");
        world[rank].clock.sleep(WHILE);
    }
}

/// All that answer are asked what they do.
fn ask(world: &mut [Engine], silent: usize) {
    for engine in world.iter_mut() {
        engine.core.queried = None;
    }
    let now = world[0].now();
    let asks = usize::from(silent == 0);
    world[asks].query_all(now);
    for _ in 0..10 {
        for engine in world.iter_mut().enumerate().filter(|(rank, _)| *rank != silent).map(|(_, e)| e) {
            engine.progress().unwrap();
        }
    }
    world.iter_mut().for_each(|engine| engine.core.asked_round = engine.core.query_round);
}

/// What each rank but `late` says in an agreement to which that one does not come.
fn said_in_an_agreement(late: usize) -> Vec<Option<String>> {
    let mut world = engines(4, 1000, Borrow::Direct);
    world.iter_mut().for_each(Engine::go_on_without_the_gone);
    let there: Vec<usize> = (0..4).filter(|rank| *rank != late).collect();
    let mut waiting = vec![Waiting::for_agreement("agree", (0, 3), FOR_EVER); 4];
    for rank in &there {
        world[*rank].begin_agreement((0, 3), vec![0, 1, 2, 3], (1, 1)).unwrap();
    }
    for _ in 0..3 {
        for rank in &there {
            waits_on(&mut world, *rank, |engine| {
                engine.agreement_turn((0, 3), &mut waiting[*rank], false).unwrap().is_some()
            });
        }
    }
    ask(&mut world, late);
    (0..4).map(|rank| world[rank].warning(&waiting[rank], MINUTE).filter(|_| rank != late)).collect()
}

#[test]
fn an_agreement_says_for_whom_it_waits() {
    let is = "it does not answer: it computes, is stopped, or is cut off";
    let said = said_in_an_agreement(2);
    assert_eq!(said[0], Some(format!("agree #3 waits for rank 2 for 60 s; {is} (rank 0 waits)")));
    assert_eq!(said[1..], [None, None, None], "rank 0 says it");
    // The rank that would collect the votes has not come: the next one says so.
    let said = said_in_an_agreement(0);
    assert_eq!(said[1], Some(format!("agree #3 waits for rank 0 for 60 s; {is} (rank 1 waits)")));
    assert_eq!((&said[2], &said[3]), (&None, &None), "rank 1 says it");
}

/// A deadline that passes in an agreement names a rank that has not come, also at the rank that collects the votes.
#[test]
fn an_agreement_that_ends_late_names_who_has_not_come() {
    let mut world = engines(3, 1000, Borrow::Direct);
    world.iter_mut().for_each(Engine::go_on_without_the_gone);
    world[0].begin_agreement((0, 1), vec![0, 1, 2], (1, 1)).unwrap();
    world[1].begin_agreement((0, 1), vec![0, 1, 2], (1, 1)).unwrap();
    world[0].progress().unwrap();
    world[1].progress().unwrap();
    let waiting = Waiting::for_agreement("agree", (0, 1), MINUTE);
    ask(&mut world, 2);
    let e = world[0].timed_out(&waiting);
    assert_eq!(e.peer(), Some(2), "{e}");
    assert!(e.to_string().contains("waiting for rank 2"), "{e}");
}

#[test]
fn the_steps_of_finalize_say_for_whom_they_wait() {
    let mut world = engines(3, 1000, Borrow::Direct);
    let arenas: Vec<Arena> = world.iter().map(|_| Arena::default()).collect();
    let is = "ranks 1, 2 do not answer: they compute, are stopped, or cut off";
    // A barrier that was begun and forgotten.
    let (t, binding, _blocks) = task(&mut world[0], &arenas[0], &Barrier::new(3).unwrap(), 0);
    world[0].start(t, meta(7), binding).unwrap();
    let mut waiting = Waiting::for_requests(FOR_EVER);
    waits_on(&mut world, 0, |engine| engine.has_ended_all(&mut waiting, false).unwrap());
    let now = world[0].now();
    world[0].query_all(now);
    let said = world[0].warning(&waiting, MINUTE).unwrap();
    let (start, end) = ("finalize waits for rank ", ", in test #7 (");
    assert!(said.starts_with(start) && said.contains(end), "{said}");
    assert!(
        said.ends_with("it does not answer: it computes, is stopped, or is cut off (rank 0 waits)"),
        "{said}"
    );
    // Neighbours that do not say goodbye.
    let mut world = engines(3, 1000, Borrow::Direct);
    world[0].finalizing();
    world[0].say_goodbye();
    let mut waiting = Waiting::for_goodbyes(FOR_EVER);
    waits_on(&mut world, 0, |engine| engine.has_parted(&mut waiting, false).unwrap());
    let now = world[0].now();
    world[0].query_all(now);
    let said = world[0].warning(&waiting, MINUTE).unwrap();
    assert_eq!(said, format!("finalize waits for the goodbye of ranks 1, 2 for 60 s; {is} (rank 0 waits)"));
    let e = world[0].timed_out(&waiting);
    assert_eq!(e.peer(), Some(1), "{e}");
}

/// Where a rank has entered a call and does not wait in it, another one says for whom.
#[test]
fn a_rank_that_does_not_wait_does_not_keep_others_silent() {
    let mut world = engines(3, 1000, Borrow::Direct);
    let arenas: Vec<Arena> = world.iter().map(|_| Arena::default()).collect();
    let mut memory = Vec::new();
    let mut slots = Vec::new();
    for (engine, arena) in world.iter_mut().zip(&arenas).take(2) {
        let (t, binding, blocks) = task(engine, arena, &Barrier::new(3).unwrap(), 0);
        slots.push(engine.start(t, meta(7), binding).unwrap());
        memory.push(blocks);
    }
    let mut waiting = Waiting::new(meta(7), FOR_EVER);
    waits_on(&mut world, 1, |engine| engine.turn(slots[1], &mut waiting).unwrap());
    ask(&mut world, 2);
    let said = world[1].warning(&waiting, MINUTE).unwrap();
    assert!(said.contains("rank 2 has not come to test #7 for 60 s"), "{said}");
    // It waits now.
    let mut its = Waiting::new(meta(7), FOR_EVER);
    waits_on(&mut world, 0, |engine| engine.turn(slots[0], &mut its).unwrap());
    ask(&mut world, 2);
    assert_eq!(world[1].warning(&waiting, MINUTE), None, "rank 0 says it");
    assert!(world[0].warning(&its, MINUTE).is_some());
}
