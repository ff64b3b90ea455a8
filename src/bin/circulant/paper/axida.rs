//! Axida, Viet, Yoshinaga: the pipelined round-robin broadcast. Tables 1 (costs) and 2 (odd numbers of nodes).

use super::ledger::Ledger;
use super::sheet::{Sheet, Verdict};
use crate::outcome::Failure;
use circulant::plan::Plan;
use circulant::plan::bcast::tree::Tree;
use circulant::plan::bcast::{binomial::Binomial, chain, round_robin, scatter_allgather};
use circulant::plan::lower::WireLimits;
use circulant::plan::price::{Model, price};

/// As printed.
const TABLE_2: [(u32, &str); 3] = [(3, "1.5"), (5, "1.25"), (7, "1.167")];

pub(super) fn check(sheet: &mut Sheet<'_>) -> Result<(), Failure> {
    table_2(sheet)?;
    table_1(sheet)
}

/// The time in units of t, the time that the whole message takes between two nodes. The paper counts rounds of
/// the main loop; start and end are lost in many segments.
fn table_2(sheet: &mut Sheet<'_>) -> Result<(), Failure> {
    const SEGMENTS: u32 = 2000;
    let mut rows = Vec::new();
    for (p, printed) in TABLE_2.map(|(p, t)| (p, Some(t))).into_iter().chain([4, 6, 8, 16].map(|p| (p, None)))
    {
        let blocks = SEGMENTS * (p - 1);
        let bytes = u64::from(blocks) * 64;
        let plan = round_robin::Bcast::new(p, 0, bytes, blocks)?;
        let lock_step = Ledger::of(&plan).time(0.0, 1.0) / bytes as f64;
        let model = Model { latency_ns: 0, overhead_ns: 0, byte_ps: 1000, reduce_ps: 0 };
        let limits = WireLimits { max_put: u64::MAX, gather: 1, light: 0 };
        let clock = price(&plan, &limits, &model)? as f64 / bytes as f64;
        let theirs = printed.unwrap_or("1");
        let verdict = match theirs.parse() {
            Ok(value) => Verdict::near(lock_step, value, 0.005),
            Err(_) => Verdict::Differs,
        };
        let cells = vec![p.to_string(), theirs.to_owned(), format!("{lock_step:.3}"), format!("{clock:.3}")];
        rows.push((cells, verdict));
    }
    sheet.table(
        "Table 2, broadcast time in units of t, for odd numbers of nodes (and \"the theoretical limit\" for even ones), \
         with 2000 segments.\nOn the clock nobody waits for the round in which its partner is the virtual player.",
        &[("nodes", false), ("printed", false), ("plan, in rounds", false), ("plan, on the clock", false)],
        rows,
    );
    Ok(())
}

/// Total costs: D = 1 unit of data, b = 1, so that a cost is a·s + c·D/b.
fn table_1(sheet: &mut Sheet<'_>) -> Result<(), Failure> {
    let p: u32 = 16;
    let bytes: u64 = 15 << 20;
    let (q, others, size) = (4.0, f64::from(p - 1), bytes as f64);
    // One start-up costs what 1000 bytes cost; the pipelines get 15·64 blocks.
    let (s, n) = (1000.0, 960);
    let per_block = size / f64::from(n);
    let lines: [(&str, &str, f64, Box<dyn Plan>, Verdict); 5] = [
        (
            "linear tree",
            "(P-1)(s + D/b)",
            others * (s + size),
            Box::new(chain::Bcast::new(p, 0, bytes, 1)?),
            Verdict::Same,
        ),
        (
            "linear tree (pipelined)",
            "(P-1)s + D/b",
            others * s + size,
            Box::new(chain::Bcast::new(p, 0, bytes, n)?),
            Verdict::Known("a start-up per block, not per node: (n+P-2)(s + D/(nb))"),
        ),
        (
            "binomial tree",
            "log P (s + D/b)",
            q * (s + size),
            Box::new(Tree::<Binomial>::new(p, 0, bytes)?),
            Verdict::Same,
        ),
        (
            "van de Geijn",
            "2 log P s + 2(P-1)/P D/b",
            2.0 * q * s + 2.0 * others / f64::from(p) * size,
            Box::new(scatter_allgather::Bcast::new(p, 0, bytes)?),
            Verdict::Same,
        ),
        (
            "round-robin (pipelined)",
            "(p-1)s + D/b",
            others * s + size,
            Box::new(round_robin::Bcast::new(p, 0, bytes, n)?),
            Verdict::Known("a start-up per message, not per peer: (n+p-1)(s + D/(nb)) for even p"),
        ),
    ];
    let mut rows = Vec::new();
    for (name, formula, printed, plan, expected) in lines {
        let ours = Ledger::of(&*plan).time(s, 1.0);
        let exact = match name {
            "linear tree (pipelined)" => (f64::from(n) + f64::from(p) - 2.0) * (s + per_block),
            "round-robin (pipelined)" => (f64::from(n) + f64::from(p) - 1.0) * (s + per_block),
            _ => printed,
        };
        // What the paper gets wrong must be just what the remark says.
        let verdict = match Verdict::near(ours, exact, 0.01) {
            Verdict::Same => expected,
            other => other,
        };
        let cells = vec![
            name.to_owned(),
            formula.to_owned(),
            format!("{:.4}", printed / size),
            format!("{:.4}", ours / size),
        ];
        rows.push((cells, verdict));
    }
    sheet.table(
        "Table 1, total costs, in units of D/b: P = 16, s = 1000 bytes' worth, D = 15 MiB, pipelines of n = 960 blocks",
        &[("algorithm", true), ("cost as printed", true), ("that is", false), ("plan, in rounds", false)],
        rows,
    );
    Ok(())
}
