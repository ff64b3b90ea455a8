//! The table of operations that `bench` knows. A new one is an entry here, a shape and a line of calls.

use super::calls;
use super::groups;
use super::job::{Start, bytes, typed};
use super::shapes::{self, RankCall, Shape};
use circulant::plan::registry;

/// One collective, as the benchmark sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// As the rivals' benchmark calls it.
    pub(crate) name: &'static str,
    /// What the size of a point means, for --help.
    pub(crate) sizes: &'static str,
    /// Takes sizes.
    pub(crate) sized: bool,
    pub(crate) dists: Dists,
    /// Whether there is an in-place form, and in which modes.
    pub(crate) in_place: InPlace,
    /// What each rank sends and receives.
    pub(crate) shape: fn(&RankCall) -> Shape,
    /// The reference, for people.
    pub(crate) reference: &'static str,
    pub(crate) how: How,
}

/// Distributions of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dists {
    /// None.
    None,
    /// Regular (shown as `-`) unless others are asked for.
    Asked,
    /// All unless some are asked for.
    All,
    /// Settings of two groups, instead.
    Between { irregular: bool },
}

/// Where in place is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InPlace {
    Never,
    /// In blocking calls, by way of a copy.
    Blocking,
    Always,
}

/// How it is run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// By calls of the library that move bytes.
    Move(registry::Operation, Start),
    /// By calls of the library that take an operator, on elements of its type.
    Reduce(registry::Operation, Start),
    /// The raw wire between ranks 0 and 1; this many halves of a round trip.
    Put(u32),
    /// Windows of puts on the raw wire, from each rank i below p/2 to rank i + p/2.
    Rate,
}

const VECTOR: &str = "the vector, in whole elements, at least one";
const BLOCKS: &str = "all ranks' blocks together; each has floor(SIZE/4/P) units of 4 bytes, at least one \
                      (floor(SIZE/P) bytes when SIZE is no multiple of 4)";
const PIECES: &str =
    "all ranks' pieces, distributed in 4-byte units; a remainder goes to the rank that takes the rest";

/// What most have in common.
const BASE: Operation = Operation {
    name: "",
    sizes: BLOCKS,
    sized: true,
    dists: Dists::None,
    in_place: InPlace::Always,
    shape: shapes::barrier,
    reference: "",
    how: How::Put(0),
};

/// All operations.
pub(crate) const OPERATIONS: [Operation; 24] = {
    use How::{Move, Put, Rate, Reduce};
    use registry::Operation as Op;
    [
        Operation {
            name: "bcast",
            sizes: "the vector, exactly",
            in_place: InPlace::Never,
            shape: shapes::bcast,
            reference: "βm + q(L+o)",
            how: Move(Op::Bcast, bytes::<calls::Bcast>),
            ..BASE
        },
        Operation {
            name: "allgatherv",
            sizes: PIECES,
            dists: Dists::All,
            shape: shapes::allgatherv,
            reference: "β(m − smallest contribution) + q(L+o)",
            how: Move(Op::Allgatherv, bytes::<calls::Allgatherv>),
            ..BASE
        },
        Operation {
            name: "allgather",
            shape: shapes::allgather,
            reference: "β(m − m/P) + q(L+o)",
            how: Move(Op::Allgather, bytes::<calls::Allgather>),
            ..BASE
        },
        Operation {
            name: "gather",
            shape: shapes::gather,
            reference: "β(m − m/P) + q(L+o)",
            how: Move(Op::Gather, bytes::<calls::Gather>),
            ..BASE
        },
        Operation {
            name: "gatherv",
            sizes: PIECES,
            dists: Dists::All,
            shape: shapes::gatherv,
            reference: "β(m − root's piece) + q(L+o)",
            how: Move(Op::Gatherv, bytes::<calls::Gatherv>),
            ..BASE
        },
        Operation {
            name: "scatter",
            shape: shapes::scatter,
            reference: "β(m − m/P) + q(L+o)",
            how: Move(Op::Scatter, bytes::<calls::Scatter>),
            ..BASE
        },
        Operation {
            name: "scatterv",
            sizes: PIECES,
            dists: Dists::All,
            shape: shapes::scatterv,
            reference: "β(m − root's piece) + q(L+o)",
            how: Move(Op::Scatterv, bytes::<calls::Scatterv>),
            ..BASE
        },
        Operation {
            name: "alltoall",
            sizes: "what one rank sends, in blocks as for allgather",
            in_place: InPlace::Blocking,
            shape: shapes::alltoall,
            reference: "β(m − m/P) + q(L+o)",
            how: Move(Op::Alltoall, bytes::<calls::Alltoall>),
            ..BASE
        },
        Operation {
            name: "alltoallv",
            sizes: "what one rank sends, distributed as for allgatherv; the first share is for the rank itself",
            dists: Dists::All,
            in_place: InPlace::Blocking,
            shape: shapes::alltoallv,
            reference: "β(m − own block) + q(L+o)",
            how: Move(Op::Alltoallv, bytes::<calls::Alltoallv>),
            ..BASE
        },
        Operation {
            name: "alltoallw",
            sizes: "as for alltoallv, each block a layout of one piece",
            dists: Dists::All,
            in_place: InPlace::Blocking,
            shape: shapes::alltoallw,
            reference: "β(m − own block) + q(L+o)",
            how: Move(Op::Alltoallv, bytes::<calls::Alltoallw>),
            ..BASE
        },
        Operation {
            name: "reduce",
            sizes: VECTOR,
            shape: shapes::reduce,
            reference: "βm + γm(P−1)/P + q(L+o)",
            how: Reduce(Op::Reduce, typed!(calls::Reduce)),
            ..BASE
        },
        Operation {
            name: "allreduce",
            sizes: VECTOR,
            shape: shapes::allreduce,
            reference: "(2β+γ)m(P−1)/P + q(L+o)",
            how: Reduce(Op::Allreduce, typed!(calls::Allreduce)),
            ..BASE
        },
        Operation {
            name: "reduce_scatter",
            sizes: "the vector that each rank has, distributed in whole elements",
            dists: Dists::Asked,
            shape: shapes::reduce_scatter,
            reference: "β(m − smallest piece) + γm(P−1)/P + q(L+o)",
            how: Reduce(Op::ReduceScatter, typed!(calls::ReduceScatter)),
            ..BASE
        },
        Operation {
            name: "reduce_scatter_block",
            sizes: "the vector that each rank has, in equal parts of whole elements, at least one",
            shape: shapes::reduce_scatter_block,
            reference: "(β+γ)(m − m/P) + q(L+o)",
            how: Reduce(Op::ReduceScatterBlock, typed!(calls::ReduceScatterBlock)),
            ..BASE
        },
        Operation {
            name: "scan",
            sizes: VECTOR,
            shape: shapes::scan,
            reference: "βm + γm(P−1)/P + q(L+o)",
            how: Reduce(Op::Scan, typed!(calls::Scan)),
            ..BASE
        },
        Operation {
            name: "exscan",
            sizes: VECTOR,
            shape: shapes::exscan,
            reference: "βm + γm(P−2)/P + q(L+o)",
            how: Reduce(Op::Exscan, typed!(calls::Exscan)),
            ..BASE
        },
        Operation {
            name: "barrier",
            sizes: "none",
            sized: false,
            in_place: InPlace::Never,
            shape: shapes::barrier,
            reference: "q(L+o)",
            how: Move(Op::Barrier, bytes::<calls::Barrier>),
            ..BASE
        },
        Operation {
            name: "inter_allgather",
            sizes: "between two groups (settings s1 to s4): the longest contribution, in 4-byte units",
            dists: Dists::Between { irregular: false },
            in_place: InPlace::Never,
            shape: groups::allgather,
            reference: "β(sum of a group's contributions, the larger) + ⌈log2(larger group + 1)⌉(L+o)",
            how: Move(Op::InterAllgather, bytes::<groups::Allgather>),
            ..BASE
        },
        Operation {
            name: "inter_allgatherv",
            sizes: "between two groups (settings s5 to s8): the longest contribution, in 4-byte units",
            dists: Dists::Between { irregular: true },
            in_place: InPlace::Never,
            shape: groups::allgatherv,
            reference: "β(sum of a group's contributions, the larger) + ⌈log2(larger group + 1)⌉(L+o)",
            how: Move(Op::InterAllgatherv, bytes::<groups::Allgatherv>),
            ..BASE
        },
        Operation {
            name: "inter_bcast",
            sizes: "from the root to the other of two halves: the vector, exactly",
            in_place: InPlace::Never,
            shape: groups::bcast,
            reference: "βm + ⌈log2(larger group + 1)⌉(L+o)",
            how: Move(Op::InterBcast, bytes::<groups::Bcast>),
            ..BASE
        },
        Operation {
            name: "inter_barrier",
            sizes: "none; of two halves",
            sized: false,
            in_place: InPlace::Never,
            shape: groups::barrier,
            reference: "⌈log2(larger group + 1)⌉(L+o)",
            how: Move(Op::InterBarrier, bytes::<groups::Barrier>),
            ..BASE
        },
        Operation {
            name: "put",
            sizes: "one put; the time is half a round trip between ranks 0 and 1, the raw wire",
            in_place: InPlace::Never,
            shape: shapes::puts::<1>,
            reference: "βm + L+o",
            how: Put(1),
            ..BASE
        },
        Operation {
            name: "pingpong",
            sizes: "one put; the time is a whole round trip between ranks 0 and 1",
            in_place: InPlace::Never,
            shape: shapes::puts::<2>,
            reference: "2(βm + L+o)",
            how: Put(2),
            ..BASE
        },
        Operation {
            name: "rate",
            sizes: "one put; the time is that of a window of 64 from each rank i below P/2 to rank i + P/2, until a short \
                    put answers that all have arrived, as in osu_mbw_mr: their number over the median is the message rate",
            in_place: InPlace::Never,
            shape: shapes::window,
            reference: "64βm + 2(L+o)",
            how: Rate,
            ..BASE
        },
    ]
};

impl Operation {
    /// By its name here or in the registry, words joined by `_` or `-`.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        let name = name.replace('-', "_");
        let registered = |o: &&Self| o.registered().is_some_and(|op| op.name() == name);
        OPERATIONS.iter().find(|o| o.name == name).or_else(|| OPERATIONS.iter().find(registered))
    }

    /// Whether it is between two groups, which two ranks are needed for.
    pub(crate) fn between(&self) -> bool {
        self.registered().is_some_and(registry::Operation::is_between_groups)
    }

    /// As the library's registry knows it; the raw wire is not in it.
    pub(crate) fn registered(&self) -> Option<registry::Operation> {
        match self.how {
            How::Move(op, _) | How::Reduce(op, _) => Some(op),
            How::Put(_) | How::Rate => None,
        }
    }

    /// Whether it takes an operator.
    pub(crate) fn reduces(&self) -> bool {
        matches!(self.how, How::Reduce(..))
    }

    /// What a rank sends and receives on elements of this many bytes, if it reduces.
    pub(crate) fn rank_call(&self, call: RankCall) -> RankCall {
        RankCall { element: if self.reduces() { call.element } else { 1 }, ..call }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dist::Dist;
    use super::super::shapes::Outcome;
    use super::*;

    fn shape(op: &str, p: usize, rank: usize, bytes: u64, dist: Option<&str>) -> Shape {
        let dist = dist.and_then(Dist::find);
        let call = RankCall { p, rank, root: 1, bytes, dist, setting: None, in_place: false, element: 8 };
        let op = Operation::find(op).unwrap();
        (op.shape)(&op.rank_call(call))
    }

    #[test]
    fn sizes_mean_what_the_rivals_mean() {
        let s = shape("bcast", 4, 2, 1001, None);
        assert_eq!((s.send, s.recv, s.root, s.own, s.volume, s.rounds), (None, Some(1001), 1, None, 1001, 2));
        assert_eq!(shape("bcast", 4, 1, 1001, None).own, Some(0));
        // 250 ints among 4: 62 each.
        let s = shape("allgather", 4, 2, 1000, None);
        assert_eq!((s.send, s.recv, s.volume), (Some(248), Some(992), 744));
        // Less than an int for each: one each.
        assert_eq!(shape("allgather", 4, 0, 8, None).recv, Some(16));
        assert_eq!(shape("allgather", 4, 0, 0, None).recv, Some(0));
        assert_eq!(shape("allgather", 4, 0, 1003, None).send, Some(250));
        let s = shape("allgatherv", 3, 2, 400, Some("irr3"));
        assert_eq!(s.received.parts(), (&[0, 132, 268][..], &[0, 0, 132][..]));
        assert_eq!((s.send, s.volume), (Some(268), 400));
        assert_eq!(shape("barrier", 9, 0, 0, None).rounds, 4);
        // 125 elements of 8 bytes among 4: 31 each; of less than an element there is one.
        // 32 ranks as 25 and 7; the 7 have the i-th share of 100 ints.
        let setting = crate::settings::Setting::find("s8");
        let call = RankCall {
            p: 32,
            rank: 3,
            root: 0,
            bytes: 400,
            dist: None,
            setting,
            in_place: false,
            element: 1,
        };
        let s = groups::allgatherv(&call);
        assert_eq!((s.first, s.send, &s.received.counts[..2]), (25, Some(64), &[56, 112][..]));
        let s = shape("reduce_scatter_block", 4, 3, 1000, None);
        assert_eq!((s.send, s.recv, s.volume), (Some(124), Some(31), 3 * 31 * 8));
        assert_eq!(shape("allreduce", 4, 3, 1, None).recv, Some(1));
        assert_eq!(shape("reduce_scatter", 4, 3, 1000, None).recv, Some(32));
    }

    /// Every rank and operation, also in place: pieces cover the buffer once, and come out of contributions.
    #[test]
    fn the_pieces_cover_the_result() {
        for op in OPERATIONS.iter().filter(|o| o.registered().is_some()) {
            for (dist, in_place) in
                [(None, false), (Dist::find("geometric"), false), (Dist::find("half"), true)]
            {
                let setting = crate::settings::Setting::find("s8");
                let at = |rank| {
                    let (p, root, bytes, element) = (7, 1, 10_001, 4);
                    (op.shape)(&op.rank_call(RankCall {
                        p,
                        rank,
                        root,
                        bytes,
                        dist,
                        setting,
                        in_place,
                        element,
                    }))
                };
                let given: Vec<usize> = (0..7).map(|r| at(r).given).collect();
                for s in (0..7).map(at) {
                    match &s.result {
                        Outcome::Pieces(pieces) => {
                            let mut end = 0;
                            for piece in pieces {
                                assert_eq!(piece.start, end);
                                end += piece.len;
                                assert!(piece.from + piece.len <= given[piece.owner], "{}: {s:?}", op.name);
                            }
                            // No rank of the root's group gets anything in a broadcast to the other.
                            let idle = op.name == "inter_bcast" && pieces.is_empty();
                            assert!(idle || end == s.recv.unwrap_or(0), "{}", op.name);
                        }
                        Outcome::Fold { from, len, .. } => {
                            assert!(from + len <= s.given && *len <= s.recv.unwrap(), "{}", op.name);
                        }
                    }
                    let own = s.own.map_or(0, |own| own + s.given);
                    assert!(own <= s.recv.unwrap_or(0), "{}: {s:?}", op.name);
                }
            }
        }
    }

    #[test]
    fn every_operation_of_the_library_is_there() {
        for op in registry::Operation::ALL {
            let found = Operation::find(op.name()).unwrap_or_else(|| panic!("{op}"));
            assert_eq!((found.registered(), found.reduces()), (Some(op), op.reduces()));
        }
        assert_eq!(Operation::find("reduce-scatter-block").map(|o| o.name), Some("reduce_scatter_block"));
    }
}
