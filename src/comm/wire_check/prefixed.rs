//! A launcher whose keys begin with a number: each endpoint of a job has addresses of its own.

use crate::error::{Error, Result};
use crate::launch::{Gone, Launch};
use std::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Prefixed<'a> {
    launch: &'a mut dyn Launch,
    number: u32,
}

impl<'a> Prefixed<'a> {
    pub(super) fn new(launch: &'a mut dyn Launch, number: u32) -> Self {
        Self { launch, number }
    }

    fn key(&self, key: &str) -> String {
        format!("wire{}-{key}", self.number)
    }
}

impl Launch for Prefixed<'_> {
    fn name(&self) -> &str {
        self.launch.name()
    }
    fn rank(&self) -> usize {
        self.launch.rank()
    }
    fn size(&self) -> usize {
        self.launch.size()
    }
    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.launch.put(&self.key(key), value)
    }
    fn put_for(&mut self, key: &str, value: &[u8], readers: &[u32]) -> Result<()> {
        self.launch.put_for(&self.key(key), value, readers)
    }
    fn fence(&mut self, deadline: Duration) -> Result<()> {
        self.launch.fence(deadline)
    }
    fn start_fence(&mut self) -> Result<bool> {
        self.launch.start_fence()
    }
    fn test_fence(&mut self) -> Result<bool> {
        self.launch.test_fence()
    }
    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        self.launch.get(&self.key(key))
    }
    fn nodes(&self) -> Option<Vec<u32>> {
        self.launch.nodes()
    }
    fn group(&self) -> Option<String> {
        self.launch.group()
    }
    fn gone(&mut self) -> Option<Gone> {
        self.launch.gone()
    }
    fn report(&mut self, error: &Error) {
        self.launch.report(error);
    }
    fn abort(&mut self, code: i32, message: &str) {
        self.launch.abort(code, message);
    }
    /// The launcher goes on: nothing is done.
    fn finalize(&mut self) -> Result<()> {
        Ok(())
    }
}
