//! Everything that a call needs, from `MPI_Init` to `MPI_Finalize`.

use crate::abi::Abi;
use crate::communicators::Communicators;
use crate::real::Real;
use crate::reductions::Reducers;
use crate::requests::Requests;
use crate::take::Take;
use crate::types::Types;
use crate::wire::Wire;
use circulant::World;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Everything that a call needs.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) real: &'static Real,
    pub(crate) abi: &'static Abi,
    pub(crate) types: Types,
    pub(crate) reducers: Reducers,
    pub(crate) communicators: Communicators,
    pub(crate) take: Take,
    /// Calls are counted and timed.
    pub(crate) report: bool,
    pub(crate) wire: Wire,
    pub(crate) rank: usize,
    /// The world that the program's collectives run in, until it ends.
    pub(crate) world: Mutex<Option<World>>,
    /// While the program waits in a call of its MPI, what it has under way here moves on, at all ranks.
    pub(crate) is_moved: bool,
    /// The MPI's operators may be called wherever an operation moves on, at all ranks.
    pub(crate) may_reduce: bool,
    /// How requests of non-blocking calls are made, at all ranks; nothing: these go to the MPI.
    pub(crate) requests: Option<Requests>,
}

impl Layer {
    /// Moves on, once, what is under way. So many calls may pass by then, unless a collective begins here meanwhile.
    pub(crate) fn progress(&self) -> u32 {
        // Another thread that has it does the same, or ends the world.
        let Ok(world) = self.world.try_lock() else { return 0 };
        world.as_ref().map_or(0, World::progress_counted_outside)
    }
}

/// The layer between start and end; else null. It is never freed: another thread may just be leaving it.
static LAYER: AtomicPtr<Layer> = AtomicPtr::new(std::ptr::null_mut());

/// The layer, if calls are taken now.
pub(crate) fn layer() -> Option<&'static Layer> {
    // SAFETY: null, or a Layer that was leaked when it was complete.
    unsafe { LAYER.load(Ordering::Acquire).as_ref() }
}

/// Takes calls from now on.
pub(crate) fn set(layer: Layer) {
    LAYER.store(Box::into_raw(Box::new(layer)), Ordering::Release);
}

/// Takes no calls any more.
pub(crate) fn clear() {
    LAYER.store(std::ptr::null_mut(), Ordering::Release);
}
