//! What libfabric's shm provider leaves in /dev/shm when a process is killed: files `PID:UID:NUMBER`.

use std::path::Path;

const FOLDER: &str = "/dev/shm";

/// Removes the files of this user's processes that are gone; returns how many.
///
/// Processes are told by their number, so this is not for a /dev/shm shared between containers that each
/// number their own: there use [`remove_shm_of`].
pub fn sweep_stale_shm() -> usize {
    sweep(Path::new(FOLDER), gone)
}

/// Removes the files of the process `pid`, which has ended; returns how many. For launchers, which know.
pub fn remove_shm_of(pid: u32) -> usize {
    sweep(Path::new(FOLDER), |p| p == pid)
}

fn sweep(folder: &Path, stale: impl Fn(u32) -> bool) -> usize {
    // SAFETY: geteuid has no preconditions and always succeeds.
    let me = unsafe { libc::geteuid() };
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .filter(|entry| {
            let ours = entry.file_name().to_str().and_then(parse).is_some_and(|(p, u)| u == me && stale(p));
            // Another user's file is refused by the sticky bit; a race with its owner is lost gladly.
            ours && std::fs::remove_file(entry.path()).is_ok()
        })
        .count()
}

/// (pid, uid) of a name of libfabric's pattern.
fn parse(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.split(':').map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        part.parse::<u32>().ok().filter(|_| digits)
    });
    match (parts.next()?, parts.next()?, parts.next()?, parts.next()) {
        (Some(pid), Some(uid), Some(_), None) => Some((pid, uid)),
        _ => None,
    }
}

fn gone(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: signal 0 is not sent; it only asks whether the process is there.
    let there = pid > 0 && unsafe { libc::kill(pid, 0) } == 0;
    !there && pid > 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_dead_processes_of_ours_go() {
        // SAFETY: no preconditions.
        let me = unsafe { libc::geteuid() };
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = |name: String| std::fs::write(dir.path().join(name), "x").unwrap();
        file(format!("{dead}:{me}:0"));
        file(format!("{dead}:{me}:17"));
        let kept = [
            format!("{}:{me}:0", std::process::id()),
            format!("{dead}:{}:0", me + 1),
            format!("{dead}:{me}"),
            format!("{dead}:{me}:0:1"),
            format!("{dead}:{me}:x"),
            format!("{dead}:+{me}:0"),
            "sem.mine".to_owned(),
            format!("0:{me}:0"),
        ];
        kept.iter().cloned().for_each(file);
        assert_eq!(sweep(dir.path(), gone), 2);
        for name in &kept {
            assert!(dir.path().join(name).exists(), "{name}");
        }
        assert_eq!(sweep(dir.path(), |p| p == std::process::id()), 1);
    }
}
