//! Puts from one endpoint to others of the same process and nothing else: what a put costs its sender in user space, and how
//! long one takes. `ci/verbs cost` counts the instructions of [`sent`] and [`completed`] by callgrind.
//!
//! `wire_cost ibverbs|PROVIDER BATCH ROUNDS rest`: rounds of BATCH puts of 4 KiB, posted together as the engine does. The sender sleeps before it
//! looks for completions, so that it looks once in a round.
//!
//! `wire_cost ibverbs|PROVIDER BATCH[,BATCH…] PUTS BYTES PEERS`: PUTS puts of BYTES, at most 4 KiB, in rounds of BATCH, dealt to so many peers. For
//! each BATCH it prints the time of a put, and what the process had of it: in user space, which is with the polls of all ends, and in
//! system calls.
//!
//! `wire_cost ibverbs|PROVIDER registered`: what it costs to register a slice for a call and to end that, beside copying it to
//! registered memory and back.

use circulant::config::Config;
use circulant::transport::fabric::{self, Fabric, Networks};
use circulant::transport::verbs::{self, Verbs};
use circulant::transport::{Access, Posted, Registration, Remote, Sink, Source, Transport};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes of the longest put: over what is inline anywhere, and one packet of soft-RoCE.
const BYTES: usize = 4096;
/// The most puts of a round, each of memory of its own.
const MAX_BATCH: u32 = 1024;
/// Only stops a hang.
const LIMIT: Duration = Duration::from_secs(300);
/// Looks for completions before the clock is asked. Chosen: at most 51 s with a rest before each.
const LOOKS: u32 = 1024;
/// In which 32 puts are complete, also under emulation on a busy machine.
const REST: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Seen {
    done: u64,
    arrived: u64,
    lost: Option<String>,
}

impl Sink for Seen {
    fn arrival(&mut self, _: u32) {
        self.arrived += 1;
    }
    fn done(&mut self, _: u64) {
        self.done += 1;
    }
    fn message(&mut self, _: &[u8]) {}
    fn lost(&mut self, _: Option<u32>, why: &str) {
        self.lost = Some(why.to_owned());
    }
}

struct End {
    wire: Box<dyn Transport>,
    memory: *mut u8,
    registration: Registration,
    remote: Remote,
    seen: Seen,
}

fn open(rank: u32, size: u32, provider: &str) -> circulant::Result<End> {
    let mut wire: Box<dyn Transport> = match provider {
        verbs::NAME => Box::new(Verbs::open(&verbs::Options::new(rank, size as usize))?),
        _ => {
            let (config, networks) = (Config::from_env(), Networks::default());
            let (libfabric, networks) = (&config.libfabric, &networks);
            Box::new(Fabric::open(&fabric::Options {
                provider,
                size: size as usize,
                libfabric,
                networks,
                ..Default::default()
            })?)
        }
    };
    let len = BYTES * MAX_BATCH as usize;
    let memory = Box::leak(vec![1u8; len].into_boxed_slice()).as_mut_ptr();
    // SAFETY: leaked, so valid for ever; touched by the endpoints only.
    let (registration, remote) = unsafe { wire.register(memory, len, Access::Target)? };
    Ok(End { wire, memory, registration, remote, seen: Seen::default() })
}

/// Rank 0, which puts to all the others, each of which is connected with it.
fn star(peers: u32, provider: &str) -> circulant::Result<(End, Vec<End>)> {
    let mut root = open(0, peers + 1, provider)?;
    let mut others = Vec::new();
    for rank in 1..=peers {
        let mut other = open(rank, peers + 1, provider)?;
        other.wire.connect(0, &root.wire.address())?;
        root.wire.connect(rank, &other.wire.address())?;
        others.push(other);
    }
    Ok((root, others))
}

/// Posts puts from `first` on, in turns to the ranks from 1 on, until `last` or until no more is taken; returns the next.
#[inline(never)]
fn sent(from: &mut End, to: &[Remote], (first, last): (u32, u32), len: usize) -> circulant::Result<u32> {
    let peers = u32::try_from(to.len()).unwrap_or(u32::MAX);
    let mut rank = 1 + first % peers;
    for put in first..last {
        let at = put as usize * BYTES;
        let ptr = from.memory.wrapping_add(at).cast_const();
        let source = [Source { ptr, len, registration: from.registration }];
        let Remote { base, key } = to[rank as usize - 1];
        // SAFETY: the source lies in its registration, which is never freed and never written.
        let posted = unsafe { from.wire.put(rank, &source, base + at as u64, key, put, put.into())? };
        if posted == Posted::Again {
            from.wire.flush();
            return Ok(put);
        }
        rank = if rank == peers { 1 } else { rank + 1 };
    }
    from.wire.flush();
    Ok(last)
}

/// Looks for completions at the sender.
#[inline(never)]
fn completed(end: &mut End) -> circulant::Result<()> {
    end.wire.poll(black_box(&mut end.seen)).map(drop)
}

/// A round of puts of `bytes`; `None`: of the longest, with a rest before the sender looks.
fn round(
    root: &mut End,
    others: &mut [End],
    to: &[Remote],
    batch: u32,
    bytes: Option<usize>,
) -> circulant::Result<()> {
    // The clock may be a system call, and these are counted.
    let (mut looks, mut begin) = (0u32, None);
    let arrivals = |others: &[End]| others.iter().map(|end| end.seen.arrived).sum::<u64>();
    let due = root.seen.done + u64::from(batch);
    let mut next = 0;
    loop {
        if next < batch {
            next = sent(root, to, (next, batch), bytes.unwrap_or(BYTES))?;
        }
        if bytes.is_none() {
            std::thread::sleep(REST);
        }
        completed(root)?;
        others.iter_mut().try_for_each(arrived)?;
        if let Some(why) = root.seen.lost.take() {
            eprintln!("{why}");
            std::process::exit(1);
        }
        let [a, b] = [root.seen.done, arrivals(others)];
        if next == batch && a == due && b == due {
            return Ok(());
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS) && begin.get_or_insert_with(Instant::now).elapsed() > LIMIT {
            eprintln!("{a} puts are done and {b} have arrived of {due}");
            std::process::exit(1);
        }
    }
}

/// The shortest of many, in microseconds.
fn shortest(mut what: impl FnMut() -> circulant::Result<()>) -> circulant::Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..300 {
        let begin = Instant::now();
        what()?;
        best = best.min(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(best)
}

/// A table by bytes.
fn registered(end: &mut End) -> circulant::Result<()> {
    println!("{:<10}{:>14}{:>14}", "bytes", "registered us", "copied us");
    for len in (10..=20).map(|power| 1_usize << power) {
        let mut slice = vec![1u8; len];
        let ptr = slice.as_mut_ptr();
        let both = shortest(|| {
            // SAFETY: the slice outlives its registration; nothing else touches it meanwhile.
            let (registration, _) = unsafe { end.wire.register(ptr, len, Access::Target)? };
            end.wire.deregister(registration)
        })?;
        let mut arena = vec![2u8; len];
        let copied = shortest(|| {
            black_box(&mut arena).copy_from_slice(black_box(&slice));
            black_box(&mut slice).copy_from_slice(black_box(&arena));
            Ok(())
        })?;
        println!("{len:<10}{both:>14.1}{copied:>14.1}");
    }
    Ok(())
}

/// The same at the receiver: a name of its own, so that it is not counted.
#[inline(never)]
fn arrived(end: &mut End) -> circulant::Result<()> {
    end.wire.poll(&mut end.seen).map(drop)
}

fn main() -> circulant::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u32>().unwrap_or_else(|_| usage());
    let batch =
        |word: &str| Some(number(word)).filter(|n| (1..=MAX_BATCH).contains(n)).unwrap_or_else(|| usage());
    match words[..] {
        [provider, "registered"] => {
            let mut end = open(0, 2, provider)?;
            registered(&mut end)?;
            end.wire.close()
        }
        [provider, size, rounds, "rest"] => run(provider, 1, &[(batch(size), number(rounds))], None),
        [provider, batches, puts, bytes, peers] => {
            let (puts, bytes) = (number(puts), number(bytes) as usize);
            let sizes: Vec<_> =
                batches.split(',').map(batch).map(|size| (size, puts.div_ceil(size))).collect();
            match number(peers) {
                peers @ 1.. if bytes <= BYTES => run(provider, peers, &sizes, Some(bytes)),
                _ => usage(),
            }
        }
        _ => usage(),
    }
}

/// For each size of a batch as many rounds as beside it.
fn run(provider: &str, peers: u32, sizes: &[(u32, u32)], bytes: Option<usize>) -> circulant::Result<()> {
    let (mut root, mut others) = star(peers, provider)?;
    let to: Vec<Remote> = others.iter().map(|end| end.remote).collect();
    for &(batch, rounds) in sizes {
        // Connects, and fills what is kept.
        for _ in 0..3.max(peers.div_ceil(batch)) {
            round(&mut root, &mut others, &to, batch.max(peers), bytes)?;
        }
        let (begin, before) = (Instant::now(), processor_time());
        for _ in 0..rounds {
            round(&mut root, &mut others, &to, batch, bytes)?;
        }
        if bytes.is_some() {
            let (time, after) = (begin.elapsed().as_secs_f64(), processor_time());
            let each = |seconds: f64| seconds * 1e6 / (f64::from(batch) * f64::from(rounds));
            let [user, system] = [0, 1].map(|i| each(after[i] - before[i]));
            println!("{batch} {:.2} us/put, {user:.2} user, {system:.2} system", each(time));
        }
    }
    root.wire.close()?;
    others.iter_mut().try_for_each(|end| end.wire.close())
}

/// Seconds of this process in user space and in the kernel; zero where it is not told.
fn processor_time() -> [f64; 2] {
    // As the kernel counts it for all programs, whatever its own tick (`getconf CLK_TCK`).
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name come the fields from the third on; these are the 14th and the 15th (proc_pid_stat(5)).
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let mut ticks = fields.skip(11).map(|field| field.parse::<f64>().unwrap_or(0.0) / TICKS_PER_SECOND);
    [ticks.next().unwrap_or(0.0), ticks.next().unwrap_or(0.0)]
}

fn usage() -> ! {
    eprintln!(
        "usage: wire_cost ibverbs|PROVIDER BATCH ROUNDS rest, or BATCH[,BATCH...] PUTS BYTES PEERS, or registered"
    );
    std::process::exit(2);
}
