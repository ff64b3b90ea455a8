//! Worlds that end a step at a time.

use circulant::comm::Finalizing;
use circulant::launch::{Gone, Launch, threads};
use circulant::transport::sim;
use circulant::{Error, ErrorKind, Result, World};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

const WIRES: [&str; 3] = ["sim", "shm", "tcp"];

/// The worlds of a job over `wire`, one of each rank, by its launcher.
fn worlds(wire: &str, ranks: Vec<Box<dyn Launch>>, settings: &[(&str, &str)]) -> Vec<World> {
    let sims = sim::group(ranks.len(), &sim::Faults::default());
    let start = |(launch, sim): (Box<dyn Launch>, sim::Sim)| {
        let builder = World::builder().set("deadline", "60").launch(launch);
        let builder = match wire {
            "sim" => builder.transport(Box::new(sim)),
            _ => builder.provider(wire),
        };
        settings.iter().fold(builder, |builder, (name, value)| builder.set(name, value)).init().unwrap()
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = ranks.into_iter().zip(sims).map(|rank| scope.spawn(move || start(rank))).collect();
        all.into_iter().map(|world| world.join().unwrap()).collect()
    })
}

/// More rounds of questions than any end takes.
const MANY: usize = 100_000;

/// Asks all in turn until all are done.
fn ask_all(endings: &mut [Finalizing]) {
    for _ in 0..MANY {
        if endings.iter_mut().map(|ending| ending.test().unwrap()).fold(true, |a, b| a & b) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("it does not end");
}

/// One thread asks for all ranks, so no question may wait for another rank. The last one comes late.
#[test]
fn ranks_of_one_thread_end() {
    for wire in WIRES {
        for p in [1, 2, 5] {
            let mut all = worlds(wire, threads::group(p), &[]);
            let last = all.pop().unwrap();
            let mut endings: Vec<_> = all.into_iter().map(|world| world.start_finalize().unwrap()).collect();
            for _ in 0..200 {
                assert!(
                    endings.iter_mut().all(|ending| !ending.test().unwrap()),
                    "rank {} has not come",
                    p - 1
                );
            }
            endings.push(last.start_finalize().unwrap());
            ask_all(&mut endings);
            assert!(endings.iter_mut().all(|ending| ending.test().unwrap()), "it stays so");
        }
    }
}

/// Some wait, some ask.
#[test]
fn ranks_end_by_either_way() {
    for wire in WIRES {
        let mut all = worlds(wire, threads::group(4), &[("progress", "thread")]);
        let asks = [all.remove(3), all.remove(1)];
        let waits: Vec<_> =
            all.into_iter().map(|world| std::thread::spawn(move || world.finalize())).collect();
        let mut endings = asks.map(|world| world.start_finalize().unwrap());
        ask_all(&mut endings);
        waits.into_iter().for_each(|rank| rank.join().unwrap().unwrap());
    }
}

/// At any step.
#[test]
fn one_that_is_dropped_in_the_middle_is_an_error_of_the_others() {
    for questions in [0, 1, 3] {
        let mut all = worlds("sim", threads::group(3), &[]);
        let last = all.pop().unwrap();
        let mut endings: Vec<_> = all.into_iter().map(|world| world.start_finalize().unwrap()).collect();
        for _ in 0..questions {
            endings.iter_mut().for_each(|ending| assert!(!ending.test().unwrap()));
        }
        drop(last.start_finalize().unwrap());
        for ending in &mut endings {
            let error = fails(ending);
            assert_eq!((error.kind(), error.peer()), (ErrorKind::PeerLost, Some(2)), "{error}");
            let again = ending.test().unwrap_err();
            assert_eq!(again.kind(), ErrorKind::Aborted, "{again}");
        }
    }
}

fn fails(ending: &mut Finalizing) -> Error {
    for _ in 0..MANY {
        match ending.test() {
            Ok(done) => assert!(!done),
            Err(e) => return e,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it does not end");
}

/// A launcher whose rank does not come to its last fence; `tells`: the others hear from theirs who that is.
#[derive(Debug)]
struct Absent {
    inner: Box<dyn Launch>,
    comes: bool,
    tells: bool,
}

impl Launch for Absent {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn rank(&self) -> usize {
        self.inner.rank()
    }
    fn size(&self) -> usize {
        self.inner.size()
    }
    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.inner.put(key, value)
    }
    fn fence(&mut self, deadline: Duration) -> Result<()> {
        self.inner.fence(deadline)
    }
    fn start_fence(&mut self) -> Result<bool> {
        if self.comes { self.inner.start_fence() } else { Ok(true) }
    }
    fn test_fence(&mut self) -> Result<bool> {
        if self.comes { self.inner.test_fence() } else { Ok(false) }
    }
    fn late(&mut self) -> Option<Vec<usize>> {
        if self.tells { self.inner.late() } else { None }
    }
    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        self.inner.get(key)
    }
    fn nodes(&self) -> Option<Vec<u32>> {
        self.inner.nodes()
    }
    fn gone(&mut self) -> Option<Gone> {
        self.inner.gone()
    }
    fn abort(&mut self, code: i32, message: &str) {
        self.inner.abort(code, message);
    }
    fn finalize(&mut self) -> Result<()> {
        self.inner.finalize()
    }
}

/// All have met in finalize, and one does not come to the launcher's fence: the others name it, if the launcher tells.
#[test]
fn a_rank_that_does_not_come_to_the_last_fence_is_named() {
    for tells in [true, false] {
        let launch = |inner: Box<dyn Launch>| {
            let comes = inner.rank() != 1;
            Box::new(Absent { inner, comes, tells }) as Box<dyn Launch>
        };
        let ranks = threads::group(3).into_iter().map(launch).collect();
        // Start-up has its fences over by then.
        let all = worlds("sim", ranks, &[("start-deadline", "1"), ("warn-after", "off")]);
        let mut endings: Vec<_> = all.into_iter().map(|world| world.start_finalize().unwrap()).collect();
        let late = 1;
        let mut errors: Vec<Option<Error>> = vec![None, None, None];
        for _ in 0..MANY {
            for (rank, ending) in
                endings.iter_mut().enumerate().filter(|(rank, _)| errors[*rank].is_none()).collect::<Vec<_>>()
            {
                if let Err(e) = ending.test() {
                    errors[rank] = Some(e);
                }
            }
            if errors[0].is_some() && errors[2].is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for rank in [0, 2] {
            let e = errors[rank].take().unwrap();
            match tells {
                true => {
                    assert_eq!((e.kind(), e.peer()), (ErrorKind::Timeout, Some(late)), "{e}");
                    assert!(
                        e.to_string().contains("rank 1 did not come to the last fence of finalize in time"),
                        "{e}"
                    );
                }
                false => assert!(e.to_string().contains("the launcher does not say which"), "{e}"),
            }
        }
    }
}

/// What a launcher was called, other than to be told of ranks, and by which thread.
type Calls = Arc<Mutex<BTreeSet<(&'static str, String)>>>;

/// A launcher that notes which thread calls it.
#[derive(Debug)]
struct Noted {
    inner: Box<dyn Launch>,
    calls: Calls,
    /// Its fence can only be waited for.
    waits: bool,
}

fn name_of(thread: ThreadId) -> String {
    format!("{thread:?}")
}

impl Noted {
    fn note(&mut self, what: &'static str) -> &mut dyn Launch {
        self.calls.lock().unwrap().insert((what, name_of(std::thread::current().id())));
        self.inner.as_mut()
    }
}

impl Launch for Noted {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn rank(&self) -> usize {
        self.inner.rank()
    }
    fn size(&self) -> usize {
        self.inner.size()
    }
    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.note("put").put(key, value)
    }
    fn fence(&mut self, deadline: Duration) -> Result<()> {
        self.note("fence").fence(deadline)
    }
    fn start_fence(&mut self) -> Result<bool> {
        if self.waits { Ok(false) } else { self.note("start_fence").start_fence() }
    }
    fn test_fence(&mut self) -> Result<bool> {
        self.note("test_fence").test_fence()
    }
    fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        self.note("get").get(key)
    }
    fn nodes(&self) -> Option<Vec<u32>> {
        self.calls.lock().unwrap().insert(("nodes", name_of(std::thread::current().id())));
        // So that ranks have to find out.
        None
    }
    fn gone(&mut self) -> Option<Gone> {
        // As of one that cannot be asked in any thread.
        None
    }
    fn abort(&mut self, code: i32, message: &str) {
        self.note("abort").abort(code, message);
    }
    fn finalize(&mut self) -> Result<()> {
        self.note("finalize").finalize()
    }
}

/// The thread that begins and ends a world is the only one that calls its launcher; but for a fence that cannot be asked.
#[test]
fn a_launcher_is_called_by_the_thread_of_its_world() {
    // (Ranks beyond the neighbours, so that there are addresses to ask for.)
    let p = 8;
    for wire in ["shm", "tcp"] {
        for waits in [false, true] {
            std::thread::scope(|scope| {
                for inner in threads::group(p) {
                    scope.spawn(move || {
                        let calls = Calls::default();
                        let noted = Noted { inner, calls: Arc::clone(&calls), waits };
                        let builder = World::builder().launch(Box::new(noted)).provider(wire);
                        let world = builder.set("progress", "thread").set("deadline", "60").init().unwrap();
                        let comm = world.comm();
                        let mut all = vec![0; p];
                        comm.gather(&[world.rank()], &mut all, p - 1).unwrap();
                        comm.alltoall(&vec![1u64; 1000 * p], &mut vec![0u64; 1000 * p]).unwrap();
                        world.finalize().unwrap();
                        let ours = name_of(std::thread::current().id());
                        let calls = calls.lock().unwrap();
                        let others: Vec<_> = calls.iter().filter(|(_, thread)| *thread != ours).collect();
                        match waits {
                            false => assert!(others.is_empty(), "{others:?}"),
                            true => assert!(others.iter().all(|(what, _)| *what == "fence"), "{others:?}"),
                        }
                        let called =
                            |what| calls.iter().any(|(name, thread)| *name == what && *thread == ours);
                        assert!(called("put") && called("fence") && called("finalize"), "{calls:?}");
                        assert_eq!(called("test_fence"), !waits);
                    });
                }
            });
        }
    }
}
