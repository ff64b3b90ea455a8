//! The ranks of the job, which speak over the launcher.

use circulant::launch::Launch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The job as the launcher shows it, with an end to every wait.
pub(super) struct Job<'a> {
    pub(super) launch: &'a mut dyn Launch,
    pub(super) timeout: Duration,
}

impl Job<'_> {
    pub(super) fn tell<T: Serialize>(&mut self, key: &str, value: &T) -> circulant::Result<()> {
        let key = format!("doctor-{key}-{}", self.launch.rank());
        // What cannot be written reads as nothing.
        self.launch.put(&key, &serde_json::to_vec(value).unwrap_or_default())
    }

    pub(super) fn fence(&mut self) -> circulant::Result<()> {
        self.launch.fence(self.timeout)
    }

    /// What the rank told; `None` when it makes no sense.
    pub(super) fn hear<T: DeserializeOwned>(
        &mut self,
        key: &str,
        rank: usize,
    ) -> circulant::Result<Option<T>> {
        let bytes = self.launch.get(&format!("doctor-{key}-{rank}"))?;
        Ok(serde_json::from_slice(&bytes).ok())
    }
}
