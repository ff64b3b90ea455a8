//! Rank, size and nodes of a job, and keys and values of its ranks: one small trait and its implementations.

pub mod environment;
pub mod libpmi;
pub mod mapping;
pub mod pmi1;
pub mod pmix;
pub mod single;
pub mod threads;

// What the process manager shares with its clients; no part of the interface that users rely on.
#[doc(hidden)]
pub mod hostlist;
#[doc(hidden)]
pub mod side;
#[doc(hidden)]
pub mod wire;

mod detect;
mod exit;
mod fd;
mod foreign;
mod introduction;
#[cfg(test)]
mod intruders;
mod libmunge;
mod munge;
mod root;
mod session;
mod stream;
mod switches;
mod value;
mod variables;
mod worker;

pub use detect::{detect, expected_size};

use crate::error::{Error, Result, argument};
use crate::secret::Secret;
use std::time::Duration;

/// A launcher's key-value space and process group, seen from one rank.
///
/// # Which thread calls what
/// [`World::init`](crate::World::init) and [`Builder::init`](crate::comm::Builder::init) call all but `finalize` in the thread that they
/// are called in; so do `finalize` and `abort` of [`World`](crate::World), and [`Finalizing::test`](crate::comm::Finalizing::test). No other call of a
/// program, and no thread of the library, calls anything but these:
///
/// - [`Launch::gone`] and [`Launch::report`]: any thread that is in a call of the world, the watchdog and the progress thread. One
///   that can speak to its launcher in some threads only, as an MPI with less than `MPI_THREAD_SERIALIZED`, returns `None` there and
///   does nothing: ranks that are gone show by their connections and processes, too.
/// - [`Launch::fence`], at the end: a thread of its own, where [`Launch::start_fence`] says that there is no other way.
///
/// One call at a time. It is dropped with the last of the world's communicators, in whichever thread that is.
pub trait Launch: Send + std::fmt::Debug {
    /// How we were started (`pmi1 (PMI_FD)`, `single`, `threads`, …).
    fn name(&self) -> &str;
    /// Our rank, below [`Launch::size`].
    fn rank(&self) -> usize;
    /// How many ranks there are.
    fn size(&self) -> usize;
    /// Publishes `value` (any bytes, any length) under `key` (≤ 32 characters of `[a-z0-9-]`), once. Keys say whose
    /// they are: one that ends in `-<rank>` is put by that rank, any other by rank 0.
    ///
    /// # Errors
    /// When the launcher refuses or is gone.
    fn put(&mut self, key: &str, value: &[u8]) -> Result<()>;
    /// As [`Launch::put`], of a value that only these ranks read, of which ours is one. Where the launcher has put all of them on one node it
    /// may leave the value there: `circulant run` and PMIx do; others take it to all ranks, as this default does.
    ///
    /// # Errors
    /// As [`Launch::put`].
    fn put_for(&mut self, key: &str, value: &[u8], readers: &[u32]) -> Result<()> {
        let _ = readers;
        self.put(key, value)
    }
    /// Waits until all ranks called it; what was put before is visible after.
    ///
    /// # Errors
    /// After `deadline`, or when the launcher is gone.
    fn fence(&mut self, deadline: Duration) -> Result<()>;
    /// Begins a fence as [`Launch::fence`] is one, of which [`Launch::test_fence`] tells the end, and returns without waiting. `false`:
    /// this launcher has no such fence, and none has begun. All ranks of a job say the same.
    ///
    /// # Errors
    /// When the launcher is gone.
    fn start_fence(&mut self) -> Result<bool> {
        Ok(false)
    }
    /// Whether all ranks have come to the fence that was begun. Never waits. Until it says so no other method but
    /// [`Launch::late`], [`Launch::gone`], [`Launch::report`] and [`Launch::abort`] is called.
    ///
    /// # Errors
    /// When none was begun; when the launcher, or a rank that has not come, is gone.
    fn test_fence(&mut self) -> Result<bool> {
        Err(argument("no fence was begun"))
    }
    /// The ranks that have not come to the fence that was begun and that [`Launch::test_fence`] has not seen complete, as far as the
    /// launcher tells: `circulant run` those of this rank's node. `None`: it does not tell.
    fn late(&mut self) -> Option<Vec<usize>> {
        None
    }
    /// Reads what a rank put under `key` before the last fence. Never ask for a key that no rank put.
    ///
    /// # Errors
    /// When the key is not there or the launcher is gone.
    fn get(&mut self, key: &str) -> Result<Vec<u8>>;
    /// What the user has given the ranks to know, beside what the launcher keeps among them; where nothing was given, that of an
    /// empty word.
    fn secret(&self) -> Secret {
        Secret::of_word("")
    }
    /// The node index of every rank, where the launcher says so.
    fn nodes(&self) -> Option<Vec<u32>>;
    /// The name of the group of nodes that ours is in, where the launcher says so to this rank: those that are nearer to each other
    /// than to others. As it is, what Slurm says of switches, whichever launcher it is.
    fn group(&self) -> Option<String> {
        switches::group(&variables::from_environment)
    }
    /// A rank that the launcher knows to be gone, and how it ended; each once, in order. Never waits; may
    /// cost a system call.
    fn gone(&mut self) -> Option<Gone>;
    /// Tells the launcher of the error that ends our part, in the words in which the program gets it. Never waits. One that tells
    /// at the end of the job why it failed, as `circulant run` does, uses it; for others there is nothing to do.
    fn report(&mut self, error: &Error) {
        let _ = error;
    }
    /// Asks the launcher to end the whole job with `code`.
    fn abort(&mut self, code: i32, message: &str);
    /// Leaves the job, or ends this world where others may follow ([`detect()`]).
    ///
    /// # Errors
    /// When the launcher is gone.
    fn finalize(&mut self) -> Result<()>;
}

/// A rank that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its rank.
    pub rank: usize,
    /// How it ended ("killed by signal 9 (SIGKILL)", "exited with code 3").
    pub how: String,
}

/// The rank that puts `key`: the number behind its last dash, else rank 0.
fn owner(key: &str) -> usize {
    key.rsplit_once('-').and_then(|(_, rank)| rank.parse().ok()).unwrap_or(0)
}

/// Refuses keys that some launcher would not carry.
fn check_key(key: &str) -> Result<()> {
    // What a session has put in front is no part of it.
    let number = key.split_once('_').filter(|(n, _)| n.parse::<u32>().is_ok_and(|n| n > 1));
    let key = number.map_or(key, |(_, key)| key);
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if key.is_empty() || key.len() > 32 || !key.bytes().all(fine) {
        return Err(argument(format!("{key:?} is not a key: 1 to 32 characters of a-z, 0-9 and -")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let long = "k".repeat(32);
        for good in ["a", "a-7", &long, "2_a-7", &format!("4294967295_{long}")] {
            assert!(check_key(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "a b", "a.1", "_a", "1_a", "2_", "x_a", "2_3_a", &format!("{long}k")] {
            assert!(check_key(bad).is_err(), "{bad}");
        }
        assert_eq!(["settings", "a-b-12", "2_addr-3", "2_settings"].map(owner), [0, 12, 3, 0]);
    }
}
