//! What a call, a setting and a file name is what runs, at every rank, on the real engine: which rank puts what tells it.

use crate::ranks;

use circulant::launch::threads;
use circulant::plan::rules::MAX_BLOCK_PUTS;
use circulant::transport::sim;
use circulant::{Communicator, ErrorKind, Options, Result, World};

const P: usize = 7;

/// Runs `body` at every rank; `settings` are those of rank 0, and the others adopt what must agree.
fn run<R: Send>(
    settings: &[(&str, &str)],
    body: impl Fn(&World, &Communicator) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let (wires, launches) = (sim::group(P, &sim::Faults::default()), threads::group(P));
    std::thread::scope(|scope| {
        let rank = |(rank, (wire, launch)): (usize, (sim::Sim, _))| {
            let body = &body;
            scope.spawn(move || {
                let builder = World::builder().launch(launch).transport(Box::new(wire));
                let mut builder = builder.set("deadline", "20").set("start-deadline", "20");
                for (name, value) in settings.iter().filter(|_| rank == 0) {
                    builder = builder.set(name, value);
                }
                let world = builder.init()?;
                let result = body(&world, &world.comm())?;
                world.finalize()?;
                Ok(result)
            })
        };
        let handles: Vec<_> = wires.into_iter().zip(launches).enumerate().map(rank).collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}

/// The puts of each rank in a broadcast of `len` bytes from rank 0.
fn puts(settings: &[(&str, &str)], options: &Options, len: usize) -> Vec<u64> {
    let body = |world: &World, comm: &Communicator| {
        let mut data = vec![u8::from(comm.rank() == 0); len];
        let before = world.stats().puts;
        comm.with(options.clone()).bcast(&mut data, 0)?;
        assert!(data.iter().all(|byte| *byte == 1));
        Ok(world.stats().puts - before)
    };
    run(settings, body).into_iter().map(Result::unwrap).collect()
}

fn named(name: &str) -> Options {
    Options::new().algorithm(name)
}

/// The root puts to all.
const LINEAR: [u64; P] = [6, 0, 0, 0, 0, 0, 0];
/// In one block.
const CHAIN: [u64; P] = [1, 1, 1, 1, 1, 1, 0];

#[test]
fn what_rank_0_sets_is_what_all_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    std::fs::write(&path, "# ours\nbcast bytes<100 -> chain\nbcast size=7 -> linear\n").unwrap();
    let file = ("selection", path.to_str().unwrap());
    let (auto, one) = (Options::default(), ("blocks", "1"));
    assert_eq!(puts(&[file, one], &auto, 99), CHAIN);
    assert_eq!(puts(&[file, one], &auto, 100), LINEAR);
    assert_eq!(puts(&[file, one, ("algorithm", "bcast=linear,allgather=ring")], &auto, 99), LINEAR);
    assert_eq!(puts(&[file, one, ("algorithm", "linear")], &named("chain"), 100), CHAIN);
}

#[test]
fn the_price_decides_by_the_wire() {
    // A latency is dear: all ranks at once; an overhead is dear: by a tree.
    let wire = |latency, overhead| [("latency", latency), ("overhead", overhead), ("byte-time", "100")];
    assert_eq!(puts(&wire("1000000", "10"), &Options::default(), 8), LINEAR);
    let tree = puts(&wire("10", "1000000"), &Options::default(), 8);
    assert!(tree.iter().all(|puts| *puts <= 3) && tree.iter().sum::<u64>() == 6, "{tree:?}");
}

#[test]
fn what_cannot_be_done_is_an_error_at_every_rank() {
    for (settings, options) in
        [(&[("algorithm", "hypercube")][..], Options::default()), (&[], named("hypercube"))]
    {
        let body = |_: &World, comm: &Communicator| comm.with(options.clone()).bcast(&mut [0u8; 9], 0);
        for result in run(settings, body) {
            let e = result.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Argument);
            let text = e.to_string();
            assert!(text.contains("power of two") && text.contains("chain"), "{text}");
        }
    }
    // Where no call and no setting names it, it is not taken.
    let body = |_: &World, comm: &Communicator| comm.bcast(&mut [0u8; 9], 0);
    assert!(run(&[], body).into_iter().all(|result| result.is_ok()));
}

#[test]
fn settings_that_mean_nothing_end_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    std::fs::write(&path, "bcast -> chain\nbcast -> chian\n").unwrap();
    for (setting, said) in [
        (("algorithm", "bcast=magic"), "bcast has no algorithm \"magic\""),
        (("selection", path.to_str().unwrap()), "line 2: bcast has no algorithm \"chian\""),
        (("selection", "/nowhere/at/all"), "/nowhere/at/all: No such file"),
        (("reproducible", "perhaps"), "CIRCULANT_REPRODUCIBLE: \"perhaps\" is not yes or no"),
    ] {
        for result in run(&[setting], |_, _| Ok(())) {
            let text = result.unwrap_err().to_string();
            assert!(text.contains(said), "{text}");
        }
    }
}

/// However many blocks are named, a rank has a bounded number of puts for them, in all forms of a call; the data is right.
#[test]
fn more_blocks_than_have_room() {
    const RANKS: usize = 3;
    let most = u64::from(MAX_BLOCK_PUTS);
    let all = ranks::run_over("shm", RANKS, &[("blocks", "1000000")], |world, comm| {
        let comm = comm.with(named("circulant"));
        let data: Vec<u8> = (0..4 * MAX_BLOCK_PUTS).map(|i| (i / 5) as u8).collect();
        let own = || if comm.rank() == 1 { data.clone() } else { vec![0; data.len()] };
        let mut often = comm.bcast_init(comm.alloc_from(&own())?, 1)?;
        let planned = often.planned();
        often.start()?;
        often.wait()?;
        assert_eq!(often.output()?, data);
        let arrivals = world.stats().arrivals;
        let mut lent = own();
        comm.bcast(&mut lent, 1)?;
        assert_eq!(lent, data);
        assert_eq!(world.stats().arrivals - arrivals, planned.arrivals);
        assert_eq!(&*comm.ibcast(comm.alloc_from(&own())?, 1)?.wait()?.recv, &data[..]);

        let part = comm.alloc_from(&data[..data.len() / RANKS])?;
        let parts = comm.alloc::<u8>(part.len() * RANKS)?;
        let (counts, displs) = ([part.len(); RANKS], [0, part.len(), 2 * part.len()]);
        let mut gather = comm.allgatherv_init(part, parts, (&counts, &displs))?;
        let gathered = gather.planned();
        gather.start()?;
        gather.wait()?;
        assert_eq!(gather.output()?, data[..counts[0]].repeat(RANKS));
        Ok((comm.rank(), planned.arrivals, gathered.arrivals))
    });
    for (rank, broadcast, gathered) in all.into_iter().map(Result::unwrap) {
        assert_eq!(broadcast, if rank == 1 { 0 } else { most });
        assert!((most / 2..=most).contains(&gathered), "{gathered} puts to rank {rank}");
    }
}
