//! The wire that `sim` and `select` reckon with: flags, else the settings and the tuning file, else a table.

use crate::outcome::Failure;
use circulant::config::{Config, Grouping, Provider};
use circulant::machine::{Cores, Groups, LogGp, Machine};
use circulant::select::{self, Tuning};
use clap::Args;

/// Longest time that an argument may name: a thousand seconds.
const MAX_TIME_NS: f64 = 1e12;

/// Where nothing says anything: a fabric at 100 Gbit/s, as the table has it under this name.
const FABRIC: &str = "verbs";

/// Within a node where nothing is known of it: a put is a description there, and its reader copies.
const NODE: LogGp = LogGp { latency_ns: 300, overhead_ns: 100, byte_ps: 50, reduce_ps: 100 };

/// The figures of the wire. What no flag says is from the settings (CIRCULANT_LATENCY, …), the tuning file, or a table by
/// provider; without a provider it is a fabric at 100 Gbit/s.
#[derive(Args, Clone, Debug)]
pub(crate) struct WireArgs {
    /// The provider whose figures these are [default: CIRCULANT_PROVIDER, the tuning file's, or verbs: 1.5 µs, 300 ns, 0.08 ns/B]
    #[arg(long, value_name = "NAME", help_heading = "The wire")]
    provider: Option<String>,
    /// L: from the end of sending a byte to its arrival (ns, us, ms, s; a bare number is nanoseconds)
    #[arg(long, value_name = "TIME", value_parser = time_argument, help_heading = "The wire")]
    latency: Option<u64>,
    /// o: what a put costs besides its bytes
    #[arg(long, value_name = "TIME", value_parser = time_argument, help_heading = "The wire")]
    overhead: Option<u64>,
    /// β: nanoseconds per byte
    #[arg(long, value_name = "NS", value_parser = rate_argument, help_heading = "The wire")]
    byte_time: Option<u64>,
    /// γ: nanoseconds per byte combined by an operator
    #[arg(long, value_name = "NS", value_parser = rate_argument, help_heading = "The wire")]
    reduce_time: Option<u64>,
    /// Ranks per node, which share one link out and one link in [default: every rank has a node to itself]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..), help_heading = "The wire")]
    pub(crate) ppn: Option<u32>,
    /// L between ranks of one node [default: the tuning file's, or 300ns]
    #[arg(long, value_name = "TIME", value_parser = time_argument, requires = "ppn", help_heading = "The wire")]
    node_latency: Option<u64>,
    /// o between ranks of one node: what a put costs its sender; the reader copies [default: the tuning file's, or 100ns]
    #[arg(long, value_name = "TIME", value_parser = time_argument, requires = "ppn", help_heading = "The wire")]
    node_overhead: Option<u64>,
    /// β between ranks of one node [default: the tuning file's, or 0.05]
    #[arg(long, value_name = "NS", value_parser = rate_argument, requires = "ppn", help_heading = "The wire")]
    node_byte_time: Option<u64>,
    /// Cores of a node that its ranks share, over shared memory [default: each rank has one to itself]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "ppn", help_heading = "The wire")]
    cores: Option<u32>,
    /// Nodes per group, whose links to other groups they share [default: CIRCULANT_GROUPS, or the network is not divided]
    #[arg(long, value_name = "G", value_parser = clap::value_parser!(u32).range(1..), help_heading = "The wire")]
    groups: Option<u32>,
    /// How many times what a group's link to others carries its nodes' links do together [default: CIRCULANT_TAPER, or 1]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..), requires = "groups", help_heading = "The wire")]
    taper: Option<u32>,
    /// By how much L is longer from group to group [default: 0]
    #[arg(long, value_name = "TIME", value_parser = time_argument, requires = "groups", help_heading = "The wire")]
    group_latency: Option<u64>,
}

impl WireArgs {
    /// As prices see it. The files that `config` names must be loaded.
    pub(crate) fn machine(&self, config: &Config) -> Result<Machine, Failure> {
        let tuning = Tuning::parse(config.tuning_text())?;
        let set = (config.provider != Provider::Auto).then(|| config.provider.to_string());
        let asked = self.provider.as_deref().or(set.as_deref());
        let provider = asked.or(tuning.text("measured.provider")).unwrap_or(FABRIC);
        let known = select::machine(provider, &config.choices())?;
        let wire = LogGp {
            latency_ns: self.latency.unwrap_or(known.wire.latency_ns),
            overhead_ns: self.overhead.unwrap_or(known.wire.overhead_ns),
            byte_ps: self.byte_time.unwrap_or(known.wire.byte_ps),
            reduce_ps: self.reduce_time.unwrap_or(known.wire.reduce_ps),
        };
        let set = if let Grouping::Nodes(nodes) = config.groups { Some(nodes) } else { None };
        let (taper, latency_ns) = (self.taper.unwrap_or(config.taper), self.group_latency.unwrap_or(0));
        let groups = self.groups.or(set).map_or(Groups::NONE, |nodes| Groups { nodes, taper, latency_ns });
        let Some(per_node) = self.ppn else {
            return Ok(Machine { wire, near: wire, groups, ..known });
        };
        let is_known = known.near != known.wire || known.readers;
        let near = if is_known { known.near } else { NODE };
        let near = LogGp {
            latency_ns: self.node_latency.unwrap_or(near.latency_ns),
            overhead_ns: self.node_overhead.unwrap_or(near.overhead_ns),
            byte_ps: self.node_byte_time.unwrap_or(near.byte_ps),
            reduce_ps: wire.reduce_ps,
        };
        let cores = self.cores.map_or(Cores::OWN, Cores::shared);
        Ok(Machine { wire, near, per_node, cores, groups, ..known })
    }

    /// The same as the simulator takes it, with the settings of this process: within a node readers copy, and
    /// links carry puts whole.
    pub(crate) fn simulated(&self) -> Result<Machine, Failure> {
        let mut config = Config::from_env();
        config.load()?;
        Ok(Machine { readers: true, turn_bytes: u64::MAX, ..self.machine(&config)? })
    }
}

/// `1.5us`, `200ns`, `1ms`; a bare number is nanoseconds. In whole nanoseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and MAX_TIME_NS
pub(crate) fn time_argument(text: &str) -> Result<u64, String> {
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
    if ns > MAX_TIME_NS { Err("that is more than 1000 s".to_owned()) } else { Ok(ns.round() as u64) }
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
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        wire: WireArgs,
    }

    fn machine(flags: &str, provider: &str, tuning: &str) -> [[u64; 4]; 2] {
        let words = std::iter::once("x").chain(flags.split_whitespace());
        let args = Alone::try_parse_from(words).unwrap().wire;
        let mut config = Config::defaults();
        config.set("provider", provider).unwrap();
        config.set_tuning_text(tuning);
        let found = args.machine(&config).unwrap();
        [found.wire, found.near].map(|m| [m.latency_ns, m.overhead_ns, m.byte_ps, m.reduce_ps])
    }

    #[test]
    fn flags_go_before_settings_before_files_before_the_table() {
        const FILE: &str = "[measured]\nprovider = \"tcp\"\n[between-nodes]\nlatency-ns = 1\noverhead-ns = 2\n\
                            byte-ps = 3\n[within-node]\nlatency-ns = 4\noverhead-ns = 5\nbyte-ps = 6\n\
                            [memory]\nreduce-ps = 7";
        let fabric = [1500, 300, 80, 100];
        assert_eq!(machine("", "auto", ""), [fabric; 2]);
        assert_eq!(machine("--ppn 4", "auto", ""), [fabric, [300, 100, 50, 100]]);
        assert_eq!(machine("--ppn 4 --node-overhead 1us --latency 1ms", "auto", "")[1], [300, 1000, 50, 100]);
        assert_eq!(machine("", "tcp", "")[0], [8000, 2500, 350, 100]);
        assert_eq!(machine("--provider verbs", "tcp", "")[0], fabric);
        assert_eq!(machine("--ppn 2", "tcp+shm", "")[1], [350, 75, 24, 100]);
        assert_eq!(machine("--ppn 2", "auto", FILE), [[1, 2, 3, 7], [4, 5, 6, 7]]);
        let all = "--latency 9 --overhead 8 --byte-time 0.07 --reduce-time 0.06";
        assert_eq!(machine(all, "tcp", FILE)[0], [9, 8, 70, 60]);
    }

    #[test]
    fn times_rates_and_groups() {
        for (text, ns) in [("1500", 1500), ("1.5us", 1500), ("20ns", 20), ("1ms", 1_000_000), ("0", 0)] {
            assert_eq!(time_argument(text), Ok(ns), "{text}");
        }
        for text in ["", "x", "1m", "-1", "2000s", "1e9999"] {
            assert!(time_argument(text).is_err(), "{text}");
        }
        let args = Alone::try_parse_from("x --groups 16 --taper 4".split(' ')).unwrap().wire;
        let groups = args.machine(&Config::defaults()).unwrap().groups;
        assert_eq!((groups.nodes, groups.taper), (16, 4));
        let mut config = Config::defaults();
        config.set("groups", "8").unwrap();
        config.set("taper", "1:2").unwrap();
        let set = |flags: &str| {
            Alone::try_parse_from(flags.split(' ')).unwrap().wire.machine(&config).unwrap().groups
        };
        assert_eq!(set("x"), Groups { nodes: 8, taper: 2, latency_ns: 0 });
        let flags = "x --groups 4 --taper 3 --group-latency 2us";
        assert_eq!(set(flags), Groups { nodes: 4, taper: 3, latency_ns: 2000 });
        Alone::try_parse_from(["x", "--taper", "4"]).unwrap_err();
        assert_eq!(rate_argument("0.08"), Ok(80));
        assert!(rate_argument("-1").is_err() && rate_argument("nan").is_err());
    }
}
