//! Ties a process that is to be started to us. It happens between fork and exec: the rank needs no second program in
//! between.

use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::CpuSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What a process has other than we.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// Its limit of open files.
    pub(super) files: Option<Rlimit>,
    /// The processors that it may use.
    pub(super) processors: Option<CpuSet>,
}

/// The process of `command` is killed when the thread ends that starts it, however that happens.
pub(super) fn to_us(command: &mut Command, own: Own) {
    let us = rustix::process::getpid();
    let tie = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // Had we died before that line, no signal would come any more.
        if rustix::process::getppid() != Some(us) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // Without these it runs all the same.
        if let Some(files) = own.files {
            let _ = rustix::process::setrlimit(Resource::Nofile, files);
        }
        if let Some(processors) = own.processors {
            let _ = rustix::thread::sched_setaffinity(None, &processors);
        }
        Ok(())
    };
    // SAFETY: between fork and exec of a process that may have had other threads only what is safe in a signal handler
    // may be done: `tie` makes four system calls on values that were moved into it, allocates nothing and takes no lock.
    unsafe { command.pre_exec(tie) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_processors_are_its_own() {
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let mut one = CpuSet::new();
        let ours = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| ours.is_set(cpu)).unwrap();
        one.set(cpu);
        let own = Own { files: Some(Rlimit { current: Some(77), maximum }), processors: Some(one) };
        let mut command = Command::new("sh");
        to_us(command.args(["-c", "ulimit -Sn; grep Cpus_allowed_list /proc/self/status"]), own);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(said, format!("77\nCpus_allowed_list:\t{cpu}\n"));
    }
}
