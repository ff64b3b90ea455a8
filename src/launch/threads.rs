//! Ranks as threads of one process: the real engine under test, without processes.

use super::{Gone, Launch, check_key};
use crate::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
struct Shared {
    size: usize,
    nodes: Vec<u32>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    values: HashMap<String, Vec<u8>>,
    /// Ranks inside the present fence, and how many fences are complete.
    inside: usize,
    fences: u64,
    gone: Vec<Gone>,
}

/// One of a group of threads.
#[derive(Debug)]
struct Member {
    shared: Arc<Shared>,
    rank: usize,
    /// How many entries of `gone` were reported.
    told: usize,
    finalized: bool,
}

/// A job of `size` ranks in this process, one [`Launch`] for each thread to take. One that is dropped
/// without [`Launch::finalize`] counts as a rank that died.
pub fn group(size: usize) -> Vec<Box<dyn Launch>> {
    group_on(vec![0; size])
}

/// The same of ranks that are said to be on these nodes, whose numbers are below that of the ranks.
pub fn group_on(nodes: Vec<u32>) -> Vec<Box<dyn Launch>> {
    let size = nodes.len();
    let shared = Arc::new(Shared { size, nodes, state: Mutex::default(), changed: Condvar::new() });
    let member = |rank| Member { shared: Arc::clone(&shared), rank, told: 0, finalized: false };
    (0..size).map(|rank| Box::new(member(rank)) as Box<dyn Launch>).collect()
}

impl Member {
    /// Nothing in here panics with the state half changed, so a poisoned lock is as good as any.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, how: String) {
        let mut state = self.state();
        if !state.gone.iter().any(|g| g.rank == self.rank) {
            state.gone.push(Gone { rank: self.rank, how });
        }
        self.shared.changed.notify_all();
    }

    fn error(&self, kind: ErrorKind, message: String) -> Error {
        Error::new(kind, message).at_rank(self.rank)
    }
}

impl Launch for Member {
    fn name(&self) -> &str {
        "threads"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.size
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        check_key(key)?;
        match self.state().values.entry(key.to_owned()) {
            Entry::Vacant(place) => place.insert(value.to_vec()),
            Entry::Occupied(_) => {
                return Err(self.error(ErrorKind::Launch, format!("the key {key} was put twice")));
            }
        };
        Ok(())
    }

    fn fence(&mut self, deadline: Duration) -> Result<()> {
        let end = Instant::now() + deadline;
        let mut state = self.state();
        let fence = state.fences;
        state.inside += 1;
        if state.inside == self.shared.size {
            state.inside = 0;
            state.fences += 1;
            self.shared.changed.notify_all();
        }
        while state.fences == fence {
            let left = end.saturating_duration_since(Instant::now());
            let gone = state.gone.first().cloned();
            if gone.is_some() || left.is_zero() {
                state.inside -= 1;
                return Err(match gone {
                    Some(Gone { rank, how }) => {
                        let message = format!("rank {rank} is gone ({how}) while we waited for it");
                        self.error(ErrorKind::PeerLost, message).with_peer(rank)
                    }
                    None => self.error(ErrorKind::Timeout, "not all ranks came to the fence".to_owned()),
                });
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        let value = self.state().values.get(key).cloned();
        value.ok_or_else(|| self.error(ErrorKind::Launch, format!("no rank put the key {key}")))
    }

    fn nodes(&self) -> Option<Vec<u32>> {
        Some(self.shared.nodes.clone())
    }

    fn gone(&mut self) -> Option<Gone> {
        loop {
            let next = self.state().gone.get(self.told).cloned()?;
            self.told += 1;
            if next.rank != self.rank {
                return Some(next);
            }
        }
    }

    fn abort(&mut self, code: i32, message: &str) {
        self.leave(format!("aborted the job with code {code}: {message}"));
    }

    fn finalize(&mut self) -> Result<()> {
        self.finalized = true;
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.finalized {
            self.leave("ended without finalize".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn put_fence_get() {
        let ranks = group(7).into_iter().map(|mut me| {
            thread::spawn(move || {
                for round in 0..20 {
                    me.put(&format!("{round}-{}", me.rank()), &[u8::try_from(me.rank()).unwrap(), round])
                        .unwrap();
                    me.fence(LONG).unwrap();
                    let peer = (me.rank() + usize::from(round)) % me.size();
                    let want = [u8::try_from(peer).unwrap(), round];
                    assert_eq!(me.get(&format!("{round}-{peer}")).unwrap(), want);
                }
                assert_eq!(me.gone(), None);
                me.finalize().unwrap();
            })
        });
        for rank in ranks.collect::<Vec<_>>() {
            rank.join().unwrap();
        }
    }

    #[test]
    fn a_lost_member_is_named() {
        let mut all = group(3);
        drop(all.remove(1));
        let error = all[0].fence(LONG).unwrap_err();
        assert_eq!((error.kind(), error.peer()), (ErrorKind::PeerLost, Some(1)));
        all[1].abort(3, "no");
        assert_eq!(all[0].gone().unwrap().rank, 1);
        let second = all[0].gone().unwrap();
        assert_eq!((second.rank, second.how.contains("code 3")), (2, true));
        assert_eq!(all[0].gone(), None);
    }

    #[test]
    fn a_fence_has_a_deadline_and_can_be_repeated() {
        let mut all = group(2);
        let mut one = all.remove(1);
        assert_eq!(all[0].fence(Duration::from_millis(1)).unwrap_err().kind(), ErrorKind::Timeout);
        let other = thread::spawn(move || one.fence(LONG).and_then(|()| one.finalize()));
        all[0].fence(LONG).unwrap();
        other.join().unwrap().unwrap();
    }

    #[test]
    fn a_key_is_put_once() {
        let mut all = group(2);
        all[0].put("k", b"first").unwrap();
        assert_eq!(all[0].put("k", b"second").unwrap_err().kind(), ErrorKind::Launch);
        assert_eq!(all[1].get("k").unwrap(), b"first");
    }
}
