"""The world of the tests, which all of them share, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import circulant
import numpy as np

# It stops what hangs; how long a call takes is judged nowhere.
WORLD = circulant.init(deadline=120)
COMM = WORLD.comm
RANK, SIZE = COMM.rank, COMM.size

INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
FLOATS = ["f2", "f4", "f8"]
COMPLEX = ["c8", "c16"]
COUNTS = [0, 1, 7, 3000]


def data(rank: int, count: int, dtype: Any = "f8") -> np.ndarray:
    """What a rank contributes: small numbers, so that sums and products of a few ranks are exact in every type."""
    return ((np.arange(count) * 7 + 5 * rank) % 3 + rank % 2).astype(dtype)


def blocking(name: str, *arguments: Any) -> None:
    getattr(COMM, name)(*arguments)


def non_blocking(name: str, *arguments: Any) -> None:
    request = getattr(COMM, "I" + name.lower())(*arguments)
    while not request.test():
        pass
    request.wait()


def persistent(name: str, *arguments: Any) -> None:
    operation = getattr(COMM, name + "_init")(*arguments)
    operation.Start()
    operation.Wait()
    operation.Free()


FORMS: list[Callable[..., None]] = [blocking, non_blocking, persistent]


def forms(test: Any) -> Iterator[Callable[..., None]]:
    """The three forms of a call, each as a case of the test."""
    for form in FORMS:
        with test.subTest(form=form.__name__):
            yield form
