//! `circulant cast`: one file of rank 0 to all ranks or nodes.

use super::entry::is_leaf;
use super::staged::{Staged, Template, folder, identity, is_first, vacant};
use super::stream::{self, Local};
use crate::agree::{agree, host};
use crate::outcome::{Failure, Out, leave};
use crate::units;
use circulant::measure::{self, Wire};
use circulant::{Communicator, World};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const AFTER_HELP: &str = "\
In DEST, %r stands for the rank, %h for the host's name, %% for a percent sign. With %r every rank writes its own \
copy; without it the lowest rank of each node does, and one rank only where several see the same folder on one \
machine. When DEST is a folder, the file keeps its name in it.

The file is written without a name or under a temporary one in the destination's folder, with room taken on the disk \
before data moves, and compared with rank 0's SHA-256 of what it read. When every rank has it complete and on disk \
(fsync), each gives it its final name and FILE's permissions in one step, and takes that back if a rank cannot. So after \
an error on any rank (disk full, folder missing, no permission, a copy there already) nothing is left behind, and \
every rank reports that rank and its host. A symbolic link at DEST is replaced, not followed.

Memory per rank: two buffers of --chunk, 16 MiB by default, whatever the file's size.

Examples:
  circulant run -n 8 cast big.iso /tmp/copy-%r.iso
  circulant run -n 8 cast --force --chunk 4Mi model.bin /scratch/%h/
  srun -N 64 --ntasks-per-node 1 circulant cast app.tar /tmp/";

/// Copy a file of rank 0 to all ranks or nodes
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CastArgs {
    /// The file, read by rank 0
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where the copies go: a file or a folder; %r and %h are replaced
    #[arg(value_name = "DEST")]
    dest: OsString,
    #[command(flatten)]
    how: How,
}

/// What cast and collect have in common.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct How {
    /// Replace what is there already
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Bytes that are moved at once (K, M, G decimal; Ki, Mi, Gi binary), 4Ki to 1Gi
    #[arg(long, value_name = "SIZE", default_value = "8Mi", value_parser = chunk)]
    pub(crate) chunk: u64,
    /// Do not compare SHA-256 checksums
    #[arg(long, overrides_with = "verify")]
    pub(crate) no_verify: bool,
    /// Compare SHA-256 checksums (the default)
    #[arg(long)]
    verify: bool,
}

fn chunk(text: &str) -> Result<u64, String> {
    match units::size_argument(text)? {
        n if (4 << 10..=1 << 30).contains(&n) => Ok(n),
        _ => Err("it must be from 4Ki to 1Gi".to_owned()),
    }
}

/// What rank 0 tells the others; its arguments are the ones that count.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    size: u64,
    mode: u32,
    chunk: u64,
    force: bool,
    verify: bool,
    token: u64,
    name: Vec<u8>,
    dest: Vec<u8>,
}

impl Header {
    fn numbers(&self) -> [u64; 8] {
        let (name, dest) = (self.name.len() as u64, self.dest.len() as u64);
        let flags = u64::from(self.force) | u64::from(self.verify) << 1;
        [self.size, u64::from(self.mode), self.chunk, flags, self.token, name, dest, 0]
    }

    /// From the wire; anything may stand there.
    fn read(n: &[u64; 8], text: &[u8]) -> Option<Self> {
        let name = text.get(..usize::try_from(n[5]).ok()?)?.to_vec();
        let dest = text.get(name.len()..)?.to_vec();
        let sound = (1..=1 << 30).contains(&n[2]) && is_leaf(&name);
        sound.then_some(Self {
            size: n[0],
            mode: u32::try_from(n[1]).ok()?,
            chunk: n[2],
            force: n[3] & 1 != 0,
            verify: n[3] & 2 != 0,
            token: n[4],
            name,
            dest,
        })
    }
}

/// A number that no other run is likely to have, for temporary names.
pub(crate) fn token() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let now = u64::try_from(now & u128::from(u64::MAX)).unwrap_or(0);
    now.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id()) << 32
}

/// Runs the subcommand.
pub(crate) fn run(args: &CastArgs) -> Result<(), Failure> {
    Template::new(&args.dest)?;
    let world = World::init()?;
    let done = whole(args, &world);
    let text = leave(world, done)?;
    let mut out = Out::new();
    out.text(&text);
    out.finish()
}

/// From reading rank 0's file to naming the copies; the report, empty but at rank 0.
fn whole(args: &CastArgs, world: &World) -> Result<String, Failure> {
    let comm = world.comm();
    let source = if comm.rank() == 0 { Some(Source::open(&args.file)) } else { None };
    let source = agree(&comm, source.transpose())?;
    let header = announce(&comm, args, source.as_ref())?;
    let text = copy(world, &comm, args, source, &header)?;
    Ok(if comm.rank() == 0 { text } else { String::new() })
}

/// What is read, at rank 0.
#[derive(Debug)]
struct Source {
    file: File,
    path: PathBuf,
    size: u64,
    mode: u32,
    changed: (i64, i64),
}

impl Source {
    fn open(path: &Path) -> Result<Self, Failure> {
        let about = |e: &std::io::Error| Failure::about(path.display(), e);
        // Looked at before it is opened: opening a pipe would wait for a writer.
        let kind = std::fs::metadata(path).map_err(|e| about(&e))?;
        if !kind.is_file() || path.file_name().is_none() {
            return Err(Failure::new(1, format!("{} is not a regular file", path.display())));
        }
        let file = File::open(path).map_err(|e| about(&e))?;
        let m = file.metadata().map_err(|e| about(&e))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            size: m.len(),
            mode: m.mode(),
            changed: (m.mtime(), m.mtime_nsec()),
        })
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Failure> {
        self.file.read_exact_at(buffer, offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => self.unsteady(),
            _ => Failure::about(self.path.display(), &e),
        })
    }

    fn unsteady(&self) -> Failure {
        Failure::new(1, format!("{} was changed while it was read", self.path.display()))
    }

    /// The same file as at the beginning?
    fn steady(&self) -> Result<(), Failure> {
        let m = self.file.metadata().map_err(|e| Failure::about(self.path.display(), &e))?;
        match (m.len(), (m.mtime(), m.mtime_nsec())) == (self.size, self.changed) {
            true => Ok(()),
            false => Err(self.unsteady()),
        }
    }
}

/// Rank 0's header at all ranks.
fn announce(comm: &Communicator, args: &CastArgs, source: Option<&Source>) -> Result<Header, Failure> {
    let mine = source.map(|s| Header {
        size: s.size,
        mode: s.mode,
        chunk: args.how.chunk.min(s.size.max(1)),
        force: args.how.force,
        verify: !args.how.no_verify,
        token: token(),
        name: args.file.file_name().unwrap_or(OsStr::new("")).as_bytes().to_vec(),
        dest: args.dest.as_bytes().to_vec(),
    });
    let mut numbers = mine.as_ref().map_or([0; 8], Header::numbers);
    comm.bcast(&mut numbers, 0)?;
    let mut text = mine.map_or_else(Vec::new, |h| [h.name, h.dest].concat());
    let len = numbers[5].saturating_add(numbers[6]).min(1 << 16);
    text.resize(usize::try_from(len).unwrap_or(0), 0);
    comm.bcast(&mut text, 0)?;
    let header = Header::read(&numbers, &text);
    agree(
        comm,
        header.ok_or_else(|| {
            Failure::new(1, "rank 0's header makes no sense; do all ranks run the same binary?")
        }),
    )
}

/// Everything after the header; the report, for rank 0 to print.
fn copy(
    world: &World,
    comm: &Communicator,
    args: &CastArgs,
    source: Option<Source>,
    header: &Header,
) -> Result<String, Failure> {
    let token = format!("{:016x}-{}", header.token, comm.rank());
    let dest = writers(world, comm, header)?;
    let copies = count(comm, dest.is_some())?;
    let staged = dest.map(|path| Staged::create(path, header.size, &token, true)).transpose();
    let staged = agree(comm, staged)?;
    let wire = measure::wire(comm)?;
    let buffers = stream::buffers(comm, usize::try_from(header.chunk).unwrap_or(usize::MAX))?;
    let bar = progress(comm, header.size);
    let mut local = Copying { header, source, staged, hash: header.verify.then(Sha256::new) };
    comm.barrier()?;
    let start = Instant::now();
    let steps = header.size.div_ceil(header.chunk);
    stream::run(comm, steps, buffers, &mut local, |step, buffer| {
        let len = header.len(step);
        comm.bcast(&mut buffer[..len], 0)?;
        bar.inc(len as u64);
        Ok(())
    })?;
    let moved = slowest(comm, start)?;
    bar.finish_and_clear();
    let digest = complete(comm, &mut local)?;
    if let Some(staged) = publish(comm, local.staged.into_iter().collect(), header.force, &token)?.pop() {
        staged.settle();
    }
    let total = slowest(comm, start)?;
    let timing = Timing { wire: &wire, volume: header.size, moved, total };
    let name = Path::new(OsStr::from_bytes(&header.name));
    let mut text = format!(
        "{} → {}: {} to {}, {}\n",
        name.display(),
        args.dest.to_string_lossy(),
        units::size(header.size),
        units::ranks_text(comm, world.nodes()),
        match copies {
            1 => "1 copy".to_owned(),
            n => format!("{n} copies"),
        },
    );
    text += &timing.report(comm, world);
    if let Some(digest) = digest {
        text += &format!("sha256 {digest}, equal at all copies\n");
    }
    Ok(text)
}

impl Header {
    /// Bytes that `step` moves.
    fn len(&self, step: u64) -> usize {
        let left = self.size.saturating_sub(step.saturating_mul(self.chunk));
        usize::try_from(left.min(self.chunk)).unwrap_or(0)
    }
}

/// This rank's own path, if it is to write one.
fn writers(world: &World, comm: &Communicator, header: &Header) -> Result<Option<PathBuf>, Failure> {
    let rank = comm.rank();
    let template = Template::new(OsStr::from_bytes(&header.dest))?;
    let mut mine = Ok(None);
    if template.per_rank() || leads_node(world) {
        mine = destination(&template.path(rank, &host()), &header.name, header.force).map(Some);
    }
    let mine = agree(comm, mine)?;
    let key = mine.as_deref().map(|path| {
        let name = Sha256::digest(path.file_name().unwrap_or(OsStr::new("")).as_bytes());
        let name = name.iter().take(8).fold(0u64, |n, b| n << 8 | u64::from(*b));
        identity(folder(path)).map(|[a, b, c]| [1, a, b, c, name])
    });
    let key = agree(comm, key.transpose())?.unwrap_or([0; 5]);
    let mut keys = vec![[0u64; 5]; comm.size()];
    comm.allgather(&[key], &mut keys)?;
    let keys: Vec<Option<[u64; 5]>> = keys.into_iter().map(|k| (k[0] == 1).then_some(k)).collect();
    Ok(mine.filter(|_| is_first(&keys, rank)))
}

/// Whether this is its node's lowest rank.
pub(crate) fn leads_node(world: &World) -> bool {
    let (nodes, rank) = (world.nodes(), world.rank());
    nodes.get(rank).is_none_or(|node| !nodes[..rank].contains(node))
}

/// The path of the copy, checked as far as it can be before data moves.
fn destination(path: &Path, name: &[u8], force: bool) -> Result<PathBuf, Failure> {
    let path = match path.is_dir() {
        true => path.join(OsStr::from_bytes(name)),
        false if path.as_os_str().as_bytes().ends_with(b"/") => {
            return Err(Failure::new(1, format!("there is no folder {}", path.display())));
        }
        false => path.to_owned(),
    };
    if path.file_name().is_none() {
        return Err(Failure::new(1, format!("{} cannot be a file", path.display())));
    }
    if !folder(&path).is_dir() {
        return Err(Failure::new(1, format!("there is no folder {}", folder(&path).display())));
    }
    vacant(&path, force)?;
    Ok(path)
}

/// How many ranks say yes.
fn count(comm: &Communicator, yes: bool) -> Result<usize, Failure> {
    let mut all = vec![0u8; comm.size()];
    comm.allgather(&[u8::from(yes)], &mut all)?;
    Ok(all.iter().filter(|y| **y == 1).count())
}

/// A progress bar at rank 0; it hides itself unless standard error is a terminal.
pub(crate) fn progress(comm: &Communicator, bytes: u64) -> ProgressBar {
    if comm.rank() > 0 {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    let style = "{bar:30} {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Seconds since `start` at the slowest rank.
pub(crate) fn slowest(comm: &Communicator, start: Instant) -> Result<f64, Failure> {
    let mut all = vec![0f64; comm.size()];
    comm.allgather(&[start.elapsed().as_secs_f64()], &mut all)?;
    Ok(all.into_iter().fold(0.0, f64::max))
}

/// The files of one rank.
struct Copying<'a> {
    header: &'a Header,
    source: Option<Source>,
    staged: Option<Staged>,
    /// Of what was read at rank 0, of what was received elsewhere.
    hash: Option<Sha256>,
}

impl Local for Copying<'_> {
    fn fill(&mut self, step: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        let Some(source) = &self.source else { return Ok(()) };
        let bytes = &mut buffer[..self.header.len(step)];
        source.read(bytes, step * self.header.chunk)?;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        Ok(())
    }

    fn empty(&mut self, step: u64, buffer: &[u8]) -> Result<(), Failure> {
        let Some(staged) = &mut self.staged else { return Ok(()) };
        let bytes = &buffer[..self.header.len(step)];
        staged.write(bytes, step * self.header.chunk)?;
        if let (Some(hash), None) = (&mut self.hash, &self.source) {
            hash.update(bytes);
        }
        Ok(())
    }
}

/// Everything written, compared and on disk; rank 0's checksum. Collective.
fn complete(comm: &Communicator, local: &mut Copying<'_>) -> Result<Option<String>, Failure> {
    let mine: Option<[u8; 32]> = local.hash.take().map(|h| h.finalize().into());
    let mut digest = mine.unwrap_or_default();
    comm.bcast(&mut digest, 0)?;
    let done = (|| {
        if let Some(source) = &local.source {
            source.steady()?;
        }
        let Some(staged) = &mut local.staged else { return Ok(()) };
        if mine.is_some_and(|m| m != digest) {
            return Err(Failure::new(3, "the copy's checksum differs from that of rank 0's file"));
        }
        staged.complete(local.header.mode)
    })();
    agree(comm, done)?;
    Ok(mine.map(|_| digest.iter().map(|b| format!("{b:02x}")).collect()))
}

/// Gives all files their names, at all ranks or none. Collective.
pub(crate) fn publish(
    comm: &Communicator,
    mut files: Vec<Staged>,
    force: bool,
    token: &str,
) -> Result<Vec<Staged>, Failure> {
    let mut done = Ok(());
    for (i, file) in files.iter_mut().enumerate() {
        done = file.publish(force, &format!("{token}-{i}"));
        if done.is_err() {
            break;
        }
    }
    // On an error, dropping them takes back what was published.
    agree(comm, done)?;
    Ok(files)
}

/// How long it took, beside the reference.
pub(crate) struct Timing<'a> {
    pub(crate) wire: &'a Wire,
    /// Bytes that the reference counts.
    pub(crate) volume: u64,
    /// Seconds until every rank had written everything.
    pub(crate) moved: f64,
    /// Seconds until everything was on disk and had its name.
    pub(crate) total: f64,
}

impl Timing<'_> {
    pub(crate) fn report(&self, comm: &Communicator, world: &World) -> String {
        let (moved, total) = (units::time(self.moved * 1e9), units::time(self.total * 1e9));
        let rate = match self.volume > 0 && self.moved > 0.0 {
            true => format!(" ({})", units::rate(self.volume as f64 / self.moved)),
            false => String::new(),
        };
        let mut text = format!("moved in {moved}{rate}, on disk and named after {total}\n");
        if comm.size() > 1 {
            let c = units::reference(self.wire, self.volume, units::rounds(comm.size()));
            let ratio = units::ratio_text(units::ratio(self.moved * 1e9, c));
            text += &format!(
                "reference C = {}, time/C = {ratio} (reading, writing and checksums included)\n",
                units::time(c)
            );
            text += &format!("provider {}; {}\n", world.provider(), units::wire_text(self.wire));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            size: 20,
            mode: 0o100_755,
            chunk: 8,
            force: true,
            verify: false,
            token: 7,
            name: b"big.iso".to_vec(),
            dest: b"/tmp/%r".to_vec(),
        }
    }

    #[test]
    fn the_header_survives_the_wire() {
        let h = header();
        assert_eq!(Header::read(&h.numbers(), &[h.name.clone(), h.dest.clone()].concat()), Some(h.clone()));
        assert_eq!((0..4).map(|s| h.len(s)).collect::<Vec<_>>(), [8, 8, 4, 0]);
    }

    proptest! {
        #[test]
        fn nonsense_is_no_header_or_a_harmless_one(n in any::<[u64; 8]>(), text in any::<Vec<u8>>(), small in 0u64..9) {
            let n = [n[0], n[1], n[2], n[3], n[4], small, n[6], n[7]];
            if let Some(h) = Header::read(&n, &text) {
                prop_assert!(is_leaf(&h.name) && h.chunk > 0 && h.chunk <= 1 << 30);
            }
        }
    }

    #[test]
    fn names_from_elsewhere_stay_in_their_folder() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0b"] {
            assert!(!is_leaf(bad), "{bad:?}");
        }
        assert!(is_leaf(b"...") && is_leaf("ä b".as_bytes()));
    }

    #[test]
    fn destinations_are_checked_before_data_moves() {
        let dir = tempfile::tempdir().unwrap();
        let d = dir.path();
        std::fs::write(d.join("old"), "x").unwrap();
        assert_eq!(destination(d, b"f", false).unwrap(), d.join("f"));
        assert_eq!(destination(&d.join("g"), b"f", false).unwrap(), d.join("g"));
        for (path, said) in
            [("old", "--force"), ("no/f", "no folder"), ("new/", "no folder"), ("old/f", "no folder")]
        {
            let e = destination(&d.join(path), b"f", false).unwrap_err();
            assert!(e.text.contains(said), "{path}: {}", e.text);
        }
        assert!(destination(d, b"old", false).is_err() && destination(d, b"old", true).is_ok());
        std::fs::create_dir_all(d.join("x/f")).unwrap();
        assert!(destination(&d.join("x"), b"f", true).unwrap_err().text.contains("is a folder"));
    }

    #[test]
    fn a_file_that_changes_meanwhile_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "before").unwrap();
        let source = Source::open(&path).unwrap();
        assert_eq!(source.steady(), Ok(()));
        std::fs::write(&path, "then").unwrap();
        assert!(source.read(&mut [0; 6], 0).unwrap_err().text.contains("changed"));
        assert!(source.steady().is_err());
        for bad in [dir.path(), Path::new("/dev/null"), &dir.path().join("none")] {
            assert!(Source::open(bad).is_err(), "{}", bad.display());
        }
    }
}
