"""Each reduction, operator and type, in each form, beside what numpy says."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable
from typing import Any

import circulant
import numpy as np
from circulant import IN_PLACE, Op
from job import COMM, COMPLEX, COUNTS, FLOATS, INTEGERS, RANK, SIZE, data, forms

Reference = Callable[[Any, Any], Any]

ARITHMETIC: dict[Op, Reference] = {circulant.SUM: np.add, circulant.PROD: np.multiply}
ORDER: dict[Op, Reference] = {circulant.MIN: np.minimum, circulant.MAX: np.maximum}
BITS: dict[Op, Reference] = {
    circulant.LAND: np.logical_and,
    circulant.LOR: np.logical_or,
    circulant.LXOR: np.logical_xor,
    circulant.BAND: np.bitwise_and,
    circulant.BOR: np.bitwise_or,
    circulant.BXOR: np.bitwise_xor,
}


def cases() -> list[tuple[str, Op, Reference]]:
    """Every type with every operator that it has."""
    groups = [(INTEGERS, ARITHMETIC | ORDER | BITS), (FLOATS, ARITHMETIC | ORDER), (COMPLEX, ARITHMETIC), (["?"], BITS | ORDER)]
    return [(dtype, op, by) for dtypes, ops in groups for dtype in dtypes for op, by in ops.items()]


def combined(by: Reference, parts: list[np.ndarray]) -> np.ndarray:
    """The parts in the order of ranks."""
    return functools.reduce(lambda a, b: by(a, b).astype(a.dtype), parts)


class Reductions(unittest.TestCase):
    def test_every_operator_on_every_type(self) -> None:
        for dtype, op, by in cases():
            with self.subTest(dtype=dtype, op=op.name):
                total = np.zeros(9, dtype)
                COMM.Allreduce(data(RANK, 9, dtype), total, op)
                np.testing.assert_array_equal(total, combined(by, [data(r, 9, dtype) for r in range(SIZE)]))

    def test_all_forms(self) -> None:
        for form in forms(self):
            for count in COUNTS:
                all_ = [data(r, count) for r in range(SIZE)]
                total = sum(all_)
                out = np.full(count, -1.0)
                form("Allreduce", all_[RANK], out)
                np.testing.assert_array_equal(out, total)
                out = all_[RANK].copy()
                form("Allreduce", IN_PLACE, out)
                np.testing.assert_array_equal(out, total)
                for root in range(SIZE):
                    out = np.full(count, -1.0)
                    form("Reduce", all_[RANK], out if RANK == root else None, circulant.SUM, root)
                    np.testing.assert_array_equal(out, total if RANK == root else -1.0)
                    out = all_[RANK].copy()
                    sides = (IN_PLACE, out) if RANK == root else (out, None)
                    form("Reduce", *sides, circulant.SUM, root)
                    np.testing.assert_array_equal(out, total if RANK == root else all_[RANK])
                out = np.full(count, -1.0)
                form("Scan", all_[RANK], out)
                np.testing.assert_array_equal(out, sum(all_[: RANK + 1]))
                out = all_[RANK].copy()
                form("Scan", IN_PLACE, out)
                np.testing.assert_array_equal(out, sum(all_[: RANK + 1]))
                out = np.full(count, -1.0)
                form("Exscan", all_[RANK], out)
                np.testing.assert_array_equal(out, sum(all_[:RANK]) if RANK else -1.0)

    def test_reduce_scatter(self) -> None:
        for form in forms(self):
            for count in COUNTS:
                total = sum(data(r, SIZE * count) for r in range(SIZE))
                mine = slice(RANK * count, (RANK + 1) * count)
                out = np.full(count, -1.0)
                form("Reduce_scatter_block", data(RANK, SIZE * count), out)
                np.testing.assert_array_equal(out, total[mine])
                both = data(RANK, SIZE * count)
                form("Reduce_scatter_block", IN_PLACE, both)
                np.testing.assert_array_equal(both[:count], total[mine])
                counts = [count + r % 3 for r in range(SIZE)]
                start = sum(counts[:RANK])
                total = sum(data(r, sum(counts)) for r in range(SIZE))[start : start + counts[RANK]]
                for told in (counts, None):
                    out = np.full(counts[RANK], -1.0)
                    form("Reduce_scatter", data(RANK, sum(counts)), out, told)
                    np.testing.assert_array_equal(out, total)
                both = data(RANK, sum(counts))
                form("Reduce_scatter", IN_PLACE, both, counts)
                np.testing.assert_array_equal(both[: counts[RANK]], total)

    def test_where_the_extremes_are(self) -> None:
        for fields in ([("v", "f8"), ("i", "i4")], [("v", "f4"), ("i", "i4")], [("v", "i8"), ("i", "i4")],
                       [("v", "i4"), ("i", "i4")], [("v", "i2"), ("i", "i4")], [("v", "f8"), ("i", "u8")], [("v", "f8"), ("i", "i8")]):
            pairs = np.zeros(3, np.dtype(fields, align=True))
            # An index of 32 bits may be negative: then the last rank has the lowest.
            sign = -1 if pairs.dtype["i"] == np.dtype("i4") else 1
            first = SIZE - 1 if sign < 0 else 0
            odd, even = [r for r in range(SIZE) if r % 2], [r for r in range(SIZE) if r % 2 == 0]
            pairs["v"], pairs["i"] = [-RANK, 5, RANK % 2], sign * RANK
            low, high = np.zeros_like(pairs), np.zeros_like(pairs)
            COMM.Allreduce(pairs, low, circulant.MINLOC)
            COMM.Allreduce(pairs, high, circulant.MAXLOC)
            with self.subTest(fields=fields):
                self.assertEqual(low["v"].tolist(), [1 - SIZE, 5, 0])
                lowest = [SIZE - 1, first, even[-1] if sign < 0 else 0]
                self.assertEqual(low["i"].tolist(), [sign * r for r in lowest])
                self.assertEqual(high["v"].tolist(), [0, 5, min(SIZE - 1, 1)])
                ones = odd or even
                lowest = [0, first, ones[-1] if sign < 0 else ones[0]]
                self.assertEqual(high["i"].tolist(), [sign * r for r in lowest])

    def test_misaligned_elements(self) -> None:
        mine = np.frombuffer(bytearray(1 + 8 * 100), "u1")[1:].view("f8")
        total = np.frombuffer(bytearray(3 + 8 * 100), "u1")[3:].view("f8")
        mine[:] = RANK + 1
        COMM.Allreduce(mine, total)
        np.testing.assert_array_equal(total, SIZE * (SIZE + 1) / 2)

    def test_a_type_by_name(self) -> None:
        # bf16 is the upper half of a float.
        ones, total = np.full(4, 0x3F80, "u2"), np.zeros(4, "u2")
        COMM.Allreduce([ones, "bf16"], [total, "bf16"])
        np.testing.assert_array_equal((total.astype("u4") << 16).view("f4"), SIZE)

    def test_an_operator_of_the_program(self) -> None:
        def compose(left: memoryview, right: memoryview, kind: str) -> None:
            """(a, b) then (c, d) is x -> c (a x + b) + d: not commutative."""
            assert kind == "2double", kind
            a, b = (np.frombuffer(side, "f8").reshape(-1, 2) for side in (left, right))
            b[:] = np.stack([b[:, 0] * a[:, 0], b[:, 0] * a[:, 1] + b[:, 1]], axis=1)

        op = Op.Create(compose)
        self.assertFalse(op.is_commutative)
        maps = np.array([(1.0 + r % 2, r) for r in range(SIZE)])
        for count in (1, 500):
            pair = np.dtype([("a", "f8"), ("b", "f8")])
            mine = np.tile(maps[RANK], count).view(pair)
            out = np.zeros(count, pair)
            COMM.Allreduce(mine, out, op)
            a, b = 1.0, 0.0
            for c, d in maps:
                a, b = c * a, c * b + d
            np.testing.assert_array_equal(out["a"], a)
            np.testing.assert_array_equal(out["b"], b)

    def test_what_is_refused_before_anything_is_sent(self) -> None:
        f8, i8 = np.zeros(4), np.zeros(4, "i8")
        for kind, words, call in (
            (TypeError, "not defined", lambda: COMM.Allreduce(f8, f8.copy(), circulant.BAND)),
            (TypeError, "not defined", lambda: COMM.Allreduce(np.zeros(2, ">f8"), np.zeros(2, ">f8"))),
            (TypeError, "not defined on bool", lambda: COMM.Allreduce(np.zeros(2, "?"), np.zeros(2, "?"))),
            (TypeError, "received", lambda: COMM.Allreduce(f8, i8)),
            (TypeError, "every rank", lambda: COMM.Allreduce(f8, None)),
            (TypeError, "no buffer", lambda: COMM.Allreduce(3.0, f8)),
            (TypeError, "lower-case", lambda: COMM.Allreduce(f8, f8.copy(), min)),
            (ValueError, "not contiguous", lambda: COMM.Allgather(np.zeros((4, 4))[:, 0], np.zeros(4 * SIZE))),
            (ValueError, "read-only", lambda: COMM.Allgather(f8, bytes(32 * SIZE))),
            (ValueError, "overlap", lambda: COMM.Allreduce(f8, f8)),
            (ValueError, "overlap", lambda: COMM.Allreduce([f8, 3], f8[2:])),
            (ValueError, "5 elements", lambda: COMM.Allgather([f8, 5], np.zeros(5 * SIZE))),
            (ValueError, "counts", lambda: COMM.Allgatherv(f8, [np.zeros(4 * SIZE), [4] * (SIZE + 1)])),
        ):
            with self.subTest(words=words), self.assertRaisesRegex(kind, words):
                call()
        # The world goes on.
        COMM.Barrier()
