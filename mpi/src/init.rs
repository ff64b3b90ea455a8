//! `MPI_Init` and `MPI_Finalize`: the world that the program's collectives run in begins and ends.

use crate::abi::{self, Abi, Kind, UNDEFINED};
use crate::communicators::{Communicators, drop_left};
use crate::launch::OverMpi;
use crate::layer::{self, Layer, layer};
use crate::progress;
use crate::real::{Real, real};
use crate::reductions::Reducers;
use crate::report::COUNTS;
use crate::requests::{self, Requests};
use crate::take::{self, Take};
use crate::trials;
use crate::types::Types;
use crate::wire::Wire;
use circulant::{Error, ErrorKind, Result, World};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Begins, after the MPI has been initialised. Collective. Where it cannot, all ranks leave everything to the MPI.
///
/// # Safety
/// The MPI is initialised, and this thread may call it.
pub(crate) unsafe fn start() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    let real = real();
    let (kind, world) = Kind::of(real);
    let (mut rank, mut size) = (0, 0);
    // SAFETY: the caller's; there is room for what is returned. Ranks that are alone stop here.
    let codes = unsafe { [real.Comm_rank(world, &raw mut rank), real.Comm_size(world, &raw mut size)] };
    let (Ok(me), Ok(ranks)) = (usize::try_from(rank), usize::try_from(size)) else { return };
    if codes != [0, 0] || ranks < 2 {
        return;
    }
    let abi = wanted(kind).unwrap_or_else(|e| {
        eprintln!("circulant: {}", e.at_rank(me));
        None
    });
    // SAFETY: the caller's; the ranks of `world` are all in this function.
    let Some(comm) = (unsafe { together(real, world, (rank, size), abi.is_some()) }) else { return };
    let Some(abi) = abi else { return };
    // As long as the layer, which is never freed.
    let abi: &'static Abi = Box::leak(Box::new(abi));
    let wire = Wire { real, abi, comm: abi.handle(comm) };
    // SAFETY: the caller's.
    match unsafe { begin(wire, me, ranks) } {
        Some(layer) => layer::set(layer),
        None if me == 0 => eprintln!("circulant: all collectives go to the MPI"),
        None => {}
    }
}

/// The MPI's constants; nothing where this rank is to leave everything to it.
fn wanted(kind: Kind) -> Result<Option<Abi>> {
    if !switch("CIRCULANT_MPI", true)? {
        return Ok(None);
    }
    let missing = || Error::new(ErrorKind::Library, "this Open MPI lacks symbols of its ABI");
    Abi::of(kind).map(Some).ok_or_else(missing)
}

/// A communicator of this library's own, with all ranks, if all say yes. The split itself is the agreement: it needs no datatype and
/// no operator, which a rank that says no may not know.
///
/// # Safety
/// `world` is `MPI_COMM_WORLD`, in which this rank is `rank` of `size`, and all its ranks make this call.
unsafe fn together(real: &Real, world: usize, (rank, size): (c_int, c_int), yes: bool) -> Option<usize> {
    let (mut comm, mut members) = (0, 0);
    // SAFETY: the caller's; a rank without a color gets no communicator.
    let code = unsafe { real.Comm_split(world, if yes { 0 } else { UNDEFINED }, rank, &raw mut comm) };
    if code != 0 || !yes {
        return None;
    }
    // SAFETY: the communicator that was just made, and room for an int.
    if unsafe { real.Comm_size(comm, &raw mut members) } == 0 && members == size {
        return Some(comm);
    }
    let mut first = 0;
    // SAFETY: as above; its ranks all find the same size, so all free it, and none uses it after.
    unsafe {
        real.Comm_rank(comm, &raw mut first);
        real.Comm_free(&raw mut comm);
    }
    if first == 0 {
        let off = size - members;
        eprintln!("circulant: off at {off} of {size} ranks: all collectives go to the MPI");
    }
    None
}

/// The layer, if all ranks can have one.
///
/// # Safety
/// As [`start`].
unsafe fn begin(wire: Wire, rank: usize, size: usize) -> Option<Layer> {
    let abi = wire.abi;
    let text = wire.agreed(&std::env::var(take::VARIABLE).unwrap_or_default());
    let ready = abi::check(wire.real, abi).and_then(|()| {
        let progress = switch("CIRCULANT_MPI_PROGRESS", true)?;
        Ok((Take::parse(&text)?, switch("CIRCULANT_MPI_REPORT", false)?, progress))
    });
    let (take, report, progress) = all(wire, rank, ready)?;
    let world = World::builder().launch(Box::new(OverMpi::new(wire, rank, size))).init();
    let world = world.and_then(|world| {
        if progress {
            // Not before: start-up waits without a hook. The program has nothing under way there, as no rank has left MPI_Init. The launch's
            // fences are the MPI's calls; what it leaves unsent when one returns, it must send by itself.
            world.while_waiting(move || wire.progress());
        }
        // SAFETY: the caller's.
        let kept =
            unsafe { (Communicators::new(wire.real, abi, world.comm())?, Types::new(wire.real, abi)?) };
        Ok((world, kept))
    });
    let (world, (communicators, types)) = all(wire, rank, world)?;
    // SAFETY: the caller's.
    let is_moved = progress && unsafe { progress::register(abi.kind, wire) };
    let is_moved = wire.all(is_moved);
    let has_thread = std::env::var("CIRCULANT_PROGRESS").is_ok_and(|text| text == "thread");
    // SAFETY: the caller's.
    let may_reduce = unsafe { progress::may_reduce(abi.kind, wire, has_thread) };
    let requests = Requests::of(abi.kind, is_moved, has_thread);
    let all_have = wire.all(requests.is_some());
    Some(Layer {
        real: wire.real,
        types,
        reducers: Reducers::new(abi),
        abi,
        communicators,
        take,
        report,
        wire,
        rank,
        world: Mutex::new(Some(world)),
        is_moved,
        may_reduce,
        requests: requests.filter(|_| all_have),
    })
}

/// What all ranks have; an error at one is one at all.
fn all<T>(wire: Wire, rank: usize, mine: Result<T>) -> Option<T> {
    if let Err(e) = &mine {
        eprintln!("circulant: {}", e.clone().at_rank(rank));
    }
    let all = wire.all(mine.is_ok());
    mine.ok().filter(|_| all)
}

/// Ends, before the MPI does. Collective.
///
/// # Safety
/// The MPI is initialised, this thread may call it, and no other thread is in a collective.
pub(crate) unsafe fn stop() {
    requests::drain();
    let Some(layer) = layer() else { return };
    layer::clear();
    if layer.report && layer.rank == 0 {
        eprint!("{}{}", COUNTS.text(), trials::text());
        let how = if layer.is_moved { "it moves circulant on" } else { "circulant does not move on" };
        eprintln!("circulant: while the MPI waits {how}");
    }
    // SAFETY: the caller's.
    unsafe { progress::end(layer.wire) };
    drop_left();
    let world = layer.world.lock().unwrap_or_else(PoisonError::into_inner).take();
    let ended = world.map_or(Ok(()), |world| finish(layer.wire, world));
    match ended {
        Ok(()) => {
            let mut comm = layer.wire.comm;
            // SAFETY: ours, and used no more.
            unsafe { layer.real.Comm_free(&raw mut comm) };
        }
        Err(e) => eprintln!("circulant: {e}"),
    }
}

/// Waits until all ranks are here, and the wire is quiet. The launch's fence is tested on this thread, which alone may call the MPI.
fn finish(wire: Wire, world: World) -> Result<()> {
    let mut end = world.start_finalize()?;
    while !end.test()? {
        wire.progress();
    }
    Ok(())
}

/// A switch of the environment.
fn switch(name: &'static str, default: bool) -> Result<bool> {
    let text = std::env::var(name).unwrap_or_default();
    match &text[..] {
        "" => Ok(default),
        "0" | "no" | "off" => Ok(false),
        "1" | "yes" | "on" => Ok(true),
        _ => Err(Error::new(ErrorKind::Config, format!("{name}: {text:?} is neither 0 nor 1"))),
    }
}
