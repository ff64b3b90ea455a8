//! How good the rules for the number of blocks are: their price beside the best n's, for wires of three
//! kinds. `PLAN_RULES=full` prices the whole table (minutes) and prints it with `--nocapture`.

use circulant_core::machine::LogGp;
use circulant_core::plan::Plan;
use circulant_core::plan::allgatherv::circulant::{Allgatherv, Blocks};
use circulant_core::plan::bcast::circulant::Bcast;
use circulant_core::plan::lower::WireLimits;
use circulant_core::plan::price::price;
use circulant_core::plan::rules::{allgatherv_blocks, bcast_blocks};

const LIMITS: WireLimits = WireLimits { max_put: u64::MAX, gather: 4, light: 0, ..WireLimits::PLAIN };

/// TCP on loopback, a fast fabric, and a slow emulated network at two speeds.
const MODELS: [(&str, LogGp); 4] = [
    ("tcp", LogGp { latency_ns: 8000, overhead_ns: 2000, byte_ps: 350, reduce_ps: 100 }),
    ("fabric", LogGp { latency_ns: 1500, overhead_ns: 200, byte_ps: 80, reduce_ps: 100 }),
    ("emulated 80", LogGp { latency_ns: 1_000_000, overhead_ns: 20_000, byte_ps: 80_000, reduce_ps: 100 }),
    ("emulated 160", LogGp { latency_ns: 1_000_000, overhead_ns: 20_000, byte_ps: 160_000, reduce_ps: 100 }),
];

const DISTRIBUTIONS: [&str; 6] = ["regular", "spike", "half", "linear", "geometric", "irr3"];

fn full() -> bool {
    std::env::var("PLAN_RULES").is_ok_and(|v| v == "full")
}

fn cost(plan: &dyn Plan, model: &LogGp) -> u64 {
    price(plan, &LIMITS, model).unwrap()
}

/// The best n by trying all in steps, until it only gets worse: (time, n).
fn best(most: u32, cost: impl Fn(u32) -> u64) -> (u64, u32) {
    let (mut best, mut n, mut worse) = ((u64::MAX, 1), 1, 0);
    while n <= most && worse < 8 {
        let time = cost(n);
        worse = if time < best.0 { 0 } else { worse + 1 };
        best = best.min((time, n));
        n += (n / 5).max(1);
    }
    best
}

struct Ratios(Vec<f64>);

impl Ratios {
    fn add(&mut self, time: u64, best: u64) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let ratio = time as f64 / best as f64;
        self.0.push(ratio);
        ratio
    }

    /// (mean, the 90th percentile, worst)
    fn judge(mut self, name: &str) -> (f64, f64, f64) {
        self.0.sort_by(f64::total_cmp);
        #[allow(clippy::cast_precision_loss)]
        let mean = self.0.iter().sum::<f64>() / self.0.len() as f64;
        let (most, worst) = (self.0[(self.0.len() - 1) * 9 / 10], self.0[self.0.len() - 1]);
        println!(
            "{name}: {} cases, rule/best: mean {mean:.3}, 90 % up to {most:.3}, worst {worst:.3}",
            self.0.len()
        );
        (mean, most, worst)
    }
}

#[test]
fn the_rule_for_bcast_is_near_the_best() {
    let sizes = if full() { vec![2, 3, 8, 16, 36, 100] } else { vec![2, 3, 8, 17, 36] };
    let lengths: Vec<u64> = if full() {
        vec![1000, 4000, 16_000, 64_000, 256_000, 1_000_000, 4_000_000, 16_000_000, 64_000_000]
    } else {
        vec![1000, 30_000, 300_000, 4_000_000]
    };
    let mut ratios = Ratios(Vec::new());
    for (wire, model) in &MODELS {
        for &p in &sizes {
            let mut line = format!("bcast {wire:12} p = {p:3}:");
            for &bytes in &lengths {
                let at = |n| cost(&Bcast::new(p, 0, bytes, n).unwrap(), model);
                let (best, least) = best(u32::try_from(bytes / 64).unwrap().min(3000), at);
                let n = bcast_blocks(p, bytes, model);
                line += &format!(" {n}/{least} {:.2}", ratios.add(at(n), best));
            }
            println!("{line}");
        }
    }
    let (mean, most, worst) = ratios.judge("bcast");
    assert!(mean < 1.03 && most < 1.06 && worst < 1.15);
}

fn counts(distribution: &str, p: u32, bytes: u64) -> Vec<u64> {
    let weight = |j: u32| match distribution {
        "regular" => 1.0,
        "spike" => f64::from(if j == p / 2 { p } else { 1 }),
        "half" => f64::from(u8::from(j < p / 2)),
        "linear" => f64::from(p - j),
        "geometric" => 0.5f64.powi(j.try_into().unwrap()),
        _ => f64::from(j % 3),
    };
    let sum: f64 = (0..p).map(weight).sum();
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (0..p).map(|j| (weight(j) / sum * bytes as f64) as u64).collect()
}

#[test]
fn the_rule_for_allgatherv_is_near_the_best() {
    let sizes = if full() { vec![2, 3, 8, 16, 36, 100] } else { vec![3, 8, 17] };
    let lengths: Vec<u64> = if full() {
        vec![1000, 10_000, 100_000, 1_000_000, 8_000_000, 64_000_000]
    } else {
        vec![10_000, 300_000, 4_000_000]
    };
    let mut ratios = Ratios(Vec::new());
    for (wire, model) in &MODELS {
        for &p in &sizes {
            for &bytes in &lengths {
                let mut line = format!("allgatherv {wire:12} p = {p:3}, {bytes:8} bytes:");
                for distribution in DISTRIBUTIONS {
                    let counts = counts(distribution, p, bytes);
                    let displs: Vec<u64> = counts
                        .iter()
                        .scan(0, |at, &count| {
                            *at += count;
                            Some(*at - count)
                        })
                        .collect();
                    let at = |blocks: &Blocks| {
                        cost(&Allgatherv::new(&counts, &displs, blocks, false).unwrap(), model)
                    };
                    let largest = *counts.iter().max().unwrap();
                    let share = |count: u64, n: u32| (count * u64::from(n)).div_ceil(largest).max(1);
                    let in_proportion = |n: u32| {
                        Blocks::PerOwner(
                            counts.iter().map(|&c| u32::try_from(share(c, n)).unwrap()).collect(),
                        )
                    };
                    let most = u32::try_from(largest / 64).unwrap().clamp(1, 400);
                    let (best, least) = best(most, |n| at(&in_proportion(n)));
                    let blocks = allgatherv_blocks(&counts, model);
                    let n = match &blocks {
                        Blocks::Equal(n) => *n,
                        Blocks::PerOwner(list) => *list.iter().max().unwrap(),
                    };
                    line += &format!(" {distribution} {n}/{least} {:.2}", ratios.add(at(&blocks), best));
                }
                println!("{line}");
            }
        }
    }
    let (mean, most, worst) = ratios.judge("allgatherv");
    assert!(mean < 1.05 && most < 1.12 && worst < 1.4);
}
