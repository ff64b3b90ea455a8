//! PMIx, by loading its library: `srun --mpi=pmix`, `mpirun` of Open MPI, PRRTE's `prterun`.
//!
//! Used: init, put, commit, fence that collects (so that a get asks no other node), get, abort, finalize. Values go
//! whole. A key that no rank put is never asked for: some servers would let us wait for ever.

use super::foreign::{Found, NoPmix, PmixLibrary};
use super::session::Client;
use super::worker::Worker;
use super::{Gone, Launch, check_key, owner};
use crate::config::Library;
use crate::error::{Error, ErrorKind, Result};
use std::time::Duration;

/// A rank of a job whose launcher speaks PMIx.
#[derive(Debug)]
pub struct Pmix {
    worker: Worker<PmixLibrary>,
    size: usize,
    /// The ranks that the launcher has put on our node, from the first to the last of each row of them.
    peers: Vec<(usize, usize)>,
}

/// More ranks than any machine has: the launcher is broken.
const SIZE_MAX: usize = 1 << 24;

impl Pmix {
    /// Joins the job that the environment tells, with the library `library` (a name or path; `auto`: the launcher's
    /// own, if it says where that is, else libpmix.so.2). Each answer must come within `timeout`.
    ///
    /// # Errors
    /// When the library is missing, or does not reach its launcher.
    pub fn join(library: &Library, timeout: Duration) -> Result<Self> {
        let names = names(library.name(), std::env::var("PMIX_PREFIX").ok().as_deref());
        let late = || NoPmix::Refused(format!("PMIx_Init did not return within {} s", timeout.as_secs_f64()));
        let worker =
            Worker::start("pmix", move || PmixLibrary::join(&names), timeout, late).map_err(refused)?;
        let mut pmix = Self { worker, size: 0, peers: Vec::new() };
        let (file, version, rank) =
            pmix.worker.call("version", |p| (p.name().to_owned(), p.version(), p.rank()))?;
        let version = version.split(',').next().unwrap_or("").split(" (").next().unwrap_or("").to_owned();
        tracing::debug!(file, version, "PMIx");
        pmix.worker.name = format!("pmix ({version})");
        let size = match pmix.ask("pmix.job.size")? {
            Ok(Found::Number(n)) => n,
            Ok(_) => return Err(pmix.worker.error(ErrorKind::Launch, "pmix.job.size is no number")),
            Err(why) => {
                return Err(pmix.worker.error(ErrorKind::Launch, &format!("the size of the job: {why}")));
            }
        };
        (pmix.worker.rank, pmix.size) = (rank as usize, size as usize);
        if rank >= size || pmix.size > SIZE_MAX {
            let what = format!("the launcher says we are rank {rank} of {size}");
            return Err(pmix.worker.error(ErrorKind::Launch, &what));
        }
        // The job's peers on this node. The nodes of the other ranks we find out ourselves: launchers err there.
        if let Ok(Found::Text(peers)) = pmix.ask("pmix.lpeers")? {
            pmix.peers = rows(&peers).unwrap_or_default();
        }
        Ok(pmix)
    }

    /// What is known about the job; the inner error is the library's.
    fn ask(&mut self, key: &'static str) -> Result<Result<Found, String>> {
        self.worker.call(key, move |p| p.get(None, key))
    }

    fn publish(&mut self, key: &str, value: &[u8], local: bool) -> Result<()> {
        check_key(key)?;
        if owner(key) != self.worker.rank {
            let what = format!("the key {key} is rank {}'s to put", owner(key));
            return Err(self.worker.error(ErrorKind::Argument, &what));
        }
        let (key, value) = (full(key), value.to_vec());
        let done = self.worker.call("PMIx_Put", move |p| p.put(&key, &value, local))?;
        self.worker.checked(done)
    }
}

/// What to load: the setting, or the launcher's own library before that of the system, as they understand each other
/// best.
fn names(library: &str, prefix: Option<&str>) -> Vec<String> {
    if library != "auto" {
        return vec![library.to_owned()];
    }
    let own = prefix.filter(|p| p.starts_with('/'));
    let own = own
        .into_iter()
        .flat_map(|p| ["lib/openmpi", "lib", "lib64"].map(|d| format!("{p}/{d}/libpmix.so.2")));
    own.chain(["libpmix.so.2", "libpmix.so"].map(str::to_owned)).collect()
}

fn refused(why: NoPmix) -> Error {
    match why {
        NoPmix::Missing(why) => {
            let message = format!("a PMIx launcher started us, but its library cannot be loaded: {why}");
            Error::new(ErrorKind::Library, message).help(
                "install libpmix (Debian: libpmix2) on every node, or name it by CIRCULANT_LIBPMIX; under Slurm, srun \
                 --mpi=pmi2 needs none",
            )
        }
        NoPmix::Refused(why) => Error::new(ErrorKind::Launch, format!("a PMIx launcher started us, but: {why}"))
            .help(
                "start it by mpirun, prterun or srun --mpi=pmix itself (not in an environment copied from one); for a \
                 job of its own size 1 set CIRCULANT_LAUNCHER=single",
            ),
    }
}

/// The rows of `peers` ("0,2,1", also "0-2").
fn rows(peers: &str) -> Option<Vec<(usize, usize)>> {
    let row = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        (first <= last).then_some((first, last))
    };
    peers.split(',').map(row).collect()
}

/// Whether these rows are of as many ranks as `size`.
fn covers(rows: &[(usize, usize)], size: usize) -> bool {
    let count =
        rows.iter().try_fold(0usize, |sum, (first, last)| sum.checked_add((last - first).checked_add(1)?));
    count == Some(size)
}

/// The key as it stands in the launcher.
fn full(key: &str) -> String {
    format!("circulant-{key}")
}

impl Launch for Pmix {
    fn name(&self) -> &str {
        &self.worker.name
    }

    fn rank(&self) -> usize {
        self.worker.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.publish(key, value, false)
    }

    fn put_for(&mut self, key: &str, value: &[u8], readers: &[u32]) -> Result<()> {
        let here =
            |rank: &u32| self.peers.iter().any(|(first, last)| (*first..=*last).contains(&(*rank as usize)));
        let local = readers.iter().all(here);
        self.publish(key, value, local)
    }

    fn fence(&mut self, deadline: Duration) -> Result<()> {
        let done = self.worker.within(deadline, "PMIx_Fence", PmixLibrary::fence)?;
        self.worker.checked(done)
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        check_key(key)?;
        let (rank, name) = (u32::try_from(owner(key)).ok(), full(key));
        self.worker.value("PMIx_Get", key, move |pmix| {
            Ok(match pmix.get(rank, &name)? {
                Found::Bytes(bytes) => Ok(bytes),
                _ => Err("is not ours: no bytes".to_owned()),
            })
        })
    }

    fn nodes(&self) -> Option<Vec<u32>> {
        covers(&self.peers, self.size).then(|| vec![0; self.size])
    }

    fn gone(&mut self) -> Option<Gone> {
        // PMIx has events for this; real launchers do not send them.
        None
    }

    fn abort(&mut self, code: i32, message: &str) {
        self.worker.abort(PmixLibrary::abort, code, message);
    }

    fn finalize(&mut self) -> Result<()> {
        let done = self.worker.call("PMIx_Finalize", PmixLibrary::finalize)?;
        self.worker.close("already finalized");
        self.worker.checked(done)
    }
}

impl Client for Pmix {
    fn leave(&mut self) -> Result<bool> {
        self.worker.usable().map(|()| false)
    }

    fn rejoin(&mut self) -> Result<()> {
        self.worker.usable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_counted() {
        let all = |peers, size| rows(peers).is_some_and(|rows| covers(&rows, size));
        assert!(all("0,2,1", 3) && all("0-3", 4) && all("0-1, 3", 3) && all("0", 1));
        for bad in ["", "0,", "x", "3-1", "0-18446744073709551615,0", "0-1-2"] {
            assert!(!all(bad, 2), "{bad}");
        }
    }

    #[test]
    fn the_launchers_own_library_comes_first() {
        assert_eq!(names("/x/libpmix.so", Some("/opt/prrte")), ["/x/libpmix.so"]);
        assert_eq!(names("auto", None), ["libpmix.so.2", "libpmix.so"]);
        assert_eq!(names("auto", Some("/opt/prrte"))[1], "/opt/prrte/lib/libpmix.so.2");
        assert_eq!(names("auto", Some("relative")).len(), 2);
    }
}
