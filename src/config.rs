//! Every setting, in one table: name, environment variable, flag, default, text. The tool prints it,
//! `circulant run` turns its flags into these variables, and rank 0's values of those that must agree are
//! published at start-up and compared.

mod library;
#[cfg(test)]
mod tests;
mod unknown;

pub use circulant_core::parse_bytes;
pub use library::Library;
pub use unknown::{Unknown, unknown, variables};

use crate::error::{Error, ErrorKind, Result};
use crate::select;
use std::time::Duration;

/// As long as anything may take, where no limit is set: 100 years, which every clock can count.
pub const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// One line of the table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// Short name, also of the flag (`--name`).
    pub name: &'static str,
    /// Environment variable.
    pub variable: &'static str,
    /// Default, as text.
    pub default: &'static str,
    /// Must be the same on all ranks: rank 0's value is taken, one that differs is an error.
    pub agree: bool,
    /// What it does, with its unit.
    pub text: &'static str,
}

const fn setting(
    name: &'static str,
    variable: &'static str,
    default: &'static str,
    agree: bool,
    text: &'static str,
) -> Setting {
    Setting { name, variable, default, agree, text }
}

/// The table.
pub const SETTINGS: &[Setting] = &[
    setting(
        "provider",
        "CIRCULANT_PROVIDER",
        "auto",
        true,
        "wire: auto, shm, tcp, rxm, verbs, sockets, udp, fi_shm or a libfabric name; with +shm: shm within nodes",
    ),
    setting(
        "rails",
        "CIRCULANT_RAILS",
        "1",
        false,
        "network interfaces to spread puts over: how many, auto (all as good as the best), or names: eth0,eth1",
    ),
    setting(
        "ports",
        "CIRCULANT_PORTS",
        "auto",
        false,
        "TCP ports to use, for firewalls: 20000-20999 (some for each rank of a node), or auto (the system chooses)",
    ),
    setting(
        "deadline",
        "CIRCULANT_DEADLINE",
        "off",
        false,
        "seconds that one call may take before it fails on every rank; off or 0: as long as it needs, while all ranks live",
    ),
    setting(
        "warn-after",
        "CIRCULANT_WARN_AFTER",
        "60",
        false,
        "seconds after which a call that waits says on stderr for which ranks, and again each time; off or 0: never",
    ),
    setting(
        "start-deadline",
        "CIRCULANT_START_DEADLINE",
        "60",
        false,
        "seconds that start-up may take (launcher, connections, self-test), and the last step of finalize; off or 0: any time",
    ),
    setting(
        "window",
        "CIRCULANT_WINDOW",
        "auto",
        true,
        "bytes that a rank may have unacknowledged in one operation, a quarter of it in one that folds (K, M, G; Ki, Mi, Gi)",
    ),
    setting(
        "blocks",
        "CIRCULANT_BLOCKS",
        "auto",
        true,
        "blocks per message: a number, or auto (chosen from L, o, beta)",
    ),
    setting(
        "algorithm",
        "CIRCULANT_ALGORITHM",
        "auto",
        true,
        "algorithm by its registry name for all that have it, or a list: bcast=chain,allreduce=ring; or auto",
    ),
    setting(
        "selection",
        "CIRCULANT_SELECTION",
        "none",
        true,
        "file of rules for choosing algorithms, the same on all ranks: bcast bytes<=64K size<=16 -> binomial",
    ),
    setting(
        "reproducible",
        "CIRCULANT_REPRODUCIBLE",
        "no",
        true,
        "yes: reductions and scans fold in one order whatever the size, blocks and nodes (slower); no",
    ),
    setting(
        "latency",
        "CIRCULANT_LATENCY",
        "auto",
        true,
        "L in nanoseconds, for choosing the number of blocks",
    ),
    setting("overhead", "CIRCULANT_OVERHEAD", "auto", true, "o in nanoseconds per put"),
    setting("byte-time", "CIRCULANT_BYTE_TIME", "auto", true, "beta in picoseconds per byte"),
    setting(
        "light",
        "CIRCULANT_LIGHT",
        "auto",
        true,
        "pieces below this many bytes share a put to a landing slot; 0 never",
    ),
    setting(
        "wait",
        "CIRCULANT_WAIT",
        "auto",
        false,
        "how to wait: spin, yield, block (asleep in the provider, where it can), or auto (by what is seen)",
    ),
    setting(
        "tuning",
        "CIRCULANT_TUNING",
        "none",
        true,
        "file of L, o, beta, gamma as circulant tune -o FILE measured them; rank 0 reads it, for all",
    ),
    setting(
        "probe",
        "CIRCULANT_PROBE",
        "auto",
        true,
        "measure L, o and beta at start-up: on, off, auto (between nodes and over libfabric, where neither settings nor a tuning file say them)",
    ),
    setting(
        "progress",
        "CIRCULANT_PROGRESS",
        "calls",
        false,
        "who moves requests on: calls (while any call is made), or thread (also between calls)",
    ),
    setting(
        "libfabric",
        "CIRCULANT_LIBFABRIC",
        "libfabric.so.1",
        false,
        "path or name of the libfabric library to load",
    ),
    setting(
        "launcher",
        "CIRCULANT_LAUNCHER",
        "auto",
        false,
        "where rank and size come from: auto, pmi1, pmix, env, libpmi, single",
    ),
    setting(
        "libpmix",
        "CIRCULANT_LIBPMIX",
        "auto",
        false,
        "path or name of the PMIx library to load; auto: the launcher's own, else libpmix.so.2",
    ),
    setting(
        "libpmi",
        "CIRCULANT_LIBPMI",
        "auto",
        false,
        "path or name of the PMI library of Slurm or PALS to load; auto: libpmi.so.0",
    ),
    setting(
        "log",
        "CIRCULANT_LOG",
        "warn",
        false,
        "messages on standard error: error, warn, info (provider, nodes, addresses, algorithms), debug, trace; with ,all of all ranks",
    ),
];

/// The settings of one process, parsed.
#[derive(Clone, Debug)]
pub struct Config {
    values: Vec<String>,
    /// Set by somebody, not by default.
    set: Vec<bool>,
    /// What the file of the setting `selection` says.
    selection: String,
    /// What the file of the setting `tuning` says, at rank 0.
    tuning: String,
}

impl Config {
    /// Defaults only, whatever the environment says.
    pub fn defaults() -> Self {
        Self {
            values: SETTINGS.iter().map(|s| s.default.to_owned()).collect(),
            set: vec![false; SETTINGS.len()],
            selection: String::new(),
            tuning: String::new(),
        }
    }

    /// Defaults, overridden by the environment.
    ///
    /// # Errors
    /// When a variable's value is not Unicode, or a `CIRCULANT_` variable is unknown to the table.
    pub fn from_env() -> Result<Self> {
        let mut config = Self::defaults();
        for (i, s) in SETTINGS.iter().enumerate() {
            match std::env::var(s.variable) {
                Ok(v) if !v.is_empty() => {
                    config.values[i] = v;
                    config.set[i] = true;
                }
                Err(std::env::VarError::NotUnicode(_)) => {
                    return Err(bad(s, "its value is not Unicode"));
                }
                _ => {}
            }
        }
        Ok(config)
    }

    /// The value of the setting called `name`, as text. Names not in the table give "".
    pub fn text(&self, name: &str) -> &str {
        index(name).map_or("", |i| &self.values[i])
    }

    /// The settings whose values are not the defaults, with these values.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Setting, &str)> {
        let all = SETTINGS.iter().zip(&self.values);
        all.filter(|(s, value)| *value != s.default).map(|(s, value)| (s, value.as_str()))
    }

    /// Sets `name` to `value`.
    ///
    /// # Errors
    /// When there is no such setting, or it names a library to load: that is for [`Config::set_library`].
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<()> {
        let Some(i) = index(name) else {
            return Err(Error::new(ErrorKind::Config, format!("there is no setting {name:?}"))
                .help("circulant info lists them"));
        };
        if library::LIBRARIES.contains(&name) {
            return Err(library::refused(&SETTINGS[i]));
        }
        self.put(i, value.into());
        Ok(())
    }

    fn put(&mut self, i: usize, value: String) {
        self.values[i] = value;
        self.set[i] = true;
    }

    /// A duration in (fractional) seconds.
    ///
    /// # Errors
    /// When the value is not a number above 0.
    pub fn seconds(&self, name: &str) -> Result<Duration> {
        let text = self.text(name);
        match text.parse::<f64>() {
            Ok(s) if s > 0.0 => Ok(Duration::try_from_secs_f64(s).unwrap_or(FOR_EVER).min(FOR_EVER)),
            Ok(0.0) => Ok(FOR_EVER),
            _ if text == "off" => Ok(FOR_EVER),
            _ => Err(self.wrong(name, "a number of seconds, or off")),
        }
    }

    /// A whole number, or `None` for `auto`.
    ///
    /// # Errors
    /// When the value is neither.
    pub fn number(&self, name: &str) -> Result<Option<u64>> {
        match self.text(name) {
            "auto" => Ok(None),
            text => text.parse().map(Some).map_err(|_| self.wrong(name, "a whole number, or auto")),
        }
    }

    /// A range of port numbers, or `None` for `auto`.
    ///
    /// # Errors
    /// When the value is neither, or has no ports in it.
    pub fn range(&self, name: &str) -> Result<Option<(u16, u16)>> {
        let read = |text: &str| -> Option<(u16, u16)> {
            let (low, high) = text.split_once('-')?;
            let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            (0 < low && low <= high).then_some((low, high))
        };
        match self.text(name) {
            "auto" => Ok(None),
            text => {
                read(text).map(Some).ok_or_else(|| self.wrong(name, "a range such as 20000-20999, or auto"))
            }
        }
    }

    /// A size in bytes with an optional suffix, or `None` for `auto`.
    ///
    /// # Errors
    /// When the value is neither.
    pub fn bytes(&self, name: &str) -> Result<Option<u64>> {
        match self.text(name) {
            "auto" => Ok(None),
            text => parse_bytes(text).map(Some).ok_or_else(|| self.wrong(name, "a size such as 64K or 1Mi")),
        }
    }

    /// A switch: yes or no.
    ///
    /// # Errors
    /// When the value is neither.
    pub fn switch(&self, name: &str) -> Result<bool> {
        match self.text(name) {
            "yes" | "1" | "true" => Ok(true),
            "no" | "0" | "false" => Ok(false),
            _ => Err(self.wrong(name, "yes or no")),
        }
    }

    /// What selection goes by. The files must be [loaded](Config::load).
    ///
    /// # Errors
    /// When one of these settings cannot be understood.
    pub fn choices(&self) -> Result<select::Settings> {
        Ok(select::Settings {
            algorithm: self.text("algorithm").to_owned(),
            rules: self.selection.clone(),
            reproducible: self.switch("reproducible")?,
            tuning: self.tuning.clone(),
            latency_ns: self.number("latency")?,
            overhead_ns: self.number("overhead")?,
            byte_ps: self.number("byte-time")?,
            light_bytes: self.bytes("light")?,
            probe: match self.text("probe") {
                "auto" => select::Probing::Unmeasured,
                "on" => select::Probing::On,
                "off" => select::Probing::Off,
                _ => return Err(self.wrong("probe", "on, off or auto")),
            },
        })
    }

    /// Reads the files of the settings `selection` and `tuning`, if there are any.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn load(&mut self) -> Result<()> {
        self.tuning = match self.text("tuning") {
            "none" => String::new(),
            path => read_small(path).map_err(|what| {
                Error::new(ErrorKind::Config, format!("CIRCULANT_TUNING: {path}: {what}"))
                    .help("rank 0 reads it; circulant tune -o FILE writes it")
            })?,
        };
        self.load_selection()
    }

    fn load_selection(&mut self) -> Result<()> {
        self.selection = match self.text("selection") {
            "none" => String::new(),
            path => std::fs::read_to_string(path).map_err(|e| {
                Error::new(ErrorKind::Config, format!("CIRCULANT_SELECTION: {path}: {e}"))
                    .help("every rank reads it: put it where all nodes see it")
            })?,
        };
        Ok(())
    }

    /// The text of that file, once it is [loaded](Config::load).
    pub fn selection(&self) -> &str {
        &self.selection
    }

    /// The text of the tuning file: at rank 0 once it is [loaded](Config::load), elsewhere once it was
    /// [adopted](Config::adopt).
    pub fn tuning(&self) -> &str {
        &self.tuning
    }

    /// Takes this for the text of the tuning file.
    pub fn set_tuning(&mut self, text: impl Into<String>) {
        self.tuning = text.into();
    }

    /// The settings that ranks must agree on, as text to publish and compare.
    pub fn agreed(&self) -> String {
        let mut out =
            format!("version={}\n{DIGEST}={:016x}\n", env!("CARGO_PKG_VERSION"), digest(&self.selection));
        for (s, v) in SETTINGS.iter().zip(&self.values) {
            if s.agree {
                out.push_str(&format!("{}={v}\n", s.name));
            }
        }
        if !self.tuning.is_empty() {
            // In one line; the figures only, with their lines' numbers.
            let lines: Vec<_> =
                self.tuning.lines().map(|l| l.split('#').next().unwrap_or("").trim()).collect();
            out.push_str(&format!("{TUNING}={}\n", lines.join(SEPARATOR)));
        }
        out
    }

    /// Takes rank 0's values (as [`Config::agreed`] writes them) for the settings that must agree and were
    /// not set here: launchers differ in which variables reach other nodes. Reads the file of `selection`; that of
    /// `tuning` comes from rank 0.
    ///
    /// # Errors
    /// When a setting was set here to something else, the versions differ, or the file says something else.
    pub fn adopt(&mut self, agreed: &str) -> Result<()> {
        let mut said = None;
        let mismatch = |what: String| {
            Err(Error::new(ErrorKind::Mismatch, what)
                .with_peer(0)
                .help("give all ranks the same CIRCULANT_ variables and the same binary"))
        };
        for line in agreed.lines() {
            let Some((name, value)) = line.split_once('=') else { continue };
            if name == "version" {
                if value != env!("CARGO_PKG_VERSION") {
                    return mismatch(format!(
                        "rank 0 runs version {value}, we run {}",
                        env!("CARGO_PKG_VERSION")
                    ));
                }
                continue;
            }
            if name == DIGEST {
                said = Some(value);
            }
            if name == TUNING {
                self.tuning = value.replace(SEPARATOR, "\n");
            }
            let Some(i) = index(name).filter(|i| SETTINGS[*i].agree) else { continue };
            if self.set[i] && self.values[i] != value {
                let (variable, mine) = (SETTINGS[i].variable, &self.values[i]);
                return mismatch(format!("{variable} is {value:?} at rank 0 and {mine:?} here"));
            }
            value.clone_into(&mut self.values[i]);
        }
        self.load_selection()?;
        if said.is_some_and(|said| said != format!("{:016x}", digest(&self.selection))) {
            let path = self.text("selection");
            return mismatch(format!("the file {path} (CIRCULANT_SELECTION) is another one at rank 0"));
        }
        Ok(())
    }

    fn wrong(&self, name: &str, want: &str) -> Error {
        match index(name) {
            Some(i) => bad(&SETTINGS[i], &format!("{:?} is not {want}", self.values[i])),
            None => Error::new(ErrorKind::Config, format!("there is no setting {name:?}")),
        }
    }
}

/// The name under which the digest of the selection's file is published.
const DIGEST: &str = "selection-digest";

/// The name under which the text of the tuning file is published, and what stands there between its lines.
const TUNING: &str = "tuning-text";
const SEPARATOR: &str = "\u{1e}";

/// A file that a person could have written.
fn read_small(path: &str) -> std::result::Result<String, String> {
    const MOST: u64 = 64 << 10;
    let about = std::fs::metadata(path).map_err(|e| e.to_string())?;
    match about.len() {
        _ if !about.is_file() => Err("it is no file".to_owned()),
        size if size > MOST => Err(format!("{size} bytes are too many for a file of settings")),
        _ => std::fs::read_to_string(path).map_err(|e| e.to_string()),
    }
}

/// FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3))
}

fn index(name: &str) -> Option<usize> {
    SETTINGS.iter().position(|s| s.name == name)
}

fn bad(s: &Setting, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("{}: {what}", s.variable)).help(s.text)
}
