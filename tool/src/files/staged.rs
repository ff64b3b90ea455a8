//! Files that appear complete or not at all: written without a name (or under a temporary one), published by
//! one atomic step, and taken back when another rank could not do the same.

use crate::outcome::Failure;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A path with `%r` (rank), `%h` (host) and `%%` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(OsString);

impl Template {
    /// Refuses other percent signs, so that they stay free for later.
    pub(crate) fn new(text: &OsStr) -> Result<Self, Failure> {
        let mut bytes = text.as_bytes().iter();
        while let Some(b) = bytes.next() {
            if *b == b'%' && !matches!(bytes.next(), Some(b'r' | b'h' | b'%')) {
                let shown = text.to_string_lossy();
                return Err(Failure::usage(format!(
                    "{shown}: after % there must be r (rank), h (host name) or another %"
                )));
            }
        }
        match text.is_empty() {
            true => Err(Failure::usage("the path is empty")),
            false => Ok(Self(text.to_owned())),
        }
    }

    /// Names another file at each rank.
    pub(crate) fn per_rank(&self) -> bool {
        let mut bytes = self.0.as_bytes().iter();
        while let Some(b) = bytes.next() {
            if *b == b'%' && bytes.next() == Some(&b'r') {
                return true;
            }
        }
        false
    }

    pub(crate) fn path(&self, rank: usize, host: &str) -> PathBuf {
        let mut path = Vec::new();
        let mut bytes = self.0.as_bytes().iter();
        while let Some(b) = bytes.next() {
            match (*b, if *b == b'%' { bytes.next() } else { None }) {
                (b'%', Some(b'r')) => path.extend(rank.to_string().bytes()),
                (b'%', Some(b'h')) => path.extend(host.bytes()),
                (b'%', _) => path.push(b'%'),
                (b, _) => path.push(b),
            }
        }
        OsString::from_vec(path).into()
    }
}

/// What distinguishes a folder from all others that ranks can see: the machine, the file system, the folder.
pub(crate) fn identity(folder: &Path) -> Result<[u64; 3], Failure> {
    let about = fs::metadata(folder).map_err(|e| Failure::about(folder.display(), &e))?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // Two machines' disks often have equal numbers. The id is random: its first 16 digits do.
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    Ok([u64::from_str_radix(&digits, 16).unwrap_or(0), about.dev(), about.ino()])
}

/// The lowest rank of those with the same key, for each that has one: it alone writes.
pub(crate) fn is_first<T: PartialEq>(keys: &[Option<T>], rank: usize) -> bool {
    keys[rank].is_some() && !keys[..rank].contains(&keys[rank])
}

/// The folder a path is in.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

/// Refuses a destination that is there already, unless it may be replaced, and one that cannot be a file.
pub(crate) fn vacant(path: &Path, force: bool) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Failure::about(path.display(), &e)),
        Ok(m) if m.is_dir() => Err(Failure::new(1, format!("{} is a folder", path.display()))),
        Ok(m) if !m.is_file() && !m.is_symlink() => {
            Err(Failure::new(1, format!("{} is neither a file nor a link", path.display())))
        }
        Ok(_) if !force => Err(exists(path)),
        Ok(_) => Ok(()),
    }
}

fn exists(path: &Path) -> Failure {
    Failure::new(1, format!("{} is there already; --force replaces it", path.display()))
}

/// A file in the making.
#[derive(Debug)]
pub(crate) struct Staged {
    dest: PathBuf,
    /// The temporary name, where the file system cannot do without.
    temp: Option<PathBuf>,
    /// Open while it has no name, or while being written.
    file: Option<File>,
    /// Device and inode of the file under the temporary name.
    inode: (u64, u64),
    published: Option<Published>,
    settled: bool,
}

/// What the publishing has to take back if need be.
#[derive(Debug)]
enum Published {
    /// The name was free.
    New,
    /// The old file stands under this name.
    Replaced(PathBuf),
    /// The old file is gone.
    Overwritten,
}

impl Staged {
    /// Room for `len` bytes to become `dest`. `token` makes temporary names differ; with `unnamed`, none is
    /// used where the file system allows, so that not even SIGKILL leaves anything behind.
    pub(crate) fn create(dest: PathBuf, len: u64, token: &str, unnamed: bool) -> Result<Self, Failure> {
        let about = |e: &io::Error| Failure::about(dest.display(), e);
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let without = unnamed.then(|| rustix::fs::open(folder(&dest), flags, Mode::RUSR | Mode::WUSR).ok());
        let mut staged = Self {
            dest: dest.clone(),
            temp: None,
            file: None,
            inode: (0, 0),
            published: None,
            settled: false,
        };
        match without.flatten() {
            Some(fd) => staged.file = Some(File::from(fd)),
            None => {
                let temp = staged.temporary(token);
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp);
                let file = file.map_err(|e| about(&e))?;
                staged.temp = Some(temp);
                let made = file.metadata().map_err(|e| about(&e))?;
                staged.inode = (made.dev(), made.ino());
                staged.file = Some(file);
            }
        }
        staged.reserve(len)?;
        Ok(staged)
    }

    /// A name beside the destination, not longer than any name may be.
    fn temporary(&self, token: &str) -> PathBuf {
        folder(&self.dest).join(format!(".circulant-{token}"))
    }

    /// Takes the room on the disk now: better refused before data moves than in the middle.
    fn reserve(&self, len: u64) -> Result<(), Failure> {
        let (Some(file), true) = (&self.file, len > 0) else { return Ok(()) };
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len) {
            // Not every file system can; then it shows when writing.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::INTR) => Ok(()),
            Err(e) => {
                let free = rustix::fs::fstatvfs(file).map_or(0, |v| v.f_bavail.saturating_mul(v.f_frsize));
                let (need, free) = (crate::units::size(len), crate::units::size(free));
                let e = Failure::about(self.dest.display(), &e.into());
                Err(Failure::new(e.code, format!("{} ({need} needed, {free} free)", e.text)))
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        let done = self.open().and_then(|file| file.write_all_at(bytes, offset));
        done.map_err(|e| Failure::about(self.dest.display(), &e))
    }

    /// Closes it until it is needed again, so that any number of files can be in the making.
    pub(crate) fn park(&mut self) {
        if self.temp.is_some() {
            self.file = None;
        }
    }

    fn open(&mut self) -> io::Result<&File> {
        let file = match (self.file.take(), &self.temp) {
            (Some(file), _) => file,
            (None, Some(temp)) => reopen(temp, self.inode)?,
            (None, None) => return Err(io::Error::other("closed already")),
        };
        Ok(self.file.insert(file))
    }

    /// On disk, with these permissions.
    pub(crate) fn complete(&mut self, mode: u32) -> Result<(), Failure> {
        let done = self.open().and_then(|file| {
            file.set_permissions(Permissions::from_mode(mode & 0o777))?;
            file.sync_all()
        });
        done.map_err(|e| Failure::about(self.dest.display(), &e))
    }

    /// Gives it its name in one step. Without `force` nothing is ever replaced, whatever other processes do.
    pub(crate) fn publish(&mut self, force: bool, token: &str) -> Result<(), Failure> {
        vacant(&self.dest, force)?;
        let done = match self.temp {
            None => self.link(force, token),
            Some(_) => Ok(false),
        };
        match done {
            Ok(true) => self.published = Some(Published::New),
            Ok(false) => self.rename(force).map_err(|e| self.failed(e))?,
            Err(e) => return Err(self.failed(e)),
        }
        sync_folder(&self.dest)
    }

    /// From no name to the final one; or to a temporary one (then `false`) if the final one is taken and may
    /// be replaced.
    fn link(&mut self, force: bool, token: &str) -> Result<bool, Errno> {
        let Some(file) = &self.file else { return Err(Errno::BADF) };
        let fd = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        let to = |path: &Path| rustix::fs::linkat(CWD, &*fd, CWD, path, AtFlags::SYMLINK_FOLLOW);
        match to(&self.dest) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) if force => {
                let temp = self.temporary(token);
                to(&temp)?;
                self.temp = Some(temp);
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    fn rename(&mut self, force: bool) -> Result<(), Errno> {
        let Some(temp) = self.temp.clone() else { return Err(Errno::BADF) };
        let renamed = |flags| rustix::fs::renameat_with(CWD, &temp, CWD, &self.dest, flags);
        let published = match renamed(RenameFlags::NOREPLACE) {
            Ok(()) => Published::New,
            Err(Errno::EXIST) if force => match renamed(RenameFlags::EXCHANGE) {
                Ok(()) => Published::Replaced(temp),
                Err(Errno::INVAL | Errno::NOSYS) => {
                    rustix::fs::rename(&temp, &self.dest)?;
                    Published::Overwritten
                }
                Err(e) => return Err(e),
            },
            // A file system that knows no such flags: a hard link does not replace either.
            Err(Errno::INVAL | Errno::NOSYS) if force => {
                rustix::fs::rename(&temp, &self.dest)?;
                Published::Overwritten
            }
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::link(&temp, &self.dest)?;
                self.published = Some(Published::New);
                rustix::fs::unlink(&temp)?;
                Published::New
            }
            Err(e) => return Err(e),
        };
        self.temp = None;
        self.published = Some(published);
        Ok(())
    }

    fn failed(&self, e: Errno) -> Failure {
        match e {
            Errno::EXIST => {
                let f = exists(&self.dest);
                Failure::new(
                    f.code,
                    format!(
                        "{} (it was not there before: when nodes share the folder, put %h or %r into the path)",
                        f.text
                    ),
                )
            }
            e => Failure::about(self.dest.display(), &e.into()),
        }
    }

    /// All ranks have published: what was replaced goes.
    pub(crate) fn settle(mut self) {
        self.settled = true;
        if let Some(Published::Replaced(old)) = self.published.take() {
            if let Err(e) = fs::remove_file(&old) {
                tracing::warn!("{}: {e}", old.display());
            }
            if let Err(e) = sync_folder(&self.dest) {
                tracing::warn!("{}", e.text);
            }
        }
    }

    /// As if nothing had happened.
    fn take_back(&mut self) -> io::Result<()> {
        match self.published.take() {
            Some(Published::New) => fs::remove_file(&self.dest),
            Some(Published::Replaced(old)) => {
                rustix::fs::rename(&old, &self.dest)?;
                Ok(())
            }
            Some(Published::Overwritten) | None => Ok(()),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let taken = self.take_back();
        let removed = self.temp.take().map_or(Ok(()), fs::remove_file);
        for e in [taken, removed].into_iter().filter_map(Result::err) {
            tracing::warn!("cannot remove what was begun at {}: {e}", self.dest.display());
        }
    }
}

/// The file with this device and inode, if it still has this name: others may be able to write to the folder.
fn reopen(temp: &Path, inode: (u64, u64)) -> io::Result<File> {
    let other = || io::Error::other("another file took its place");
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(temp, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::LOOP | Errno::NXIO) => return Err(other()),
        Err(e) => return Err(e.into()),
    };
    let found = file.metadata()?;
    if (found.dev(), found.ino()) == inode { Ok(file) } else { Err(other()) }
}

/// A folder's entries are on disk.
fn sync_folder(path: &Path) -> Result<(), Failure> {
    let done = File::open(folder(path)).and_then(|f| f.sync_all());
    match done {
        // Some file systems have no such thing for folders.
        Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
        done => done.map_err(|e| Failure::about(folder(path).display(), &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn template(text: &str) -> Result<Template, Failure> {
        Template::new(OsStr::new(text))
    }

    #[test]
    fn paths_have_rank_and_host() {
        let t = template("/tmp/%h/a-%r.%%").unwrap();
        assert_eq!(t.path(12, "n3"), Path::new("/tmp/n3/a-12.%"));
        assert!(t.per_rank());
        for text in ["/tmp/%h", "%%r", "a%%%h%%r"] {
            assert!(!template(text).unwrap().per_rank(), "{text}");
        }
        assert_eq!(template("%%r").unwrap().path(1, "h"), Path::new("%r"));
        for text in ["", "%", "a%", "%x", "%%%", "%r%d"] {
            assert_eq!(template(text).unwrap_err().code, 2, "{text}");
        }
    }

    proptest! {
        #[test]
        fn doubling_percents_keeps_any_name(name in "[^\0]{1,20}") {
            let t = template(&name.replace('%', "%%")).unwrap();
            prop_assert_eq!(t.path(3, "h"), PathBuf::from(name));
            prop_assert!(!t.per_rank());
        }
    }

    #[test]
    fn one_writer_per_folder() {
        let keys = [Some(1), None, Some(2), Some(1), None, Some(2), Some(3)];
        let first: Vec<usize> = (0..7).filter(|r| is_first(&keys, *r)).collect();
        assert_eq!(first, [0, 2, 6]);
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn staged(dir: &Path, unnamed: bool) -> Staged {
        let mut s = Staged::create(dir.join("f"), 3, "t-0", unnamed).unwrap();
        s.write(b"ne", 0).unwrap();
        s.park();
        s.write(b"w", 2).unwrap();
        s.complete(0o640).unwrap();
        s
    }

    #[test]
    fn published_whole_or_not_at_all() {
        for unnamed in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("f");
            drop(staged(dir.path(), unnamed));
            assert_eq!(names(dir.path()), [""; 0], "abandoned");
            let mut s = staged(dir.path(), unnamed);
            assert!(!file.exists());
            s.publish(false, "t-0").unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"new");
            drop(s);
            assert_eq!(names(dir.path()), [""; 0], "taken back");
            let mut s = staged(dir.path(), unnamed);
            s.publish(false, "t-0").unwrap();
            s.settle();
            assert_eq!(names(dir.path()), ["f"]);
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        }
    }

    #[test]
    fn nothing_is_replaced_without_force_and_replacing_is_taken_back() {
        for unnamed in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("f");
            let mut s = staged(dir.path(), unnamed);
            // Another process was faster.
            fs::write(&file, "old").unwrap();
            assert!(s.publish(false, "t-0").unwrap_err().text.contains("--force"));
            drop(s);
            assert_eq!(
                (names(dir.path()), fs::read(&file).unwrap()),
                (vec!["f".to_owned()], b"old".to_vec())
            );
            let mut s = staged(dir.path(), unnamed);
            s.publish(true, "t-0").unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"new");
            drop(s);
            assert_eq!(
                (names(dir.path()), fs::read(&file).unwrap()),
                (vec!["f".to_owned()], b"old".to_vec())
            );
            let mut s = staged(dir.path(), unnamed);
            s.publish(true, "t-0").unwrap();
            s.settle();
            assert_eq!(
                (names(dir.path()), fs::read(&file).unwrap()),
                (vec!["f".to_owned()], b"new".to_vec())
            );
        }
    }

    /// Between the check and the link or rename: the system call itself must refuse.
    #[test]
    fn the_last_step_itself_does_not_replace() {
        for unnamed in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let mut s = staged(dir.path(), unnamed);
            fs::write(dir.path().join("f"), "old").unwrap();
            let done = match unnamed && s.temp.is_none() {
                true => s.link(false, "t-0").map(|_| ()),
                false => s.rename(false),
            };
            assert_eq!(done, Err(Errno::EXIST));
            drop(s);
            assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"old");
        }
    }

    /// Another user may write to the folder: what is not our file any more is not written to.
    #[test]
    fn another_file_under_the_temporary_name_is_not_written_to() {
        for link in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let victim = dir.path().join("victim");
            fs::write(&victim, "old").unwrap();
            let mut s = Staged::create(dir.path().join("f"), 3, "t-0", false).unwrap();
            s.write(b"ne", 0).unwrap();
            s.park();
            let temp = s.temp.clone().unwrap();
            fs::remove_file(&temp).unwrap();
            match link {
                true => std::os::unix::fs::symlink(&victim, &temp).unwrap(),
                false => fs::hard_link(&victim, &temp).unwrap(),
            }
            let e = s.write(b"w", 2).unwrap_err();
            assert!(e.text.contains("another file took its place"), "{}", e.text);
            assert!(s.complete(0o777).is_err());
            assert_eq!(fs::read(&victim).unwrap(), b"old");
            assert_ne!(fs::metadata(&victim).unwrap().permissions().mode() & 0o777, 0o777);
        }
    }

    #[test]
    fn impossible_room_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let e = Staged::create(dir.path().join("f"), 1 << 52, "t-0", true).unwrap_err();
        assert!(e.text.contains("needed"), "{}", e.text);
        assert_eq!(names(dir.path()), [""; 0]);
        let e = Staged::create(dir.path().join("no/f"), 1, "t-0", true).unwrap_err();
        assert!(e.text.contains("No such file"), "{}", e.text);
    }
}
