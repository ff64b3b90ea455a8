"""Requests."""

from __future__ import annotations

from collections.abc import Sequence

from . import _circulant


class Request:
    """A call under way. It holds its buffers until it has finished: what is sent must not be changed before, what is received not be read.

    Data moves while any call of the world is made: one that waits, whatever for, or `test`; between calls only with the setting
    `progress="thread"`. A request that is given up is waited for when it is collected.
    """

    __slots__ = ("_request",)

    def __init__(self, request: _circulant.Request) -> None:
        self._request = request

    def wait(self) -> None:
        """Waits until it has finished here."""
        self._request.wait()

    def test(self) -> bool:
        """Whether it has finished here; moves on everything that is under way, once. (mpi4py's lower-case `test` returns a pair.)"""
        return self._request.test()

    def Wait(self) -> bool:
        """As `wait`; returns True, as mpi4py's."""
        self._request.wait()
        return True

    def Test(self) -> bool:
        """As `test`."""
        return self._request.test()

    @staticmethod
    def Waitall(requests: Sequence[Request]) -> bool:
        """Waits for all of them."""
        for request in requests:
            request._request.wait()
        return True

    @staticmethod
    def Waitany(requests: Sequence[Request]) -> int:
        """Waits until one of them has finished here, and returns its index: the first of several, so leave out those that were seen."""
        if not requests:
            raise ValueError("there is no request to wait for")
        return _circulant.wait_any([request._request for request in requests])

    @staticmethod
    def Testany(requests: Sequence[Request]) -> int | None:
        """The index of the first that has finished here, if one has."""
        return next((i for i, request in enumerate(requests) if request._request.test()), None)

    @staticmethod
    def Testall(requests: Sequence[Request]) -> bool:
        """Whether all have finished here."""
        return all([request._request.test() for request in requests])


class Prequest(Request):
    """A persistent operation: planned and introduced to the other ranks once, started often. It holds its buffers until `Free`."""

    __slots__ = ()

    def Start(self) -> None:
        """Starts it; it reads what its buffers have now. All ranks start it in the same order among their other calls."""
        self._request.start()

    def start(self) -> None:
        """As `Start`."""
        self._request.start()

    @staticmethod
    def Startall(requests: Sequence[Prequest]) -> None:
        """Starts all of them, in this order."""
        for request in requests:
            request._request.start()

    def Free(self) -> None:
        """Waits for it and gives its buffers back."""
        self._request.free()
