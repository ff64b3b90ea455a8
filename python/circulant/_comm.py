"""Communicators, with the names of mpi4py."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from . import _calls, _circulant, _objects
from ._calls import Call
from ._neighbors import Neighborhood
from ._ops import SUM, Op
from ._request import Prequest, Request

UNDEFINED = -32766
"""As a colour of `Comm.Split`: in none of the new communicators."""


class Comm:
    """A group of ranks that call collectives together, in the same order at all of them.

    Upper-case calls move buffers, lower-case ones any object that can be pickled. A buffer is what has the buffer protocol (numpy
    arrays, `memoryview`, `bytearray`, `array.array`; `bytes` where it is only read), a CPU tensor with DLPack, or a list
    `[memory, count]`, `[memory, counts]`, `[memory, (counts, displacements)]`, each with a type behind it if wanted (`"f64"`, `"d"`,
    a numpy dtype). Counts are in elements. Memory must be contiguous; nothing is copied.

    Each operation has three forms: `Bcast` returns when it has finished here; `Ibcast` at once, with a request; `Bcast_init` plans it, to
    be started often.
    """

    __slots__ = ("_comm", "rank", "size")

    rank: int
    """Our rank."""
    size: int
    """The number of ranks."""

    def __init__(self, comm: _circulant.Comm) -> None:
        self._comm = comm
        self.rank, self.size = comm.rank, comm.size

    def __repr__(self) -> str:
        return f"<circulant.Comm: rank {self.rank} of {self.size}>"

    def Get_rank(self) -> int:
        """Our rank."""
        return self.rank

    def Get_size(self) -> int:
        """The number of ranks."""
        return self.size

    def Dup(self) -> Comm:
        """The same ranks, whose calls never mix with this one's. Collective."""
        return Comm(self._comm.dup())

    def Revoke(self) -> None:
        """Ends all calls on this communicator, at all its ranks, but `Agree` and `Shrink`. Not collective. Only where the world goes on after
        failures (`on_failure="continue"`)."""
        self._comm.revoke()

    def Is_revoked(self) -> bool:
        """Whether this rank knows that the communicator is revoked."""
        return self._comm.is_revoked()

    def Get_failed(self) -> list[int]:
        """The ranks of this communicator that this rank knows to be gone, in order."""
        return self._comm.gone()

    def Agree(self, flag: int = 1) -> int:
        """The bits that are set at all ranks that live. Collective among these, also on a communicator that is revoked or has lost ranks."""
        return self._comm.agree(flag)

    def Shrink(self) -> Comm:
        """The ranks that live, in their order here. Collective as `Agree`."""
        return Comm(self._comm.shrink())

    def Split(self, color: int | None = 0, key: int = 0) -> Comm | None:
        """The ranks that name the same colour, ordered by key; with `None` or UNDEFINED as colour, none. Collective."""
        made = self._comm.split(None if color == UNDEFINED else color, key)
        return None if made is None else Comm(made)

    def Split_by_node(self) -> Comm:
        """The ranks of this rank's node. Collective."""
        return Comm(self._comm.split_by_node())

    def Create_group(self, ranks: Sequence[int], allgather: Callable[[bytes], list[bytes]]) -> Comm:
        """These ranks, in this order, made by them alone: the others need not call. `allgather` gives all of them, in this order, a list of what
        each passes (16 bytes), by any means; it is called once."""
        return Comm(self._comm.assemble(list(ranks), allgather))

    def Create_dist_graph_adjacent(self, sources: Sequence[int], destinations: Sequence[int]) -> Neighborhood:
        """The neighbours of a graph of which each rank names the ranks that it receives from, and those that it sends to. Collective."""
        return Neighborhood(self._comm.dist_graph(list(sources), list(destinations)))

    def Create_cart(self, dims: Sequence[int], periods: Sequence[bool] | None = None) -> Neighborhood:
        """The neighbours in a grid of all ranks, row-major: for each dimension the one in negative, then the one in positive direction,
        None beyond a border; dimensions with a true period are rings."""
        rings = [False] * len(dims) if periods is None else [bool(ring) for ring in periods]
        return Neighborhood(self._comm.cartesian(list(dims), rings))

    def options(
        self,
        *,
        deadline: float | None = None,
        blocks: int | None = None,
        algorithm: str | None = None,
        reproducible: bool = False,
    ) -> Comm:
        """The same communicator for calls with other options, equal at all ranks: a deadline in seconds, the number of blocks per
        message, an algorithm by its name, reductions that give the same bits whatever the algorithm."""
        options = self._comm.options
        return Comm(options(deadline=deadline, blocks=blocks, algorithm=algorithm, reproducible=reproducible))

    def alloc(self, n: int, dtype: Any = "B") -> Any:
        """`n` zeroed elements of registered memory, which calls move without registering or copying anything. Not collective.

        With a letter of the module `struct` as type ("d", "f", "q", …) a `memoryview`, which `numpy.asarray` makes an array of;
        with a numpy type (`numpy.complex128`, a dtype) a numpy array.
        """
        if isinstance(dtype, str) and len(dtype) == 1:
            memory: Any = memoryview(self._comm.alloc(n * struct.calcsize(dtype)))
            return memory.cast(dtype)
        import numpy

        kind = numpy.dtype(dtype)
        memory = self._comm.alloc(n * kind.itemsize)
        return numpy.frombuffer(memory, dtype=kind) if n else numpy.empty(0, kind)

    def _run(self, call: Call) -> None:
        self._comm.run(*call)

    def _begin(self, call: Call) -> Request:
        return Request(self._comm.begin(*call))

    def _prepare(self, call: Call) -> Prequest:
        return Prequest(self._comm.prepare(*call))

    def Barrier(self) -> None:
        """Waits until all ranks have called it."""
        self._run(Call("barrier"))

    def Ibarrier(self) -> Request:
        """`Barrier` that returns at once."""
        return self._begin(Call("barrier"))

    def Barrier_init(self) -> Prequest:
        """`Barrier` to be started often. Collective."""
        return self._prepare(Call("barrier"))

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """The buffer of `root` to all."""
        if not self._comm.run_plain("bcast", None, buf, None, root):
            self._run(_calls.bcast_once(self, buf, root))

    def Ibcast(self, buf: Any, root: int = 0) -> Request:
        """`Bcast` that returns at once."""
        return self._begin(_calls.bcast_once(self, buf, root))

    def Bcast_init(self, buf: Any, root: int = 0) -> Prequest:
        """`Bcast` to be started often. Collective."""
        return self._prepare(_calls.bcast(self, buf, root))

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """What each rank sends, in the order of ranks, to all."""
        if not self._comm.run_plain("allgather", sendbuf, recvbuf):
            self._run(_calls.allgather(self, sendbuf, recvbuf))

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """`Allgather` that returns at once."""
        return self._begin(_calls.allgather(self, sendbuf, recvbuf))

    def Allgather_init(self, sendbuf: Any, recvbuf: Any) -> Prequest:
        """`Allgather` to be started often. Collective."""
        return self._prepare(_calls.allgather(self, sendbuf, recvbuf))

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As `Allgather`, of counts that differ: `recvbuf` is [memory, counts] or [memory, (counts, displacements)]."""
        self._run(_calls.allgatherv(self, sendbuf, recvbuf))

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """`Allgatherv` that returns at once."""
        return self._begin(_calls.allgatherv(self, sendbuf, recvbuf))

    def Allgatherv_init(self, sendbuf: Any, recvbuf: Any) -> Prequest:
        """`Allgatherv` to be started often. Collective."""
        return self._prepare(_calls.allgatherv(self, sendbuf, recvbuf))

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """What each rank sends, in the order of ranks, to `root`; `recvbuf` matters there only."""
        if not self._comm.run_plain("gather", sendbuf, recvbuf, None, root):
            self._run(_calls.gather(self, sendbuf, recvbuf, root))

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """`Gather` that returns at once."""
        return self._begin(_calls.gather(self, sendbuf, recvbuf, root))

    def Gather_init(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Prequest:
        """`Gather` to be started often. Collective."""
        return self._prepare(_calls.gather(self, sendbuf, recvbuf, root))

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """As `Gather`, of counts that differ, which only `root` passes."""
        self._run(_calls.gatherv(self, sendbuf, recvbuf, root))

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """`Gatherv` that returns at once."""
        return self._begin(_calls.gatherv(self, sendbuf, recvbuf, root))

    def Gatherv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Prequest:
        """`Gatherv` to be started often. Collective."""
        return self._prepare(_calls.gatherv(self, sendbuf, recvbuf, root))

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """A part of the buffer of `root` to each rank; `sendbuf` matters there only."""
        if not self._comm.run_plain("scatter", sendbuf, recvbuf, None, root):
            self._run(_calls.scatter(self, sendbuf, recvbuf, root))

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """`Scatter` that returns at once."""
        return self._begin(_calls.scatter(self, sendbuf, recvbuf, root))

    def Scatter_init(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Prequest:
        """`Scatter` to be started often. Collective."""
        return self._prepare(_calls.scatter(self, sendbuf, recvbuf, root))

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """As `Scatter`, of counts that differ, which only `root` passes."""
        self._run(_calls.scatterv(self, sendbuf, recvbuf, root))

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """`Scatterv` that returns at once."""
        return self._begin(_calls.scatterv(self, sendbuf, recvbuf, root))

    def Scatterv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Prequest:
        """`Scatterv` to be started often. Collective."""
        return self._prepare(_calls.scatterv(self, sendbuf, recvbuf, root))

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """A part from each rank to each."""
        if not self._comm.run_plain("alltoall", sendbuf, recvbuf):
            self._run(_calls.alltoall(self, sendbuf, recvbuf))

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """`Alltoall` that returns at once."""
        return self._begin(_calls.alltoall(self, sendbuf, recvbuf))

    def Alltoall_init(self, sendbuf: Any, recvbuf: Any) -> Prequest:
        """`Alltoall` to be started often. Collective."""
        return self._prepare(_calls.alltoall(self, sendbuf, recvbuf))

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As `Alltoall`, of counts that differ, with both buffers as in `Allgatherv`."""
        self._run(_calls.alltoallv(self, sendbuf, recvbuf))

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """`Alltoallv` that returns at once."""
        return self._begin(_calls.alltoallv(self, sendbuf, recvbuf))

    def Alltoallv_init(self, sendbuf: Any, recvbuf: Any) -> Prequest:
        """`Alltoallv` to be started often. Collective."""
        return self._prepare(_calls.alltoallv(self, sendbuf, recvbuf))

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """As `Alltoallv`, of elements that need not lie together: each buffer is `[memory, layouts]` with a layout for each rank: a slice
        (`slice(j, None, columns)` is a column), `(offset, count)` in elements, a list of these, or None."""
        self._run(_calls.alltoallw(self, sendbuf, recvbuf))

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """`Alltoallw` that returns at once."""
        return self._begin(_calls.alltoallw(self, sendbuf, recvbuf))

    def Alltoallw_init(self, sendbuf: Any, recvbuf: Any) -> Prequest:
        """`Alltoallw` to be started often. Collective."""
        return self._prepare(_calls.alltoallw(self, sendbuf, recvbuf))

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """What all ranks send, combined element by element, to `root`; `recvbuf` matters there only."""
        if not self._comm.run_plain("reduce", sendbuf, recvbuf, op, root):
            self._run(_calls.reduce(self, sendbuf, recvbuf, op, root))

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request:
        """`Reduce` that returns at once."""
        return self._begin(_calls.reduce(self, sendbuf, recvbuf, op, root))

    def Reduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Prequest:
        """`Reduce` to be started often. Collective."""
        return self._prepare(_calls.reduce(self, sendbuf, recvbuf, op, root))

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """What all ranks send, combined element by element, to all."""
        if not self._comm.run_plain("allreduce", sendbuf, recvbuf, op):
            self._run(_calls.allreduce(self, sendbuf, recvbuf, op))

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """`Allreduce` that returns at once."""
        return self._begin(_calls.allreduce(self, sendbuf, recvbuf, op))

    def Allreduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Prequest:
        """`Allreduce` to be started often. Collective."""
        return self._prepare(_calls.allreduce(self, sendbuf, recvbuf, op))

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """What all ranks send, combined, an equal part to each."""
        if not self._comm.run_plain("reduce_scatter_block", sendbuf, recvbuf, op):
            self._run(_calls.reduce_scatter_block(self, sendbuf, recvbuf, op))

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """`Reduce_scatter_block` that returns at once."""
        return self._begin(_calls.reduce_scatter_block(self, sendbuf, recvbuf, op))

    def Reduce_scatter_block_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Prequest:
        """`Reduce_scatter_block` to be started often. Collective."""
        return self._prepare(_calls.reduce_scatter_block(self, sendbuf, recvbuf, op))

    def Reduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> None:
        """As `Reduce_scatter_block`, where rank r gets `recvcounts[r]` elements; without counts each part is as long as the rank's `recvbuf`."""
        self._run(_calls.reduce_scatter(self, sendbuf, recvbuf, recvcounts, op))

    def Ireduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> Request:
        """`Reduce_scatter` that returns at once."""
        return self._begin(_calls.reduce_scatter(self, sendbuf, recvbuf, recvcounts, op))

    def Reduce_scatter_init(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> Prequest:
        """`Reduce_scatter` to be started often. Collective."""
        return self._prepare(_calls.reduce_scatter(self, sendbuf, recvbuf, recvcounts, op))

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """What the ranks up to this one send, combined."""
        if not self._comm.run_plain("scan", sendbuf, recvbuf, op):
            self._run(_calls.scan(self, sendbuf, recvbuf, op))

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """`Scan` that returns at once."""
        return self._begin(_calls.scan(self, sendbuf, recvbuf, op))

    def Scan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Prequest:
        """`Scan` to be started often. Collective."""
        return self._prepare(_calls.scan(self, sendbuf, recvbuf, op))

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """What the ranks before this one send, combined; at rank 0 `recvbuf` is left as it is."""
        if not self._comm.run_plain("exscan", sendbuf, recvbuf, op):
            self._run(_calls.exscan(self, sendbuf, recvbuf, op))

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """`Exscan` that returns at once."""
        return self._begin(_calls.exscan(self, sendbuf, recvbuf, op))

    def Exscan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Prequest:
        """`Exscan` to be started often. Collective."""
        return self._prepare(_calls.exscan(self, sendbuf, recvbuf, op))

    # Of objects.

    def barrier(self) -> None:
        """As `Barrier`."""
        self.Barrier()

    def bcast(self, obj: Any = None, root: int = 0) -> Any:
        """The object of `root`, at all ranks."""
        return _objects.bcast(self, obj, root)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """A list of what each rank passes, at `root`; None elsewhere."""
        return _objects.gather(self, sendobj, root)

    def allgather(self, sendobj: Any) -> list[Any]:
        """A list of what each rank passes, at all ranks."""
        return _objects.allgather(self, sendobj)

    def scatter(self, sendobj: Sequence[Any] | None = None, root: int = 0) -> Any:
        """One object of the sequence of `root` to each rank."""
        return _objects.scatter(self, sendobj, root)

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """An object from each rank to each."""
        return _objects.alltoall(self, sendobj)

    def reduce(self, sendobj: Any, op: Callable[[Any, Any], Any] = SUM, root: int = 0) -> Any:
        """What all ranks pass, combined in their order, at `root`; None elsewhere. `op` is any function of two objects."""
        return _objects.reduce(self, sendobj, op, root)

    def allreduce(self, sendobj: Any, op: Callable[[Any, Any], Any] = SUM) -> Any:
        """As `reduce`, at all ranks: each combines the objects of all, so they are for small ones."""
        return _objects.allreduce(self, sendobj, op)

    def scan(self, sendobj: Any, op: Callable[[Any, Any], Any] = SUM) -> Any:
        """What the ranks up to this one pass, combined in their order."""
        return _objects.scan(self, sendobj, op)

    def exscan(self, sendobj: Any, op: Callable[[Any, Any], Any] = SUM) -> Any:
        """What the ranks before this one pass, combined in their order; None at rank 0."""
        return _objects.exscan(self, sendobj, op)
