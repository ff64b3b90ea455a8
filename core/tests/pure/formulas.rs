//! The constants of the cost formulas: what is too irregular for a formula is the mean of what the simulator takes.
//! `cargo test -p circulant-core --test pure formulas -- --nocapture` prints what it should be.

use circulant_core::machine::{LogGp, Machine};
use circulant_core::plan::lower::WireLimits;
use circulant_core::plan::price::price;
use circulant_core::plan::registry::{Arguments, Operation, algorithm};

/// TCP, a slow network of long latency, and RDMA; vectors that are long for each.
const WIRES: [(LogGp, u64); 3] = [
    (LogGp { latency_ns: 50_000, overhead_ns: 5_000, byte_ps: 800, reduce_ps: 100 }, 4 << 20),
    (LogGp { latency_ns: 1_000_000, overhead_ns: 20_000, byte_ps: 8_000, reduce_ps: 100 }, 4 << 20),
    (LogGp { latency_ns: 1_500, overhead_ns: 200, byte_ps: 80, reduce_ps: 100 }, 1 << 20),
];

/// Price less simulated time, in puts of a vector that is combined when it arrives: mean, and extremes.
fn error_in_puts(operation: Operation, name: &str, sizes: impl Iterator<Item = u32> + Clone) -> [f64; 3] {
    let line = algorithm(operation, name).unwrap();
    let mut errors = Vec::new();
    for (wire, bytes) in WIRES {
        let limits = WireLimits::new(1 << 40, 4, 0, &wire);
        for size in sizes.clone() {
            let a = Arguments { size, bytes, element: 8, commutative: true, ..Arguments::default() };
            let simulated = price(&*(line.build)(&a, &wire).unwrap(), &limits, &wire).unwrap();
            let put =
                wire.overhead_ns as f64 + bytes as f64 * (wire.byte_ps + wire.reduce_ps) as f64 / 1000.0;
            errors.push((line.cost(&a, &Machine::flat(wire)).ns - simulated as f64) / put);
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let extremes = [f64::INFINITY, f64::NEG_INFINITY];
    let [least, most] = errors.iter().fold(extremes, |[least, most], e| [least.min(*e), most.max(*e)]);
    println!("{operation} {name}: {mean:+.3} puts ({least:+.2} to {most:+.2})");
    [mean, least, most]
}

/// The mean within a tenth of a put; one p more, another less.
#[test]
fn the_ends_of_trees_take_what_the_simulator_takes() {
    let sizes = (3..=64u32).filter(|p| !p.is_power_of_two());
    for (operation, name) in [
        (Operation::Reduce, "ordered"),
        (Operation::Reduce, "binomial"),
        (Operation::Allreduce, "doubling"),
        (Operation::Scan, "doubling"),
        (Operation::Exscan, "one-two-three"),
    ] {
        let [mean, least, most] = error_in_puts(operation, name, sizes.clone());
        assert!(mean.abs() < 0.1, "{operation} {name}: {mean:+.3} puts");
        assert!(least > -1.5 && most < 1.5, "{operation} {name}: {least:+.2} to {most:+.2} puts");
    }
}
