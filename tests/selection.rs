//! How good the selection is: the simulated time of the algorithm that the cost formulas choose beside that of
//! the best of all. `SELECTION=full` goes over the whole grid (minutes) and prints it with `--nocapture`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests may panic"
)]

use circulant::plan::alltoall::Row;
use circulant::plan::lower::WireLimits;
use circulant::plan::price::{Model, price};
use circulant::plan::registry::{Algorithm, Arguments, Operation, algorithms};
use std::collections::HashMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const MODELS: [(&str, Model); 3] = [
    ("tcp", Model { latency_ns: 50_000, overhead_ns: 5_000, byte_ps: 800, reduce_ps: 100 }),
    ("lan", Model { latency_ns: 1_000_000, overhead_ns: 20_000, byte_ps: 8_000, reduce_ps: 100 }),
    ("rdma", Model { latency_ns: 1_500, overhead_ns: 200, byte_ps: 80, reduce_ps: 100 }),
];
const RANKS: [u32; 20] = [2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 36, 48, 63, 64];
const BYTES: [u64; 10] = [8, 64, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20];

fn limits(model: &Model) -> WireLimits {
    WireLimits { max_put: 1 << 40, gather: 4, light: model.overhead_ns.min(4096) }
}

fn counts(distribution: &str, p: u32, bytes: u64) -> Vec<u64> {
    let weight = |j: u32| match distribution {
        "regular" => 1.0,
        "spike" => f64::from(if j == p / 2 { p } else { 1 }),
        "half" => f64::from(u8::from(j < p.div_ceil(2))),
        _ => f64::from(p - j),
    };
    let sum: f64 = (0..p).map(weight).sum();
    #[allow(clippy::cast_sign_loss)]
    (0..p).map(|j| (weight(j) / sum * (bytes * u64::from(p)) as f64) as u64 / 8 * 8).collect()
}

fn distributions(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::Allgatherv | Operation::Gatherv | Operation::Scatterv | Operation::ReduceScatter => {
            &["regular", "spike", "half", "linear"]
        }
        _ => &["-"],
    }
}

fn arguments(operation: Operation, distribution: &str, p: u32, bytes: u64) -> Arguments {
    let a = Arguments { size: p, bytes, element: 8, commutative: true, ..Arguments::default() };
    if distribution != "-" {
        let counts = counts(distribution, p, bytes);
        let displs = counts.iter().scan(0, |at, &c| { *at += c; Some(*at - c) }).collect();
        return Arguments { counts, displs, ..a };
    }
    if operation == Operation::Alltoallv {
        let row = Row {
            sendcounts: vec![bytes; p as usize],
            recvcounts: vec![bytes; p as usize],
            ..Row::default()
        };
        let _ = row;
    }
    a
}

fn simulated(line: &Algorithm, a: &Arguments, model: &Model) -> u64 {
    let plan = (line.build)(a, model).unwrap();
    price(&*plan, &limits(model), model).unwrap()
}

#[test]
fn dump() {
    let Ok(path) = std::env::var("SELECTION_CACHE") else { return };
    let mut cases = Vec::new();
    for op in Operation::ALL {
        if op == Operation::Alltoallv { continue }
        for d in distributions(op) {
            for p in RANKS {
                for b in BYTES {
                    for (name, model) in MODELS {
                        cases.push((op, *d, p, b, name, model));
                    }
                }
            }
        }
    }
    let next = AtomicUsize::new(0);
    let out = Mutex::new(std::fs::File::create(path).unwrap());
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while let Some((op, d, p, b, name, model)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let a = arguments(*op, d, *p, *b);
                    let mut text = String::new();
                    for line in algorithms(*op) {
                        if (line.fits)(&a).is_err() { continue }
                        if op == &Operation::Alltoall && line.name == "ring" && *p > 36 { continue }
                        text += &format!("{op},{d},{p},{b},{name},{},{}\n", line.name, simulated(line, &a, model));
                    }
                    out.lock().unwrap().write_all(text.as_bytes()).unwrap();
                }
            });
        }
    });
    let _: HashMap<u8, u8> = HashMap::new();
}
