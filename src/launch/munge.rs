//! Munge, the service of a cluster's nodes that says which user a process is of: with it ranks that no launcher started need no word.
//!
//! A rank draws a secret for its connection, and shows rank 0's port a credential in which that stands, beside the port's challenge. Munge
//! encrypts it, tells the port which user has made it, and decodes it once, for processes of that user only. So a port that knows the
//! secret is of the same user, too; what both prove by it is in introduction.rs.

use super::libmunge::MungeLibrary;
use crate::error::{Error, ErrorKind, Result};
use crate::secret::{SECRET_BYTES, nonce};

/// What a credential is for, so that one that the user makes for another purpose is none.
const PURPOSE: &[u8] = b"circulant: a rank at rank 0's port\0";

/// The name of the library.
const LIBRARY: &str = "libmunge.so.2";

/// The munge of this node.
#[derive(Clone)]
pub(super) struct Munge {
    library: MungeLibrary,
    /// Where its daemon listens, if not at the usual place.
    socket: Option<String>,
}

impl std::fmt::Debug for Munge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Munge").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// What the variable says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Where the daemon listens; `None`: at the usual place.
    socket: Option<String>,
}

impl Asked {
    /// Whether it asks for munge.
    ///
    /// # Errors
    /// When it makes no sense.
    pub(super) fn of(value: Option<&str>) -> Result<Option<Self>> {
        match value {
            None | Some("no") => Ok(None),
            Some("yes") => Ok(Some(Self { socket: None })),
            Some(path) if path.starts_with('/') => Ok(Some(Self { socket: Some(path.to_owned()) })),
            Some(other) => Err(Error::new(
                ErrorKind::Launch,
                format!("CIRCULANT_MUNGE={other} is neither yes, no, nor the path of munged's socket"),
            )),
        }
    }

    /// Loads the library.
    ///
    /// # Errors
    /// When it is not there.
    pub(super) fn load(&self) -> Result<Munge> {
        let refused = |why| {
            Error::new(ErrorKind::Library, format!("CIRCULANT_MUNGE is set, and {LIBRARY} cannot be loaded: {why}"))
                .help("install munge on each node (Debian: munge), or name a file with the job's word by CIRCULANT_JOB_FILE")
        };
        let library = MungeLibrary::load(LIBRARY).map_err(refused)?;
        Ok(Munge { library, socket: self.socket.clone() })
    }
}

impl Munge {
    /// A secret for the connection that was challenged by `port`, and the credential that tells it there.
    ///
    /// # Errors
    /// When the daemon does not answer, or the system gives no random numbers.
    pub(super) fn show(&self, port: &[u8; SECRET_BYTES]) -> Result<([u8; SECRET_BYTES], String)> {
        let secret = nonce()?;
        let payload = [PURPOSE, port, &secret].concat();
        let credential = self.library.encode(self.socket.as_deref(), user(), &payload).map_err(|why| {
            Error::new(ErrorKind::Launch, format!("CIRCULANT_MUNGE is set, and munge gives no credential: {why}"))
                .help("munged must run on each node, with the same key; where its socket is elsewhere: CIRCULANT_MUNGE=/path/to/socket")
        })?;
        Ok((secret, credential))
    }

    /// The secret that a credential tells, of a process of our user that was challenged by `port`; else why it does not count.
    pub(super) fn read(
        &self,
        port: &[u8; SECRET_BYTES],
        credential: &str,
    ) -> std::result::Result<[u8; SECRET_BYTES], String> {
        let (whose, payload) = self
            .library
            .decode(self.socket.as_deref(), credential)
            .map_err(|why| format!("munge refuses its credential: {why}"))?;
        if whose != user() {
            return Err(format!("munge says that it is of user {whose}, and this job is of user {}", user()));
        }
        let told = payload.strip_prefix(PURPOSE).and_then(|rest| rest.strip_prefix(port));
        let secret = told.and_then(|secret| secret.try_into().ok());
        secret.ok_or_else(|| "its munge credential is of another connection".to_owned())
    }
}

/// The user as whom munge knows this process.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable() {
        assert_eq!(Asked::of(None).unwrap(), None);
        assert_eq!(Asked::of(Some("no")).unwrap(), None);
        assert_eq!(Asked::of(Some("yes")).unwrap(), Some(Asked { socket: None }));
        let socket = Some("/run/munge/other".to_owned());
        assert_eq!(Asked::of(Some("/run/munge/other")).unwrap(), Some(Asked { socket }));
        let e = Asked::of(Some("maybe")).unwrap_err();
        assert!(e.to_string().contains("CIRCULANT_MUNGE=maybe is neither yes, no"), "{e}");
    }
}
