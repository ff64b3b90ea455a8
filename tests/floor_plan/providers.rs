//! What a transport can do is asked of its `Limits`, and never read out of a provider's name.

use crate::{CRATES, nothing, root, rust_files, shown};

/// Files that may compare the names of providers: those that look for the one that was asked for, know what each does
/// otherwise than it says, or parse the setting `provider`.
const ALLOWED: &[&str] = &[
    "core/src/select/wires.rs",
    "src/transport/fabric/interfaces.rs",
    "src/transport/fabric/peers.rs",
    "src/transport/fabric/quirks.rs",
    "src/transport/fabric/select.rs",
    "src/transport/remote.rs",
    "src/transport/route.rs",
    "tool/src/info/problems.rs",
    "tool/src/wire.rs",
];

/// Providers' names beside those of the table in `quirks.rs`.
const OURS: &[&str] = &["shm", "+shm", "fi_shm", "rxm", "verbs", "ibverbs", "udp", "sim"];

/// What a line that compares text has in it.
const COMPARES: &[&str] = &[
    "==",
    "!=",
    "=>",
    "matches!(",
    "starts_with(",
    "ends_with(",
    "contains(",
    "strip_suffix(",
    "strip_prefix(",
];

/// The names of all providers.
fn names() -> Vec<String> {
    let table = std::fs::read_to_string(root().join("src/transport/fabric/quirks.rs")).unwrap();
    let entry = |line: &str| Some(line.trim().strip_prefix("provider: \"")?.split('"').next()?.to_owned());
    let entries = table.lines().filter_map(entry).filter(|name| !name.is_empty());
    entries.chain(OURS.iter().map(|name| (*name).to_owned())).collect()
}

/// The lines of `source`, up to its tests, that compare a provider's name: with one of `names`, or whatever it is.
fn compared(file: &str, source: &str, names: &[String]) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let compares = |line: &str| {
        let named = names.iter().any(|name| line.contains(&format!("\"{name}\"")));
        let of_provider =
            ["provider", "provider()", "provider.as_str()", "provider.as_deref()"].iter().any(|p| {
                COMPARES
                    .iter()
                    .any(|c| line.contains(&format!("{p} {c}")) || line.contains(&format!("{p}.{c}")))
            });
        of_provider || named && COMPARES.iter().any(|c| line.contains(c))
    };
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines
        .filter(|(_, line)| compares(line))
        .map(|(i, line)| format!("{file}:{}: ask the limits of the endpoint: {}", i + 1, line.trim()))
        .collect()
}

#[test]
fn no_capability_is_read_out_of_a_providers_name() {
    let names = names();
    assert!(names.len() > OURS.len() + 10, "found only {names:?}");
    let files: Vec<_> = CRATES.iter().flat_map(|(folder, _)| rust_files(folder)).collect();
    let judged = files.iter().filter(|f| !ALLOWED.contains(&shown(f).as_str()));
    nothing(
        &judged
            .flat_map(|f| compared(&shown(f), &std::fs::read_to_string(f).unwrap(), &names))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn compared_names_are_found() {
    let names = names();
    for line in [
        "let hangs = provider != SHM;",
        "if limits.provider == FI_SHM {",
        "let readers = world.provider() == \"shm\";",
        "provider.strip_suffix(AND_SHM)",
        "limits.provider.starts_with(x)",
        "match name { \"tcp;ofi_rxm\" => 3,",
        "let far = asked.strip_suffix(\"+shm\");",
    ] {
        assert_eq!(compared("x", &format!("\n{line}\n"), &names).len(), 1, "{line}");
    }
    for line in ["// provider == \"shm\"", "Limits::new(\"shm\")", "e.over(\"shm\")", "let name = \"tcp\";"] {
        assert_eq!(compared("x", line, &names), [""; 0], "{line}");
    }
}
