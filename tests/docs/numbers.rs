//! Numbers in documents that are constants of the code: neither changes alone. A phrase of a document has `{}` where the
//! value of a constant of the sources stands.

use super::{files, read};
use circulant::config::SETTINGS;
use std::collections::BTreeSet;

/// How a value is written.
#[derive(Clone, Copy, Debug)]
enum As {
    Number,
    /// `eight`, `a hundred`.
    Word,
    /// `4 KiB`.
    Size,
    /// `0.4 s`, `10 ms`, `50 us`.
    Time,
}
use As::{Number, Size, Time, Word};

/// Document, phrase, the folder or file that has the constant, the constant, how it is written.
type Fact = (&'static str, &'static str, &'static str, &'static str, As);

const DESIGN: &str = "docs/design.md";
const LAUNCH: &str = "docs/launch.md";

const FACTS: &[Fact] = &[
    // Choice and plans.
    (
        DESIGN,
        "once, as the last {} choices are remembered",
        "core/src/select/choice.rs",
        "MAX_REMEMBERED_CHOICES",
        Number,
    ),
    (DESIGN, "into one run (at most {}, so that", "core/src/plan/lower", "MAX_RUN_BYTES", Size),
    (DESIGN, "One-shot calls keep their last {} programs", "src/comm", "MAX_CACHED_PROGRAMS", Number),
    // The engine.
    (DESIGN, "Limits: {} operations in flight", "src/engine", "IN_FLIGHT", Number),
    (DESIGN, "(slots from {} up belong to start-up", "src/engine", "IN_FLIGHT", Number),
    (DESIGN, "The last {} calls are remembered", "src/engine/history.rs", "REMEMBERED_CALLS", Number),
    (DESIGN, "into a message ({} over sockets", "src/engine", "EAGER_LIMIT_BYTES", Size),
    (DESIGN, "a rank may have {} such messages", "src/engine", "CREDITS", Number),
    (DESIGN, "share {} credits at a rank", "src/engine", "SHARED_CREDITS", Number),
    (DESIGN, "credits at a rank, {} each at most", "src/engine", "CREDITS", Number),
    (DESIGN, "64 KiB and {} puts;", "src/engine", "WINDOW_PUTS", Number),
    (DESIGN, "nothing goes that is over {} rounds", "src/engine", "ROUNDS_AHEAD", Number),
    (DESIGN, "It **lingers** (at most {})", "src/engine", "LINGER", Time),
    (DESIGN, "peer is merely *suspected* for {};", "src/engine", "SUSPICION", Time),
    (DESIGN, "- **statuses**: after {}, before each warning", "src/engine", "QUERY_AFTER", Time),
    (DESIGN, "tells it in which call after {}, then", "src/engine", "TELL_AFTER", Time),
    (DESIGN, "s, then every {}, so calls that do", "src/engine", "TELL_EVERY", Time),
    (DESIGN, "a rank that waits for {} tells the one", "src/engine", "TELL_AFTER", Time),
    (DESIGN, "The slow checks are made every {},", "src/engine", "LIVENESS_EVERY", Time),
    (DESIGN, "So a sleep lasts up to {} (", "src/engine", "LONG_REST", Time),
    (DESIGN, "({} while the transport refuses something", "src/engine", "SHORT_REST", Time),
    // Transports.
    (DESIGN, "(`fi_cq_sread`) after {} in vain", "src/transport/idle.rs", "POLL_BEFORE_SLEEP", Time),
    (DESIGN, "while a yield takes over {}:", "src/transport/idle.rs", "CONTENDED", Time),
    (DESIGN, "A put of up to {} goes through the ring", "src/transport/shm", "MAX_INLINE_BYTES", Size),
    (DESIGN, "copied in pieces of {} to the reader's own", "src/transport/shm", "MAX_PIECE_BYTES", Size),
    (
        DESIGN,
        "goes through a shared chunk, in parts of {},",
        "src/transport/shm/bounce.rs",
        "MAX_PART_BYTES",
        Size,
    ),
    (
        DESIGN,
        "an area in each member's shared memory with {} slots of 16 KiB",
        "src/transport/call_slots",
        "USUAL_LONG_SLOTS",
        Word,
    ),
    (
        DESIGN,
        "slots of 16 KiB, and {} short ones for ranks that share cores",
        "src/transport/call_slots",
        "USUAL_SHORT_SLOTS",
        Number,
    ),
    (
        DESIGN,
        "what a rank shows to others is at most {}:",
        "src/transport/call_slots",
        "MAX_POST_BYTES",
        Size,
    ),
    (
        DESIGN,
        "for each communicator, at most {} at once for a rank",
        "src/transport/slot_pool.rs",
        "MAX_CALL_SLOTS",
        Number,
    ),
    (DESIGN, "longest put that the rails offer is {},", "src/transport/rails.rs", "STRIPE_BYTES", Size),
    // Short calls.
    (DESIGN, "of at most {} ranks of one node is no plan", "src/comm", "MAX_MEMBERS", Number),
    (DESIGN, "{} times; then the engine moves everything else on", "src/comm", "FLAG_SPINS", Number),
    (
        DESIGN,
        "From {} of all ranks on, if there are more than two, each folds its part",
        "src/comm",
        "SPLIT_FOLD_BYTES",
        Size,
    ),
    // Launchers.
    (
        DESIGN,
        "So an agent may owe the launcher's reader {} per stream",
        "launcher/src/output.rs",
        "WINDOW",
        Size,
    ),
    (
        LAUNCH,
        "no line longer than 768 bytes is read, for {}; then it is closed",
        "src/launch",
        "INTRODUCTION_TIME",
        Time,
    ),
    (LAUNCH, "no line longer than {} bytes is read", "src/launch", "INTRODUCTION_MAX_BYTES", Number),
    (LAUNCH, "{} such may be open at a time;", "src/launch", "UNIDENTIFIED_MAX", Number),
    (LAUNCH, "{} and more the first rank reads", "src/comm", "MIN_READER_NODE_RANKS", Number),
];

#[test]
fn numbers_in_documents_are_those_of_the_code() {
    let mut wrong = Vec::new();
    for (document, phrase, folder, name, written) in FACTS {
        let said = words(&read(document));
        match value(folder, name).map(|value| phrase.replace("{}", &text(value, *written))) {
            Ok(expected) if said.contains(&expected) => {}
            Ok(expected) => wrong.push(format!("{document} does not say: {expected} ({folder}: {name})")),
            Err(why) => wrong.push(why),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The words in capitals.
fn capitals(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c != '_' && !c.is_ascii_uppercase()).map(|w| w.trim_end_matches('_'))
}

/// Settings that the documents name are in the table, by their variable; other such names are those of the C interface.
#[test]
fn settings_in_documents_exist() {
    let mut documents = vec!["README.md".into(), "CONTRIBUTING.md".into()];
    files("docs", ".md", &mut documents);
    let told = circulant::launch::environment::VARIABLES;
    let header = read("capi/include/circulant.h");
    let variables = SETTINGS
        .iter()
        .map(|s| s.variable)
        .chain(told.iter().copied())
        .chain(circulant::config::MPI_VARIABLES);
    let known: BTreeSet<&str> = variables.chain(capitals(&header)).collect();
    for document in documents {
        let text = read(&document);
        // `circulant run` sets it for its ranks.
        let strange = capitals(&text).filter(|w| w.starts_with("CIRCULANT_") && *w != "CIRCULANT_SIDE_FD");
        let strange: Vec<&str> = strange.filter(|w| !known.contains(w)).collect();
        assert!(strange.is_empty(), "{}: no setting is called {strange:?}", document.display());
    }
}

/// Defaults that the documents tell.
#[test]
fn defaults_in_documents_are_those_of_the_table() {
    let default = |name: &str| SETTINGS.iter().find(|s| s.name == name).map(|s| s.default);
    let facts = [
        (
            "warn-after",
            "60",
            "docs/troubleshooting.md",
            "has not come to bcast #7 for 60 s; …`), each minute",
        ),
        ("deadline", "off", DESIGN, "A wait for a living rank has no limit by default"),
        ("progress", "calls", DESIGN, "unless the setting `progress` is `thread`"),
        ("rails", "1", DESIGN, "One rail is the default"),
    ];
    for (name, value, document, phrase) in facts {
        assert_eq!(default(name), Some(value), "{name}: {document} says another default");
        assert!(words(&read(document)).contains(phrase), "{document} does not say: {phrase}");
    }
}

/// `text` in one line, with one blank between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The value of the constant `name`, which one file of `folder` has; of a duration in nanoseconds.
fn value(folder: &str, name: &str) -> Result<u64, String> {
    let mut sources = Vec::new();
    if folder.ends_with(".rs") {
        sources.push(folder.into())
    } else {
        files(folder, ".rs", &mut sources)
    }
    let begin = format!("const {name}: ");
    let found: Vec<String> = sources
        .iter()
        .filter_map(|file| {
            let source = read(file);
            let (_, rest) = source.split_once(&begin)?;
            // Not one of a test's own.
            let (_, expression) = rest.split_once(" = ")?;
            Some(expression.split(';').next().unwrap_or_default().to_owned())
        })
        .collect();
    match &found[..] {
        [expression] => {
            evaluate(expression).ok_or_else(|| format!("{folder}: {name} = {expression}: no number"))
        }
        _ => Err(format!("{folder} has {} constants called {name}", found.len())),
    }
}

/// A number, a shifted one, or the first such in a call; what holds outside of tests, where that differs.
fn evaluate(expression: &str) -> Option<u64> {
    let usual = expression.rsplit(" else ").next()?.rsplit("=> ").next()?;
    let mut numbers = usual
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter_map(|word| word.replace('_', "").parse::<u64>().ok());
    let first = numbers.next()?;
    let value = if usual.contains(" << ") { first << numbers.next()? } else { first };
    let scale = [("from_secs", 1_000_000_000), ("from_millis", 1_000_000), ("from_micros", 1000)];
    let scale = scale.iter().find(|(unit, _)| usual.contains(unit)).map_or(1, |(_, scale)| *scale);
    Some(value * scale)
}

fn text(value: u64, written: As) -> String {
    let words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    match written {
        Word => usize::try_from(value).ok().and_then(|i| words.get(i)).map_or("?", |w| *w).to_owned(),
        Number if value >= 10_000 => format!("{} {:03}", value / 1000, value % 1000),
        Number => value.to_string(),
        Size if value.is_multiple_of(1 << 20) => format!("{} MiB", value >> 20),
        Size if value.is_multiple_of(1 << 10) => format!("{} KiB", value >> 10),
        Size => format!("{value} bytes"),
        Time if value >= 100_000_000 => format!("{} s", value as f64 / 1e9),
        Time if value >= 1_000_000 => format!("{} ms", value as f64 / 1e6),
        Time => format!("{} us", value as f64 / 1e3),
    }
}

#[test]
fn expressions_have_values() {
    let cases = [
        ("8000", 8000, Size, "8000 bytes"),
        ("1 << 14", 16_384, Number, "16 384"),
        ("super::bound(12, 4)", 12, Number, "12"),
        ("Duration::from_millis(400)", 400_000_000, Time, "0.4 s"),
        ("if cfg!(test) { 2 } else { 16 << 10 }", 16_384, Size, "16 KiB"),
        ("match () {\n    _ if cfg!(loom) => 16,\n    _ => 1 << 20,\n}", 1 << 20, Size, "1 MiB"),
        ("8", 8, Word, "eight"),
    ];
    for (expression, expected, written, said) in cases {
        assert_eq!(evaluate(expression), Some(expected), "{expression}");
        assert_eq!(text(expected, written), said);
    }
}
