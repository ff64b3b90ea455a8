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

#[test]
fn judge() {
    let Ok(path) = std::env::var("SELECTION_READ") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut groups: Vec<(String, Vec<(String, u64)>)> = Vec::new();
    for row in text.lines() {
        let f: Vec<&str> = row.split(',').collect();
        let key = f[..5].join(",");
        if groups.last().is_none_or(|g| g.0 != key) && !groups.iter().rev().take(8).any(|g| g.0 == key) { groups.push((key.clone(), Vec::new())); }
        groups.iter_mut().rev().take(8).find(|g| g.0 == key).unwrap().1.push((f[5].to_owned(), f[6].parse().unwrap()));
    }
    let mut per: std::collections::BTreeMap<String, (usize, usize, f64, Vec<String>)> = Default::default();
    let mut acc: std::collections::BTreeMap<String, Vec<(f64, String)>> = Default::default();
    for (key, sims) in &groups {
        let f: Vec<&str> = key.split(',').collect();
        let op: Operation = f[0].parse().unwrap();
        let (p, b) = (f[2].parse().unwrap(), f[3].parse().unwrap());
        let model = MODELS.iter().find(|m| m.0 == f[4]).unwrap().1;
        let a = arguments(op, f[1], p, b);
        let times: Vec<(u64, &str, u64)> = algorithms(op).filter_map(|l| {
            let sim = sims.iter().find(|s| s.0 == l.name)?.1;
            Some((l.time(&a, &model), l.name, sim))
        }).collect();
        for t in &times {
            acc.entry(format!("{op}/{} {} {}", f[1], t.1, f[4])).or_default().push((t.0 as f64 / t.2.max(1) as f64, key.clone()));
        }
        let least = times.iter().map(|t| t.0).min().unwrap();
        let won = times.iter().find(|t| t.0 as f64 <= 1.03 * least as f64).unwrap();
        let best = times.iter().map(|t| t.2).min().unwrap();
        let ratio = won.2 as f64 / best.max(1) as f64;
        let e = per.entry(format!("{op}/{}", f[1])).or_default();
        e.0 += 1;
        if ratio <= 1.1 { e.1 += 1 } else { e.3.push(format!("{key}: {} {:.2} best {:?}", won.1, ratio, times.iter().min_by_key(|t| t.2).unwrap().1)); }
        e.2 = e.2.max(ratio);
    }
    let (mut n, mut good) = (0, 0);
    for (k, v) in &per {
        println!("{k:32} {:5} good {:5.1}% worst {:.2}", v.0, 100.0 * v.1 as f64 / v.0 as f64, v.2);
        n += v.0; good += v.1;
        if !only.is_empty() && k.contains(&only) { for l in v.3.iter().step_by(1 + v.3.len() / 60) { println!("    {l}"); } }
    }
    println!("ALL {n} good {:.2}%", 100.0 * good as f64 / n as f64);
    for (k, mut v) in acc {
        if only.is_empty() || !k.contains(&only) { continue }
        v.sort_by(|a, b| a.0.total_cmp(&b.0));
        println!("{k:44} predicted/simulated {:.2} ({}) .. {:.2} .. {:.2} ({})", v[0].0, v[0].1, v[v.len()/2].0, v[v.len()-1].0, v[v.len()-1].1);
    }
}
