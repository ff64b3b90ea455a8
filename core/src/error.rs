//! The one error type: what went wrong, where (rank, peer, operation, sequence number, round, provider)
//! and what to do about it.

use std::fmt;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What class of failure an [`Error`] is; stable, for programs that react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument of the call is wrong (root out of range, short or overlapping buffer, …).
    Argument,
    /// Ranks disagree: about the operation, its arguments, or a setting.
    Mismatch,
    /// A deadline passed.
    Timeout,
    /// A peer died or its connection broke.
    PeerLost,
    /// Another rank reported an error, or the world was poisoned by an earlier one.
    Aborted,
    /// The provider refused or failed something.
    Transport,
    /// Launcher, PMI or start-up trouble.
    Launch,
    /// A setting cannot be understood or satisfied.
    Config,
    /// A library is missing or too old.
    Library,
    /// The operating system refused (memory, files, limits).
    System,
    /// A rank has revoked the communicator: no call can be made on it any more, and others go on.
    Revoked,
}

/// An error and where it happened. Printed as one line, with the remedy after a semicolon; as `main` prints an error that it
/// returns (by its `Debug`), with the remedy in a line of its own.
#[derive(Clone, thiserror::Error)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    rank: Option<usize>,
    peer: Option<usize>,
    operation: Option<(&'static str, u64)>,
    round: Option<u32>,
    provider: Option<String>,
    reporter: Option<usize>,
    help: Option<String>,
    survived: bool,
}

impl Error {
    /// An error of `kind` that says `message` (lower case, no trailing dot).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            rank: None,
            peer: None,
            operation: None,
            round: None,
            provider: None,
            reporter: None,
            help: None,
            survived: false,
        }))
    }

    /// The class of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The rank that met the error.
    pub fn rank(&self) -> Option<usize> {
        self.0.rank
    }

    /// The rank at fault, where one is known.
    pub fn peer(&self) -> Option<usize> {
        self.0.peer
    }

    /// The operation and its sequence number on its communicator.
    pub fn operation(&self) -> Option<(&'static str, u64)> {
        self.0.operation
    }

    /// The round in which it happened.
    pub fn round(&self) -> Option<u32> {
        self.0.round
    }

    /// The provider that it happened over.
    pub fn provider(&self) -> Option<&str> {
        self.0.provider.as_deref()
    }

    /// The rank that met the error and told us, if we did not meet it ourselves.
    pub fn reporter(&self) -> Option<usize> {
        self.0.reporter
    }

    /// Whether the world goes on after it: a rank is gone where the setting `on-failure` says so, or the communicator is revoked. Calls on
    /// other communicators, and `agree` and `shrink` on this one, can be made then.
    pub fn is_survived(&self) -> bool {
        self.0.survived
    }

    /// What to do about it, where that is known.
    pub fn remedy(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// What happened, without where it happened.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Says which rank met it, unless that is known already.
    pub fn at_rank(mut self, rank: usize) -> Self {
        self.0.rank.get_or_insert(rank);
        self
    }

    /// Says which rank is at fault, unless that is known already.
    pub fn with_peer(mut self, peer: usize) -> Self {
        self.0.peer.get_or_insert(peer);
        self
    }

    /// Says in which operation, unless that is known already.
    pub fn in_operation(mut self, name: &'static str, sequence: u64) -> Self {
        self.0.operation.get_or_insert((name, sequence));
        self
    }

    /// Says in which round, unless that is known already.
    pub fn in_round(mut self, round: u32) -> Self {
        self.0.round.get_or_insert(round);
        self
    }

    /// Says over which provider, unless that is known already.
    pub fn over(mut self, provider: impl Into<String>) -> Self {
        self.0.provider.get_or_insert_with(|| provider.into());
        self
    }

    /// Says which rank met it and told us, unless that is known already.
    pub fn reported_by(mut self, rank: usize) -> Self {
        self.0.reporter.get_or_insert(rank);
        self
    }

    /// Says that the world goes on after it.
    pub fn survived(mut self) -> Self {
        self.0.survived = true;
        self
    }

    /// Says what to do about it, unless that is said already.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.0.help.get_or_insert_with(|| text.into());
        self
    }
}

impl Error {
    /// The error in one line, without the remedy.
    pub fn headline(&self) -> String {
        struct Headline<'a>(&'a Error);
        impl fmt::Display for Headline<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.line(f)
            }
        }
        Headline(self).to_string()
    }

    fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &*self.0;
        if let Some(rank) = e.rank {
            write!(f, "rank {rank}: ")?;
        }
        if let Some((name, sequence)) = e.operation {
            write!(f, "{name} #{sequence}: ")?;
        }
        write!(f, "{}", e.message)?;
        let mut open = " (";
        let mut part = |f: &mut fmt::Formatter<'_>, text: String| {
            let r = write!(f, "{open}{text}");
            open = ", ";
            r
        };
        if let Some(peer) = e.peer {
            part(f, format!("peer {peer}"))?;
        }
        if let Some(round) = e.round {
            part(f, format!("round {round}"))?;
        }
        if let Some(provider) = &e.provider {
            part(f, format!("provider {provider}"))?;
        }
        if let Some(rank) = e.reporter {
            part(f, format!("reported by rank {rank}"))?;
        }
        if open == ", " {
            write!(f, ")")?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line(f)?;
        match &self.0.help {
            Some(help) => write!(f, "{BESIDE}{help}"),
            None => Ok(()),
        }
    }
}

/// What stands between an error and its remedy in one line.
pub const BESIDE: &str = "; ";

/// What stands before a remedy in a line of its own.
pub const BELOW: &str = "  help: ";

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line(f)?;
        match &self.0.help {
            Some(help) => write!(f, "\n{BELOW}{help}"),
            None => Ok(()),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        Self::new(ErrorKind::System, e.to_string())
    }
}

/// Shorthand for an [`ErrorKind::Argument`] error.
pub fn argument(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Argument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_everything_known() {
        let e = Error::new(ErrorKind::Timeout, "block 3 did not arrive within 2 s")
            .at_rank(4)
            .with_peer(1)
            .in_operation("bcast", 17)
            .in_round(5)
            .over("net")
            .help("raise CIRCULANT_DEADLINE");
        assert_eq!(
            e.to_string(),
            "rank 4: bcast #17: block 3 did not arrive within 2 s (peer 1, round 5, provider net); raise CIRCULANT_DEADLINE"
        );
        assert_eq!((e.provider(), e.round()), (Some("net"), Some(5)));
        assert_eq!(Error::new(ErrorKind::Argument, "no").to_string(), "no");
        let told = Error::new(ErrorKind::PeerLost, "gone").with_peer(1).reported_by(3).reported_by(4);
        assert_eq!((told.reporter(), &told.to_string()[..]), (Some(3), "gone (peer 1, reported by rank 3)"));
    }

    /// `fn main() -> circulant::Result<()>` prints it so.
    #[test]
    fn main_prints_the_message() {
        let e = Error::new(ErrorKind::Timeout, "nothing came").at_rank(4).over("net").help("wait longer");
        assert_eq!(
            format!("Error: {e:?}"),
            "Error: rank 4: nothing came (provider net)\n  help: wait longer"
        );
        assert_eq!(format!("{:?}", argument("no")), "no");
    }

    #[test]
    fn the_first_word_stands() {
        let e = argument("x").at_rank(1).at_rank(2).with_peer(3).with_peer(4);
        assert_eq!((e.rank(), e.peer()), (Some(1), Some(3)));
    }
}
