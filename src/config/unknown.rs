//! Environment variables that look like settings and are none.

use super::SETTINGS;

/// What every variable of this library begins with.
const PREFIX: &str = "CIRCULANT_";

/// Set by `circulant run` for its ranks.
const SIDE_FD: &str = "CIRCULANT_SIDE_FD";

/// A `CIRCULANT_…` variable that is no setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its name.
    pub name: String,
    /// The variable that is most like it, if one is like it.
    pub near: Option<&'static str>,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is set, and no setting has that name", self.name)
    }
}

impl Unknown {
    /// What to do about it.
    pub fn help(&self) -> String {
        match self.near {
            Some(near) => format!("did you mean {near}?"),
            None => "circulant info lists all settings".to_owned(),
        }
    }
}

/// Those of `names` that look like settings and are none. `others`: variables that something else reads, such as those
/// that tell a process its place ([`crate::launch::environment::VARIABLES`]).
pub fn unknown(names: impl IntoIterator<Item = String>, others: &[&'static str]) -> Vec<Unknown> {
    let known = || SETTINGS.iter().map(|s| s.variable).chain(others.iter().copied());
    let is_known = |name: &String| name == SIDE_FD || known().any(|k| k == name);
    let strange = names.into_iter().filter(|name| name.starts_with(PREFIX) && !is_known(name));
    let mut all: Vec<Unknown> = strange
        .map(|name| {
            let near = known().map(|k| (distance(&k[PREFIX.len()..], &name[PREFIX.len()..]), k)).min();
            // Half of the letters changed is another word.
            let near = near.filter(|(letters, k)| 2 * letters < k.len() - PREFIX.len()).map(|(_, k)| k);
            Unknown { name, near }
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The names of this process's environment variables.
pub fn variables() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
}

/// Letters to insert, delete or change (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_told() {
        let found = |name: &str| unknown([name.to_owned()], &["CIRCULANT_RANK"]);
        for (name, near) in [
            ("CIRCULANT_PROVDER", Some("CIRCULANT_PROVIDER")),
            ("CIRCULANT_DEADLIEN", Some("CIRCULANT_DEADLINE")),
            ("CIRCULANT_RNK", Some("CIRCULANT_RANK")),
            ("CIRCULANT_", None),
            ("CIRCULANT_MY_OWN_AFFAIR", None),
        ] {
            let all = found(name);
            assert_eq!((all.len(), all[0].near), (1, near), "{name}");
            assert!(all[0].help().contains(near.unwrap_or("circulant info")), "{name}");
        }
        for name in ["CIRCULANT_RANK", "CIRCULANT_LOG", "PATH", "circulant_log", "CIRCULANT"] {
            assert_eq!(found(name), [], "{name}");
        }
        assert_eq!((distance("abc", "abc"), distance("abc", "bd"), distance("", "xy")), (0, 2, 2));
    }
}
