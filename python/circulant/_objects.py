"""The calls on objects: pickled, and moved by those on buffers, their lengths first.

Unpickling runs code: it is for ranks of one job, as in mpi4py.
"""

from __future__ import annotations

import functools
import pickle
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._comm import Comm


def _pickled(obj: Any) -> bytes:
    return pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)


def _lengths(n: int) -> array[int]:
    return array("q", bytes(8 * n))


def _split(data: bytearray, lengths: Sequence[int]) -> list[Any]:
    """The objects of pickles of these lengths, one behind the other."""
    objects, end, view = [], 0, memoryview(data)
    for length in lengths:
        objects.append(pickle.loads(view[end : end + length]))
        end += length
    return objects


def bcast(comm: Comm, obj: Any, root: int) -> Any:
    data = bytearray(_pickled(obj)) if comm.rank == root else bytearray()
    length = array("q", [len(data)])
    comm.Bcast(length, root)
    if comm.rank != root:
        data = bytearray(length[0])
    comm.Bcast(data, root)
    return obj if comm.rank == root else pickle.loads(data)


def gather(comm: Comm, obj: Any, root: int) -> list[Any] | None:
    data, at_root = _pickled(obj), comm.rank == root
    lengths = _lengths(comm.size if at_root else 0)
    comm.Gather(array("q", [len(data)]), lengths, root)
    if not at_root:
        comm.Gatherv(data, None, root)
        return None
    all_ = bytearray(sum(lengths))
    comm.Gatherv(data, [all_, lengths], root)
    return _split(all_, lengths)


def allgather(comm: Comm, obj: Any) -> list[Any]:
    data, lengths = _pickled(obj), _lengths(comm.size)
    comm.Allgather(array("q", [len(data)]), lengths)
    all_ = bytearray(sum(lengths))
    comm.Allgatherv(data, [all_, lengths])
    return _split(all_, lengths)


def _one_each(comm: Comm, objects: Sequence[Any] | None) -> list[bytes]:
    if objects is None or len(objects) != comm.size:
        found = "none" if objects is None else len(objects)
        raise ValueError(f"one object for each of {comm.size} ranks is wanted, there are {found}")
    return [_pickled(obj) for obj in objects]


def scatter(comm: Comm, objects: Sequence[Any] | None, root: int) -> Any:
    length = _lengths(1)
    if comm.rank == root:
        parts = _one_each(comm, objects)
        lengths = array("q", map(len, parts))
        comm.Scatter(lengths, length, root)
        data = bytearray(length[0])
        comm.Scatterv([b"".join(parts), lengths], data, root)
    else:
        comm.Scatter(None, length, root)
        data = bytearray(length[0])
        comm.Scatterv(None, data, root)
    return pickle.loads(data)


def alltoall(comm: Comm, objects: Sequence[Any]) -> list[Any]:
    parts = _one_each(comm, objects)
    sent, received = array("q", map(len, parts)), _lengths(comm.size)
    comm.Alltoall(sent, received)
    data = bytearray(sum(received))
    comm.Alltoallv([b"".join(parts), sent], [data, received])
    return _split(data, received)


def reduce(comm: Comm, obj: Any, op: Callable[[Any, Any], Any], root: int) -> Any:
    objects = gather(comm, obj, root)
    return None if objects is None else functools.reduce(op, objects)


def allreduce(comm: Comm, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
    return functools.reduce(op, allgather(comm, obj))


def scan(comm: Comm, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
    return functools.reduce(op, allgather(comm, obj)[: comm.rank + 1])


def exscan(comm: Comm, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
    before = allgather(comm, obj)[: comm.rank]
    return functools.reduce(op, before) if before else None
