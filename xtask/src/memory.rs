//! What a call's steps and its lowered program take of one rank's memory, by the counting allocator.

use circulant::diagnostics::heap_growth;
use circulant_core::machine::LogGp;
use circulant_core::plan::lower::{WireLimits, lower};
use circulant_core::plan::registry::{Arguments, Operation, algorithm};
use std::fmt::Write;

/// The bytes of a message: a page for each of 10⁶ blocks, about.
const MESSAGE_BYTES: u64 = 4 << 30;
/// The most bytes of a contribution.
const CONTRIBUTION_BYTES: u64 = 16 << 10;
/// A fabric at 100 Gbit/s.
const WIRE: LogGp = LogGp { latency_ns: 1500, overhead_ns: 300, byte_ps: 80, reduce_ps: 100 };

/// What one rank has of a call.
pub(crate) struct Taken {
    /// Steps of its plan.
    pub(crate) steps: usize,
    /// The most bytes while its program is made of them, and the bytes of that.
    pub(crate) bytes: [i64; 2],
}

/// Of the rank in the middle of `size`.
pub(crate) fn taken(operation: Operation, name: &str, arguments: &Arguments) -> Result<Taken, String> {
    let said = |e: circulant_core::Error| e.to_string();
    let line = algorithm(operation, name).map_err(said)?;
    let arguments = Arguments { blocks: line.blocks(arguments), ..arguments.clone() };
    let plan = (line.build)(&arguments, &WIRE).map_err(said)?;
    let rank = arguments.size / 2;
    let limits = WireLimits::new(u64::MAX, 1, 0, &WIRE);
    let (program, bytes) = heap_growth(|| lower(&*plan, rank, &limits));
    program.map_err(said)?;
    Ok(Taken { steps: plan.steps(rank).count(), bytes })
}

/// Contributions of `size` ranks, each of another length than that of the next, in the order of the ranks or not.
pub(crate) fn contributions(size: u32, in_order: bool) -> Arguments {
    let counts: Vec<u64> = (0..u64::from(size)).map(|rank| CONTRIBUTION_BYTES - rank % 7).collect();
    let mut end = 0;
    let place = |count: &u64| {
        end += count;
        end - count
    };
    let mut displs: Vec<u64> = counts.iter().map(place).collect();
    if !in_order {
        displs.iter_mut().zip(&counts).for_each(|(displ, count)| *displ = end - *displ - count);
    }
    Arguments { size, counts, displs, ..Arguments::default() }
}

/// A line for each call.
pub(crate) fn table() -> Result<String, String> {
    let broadcast =
        |blocks| Arguments { size: 1000, bytes: MESSAGE_BYTES, blocks: Some(blocks), ..Arguments::default() };
    let named = |size| Arguments { blocks: Some(100), ..contributions(size, false) };
    let calls = [
        ("bcast of 10^4 blocks", Operation::Bcast, broadcast(10_000)),
        ("bcast of 10^6 blocks", Operation::Bcast, broadcast(1_000_000)),
        ("allgatherv of 10^3 ranks", Operation::Allgatherv, contributions(1000, false)),
        ("allgatherv of 10^4 ranks", Operation::Allgatherv, contributions(10_000, false)),
        ("allgatherv of 10^4 ranks in 100 blocks", Operation::Allgatherv, named(10_000)),
        ("allgatherv of 10^5 ranks", Operation::Allgatherv, contributions(100_000, false)),
        ("allgatherv of 10^5 ranks, in order", Operation::Allgatherv, contributions(100_000, true)),
    ];
    let mut text =
        "| call | steps | most bytes while it is lowered | a step | bytes of the program | a step |\n"
            .to_owned();
    text += "|---|---|---|---|---|---|\n";
    for (call, operation, arguments) in calls {
        let Taken { steps, bytes: [most, program] } = taken(operation, "circulant", &arguments)?;
        let each = |bytes: i64| bytes / i64::try_from(steps).unwrap_or(i64::MAX).max(1);
        let _ =
            writeln!(text, "| {call} | {steps} | {most} | {} | {program} | {} |", each(most), each(program));
    }
    Ok(text)
}
