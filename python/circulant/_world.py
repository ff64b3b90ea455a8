"""The world: all ranks of the job."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from . import _circulant
from ._comm import Comm


class World:
    """All ranks of the job, connected. As a context manager it is finalized at the end of its block, or left after an exception, which
    the other ranks see as an error."""

    __slots__ = ("_private", "_world", "comm")

    comm: Comm
    """The communicator of all ranks."""

    def __init__(self, world: _circulant.World) -> None:
        self._world = world
        self._private: Any = None
        self.comm = Comm(world.comm())

    @property
    def rank(self) -> int:
        """Our rank."""
        return self.comm.rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.comm.size

    @property
    def provider(self) -> str:
        """The wire in use."""
        return self._world.provider

    @property
    def launcher(self) -> str:
        """How the ranks were started."""
        return self._world.launcher

    @property
    def nodes(self) -> list[int]:
        """The node of each rank."""
        return self._world.nodes

    def stats(self) -> dict[str, int]:
        """What this process has done so far: puts, bytes copied, …"""
        return dict(self._world.stats())

    def while_waiting(self, function: Callable[[], object]) -> None:
        """Calls `function` again and again while a call of this world waits, by the thread that waits: what moves another library on. In place of
        one that was set before. What it raises comes out of the call, and ends the world, as what the handler of a signal raises."""
        if not callable(function):
            raise TypeError(f"{type(function).__name__} is no function")
        self._world.while_waiting(function)

    def finalize(self) -> None:
        """Waits until all ranks came here, and closes. No thread may begin a call after this."""
        self._world.finalize()
        if self._private is not None:
            self._private.Free()
            self._private = None

    def abort(self, code: int = 1, message: str = "") -> None:
        """Asks the launcher to end the whole job."""
        self._world.abort(code, message)

    def __enter__(self) -> World:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finalize()
        else:
            self._world.leave()


def _text(value: Any) -> str:
    """A setting as its variable has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _named(settings: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", "-"), _text(value)) for name, value in settings.items()]


def init(comm: Any = None, *, signals: bool = True, **settings: Any) -> World:
    """Connects the ranks of the job that started this process: under `circulant run`, `mpiexec`, `srun`, …; alone it is a job of one rank.

    `settings` are those of the library by their names, with `_` for `-`: `init(provider="tcp", deadline=20)` is
    CIRCULANT_PROVIDER=tcp, CIRCULANT_DEADLINE=20. With a communicator of mpi4py as `comm` its ranks are the job, whatever started
    them.

    Handlers of signals run while a call waits in the main thread, and what one raises ends the call: Ctrl-C is a KeyboardInterrupt. The world
    is broken then, at all ranks, and what the call was to receive is unspecified. With `signals=False` handlers run when the call returns,
    and a call that waits long sleeps longer. Collective.
    """
    if comm is None:
        return World(_circulant.World(_named(settings), None, signals))
    private = comm.Dup()
    rank, size = private.Get_rank(), private.Get_size()
    world = init_by(rank, size, private.allgather, signals=signals, **settings)
    world._private = private
    return world


def init_by(
    rank: int, size: int, allgather: Callable[[bytes], list[bytes]], *, signals: bool = True, **settings: Any
) -> World:
    """As `init`, for ranks that something else has started: `allgather` gives all ranks a list of what each passes, in the order of
    ranks. It is called while the world begins and ends, by this thread and, at the end, by another one. Collective."""
    return World(_circulant.World(_named(settings), (rank, size, allgather), signals))
