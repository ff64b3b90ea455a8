//! Choosing: the figures of a provider's links, the window, and the [algorithm](Selection) of a call. The same
//! decision on every rank, from what all ranks know alike.
//!
//! An algorithm is chosen by the first of these that says something: the call (`Options`), the setting
//! `algorithm`, the file of the setting `selection`, the prices ([`registry::cost`](crate::plan::registry::cost)).
//! `circulant select` shows what comes of it.
#![forbid(unsafe_code)]

mod choice;
mod class;
mod memory;
mod rules;
mod settings;
mod trial;
mod tuning;
mod ways;
mod wires;

pub use choice::{Candidate, Choice, Selection, Way};
pub use class::Class;
pub use settings::{Adapt, Probing, Settings};
pub use trial::{CALLS_TO_AGREE, Due, TRIAL_CALLS, Times, Trial, Turn, calls_to_settle};
pub use tuning::{BETWEEN, Tuning, WITHIN};
pub use ways::{MAX_MORE_NS, MAX_PRICE_PERCENT, MAX_TRIALS, MAX_WAYS, Ways};
pub use wires::Wires;

use crate::error::Result;
use crate::machine::{LogGp, Machine, REDUCE_CACHED_PS};
use crate::plan::lower::light_bytes;
use wires::{OWN_SHM, REDUCE_PS};

/// The figures in use. Each is from the first of these that has it: the settings, the
/// [tuning file](Tuning), the probe of start-up, the built-in table.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Of what most messages go over: between nodes, or within the one that there is.
    wire: LogGp,
    /// Within a node.
    near: LogGp,
    light: u64,
    /// γ of vectors that stay in a cache.
    reduce_cached_ps: u64,
    /// [`Machine::alone_ns`], as the probe has found it.
    alone_ns: u64,
    /// All ranks share memory of our own.
    readers: bool,
    source: Source,
}

/// What the probe of start-up has found.
#[derive(Clone, Copy, Debug)]
pub struct Probed {
    /// With o as it is while all ranks are busy.
    pub wire: LogGp,
    /// What a put takes its rank while the others sleep, in nanoseconds.
    pub alone_ns: u64,
}

/// Where the figures of the wire come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// All from the settings.
    Settings,
    /// From the tuning file.
    File,
    /// From the probe of start-up.
    Probe,
    /// From the built-in table.
    BuiltIn,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Settings => "the settings",
            Self::File => "the tuning file",
            Self::Probe => "the probe of start-up",
            Self::BuiltIn => "the built-in table",
        })
    }
}

/// Bytes that may be unacknowledged, at least. Chosen: less than the receive buffers of any endpoint here (4 MiB on
/// verbs); `many_targets_on_a_narrow_window_do_not_starve` (src/engine/tests.rs) shows that a narrow window only
/// delays.
const WINDOW_MIN_BYTES: u64 = 64 << 10;
/// As many as the link carries in this many latencies. (1 ms, 80 ns a byte, 16 ranks, 1 MB: a broadcast takes 97 ms with 10 to 40,
/// 134 with 150; an irregular allgather 104, 92 and 90 with 10, 20 and 40; an allreduce 166 with 10, 237 with 20, so it takes a
/// quarter.)
const WINDOW_LATENCIES: u64 = 40;
/// As many as the link carries in this many overheads: then acknowledging them costs little beside sending them, which is what
/// counts where L is short. (8 ranks on loopback: 1 MiB is a tenth faster than 256 KiB.)
const WINDOW_OVERHEADS: u64 = 160;
/// Receivers acknowledge a part at a time of as many as the link carries in this many latencies, if the window is wider. (1 ms, 81 ns a
/// byte, 16 ranks: a regular allgatherv of 1 MB takes 81.1 ms, with a part of the window 84.4; docs/measurements.md has the table.)
const ACKNOWLEDGE_LATENCIES: u64 = 10;
/// For this many latencies puts of long operations keep their order. Chosen: ranks come out of a barrier within a few
/// latencies of each other, and what waits longer waits for a late rank. `puts_do_not_wait_in_order_for_ever`
/// (src/engine/tests.rs) shows the end of the order.
const IN_ORDER_LATENCIES: u64 = 8;
/// A put is bound by bandwidth if its bytes take at least this many times L + o: a wait of L + o before the next put then leaves the link idle for less than 2 % of the time. Measured: among 16
/// ranks (80 ns a byte) an alltoall with one put at a time takes 0.94 of the time with blocks of 62 KB and L = 20 µs, 0.6 with 1 MB and 1 ms, 1.0 with 19 KB and 20 µs, and 1.5 with 125 KB and 1 ms.
const BANDWIDTH_BOUND_TIMES: u64 = 64;

/// The probe takes as o a third of what a block more costs while all ranks are busy; the other two thirds pass while the wire carries longer
/// blocks (`EXPOSED_SHARE_OF_OVERHEAD`, src/comm/measure.rs). (36 ranks on 2 cores, 1 ms: a bcast of 1 KB by 15 blocks takes 10.3 ms and by
/// one 5.9, an allgatherv of 10 KB by puts to all 17.2 ms and by six rounds 8.6.)
pub const PROBED_UNHIDDEN: u32 = 3;

impl Figures {
    /// The figures of `wires`.
    ///
    /// # Errors
    /// When the tuning file is none.
    pub fn new(wires: &Wires, settings: &Settings, probed: Option<Probed>) -> Result<Self> {
        let file = Tuning::parse(&settings.tuning)?;
        let is_ours = file.text("measured.provider").is_some_and(|measured| wires.are_those_of(measured));
        let reduce_ps = file.number("memory.reduce-ps").unwrap_or(REDUCE_PS);
        let link = |section| file.link(section).filter(|_| is_ours);
        let mut source = if probed.is_some() { Source::Probe } else { Source::BuiltIn };
        let base = probed.map_or(wires.built_in().wire, |probed| probed.wire);
        let (between, within) = (link(BETWEEN), link(WITHIN));
        if between.or(within).is_some() {
            source = Source::File;
        }
        let set = [settings.latency_ns, settings.overhead_ns, settings.byte_ps];
        if set.iter().all(Option::is_some) {
            source = Source::Settings;
        }
        let with_settings = |link: LogGp| LogGp {
            latency_ns: set[0].unwrap_or(link.latency_ns),
            overhead_ns: set[1].unwrap_or(link.overhead_ns),
            byte_ps: set[2].unwrap_or(link.byte_ps),
            reduce_ps,
        };
        // A file of one node says nothing of others: what is probed or built in holds between them.
        let wire = with_settings(between.unwrap_or(base));
        let near = match within {
            Some(link) => with_settings(link),
            None if wires.shm_within_nodes => LogGp { reduce_ps, ..OWN_SHM.wire },
            None => wire,
        };
        let measured = file.number("memory.light-bytes").filter(|_| is_ours && set[1].is_none());
        let light = settings.light_bytes.or(measured).unwrap_or(light_bytes(&wire));
        let reduce_cached_ps = file.number("memory.reduce-cached-ps").unwrap_or(REDUCE_CACHED_PS);
        let alone_ns = probed.map_or(u64::MAX, |probed| probed.alone_ns);
        Ok(Self { wire, near, light, reduce_cached_ps, alone_ns, readers: wires.readers, source })
    }

    /// The same for ranks that are all on one node.
    pub fn on_one_node(self) -> Self {
        Self { wire: self.near, ..self }
    }

    /// Both wires, for the prices; where the ranks are is not known here. Readers copy only where all ranks share memory:
    /// of a communicator within one node of several that is not known.
    pub fn machine(&self) -> Machine {
        let per_node = if self.readers { u32::MAX } else { 0 };
        let is_probed = self.source == Source::Probe && !self.readers;
        let (unhidden, alone_ns) = if is_probed { (PROBED_UNHIDDEN, self.alone_ns) } else { (1, u64::MAX) };
        let Self { wire, near, readers, reduce_cached_ps, .. } = *self;
        let flat = Machine::flat(wire).in_turns();
        Machine { near, readers, per_node, unhidden, alone_ns, reduce_cached_ps, ..flat }
    }

    /// Where the figures come from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Bytes that may be unacknowledged. Where readers copy, a put is a description, and nothing fills up.
    pub fn window(&self) -> u64 {
        self.unacknowledged(WINDOW_LATENCIES)
    }

    /// Bytes of which receivers acknowledge a part at a time: no more than [`Figures::window`].
    pub fn acknowledged(&self) -> u64 {
        self.unacknowledged(ACKNOWLEDGE_LATENCIES)
    }

    fn unacknowledged(&self, latencies: u64) -> u64 {
        if self.readers {
            return u64::MAX >> 1;
        }
        let fits = |ns: u64| ns.saturating_mul(1000) / self.wire.byte_ps.max(1);
        fits(self.wire.latency_ns.saturating_mul(latencies))
            .max(fits(self.wire.overhead_ns.saturating_mul(WINDOW_OVERHEADS)))
            .max(WINDOW_MIN_BYTES)
    }

    /// The shortest put, in bytes, that is bound by bandwidth, not by L and o. Where readers copy out of the sender's memory no put is.
    pub fn bandwidth_bound(&self) -> u64 {
        if self.readers {
            return u64::MAX;
        }
        let LogGp { latency_ns, overhead_ns, byte_ps, .. } = self.wire;
        let ns = latency_ns.saturating_add(overhead_ns).saturating_mul(BANDWIDTH_BOUND_TIMES);
        ns.saturating_mul(1000) / byte_ps.max(1)
    }

    /// How many nanoseconds puts of long operations keep their order.
    pub fn in_order_ns(&self) -> u64 {
        self.wire.latency_ns.saturating_mul(IN_ORDER_LATENCIES)
    }

    /// Pieces below this many bytes share a put.
    pub fn light(&self) -> u64 {
        self.light
    }

    /// The figures, for the rules.
    pub fn wire(&self) -> &LogGp {
        &self.wire
    }
}

/// Whether to measure at start-up. The same at all ranks: from settings that were agreed, and from `figures`.
pub fn probes(wires: &Wires, probing: Probing, figures: &Figures) -> bool {
    match probing {
        Probing::On => !matches!(figures.source(), Source::File | Source::Settings),
        Probing::Off => false,
        Probing::Unmeasured => figures.source() == Source::BuiltIn && wires.built_in().guessed,
    }
}

/// The machine that a [wire's name](Wires::named) stands for, with each rank on a node of its own, or with all on one where they share memory: the built-in figures, those
/// of the tuning file, and the settings over both.
///
/// # Errors
/// When the tuning file is none.
pub fn machine(wire: &str, settings: &Settings) -> Result<Machine> {
    Figures::new(&Wires::named(wire), settings, None).map(|figures| figures.machine())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[measured]\nprovider = \"tcp\"\n[between-nodes]\nlatency-ns = 1\noverhead-ns = 2\n\
                        byte-ps = 3\n[within-node]\nlatency-ns = 4\noverhead-ns = 5\nbyte-ps = 6\n\
                        [memory]\nreduce-ps = 7\nlight-bytes = 8";
    const PROBED: Option<Probed> = Some(Probed {
        wire: LogGp { latency_ns: 11, overhead_ns: 13, byte_ps: 12, reduce_ps: REDUCE_PS },
        alone_ns: 17,
    });

    fn settings(file: &str) -> Settings {
        Settings { tuning: file.to_owned(), ..Settings::default() }
    }

    fn model(provider: &str, file: &str, set: &[(&str, u64)], probed: Option<Probed>) -> Figures {
        let mut settings = settings(file);
        for (name, value) in set {
            *match *name {
                "latency" => &mut settings.latency_ns,
                "overhead" => &mut settings.overhead_ns,
                "byte-time" => &mut settings.byte_ps,
                _ => &mut settings.light_bytes,
            } = Some(*value);
        }
        Figures::new(&Wires::named(provider), &settings, probed).unwrap()
    }

    fn figures(m: &Figures) -> [u64; 9] {
        let (w, n) = (m.wire, m.near);
        [
            w.latency_ns,
            w.overhead_ns,
            w.byte_ps,
            n.latency_ns,
            n.overhead_ns,
            n.byte_ps,
            w.reduce_ps,
            n.reduce_ps,
            m.light,
        ]
    }

    #[test]
    fn settings_go_before_the_file_before_the_probe_before_the_table() {
        let plain = model("tcp", "", &[], None);
        assert_eq!(
            (figures(&plain), plain.source()),
            ([8000, 2500, 350, 8000, 2500, 350, 100, 100, 2500], Source::BuiltIn)
        );
        let probed = model("tcp", "", &[], PROBED);
        assert_eq!(
            (figures(&probed), probed.source()),
            ([11, 13, 12, 11, 13, 12, 100, 100, 13], Source::Probe)
        );
        let filed = model("tcp", FILE, &[], PROBED);
        assert_eq!((figures(&filed), filed.source()), ([1, 2, 3, 4, 5, 6, 7, 7, 8], Source::File));
        assert_eq!(figures(&filed.on_one_node()), [4, 5, 6, 4, 5, 6, 7, 7, 8]);
        let set = [("latency", 21), ("light", 22)];
        assert_eq!(figures(&model("tcp", FILE, &set, PROBED)), [21, 2, 3, 21, 5, 6, 7, 7, 22]);
        let all = [("latency", 21), ("overhead", 22), ("byte-time", 23)];
        let set = model("tcp", FILE, &all, PROBED);
        assert_eq!((figures(&set), set.source()), ([21, 22, 23, 21, 22, 23, 7, 7, 22], Source::Settings));
    }

    #[test]
    fn a_file_counts_for_its_own_provider() {
        let other = model("verbs", FILE, &[], None);
        // What memory does is the same over any wire.
        assert_eq!(
            (figures(&other), other.source()),
            ([1500, 300, 80, 1500, 300, 80, 7, 7, 300], Source::BuiltIn)
        );
        assert_eq!(figures(&model("auto", FILE, &[], None))[..3], [1, 2, 3]);
        let both = FILE.replace("\"tcp\"", "\"tcp+shm\"");
        assert_eq!(figures(&model("tcp+shm", &both, &[], None))[..6], [1, 2, 3, 4, 5, 6]);
        // Measured on one node: between nodes it is the table's.
        let within = FILE.replace("[between-nodes]\nlatency-ns = 1\noverhead-ns = 2\nbyte-ps = 3\n", "");
        assert_eq!(figures(&model("tcp", &within, &[], None))[..6], [8000, 2500, 350, 4, 5, 6]);
        let cached = |file| model("shm", file, &[], None).machine().reduce_cached_ps;
        assert_eq!([cached(""), cached("[memory]\nreduce-cached-ps = 9")], [REDUCE_CACHED_PS, 9]);
        let e = Figures::new(&Wires::named("tcp"), &settings("[memory]\nreduce = 4"), None)
            .unwrap_err()
            .to_string();
        assert!(e.contains("CIRCULANT_TUNING: line 2"), "{e}");
    }

    /// Where ranks of a node share memory of our own, and nothing was measured there, its built-in figures hold within it,
    /// whatever is set or probed of the wire between nodes.
    #[test]
    fn within_nodes_the_table_of_our_shared_memory_holds() {
        let near = [350, 75, 24];
        for (set, probed) in [(&[][..], None), (&[], PROBED), (&[("latency", 21), ("byte-time", 23)], None)] {
            assert_eq!(figures(&model("tcp+shm", "", set, probed))[3..6], near);
        }
        assert_eq!(figures(&model("tcp+shm", "", &[], None))[..3], [8000, 2500, 350]);
        assert_eq!(figures(&model("tcp+shm", FILE, &[], None))[3..6], [4, 5, 6]);
        let machine = model("tcp+shm", "", &[], PROBED).machine();
        assert_eq!((machine.near.overhead_ns, machine.wire.overhead_ns, machine.readers), (75, 13, false));
    }

    #[test]
    fn the_probe_is_for_wires_that_were_not_measured() {
        use Probing::{Off, On, Unmeasured};
        let asked = |provider: &str, probing: Probing, file: &str| {
            let wires = Wires::named(provider);
            probes(&wires, probing, &Figures::new(&wires, &settings(file), None).unwrap())
        };
        for (provider, probe, file, wanted) in [
            ("tcp", Unmeasured, "", true),
            ("verbs;ofi_rxm", Unmeasured, "", true),
            ("psm3", Unmeasured, "", true),
            ("psm2", Unmeasured, "", true),
            ("cxi", Unmeasured, "", true),
            ("efa", Unmeasured, "", true),
            ("opx", Unmeasured, "", true),
            ("verbs;ofi_rxm+shm", Unmeasured, "", true),
            ("brand-new", Unmeasured, "", true),
            ("shm", Unmeasured, "", false),
            ("fi_shm", Unmeasured, "", false),
            ("tcp+shm", Unmeasured, "", true),
            ("tcp", Unmeasured, FILE, false),
            ("verbs", Unmeasured, FILE, true),
            ("verbs", Off, FILE, false),
            ("fi_shm", On, FILE, true),
            ("tcp", On, FILE, false),
            ("tcp", On, "", true),
            ("tcp", Off, "", false),
        ] {
            assert_eq!(asked(provider, probe, file), wanted, "{provider} {probe:?}");
        }
    }
}
