//! `circulant collect`: files of all ranks to all ranks or nodes, by irregular allgathers.

use super::cast::{How, Timing, leads_node, progress, publish, slowest, token};
use super::catalogue::{Contribution, catalogue};
use super::entry::Entry;
use super::staged::{Staged, Template, identity, is_first, vacant};
use super::stream::{self, Local, part};
use crate::agree::{agree, host, starts};
use crate::outcome::{Failure, Out, leave};
use crate::units::{self, align, plural};
use circulant::measure;
use circulant::{Communicator, World};
use clap::Args;
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Up to this many files are kept without a name until the end (each is an open file); more get temporary ones.
const UNNAMED_MAX: usize = 256;
/// Up to this many ranks have a line each in the report.
const LINES_MAX: usize = 64;

const AFTER_HELP: &str = "\
SRC without %r is a folder: rank r contributes the files whose place in the sorted list of names is r modulo the \
number of ranks. SRC with %r is rank r's own file, or a folder of which it contributes all files. Folders within a folder \
are passed over. %h stands for the host's name, %% for a percent sign.

DEST is a folder, made if need be; with %r every rank fills its own, without it the lowest rank of each node does, and \
one rank only where several see the same folder on one machine. The safety rules are those of cast: nothing is replaced \
without --force, checksums are compared, and either every rank has all files, complete and on disk, or no rank keeps any.

Each step gathers from every rank the same share of its bytes, so all ranks take part from beginning to end, however \
unequal the files are. Memory per rank: two buffers of --chunk (16 MiB by default) and the list of names.

Examples:
  circulant run -n 8 collect photos/ /tmp/all-%r
  circulant run -n 8 collect /scratch/part-%r.bin /tmp/parts-%h
  srun -N 16 --ntasks-per-node 1 circulant collect /tmp/results/%r /tmp/everything";

/// Gather files of all ranks at all ranks or nodes
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CollectArgs {
    /// What is contributed: a folder shared out among the ranks, or with %r each rank's own file or folder
    #[arg(value_name = "SRC")]
    source: OsString,
    /// The folder in which all files end up; %r and %h are replaced
    #[arg(value_name = "DEST")]
    dest: OsString,
    #[command(flatten)]
    how: How,
}

/// Runs the subcommand.
pub(crate) fn run(args: &CollectArgs) -> Result<(), Failure> {
    Template::new(&args.source)?;
    Template::new(&args.dest)?;
    let world = World::init()?;
    let done = whole(args, &world);
    let text = leave(world, done)?;
    let mut out = Out::new();
    out.text(&text);
    out.finish()
}

/// From listing to naming; the report, empty but at rank 0.
fn whole(args: &CollectArgs, world: &World) -> Result<String, Failure> {
    let comm = &world.comm();
    let rank = comm.rank();
    let mine = agree(comm, Contribution::find(&Template::new(&args.source)?, rank, comm.size()))?;
    let catalogue = catalogue(comm, &mine.entries)?;
    let (token, chunk) = settle_settings(comm, args)?;
    let mut folder = destination(world, comm, &Template::new(&args.dest)?)?;
    let names = format!("{token:016x}-{rank}");
    let staged = match &folder {
        Some(folder) => stage(&folder.path, &catalogue, args.how.force, &names),
        None => Ok(Vec::new()),
    };
    let staged = agree(comm, staged)?;
    let wire = measure::wire(comm)?;
    let plan = Shares::new(&catalogue, chunk);
    let buffers = stream::buffers(comm, plan.buffer())?;
    let bar = progress(comm, plan.total());
    let verify = !args.how.no_verify;
    let mut local = Gathering::new(&plan, rank, mine, &catalogue, staged, verify);
    comm.barrier()?;
    let start = Instant::now();
    stream::run(comm, plan.steps, buffers, &mut local, |step, buffer| {
        let (counts, displs, total) = plan.step(step);
        comm.allgatherv(circulant::InPlace, &mut buffer[..total], (&counts, &displs))?;
        bar.inc(total as u64);
        Ok(())
    })?;
    let moved = slowest(comm, start)?;
    bar.finish_and_clear();
    complete(comm, &mut local, verify)?;
    for staged in publish(comm, std::mem::take(&mut local.staged), args.how.force, &names)? {
        staged.settle();
    }
    if let Some(folder) = &mut folder {
        folder.made = false;
    }
    let total = slowest(comm, start)?;
    if rank > 0 {
        return Ok(String::new());
    }
    let smallest = plan.bytes.iter().min().copied().unwrap_or(0);
    let timing = Timing { wire: &wire, volume: plan.total() - smallest, moved, total };
    let mut text = per_rank(&catalogue, &plan);
    text += &format!(
        "{} → {}: {} in {} to {}{}\n",
        args.source.to_string_lossy(),
        args.dest.to_string_lossy(),
        units::size(plan.total()),
        plural(catalogue.iter().map(Vec::len).sum::<usize>() as u64, "file"),
        units::ranks_text(comm, world.nodes()),
        if verify { ", checksums equal" } else { "" },
    );
    text += &timing.report(comm, world);
    Ok(text)
}

/// Rank 0's token, and its chunk, which counts for all. Refuses ranks with other flags.
fn settle_settings(comm: &Communicator, args: &CollectArgs) -> Result<(u64, u64), Failure> {
    let mine = [token(), args.how.chunk, u64::from(args.how.force), u64::from(args.how.no_verify)];
    let mut zero = mine;
    comm.bcast(&mut zero, 0)?;
    let same = mine[1..] == zero[1..];
    let different = || Failure::usage("this rank's --chunk, --force or --no-verify are not those of rank 0");
    agree(comm, same.then_some(()).ok_or_else(different))?;
    Ok((zero[0], zero[1]))
}

/// The folder that this rank fills; removed again when it was made in vain.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    made: bool,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.made {
            // It stays where other files are in it.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn destination(world: &World, comm: &Communicator, dest: &Template) -> Result<Option<Folder>, Failure> {
    let rank = comm.rank();
    let mut mine = Ok(None);
    if dest.per_rank() || leads_node(world) {
        mine = make(dest.path(rank, &host())).map(Some);
    }
    let mine = agree(comm, mine)?;
    let key = mine.as_ref().map(|folder| identity(&folder.path).map(|[a, b, c]| [1, a, b, c]));
    let key = agree(comm, key.transpose())?.unwrap_or([0; 4]);
    let mut keys = vec![[0u64; 4]; comm.size()];
    comm.allgather(&[key], &mut keys)?;
    let keys: Vec<Option<[u64; 4]>> = keys.into_iter().map(|k| (k[0] == 1).then_some(k)).collect();
    match mine {
        Some(mut folder) if !is_first(&keys, rank) => {
            // Another process may fill it that did not make it: it stays.
            folder.made = false;
            Ok(None)
        }
        mine => Ok(mine),
    }
}

fn make(path: PathBuf) -> Result<Folder, Failure> {
    match fs::create_dir(&path) {
        Ok(()) => Ok(Folder { path, made: true }),
        Err(_) if path.is_dir() => Ok(Folder { path, made: false }),
        Err(e) => Err(Failure::about(path.display(), &e)),
    }
}

/// A file in the making for every entry, in the catalogue's order.
fn stage(folder: &Path, all: &[Vec<Entry>], force: bool, token: &str) -> Result<Vec<Staged>, Failure> {
    let entries: Vec<&Entry> = all.iter().flatten().collect();
    for e in &entries {
        vacant(&folder.join(OsStr::from_bytes(&e.name)), force)?;
    }
    let mut staged = Vec::with_capacity(entries.len());
    for (i, e) in entries.iter().enumerate() {
        let dest = folder.join(OsStr::from_bytes(&e.name));
        let mut file = Staged::create(dest, e.size, &format!("{token}-{i}"), entries.len() <= UNNAMED_MAX)?;
        file.park();
        staged.push(file);
    }
    Ok(staged)
}

/// How much each rank contributes to each step: each rank the same share of its bytes to every step.
#[derive(Debug)]
struct Shares {
    /// Of each rank.
    bytes: Vec<u64>,
    steps: u64,
}

impl Shares {
    fn new(catalogue: &[Vec<Entry>], chunk: u64) -> Self {
        let bytes: Vec<u64> = catalogue.iter().map(|list| list.iter().map(|e| e.size).sum()).collect();
        let total: u64 = bytes.iter().sum();
        Self { bytes, steps: total.div_ceil(chunk.max(1)) }
    }

    fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Enough for every step: rounding adds less than a byte per rank.
    fn buffer(&self) -> usize {
        match self.steps {
            0 => 0,
            steps => usize::try_from(self.total() / steps).unwrap_or(usize::MAX) + self.bytes.len() + 1,
        }
    }

    fn count(&self, rank: usize, step: u64) -> usize {
        let (from, to) = part(self.bytes[rank], step, self.steps);
        usize::try_from(to - from).unwrap_or(usize::MAX)
    }

    /// Counts, displacements and their sum.
    fn step(&self, step: u64) -> (Vec<usize>, Vec<usize>, usize) {
        let counts: Vec<usize> = (0..self.bytes.len()).map(|rank| self.count(rank, step)).collect();
        let (displs, total) = starts(&counts);
        (counts, displs, total)
    }
}

/// The files of one rank, and where in each rank's files we are.
struct Gathering<'a> {
    plan: &'a Shares,
    rank: usize,
    mine: Contribution,
    staged: Vec<Staged>,
    /// Of each rank: its place in `staged` and in that file.
    places: Vec<Cursor>,
    sizes: Vec<u64>,
    modes: Vec<u32>,
    /// Of each rank's bytes as received; our own as read.
    hashes: Vec<Sha256>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    file: usize,
    end: usize,
    offset: u64,
}

impl Cursor {
    /// How many of `len` bytes go to which file at which offset; skips files that are full.
    fn next(&mut self, sizes: &[u64], len: usize) -> Option<(usize, u64, usize)> {
        while self.file < self.end && self.offset == sizes[self.file] {
            self.file += 1;
            self.offset = 0;
        }
        if self.file == self.end {
            return None;
        }
        let room = sizes[self.file] - self.offset;
        let n = usize::try_from(room).unwrap_or(usize::MAX).min(len);
        let found = (self.file, self.offset, n);
        self.offset += n as u64;
        Some(found)
    }
}

impl<'a> Gathering<'a> {
    fn new(
        plan: &'a Shares,
        rank: usize,
        mine: Contribution,
        catalogue: &[Vec<Entry>],
        staged: Vec<Staged>,
        verify: bool,
    ) -> Self {
        let lengths: Vec<usize> = catalogue.iter().map(Vec::len).collect();
        let (at, _) = starts(&lengths);
        let places = at.iter().zip(&lengths).map(|(&file, n)| Cursor { file, end: file + n, offset: 0 });
        Self {
            plan,
            rank,
            mine,
            staged,
            places: places.collect(),
            sizes: catalogue.iter().flatten().map(|e| e.size).collect(),
            modes: catalogue.iter().flatten().map(|e| e.mode).collect(),
            hashes: if verify { vec![Sha256::new(); catalogue.len()] } else { Vec::new() },
        }
    }
}

impl Local for Gathering<'_> {
    fn fill(&mut self, step: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        let start: usize = (0..self.rank).map(|r| self.plan.count(r, step)).sum();
        let bytes = &mut buffer[start..start + self.plan.count(self.rank, step)];
        self.mine.read(bytes)?;
        if let Some(hash) = self.hashes.get_mut(self.rank) {
            hash.update(bytes);
        }
        Ok(())
    }

    fn empty(&mut self, step: u64, buffer: &[u8]) -> Result<(), Failure> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let mut start = 0;
        for (rank, cursor) in self.places.iter_mut().enumerate() {
            let mut bytes = &buffer[start..start + self.plan.count(rank, step)];
            start += bytes.len();
            if let Some(hash) = self.hashes.get_mut(rank).filter(|_| rank != self.rank) {
                hash.update(bytes);
            }
            while let (false, Some((file, offset, n))) =
                (bytes.is_empty(), cursor.next(&self.sizes, bytes.len()))
            {
                let (now, later) = bytes.split_at(n);
                self.staged[file].write(now, offset)?;
                self.staged[file].park();
                bytes = later;
            }
        }
        Ok(())
    }
}

/// Everything written, compared and on disk. Collective.
fn complete(comm: &Communicator, local: &mut Gathering<'_>, verify: bool) -> Result<(), Failure> {
    let digests: Vec<[u8; 32]> =
        std::mem::take(&mut local.hashes).into_iter().map(|h| h.finalize().into()).collect();
    let mut theirs = vec![[0u8; 32]; comm.size()];
    if verify {
        comm.allgather(&[digests[comm.rank()]], &mut theirs)?;
    }
    let mut done = Ok(());
    if !local.staged.is_empty() {
        done = match digests.iter().zip(&theirs).position(|(a, b)| a != b) {
            Some(rank) => {
                Err(Failure::new(3, format!("the checksum of rank {rank}'s files differs from what it sent")))
            }
            None => local.staged.iter_mut().zip(&local.modes).try_for_each(|(file, mode)| {
                file.complete(*mode)?;
                file.park();
                Ok(())
            }),
        };
    }
    agree(comm, done)
}

/// What each rank had, largest first where there are too many to show all.
fn per_rank(catalogue: &[Vec<Entry>], plan: &Shares) -> String {
    let mut ranks: Vec<usize> = (0..catalogue.len()).collect();
    if ranks.len() > LINES_MAX {
        ranks.sort_by_key(|r| std::cmp::Reverse(plan.bytes[*r]));
        ranks.truncate(LINES_MAX);
    }
    let shown = ranks.len();
    let mut rows = vec![["rank", "files", "bytes"].map(str::to_owned)];
    rows.extend(
        ranks.iter().map(|&r| [r.to_string(), catalogue[r].len().to_string(), units::size(plan.bytes[r])]),
    );
    let width = |i: usize| rows.iter().map(|row| row[i].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let lines = rows.iter().map(|row| align(row, &widths, &[false; 3]) + "\n");
    let mut text: String = lines.collect();
    if shown < catalogue.len() {
        text += &format!("(the {shown} largest of {})\n", plural(catalogue.len() as u64, "rank"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(name: &str, size: u64) -> Entry {
        Entry { name: name.as_bytes().to_vec(), size, mode: 0o100_644 }
    }

    proptest! {
        /// Every byte of every file is written once, whatever the sizes and steps.
        #[test]
        fn shares_cover_the_files(sizes in prop::collection::vec(prop::collection::vec(0u64..50, 0..5), 1..6), chunk in 1u64..40) {
            let catalogue: Vec<Vec<Entry>> =
                sizes.iter().map(|list| list.iter().map(|n| entry("f", *n)).collect()).collect();
            let plan = Shares::new(&catalogue, chunk);
            let all: Vec<u64> = sizes.iter().flatten().copied().collect();
            let mut written = vec![0u64; all.len()];
            let mut file = 0;
            for (rank, list) in sizes.iter().enumerate() {
                let mut cursor = Cursor { file, end: file + list.len(), offset: 0 };
                for step in 0..plan.steps {
                    let mut left = plan.count(rank, step);
                    while left > 0 {
                        let (f, offset, n) = cursor.next(&all, left).unwrap();
                        prop_assert_eq!(offset, written[f]);
                        written[f] += n as u64;
                        left -= n;
                    }
                }
                file += list.len();
            }
            prop_assert_eq!(written, all);
            for step in 0..plan.steps {
                prop_assert!(plan.step(step).2 <= plan.buffer());
                prop_assert!(plan.step(step).2 as u64 <= chunk + sizes.len() as u64 + 1);
            }
        }
    }
}
