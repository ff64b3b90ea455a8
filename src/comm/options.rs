//! What a call may choose.

use std::time::Duration;

/// What a call may choose; everything else comes from the settings.
///
/// ```
/// use circulant::{Options, World};
///
/// let world = World::init()?;
/// let comm = world.comm().with(Options::new().algorithm("circulant").blocks(4));
/// comm.bcast(&mut [0u8; 1000], 0)?;
/// # world.finalize()?;
/// # Ok::<(), circulant::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(super) deadline: Option<Duration>,
    pub(super) blocks: Option<u32>,
    pub(super) algorithm: Option<String>,
    pub(super) reproducible: bool,
}

impl Options {
    /// Everything as the settings say.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long a call may take before it fails on every rank (`None`: as the setting CIRCULANT_DEADLINE says;
    /// [`Duration::MAX`]: as long as it needs; [`Duration::ZERO`]: it may not wait).
    #[must_use]
    pub fn deadline(self, deadline: impl Into<Option<Duration>>) -> Self {
        Self { deadline: deadline.into(), ..self }
    }

    /// Blocks per message, or in algorithms that go in hops messages of a rank in a hop (`None`: by the rule). Must be equal on all ranks. Fewer are made where a rank would have more than
    /// [`MAX_BLOCK_PUTS`](crate::plan::rules::MAX_BLOCK_PUTS) puts for them.
    #[must_use]
    pub fn blocks(self, blocks: impl Into<Option<u32>>) -> Self {
        Self { blocks: blocks.into(), ..self }
    }

    /// Algorithm by its registry name (`None`: by selection). Must be equal on all ranks.
    #[must_use]
    pub fn algorithm<'a>(self, name: impl Into<Option<&'a str>>) -> Self {
        Self { algorithm: name.into().map(str::to_owned), ..self }
    }

    /// Fold in the one order of the operation, whatever size, blocks and nodes: the same bits from every such call
    /// on the same ranks. So does the setting CIRCULANT_REPRODUCIBLE. Must be equal on all ranks.
    #[must_use]
    pub fn reproducible(self, reproducible: bool) -> Self {
        Self { reproducible, ..self }
    }
}
