//! Reduce-scatter of commutative operators: the [core](super::core) and nothing else.
//!
//! In place the contribution is copied first: peers put the result where it lay.

use super::core::{Core, Places, Way};
use crate::error::Result;
use crate::plan::partial::{Pieces, Sketch, check};
use crate::plan::{Place, Plan, Region, Sizes, Step};
use crate::schedule::Circulant;

/// A reduce-scatter, regular or not.
#[derive(Clone, Debug)]
pub struct ReduceScatter {
    core: Core,
    in_place: bool,
}

impl ReduceScatter {
    /// Rank j gets `counts[j]` bytes.
    ///
    /// # Errors
    /// If there are no or too many ranks, or no whole elements.
    pub fn new(counts: &[u64], element: u64, in_place: bool, way: Way) -> Result<Self> {
        let size = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        let pieces = Pieces::given(counts)?;
        for &count in counts {
            check("reduce_scatter", size, count, element)?;
        }
        check("reduce_scatter", size, pieces.bytes(), element)?;
        Ok(Self { core: Core { graph: Circulant::new(size), pieces, way }, in_place })
    }

    /// Every rank gets `count` bytes.
    ///
    /// # Errors
    /// If there are no or too many ranks, or no whole elements.
    pub fn block(size: u32, count: u64, element: u64, in_place: bool, way: Way) -> Result<Self> {
        check("reduce_scatter_block", size, count, element)?;
        let bytes = count.saturating_mul(size.into());
        check("reduce_scatter_block", size, bytes, 1)?;
        let pieces = Pieces::Equal { count, parts: size };
        Ok(Self { core: Core { graph: Circulant::new(size), pieces, way }, in_place })
    }

    fn sketch(&self, rank: u32) -> Sketch {
        let mut s = Sketch::new(self.rounds());
        let bytes = self.core.pieces.bytes();
        if bytes == 0 {
            return s;
        }
        let own = s.own(bytes, self.in_place);
        let held = self.core.write(&mut s, rank, self, own.ready);
        let (len, output) = (self.core.pieces.len(rank), Place::new(Region::Output, 0));
        if held.place != output && len > 0 {
            s.copy(self.rounds(), held.place, output, len, &[held.ready, own.ready]);
        }
        s
    }
}

impl Places for ReduceScatter {
    fn contribution(&self, _rank: u32) -> Place {
        Place::new(if self.in_place { Region::Work } else { Region::Input }, 0)
    }

    fn result(&self, _rank: u32) -> Option<Place> {
        (!self.in_place).then_some(Place::new(Region::Output, 0))
    }
}

impl Plan for ReduceScatter {
    fn algorithm(&self) -> &'static str {
        match self.core.way {
            Way::Circulant => "circulant",
            Way::Ring => "ring",
        }
    }

    fn size(&self) -> u32 {
        self.core.graph.p()
    }

    fn rounds(&self) -> u32 {
        self.core.rounds()
    }

    fn counters(&self, rank: u32) -> u32 {
        self.sketch(rank).counters()
    }

    fn sizes(&self, rank: u32) -> Sizes {
        let (bytes, land) = (self.core.pieces.bytes(), self.core.land(rank));
        if self.in_place {
            return Sizes { input: 0, output: bytes, work: bytes, land };
        }
        Sizes { input: bytes, output: self.core.pieces.len(rank), work: 0, land }
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.sketch(rank).steps.into_iter())
    }
}
