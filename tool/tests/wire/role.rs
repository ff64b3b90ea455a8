//! What the ranks do in these tests.
#![allow(clippy::cast_possible_truncation, reason = "test patterns wrap")]

use crate::exercise::{exercise, value};
use crate::huge::huge;
use crate::survivors::{go_on, operate};
use crate::traffic::{check_some, subset, traffic};
use circulant::config::Config;
use circulant::diagnostics::allocations;
use circulant::launch::{self, Gone, Launch};
use circulant::{Communicator, InPlace, Result, World, ops};
use circulant_tests::chaos::processes;
use rustix::process::{Signal, getpid, kill_process};
use std::process::exit;
use std::time::Duration;

pub(crate) fn play(role: &str) {
    if role == "chaos" {
        exit(processes::play());
    }
    let done = match role {
        "exercise" => plain(|comm| exercise(comm, 1).map(|()| println!("all right"))),
        "matrix" => plain(matrix),
        "traffic" => mixed_traffic(),
        "soak" => crate::soak::play(),
        "huge" => plain(|comm| huge(comm).map(|()| println!("all right"))),
        "costs" => costs(),
        "disagree" => plain(|comm| comm.bcast(&mut vec![0u8; if comm.rank() == 2 { 999 } else { 1000 }], 0)),
        "bad-root" => plain(|comm| comm.bcast(&mut [0u8; 10], if comm.rank() == 2 { 9 } else { 0 })),
        "overlap" => plain(|comm| comm.allgatherv(&[0u8; 4], &mut [0u8; 12], (&[4, 4, 4], &[0, 3, 8]))),
        "forever" => plain(forever),
        "short" => plain(short),
        "quit" => plain(quit),
        "survive" => survive(),
        "mprotect-survive" => mprotect_and_go_on(false),
        "mprotect-survive-scope" => mprotect_and_go_on(true),
        "fork" => forked(),
        "mprotect" => mprotect(false),
        "mprotect-scope" => mprotect(true),
        "other-settings" => other_settings(),
        "nodes" => nodes(),
        "other-wait" => other_wait(),
        "slow" => plain(slow),
        "slow-agree" => slow_agree(),
        "slow-start" => slow_start(),
        "threadless" => threadless(false),
        "threadless-fence" => threadless(true),
        _ => panic!("there is no role {role}"),
    };
    if let Err(e) = done {
        println!("error: {:?}: {e}", e.kind());
        eprintln!("{e}");
        exit(1);
    }
}

fn plain(body: impl FnOnce(&Communicator) -> Result<()>) -> Result<()> {
    let world = World::init()?;
    body(&world.comm())?;
    world.finalize()
}

/// Goes on until as many ranks are gone as are to be killed, and a while longer.
fn survive() -> Result<()> {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok()).unwrap_or(1);
    let (seed, lost) = (number("WIRE_TEST_SEED"), number("WIRE_TEST_LOST"));
    let world = init()?;
    println!("pid {} {}", world.rank(), getpid().as_raw_nonzero());
    let left = go_on(&world.comm(), seed, |_| {}, |call, size| call > 20 && size == world.size() - lost)?;
    println!("left among {left}");
    world.finalize()
}

/// A launcher that says of the nodes what WIRE_TEST_NODES says: one index for each rank, or nothing; and, at the rank
/// that WIRE_TEST_UNSEEN names, publishes where its memory is not.
#[derive(Debug)]
struct Nodes(Box<dyn Launch>, Option<Vec<u32>>, bool);

impl Launch for Nodes {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn rank(&self) -> usize {
        self.0.rank()
    }
    fn size(&self) -> usize {
        self.0.size()
    }
    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        if self.2 && key == format!("shm-{}", self.rank()) {
            // No rank finds us where we say.
            let mut wrong = value.to_vec();
            wrong[8] ^= 1;
            return self.0.put(key, &wrong);
        }
        self.0.put(key, value)
    }
    fn fence(&mut self, deadline: Duration) -> Result<()> {
        self.0.fence(deadline)
    }
    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        self.0.get(key)
    }
    fn nodes(&self) -> Option<Vec<u32>> {
        self.1.clone()
    }
    fn gone(&mut self) -> Option<Gone> {
        self.0.gone()
    }
    fn abort(&mut self, code: i32, message: &str) {
        self.0.abort(code, message);
    }
    fn finalize(&mut self) -> Result<()> {
        self.0.finalize()
    }
}

/// A world of ranks on nodes that are not: the index of each, or `unknown`.
fn on_nodes(said: &str) -> Result<World> {
    let nodes = (said != "unknown").then(|| said.bytes().map(|b| u32::from(b - b'0')).collect());
    let launch = launch::detect(&Config::from_env())?;
    let unseen = std::env::var("WIRE_TEST_UNSEEN").is_ok_and(|r| r == launch.rank().to_string());
    World::builder().launch(Box::new(Nodes(launch, nodes, unseen))).init()
}

/// A world, on nodes that are not if these are said.
fn init() -> Result<World> {
    std::env::var("WIRE_TEST_NODES").map_or_else(|_| World::init(), |said| on_nodes(&said))
}

/// Everything on nodes that are not.
fn nodes() -> Result<()> {
    let said = std::env::var("WIRE_TEST_NODES").unwrap();
    let world = on_nodes(&said)?;
    let comm = world.comm();
    exercise(&comm, 1)?;
    for case in &subset(comm.size(), seed()) {
        check_some(&comm, case).unwrap_or_else(|e| panic!("{e} in {case:?}"));
    }
    println!("all right over {}, nodes {:?}", world.provider(), world.nodes());
    world.finalize()
}

/// What `COLLECTIVES_SEED` says, or 1.
fn seed() -> u64 {
    std::env::var("COLLECTIVES_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1)
}

fn matrix(comm: &Communicator) -> Result<()> {
    let cases = subset(comm.size(), seed());
    for case in &cases {
        check_some(comm, case).unwrap_or_else(|e| panic!("{e} in {case:?}"));
    }
    println!("all right, {} cases of seed {}", cases.len(), seed());
    Ok(())
}

fn mixed_traffic() -> Result<()> {
    let world = World::init()?;
    let calls = std::env::var("WIRE_TEST_CALLS").unwrap().parse().unwrap();
    traffic(&world, seed(), calls, true)?;
    println!("all right");
    world.finalize()
}

fn forever(comm: &Communicator) -> Result<()> {
    println!("pid {} {}", comm.rank(), getpid().as_raw_nonzero());
    let mut data = vec![0u8; 3_000_000];
    for root in (0..comm.size()).cycle() {
        comm.bcast(&mut data, root)?;
    }
    Ok(())
}

fn short(comm: &Communicator) -> Result<()> {
    println!("pid {} {}", comm.rank(), getpid().as_raw_nonzero());
    let mut data = [0u64; 4];
    for root in (0..comm.size()).cycle() {
        comm.bcast(&mut data, root)?;
        comm.allreduce(InPlace, &mut data, ops::Max)?;
        comm.barrier()?;
    }
    Ok(())
}

/// Rank 2 leaves without a word.
fn quit(comm: &Communicator) -> Result<()> {
    let mut data = vec![0u8; 300_000];
    for i in 0.. {
        if i == 20 && comm.rank() == 2 {
            exit(7);
        }
        comm.bcast(&mut data, i % comm.size())?;
    }
    Ok(())
}

/// A child cannot take part, and does its parent no harm by trying and ending.
fn forked() -> Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    // SAFETY: this process has one thread, so the child may do anything that a new process may.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // Before anything else: memory that it took would be its parent's.
        let alloc = comm.alloc::<u8>(1).unwrap_err();
        let e = comm.barrier().unwrap_err();
        let refused = e.to_string().contains("forked")
            && comm.bcast(&mut [1u8; 9], 77).is_err()
            && alloc.to_string().contains("forked");
        drop((comm, world));
        exit(if refused { 0 } else { 1 });
    }
    let mut status = 0;
    // SAFETY: our own child; `status` can be written.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    comm.bcast(&mut vec![1u8; 100_000], 1)?;
    println!("child refused");
    world.finalize()
}

/// What is counted is what the plan says: puts, bytes, copies, allocations.
fn costs() -> Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let (r, p, n) = (comm.rank(), comm.size(), 10_000_000);

    let mut data = comm.alloc::<u8>(n)?;
    comm.bcast(&mut data, 0)?;
    let before = world.stats();
    comm.bcast(&mut data, 0)?;
    assert_eq!(world.stats().copied_bytes, before.copied_bytes, "a broadcast on arena memory copies nothing");

    let mut bcast = comm.bcast_init(data, 1)?;
    let counts: Vec<usize> = (0..p).map(|j| 1000 * j * j).collect();
    let displs: Vec<usize> = (0..p).map(|j| counts[..j].iter().sum()).collect();
    let total: usize = counts.iter().sum();
    let mut gather =
        comm.allgatherv_init(comm.alloc::<u8>(counts[r])?, comm.alloc::<u8>(total)?, (&counts, &displs))?;
    let planned = [bcast.planned(), gather.planned()];
    for round in 0..6usize {
        gather.input()?.fill(round as u8 + r as u8);
        if r == 1 {
            bcast.input()?.fill(round as u8);
        }
        for (i, plan) in planned.iter().enumerate() {
            // The others wait so long meanwhile that they say in which call.
            if round == 4 && r == p - 1 {
                std::thread::sleep(Duration::from_millis(300));
            }
            let (before, heap) = (world.stats(), allocations());
            if i == 0 {
                bcast.start()?;
                bcast.wait()?;
            } else {
                gather.start()?;
                gather.wait()?;
            }
            let (after, heap) = (world.stats(), allocations() - heap);
            assert_eq!(after.puts - before.puts, plan.puts);
            assert_eq!(after.put_bytes - before.put_bytes, plan.put_bytes);
            assert_eq!(after.arrivals - before.arrivals, plan.arrivals);
            assert!(round == 0 || heap == 0, "start {round} of operation {i} allocated {heap} times");
        }
        assert!(bcast.output()?.iter().all(|x| *x == round as u8));
        for j in 0..p {
            assert!(gather.output()?[displs[j]..][..counts[j]].iter().all(|x| *x == round as u8 + j as u8));
        }
        comm.barrier()?;
    }
    let mut sums = vec![[0u64; 2]; p];
    comm.allgather(&[[planned[0].put_bytes, planned[1].put_bytes]], &mut sums)?;
    let all = |i: usize| sums.iter().map(|s| s[i]).sum::<u64>();
    assert_eq!(
        (all(0), all(1)),
        ((n * (p - 1)) as u64, (total * (p - 1)) as u64),
        "every byte to every rank once"
    );
    drop((bcast, gather));
    world.finalize()?;
    println!("as planned");
    Ok(())
}

/// Rank 2 stops in the middle of a large broadcast; the others get an error, make the slice that they lent
/// inaccessible, wake rank 2 and wait. A process that still writes there, or reads for us, shows as a fault. `scoped`: lent to a request
/// that is leaked.
fn mprotect(scoped: bool) -> Result<()> {
    let world = World::init()?;
    let comm = world.comm();
    let mut pids = vec![0i32; comm.size()];
    comm.allgather(&[getpid().as_raw_nonzero().get()], &mut pids)?;
    let len = 64 << 20;
    let mut memory = memmap2::MmapMut::map_anon(len)?;
    if comm.rank() == 2 {
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(10));
            let _ = kill_process(getpid(), Signal::STOP);
        });
    }
    memory[0] = value(comm.rank(), 0) as u8;
    let result = (0..50).try_for_each(|_| match scoped {
        false => comm.bcast(&mut memory, 0),
        true => comm.scope(|s| {
            Box::leak(Box::new(s.ibcast(&mut memory[..], 0)?));
            Ok(())
        }),
    });
    if comm.rank() == 2 {
        // Woken up again by the others; whatever it still did was done to their memory, or not.
        std::thread::sleep(Duration::from_secs(2));
        return Ok(());
    }
    let e = result.unwrap_err();
    assert!(e.to_string().contains("rank 2"), "{e}");
    let closed = memory.make_read_only()?;
    no_access(&closed);
    if comm.rank() == 0 {
        // The others have theirs by now, too.
        std::thread::sleep(Duration::from_millis(700));
        let _ = kill_process(rustix::process::Pid::from_raw(pids[2]).unwrap(), Signal::CONT);
    }
    std::thread::sleep(Duration::from_secs(2));
    println!("unharmed");
    drop(world);
    exit(0);
}

/// Rank 2 is killed in the middle of a large broadcast; the others get an error, make the slice that they lent inaccessible, and go on
/// without it: what comes late goes to copies.
fn mprotect_and_go_on(scoped: bool) -> Result<()> {
    let world = init()?;
    let comm = world.comm();
    let mut memory = memmap2::MmapMut::map_anon(64 << 20)?;
    if comm.rank() == 2 {
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            let _ = kill_process(getpid(), Signal::KILL);
        });
    }
    memory[0] = value(comm.rank(), 0) as u8;
    let result = (0..1000).try_for_each(|_| match scoped {
        false => comm.bcast(&mut memory, 0),
        true => comm.scope(|s| {
            Box::leak(Box::new(s.ibcast(&mut memory[..], 0)?));
            Ok(())
        }),
    });
    let e = result.unwrap_err();
    assert!(e.is_survived() && e.peer() == Some(2), "{e}");
    let closed = memory.make_read_only()?;
    no_access(&closed);
    let left = comm.shrink()?;
    for call in 0..50 {
        operate(&left, call, call)?;
    }
    println!("unharmed");
    world.finalize()?;
    exit(0);
}

fn no_access(memory: &[u8]) {
    // SAFETY: the range is a private mapping that is not read from here on; the process exits with it.
    let done = unsafe {
        rustix::mm::mprotect(
            memory.as_ptr().cast_mut().cast(),
            memory.len(),
            rustix::mm::MprotectFlags::empty(),
        )
    };
    done.unwrap();
}

fn other_wait() -> Result<()> {
    let odd = std::env::var("PMI_RANK").unwrap() == "2";
    let world = World::builder().set("wait", if odd { "bogus" } else { "yield" }).init()?;
    world.finalize()
}

/// Rank 0 computes before its call, for longer than others wait without a word.
fn slow(comm: &Communicator) -> Result<()> {
    if comm.rank() == 0 {
        std::thread::sleep(Duration::from_millis(3500));
    }
    comm.allreduce(InPlace, &mut [1.0], ops::Sum)
}

/// One comes late to an agreement, another one to finalize.
fn slow_agree() -> Result<()> {
    let world = init()?;
    let comm = world.comm();
    let late = Duration::from_millis(3500);
    comm.agree(0)?;
    if comm.rank() == 0 {
        std::thread::sleep(late);
    }
    comm.agree(0)?;
    if comm.rank() == 2 {
        std::thread::sleep(late);
    }
    world.finalize()
}

/// One comes late to start-up.
fn slow_start() -> Result<()> {
    if std::env::var("PMI_RANK").is_ok_and(|rank| rank == "1") {
        std::thread::sleep(Duration::from_millis(3500));
    }
    plain(Communicator::barrier)
}

/// No system has so much memory for a thread's stack.
/// No thread can be had; `waits`: by a launcher whose fence can only be waited for.
fn threadless(waits: bool) -> Result<()> {
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("RUST_MIN_STACK", (1u64 << 50).to_string()) };
    if !waits {
        return plain(Communicator::barrier);
    }
    let launch = launch::detect(&Config::from_env())?;
    let nodes = launch.nodes();
    World::builder().launch(Box::new(Nodes(launch, nodes, false))).init()?.finalize()
}

fn other_settings() -> Result<()> {
    let odd = std::env::var("PMI_RANK").unwrap() == "2";
    let world = World::builder().set("blocks", if odd { "3" } else { "4" }).init()?;
    world.finalize()
}
