//! Random programs with random faults; `ci/chaos sim` runs more of them.

use circulant_tests::chaos::judge::Wrong;
use circulant_tests::chaos::program::{Item, Program, Wire};
use circulant_tests::chaos::{Chosen, many, run, shrink, verdict};

/// One program again, where CHAOS_SEED says which (CHAOS_KEEP: these items of it); else CHAOS_SEEDS of them, from CHAOS_FIRST on.
#[test]
fn programs_end_right_or_by_name_and_in_time() {
    let chosen = Chosen::from_env();
    let Some(program) = chosen.program(Wire::Sim) else {
        let (first, count) = (chosen.first.unwrap_or(0), chosen.count.unwrap_or(100));
        println!("CHAOS_FIRST={first} CHAOS_SEEDS={count}");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if let Err(text) = many(Wire::Sim, (first, count), cores, verdict) {
            panic!("{text}");
        }
        return;
    };
    println!("{program:#?}");
    for (rank, end) in run::run(&program).ends.iter().enumerate() {
        println!("rank {rank}: {end:?}");
    }
    if let Some(Wrong { class, text }) = verdict(&program).wrong {
        panic!("{class}: {text}");
    }
}

#[test]
fn a_program_runs_the_same_each_time() {
    for seed in 0..12 {
        let program = Program::draw(seed, Wire::Sim);
        let (one, other) = (run::run(&program), run::run(&program));
        assert_eq!(one.digest, other.digest, "seed {seed}");
        let ends = |course: &run::Course| format!("{:?}", course.ends);
        assert_eq!(ends(&one), ends(&other), "seed {seed}");
    }
}

/// What start-up measures on the simulated wire, by which algorithms are chosen, does not depend on what else the machine does.
#[test]
fn the_simulated_wire_is_measured_the_same_each_time() {
    let first = run::measured(16, 1);
    for _ in 0..20 {
        assert_eq!(run::measured(16, 1), first);
    }
}

#[test]
fn a_program_is_shrunk_to_what_it_fails_by() {
    let program = (0..).map(|seed| Program::draw(seed, Wire::Sim)).find(|p| p.items.len() > 15).unwrap();
    // Fails where the seventh and the twelfth are there, and nothing else matters.
    let fails = |p: &Program| {
        let both = p.places.contains(&7) && p.places.contains(&12);
        both.then(|| Wrong { class: "both", text: String::new() })
    };
    let (short, _) = shrink::shrink(&program, &fails(&program).unwrap(), fails);
    assert_eq!(short.places, [7, 12]);
    assert_eq!(short.items, [program.items[7].clone(), program.items[12].clone()]);
    assert!(!short.items.contains(&Item::LauncherSilent) || program.items.contains(&Item::LauncherSilent));
}

/// Each death is noticed in time, but all of them together take longer than the deadline: a wait begins anew with each.
#[test]
fn deaths_one_after_another_outlast_no_agreement() {
    let late = |rank, milliseconds| [Item::Stop { rank, milliseconds }, Item::Kill { rank, posts: 0 }];
    let mut items = vec![Item::Kill { rank: 0, posts: 0 }];
    items.extend([late(1, 700), late(2, 1400), late(3, 2100)].concat());
    items.push(Item::Call { comm: 0, seed: 1 });
    let places = (0..items.len()).collect();
    let program = Program { seed: 1, wire: Wire::Sim, nodes: vec![0; 6], survives: true, places, items };
    let wrong = verdict(&program).wrong;
    assert!(wrong.is_none(), "{wrong:?}");
}
