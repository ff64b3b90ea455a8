//! Numbers as people read them. Sizes are decimal, binary ones only where they are round.

use circulant::Communicator;
use circulant::config::parse_bytes;
use circulant::machine::{Groups, Machine};
use circulant::measure::Wire;

/// A size from the command line, below 2^48.
pub(crate) fn size_argument(text: &str) -> Result<u64, String> {
    match parse_bytes(text) {
        Some(n) if n < 1 << 48 => Ok(n),
        Some(_) => Err("that is more than any machine has".to_owned()),
        None => {
            Err("it must be a size such as 1000, 64K, 1M, 64Ki or 1Mi (K, M, G decimal; Ki, Mi, Gi binary)"
                .to_owned())
        }
    }
}

/// A time in seconds from the command line, above 0.
pub(crate) fn seconds_argument(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|s| *s > 0.0 && *s < 1e9);
    number.ok_or_else(|| "it must be a number of seconds above 0".to_owned())
}

/// `1 KB`, `64 KiB`, `1.05 MB`.
pub(crate) fn size(n: u64) -> String {
    const BINARY: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    if !n.is_multiple_of(1000)
        && let Some((unit, name)) =
            BINARY.iter().find(|(unit, _)| n.is_multiple_of(*unit) && (1..10_000).contains(&(n / unit)))
    {
        return format!("{} {name}", n / unit);
    }
    if n < 1000 {
        return format!("{n} B");
    }
    bytes(n as f64)
}

/// `1.05 MB`, of a number that is not exact.
pub(crate) fn bytes(n: f64) -> String {
    scaled(n, &[(1.0, "B"), (1e3, "KB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")])
}

/// `850 ns`, `12.3 µs`, `1.05 ms`, `2.31 s`, from nanoseconds.
pub(crate) fn time(ns: f64) -> String {
    if ns == 0.0 {
        return "0".to_owned();
    }
    if ns.is_nan() {
        return "unknown".to_owned();
    }
    scaled(ns, &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")])
}

/// `850`, `1.05 M`.
pub(crate) fn number(n: f64) -> String {
    scaled(n, &[(1.0, ""), (1e3, "K"), (1e6, "M"), (1e9, "G")]).trim_end().to_owned()
}

/// `156 MB/s`.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, &[(1.0, "B/s"), (1e3, "KB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")])
}

/// Three figures and the largest unit that leaves at least one before the point.
fn scaled(x: f64, units: &[(f64, &str)]) -> String {
    // 999.6 would be printed as 1000: the next unit says it better.
    let Some((unit, name)) = units.iter().rev().find(|(u, _)| x >= u * 0.9995).or(units.first()) else {
        return x.to_string();
    };
    format!("{} {name}", figures(x / unit))
}

/// Three significant figures, no trailing zeros after the point.
pub(crate) fn figures(x: f64) -> String {
    let digits = if x.abs() >= 99.95 {
        0
    } else if x.abs() >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{x:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A time beside its reference; `-` where there is none.
pub(crate) fn ratio(time: f64, reference: f64) -> Option<f64> {
    (reference > 0.0 && time.is_finite()).then(|| time / reference)
}

/// Prints [`ratio`].
pub(crate) fn ratio_text(ratio: Option<f64>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(r) if r < 99.995 => format!("{r:.2}"),
        Some(r) => format!("{r:.0}"),
    }
}

/// ⌈log2 p⌉.
pub(crate) fn rounds(p: usize) -> u32 {
    p.next_power_of_two().trailing_zeros()
}

/// C = β·volume + rounds·(L+o), in nanoseconds.
pub(crate) fn reference(wire: &Wire, volume: u64, rounds: u32) -> f64 {
    wire.byte_ns * volume as f64 + f64::from(rounds) * (wire.latency_ns + wire.overhead_ns)
}

/// `L = 1.2 µs, o = 300 ns, β = 0.08 ns/B (12.5 GB/s)`.
pub(crate) fn wire_text(wire: &Wire) -> String {
    if wire.byte_ns.is_nan() {
        let (l, o) = (time(wire.latency_ns), time(wire.overhead_ns));
        return format!("L = {l}, o = {o}, no β: the times of puts vary by more than their bytes cost");
    }
    let bandwidth = match wire.byte_ns > 0.0 {
        true => format!(" ({})", rate(1e9 / wire.byte_ns)),
        false => String::new(),
    };
    let (l, o) = (time(wire.latency_ns), time(wire.overhead_ns));
    format!("L = {l}, o = {o}, β = {:.3} ns/B{bandwidth}", wire.byte_ns)
}

/// `8 ranks on 2 nodes`.
pub(crate) fn ranks_text(comm: &Communicator, nodes: &[u32]) -> String {
    let nodes = nodes.iter().max().map_or(1, |n| n + 1);
    format!("{} on {}", plural(comm.size() as u64, "rank"), plural(u64::from(nodes), "node"))
}

/// `; groups of 16 nodes, 1:4`; nothing where the network is not divided.
pub(crate) fn groups_text(Groups { nodes, taper, .. }: Groups) -> String {
    match nodes {
        0 => String::new(),
        _ => format!("; groups of {}, 1:{taper}", plural(u64::from(nodes), "node")),
    }
}

/// `γ = 0.100 ns/B`; where all ranks share memory with that of vectors in a cache.
pub(crate) fn gamma_text(machine: &Machine) -> String {
    let ns = |ps: u64| ps as f64 / 1000.0;
    let cached = match machine.readers {
        true => format!(", in a cache {:.3}", ns(machine.reduce_cached_ps)),
        false => String::new(),
    };
    format!("γ = {:.3} ns/B{cached}", ns(machine.wire.reduce_ps))
}

/// `1 rank`, `2 ranks`.
pub(crate) fn plural(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// Cells side by side, two spaces between, nothing behind the last.
pub(crate) fn align(cells: &[String], widths: &[usize], left: &[bool]) -> String {
    let mut line = String::new();
    for ((cell, width), left) in cells.iter().zip(widths).zip(left) {
        let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
        let gap = if line.is_empty() { "" } else { "  " };
        match left {
            true => line.extend([gap, cell, &pad]),
            false => line.extend([gap, &pad, cell]),
        }
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_read_well() {
        for (n, text) in [
            (0, "0 B"),
            (4, "4 B"),
            (999, "999 B"),
            (1000, "1 KB"),
            (1024, "1 KiB"),
            (1500, "1.5 KB"),
            (65_536, "64 KiB"),
            (999_999, "1 MB"),
            (1_048_576, "1 MiB"),
            (1_048_577, "1.05 MB"),
            (64_000_000, "64 MB"),
            (5_368_709_120, "5 GiB"),
            (25_276_510_208, "25.3 GB"),
        ] {
            assert_eq!(size(n), text);
        }
    }

    #[test]
    fn times_read_well() {
        for (ns, text) in [
            (0.0, "0"),
            (12.34, "12.3 ns"),
            (999.7, "1 µs"),
            (1000.0, "1 µs"),
            (1_234_567.0, "1.23 ms"),
            (9.0e10, "90 s"),
            (0.004, "0 ns"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!(rate(156.4e6), "156 MB/s");
    }

    #[test]
    fn ratios_and_references() {
        let wire = Wire { latency_ns: 100.0, overhead_ns: 20.0, byte_ns: 0.5 };
        assert_eq!(reference(&wire, 1000, 3), 500.0 + 360.0);
        assert_eq!(ratio_text(ratio(430.0, 860.0)), "0.50");
        assert_eq!(ratio_text(ratio(430.0, 0.0)), "-");
        assert_eq!(ratio_text(ratio(123_456.0, 10.0)), "12346");
        let none = Wire { byte_ns: f64::NAN, ..wire };
        assert_eq!(ratio(430.0, reference(&none, 1000, 3)), None);
        assert_eq!(time(reference(&none, 1000, 3)), "unknown");
        assert!(wire_text(&none).contains("no β") && wire_text(&wire).contains("β = 0.500 ns/B (2 GB/s)"));
        assert_eq!([1, 2, 3, 8, 9, 1025].map(rounds), [0, 1, 2, 3, 4, 11]);
    }

    #[test]
    fn arguments_are_refused_with_a_reason() {
        assert_eq!(size_argument("64Ki"), Ok(65_536));
        assert!(size_argument("64Q").unwrap_err().contains("64K"));
        assert!(size_argument("999999G").unwrap_err().contains("machine"));
        assert!(seconds_argument("0").is_err() && seconds_argument("nan").is_err());
        assert_eq!(seconds_argument("0.5"), Ok(0.5));
    }

    #[test]
    fn left_and_right() {
        let cells = ["a", "β", ""].map(str::to_owned);
        assert_eq!(align(&cells, &[3, 4, 5], &[true, false, true]), "a       β");
    }

    proptest! {
        /// What is printed is within half a percent of the truth, and short enough for the table.
        #[test]
        fn printed_sizes_are_true(n in 1u64..1 << 48) {
            let text = size(n);
            prop_assert!(text.chars().count() <= 10, "{text}");
            let (number, unit) = text.split_once(' ').unwrap();
            let unit = if unit == "TB" { 1e12 } else { parse_bytes(&format!("1{unit}")).unwrap() as f64 };
            let shown = number.parse::<f64>().unwrap() * unit;
            prop_assert!((shown - n as f64).abs() <= n as f64 * 0.0051, "{n} as {text}");
        }
    }
}
