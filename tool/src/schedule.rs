//! `circulant schedule`: the schedules as the paper prints them, or for programs to read.
//!
//! Everything is computed row by row while it is written, so p is bounded by time, not by memory.

use std::io::{self, BufWriter, Write};

use circulant::schedule::{Circulant, Entries, MAX_P};
use circulant::{Error, ErrorKind, Result};
use clap::{Args, ValueEnum};
use serde::{Serialize, Serializer};

/// Up to this many ranks a table has a column per rank, as in the paper; beyond, a line per rank.
const MAX_COLUMNS: u32 = 40;

/// Print the schedule: which block each rank sends to which in each round.
///
/// Entry k of a rank's row is the block it receives or sends in
/// round k of a phase of q = ⌈log2 P⌉ rounds: 0 and up are blocks that the root first sends in this phase,
/// negative ones are of the phase before. Each phase adds q.
#[derive(Args, Debug)]
pub(crate) struct ScheduleArgs {
    /// Number of ranks
    #[arg(short, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_P)))]
    p: u32,
    /// Only this rank's schedule [default: all ranks]
    #[arg(short, long, value_name = "R")]
    rank: Option<u32>,
    /// The rank that the blocks come from
    #[arg(long, value_name = "R", default_value_t = 0)]
    root: u32,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// Aligned, to read
    #[default]
    Table,
    /// One object: p, q, root, skips, base, recv, send
    Json,
    /// A line per rank: rank, base, recv0.., send0..
    Csv,
}

/// A schedule with its root: ranks as they are called, not as they are counted from the root.
struct Rooted {
    c: Circulant,
    root: u32,
}

impl Rooted {
    fn p(&self) -> u32 {
        self.c.p()
    }

    fn q(&self) -> u32 {
        self.c.q()
    }

    /// (rank − root) mod p. Both are below p ≤ 2^31 − 1.
    fn distance(&self, rank: u32) -> u32 {
        (rank + self.p() - self.root) % self.p()
    }

    fn rank(&self, distance: u32) -> u32 {
        (distance + self.root) % self.p()
    }

    fn base(&self, rank: u32) -> u32 {
        self.c.base(self.distance(rank))
    }

    fn recv(&self, rank: u32) -> Entries {
        self.c.recv(self.distance(rank))
    }

    fn send(&self, rank: u32) -> Entries {
        self.c.send(self.distance(rank))
    }

    fn from(&self, rank: u32, k: u32) -> u32 {
        self.rank(self.c.from(self.distance(rank), k))
    }

    fn to(&self, rank: u32, k: u32) -> u32 {
        self.rank(self.c.to(self.distance(rank), k))
    }
}

/// Refuses a rank that there is not.
fn within(p: u32, flag: &str, rank: u32) -> Result<()> {
    match rank < p {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Argument, format!("there is no rank {rank} among {p} ranks"))
            .help(format!("give --{flag} 0 to {}", p - 1))),
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &ScheduleArgs) -> Result<()> {
    within(args.p, "root", args.root)?;
    args.rank.map_or(Ok(()), |rank| within(args.p, "rank", rank))?;
    let c = Rooted { c: Circulant::new(args.p), root: args.root };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let written = match (args.format, args.rank) {
        (Format::Json, Some(r)) => json(&mut out, &OneRank::new(&c, r)),
        (Format::Json, None) => json(&mut out, &AllRanks::new(&c)),
        (Format::Csv, Some(r)) => csv(&mut out, &c, r..r + 1),
        (Format::Csv, None) => csv(&mut out, &c, 0..c.p()),
        (Format::Table, Some(r)) => rank_table(&mut out, &c, r),
        (Format::Table, None) if c.p() <= MAX_COLUMNS => wide_table(&mut out, &c),
        (Format::Table, None) => long_table(&mut out, &c),
    };
    match written.and_then(|()| out.flush()) {
        // The reader has enough (`| head`).
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

#[derive(Serialize)]
struct AllRanks<'a> {
    p: u32,
    q: u32,
    root: u32,
    skips: &'a [u32],
    base: Rows<'a, u32>,
    recv: Rows<'a, Row>,
    send: Rows<'a, Row>,
}

impl<'a> AllRanks<'a> {
    fn new(c: &'a Rooted) -> Self {
        Self {
            p: c.p(),
            q: c.q(),
            root: c.root,
            skips: c.c.skips(),
            base: Rows(c, Rooted::base),
            recv: Rows(c, |c, r| Row(c.recv(r))),
            send: Rows(c, |c, r| Row(c.send(r))),
        }
    }
}

#[derive(Serialize)]
struct OneRank<'a> {
    p: u32,
    q: u32,
    root: u32,
    skips: &'a [u32],
    rank: u32,
    base: u32,
    recv: Row,
    send: Row,
}

impl<'a> OneRank<'a> {
    fn new(c: &'a Rooted, r: u32) -> Self {
        let (recv, send) = (Row(c.recv(r)), Row(c.send(r)));
        Self { p: c.p(), q: c.q(), root: c.root, skips: c.c.skips(), rank: r, base: c.base(r), recv, send }
    }
}

struct Row(Entries);

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}

/// A value per rank, each made when it is written.
struct Rows<'a, T>(&'a Rooted, fn(&Rooted, u32) -> T);

impl<T: Serialize> Serialize for Rows<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq((0..self.0.p()).map(|r| self.1(self.0, r)))
    }
}

fn json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

fn csv(out: &mut impl Write, c: &Rooted, ranks: std::ops::Range<u32>) -> io::Result<()> {
    write!(out, "rank,base")?;
    (0..c.q()).try_for_each(|k| write!(out, ",recv{k}"))?;
    (0..c.q()).try_for_each(|k| write!(out, ",send{k}"))?;
    writeln!(out)?;
    for r in ranks {
        write!(out, "{r},{}", c.base(r))?;
        c.recv(r).iter().chain(c.send(r).iter()).try_for_each(|entry| write!(out, ",{entry}"))?;
        writeln!(out)?;
    }
    Ok(())
}

fn heading(out: &mut impl Write, c: &Rooted) -> io::Result<()> {
    let root = if c.root > 0 { format!(", root {}", c.root) } else { String::new() };
    write!(out, "p = {}, q = {}{root}, skips", c.p(), c.q())?;
    c.c.skips().iter().try_for_each(|skip| write!(out, " {skip}"))?;
    writeln!(out, "\n")
}

/// The paper's layout: a line per round, a column per rank, a bar before each rank that is a skip.
fn wide_table(out: &mut impl Write, c: &Rooted) -> io::Result<()> {
    heading(out, c)?;
    let mut line = |head: &str, entry: &dyn Fn(u32) -> i64| {
        write!(out, "{head:<7}")?;
        for r in 0..c.p() {
            let bar = if c.c.skips().contains(&c.distance(r)) { '|' } else { ' ' };
            write!(out, "{bar}{:>3}", entry(r))?;
        }
        writeln!(out)
    };
    line("rank", &i64::from)?;
    line("base", &|r| i64::from(c.base(r)))?;
    for k in 0..c.q() {
        line(&format!("recv {k}"), &|r| i64::from(c.recv(r)[k as usize]))?;
    }
    for k in 0..c.q() {
        line(&format!("send {k}"), &|r| i64::from(c.send(r)[k as usize]))?;
    }
    Ok(())
}

/// A line per rank.
fn long_table(out: &mut impl Write, c: &Rooted) -> io::Result<()> {
    heading(out, c)?;
    let width = (c.p() - 1).to_string().len().max(4);
    let columns = c.q() as usize * 4;
    writeln!(out, "{:>width$} base |{:columns$} | send 0, 1, ..", "rank", " recv 0, 1, ..")?;
    for r in 0..c.p() {
        write!(out, "{r:>width$} {:>4} |", c.base(r))?;
        c.recv(r).iter().try_for_each(|entry| write!(out, "{entry:>4}"))?;
        write!(out, " |")?;
        c.send(r).iter().try_for_each(|entry| write!(out, "{entry:>4}"))?;
        writeln!(out)?;
    }
    Ok(())
}

/// One rank: a line per round, with its partners.
fn rank_table(out: &mut impl Write, c: &Rooted, r: u32) -> io::Result<()> {
    heading(out, c)?;
    writeln!(out, "rank {r}, base block {}\n", c.base(r))?;
    let width = c.p().to_string().len().max(4);
    writeln!(out, "round {:>width$} | recv {:>width$} | send {:>width$}", "skip", "from", "to")?;
    for (k, (received, sent)) in (0..c.q()).zip(c.recv(r).iter().zip(c.send(r).iter())) {
        let (skip, from, to) = (c.c.skip(k), c.from(r, k), c.to(r, k));
        writeln!(out, "{k:>5} {skip:>width$} | {received:>4} {from:>width$} | {sent:>4} {to:>width$}")?;
    }
    Ok(())
}
