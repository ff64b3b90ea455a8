//! What providers do differently from what they say, in one table. A new provider is one entry.

use super::super::Borrow;
use std::fmt;

/// What kind of wire a provider is; better kinds first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Remote direct memory access by hardware (or soft-RoCE).
    Rdma,
    /// libfabric's shared memory; only where all ranks share a node.
    SharedMemory,
    /// TCP sockets.
    Tcp,
    /// Works, slowly or incompletely: only when asked for by name.
    OnRequest,
}

/// The value of an environment default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// This text.
    Text(&'static str),
    /// The number of ranks, at least 2 and at most 4096.
    Ranks,
}

/// An environment variable that libfabric reads, and what we set it to when the user did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The variable.
    pub variable: &'static str,
    /// What it is set to.
    pub value: Value,
    /// Why.
    pub why: &'static str,
}

/// One provider's peculiarities.
#[derive(Clone, Copy, Debug)]
pub struct Quirk {
    /// libfabric's exact name.
    pub provider: &'static str,
    /// The kind of wire.
    pub class: Class,
    /// The variable that pins it to an interface, for providers over IP that can use the loopback one.
    pub interface: Option<&'static str>,
    /// What may happen to borrowed memory after we closed.
    pub borrow: Borrow,
    /// It caches registrations unless told not to; with the cache on, borrowed memory is staged.
    pub caches: bool,
    /// The longest gather list to trust, whatever it says.
    pub gather: usize,
    /// The longest message that takes no more than one way.
    pub message: usize,
    /// A rank can put to itself.
    pub to_self: bool,
    /// A put under way to a peer that dies becomes an error; else only a deadline or a watcher tells. A put
    /// posted later may be put off for ever also where this holds (tcp and net try to connect again).
    pub reports_death: bool,
    /// The endpoint goes on with the other ranks when one is gone.
    pub survives: bool,
    /// A post to a peer whose connection has ended is put off for ever, as the provider connects anew. While a connection stands none is put off.
    pub reconnects: bool,
    /// Closing crashes when completions arrive meanwhile (ofi_rxm posts a new receive to the connection it
    /// has just closed), or a put (psm3): so end registrations first and let things calm down; after a failure, when puts may still be
    /// under way, do no more than end registrations.
    pub quiet_close: bool,
    /// A variable that must not be on, since arrivals are lost then.
    pub refuses: Option<&'static str>,
    /// A call may not come back while a peer is gone or stopped: it waits for a lock that is shared with it, or for room in its queue.
    pub may_hang: bool,
    /// Its endpoint is a file in /dev/shm, which it may leave behind.
    pub leaves_file: bool,
    /// A wait may sleep in the provider, which wakes it up when something comes.
    pub sleeps: bool,
    /// Microseconds to sleep when there is nothing to do, so that the provider's own thread gets a core; 0:
    /// wait as the settings say.
    pub nap_us: u32,
    /// Puts to one peer may arrive in another order than they were posted in. Nothing relies on the order.
    pub unordered: bool,
    /// What is worth knowing.
    pub note: &'static str,
    /// Where all this is from, for what was never run here; empty: from tests.
    pub source: &'static str,
}

/// Set whatever the provider, before libfabric looks at its environment (once per process).
pub const PRESETS: &[Preset] = &[
    Preset {
        variable: "FI_MR_CACHE_MAX_COUNT",
        value: Value::Text("0"),
        why: "registrations are ours to keep; a cache would leave memory open to peers after its return",
    },
    Preset {
        variable: "FI_UNIVERSE_SIZE",
        value: Value::Ranks,
        why: "sizes ofi_rxm's completion queues; its default of 256 exceeds small devices (soft-RoCE)",
    },
    Preset {
        variable: "FI_OFI_RXM_BUFFER_SIZE",
        value: Value::Text("1024"),
        why: "ofi_rxm's eager buffers serve only our short messages: 14 MB in place of 91 MB per rank",
    },
    Preset {
        variable: "FI_CXI_ENABLE_WRITEDATA",
        value: Value::Text("1"),
        why: "off by default, and without it cxi's puts carry no notify word (fi_cxi(7), libfabric 2.5)",
    },
];

/// No limit.
const ANY: usize = usize::MAX;
/// What fits into a buffer of ofi_rxm's, as preset above, beside its own headers, in bytes.
const RXM: usize = 896;

const COMMON: Quirk = Quirk {
    provider: "",
    class: Class::OnRequest,
    interface: None,
    borrow: Borrow::Staged,
    caches: false,
    gather: ANY,
    message: ANY,
    to_self: true,
    reports_death: true,
    survives: false,
    reconnects: false,
    quiet_close: false,
    refuses: None,
    may_hang: false,
    leaves_file: false,
    sleeps: false,
    nap_us: 0,
    unordered: false,
    note: "",
    source: "",
};

/// The table, in the order of preference.
pub const QUIRKS: &[Quirk] = &[
    Quirk {
        provider: "cxi",
        class: Class::Rdma,
        borrow: Borrow::Direct,
        caches: true,
        gather: 1,
        unordered: true,
        note: "Slingshot; never run here; notify words need libfabric 2.5 and FI_CXI_ENABLE_WRITEDATA, keys are the provider's, of 64 bits",
        source: "fi_cxi(7) and prov/cxi of libfabric 2.6: writemsg with a notify word is newer than writedata",
        ..COMMON
    },
    Quirk {
        provider: "efa",
        class: Class::Rdma,
        caches: true,
        gather: 1,
        unordered: true,
        note: "AWS; never run here; words of 32 bits; same-node peers copy across processes, so borrows are staged",
        source: "fi_efa(7) and prov/efa of libfabric 2.6 (EFA_CQ_DATA_SIZE 4; reliable datagrams without order)",
        ..COMMON
    },
    Quirk {
        provider: "verbs;ofi_rxm",
        message: RXM,
        class: Class::Rdma,
        borrow: Borrow::Direct,
        caches: true,
        quiet_close: true,
        refuses: Some("FI_OFI_RXM_USE_SRX"),
        note: "InfiniBand, RoCE; tested on soft-RoCE",
        ..COMMON
    },
    Quirk {
        provider: "psm3",
        class: Class::Rdma,
        gather: 1,
        quiet_close: true,
        may_hang: true,
        note: "Ethernet by PSM; gather lists end in access errors (2.6); same-node peers copy across processes; \
               run here over sockets (PSM3_HAL=sockets); waits in a put or message to a peer that is gone, or crashes",
        ..COMMON
    },
    Quirk {
        provider: "opx",
        class: Class::Rdma,
        gather: 1,
        note: "Omni-Path; never run here; words of 32 bits; same-node peers share memory",
        source: "fi_opx(7) and prov/opx of libfabric 2.6 (cq_data_size 4, FI_OPX_SHM_ENABLE)",
        ..COMMON
    },
    Quirk {
        provider: "psm2",
        class: Class::Rdma,
        note: "Omni-Path; never run here",
        source: "fi_psm2(7) of libfabric 1.17",
        ..COMMON
    },
    Quirk {
        provider: "shm",
        class: Class::SharedMemory,
        reports_death: false,
        may_hang: true,
        leaves_file: true,
        note: "peers copy across processes whenever they like and keys are not checked: borrows are staged",
        ..COMMON
    },
    Quirk {
        provider: "tcp",
        class: Class::Tcp,
        survives: true,
        reconnects: true,
        interface: Some("FI_TCP_IFACE"),
        borrow: Borrow::Direct,
        sleeps: true,
        note: "libfabric 1.18 and newer; takes any number of puts: bound them yourself",
        ..COMMON
    },
    Quirk {
        provider: "net",
        class: Class::Tcp,
        survives: true,
        reconnects: true,
        interface: Some("FI_NET_IFACE"),
        borrow: Borrow::Direct,
        sleeps: true,
        note: "what tcp is called in libfabric 1.16 and 1.17; takes any number of puts: bound them yourself",
        ..COMMON
    },
    Quirk {
        provider: "tcp;ofi_rxm",
        message: RXM,
        class: Class::Tcp,
        interface: Some("FI_TCP_IFACE"),
        borrow: Borrow::Direct,
        quiet_close: true,
        note: "slower to start and to close than tcp or net",
        ..COMMON
    },
    Quirk {
        provider: "net;ofi_rxm",
        message: RXM,
        interface: Some("FI_NET_IFACE"),
        borrow: Borrow::Direct,
        quiet_close: true,
        note: "as tcp;ofi_rxm",
        ..COMMON
    },
    Quirk {
        provider: "sockets",
        interface: Some("FI_SOCKETS_IFACE"),
        nap_us: 50,
        note: "a thread of its own starves behind a polling rank (4 ms per put), so we sleep between polls",
        ..COMMON
    },
    Quirk {
        provider: "udp;ofi_rxd",
        interface: Some("FI_UDP_IFACE"),
        reports_death: false,
        note: "slow for long puts",
        ..COMMON
    },
];

/// What libfabric's own shared memory is called here: `shm` is ours.
pub(super) const FI_SHM: &str = "fi_shm";

/// Names people type, and the providers they mean, best first.
pub const ALIASES: &[(&str, &[&str])] = &[
    (FI_SHM, &["shm"]),
    ("tcp", &["tcp", "net", "tcp;ofi_rxm"]),
    ("rxm", &["tcp;ofi_rxm"]),
    ("verbs", &["verbs;ofi_rxm"]),
    ("udp", &["udp;ofi_rxd"]),
];

/// What a provider is called here that libfabric calls `provider`.
pub fn our_name(provider: &str) -> &str {
    if provider == "shm" { FI_SHM } else { provider }
}

/// The entry of `provider`, by libfabric's name or ours; for one not in the table, the careful default.
pub fn quirk(provider: &str) -> Quirk {
    let provider = if provider == FI_SHM { "shm" } else { provider };
    QUIRKS.iter().copied().find(|q| q.provider == provider).unwrap_or(COMMON)
}

/// The libfabric variables that should be set before it is first used in a job of `size` ranks, unless the
/// user set them. A launcher may hand them to its children; [`super::prepare`] and [`super::Fabric::open`] set them
/// where they can.
pub fn presets(size: usize) -> impl Iterator<Item = (&'static str, String)> {
    PRESETS.iter().map(move |p| {
        let value = match p.value {
            Value::Text(text) => text.to_owned(),
            Value::Ranks => size.clamp(2, 4096).to_string(),
        };
        (p.variable, value)
    })
}

/// The variables by which libfabric's TCP, under either of its names, keeps to these ports.
pub fn ports((low, high): (u16, u16)) -> impl Iterator<Item = (&'static str, String)> {
    let names = [
        ("FI_TCP_PORT_LOW_RANGE", low),
        ("FI_TCP_PORT_HIGH_RANGE", high),
        ("FI_NET_PORT_LOW_RANGE", low),
        ("FI_NET_PORT_HIGH_RANGE", high),
    ];
    names.into_iter().map(|(name, port)| (name, port.to_string()))
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rdma => "rdma",
            Self::SharedMemory => "shared memory",
            Self::Tcp => "tcp",
            Self::OnRequest => "on request",
        })
    }
}

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<14} {:<14}", self.provider, self.class)?;
        let borrow = match self.borrow {
            Borrow::Direct if self.caches => "direct if no cache",
            Borrow::Direct => "direct",
            Borrow::Staged => "staged",
        };
        write!(f, " borrows {borrow:<19}")?;
        write!(f, " {}", if self.reports_death { "reports dead peers;" } else { "silent on dead peers;" })?;
        if self.gather != ANY {
            write!(f, " gathers at most {};", self.gather)?;
        }
        if self.unordered {
            write!(f, " unordered;")?;
        }
        if !self.to_self {
            write!(f, " no puts to oneself;")?;
        }
        write!(f, " {}", self.note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        for (i, q) in QUIRKS.iter().enumerate() {
            assert!(QUIRKS[..i].iter().all(|other| other.provider != q.provider), "{} twice", q.provider);
            assert!(q.gather >= 1 && !q.to_string().is_empty());
            // Of hardware that was never run here only what some text says is known.
            assert_eq!(q.note.contains("never run here"), !q.source.is_empty(), "{}", q.provider);
        }
        for (name, means) in ALIASES {
            assert!(means.iter().all(|m| QUIRKS.iter().any(|q| q.provider == *m)), "{name}");
        }
        // Preference: a better class never comes after a worse one.
        assert!(QUIRKS.windows(2).all(|w| w[0].class <= w[1].class));
        assert_eq!(quirk("brand-new").borrow, Borrow::Staged);
    }

    #[test]
    fn hardware_that_was_never_run_is_met_with_care() {
        let shown = |provider: &str| quirk(provider).to_string();
        for (provider, words) in [
            ("cxi", "gathers at most 1; unordered;"),
            ("efa", "gathers at most 1; unordered;"),
            ("opx", "gathers at most 1;"),
            ("psm3", "gathers at most 1;"),
        ] {
            assert!(shown(provider).contains(words), "{}", shown(provider));
        }
        for provider in ["efa", "opx", "psm3", "psm2"] {
            assert_eq!(
                quirk(provider).borrow,
                Borrow::Staged,
                "{provider}: peers of a node copy across processes"
            );
        }
        assert!(
            quirk("psm3").quiet_close && presets(2).any(|p| p == ("FI_CXI_ENABLE_WRITEDATA", "1".to_owned()))
        );
    }

    #[test]
    fn the_universe_is_the_job() {
        let universe = |size| presets(size).find(|(v, _)| *v == "FI_UNIVERSE_SIZE").unwrap().1;
        assert_eq!(
            (universe(1).as_str(), universe(33).as_str(), universe(1 << 20).as_str()),
            ("2", "33", "4096")
        );
    }
}
