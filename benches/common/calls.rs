//! Calls of 1 MB in all whose set-up is looked at, by time (`benches/plan.rs`) and by instructions
//! (`benches/cost/plan.rs`).

use circulant::machine::LogGp;
use circulant::plan::lower::WireLimits;
use circulant::plan::registry::{Arguments, Operation};

pub(crate) const MODEL: LogGp = LogGp { latency_ns: 8_000, overhead_ns: 2_500, byte_ps: 350, reduce_ps: 100 };
pub(crate) const LIMITS: WireLimits =
    WireLimits { max_put: 1 << 30, gather: 4, light: 2500, ..WireLimits::PLAIN };

fn allgatherv(counts: Vec<u64>) -> Arguments {
    let displs = counts.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect();
    Arguments { size: u32::try_from(counts.len()).unwrap_or(0), counts, displs, ..Arguments::default() }
}

/// By name.
pub(crate) fn calls(size: u32) -> Vec<(&'static str, Operation, Arguments)> {
    let (ranks, each) = (0..u64::from(size), 1_000_000 / u64::from(size.max(1)));
    let irr3 = ranks.clone().map(|r| 4 * (r % 3) * (each / 4)).collect();
    let spike = ranks.clone().map(|r| if r == 7 { 500_000 } else { each / 2 - 1 }).collect();
    vec![
        ("allgatherv, equal", Operation::Allgatherv, allgatherv(vec![each; size as usize])),
        ("allgatherv, irr3", Operation::Allgatherv, allgatherv(irr3)),
        ("allgatherv, spike", Operation::Allgatherv, allgatherv(spike)),
        ("allgather", Operation::Allgather, Arguments { size, bytes: each, ..Arguments::default() }),
        ("bcast", Operation::Bcast, Arguments { size, bytes: 1_000_000, ..Arguments::default() }),
    ]
}
