//! The last call of a world: a barrier of all ranks, after which none closes before no data of it is on its way.

use super::call::{Begun, Spec};
use super::fence::{late_error, late_ranks};
use super::launcher::lock;
use super::lock::Held;
use super::program::Prepared;
use super::world::{Internal, World};
use crate::buffer::{Binding, Bound};
use crate::config::FOR_EVER;
use crate::engine::{AgreementId, FINALIZE, Meta, Waiting};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::registry::Operation;
use crate::record::Why;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::level_filters::LevelFilter;

/// A world that ends, a step at a time: see [`World::start_finalize`]. Dropping it before [`Finalizing::test`] has said that all is
/// done is dropping the world.
#[must_use = "dropping it ends this rank's part at once, which the others see as an error"]
pub struct Finalizing {
    /// Goes first: what closes it lets go of the memory of the barrier below.
    world: World,
    deadline: Duration,
    stage: Stage,
    /// Ranks are gone: the launcher's fence is left out, as they do not come.
    alone: bool,
}

/// What is to be done next.
enum Stage {
    /// All ranks come here.
    Barrier(Barrier),
    /// All living ranks do, where the world goes on without others.
    Agree(AgreementId, Waiting),
    /// Requests that were forgotten end.
    EndAll(Waiting),
    /// All neighbours say goodbye.
    Goodbye(Waiting),
    /// No rank closes before all have read the last message.
    Fence(Fence),
    /// Where there is no fence, a rank that closed at once would take its last message with it. It was posted by then.
    Settle(Instant),
    Close,
    Leave,
    Done,
}

/// A barrier under the name of this call.
struct Barrier {
    slot: u8,
    waiting: Waiting,
    /// Its memory.
    _prepared: Box<Prepared>,
}

/// The launcher's fence.
struct Fence {
    since: Instant,
    warn_at: Instant,
    way: Way,
}

/// How it is waited for.
enum Way {
    /// It is asked, until then.
    Asked { give_up: Instant },
    /// This thread waits. Without us it goes on to the fence's end.
    Thread(Option<JoinHandle<Result<()>>>),
}

impl std::fmt::Debug for Finalizing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finalizing").field("world", &self.world).finish_non_exhaustive()
    }
}

impl World {
    /// Waits until all ranks came here, requests that were forgotten have ended too, and no data is left in sockets; then closes.
    /// It is a call of its own, which no other matches: a rank that waits for this one in a call that this one has not made gets
    /// an error that says so. No thread may begin a call after this.
    ///
    /// # Errors
    /// When a rank is gone, or does not come within CIRCULANT_DEADLINE, where that is set; when the provider or the launcher
    /// fails.
    pub fn finalize(self) -> Result<()> {
        let mut ending = self.start_finalize()?;
        let comm = ending.world.comm();
        let mut held = comm.hold()?;
        while !ending.go_on(&mut held, true)? {
            held.yield_lock();
        }
        Ok(())
    }

    /// [`World::finalize`] that returns at once, for programs that have something else to move on until all ranks have come:
    /// [`Finalizing::test`] does the rest, and must be asked until it says that all is done. Ranks may end by either.
    ///
    /// # Errors
    /// As [`World::finalize`].
    ///
    /// # Examples
    /// ```
    /// let world = circulant::World::init()?;
    /// let mut ending = world.start_finalize()?;
    /// while !ending.test()? {
    ///     std::thread::yield_now(); // or something of use
    /// }
    /// # Ok::<(), circulant::Error>(())
    /// ```
    pub fn start_finalize(self) -> Result<Finalizing> {
        let comm = self.internal(Internal::Finalize)?;
        let mut held = comm.hold()?;
        held.engine.finalizing();
        if held.engine.survives() {
            let (id, waiting) = comm.begin_agreement(&mut held, "finalize", 0)?;
            let (deadline, stage) = (held.deadline, Stage::Agree(id, waiting));
            drop(held);
            return Ok(Finalizing { world: self, deadline, stage, alone: false });
        }
        let begun = comm.begin(&mut held, Operation::Barrier.into(), Ok(Spec::default()))?;
        let Begun { mut prepared, meta, deadline, .. } = begun;
        let meta = Meta { name: "finalize", code: FINALIZE, ..meta };
        let stage = match prepared.task.take() {
            None => Stage::EndAll(Waiting::for_requests(deadline)),
            Some(task) => {
                let (work, land) = (prepared.work(), prepared.land());
                let binding = Binding::new([Bound::NONE; 2], [work, land]);
                let slot = held.engine.start(task, meta, binding)?;
                Stage::Barrier(Barrier { slot, waiting: Waiting::new(meta, deadline), _prepared: prepared })
            }
        };
        drop(held);
        Ok(Finalizing { world: self, deadline, stage, alone: false })
    }
}

impl Finalizing {
    /// Whether all ranks have come and this one has closed: moves everything on, once. It does not wait, but in the last step for
    /// the launcher's answer that this rank may leave, and closes the connections. Once it has said `true` another world may begin.
    ///
    /// Ranks wait for each other in several steps, so ask often; where the launcher's fence cannot be asked
    /// ([`Launch::start_fence`](crate::launch::Launch::start_fence)) a thread waits in it.
    ///
    /// # Errors
    /// As [`World::finalize`]. The deadlines run from one question to the next, too.
    pub fn test(&mut self) -> Result<bool> {
        let comm = self.world.comm();
        let mut held = comm.hold()?;
        self.go_on(&mut held, false)
    }

    /// Does what can be done now; says whether all is. `rests`: for a wait.
    fn go_on(&mut self, held: &mut Held<'_>, rests: bool) -> Result<bool> {
        while let Some(next) = self.step(held, rests)? {
            self.stage = next;
        }
        Ok(matches!(self.stage, Stage::Done))
    }

    /// The stage that follows, if this one is over.
    fn step(&mut self, held: &mut Held<'_>, rests: bool) -> Result<Option<Stage>> {
        let Self { world, deadline, stage, alone } = self;
        let engine = &mut held.engine;
        let next = match stage {
            Stage::Barrier(Barrier { slot, waiting, .. }) => {
                let came = if rests { engine.turn(*slot, waiting)? } else { engine.test(*slot, waiting)? };
                if !came {
                    return Ok(None);
                }
                engine.leave(*slot)?;
                Stage::EndAll(Waiting::for_requests(*deadline))
            }
            Stage::Agree(id, waiting) => {
                let Some(agreed) = engine.agreement_turn(*id, waiting, rests)? else { return Ok(None) };
                *alone = !agreed.gone.is_empty();
                Stage::EndAll(Waiting::for_requests(*deadline))
            }
            Stage::EndAll(waiting) => {
                if !engine.has_ended_all(waiting, rests)? {
                    return Ok(None);
                }
                engine.say_goodbye();
                Stage::Goodbye(Waiting::for_goodbyes(*deadline))
            }
            Stage::Goodbye(waiting) => {
                if !engine.has_parted(waiting, rests)? {
                    return Ok(None);
                }
                // One that went since they agreed comes to no fence, and is told of only once.
                match *alone || !engine.gone().is_empty() {
                    true => Stage::Settle(engine.now()),
                    false => Fence::begin(world, engine.now(), *deadline).map_err(|e| engine.fail(e))?,
                }
            }
            Stage::Fence(fence) => {
                let over = match fence.is_over(world, engine.now()) {
                    // All have parted before: nothing is left to be read.
                    Err(e) if engine.survives() && e.kind() == ErrorKind::PeerLost => true,
                    over => over.map_err(|e| engine.fail(e))?,
                };
                if !over {
                    // Our last messages may need progress to leave.
                    engine.keep_going(rests.then_some(fence.since));
                    return Ok(None);
                }
                Stage::Close
            }
            Stage::Settle(since) => {
                if !engine.has_settled(*since) {
                    engine.keep_going(rests.then_some(*since));
                    return Ok(None);
                }
                Stage::Close
            }
            Stage::Close => {
                engine.record(Why::End, None);
                world.report_latencies(held);
                world.keep_learned(held);
                let engine = &mut held.engine;
                if let Err(e) = engine.close() {
                    // Peers may still reach it.
                    std::mem::forget(held.arena.clone());
                    return Err(e);
                }
                Stage::Leave
            }
            Stage::Leave => {
                lock(&world.launch).finalize()?;
                Stage::Done
            }
            Stage::Done => return Ok(None),
        };
        Ok(Some(next))
    }
}

impl Fence {
    /// Enters it, where there are others. They are there soon, as all have met before.
    fn begin(world: &World, now: Instant, deadline: Duration) -> Result<Stage> {
        if world.size() == 1 {
            return Ok(Stage::Close);
        }
        let timeout = world.config.start_deadline.unwrap_or(FOR_EVER).min(deadline);
        let fence = |way| {
            Stage::Fence(Self { since: now, warn_at: now + world.config.warn_after.unwrap_or(FOR_EVER), way })
        };
        if lock(&world.launch).start_fence()? {
            return Ok(fence(Way::Asked { give_up: now + timeout }));
        }
        let launch = Arc::clone(&world.launch);
        let builder = std::thread::Builder::new().name("circulant-fence".to_owned());
        let waits = builder.spawn(move || lock(&launch).fence(timeout)).map_err(|e| {
            let what = format!("finalize needs a thread and cannot start one: {e}");
            Error::new(ErrorKind::System, what).help("raise the limit on processes (ulimit -u)")
        })?;
        Ok(fence(Way::Thread(Some(waits))))
    }

    /// Whether all ranks have come.
    fn is_over(&mut self, world: &World, now: Instant) -> Result<bool> {
        let over = match &mut self.way {
            Way::Asked { give_up } => {
                let over = lock(&world.launch).test_fence()?;
                if !over && now >= *give_up {
                    return Err(late_error(lock(&world.launch).late(), "the last fence of finalize"));
                }
                over
            }
            Way::Thread(thread) => match thread.take_if(|thread| thread.is_finished()) {
                Some(ended) => {
                    let panicked = |_| Err(Error::new(ErrorKind::Launch, "the fence panicked"));
                    ended.join().unwrap_or_else(panicked)?;
                    true
                }
                None => false,
            },
        };
        if !over && now >= self.warn_at {
            self.warn_at = now + world.config.warn_after.unwrap_or(FOR_EVER);
            self.warn(world, now);
        }
        Ok(over)
    }

    /// Says for which ranks it waits.
    fn warn(&self, world: &World, now: Instant) {
        let (rank, seconds) = (world.rank(), now.duration_since(self.since).as_secs());
        let late = match self.way {
            Way::Asked { .. } => lock(&world.launch).late(),
            // The thread has the launcher.
            Way::Thread(_) => None,
        };
        let Some(of) = late_ranks(late, rank, Some(world.nodes())) else { return };
        let text =
            format!("finalize waits in the launcher's last fence for {seconds} s{of} (rank {rank} waits)");
        crate::trace::warn(&text, LevelFilter::WARN);
    }
}
