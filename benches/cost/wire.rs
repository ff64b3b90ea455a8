//! Puts from one endpoint to another of the same process and nothing else: what a put costs its sender in user space, and how
//! long one takes. `ci/verbs cost` counts the instructions of [`sent`] and [`completed`] by callgrind.
//!
//! `wire_cost ibverbs|PROVIDER BATCH ROUNDS rest|BYTES`: rounds of BATCH puts, posted together as the engine does. With `rest` puts are of 4 KiB
//! and the sender sleeps before it looks for completions, so that it looks once in a round; else they are of BYTES, at most 4 KiB, and it
//! prints the time of a put, and what the process had of it: in user space, which is with the polls of both ends, and in system calls.
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

fn open(rank: u32, provider: &str) -> circulant::Result<End> {
    let mut wire: Box<dyn Transport> = match provider {
        verbs::NAME => Box::new(Verbs::open(&verbs::Options::new(rank, 2))?),
        _ => {
            let (config, networks) = (Config::from_env(), Networks::default());
            let (libfabric, networks) = (&config.libfabric, &networks);
            Box::new(Fabric::open(&fabric::Options {
                provider,
                size: 2,
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

/// Posts puts to rank 1 from `first` on, until `last` or until no more is taken; returns the next.
#[inline(never)]
fn sent(from: &mut End, to: Remote, (first, last): (u32, u32), len: usize) -> circulant::Result<u32> {
    for put in first..last {
        let at = put as usize * BYTES;
        let ptr = from.memory.wrapping_add(at).cast_const();
        let source = [Source { ptr, len, registration: from.registration }];
        // SAFETY: the source lies in its registration, which is never freed and never written.
        let posted = unsafe { from.wire.put(1, &source, to.base + at as u64, to.key, put, put.into())? };
        if posted == Posted::Again {
            from.wire.flush();
            return Ok(put);
        }
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
fn round(ends: &mut [End; 2], batch: u32, bytes: Option<usize>) -> circulant::Result<()> {
    let (to, begin) = (ends[1].remote, Instant::now());
    let due = ends[0].seen.done + u64::from(batch);
    let mut next = 0;
    loop {
        if next < batch {
            next = sent(&mut ends[0], to, (next, batch), bytes.unwrap_or(BYTES))?;
        }
        if bytes.is_none() {
            std::thread::sleep(REST);
        }
        completed(&mut ends[0])?;
        arrived(&mut ends[1])?;
        if let Some(why) = ends[0].seen.lost.take() {
            eprintln!("{why}");
            std::process::exit(1);
        }
        let [a, b] = [ends[0].seen.done, ends[1].seen.arrived];
        if next == batch && a == due && b == due {
            return Ok(());
        }
        if begin.elapsed() > LIMIT {
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
    if let [provider, word] = &words[..]
        && word == "registered"
    {
        let mut end = open(0, provider)?;
        registered(&mut end)?;
        return end.wire.close();
    }
    let [provider, batch, rounds, how] = &words[..] else { usage() };
    let bytes = if how == "rest" { Ok(None) } else { how.parse().map(Some) };
    let (Ok(batch @ 1..=MAX_BATCH), Ok(rounds)) = (batch.parse::<u32>(), rounds.parse::<u32>()) else {
        usage()
    };
    let Ok(bytes @ (None | Some(0..=BYTES))) = bytes else { usage() };
    let mut ends = [open(0, provider)?, open(1, provider)?];
    for (a, b) in [(0, 1u32), (1, 0)] {
        let address = ends[b as usize].wire.address();
        ends[a].wire.connect(b, &address)?;
    }
    // Connects, and fills what is kept.
    for _ in 0..3 {
        round(&mut ends, batch, bytes)?;
    }
    let (begin, before) = (Instant::now(), processor_time());
    for _ in 0..rounds {
        round(&mut ends, batch, bytes)?;
    }
    if bytes.is_some() {
        let (time, after) = (begin.elapsed().as_secs_f64(), processor_time());
        let each = |seconds: f64| seconds * 1e6 / (f64::from(batch) * f64::from(rounds));
        let [user, system] = [0, 1].map(|i| each(after[i] - before[i]));
        let provider = &ends[0].wire.limits().provider;
        println!("{provider} {:.2} us/put, {user:.2} user, {system:.2} system", each(time));
    }
    ends.iter_mut().try_for_each(|end| end.wire.close())
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
    eprintln!("usage: wire_cost ibverbs|PROVIDER BATCH ROUNDS rest|BYTES, or registered");
    std::process::exit(2);
}
