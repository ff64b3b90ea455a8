//! Theorems 1 to 3: schedules are correct, n blocks take n−1+q rounds, and the times that follow.

use crate::paper::ledger::Ledger;
use crate::paper::sheet::{Sheet, Verdict};
use crate::tool::dist::DISTS;
use crate::tool::units;
use circulant::Result;
use circulant::plan::Plan;
use circulant::plan::allgatherv::circulant::{Allgatherv, Blocks};
use circulant::plan::bcast::circulant::Bcast;
use circulant::schedule::{Circulant, Entries, check};
use std::time::Instant;

/// Every p up to this is checked, and those around powers of two up to the next.
const ALL: u32 = 600;
const AROUND: u32 = 1 << 15;

/// α and β of the paper's model, in nanoseconds.
const ALPHA: f64 = 2000.0;
const BETA: f64 = 0.1;

/// Theorem 1: all ranks' schedules fit together.
pub(super) fn schedules(sheet: &mut Sheet<'_>) {
    let good = |p: u32| {
        let c = Circulant::new(p);
        let table: Vec<Entries> = (0..p).map(|r| c.recv(r)).collect();
        check(p, |r| table[r as usize].as_ref(), |r| c.send(r)).is_ok()
    };
    let all = (1..=ALL).filter(|p| !good(*p)).count();
    let around: Vec<u32> = (10..=AROUND.ilog2()).flat_map(|k| [(1 << k) - 1, 1 << k, (1 << k) + 1]).collect();
    let far = around.iter().filter(|p| !good(**p)).count();
    let row = |text: String, wrong: usize| (vec![text, wrong.to_string()], Verdict::of(wrong == 0));
    let rows =
        vec![row(format!("every p to {ALL}"), all), row(format!("2^k and its neighbours to {AROUND}"), far)];
    sheet.table(
        "Theorem 1, correct schedules: conditions (i) to (iii) for every rank",
        &[("p", true), ("wrong", false)],
        rows,
    );
}

/// Theorem 2: rounds, for many p and n; and times.
pub(super) fn broadcast(sheet: &mut Sheet<'_>) -> Result<()> {
    let (mut cases, mut wrong) = (0u32, 0u32);
    let (sizes, far) = (2..=64u32, [100, 129, 255, 256, 257, 1000]);
    for p in sizes.chain(far) {
        let q = Circulant::new(p).q();
        for n in 1..=3 * q + 3 {
            let plan = Bcast::new(p, 0, u64::from(n) * 64, n)?;
            let ledger = Ledger::of(&plan);
            let once = ledger.received().iter().skip(1).all(|got| *got == u64::from(n) * 64);
            cases += 1;
            wrong += u32::from(ledger.rounds() != n - 1 + q || plan.rounds() != n - 1 + q || !once);
        }
    }
    let text = "p = 2..64, 100, 129, 255, 256, 257, 1000, n = 1..3q+3".to_owned();
    sheet.table(
        "Theorem 2, n blocks in n-1+q rounds, every block to every rank once",
        &[("", true), ("cases", false), ("wrong", false)],
        vec![(vec![text, cases.to_string(), wrong.to_string()], Verdict::of(wrong == 0))],
    );
    let mut rows = Vec::new();
    for (p, m) in
        [(36u32, 1u64 << 20), (36, 400_000_000), (576, 1 << 20), (1152, 1 << 20), (1152, 400_000_000)]
    {
        let (formula, n) = optimum(p, m);
        let ours = Ledger::of(&Bcast::new(p, 0, m, n)?).time(ALPHA, BETA);
        let cells = vec![
            p.to_string(),
            units::size(m),
            n.to_string(),
            units::time(formula),
            units::time(ours),
            units::time(f64::from(Circulant::new(p).q()) * (ALPHA + BETA * m as f64)),
        ];
        rows.push((cells, Verdict::of(ours >= formula * 0.999 && ours <= formula * 1.01)));
    }
    sheet.table(
        "Theorem 2, the time (q-1)a + 2 sqrt((q-1) a b m) + b m, a = 2 us, b = 0.1 ns a byte; same: within a hundredth, as n \
         is whole",
        &[
            ("p", false),
            ("m", false),
            ("best n", false),
            ("theorem", false),
            ("plan, in rounds", false),
            ("one block", false),
        ],
        rows,
    );
    Ok(())
}

/// The theorem's time, and the n next to the one that it takes.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some thousands
fn optimum(p: u32, m: u64) -> (f64, u32) {
    let rounds = f64::from(Circulant::new(p).q() - 1);
    let wire = BETA * m as f64;
    let time = rounds * ALPHA + 2.0 * (rounds * ALPHA * wire).sqrt() + wire;
    (time, (rounds * wire / ALPHA).sqrt().round().max(1.0) as u32)
}

/// Theorem 3: the same for the irregular allgather, whatever the counts.
pub(super) fn allgather(sheet: &mut Sheet<'_>) -> Result<()> {
    let mut rows = Vec::new();
    for dist in &DISTS {
        let (mut cases, mut more, mut wrong) = (0u32, 0u32, 0u32);
        for p in (2..=24u32).chain([33, 36]) {
            let q = Circulant::new(p).q();
            let counts = dist.counts(4000 * u64::from(p), p as usize);
            let total: u64 = counts.iter().sum();
            for n in [1, 2, q, q + 1, 2 * q + 1] {
                let ledger = Ledger::of(&irregular(&counts, n)?);
                let once = ledger.received().iter().zip(&counts).all(|(got, own)| got + own == total);
                cases += 1;
                more += u32::from(ledger.rounds() > n - 1 + q);
                wrong += u32::from(!once);
            }
        }
        let cells = vec![dist.name.to_owned(), cases.to_string(), more.to_string(), wrong.to_string()];
        rows.push((cells, Verdict::of(more == 0 && wrong == 0)));
    }
    sheet.table(
        "Theorem 3, n blocks per contribution in n-1+q rounds: p = 2..24, 33, 36, n = 1, 2, q, q+1, 2q+1",
        &[("distribution", true), ("cases", false), ("more rounds", false), ("wrong volume", false)],
        rows,
    );
    let (p, m) = (36u32, 1u64 << 20);
    let mut rows = Vec::new();
    for dist in &DISTS {
        let counts = dist.counts(m, p as usize);
        let (formula, n) = optimum(p, m);
        let ours = Ledger::of(&irregular(&counts, n)?).time(ALPHA, BETA);
        let one = Ledger::of(&irregular(&counts, 1)?).time(ALPHA, BETA);
        let cells = vec![
            dist.name.to_owned(),
            n.to_string(),
            units::time(formula),
            units::time(ours),
            units::time(one),
        ];
        // Blocks of 0 and 1 byte more than the others: a round's longest message may be p−1 bytes longer.
        rows.push((cells, Verdict::of(ours <= formula * 1.01)));
    }
    sheet.table(
        "Theorem 3, its time is a bound: p = 36, m = 1 MiB, a = 2 us, b = 0.1 ns a byte",
        &[
            ("distribution", true),
            ("n", false),
            ("theorem", false),
            ("plan, in rounds", false),
            ("one block", false),
        ],
        rows,
    );
    sheet.say(
        "Section 3.2 says m_r = (r mod 3) m with a sum of m: that must be scaled, as irr3 is (an error of the text).\n",
    );
    Ok(())
}

fn irregular(counts: &[u64], n: u32) -> Result<Allgatherv> {
    let mut end = 0;
    let mut displs = Vec::with_capacity(counts.len());
    for count in counts {
        displs.push(end);
        end += count;
    }
    Allgatherv::new(counts, &displs, &Blocks::Equal(n), false)
}

/// What schedules cost: the paper's figures are for all p receive schedules on its machine, about 40 µs at
/// p = 36 and 5800 µs at p = 1152.
pub(super) fn cost(sheet: &mut Sheet<'_>) {
    let printed = |p: u32| match p {
        36 => "about 40 us",
        1152 => "about 5800 us",
        _ => "-",
    };
    let mut rows = Vec::new();
    for p in [36u32, 576, 1152, 65_536, 1_000_000] {
        let repetitions = (200_000 / p).max(1);
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let start = Instant::now();
            for _ in 0..repetitions {
                let c = Circulant::new(std::hint::black_box(p));
                for r in 0..p {
                    std::hint::black_box(c.recv(r));
                }
            }
            best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(repetitions));
        }
        let cells = vec![
            p.to_string(),
            printed(p).to_owned(),
            units::time(best),
            units::time(best / f64::from(p)),
            Circulant::new(p).q().to_string(),
        ];
        rows.push((cells, Verdict::Measured));
    }
    sheet.table(
        "Section 3.2, all p receive schedules on one core (the paper's take O(p log^2 p), these O(p log p))",
        &[("p", false), ("printed", false), ("here", false), ("a rank", false), ("q", false)],
        rows,
    );
}
