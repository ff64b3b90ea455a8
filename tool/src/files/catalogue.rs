//! Which files the ranks bring along to `collect`: each rank's own, and the list of all.

use super::entry::{Entry, is_leaf};
use super::staged::Template;
use crate::agree::{host, starts};
use crate::outcome::Failure;
use circulant::Communicator;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What this rank brings along.
#[derive(Debug)]
pub(crate) struct Contribution {
    paths: Vec<PathBuf>,
    pub(crate) entries: Vec<Entry>,
    /// Being read.
    file: Option<File>,
    /// Bytes of it that are still to be read.
    left: u64,
    next: usize,
}

impl Contribution {
    pub(crate) fn find(source: &Template, rank: usize, size: usize) -> Result<Self, Failure> {
        let path = source.path(rank, &host());
        let about = fs::metadata(&path).map_err(|e| Failure::about(path.display(), &e))?;
        let mut paths = match about.is_dir() {
            true => listing(&path)?,
            false if !source.per_rank() => {
                let said =
                    format!("{} is no folder; put %r into the path if each rank has a file", path.display());
                return Err(Failure::new(1, said));
            }
            false => vec![path],
        };
        if !source.per_rank() {
            paths = paths.into_iter().skip(rank).step_by(size).collect();
        }
        let entries = paths.iter().map(|path| Entry::of(path)).collect::<Result<_, _>>()?;
        Ok(Self { paths, entries, file: None, left: 0, next: 0 })
    }

    /// The next bytes of all files one after the other.
    pub(crate) fn read(&mut self, mut buffer: &mut [u8]) -> Result<(), Failure> {
        while !buffer.is_empty() {
            if self.left == 0 {
                self.open_next()?;
                continue;
            }
            let n = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
            let (now, later) = buffer.split_at_mut(n);
            let path = &self.paths[self.next - 1];
            let done = self.file.as_mut().map(|file| file.read_exact(now));
            match done {
                Some(Ok(())) => {}
                Some(Err(e)) if e.kind() != std::io::ErrorKind::UnexpectedEof => {
                    return Err(Failure::about(path.display(), &e));
                }
                _ => return Err(changed(path)),
            }
            self.left -= n as u64;
            buffer = later;
        }
        Ok(())
    }

    fn open_next(&mut self) -> Result<(), Failure> {
        let Some((path, entry)) = self.paths.get(self.next).zip(self.entries.get(self.next)) else {
            return Err(Failure::new(1, "no file left to read"));
        };
        let file = File::open(path).map_err(|e| Failure::about(path.display(), &e))?;
        let about = file.metadata().map_err(|e| Failure::about(path.display(), &e))?;
        if about.len() != entry.size {
            return Err(changed(path));
        }
        (self.file, self.left, self.next) = (Some(file), entry.size, self.next + 1);
        Ok(())
    }
}

fn changed(path: &Path) -> Failure {
    Failure::new(1, format!("{} was changed while it was read", path.display()))
}

/// The regular files in a folder, sorted by name.
fn listing(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let about = |e: &std::io::Error| Failure::about(folder.display(), e);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| about(&e))? {
        let path = entry.map_err(|e| about(&e))?.path();
        if path.is_file() {
            paths.push(path);
        } else {
            tracing::info!("{} is no file: passed over", path.display());
        }
    }
    paths.sort();
    Ok(paths)
}

impl Entry {
    fn of(path: &Path) -> Result<Self, Failure> {
        let about = fs::metadata(path).map_err(|e| Failure::about(path.display(), &e))?;
        let name = path.file_name().unwrap_or(OsStr::new("")).as_bytes().to_vec();
        match about.is_file() && is_leaf(&name) {
            true => Ok(Self { name, size: about.len(), mode: about.mode() }),
            false => Err(Failure::new(1, format!("{} is not a regular file", path.display()))),
        }
    }
}

/// All ranks' entries at all ranks. Refuses names that two ranks have.
pub(crate) fn catalogue(comm: &Communicator, mine: &[Entry]) -> Result<Vec<Vec<Entry>>, Failure> {
    let mut packed = Vec::new();
    mine.iter().for_each(|e| e.pack(&mut packed));
    let mut lengths = vec![0u64; comm.size()];
    comm.allgather(&[packed.len() as u64], &mut lengths)?;
    let lengths: Vec<usize> = lengths.iter().map(|n| usize::try_from(*n).unwrap_or(usize::MAX)).collect();
    let (at, total) = starts(&lengths);
    let mut all = vec![0u8; total];
    comm.allgatherv(&packed, &mut all, (&lengths, &at))?;
    let read = |rank: usize| Entry::unpack(&all[at[rank]..at[rank] + lengths[rank]]);
    let entries: Option<Vec<_>> = (0..comm.size()).map(read).collect();
    let entries =
        entries.ok_or_else(|| Failure::new(1, "a rank's list of files makes no sense").everywhere())?;
    match duplicate(&entries) {
        Some(said) => Err(Failure::new(1, said).everywhere()),
        None => Ok(entries),
    }
}

fn duplicate(entries: &[Vec<Entry>]) -> Option<String> {
    let mut owner = std::collections::HashMap::new();
    for (rank, list) in entries.iter().enumerate() {
        for e in list {
            if let Some(other) = owner.insert(&e.name, rank) {
                let name = String::from_utf8_lossy(&e.name);
                return Some(format!("ranks {other} and {rank} both have a file {name}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(name: &str, size: u64) -> Entry {
        Entry { name: name.as_bytes().to_vec(), size, mode: 0o100_644 }
    }

    #[test]
    fn the_list_survives_the_wire() {
        let list = vec![entry("a", 0), entry("ä b", 1 << 40), entry("...", 7)];
        let mut bytes = Vec::new();
        list.iter().for_each(|e| e.pack(&mut bytes));
        assert_eq!(Entry::unpack(&bytes), Some(list));
        assert_eq!(Entry::unpack(&bytes[..bytes.len() - 1]), None);
        let mut evil = Vec::new();
        entry("../x", 1).pack(&mut evil);
        assert_eq!(Entry::unpack(&evil), None);
    }

    proptest! {
        #[test]
        fn no_list_from_the_wire_is_a_panic(bytes in any::<Vec<u8>>()) {
            if let Some(list) = Entry::unpack(&bytes) {
                prop_assert!(list.iter().all(|e| is_leaf(&e.name)));
            }
        }
    }

    #[test]
    fn files_are_shared_out_and_read_through() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("b", ""), ("a", "one"), ("d", "three"), ("c", "two")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        fs::create_dir(dir.path().join("folder")).unwrap();
        let source = Template::new(dir.path().as_os_str()).unwrap();
        let mut even = Contribution::find(&source, 0, 2).unwrap();
        assert_eq!(even.entries.iter().map(|e| e.size).collect::<Vec<_>>(), [3, 3]);
        let mut bytes = [0u8; 6];
        even.read(&mut bytes[..4]).unwrap();
        even.read(&mut bytes[4..]).unwrap();
        assert_eq!(&bytes, b"onetwo");
        assert!(even.read(&mut [0]).is_err());
        let mut odd = Contribution::find(&source, 1, 2).unwrap();
        fs::write(dir.path().join("d"), "more than before").unwrap();
        assert!(odd.read(&mut [0; 5]).unwrap_err().text.contains("changed"));
    }

    #[test]
    fn two_ranks_with_one_name_are_refused() {
        let lists = [vec![entry("a", 1)], vec![entry("b", 1), entry("a", 2)]];
        assert_eq!(duplicate(&lists), Some("ranks 0 and 1 both have a file a".to_owned()));
        assert_eq!(duplicate(&lists[..1]), None);
    }
}
