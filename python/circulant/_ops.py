"""Operators: those of the library by name, on buffers and on objects, and operators of the program."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from . import _circulant
from ._kinds import Kind, reducer


class Op(_circulant.Met):
    """An operator for reductions.

    The built-in ones (`SUM`, `MAX`, …) work on buffers, and on objects as Python's own operators do: `SUM(a, b)` is `a + b`.
    """

    __slots__ = ("_commutative", "_function", "_made", "_name", "_of_objects")

    def __init__(self, name: str, of_objects: Callable[[Any, Any], Any] | None = None) -> None:
        self._name = name
        self._of_objects = of_objects
        self._function: Callable[[memoryview, memoryview, str], None] | None = None
        self._commutative = True
        self._made: dict[Kind, _circulant.Reducer] = {}

    @classmethod
    def Create(cls, function: Callable[[memoryview, memoryview, str], None], commute: bool = False) -> Op:
        """An operator on buffers that a function computes: `function(left, right, type)` is given whole elements as memory and leaves
        left ⊕ right in `right`; `type` is their name, or empty. The name of the function must be the same at all ranks.

        It must be associative; if it does not commute it is used in the order of ranks. It works on copies of a part of the elements, as
        often as the algorithm has parts, under the interpreter's lock: for large arrays take a built-in operator. It cannot call
        into the world that it works for. What it raises is an error of the call.
        """
        op = cls(getattr(function, "__qualname__", "user"))
        op._function, op._commutative = function, commute
        return op

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def is_commutative(self) -> bool:
        """Whether the order of operands is free."""
        return self._commutative

    def __call__(self, left: Any, right: Any) -> Any:
        """left ⊕ right, of objects."""
        if self._of_objects is None:
            raise TypeError(f"the operator {self._name} is for buffers; on objects take a function of two objects")
        return self._of_objects(left, right)

    def __repr__(self) -> str:
        return f"circulant.Op({self._name!r})"

    def _on(self, kind: Kind) -> _circulant.Reducer:
        """It on elements of this type."""
        made = self._made.get(kind)
        if made is None:
            made = self._made[kind] = self._make(kind)
        return made

    def _make(self, kind: Kind) -> _circulant.Reducer:
        function = self._function
        if function is None:
            return reducer(kind, self._name)

        def combine(left: bytes, right: bytearray) -> None:
            # Released, so that the bytearray can be given back.
            with memoryview(left) as a, memoryview(right) as b:
                function(a, b, kind.name or "")

        align = kind.size & -kind.size
        return _circulant.Reducer.user(self._name, kind.size, align, self._commutative, combine)


def _min(a: Any, b: Any) -> Any:
    return b if b < a else a


def _max(a: Any, b: Any) -> Any:
    return b if b > a else a


def _minloc(a: Any, b: Any) -> Any:
    return min(a, b, key=lambda pair: (pair[0], pair[1]))


def _maxloc(a: Any, b: Any) -> Any:
    if a[0] == b[0]:
        return a if a[1] <= b[1] else b
    return a if a[0] > b[0] else b


SUM = Op("sum", operator.add)
PROD = Op("prod", operator.mul)
MIN = Op("min", _min)
MAX = Op("max", _max)
LAND = Op("land", lambda a, b: bool(a) and bool(b))
LOR = Op("lor", lambda a, b: bool(a) or bool(b))
LXOR = Op("lxor", lambda a, b: bool(a) != bool(b))
BAND = Op("band", operator.and_)
BOR = Op("bor", operator.or_)
BXOR = Op("bxor", operator.xor)
MINLOC = Op("minloc", _minloc)
MAXLOC = Op("maxloc", _maxloc)
