"""The arguments of each operation, as the extension module takes them: what the three forms of a call have in common."""

from __future__ import annotations

import itertools
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _circulant
from ._buffers import IN_PLACE, Side, laid_out, reads, whole, writes
from ._kinds import Kind, of_format
from ._ops import Op

if TYPE_CHECKING:
    from ._comm import Comm


class Call(NamedTuple):
    """What `_circulant.Comm.run`, `begin` and `prepare` take."""

    operation: str
    sides: tuple[Side | None, Side | None] = (None, None)
    op: _circulant.Reducer | None = None
    root: int = 0


def bcast(comm: Comm, buf: Any, root: int) -> Call:
    return Call("bcast", (None, whole(buf, True)[0]), None, root)


def bcast_once(comm: Comm, buf: Any, root: int) -> Call:
    """As `bcast`; of the root memory that is read-only, such as bytes, a copy is sent."""
    if comm.rank == root:
        memory, range_, _ = reads(buf).side()
        if memory.readonly:
            return Call("bcast", (None, (bytearray(memory.tobytes("A")), range_, None)), None, root)
    return bcast(comm, buf, root)


def _sent(spec: Any) -> Side | None:
    return None if spec is IN_PLACE else whole(spec, False)[0]


def allgather(comm: Comm, sendbuf: Any, recvbuf: Any) -> Call:
    return Call("allgather", (_sent(sendbuf), whole(recvbuf, True)[0]))


def allgatherv(comm: Comm, sendbuf: Any, recvbuf: Any) -> Call:
    return Call("allgatherv", (_sent(sendbuf), writes(recvbuf).listed(comm.size)))


def gather(comm: Comm, sendbuf: Any, recvbuf: Any, root: int) -> Call:
    received = whole(recvbuf, True)[0] if comm.rank == root else None
    return Call("gather", (_sent(sendbuf), received), None, root)


def gatherv(comm: Comm, sendbuf: Any, recvbuf: Any, root: int) -> Call:
    received = writes(recvbuf).listed(comm.size) if comm.rank == root else None
    return Call("gatherv", (_sent(sendbuf), received), None, root)


def _received(spec: Any) -> Side | None:
    return None if spec is IN_PLACE else whole(spec, True)[0]


def scatter(comm: Comm, sendbuf: Any, recvbuf: Any, root: int) -> Call:
    sent = whole(sendbuf, False)[0] if comm.rank == root else None
    return Call("scatter", (sent, _received(recvbuf)), None, root)


def scatterv(comm: Comm, sendbuf: Any, recvbuf: Any, root: int) -> Call:
    sent = reads(sendbuf).listed(comm.size) if comm.rank == root else None
    return Call("scatterv", (sent, _received(recvbuf)), None, root)


def alltoall(comm: Comm, sendbuf: Any, recvbuf: Any) -> Call:
    return Call("alltoall", (_sent(sendbuf), whole(recvbuf, True)[0]))


def alltoallv(comm: Comm, sendbuf: Any, recvbuf: Any) -> Call:
    received = writes(recvbuf).listed(comm.size)
    if sendbuf is IN_PLACE:
        raise ValueError("Alltoallv is not there in place: Alltoall is")
    return Call("alltoallv", (reads(sendbuf).listed(comm.size), received))


def alltoallw(comm: Comm, sendbuf: Any, recvbuf: Any) -> Call:
    sent = None if sendbuf is IN_PLACE else laid_out(sendbuf, comm.size, written=False)
    return Call("alltoallw", (sent, laid_out(recvbuf, comm.size, written=True)))


def _reduction(operation: str, sendbuf: Any, recvbuf: Any, op: Op, root: int = 0) -> Call:
    """`recvbuf` None: nothing is received here."""
    sent: Side | None = None
    received: Side | None = None
    given: Kind | None = None
    got: Kind | None = None
    if sendbuf is not IN_PLACE:
        sent, given = whole(sendbuf, False)
    if recvbuf is not None:
        received, got = whole(recvbuf, True)
    if given and got and given is not got and given != got:
        raise TypeError(f"elements of {given} are sent, of {got} received")
    made = _operator(op)._on(given or got or of_format(None, 1))
    for side, kind in ((sent, given), (received, got)):
        # The next call on such memory finds it there (`run_plain`), unless its type was named.
        if side and of_format(side[0].format, side[0].itemsize) is kind:
            op.meet(side[0].format or "B", side[0].itemsize, made)
    return Call(operation, (sent, received), made, root)


def _operator(op: Op) -> Op:
    if not isinstance(op, Op):
        raise TypeError("on buffers an operator is SUM, MAX, … or made by Op.Create; the lower-case calls take any function")
    return op


def reduce(comm: Comm, sendbuf: Any, recvbuf: Any, op: Op, root: int) -> Call:
    return _reduction("reduce", sendbuf, recvbuf if comm.rank == root else None, op, root)


def allreduce(comm: Comm, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
    return _reduction("allreduce", sendbuf, writes_to(recvbuf), op)


def reduce_scatter_block(comm: Comm, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
    return _reduction("reduce_scatter_block", sendbuf, writes_to(recvbuf), op)


def scan(comm: Comm, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
    return _reduction("scan", sendbuf, writes_to(recvbuf), op)


def exscan(comm: Comm, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
    return _reduction("exscan", sendbuf, writes_to(recvbuf), op)


def reduce_scatter(comm: Comm, sendbuf: Any, recvbuf: Any, recvcounts: Any, op: Op) -> Call:
    """Without counts each rank tells its own, by an allgather."""
    received = writes(recvbuf)
    if recvcounts is None:
        if sendbuf is IN_PLACE:
            raise ValueError("in place the buffer does not tell the counts: pass recvcounts")
        mine, all_ = array("q", [received.count]), array("q", bytes(8 * comm.size))
        comm.Allgather(mine, all_)
        recvcounts = list(all_)
    call = _reduction("reduce_scatter", sendbuf, recvbuf, op)
    lengths = [int(count) * received.kind.size for count in recvcounts]
    starts = [0, *itertools.accumulate(lengths)][: len(lengths)]
    memory, range_, _ = received.side()
    return call._replace(sides=(call.sides[0], (memory, range_, (lengths, starts))))


def writes_to(recvbuf: Any) -> Any:
    """Refuses to receive nothing, and in place where only what is sent can be."""
    if recvbuf is None or recvbuf is IN_PLACE:
        raise TypeError("the result needs a buffer at every rank")
    return recvbuf
