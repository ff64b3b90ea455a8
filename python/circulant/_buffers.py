"""What stands for a buffer in a call, by the rules of mpi4py, and what the extension module gets of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from . import _circulant, _dlpack
from ._kinds import Kind, of_format, of_name


IN_PLACE: Final = _circulant.InPlace()
"""Instead of a buffer: what is sent stands where the result comes (of a scatter at its root: what is received stays where it is)."""

Lists = tuple[list[int], list[int]]
# Of each rank: offset, length, number and distance in bytes.
Pieces = list[list[tuple[int, int, int, int]]]
Side = tuple[Any, tuple[int, int], Lists | Pieces | None]


class Buffer:
    """A buffer of a call: memory, the type of its elements, and how many of them take part."""

    __slots__ = ("_counts", "_displs", "count", "kind", "memory")

    def __init__(self, spec: Any, written: bool) -> None:
        self._counts: Sequence[int] | None = None
        self._displs: Sequence[int] | None = None
        if isinstance(spec, (list, tuple)) and spec:
            self.memory, self.kind = _memory(spec[0], written)
            self._divide(spec[1:])
        else:
            self.memory, self.kind = _memory(spec, written)
            self.count = self.memory.nbytes // self.kind.size

    def _divide(self, options: Sequence[Any]) -> None:
        """By what stands behind the memory."""
        if options and (isinstance(options[-1], str) or hasattr(options[-1], "char")):
            self.kind = _named(options[-1])
            options = options[:-1]
        self.count, rest = divmod(self.memory.nbytes, self.kind.size)
        if rest:
            raise ValueError(f"{self.memory.nbytes} bytes are no whole number of elements of {self.kind.size}")
        if len(options) == 1 and isinstance(options[0], tuple) and len(options[0]) == 2 and _is_lists(options[0]):
            options = options[0]
        if len(options) > 2:
            raise ValueError("a buffer is [memory, counts, displacements, type] or less")
        if options and options[0] is not None:
            if isinstance(options[0], Sequence) or hasattr(options[0], "__len__"):
                self._counts = [int(n) for n in options[0]]
            else:
                self._take(int(options[0]))
        if len(options) == 2 and options[1] is not None:
            if self._counts is None:
                raise ValueError("displacements without counts")
            self._displs = [int(n) for n in options[1]]

    def _take(self, count: int) -> None:
        if not 0 <= count <= self.count:
            raise ValueError(f"{count} elements of a buffer that has {self.count}")
        self.count = count

    @property
    def counts(self) -> Sequence[int] | None:
        """Elements of each rank, where the call says so."""
        return self._counts

    def side(self) -> Side:
        """For a call without lists."""
        if self._counts is not None:
            raise ValueError("counts of each rank where the call takes none")
        return self.memory, (0, self.count * self.kind.size), None

    def listed(self, size: int) -> Side:
        """For a call with counts and displacements of `size` ranks (or neighbours); without counts all have as many."""
        counts = self._counts
        if counts is None:
            each, rest = divmod(self.count, size) if size else (0, self.count)
            if rest:
                raise ValueError(f"{self.count} elements cannot be shared equally by {size} ranks: pass counts")
            counts = [each] * size
        displs = self._displs if self._displs is not None else [0, *itertools.accumulate(counts)][: len(counts)]
        if len(counts) != size or len(displs) != size:
            raise ValueError(f"{len(counts)} counts and {len(displs)} displacements for {size} ranks")
        if any(n < 0 for n in counts) or any(d < 0 for n, d in zip(counts, displs) if n):
            raise ValueError("a count or displacement is negative")
        item = self.kind.size
        lists = [n * item for n in counts], [max(d, 0) * item for d in displs]
        return self.memory, (0, self.memory.nbytes), lists


def laid_out(spec: Any, size: int, *, written: bool) -> Side:
    """For a call with a layout for each of `size` ranks: `[memory, layouts]`, with a type behind it if wanted."""
    if not isinstance(spec, (list, tuple)) or not 2 <= len(spec) <= 3:
        raise TypeError("a buffer with layouts is [memory, layouts] or [memory, layouts, type]")
    buffer = Buffer([spec[0], *spec[2:]], written)
    layouts = list(spec[1])
    if len(layouts) != size:
        raise ValueError(f"{len(layouts)} layouts for {size} ranks")
    pieces = [_pieces(layout, buffer.count, buffer.kind.size) for layout in layouts]
    return buffer.memory, (0, buffer.memory.nbytes), pieces


def _pieces(layout: Any, room: int, item: int) -> list[tuple[int, int, int, int]]:
    """What a layout has, in bytes: of None nothing, of a slice its elements, of (offset, count) so many, of a list what its parts have."""
    if layout is None:
        return []
    if isinstance(layout, slice):
        places = range(*layout.indices(room))
        if places.step < 0:
            raise ValueError("a slice goes forwards")
        if places.step == 1:
            return [(places.start * item, len(places) * item, 1, 0)]
        return [(places.start * item, item, len(places), places.step * item)]
    if isinstance(layout, tuple):
        offset, count = (int(n) for n in layout)
        if offset < 0 or count < 0 or offset + count > room:
            raise ValueError(f"{count} elements at {offset} of a buffer of {room}")
        return [(offset * item, count * item, 1, 0)]
    return [piece for part in layout for piece in _pieces(part, room, item)]


def _is_lists(pair: tuple[Any, Any]) -> bool:
    """Whether it is (counts, displacements), not two counts of a job of two ranks."""
    return any(part is None or hasattr(part, "__len__") for part in pair)


def _named(kind: Any) -> Kind:
    """A type by name, or a numpy dtype."""
    if isinstance(kind, str):
        return of_name(kind)
    return of_format(getattr(kind, "char", None), kind.itemsize)


def _memory(memory: Any, written: bool) -> tuple[memoryview, Kind]:
    """Its memory, and the type of its elements."""
    kind = None
    try:
        view = memoryview(memory)
    except TypeError:
        if not hasattr(memory, "__dlpack__"):
            raise TypeError(
                f"{type(memory).__name__} is no buffer: pass what has the buffer protocol (numpy arrays, bytearray, "
                "array.array, memoryview) or DLPack on the CPU, or [memory, counts]; objects go by the lower-case calls"
            ) from None
        view, kind = _dlpack.view(memory)
    if not view.contiguous:
        raise ValueError("the buffer is not contiguous; numpy.ascontiguousarray(…) makes a copy that is")
    if written and view.readonly:
        raise ValueError(f"the result would come to memory that is read-only ({type(memory).__name__})")
    return view, kind or of_format(view.format, view.itemsize)


def whole(spec: Any, written: bool) -> tuple[Side, Kind]:
    """A buffer for a call without lists, and the type of its elements: mostly memory alone, which needs no `Buffer`."""
    if isinstance(spec, (list, tuple)):
        buffer = Buffer(spec, written)
        return buffer.side(), buffer.kind
    memory, kind = _memory(spec, written)
    return (memory, (0, memory.nbytes), None), kind


def reads(spec: Any) -> Buffer:
    """A buffer that is sent."""
    return Buffer(spec, False)


def writes(spec: Any) -> Buffer:
    """A buffer that is received into."""
    return Buffer(spec, True)
