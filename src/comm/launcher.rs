//! The launcher, which a world shares with its process watch and its directory of addresses.

use crate::launch::Launch;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) type SharedLaunch = Arc<Mutex<Box<dyn Launch>>>;

/// Takes a lock whose holder cannot have left it half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
