//! Grama et al., chapter 4: costs of collectives on ring, mesh and hypercube, t_s + t_w·m for a message of m.

use super::ledger::Ledger;
use super::sheet::{Sheet, Verdict};
use circulant::Result;
use circulant::machine::LogGp;
use circulant::plan::Plan;
use circulant::plan::lower::WireLimits;
use circulant::plan::price::price;
use circulant::plan::registry::{Arguments, Operation, algorithm};

/// Nanoseconds of a start-up, and of a byte.
const START: f64 = 1000.0;
const BYTE: f64 = 10.0;
/// Bytes of a message: a block small enough never to be cut in lowering.
const M: u64 = 64;

struct Line {
    what: &'static str,
    formula: &'static str,
    operation: Operation,
    algorithm: &'static str,
    cost: fn(p: f64, m: f64) -> f64,
}

const fn line(
    what: &'static str,
    formula: &'static str,
    operation: Operation,
    algorithm: &'static str,
    cost: fn(f64, f64) -> f64,
) -> Line {
    Line { what, formula, operation, algorithm, cost }
}

const LINES: [Line; 15] = {
    use Operation::{Allgather, Allreduce, Alltoall, Bcast, Gather, Reduce, Scan, Scatter};
    [
        line("one-to-all broadcast, mesh", "(ts + tw m) log p", Bcast, "mesh", tree),
        line("one-to-all broadcast, hypercube", "(ts + tw m) log p", Bcast, "hypercube", tree),
        line("all-to-one reduction", "(ts + tw m) log p", Reduce, "binomial", tree),
        line("all-to-all broadcast, ring", "(ts + tw m)(p-1)", Allgather, "ring", |p, m| (p - 1.0) * put(m)),
        line("all-to-all broadcast, mesh", "2 ts (sqrt p - 1) + tw m (p-1)", Allgather, "mesh", |p, m| {
            2.0 * START * (p.sqrt() - 1.0) + BYTE * m * (p - 1.0)
        }),
        line("all-to-all broadcast, hypercube", "ts log p + tw m (p-1)", Allgather, "hypercube", doubling),
        line("all-reduce", "(ts + tw m) log p", Allreduce, "doubling", tree),
        line("prefix sum", "(ts + tw m) log p", Scan, "doubling", tree),
        line("scatter", "ts log p + tw m (p-1)", Scatter, "binomial", doubling),
        line("gather", "ts log p + tw m (p-1)", Gather, "binomial", doubling),
        line("total exchange, ring", "(ts + tw m p/2)(p-1)", Alltoall, "ring", |p, m| {
            (p - 1.0) * put(m * p / 2.0)
        }),
        line("total exchange, mesh", "(2 ts + tw m p)(sqrt p - 1)", Alltoall, "mesh", |p, m| {
            (p.sqrt() - 1.0) * (2.0 * START + BYTE * m * p)
        }),
        line("total exchange, hypercube", "(ts + tw m p/2) log p", Alltoall, "hypercube", |p, m| {
            p.log2() * put(m * p / 2.0)
        }),
        line("total exchange, hypercube, optimal", "(ts + tw m)(p-1)", Alltoall, "pairwise", |p, m| {
            (p - 1.0) * put(m)
        }),
        // Message m/p per rank: 2(ts log p + tw m/p (p-1)).
        line(
            "broadcast by scatter and all-to-all",
            "2(ts log p + tw m (p-1)/p)",
            Bcast,
            "scatter_allgather",
            |p, m| 2.0 * doubling(p, m / p),
        ),
    ]
};

fn put(m: f64) -> f64 {
    START + BYTE * m
}

fn tree(p: f64, m: f64) -> f64 {
    p.log2() * put(m)
}

fn doubling(p: f64, m: f64) -> f64 {
    p.log2() * START + BYTE * m * (p - 1.0)
}

pub(super) fn check(sheet: &mut Sheet<'_>) -> Result<()> {
    for p in [16u32, 64] {
        let mut rows = Vec::new();
        for line in &LINES {
            rows.push(row(line, p)?);
        }
        sheet.table(
            &format!(
                "p = {p}, m = {M} bytes (broadcast by scatter: {} bytes), ts = 1 us, tw = 10 ns a byte; in us",
                M * u64::from(p)
            ),
            &[
                ("operation", true),
                ("cost", true),
                ("formula", false),
                ("plan, in rounds", false),
                ("on the clock", false),
            ],
            rows,
        );
    }
    sheet.say(
        "On the clock L = 0 and o = ts, so that a message takes as long as in the formulas. Less than the formula: \
         messages that\nneed not wait for each other overlap. More: packing of pieces that do not lie side by side.\n",
    );
    Ok(())
}

fn row(line: &Line, p: u32) -> Result<(Vec<String>, Verdict)> {
    let scattered = line.algorithm == "scatter_allgather";
    let bytes = if scattered { M * u64::from(p) } else { M };
    let arguments = Arguments { size: p, bytes, element: 8, commutative: true, ..Arguments::default() };
    let model = LogGp { latency_ns: 0, overhead_ns: 1000, byte_ps: 10_000, reduce_ps: 0 };
    let plan: Box<dyn Plan> = (algorithm(line.operation, line.algorithm)?.build)(&arguments, &model)?;
    let formula = (line.cost)(f64::from(p), bytes as f64);
    let rounds = Ledger::of(&*plan).time(START, BYTE);
    let limits = WireLimits { max_put: u64::MAX, gather: usize::MAX, light: u64::MAX, ..WireLimits::PLAIN };
    let clock = price(&*plan, &limits, &model)? as f64;
    // A rank that has pieces of others from the scatter is not put them again.
    let verdict = match scattered {
        true => Verdict::of(rounds <= formula * 1.001 && rounds > formula / 2.0),
        false => Verdict::near(rounds, formula, 0.001),
    };
    let us = |ns: f64| format!("{:.2}", ns / 1000.0);
    let cells = vec![line.what.to_owned(), line.formula.to_owned(), us(formula), us(rounds), us(clock)];
    Ok((cells, verdict))
}
