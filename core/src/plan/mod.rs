//! Algorithms as data: which bytes go to which rank, after what, in which round.
//!
//! A [`Plan`] is pure: for every rank a lazy iterator of [`Step`]s with O(log p) state, the same at every
//! rank. [`interpret`] proves a plan right for all ranks and all orders of delivery, [`price`] says what
//! it costs on a wire, [`rules`] choose its number of blocks, [`registry`] lists it, and [`lower()`] makes
//! one rank's part a [`lower::Program`] that the engine runs. A round is the proof's clock and a step's
//! priority; it is never waited for.
//!
//! # The laws of a plan
//!
//! The interpreter enforces them:
//!
//! 1. Every [`Kind::Put`] has its [`Kind::Expect`] at the peer, every [`Kind::Notify`] its
//!    [`Kind::ExpectNotify`]: same round, source, target, length and counter, in the same order. Both
//!    sides compute them on their own; nothing is negotiated.
//! 2. No byte is written twice, and none that was there at the start. So what is right stays right,
//!    and no rank need ask before a put. (Plans that reduce: see below.)
//! 3. A step waits for everything that it reads. It never relies on two puts arriving in order.
//! 4. A counter is bumped by one peer, or by local copies only; a step that waits for several bumps waits
//!    for all of them.
//! 5. Steps come with ascending rounds, and what a step waits for comes from an earlier round (or, if it
//!    is local, earlier in the list). In one round a rank puts to one peer and gets from one peer; local steps
//!    may come one round after the last ([`Plan::rounds`]).
//! 6. There are no empty puts: both sides skip empty blocks. Nor empty reduces.
//!
//! # Plans that reduce
//!
//! Partial results cannot be put into an accumulator; they land in slots of their receiver (mostly in
//! [`Region::Land`]), where [`Kind::Reduce`] combines them. There bytes *are* written more than once, and
//! law 2 becomes:
//!
//! - 2a. Two steps that touch the same byte, one of them writing, are ordered: the later one waits for the
//!   earlier one, directly or through a chain of steps of any ranks. So a slot is filled again only after
//!   a credit (a [`Kind::Notify`] that waits for the reduce) or after anything else that depends on that
//!   reduce; a partial is never touched after it was sent, unless its arrival is known; and reduces
//!   into one target are a chain. Hence every legal order of deliveries gives the same bits.
//! - 2b. Each contribution enters a result exactly once; where the plan promises order, from rank to rank
//!   upwards. Both operands are the same elements, and whole ones.
//! - 2c. [`Region::Input`] is never written. In place, the contribution lies in [`Region::Output`].
//!
//! [`interpret::prove_fold`] enforces this. The usual way to keep 2a without credits is to make every
//! partial once: the slot where a partial landed takes in our own part ([`Side`] says from which side),
//! and is sent on as it is.
//!
//! # Adding an algorithm
//!
//! 1. A file `plan/<operation>/<algorithm>.rs` with a type that holds the arguments and derives what both
//!    sides need to know in O(p) or less, and a constructor that returns an error for bad arguments.
//! 2. `impl Plan`: in [`Plan::steps`], walk the rounds; in each, yield the puts of this rank and then
//!    what it expects. Write *one* function that names source, target, length and counter of what a
//!    sender puts to a receiver in a round, and call it from both sides: that is how mirrors stay
//!    mirrors. Take the block's or the owner's number for its counter; where one wait must stand for
//!    many, chain them with [`Step::join`].
//! 3. In the same file its line: its name, texts and restrictions, the constructor, what it costs ([`registry::cost`]) and, if it
//!    reduces, in what order it folds ([`registry::Order`]); and a word in `ALGORITHMS` of its operation's `mod.rs`.
//!    A new operation also takes an [`interpret::Goal`] or [`interpret::Fold`].
//! 4. Nothing more if the operation is known: a test proves every line for all p to 128 (what is dear: to 40 and a third
//!    of the rest, all with `PLAN_PROOF=full`) and some larger, also
//!    lowered for random wires, and holds it to its restrictions, rounds and volume: `core/tests/pure/plan_registry.rs`
//!    (to all), `core/tests/pure/plan_moves.rs` (from all, each to each), `core/tests/pure/plan_reduce.rs` (what reduces),
//!    `core/tests/pure/plan_inter.rs` (between two groups). A new operation needs a case in one of them; a default
//!    algorithm may have its own test in `core/tests/pure/plan_proof.rs`. What they share is `core/tests/pure/proof.rs`.
//!
//! [`bcast::circulant`] is a short example, [`barrier::dissemination`] shows joins. A broadcast of one block down
//! a tree is a [`bcast::tree::Shape`], an allgather of whole contributions an
//! `allgatherv::window::Pattern`: a few lines each. A plan among some of the ranks is `inter::among`;
//! one among nodes becomes one among all their ranks by `node::spread`.
//!
//! Every algorithm comes out of [`registry::algorithm`] by its name. Those whose constructors are public beside that take arguments
//! which no line of the registry passes on, or are what tests and measurements build by themselves.
#![forbid(unsafe_code)]

pub mod allgather;
pub mod allgatherv;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
pub mod by_rank;
pub mod gather;
pub(crate) mod hops;
pub mod inter;
pub mod interpret;
pub mod lower;
pub(crate) mod node;
pub mod partial;
pub mod price;
pub mod reduce;
pub mod reduce_scatter;
pub mod registry;
pub mod rules;
pub mod scan;
pub mod scatter;
pub mod split;
pub(crate) mod topology;
pub mod tree;

pub use crate::ops::Side;
pub use lower::lower;

/// Memory a step can name. At every rank a region is one range of bytes, bound when the plan is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// What the caller contributes; read only, never a target of puts.
    Input,
    /// Where the result goes; also the source where an operation works in place (broadcast).
    Output,
    /// Local scratch of the library.
    Work,
    /// Scratch of the library that peers put into (landing slots).
    Land,
}

/// A place: byte `offset` of a region (of the rank or of its peer, as the step says).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which memory.
    pub region: Region,
    /// Bytes from its start.
    pub offset: u64,
}

impl Place {
    /// Byte `offset` of `region`.
    pub const fn new(region: Region, offset: u64) -> Self {
        Self { region, offset }
    }
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `len` bytes from our `source` to `target` at `peer`, where they bump counter `bump`.
    Put,
    /// The mirror of a peer's put: `peer` will put `len` bytes to our `target`, bumping our `bump`.
    /// Done by the peer; it waits for nothing.
    Expect,
    /// Bumps counter `bump` at `peer`; moves nothing. May be sent before the peer has entered.
    Notify,
    /// The mirror of a peer's notify.
    ExpectNotify,
    /// `len` bytes from our `source` to our `target`, then bumps our `bump`.
    Copy,
    /// Combines `len` bytes (whole elements) of our `source` into our `target`, then bumps our `bump`.
    Reduce(Side),
}

impl Kind {
    /// Whether the step happens in the rank's own memory and bumps its own counter.
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Copy | Self::Reduce(_))
    }
}

/// "Counter `counter` has reached `at_least`". Counters start at 0 and only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// Which counter; [`NO_COUNTER`] waits for nothing.
    pub counter: u32,
    /// The count to reach.
    pub at_least: u32,
}

/// No counter at all.
pub const NO_COUNTER: u32 = u32::MAX;

/// The highest number of counters a plan may use (the notify word has 24 bits for them).
pub const MAX_COUNTERS: u32 = 1 << 24;

impl Wait {
    /// Waits for nothing.
    pub const NONE: Self = Self { counter: NO_COUNTER, at_least: 0 };

    /// Waits until `counter` was bumped once.
    pub const fn once(counter: u32) -> Self {
        Self { counter, at_least: 1 }
    }
}

/// One step of one rank.
///
/// Each counter is bumped by one peer only (or only locally), so an arrival's counter tells which rank it is
/// from. Counter numbers are the *bumped* rank's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// What it does.
    pub kind: Kind,
    /// The other rank (communicator rank); unused for copies.
    pub peer: u32,
    /// Where the bytes come from: in our memory (`Put`, `Copy`, `Reduce`), in the peer's (`Expect`).
    pub source: Place,
    /// Where they go: in the peer's memory (`Put`), in ours (`Expect`, `Copy`, `Reduce`).
    pub target: Place,
    /// How many bytes.
    pub len: u64,
    /// The round of the proof: a step's priority.
    pub round: u32,
    /// What must have happened first (`Put`, `Notify`, `Copy`, `Reduce`).
    pub waits: [Wait; 2],
    /// The counter that it bumps, or [`NO_COUNTER`].
    pub bump: u32,
}

impl Step {
    /// Puts `len` bytes from our `source` to `target` at `peer`.
    pub const fn put(
        round: u32,
        peer: u32,
        source: Place,
        target: Place,
        len: u64,
        wait: Wait,
        bump: u32,
    ) -> Self {
        Self { kind: Kind::Put, peer, source, target, len, round, waits: [wait, Wait::NONE], bump }
    }

    /// The mirror of [`Step::put`] at the rank that is put to; `source` is the place at `peer`.
    pub const fn expect(round: u32, peer: u32, source: Place, target: Place, len: u64, bump: u32) -> Self {
        Self { kind: Kind::Expect, peer, source, target, len, round, waits: [Wait::NONE; 2], bump }
    }

    /// Notifies `peer`.
    pub const fn notify(round: u32, peer: u32, waits: [Wait; 2], bump: u32) -> Self {
        let nowhere = Place::new(Region::Work, 0);
        Self { kind: Kind::Notify, peer, source: nowhere, target: nowhere, len: 0, round, waits, bump }
    }

    /// The mirror of [`Step::notify`].
    pub const fn expect_notify(round: u32, peer: u32, bump: u32) -> Self {
        let nowhere = Place::new(Region::Work, 0);
        Self {
            kind: Kind::ExpectNotify,
            peer,
            source: nowhere,
            target: nowhere,
            len: 0,
            round,
            waits: [Wait::NONE; 2],
            bump,
        }
    }

    /// Copies `len` bytes from our `source` to our `target`.
    pub const fn copy(
        round: u32,
        source: Place,
        target: Place,
        len: u64,
        waits: [Wait; 2],
        bump: u32,
    ) -> Self {
        Self { kind: Kind::Copy, peer: 0, source, target, len, round, waits, bump }
    }

    /// Combines `len` bytes of our `source` into our `target`.
    pub const fn reduce(
        round: u32,
        side: Side,
        source: Place,
        target: Place,
        len: u64,
        waits: [Wait; 2],
        bump: u32,
    ) -> Self {
        Self { kind: Kind::Reduce(side), peer: 0, source, target, len, round, waits, bump }
    }

    /// Moves nothing: bumps our `bump` when both waits are over, so that one wait can stand for many.
    /// Lowering dissolves it.
    pub const fn join(round: u32, waits: [Wait; 2], bump: u32) -> Self {
        let nowhere = Place::new(Region::Work, 0);
        Self::copy(round, nowhere, nowhere, 0, waits, bump)
    }
}

/// How many bytes of each region one rank needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of [`Region::Input`].
    pub input: u64,
    /// Bytes of [`Region::Output`].
    pub output: u64,
    /// Bytes of [`Region::Work`].
    pub work: u64,
    /// Bytes of [`Region::Land`].
    pub land: u64,
}

/// An algorithm bound to p, its counts and its block number, for all ranks.
pub trait Plan: Send + Sync + std::fmt::Debug {
    /// The registry's name of the algorithm (`circulant`, …).
    fn algorithm(&self) -> &'static str;
    /// The number of ranks, p.
    fn size(&self) -> u32;
    /// The number of communication rounds that the algorithm promises.
    fn rounds(&self) -> u32;
    /// How many counters `rank` needs.
    fn counters(&self, rank: u32) -> u32;
    /// How much memory `rank` needs.
    fn sizes(&self, rank: u32) -> Sizes;
    /// The steps of `rank`, rounds ascending.
    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_>;
    /// Appends the steps of `rank` to a list; where they are many a plan can do it faster than step by step.
    fn append(&self, rank: u32, out: &mut Vec<Step>) {
        out.extend(self.steps(rank));
    }
    /// The plan for a clock that asks how much is copied and not where, if it has far more copies than puts: the same puts, of as many bytes,
    /// after the same rounds, but the copies that pack or unpack a message are one for each round they wait for. It is not to be run.
    fn outline(&self) -> Option<Box<dyn Plan>> {
        None
    }
    /// To how many ranks each one puts at most, where that is few whatever p is; `None`: to ⌈log2 p⌉ or more.
    fn fan_out(&self) -> Option<u32> {
        None
    }
    /// Whether in each round each rank puts one block at most and gets one at most, all of one length (the last may be shorter). If ranks keep in step, no two then put to one at the same time.
    fn in_step(&self) -> bool {
        false
    }
    /// Those of the steps of `rank` that expect a put, in their order. Lowering asks for the first of many ranks.
    fn expects(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.steps(rank).filter(|s| s.kind == Kind::Expect))
    }
}
