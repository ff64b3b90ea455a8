//! The wire of a simulation, from the command line.

use circulant::plan::price::{Inner, Model, Wires};
use clap::Args;

/// Longest time that an argument may name: a thousand seconds.
const MOST_NS: f64 = 1e12;

/// The figures of the wire. The defaults are those of a fabric at 100 Gbit/s.
#[derive(Args, Clone, Debug)]
pub(crate) struct WireArgs {
    /// L: from the end of sending a byte to its arrival (ns, us, ms, s; a bare number is nanoseconds)
    #[arg(long, value_name = "TIME", default_value = "1500ns", value_parser = time_argument, help_heading = "The wire")]
    latency: u64,
    /// o: what a put costs besides its bytes
    #[arg(long, value_name = "TIME", default_value = "300ns", value_parser = time_argument, help_heading = "The wire")]
    overhead: u64,
    /// β: nanoseconds per byte
    #[arg(long, value_name = "NS", default_value = "0.08", value_parser = rate_argument, help_heading = "The wire")]
    byte_time: u64,
    /// γ: nanoseconds per byte combined by an operator
    #[arg(long, value_name = "NS", default_value = "0.1", value_parser = rate_argument, help_heading = "The wire")]
    reduce_time: u64,
    /// Ranks per node, which share one link out and one link in [default: every rank has a node to itself]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..), help_heading = "The wire")]
    pub(crate) ppn: Option<u32>,
    /// L between ranks of one node
    #[arg(long, value_name = "TIME", default_value = "300ns", value_parser = time_argument, requires = "ppn", help_heading = "The wire")]
    node_latency: u64,
    /// o between ranks of one node: what a put costs its sender; the reader copies
    #[arg(long, value_name = "TIME", default_value = "100ns", value_parser = time_argument, requires = "ppn", help_heading = "The wire")]
    node_overhead: u64,
    /// β between ranks of one node
    #[arg(long, value_name = "NS", default_value = "0.05", value_parser = rate_argument, requires = "ppn", help_heading = "The wire")]
    node_byte_time: u64,
}

impl WireArgs {
    pub(crate) fn wires(&self) -> Wires {
        let model = Model {
            latency_ns: self.latency,
            overhead_ns: self.overhead,
            byte_ps: self.byte_time,
            reduce_ps: self.reduce_time,
        };
        let inner = self.ppn.map(|ranks| Inner {
            ranks,
            latency_ns: self.node_latency,
            overhead_ns: self.node_overhead,
            byte_ps: self.node_byte_time,
        });
        Wires { model, inner }
    }
}

/// `1.5us`, `200ns`, `1ms`; a bare number is nanoseconds. In whole nanoseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and MOST_NS
fn time_argument(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit.trim() {
        "" | "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => f64::NAN,
    };
    let ns = number.parse::<f64>().unwrap_or(f64::NAN) * scale;
    if ns.is_nan() {
        return Err("it must be a time such as 1500, 1.5us, 300ns or 1ms (a bare number is ns)".to_owned());
    }
    if ns > MOST_NS { Err("that is more than 1000 s".to_owned()) } else { Ok(ns.round() as u64) }
}

/// Nanoseconds per byte, in picoseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and 10^9
fn rate_argument(text: &str) -> Result<u64, String> {
    let ns = text.parse::<f64>().ok().filter(|ns| (0.0..=1e6).contains(ns));
    let ns = ns.ok_or_else(|| "it must be nanoseconds per byte, 0 to 1000000, such as 0.08".to_owned())?;
    Ok((ns * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates() {
        for (text, ns) in [("1500", 1500), ("1.5us", 1500), ("20ns", 20), ("1ms", 1_000_000), ("0", 0)] {
            assert_eq!(time_argument(text), Ok(ns), "{text}");
        }
        for text in ["", "x", "1m", "-1", "2000s", "1e9999"] {
            assert!(time_argument(text).is_err(), "{text}");
        }
        assert_eq!(rate_argument("0.08"), Ok(80));
        assert!(rate_argument("-1").is_err() && rate_argument("nan").is_err());
    }
}
