"""Types of elements: what the format of a buffer, or a name, says of them."""

from __future__ import annotations

import functools
import struct
import sys
from typing import NamedTuple

from . import _circulant


class Kind(NamedTuple):
    """A type of elements: bytes of one, and the name by which operators know it (None: it can be moved, not reduced)."""

    size: int
    name: str | None

    def __str__(self) -> str:
        return self.name or f"{self.size} bytes of no type of ours"


def _letters(bits: str, sizes: tuple[int, ...]) -> dict[int, str]:
    return {size: f"{bits}{8 * size}" for size in sizes}


_SIGNED = _letters("i", (1, 2, 4, 8))
_UNSIGNED = _letters("u", (1, 2, 4, 8))
_FLOAT = _letters("f", (2, 4, 8))
_COMPLEX = {8: "complex-f32", 16: "complex-f64"}

# By letter of the module `struct`, and numpy's `Z`: the size says the rest, as that of `l` differs between platforms.
_CLASSES = (
    {letter: _SIGNED for letter in "bhilqn"}
    | {letter: _UNSIGNED for letter in "BHILQNc"}
    | {letter: _FLOAT for letter in "efd"}
    | {"Zf": _COMPLEX, "Zd": _COMPLEX, "F": _COMPLEX, "D": _COMPLEX, "?": {1: "bool"}}
)

# Pairs of a value and an index, by the letters' types and the size of both with padding: what MINLOC and MAXLOC take.
_PAIRS: dict[tuple[str | None, str | None, int], str] = {
    ("i16", "i32", 8): "short-int",
    ("i32", "i32", 8): "2int",
    ("i64", "i32", 16): "long-int",
    ("f32", "i32", 8): "float-int",
    ("f64", "i32", 16): "double-int",
    ("f32", "f32", 8): "2real",
    ("f64", "f64", 16): "2double",
    ("i32", "u32", 8): "i32-index",
    ("u32", "u32", 8): "u32-index",
    ("f32", "u32", 8): "f32-index",
    ("i64", "u64", 16): "i64-index",
    ("u64", "u64", 16): "u64-index",
    ("f64", "u64", 16): "f64-index",
    # Not negative, so that it may be taken as unsigned.
    ("i64", "i64", 16): "i64-index",
    ("u64", "i64", 16): "u64-index",
    ("f64", "i64", 16): "f64-index",
}

# Names of types that no format of a buffer has: `[memory, "bf16"]`.
_NAMED = {"bf16": Kind(2, "bf16"), "bool": Kind(1, "bool")} | {
    name: Kind(size, name) for of in (_SIGNED, _UNSIGNED, _FLOAT, _COMPLEX) for size, name in of.items()
}

# What bool, a byte of 0 or 1, keeps so.
_OF_BOOL = frozenset({"land", "lor", "lxor", "band", "bor", "bxor", "min", "max"})

_SWAPPED = ">!" if sys.byteorder == "little" else "<"


def _simple(letters: str, size: int) -> str | None:
    return _CLASSES.get(letters, {}).get(size)


def _pair(format: str, size: int) -> str | None:
    """The name of a struct of two fields, as `T{d:value:i:index:xxxx}`."""
    mode, kinds = "@", []
    for field in format[2:-1].split(":")[::2]:
        letters = field.lstrip("x0123456789@=<^")
        if any(c in _SWAPPED for c in letters):
            return None
        mode = next((c.replace("^", "@") for c in reversed(field[: len(field) - len(letters)]) if c in "@=<^"), mode)
        if letters:
            kinds.append(_simple(letters, struct.calcsize(mode + letters)) if len(letters) == 1 else None)
    return _PAIRS.get((kinds[0], kinds[1], size)) if len(kinds) == 2 else None


@functools.lru_cache(maxsize=None)
def of_format(format: str | None, size: int) -> Kind:
    """The type of elements of `size` bytes, in the words of the buffer protocol."""
    format = format or "B"
    if format[0] in _SWAPPED:
        return Kind(size, None)
    if format.startswith("T{"):
        return Kind(size, _pair(format, size))
    return Kind(size, _simple(format.lstrip("@=<"), size))


@functools.lru_cache(maxsize=None)
def of_name(name: str) -> Kind:
    """The type of this name ("f64", "bf16", "bool"), or of this letter of the module `struct` ("d")."""
    if name in _NAMED:
        return _NAMED[name]
    try:
        return of_format(name, struct.calcsize(name))
    except struct.error:
        raise ValueError(f"there is no type {name!r}: a letter of the module struct, or one of {', '.join(_NAMED)}") from None


def reducer(kind: Kind, op: str) -> _circulant.Reducer:
    """The built-in operator on elements of this type."""
    if kind.name is None:
        raise TypeError(f"{op} is not defined on elements of {kind.size} bytes of this type")
    if kind.name == "bool":
        if op not in _OF_BOOL:
            raise TypeError(f"{op} is not defined on bool; it has {', '.join(sorted(_OF_BOOL))}")
        return _circulant.Reducer("u8", op)
    try:
        return _circulant.Reducer(kind.name, op)
    except ValueError as e:
        raise TypeError(str(e)) from None
