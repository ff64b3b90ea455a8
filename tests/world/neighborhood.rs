//! Exchanges between neighbours: on grids and on random graphs, in all three forms, compared with what the lists say.

use crate::collective::cover::Random;
use crate::ranks;

use circulant::comm::{Cartesian, Neighborhood};
use circulant::transport::{Borrow, sim};
use circulant::{Communicator, ErrorKind, InPlace, Result, World};

/// The body at p ranks, on simulated wires of several kinds and on shared memory.
fn everywhere(p: usize, body: impl Fn(&World, &Communicator) -> Result<()> + Sync) {
    let good = sim::Faults::default();
    let bad = sim::Faults { seed: 5, refuse: 60, delay: 5, reorder: true, max_put: 64, ..good.clone() };
    let bad = sim::Faults { borrow: Borrow::Staged, ..bad };
    for (faults, settings) in [(good, &[][..]), (bad, &[("light", "200"), ("window", "3000")])] {
        ranks::run(p, &faults, settings, &body).into_iter().for_each(|result| result.unwrap());
    }
    ranks::run_shared(p, &[("deadline", "20")], &body).into_iter().for_each(|result| result.unwrap());
}

/// Element i of the block that a rank sends by its destination `edge`.
fn value(rank: usize, edge: usize, i: usize) -> u64 {
    (rank * 1_000_000 + edge * 1000 + i) as u64
}

fn block(rank: usize, edge: usize, n: usize) -> impl Iterator<Item = u64> {
    (0..n).map(move |i| value(rank, edge, i))
}

const OLD: u64 = 77;

/// By source of a rank: the rank and which of its destinations that is; `None` where there is none.
type Origins = Vec<Option<(usize, usize)>>;

/// Blocks of n elements to and from all neighbours, in all forms of the regular calls.
fn regular(near: &Neighborhood, comm: &Communicator, from: &Origins, n: usize) -> Result<()> {
    let (me, out, into) = (comm.rank(), near.destinations().len(), near.sources().len());
    let wanted = |edge: &dyn Fn(usize) -> usize| -> Vec<u64> {
        let one = |origin: &Option<(usize, usize)>| match *origin {
            Some((rank, its)) => block(rank, edge(its), n).collect(),
            None => vec![OLD; n],
        };
        from.iter().flat_map(one).collect()
    };
    let send: Vec<u64> = (0..out).flat_map(|edge| block(me, edge, n)).collect();
    let one: Vec<u64> = block(me, 0, n).collect();
    let (each, same) = (wanted(&|its| its), wanted(&|_| 0));
    let old = vec![OLD; into * n];

    let mut recv = old.clone();
    near.neighbor_alltoall(&send, &mut recv)?;
    assert_eq!(recv, each);
    let done = near.ineighbor_alltoall(comm.alloc_from(&send)?, comm.alloc_from(&old)?)?.wait()?;
    assert_eq!((&done.recv[..], &done.send.unwrap()[..]), (&each[..], &send[..]));
    if into > 0 {
        let mut recv = old.clone();
        near.neighbor_allgather(&one, &mut recv)?;
        assert_eq!(recv, same);
    } else {
        near.neighbor_allgather(&one, &mut [])?;
    }
    let done = near.ineighbor_allgather(comm.alloc_from(&one)?, comm.alloc_from(&old)?)?.wait()?;
    assert_eq!(done.recv[..], same);
    let mut all = near.neighbor_alltoall_init(comm.alloc_from(&send)?, comm.alloc_from(&old)?)?;
    let mut gather = near.neighbor_allgather_init(comm.alloc_from(&one)?, comm.alloc_from(&old)?)?;
    for _ in 0..3 {
        all.start()?;
        gather.start()?;
        gather.wait()?;
        all.wait()?;
        assert_eq!((&*all.output()?, &*gather.output()?), (&each[..], &same[..]));
        all.output()?.fill(OLD);
        gather.output()?.fill(OLD);
    }
    Ok(())
}

#[test]
fn grids() {
    let grids: [(&[usize], &[bool]); 8] = [
        (&[1], &[true]),
        (&[2], &[true]),
        (&[2], &[false]),
        (&[5], &[true]),
        (&[2, 3], &[true, false]),
        (&[2, 2, 2], &[true, false, true]),
        (&[3, 1, 2], &[true, true, false]),
        (&[], &[]),
    ];
    for (dims, periodic) in grids {
        let grid = Cartesian::new(dims, periodic).unwrap();
        everywhere(grid.size(), |_, comm| {
            let near = comm.cartesian(&grid)?;
            let neighbors = grid.neighbors(comm.rank());
            assert_eq!((near.sources(), near.destinations()), (&neighbors[..], &neighbors[..]));
            // What is sent in one direction comes from the other.
            let from = neighbors.iter().enumerate().map(|(i, peer)| peer.map(|rank| (rank, i ^ 1))).collect();
            for n in [0, 1, 50] {
                regular(&near, comm, &from, n)?;
            }
            Ok(())
        });
    }
}

/// The edges of a random graph, in the order in which both of their ranks have them in their lists.
fn edges(p: usize, random: &mut Random) -> Vec<(usize, usize)> {
    (0..2 * p).map(|_| (random.below(p), random.below(p))).collect()
}

#[test]
fn graphs() {
    let mut random = Random(0x0067_7261_7068);
    for p in [1, 2, 3, 4, 7] {
        let seed = random.draw();
        println!("graphs: p = {p}, seed {seed}");
        let edges = edges(p, &mut Random(seed));
        everywhere(p, |_, comm| {
            let me = comm.rank();
            let sources: Vec<usize> = edges.iter().filter(|e| e.1 == me).map(|e| e.0).collect();
            let destinations: Vec<usize> = edges.iter().filter(|e| e.0 == me).map(|e| e.1).collect();
            let near = comm.dist_graph(&sources, &destinations)?;
            // Which of its rank's destinations each edge is.
            let nth = |at: usize| edges[..at].iter().filter(|e| e.0 == edges[at].0).count();
            let into: Vec<(usize, usize)> =
                (0..edges.len()).filter(|at| edges[*at].1 == me).map(|at| (edges[at].0, nth(at))).collect();
            let from = into.iter().copied().map(Some).collect();
            for n in [0, 3, 40] {
                regular(&near, comm, &from, n)?;
            }
            irregular(&near, comm, &into)
        });
    }
}

/// Blocks of other lengths for each edge, with gaps, in all forms; and in place.
fn irregular(near: &Neighborhood, comm: &Communicator, into: &[(usize, usize)]) -> Result<()> {
    let me = comm.rank();
    let len = |rank: usize, edge: usize| [0, 5, 1, 70][(rank * 3 + edge) % 4];
    let sent: Vec<usize> = (0..near.destinations().len()).map(|edge| len(me, edge)).collect();
    let received: Vec<usize> = into.iter().map(|(rank, edge)| len(*rank, *edge)).collect();
    // From the back, with an element between.
    let places = |counts: &[usize], begin: usize| -> (Vec<usize>, usize) {
        let end = begin + counts.iter().map(|n| n + 1).sum::<usize>();
        let mut at = end;
        let places = counts.iter().map(|n| {
            at -= n + 1;
            at
        });
        (places.collect(), end)
    };
    let (to, room) = places(&received, 0);
    let mut wanted = vec![OLD; room];
    for ((rank, edge), (n, at)) in into.iter().zip(received.iter().zip(&to)) {
        wanted[*at..][..*n].copy_from_slice(&block(*rank, *edge, *n).collect::<Vec<_>>());
    }
    let filled = |begin: usize| -> (Vec<usize>, Vec<u64>) {
        let (at, end) = places(&sent, begin);
        let mut all = vec![OLD; end];
        for (edge, (n, at)) in sent.iter().zip(&at).enumerate() {
            all[*at..][..*n].copy_from_slice(&block(me, edge, *n).collect::<Vec<_>>());
        }
        (at, all)
    };
    let (from, send) = filled(0);
    let old = vec![OLD; room];
    let lists = ((&sent[..], &from[..]), (&received[..], &to[..]));

    let mut recv = old.clone();
    near.neighbor_alltoallv(&send, lists.0, &mut recv, lists.1)?;
    assert_eq!(recv, wanted);
    let (one, other) = (comm.alloc_from(&send)?, comm.alloc_from(&old)?);
    assert_eq!(near.ineighbor_alltoallv(one, lists.0, other, lists.1)?.wait()?.recv[..], wanted);
    // The received blocks first, then those that are sent.
    let (from, both) = filled(room);
    let mut often =
        near.neighbor_alltoallv_init(InPlace, (&sent, &from), comm.alloc_from(&both)?, lists.1)?;
    for _ in 0..2 {
        often.start()?;
        often.wait()?;
        let (came, stayed) = often.output()?.split_at(room);
        assert_eq!((came, stayed), (&wanted[..], &both[room..]));
        often.output()?[..room].fill(OLD);
    }
    let mut slices = both.clone();
    near.neighbor_alltoallv(InPlace, (&sent, &from), &mut slices, lists.1)?;
    assert_eq!((&slices[..room], &slices[room..]), (&wanted[..], &both[room..]));

    // Each rank gets as many as its source has ranks before it.
    let counts: Vec<usize> = into.iter().map(|(rank, _)| *rank).collect();
    let mine: Vec<u64> = block(me, 0, me).collect();
    let (to, room) = places(&counts, 0);
    let mut recv = vec![OLD; room];
    near.neighbor_allgatherv(&mine, &mut recv, (&counts, &to))?;
    let mut wanted = vec![OLD; room];
    for (rank, at) in counts.iter().zip(&to) {
        wanted[*at..][..*rank].copy_from_slice(&block(*rank, 0, *rank).collect::<Vec<_>>());
    }
    assert_eq!(recv, wanted);
    let (one, other) = (comm.alloc_from(&mine)?, comm.alloc_from(&vec![OLD; room])?);
    assert_eq!(near.ineighbor_allgatherv(one, other, (&counts, &to))?.wait()?.recv[..], wanted);
    let (one, other) = (comm.alloc_from(&mine)?, comm.alloc_from(&vec![OLD; room])?);
    let mut often = near.neighbor_allgatherv_init(one, other, (&counts, &to))?;
    often.start()?;
    often.wait()?;
    assert_eq!(often.output()?, wanted);
    Ok(())
}

/// Nothing is copied, and a rank puts to its neighbours only.
#[test]
fn a_halo_is_two_puts_and_no_copy() {
    let all = ranks::run(9, &sim::Faults::default(), &[], |world, comm| {
        let near = comm.cartesian(&Cartesian::new(&[9], &[true])?)?;
        let lists = ((&[4000, 4000][..], &[4000, 20_000][..]), (&[4000, 4000][..], &[0, 24_000][..]));
        let mut field = comm.alloc::<u64>(28_000)?;
        field[4000..24_000].fill(comm.rank() as u64);
        let mut halo = near.neighbor_alltoallv_init(InPlace, lists.0, field, lists.1)?;
        let planned = halo.planned();
        assert_eq!((planned.puts, planned.put_bytes, planned.arrivals), (2, 64_000, 2));
        comm.barrier()?;
        let before = world.stats();
        for _ in 0..5 {
            halo.start()?;
            halo.wait()?;
        }
        let after = world.stats();
        assert_eq!(after.copied_bytes, before.copied_bytes);
        assert_eq!(after.put_bytes - before.put_bytes, 5 * 64_000);
        let field = halo.output()?;
        assert_eq!((field[0], field[27_999]), ((comm.rank() as u64 + 8) % 9, (comm.rank() as u64 + 1) % 9));
        Ok(())
    });
    all.into_iter().for_each(|result| result.unwrap());
}

/// What all ranks' errors say.
fn errors(p: usize, body: impl Fn(&Communicator) -> Result<()> + Sync) -> Vec<String> {
    let all = ranks::run(p, &sim::Faults::default(), &[], |_, comm| body(comm));
    all.into_iter().map(|result| result.unwrap_err().to_string()).collect()
}

#[test]
fn neighbours_that_disagree_learn_it() {
    let said = errors(3, |comm| {
        let sources: &[usize] = if comm.rank() == 2 { &[0] } else { &[] };
        let destinations: &[usize] = if comm.rank() == 0 { &[2, 2] } else { &[] };
        comm.dist_graph(sources, destinations).map(|_| ())
    });
    for text in said {
        assert!(text.contains("rank 0 has rank 2 2 times among its destinations"), "{text}");
        assert!(text.contains("1 times among its sources"), "{text}");
    }
    let said = errors(3, |comm| comm.dist_graph(&[], &[3]).map(|_| ()));
    assert!(said.iter().all(|text| text.contains("neighbour 3 is out of range")), "{said:?}");
    // A rank sends another number of elements than its neighbour expects.
    let said = errors(4, |comm| {
        let near = comm.cartesian(&Cartesian::new(&[4], &[true])?)?;
        let (sent, received) = (if comm.rank() == 1 { [5, 6] } else { [5, 5] }, [5, 5]);
        let (mut recv, lists) = ([0u64; 10], ((&sent[..], &[0, 0][..]), (&received[..], &[0, 5][..])));
        near.neighbor_alltoallv(&[1; 6], lists.0, &mut recv, lists.1)?;
        comm.barrier()
    });
    for text in said {
        let both = ["from rank 1 to rank 2: 5 and 6", "from rank 1 to rank 2: 6 and 5"];
        assert!(
            both.iter().any(|both| text.contains(both)) && text.contains("neighbor_alltoallv #"),
            "{text}"
        );
    }
}

#[test]
fn bad_arguments_are_errors() {
    let all = ranks::run(2, &sim::Faults::default(), &[], |_, comm| {
        let e = comm.cartesian(&Cartesian::new(&[3], &[true])?).unwrap_err();
        assert!(e.kind() == ErrorKind::Argument && e.to_string().contains("a grid of [3] ranks"), "{e}");
        comm.barrier()
    });
    all.into_iter().for_each(|result| result.unwrap());
    type Call = fn(&Neighborhood) -> Result<()>;
    let calls: [(Call, &str); 4] = [
        (
            |near| near.neighbor_alltoall(&[1, 2, 3], &mut [0; 2]),
            "send has 3 elements, which cannot be shared",
        ),
        (|near| near.neighbor_allgatherv(&[1], &mut [0; 2], &[1]), "1 counts and 1 displacements for 2"),
        (
            |near| near.neighbor_allgatherv(&[1], &mut [0; 2], (&[1, 1], &[0, 2])),
            "the 1 elements of source 1 at 2 do not fit into recv, which has 2",
        ),
        (
            |near| near.neighbor_alltoallv(InPlace, (&[1, 1], &[0, 1]), &mut [0; 4], (&[1, 1], &[1, 2])),
            "in place",
        ),
    ];
    for (call, text) in calls {
        let said = errors(2, |comm| call(&comm.cartesian(&Cartesian::new(&[2], &[true])?)?));
        assert!(
            said.iter().all(|said| said.contains(text) && said.contains("neighbor_")),
            "{text}: {said:?}"
        );
    }
}
