//! A checker that cannot fail proves nothing: every law is broken here once, and must be named.

use super::*;
use crate::plan::allgatherv::circulant::{Allgatherv, Blocks};
use crate::plan::barrier::dissemination::Barrier;
use crate::plan::bcast::circulant::Bcast;
use crate::plan::lower::{OpKind, Program, WireLimits, lower};
use crate::plan::{Kind, Plan, Sizes, Step, Wait};

type How = fn(&mut Vec<Step>);

/// A plan with one rank's steps tampered with.
#[derive(Debug)]
struct Tampered<P> {
    plan: P,
    rank: u32,
    how: How,
}

impl<P: Plan> Plan for Tampered<P> {
    fn algorithm(&self) -> &'static str {
        "tampered"
    }
    fn size(&self) -> u32 {
        self.plan.size()
    }
    fn rounds(&self) -> u32 {
        self.plan.rounds()
    }
    fn counters(&self, rank: u32) -> u32 {
        self.plan.counters(rank)
    }
    fn sizes(&self, rank: u32) -> Sizes {
        self.plan.sizes(rank)
    }
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        let mut steps: Vec<Step> = self.plan.steps(rank).collect();
        if rank == self.rank {
            (self.how)(&mut steps);
        }
        Box::new(steps.into_iter())
    }
}

fn bcast() -> Bcast {
    Bcast::new(9, 0, 7 * 64, 7).unwrap()
}

fn first(steps: &mut [Step], kind: Kind) -> &mut Step {
    steps.iter_mut().find(|s| s.kind == kind).unwrap()
}

fn remove(steps: &mut Vec<Step>, kind: Kind) {
    let at = steps.iter().position(|s| s.kind == kind).unwrap();
    steps.remove(at);
}

#[test]
fn a_broken_broadcast_is_found_out() {
    let goal = Goal::bcast(0, 7 * 64);
    prove(&bcast(), &goal).unwrap();
    let cases: [(How, &str); 11] = [
        (|steps| first(steps, Kind::Put).waits = [Wait::NONE; 2], "does not wait"),
        (|steps| first(steps, Kind::Put).waits = [Wait::once(6), Wait::NONE], "is at 0 when 1"),
        (|steps| first(steps, Kind::Put).target.offset += 1, "not the mirror"),
        (|steps| first(steps, Kind::Put).source.offset += 1, "does not wait"),
        (|steps| first(steps, Kind::Put).bump += 1, "not the mirror"),
        (|steps| first(steps, Kind::Expect).len -= 1, "not the mirror"),
        (|steps| remove(steps, Kind::Put), "no rank sends"),
        (|steps| remove(steps, Kind::Expect), "mirror"),
        (|steps| steps.insert(0, steps[0]), "no rank sends"),
        (|steps| first(steps, Kind::Put).round = 99, "no rank sends"),
        (|steps| first(steps, Kind::Put).peer = 4, "two peers"),
    ];
    for (how, what) in cases {
        let violation = prove(&Tampered { plan: bcast(), rank: 4, how }, &goal).unwrap_err();
        assert!(violation.0.contains(what), "{violation} does not say {what:?}");
    }
}

#[test]
fn wrong_goals_are_not_reached() {
    for goal in [Goal::bcast(1, 7 * 64), Goal::bcast(0, 7 * 64 - 1), Goal::bcast(0, 7 * 64 + 1)] {
        prove(&bcast(), &goal).unwrap_err();
    }
    let (counts, displs) = ([100, 0, 300], [300, 50, 0]);
    let plan = Allgatherv::new(&counts, &displs, &Blocks::Equal(4), false).unwrap();
    prove(&plan, &Goal::allgatherv(&counts, &displs, false)).unwrap();
    prove(&plan, &Goal::allgatherv(&counts, &displs, true)).unwrap_err();
    prove(&plan, &Goal::allgatherv(&[100, 0, 299], &displs, false)).unwrap_err();
    // The same bytes from the wrong owner.
    prove(&plan, &Goal::allgatherv(&[100, 1, 300], &[300, 400, 0], false)).unwrap_err();
}

#[test]
fn broken_programs_are_found_out() {
    let counts: Vec<u64> = (0..9).map(|j| 20 * j).collect();
    let displs: Vec<u64> = (0..9).map(|j| 10 * j * (j - 1).max(0)).map(|d: i64| d.unsigned_abs()).collect();
    let plan = Allgatherv::new(&counts, &displs, &Blocks::Equal(3), false).unwrap();
    let goal = Goal::allgatherv(&counts, &displs, false);
    for gather in [1, 4] {
        let limits = WireLimits { max_put: 40, gather, light: 30, ..WireLimits::PLAIN };
        let programs: Vec<Program> = (0..9).map(|rank| lower(&plan, rank, &limits).unwrap()).collect();
        check(&plan, &programs, &goal, 1).unwrap();
        let spoil = |how: &dyn Fn(&mut Program)| {
            let mut programs = programs.clone();
            how(&mut programs[5]);
            check(&plan, &programs, &goal, 1).unwrap_err()
        };
        // A put that waits for nothing, one to the wrong place, one too few, a slot never unpacked.
        spoil(&|p| {
            let waiting = p.ops.iter().position(|op| op.kind == OpKind::Put && op.waits > 0).unwrap();
            p.ops[waiting].waits = 0;
            let gone: Vec<usize> =
                (0..p.waiters.len()).filter(|&i| p.waiters[i].1 as usize == waiting).collect();
            for i in gone.into_iter().rev() {
                p.waiters.remove(i);
                p.waiter_start.iter_mut().filter(|start| **start as usize > i).for_each(|start| *start -= 1);
            }
        });
        spoil(&|p| p.ops.iter_mut().find(|op| op.kind == OpKind::Put).unwrap().target.offset += 1);
        spoil(&|p| p.ops.truncate(p.ops.len() - 1));
        spoil(&|p| {
            let unpack = p.segments.iter_mut().find(|s| s.place.region == Region::Land).unwrap();
            unpack.place.offset += 1;
        });
        spoil(&|p| p.expected.iter_mut().find(|e| e.arrivals > 0).unwrap().arrivals += 1);
        spoil(&|p| p.peers[0].bytes_out += 1);
    }
}

#[test]
fn a_barrier_that_forgets_a_round_lets_someone_leave_early() {
    let limits = WireLimits { max_put: 1, gather: 1, light: 0, ..WireLimits::PLAIN };
    let plan = |how| Tampered { plan: Barrier::new(9).unwrap(), rank: 4, how };
    let early = |plan: &dyn Plan| {
        let programs: Vec<Program> = (0..9).map(|rank| lower(plan, rank, &limits).unwrap()).collect();
        (0..9).any(|absent| !run_without(&programs, absent, 1).unwrap().is_empty())
    };
    assert!(!early(&plan(|_| {})));
    assert!(early(&plan(|steps| {
        steps.iter_mut().filter(|s| s.kind == Kind::Notify).for_each(|s| s.waits[1] = Wait::NONE);
    })));
}
