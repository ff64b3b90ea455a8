//! Ranks as threads of one process: the real engine under test, without processes.

use super::{Gone, Launch, check_key};
use crate::error::{Error, ErrorKind, Result, argument};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
struct Shared {
    size: usize,
    nodes: Vec<u32>,
    groups: Vec<u32>,
    state: Mutex<State>,
    changed: Condvar,
}

/// A value, and the ranks that may read it, where not all may.
type Published = (Vec<u8>, Option<Vec<u32>>);

#[derive(Debug, Default)]
struct State {
    values: HashMap<String, Published>,
    /// Ranks inside the present fence, and how many fences are complete.
    inside: BTreeSet<usize>,
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
    /// The fence that it has begun and that was not seen complete yet.
    fence: Option<u64>,
    finalized: bool,
}

/// A job of `size` ranks in this process, one [`Launch`] for each thread to take. One that is dropped
/// without [`Launch::finalize`] counts as a rank that died.
pub fn group(size: usize) -> Vec<Box<dyn Launch>> {
    group_on(vec![0; size])
}

/// The same of ranks that are said to be on these nodes, whose numbers are below that of the ranks.
pub fn group_on(nodes: Vec<u32>) -> Vec<Box<dyn Launch>> {
    group_in(nodes, Vec::new())
}

/// The same of nodes that are said to be in these groups, by rank; of ranks that have none there nothing is said.
pub fn group_in(nodes: Vec<u32>, groups: Vec<u32>) -> Vec<Box<dyn Launch>> {
    let size = nodes.len();
    let shared = Arc::new(Shared { size, nodes, groups, state: Mutex::default(), changed: Condvar::new() });
    let member = |rank| Member { shared: Arc::clone(&shared), rank, told: 0, fence: None, finalized: false };
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

    /// It does not wait in its fence any more, if that is not complete.
    fn leave_fence(&mut self) {
        let fence = self.fence.take();
        let mut state = self.state();
        if fence == Some(state.fences) {
            state.inside.remove(&self.rank);
        }
    }

    fn publish(&self, key: &str, value: &[u8], readers: Option<Vec<u32>>) -> Result<()> {
        check_key(key)?;
        match self.state().values.entry(key.to_owned()) {
            Entry::Vacant(place) => place.insert((value.to_vec(), readers)),
            Entry::Occupied(_) => {
                return Err(self.error(ErrorKind::Launch, format!("the key {key} was put twice")));
            }
        };
        Ok(())
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
        self.publish(key, value, None)
    }

    fn put_for(&mut self, key: &str, value: &[u8], readers: &[u32]) -> Result<()> {
        self.publish(key, value, Some(readers.to_vec()))
    }

    fn fence(&mut self, deadline: Duration) -> Result<()> {
        self.start_fence()?;
        let waits = |state: &mut State| Some(state.fences) == self.fence && state.gone.is_empty();
        drop(self.shared.changed.wait_timeout_while(self.state(), deadline, waits));
        if self.test_fence()? {
            return Ok(());
        }
        self.leave_fence();
        Err(self.error(ErrorKind::Timeout, "not all ranks came to the fence".to_owned()))
    }

    fn start_fence(&mut self) -> Result<bool> {
        let mut state = self.state();
        let fence = state.fences;
        state.inside.insert(self.rank);
        if state.inside.len() == self.shared.size {
            state.inside.clear();
            state.fences += 1;
            self.shared.changed.notify_all();
        }
        drop(state);
        self.fence = Some(fence);
        Ok(true)
    }

    fn test_fence(&mut self) -> Result<bool> {
        let Some(fence) = self.fence else { return Err(argument("no fence was begun")) };
        let state = self.state();
        if state.fences != fence {
            drop(state);
            self.fence = None;
            return Ok(true);
        }
        let gone = state.gone.first().cloned();
        drop(state);
        let Some(Gone { rank, how }) = gone else { return Ok(false) };
        self.leave_fence();
        let message = format!("rank {rank} is gone ({how}) while we waited for it");
        Err(self.error(ErrorKind::PeerLost, message).with_peer(rank))
    }

    fn late(&mut self) -> Option<Vec<usize>> {
        let state = self.state();
        let complete = self.fence.is_none_or(|fence| fence != state.fences);
        let missing = |rank: &usize| !complete && !state.inside.contains(rank);
        Some((0..self.shared.size).filter(missing).collect())
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        let published = self.state().values.get(key).cloned();
        let missing = || self.error(ErrorKind::Launch, format!("no rank put the key {key}"));
        let (value, readers) = published.ok_or_else(missing)?;
        match readers.is_none_or(|readers| readers.iter().any(|rank| *rank as usize == self.rank)) {
            true => Ok(value),
            false => Err(self.error(ErrorKind::Launch, format!("the key {key} was put for other ranks"))),
        }
    }

    fn nodes(&self) -> Option<Vec<u32>> {
        Some(self.shared.nodes.clone())
    }

    fn group(&self) -> Option<String> {
        self.shared.groups.get(self.rank).map(u32::to_string)
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
        self.leave_fence();
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
    fn a_fence_is_asked() {
        let mut all = group(3);
        assert_eq!(all[0].test_fence().unwrap_err().kind(), ErrorKind::Argument, "none was begun");
        for _ in 0..3 {
            for rank in 0..2 {
                assert!(all[rank].start_fence().unwrap());
                assert!(!all[0].test_fence().unwrap(), "rank 2 has not come");
            }
            assert!(all[2].start_fence().unwrap());
            assert!(all.iter_mut().all(|me| me.test_fence().unwrap()));
        }
        // Others may wait in it.
        let mut last = all.pop().unwrap();
        assert!(last.start_fence().unwrap());
        let waits = all.into_iter().map(|mut me| thread::spawn(move || me.fence(LONG).map(|()| me)));
        let waits: Vec<_> = waits.collect();
        let mut all: Vec<_> = waits.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect();
        assert!(last.test_fence().unwrap());
        // One that goes away in the middle has not come.
        assert!(
            last.start_fence().unwrap() && all[0].start_fence().unwrap() && !all[0].test_fence().unwrap()
        );
        drop(last);
        let error = all[0].test_fence().unwrap_err();
        assert_eq!((error.kind(), error.peer()), (ErrorKind::PeerLost, Some(2)));
        // Nor does it count in the next one.
        assert!(all.iter_mut().all(|me| me.start_fence().unwrap()));
        assert!(all.iter_mut().all(|me| me.test_fence().is_err()));
    }

    #[test]
    fn a_key_is_put_once() {
        let mut all = group(2);
        all[0].put("k", b"first").unwrap();
        assert_eq!(all[0].put("k", b"second").unwrap_err().kind(), ErrorKind::Launch);
        assert_eq!(all[1].get("k").unwrap(), b"first");
    }
}
