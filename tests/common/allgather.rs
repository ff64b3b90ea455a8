//! An allgather among threads, by means that have nothing to do with the library.

use circulant::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Only stops what hangs.
const DEADLINE: Duration = Duration::from_secs(20);

/// A list of members, and a number that tells exchanges of the same list apart.
type Key = (Vec<usize>, usize);

/// What the members of one exchange have brought, and how many have taken it.
#[derive(Default)]
struct Exchange {
    told: Vec<Option<[u8; 16]>>,
    taken: usize,
}

/// The exchanges that are under way.
#[derive(Default)]
pub struct Exchanges {
    under_way: Mutex<HashMap<Key, Exchange>>,
    changed: Condvar,
}

impl Exchanges {
    /// What all members of `list` bring to their exchange of this number; `ours` from the one at `position`.
    pub fn allgather(
        &self,
        (list, number): (&[usize], usize),
        position: usize,
        ours: &[u8; 16],
    ) -> Result<Vec<[u8; 16]>> {
        let key = (list.to_vec(), number);
        let mut all = self.under_way.lock().unwrap();
        let exchange = all.entry(key.clone()).or_default();
        exchange.told.resize(list.len(), None);
        exchange.told[position] = Some(*ours);
        self.changed.notify_all();
        let missing = |all: &mut HashMap<Key, Exchange>| all[&key].told.contains(&None);
        let (mut all, waited) = self.changed.wait_timeout_while(all, DEADLINE, missing).unwrap();
        if waited.timed_out() {
            return Err(Error::new(ErrorKind::Timeout, format!("not all members of {list:?} came")));
        }
        let exchange = all.get_mut(&key).unwrap();
        let told = exchange.told.iter().flatten().copied().collect();
        exchange.taken += 1;
        if exchange.taken == list.len() {
            all.remove(&key);
        }
        Ok(told)
    }
}
