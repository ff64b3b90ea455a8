"""Neighbourhoods, with the names of mpi4py."""

from __future__ import annotations

from typing import Any

from . import _circulant
from ._buffers import Side, reads, writes
from ._request import Prequest, Request

_Sides = tuple[Side | None, Side | None]


class Neighborhood:
    """What a rank exchanges with its neighbours, from `Comm.Create_dist_graph_adjacent` or `Comm.Create_cart`. Its calls are calls of the
    communicator that it was made of: all ranks make them, in the same order among their other calls. Buffers are those of `Comm`, with
    a part, a count or a displacement for each neighbour; what is beyond the border of a grid keeps its place, which is not touched."""

    __slots__ = ("_on", "destinations", "sources")

    sources: list[int | None]
    """The ranks that this one receives from, in the order of the parts; None beyond a border."""
    destinations: list[int | None]
    """The ranks that this one sends to, in the order of the parts; None beyond a border."""

    def __init__(self, on: _circulant.Neighborhood) -> None:
        self._on = on
        self.sources, self.destinations = on.sources, on.destinations

    def __repr__(self) -> str:
        return f"<circulant.Neighborhood: from {self.sources}, to {self.destinations}>"

    def _all(self, sendbuf: Any, recvbuf: Any) -> _Sides:
        return reads(sendbuf).side(), writes(recvbuf).side()

    def _gathered(self, sendbuf: Any, recvbuf: Any) -> _Sides:
        return reads(sendbuf).side(), writes(recvbuf).listed(len(self.sources))

    def _parts(self, sendbuf: Any, recvbuf: Any) -> _Sides:
        return reads(sendbuf).listed(len(self.destinations)), writes(recvbuf).listed(len(self.sources))

    def Neighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """All of `sendbuf` to each destination; an equal part of `recvbuf` from each source."""
        self._on.run("neighbor_allgather", self._all(sendbuf, recvbuf))

    def Ineighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """`Neighbor_allgather` that returns at once."""
        return Request(self._on.begin("neighbor_allgather", self._all(sendbuf, recvbuf)))

    def Neighbor_allgather_init(self, sendbuf: Any, recvbuf: Any) -> Prequest:
        """`Neighbor_allgather` to be started often. Collective."""
        return Prequest(self._on.prepare("neighbor_allgather", self._all(sendbuf, recvbuf)))

    def Neighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As `Neighbor_allgather`, of counts that differ: `recvbuf` is `[memory, counts]` or `[memory, (counts, displacements)]`."""
        self._on.run("neighbor_allgatherv", self._gathered(sendbuf, recvbuf))

    def Ineighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """`Neighbor_allgatherv` that returns at once."""
        return Request(self._on.begin("neighbor_allgatherv", self._gathered(sendbuf, recvbuf)))

    def Neighbor_allgatherv_init(self, sendbuf: Any, recvbuf: Any) -> Prequest:
        """`Neighbor_allgatherv` to be started often. Collective."""
        return Prequest(self._on.prepare("neighbor_allgatherv", self._gathered(sendbuf, recvbuf)))

    def Neighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """An equal part of `sendbuf` to each destination; one of `recvbuf` from each source."""
        self._on.run("neighbor_alltoall", self._all(sendbuf, recvbuf))

    def Ineighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """`Neighbor_alltoall` that returns at once."""
        return Request(self._on.begin("neighbor_alltoall", self._all(sendbuf, recvbuf)))

    def Neighbor_alltoall_init(self, sendbuf: Any, recvbuf: Any) -> Prequest:
        """`Neighbor_alltoall` to be started often. Collective."""
        return Prequest(self._on.prepare("neighbor_alltoall", self._all(sendbuf, recvbuf)))

    def Neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As `Neighbor_alltoall`, of counts that differ, both buffers as in `Neighbor_allgatherv`."""
        self._on.run("neighbor_alltoallv", self._parts(sendbuf, recvbuf))

    def Ineighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """`Neighbor_alltoallv` that returns at once."""
        return Request(self._on.begin("neighbor_alltoallv", self._parts(sendbuf, recvbuf)))

    def Neighbor_alltoallv_init(self, sendbuf: Any, recvbuf: Any) -> Prequest:
        """`Neighbor_alltoallv` to be started often. Collective."""
        return Prequest(self._on.prepare("neighbor_alltoallv", self._parts(sendbuf, recvbuf)))
