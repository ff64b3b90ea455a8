//! How each type of setting is written as text.

use super::forced::ForcedLimits;
use super::library::Library;
use super::values::{
    Grouping, Interfaces, Launcher, Logging, Network, OnFailure, Progress, Provider, Sources, Wait,
};
use super::{FOR_EVER, parse_bytes};
use crate::select::{Adapt, Probing};
use std::time::Duration;
use tracing::level_filters::LevelFilter;

/// How values of one type are written.
pub(super) struct Format<T: 'static> {
    /// What is allowed, as in "… is not …".
    allowed: &'static str,
    /// The words, and what each stands for; of several for one value the first is canonical.
    words: &'static [(&'static str, T)],
    /// Reads what is no word.
    read: fn(&str) -> Option<T>,
    /// Writes a value for which there is no word, so that `read` takes it.
    write: fn(&T) -> String,
}

/// Why a text is no value.
pub(super) struct Refused {
    /// What is allowed.
    pub(super) allowed: &'static str,
    /// The word that is most like the text.
    pub(super) near: Option<&'static str>,
}

impl<T: Clone + PartialEq> Format<T> {
    /// The value that `text` says.
    pub(super) fn parse(&self, text: &str) -> Result<T, Refused> {
        let word = self.words.iter().find(|(word, _)| *word == text).map(|(_, value)| value.clone());
        word.or_else(|| (self.read)(text)).ok_or_else(|| Refused {
            allowed: self.allowed,
            near: nearest(text, self.words.iter().map(|(word, _)| *word)),
        })
    }

    /// The canonical text of `value`.
    pub(super) fn text(&self, value: &T) -> String {
        let word = self.words.iter().find(|(_, known)| known == value);
        word.map_or_else(|| (self.write)(value), |(word, _)| (*word).to_owned())
    }
}

/// Reads nothing: all values of the type have words.
fn no_other<T>(_: &str) -> Option<T> {
    None
}

/// Writes what is there; for nothing there is a word.
fn shown<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(String::new, T::to_string)
}

pub(super) const PROVIDER: Format<Provider> = Format {
    allowed: "the name of a provider",
    words: &[],
    read: |text| (!text.is_empty()).then(|| Provider::from(text)),
    write: Provider::to_string,
};

pub(super) const INTERFACES: Format<Interfaces> = Format {
    allowed: "a number from 1, auto, or names with commas between, such as eth0,eth1",
    words: &[("1", Interfaces::Best), ("auto", Interfaces::Several(None))],
    read: |text| {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        match text.parse() {
            Ok(0) => None,
            Ok(n) => Some(Interfaces::Several(Some(n))),
            Err(_) => names.iter().all(|name| !name.is_empty()).then_some(Interfaces::Named(names)),
        }
    },
    write: Interfaces::to_string,
};

pub(super) const PORTS: Format<Option<(u16, u16)>> = Format {
    allowed: "a range such as 20000-20999, or auto",
    words: &[("auto", None)],
    read: |text| {
        let (low, high) = text.split_once('-')?;
        let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        (0 < low && low <= high).then_some(Some((low, high)))
    },
    write: |ports| ports.map_or_else(String::new, |(low, high)| format!("{low}-{high}")),
};

pub(super) const SOURCES: Format<Sources> = Format {
    allowed: "all, or addresses and networks with commas between, such as 10.0.0.0/16,10.1.0.7",
    words: &[("all", Sources::All)],
    read: |text| {
        let networks: Option<Vec<Network>> = text.split(',').map(|one| one.trim().parse().ok()).collect();
        networks.map(Sources::Only)
    },
    write: Sources::to_string,
};

pub(super) const SECONDS: Format<Option<Duration>> = Format {
    allowed: "a number of seconds, or off",
    words: &[("off", None)],
    read: |text| match text.parse::<f64>() {
        Ok(0.0) => Some(None),
        Ok(s) if s > 0.0 => Some(Duration::try_from_secs_f64(s).ok().filter(|d| *d < FOR_EVER)),
        _ => None,
    },
    write: |duration| duration.map_or_else(String::new, |d| d.as_secs_f64().to_string()),
};

pub(super) const NUMBER: Format<Option<u64>> = Format {
    allowed: "a whole number, or auto",
    words: &[("auto", None)],
    read: |text| text.parse().ok().map(Some),
    write: shown,
};

pub(super) const BLOCKS: Format<Option<u32>> = Format {
    allowed: "a whole number from 1, or auto",
    words: &[("auto", None)],
    read: |text| text.parse().ok().filter(|n| *n > 0).map(Some),
    write: shown,
};

pub(super) const BYTES: Format<Option<u64>> = Format {
    allowed: "a size such as 64K or 1Mi, or auto",
    words: &[("auto", None)],
    read: |text| parse_bytes(text).map(Some),
    write: shown,
};

pub(super) const SWITCH: Format<bool> = Format {
    allowed: "yes or no",
    words: &[("yes", true), ("no", false), ("1", true), ("0", false), ("true", true), ("false", false)],
    read: no_other,
    write: bool::to_string,
};

pub(super) const DEVICE: Format<Option<String>> = Format {
    allowed: "the name of a device, also with a colon and a port, or auto",
    words: &[("auto", None)],
    read: |text| (!text.is_empty()).then(|| Some(text.to_owned())),
    write: shown,
};

pub(super) const INDEX: Format<Option<u16>> = Format {
    allowed: "a number from 0 to 65535, or auto",
    words: &[("auto", None)],
    read: |text| text.parse().ok().map(Some),
    write: shown,
};

/// Up to what ibverbs can: `transport::verbs::MAX_DEPTH`.
pub(super) const DEPTH: Format<Option<u16>> = Format {
    allowed: "a number from 1 to 16384, or auto",
    words: &[("auto", None)],
    read: |text| text.parse().ok().filter(|n| (1..=1 << 14).contains(n)).map(Some),
    write: shown,
};

pub(super) const LEVEL: Format<Option<u8>> = Format {
    allowed: "a number from 0 to 15, or auto",
    words: &[("auto", None)],
    read: |text| text.parse().ok().filter(|n| *n < 16).map(Some),
    write: shown,
};

pub(super) const MTU: Format<Option<u32>> = Format {
    allowed: "256, 512, 1024, 2048, 4096 or auto",
    words: &[
        ("auto", None),
        ("256", Some(256)),
        ("512", Some(512)),
        ("1024", Some(1024)),
        ("2048", Some(2048)),
        ("4096", Some(4096)),
    ],
    read: no_other,
    write: shown,
};

pub(super) const LIMITS: Format<ForcedLimits> = Format {
    allowed: "none, or some of gather=N, max_put=BYTES (from 4096), inject=BYTES, queue=N, unordered, word=BITS (1 to 31), no-word, \
        with commas between",
    words: &[(
        "none",
        ForcedLimits {
            gather: None,
            max_put: None,
            inject: None,
            queue: None,
            unordered: false,
            word_bits: None,
        },
    )],
    read: ForcedLimits::read,
    write: ForcedLimits::to_string,
};

pub(super) const GROUPING: Format<Grouping> = Format {
    allowed: "a number of nodes from 1, the name of a file, auto or none",
    words: &[("auto", Grouping::Told), ("none", Grouping::Undivided)],
    read: |text| match text.parse::<u64>() {
        Ok(n) => u32::try_from(n).ok().filter(|n| *n > 0).map(Grouping::Nodes),
        Err(_) => (!text.is_empty()).then(|| Grouping::File(text.to_owned())),
    },
    write: Grouping::to_string,
};

pub(super) const TAPER: Format<u32> = Format {
    allowed: "a whole number from 1, or 1: and such a number",
    words: &[],
    read: |text| text.strip_prefix("1:").unwrap_or(text).parse().ok().filter(|n| *n > 0),
    write: u32::to_string,
};

pub(super) const FILE: Format<Option<String>> = Format {
    allowed: "the name of a file, or none",
    words: &[("none", None)],
    read: |text| (!text.is_empty()).then(|| Some(text.to_owned())),
    write: shown,
};

pub(super) const FOLDER: Format<Option<String>> = Format {
    allowed: "the name of a folder, or none",
    words: &[("none", None)],
    read: |text| (!text.is_empty()).then(|| Some(text.to_owned())),
    write: shown,
};

/// 0.7 GB of them, at most.
pub(super) const EVENTS: Format<Option<u32>> = Format {
    allowed: "a number from 0 to 16777216, or auto",
    words: &[("auto", None)],
    read: |text| text.parse().ok().filter(|n| *n <= 1 << 24).map(Some),
    write: shown,
};

/// Operations and algorithms are looked up in the registry when the selection is made.
pub(super) const ALGORITHM: Format<String> = Format {
    allowed: "the name of an algorithm, a list such as bcast=chain,allreduce=ring, or auto",
    words: &[],
    read: |text| (!text.is_empty()).then(|| text.to_owned()),
    write: String::clone,
};

pub(super) const WAIT: Format<Option<Wait>> = Format {
    allowed: "spin, yield, block or auto",
    words: &[
        ("auto", None),
        (Wait::Spin.name(), Some(Wait::Spin)),
        (Wait::Yield.name(), Some(Wait::Yield)),
        (Wait::Block.name(), Some(Wait::Block)),
    ],
    read: no_other,
    write: |wait| wait.map_or_else(String::new, |wait| wait.name().to_owned()),
};

pub(super) const PROBE: Format<Probing> = Format {
    allowed: "on, off or auto",
    words: &[("auto", Probing::Unmeasured), ("on", Probing::On), ("off", Probing::Off)],
    read: no_other,
    write: |probing| format!("{probing:?}"),
};

pub(super) const ADAPT: Format<Adapt> = Format {
    allowed: "auto, on or off",
    words: &[("auto", Adapt::Auto), ("on", Adapt::On), ("off", Adapt::Off)],
    read: no_other,
    write: |adapt| format!("{adapt:?}"),
};

pub(super) const PROGRESS: Format<Progress> = Format {
    allowed: "calls or thread",
    words: &[(Progress::Calls.name(), Progress::Calls), (Progress::Thread.name(), Progress::Thread)],
    read: no_other,
    write: |progress| progress.name().to_owned(),
};

pub(super) const ON_FAILURE: Format<OnFailure> = Format {
    allowed: "end or continue",
    words: &[(OnFailure::End.name(), OnFailure::End), (OnFailure::Continue.name(), OnFailure::Continue)],
    read: no_other,
    write: |on_failure| on_failure.name().to_owned(),
};

pub(super) const LAUNCHER: Format<Launcher> = Format {
    allowed: "auto, pmi1, pmix, env, libpmi or single",
    words: &[
        (Launcher::Auto.name(), Launcher::Auto),
        (Launcher::Pmi1.name(), Launcher::Pmi1),
        (Launcher::Pmix.name(), Launcher::Pmix),
        (Launcher::Env.name(), Launcher::Env),
        (Launcher::Libpmi.name(), Launcher::Libpmi),
        (Launcher::Single.name(), Launcher::Single),
    ],
    read: no_other,
    write: |launcher| launcher.name().to_owned(),
};

/// From the environment; elsewhere only [`Library::new`], which is unsafe, makes one.
pub(super) const LIBRARY: Format<Library> = Format {
    allowed: "the name of a library",
    words: &[],
    read: |text| (!text.is_empty()).then(|| Library::named(text)),
    write: |library| library.name().to_owned(),
};

/// What follows the level where the messages of all ranks are wanted.
const ALL: &str = "all";

const fn of_rank_0(level: LevelFilter) -> Logging {
    Logging { level, all: false }
}

const LEVELS: &[(&str, Logging)] = &[
    ("off", of_rank_0(LevelFilter::OFF)),
    ("error", of_rank_0(LevelFilter::ERROR)),
    ("warn", of_rank_0(LevelFilter::WARN)),
    ("info", of_rank_0(LevelFilter::INFO)),
    ("debug", of_rank_0(LevelFilter::DEBUG)),
    ("trace", of_rank_0(LevelFilter::TRACE)),
];

pub(super) const LOGGING: Format<Logging> = Format {
    allowed: "error, warn, info, debug or trace, or one of them with ,all behind it",
    words: LEVELS,
    read: |text| {
        let (level, ranks) = text.split_once(',')?;
        let (_, logging) = LEVELS.iter().find(|(word, _)| *word == level.trim())?;
        (ranks.trim() == ALL).then_some(Logging { all: true, ..*logging })
    },
    write: |logging| format!("{},{ALL}", logging.level),
};

/// The one of `names` that is most like `text`, if one is like it.
pub(super) fn nearest(text: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let near = names.map(|name| (distance(name, text), name)).min()?;
    // With half of the letters changed it is another word.
    Some(near).filter(|(letters, name)| 2 * letters < name.len()).map(|(_, name)| name)
}

/// Letters to insert, delete, change, or swap with the next (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let change = rows[i][j] + usize::from(a[i] != b[j]);
            let swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
            let swap = if swapped { rows[i - 1][j - 1] + 1 } else { usize::MAX };
            row.push(change.min(swap).min(rows[i][j + 1] + 1).min(row[j] + 1));
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_the_one_with_the_fewest_letters_changed() {
        assert_eq!((distance("abc", "abc"), distance("abc", "bd"), distance("", "xy")), (0, 2, 2));
        let words = || ["block", "spin", "yield"].into_iter();
        assert_eq!(nearest("blokc", words()), Some("block"));
        assert_eq!((nearest("spni", words()), distance("spin", "spni")), (Some("spin"), 1));
        assert_eq!(nearest("spxx", words()), None, "half of its letters differ");
        assert_eq!((nearest("", words()), nearest("x", [].into_iter())), (None, None));
    }
}
